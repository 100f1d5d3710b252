#!/usr/bin/env python3
"""Writes the GPU results of compare_operators.py into the documentation, between two marker lines.

python bench/operator_tables.py [bench/results/torch-h200.json] [docs/python.md]
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- begin: bench/operator_tables.py -->\n", "<!-- end -->\n"


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def milliseconds(times):
    return " + ".join(f"{time / 1000:.3g}" for time in times) if times else "–"


def model_name(model):
    shape = f"{model['rows']} x {model['hidden']}, k = {model['k']}, {model['dtype']}"
    return f"{model['name']} ({shape})"


def models(record):
    selections = list(record[0]["microseconds"])
    rows = [
        [model_name(model), *(milliseconds(model["microseconds"].get(name)) for name in selections)] for model in record
    ]
    return table(["forward + backward, ms", *selections], rows)


def times(heads, lines, label, columns, digits=2):
    """A table of two times in microseconds, the `columns` of the record, and their ratio."""
    rows = [
        [label(line), *(f"{line[column]:.1f}" for column in columns), f"{line['ratio']:.{digits}f}"] for line in lines
    ]
    return table(heads, rows)


def text_of(record, source):
    facts = record["environment"]
    beside_torch = ("torch_us", "rtopk_us")
    parts = [
        f"Measured on an {facts['device']} with torch {facts['torch']} by `bench/compare_operators.py`; {source} has"
        " all of it. Models, the time of the GPU:\n",
        models(record["models"]),
        "A small call (4 x 16, k = 4), the time of the host:\n",
        times(
            ["call", "torch.topk, us", "rtopk.topk, us", "ratio"],
            record["small_calls"],
            lambda line: line["call"],
            beside_torch,
        ),
    ]
    if "operator" in record:
        parts += [
            "The operator beside the library's own call:\n",
            times(
                ["rows x columns, k", "library, us", "operator, us", "ratio"],
                record["operator"],
                lambda line: f"{line['rows']} x {line['cols']}, {line['k']}",
                ("kernel_us", "operator_us"),
                digits=3,
            ),
        ]
    if "columns" in record:
        parts += [
            "Along a dimension that is not the last one:\n",
            times(
                ["shape, k, dim", "torch.topk, us", "rtopk.topk, us", "times"],
                record["columns"],
                lambda line: f"{' x '.join(map(str, line['shape']))}, {line['k']}, {line['dim']}",
                beside_torch,
            ),
        ]
    return "\n".join(parts)


def main():
    paths = [ROOT / "bench" / "results" / "torch-h200.json", ROOT / "docs" / "python.md"]
    source, page = [Path(given) for given in sys.argv[1:]] + paths[len(sys.argv) - 1 :]
    text = page.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"{page} does not have the lines {BEGIN.strip()} and {END.strip()}")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    made = text_of(json.loads(source.read_text()), f"bench/results/{source.name}")
    written = page.with_name(page.name + ".part")
    written.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}")
    written.replace(page)
    print(f"written: {page}")


if __name__ == "__main__":
    main()
