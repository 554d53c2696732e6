"""`rs.discover`: which values a column holds, or which range its numbers have, within a budget and a delta.

Values that nobody wrote down beforehand cannot be counted with noise: a value is itself what must not leak. So each
value that is there is released or not, by a coin whose bias depends on how many hold it (`privacy/selection.py`); one
that a single person holds is released with probability at most delta. Nothing else leaves: no count, and no value that
lost its toss. Numbers are first put into the cells of a public logarithmic grid, which are then such values.

Check, debit, read again, toss, forget: the order of every measurement (`measurement/job.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from residua.domain import OTHER, Attribute, Bins, Categories, Integers
from residua.domain.values import floats, laid_out
from residua.errors import DomainError, PrivacyError, SourceError, named
from residua.machine import compute as pc, pyarrow as pa
from residua.measurement.job import Progress, account_of, require_agreement, step_of, told_of_debit, without_records
from residua.measurement.ledger import Ledger
from residua.measurement.ledger_entries import allowance, currency_of
from residua.noise.samplers import Entropy, SystemEntropy, take
from residua.plans.noise import Currency
from residua.privacy import ZCDP, AddRemove, ApproxDP, Guarantee, Person, PureDP, Unit
from residua.privacy.costs import brief, record_count
from residua.privacy.exact import probability, round_up
from residua.privacy.selection import ONE, release_chances
from residua.source import Source, source_of
from residua.source.bound import Words
from residua.source.counting import total_of, weights_of
from residua.source.digest import Digest, spelled
from residua.source.options import MOST_RECORDS, Problems
from residua.source.persons import hashed_texts, person_hashes

Kind = Literal["values", "whole numbers", "numbers"]
_STEPS = [float(f"{digit}e{power}") for power in range(-6, 16) for digit in (1, 2, 5)]
GRID = (*(-step for step in reversed(_STEPS)), 0.0, *_STEPS)  # public: the edges of the cells that numbers are put in
_MOST_INTEGERS = 4096


@dataclass(frozen=True)
class Discovery:
    """What was found out about a column, and what is promised of it: holds no count, and may be published.

    Guarantee: for the ledger's unit the values satisfy the cost, except with probability `delta`; a value that one unit
    alone holds is among them with probability at most `delta`, all of its values taken together.

    Args:
        name: the column.
        kind: values, whole numbers or numbers.
        values: the values in order; of numbers the lower edges of the cells of the grid that were found.
        cost: what it cost the unit, in the currency.
        currency: pcost or epsilon.
        delta: the probability that nothing is promised.
        certain: a value that is counted for so many is found for certain. (Of persons with more values than count, a
            random few count.)
        even: one that is counted for so many is found at least every other time.
        counted: what was counted: records, or persons with so many of their values.
        sequence: the ledger's debit.
        digest: of that line of the ledger.
    """

    name: str
    kind: Kind
    values: tuple[Any, ...]
    cost: Fraction
    currency: Currency
    delta: Fraction
    certain: int
    even: int
    counted: str
    sequence: int
    digest: str

    @property
    def found(self) -> bool:
        """Whether there is a value to declare; `(other)` is what all that are not declared are called."""
        return bool({*self.values} - {OTHER})

    @cached_property
    def attribute(self) -> Attribute:
        """The column as an attribute of a domain; what was not found is counted as other, what is absent too.

        Raises:
            DomainError: nothing was found.
        """
        if not self.found:
            raise DomainError(
                f"no value of {self.name!r} is held by enough to be found ({self.certain:,} are always enough); spend "
                "more, or declare what it may hold."
            )
        if self.kind == "values":
            listed = tuple(value for value in self.values if value != OTHER)  # which is what all others are called
            return Categories(listed, unknown="other", missing="other")
        low, high = self.range
        if self.kind == "whole numbers" and high - low <= _MOST_INTEGERS:
            return Integers(int(np.ceil(low)), int(np.ceil(high)) - 1, unknown="other", missing="other")
        return Bins(tuple(edge for edge in GRID if low <= edge <= high), unknown="other", missing="other")

    @property
    def range(self) -> tuple[float, float]:
        """From where to below where the numbers go that are held by enough, on the grid."""
        return self.values[0], next(edge for edge in GRID if edge > self.values[-1])

    @property
    def statement(self) -> str:
        """How it was found, what it cost and what is promised, in words that may be public."""
        cost: Guarantee = PureDP(round_up(self.cost)) if self.currency == "epsilon" else ZCDP.of_pcost(self.cost)
        what = "values" if self.kind == "values" else "cells of a public grid 1, 2, 5, 10, …"
        return (
            f"The {what} of {self.name!r} were discovered with {brief(cost)} and delta {round_up(self.delta):.4g}, "
            f"counting {self.counted}. One that is counted {self.certain:,} times is always found, one that is counted "
            f"{self.even:,} times at least every other time, one that a single one holds with probability at most "
            f"{round_up(self.delta):.4g}. None is invented; what was not found is counted as other."
        )

    def settings(self) -> dict[str, Any]:
        """The attribute as a specification declares it."""
        attribute = self.attribute
        return {**attribute.settings(), "unknown": attribute.unknown, "missing": attribute.missing}


def discover(
    source: Any,
    name: str,
    budget: Guarantee,
    *,
    ledger: Ledger | str | Path,
    delta: float | None = None,
    kind: Kind = "values",
    values_per_person: int | None = None,
    purpose: str | None = None,
    progress: Progress | None = None,
) -> Discovery:
    """Which values a column holds, or which range its numbers have, paid for from a ledger.

    Guarantee: as `Discovery` says, for the ledger's unit. The ledger is debited, cost and delta, before anything is
    counted; it adds up deltas, and refuses where it was created without (`rs.Ledger(…, discovery_delta=…)`).

    Args:
        source: the data, as for `rs.measure`.
        name: the column.
        budget: what to spend beside delta: ZCDP, GDP or ApproxDP, or PureDP in a ledger of pure DP. Of an ApproxDP
            without `delta`, half of its own delta is spent here, and the whole is what the budget says.
        ledger: the dataset's ledger, or the path of one that exists.
        delta: the probability that nothing is promised, such as 1e-9: well below one over the number of people.
        kind: `"values"`, `"whole numbers"` or `"numbers"`.
        values_per_person: where the ledger protects persons: how many different values of each are counted.
        purpose: what the ledger notes.
        progress: called with the step, how much is done, and of how much if known.

    Raises:
        SourceError: a column that is not there, or data that do not say whose records they are. Nothing is spent.
        LedgerError: the budget or the delta is not allowed. Nothing is spent.
        PrivacyError: a budget or delta that means nothing, or is too small. Nothing is spent.

    Example:
        >>> import residua as rs, pyarrow as pa, tempfile
        >>> jobs = pa.table({"job": ["nurse"] * 400 + ["clerk"] * 300 + ["astronaut"]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = rs.Ledger(f"{folder}/jobs.ledger", rs.ZCDP(0.5), discovery_delta=1e-9)
        ...     found = rs.discover(jobs, "job", rs.ZCDP(0.05), delta=1e-9, ledger=ledger)
        >>> found.attribute.labels
        ('clerk', 'nurse', '(other)')
    """
    if kind not in get_args(Kind):
        raise SourceError(f"kind={named(kind)} is not known; say 'values', 'whole numbers' or 'numbers'.")
    data = source_of(source)
    account = account_of(ledger, ledger.unit if isinstance(ledger, Ledger) else Ledger(ledger).unit)
    require_agreement(data.options, account.unit)
    if data.options.weights is not None or name in (*data.options.person, data.options.multiple):
        raise SourceError(f"values of {name!r} cannot be discovered with survey weights, nor of a column that names "
                          "persons or counts; leave them out, or name another.")  # fmt: skip
    price, spent = _price(budget, delta)
    k, once = _changes(account.unit, values_per_person)
    currency = currency_of(budget)
    chances = release_chances(price, spent, k, pure=currency == "epsilon", once=once)
    reading = _Reading(data, name, kind, account.choosing_key, k)
    own = cast("Source", data.with_codes(frozenset([name] if kind == "values" else [])))
    with own.snapshot() as still:
        digest = without_records(lambda: reading.checked(still, progress))
        whose, what = data.options.whose, purpose or f"{kind} of {name}"
        entry = account.debit(price, purpose=what, dataset=digest, currency=currency, whose=whose, delta=spent)
        values = told_of_debit(lambda: reading.tossed(still, digest, chances, progress), entry)
    even = next(n for n, chance in enumerate(chances, 1) if 2 * chance >= ONE)
    counted = f"persons, of each at most {k} different ones" if data.options.person else "records"
    facts = (price, currency, spent, len(chances), even, counted, entry.sequence, entry.digest)
    return Discovery(name, kind, values, *facts)


def _price(budget: Guarantee, delta: float | None) -> tuple[Fraction, Fraction]:
    """What is spent, in the budget's currency, and the delta."""
    if delta is None and isinstance(budget, ApproxDP):
        return ApproxDP(budget.epsilon, budget.delta / 2).pcost_allowed(), Fraction(budget.delta) / 2
    remedy = "give a small probability such as 1e-9, or an ApproxDP, which has one"
    spent = Fraction(probability("delta", delta, remedy))
    if spent < Fraction(1, 2**100):
        raise PrivacyError(f"delta={delta!r} is smaller than can be kept; give 1e-30 or more.")
    return allowance(budget), spent


def _changes(unit: Unit, values_per_person: int | None) -> tuple[int, bool]:
    """By how much a unit changes the counts of all values together, and whether each by 1 at most."""
    if isinstance(unit, Person):
        return unit.records if values_per_person is None else record_count(values_per_person), True
    if values_per_person is not None:
        raise PrivacyError(f"values_per_person is for ledgers of persons, not of {unit}; leave it out.")
    return (unit.records, unit.records == 1) if isinstance(unit, AddRemove) else (2, True)


@dataclass(frozen=True, eq=False, repr=False)
class _Reading:
    """The column, read twice: to see that it can be, and to count who holds which value."""

    data: Source
    name: str
    kind: Kind
    key: bytes
    most: int

    def checked(self, data: Source, progress: Progress | None) -> str:
        """The fingerprint, once every record is known to be readable."""
        digest = Digest()
        for _ in self._keys(data, digest, progress, "checking"):
            pass
        return digest.fingerprint

    def tossed(
        self, data: Source, expected: str, chances: tuple[int, ...], progress: Progress | None
    ) -> tuple[Any, ...]:
        """The values that are released, in order."""
        digest, held = Digest(), _Persons(self.key, self.most) if self.data.options.person else _Records()
        for texts, multiples, persons in self._keys(data, digest, progress, "counting"):
            held.add(texts, multiples, persons)
        if digest.fingerprint != expected:
            raise SourceError("the data changed while it was read; nothing is released.")
        texts, counts = held.counts()
        kept = [text for text, keep in zip(texts, selected(counts, chances), strict=True) if keep]
        return tuple(sorted(kept) if self.kind == "values" else sorted(GRID[int(cell)] for cell in kept))

    def _keys(self, data: Source, digest: Digest, progress: Progress | None, step: str) -> Iterator[Any]:
        """Of each batch: the values as text, null where absent; how many each row stands for; whose it is."""
        options, done, total, show = self.data.options, 0, 0, step_of(step, progress)
        columns = [self.name, *([options.counts] if options.counts else []), *options.person]
        words = np.frombuffer(self.key, dtype="<u8")
        for batch in data.digested(columns, digest):
            multiples = np.ones(len(batch), np.int64)
            if options.counts:
                problems = Problems([self.name], show_values=False)
                multiples = weights_of(batch.column(1), options, problems)
                problems.stop()
                if (total := total + total_of(multiples)) >= MOST_RECORDS:
                    raise SourceError(f"the counts in column {options.counts!r} add up to 2^62 or more; correct them.")
            persons = None
            if options.person:
                ids = [batch.column(batch.schema.get_field_index(name)) for name in options.person]
                persons = person_hashes(ids, options.person, (words[0], words[1]))
                if options.no_person == "refuse" and persons[1].any():
                    named = ", ".join(map(repr, options.person))
                    raise SourceError(f"column {named} does not say of every record whose it is; say no_person='drop'.")
                if options.no_person == "drop":
                    multiples = np.where(persons[1], 0, multiples)
            yield self._texts(batch.column(0)), multiples, persons
            done += len(batch)
            if show is not None:
                show(done, data.rows_hint())

    def _texts(self, column: Any) -> Any:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), pa.large_string())
        if self.kind == "values":
            texts = spelled(column)
            if not pa.types.is_large_string(texts.type):
                raise SourceError(f"column {self.name!r} holds bytes; convert it to text.")
            return pc.if_else(pc.equal(pc.utf8_trim_whitespace(texts), ""), pa.scalar(None, texts.type), texts)
        numbers, states = floats(column)
        cells = np.searchsorted(GRID, numbers, side="right") - 1
        gone = (states < 0) | (cells < 0) | (cells > len(GRID) - 2)
        if self.kind == "whole numbers":
            gone |= np.floor(numbers) != numbers
        return pa.array(cells, mask=gone).cast(pa.large_string())


class _Records:
    """How many records hold each value."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def add(self, texts: Any, multiples: NDArray[np.int64], _: object) -> None:
        """Counts a batch."""
        coded = texts.dictionary_encode()
        there = ~coded.indices.is_null().to_numpy(zero_copy_only=False)
        places = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        sums = np.zeros(max(len(coded.dictionary), 1), np.int64)
        np.add.at(sums, places[there], multiples[there])
        for text, times in zip(coded.dictionary.to_pylist(), sums.tolist(), strict=False):
            self._held[text] += times

    def counts(self) -> tuple[list[str], NDArray[np.int64]]:
        """Every value that a record holds, and how many do."""
        held = {text: times for text, times in self._held.items() if times}
        return list(held), np.fromiter(held.values(), np.int64, len(held))


class _Persons:
    """How many persons hold each value, of each person no more than so many different ones.

    Which ones depends on the person's own values and the ledger's key alone.
    """

    def __init__(self, key: bytes, most: int) -> None:
        self._words, self._most = np.frombuffer(key, dtype="<u8"), most
        self._pairs: list[Words] = []
        self._texts: dict[bytes, str] = {}
        self._apart = 0

    def add(self, texts: Any, multiples: NDArray[np.int64], persons: tuple[Words, Any]) -> None:
        """Keeps which person holds which value, by their hashes."""
        coded = texts.dictionary_encode()
        if not len(coded.dictionary):
            return
        offsets, content = laid_out(coded.dictionary)
        hashes = hashed_texts(content, offsets, (self._words[2], self._words[3]))
        self._texts |= {word.tobytes(): text for word, text in zip(hashes, coded.dictionary.to_pylist(), strict=True)}
        there = ~coded.indices.is_null().to_numpy(zero_copy_only=False) & (multiples > 0)
        whose, alone = persons[0].copy(), persons[1] & there
        # Each of these is a person apart: none has a hash, and a number of its own does as well.
        whose[alone] = np.stack([np.arange(self._apart, self._apart + alone.sum()), np.zeros(alone.sum())], 1)
        self._apart += int(alone.sum())
        places = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        self._pairs.append(np.unique(np.concatenate([whose, hashes[places]], axis=1)[there], axis=0))

    def counts(self) -> tuple[list[str], NDArray[np.int64]]:
        """Every value that a chosen pair has, and how many persons hold it."""
        if not self._pairs:
            return [], np.zeros(0, np.int64)
        pairs = np.unique(np.concatenate(self._pairs), axis=0)
        order = pairs[:, 2:] ^ pairs[:, :2]
        pairs = pairs[np.lexsort((order[:, 1], order[:, 0], pairs[:, 1], pairs[:, 0]))]
        first = np.r_[True, (pairs[1:, :2] != pairs[:-1, :2]).any(axis=1)] if len(pairs) else np.zeros(0, bool)
        places = np.arange(len(pairs))
        rank = places - np.maximum.accumulate(np.where(first, places, 0)) if len(pairs) else places
        words, counts = np.unique(pairs[rank < self._most, 2:], axis=0, return_counts=True)
        return [self._texts[word.tobytes()] for word in words], counts.astype(np.int64)


def selected(
    counts: NDArray[np.int64], chances: tuple[int, ...], *, _entropy: Entropy | None = None
) -> NDArray[np.bool_]:
    """One toss per value: whether it is released, with exactly the chance of its count, (values,)."""
    table = np.array([[chance >> 64, chance & (2**64 - 1)] for chance in (0, *chances)], dtype=object)
    certain = counts >= len(chances)
    rows = table[np.where(certain, 0, counts)].astype(np.uint64).reshape(-1, 2)
    words = take(_entropy or SystemEntropy(), 2 * len(counts)).reshape(-1, 2)
    below = (words[:, 0] < rows[:, 0]) | ((words[:, 0] == rows[:, 0]) & (words[:, 1] < rows[:, 1]))
    return np.asarray(certain | below)
