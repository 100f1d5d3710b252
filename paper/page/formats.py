"""Numbers and words of the JSON files as HTML. Every number carries its place."""

import re
from string import Formatter

from markupsafe import Markup, escape

from grids import BISECTION, EXACT
from nodes import Node


def number(node, digits=2, sign="", unit=""):
    """A number as text, with its place in the JSON."""
    if node is None or node.raw is None:
        return Markup("–")
    shown = f"{node.raw:{sign}.{digits}f}"
    if float(shown) == 0.0:  # neither +0.00 nor -0.00
        shown = f"{0:.{digits}f}"
    shown = shown.replace("-", "−")
    return Markup('<data value="{}" data-at="{}">{}</data>{}').format(node.raw, node.at, shown, unit)


def compared(estimate, digits=2):
    """A cell of a table: ours, the published number and the difference, coloured by whether they agree."""
    if estimate is None:
        return Markup("<td></td>")
    member = "mean" if "mean" in estimate else "value"
    ours = number(estimate[member], digits)
    if "published" not in estimate:
        return Markup('<td class="alone"><b>{}</b></td>').format(ours)
    if "agrees" not in estimate:  # measured on another machine than the paper's
        return Markup('<td class="other"><b>{}</b><i>{}</i></td>').format(ours, number(estimate["published"], digits))
    return Markup('<td class="{}"><b>{}</b><i>{}</i><s>{}</s></td>').format(
        "same" if estimate["agrees"].raw else "off",
        ours,
        number(estimate["published"], digits),
        number(estimate["difference"], digits, "+"),
    )


def thousands(node_or_number):
    raw = node_or_number.raw if isinstance(node_or_number, Node) else node_or_number
    return f"{raw:,}".replace(",", "\u202f")


def setting_name(setting):
    """The name of a setting for readers."""
    text = str(setting)
    if text.startswith(f"{BISECTION} "):
        return f"{text.removeprefix(BISECTION).strip()}, the paper's passes"
    return {EXACT: "exact (rtopk)", BISECTION: "exact (the paper's bisection)"}.get(text, text)


def row_count(node):
    """A power of two is written as one: 65536 is 2^16."""
    raw = node.raw
    power = raw.bit_length() - 1
    return Markup("2<sup>{}</sup>").format(power) if raw == 1 << power else thousands(raw)


def prose(node):
    """A text that names its numbers in braces, as claims and findings have it."""
    parts = []
    for literal, field, digits, _ in Formatter().parse(node["text"].raw):
        parts.append(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(literal))))
        if field:
            parts.append(number(node["numbers"][field], int(digits.strip(".f"))))
    return Markup("".join(parts))


def scored(score):
    """Mean and standard deviation."""
    if score is None:
        return Markup("–")
    if score["spread"].raw is None:
        return number(score["mean"])
    return Markup("{} ± {}").format(number(score["mean"]), number(score["spread"]))


def short_commit(node):
    """The first digits of a commit, and the mark of a tree with changes."""
    raw = str(node)
    return raw[:10] + ("+" if raw.endswith("+") else "")
