"""The lines of a ledger: JSON, numbered, each holding the digest of the one before it.

The first line is the header, sequence 0; every other line is a debit, or a dataset that was declared to be of the same
people:

    {"format":"residua ledger","version":1,"sequence":0,"time":…,"budget":…,"unit":…,"pcost_allowed":"1/1",
     "salt":…,"dataset":null,"population":"adults","previous":"","sha256":…}
    {"sequence":1,"time":…,"cost":"1/4","purpose":…,"dataset":…,"detail":{},"previous":…,"sha256":…}
    {"sequence":2,"time":…,"accepted":…,"why":"corrected codes","previous":…,"sha256":…}

Version 1 has no population and no accepted datasets; what it has is read as it was. Version 3 is version 2 for persons,
whose bound an earlier residua would not keep.

A ledger whose budget is PureDP counts in epsilon: it has `epsilon_allowed`, and its costs are epsilons. In the others a
debit of Laplace noise keeps its epsilon as `detail.pure_epsilon`, beside the pcost it counts as.

`sha256` is the digest of the bytes of the line that come before `,"sha256"`; `previous` is the `sha256` of the
line before. Only bytes and values here: files and locks are in `ledger_file`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from residua.errors import FileError, LedgerError
from residua.files import digest_of
from residua.plans.bodies import guarantee_of_body, guarantee_to_body, unit_of_body, unit_to_body
from residua.privacy import Guarantee, PureDP, Unit

FORMAT, VERSION = "residua ledger", 1
OPENING = b'{"format":"residua ledger",'  # how every ledger begins, whatever its version
_SEAL = ',"sha256":"{}"}}'
_SEAL_LENGTH = len(_SEAL.format("0" * 64))
_RESTORE = "restore the ledger from a copy, and release nothing from this dataset until then"


@dataclass(frozen=True)
class Header:
    """What is fixed when a ledger is created. The allowance is kept, so that no later rounding can move it."""

    budget: Guarantee
    unit: Unit
    allowed: Fraction
    salt: str
    dataset: str | None
    population: str
    digest: str


@dataclass(frozen=True)
class Acceptance:
    """A dataset that the curator declared to hold the same people: when, and why it is another.

    `dataset` is its salted digest, `time` is UTC, `digest` identifies this line and all before.
    """

    sequence: int
    time: str
    dataset: str
    why: str
    digest: str


@dataclass(frozen=True)
class Entry:
    """One debit, as the ledger holds it; what `Ledger.debit` returns is its receipt.

    `cost` is in the ledger's currency and for its unit, `time` is UTC, `digest` identifies this entry and all before.
    """

    sequence: int
    time: str
    cost: Fraction
    purpose: str
    detail: Mapping[str, Any] = field(hash=False)
    digest: str

    @property
    def epsilon(self) -> Fraction | None:
        """What was spent as pure DP, where the debit was one in a ledger of another currency."""
        return _fraction_of(self.detail["pure_epsilon"]) if "pure_epsilon" in self.detail else None


@dataclass(frozen=True)
class Contents:
    """All that a ledger file says, verified, and how many of its bytes say it."""

    header: Header
    entries: tuple[Entry, ...]
    accepted: tuple[Acceptance, ...]
    digests: tuple[str, ...]
    spent: Fraction
    datasets: tuple[str, ...]
    kept: int
    ended: bool

    @property
    def remaining(self) -> Fraction:
        """What is left of the allowance, exactly."""
        return self.header.allowed - self.spent

    @property
    def head(self) -> str:
        """The digest of the last line."""
        return self.digests[-1]

    def contains(self, digest: str) -> bool:
        """Whether some line has this digest."""
        return digest in self.digests


def header_line(
    budget: Guarantee, unit: Unit, allowed: Fraction, salt: str, dataset: str | None, population: str
) -> bytes:
    """The first line of a new ledger."""
    return _sealed(
        {
            "format": FORMAT,
            "version": VERSION,
            "sequence": 0,
            "time": _now(),
            "budget": guarantee_to_body(budget),
            "unit": unit_to_body(unit),
            _allowance_key(budget): text_of(allowed),
            "salt": salt,
            "dataset": dataset,
            "population": population,
        },
        previous="",
    )


def entry_line(after: Contents, cost: Fraction, purpose: str, dataset: str, detail: Mapping[str, Any]) -> bytes:
    """The line of one more debit."""
    body = {
        "sequence": len(after.digests),
        "time": _now(),
        "cost": text_of(cost),
        "purpose": purpose,
        "dataset": dataset,
        "detail": dict(detail),
    }
    return _sealed(body, previous=after.head)


def acceptance_line(after: Contents, dataset: str, why: str) -> bytes:
    """The line of one more dataset that holds the same people."""
    body = {"sequence": len(after.digests), "time": _now(), "accepted": dataset, "why": why}
    return _sealed(body, previous=after.head)


def entry_of(line: bytes) -> Entry:
    """The debit that a line, already verified, records."""
    return _entry(json.loads(line), _digest(line))


def read_contents(content: bytes, name: str) -> Contents:
    """Verifies every line of a ledger, and leaves out a last one that was never finished.

    What follows the last newline is an append that a crash interrupted. If it is a whole record it counts:
    that can only overstate what was spent. If it is not, its debit never returned to its caller. A line that
    has its newline and not its digest was changed: newlines are written only once their line is on disk.

    Raises:
        FileError: when this is no ledger, or one of another version.
        LedgerError: when a line was changed, removed, inserted or moved.
    """
    *lines, tail = content.split(b"\n")
    kept, ended = len(content) - len(tail), True
    record = tail[: tail.rfind(b'"}') + 2]
    if record and _intact(record):
        # After power loss, zeros may stand where bytes were not written yet; nothing else can.
        if tail[len(record) :].strip(b"\0"):
            raise LedgerError(
                f"{name} was changed after it was written (something follows line {len(lines) + 1}); {_RESTORE}."
            )
        lines, kept, ended = [*lines, record], kept + len(record), False
    if not lines:
        raise FileError(f"{name} is not a ledger, or its first line is damaged; {_RESTORE}.")
    for number, line in enumerate(lines, 1):
        if number == 1:
            _check_version(line, name)
        if not _intact(line):
            raise LedgerError(
                f"line {number} of {name} was changed after it was written (its digest does not match); {_RESTORE}."
            )
    try:
        return _chained([json.loads(line) for line in lines], [_digest(line) for line in lines], kept, ended)
    except _BrokenError as broken:
        raise LedgerError(f"{name} was changed after it was written ({broken}); {_RESTORE}.") from None
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as problem:
        raise LedgerError(
            f"{name} holds a line that no ledger has ({type(problem).__name__}: {problem}); {_RESTORE}."
        ) from None


class _BrokenError(Exception):
    """Where the chain breaks."""


def _chained(bodies: list[dict[str, Any]], digests: list[str], kept: int, ended: bool) -> Contents:
    first = bodies[0]
    budget = guarantee_of_body(first["budget"])
    if budget is None:
        raise ValueError("no budget")
    allowed, bound = _fraction_of(first[_allowance_key(budget)]), first["dataset"]
    unit, salt, population = unit_of_body(first["unit"]), str(first["salt"]), str(first["population"])
    header = Header(budget, unit, allowed, salt, bound, population, digests[0])
    spent, datasets = Fraction(0), [] if bound is None else [str(bound)]
    entries, accepted = [], []
    for number, body in enumerate(bodies):
        if body["sequence"] != number or body["previous"] != (digests[number - 1] if number else ""):
            raise _BrokenError(f"line {number + 1} does not follow the one before it")
        if number and "accepted" in body:
            datasets.append(str(body["accepted"]))
            accepted.append(Acceptance(number, body["time"], datasets[-1], str(body["why"]), digests[number]))
        elif number:
            entries.append(_entry(body, digests[number]))
            spent += entries[-1].cost
            datasets = datasets or [str(body["dataset"])]
            if body["dataset"] not in datasets:
                raise _BrokenError(f"line {number + 1} is about another dataset")
            if spent > allowed:
                raise _BrokenError(f"line {number + 1} spends more than the budget")
    held = (tuple(entries), tuple(accepted), tuple(digests))
    return Contents(header, *held, spent, tuple(datasets), kept, ended)


def _allowance_key(budget: Guarantee) -> str:
    """A ledger of pure DP counts in epsilon; the key says so, so that no other version takes it for a pcost."""
    return "epsilon_allowed" if isinstance(budget, PureDP) else "pcost_allowed"


def _entry(body: dict[str, Any], digest: str) -> Entry:
    cost, detail = _fraction_of(body["cost"]), MappingProxyType(dict(body["detail"]))
    return Entry(body["sequence"], body["time"], cost, body["purpose"], detail, digest)


def _check_version(line: bytes, name: str) -> None:
    """Looks at the version before anything else: another one may seal its lines in another way."""
    given: object = None
    # What is not JSON has no matching digest either.
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        given = json.loads(line)["version"]
    if isinstance(given, int) and given != VERSION:
        raise FileError(
            f"{name} has version {given}; this residua reads version {VERSION}: use the residua that wrote it."
        )


def _sealed(body: dict[str, Any], previous: str) -> bytes:
    encoded = json.dumps({**body, "previous": previous}, separators=(",", ":"), allow_nan=False)
    opened = encoded[:-1].encode("ascii")
    return opened + _SEAL.format(digest_of(opened)).encode("ascii")


def _intact(line: bytes) -> bool:
    return line[-_SEAL_LENGTH:] == _SEAL.format(digest_of(line[:-_SEAL_LENGTH])).encode("ascii")


def _digest(line: bytes) -> str:
    return line[-66:-2].decode("ascii")


def text_of(number: Fraction) -> str:
    """A fraction as a ledger writes it."""
    return f"{number.numerator}/{number.denominator}"


def _fraction_of(text: str) -> Fraction:
    numerator, denominator = text.split("/")
    number = Fraction(int(numerator), int(denominator))
    if number < 0:
        raise ValueError("a negative cost")
    return number


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def agreed(contents: Contents, whose: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Who a person is (`Options.whose`), if the first debit that says so says the same.

    Raises:
        LedgerError: it says something else. Nothing is spent.
    """
    earlier = next((entry.detail["whose"] for entry in contents.entries if "whose" in entry.detail), None)
    if earlier is not None and dict(earlier) != dict(whose):
        columns = ", ".join(map(repr, earlier["person"]))
        raise LedgerError(
            f"to the ledger {name} a person is who has one {columns} (no_person={earlier['no_person']!r}, "
            f"weight={earlier['weight']!r}); say the same, and rename columns with Source.with_columns if need be. "
            "Nothing was spent."
        )
    return dict(whose)
