"""Text that others wrote, made fit to be shown: no control character reaches a terminal, no cell starts a formula."""

from __future__ import annotations

import unicodedata

# Controls, formats (among them those that turn the direction of writing), lone surrogates, line and paragraph ends.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")  # Persian, Hindi and emoji are written with them
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def printable(text: str) -> str:
    """The text with every character that a terminal would obey, and not show, written as an escape.

    Guarantee: the result has one line, and no control, format, or surrogate character except the two joiners.

    Example:
        >>> printable("Genève, 東京"), printable("two\\nlines \\x1b[31m")
        ('Genève, 東京', 'two\\\\nlines \\\\x1b[31m')
    """
    if text.isprintable():
        return text
    return "".join(_escaped(one) if unicodedata.category(one) in _HIDDEN else one for one in text)


def inert(text: str) -> str:
    """A text cell that no spreadsheet takes for a formula: one that could be begins with an apostrophe instead.

    Reference: OWASP, CSV injection: cells that begin with `=`, `+`, `-`, `@`, a tab or a line end, after spaces too.

    Example:
        >>> inert("=1+1"), inert("-5 to 0"), inert("<800")
        ("'=1+1", "'-5 to 0", '<800')
    """
    starts = text.lstrip()
    risky = starts.startswith(_FORMULA) or (text != "" and text[0] in "\t\r\n")
    return f"'{text}" if risky else text


def _escaped(one: str) -> str:
    return one if one in _JOINERS else one.encode("unicode_escape").decode("ascii")
