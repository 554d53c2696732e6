"""Every command does what it says, as a process and in a terminal."""

import io
import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import residua as rs
from residua.cli.main import app
from tests.cli.command import COMMAND, DATA, FILES, RECORDS, SPEC, inside, process, released


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "people.csv").write_text(DATA, encoding="utf-8")
    return tmp_path


# init


def test_init_drafts_a_specification_that_only_lacks_the_domain(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(DATA)
    done = process("init", "people.csv", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "public knowledge" in done.out
    draft = (tmp_path / "spec.toml").read_text()
    assert "WARNING" in draft
    assert "public knowledge" in draft
    content = tomllib.loads(draft)
    assert list(content["domain"]) == ["sex", "age"]
    assert content["source"]["path"] == "people.csv"
    assert not any(str(n) in draft for n in (len(RECORDS), "F,0"))  # names only, no values
    refused = inside("plan", "spec.toml", cwd=tmp_path)
    assert refused.code == 2
    assert "'sex'" in refused.err
    assert "declare at least one value" in refused.err
    draft = draft.replace("values = []", 'values = ["F", "M"]', 1)
    (tmp_path / "spec.toml").write_text(draft)
    assert "'age'" in inside("plan", "spec.toml", cwd=tmp_path).err
    (tmp_path / "spec.toml").write_text(draft.replace("values = []", "low = 0\nhigh = 3"))
    assert inside("plan", "spec.toml", cwd=tmp_path).code == 0
    assert inside("release", "spec.toml", "--out", "out", cwd=tmp_path).code == 0
    assert rs.Ledger(tmp_path / "people.ledger").spent > 0


ODD = ["a b", 'q"uote', "d.ot", "ünï", "🎉", "'s'", " lead", "new\nline", "back\\slash", "\x7f", "[x]", "#", "{0}", "="]


def test_init_keeps_odd_column_names(tmp_path: Path) -> None:
    pd.DataFrame([[0] * len(ODD)], columns=ODD).to_csv(tmp_path / "odd.csv", index=False, encoding="utf-8-sig")
    assert inside("init", "odd.csv", cwd=tmp_path).code == 0
    draft = (tmp_path / "spec.toml").read_text(encoding="utf-8")
    assert list(tomllib.loads(draft)["domain"]) == ODD
    # Completed, it releases: the names are those that the reader of the data sees.
    (tmp_path / "spec.toml").write_text(draft.replace("values = []", "size = 2"), encoding="utf-8")
    assert inside("release", "spec.toml", "--out", "out", cwd=tmp_path).code == 0
    shown = inside("table", "out", "[x]", "🎉", cwd=tmp_path)
    assert shown.out.splitlines()[0].split() == ["[x]", "🎉", "estimate", "stddev", "lower", "upper"]


@pytest.mark.parametrize(
    ("name", "content"), [("d.tsv", "sex\tage\nF\t1\n"), ("d.csv", "\n\nsex,age\nF,1\n"), ("d.csv", "sex,age")]
)
def test_init_reads_a_header_as_release_will(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert inside("init", name, "--out", "s.toml", cwd=tmp_path).code == 0
    assert list(tomllib.loads((tmp_path / "s.toml").read_text())["domain"]) == ["sex", "age"]


def test_init_names_the_data_so_that_the_specification_finds_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.csv").write_text(DATA)
    for out in ("sub/spec.toml", "spec.toml", str(tmp_path / "there.toml")):
        assert inside("init", "sub/d.csv", "--out", out, cwd=tmp_path).code == 0
        path = tomllib.loads((tmp_path / out).read_text())["source"]["path"]
        assert ((tmp_path / out).parent / path).samefile(tmp_path / "sub" / "d.csv")


# plan


def test_plan_shows_every_table_the_privacy_and_the_gap(folder: Path) -> None:
    done = process("plan", "spec.toml", cwd=folder)
    assert (done.code, done.err) == (0, "")
    rows = dict(re.findall(r"^(.+?)  +(\d.*)$", done.out, flags=re.MULTILINE))
    spec = tomllib.loads(SPEC)["domain"]
    domain = rs.Domain({"sex": spec["sex"]["values"], "age": rs.Integers(0, 3)})
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), rs.ZCDP(0.5))
    cells = {"(total)": 1, "sex": 2, "age": 4, "sex × age": 8}
    for name, count in cells.items():
        names = [] if name == "(total)" else name.split(" × ")
        assert rows[name].split() == [str(count), f"{math.sqrt(plan.variance(names)):.3f}", "1"]
    for part in ("ZCDP(rho=0.5)", "rho 0.5", "mu 1", "epsilon 4.8866 at delta 1e-06", "adding or removing one record"):
        assert part in done.out
    assert "proven the best possible" in done.out
    assert {path.name for path in folder.iterdir()} == {"spec.toml", "people.csv"}


def test_plan_reads_no_data(folder: Path) -> None:
    (folder / "people.csv").unlink()
    assert inside("plan", "spec.toml", cwd=folder).code == 0


def test_plan_as_json_agrees_with_the_library(folder: Path) -> None:
    runner = CliRunner().invoke(app, ["plan", str(folder / "spec.toml"), "--json", "--save", str(folder / "plan.json")])
    assert runner.exit_code == 0
    facts = json.loads(runner.stdout)
    plan = rs.Plan.load(folder / "plan.json")
    assert facts["gap"] == plan.gap == 0
    assert facts["guarantee"] == {"kind": "zcdp", "rho": 0.5}
    assert facts["unit"] == {"kind": "add-remove", "records": 1}
    assert facts["privacy"]["rho"] == pytest.approx(0.5, rel=1e-9)
    assert [row["attributes"] for row in facts["marginals"]] == [[], ["sex"], ["age"], ["sex", "age"]]
    for row in facts["marginals"]:
        assert row["variance"] == plan.variance(row["attributes"])
        assert row["stddev"] == math.sqrt(row["variance"])
        assert row["weight"] == 1
    assert [row["cells"] for row in facts["marginals"]] == [1, 2, 4, 8]


def plan_of(folder: Path, *changes: tuple[str, str]) -> dict:  # type: ignore[type-arg]
    spec = SPEC
    for old, new in changes:
        assert old in spec
        spec = spec.replace(old, new)
    (folder / "spec.toml").write_text(spec)
    done = inside("plan", "spec.toml", "--json", cwd=folder)
    assert done.code == 0, done.err
    return json.loads(done.out)  # type: ignore[no-any-return]


NO_PRIVACY = ("[privacy]\nrho = 0.5\n", "")


@pytest.mark.parametrize("target", ["stddev = 10", "variance = 100.0"])
def test_targets_are_met_at_the_least_privacy(folder: Path, target: str) -> None:
    facts = plan_of(folder, NO_PRIVACY, ("ways = [0, 1, 2]", f"ways = [1, 2]\n{target}"))
    stddevs = [row["stddev"] for row in facts["marginals"]]
    assert max(stddevs) == pytest.approx(10, rel=1e-3)
    assert facts["gap"] <= 1e-4
    assert facts["privacy"]["rho"] == pytest.approx(facts["guarantee"]["rho"], rel=1e-3)
    assert facts["privacy"]["rho"] < 0.02


def test_each_target_goes_to_its_own_tables(folder: Path) -> None:
    """Out of the order in which the lattice holds the sets, so that a mix-up would show."""
    terms = 'sets = [["sex", "age"]]\nstddev = 30\n[[workload]]\nsets = [["age"], ["sex"]]\nstddev = 10\n'
    facts = plan_of(folder, NO_PRIVACY, ("ways = [0, 1, 2]", terms + "[[workload]]\nsets = [[]]\nvariance = 4"))
    got = {tuple(row["attributes"]): row["stddev"] for row in facts["marginals"]}
    assert list(got) == [("sex", "age"), ("age",), ("sex",), ()]
    limits = {("sex", "age"): 30, ("age",): 10, ("sex",): 10, (): 2}
    assert all(got[names] <= limits[names] * 1.001 for names in got)
    assert got[()] == pytest.approx(2, rel=1e-3)  # binding, by far the dearest


def test_objectives_order_as_they_should(folder: Path) -> None:
    changed = {
        name: plan_of(folder, ("[ledger]", f"[objective]\n{text}\n[ledger]"))
        for name, text in {
            "total": 'minimise = "total"',
            "max": 'minimise = "max"\ntolerance = 1e-3',
            "p": 'minimise = "p-norm"\np = 4',
        }.items()
    }
    cells = np.array([1, 2, 4, 8])
    totals = {name: cells @ [row["variance"] for row in facts["marginals"]] for name, facts in changed.items()}
    worst = {name: max(row["variance"] for row in facts["marginals"]) for name, facts in changed.items()}
    assert totals["total"] < totals["p"] < totals["max"]
    assert worst["max"] < worst["p"] < worst["total"]
    assert all(facts["gap"] <= 1e-3 for facts in changed.values())


def test_weights_are_shown_relative_to_the_largest_and_matter(folder: Path) -> None:
    plain = plan_of(folder)["marginals"]
    heavy = plan_of(folder, ("ways = [0, 1, 2]", "ways = [0, 2]\n[[workload]]\nways = [1]\nweight = 4"))["marginals"]
    sex = [row["variance"] for rows in (plain, heavy) for row in rows if row["attributes"] == ["sex"]]
    assert sex[1] < sex[0]
    shown = inside("plan", "spec.toml", cwd=folder).out
    assert re.search(r"^sex +2 +[\d.]+ +1$", shown, flags=re.MULTILINE)
    assert re.search(r"^sex × age +8 +[\d.]+ +0.25$", shown, flags=re.MULTILINE)


def test_units_of_protection(folder: Path) -> None:
    one = plan_of(folder)
    three = plan_of(folder, ("rho = 0.5", "rho = 0.5\nrecords = 3"))
    changed = plan_of(folder, ("rho = 0.5", "rho = 0.5\nreplace = true"))
    for a, b in zip(one["marginals"], three["marginals"], strict=True):
        assert b["variance"] == pytest.approx(9 * a["variance"], rel=1e-6)
    assert three["unit"] == {"kind": "add-remove", "records": 3}
    assert "replace" in json.dumps(changed["unit"])
    assert "a person with at most" not in inside("plan", "spec.toml", cwd=folder).out
    assert "changing one record" in inside("plan", "spec.toml", cwd=folder).out


@pytest.mark.parametrize("budget", ["mu = 1.0", "epsilon = 4.886553\ndelta = 1e-6"])
def test_budgets_in_other_currencies(folder: Path, budget: str) -> None:
    assert plan_of(folder, ("rho = 0.5\n\n[ledger]", f"{budget}\n\n[ledger]"))["privacy"]["rho"] == pytest.approx(
        0.5, rel=1e-4
    )


def test_many_marginals_are_cut_short_unless_all_are_asked_for(folder: Path) -> None:
    domain = "".join(f'[domain."a{i}"]\nsize = 2\n' for i in range(10))
    (folder / "many.toml").write_text(f"[privacy]\nrho = 0.5\n[[workload]]\nways = [1, 2]\n{domain}")
    short = inside("plan", "many.toml", cwd=folder).out
    assert "… 15 more marginals (--all shows them)" in short
    assert short.count(" × ") == 30
    everything = inside("plan", "many.toml", "--all", cwd=folder).out
    assert everything.count(" × ") == 45
    assert "more marginals" not in everything


# release


def test_release_writes_a_whole_folder_and_debits_once(folder: Path) -> None:
    done = process("release", "spec.toml", "--out", "out", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert "Wrote out: " in done.out
    assert "4 tables were asked for" in done.out
    assert {path.name for path in folder.iterdir()} == {"spec.toml", "people.csv", "people.ledger", "out"}
    assert {path.name for path in (folder / "out").iterdir()} == FILES
    ledger, release = rs.Ledger(folder / "people.ledger"), rs.Release.load(folder / "out")
    [entry] = ledger.entries
    assert entry.purpose == "released as out"
    assert entry.digest == release.receipt["digest"]
    assert ledger.budget == rs.ZCDP(1.0)
    assert float(ledger.spent) == pytest.approx(1.0, rel=1e-9)
    statement = (folder / "out" / "PRIVACY.md").read_text()
    assert "rho = 0.5" in statement
    assert "adding or removing one record" in statement
    total = release.count()
    assert abs(total.estimate - len(RECORDS)) < 7 * total.stddev  # false alarm below 1e-11
    for shown in (done.out, statement):
        assert str(len(RECORDS)) not in shown


def test_paths_are_relative_to_the_specification(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = inside("release", str(folder / "spec.toml"), "--out", "mine", cwd=elsewhere)
    assert done.code == 0, done.err
    assert {path.name for path in elsewhere.iterdir()} == {"mine"}
    assert (folder / "people.ledger").exists()


def near(release: rs.Release, count: int) -> bool:
    """Whether the total is within 8 deviations: false alarm below 1e-14, power 1 against what the tests change."""
    total = release.count()
    return abs(total.estimate - count) < 8 * total.stddev


@pytest.mark.parametrize("name", ["plain", "data[1]"])
@pytest.mark.parametrize("paths", ['"part-*.csv"', '["part-1.csv", "part-2.csv"]', '"part-[12].csv"'])
def test_many_files_and_patterns(tmp_path: Path, name: str, paths: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for i in (1, 2):
        (folder / f"part-{i}.csv").write_text(DATA)
    assert near(released(folder, spec=SPEC.replace('"people.csv"', paths)), 2 * len(RECORDS))


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "people[1].csv").write_text(DATA)
    assert near(released(tmp_path, spec=SPEC.replace("people.csv", "people[1].csv")), len(RECORDS))


def test_parquet_a_database_and_weights(tmp_path: Path) -> None:
    table = pa.table({"sex": [sex for sex, _ in RECORDS], "age": [age for _, age in RECORDS], "n": [3] * len(RECORDS)})
    pq.write_table(table, tmp_path / "people.parquet")
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("arrow", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM arrow")
    sources = {
        "a": ('path = "people.parquet"', 1),
        "b": ('path = "people.parquet"\nweight = "n"', 3),
        "c": ('database = "people.duckdb"\nquery = "people"', 1),
        "d": ('database = "people.duckdb"\nquery = "SELECT * FROM people WHERE sex = \'M\'"\nweight = "n"', 1.8),
    }
    for name, (source, factor) in sources.items():
        spec = SPEC.replace('path = "people.csv"', source).replace("people.ledger", f"{name}.ledger")
        assert near(released(tmp_path, spec=spec, out=name), round(factor * len(RECORDS)))


def test_policies_are_told_on_the_terminal_only(folder: Path) -> None:
    (folder / "people.csv").write_text(DATA + "X,1\n" * 77 + "F,9\n" * 88)
    spec = SPEC.replace('values = ["F", "M"]', 'values = ["F", "M"]\nunknown = "other"')
    (folder / "spec.toml").write_text(spec.replace("high = 3", 'high = 3\nunknown = "drop"'))
    logged = inside("release", "spec.toml", "--out", "logged", cwd=folder)  # no terminal: a log must not keep counts
    assert logged.code == 0
    assert "run in a terminal to see how many" in logged.err
    assert "88 records" not in logged.err + logged.out
    assert "77 records" not in logged.err + logged.out
    code, shown = in_terminal("release", "spec.toml", "--out", "out", cwd=folder)
    assert code == 0
    assert "88 records left out for 'age'" in shown
    assert "77 records counted as other in 'sex'" in shown
    assert "for your eyes only" in shown
    for path in (folder / "out").iterdir():
        assert b"88 records" not in path.read_bytes()
    assert "(other)" in inside("table", "out", "sex", cwd=folder).out


def test_a_second_release_debits_the_same_ledger_and_the_third_is_refused(folder: Path) -> None:
    for name in ("first", "second"):
        assert inside("release", "spec.toml", "--out", name, cwd=folder).code == 0
    refused = inside("release", "spec.toml", "--out", "third", cwd=folder)
    assert refused.code == 2
    assert "is exhausted" in refused.err
    assert [entry.purpose for entry in rs.Ledger(folder / "people.ledger").entries] == [
        "released as first",
        "released as second",
    ]
    assert not (folder / "third").exists()


def test_a_ledger_without_a_stated_budget_gets_the_releases_own(folder: Path) -> None:
    released(folder, spec=SPEC.replace("rho = 1.0\n", ""))
    ledger = rs.Ledger(folder / "people.ledger")
    assert ledger.budget == rs.ZCDP(0.5)
    assert float(ledger.remaining) < 1e-6
    assert inside("release", "spec.toml", "--out", "again", cwd=folder).code == 2


# table


@pytest.mark.parametrize(
    ("asked", "options", "kwargs"),
    [
        (["sex", "age"], [], {}),
        (["age", "sex"], [], {}),
        (["age"], ["--confidence", "0.5"], {"confidence": 0.5}),
        (["age"], ["--simultaneous", "table"], {"simultaneous": "table"}),
        (["age"], ["--simultaneous", "release", "--confidence", "0.99"],
         {"simultaneous": "release", "confidence": 0.99}),
        ([], [], {}),
    ],
)  # fmt: skip
def test_table_as_csv_is_the_librarys_table(tmp_path: Path, asked: list[str], options: list[str], kwargs: dict) -> None:  # type: ignore[type-arg]
    release = released(tmp_path)
    done = inside("table", "out", *asked, *options, "--csv", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    expected = release.table(asked, **kwargs).to_pandas()
    frame = pd.read_csv(io.StringIO(done.out))
    assert list(frame.columns) == [*asked, "estimate", "stddev", "lower", "upper"]
    pd.testing.assert_frame_equal(frame, expected, check_dtype=False, rtol=1e-12)


def test_table_for_people_holds_the_same_numbers(tmp_path: Path) -> None:
    release = released(tmp_path)
    done = process("table", "out", "age", "sex", cwd=tmp_path)
    header, *rows = done.out.splitlines()
    assert header.split() == ["age", "sex", "estimate", "stddev", "lower", "upper"]
    expected = release.table(["age", "sex"]).to_pandas()
    assert len(rows) == len(expected) == 8
    for row, (_, cell) in zip(rows, expected.iterrows(), strict=True):
        age, sex, *numbers = row.split()
        assert (int(age), sex) == (cell["age"], cell["sex"])
        for text, name in zip(numbers, ("estimate", "stddev", "lower", "upper"), strict=True):
            assert float(text.replace(",", "")) == pytest.approx(cell[name], abs=0.051)


def test_the_total_needs_no_attributes(tmp_path: Path) -> None:
    release = released(tmp_path)
    lines = inside("table", "out", cwd=tmp_path).out.splitlines()
    assert len(lines) == 2
    assert float(lines[1].split()[0].replace(",", "")) == pytest.approx(release.count().estimate, abs=0.051)


def test_labels_are_shown_as_they_are_and_no_number_is_cut_short(tmp_path: Path) -> None:
    """Neither markup nor pictures; and a column wider than the terminal does not squeeze the numbers."""
    labels = ["[red]x[/red]", "[/]", ":smile:", "a label of many words " * 6]
    name = "[bold]an attribute[/bold] :smile: with a name that is longer than a narrow terminal, as some are"
    spec = SPEC.replace('values = ["F", "M"]', f"values = {json.dumps(labels)}")
    (tmp_path / "people.csv").write_text(f'sex,"{name}"\n' + "".join(f"{label},1\n" for label in labels))
    release = released(tmp_path, spec=spec.replace("domain.age", f'domain."{name}"'), out="[red]out")
    shown = inside("table", "[red]out", "sex", name, "--all", cwd=tmp_path).out.splitlines()
    assert name in shown[0]
    for row, cell in zip(shown[1:], release.table(["sex", name]).to_pandas()["upper"], strict=True):
        assert row.split()[-1] == f"{cell:,.1f}"
    for label in labels:
        assert sum(row.startswith(label.rstrip()) for row in shown) == 4
    assert name in inside("plan", "spec.toml", cwd=tmp_path).out
    assert "released as [red]out" in inside("ledger", "people.ledger", cwd=tmp_path).out


def test_long_tables_are_cut_short_unless_all_is_asked_for(tmp_path: Path) -> None:
    released(tmp_path, spec=SPEC.replace("high = 3", "high = 99"))
    short = inside("table", "out", "age", cwd=tmp_path).out
    assert "… 60 more rows" in short
    assert len(short.splitlines()) == 42
    assert len(inside("table", "out", "age", "--all", cwd=tmp_path).out.splitlines()) == 101
    assert len(inside("table", "out", "age", "--csv", cwd=tmp_path).out.splitlines()) == 101


# ledger


def test_ledger_shows_history_and_what_is_left(tmp_path: Path) -> None:
    rs.Ledger(tmp_path / "people.ledger", rs.ZCDP(1.0))
    assert "nothing spent yet" in inside("ledger", "people.ledger", cwd=tmp_path).out
    released(tmp_path)
    released(tmp_path, spec=SPEC.replace("rho = 0.5", "rho = 0.125"), out="second")
    shown = process("ledger", "people.ledger", cwd=tmp_path)
    assert (shown.code, shown.err) == (0, "")
    assert re.search(r"^1 .*released as out +normal +0.5 +50.0%$", shown.out, flags=re.MULTILINE)
    assert re.search(r"^2 .*released as second +normal +0.125 +12.5%$", shown.out, flags=re.MULTILINE)
    assert "Left   rho 0.375 of 1" in shown.out
    assert "Spent" in shown.out
    facts = json.loads(inside("ledger", "people.ledger", "--json", cwd=tmp_path).out)
    ledger = rs.Ledger(tmp_path / "people.ledger")
    assert [entry["digest"] for entry in facts["entries"]] == [entry.digest for entry in ledger.entries]
    assert [entry["sequence"] for entry in facts["entries"]] == [1, 2]
    assert facts["remaining"]["rho"] == pytest.approx(0.375, rel=1e-9)
    assert facts["spent"]["rho"] == pytest.approx(0.625, rel=1e-9)
    assert facts["budget"] == {"kind": "zcdp", "rho": 1.0}


# demo


def test_demo_runs_twice_in_an_empty_folder(tmp_path: Path) -> None:
    for name in ("residua-demo", "residua-demo-2"):
        started = time.monotonic()
        done = process("demo", cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
        assert time.monotonic() - started < 60
        made = tmp_path / name
        assert {path.name for path in made.iterdir()} == {
            "adult.toml", "adult.parquet", "adult.ledger", "ATTRIBUTION.md", "release",
        }  # fmt: skip
        assert "CC BY 4.0" in (made / "ATTRIBUTION.md").read_text()
        release = rs.Release.load(made / "release")
        assert len(release.sets) == 1 + 13 + 78
        assert near(release, 32_561)
        for part in ("Female", "Bachelors", ">50K", "estimate", "Where to look next", f"{name}/release/PRIVACY.md"):
            assert part in done.out
        advised = re.findall(r"^  \S*residua (.*?)(?:   .*)?$", done.out, flags=re.MULTILINE)
        assert len(advised) == 5
        for line in advised:  # every command that it advises works
            assert inside(*line.split(), cwd=tmp_path).code == 0


def in_terminal(*args: str, cwd: Path) -> tuple[int, str]:
    """Runs the command in a pseudo-terminal; returns its exit code and all it wrote."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    child = subprocess.Popen([str(COMMAND), *args], cwd=cwd, stdin=slave, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    written = b""
    while select.select([master], [], [], 60)[0]:
        try:
            part = os.read(master, 65_536)
        except OSError:  # Linux says so when the last writer is gone
            break
        if not part:
            break
        written += part
    os.close(master)
    return child.wait(60), written.decode()


def visible(written: str) -> list[str]:
    """What stays on the screen: a small terminal that knows what progress bars use."""
    lines, row = [""], 0
    column = 0
    for token in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if token == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif token == "\r":
            column = 0
        elif token.startswith("\x1b["):
            if token.endswith("A"):
                row = max(0, row - int(token[2:-1] or 1))
            elif token.endswith("K"):
                lines[row] = "" if token == "\x1b[2K" else lines[row][:column]
        else:
            lines[row] = lines[row][:column].ljust(column) + token + lines[row][column + len(token) :]
            column += len(token)
    return [line.rstrip() for line in lines]


def test_demo_in_a_terminal_shows_progress_and_leaves_clean_output(tmp_path: Path) -> None:
    code, written = in_terminal("demo", cwd=tmp_path)
    assert code == 0
    assert "counting" in written  # the bar was there,
    screen = visible(written)
    assert not any(word in line for line in screen for word in ("counting", "adding noise", "━"))  # and is gone
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h")  # the cursor is shown again
    assert any("92 tables were asked for" in line for line in screen)
    table = screen.index(next(line for line in screen if line.startswith("sex     estimate")))
    assert re.fullmatch(r"Female  [\d,.]+ +[\d,.]+ +[\d,.]+ +[\d,.]+", screen[table + 1])
    assert re.fullmatch(r"Male    [\d,.]+ +[\d,.]+ +[\d,.]+ +[\d,.]+", screen[table + 2])
    assert screen[[i for i, line in enumerate(screen) if line][-1]].endswith("the privacy statement")


def test_an_error_in_a_terminal_is_one_line(tmp_path: Path) -> None:
    code, written = in_terminal("plan", "nowhere.toml", cwd=tmp_path)
    assert code == 2
    [line] = [line for line in visible(written) if line]
    assert line.startswith("residua: cannot read the specification 'nowhere.toml'")


def test_interrupted_says_where_to_look_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    made = tmp_path / "demo"
    child = subprocess.Popen(
        [str(COMMAND), "demo", "--out", "demo"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(made.glob(".release.partial-*")) and time.monotonic() < deadline:
        time.sleep(0.002)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err.startswith("residua: interrupted")
    assert "residua ledger" in err
    assert "Traceback" not in err
    assert {path.name for path in made.iterdir()} <= {"adult.toml", "adult.parquet", "adult.ledger", "ATTRIBUTION.md"}
    if (made / "adult.ledger").exists():
        assert len(rs.Ledger(made / "adult.ledger").entries) <= 1


def test_output_that_nobody_reads_is_no_traceback(tmp_path: Path) -> None:
    released(tmp_path, spec=SPEC.replace("high = 3", "high = 9999"))
    done = subprocess.run(
        f"{COMMAND} table out age --csv | head -n 1", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.startswith('"age"')
    assert "Traceback" not in done.stderr


def test_help_and_usage(tmp_path: Path) -> None:
    assert process("--help", cwd=tmp_path).code == 0
    for command in ("demo", "init", "plan", "release", "table", "ledger"):
        done = CliRunner().invoke(app, [command, "--help"])
        assert done.exit_code == 0
    for wrong in ([], ["tabel"], ["release", "spec.toml"], ["plan"], ["table", "out", "--confidence", "much"]):
        assert inside(*wrong, cwd=tmp_path).code == 2
