#!/usr/bin/env python3
"""Training on mini-batches of sampled neighbourhoods: rtopk beside PyTorch Geometric's own convolutions.

    python bench/compare_batches.py --real coauthor-physics.npz --json bench/results/batches-h200.json
    python bench/compare_batches.py --scale 0.05 --batches 2 --repeats 2     # a CPU, one thread, a minute or two

Both networks have the same parameters and get the same mini-batches, which are sampled before anything is timed: an
input map, then MaxK, a convolution and LayerNorm for each layer, and an output map. PyTorch Geometric's network has a
dense MaxK (torch.topk and a mask) and the convolution as it comes: SAGEConv, GCNConv, GINConv. It maps sparse features
by torch's product of sparse matrices, with the transpose given. It is called in the two ways in which it can be trimmed
to what later layers need: `trim_to_layer`, which computes targets and outermost nodes, and the pair (x_src, x_dst),
which computes targets alone. GCNConv takes no pairs. A ratio is against the faster of the two. rtopk gets the same
edge_index, so that a step makes its graphs too; "graphs given" are those of rtopk's sampler.
On a GPU, "rtopk, captured" is CapturedBatchStep: its step includes copying the mini-batch to where it is read from.

On a CPU one thread computes, and its own time is counted, so that other programs do not matter.

First all networks are checked: the same loss, and the same gradient of every parameter, to rounding. Sums in another
order may round to another kth element; so the check is made twice, the second time with MaxK of PyTorch Geometric's
network selecting what rtopk's selects. "selections" has the rows in which the two selections differ, layer by layer,
and the greatest distance of a gradient before and after. Captured steps are checked against rtopk's. Then come:

- steps: forward, loss, backward and Adam's update, in ms, on a graph like ogbn-products. Medians over mini-batches; the
  networks alternate.
- graphs: what a layer needs made of an edge_index, beside the layer's forward and backward, for each layer.
- calls (--count-calls): what the host does in a step, by phase: operators that PyTorch's dispatcher calls, without
  views; and on a GPU kernels, and how often the host waits. On a CPU, calls that would wait for a GPU; what rtopk calls
  past the dispatcher is not counted there: 6 kernels for each layer.
- accuracy: both networks trained on a real graph (--real), over seeds, on the same mini-batches, for each of
  --real-models. PyTorch Geometric's is called with pairs, where its convolution takes them. With --count-sizes, how
  many mini-batches have each of the sizes to which CapturedBatchStep rounds.
"""

import argparse
import copy
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch_geometric import __version__ as geometric_version

from batch_networks import K_SHARE, GivenMaxK, networks_of
from called_operators import operators
from checkout import cpu_model, origin
from rtopk.gnn import CapturedBatchStep, Graph, NeighborSampler, load
from rtopk.gnn.captured.sizes import BatchSizes
from rtopk.gnn.layers import MODELS
from rtopk.gnn.rows import CompactRows
from rtopk.gnn.training import find_device, score
from whole_file import write_json

CAPTURED = "rtopk, captured"
MOST_DISTANT = 5e-2  # of results that may have another kth element in a few rows of thousands: see `check_selections`


class Batch:
    """A mini-batch with its rows and labels, as NeighborLoader gives it."""

    def __init__(self, sampled, dataset, seeds):
        self.sampled, self.edge_index = sampled, sampled.edge_index
        self.nodes_per_hop, self.edges_per_hop = sampled.num_sampled_nodes, sampled.num_sampled_edges
        self.x, self.y = dataset.features[sampled.nodes], dataset.labels[seeds]


# ---- Measurements ----


def seconds(function, device):
    """How long a call takes, with all of its work on a GPU; on a CPU, the time that the one thread computes."""
    if device.type == "cpu":
        start = time.process_time()
        result = function()
        return time.process_time() - start, result
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def loss_and_gradients(call, parameters, batch):
    loss = F.cross_entropy(call(batch), batch.y)
    return [loss.detach(), *torch.autograd.grad(loss, parameters)]


def greatest_distance(found, expected):
    """The greatest distance of a gradient, or of the loss, relative to its norm."""
    return max(
        float((mine - other).norm() / other.norm().clamp(min=1e-6)) for mine, other in zip(found, expected, strict=True)
    )


def check(networks, batch):
    """The loss and all gradients of every network against those of the first: the greatest distance of each."""
    # GIN's sums grow from layer to layer, and so do these differences.
    parameters, expected, greatest = list(networks["ours"].parameters()), None, {}
    for name, call in networks["calls"].items():
        found = loss_and_gradients(call, parameters, batch)
        expected = found if expected is None else expected
        greatest[name] = greatest_distance(found, expected)
        if not greatest[name] < MOST_DISTANT:
            sys.exit(f"{name}: results differ from those of {next(iter(networks['calls']))} by {greatest[name]:.2g}")
    return greatest


def check_captured(networks, step, batch):
    """The loss and all gradients of three steps against rtopk's: the first is not captured, the second is, and the
    third is replayed. The greatest distance."""
    parameters, distances = list(networks["ours"].parameters()), []
    for _ in range(3):
        expected = loss_and_gradients(networks["calls"]["rtopk"], parameters, batch)
        found = [step(batch), *(parameter.grad for parameter in parameters)]
        distances.append(greatest_distance(found, expected))
    step.check_replayed()
    if not max(distances) < MOST_DISTANT:
        sys.exit(f"{CAPTURED}: results differ from those of rtopk by {max(distances):.2g}")
    return max(distances)


def selections(modules, call, parameters, batch):
    """The masks of what MaxK selects, for each of its calls, and what comes of it."""
    masks = []

    def record(module, inputs, rows):
        dense = torch.zeros(len(rows), inputs[0].shape[1], dtype=torch.bool, device=inputs[0].device)
        chosen = rows.selectors.long() if isinstance(rows, CompactRows) else module.select(inputs[0]).indices
        masks.append(dense.scatter_(1, chosen, True))

    handles = [module.register_forward_hook(record) for module in modules]
    found = loss_and_gradients(call, parameters, batch)
    for handle in handles:
        handle.remove()
    return masks, found


def in_double_precision(networks, batch, chosen):
    """What PyTorch Geometric's network gives in float64 with these selections."""
    ours, theirs = (network.double() for network in copy.deepcopy((networks["ours"], networks["trimmed"])))
    theirs.maxk = GivenMaxK(chosen)
    exact = copy.copy(batch)
    exact.x = batch.x.double()
    return loss_and_gradients(lambda b: theirs(b.x, b.edge_index, b.nodes_per_hop, b.edges_per_hop),
                              list(ours.parameters()), exact)  # fmt: skip


def check_selections(networks, batch):
    """Whether the gradients of rtopk and of PyTorch Geometric differ only by rounding and by other selections: with the
    same selections, ours must not be much further from those in double precision than theirs are."""
    rounding, times_theirs = 1e-5, 4
    ours, theirs = networks["ours"], networks["trimmed"]
    call, their_call = networks["calls"]["rtopk"], networks["calls"]["PyG, trim_to_layer"]
    parameters, usual = list(ours.parameters()), theirs.maxk
    # Hooks change in which kernels our layers compute, and so the rounding: these are the results of what is recorded.
    chosen, found = selections([convolution.activation for convolution in ours.convolutions], call, parameters, batch)
    others, expected = selections([usual], their_call, parameters, batch)
    theirs.maxk = GivenMaxK(chosen)
    with_ours = loss_and_gradients(their_call, parameters, batch)
    theirs.maxk = usual
    exact = in_double_precision(networks, batch, chosen)
    error, their_error = greatest_distance(found, exact), greatest_distance(with_ours, exact)
    if not error <= max(rounding, times_theirs * their_error):
        sys.exit(
            f"with the same selections, rtopk is {error:.2g} from the results in double precision, PyTorch Geometric"
            f" {their_error:.2g}"
        )
    rows = [{"rows": len(a), "other": int((a != b).any(1).sum())} for a, b in zip(chosen, others, strict=True)]
    return {
        "layers": rows,
        "distance": greatest_distance(found, expected),
        "distance_with_the_same": greatest_distance(found, with_ours),
        "error": error,
        "error_of_pyg": their_error,
    }


def phases_of(call, optimizer, batch):
    """The phases of a step, in order, each a function of what the one before has returned."""
    return {
        "forward": lambda _: F.cross_entropy(call(batch), batch.y),
        "backward": lambda loss: loss.backward(),
        "optimizer": lambda _: (optimizer.step(), optimizer.zero_grad(set_to_none=True)),
    }


def step_of(call, optimizer, batch):
    def step():
        result = None
        for phase in phases_of(call, optimizer, batch).values():
            result = phase(result)

    return step


def optimizer_of(networks, device):
    return torch.optim.Adam(networks["ours"].parameters(), lr=1e-4, fused=device.type == "cuda")


class CapturedStep:
    """A step with captured graphs, a function of a mini-batch."""

    def __init__(self, networks, lr):
        parameters = networks["ours"].parameters()
        optimizer = torch.optim.Adam(parameters, lr=lr, fused=True, capturable=True)
        self.step = CapturedBatchStep(networks["ours"], optimizer)

    def __call__(self, batch):
        return self.step(batch.x, batch.y, batch.edge_index, batch.nodes_per_hop, batch.edges_per_hop)

    def check_replayed(self):
        """Ends the benchmark unless every step that can be replayed was: then its figures are those of replays."""
        why_not = self.step.why_not_captured()
        if self.step.replays == 0 or why_not is not None:
            sys.exit(f"{CAPTURED}: {self.step.replays} steps were replayed" + (f": {why_not}" if why_not else ""))


def time_steps(networks, batches, repeats, device, captured_step=None):
    """Median ms of a step by network. They alternate."""
    optimizer, warm_up = optimizer_of(networks, device), 2  # at the second time, steps are captured
    steps = {
        name: lambda batch, call=call: step_of(call, optimizer, batch)() for name, call in networks["calls"].items()
    }
    if captured_step is not None:
        steps[CAPTURED] = captured_step
    times = {name: [] for name in steps}
    for turn in range(warm_up + repeats):
        for batch in batches:
            for name, step in steps.items():
                taken, _ = seconds(lambda step=step, batch=batch: step(batch), device)
                if turn >= warm_up:
                    times[name].append(taken * 1e3)
    if captured_step is not None:
        captured_step.check_replayed()
    return {name: statistics.median(taken) for name, taken in times.items()}


# Operators that would make the host wait for a GPU.
WAITS = set("_local_scalar_dense nonzero _unique2 unique_dim masked_select bincount".split())


def count_calls(networks, captured_step, batch, device):
    """By network and phase of a step, what the host does."""
    count = count_on_gpu if device.type == "cuda" else count_on_cpu
    optimizer, facts = optimizer_of(networks, device), {}
    for name, call in networks["calls"].items():
        step_of(call, optimizer, batch)()
        facts[name], result = {}, None
        for phase, function in phases_of(call, optimizer, batch).items():
            facts[name][phase], result = count(function, result)
    if captured_step is not None:
        facts[CAPTURED] = {"step": count(captured_step, batch)[0]}
    return facts


def count_on_gpu(function, argument):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        result = function(argument)
    events = [event.name for event in profiled.events()]
    kernels = sum(name.startswith(("cudaLaunchKernel", "cuLaunchKernel")) for name in events)
    # The profile waits for the device itself, at its end.
    waits = sum(name in ("cudaStreamSynchronize", "cudaEventSynchronize") for name in events)
    return {"operators": len(operators(profiled)), "kernels": kernels, "waits": waits}, result


def count_on_cpu(function, argument):
    read = []

    def watch(frame, event, called):
        if event == "c_call" and called.__name__ == "tolist":
            read.append(called)

    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        sys.setprofile(watch)
        result = function(argument)
        sys.setprofile(None)
    called = operators(profiled)
    return {"operators": len(called), "waits": len(read) + sum(name in WAITS for name in called)}, result


def time_graphs(model, batches, hidden, repeats, device):
    """For each layer, median ms of making what it needs of an edge_index, and of its forward and backward."""
    conv = MODELS[model](hidden, hidden, hidden // K_SHARE).to(device)
    layers = []
    for hop in range(len(batches[0].edges_per_hop), 0, -1):
        made, worked = [], []
        for turn in range(1 + repeats):
            for batch in batches:
                targets, sources = sum(batch.nodes_per_hop[:hop]), sum(batch.nodes_per_hop[: hop + 1])
                edges = batch.edge_index[:, : sum(batch.edges_per_hop[:hop])]

                def make(edges=edges, size=(sources, targets)):
                    return prepared(model, Graph.from_edge_index(edges, size=size), device)

                making, graph = seconds(make, device)
                x = torch.randn(sources, hidden, device=device, requires_grad=True)
                grad = torch.randn(targets, hidden, device=device)
                working, _ = seconds(lambda x=x, graph=graph, grad=grad: conv(x, graph).backward(grad), device)
                if turn:
                    made.append(making * 1e3)
                    worked.append(working * 1e3)
        facts = {"sources": sources, "targets": targets, "edges": edges.shape[1]}
        layers.append(facts | {"graph_ms": statistics.median(made), "layer_ms": statistics.median(worked)})
    return layers


def prepared(model, graph, device):
    """The graph with all that the layer's forward and backward derive from it."""
    if model == "gcn":
        derived = graph.gcn_with_self_loops()
    else:
        derived = graph.beside_identity() if model == "gin" else graph
    if device.type == "cpu":  # the atomic additions of a GPU do not read the transpose
        derived.t_row_starts  # noqa: B018
    return graph


def measure_steps(arguments, device, facts):
    dataset = load("products-like", scale=arguments.scale, device=device)
    print(dataset, flush=True)
    sampler = NeighborSampler(dataset.graph, arguments.sample)
    generator = torch.Generator(device).manual_seed(1)
    sampled, batches = [], []
    for seeds in dataset.train[torch.randperm(len(dataset.train))].split(arguments.batch)[: arguments.batches + 1]:
        taken, batch = seconds(lambda seeds=seeds: sampler.sample(seeds, generator), device)
        sampled.append(taken * 1e3)
        batches.append(Batch(batch, dataset, seeds))
    batches = batches[1:] or batches
    facts["sampling_ms"] = statistics.median(sampled[1:] or sampled)
    facts["mini_batch"] = {"nodes": batches[0].nodes_per_hop, "edges": batches[0].edges_per_hop}
    print(f"a mini-batch: nodes {batches[0].nodes_per_hop}, edges {batches[0].edges_per_hop}; sampled in"
          f" {facts['sampling_ms']:.2f} ms", flush=True)  # fmt: skip
    facts["steps"], facts["layers"] = {}, {}
    for model in arguments.models:
        networks = networks_of(model, dataset, arguments.hidden, len(arguments.sample), 0.0, device)
        distances = check(networks, batches[0])
        chosen = check_selections(networks, batches[0])
        captured_step = CapturedStep(networks, 1e-4) if device.type == "cuda" else None
        if captured_step is not None:
            distances[CAPTURED] = check_captured(networks, captured_step, batches[0])
        times = time_steps(networks, batches, arguments.repeats, device, captured_step)
        theirs = min(taken for name, taken in times.items() if name.startswith("PyG"))
        facts["steps"][model] = {
            "ms": times,
            "ratio": theirs / times["rtopk"],
            "distances": distances,
            "selections": chosen,
        }
        if captured_step is not None:
            facts["steps"][model]["captured_ratio"] = theirs / times[CAPTURED]
        if arguments.count_calls:
            facts["steps"][model]["calls"] = count_calls(networks, captured_step, batches[0], device)
        facts["layers"][model] = time_graphs(model, batches, arguments.hidden, arguments.repeats, device)
        print(f"{model}: " + ", ".join(f"{name} {taken:.2f} ms" for name, taken in times.items()), flush=True)


# ---- Accuracy ----


def mini_batches(dataset, arguments, seed, device):
    """Those of all epochs."""
    sampler, generator = NeighborSampler(dataset.graph, arguments.sample), torch.Generator(device).manual_seed(seed)
    order = torch.Generator().manual_seed(seed)
    for _ in range(arguments.epochs):
        train = dataset.train[torch.randperm(len(dataset.train), generator=order).to(device)]
        for seeds in train.split(arguments.batch):
            yield Batch(sampler.sample(seeds, generator), dataset, seeds)


def count_sizes(dataset, arguments, device):
    """For each seed, how many mini-batches have each of the sizes that CapturedBatchStep rounds to."""
    counts = []
    for seed in range(arguments.seeds):
        sizes = Counter(
            BatchSizes.of_batch(batch.x, batch.nodes_per_hop, batch.edges_per_hop).rounded()
            for batch in mini_batches(dataset, arguments, seed, device)
        )
        counts.append(sorted(sizes.values(), reverse=True))
        # The first one of each size is computed eagerly.
        print(f"seed {seed}: {sum(counts[-1])} mini-batches of {len(counts[-1])} sizes, {sum(counts[-1]) - len(sizes)}"
              f" captured: {counts[-1]}", flush=True)  # fmt: skip
    return counts


def trained(model, name, dataset, arguments, seed, device):
    """The test accuracy at the end, and the median ms of a step."""
    torch.manual_seed(seed)
    networks = networks_of(model, dataset, arguments.real_hidden, len(arguments.sample), 0.5, device)
    if name == CAPTURED:
        step = CapturedStep(networks, 3e-3)
    else:
        optimizer = torch.optim.Adam(networks["ours"].parameters(), lr=3e-3, fused=device.type == "cuda")
        step = lambda batch: step_of(networks["calls"][name], optimizer, batch)()  # noqa: E731
    for module in ("ours", "trimmed", "paired"):
        networks[module].train()
    times = [
        seconds(lambda batch=batch: step(batch), device)[0] * 1e3
        for batch in mini_batches(dataset, arguments, seed, device)
    ]
    if name == CAPTURED:
        step.check_replayed()
    with torch.no_grad():  # one way of scoring for all: the parameters are the same
        result = networks["ours"].eval()(dataset.features, dataset.graph)
    return float(score(result[dataset.test], dataset.labels[dataset.test])), statistics.median(times)


def measure_accuracy(arguments, device, facts):
    dataset = load(arguments.real, device=device)
    print(dataset, flush=True)
    facts["accuracy"] = {"graph": dataset.name, "epochs": arguments.epochs, "hidden": arguments.real_hidden}
    if arguments.count_sizes:
        facts["accuracy"]["mini_batches_by_size"] = count_sizes(dataset, arguments, device)
    facts["accuracy"]["models"] = {
        model: accuracy_of(model, dataset, arguments, device) for model in arguments.real_models
    }


def accuracy_of(model, dataset, arguments, device):
    theirs = "PyG, trim_to_layer" if model == "gcn" else "PyG, pairs"
    ours, entries = ["rtopk", CAPTURED] if device.type == "cuda" else ["rtopk"], []
    for seed in range(arguments.seeds):
        entry = {"seed": seed}
        for name in (theirs, *ours):
            reached, step = trained(model, name, dataset, arguments, seed, device)
            entry[name] = {"test": reached, "step_ms": step}
        entries.append(entry)
        print(f"{model}, seed {seed}: " + ", ".join(
            f"{name} {of['test']:.4f} ({of['step_ms']:.1f} ms a step)" for name, of in list(entry.items())[1:]
        ), flush=True)  # fmt: skip
    facts = {"seeds": entries} | beside_theirs(entries, theirs, "rtopk")
    return facts | ({"captured": beside_theirs(entries, theirs, CAPTURED)} if CAPTURED in ours else {})


def beside_theirs(entries, theirs, name):
    """Accuracy and steps of one of our networks beside PyTorch Geometric's, over seeds."""
    differences = [entry[name]["test"] - entry[theirs]["test"] for entry in entries]
    return {
        "mean_difference": statistics.mean(differences),
        "standard_error": statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else None,
        "step_ratio": statistics.median(entry[theirs]["step_ms"] / entry[name]["step_ms"] for entry in entries),
    }


# ---- The report ----


def table(facts):
    lines = []
    for model, cell in facts.get("steps", {}).items():
        lines.append(f"{model:5}" + "".join(f"{name:>22}" for name in cell["ms"]) + f"{'ratio':>8}")
        lines.append(
            f"{'':5}"
            + "".join(f"{taken:19.2f} ms" for taken in cell["ms"].values())
            + f"{cell['ratio']:7.2f}x"
            + (f", captured {cell['captured_ratio']:.2f}x" if "captured_ratio" in cell else "")
        )
        chosen = cell["selections"]
        other = ", ".join(f"{layer['other']} of {layer['rows']:,}" for layer in chosen["layers"])
        lines.append(
            f"{'':5}other selections in {other} rows; gradients differ by {chosen['distance']:.1e}, with the same"
            f" selections by {chosen['distance_with_the_same']:.1e}; from float64: rtopk {chosen['error']:.1e},"
            f" PyG {chosen['error_of_pyg']:.1e}"
        )
        for name, phases in cell.get("calls", {}).items():
            lines.append(f"{'':5}{name}: " + "; ".join(
                f"{phase} " + ", ".join(f"{count} {what}" for what, count in counts.items() if count)
                for phase, counts in phases.items()
            ))  # fmt: skip
        for layer in facts["layers"][model]:
            lines.append(
                f"{'':5}{layer['sources']:,} sources, {layer['targets']:,} targets, {layer['edges']:,} edges: graph"
                f" {layer['graph_ms']:.2f} ms, layer {layer['layer_ms']:.2f} ms, forward and backward"
            )
    accuracy = facts.get("accuracy", {"models": {}})
    for model, cell in accuracy["models"].items():
        for name, found in (("rtopk", cell), (CAPTURED, cell.get("captured"))):
            if found is not None:
                error = found["standard_error"]
                lines.append(
                    f"{accuracy['graph']}, {model}: test accuracy, {name} less PyG: {found['mean_difference']:+.4f}"
                    + (f" +- {error:.4f} (standard error)" if error is not None else "")
                    + f", step ratio {found['step_ratio']:.2f}x"
                )
    return "\n".join(lines)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    gpu = torch.cuda.is_available()
    parser.add_argument("--device", help="cpu, cuda or cuda:N; default: a GPU if there is one")
    parser.add_argument("--scale", type=float, default=1.0 if gpu else 0.05, help="size of the generated graph")
    parser.add_argument(
        "--models", nargs="*", choices=MODELS, default=list(MODELS), help="default: all; none: no steps"
    )
    parser.add_argument("--sample", type=int, nargs="+", default=[15, 10, 5], help="neighbours that each hop picks")
    parser.add_argument("--batch", type=int, default=1024, help="nodes of a mini-batch")
    parser.add_argument("--hidden", type=int, default=256, help="columns of the hidden rows; an eighth is kept")
    parser.add_argument("--batches", type=int, default=8 if gpu else 2, help="mini-batches that are timed")
    parser.add_argument("--repeats", type=int, default=5 if gpu else 2, help="repetitions of every measurement")
    parser.add_argument("--count-calls", action="store_true", help="count what the host does in a step")
    parser.add_argument("--real", metavar="PATH", help="a real graph to train on, such as coauthor-physics.npz")
    parser.add_argument(
        "--real-models", nargs="*", choices=MODELS, default=["sage"], help="to train; default: sage; none: no training"
    )
    parser.add_argument(
        "--count-sizes", action="store_true", help="count the rounded sizes of the real graph's batches"
    )
    parser.add_argument("--real-hidden", type=int, default=256 if gpu else 128, help="columns of the hidden rows there")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10 if gpu else 2)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args()


def main():
    arguments = parsed()
    device = find_device(arguments.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    facts = origin() | {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_model(),
        "threads": None if device.type == "cuda" else torch.get_num_threads(),
        "torch": torch.__version__,
        "torch_geometric": geometric_version,
        "sample": arguments.sample,
        "batch": arguments.batch,
        "hidden": arguments.hidden,
        "scale": arguments.scale,
    }
    print(f"{facts['device']}, torch {torch.__version__}, PyTorch Geometric {geometric_version}", flush=True)
    if arguments.models:
        measure_steps(arguments, device, facts)
    if arguments.real:
        measure_accuracy(arguments, device, facts)
    print(table(facts))
    if arguments.json is not None:
        write_json(arguments.json, facts)


if __name__ == "__main__":
    main()
