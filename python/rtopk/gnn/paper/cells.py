"""The cells of the table: model x graph x top-k x seed, each with the recipe of MaxK-GNN and a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..recipe import Recipe, recipe_for
from ..training import CHECKPOINT

# What the paper and MaxK-GNN have in common for all graphs: M and k, TF32, Xavier's weights. MaxK-GNN's own script has
# 384 columns for Yelp; the paper has 256 everywhere.
SETTINGS = {"hidden": 256, "k": 32, "precision": "high", "initialization": "xavier"}
FIRST_SEED = 97

TOP_KS = ("dense", "exact", *map(str, range(2, 9)))


@dataclass
class Cell:
    graph: str
    recipe: Recipe
    folder: Path
    epochs_done: int = 0
    best: dict | None = None  # once it has finished

    @property
    def name(self) -> str:
        return f"{self.graph} {self.recipe.model} {self.recipe.top_k}, seed {self.recipe.seed}"

    @property
    def checkpoint(self) -> Path:
        return self.folder / CHECKPOINT

    @property
    def epochs_left(self) -> int:
        return self.recipe.epochs - self.epochs_done


def make_cells(
    graphs: Sequence[str], models: Sequence[str], top_ks: Sequence[str], seeds: int, out: Path, **changes
) -> list[Cell]:
    """Seed by seed, and graph by graph: if it is stopped early, all graphs and models have equally many seeds."""
    cells = []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        for graph in graphs:
            for model in models:
                for choice in _choices(top_ks):
                    recipe = recipe_for(graph, model, **SETTINGS | changes | choice, seed=seed)
                    cells.append(Cell(graph, recipe, out / recipe.run_name(graph)))
    return list({cell.folder: cell for cell in cells}.values())  # each once, also if it is named twice


def _choices(top_ks: Sequence[str]) -> Iterator[dict]:
    for top_k in top_ks:
        if top_k == "dense":
            yield {"baseline": "dense"}
        else:
            yield {} if top_k == "exact" else {"max_iter": int(top_k)}
