"""Right calls of every operator of torch.ops.rtopk, for attack.py to make and to spoil."""

import math
import random

import torch

SLOT_BYTES = 1 << 16
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
SELECTABLE = (*FLOATS, torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


class Maker:
    """Makes the arguments of one call."""

    def __init__(self, seed, device, slots):
        self.random = random.Random(seed)
        torch.default_generator.manual_seed(self.random.getrandbits(40))
        self.device = device
        self.slots = iter(slots)
        self.used = []

    def pick(self, values):
        return self.random.choice(values)

    def chance(self, share):
        return self.random.random() < share

    def size(self, most):
        return self.pick((0, 1, self.random.randint(1, most), self.random.randint(1, most)))

    def columns(self):
        return self.pick((1, 3, 8, 33, 40, 64, 256, 300, 1000))

    # ---- Tensors ----

    def memory(self, count, dtype):
        """A tensor with one dimension and memory of its own."""
        slot = None
        if self.device == "cpu" and 0 < count * dtype.itemsize <= SLOT_BYTES and self.chance(0.8):
            slot = next(self.slots, None)
        if slot is None:
            return torch.empty(count, dtype=dtype, device=self.device)
        self.used.append(slot)
        return slot.flat(count, dtype, at_end=self.chance(0.7))

    def tensor(self, shape, dtype, content=None):
        """As it lies in memory by itself, or with gaps, or transposed, or behind other elements."""
        shape = tuple(shape)
        if content is None:
            content = self.content(shape, dtype)
        strides, reach = [0] * len(shape), 1
        order = list(range(len(shape)))[::-1]
        if self.chance(0.15):
            self.random.shuffle(order)
        for dim in order:
            strides[dim] = reach
            reach *= max(shape[dim], 1)
            if self.chance(0.1):
                reach += self.random.randint(0, 3)
        offset = self.random.randint(1, 5) if self.chance(0.15) else 0
        count = offset + 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True) if size > 0)
        view = self.memory(0 if 0 in shape else count, dtype).as_strided(shape, strides, 0 if 0 in shape else offset)
        return view.copy_(content)

    def matrix(self, *shape):
        """float32 from the beginning of its memory on, and contiguous: some operators ask for that."""
        # Numbers of the CPU's generator, which the seed sets, on any device.
        return self.memory(math.prod(shape), torch.float32).view(shape).copy_(torch.randn(shape))

    def content(self, shape, dtype):
        if dtype.is_floating_point or dtype.is_complex:
            values = torch.randn(shape)
            if self.chance(0.2):
                values = (values * 2).round()
            if self.chance(0.1) and values.numel():
                values.view(-1)[self.random.randrange(values.numel())] = self.pick((float("nan"), float("inf"), -0.0))
            return values.to(dtype)
        return torch.randint(-3, 100, shape).to(dtype)

    def indices(self, shape, most, dtype):
        return self.tensor(shape, dtype, torch.randint(max(most, 1), tuple(shape)).to(dtype))

    def row_numbers(self, shape, most):
        """Numbers for rows, a little beyond what is in range, contiguous; or none."""
        if self.chance(0.4):
            return None
        dtype = self.pick((torch.int32, torch.int64))
        numbers = torch.randint(-2, most + 3, tuple(shape)).to(dtype)
        if self.chance(0.1):
            numbers = torch.full_like(numbers, self.pick((torch.iinfo(dtype).min, torch.iinfo(dtype).max)))
        return self.memory(math.prod(shape), dtype).view(tuple(shape)).copy_(numbers)

    def general_rows(self):
        """Rows that kernels read as they lie: contiguous, or columns of a wider matrix."""
        shape = [self.random.randint(0, 6), self.columns()]
        dtype = self.pick((*FLOATS, torch.int32))
        wider = self.pick((0, 0, 3))
        whole = self.memory(shape[0] * (shape[1] + wider), dtype).view(shape[0], shape[1] + wider)
        return whole[:, wider:].copy_(self.content(shape, dtype))

    # ---- Parts of calls ----

    def rows(self):
        shape = [self.size(6) for _ in range(self.random.randint(0, 3))]
        if shape:
            shape[-1] = self.pick((0, self.columns(), self.columns(), self.columns()))
        return self.tensor(shape, self.pick(SELECTABLE))

    def limits(self, input):
        """max_iter and epsilon."""
        if input.dtype == torch.int64 or self.chance(0.7):
            return [0, 0.0]
        return self.pick(([self.random.randint(1, 20), 0.0], [0, 0.05]))

    def flags(self, input):
        """The rule of max_iter, and the search."""
        return [self.chance(0.5), input.dtype != torch.int64 and self.chance(0.3)]

    def k(self, input, dim=-1):
        size = input.size(dim) if input.dim() else 1
        return self.pick((0, 1, self.random.randint(0, size), size)) if size else 0

    def compact_rows(self, rows, cols, dtype=torch.float32, fewest=0):
        k = self.random.randint(fewest, min(cols, 20))
        selector = torch.uint8 if cols <= 256 and self.chance(0.8) else torch.uint16
        return [self.tensor((rows, k), dtype), self.indices((rows, k), cols, selector)]

    def graph(self, rows, nodes, edges, index, weighted):
        starts = torch.cat(
            [torch.zeros(1), torch.randint(edges + 1, (max(rows - 1, 0),)).sort().values, torch.tensor([edges])]
        )
        starts = starts[: rows + 1] if rows else torch.zeros(1)
        weights = self.tensor((edges,), torch.float32) if weighted else None
        return [self.tensor((rows + 1,), index, starts.to(index)), self.indices((edges,), nodes, index), weights]


# ---- Calls ----


def topk(m):
    input = m.rows()
    dim = m.random.randrange(-input.dim(), input.dim()) if input.dim() else -1
    arguments = [input, m.k(input, dim), dim, m.chance(0.5), m.chance(0.5), *m.limits(input)]
    return [*arguments, m.pick((torch.int64, torch.int32)), *m.flags(input)]


def plain_topk(m):
    input = m.rows()
    return [input, m.k(input)]


def plain_topk_along(m):
    return topk(m)[:5]


def topk_out(m):
    *arguments, index, printed, bisection = topk(m)
    input, k, dim = arguments[:3]
    shape = list(input.shape)
    if shape:
        shape[dim] = k
    return [*arguments, m.tensor(shape, input.dtype), m.tensor(shape, index), printed, bisection]


def whole_rows(m):
    input, k, dim, largest, _, max_iter, epsilon, _, *flags = topk(m)
    return [input, k, dim, largest, max_iter, epsilon, *flags]


def compact(m):
    input = m.rows()
    return [input, m.k(input), m.chance(0.5), *m.limits(input), *m.flags(input)]


def topk_rows(m):
    input = m.general_rows()
    rows, cols = input.shape
    k = m.random.randint(1, cols)
    arrays = [m.row_numbers([rows], cols), m.row_numbers([rows], cols), m.row_numbers([rows], k)]
    ids = m.row_numbers([rows, cols], 1000)
    index = torch.int64 if ids is not None and ids.dtype == torch.int64 else m.pick((torch.int64, torch.int32))
    options = [m.chance(0.5), m.chance(0.5), m.chance(0.3), m.chance(0.3), *m.limits(input), index]
    return [input, k, -1, *arrays, ids, *options, *m.flags(input)]


def whole_general_rows(m):
    input, k, dim, lengths, starts, row_k, _, largest, _, magnitude, _, max_iter, epsilon, _, *flags = topk_rows(m)
    return [input, k, dim, lengths, starts, row_k, largest, magnitude, max_iter, epsilon, *flags]


def topk_segments(m):
    values = m.memory(m.size(300), m.pick((*FLOATS, torch.int32)))
    values.copy_(m.content(values.shape, values.dtype))
    rows, k = m.random.randint(0, 8), m.random.randint(0, 40)
    offsets = m.memory(rows + 1, m.pick((torch.int32, torch.int64)))
    offsets.copy_(torch.randint(-3, len(values) + 4, (rows + 1,)).sort().values)
    ids = m.row_numbers([len(values)], 1000)
    index = torch.int64 if ids is not None and ids.dtype == torch.int64 else m.pick((torch.int64, torch.int32))
    options = [m.chance(0.5), m.chance(0.5), m.chance(0.3), k > 0 and m.chance(0.3), index]
    return [values, offsets, k, m.row_numbers([rows], k), ids, m.size(300), *options]


def topk_places_out(m):
    input = m.general_rows()
    rows, cols = input.shape
    index, page_size = m.pick((torch.int32, torch.int64)), m.pick((0, 1, 4, 64))
    arrays = [m.row_numbers([rows], cols), m.row_numbers([rows], cols), m.row_numbers([rows], cols)]
    table_of = None
    if page_size:
        pages = m.random.randint(1, 9)
        map = m.memory((rows + 1) * pages, index).view(rows + 1, pages).copy_(m.content((rows + 1, pages), index))
        table_of = m.row_numbers([rows], rows)
    else:
        map = m.memory(rows, index).copy_(m.content((rows,), index))
    places = m.memory(rows * min(cols, 7), index).view(rows, min(cols, 7))
    return [input, *arrays, map, page_size, table_of, m.chance(0.5), m.chance(0.5), m.chance(0.5), places]


def aggregate(m):
    rows, nodes, edges, cols = m.size(9), m.random.randint(1, 9), m.size(200), m.columns()
    index, weighted = m.pick((torch.int32, torch.int64)), m.chance(0.5)
    graph = m.graph(rows, nodes, edges if rows else 0, index, weighted)
    features = m.compact_rows(nodes, cols, m.pick(FLOATS[:3]))
    return [*graph, *features, cols, m.chance(0.5), m.chance(0.5), None, None, None]


def aggregate_backward(m):
    rows, nodes, edges, cols = m.random.randint(1, 9), m.random.randint(1, 9), m.size(200), m.columns()
    index, weighted = m.pick((torch.int32, torch.int64)), m.chance(0.5)
    graph, transposed = m.graph(rows, nodes, edges, index, weighted), m.graph(nodes, rows, edges, index, weighted)
    grad = m.tensor((rows, cols), m.pick(FLOATS[:3]))
    return [*graph, *transposed, grad, m.compact_rows(nodes, cols)[1], m.chance(0.5), m.chance(0.5)]


def transpose_graph(m):
    rows, nodes, edges = m.size(9), m.size(9), m.size(200)
    return [*m.graph(rows, nodes, edges if rows else 0, m.pick((torch.int32, torch.int64)), m.chance(0.5)), nodes]


def own_edges(m):
    rows, nodes, edges = m.size(9), m.size(9), m.size(200)
    graph = m.graph(rows, nodes, edges if rows else 0, m.pick((torch.int32, torch.int64)), m.chance(0.5))
    edge = m.random.randint(0, 2)
    normalized = edge == 0 or (edge == 1 and m.chance(0.5))
    return [*graph, max(rows, nodes), edge, normalized, normalized and m.chance(0.5)]


def route(m):
    groups = m.pick((1, 1, 2, 4, 8))
    logits = m.tensor([m.size(6), groups * m.pick((1, 3, 8, 32))], m.pick(FLOATS[:3]))
    group_k = m.random.randint(1, groups)
    experts = logits.size(-1)
    k = m.random.randint(1, min(32, experts // groups * group_k))
    bias = m.tensor((experts,), torch.float32) if m.chance(0.5) else None
    return [logits, bias, k, m.random.randint(0, 2), groups, group_k, m.chance(0.5), m.pick((1.0, 2.5))]


def add_product(m):
    rows, cols, width = m.size(40), m.columns(), m.size(70)
    return [m.matrix(rows, width), *m.compact_rows(rows, cols), m.tensor((cols, width), torch.float32)]


def product_values_gradient(m):
    grad, _, selectors, matrix = add_product(m)
    return [grad, selectors, matrix]


def product_matrix_gradient(m):
    grad, values, selectors, matrix = add_product(m)
    return [grad, values, selectors, matrix.size(0)]


def linear(m):
    rows, inputs, outputs = m.size(70), 4 * m.random.randint(1, 40), 4 * m.random.randint(1, 40)
    return [m.matrix(rows, inputs), m.matrix(outputs, inputs), m.matrix(outputs) if m.chance(0.5) else None]


def linear_input_gradient(m):
    x, weight, _ = linear(m)
    return [m.matrix(len(x), len(weight)), weight]


def linear_weight_gradient(m):
    x, weight, _ = linear(m)
    return [m.matrix(len(x), len(weight)), x]


def norm(m):
    rows, cols = m.size(40), m.pick((1, 4, 30, 64, 256, 512, 1024))
    bias = m.matrix(cols) if m.chance(0.5) else None
    return [m.matrix(rows, cols), bias, m.matrix(cols), m.matrix(cols), 1e-5]


def norm_backward(m):
    x, bias, gamma, _, epsilon = norm(m)
    return [x, bias, gamma, epsilon, m.matrix(*x.shape)]


def norm_compact_backward(m):
    x, bias, gamma, _, epsilon = norm(m)
    return [x, bias, gamma, epsilon, *m.compact_rows(*x.shape, fewest=1)]


CALLS = {
    "topk": topk,
    "topk_out": topk_out,
    "_plain_topk": plain_topk,
    "_plain_topk_along": plain_topk_along,
    "maxk": whole_rows,
    "topk_mask": whole_rows,
    "compact": compact,
    "topk_rows": topk_rows,
    "topk_segments": topk_segments,
    "maxk_rows": whole_general_rows,
    "topk_mask_rows": whole_general_rows,
    "topk_places_out": topk_places_out,
    "aggregate": aggregate,
    "aggregate_backward": aggregate_backward,
    "transpose_graph": transpose_graph,
    "_own_edges": own_edges,
    "route": route,
    "_add_product": add_product,
    "_product_values_gradient": product_values_gradient,
    "_product_matrix_gradient": product_matrix_gradient,
    "_linear": linear,
    "_linear_input_gradient": linear_input_gradient,
    "_linear_weight_gradient": linear_weight_gradient,
    "_norm": norm,
    "_norm_backward": norm_backward,
    "_norm_compact_backward": norm_compact_backward,
}
NEVER_RECORDED = {"_plain_topk", "_plain_topk_along"}
TAKE_NO_TENSORS = {"build_text", "_route_topk", "_routed_calls"}


def runs_on(name, device):
    """Whether an operator has a kernel for a device that is here."""
    if name.startswith("_linear"):
        return device == "cuda" and torch.cuda.get_device_capability() == (9, 0)
    return device == "cuda" or not name.startswith("_norm")
