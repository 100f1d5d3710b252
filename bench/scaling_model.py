"""A model of how long a training step takes on more GPUs than were measured. scaling_page.py writes what it gives."""

# ogbn-papers100M, as its authors describe it (Hu et al., Open Graph Benchmark, NeurIPS 2020).
NODES, EDGES, FEATURES, CLASSES = 111_059_956, 1_615_685_872, 128, 172
HIDDEN, K, LAYERS = 256, 32, 3
ROW_BYTES = {"compact": (K * 4 + K, K * 4), "dense": (HIDDEN * 4, HIDDEN * 4)}  # there and back

GPUS = (2, 4, 8, 16, 32, 64)
GPU_MEMORY = 141e9  # of an H200
GPUS_OF_A_MACHINE = 8
NVLINK = 300e9  # bytes a second and GPU within a machine; assumed
LATENCY = 50e-6  # of an exchange; assumed
# Bytes a second and GPU between machines; assumed.
WIRES = {"InfiniBand, 400 Gb/s a GPU": 40e9, "Ethernet, 100 Gb/s a machine": 1.25e9}


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
    """Seconds of a layer for a node and for an edge: fitted to the steps of four graphs on one H200."""
    points = []
    for timing in steps["timings"]:
        recipe = timing["recipe"]
        if timing["selection"] == "exact" and recipe["model"] == "sage":
            graph = steps["graphs"][timing["graph"]]
            edges = graph["edges"] + (graph["nodes"] if recipe["self_loops"] else 0)
            seconds = timing["step_ms"] / 1e3 / recipe["layers"]
            points.append((timing["graph"], edges / graph["nodes"], seconds / graph["nodes"], timing))
    of_node, of_edge = fitted_line([(degree, seconds) for _, degree, seconds, _ in points])
    rows = [(name, seconds, of_node + of_edge * degree) for name, degree, seconds, _ in points]
    largest = max((timing for *_, timing in points), key=lambda timing: steps["graphs"][timing["graph"]]["nodes"])
    nodes = steps["graphs"][largest["graph"]]["nodes"]
    bytes_of_node = largest["step_mib"] * 2**20 / nodes / largest["recipe"]["layers"]
    return of_node, of_edge, bytes_of_node, rows


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
    """Measured and predicted steps of this machine: the step of one rank, by the largest share of the work, by how many
    ranks share a core, and the messages. Nothing of a message is hidden."""
    alone = {step["graph"]: step for step in record["steps"] if step["ranks"] == 1}
    for step in record["steps"]:
        if step["ranks"] == 1:
            continue
        latency, bandwidth = cpu_wire(record, step["megabits"])
        whole, part, ranks = alone[step["graph"]], step["largest_part"], step["ranks"]
        degree = whole["edges"] / whole["nodes"]
        share = (part["edges"] + degree * part["nodes"]) / (2 * whole["edges"])
        compute = whole["step_ms"] * share * max(1, ranks / record["environment"]["cores"])
        sent = step["slowest_rank_step_bytes"] + 2 * (ranks - 1) / ranks * step["gradient_bytes"]
        yield step, compute + 1e3 * (record["environment"]["layers"] * latency + sent / bandwidth)


# ---- The model ----


def random_boundary(parts):
    """Rows that travel, for each node, if owners were drawn at random: each other part needs a node if one of its
    readers is there."""
    readers = EDGES / NODES
    return (parts - 1) * (1 - (1 - 1 / parts) ** readers)


def modelled(gpus, exchange, wire, boundary, crossing, compute):
    """The parts of a step in seconds, for one of `gpus` GPUs."""
    of_node, of_edge, _, _ = compute
    nodes, edges = NODES / gpus, EDGES / gpus
    sums = of_edge * edges  # of a layer, there and back
    bandwidth = NVLINK if gpus <= GPUS_OF_A_MACHINE else wire
    exposed = sent = 0.0
    for row_bytes in ROW_BYTES[exchange]:
        bytes_ = boundary * nodes * row_bytes
        sent += bytes_
        exposed += max(0.0, LATENCY + bytes_ / bandwidth - sums / 2 * (1 - crossing))
    parameters = FEATURES * HIDDEN + LAYERS * 2 * HIDDEN * HIDDEN + HIDDEN * CLASSES
    gradients = LATENCY + 2 * 4 * parameters / bandwidth
    return {
        "compute": LAYERS * (of_node * nodes + sums),
        "exposed": LAYERS * exposed + gradients,
        "bytes": LAYERS * sent,
    }


def memory_of(gpus, compute):
    """Bytes of one GPU: what a step takes for each node and layer, features, and the edges with their transpose."""
    step = compute[2] * LAYERS * NODES
    return (step + 4 * FEATURES * NODES + 2 * (4 + 4) * EDGES) / gpus


def all_rows(cut, compute):
    """A row for each number of GPUs and wire: steps and bytes of both exchanges."""
    for wire_name, wire in WIRES.items():
        for parts in cut["parts"]:
            gpus = parts["parts"]
            shares = parts["boundary_rows"] / cut["nodes"], parts["crossing_edges"] / cut["edges"]
            row = {"wire": wire_name, "gpus": gpus, "boundary": shares[0], "memory": memory_of(gpus, compute)}
            for exchange in ROW_BYTES:
                row[exchange] = modelled(gpus, exchange, wire, *shares, compute)
            worst = random_boundary(gpus), 1 - 1 / gpus
            row["random"] = modelled(gpus, "compact", wire, *worst, compute)
            yield row


def seconds_of(part):
    return part["compute"] + part["exposed"]
