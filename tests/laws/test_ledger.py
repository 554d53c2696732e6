"""What a ledger promises while nothing goes wrong with its file: sums, limits, identity, clear refusals."""

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from residua.errors import FileError, LedgerError, LedgerMovedError, ResiduaError
from residua.measurement.ledger import Entry, Ledger
from residua.privacy import GDP, ZCDP, AddRemove, ApproxDP, Guarantee, ReplaceOne, Unit

DATA = "sha256:1f3c"
costs = st.lists(st.fractions(min_value=Fraction(1, 10**6), max_value=Fraction(1, 2)), max_size=12)
budgets = st.sampled_from([ZCDP(0.5), ZCDP(0.1), GDP(0.7), ApproxDP(1.0, 1e-6)])


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "a.ledger", ZCDP(rho=0.5))


def pay(ledger: Ledger, cost: Fraction | int, dataset: str = DATA) -> Entry:
    return ledger.debit(cost, purpose="tables", dataset=dataset)


@settings(max_examples=60, deadline=None)
@given(budgets, costs)
def test_spent_is_the_sum_and_never_exceeds_the_budget(budget: Guarantee, asked: list[Fraction]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.ledger")
        ledger = Ledger(path, budget)
        allowed, spent, receipts = budget.pcost_allowed(), Fraction(0), []
        for cost in asked:
            fits = spent + cost <= allowed
            assert ledger.can_spend(cost) == fits
            if fits:
                receipts.append(pay(ledger, cost))
                spent += cost
            else:
                with pytest.raises(LedgerError, match=r"is exhausted: .* left, the plan needs"):
                    pay(ledger, cost)
            assert ledger.spent_exactly == spent <= allowed
            assert ledger.remaining_exactly == allowed - spent
        reopened = Ledger(path)
        assert reopened.entries == tuple(receipts) == ledger.entries
        assert (reopened.budget, reopened.unit, reopened.spent_exactly) == (budget, AddRemove(), spent)
        assert reopened.head == ledger.head
        assert [entry.sequence for entry in receipts] == list(range(1, len(receipts) + 1))


def test_the_budget_can_be_spent_to_the_last_drop_and_not_a_drop_more(ledger: Ledger) -> None:
    drop = Fraction(1, 10**300)
    pay(ledger, 1 - drop)
    with pytest.raises(LedgerError, match="exhausted"):
        pay(ledger, drop + Fraction(1, 10**600))
    pay(ledger, drop)
    assert ledger.remaining_exactly == 0
    with pytest.raises(LedgerError, match="rho 0 left"):
        pay(ledger, drop)


def test_a_third_is_kept_as_a_third(ledger: Ledger) -> None:
    for _ in range(3):
        pay(ledger, Fraction(1, 3))
    assert ledger.spent_exactly == 1
    assert '"cost":"1/3"' in ledger.path.read_text()


@pytest.mark.parametrize(
    ("budget", "first", "second", "told"),
    [
        (ZCDP(0.5), Fraction(4, 5), 1, "rho 0.1 left, the plan needs rho 0.5"),
        (GDP(1.0), Fraction(3, 4), 4, "mu 0.5 left, the plan needs mu 2"),
        (ApproxDP(4.9, 1e-6), Fraction(1, 2), 1, "left, the plan needs epsilon 4.8866 at delta 1e-06"),
        (ZCDP(0.5), Fraction(1, 2), Fraction(1, 2) + Fraction(1, 2**90), "rho 0.25 left, the plan needs rho"),
    ],
)
def test_an_exhausted_ledger_tells_what_is_left_in_its_own_currency(
    tmp_path: Path, budget: Guarantee, first: Fraction, second: Fraction, told: str
) -> None:
    ledger = Ledger(tmp_path / "a.ledger", budget)
    pay(ledger, first)
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerError) as refused:
        pay(ledger, second)
    assert told in str(refused.value)
    assert ledger.path.read_bytes() == before


def test_what_differs_by_less_than_a_float_is_told_apart(ledger: Ledger) -> None:
    pay(ledger, Fraction(9, 10) + Fraction(1, 2**90))
    with pytest.raises(LedgerError, match=r"more by pcost 8\.1e-28"):
        pay(ledger, Fraction(1, 10))


@pytest.mark.parametrize("cost", [0, -1, Fraction(-1, 3), 0.5, True, "1/2", None, float("nan")])
def test_a_cost_that_is_not_exact_and_above_zero_is_refused(ledger: Ledger, cost: object) -> None:
    for ask in (ledger.can_spend, lambda c: pay(ledger, c)):
        with pytest.raises(LedgerError, match="cost must be"):
            ask(cost)  # type: ignore[arg-type]
    assert ledger.entries == ()


def test_a_cost_too_long_to_print_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="round it up first"):
        pay(ledger, Fraction(1, 2**20000))
    pay(ledger, Fraction(1, 2**4000))
    assert ledger.spent_exactly == Fraction(1, 2**4000)


@pytest.mark.parametrize("purpose", ["", "  ", None, 3])
def test_a_debit_needs_a_purpose(ledger: Ledger, purpose: object) -> None:
    with pytest.raises(LedgerError, match="purpose"):
        ledger.debit(Fraction(1, 2), purpose=purpose, dataset=DATA)  # type: ignore[arg-type]


@given(st.text(min_size=1).filter(str.strip))
@settings(max_examples=50, deadline=None)
def test_any_text_is_a_purpose(purpose: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder, "a.ledger"), ZCDP(0.5))
        ledger.debit(Fraction(1, 2), purpose=purpose, dataset=purpose)
        assert [entry.purpose for entry in ledger.entries] == [purpose]
        assert ledger.path.read_bytes().count(b"\n") == 2


def test_detail_is_kept_and_cannot_be_changed(ledger: Ledger) -> None:
    detail = {"profile": ["1/2", "1/4"], "maximum": True}
    entry = ledger.debit(Fraction(1, 4), purpose="tables", dataset=DATA, detail=detail)
    assert ledger.entries[0].detail == entry.detail == detail
    with pytest.raises(TypeError):
        entry.detail["maximum"] = False  # type: ignore[index]


@pytest.mark.parametrize("detail", [{"x": float("nan")}, {"x": object()}, [1, 2], {(1, 2): 3}])
def test_detail_that_is_not_json_is_refused(ledger: Ledger, detail: object) -> None:
    with pytest.raises(LedgerError, match="detail must hold JSON values only"):
        ledger.debit(Fraction(1, 4), purpose="tables", dataset=DATA, detail=detail)  # type: ignore[arg-type]
    assert ledger.entries == ()


@pytest.mark.parametrize(
    "given",
    [
        {"detail": {"whose": 3}},
        {"detail": {"delta": "x"}},
        {"detail": {"pure_epsilon": "1/3"}},
        {"detail": {"allotted": "part.ledger"}},
        {"detail": {"allotted": None}, "dataset": None},
        {"whose": {"person": ["id"]}},
        {"whose": "id"},
    ],
)
def test_nothing_is_debited_that_the_ledger_could_not_read_again(ledger: Ledger, given: dict[str, Any]) -> None:
    """What entries say of persons, deltas and parts is written by the ledger: written by hand it would end it."""
    with pytest.raises(LedgerError, match="leave it out"):
        ledger.debit(**{"cost": Fraction(1, 100), "purpose": "tables", "dataset": "data", **given})
    assert not Ledger(ledger.path).entries


def test_a_debit_after_a_head_that_moved_on_is_refused(ledger: Ledger) -> None:
    head = ledger.head
    first = ledger.debit(Fraction(1, 4), purpose="tables", dataset=DATA, after=head)
    with pytest.raises(LedgerError, match="moved on"):
        ledger.debit(Fraction(1, 4), purpose="tables", dataset=DATA, after=head)
    ledger.debit(Fraction(1, 4), purpose="tables", dataset=DATA, after=first.digest)
    assert ledger.spent_exactly == Fraction(1, 2)


def test_the_first_debit_binds_the_dataset(ledger: Ledger) -> None:
    pay(ledger, Fraction(1, 4))
    with pytest.raises(LedgerError, match="another dataset than those"):
        pay(ledger, Fraction(1, 4), dataset="sha256:other")
    with pytest.raises(LedgerError, match="another dataset than those"):
        Ledger(ledger.path, dataset="sha256:other")
    assert Ledger(ledger.path, dataset=DATA).spent_exactly == Fraction(1, 4)


def test_a_dataset_given_at_creation_binds_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.ledger", ZCDP(0.5), dataset=DATA)
    with pytest.raises(LedgerError, match="another dataset than those"):
        pay(ledger, Fraction(1, 4), dataset="sha256:other")
    pay(ledger, Fraction(1, 4))


@pytest.mark.parametrize("dataset", ["", None, b"x"])
def test_a_dataset_needs_a_fingerprint(ledger: Ledger, dataset: object) -> None:
    with pytest.raises(LedgerError, match="fingerprint"):
        pay(ledger, Fraction(1, 4), dataset=dataset)  # type: ignore[arg-type]


def test_two_ledgers_of_one_dataset_show_nothing_in_common(tmp_path: Path) -> None:
    marks = set()
    for name in ("a", "b"):
        ledger = Ledger(tmp_path / name, ZCDP(0.5))
        pay(ledger, Fraction(1, 4))
        assert DATA not in ledger.path.read_text()
        header, entry = map(json.loads, ledger.path.read_text().splitlines())
        marks |= {header["salt"], entry["dataset"], entry["sha256"]}
    assert len(marks) == 6


@pytest.mark.parametrize("budget", [ZCDP(0.6), GDP(1.0), ApproxDP(1.0, 1e-6)])
def test_another_budget_is_refused(ledger: Ledger, budget: Guarantee) -> None:
    with pytest.raises(LedgerError, match=r"has the budget ZCDP\(rho=0.5\), fixed at creation, not"):
        Ledger(ledger.path, budget)
    assert Ledger(ledger.path, ZCDP(0.5)).head == ledger.head


@pytest.mark.parametrize("unit", [ReplaceOne(), AddRemove(records=2)])
def test_another_unit_is_refused(ledger: Ledger, tmp_path: Path, unit: Unit) -> None:
    with pytest.raises(LedgerError, match="protects against adding or removing one record"):
        Ledger(ledger.path, unit=unit)
    other = Ledger(tmp_path / "b.ledger", ZCDP(0.5), unit=unit)
    assert Ledger(other.path).unit == Ledger(other.path, ZCDP(0.5), unit=unit).unit == unit
    with pytest.raises(LedgerError, match="fixed at creation, not adding or removing one record"):
        Ledger(other.path, ZCDP(0.5))


def test_a_budget_or_unit_that_is_none_creates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with pytest.raises(LedgerError, match="budget must be a guarantee"):
        Ledger(path, 0.5)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="unit must be"):
        Ledger(path, ZCDP(0.5), unit="person")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_contains_knows_every_head_the_ledger_had(ledger: Ledger) -> None:
    heads = [ledger.head, *(pay(ledger, Fraction(1, 8)).digest for _ in range(3))]
    assert all(ledger.contains(head) for head in heads)
    assert heads[-1] == ledger.head
    assert not ledger.contains("0" * 64)
    rolled_back = ledger.path.with_name("older")
    rolled_back.write_bytes(b"".join(ledger.path.read_bytes().splitlines(keepends=True)[:-1]))
    assert [Ledger(rolled_back).contains(head) for head in heads] == [True, True, True, False]


@pytest.mark.parametrize("act", ["read", "debit"])
def test_a_ledger_notices_that_what_it_has_seen_is_gone(ledger: Ledger, act: str) -> None:
    older = ledger.path.read_bytes()
    pay(ledger, Fraction(1, 4))
    ledger.path.write_bytes(older)
    with pytest.raises(LedgerError, match="rolled back or replaced"):
        _ = ledger.spent_exactly if act == "read" else pay(ledger, Fraction(1, 4))


def test_two_views_of_one_file_see_each_other(ledger: Ledger) -> None:
    other = Ledger(ledger.path)
    pay(other, Fraction(3, 4))
    assert ledger.remaining_exactly == Fraction(1, 4)
    pay(ledger, Fraction(1, 4))
    assert not other.can_spend(Fraction(1, 100))


def test_threads_that_debit_at_once_never_exceed_the_budget(ledger: Ledger) -> None:
    gate, won = threading.Barrier(8), []

    def debit_until_refused() -> None:
        gate.wait()
        while True:
            try:
                won.append(pay(ledger, Fraction(1, 40)).sequence)
            except LedgerError as refused:
                assert "exhausted" in str(refused)  # noqa: PT017
                return

    threads = [threading.Thread(target=debit_until_refused) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(1, 41))
    assert ledger.spent_exactly == 1


def test_repr_is_short(ledger: Ledger) -> None:
    assert repr(ledger) == f"Ledger({str(ledger.path)!r}, ZCDP(rho=0.5))"


def test_moving_to_another_folder_does_not_lose_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("a.ledger", ZCDP(0.5))
    monkeypatch.chdir("/")
    pay(ledger, 1)


@pytest.mark.parametrize(
    ("make", "budget", "message"),
    [
        (lambda path: None, None, "there is no ledger .*give a budget to create it"),
        (lambda path: path.mkdir(), None, "is not a file, so no ledger"),
        (lambda path: path.mkdir(), ZCDP(0.5), "is not a file, so no ledger"),
        (lambda path: os.mkfifo(path), ZCDP(0.5), "is not a file, so no ledger"),
        (lambda path: path.write_bytes(b""), ZCDP(0.5), "is not a ledger"),
        (lambda path: path.write_bytes(b"age,sex\n17,F\n"), ZCDP(0.5), "is not a ledger"),
        (lambda path: path.write_bytes(b"\x00" * 3000000), None, "is not a ledger"),
        (lambda path: path.write_bytes(b'{"format":"residua ledger",'), None, "is not a ledger"),
        (lambda path: path.symlink_to("nowhere"), ZCDP(0.5), "there is no ledger"),
        (
            lambda path: path.write_bytes(b'{"format":"residua ledger","version":2,"new":{}}\n'),
            None,
            "one of another version than 1",
        ),
    ],
)
def test_a_path_that_holds_no_ledger_is_refused(
    tmp_path: Path, make: object, budget: Guarantee | None, message: str
) -> None:
    path = tmp_path / "a.ledger"
    make(path)  # type: ignore[operator]
    with pytest.raises(FileError, match=message):
        Ledger(path, budget)
    assert {entry.name for entry in tmp_path.iterdir()} <= {"a.ledger"}


@pytest.mark.parametrize("where", ["missing/a.ledger", "file/a.ledger", "x" * 300])
def test_a_path_that_cannot_be_created_is_refused(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        FileError, match=r"cannot create the ledger .*; give a path in a folder that exists|cannot be used as a path"
    ):
        Ledger(tmp_path / where, ZCDP(0.5))
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Root may do anything: step down for a moment."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_without_permission_a_ledger_is_read_or_refused_and_never_debited() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with _as_nobody(), pytest.raises(FileError, match=r"cannot create the ledger .*Permission denied"):
            Ledger(Path(folder, "a.ledger"), ZCDP(0.5))
        Path(folder).chmod(0o755)
        ledger = Ledger(Path(folder, "a.ledger"), ZCDP(0.5))
        ledger.path.chmod(0o444)
        before = ledger.path.read_bytes()
        with _as_nobody():
            assert Ledger(ledger.path).remaining_exactly == 1
            with pytest.raises(FileError, match=r"cannot write to the ledger .*nothing was spent"):
                pay(ledger, 1)
        ledger.path.chmod(0o000)
        with _as_nobody(), pytest.raises(FileError, match="cannot open the ledger"):
            _ = ledger.spent_exactly
        assert ledger.path.read_bytes() == before


def test_a_ledger_that_vanished_is_not_created_anew_by_a_debit(ledger: Ledger) -> None:
    ledger.path.unlink()
    with pytest.raises(FileError, match="there is no ledger"):
        pay(ledger, 1)
    assert not ledger.path.exists()


def test_every_refusal_is_a_residua_error() -> None:
    assert issubclass(LedgerError, ResiduaError)
    assert issubclass(FileError, ResiduaError)


def test_a_cost_of_nothing_is_kept_only_with_a_detail(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="unless detail says what it is"):
        pay(ledger, 0)
    with pytest.raises(LedgerError, match="unless detail says what it is"):
        ledger.debit(Fraction(0), purpose="tables", dataset=DATA, detail={})
    entry = ledger.debit(Fraction(0), purpose="disjoint cells", dataset=DATA, detail={"part": 2})
    assert (entry.cost, ledger.spent_exactly, ledger.entries) == (0, 0, (entry,))
    assert Ledger(ledger.path).entries[0].detail == {"part": 2}
    with pytest.raises(LedgerError, match="above 0, not -1"):
        ledger.debit(Fraction(-1), purpose="tables", dataset=DATA, detail={"part": 3})
    with pytest.raises(LedgerError, match="another dataset"):  # it binds the ledger like any other debit
        ledger.debit(Fraction(0), purpose="tables", dataset="sha256:other", detail={"part": 3})


def test_an_exhausted_ledger_still_records_what_costs_nothing(ledger: Ledger) -> None:
    pay(ledger, ledger.remaining_exactly)
    ledger.debit(0, purpose="disjoint cells", dataset=DATA, detail={"part": 2})
    assert len(ledger.entries) == 2


def test_a_debit_after_a_head_that_moved_says_so(ledger: Ledger) -> None:
    head = ledger.head
    pay(ledger, Fraction(1, 4))
    with pytest.raises(LedgerMovedError, match="moved on since the cost was computed"):
        ledger.debit(Fraction(1, 4), purpose="tables", dataset=DATA, after=head)
    assert ledger.spent_exactly == Fraction(1, 4)


def test_a_currency_that_is_none_is_refused(ledger: Ledger) -> None:
    # Taken for an epsilon, a pcost of 1/10 would count as 1/100.
    with pytest.raises(LedgerError, match="currency"):
        ledger.debit(Fraction(1, 10), purpose="a", dataset=DATA, currency="Pcost")  # type: ignore[arg-type]
    assert ledger.spent_exactly == 0
