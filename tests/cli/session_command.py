"""A small specification with named plans, and how the tests run `residua session` on it."""

from pathlib import Path

import residua as rs
from tests.cli.command import inside

DATA = "sex,age\n" + "".join(f"{sex},{age}\n" for sex, age in [("F", 0), ("M", 1), ("F", 2), ("M", 3), ("M", 3)] * 400)
SPEC = """
[source]
path = "people.csv"
[privacy]
rho = 0.5
[ledger]
path = "people.ledger"
rho = 1.0
[domain.sex]
values = ["F", "M"]
[domain.age]
low = 0
high = 3

[[plan.total.workload]]
ways = [0]
[[plan.coarse.workload]]
ways = [1]
[[plan.fine.workload]]
ways = [2]
[plan.fine]
independent = true
[plan.young.privacy]
rho = 0.1
[[plan.young.workload]]
queries = { young = "age <= 1" }
"""


def with_plans(folder: Path) -> Path:
    """A folder with the data and the specification."""
    (folder / "people.csv").write_text(DATA)
    (folder / "spec.toml").write_text(SPEC)
    return folder


def run(folder: Path, *words: str, refused: bool = False) -> str:
    done = inside("session", words[0], "spec.toml", *words[1:], cwd=folder)
    assert done.refused if refused else done.code == 0, done.err
    return done.err if refused else done.out


def rho(folder: Path) -> float:
    return float(rs.Ledger(folder / "people.ledger").spent_exactly / 2)
