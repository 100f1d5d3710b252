#!/usr/bin/env python3
"""Writes the results of compare_arrays.py into the documentation, between two marker lines.

python bench/array_tables.py [bench/results/arrays-cpu.json] [docs/numpy.md]
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- begin: bench/array_tables.py -->\n", "<!-- end -->\n"
# What each column is. A record need not have all of them.
COLUMNS = {
    "copy": "copy",
    "rtopk": "rtopk",
    "rtopk, 1 thread": "1 thread",
    "rtopk, unsorted": "unsorted",
    "rtopk, nan last": "NaN last",
    "pairs": "argpartition, take_along_axis",
    "argpartition": "argpartition",
    "partition": "partition",
    "sort": "sort",
    "torch.topk": "torch.topk",
}


def digits(number):
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def table(records, unit):
    """Times in units of so many nanoseconds."""
    names = [name for name in COLUMNS if name in records[0]["ns"]]
    heads = ["shape, k", *(COLUMNS[name] for name in names)]
    lines = [heads, ["---"] * len(heads)]
    for record in records:
        what = " x ".join(map(str, record["shape"])) + f", {record['k']}"
        lines.append([what, *(digits(record["ns"][name] / unit) for name in names)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def text_of(record, source):
    where = (
        f"an {record['gpu']} with CuPy {record['cupy']}"
        if "gpu" in record
        else f"a {record['cpu']} with {record['threads']} threads"
    )
    float32 = [each for each in record["tables"] if each["dtype"] == "float32"]
    imports = ", ".join(f"{name} {digits(each['ms'])} ms" for name, each in record["import"].items())
    return (
        f"Measured on {where}, NumPy {record['numpy']}, by `bench/compare_arrays.py`; {source} has all of it.\n"
        f"Imports: {imports}. Small calls, the host's microseconds:\n\n{table(record['small'], 1e3)}\n"
        f"Larger arrays of float32, milliseconds:\n\n{table(float32, 1e6)}"
    )


def main():
    source = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "bench/results/arrays-cpu.json").resolve()
    page = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/numpy.md")
    record = json.loads(source.read_text())
    before, rest = page.read_text().split(BEGIN)
    text = text_of(record, source.relative_to(ROOT).as_posix())
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main()
