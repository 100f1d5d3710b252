"""The paper's claims about its kernel, tested with the paper's search in this library (`search = bisection`)."""

import statistics

from claim import claim, untested
from grids import BISECTION, EXACT
from kernel_means import by_bisection, dimensions, measured, speedups, sweep

# How close is close. The paper says "close", "unaffected" and "almost no impact" without numbers.
CLOSE = 0.9  # of the other's speed
UNAFFECTED = 1.25  # times as long
NO_IMPACT = 1.1  # times as fast
UNTIMED = (
    "kernels.py has not timed the paper's passes stopped early; without `search = bisection` the library finds the same"
    " result in another way."
)


def on_a_gpu(kernels, claims):
    """A CPU says nothing about the speed of the paper's kernel."""
    if kernels["environment"]["device"] == "gpu":
        return claims
    return [untested(one, "There was no GPU. On this CPU: ") for one in claims]


def abstract_claims(kernels):
    cells = measured(kernels, "grid")
    return on_a_gpu(kernels, [average_speedup(cells)])


def exact_claims(kernels):
    """Section 3.1."""
    checked = [cell for cell in kernels["cells"] if BISECTION in cell.get("microseconds", {})]
    failed = sum(bool(cell["error"]) for cell in kernels["cells"])
    return [
        claim(
            "epsilon-0-exact",
            "Section 3.1, Algorithm 1",
            "With ε = 0 the search is an exact selection.",
            "kernels",
            failed == 0 and bool(checked),
            "The results of {checked:.0f} shapes were compared with torch.topk's; {failed:.0f} experiments failed. As"
            " printed the loop does not end where the k-th and the next value are equal: here it also ends where its"
            " threshold cannot move.",
            checked=len(checked),
            failed=failed,
        )
    ]


def grid_claims(kernels):
    """Section 4.2."""
    cells = measured(kernels, "grid")
    stopped = by_bisection(kernels, "max_iter=8")
    fastest = by_bisection(kernels, "max_iter=2")
    claims = [
        faster_everywhere(cells),
        greatest_dimension(dimensions(kernels)),
        stopping_is_faster(cells, fastest),
        close_to_eight(cells, stopped),
        few_bad_rows(cells, stopped),
    ]
    return on_a_gpu(kernels, claims)


def sweep_claims(kernels):
    """Appendix B."""
    lines = sweep(kernels)
    return on_a_gpu(kernels, [slower_beyond(lines), precision(lines, by_bisection(kernels, "epsilon=0.01"))])


def shape(cell):
    return f"{cell['rows']} x {cell['cols']}, k = {cell['k']}"


def average_speedup(cells):
    return claim(
        "average-speedup",
        "Abstract, Table 3",
        "The kernel is on average up to 11.49 times as fast as torch.topk with early stopping, and 7.29 times without.",
        "table3",
        None,
        "Those are numbers of an A6000 and of the authors' kernel. On this machine, over the same grid:"
        " {bisection:.1f} times without early stopping by the paper's search, {exact:.1f} times by rtopk's own.",
        bisection=statistics.fmean(speedups(cells, BISECTION)),
        exact=statistics.fmean(speedups(cells, EXACT)),
    )


def faster_everywhere(cells):
    ratios = speedups(cells, BISECTION)
    return claim(
        "faster-everywhere",
        "Section 4.2, Figure 4",
        "Without early stopping it outperforms torch.topk in all scenarios.",
        "figure4",
        min(ratios) > 1,
        "The paper's search is {least:.1f} to {greatest:.1f} times as fast as torch.topk in {cells:.0f} shapes.",
        least=min(ratios),
        greatest=max(ratios),
        cells=len(ratios),
    )


def greatest_dimension(lines):
    means = {
        (search, line["name"]): [value[search] for value in line["values"]]
        for line in lines
        for search in ("bisection", "rtopk")
    }
    fixed = ("m-matters-most", "Section 4.2", "Of N, M and k, M has the most impact on the speed-up.", "dimensions")
    if any(len(found) < 2 for found in means.values()):
        return claim(*fixed, None, "This run has one value of a dimension; a run that is not quick has several.")
    factors = {name: max(found) / min(found) for (search, name), found in means.items() if search == "bisection"}

    def text(search):
        return ", ".join(
            f"by {name} {{{search}_{name}_least:.1f}} to {{{search}_{name}_greatest:.1f}}" for name in factors
        )

    return claim(
        *fixed,
        factors["M"] == max(factors.values()),
        f"Mean speed-ups of the paper's search: {text('bisection')}. Of rtopk's own: {text('rtopk')}.",
        **{
            f"{search}_{name}_{end}": pick(found)
            for (search, name), found in means.items()
            for end, pick in (("least", min), ("greatest", max))
        },
    )


def stopping_is_faster(cells, stopped):
    fixed = (
        "stopping-is-faster",
        "Section 4.2, Table 3",
        "Early stopping makes the kernel faster: 11.49 times torch.topk with max_iter 2, 7.29 without.",
        "table3",
    )
    if stopped is None:
        return claim(*fixed, None, UNTIMED)
    early, whole, own = (statistics.fmean(speedups(cells, setting)) for setting in (stopped, BISECTION, EXACT))
    return claim(
        *fixed,
        early > whole,
        "Here {early:.1f} with max_iter 2 and {whole:.1f} without, both by the paper's search. rtopk's own search has"
        " {own:.1f} and is exact.",
        early=early,
        whole=whole,
        own=own,
    )


def close_to_eight(cells, stopped):
    fixed = (
        "close-to-8",
        "Section 4.2, Table 3",
        "The speed-up without early stopping is close to that of max_iter 8.",
        "table3",
    )
    if stopped is None:
        return claim(*fixed, None, UNTIMED)
    whole, early = (statistics.fmean(speedups(cells, setting)) for setting in (BISECTION, stopped))
    return claim(
        *fixed,
        whole / early >= CLOSE,
        "{whole:.1f} against {early:.1f}: {percent:.0f} % of it. The paper has 7.29 against 7.99.",
        whole=whole,
        early=early,
        percent=100 * whole / early,
    )


def few_bad_rows(cells, stopped):
    fixed = (
        "few-bad-rows",
        "Section 4.2",
        "A few bad rows leave the speed of the kernel unaffected.",
        "table3",
    )
    if stopped is None:
        return claim(*fixed, None, UNTIMED)
    times = [
        (c["microseconds"][BISECTION] / c["microseconds"][stopped], c) for c in cells if stopped in c["microseconds"]
    ]
    worst, cell = max(times, key=lambda one: one[0])
    slower = sum(ratio > UNAFFECTED for ratio, _ in times)
    return claim(
        *fixed,
        worst <= UNAFFECTED,
        f"The search to its end takes up to {{worst:.2f}} times as long as eight passes: {{whole:.0f}} µs against"
        f" {{early:.0f}} ({shape(cell)}). In {{slower:.0f}} of {{cells:.0f}} shapes it takes more than 1.25 times as"
        f" long.",
        worst=worst,
        whole=cell["microseconds"][BISECTION],
        early=cell["microseconds"][stopped],
        slower=slower,
        cells=len(times),
    )


def slower_beyond(lines):
    means = {line["cols"]: line["settings"][BISECTION]["mean"] for line in lines if BISECTION in line["settings"]}
    least = min(means)
    return claim(
        "slower-beyond-6144",
        "Appendix B, Figure 6",
        "Without early stopping the speed-up falls with M, and from 6144 to 8192 the kernel is slower than torch.topk.",
        "figure6",
        means[max(means)] < 1,
        "The paper's search in this library is {first:.1f} times as fast as torch.topk at M = {least:.0f} and"
        " {last:.1f} times at M = {greatest:.0f}.",
        first=means[least],
        last=means[max(means)],
        least=least,
        greatest=max(means),
    )


def precision(lines, coarse):
    fixed = ("precision", "Appendix B, Figure 7", "Precision has almost no impact on speed.", "figure7")
    found = [
        (line["settings"][coarse]["mean"] / line["settings"][BISECTION]["mean"], line["cols"])
        for line in lines
        if coarse in line["settings"] and BISECTION in line["settings"]
    ]
    if not found:
        return claim(*fixed, None, "This run has not timed the paper's passes with ε = 1e-2.")
    most, cols = max(found)
    return claim(
        *fixed,
        most <= NO_IMPACT,
        "With ε′ = 1e-2 the paper's search is {least:.2f} to {most:.2f} times as fast as with ε = 0; the most at M ="
        " {cols:.0f}.",
        least=min(found)[0],
        most=most,
        cols=cols,
    )
