"""Persons from the command line: bounded releases, what is left out, and a look at how many records people have."""

import json
from pathlib import Path
from unittest import mock

import pytest

import residua as rs
from residua.cli.show import Screen
from tests.cli.command import inside

SPEC = """
[source]
path = "visits.csv"
person = "who"

[privacy]
rho = 0.5
records = 2
one_per = "month"
left_out = 0.1
left_out_most = 20

[ledger]
path = "visits.ledger"
rho = 2.0

[[workload]]
ways = [1, 2]

[domain.month]
low = 1
high = 4

[domain.sex]
values = ["F", "M"]
"""
ROWS = [(f"p{i}", 1 + (i + j) % 4, "FM"[i % 2]) for i in range(400) for j in range(1 + i % 7)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text("who,month,sex\n" + "".join(f"{w},{m},{s}\n" for w, m, s in ROWS))
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def test_a_release_of_persons_says_what_it_counts(folder: Path) -> None:
    done = inside("release", "spec.toml", "--out", "out", cwd=folder)
    assert done.code == 0
    assert "left out" not in done.out + done.err  # off a terminal nothing true is said
    release = rs.Release.load(folder / "out")
    assert release.planned.unit == rs.Person(2, one_per="month")
    true = sum(min(1 + i % 7, 2) for i in range(400))
    assert abs(release.count().estimate - true) < 6 * release.count().stddev
    assert release.left_out is not None
    shown = inside("table", "out", "sex", cwd=folder).out
    assert "counts at most 2 records of each person, 1 in each value of 'month'" in shown
    assert "was enforced" in (folder / "out" / "PRIVACY.md").read_text()
    assert "In all      ZCDP(rho=0.544" in done.out
    assert inside("project", "out", "--out", "projected", cwd=folder).code == 0
    assert "counts at most 2 records of each person" in inside("table", "projected", "sex", cwd=folder).out
    assert "counts at most 2 records of each person" in (folder / "projected" / "PROJECTION.md").read_text()
    everything = (
        b"".join(path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()) + done.out.encode()
    )
    everything += (folder / "visits.ledger").read_bytes()
    assert b"p39" not in everything  # no id anywhere


def test_the_curator_sees_the_loss_on_a_terminal(folder: Path) -> None:
    with mock.patch.object(Screen, "is_terminal", new=True):
        shown = inside("release", "spec.toml", "--out", "out", cwd=folder).err
    assert "for your eyes only, not published" in shown
    left = sum(max(0, min(n, 99) - 2) for n in (1 + i % 7 for i in range(400)))
    assert f"{left:,} records of" in shown


def test_records_per_person_exactly_on_a_terminal_only(folder: Path) -> None:
    done = inside("persons", "spec.toml", cwd=folder)
    assert done.refused
    assert "true counts are shown on a terminal only" in done.err
    with mock.patch.object(Screen, "is_terminal", new=True):
        shown = inside("persons", "spec.toml", cwd=folder).err
    assert f"400 persons with {len(ROWS):,} records, at most 7 each" in shown
    asked = inside("persons", "spec.toml", "--show-values", cwd=folder)
    assert f"{sum(n - 2 for n in (1 + i % 7 for i in range(400)) if n > 2):,}" in asked.err
    assert asked.out == ""
    assert rs.Ledger(folder / "visits.ledger").entries == ()


def test_a_look_with_noise_is_paid_for_and_recommends_a_bound(folder: Path) -> None:
    done = inside("persons", "spec.toml", "--rho", "0.5", "--share", "0.84", "--json", cwd=folder)
    assert done.code == 0
    facts = json.loads(done.out)
    assert facts["stddev"] == pytest.approx(1.04, abs=0.01)
    assert abs(facts["counts"][0]["persons"] - 58) < 7
    assert (
        facts["recommended"] == 5
    )  # of every 28 records four count 22, five 25: 0.84 is ten standard deviations off both
    ledger = rs.Ledger(folder / "visits.ledger")
    assert ledger.unit == rs.Person(2, one_per="month")
    assert ledger.spent_exactly == pytest.approx(1.0)
    text = inside("persons", "spec.toml", "--rho", "0.1", cwd=folder).out
    assert "[privacy] records = " in text
    (folder / "spec.toml").write_text(SPEC.replace("records = 2", "records = 4"))  # the same people, another bound
    assert inside("release", "spec.toml", "--out", "out", cwd=folder).code == 0
    assert rs.Release.load(folder / "out").planned.unit.records == 4  # type: ignore[attr-defined]
    assert "exhausted" in inside("persons", "spec.toml", "--epsilon", "5", cwd=folder).err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('person = "who"', ""), "[privacy] one_per bounds what each person contributes"),
        (("records = 2\n", ""), "say how many records of each are counted: [privacy] records = 5"),
        (("records = 2", "records = 2\nreplace = true"), "[privacy] replace is about one record"),
        (("records = 2", "records = 0"), "[privacy] records must be an integer of at least 1"),
        (('one_per = "month"', 'one_per = "year"'), "'year', which is no attribute of the domain"),
        (('one_per = "month"', "per = { month = 0 }"), "a number of per must be an integer of at least 1"),
        (('person = "who"', 'person = "whose"'), "has no column 'whose' (is it 'who'?)"),
        (('person = "who"', 'person = "sex"'), "'sex' says who the person is and cannot be counted as well"),
        (('person = "who"', 'person = "who"\nno_person = "skip"'), "no_person='skip' is not known"),
        (("left_out = 0.1", "left_out = { most = 20 }"), "is not a share of what is spent"),
        (("left_out = 0.1", "left_out = 3"), "left_out=3"),
    ],
)
def test_mistakes_are_one_sentence_and_spend_nothing(folder: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in SPEC
    (folder / "spec.toml").write_text(SPEC.replace(*change))
    done = inside("release", "spec.toml", "--out", "out", cwd=folder)
    assert done.refused
    assert message in done.err
    assert not (folder / "out").exists()
    assert not (folder / "visits.ledger").exists() or rs.Ledger(folder / "visits.ledger").entries == ()


def test_a_first_step_that_fails_spends_nothing(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC.replace("left_out = 0.1", "left_out = 0.9"))
    assert "exhausted" in inside("release", "spec.toml", "--out", "out", cwd=folder).err
    (folder / "spec.toml").write_text(SPEC.replace("high = 4", "high = 3"))
    assert "outside its domain" in inside("persons", "spec.toml", "--rho", "0.1", cwd=folder).err
    assert rs.Ledger(folder / "visits.ledger").entries == ()


def test_a_person_without_a_bound_is_refused_in_a_session_too(folder: Path) -> None:
    text = SPEC.replace(
        "[[workload]]\nways = [1, 2]", "[[plan.a.workload]]\nways = [1]\n[[plan.b.workload]]\nways = [2]"
    )
    (folder / "spec.toml").write_text(
        text.replace('person = "who"', "")
        .replace('one_per = "month"\n', "")
        .replace("left_out = 0.1\nleft_out_most = 20\n", "")
    )
    opened = inside("session", "open", "spec.toml", cwd=folder)
    assert opened.code == 0, opened.err  # AddRemove(records=2), declared
    (folder / "spec.toml").write_text(text)
    assert inside("session", "status", "spec.toml", cwd=folder).refused
