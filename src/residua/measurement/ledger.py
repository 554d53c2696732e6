"""The privacy ledger: what may be spent on a population, and every debit, on disk before the data is read."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from residua.disk import sync
from residua.errors import LedgerError, LedgerMovedError, named
from residua.files import require_path
from residua.measurement import ledger_entries as amounts, ledger_file as file
from residua.measurement.ledger_entries import Acceptance, Contents, Entry, Header, LedgerFacts
from residua.measurement.witness import Witness
from residua.plans.noise import Currency
from residua.privacy import AddRemove, Guarantee, Person, ReplaceOne, Unit
from residua.showing import Shown
from residua.source import source_of

__all__ = ["Acceptance", "Entry", "Ledger"]

_OWN = {"whose", "delta", "pure_epsilon"}  # what entries say beside the detail that is given


class Ledger(LedgerFacts, Shown):
    """The budget of one population and what was spent of it, in a file that only grows; created, or opened.

    A ledger belongs to people, not to bytes: whatever is released about them, from whichever version of their data, is
    debited here. The first debit binds it to its dataset; other datasets of the same people (corrected, converted,
    other columns) are declared with `accept`. A second ledger would be a second budget for the same people.

    Costs are pcosts for the ledger's unit, and add up: a debit is refused when `Σ cost > pcost_allowed`, in
    exact rational arithmetic. Each cost is fixed before its mechanism runs but may depend on all that was
    released before, so this is a privacy filter: Gaussian mechanisms with `Σ mu_k² <= mu²` are together
    mu-GDP, hence `mu²/2`-zCDP, however adaptively they were chosen. Laplace noise of `epsilon` counts as pcost
    `epsilon²` under a ZCDP budget and as the `mu²` of the GDP it has under the others; a ledger whose budget is
    PureDP counts epsilons, which add up too, and takes no Gaussian noise. `meaning` says what a total stands for.
    A caller who keeps more of Γ in `detail` may debit the increment of the maximum alone, with `after=ledger.head`.

    Guarantee: a debit that returned is on disk, and survives the end of the process and a loss of power. A debit cut
    short leaves the ledger readable. What was spent never exceeds the budget, however many processes and threads
    debit at once. An edited, removed, inserted or moved line is noticed.

    What it cannot notice: the chain has no secret, so anyone who may write the file can rewrite all of it, or
    cut its last lines off (go back to a copy), unless a `witness` in another place knows better. Every release keeps
    its `head`: `contains(head)` tells; a Ledger does so itself for what it has seen. The dataset's fingerprint is kept
    hashed with a random salt: two ledgers of one dataset show nothing in common, but whoever has the ledger can test a
    guess of the fingerprint. Keep the ledger on a local disk, where locks and fsync do what they say.

    Args:
        path: the file; one per population.
        budget: ZCDP, GDP, ApproxDP or PureDP, fixed at creation; may be left out for a ledger that exists.
        unit: whom the budget protects, fixed at creation; one record added or removed if left out. When
            budget and unit are both left out, the file says.
        dataset: fingerprint of the dataset the ledger belongs to, kept at creation; checked when the ledger
            has one already. If left out, the first debit binds the ledger to its own.
        population: who the people are, in words that may be public, fixed at creation; the file's name if left out.
        discovery_delta: how much delta `rs.discover` may spend in all, beside the budget, fixed at creation; none if
            left out.
        witness: a second file, best on another disk, that knows how far the ledger got; fixed at creation, relative to
            the ledger's folder. A ledger that was set back to a copy is refused then.
        whose: who a person is, as for `debit`, where that is known at creation; the first debit says so if left out.

    Raises:
        FileError: when the path cannot be used, or holds no ledger.
        LedgerError: when the file has another budget, unit, population, dataset or witness, was changed, or is older
            than its witness.

    Reference: Smith and Thakurta (2022), arXiv:2210.17520 (filter for GDP); Whitehouse, Ramdas, Rogers and Wu
        (2023), arXiv:2203.05481 (for zCDP and approximate DP); Feldman and Zrnic (2021) (Rényi filter).

    Example:
        >>> import tempfile
        >>> from residua.privacy import ZCDP
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger(f"{folder.name}/adult.ledger", ZCDP(rho=0.5))
        >>> receipt = ledger.debit(Fraction(3, 4), purpose="2-way tables", dataset="sha256:1f3c")
        >>> receipt.sequence, ledger.spent, ledger.remaining
        (1, ZCDP(rho=0.375), ZCDP(rho=0.125))
        >>> ledger.spent.epsilon(delta=1e-6), ledger.remaining_exactly
        (4.44..., Fraction(1, 4))
        >>> ledger.debit(Fraction(1, 2), purpose="3-way tables", dataset="sha256:1f3c")
        Traceback (most recent call last):
        residua.errors.LedgerError: the budget of '...adult.ledger' is exhausted: rho 0.125 left, the plan needs
        rho 0.25; plan for what is left.
        >>> ledger.contains(receipt.digest)
        True
        >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        budget: Guarantee | None = None,
        *,
        unit: Unit | None = None,
        dataset: str | None = None,
        population: str | None = None,
        discovery_delta: float | None = None,
        witness: str | os.PathLike[str] | None = None,
        whose: Mapping[str, Any] | None = None,
    ) -> None:
        self._path = Path(path).absolute()
        require_path(self._path)
        self._seen: str | None = None
        self._witness: Witness | None = None  # until the header is read
        place, delta = None if witness is None else os.fspath(witness), amounts.exact_delta(discovery_delta)
        if budget is not None:
            unit = AddRemove() if unit is None else unit
            if not isinstance(unit, AddRemove | ReplaceOne | Person):
                raise LedgerError(
                    f"unit must be AddRemove, ReplaceOne or Person, not {named(unit)}; say whom it protects."
                )
            name = self._path.stem if population is None else population
            _require_text("population", name, "say who the people are")
            if whose is not None:
                _require_whose(whose)
            allowed, salt = amounts.allowance(budget), secrets.token_hex(16)
            bound = None if dataset is None else _salted(salt, dataset)
            beside = None if place is None else Witness.beside(self._path, place)
            if beside is not None:
                beside.require_new(self._path)
            header = Header(budget, unit, allowed, salt, bound, name, delta or Fraction(0), place, whose)
            file.create_file(self._path, header, (lambda _: None) if beside is None else beside.begin)
        contents = self._read()
        self._header = held = contents.header
        self._require_fixed(held.budget, budget, f"has the budget {held.budget!r}", "or leave the budget out")
        if not (isinstance(unit, Person) and isinstance(held.unit, Person)):  # a bound is a plan's own
            self._require_fixed(held.unit, unit, f"protects against {held.unit}", f"unit={held.unit!r}")
        self._require_fixed(held.population, population, f"is of the population {held.population!r}", "of these people")
        self._require_fixed(held.discovery_delta, delta, f"allows delta {float(held.discovery_delta):g}", "or none")
        self._require_fixed(held.witness, place, f"has the witness {held.witness!r}", "or none")
        self._require_fixed(held.whose, whose, f"knows persons by {held.whose}", "or none")
        if held.witness is not None:
            self._witness = Witness.beside(self._path, held.witness)
            contents = self._read()  # beside its witness, under one lock
        if dataset is not None:
            self._bound(contents, dataset)

    @classmethod
    def create(cls, path: str | os.PathLike[str], budget: Guarantee, **options: Any) -> Self:
        """Creates a ledger; the options are those of `Ledger`.

        Raises:
            LedgerError: when there is one already.
        """
        if Path(path).exists():
            raise LedgerError(
                f"{str(path)!r} is there already; go on with it (in Python: rs.Ledger): another file would count the "
                "same people's budget anew."
            )
        return cls(path, budget, **options)

    def _require_fixed(self, held: object, given: object, states: str, which: str) -> None:
        if given is not None and given != held:
            raise LedgerError(
                f"the ledger {self._name} {states}, fixed at creation, not {given}; give the same, {which}."
            )

    def can_spend(self, cost: Fraction | int, *, currency: Currency = "pcost") -> bool:
        """Whether a debit of this cost would be allowed now; another may come first."""
        return amounts.converted(self._header.budget, amounts.exact_cost(cost), currency) <= self._read().remaining

    def accept(self, data: Any = None, *, why: str, fingerprint: str | None = None) -> Acceptance:
        """Declares that another dataset holds the same people, so that what is released from it is debited here.

        For data that was corrected, converted to another kind of file, or has other columns or rows of the same people.
        Costs nothing, for it gives nobody a second budget. The declaration is the curator's: it cannot be checked.

        Args:
            data: the dataset, as for `rs.measure`; its records are read for their fingerprint.
            why: what is different about it, in words that may be public.
            fingerprint: the dataset's fingerprint, instead of the data.

        Returns:
            The line that the ledger now holds, or already held.

        Raises:
            LedgerError: no reason, neither data nor fingerprint or both, or the ledger was changed.
        """
        _require_text("why", why, "say why this is another dataset of the same people")
        if (data is None) == (fingerprint is None):
            raise LedgerError("accept takes the data or its fingerprint; give one of them.")
        given = source_of(data).fingerprint() if fingerprint is None else fingerprint
        salted = _salted(self._header.salt, given)
        with self._held() as (handle, contents):
            for known in contents.accepted:
                if known.dataset == salted:
                    return known
            line = self._appended(handle, contents, {"accepted": salted, "why": why})
        return file.acceptance_of(line)

    def debit(
        self,
        cost: Fraction | int,
        *,
        purpose: str,
        dataset: str | None,
        detail: Mapping[str, Any] = MappingProxyType({}),
        after: str | None = None,
        currency: Currency = "pcost",
        whose: Mapping[str, Any] | None = None,
        delta: Fraction | int = 0,
    ) -> Entry:
        """Spends a cost; only when this has returned may the data be read.

        Guarantee: when it returns, the debit is on disk; when it raises, nothing was spent, unless the message
        says that the debit may stand; interrupted from outside (Ctrl-C), it may stand too.

        Args:
            cost: what is spent, for the ledger's unit, above 0, exact (no float); 0 only with a detail, for a
                measurement that adds nothing to what the most expensive cell has paid already.
            purpose: what the budget is spent on, in words that may be public.
            dataset: fingerprint of the data to be read; None where the detail says that a part is allotted.
            detail: JSON values to keep with the entry.
            after: the head the cost was computed for; the debit is refused if the ledger moved on.
            currency: what the cost is: a pcost (Gaussian noise), or an epsilon (Laplace noise), which is converted
                into what the ledger counts in and kept in the entry's detail.
            whose: who a person is (`Options.whose`), the same in all debits: another column would be other people.
            delta: the probability that nothing is promised beside the cost, exact; what discovering values spends.

        Raises:
            LedgerError: when the budget, the dataset or the disk does not allow it, or the ledger was changed.
            LedgerMovedError: when `after` is no longer the head.
            FileError: when the ledger cannot be opened for writing.
        """
        if not isinstance(detail, Mapping):
            raise LedgerError(f"detail must hold JSON values only, by their names, not {named(detail)}; leave it out.")
        if whose is not None:
            _require_whose(whose)
        if own := sorted(_OWN & set(detail)):
            raise LedgerError(f"detail holds {own[0]!r}, which the ledger writes itself; leave it out.")
        if "allotted" in detail and (dataset is not None or not isinstance(detail["allotted"], str)):
            raise LedgerError("detail says 'allotted', which is what rs.allot writes; allot with it, or leave it out.")
        given = amounts.exact_cost(cost, zero=bool(detail))
        amount = amounts.converted(self._header.budget, given, currency)
        if currency != amounts.currency_of(self._header.budget):
            detail = {**detail, "pure_epsilon": amounts.text_of(given)}
        if delta:
            detail = {**detail, "delta": amounts.text_of(amounts.exact_cost(delta))}
        _require_text("purpose", purpose, "say what the budget is spent on")
        if "allotted" not in detail:
            _require_text("dataset", dataset, "give the source's own fingerprint")
        with self._held() as (handle, contents):
            if after is not None and after != contents.head:
                raise LedgerMovedError(
                    f"the ledger {self._name} moved on since the cost was computed; "
                    "nothing was spent: compute it again."
                )
            salted, agreed = self._allowed(contents, amount, dataset, whose, delta)
            stated = {"cost": amounts.text_of(amount), "purpose": purpose, "dataset": salted}
            line = self._appended(handle, contents, {**stated, "detail": {**detail, **agreed}})
        entry = file.entry_of(line)
        self._seen = entry.digest
        return entry

    def require(
        self,
        cost: Fraction | int,
        *,
        dataset: str,
        currency: Currency = "pcost",
        whose: Mapping[str, Any] | None = None,
        delta: Fraction | int = 0,
    ) -> None:
        """Refuses what `debit` would refuse; nothing is spent.

        Raises:
            LedgerError: as for `debit`.
        """
        amount = amounts.converted(self._header.budget, amounts.exact_cost(cost), currency)
        with self._held(write=False) as (_, contents):
            self._allowed(contents, amount, dataset, whose, delta)

    def _allowed(
        self,
        contents: Contents,
        amount: Fraction,
        dataset: str | None,
        whose: Mapping[str, Any] | None,
        delta: Fraction | int,
    ) -> tuple[str | None, dict[str, Any]]:
        """The salted fingerprint and what says whose records are, once they and the amount are known to be allowed."""
        salted = None if dataset is None else self._bound(contents, dataset)
        agreed = {} if whose is None else {"whose": amounts.agreed(contents, whose, self._name)}
        if amount > contents.remaining:
            raise LedgerError(
                f"the budget of {self._name} is exhausted: "
                f"{amounts.shortage(self._header.budget, contents.remaining, amount)}; plan for what is left."
            )
        if contents.spent_delta + delta > contents.header.discovery_delta:
            raise LedgerError(_delta_shortage(contents, Fraction(delta), self._name))
        return salted, agreed

    def _appended(self, handle: int, contents: Contents, body: Mapping[str, Any]) -> bytes:
        """One more line, on disk, and known to the witness."""
        self._confirmed(handle, contents)  # shows that it can be written, before anything is spent
        line = file.append(handle, self._path, contents, body)
        if self._witness is not None:
            self._witness.note(contents, file.digest_of_line(line))
        return line

    def confirm(self) -> None:
        """Has the witness know every line, before what a line paid for is taken up again after a crash."""
        if self._witness is not None:
            with self._held() as (handle, contents):
                self._confirmed(handle, contents)

    def _confirmed(self, handle: int, contents: Contents) -> None:
        if self._witness is not None:
            sync(handle)  # a last line that was cut off by a crash may not be on disk yet
            self._witness.advance(contents)

    @property
    def whose(self) -> Mapping[str, Any] | None:
        """Who a person is: the columns that say so, in all debits; nothing where no debit named a person yet."""
        return self._read().whose

    @property
    def witness(self) -> Path | None:
        """The second file that knows how far the ledger got, if it has one."""
        return None if self._witness is None else self._witness.path

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r}, {self._header.budget!r})"

    @property
    def _name(self) -> str:
        return repr(str(self._path))

    @contextmanager
    def _held(self, *, write: bool = True) -> Iterator[tuple[int, Contents]]:
        """The file, locked, and all that it says, verified."""
        seen = self._seen  # before the file is read: another thread may debit meanwhile
        with file.locked(self._path, write=write) as handle:
            contents = file.read_contents(file.read_file(handle, self._path), self._name)
            if seen is not None and not contents.contains(seen):
                raise LedgerError(
                    f"the ledger {self._name} lacks a debit that it had before; it was rolled back or replaced: "
                    "restore the later copy."
                )
            if self._witness is not None:
                self._witness.check(contents, self._name)
            yield handle, contents

    def _read(self) -> Contents:
        with self._held(write=False) as (_, contents):
            self._seen = contents.head
        return contents

    def _bound(self, contents: Contents, dataset: str) -> str:
        """The dataset's salted digest, which must be the one the ledger belongs to, if it has one."""
        salted = _salted(contents.header.salt, dataset)
        if contents.datasets and salted not in contents.datasets:
            raise LedgerError(
                f"this is another dataset than those of the population {self._header.population!r}, to whom the ledger "
                f"{self._name} belongs; nothing was spent: if it holds the same people (corrected, converted, other "
                "columns), declare that with ledger.accept(data, why=…), or residua ledger FILE --accept SPEC.toml "
                "--why …; make a new ledger for other people only: for the same people it is a second budget, and what "
                "they are promised would no longer hold."
            )
        return salted


def _require_whose(whose: object) -> None:
    """Refuses what does not say who a person is: a ledger that holds it could not be read."""
    if not isinstance(whose, Mapping) or {*whose} != {"person", "no_person", "counts"}:
        raise LedgerError("whose does not say who a person is, as Options.whose does; leave it out.")


def _require_text(name: str, given: object, remedy: str) -> None:
    if not isinstance(given, str) or not given.strip():
        raise LedgerError(f"{name} must be a text, not {named(given)}; {remedy}.")


def _salted(salt: str, dataset: str) -> str:
    if not isinstance(dataset, str) or not dataset:
        raise LedgerError(f"dataset must be a fingerprint, a text, not {named(dataset)}; give the source's own.")
    return hashlib.sha256(f"{salt}:{dataset}".encode("utf-8", "surrogatepass")).hexdigest()


def _delta_shortage(contents: Contents, asked: Fraction, name: str) -> str:
    """Why a delta cannot be spent, and the remedy."""
    allowed = contents.header.discovery_delta
    if not allowed:
        return (
            f"the ledger {name} allows no delta for discovering values, which its promise would not cover; nothing was "
            "spent: a ledger allows it from its creation, rs.Ledger.create(…, discovery_delta=1e-9), or [ledger] "
            "discovery_delta = 1e-9 in a specification."
        )
    left = float(allowed - contents.spent_delta)
    return f"the ledger {name} has delta {left:g} left for discovering values, not {float(asked):g}; nothing was spent."
