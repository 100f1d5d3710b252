"""A model of how long a training step takes on more GPUs than were measured. scaling_page.py writes what it gives."""

from dataclasses import dataclass

# ogbn-papers100M, as its authors describe it (Hu et al., Open Graph Benchmark, NeurIPS 2020): a citation is one edge.
NODES, CITATIONS, FEATURES, CLASSES = 111_059_956, 1_615_685_872, 128, 172
HIDDEN, K, LAYERS = 256, 32, 3
ROW_BYTES = {"compact": (K * 4 + K, K * 4), "dense": (HIDDEN * 4, HIDDEN * 4)}  # there and back
# Bytes of a boundary row that an exchange holds in a layer at its peak, and that every layer keeps for backward, as
# many rows being sent as received (python/rtopk/gnn/parts). Compact, forward: sent, received, received side by side,
# and the selectors that were sent. Dense, backward: gradients of all columns that leave and come back, those of the own
# values, and the selectors that were sent. Kept are the selectors of what was received: of dense rows, all columns.
PEAK_BYTES = {"compact": 3 * 5 * K + K, "dense": 2 * 4 * HIDDEN + 4 * K + K + HIDDEN}
KEPT_BYTES = {"compact": K, "dense": HIDDEN}

GPUS = (2, 4, 8, 16, 32, 64)
GPU_MEMORY = 0.9 * 141e9  # of an H200, with some of it for other things
GPUS_OF_A_MACHINE = 8
NVLINK = 300e9  # bytes a second and GPU within a machine; assumed
# Bytes a second and GPU between machines: 80 % of what it is called; assumed.
WIRES = {"InfiniBand, 400 Gb/s a GPU": 40e9, "Ethernet, 100 Gb/s a machine": 1.25e9}


@dataclass(frozen=True)
class Assumed:
    """What the page changes, to see how much depends on it."""

    edges: int = 2 * CITATIONS  # both directions of a citation, as the graphs that MaxK-GNN trains on have them
    latency: float = 50e-6  # seconds of an exchange, however little is sent
    cut: float = 1.0  # rows that travel, of those that the measured cut has


# ---- Fitted ----


def fitted_line(points):
    """The line y = first + slope * x through points, with the least sum of squared relative errors, and neither
    negative."""
    ones = sum(1 / y**2 for _, y in points)
    ones_x = sum(x / y**2 for x, y in points)
    ones_xx = sum((x / y) ** 2 for x, y in points)
    by_y, x_by_y = sum(1 / y for _, y in points), sum(x / y for x, y in points)
    determinant = ones * ones_xx - ones_x**2
    first = (by_y * ones_xx - ones_x * x_by_y) / determinant
    slope = (ones * x_by_y - ones_x * by_y) / determinant
    if first < 0:
        return 0.0, x_by_y / ones_xx
    if slope < 0:
        return by_y / ones, 0.0
    return first, slope


def gpu_compute(steps):
    """Seconds of a layer for a node and for an edge, fitted to the steps of four graphs on one H200; and the bytes
    of a layer for a node of the largest of them."""
    points = []
    for cell in steps["cells"]:
        if cell["model"] != "sage":
            continue
        (step,) = (variant for variant in cell["variants"] if variant["kind"] == "compact")
        graph, recipe = steps["graphs"][cell["graph"]], cell["recipe"]
        edges = graph["edges"] + (graph["nodes"] if recipe["self_loops"] else 0)
        seconds = step["step_ms"] / 1e3 / recipe["layers"] / graph["nodes"]
        bytes_of_node = step["step_mib"] * 2**20 / recipe["layers"] / graph["nodes"]
        points.append((cell["graph"], edges / graph["nodes"], seconds, bytes_of_node))
    of_node, of_edge = fitted_line([(degree, seconds) for _, degree, seconds, _ in points])
    rows = [(name, seconds, of_node + of_edge * degree) for name, degree, seconds, _ in points]
    largest = max(points, key=lambda point: steps["graphs"][point[0]]["nodes"])
    return of_node, of_edge, largest[3], rows


def cpu_wire(record, megabits):
    """Seconds of an exchange without rows, and bytes a second, between this machine's processes: fitted to the messages
    of a layer alone."""
    layers = record["environment"]["layers"]
    points = [
        (step["slowest_rank_step_bytes"] / layers, step["layer_alone_ms"] / 1e3)
        for step in record["steps"]
        if step["ranks"] > 1 and step["megabits"] == megabits
    ]
    latency, slope = fitted_line(points)
    return latency, 1 / slope


def cpu_predictions(record):
    """The steps of several ranks of this machine, each with predictions in milliseconds: the processor's time of a
    rank, from one rank's and the largest part's share of the work; the messages of a layer; and the step: both, with
    nothing hidden, the sum of the gradients, and ranks that share a core taking turns."""
    alone = {step["graph"]: step for step in record["steps"] if step["ranks"] == 1}
    for step in record["steps"]:
        if step["ranks"] == 1:
            continue
        latency, bandwidth = cpu_wire(record, step["megabits"])
        layers, cores = record["environment"]["layers"], record["environment"]["cores"]
        whole, part, ranks = alone[step["graph"]], step["largest_part"], step["ranks"]
        degree = whole["edges"] / whole["nodes"]
        processor = whole["cpu_ms"] * (part["edges"] + degree * part["nodes"]) / (2 * whole["edges"])
        layer = 1e3 * (latency + step["slowest_rank_step_bytes"] / layers / bandwidth)
        gradients = 1e3 * 2 * (ranks - 1) / ranks * step["gradient_bytes"] / bandwidth
        yield step, processor, layer, processor * max(1, ranks / cores) + layers * layer + gradients


# ---- The model ----


def random_boundary(parts, assumed):
    """Rows that travel, for each node, if owners were drawn at random: each other part needs a node if one of its
    readers is there."""
    readers = assumed.edges / NODES
    return (parts - 1) * (1 - (1 - 1 / parts) ** readers)


def modelled(gpus, exchange, wire, boundary, crossing, compute, assumed):
    """The parts of a step in seconds, and bytes, for one of `gpus` GPUs.

    Args:
        boundary, crossing: how many rows travel for each node; the share of the edges that cross.
    """
    of_node, of_edge, bytes_of_node, _ = compute
    nodes, edges = NODES / gpus, assumed.edges / gpus
    rows = boundary * nodes
    sums = of_edge * edges  # of a layer, there and back
    bandwidth = NVLINK if gpus <= GPUS_OF_A_MACHINE else wire
    exposed = sent = 0.0
    for row_bytes in ROW_BYTES[exchange]:
        sent += rows * row_bytes
        exposed += max(0.0, assumed.latency + rows * row_bytes / bandwidth - sums / 2 * (1 - crossing))
    parameters = FEATURES * HIDDEN + LAYERS * 2 * HIDDEN * HIDDEN + HIDDEN * CLASSES
    gradients = assumed.latency + 2 * 4 * parameters / bandwidth
    # What a step takes without an exchange, features, edges and their transpose with weights; and boundary rows.
    memory = LAYERS * bytes_of_node * nodes + 4 * FEATURES * nodes + 2 * (4 + 4) * edges
    memory += rows * (PEAK_BYTES[exchange] + (LAYERS - 1) * KEPT_BYTES[exchange])
    return {
        "compute": LAYERS * (of_node * nodes + sums),
        "exposed": LAYERS * exposed + gradients,
        "bytes": LAYERS * sent,
        "memory": memory,
    }


def all_rows(cut, compute, assumed):
    """A row for each number of GPUs and wire: steps, bytes and memory of both exchanges, and of compact rows with
    owners drawn at random."""
    for wire_name, wire in WIRES.items():
        for parts in cut["parts"]:
            gpus = parts["parts"]
            shares = assumed.cut * parts["boundary_rows"] / cut["nodes"], parts["crossing_edges"] / cut["edges"]
            row = {"wire": wire_name, "gpus": gpus}
            for exchange in ROW_BYTES:
                row[exchange] = modelled(gpus, exchange, wire, *shares, compute, assumed)
            worst = random_boundary(gpus, assumed), 1 - 1 / gpus
            row["random"] = modelled(gpus, "compact", wire, *worst, compute, assumed)
            yield row


def seconds_of(part):
    return part["compute"] + part["exposed"]
