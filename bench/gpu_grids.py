"""What compare_gpu.py measures: the grids of cells, random problems, their data, and the target of each set."""

import json
import math
import random
import subprocess
from dataclasses import dataclass, replace
from types import SimpleNamespace

ELEMENT_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8, "i32": 4}
INDEX_BYTES = {"i32": 4, "i64": 8, "u8": 1, "u16": 2}
# A GPU reads memory in such pieces.
SECTOR_BYTES = 32
# Random problems with smaller matrices have no target: they do not fill a GPU.
FILLING_BYTES = 64 << 20
# Two medians of the same kernel differ by up to this share, which "never slower" therefore allows.
TIMING_NOISE = 0.02


@dataclass(frozen=True)
class Cell:
    """One selection. With a `baseline`, its time is compared with that selection's time instead of the floor."""

    set: str
    rows: int
    cols: int
    k: int
    dtype: str = "f32"
    order: str = "unsorted"
    form: str = "pairs"
    max_iter: int = 0
    data: str = "normal"
    epsilon: float = 0.0
    search: str = "fast"
    rule: str = "threshold_first"  # of max_iter
    direction: str = "largest"
    index_type: str = "i32"
    row_stride: int = 0  # elements; 0: no gaps between rows
    offset: int = 0  # elements from an aligned address to the first row
    baseline: "Cell | None" = None

    @property
    def name(self):
        options = [self.dtype]
        options += [f"max_iter={self.max_iter}"] if self.max_iter else []
        options += [self.rule] if self.max_iter and self.rule != "threshold_first" else []
        options += [f"epsilon={self.epsilon:g}"] if self.epsilon else []
        options += [self.search] if self.search != "fast" else []
        usual = ("unsorted", "pairs", "largest")
        options += [option for option in (self.order, self.form, self.direction) if option not in usual]
        options += [f"stride={self.row_stride}"] if self.row_stride else []
        options += [f"offset={self.offset}"] if self.offset else []
        options += [self.data] if self.data != "normal" else []
        return f"{self.rows}x{self.cols} k={self.k} {' '.join(options)}"

    @property
    def floor_bytes(self):
        """Bytes that have to be read and written."""
        elements = self.rows * self.cols
        size = ELEMENT_BYTES[self.dtype]
        written = {"dense": elements * size, "mask": elements}
        pairs = self.rows * self.k * (size + INDEX_BYTES[self.index_type])
        return self.input_bytes + written.get(self.form, pairs)

    @property
    def input_bytes(self):
        """Of the matrix; with gaps between rows, of the sectors that its rows touch."""
        size = ELEMENT_BYTES[self.dtype]
        if not self.row_stride:
            return self.rows * self.cols * size
        # The places of rows in their sectors repeat after so many rows.
        period = SECTOR_BYTES // math.gcd(SECTOR_BYTES, self.row_stride * size)
        touched = 0
        for row in range(period):
            begin = (self.offset + row * self.row_stride) * size
            before = begin - (self.row_stride - self.cols) * size - 1  # the last byte of the row before
            first, last = begin // SECTOR_BYTES, (begin + self.cols * size - 1) // SECTOR_BYTES
            touched += last - first + (before // SECTOR_BYTES < first)
        return touched * SECTOR_BYTES * self.rows // period

    @property
    def stops_early(self):
        return self.max_iter > 0 or self.epsilon > 0

    @property
    def has_torch_peer(self):
        return self.form == "pairs" and not self.stops_early

    def against(self, **changes):
        return replace(self, baseline=replace(self, **changes))


# ---- Grids and targets ----


def powers_of_two(first, last):
    return [1 << bit for bit in range(first.bit_length() - 1, last.bit_length())]


def paper_cells(dtype="f32", name="paper"):
    return [
        Cell(name, rows, cols, k, dtype)
        for rows in (1 << 16, 1 << 18, 1 << 20)
        for cols in (256, 512, 768)
        for k in (16, 32, 64, 96, 128)
    ]


def sweep_cells(dtype="f32", name="sweep"):
    return [
        Cell(name, 65536, cols, k, dtype) for cols in powers_of_two(128, 8192) for k in (64, 128, 256, 512) if k < cols
    ]


def small_cells(dtype="f32", name="small"):
    return [Cell(name, 1 << 20, cols, k, dtype) for cols in (32, 64, 128) for k in (2, 4, 8)]


def long_cells(dtype="f32", name="long"):
    return [
        Cell(name, (1 << 29) // cols, cols, k, dtype)
        for cols in powers_of_two(16384, 131072)
        for k in (64, 256, 1024, 2048)
    ]


def few_cells():
    return [Cell("few", 64, 131072, 64)] + [Cell("fewer", rows, 131072, 64) for rows in (1, 8, 16)]


def half_cells():
    def thinned(dtype):
        return (
            [c for c in paper_cells(dtype, dtype) if c.rows == 1 << 18 and c.k in (16, 64, 128)]
            + [c for c in sweep_cells(dtype, dtype) if c.cols in (128, 512, 2048, 8192) and c.k in (64, 256)]
            + [c for c in small_cells(dtype, dtype) if c.cols * c.k in (64, 256, 512, 1024)]
            + [c for c in long_cells(dtype, dtype) if c.cols in (16384, 131072) and c.k in (64, 1024)]
        )

    return thinned("f16") + thinned("bf16")


def sorted_cells():
    shapes = [(1 << 20, 64, 8, "f32"), (1 << 18, 256, 32, "bf16"), (4096, 131072, 64, "f32")]
    shapes += [
        (rows, cols, k, "f32") for rows, cols in ((1 << 18, 256), (65536, 1024), (65536, 4096)) for k in (16, 64, 128)
    ]
    return [Cell("sorted", *shape, order="by_value").against(order="unsorted") for shape in shapes]


def dense_cells():
    shapes = [(1 << 20, 64, 8, "f32"), (1 << 20, 128, 16, "f32"), (1 << 18, 256, 16, "f32"), (1 << 18, 256, 32, "f32")]
    shapes += [
        (1 << 18, 256, 128, "f32"),
        (1 << 18, 512, 64, "f32"),
        (65536, 1024, 64, "f32"),
        (65536, 4096, 64, "f32"),
    ]
    shapes += [(1 << 18, 256, 32, "f16"), (1 << 18, 256, 32, "bf16"), (4096, 131072, 64, "f32")]
    shapes += [(65536, 16384, 64, "bf16"), (16384, 65536, 64, "bf16")]  # as sparse autoencoders have them
    return [Cell("dense", *shape, form="dense") for shape in shapes]


def early_cells():
    """Early-stopped selections beside the exact one, and beside the paper's own passes."""
    short = [((rows, cols), k) for rows, cols in ((1 << 18, 256), (65536, 1024)) for k in (32, 64)]
    long = [((16384, 3072), 64), ((20000, 5000), 300), ((4096, 16384), 512), ((1024, 65536), 64), ((64, 131072), 1024)]
    cells = [Cell("early", *shape, k, max_iter=n).against(max_iter=0) for shape, k in short for n in range(2, 9)]
    cells += [
        Cell("early_widths", (1 << 26) // cols, cols, k, dtype, max_iter=n).against(max_iter=0)
        for cols, k in ((160, 32), (320, 16), (448, 64), (768, 32), (1152, 64), (1536, 32), (2048, 64))
        for dtype in ("f32", "bf16")
        for n in (2, 4, 6, 8)
    ]
    cells += [
        Cell("early_long", *shape, k, dtype, max_iter=n).against(max_iter=0)
        for shape, k in long
        for dtype in ("f32", "bf16")
        for n in (2, 4, 8)
    ]
    cells += [
        Cell("early_passes", *shape, k, max_iter=n).against(search="bisection")
        for shape, k in short + long
        for n in (2, 4, 8)
    ]
    return cells


def adversarial_cells():
    shapes = [(1 << 18, 256, 32, "f32"), (65536, 1024, 64, "f32"), (65536, 4096, 64, "f32"), (1 << 20, 64, 8, "f32")]
    shapes += [(1024, 131072, 64, "f32"), (64, 131072, 64, "f32"), (1 << 18, 256, 32, "bf16")]
    return [
        Cell("adversarial", *shape, data=data).against(data="normal")
        for shape in shapes
        for data in ADVERSARIAL_DATA
        if data != "normal"
    ]


def width_cells(dtype="f32", name="widths"):
    """Shapes like the paper's, between its columns."""
    return [
        Cell(name, 1 << 18, cols, k, dtype) for cols in (200, 256, 300, 384, 512, 640, 700) for k in (10, 32, 50, 100)
    ]


def row_cells(dtype="f32", name="rows"):
    widths = (160, 320, 777, 1500, 2500, 5000, 7777)
    return [Cell(name, 50_000, cols, k, dtype) for cols in widths for k in (20, 100, 300) if k < cols]


def shortest_cells(dtype="f32", name="shortest"):
    return [Cell(name, 2_000_000, cols, k, dtype) for cols in (16, 24, 48, 96, 100) for k in (1, 2, 4, 8)]


def vocabulary_cells(dtype="f32", name="vocabularies"):
    widths = (20_000, 32_000, 50_257, 128_256, 151_936)
    return [Cell(name, (1 << 29) // cols, cols, k, dtype) for cols in widths for k in (1, 50, 500, 2048)]


def unaligned_cells(dtype="f32", name="unaligned"):
    shapes = [(1 << 20, 64, 8), (1 << 18, 256, 32), (65536, 1024, 64), (65536, 4096, 64)]
    cells = [Cell(name, *shape, dtype, offset=offset) for shape in shapes for offset in (1, 2, 7)]
    cells += [Cell(name, *shape, dtype, row_stride=shape[1] + gap) for shape in shapes for gap in (1, 3, 5)]
    return cells


def off_grid_half_cells():
    """Every third cell of the five sets above."""

    def of(dtype):
        sets = (width_cells, row_cells, shortest_cells, vocabulary_cells, unaligned_cells)
        return [cell for cells in sets for cell in cells(dtype, f"off_grid_{dtype}")[::3]]

    return of("f16") + of("bf16")


def data_cells():
    shapes = [(1 << 20, 64, 8), (1 << 18, 256, 32), (65536, 1024, 64), (65536, 4096, 64), (8192, 50_000, 500)]
    return [
        Cell("constant" if data == "constant" else "data", *shape, dtype, data=data).against(data="normal")
        for shape in shapes
        for dtype in ("f32", "bf16")
        for data in RANDOM_DATA
        if data != "normal"
    ]


INDEXER_SHAPES = ((1, 131072), (8, 65536), (32, 131072), (64, 32768), (256, 131072), (4096, 16384), (4096, 65536))
HARD_DATA = ("constant", "shared_exponent", "ascending", "one_outlier", "two_humps", "softmax", "infinities")


def indexer_cells():
    """Few long rows with many results, as sparse attention selects the keys of every query."""
    cells = [
        Cell(f"indexer_{dtype}", *shape, k, dtype)
        for dtype in ("f32", "bf16")
        for shape in INDEXER_SHAPES
        for k in (512, 1024, 2048)
    ]
    cells += [Cell("indexer_f32", 64, 131072, 64)]
    cells += [
        Cell("indexer_sorted", *shape, k, dtype, order="by_value").against(order="unsorted")
        for dtype in ("f32", "bf16")
        for shape in INDEXER_SHAPES
        for k in (512, 1024, 2048)
    ]
    cells += [
        Cell("indexer_data", *shape, 1024, dtype, data=data).against(data="normal")
        for shape in INDEXER_SHAPES[3:6]
        for dtype in ("f32", "bf16")
        for data in HARD_DATA
    ]
    return cells


def large_k_cells():
    """A quarter or half of long rows."""
    return [
        Cell("large_k_f32" if dtype == "f32" else "large_k_bf16", (1 << 28) // cols, cols, cols // share, dtype)
        for dtype in ("f32", "bf16")
        for cols in (16384, 65536, 100_000)
        for share in (4, 2)
    ]


def other_cells():
    """Shapes and types without a target of their own: torch.topk must not be faster in any."""
    cells = []
    for cols in (10, 50, 100, 300, 1000, 3000, 10000, 50000, 250007, 3000017):
        rows = max((1 << 26) // cols, 1)
        for k in sorted({1, min(5, cols), max(cols // 10, 1), cols // 2, cols - 1}):
            cells.append(Cell("other", rows, cols, k))
    for dtype in ("f64", "i32"):
        shapes = ((1 << 20, 64, 8), (1 << 18, 256, 32), (65536, 1024, 64), (16384, 8192, 256), (256, 131072, 64))
        cells += [Cell("other", *shape, dtype) for shape in shapes]
    cells += [Cell("other", rows, cols, k) for rows, cols in ((1, 1000), (32, 256), (128, 32000)) for k in (1, 8, 50)]
    return cells


def random_set(problem):
    if problem["rows"] * problem["cols"] * ELEMENT_BYTES[problem["dtype"]] < FILLING_BYTES:
        return "random_small"
    return {"f32": "random_f32", "f16": "random_16", "bf16": "random_16"}.get(problem["dtype"], "random_other")


def random_cells(program, count, seed, device="cuda"):
    """The problems of `rtopk bench --random-shapes`, which draws them."""
    command = [program, "bench", "--random-shapes", str(count), "--seed", str(seed), "--device", device]
    listed = subprocess.run([*command, "--dry-run", "--json", "-"], capture_output=True, text=True, check=True).stdout
    names = ("rows", "cols", "k", "dtype", "direction", "order", "form", "index_type", "row_stride", "data")
    return [
        Cell(random_set(problem), offset=problem["input_offset"], **{name: problem[name] for name in names})
        for problem in json.loads(listed)["problems"]
    ]


def random_early_cells(program, count, seed, device="cuda"):
    """Shapes, types and data of random problems, stopped early: beside the exact selection, and beside the paper's own
    passes."""
    draw = random.Random(seed)
    cells = []
    for cell in random_cells(program, count, seed, device):
        early = Cell("", cell.rows, cell.cols, cell.k, cell.dtype, data=cell.data, max_iter=draw.randint(1, 12))
        name = "random_early_long" if early.cols > 2048 else "random_early"
        cells.append(replace(early, set=name).against(max_iter=0))
        cells.append(replace(early, set="random_passes").against(search="bisection"))
    return cells


GRIDS = {
    "paper": paper_cells,
    "sweep": sweep_cells,
    "small": small_cells,
    "long": long_cells,
    "few": few_cells,
    "half": half_cells,
    "sorted": sorted_cells,
    "dense": dense_cells,
    "early": early_cells,
    "adversarial": adversarial_cells,
    "widths": width_cells,
    "rows": row_cells,
    "shortest": shortest_cells,
    "vocabularies": vocabulary_cells,
    "unaligned": unaligned_cells,
    "off_grid_half": off_grid_half_cells,
    "data": data_cells,
    "indexer": indexer_cells,
    "large_k": large_k_cells,
    "other": other_cells,
}


@dataclass(frozen=True)
class Target:
    what: str
    to: str = "floor"  # what rtopk's time is divided by
    geometric_mean: float = math.inf
    ninetieth: float = math.inf  # percentile
    worst: float = math.inf
    noise: float = 0.0

    def __str__(self):
        parts = [f"mean <= {self.geometric_mean:.2f}"] if self.geometric_mean < math.inf else []
        parts += [f"90 % <= {self.ninetieth:.2f}"] if self.ninetieth < math.inf else []
        parts += [f"worst <= {self.worst:.2f}"] if self.worst < math.inf else []
        return ", ".join(parts) or "-"

    def met(self, geometric_mean, ninetieth, worst):
        if self.geometric_mean == self.worst == math.inf:
            return None
        return (
            geometric_mean <= self.geometric_mean
            and ninetieth <= self.ninetieth
            and worst <= self.worst * (1 + self.noise)
        )


TARGETS = {
    "paper": Target("the paper's grid / floor", geometric_mean=1.15, worst=1.35),
    "sweep": Target("65536 rows, 128..8192 columns / floor", geometric_mean=1.20, worst=1.40),
    "small": Target("2^20 short rows / floor", worst=1.40),
    "long": Target("2^29 elements in long rows / floor", geometric_mean=1.35),
    "few": Target("64 rows of 131072 / floor", worst=2.0),
    "fewer": Target("1 to 16 rows of 131072 / floor"),
    "f16": Target("f16, the first four sets / floor", geometric_mean=1.40),
    "bf16": Target("bf16, the first four sets / floor", geometric_mean=1.40),
    "sorted": Target("sorted by value / unsorted", to="baseline", worst=1.15),
    "dense": Target("dense form / read and write of the matrix", worst=1.20),
    "early": Target("max_iter / exact", to="baseline", worst=1.25, noise=TIMING_NOISE),
    "early_widths": Target("max_iter / exact, rows of 160 to 2048", to="baseline", worst=1.25, noise=TIMING_NOISE),
    "early_long": Target("max_iter / exact, rows of 3072 to 131,072", to="baseline", worst=1.25, noise=TIMING_NOISE),
    "early_passes": Target("max_iter / the paper's passes", to="baseline", worst=1.0, noise=TIMING_NOISE),
    "adversarial": Target("adversarial data / normal data", to="baseline", worst=2.0),
    "widths": Target("2^18 rows of 200 to 700 columns / floor", geometric_mean=1.12, worst=1.25),
    "rows": Target("50,000 rows of 160 to 7777 columns / floor", geometric_mean=1.15, worst=1.3),
    "shortest": Target("2 million rows of 16 to 100 columns / floor", geometric_mean=1.15, worst=1.25),
    "vocabularies": Target("2^29 elements in rows of 20,000 to 151,936 / floor", geometric_mean=1.05, worst=1.15),
    "unaligned": Target("rows off alignment / floor", geometric_mean=1.15, worst=1.25),
    "off_grid_f16": Target("f16, the five sets before / floor", geometric_mean=1.2, worst=1.4),
    "off_grid_bf16": Target("bf16, the five sets before / floor", geometric_mean=1.2, worst=1.4),
    "data": Target("data as networks have it / normal data", to="baseline", worst=1.3),
    "constant": Target("rows of one value / normal data", to="baseline", worst=1.5),
    "indexer_f32": Target("few long rows, k 512 to 2048 / floor"),
    "indexer_bf16": Target("the same, bf16 / floor"),
    "indexer_sorted": Target("the same, sorted by value / unsorted", to="baseline", worst=1.25, noise=TIMING_NOISE),
    "indexer_data": Target("hard data in few long rows / normal data", to="baseline", worst=1.3),
    "large_k_f32": Target("a quarter or half of long rows / floor", worst=1.6),
    "large_k_bf16": Target("the same, bf16 / floor", worst=2.0),
    "other": Target("other shapes and types / floor"),
    "asked": Target("what --shape asked for / floor"),
    "random_f32": Target("random problems, f32 / floor", geometric_mean=1.2, ninetieth=1.5, worst=2.0),
    "random_16": Target("random problems, f16 and bf16 / floor", geometric_mean=1.35, ninetieth=1.7, worst=2.5),
    "random_other": Target("random problems, f64 and i32 / floor"),
    "random_small": Target("random problems below 64 MB / floor"),
    "random_early": Target("random problems, max_iter / exact", to="baseline", worst=1.25, noise=TIMING_NOISE),
    "random_early_long": Target("the same, more than 2048 columns", to="baseline", worst=1.25, noise=TIMING_NOISE),
    "random_passes": Target("random problems, max_iter / the passes", to="baseline", worst=1.0, noise=TIMING_NOISE),
}
AGAINST_TORCH = Target("all exact cells / torch.topk", to="torch", worst=1.0, noise=TIMING_NOISE)


def thinned(cells):
    """A third of each set, 4 to 16 cells (or all, if it has fewer); the same in every run."""
    kept = []
    for name in dict.fromkeys(cell.set for cell in cells):
        of_set = [cell for cell in cells if cell.set == name]
        count = min(len(of_set), max(-(-len(of_set) // 3), 4), 16)
        chosen = sorted(random.Random(1).sample(range(len(of_set)), count))
        kept += [of_set[i] for i in chosen]
    return kept


def spread(cells):
    """The positions of all cells, ordered so that all sets advance at the same rate."""
    places = []
    for name in dict.fromkeys(cell.set for cell in cells):
        of_set = [position for position, cell in enumerate(cells) if cell.set == name]
        random.Random(1).shuffle(of_set)
        places += [(i / len(of_set), position) for i, position in enumerate(of_set)]
    return [position for _, position in sorted(places)]


# ---- The data ----


def ascending(torch, normal, _generator):
    return normal.sort(dim=1).values


def descending(torch, normal, _generator):
    return normal.sort(dim=1, descending=True).values


def half_zeros(torch, normal, _generator):
    return normal.clamp_(min=0)


def one_outlier(torch, normal, generator):
    places = torch.randint(normal.shape[1], (normal.shape[0], 1), device=normal.device, generator=generator)
    return normal.scatter_(1, places, min(1e30, torch.finfo(normal.dtype).max))


def some_nan(torch, normal, generator):
    chosen = torch.rand(normal.shape, device=normal.device, generator=generator) < 0.01
    return normal.masked_fill_(chosen, math.nan)


def shared_bits(torch, normal, generator):
    """Eight different values in f32, so that most elements are ties."""
    return normal.uniform_(0, 2.0**-20, generator=generator).add_(1)


def shared_exponent(torch, normal, generator):
    return normal.uniform_(0, 2.0**-10, generator=generator).add_(1)


def random_powers(torch, normal, generator, largest):
    """For each row a power of two from 2^-largest to 2^largest."""
    rows = (normal.shape[0], 1)
    exponents = torch.randint(-largest, largest + 1, rows, device=normal.device, generator=generator)
    return torch.exp2(exponents.to(normal.dtype))


def own_scale(torch, normal, generator):
    """Each row has a mean and a deviation of its own."""
    means = torch.rand((normal.shape[0], 1), device=normal.device, generator=generator) - 0.5
    means *= random_powers(torch, normal, generator, 12)
    return normal.mul_(random_powers(torch, normal, generator, 12)).add_(means)


def two_humps(torch, normal, generator):
    """A tenth of the elements is shifted far up."""
    shifted = torch.rand(normal.shape, device=normal.device, generator=generator) < 0.1
    return normal.add_(shifted * (10 * random_powers(torch, normal, generator, 6)))


def softmax(torch, normal, _generator):
    return torch.softmax(normal.mul_(4), dim=1)


def sparse(torch, normal, generator):
    """Two percent are positive, the others zero."""
    kept = torch.rand(normal.shape, device=normal.device, generator=generator) < 0.02
    return normal.abs_().mul_(kept)


def constant(torch, normal, generator):
    """Each row has one value."""
    return normal.copy_(torch.randn((normal.shape[0], 1), device=normal.device, generator=generator).expand_as(normal))


def infinities(torch, normal, generator):
    """A tenth of the elements is infinite, of either sign."""
    chosen = torch.rand(normal.shape, device=normal.device, generator=generator) < 0.1
    return torch.where(chosen, torch.copysign(torch.full_like(normal, math.inf), normal), normal)


# Functions that turn normal numbers into others, and may overwrite their argument.
ADVERSARIAL_DATA = {
    "normal": lambda torch, normal, generator: normal,
    "all_equal": lambda torch, normal, generator: normal.fill_(1.25),
    "half_zeros": half_zeros,
    "ascending": ascending,
    "descending": descending,
    "one_outlier": one_outlier,
    "one_percent_nan": some_nan,
    "shared_bits": shared_bits,
    "shared_exponent": shared_exponent,
    "uniform": lambda torch, normal, generator: normal.uniform_(generator=generator),
    "lognormal": lambda torch, normal, generator: normal.mul_(2).exp_(),
}
# The same, as random problems have it: the names of `rtopk bench`.
RANDOM_DATA = {
    "normal": lambda torch, normal, generator: normal,
    "own_scale": own_scale,
    "two_humps": two_humps,
    "softmax": softmax,
    "sparse": sparse,
    "constant": constant,
    "infinities": infinities,
}
DATA = ADVERSARIAL_DATA | RANDOM_DATA


def matrix_of(torch, cell, dtype, generator, data=DATA):
    """A random matrix for a cell, on the generator's device, at its offset and with its stride. `data` has the
    distributions by name."""
    device, shape = generator.device, (cell.rows, cell.cols)
    if cell.dtype == "i32":
        made = torch.randint(-(1 << 31), 1 << 31, shape, dtype=dtype, device=device, generator=generator)
    else:
        normal = torch.randn(shape, dtype=dtype, device=device, generator=generator)
        made = data[cell.data](torch, normal, generator).to(dtype)
    if not cell.row_stride and not cell.offset:
        return made
    # The gaps hold what would always be selected.
    stride = cell.row_stride or cell.cols
    laid_out = torch.empty(cell.offset + cell.rows * stride, dtype=dtype, device=device)
    limits = torch.iinfo(dtype) if cell.dtype == "i32" else SimpleNamespace(max=math.nan, min=-math.inf)
    laid_out.fill_(limits.max if cell.direction == "largest" else limits.min)
    rows = laid_out[cell.offset :].view(cell.rows, stride)[:, : cell.cols]
    return rows.copy_(made)
