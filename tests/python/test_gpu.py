"""On a GPU: the CPU's bits, torch's streams, graphs, allocator and devices."""

import pytest
import torch

import rtopk
from oracle import DTYPES, random_tensor, same_bits, sorted_topk

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "rows, cols, k", [(5000, 64, 8), (3000, 256, 32), (300, 5000, 64), (20, 100000, 500), (2, 1 << 20, 7)]
)
def test_the_same_bits_as_on_the_cpu(rows, cols, k, dtype):
    for ties in (False, True):
        x = random_tensor((rows, cols), dtype, ties=ties)
        gpu = x.cuda()
        for options in (
            {},
            {"sorted": False},
            {"largest": False},
            {"max_iter": 4},
            {"max_iter": 4, "rule": "printed"},
            {"max_iter": 4, "search": "bisection"},
            {"search": "bisection"},
            {"index_dtype": torch.int32},
        ):
            ours, expected = rtopk.topk(gpu, k, **options), rtopk.topk(x, k, **options)
            assert same_bits(ours.values.cpu(), expected.values)
            assert torch.equal(ours.indices.cpu(), expected.indices)
        assert same_bits(rtopk.maxk(gpu, k).cpu(), rtopk.maxk(x, k))
        assert torch.equal(rtopk.topk_mask(gpu, k).cpu(), rtopk.topk_mask(x, k))


def slow_then(stream, x):
    """Fills x on a stream, after enough work that a reader on another stream would come too early."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.copy_(torch.arange(x.numel(), device=x.device, dtype=x.dtype).view_as(x))


def test_work_goes_to_the_current_stream():
    x = torch.zeros(2000, 300, device="cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    slow_then(stream, x)
    with torch.cuda.stream(stream):
        values, indices = rtopk.topk(x, 5)
        with rtopk.accelerate():
            accelerated = torch.topk(x, 5).indices
    stream.synchronize()
    assert torch.equal(indices[0], torch.arange(299, 294, -1, device="cuda"))
    assert torch.equal(indices, accelerated)


def test_calls_do_not_wait():
    x = torch.randn(2000, 300, device="cuda")
    rtopk.topk(x, 5)
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    torch.cuda._sleep(500_000_000)
    done.record()
    for function in (rtopk.topk, rtopk.maxk, rtopk.topk_mask, rtopk.compact):
        function(x, 5)
    assert not done.query()
    torch.cuda.synchronize()


@pytest.mark.parametrize("shape, k", [((1000, 256), 32), ((50, 5000), 64), ((3, 200000), 100)])
def test_graphs(shape, k):
    x = torch.randn(shape, device="cuda")

    def work():
        with rtopk.accelerate():
            routed = torch.topk(x, k)
        return (*rtopk.topk(x, k), rtopk.maxk(x, k), *routed)

    work()  # loads kernels, which a capture may not
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work()
    for _ in range(3):
        x.copy_(torch.randn(shape, device="cuda"))
        graph.replay()
        for ours, expected in zip(results, work(), strict=True):
            assert same_bits(ours, expected)


def test_graph_of_a_training_step():
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), rtopk.nn.MaxK(32), torch.nn.Linear(512, 64)).cuda()
    x = torch.randn(300, 64, device="cuda")

    def step():
        model.zero_grad(set_to_none=False)
        model(x).square().sum().backward()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    x.copy_(torch.randn(300, 64, device="cuda"))
    graph.replay()
    replayed = [parameter.grad.clone() for parameter in model.parameters()]
    step()
    for ours, expected in zip(replayed, model.parameters(), strict=True):
        torch.testing.assert_close(ours, expected.grad)


def test_compiled_with_cuda_graphs():
    torch.compiler.reset()
    function = torch.compile(
        lambda x: rtopk.maxk(x, 9) + rtopk.topk(x, 1).values, mode="reduce-overhead", fullgraph=True
    )
    for _ in range(4):
        x = torch.randn(100, 64, device="cuda")
        torch.testing.assert_close(function(x), rtopk.maxk(x, 9) + rtopk.topk(x, 1).values)


def peak_bytes(function):
    """The most that was asked of torch's allocator at a time; what it gives is more where it does not split a block."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    result = function()
    torch.cuda.synchronize()
    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
    del result
    return peak


@pytest.mark.parametrize("rows, cols, k", [(65536, 256, 32), (4096, 1024, 64), (1000, 8192, 100)])
def test_no_memory_beyond_the_outputs(rows, cols, k):
    x = torch.randn(rows, cols, device="cuda")
    wide = torch.randn(rows, cols + 32, device="cuda")[:, 16 : 16 + cols]
    pairs = rows * k * (4 + 8)
    for rows_of in (x, wide):
        assert peak_bytes(lambda r=rows_of: rtopk.topk(r, k, sorted=False)) == pairs
        assert peak_bytes(lambda r=rows_of: rtopk.maxk(r, k)) == rows * cols * 4
        assert peak_bytes(lambda r=rows_of: rtopk.topk_mask(r, k)) == rows * cols
    with rtopk.accelerate():
        assert peak_bytes(lambda: torch.topk(x, k, sorted=False)) == pairs


def test_a_gradient_is_written_once():
    x = torch.randn(4096, 1024, device="cuda", requires_grad=True)
    values = rtopk.topk(x, 64).values
    grad = torch.ones_like(values)
    assert peak_bytes(lambda: torch.autograd.grad(values, x, grad)) == x.nbytes


def test_memory_of_long_rows_is_outputs_and_workspace():
    x = torch.randn(8, 1 << 20, device="cuda")
    rtopk.topk(x, 64)
    # The plan's workspace for such rows is a fraction of the matrix.
    assert peak_bytes(lambda: rtopk.topk(x, 64)) < x.nbytes // 4


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_another_device_than_the_current_one():
    x = torch.randn(100, 200, device="cuda:1")
    with torch.cuda.device(0):
        values, indices = rtopk.topk(x, 7)
        assert torch.cuda.current_device() == 0
    assert values.device == indices.device == x.device
    assert same_bits(values, sorted_topk(x, 7)[0])


def test_the_current_device_stays():
    before = torch.cuda.current_device()
    rtopk.topk(torch.randn(10, 20, device="cuda:0"), 3)
    assert torch.cuda.current_device() == before


def test_more_elements_than_32_bits_count():
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("less than 12 GiB of GPU memory are free")
    x = torch.zeros((1 << 22) + 5, 520, dtype=torch.bfloat16, device="cuda")
    x[-1, 500] = 1
    values, indices = rtopk.topk(x, 1)
    assert values[-1] == 1 and indices[-1] == 500 and values[:-1].sum() == 0


def test_tensors_of_both_devices_in_one_process():
    x = torch.randn(50, 60)
    assert torch.equal(rtopk.topk(x, 5).indices, rtopk.topk(x.cuda(), 5).indices.cpu())


def test_columns_are_routed_where_it_pays():
    def routed_calls(x, dim):
        before = torch.ops.rtopk._routed_calls()
        torch.topk(x, 3, dim)
        return torch.ops.rtopk._routed_calls() - before

    x = torch.zeros(4096, 128, device="cuda")
    with rtopk.accelerate():
        assert routed_calls(x, 0) == 1
        assert routed_calls(x[:4095], 0) == 0
        assert routed_calls(x[:10], 1) == 1
