"""The part about training as a page of its own, for paper/gnn/study.py: the same text, tables and figures."""

from nodes import Node
from page import render_template
from provenance import commits
from summary import training_summary
from training_figures import training_pictures

KINDS = ("training", "steps", "table4")


def training_page(names, contents):
    """`names` and `contents` of the files by what they are: training, and steps and table4 if they are there. Returns
    the content of summary.json, and the page."""
    summary = training_summary(contents)
    summary["commits"] = commits({names[kind]: content for kind, content in contents.items()})
    node = Node(summary, "summary.json#")
    files = {kind: Node(contents[kind], f"{names[kind]}#") if kind in contents else None for kind in KINDS}
    listed = [names[kind] for kind in contents] + ["summary.json"]
    figures = training_pictures(node, files)
    return summary, render_template("training_page.html", figures, summary=node, files=files, names=listed)
