"""The paper's theory of the mean exit, E(n) = log2(D / delta), and how much of its error the range D explains."""

import math
import statistics

from studies import part


def expected_range(count):
    """The mean of greatest minus least of `count` standard normal numbers: twice the integral of 1 - F^n over the
    positive numbers, less that of F^n over the negative ones."""
    normal, step = statistics.NormalDist(), 0.01
    places = [step * (i + 0.5) for i in range(900)]
    above = sum(1 - normal.cdf(x) ** count for x in places)
    below = sum(normal.cdf(-x) ** count for x in places)
    return 2 * step * (above - below)


def theory(study):
    """For each column of Table 5: E(n) less our mean exit, and the part of it that is due to D. The paper takes
    D = 2 sqrt(2 ln M), which is more than the mean range of M normal numbers."""
    lines = []
    for column in part(study, "table5")["columns"]:
        if "theory" not in column:
            continue
        assumed, real = 2 * math.sqrt(2 * math.log(column["cols"])), expected_range(column["cols"])
        excess = column["theory"]["value"] - column["mean"]["value"]
        of_range = math.log2(assumed / real)
        lines.append(
            {
                "cols": column["cols"],
                "k": column["k"],
                "excess": excess,
                "range_assumed": assumed,
                "range": real,
                "of_range": of_range,
                "explained_percent": 100 * of_range / excess if excess > 0 else None,
            }
        )
    return lines
