"""What writes into given tensors: out=, operators that change an argument. torch sees it, and refuses what it must."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

import rtopk
import rtopk.gnn  # noqa: F401  # registers what its operators need
from oracle import random_tensor, same_bits, sorted_topk

OPS = torch.ops.rtopk


def test_out(device):
    x = random_tensor((6, 50), device=device)
    values, indices = torch.empty(6, 4, device=device), torch.empty(6, 4, dtype=torch.int64, device=device)
    result = rtopk.topk(x, 4, out=(values, indices))
    assert isinstance(result, torch.return_types.topk_out)
    assert result.values is values and result.indices is indices
    assert same_bits(values, torch.topk(x, 4).values) and torch.equal(indices, torch.topk(x, 4).indices)


def test_out_that_is_not_contiguous_or_not_last(device):
    x = random_tensor((6, 50, 3), device=device)
    values, indices = (
        torch.empty(3, 4, 6, device=device).permute(2, 1, 0),
        torch.empty(6, 4, 3, dtype=torch.int64, device=device),
    )
    rtopk.topk(x, 4, 1, out=(values, indices))
    expected = sorted_topk(x, 4, 1)
    assert torch.equal(values, expected[0]) and torch.equal(indices, expected[1])


def test_out_is_resized_as_torch_does():
    x = torch.randn(3, 8)
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    rtopk.topk(x, 2, out=(values, indices))
    assert values.shape == indices.shape == (3, 2)
    with pytest.warns(UserWarning, match="resized"):
        rtopk.topk(x, 3, out=(values, indices))
    assert torch.equal(values, torch.topk(x, 3).values)


def test_out_is_counted_as_a_write(device):
    x = torch.randn(4, 9, device=device)
    out = torch.empty(4, 3, device=device), torch.empty(4, 3, dtype=torch.int64, device=device)
    weight = torch.ones(4, 3, device=device, requires_grad=True)
    loss = (weight * out[0]).sum()
    before = [tensor._version for tensor in out]
    rtopk.topk(x, 3, out=out)
    assert all(tensor._version > version for tensor, version in zip(out, before, strict=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with pytest.raises(RuntimeError, match="requires grad"):
        rtopk.topk(x.requires_grad_(), 3, out=out)


def test_out_that_overlaps_the_input_is_refused():
    x = torch.randn(64)
    with pytest.raises(RuntimeError, match="overlap"):
        rtopk.topk(x, 4, out=(x[:4], torch.empty(4, dtype=torch.int64)))


RECORDS = {
    "fields of records": (lambda memory: (memory.view(torch.float32)[::2], memory[1::2]), True),
    "the same field": (lambda memory: (memory.view(torch.float32)[::2], memory[::2]), False),
    "one behind the other": (lambda memory: (memory.view(torch.float32)[:12], memory[12:]), True),
    "one element of both": (lambda memory: (memory.view(torch.float32)[:12], memory[11:23]), False),
}


@pytest.mark.parametrize("name", RECORDS)
def test_out_in_the_same_memory(name, device):
    x = random_tensor((4, 9), device=device)
    parts, apart = RECORDS[name]
    values, indices = (part.view(4, 3) for part in parts(torch.zeros(24, dtype=torch.int32, device=device)))
    if apart:
        rtopk.topk(x, 3, index_dtype=torch.int32, out=(values, indices))
        assert same_bits(values, sorted_topk(x, 3)[0]) and torch.equal(indices.long(), sorted_topk(x, 3)[1])
    else:
        with pytest.raises(RuntimeError, match="values and indices share memory"):
            rtopk.topk(x, 3, index_dtype=torch.int32, out=(values, indices))
        assert not values.any() and not indices.any()


def test_out_that_overlaps_the_input_through_a_copy_is_right(device):
    x = random_tensor((6, 9), device=device)
    expected = sorted_topk(x, 3)
    rtopk.topk(x, 3, out=(x[:, 2:5], torch.empty(6, 3, dtype=torch.int64, device=device)))
    assert same_bits(x[:, 2:5], expected[0])


@pytest.mark.parametrize("values", [torch.zeros(3).expand(4, 3), torch.zeros(8).as_strided((4, 3), (1, 1))])
def test_out_whose_elements_share_memory_is_refused(values):
    with pytest.raises(RuntimeError, match="values may have elements that share memory"):
        rtopk.topk(torch.randn(4, 9), 3, out=(values, torch.empty(4, 3, dtype=torch.int64)))
    assert not values.any()


@pytest.mark.parametrize(
    "out", [torch.empty(2, 3), (torch.empty(3),), (torch.empty(3), None), (1, 2), (torch.empty(3),) * 3]
)
def test_out_that_is_no_pair_of_tensors(out):
    for topk in (torch.topk, rtopk.topk):
        with pytest.raises(TypeError):
            topk(torch.randn(2, 9), 3, out=out)


def test_out_that_is_a_negated_view_is_refused():
    values = torch.zeros(4, 3, dtype=torch.complex64).conj().imag
    assert values.is_neg()
    with pytest.raises(RuntimeError, match="negated view .* accepted: its resolve_neg"):
        rtopk.topk(torch.randn(4, 9), 3, out=(values, torch.empty(4, 3, dtype=torch.int64)))


# ---- Every operator that writes ----


class Topk:
    """topk_out, as torch.ops has it."""

    operator = OPS.topk_out.default
    written = (7, 8)

    @staticmethod
    def arguments(device):
        out = torch.empty(4, 3, device=device), torch.empty(4, 3, dtype=torch.int64, device=device)
        return [torch.randn(4, 9, device=device), 3, -1, True, True, 0, 0.0, *out]


class AddProduct:
    operator = OPS._add_product.default
    written = (0,)

    @staticmethod
    def arguments(device):
        values, selectors = rtopk.compact(torch.randn(4, 9, device=device), 3)
        return [torch.zeros(4, 5, device=device), values, selectors, torch.randn(9, 5, device=device)]


class Places:
    operator = OPS.topk_places_out.default
    written = (10,)

    @staticmethod
    def arguments(device):
        table = torch.arange(8, dtype=torch.int32, device=device).view(4, 2)
        out = torch.empty(4, 3, dtype=torch.int32, device=device)
        return [torch.randn(4, 9, device=device), None, None, None, table, 8, None, True, False, False, out]


WRITERS = [Topk, AddProduct, Places]
writers = pytest.mark.parametrize("writer", WRITERS)


def test_these_are_all_operators_that_write():
    names = {name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("rtopk::")}
    writing = {name for name in names if getattr(OPS, name).default._schema.is_mutable}
    assert writing == {writer.operator._schema.name.split("::")[1] for writer in WRITERS}
    assert len(names) >= 18


@writers
def test_versions_count_writes(writer, device):
    arguments = writer.arguments(device)
    for call in (writer.operator, lambda *arguments: compiled(writer)(*arguments)):
        before = [argument._version for argument in arguments if isinstance(argument, torch.Tensor)]
        call(*arguments)
        after = [argument._version for argument in arguments if isinstance(argument, torch.Tensor)]
        changed = [now > then for then, now in zip(before, after, strict=True)]
        tensors = [place for place, argument in enumerate(arguments) if isinstance(argument, torch.Tensor)]
        assert changed == [place in writer.written for place in tensors]


def compiled(writer):
    torch.compiler.reset()
    return torch.compile(lambda *arguments: writer.operator(*arguments), backend="aot_eager", fullgraph=True)


@writers
@pytest.mark.parametrize(
    "how", ["the tensor", "a view of it", "what it is a view of", "under inference mode", "compiled"]
)
def test_a_saved_tensor_that_was_overwritten_is_noticed(writer, how, device):
    arguments = writer.arguments(device)
    call = compiled(writer) if how == "compiled" else writer.operator
    for place in writer.written:
        saved = arguments[place]
        if how == "a view of it":
            arguments[place] = saved.view_as(saved)
        elif how == "what it is a view of":
            saved = saved[1:]
        weight = torch.ones(20, device=device, requires_grad=True)
        loss = weight[saved.fill_(1)].sum() if saved.dtype == torch.int64 else (weight[:1] * saved).sum()
        with torch.inference_mode(how == "under inference mode"):
            call(*arguments)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@writers
def test_inference_tensors_are_written_in_inference_mode_alone(writer, device):
    arguments = writer.arguments(device)
    for place in writer.written:
        normal = arguments[place]
        with torch.inference_mode():
            arguments[place] = torch.zeros_like(normal)
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            writer.operator(*arguments)
        assert not arguments[place].any()
        arguments[place] = normal
    with torch.inference_mode():
        arguments = writer.arguments(device)
        arguments[writer.written[0]].zero_()
        writer.operator(*arguments)
        assert arguments[writer.written[0]].any()


def test_out_of_inference_mode_is_not_resized_outside():
    with torch.inference_mode():
        out = torch.empty(0), torch.empty(0, dtype=torch.int64)
    for topk in (rtopk.topk, torch.topk):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            topk(torch.randn(4, 9), 3, out=out)
        assert topk is torch.topk or out[0].shape == out[1].shape == (0,)


@writers
def test_what_wants_a_derivative_is_refused(writer, device):
    arguments = writer.arguments(device)
    for place, argument in enumerate(arguments):
        if not isinstance(argument, torch.Tensor) or not argument.is_floating_point():
            continue
        argument.requires_grad_()
        with pytest.raises(RuntimeError, match="requires grad"):
            writer.operator(*arguments)
        with torch.no_grad():
            writer.operator(*arguments)
        argument.requires_grad_(False)
        with forward_ad.dual_level():
            dual = [*arguments]
            dual[place] = forward_ad.make_dual(argument, torch.ones_like(argument))
            with pytest.raises(NotImplementedError, match="forward AD"):
                writer.operator(*dual)


@writers
def test_writing_operators_keep_pytorchs_rules(writer, device):
    torch.library.opcheck(writer.operator, writer.arguments(device))


@writers
def test_graphs_see_what_was_written(writer, device):
    arguments = writer.arguments(device)
    place = writer.written[0]
    expected = [argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in arguments]
    writer.operator(*expected)

    def function(*arguments):
        doubled = arguments[place] * 1  # of the program's own, so that nothing but the graph orders them
        arguments = (*arguments[:place], doubled, *arguments[place + 1 :])
        writer.operator(*arguments)
        return doubled + 1

    torch.compiler.reset()
    ours = torch.compile(function, backend="aot_eager", fullgraph=True)(*arguments)
    assert torch.equal(ours, expected[place] + 1)


@pytest.mark.parametrize("writer", [Topk, AddProduct])  # of Places test_serving.py has what it does
def test_vmap_refuses_as_it_does_for_torchs_own(writer):
    arguments = writer.arguments("cpu")
    batch = torch.stack([arguments[writer.written[0]]] * 2)

    def call(each):
        writer.operator(*(each if place == writer.written[0] else other for place, other in enumerate(arguments)))
        return each

    with pytest.raises(RuntimeError, match="Batching rule not implemented"):
        torch.vmap(call)(batch)
