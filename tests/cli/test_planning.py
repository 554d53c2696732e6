"""`residua init` and `residua plan`: a draft without data, and every number of a plan."""

import json
import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import residua as rs
from residua.cli.main import app
from tests.cli.command import DATA, RECORDS, SPEC, inside, process


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
    assert refused.refused
    assert "'sex'" in refused.err
    assert "declare at least one value" in refused.err
    draft = draft.replace("values = []", 'values = ["F", "M"]', 1)
    (tmp_path / "spec.toml").write_text(draft)
    assert "'age'" in inside("plan", "spec.toml", cwd=tmp_path).err
    (tmp_path / "spec.toml").write_text(draft.replace("values = []", "low = 0\nhigh = 3"))
    assert inside("plan", "spec.toml", cwd=tmp_path).code == 0
    assert inside("release", "spec.toml", "--out", "out", cwd=tmp_path).code == 0
    assert rs.Ledger(tmp_path / "people.ledger").spent_exactly > 0


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
        (variance,) = set(plan.variance(names).ravel().tolist())
        assert rows[name].split() == [str(count), f"{math.sqrt(variance):.3f}", "1"]
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
        assert (row["variance"] == plan.variance(row["attributes"])).all()
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
            "largest": 'minimise = "largest"\ncount = 3',
        }.items()
    }
    cells = np.array([1, 2, 4, 8])
    totals = {name: cells @ [row["variance"] for row in facts["marginals"]] for name, facts in changed.items()}
    worst = {name: max(row["variance"] for row in facts["marginals"]) for name, facts in changed.items()}
    assert totals["total"] < totals["p"] < totals["max"]
    assert worst["max"] < worst["p"] < worst["total"]
    three = {name: sum(sorted(row["variance"] for row in facts["marginals"])[-3:]) for name, facts in changed.items()}
    assert all(three["largest"] < 1.001 * other for other in three.values())
    assert three["largest"] < 0.999 * min(three["total"], three["p"])
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
