"""Targets of long hierarchies, levels and axes from a specification and from the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Ended, inside

DATES = """
[domain.date]
first = 2015-01-01
last = 2024-12-30
levels = ["month", "year"]
[domain.region]
values = ["north", "south"]
"""
WITHIN = 1 + 1e-9


def planned(folder: Path, text: str, *options: str) -> Ended:
    (folder / "place.toml").write_text(DATES + text, encoding="utf-8")
    return inside("plan", "place.toml", "--json", *options, cwd=folder)


def largest(ended: Ended) -> dict[str, float]:
    assert ended.code == 0, ended.err
    return {term["term"]: term["largest_stddev"] for term in json.loads(ended.out)["terms"]}


@pytest.mark.parametrize(
    ("target", "stddev"), [("stddev = 5.0", 5.0), ("variance = 25.0", 5.0), ("margin = 20", 20 / 1.959964)]
)
@pytest.mark.parametrize(
    ("asked", "title"), [('product = { date = "month" }', "date: month"), ('hierarchy = "date"', "date: hierarchy")]
)
def test_levels_of_many_values_meet_a_target(
    tmp_path: Path, asked: str, title: str, target: str, stddev: float
) -> None:
    found = largest(planned(tmp_path, f"[[workload]]\n{asked}\n{target}\n"))
    assert stddev * 0.999 < found[title] <= stddev * (1 + 1e-6)


def test_every_entry_has_its_own_target(tmp_path: Path) -> None:
    text = """
[[workload]]
product = { date = "month", region = "identity" }
stddev = 3.0
[[workload]]
hierarchy = "date"
stddev = 9.0
[[workload]]
product = { date = "year" }
stddev = 2.0
[[workload]]
sets = [["region"]]
stddev = 4.0
"""
    wanted = {"date: month × region": 3.0, "date: hierarchy": 9.0, "date: year": 2.0, "region": 4.0}
    found = largest(planned(tmp_path, text))
    assert all(found[title] <= stddev * WITHIN for title, stddev in wanted.items())
    assert found["date: month × region"] > 3.0 * 0.999


def test_hierarchies_beside_prefixes_meet_theirs(tmp_path: Path) -> None:
    text = '[[workload]]\nhierarchy = "date"\nstddev = 9.0\n[[workload]]\nprefixes = "date"\nstddev = 30.0\n'
    found = largest(planned(tmp_path, text))
    assert found["date: hierarchy"] <= 9.0 * WITHIN
    assert found["date: prefixes"] <= 30.0 * WITHIN


@pytest.mark.parametrize(("options", "stddev"), [(("--stddev", "5"), 5.0), (("--margin", "20"), 20 / 1.959964)])
def test_what_if_takes_a_target_of_levels(tmp_path: Path, options: tuple[str, str], stddev: float) -> None:
    text = '[privacy]\nrho = 0.5\n[[workload]]\nhierarchy = "date"\n[[workload]]\nsets = [["region"]]\n'
    found = largest(planned(tmp_path, text, *options))
    assert max(found.values()) == pytest.approx(stddev, rel=1e-3)
    assert max(found.values()) <= stddev * (1 + 1e-6)


@pytest.mark.parametrize("asked", ["hierarchy", "prefixes"])
def test_the_least_epsilon_meets_a_target_along_many_values(tmp_path: Path, asked: str) -> None:
    found = largest(planned(tmp_path, f'[privacy]\nepsilon = "least"\n[[workload]]\n{asked} = "date"\nstddev = 9.0\n'))
    assert found[f"date: {asked}"] <= 9.0 * WITHIN


def test_code_lists_meet_a_target(tmp_path: Path) -> None:
    lines = "".join(f"b{number:04d},c{number // 40:02d}\n" for number in range(2000))
    (tmp_path / "blocks.csv").write_text("block,county\n" + lines)
    domain = '[domain.block]\ncodes = { file = "blocks.csv", column = "block", levels = ["county"] }\n'
    text = f'{domain}[[workload]]\nhierarchy = "block"\nstddev = 6.0\n[[workload]]\nsets = [["region"]]\nstddev = 7.0\n'
    found = largest(planned(tmp_path, text))
    assert found["block: hierarchy"] <= 6.0 * WITHIN
    assert found["region"] <= 7.0 * WITHIN
