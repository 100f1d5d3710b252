"""The paper's claims about its search: exits, early stopping, and the theory of the mean exit."""

import statistics

from agreement import beside_column
from claim import claim
from iterations import theory
from studies import part

PUBLISHED_ROWS = 100_000  # of Table 2, by its text
Z = statistics.NormalDist().inv_cdf(0.975)  # intervals in the study have 95 %


def search_claims(study):
    """Section 3 of the paper, in its order."""
    table1, table2 = part(study, "table1"), part(study, "table2")
    return [average_exit(table1), within_thirteen(table1), *table2_claims(table2)]


def appendix_claims(study):
    """Appendix A, and what Appendix B says about iterations."""
    lines = theory(study)
    return [theory_is_larger(lines), range_explains(lines)]


# ---- Table 1 ----


def average_exit(table):
    means = [column["mean"] for column in table["columns"]]
    columns = [beside_column(column) for column in table["columns"] if "mean_of_published_column" in column]
    agree = sum(column["agrees"] for column in columns)
    return claim(
        "average-exit",
        "Section 3.1, Table 1",
        "With M = 256 the search exits after 7.6 to 9.6 iterations on average.",
        "table1",
        all(mean["agrees"] for mean in means),
        "Ours: {least:.2f} to {greatest:.2f}. {agree:.0f} of {columns:.0f} agree with the means of the published"
        " columns, of which the published averages are not the means.",
        least=min(mean["value"] for mean in means),
        greatest=max(mean["value"] for mean in means),
        agree=agree,
        columns=len(columns),
    )


def within_thirteen(table):
    shares = [
        at["value"] for column in table["columns"] for at in column["cumulative_percent"] if at["iteration"] == 13
    ]
    return claim(
        "within-13",
        "Section 3.1, Table 1",
        "More than 95 % of the rows exit within 13 iterations.",
        "table1",
        min(shares) > 95,
        "Ours: {share:.1f} % or more for every k.",
        share=min(shares),
    )


# ---- Table 2 ----


def table2_claims(table):
    return [is_algorithm2(table), enough_rows(table), small_errors(table), many_hits(table)]


def is_algorithm2(table):
    published = [cell for cell in table["cells"] if "published" in cell["hit_percent"]]
    said = "Table 2 is what Algorithm 2 selects."
    if not published or "unraised" not in published[0]:
        return claim(
            "algorithm-2", "Section 3.1, Table 2", said, "table2", None, "Only normal elements can be compared."
        )

    def mean_difference(find):
        return statistics.fmean(abs(find(cell)["difference"]) for cell in published)

    agree = sum(cell["hit_percent"]["agrees"] for cell in published)
    return claim(
        "algorithm-2",
        "Section 3.1, Table 2",
        said,
        "table2",
        agree >= 0.9 * len(published),
        "{agree:.0f} of {numbers:.0f} hit rates agree with Algorithm 2 as printed; the mean difference is {printed:.2f}"
        " points. With the selection of the paper's kernel it is {kernel:.2f}; with a loop that ends at exactly k"
        " elements and keeps its lower bound, {unraised:.2f}.",
        agree=agree,
        numbers=len(published),
        printed=mean_difference(lambda cell: cell["hit_percent"]),
        kernel=mean_difference(lambda cell: cell["threshold_first"]["hit_percent"]),
        unraised=mean_difference(lambda cell: cell["unraised"]["hit_percent"]),
    )


def fitting_rows(table, member):
    """The number of rows that the published means would have, from how far they are from ours. Two means of `rows` and
    n rows differ with variance s^2 / rows + s^2 / n, and s^2 / rows is known from our interval. None: no fewer."""
    ratios = []
    for cell in table["cells"]:
        estimate = cell["unraised"][member]
        error = (estimate["high"] - estimate["low"]) / 2 / Z
        rounding = 0.01**2 / 12  # two published decimals
        ratios.append((estimate["difference"] ** 2 - rounding) / error**2)
    ratio = statistics.fmean(ratios)
    return table["rows"] / (ratio - 1) if ratio > 1 else None


def enough_rows(table):
    said = "Table 2 has 100,000 repeated experiments for each condition."
    fixed = ("table2-rows", "Section 3.1, Table 2", said, "table2")
    if table["rows"] < PUBLISHED_ROWS or "unraised" not in table["cells"][0]:
        return claim(
            *fixed,
            None,
            "That takes as many rows of our own, normal ones; this run had {rows:.0f}.",
            rows=table["rows"],
        )
    fits = [fitting_rows(table, member) for member in ("hit_percent", "e1_percent", "e2_of_maximum_percent")]
    if None in fits:
        return claim(*fixed, True, "The published numbers are as close to ours as chance allows with so many rows.")
    return claim(
        *fixed,
        min(fits) >= PUBLISHED_ROWS / 2,
        "What is left between the published numbers and the loop that fits them best is what chance makes of"
        " {least:.0f} to {greatest:.0f} rows.",
        least=round(min(fits), -2),
        greatest=round(max(fits), -2),
    )


def small_errors(table):
    cells = [cell for cell in table["cells"] if cell["max_iter"] >= (5 if cell["k"] >= 32 else 6)]
    # At k = M / 2 the k-th value is near zero, and a relative error has no mean.
    with_mean = [cell for cell in cells if 2 * cell["k"] < table["cols"]]
    worst = max(with_mean, key=lambda cell: cell["e2_percent"]["value"])
    e1 = max(cell["e1_percent"]["value"] for cell in cells)
    return claim(
        "errors-below-5",
        "Section 3.1, Table 2",
        "From max_iter 5 on (6 for k = 16), E1 and E2 are no more than 5 % on average.",
        "table2",
        max(e1, worst["e2_percent"]["value"]) <= 5,
        "E1 is {e1:.1f} % at most. E2 as the caption defines it is up to {e2:.1f} % (k = {k:.0f}, max_iter {n:.0f}),"
        " and has no mean at k = 128. Divided by the row's maximum instead, it is {e2_of_maximum:.1f} % at most.",
        e1=e1,
        e2=worst["e2_percent"]["value"],
        k=worst["k"],
        n=worst["max_iter"],
        e2_of_maximum=max(cell["e2_of_maximum_percent"]["value"] for cell in cells),
    )


def many_hits(table):
    cells = [cell for cell in table["cells"] if cell["k"] >= 64 and cell["max_iter"] == 4]
    printed = min(cell["hit_percent"]["value"] for cell in cells)
    kernel = [cell["threshold_first"]["hit_percent"]["value"] for cell in cells if "threshold_first" in cell]
    beside = " With the selection of the paper's kernel: {kernel:.1f} %." if kernel else ""
    return claim(
        "hits-above-80",
        "Section 3.1, Table 2",
        "For k ≥ 64, four iterations give a hit rate above 80 %.",
        "table2",
        printed > 80,
        "Algorithm 2 as printed: {printed:.1f} % or more." + beside,
        printed=printed,
        **({"kernel": min(kernel)} if kernel else {}),
    )


# ---- Appendix A ----


def theory_is_larger(lines):
    return claim(
        "theory-larger",
        "Appendix A, Table 5",
        "E(n) matches the mean exit well, and is always slightly larger.",
        "table5",
        all(0 < line["excess"] < 1 for line in lines),
        "E(n) is larger than our mean by {least:.2f} to {greatest:.2f} iterations.",
        least=min(line["excess"] for line in lines),
        greatest=max(line["excess"] for line in lines),
    )


def range_explains(lines):
    shares = [line["explained_percent"] for line in lines if line["explained_percent"] is not None]
    fixed = (
        "range-explains",
        "Appendix A",
        "That could be because the range D of M normal elements is less than 2σ√(2 ln M).",
        "theory",
    )
    if not shares:
        return claim(*fixed, None, "E(n) is not larger than our means, so there is nothing to explain.")
    return claim(
        *fixed,
        min(shares) >= 90,
        "The range is less, and that explains {least:.0f} to {greatest:.0f} % of the difference, on average {mean:.0f}"
        " %.",
        least=min(shares),
        greatest=max(shares),
        mean=statistics.fmean(shares),
    )


def within_sixteen(study):
    columns = part(study, "table5")["columns"]
    worst = min(
        (at["value"], column["cols"], column["k"])
        for column in columns
        for at in column["cumulative_percent"]
        if at["iteration"] == 16
    )
    return claim(
        "within-16",
        "Appendix B, Table 5",
        "Even with ε = 0 the vast majority of rows exit within 16 iterations.",
        "table5",
        worst[0] >= 90,
        "Ours: {share:.1f} % or more; the least is that of M = {cols:.0f}, k = {k:.0f}.",
        share=worst[0],
        cols=worst[1],
        k=worst[2],
    )
