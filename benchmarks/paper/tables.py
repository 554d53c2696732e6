"""A printed table beside our figures, and what is to be said of each number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

EQUAL, CUT, DIFFERS, UNKNOWN, ALONE, NOT_RUN = (
    "equal",
    "equal, cut off",
    "differs",
    "not known",
    "ours alone",
    "not run",
)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Entry:
    """One number of a table.

    Args:
        printed: what the paper has; None where it has nothing.
        ours: what we compute; None where it was not computed.
        digits: how many decimals are printed.
        because: why the two differ, or why ours is missing.
        within: how far the truth may be below ours (what a certificate leaves open).
    """

    printed: float | None
    ours: float | None
    digits: int = 3
    because: str = ""
    within: float = 0.0

    @property
    def verdict(self) -> str:
        """Equal, differs (with a reason), not known (without), or one of the two alone."""
        if self.printed is None:
            return ALONE if self.ours is not None else ""
        if self.ours is None:
            return NOT_RUN
        unit = 10.0**-self.digits
        if self.printed - unit / 2 - _ROUNDING <= self.ours <= self.printed + unit / 2 + self.within + _ROUNDING:
            return EQUAL
        if abs(math.floor(self.ours / unit + 1e-6) * unit - self.printed) < unit / 10:
            return CUT
        return DIFFERS if self.because else UNKNOWN

    @property
    def texts(self) -> tuple[str, str]:
        """What is printed, and ours."""
        return self._shown(self.printed), self._shown(self.ours)

    def _shown(self, value: float | None) -> str:
        return "–" if value is None else f"{value:,.{self.digits}f}"


@dataclass(frozen=True)
class Table:
    """A table of a paper, or a set of figures in its text.

    Args:
        name: such as "Table 4".
        title: what it shows.
        columns: what the numbers are.
        rows: a label, and an entry per column.
        remark: what is to be said of the whole.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Entry]]]
    remark: str = ""

    def __post_init__(self) -> None:
        for label, entries in self.rows:
            if len(entries) != len(self.columns):
                raise ValueError(f"{self.name}, row {label}: {len(entries)} entries for {len(self.columns)} columns.")

    @property
    def verdicts(self) -> Counter[str]:
        """How many numbers have which verdict."""
        every = Counter(entry.verdict for _, entries in self.rows for entry in entries)
        return Counter({verdict: count for verdict, count in every.items() if verdict})

    def unexplained(self) -> list[str]:
        """The numbers that differ for no known reason."""
        return [
            f"{self.name}, {label}, {column}: {' / '.join(entry.texts)}"
            for label, entries in self.rows
            for column, entry in zip(self.columns, entries, strict=True)
            if entry.verdict == UNKNOWN
        ]

    def reasons(self, label: str) -> str:
        """What is said of a row: its verdicts, with their reasons."""
        (entries,) = [row for name, row in self.rows if name == label]
        said: dict[str, None] = {}
        for entry in entries:
            if entry.verdict:
                because = entry.verdict in (DIFFERS, NOT_RUN) and entry.because
                said[f"{entry.verdict}: {entry.because}" if because else entry.verdict] = None
        return "; ".join(said)


@dataclass(frozen=True)
class Drawing:
    """A figure: its caption, and the SVG."""

    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Asked:
    """What the command asks for.

    Args:
        full: whether rows that take long are computed too.
        data: files of data that cannot be had from us, by their names.
    """

    full: bool = False
    data: tuple[str, ...] = ()

    def file(self, name: str) -> str | None:
        """The file of this name, such as brazil.npy, if given."""
        return next((path for path in self.data if path.rsplit("/", 1)[-1] == name), None)
