"""Text of unknown origin, made safe to print."""

from __future__ import annotations


def printable(text: object) -> str:
    """The text with everything escaped that a terminal might interpret: control characters, line ends, changes of the
    writing direction, and undecodable bytes of file names."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def short(value: object) -> str:
    """A value of unknown type and size in a few words, however large it is."""
    if value is None or isinstance(value, (bool, float)):
        return str(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 100 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, (str, bytes)):
        return repr(value if len(value) <= 60 else value[:60]) + ("" if len(value) <= 60 else "...")
    return f"a {type(value).__name__}"


_MAX_TEXT = 2000  # characters of an error


class Refusal(ValueError):
    """An error whose text is one line of limited length and safe to print, whatever it quotes."""

    def __init__(self, text: object) -> None:
        line = printable(text)
        half = _MAX_TEXT // 2
        super().__init__(line if len(line) <= _MAX_TEXT else f"{line[:half]} ... {line[-half:]}")
