#!/usr/bin/env python3
"""Writes index.html from the JSON files in the same folder: study*.json, kernels.json, summary.json and run.json, and
those about training that are there: training.json, steps.json, table4.json.

    python paper/page/page.py build/paper

The page is one file, without scripts and without anything from the network. Nothing is computed here: every number
names its place in the JSON as the attribute data-at, for example "summary.json#/table3/0/entries/2/published".
"""

import argparse
from pathlib import Path

import jinja2
from markupsafe import Markup

import bench_folder  # noqa: F401
import charts
import formats
from figures import pictures
from nodes import load
from training import NAMES
from training_figures import training_pictures

HERE = Path(__file__).resolve().parent


def environment():
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "num": formats.number,
        "compared": formats.compared,
        "power": formats.row_count,
        "prose": formats.prose,
        "scored": formats.scored,
        "setting": formats.setting_name,
        "short_commit": formats.short_commit,
        "thousands": formats.thousands,
    }
    return made


def render_template(name, figures, **values):
    css = Markup(charts.STYLE + (HERE / "page.css").read_text())
    shown = {figure: Markup(text) for figure, text in figures.items()}
    return environment().get_template(name).render(figures=shown, css=css, model_names=NAMES, **values)


def render(folder):
    files = load(folder)
    summary, study = files["summary"], files["study"]
    return render_template(
        "page.html",
        pictures(files) | training_pictures(summary, files),
        files={"training": None, "steps": None, "table4": None} | files,
        kernels=files["kernels"],
        summary=summary,
        run=files["run"],
        study=study,
        studies={name: node for name, node in files.items() if name.startswith("study")},
        parts={str(part["part"]): part for part in study["parts"]},
    )


def write(folder):
    part = folder / "index.html.part"
    part.write_text(render(folder))
    part.replace(folder / "index.html")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=HERE.parents[1] / "build" / "paper")
    folder = parser.parse_args().folder
    write(folder)
    print(f"written: {folder / 'index.html'}")


if __name__ == "__main__":
    main()
