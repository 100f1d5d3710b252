"""The training steps of one model on one graph: with torch.topk, with only top-k replaced, compact, and PyTorch
Geometric's. All of them have the same recipe, the same graph and the same initial parameters."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace

import torch

import pyg
from measure import medians, selected_rows, step_memory
from percent import amdahl_percent, published, speedup_percent
from rtopk.gnn import Dataset, MaxKGNN
from rtopk.gnn.capture import EAGER_STEPS
from rtopk.gnn.recipe import Recipe
from rtopk.gnn.training import Trainer
from rtopk.gnn.training.trainer import matmul_precision
from selections import EXACT, TORCH, Selection, replace_topk

# Largest relative differences from torch.topk's step, of variants that select the same elements. Their sums have other
# orders, and of two elements that differ by rounding alone they may select either.
TOLERANCES = {"loss": 1e-4, "gradient_norm": 1e-3}


def measure_cell(
    dataset: Dataset, recipe: Recipe, compared: Sequence[Selection], device: torch.device, repetitions: int
) -> dict:
    """Figures of all variants. The recipe is that of the dense baseline; torch.topk is among `compared`."""
    variants = {
        selection.name: {"kind": selection.kind, "max_iter": selection.max_iter, "rule": selection.rule}
        for selection in compared
    }
    variants["compact"] = {"kind": "compact"}
    cell = {"graph": dataset.name, "model": recipe.model, "recipe": asdict(recipe)}
    cell["published"] = published(dataset.name, recipe.model)
    cell |= _measure_ours(variants, dataset, recipe, compared, device, repetitions)
    _free(device)
    for form in pyg.FORMS:
        variant = variants[f"pyg {form}"] = {"kind": "pyg"}
        if reason := pyg.missing():
            variant["error"] = reason
        else:
            with _reported_in(variant, foreign=True):
                _measure_pyg(variant, dataset, recipe, form, device, repetitions)
        _free(device)
    _derive(cell, variants)
    return cell | {"variants": [{"name": name} | variant for name, variant in variants.items()]}


# ---- Steps ----


def _measure_ours(
    variants: dict[str, dict],
    dataset: Dataset,
    recipe: Recipe,
    compared: Sequence[Selection],
    device: torch.device,
    repetitions: int,
) -> dict:
    """Measures the variants. Returns figures of the whole cell."""
    dense = Trainer(dataset, recipe, device, eager=True)
    compact = Trainer(dataset, replace(recipe, baseline=None), device)
    for selection in compared:  # before the first update
        replace_topk(dense.network, selection)
        with _reported_in(variants[selection.name]):
            variants[selection.name] |= _first_outcome(dense)
    with _reported_in(variants["compact"]):
        variants["compact"] |= _first_outcome(compact)
        compact.eager_step()
        variants["compact"] |= step_memory(compact)
        for _ in range(EAGER_STEPS + 1):  # the last one is captured, if the graph is small
            compact.step()
    running = [selection for selection in compared if "error" not in variants[selection.name]]
    cell = {}
    with _reported_in(variants[TORCH.name]):
        replace_topk(dense.network, TORCH)
        rows = selected_rows(dense)
        cell["same_selection"] = all(_same_values(x, recipe.k) for x in rows)
        for name, time in _selection_times(rows, running, recipe.k, device, repetitions).items():
            variants[name]["topk_ms"] = time
        cell["maxk_ms"] = _maxk_time(rows, dense.network.convolutions[0].activation, device, repetitions)
        rows.clear()
        variants[TORCH.name] |= step_memory(dense)
    steps = {selection.name: _step_with(dense, selection) for selection in running} | {"compact": compact.step}
    steps = {name: step for name, step in steps.items() if "error" not in variants[name]}
    with _reported_in(*(variants[name] for name in steps)):
        for name, time in medians(steps, device, repetitions).items():
            variants[name]["step_ms"] = time
    return cell


def _step_with(trainer: Trainer, selection: Selection) -> Callable[[], object]:
    def step() -> torch.Tensor:
        replace_topk(trainer.network, selection)
        return trainer.eager_step()

    return step


def _measure_pyg(
    variant: dict, dataset: Dataset, recipe: Recipe, form: str, device: torch.device, repetitions: int
) -> None:
    trainer = Trainer(dataset, recipe, device, eager=True)
    pyg.use_pyg(trainer.network, pyg.edges_of(trainer.data.graph, form))
    variant |= _first_outcome(trainer)
    trainer.eager_step()
    variant |= step_memory(trainer)
    variant["step_ms"] = medians({"": trainer.eager_step}, device, repetitions)[""]


def _first_outcome(trainer: Trainer) -> dict[str, float]:
    """Loss and norm of the gradient at the initial parameters, without dropout: compact rows draw other random numbers
    for it."""
    with _without_dropout(trainer.network), matmul_precision(trainer.recipe.precision):
        trainer.network.train()
        loss = trainer.loss(trainer.network(trainer.data.features, trainer.data.graph))
        loss.backward()
    norm = torch.stack([parameter.grad.norm() for parameter in trainer.network.parameters()]).norm()
    trainer.optimizer.zero_grad(set_to_none=True)
    return {"loss": loss.item(), "gradient_norm": norm.item()}


@contextlib.contextmanager
def _without_dropout(network: MaxKGNN) -> Iterator[None]:
    before = [convolution.dropout for convolution in network.convolutions]
    for convolution in network.convolutions:
        convolution.dropout = 0.0
    try:
        yield
    finally:
        for convolution, dropout in zip(network.convolutions, before, strict=True):
            convolution.dropout = dropout


# ---- Top-k alone ----


def _same_values(x: torch.Tensor, k: int) -> bool:
    """Whether exact selection finds the same values as torch.topk. Of equal elements it may take others."""
    ours, theirs = (selection.select(x, k).values.sort(descending=True).values for selection in (EXACT, TORCH))
    return torch.equal(ours, theirs)


def _selection_times(
    rows: list[torch.Tensor], compared: Sequence[Selection], k: int, device: torch.device, repetitions: int
) -> dict[str, float]:
    """The time of all selections of a step: of every layer's own rows, one layer after the other."""

    def select_with(selection: Selection) -> Callable[[], None]:
        def select() -> None:
            for x in rows:
                selection.select(x, k)

        return select

    return medians({selection.name: select_with(selection) for selection in compared}, device, repetitions)


def _maxk_time(rows: list[torch.Tensor], activation: torch.nn.Module, device: torch.device, repetitions: int) -> float:
    """The time of all MaxK of a step with torch.topk: selection, mask and product, and backward their derivative."""
    leaves = [x.requires_grad_() for x in rows]

    def maxk() -> None:
        for x in leaves:
            torch.autograd.grad(activation(x).rows, x, x.detach())

    return medians({"": maxk}, device, repetitions)[""]


# ---- What follows from the times ----


def _derive(cell: dict, variants: dict[str, dict]) -> None:
    """Shares, speed-ups, and whether the outcomes agree."""
    baseline = variants[TORCH.name]
    if "error" in baseline:
        return
    step, topk = baseline["step_ms"], baseline["topk_ms"]
    cell["topk_share_percent"] = 100 * topk / step
    cell["maxk_share_percent"] = 100 * cell["maxk_ms"] / step
    for variant in variants.values():
        if variant is baseline or "step_ms" not in variant:
            continue
        variant["speedup_percent"] = speedup_percent(step, variant["step_ms"])
        if "topk_ms" in variant:
            factor = variant["topk_speedup"] = topk / variant["topk_ms"]
            variant["amdahl_percent"] = amdahl_percent(cell["topk_share_percent"], factor)
            if cell["published"]:
                share = cell["published"]["topk_share_percent"]
                variant["amdahl_of_published_share_percent"] = amdahl_percent(share, factor)
        if variant.get("max_iter") is None:
            variant["agrees"] = all(_close(variant[name], baseline[name], TOLERANCES[name]) for name in TOLERANCES)


def _close(value: float, expected: float, tolerance: float) -> bool:
    return abs(value - expected) <= tolerance * abs(expected)


# ---- Memory ----


@contextlib.contextmanager
def _reported_in(*variants: dict, foreign: bool = False) -> Iterator[None]:
    """If memory does not suffice, the variants say so, and the others go on. So they do with any error of foreign
    code."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        out_of_memory = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "CPUAllocator" in str(error)
        if not out_of_memory and not foreign:
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        for variant in variants:
            variant["error"] = f"out of memory: {reason}" if out_of_memory else reason


def _free(device: torch.device) -> None:
    """Gives back what ended variants have kept."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
