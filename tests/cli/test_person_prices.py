"""Prices for persons from the command line: limits make plans better, and a loose price is said to be one."""

import json
from pathlib import Path

from tests.cli.command import inside

SPEC = """
[source]
path = "visits.csv"
person = "who"

[privacy]
rho = 0.5
records = 4
{limits}

[[workload]]
ways = [1, 2]

[domain.month]
low = 1
high = 3

[domain.region]
low = 1
high = 4
"""


def planned(folder: Path, limits: str) -> tuple[str, dict]:
    (folder / "spec.toml").write_text(SPEC.format(limits=limits))
    told, facts = (inside("plan", "spec.toml", *more, cwd=folder) for more in ([], ["--json"]))
    assert told.code == facts.code == 0
    return told.out, json.loads(facts.out)


def test_limits_are_worth_something_and_a_loose_price_says_so(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("who,month,region\na,1,1\n")
    _, without = planned(tmp_path, "")
    exact, one = planned(tmp_path, 'one_per = "region"')
    loose, two = planned(tmp_path, "per = { month = 2, region = 3 }")  # neither limit divides the other
    deviations = [max(each["stddev"] for each in facts["marginals"]) for facts in (without, one, two)]
    assert max(deviations[1:]) < deviations[0]
    assert "Price" not in exact
    assert "price_slack" not in one
    assert "Price       at most" in loose
    assert "above what some person really costs" in loose
    assert 0 < two["price_slack"] < 0.2
