"""The figures of docs/distributed.md about mini-batches are the measured ones."""

import json
import re

import pytest

from test_docs import DOCS, ROOT, table_after

PAGE = DOCS / "distributed.md"
MODELS = ("sage", "gcn", "gin")
PAIRS = "PyG, pairs"


def measured(name):
    return json.loads((ROOT / "bench" / "results" / name).read_text())


def words():
    return " ".join(PAGE.read_text().split())


def cells_of(header, columns):
    """Of the table with this header, the rows by model, and of each the numbers."""
    rows = {name.lower(): cells for name, *cells in table_after(PAGE, header)}
    assert list(rows) == list(MODELS) and all(len(cells) == columns for cells in rows.values())
    return rows


def times(cell, names, digits):
    return [f"{cell['ms'][name]:,.{digits}f}" if name in cell["ms"] else "" for name in names]


def cost_of_graphs(steps, digits):
    """What is said about a step that makes its graphs, beside one whose graphs are given."""
    making = [cell["ms"]["rtopk"] - cell["ms"]["rtopk, graphs given"] for cell in steps.values()]
    return f"Making the graphs costs a step {min(making):.{digits}f} to {max(making):.{digits}f} ms"


@pytest.mark.parametrize(
    ("file", "header", "more"),
    [
        ("batches-n1-1-thread.json", "| ms | PyG, trim_to_layer | PyG, (x_src, x_dst) | rtopk | ratio |", []),
        (
            "loaders-steps-n1-1-thread.json",
            "| ms | PyG, trim_to_layer | PyG, (x_src, x_dst) | rtopk | ratio | rtopk without `hops_of` |",
            ["rtopk, all nodes"],
        ),
    ],
)
def test_steps_on_a_cpu(file, header, more):
    steps = measured(file)["steps"]
    for model, cells in cells_of(header, 4 + len(more)).items():
        found = times(steps[model], ("PyG, trim_to_layer", PAIRS, "rtopk"), 0)
        assert cells == [*found, f"{steps[model]['ratio']:.2f}", *times(steps[model], more, 0)], model


def test_graphs_and_layers_on_a_cpu():
    facts = measured("batches-n1-1-thread.json")
    assert cost_of_graphs(facts["steps"], 0) in words()
    layers = facts["layers"]
    rows = table_after(PAGE, "| sources, targets, edges | SAGE | GCN | GIN |")
    for number, (sizes, *cells) in enumerate(rows):
        expected = [layers[model][number] for model in MODELS]
        parts = (expected[0][part] for part in ("sources", "targets", "edges"))
        assert sizes == ", ".join(f"{part:,}" for part in parts)
        for cell, of in zip(cells, expected, strict=True):
            graph, layer = cell.split(" of ")
            digits = len(graph.partition(".")[2])
            assert (graph, layer) == (f"{of['graph_ms']:.{digits}f}", f"{of['layer_ms']:,.0f}"), (sizes, cell)


def test_gradients_on_an_h200():
    steps = measured("batches-h200.json")["steps"]
    header = (
        "| | rows with another selection | gradients differ by | with the same selections | rtopk from float64 |"
        " PyG from float64 |"
    )
    for model, (rows, *cells) in cells_of(header, 5).items():
        of = steps[model]["selections"]
        assert rows == " of ".join(f"{sum(layer[part] for layer in of['layers']):,}" for part in ("other", "rows"))
        assert cells == [f"{of[part]:.1e}" for part in ("distance", "distance_with_the_same", "error", "error_of_pyg")]


def test_steps_on_an_h200():
    facts, text = measured("batches-h200.json"), words()
    header = (
        "| ms | PyG, trim_to_layer | PyG, (x_src, x_dst) | rtopk | ratio | graphs given | captured | ratio, captured |"
    )
    for model, cells in cells_of(header, 7).items():
        cell = facts["steps"][model]
        assert cells == [
            *times(cell, ("PyG, trim_to_layer", PAIRS), 1),
            *times(cell, ("rtopk",), 2),
            f"{cell['ratio']:.2f}",
            *times(cell, ("rtopk, graphs given", "rtopk, captured"), 2),
            f"{cell['captured_ratio']:.2f}",
        ], model
    assert cost_of_graphs(facts["steps"], 2) in text
    layers = [layer for of_model in facts["layers"].values() for layer in of_model]
    graph, whole = ([layer[part] for layer in layers] for part in ("graph_ms", "layer_ms"))
    assert f"takes {min(graph):.2f} to {max(graph):.2f} ms, and the layer" in text
    assert f"backward, {min(whole):.2f} to {max(whole):.2f}." in text
    assert f"on the GPU takes {facts['sampling_ms']:.1f} ms more" in text


def test_coauthor_physics_on_an_h200():
    models = measured("batches-physics-256-h200.json")["accuracy"]["models"]
    header = "| | PyG, ms | rtopk, ms | captured, ms | ratio | ratio, captured | difference | difference, captured |"
    for model, (name, *row) in zip(MODELS, table_after(PAGE, header), strict=True):
        cell = models[model]
        theirs = PAIRS if PAIRS in cell["seeds"][0] else "PyG, trim_to_layer"
        steps = [[entry[way]["step_ms"] for entry in cell["seeds"]] for way in (theirs, "rtopk", "rtopk, captured")]
        both = (cell, cell["captured"])
        assert name == model.upper() and row == [
            *(f"{min(each):.1f} to {max(each):.1f}" for each in steps),
            *(f"{of['step_ratio']:.2f}" for of in both),
            *(f"{of['mean_difference']:+.4f} ± {of['standard_error']:.4f}" for of in both),
        ]
        assert cell["captured"]["step_ratio"] > 2  # as the page says


def test_accuracy_on_a_cpu():
    models = measured("batches-physics-epyc-1-thread.json")["accuracy"]["models"]
    rows = table_after(PAGE, "| seed | 0 | 1 | 2 | 3 | 4 | difference | ratio |")
    assert [row[0] for row in rows] == [f"{model.upper()}, {name}" for model in MODELS for name in ("PyG", "rtopk")]
    for model, *pair in zip(MODELS, rows[::2], rows[1::2], strict=True):
        cell = models[model]
        theirs = PAIRS if PAIRS in cell["seeds"][0] else "PyG, trim_to_layer"
        for name, row in zip((theirs, "rtopk"), pair, strict=True):
            assert row[1:6] == [f"{entry[name]['test']:.4f}" for entry in cell["seeds"]], row[0]
        difference = f"{cell['mean_difference']:+.4f} ± {cell['standard_error']:.4f}"
        assert pair[0][6:] == ["", ""] and pair[1][6:] == [difference, f"{cell['step_ratio']:.2f}"], model
        assert abs(cell["mean_difference"]) < cell["standard_error"]  # as the page says
    other = measured("batches-physics-n1-1-thread.json")["accuracy"]
    assert (
        f"of SAGE is {other['mean_difference']:+.4f} with an error of {other['standard_error']:.4f}, and its ratio"
        f" {other['step_ratio']:.2f}."
    ) in words()


def test_steps_of_wider_networks_on_a_cpu():
    models = measured("batches-physics-256-xeon-1-thread.json")["accuracy"]["models"]
    sage, gcn, gin = (f"{models[model]['step_ratio']:.2f}" for model in MODELS)
    assert f"With 256 columns a step is {sage} (SAGE), {gcn} (GCN) and {gin} times (GIN) as fast" in words()


def test_sizes_of_mini_batches():
    counts = measured("batches-sizes-physics.json")["accuracy"]["mini_batches_by_size"]
    (total,) = {sum(of_seed) for of_seed in counts}
    sizes = [len(of_seed) for of_seed in counts]
    stated = re.search(
        r"has (\d+) mini-batches in ten epochs: (\d+) to (\d+) of them .*?, of (\d+) to (\d+) sizes", words()
    )
    expected = (total, total - max(sizes), total - min(sizes), min(sizes), max(sizes))
    assert tuple(map(int, stated.groups())) == expected
