"""Mistakes in a specification and in the data: one sentence, exit code 2, nothing spent, nothing half-written."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from tests.cli.command import DATA, RECORDS, SPEC, in_terminal, inside, process
from tests.cli.mistakes import RELEASE, one_sentence, refused

SPECS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "not TOML": ("[source]", "[source", ("spec.toml", "not TOML", "line 2", "correct it")),
    "unknown section": ("[ledger]", "[ledgr]", ("'ledgr'", "did you mean 'ledger'?")),
    "unknown key": ("rho = 0.5", "rhoo = 0.5", ("[privacy]", "'rhoo'", "did you mean 'rho'?")),
    "unlike key": ("rho = 0.5", "budget = 0.5", ("[privacy]", "'budget'", "epsilon, left_out, left_out_most, mu")),
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
    "ways no number": ("ways = [0, 1, 2]", 'ways = ["one"]', ("ways holds a text", "whole numbers")),
    "negative weight": ("ways = [0, 1, 2]", "ways = [1]\nweight = -1", ("weight=-1", "positive")),
    "NaN weight": ("ways = [0, 1, 2]", "ways = [1]\nweight = nan", ("weight=nan", "positive")),
    "zero budget": ("rho = 0.5", "rho = 0", ("[privacy] rho", "not 0", "write rho = 0.5")),
    "negative budget": ("rho = 0.5", "rho = -1", ("[privacy] rho", "not -1", "write rho = 0.5")),
    "NaN budget": ("rho = 0.5", "rho = nan", ("[privacy] rho", "not nan", "write rho = 0.5")),
    "infinite budget": ("rho = 0.5", "rho = inf", ("[privacy] rho", "not inf", "write rho = 0.5")),
    "budget in words": ("rho = 0.5", 'rho = "half"', ("[privacy] rho", "'half'", "write rho = 0.5")),
    "delta of 1": ("rho = 0.5", "epsilon = 1.0\ndelta = 1.0", ("[privacy] delta", "not 1.0", "with delta = 1e-9")),
    "delta alone": ("rho = 0.5", "delta = 1e-6", ("[privacy] has delta", "epsilon with delta")),
    "two budgets": ("rho = 0.5", "rho = 0.5\nmu = 1", ("[privacy] has rho, mu", "give rho, or mu")),
    "epsilon of 0": ("rho = 0.5", "epsilon = 0.0", ("[privacy] epsilon", "not 0.0", "write epsilon = 1.0")),
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
    "count of none": ("[ledger]", '[objective]\nminimise = "largest"\ncount = 0\n[ledger]', ("count=0", "from 1")),
    "count alone": ("[ledger]", "[objective]\ncount = 5\n[ledger]", ("count belongs to", '"largest"')),
    "p below 1": ("[ledger]", '[objective]\nminimise = "p-norm"\np = 0.5\n[ledger]', ("p=0.5", "from 1")),
    "tolerance": ("[ledger]", '[objective]\ntolerance = "x"\n[ledger]', ("tolerance='x'", "use a number")),
    "no values": ('values = ["F", "M"]', "values = []", ("'sex'", "declare at least one value")),
    "a value twice": ('values = ["F", "M"]', 'values = ["F", "F"]', ("'sex'", "category 2 is listed twice")),
    "unsorted edges": ("low = 0\nhigh = 3", "edges = [3, 1]", ("'age'", "increasing")),
    "policy": ("high = 3", 'high = 3\nunknown = "ignore"', ("'age'", "unknown='ignore'", "'error', 'other' or 'drop'")),
    "ledger path": ('"people.ledger"', "7", ("[ledger] path = 7", "name the ledger's file")),
    "ledger budget": ("rho = 1.0", "rho = 0", ("[ledger] rho", "not 0", "write rho = 0.5")),
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
    "path and database": ('"people.csv"', '"people.csv"\ndatabase = "t"', ("[source] needs path",)),
    "no such table": ('"people.csv"', '"people.csv"\nquery = "t"', ("query 'FROM t' over 'data'", "correct")),
    "a query that copies": (
        '"people.csv"',
        '"people.csv"\nquery = "SELECT 1); COPY data TO \'x\'; SELECT * FROM (SELECT 1"',
        ("is refused",),
    ),
    "a query that reads": ('"people.csv"', '"people.csv"\nquery = "FROM \'people.csv\'"', ("correct the query",)),
    "tables without query": ('path = "people.csv"', 'tables = { p = "people.csv" }', ("[source] needs path",)),
    "tables of nothing": ('path = "people.csv"', 'tables = 3\nquery = "p"', ("[source.tables] is not a table",)),
    "a table of nothing": ('path = "people.csv"', 'tables = { p = 3 }\nquery = "p"', ("tables.p = 3", "name the file")),
    "delimiter of two": ('"people.csv"', '"people.csv"\ndelimiter = "ab"', ("delimiter='ab'", "one character")),
    "delimiter of a database": (
        'path = "people.csv"',
        'database = "x.db"\nquery = "t"\ndelimiter = ";"',
        ("delimiter belongs to delimited text",),
    ),
    "NUL in a path": ("people.csv", "people\\u0000.csv", ("NUL", "correct it")),
    "expression of no column": (
        "[domain.sex]",
        '[domain.sex]\nexpression = "upper(gender)"',
        ("no column 'gender'", "rename"),
    ),
    "expression that fails": (
        "[domain.sex]",
        '[domain.sex]\nexpression = "CAST(sex AS INTEGER)"',
        ("expression of 'sex' failed", "TRY_CAST"),
    ),
    "missing file": ("people.csv", "persons.csv", ("there is no file", "persons.csv", "check the path")),
    "no match": ("people.csv", "p-*.csv", ("no file matches", "p-*.csv", "check the pattern")),
    "unknown suffix": ("people.csv", "spec.toml", ("cannot tell what", "spec.toml")),
    "path is no text": ('"people.csv"', "[1]", ("[source] path = [1]", "name the file")),
    "twice the same": ('"people.csv"', '["people.csv", "people.csv"]', ("twice", "name it once")),
    "database is no text": ('path = "people.csv"', 'database = 1\nquery = "t"', ("[source] database = 1", "name")),
    "missing database": ('path = "people.csv"', 'database = "x.db"\nquery = "t"', ("no database", "check the path")),
    "no database": ('path = "people.csv"', 'database = "people.csv"\nquery = "t"', ("DuckDB", "correct the query")),
    "missing counts": ('"people.csv"', '"people.csv"\ncounts = "n"', ("no column 'n'", "rename")),
    "counts is no name": ('"people.csv"', '"people.csv"\ncounts = 1', ("counts=1", "name the column")),
    "weight": ('"people.csv"', '"people.csv"\nweight = "n"', ("survey weights are not counts", 'counts = "n"')),
    "wrong columns": ("[domain.sex]", "[domain.gender]", ("no column 'gender'", "'sex', 'age'", "rename")),
    "ledger too small": ("rho = 1.0", "rho = 0.1", ("exhausted: rho 0.1 left, the plan needs rho 0.5",)),
    "ledger without Gaussian": ("rho = 1.0", "epsilon = 1.0", ("PureDP(epsilon=1.0)", "Gaussian noise cannot keep")),
    "ledger in no folder": ("people.ledger", "no/people.ledger", ("there is no ledger", "no/people.ledger")),
}


@pytest.mark.parametrize("case", RELEASES)
def test_mistakes_that_only_a_release_meets(folder: Path, case: str) -> None:
    old, new, parts = RELEASES[case]
    assert SPEC.count(old) == 1
    (folder / "spec.toml").write_text(SPEC.replace(old, new))
    refused(folder, *parts)


CONTENTS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "unknown value": (DATA.encode() + b"X,1\n", ("'sex'", "unknown='other'", "--show-values")),
    "unknown number": (DATA.encode() + b"F,4\n", ("'age'", "unknown='other'", "--show-values")),
    "missing value": (DATA.encode() + b",1\n", ("'sex'", "missing='other'")),
    "short row": (DATA.encode() + b"F\n", ("people.csv", "a row of 1 fields", "repair")),
    "cut in a quote": (DATA.encode() + b'"F', ("people.csv", "repair")),
    "empty file": (b"", ("people.csv", "empty", "first line must name the columns")),
    "a column twice": (b"sex,sex,age\nF,F,1\n", ("two columns named alike", "rename")),
    "not UTF-8": (b"sex,age\n\xff,1\n", ("not UTF-8", "say what it is")),
    "binary": (bytes(range(256)) * 40, ("people.csv",)),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_data_that_cannot_be_read_as_declared(folder: Path, case: str) -> None:
    content, parts = CONTENTS[case]
    (folder / "people.csv").write_bytes(content)
    refused(folder, *parts)


def test_values_of_the_data_are_quoted_only_where_that_was_asked_for(folder: Path) -> None:
    for row in ("secret,1\n", "secret\n", "secret,1,2\n"):
        (folder / "people.csv").write_text(DATA + row)
        assert "secret" not in inside(*RELEASE, cwd=folder).err
        assert "secret" in inside(*RELEASE, "--show-values", cwd=folder).err
    assert "secret" in in_terminal(*RELEASE, cwd=folder)[1]


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
    monkeypatch.setattr("residua.source.checking._MOST_KEPT", 0)  # as if too large to keep
    one_sentence(inside(*RELEASE, cwd=folder), "changed after it was checked", "of the ledger stands", "plan again")
    assert len(rs.Ledger(folder / "people.ledger").entries) == 1
    assert {path.name for path in folder.iterdir()} - {"people.csv"} == {"spec.toml", "people.ledger"}


def test_an_expression_that_fails_is_one_line_and_holds_no_engine(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("pay\n1\n")
    declared = '[domain.high]\nvalues = ["false", "true"]\nexpression = "pay > 5"\n'
    (tmp_path / "spec.toml").write_text(
        '[source]\npath = "a.csv"\n[privacy]\nrho = 1\n[ledger]\npath = "a.ledger"\n[[workload]]\nways = [1]\n'
        + declared
    )
    done = process("release", "spec.toml", "--out", "out", cwd=tmp_path)
    assert (done.code, len(done.err.strip().splitlines())) == (3, 1), done.err
    assert "the expression of 'high' failed in DuckDB" in done.err
