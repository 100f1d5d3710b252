"""What foreign names look like in a message."""

from __future__ import annotations


def printable(text: object) -> str:
    """The text with every character escaped that a terminal might obey: control characters, line ends, reversals of the
    direction of writing, and bytes of file names that are no text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def short(value: object) -> str:
    """A value of unknown kind and size in a few words. Never all of it: what looks small in a file may be endless."""
    if value is None or isinstance(value, (bool, float)):
        return str(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 100 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, (str, bytes)):
        return repr(value if len(value) <= 60 else value[:60]) + ("" if len(value) <= 60 else "...")
    return f"a {type(value).__name__}"


_LONGEST = 2000  # characters of an error


class Refusal(ValueError):
    """An error whose text is one line, not endless, and safe to print, whatever it quotes."""

    def __init__(self, text: object) -> None:
        line = printable(text)
        half = _LONGEST // 2
        super().__init__(line if len(line) <= _LONGEST else f"{line[:half]} ... {line[-half:]}")
