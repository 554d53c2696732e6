"""Each mistake is one sentence on standard error and exit code 2; nothing is spent, nothing is half-written."""

import contextlib
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from residua.cli import steps
from residua.plan.residual.blocks import compile_blocks
from residua.release import reserve
from tests.cli.command import COMMAND, DATA, RECORDS, SPEC, Ended, inside, process, released

RELEASE = ("release", "spec.toml", "--out", "out")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "people.csv").write_text(DATA, encoding="utf-8")
    return tmp_path


def everything(folder: Path) -> dict[str, object]:
    """Every file, folder and link below a folder, with its content."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        found[str(path)] = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def one_sentence(done: Ended, *parts: str) -> None:
    """Exit code 2, one line on standard error, no traceback, nothing on standard output."""
    assert done.code == 2, done
    assert done.out == ""
    assert done.err.startswith("residua: "), done.err
    assert done.err.count("\n") == 1, done.err
    assert done.err.rstrip("\n").endswith((".", "?", "residua init."))
    assert "Traceback" not in done.err
    for part in parts:
        assert part in done.err, (part, done.err)


def refused(folder: Path, *parts: str, args: tuple[str, ...] = RELEASE, run: Callable[..., Ended] = inside) -> None:
    """One sentence with these parts; and the folder (ledger and all) is as it was."""
    before = everything(folder)
    one_sentence(run(*args, cwd=folder), *parts)
    assert everything(folder) == before


# The specification


SPECS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "not TOML": ("[source]", "[source", ("spec.toml", "not TOML", "line 2", "correct it")),
    "unknown section": ("[ledger]", "[ledgr]", ("'ledgr'", "did you mean 'ledger'?")),
    "unknown key": ("rho = 0.5", "rhoo = 0.5", ("[privacy]", "'rhoo'", "did you mean 'rho'?")),
    "unlike key": ("rho = 0.5", "budget = 0.5", ("[privacy]", "'budget'", "there are delta, epsilon, mu")),
    "unknown key of a workload": ("ways = ", "way = ", ("[[workload]]", "did you mean 'ways'?")),
    "unknown key of an attribute": ("low = 0", "lo = 0", ("'age'", "'lo'", "low and high")),
    "section is no table": ("[source]\npath", "source", ("source", "write [source]")),
    "no workload": ("[[workload]]\nways = [0, 1, 2]", "", ("no workload", "[[workload]]")),
    "workload is a table": ("[[workload]]", "[workload]", ("no workload", "[[workload]]")),
    "empty workload": ("ways = [0, 1, 2]", "sets = []", ("workload is empty", "at least one")),
    "workload says nothing": ("ways = [0, 1, 2]", "weight = 2", ("say which marginals", "ways")),
    "unknown attribute": ("ways = [0, 1, 2]", 'sets = [["agee"]]', ("sets", "'agee'", "did you mean 'age'?")),
    "a set twice": ("ways = [0, 1, 2]", 'sets = [["sex", "age"], ["age", "sex"]]', ("listed twice", "list it once")),
    "sets of names": ("ways = [0, 1, 2]", 'sets = ["age"]', ("sets", "'age'", "('age',)")),
    "ways too large": ("ways = [0, 1, 2]", "ways = [3]", ("ways holds 3", "from 0 to 2")),
    "ways no number": ("ways = [0, 1, 2]", 'ways = ["one"]', ("ways holds 'one'", "whole numbers")),
    "negative weight": ("ways = [0, 1, 2]", "ways = [1]\nweight = -1", ("weight=-1", "positive")),
    "NaN weight": ("ways = [0, 1, 2]", "ways = [1]\nweight = nan", ("weight=nan", "positive")),
    "zero budget": ("rho = 0.5", "rho = 0", ("[privacy] rho", "not 0", "rho=0.5")),
    "negative budget": ("rho = 0.5", "rho = -1", ("[privacy] rho", "not -1", "rho=0.5")),
    "NaN budget": ("rho = 0.5", "rho = nan", ("[privacy] rho", "not nan", "rho=0.5")),
    "infinite budget": ("rho = 0.5", "rho = inf", ("[privacy] rho", "not inf", "rho=0.5")),
    "budget in words": ("rho = 0.5", 'rho = "half"', ("[privacy] rho", "'half'", "rho=0.5")),
    "delta of 1": ("rho = 0.5", "epsilon = 1.0\ndelta = 1.0", ("[privacy] delta", "not 1.0", "delta=1e-9")),
    "delta alone": ("rho = 0.5", "delta = 1e-6", ("[privacy] has delta", "epsilon with delta")),
    "two budgets": ("rho = 0.5", "rho = 0.5\nmu = 1", ("[privacy] has rho, mu", "give rho, or mu")),
    "epsilon of 0": ("rho = 0.5", "epsilon = 0.0", ("[privacy] epsilon", "not 0.0", "epsilon=1.0")),
    "no budget": ("rho = 0.5", "", ("[privacy] rho", "stddev")),
    "least epsilon for nothing": ("rho = 0.5", 'epsilon = "least"', ('epsilon = "least" needs targets', "stddev")),
    "least epsilon and delta": ("rho = 0.5", 'epsilon = "least"\ndelta = 1e-9', ("delta beside", "remove one of them")),
    "least rho": ("rho = 0.5", 'rho = "least"', ('[privacy] rho = "least" is only for epsilon', "leave")),
    "least ledger": ("rho = 1.0", 'epsilon = "least"', ('[ledger] epsilon = "least"', "write a number")),
    "records": ("rho = 0.5", "rho = 0.5\nrecords = 0", ("records", "not 0", "at least 1")),
    "records and replace": ("rho = 0.5", "rho = 0.5\nrecords = 2\nreplace = true", ("records and replace", "give one")),
    "replace": ("rho = 0.5", "rho = 0.5\nreplace = 1", ("replace = 1", "true or false")),
    "NaN target": ("ways = [0, 1, 2]", "ways = [1]\nstddev = nan", ("stddev = nan", "positive number")),
    "negative target": ("ways = [0, 1, 2]", "ways = [1]\nvariance = -4", ("variance = -4", "positive number")),
    "two targets": ("ways = [0, 1, 2]", "ways = [1]\nvariance = 4\nstddev = 2", ("variance and stddev", "give one")),
    "some targets": ("ways = [0, 1, 2]", "ways = [1]\nstddev = 2\n[[workload]]\nways = [2]", ("target", "give each")),
    "overlapping targets": (
        "ways = [0, 1, 2]",
        "ways = [1]\nstddev = 2\n[[workload]]\nways = [1, 2]\nstddev = 3",
        ("two [[workload]] entries with targets", "in one"),
    ),
    "objective": ("[ledger]", '[objective]\nminimise = "least"\n[ledger]', ("'least'", '"p-norm"', "use one")),
    "p alone": ("[ledger]", "[objective]\np = 3\n[ledger]", ("[objective] p", '"p-norm"')),
    "p below 1": ("[ledger]", '[objective]\nminimise = "p-norm"\np = 0.5\n[ledger]', ("p=0.5", "from 1")),
    "tolerance": ("[ledger]", '[objective]\ntolerance = "x"\n[ledger]', ("tolerance='x'", "use a number")),
    "no values": ('values = ["F", "M"]', "values = []", ("'sex'", "declare at least one value")),
    "a value twice": ('values = ["F", "M"]', 'values = ["F", "F"]', ("'sex'", "'F'")),
    "unsorted edges": ("low = 0\nhigh = 3", "edges = [3, 1]", ("'age'", "increasing")),
    "policy": ("high = 3", 'high = 3\nunknown = "ignore"', ("'age'", "unknown='ignore'", "'error', 'other' or 'drop'")),
    "ledger path": ('"people.ledger"', "7", ("[ledger] path = 7", "name the ledger's file")),
    "ledger budget": ("rho = 1.0", "rho = 0", ("[ledger] rho", "not 0", "rho=0.5")),
}  # fmt: skip


@pytest.mark.parametrize("case", SPECS)
def test_mistakes_in_a_specification(folder: Path, case: str) -> None:
    old, new, parts = SPECS[case]
    assert SPEC.count(old) == 1
    (folder / "spec.toml").write_text(SPEC.replace(old, new))
    refused(folder, *parts)
    refused(folder, *parts, args=("plan", "spec.toml", "--save", "plan.json"))


def test_no_domain(folder: Path) -> None:
    for rest in ("", "[domain]\n"):
        (folder / "spec.toml").write_text(SPEC[: SPEC.index("[domain")] + rest)
        refused(folder, "declare")


RELEASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "huge budget": ("rho = 0.5", "rho = 1e25", ("noise is far below one count", "no privacy")),
    "no source": ('[source]\npath = "people.csv"', "", ("[source] needs path", "database and query")),
    "path and query": ('"people.csv"', '"people.csv"\nquery = "t"', ("[source] needs path",)),
    "missing file": ("people.csv", "persons.csv", ("there is no file", "persons.csv", "check the path")),
    "no match": ("people.csv", "p-*.csv", ("no file matches", "p-*.csv", "check the pattern")),
    "unknown suffix": ("people.csv", "spec.toml", ("cannot tell what", "spec.toml")),
    "path is no text": ('"people.csv"', "[1]", ("[source] path = [1]", "name the file")),
    "twice the same": ('"people.csv"', '["people.csv", "people.csv"]', ("twice", "name it once")),
    "database is no text": ('path = "people.csv"', 'database = 1\nquery = "t"', ("[source] database = 1", "name")),
    "missing database": ('path = "people.csv"', 'database = "x.db"\nquery = "t"', ("no database", "check the path")),
    "no database": ('path = "people.csv"', 'database = "people.csv"\nquery = "t"', ("DuckDB", "correct the query")),
    "missing weight": ('"people.csv"', '"people.csv"\nweight = "n"', ("no column 'n'", "rename")),
    "weight is no name": ('"people.csv"', '"people.csv"\nweight = 1', ("weight=1", "name the column")),
    "wrong columns": ("[domain.sex]", "[domain.gender]", ("no column 'gender'", "'sex', 'age'", "rename")),
    "ledger too small": ("rho = 1.0", "rho = 0.1", ("[ledger] allows ZCDP(rho=0.1)", "raise that budget")),
    "ledger without Gaussian": ("rho = 1.0", "epsilon = 1.0", ("PureDP(epsilon=1.0)", "Gaussian noise cannot keep")),
    "ledger in no folder": ("people.ledger", "no/people.ledger", ("[ledger] path", "does not exist", "make it")),
}


@pytest.mark.parametrize("case", RELEASES)
def test_mistakes_that_only_a_release_meets(folder: Path, case: str) -> None:
    old, new, parts = RELEASES[case]
    assert SPEC.count(old) == 1
    (folder / "spec.toml").write_text(SPEC.replace(old, new))
    refused(folder, *parts)


# The data


CONTENTS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "unknown value": (DATA.encode() + b"X,1\n", ("'sex'", "'X'", "unknown='other'")),
    "unknown number": (DATA.encode() + b"F,4\n", ("'age'", "'4'", "unknown='other'")),
    "missing value": (DATA.encode() + b",1\n", ("'sex'", "missing='other'")),
    "short row": (DATA.encode() + b"F\n", ("people.csv", "a row of 1 fields", "repair")),
    "cut in a quote": (DATA.encode() + b'"F', ("people.csv", "repair")),
    "empty file": (b"", ("people.csv", "empty", "first line must name the columns")),
    "a column twice": (b"sex,sex,age\nF,F,1\n", ("two columns named 'sex'", "rename")),
    "not UTF-8": (b"sex,age\n\xff,1\n", ("not UTF-8", "convert")),
    "binary": (bytes(range(256)) * 40, ("people.csv",)),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_data_that_cannot_be_read_as_declared(folder: Path, case: str) -> None:
    content, parts = CONTENTS[case]
    (folder / "people.csv").write_bytes(content)
    refused(folder, *parts)


@pytest.mark.parametrize("kept", [0.5, 0.98])
def test_truncated_files(folder: Path, kept: float) -> None:
    pq.write_table(pa.table({"sex": [s for s, _ in RECORDS], "age": [a for _, a in RECORDS]}), folder / "whole.parquet")
    (folder / "whole.csv.gz").write_bytes(gzip.compress(DATA.encode()))
    for name in ("whole.parquet", "whole.csv.gz"):
        content = (folder / name).read_bytes()
        cut = name.replace("whole", "people")
        (folder / cut).write_bytes(content[: int(kept * len(content))])
        (folder / "spec.toml").write_text(SPEC.replace("people.csv", cut))
        refused(folder, cut)
        (folder / "spec.toml").write_text(SPEC.replace("people.csv", name))  # the whole one is fine
        assert inside("release", "spec.toml", "--out", name[-4:], cwd=folder).code == 0
        (folder / "people.ledger").unlink()


@pytest.mark.parametrize(
    "becomes", [DATA + "X,1\n", DATA[: len(DATA) // 2] + ',"', DATA[: len(DATA) // 8], DATA + "F,1\n", "", None]
)
def test_data_that_changes_after_the_check_costs_the_debit_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, becomes: str | None
) -> None:
    debit = rs.Ledger.debit

    def debit_and_change(ledger: rs.Ledger, *args: object, **kwargs: object) -> object:
        entry = debit(ledger, *args, **kwargs)  # type: ignore[arg-type]
        (folder / "people.csv").unlink()
        if becomes is not None:
            (folder / "people.csv").write_text(becomes)
        return entry

    monkeypatch.setattr(rs.Ledger, "debit", debit_and_change)
    one_sentence(inside(*RELEASE, cwd=folder), "changed after it was checked", "of the ledger stands", "plan again")
    assert len(rs.Ledger(folder / "people.ledger").entries) == 1
    assert {path.name for path in folder.iterdir()} - {"people.csv"} == {"spec.toml", "people.ledger"}


# The ledger


def spent(folder: Path, rho: float = 0.5) -> Path:
    """A ledger from which this release's dataset has taken its share."""
    released(folder, spec=SPEC.replace("rho = 0.5", f"rho = {rho}"), out="earlier")
    (folder / "spec.toml").write_text(SPEC)
    return folder / "people.ledger"


def test_an_exhausted_ledger(folder: Path) -> None:
    spent(folder, rho=0.75)
    refused(folder, "people.ledger", "exhausted: rho 0.25 left, the plan needs rho 0.5", "plan for what is left")


def test_a_ledger_of_another_dataset(folder: Path) -> None:
    spent(folder)
    (folder / "people.csv").write_text(DATA + "F,1\n")
    refused(folder, "people.ledger", "another dataset", "nothing was spent", "use this dataset's own ledger")


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


# Where the release goes


def test_an_output_that_exists_or_cannot_be_made(folder: Path) -> None:
    for made in ("out", "out/file"):
        (folder / made).mkdir()
        refused(folder, "out=", "exists already", "choose another folder")
    refused(folder, "exists already", args=("release", "spec.toml", "--out", "."))
    refused(folder, "exists already", args=("release", "spec.toml", "--out", "people.csv"))
    (folder / "link").symlink_to("nowhere")
    refused(folder, "link", "exists already", args=("release", "spec.toml", "--out", "link"))
    refused(folder, "no/such", "does not exist", "make it", args=("release", "spec.toml", "--out", "no/such/out"))
    refused(folder, "does not exist", args=("release", "spec.toml", "--out", "people.csv/out"))
    refused(folder, "too long", "choose another", args=("release", "spec.toml", "--out", "x" * 300))
    refused(folder, "too long", "choose another", args=("release", "spec.toml", "--out", "x" * 250))


def test_an_output_whose_name_is_taken_meanwhile_keeps_the_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = steps.measure

    def measure_and_take(*args: object, **kwargs: object) -> rs.Release:
        release = measure(*args, **kwargs)  # type: ignore[arg-type]
        (folder / "out").mkdir()
        (folder / "out" / "other").touch()
        return release

    monkeypatch.setattr(steps, "measure", measure_and_take)
    one_sentence(inside(*RELEASE, cwd=folder), "out", "it is whole in", "The budget is spent", "debit 1 stands")
    [kept] = folder.glob("out-*")
    assert rs.Ledger(folder / "people.ledger").contains(rs.Release.load(kept).receipt["digest"])
    assert list(folder.glob(".*partial*")) == []


def without_powers(*args: str, cwd: Path) -> Ended:
    """Runs the command as a process to which permissions apply, even root's."""
    drop = "import ctypes; libc = ctypes.CDLL(None); [libc.prctl(24, c, 0, 0, 0) for c in (1, 2)]"
    return started(f"{drop}; ", *args, cwd=cwd)


def started(before: str, *args: str, cwd: Path) -> Ended:
    program = f"import os, sys; {before}os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(COMMAND), *args], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_folders_and_files_that_may_not_be_written_or_read(folder: Path) -> None:
    ledger = spent(folder)
    (folder / "closed").mkdir()
    (folder / "closed").chmod(0o555)
    closed = ("release", "spec.toml", "--out", "closed/out")
    refused(folder, "closed", "Permission denied", "choose another", args=closed, run=without_powers)
    ledger.chmod(0o444)
    refused(folder, "people.ledger", "Permission denied", "nothing was spent", run=without_powers)
    (folder / "spec.toml").write_text(SPEC.replace("people.ledger", "closed/people.ledger"))
    refused(folder, "closed/people.ledger", "Permission denied", run=without_powers)
    (folder / "closed").chmod(0o755)
    before = everything(folder)
    (folder / "people.csv").chmod(0)
    one_sentence(without_powers(*RELEASE, cwd=folder), "people.csv", "may not be read", "permissions")
    (folder / "people.csv").chmod(0o644)
    assert everything(folder) == before


# Full disks


BIG = SPEC.replace("high = 3", "high = 99999")  # 300 003 cells, 2.4 MB


@contextlib.contextmanager
def small_disk(at: Path, size: str) -> Iterator[bool]:
    """A file system of this size, where mounting is allowed; says whether it is."""
    at.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(at)], capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", str(at)], check=True)


def limited(size: int) -> Callable[..., Ended]:
    """Runs the command so that no file can grow beyond a size."""

    def run(*args: str, cwd: Path) -> Ended:
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
        return started(limit, *args, cwd=cwd)

    return run


def fill(disk: Path) -> None:
    """Takes all the room there is."""
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"\0" * 4096):
            pass


def test_a_release_that_does_not_fit_on_the_disk(folder: Path) -> None:
    (folder / "spec.toml").write_text(BIG)
    out = ("release", "spec.toml", "--out", "disk/out")
    with small_disk(folder / "disk", "2m") as mounted:
        if mounted:
            refused(folder, "no room for the release", "No space left", "nothing was spent", args=out)
            refused(folder, "no room for the release", "No space left", args=out, run=process)
            fill(folder / "disk")
            refused(folder, "disk", "No space left", args=out)
    refused(folder, "no room for the release", "File too large", "nothing was spent", run=limited(1_000_000))


def padded(ledger: Path, to: int) -> None:
    """A ledger with one debit, of exactly this many bytes."""
    made = rs.Ledger(ledger, rs.ZCDP(1.0))
    fingerprint = rs.Source.csv(ledger.parents[1] / "people.csv").fingerprint()
    empty = ledger.read_bytes()
    made.debit(Fraction(1, 8), purpose="earlier", dataset=fingerprint, detail={"pad": ""})
    spare = to - ledger.stat().st_size
    ledger.write_bytes(empty)
    rs.Ledger(ledger).debit(Fraction(1, 8), purpose="earlier", dataset=fingerprint, detail={"pad": "x" * spare})
    assert ledger.stat().st_size == to


def test_a_ledger_on_a_full_disk(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC.replace("people.ledger", "disk/people.ledger"))
    said = ("disk/people.ledger", "the disk is full", "nothing was spent", "make space")
    with small_disk(folder / "disk", "64k") as mounted:
        if mounted:
            padded(folder / "disk" / "people.ledger", 4096 - 50)  # the next line needs one more page
            fill(folder / "disk")
            refused(folder, *said)
            (folder / "disk" / "people.ledger").unlink()
            fill(folder / "disk")
            refused(folder, "cannot create the ledger", "disk/people.ledger", "No space left", "has space")
    padded(folder / "disk" / "people.ledger", 1_000_000)
    refused(folder, *said, run=limited(1_000_050))


def test_room_that_was_reserved_stays_reserved(folder: Path) -> None:
    """The disk fills up after the debit; the release is written all the same."""
    release = released(folder, spec=BIG)
    with (
        small_disk(folder / "disk", "8m") as mounted,
        reserve(folder / "disk" / "again", release.planned, compile_blocks(release.planned)) as place,
    ):
        held = (place.partial / "measurements.npy").stat().st_blocks * 512
        assert held >= release.measurements.nbytes
        if mounted:
            fill(folder / "disk")
        place.commit(release)
        assert rs.Release.load(folder / "disk" / "again").receipt == release.receipt


# Questions to a release


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


# Other commands


def test_other_files_that_are_missing_or_in_the_way(folder: Path) -> None:
    commands = {
        ("plan", "nowhere.toml"): ("'nowhere.toml'", "No such file", "residua init"),
        ("plan", "."): ("'.'", "Is a directory", "check the path"),
        ("plan", "people.csv"): ("'people.csv' is not TOML", "correct it"),
        ("plan", "spec.toml", "--save", "no/plan.json"): ("no/plan.json", "No such file"),
        ("release", "nowhere.toml", "--out", "out"): ("'nowhere.toml'", "No such file", "residua init"),
        ("init", "nowhere.csv", "--out", "new.toml"): ("there is no file 'nowhere.csv'", "check the path"),
        ("init", "people.csv", "--out", "spec.toml"): ("out='spec.toml' exists already", "--out"),
        ("init", "people.csv", "--out", "no/spec.toml"): ("no/spec.toml", "No such file"),
        ("demo", "--out", "."): ("demo folder '.'", "File exists", "--out"),
    }
    for args, parts in commands.items():
        refused(folder, *parts, args=args)
    for header in ("", "sex,sex\n", "sex,,age\n"):
        (folder / "bad.csv").write_text(header)
        refused(folder, "bad.csv", "column", args=("init", "bad.csv", "--out", "new.toml"))


def test_mistakes_as_real_processes(folder: Path) -> None:
    refused(folder, "'nowhere.toml'", "residua init", args=("plan", "nowhere.toml"), run=process)
    (folder / "people.csv").write_text(DATA + "X,1\n")
    refused(folder, "'sex'", "'X'", "unknown='other'", run=process)
    usage = process("release", "spec.toml", cwd=folder)
    assert usage.code == 2
    assert "--out" in usage.err
    assert "Traceback" not in usage.err


def test_too_little_memory_is_a_sentence(folder: Path) -> None:
    """10⁹ cells: either there is no room on the disk, or no memory; before the debit, unless the sentence says so."""
    big = SPEC.replace("high = 3", "high = 499999999").replace("ways = [0, 1, 2]", 'sets = [["sex", "age"]]')
    (folder / "spec.toml").write_text(big)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)); "
    done = started(limit, *RELEASE, cwd=folder)
    one_sentence(done)
    assert ("stands" in done.err) == (folder / "people.ledger").exists()
    assert not (folder / "out").exists()


def test_json_and_csv_go_to_standard_output_only(folder: Path) -> None:
    released(folder)
    for args in (("plan", "spec.toml", "--json"), ("ledger", "people.ledger", "--json")):
        done = inside(*args, cwd=folder)
        assert done.err == ""
        json.loads(done.out)
    assert os.listdir(folder / "out")  # noqa: PTH208
