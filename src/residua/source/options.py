"""What is said of records wherever they are, and what is seen of them on the way to their tables.

Said: how many each row stands for, whose they are, and whether errors may quote them. Seen: how many followed a
policy, and what is wrong with them. Problems are collected over all records and columns and said at once, without
values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from residua.domain import Attribute, Domain
from residua.domain.codec import examples
from residua.domain.values import MISSING, UNKNOWN
from residua.errors import SourceError, named
from residua.source.bound import Loss
from residua.source.digest import Digest
from residua.source.weights import Weights

MOST_RECORDS = 2**62
_LISTED = 12
NoPerson = Literal["refuse", "drop", "apart"]
SUFFIXES: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".txt"),
    "tsv": (".tsv",),
    "feather": (".feather", ".arrow", ".ipc"),
    "jsonl": (".jsonl", ".ndjson"),
    "excel": (".xlsx", ".xlsb", ".xlsm", ".xls", ".ods"),
    "spss": (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt"),
}
PACKED = (".gz", ".bz2", ".zst")
_ENDINGS = (*PACKED, *chain.from_iterable(SUFFIXES.values()))


class SourceOptions(TypedDict, total=False):
    """The options that every kind of source takes, by name; `Options` says what they mean."""

    counts: str | None
    weights: Weights | None
    person: str | Sequence[str] | None
    no_person: NoPerson
    show_values: bool


def is_like_a_path(path: str | Path) -> bool:
    """Whether a text has a folder or the ending of a file of data: whatever else stands in a list may be data."""
    return "/" in str(path) or "\\" in str(path) or str(path).lower().endswith(_ENDINGS)


def _columns(person: object) -> tuple[str, ...]:
    columns = (person,) if isinstance(person, str) else person
    if not isinstance(columns, Sequence) or not all(isinstance(name, str) and name for name in columns):
        raise SourceError(f"person={named(person)} is no column; name the column, or a list of columns.")
    if len(set(columns)) < len(columns):
        raise SourceError("person names a column twice; name each once.")
    return tuple(columns)


@dataclass(frozen=True)
class Options:
    """What is said of records wherever they are.

    Args:
        counts: the column that says how many records each row stands for, a whole number ≥ 0, where the data were
            counted before. What is protected is then one of these records, so that survey weights are no counts.
        weights: the column of survey weights, with where they are clipped and their grid: what is counted are steps of
            weight, and a respondent is protected with all of theirs.
        person: the column, or the columns together, that say whose record it is. Read by the measuring step alone, to
            bound what each person contributes (`rs.Person`).
        no_person: records without a person: `"refuse"` them, `"drop"` them, or take each for a person `"apart"`, which
            declares that no two of them are one person's.
        show_values: whether error messages may quote values of the data, which are confidential: for the curator's
            own terminal, never for logs.

    Raises:
        SourceError: an option that is not as said here.
    """

    counts: str | None = None
    person: tuple[str, ...] = ()
    no_person: NoPerson = "refuse"
    show_values: bool = False
    weights: Weights | None = None

    def __post_init__(self) -> None:
        if self.weights is not None and not isinstance(self.weights, Weights):
            raise SourceError(
                f"weights={named(self.weights)} is not known; say weights=rs.Weights(column, most=…, step=…)."
            )
        if self.weights is not None and (self.counts is not None or self.person):
            raise SourceError(
                "survey weights go with neither counts nor person: a respondent is one row, with a weight; make one "
                "row of each respondent, or leave weights out."
            )
        if self.counts is not None and (not isinstance(self.counts, str) or not self.counts):
            raise SourceError(f"counts={named(self.counts)} is not a column name; name the column of counts.")
        if not isinstance(self.show_values, bool):
            raise SourceError(f"show_values={named(self.show_values)} is not True or False; pass one of them.")
        object.__setattr__(self, "person", _columns(self.person))
        if self.no_person not in get_args(NoPerson):
            raise SourceError(f'no_person={named(self.no_person)} is not known; say "refuse", "drop" or "apart".')
        if self.no_person != "refuse" and not self.person:
            raise SourceError("no_person says what happens to records without a person; name the column with person=.")
        if self.counts in self.person:
            raise SourceError(f"column {named(self.counts)} is both counts and person; drop one of the two.")

    @property
    def multiple(self) -> str | None:
        """The column that says how much each row counts, if there is one: counts, or survey weights."""
        return self.counts if self.weights is None else self.weights.column

    @property
    def whose(self) -> dict[str, Any] | None:
        """Who a person is, as a ledger keeps it: the columns, and what else decides whose records count; no id."""
        if not self.person:
            return None
        return {"person": list(self.person), "no_person": self.no_person, "counts": self.counts}


NO_OPTIONS = Options()
# Why the option that other libraries have is refused, and what to say instead.
NO_WEIGHT = (
    "survey weights are not counts: one respondent would change a table by their weight, where the noise hides one "
    'record. Say weights=rs.Weights(column, most=…), or, if each row really stands for n records, counts = "n".'
)


def options_of(given: SourceOptions | Mapping[str, Any]) -> Options:
    """The options given by name.

    Raises:
        SourceError: a name or a value that is not known.
    """
    if "weight" in given:
        raise SourceError(f"a source takes no weight; {NO_WEIGHT}")
    for name in given:
        if name not in SourceOptions.__annotations__:
            near = get_close_matches(name, SourceOptions.__annotations__, n=1)
            meant = f" (is it {near[0]!r}?)" if near else ""
            raise SourceError(
                f"a source has no option {named(name)}{meant}; it has {', '.join(SourceOptions.__annotations__)}."
            )
    return Options(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


@contextmanager
def explained(sentence: str | Callable[[Exception], str | None], *kinds: type[Exception]) -> Iterator[None]:
    """Turns errors of these kinds into a sentence of ours: a library's own words may quote values, addresses, keys.

    Args:
        sentence: what is said instead, or what is said of a problem; nothing where that is none of ours to explain.
        kinds: the errors that are meant; ours are never.
    """
    try:
        yield
    except SourceError:
        raise
    except kinds as problem:
        said = sentence if isinstance(sentence, str) else sentence(problem)
        if said is None:
            raise
        raise SourceError(said) from None


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


@dataclass(frozen=True, eq=False, repr=False)
class Tallies:
    """How many records followed a policy, for the curator's terminal only; what is printed of it holds no number.

    Args:
        dropped: for each attribute, the records that its policy `drop` left out (a record may be left out on account of
            several).
        other: for each attribute, the counted records that are in its cell of other values (before a bound chooses).
        no_person: the records that were left out because nobody's.
        loss: what the bound on each person's records left out; nothing where there is none.
    """

    dropped: Mapping[str, int]
    other: Mapping[str, int]
    no_person: int = 0
    loss: Loss | None = None

    def __repr__(self) -> str:
        return "Tallies(confidential)"


@dataclass(eq=False, repr=False)
class Tally:
    """The tallies of some records, or of all, while they are read; confidential."""

    domain: Domain
    show_values: bool
    digest: Digest = field(default_factory=Digest)
    records: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    other: dict[str, int] = field(default_factory=dict)
    no_person: int = 0
    loss: Loss | None = None
    problems: Problems = field(init=False)

    def __post_init__(self) -> None:
        self.dropped, self.other = dict.fromkeys(self.domain.names, 0), dict.fromkeys(self.domain.names, 0)
        self.problems = Problems(self.domain.names, self.show_values)

    @property
    def too_many(self) -> bool:
        """Whether there are more records than can be counted."""
        return self.records >= MOST_RECORDS // self.domain.parts

    def require_countable(self, counts: str | None) -> None:
        """Refuses what was found wrong, in the words of every engine.

        Raises:
            SourceError: there is a problem, or too many records.
        """
        if self.too_many:
            parts = "" if self.domain.parts == 1 else f", in {self.domain.parts:,} parts for the units of amounts"
            raise SourceError(f"the counts in column {named(counts)} add up to 2^62 or more{parts}; correct them.")
        self.problems.stop()

    @property
    def tallies(self) -> Tallies:
        """What is said of all of it."""
        return Tallies(MappingProxyType(self.dropped), MappingProxyType(self.other), self.no_person, self.loss)

    def to_bytes(self) -> bytes:
        """As JSON, with which it travels."""
        plain = {name: getattr(self, name) for name in ("records", "dropped", "other", "no_person")}
        loss: list[Any] | None = None
        if self.loss is not None:
            loss = [_sparse(self.loss.held), _sparse(self.loss.lost), self.loss.dropped, self.loss.tables.tolist()]
        more = {"digest": self.digest.parts, "loss": loss, "problems": self.problems.to_plain()}
        return json.dumps({**plain, **more}).encode()

    def add(self, note: bytes) -> None:
        """Adds what another one says."""
        plain = json.loads(note)
        self.records = min(self.records + plain["records"], MOST_RECORDS)
        self.no_person += plain["no_person"]
        self.digest.merge(tuple(plain["digest"]))
        for mine, theirs in ((self.dropped, plain["dropped"]), (self.other, plain["other"])):
            for name, count in theirs.items():
                mine[name] += count
        if plain["loss"] is not None:
            held, lost, dropped, tables = plain["loss"]
            more = Loss(_dense(held), _dense(lost), dropped, np.array(tables, dtype=np.int64))
            self.loss = (self.loss or Loss.none()) + more
        self.problems.add_plain(plain["problems"])


def _sparse(counts: NDArray[np.int64]) -> list[list[int]]:
    places = np.flatnonzero(counts)
    return [places.tolist(), counts[places].tolist()]


def _dense(sparse: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    counts = Loss.none().held
    counts[np.array(sparse[0], dtype=np.int64)] = sparse[1]
    return counts
