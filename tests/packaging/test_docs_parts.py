"""The figures of docs/distributed.md about graphs in parts are the measured ones."""

import json

from test_docs import DOCS, ROOT, table_after

PAGE = DOCS / "distributed.md"


def measured(name):
    return json.loads((ROOT / "bench" / "results" / name).read_text())


def words():
    return " ".join(PAGE.read_text().split())


STEPS = (
    "| graph | ranks | wire | MB a step: compact, dense | MB an epoch | processor's time of a rank and step, ms |"
    " messages of a layer alone, ms | waiting for rows in a step, ms | step, ms |"
)


TIMES = ("cpu_ms", "layer_alone_ms", "waiting_for_rows_ms", "step_ms")


def megabytes(sent):
    return f"{sent / 1e6:.1f}" if sent else "0"


def wire(step):
    if step["ranks"] == 1:
        return "-"
    return f"{step['megabits']} Mb/s a rank" if step["megabits"] else "loopback"


def test_steps():
    """A row of the page is both exchanges of a graph, ranks and wire; one rank has one of them, and no wire."""
    rows = {}
    for step in measured("parts-cpu.json")["steps"]:
        rows.setdefault((step["graph"], str(step["ranks"]), wire(step)), []).append(step)
    table = table_after(PAGE, STEPS)
    assert [tuple(cells[:3]) for cells in table] == list(rows)
    for (_, ranks, _, *cells), steps in zip(table, rows.values(), strict=True):
        parts = ("cpu_ms", "step_ms") if ranks == "1" else TIMES
        times = [", ".join(f"{step[part]:.0f}" for step in steps) if part in parts else "-" for part in TIMES]
        sent = [", ".join(megabytes(step[part]) for step in steps) for part in ("step_bytes", "epoch_bytes")]
        assert [step["exchange"] for step in steps] == ["compact", "dense"][: len(steps)]
        assert cells == [*sent, *times], (ranks, steps[0]["graph"])


def test_what_is_said_about_the_steps():
    record, text = measured("parts-cpu.json"), words()
    steps, environment = record["steps"], record["environment"]
    sent = {(step["exchange"], step["boundary_rows"]): step["step_bytes"] for step in steps if step["ranks"] > 1}
    (ratio,) = {f"{sent['dense', rows] / sent['compact', rows]:.1f}" for _, rows in sent}
    k, cols = environment["k"], environment["hidden"]
    bytes_of_row = f"{5 * k + 4 * k} instead of {2 * 4 * cols:,} a row, layer and step"
    assert f"Compact rows send {ratio} times fewer bytes: {bytes_of_row}" in text
    assert {step["method"] for step in steps} == {"metis"}
    assert f"METIS, SAGE with {environment['layers']} layers of {cols} and k = {k};" in text
    cores = {"aarch64, 2 cores": "two ARM cores", "x86_64, 2 cores": "two x86-64 cores"}[environment["device"]]
    assert f"({cores}, gloo, METIS" in text


def test_accuracy():
    record = measured("parts-accuracy-cpu.json")
    rows = table_after(PAGE, "| seed | 0 | 1 | 2 | 3 | 4 | difference from one rank |")
    for (name, *cells), found in zip(rows, record["accuracy"], strict=True):
        assert name == ("1 rank" if found["ranks"] == 1 else f"{found['ranks']} ranks")
        assert cells[:-1] == [f"{entry['test']:.4f}" for entry in found["seeds"]]
        if found["ranks"] == 1:
            assert cells[-1] == ""
            continue
        assert cells[-1] == f"{found['mean_difference']:+.4f} ± {found['standard_error']:.4f}"
        assert abs(found["mean_difference"]) < found["standard_error"]  # as the page says
    facts, text = record["environment"], words()
    assert (facts["model"], facts["layers"]) == ("sage", 3)
    assert f"after {facts['epochs']} epochs, SAGE with three layers of {facts['hidden']}, k = {facts['k']}" in text
