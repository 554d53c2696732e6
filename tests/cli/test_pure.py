"""`epsilon` without delta goes through plan, release, table, answers and ledger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import residua as rs
from tests.cli.command import DATA, SPEC, inside, released

PURE = SPEC.replace("rho = 0.5", "epsilon = 1.0").replace("rho = 1.0", "epsilon = 1.5")
ASKED = PURE.replace(
    "ways = [0, 1, 2]", 'queries = ["age >= 2", "sex = \'F\'", "sex = \'M\'", "age >= 1 and sex = \'F\'"]'
)


@pytest.mark.parametrize("spec", [PURE, ASKED], ids=["marginals", "queries"])
def test_a_pure_release_from_plan_to_ledger(spec: str, tmp_path: Path) -> None:
    release = released(tmp_path, spec=spec)
    planned = inside("plan", "spec.toml", cwd=tmp_path)
    assert planned.code == 0
    for part in ("PureDP(epsilon=1.0)", "Strategy", "Others by their loss", "loose"):
        assert part in planned.out
    facts = json.loads(inside("plan", "spec.toml", "--json", cwd=tmp_path).out)
    assert facts["privacy"] == {"epsilon": 1.0, "rho": 0.5}
    assert facts["candidates"]
    table = inside("table", "out", "sex", cwd=tmp_path)
    assert table.code == 0
    assert "lower" in table.out
    assert abs(release.count({"sex": "F"}).estimate - 800) < 100
    assert "epsilon = 1 (pure differential privacy" in (tmp_path / "out" / "PRIVACY.md").read_text()
    told = inside("ledger", "people.ledger", cwd=tmp_path)
    for part in ("PureDP(epsilon=1.5)", "Laplace", "Left   epsilon 0.5 of 1.5", "epsilons add up"):
        assert part in told.out
    assert json.loads(inside("ledger", "people.ledger", "--json", cwd=tmp_path).out)["entries"][0]["noise"] == "laplace"
    again = inside("release", "spec.toml", "--out", "more", cwd=tmp_path)
    assert again.refused
    assert "exhausted: epsilon 0.5 left, the plan needs epsilon 1" in again.err
    assert not (tmp_path / "more").exists()


def test_a_mixed_ledger_says_what_its_total_means(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(DATA, encoding="utf-8")
    released(tmp_path, out="normal")
    (tmp_path / "pure.toml").write_text(SPEC.replace("rho = 0.5", "epsilon = 0.5", 1), encoding="utf-8")
    assert inside("release", "pure.toml", "--out", "laplace", cwd=tmp_path).code == 0
    told = inside("ledger", "people.ledger", cwd=tmp_path)
    assert "mu and the exact Gaussian curve do not apply" in " ".join(told.out.split())
    assert "rho 0.625" in told.out
    facts = json.loads(inside("ledger", "people.ledger", "--json", cwd=tmp_path).out)
    assert [entry["noise"] for entry in facts["entries"]] == ["normal", "laplace"]
    assert "mu" not in facts["spent"]


@pytest.mark.parametrize("spec", [PURE, ASKED], ids=["marginals", "queries"])
def test_the_least_epsilon_that_meets_targets(spec: str, tmp_path: Path) -> None:
    asked = spec.replace("epsilon = 1.0", 'epsilon = "least"').replace("[[workload]]\n", "[[workload]]\nstddev = 8.0\n")
    release = released(tmp_path, spec=asked)
    facts = json.loads(inside("plan", "spec.toml", "--json", cwd=tmp_path).out)
    epsilon = facts["privacy"]["epsilon"]
    assert 0 < epsilon < 1.5
    (listed,) = (facts[key] for key in ("marginals", "queries") if key in facts)
    assert max(each["stddev"] for each in listed) == pytest.approx(8.0, rel=1e-5)
    assert max(each["stddev"] for each in listed) <= 8.0
    # Less would not do: the same plan of a smaller epsilon misses them.
    plan = rs.plan(release.plan.workload, rs.PureDP(epsilon * 0.99), targets=64.0)
    assert plan.variances(plan.workload).max() > 64.0
    assert release.plan.guarantee == rs.PureDP(epsilon)
    told = inside("ledger", "people.ledger", "--json", cwd=tmp_path)
    assert json.loads(told.out)["entries"][0]["epsilon"] == pytest.approx(epsilon)


def test_comparing_knows_no_least_epsilon(tmp_path: Path) -> None:
    spec = PURE.replace("epsilon = 1.0", 'epsilon = "least"').replace("[[workload]]\n", "[[workload]]\nstddev = 8.0\n")
    (tmp_path / "spec.toml").write_text(spec, encoding="utf-8")
    ended = inside("compare", "spec.toml", cwd=tmp_path)
    assert ended.refused
    assert "comparing is for Gaussian noise" in ended.err


LONG = """
[source]
path = "people.csv"

[privacy]
epsilon = 1.0

[ledger]
path = "people.ledger"
epsilon = 1.0

[[workload]]
prefixes = "minute"

[domain.minute]
low = 0
high = 1439
"""


def test_a_long_axis_gets_runs_from_plan_to_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("residua.plans.search.runs._STAGES", ((20, 1),))  # a short search
    monkeypatch.setattr("residua.plans.search.runs._HATS", (5.0,))
    (tmp_path / "spec.toml").write_text(LONG, encoding="utf-8")
    minutes = [i * i % 1440 for i in range(3000)]
    (tmp_path / "people.csv").write_text("minute\n" + "".join(f"{minute}\n" for minute in minutes), encoding="utf-8")
    planned = inside("plan", "spec.toml", cwd=tmp_path)
    assert planned.code == 0
    for part in ("PureDP(epsilon=1.0)", "Buckets", "Strategy", "Others by their loss", "loose"):
        assert part in planned.out
    assert inside("release", "spec.toml", "--out", "out", cwd=tmp_path).code == 0
    table = inside("table", "out", "minute=prefixes", "--csv", cwd=tmp_path)
    assert table.code == 0
    assert len(table.out.splitlines()) == 1441
    release = rs.Release.load(tmp_path / "out")
    found = release.count({"minute": rs.between(0, 719)})
    assert abs(found.estimate - sum(minute < 720 for minute in minutes)) < 15 * found.stddev
    assert "epsilon = 1 (pure differential privacy" in (tmp_path / "out" / "PRIVACY.md").read_text()
    (tmp_path / "spec.toml").write_text(
        LONG.replace('prefixes = "minute"', 'product = { minute = "prefixes", hour = "identity" }')
        + "[domain.hour]\nlow = 0\nhigh = 23\n",
        encoding="utf-8",
    )
    refused = inside("plan", "spec.toml", cwd=tmp_path)
    assert refused.refused
    assert "34,560 cells" in refused.err
