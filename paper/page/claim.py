"""A claim of the paper with a verdict. Its text has facts alone, which stay true when the data are measured anew: the
verdict is a condition on them."""

HELD, NOT_HELD, UNTESTED = "held", "not held", "cannot be tested here"


def claim(name, section, said, place, holds, text, **numbers):
    """`section`: of the paper; `place`: the id of the section on the page; `holds`: a truth value, or None if the data
    do not tell. `text` names its numbers in braces, with their decimals: "{share:.1f} %"."""
    verdict = UNTESTED if holds is None else HELD if holds else NOT_HELD
    return {
        "name": name, "section": section, "said": said, "place": place, "verdict": verdict, "text": text,
        "numbers": numbers,
    }  # fmt: skip


def untested(claim, why):
    """The same facts, which do not tell here."""
    return claim | {"verdict": UNTESTED, "text": why + claim["text"]}
