"""Mistakes with a ledger, a release and other files: one sentence, exit code 2, nothing spent."""

import json
import os
from pathlib import Path

import residua as rs
from tests.cli.command import DATA, SPEC, inside, process, released
from tests.cli.mistakes import RELEASE, everything, one_sentence, refused, spent, started


def test_an_exhausted_ledger(folder: Path) -> None:
    spent(folder, rho=0.75)
    refused(folder, "people.ledger", "exhausted: rho 0.25 left, the plan needs rho 0.5", "plan for what is left")


def test_a_ledger_of_another_dataset(folder: Path) -> None:
    spent(folder)
    (folder / "people.csv").write_text(DATA + "F,1\n")
    refused(folder, "people.ledger", "another dataset", "nothing was spent", "second budget")


def test_a_ledger_with_another_budget_or_unit(folder: Path) -> None:
    spent(folder)
    (folder / "spec.toml").write_text(SPEC.replace("rho = 1.0", "rho = 9.0"))
    refused(folder, "people.ledger", "ZCDP(rho=1.0), fixed at creation", "leave the budget out")
    (folder / "spec.toml").write_text(SPEC.replace("rho = 0.5", "rho = 0.5\nrecords = 2"))
    refused(folder, "people.ledger", "adding or removing one record, fixed at creation", "unit=")


def test_a_ledger_that_was_changed(folder: Path) -> None:
    ledger = spent(folder)
    content = ledger.read_bytes()
    ledger.write_bytes(content.replace(b'"cost":"', b'"cost":"0', 1))
    refused(folder, "line 2", "people.ledger", "was changed", "restore the ledger from a copy")
    refused(folder, "was changed", args=("ledger", "people.ledger"))
    first, _, _ = content.partition(b"\n")
    ledger.write_bytes(content + first + b"\n")
    refused(folder, "people.ledger", "was changed", "restore")


def test_what_is_no_ledger(folder: Path) -> None:
    refused(folder, "there is no ledger", "nope", "right path", args=("ledger", "nope"))
    refused(folder, "people.csv", "not a ledger", "right path", args=("ledger", "people.csv"))
    (folder / "people.ledger").mkdir()
    refused(folder, "people.ledger", "is not a file", "give the path of a file")
    refused(folder, "people.ledger", "is not a file", args=("ledger", "people.ledger"))
    (folder / "people.ledger").rmdir()
    (folder / "people.ledger").write_bytes(b"")
    refused(folder, "people.ledger", "not a ledger", "restore it")


def test_a_release_that_was_changed(folder: Path) -> None:
    released(folder)
    whole = everything(folder)
    for path in (folder / "out").iterdir():
        content = path.read_bytes()
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        refused(folder, path.name, args=("table", "out", "sex"))
        path.unlink()
        refused(folder, path.name, args=("table", "out", "sex"))
        path.write_bytes(content)
    assert everything(folder) == whole


def test_questions_that_a_release_cannot_answer(folder: Path) -> None:
    released(folder)
    questions = {
        ("table", "out", "agee"): ("'agee'", "did you mean 'age'?"),
        ("table", "out", "age", "age"): ("twice", "name each once"),
        ("table", "out", "age", "--confidence", "2"): ("confidence=2.0", "between 0 and 1"),
        ("table", "out", "age", "--confidence", "nan"): ("confidence=nan", "between 0 and 1"),
        ("table", "out", "age", "--simultaneous", "all"): ("simultaneous='all'", "'table', 'release'"),
        ("table", "nowhere"): ("no release folder 'nowhere'", "check the path"),
        ("table", "."): ("not a release folder", "check the path"),
        ("table", "people.csv"): ("no release folder 'people.csv'", "check the path"),
    }
    for args, parts in questions.items():
        refused(folder, *parts, args=args)
    narrow = SPEC.replace("ways = [0, 1, 2]", "ways = [1]").replace("people.ledger", "narrow.ledger")
    released(folder, spec=narrow, out="narrow")
    refused(folder, "does not answer", args=("table", "narrow", "sex", "age"))


def test_other_files_that_are_missing_or_in_the_way(folder: Path) -> None:
    commands = {
        ("plan", "nowhere.toml"): ("'nowhere.toml'", "No such file", "residua init"),
        ("plan", "."): ("'.'", "Is a directory", "check the path"),
        ("plan", "people.csv"): ("'people.csv' is not TOML", "correct it"),
        ("plan", "spec.toml", "--save", "no/plan.json"): ("no", "does not exist", "make it"),
        ("release", "nowhere.toml", "--out", "out"): ("'nowhere.toml'", "No such file", "residua init"),
        ("init", "nowhere.csv", "--out", "new.toml"): ("there is no file 'nowhere.csv'", "check the path"),
        ("init", "people.csv", "--out", "spec.toml"): ("out='spec.toml' exists already", "--out"),
        ("init", "people.csv", "--out", "no/spec.toml"): ("no/spec.toml", "No such file"),
        ("demo", "--out", "."): ("demo folder '.'", "File exists", "--out"),
    }
    for args, parts in commands.items():
        refused(folder, *parts, args=args)
    for header in ("", "sex,sex\n", ",,\n"):
        (folder / "bad.csv").write_text(header)
        refused(folder, "bad.csv", "column", args=("init", "bad.csv", "--out", "new.toml"))


def test_mistakes_as_real_processes(folder: Path) -> None:
    refused(folder, "'nowhere.toml'", "residua init", args=("plan", "nowhere.toml"), run=process)
    (folder / "people.csv").write_text(DATA + "X,1\n")
    refused(folder, "'sex'", "unknown='other'", run=process)
    usage = process("release", "spec.toml", cwd=folder)
    assert usage.code == 2
    assert "--out" in usage.err
    assert "Traceback" not in usage.err


def test_too_little_memory_is_a_sentence(folder: Path) -> None:
    """10⁹ cells: either there is no room on the disk, or no memory; before the debit, unless the sentence says so."""
    big = SPEC.replace("high = 3", "high = 499999999").replace("ways = [0, 1, 2]", 'sets = [["sex", "age"]]')
    (folder / "spec.toml").write_text(big)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)); "
    ledger = rs.Ledger.create(folder / "people.ledger", rs.ZCDP(1.0))
    done = started(limit, *RELEASE, cwd=folder)
    one_sentence(done)
    assert ("stands" in done.err) == bool(ledger.entries)
    assert not (folder / "out").exists()


def test_json_and_csv_go_to_standard_output_only(folder: Path) -> None:
    released(folder)
    for args in (("plan", "spec.toml", "--json"), ("ledger", "people.ledger", "--json")):
        done = inside(*args, cwd=folder)
        assert done.err == ""
        json.loads(done.out)
    assert os.listdir(folder / "out")  # noqa: PTH208


def test_a_ledger_is_made_on_purpose_and_a_lost_one_is_no_fresh_budget(folder: Path) -> None:
    said = ("there is no ledger", "people.ledger", "residua ledger create spec.toml", "If it was lost, restore it")
    one_sentence(inside(*RELEASE, cwd=folder, ledger=False), *said)
    assert not (folder / "people.ledger").exists()
    made = inside("ledger", "create", "spec.toml", "--population", "people of one town", cwd=folder)
    assert "ZCDP(rho=1.0)" in made.out
    assert "states no budget" not in made.out
    assert rs.Ledger(folder / "people.ledger").population == "people of one town"
    refused(folder, "people.ledger", "is there already", args=("ledger", "create", "spec.toml"))
    assert inside(*RELEASE, cwd=folder).code == 0
    assert (
        inside("ledger", "show", "people.ledger", cwd=folder).out == inside("ledger", "people.ledger", cwd=folder).out
    )
    (folder / "people.ledger").unlink()
    one_sentence(inside("release", "spec.toml", "--out", "again", cwd=folder, ledger=False), *said)
    (folder / "spec.toml").write_text(SPEC.replace('[ledger]\npath = "people.ledger"\nrho = 1.0', ""))
    told = inside("ledger", "create", "spec.toml", cwd=folder).out
    assert "ZCDP(rho=0.5)" in told
    assert "[ledger] states no budget: it is that of [privacy], enough for one release" in told
