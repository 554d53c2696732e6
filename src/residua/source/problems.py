"""What is wrong with the data, collected over all records and columns and said at once, without values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Attribute
from residua.errors import SourceError

_LISTED = 12


class Problems:
    """Which attributes hold values that their policies refuse, and what else is wrong with columns.

    Args:
        names: the attributes, in the order in which they are named.
        show_values: whether to quote up to three values of each attribute, which are confidential.
    """

    def __init__(self, names: Sequence[str], show_values: bool) -> None:
        self._names = names
        self._show_values = show_values
        self._unknown: dict[str, list[str]] = {}
        self._missing: dict[str, None] = {}
        self._sentences: dict[str, None] = {}

    def note(self, name: str, attribute: Attribute, codes: NDArray[np.int32], values: Any) -> None:
        """Looks at one column's codes before policies are applied."""
        from residua.domain.codec import examples  # loads Arrow, which planning does not need
        from residua.domain.values import MISSING, UNKNOWN

        if attribute.unknown == "error" and (outside := codes == UNKNOWN).any():
            shown = self._unknown.setdefault(name, [])
            if self._show_values and len(shown) < 3:
                shown += [text for text in examples(values, outside) if text not in shown][: 3 - len(shown)]
        if attribute.missing == "error" and (codes == MISSING).any():
            self._missing[name] = None

    def say(self, sentence: str) -> None:
        """Notes a whole sentence about a column."""
        self._sentences[sentence] = None

    def to_plain(self) -> list[Any]:
        """What was found, as plain values that travel between processes."""
        return [self._unknown, list(self._missing), list(self._sentences)]

    def add_plain(self, noted: Sequence[Any]) -> None:
        """Adds what was found elsewhere."""
        unknown, missing, sentences = noted
        for name, shown in unknown.items():
            mine = self._unknown.setdefault(name, [])
            mine += [text for text in shown if text not in mine][: 3 - len(mine)]
        self._missing.update(dict.fromkeys(missing))
        self._sentences.update(dict.fromkeys(sentences))

    def __bool__(self) -> bool:
        return bool(self._unknown or self._missing or self._sentences)

    def stop(self) -> None:
        """Raises everything that was found, in one message.

        Raises:
            SourceError: there is a problem.
        """
        if not self:
            return
        said = list(self._sentences)
        if self._unknown:
            unknown = {name: self._unknown[name] for name in self._names if name in self._unknown}
            named = {name: f" (such as {', '.join(shown)})" if shown else "" for name, shown in unknown.items()}
            seen = "" if self._show_values else " (show_values=True, or --show-values, shows some)"
            said.append(
                f"{_subject(named)} values outside {_their(named)}; declare them{seen}, or say unknown='other' or "
                "unknown='drop'."
            )
        if self._missing:
            named = {name: "" for name in self._names if name in self._missing}
            said.append(f"{_subject(named)} absent values; fill them in, or say missing='other' or missing='drop'.")
        raise SourceError(" ".join(said))


def _subject(named: dict[str, str]) -> str:
    listed: Sequence[str] = [f"{name!r}{more}" for name, more in named.items()]
    if len(listed) == 1:
        return f"attribute {listed[0]} has"
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"attributes {', '.join(listed[:_LISTED])}{more} have"


def _their(named: dict[str, str]) -> str:
    return "its domain" if len(named) == 1 else "their domains"
