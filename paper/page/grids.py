"""What kernels.py measures: the shapes and settings of the RTop-K paper's kernel experiments, and a few more."""

from dataclasses import dataclass, replace

import bench_folder  # noqa: F401
from gpu_grids import Cell

# Settings by name, as options of the library. The paper's "no early stopping" is an exact selection by bisection; ours
# is rtopk's own exact search.
EXACT = "exact"
BISECTION = "bisection"
RULE = "threshold_first"  # what is selected after max_iter passes: as the paper's kernel does
MAX_ITERS = {f"max_iter={n}": {"max_iter": n, "rule": RULE} for n in range(2, 9)}
EPSILONS = {f"epsilon={epsilon:g}": {"epsilon": epsilon} for epsilon in (1e-2, 1e-4, 1e-6)}
# The same with the paper's passes, one by one; without it the library finds the same results in another way.
PASSES = {f"{BISECTION} {name}": options | {"search": "bisection"} for name, options in (MAX_ITERS | EPSILONS).items()}
SETTINGS = {EXACT: {}, BISECTION: {"search": "bisection"}} | MAX_ITERS | EPSILONS | PASSES

TYPES = ("f32", "f16", "bf16")


@dataclass(frozen=True)
class Experiment:
    """One shape, measured with several settings and with torch.topk."""

    cell: Cell
    settings: tuple

    def cells(self):
        return {setting: replace(self.cell, **SETTINGS[setting]) for setting in self.settings}

    @property
    def max_iters(self):
        return tuple(dict.fromkeys(cell.max_iter for cell in self.cells().values() if cell.max_iter))

    @property
    def among_peers(self):
        """Whether all peers are timed in it. Some of them compile for every shape, and some sort whole rows, so it is
        a part of the experiments; the authors' kernel is timed in all of them."""
        few_cols = FEW_COLS if self.cell.set == "sweep" else ALL_COLS
        few_ks = FEW_SWEEP_KS if self.cell.set == "sweep" else FEW_KS
        return self.cell.set == "data" or (
            self.cell.dtype == "f32" and self.cell.cols in few_cols and self.cell.k in few_ks
        )


@dataclass(frozen=True)
class Scale:
    """How many shapes and settings to measure, by what a device can do in reasonable time."""

    grid_rows: tuple
    grid_ks: tuple
    sweep_rows: int
    sweep_cols: tuple
    sweep_ks: tuple
    max_iters: tuple
    epsilons: tuple
    data_shapes: tuple  # (rows, cols, k)


ALL_COLS = (128, 256, 512, 768, 1024, 1280, 2048, 3072, 4096, 6144, 8192)
FEW_COLS = (128, 512, 2048, 8192)
ALL_KS, FEW_KS = (16, 32, 64, 96, 128), (16, 64, 128)
SWEEP_KS, FEW_SWEEP_KS = (64, 128, 256, 512), (64, 256)
FEW_MAX_ITERS, FEW_EPSILONS = ("max_iter=2", "max_iter=4", "max_iter=8"), ("epsilon=0.0001",)


def data_shapes(elements):
    return tuple((elements // cols, cols, k) for cols, k in ((256, 32), (1024, 64), (4096, 64)))


# The first is the paper's own scale.
SCALES = {
    ("gpu", False): Scale(
        grid_rows=(1 << 14, 1 << 16, 1 << 18, 1 << 20),
        grid_ks=ALL_KS,
        sweep_rows=1 << 16,
        sweep_cols=ALL_COLS,
        sweep_ks=SWEEP_KS,
        max_iters=tuple(MAX_ITERS),
        epsilons=tuple(EPSILONS),
        data_shapes=data_shapes(1 << 26),
    ),
    ("gpu", True): Scale(
        grid_rows=(1 << 16, 1 << 18),
        grid_ks=FEW_KS,
        sweep_rows=1 << 16,
        sweep_cols=FEW_COLS,
        sweep_ks=FEW_SWEEP_KS,
        max_iters=tuple(MAX_ITERS),
        epsilons=FEW_EPSILONS,
        data_shapes=data_shapes(1 << 26),
    ),
    ("cpu", False): Scale(
        grid_rows=(1 << 10, 1 << 12, 1 << 14),
        grid_ks=ALL_KS,
        sweep_rows=1 << 11,
        sweep_cols=ALL_COLS,
        sweep_ks=SWEEP_KS,
        max_iters=tuple(MAX_ITERS),
        epsilons=tuple(EPSILONS),
        data_shapes=data_shapes(1 << 21),
    ),
    ("cpu", True): Scale(
        grid_rows=(1 << 12,),
        grid_ks=FEW_KS,
        sweep_rows=1 << 9,
        sweep_cols=FEW_COLS,
        sweep_ks=FEW_SWEEP_KS,
        max_iters=FEW_MAX_ITERS,
        epsilons=FEW_EPSILONS,
        data_shapes=data_shapes(1 << 20),
    ),
}


def experiments(scale):
    """For the paper's main figure and Table 3 (grid), its sweeps over M and one over element types (sweep), and other
    distributions (data)."""
    grid = (EXACT, BISECTION, *scale.max_iters, *(f"{BISECTION} {setting}" for setting in scale.max_iters))
    precisions = (*scale.epsilons, *(f"{BISECTION} {setting}" for setting in scale.epsilons))
    early = tuple(setting for setting in ("max_iter=4", "max_iter=8") if setting in scale.max_iters)
    all_of_them = [
        Experiment(Cell("grid", rows, cols, k), grid)
        for rows in scale.grid_rows
        for cols in (256, 512, 768)
        for k in scale.grid_ks
    ]
    all_of_them += [
        Experiment(
            Cell("sweep", scale.sweep_rows, cols, k, dtype), (*grid, *precisions) if dtype == "f32" else grid[:1]
        )
        for dtype in TYPES
        for cols in scale.sweep_cols
        for k in scale.sweep_ks
        if k < cols
    ]
    all_of_them += [
        Experiment(Cell("data", *shape, data=data), (EXACT, BISECTION, *early))
        for shape in scale.data_shapes
        for data in DISTRIBUTIONS
    ]
    return all_of_them


# ---- Distributions, by the names that `rtopk study` uses ----


def student(torch, normal, generator):
    """Student's t with two degrees of freedom: a normal number divided by the square root of an exponential one."""
    uniform = torch.rand(normal.shape, device=normal.device, generator=generator)
    return normal.div_(uniform.neg_().log1p_().neg_().sqrt_())


def ties(torch, normal, generator):
    integers = torch.randint(-8, 8, normal.shape, device=normal.device, generator=generator)
    return normal.copy_(integers)


# Functions that turn normal numbers into others, and may overwrite their argument.
DISTRIBUTIONS = {
    "normal": lambda torch, normal, generator: normal,
    "uniform": lambda torch, normal, generator: normal.uniform_(generator=generator),
    "lognormal": lambda torch, normal, generator: normal.exp_(),
    "student": student,
    "quantized": lambda torch, normal, generator: normal.mul_(16).round_().div_(16),
    "ties": ties,
}
