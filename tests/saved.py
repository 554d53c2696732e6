"""One of each thing that residua saves, made once per process in a folder that goes when the process ends.

data.csv                             600 records
{kind}.json                          a plan of each kind, and `replace_one.json`
{kind}.ledger                        what pays for one release of it
{kind}_release, {kind}_projection    what was measured, and what is published from it
session, session.ledger              a session of one choice between two plans; its release is `session_release`
"""

import atexit
import csv
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from unittest.mock import patch

import residua as rs

DOMAIN = rs.Domain({"age": rs.Integers(0, 7), "sex": ["F", "M"], "income": rs.Bins([0, 10, 20, 50])})
KINDS = ("residual", "product", "dense", "pure", "pure_marginals")


@cache
def saved() -> Path:
    """The folder that holds them all; copy what is to be changed. Noise and salts are fixed: a red run repeats."""
    folder = Path(tempfile.mkdtemp(prefix="residua-saved-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    fixed = random.Random(7).randbytes
    with patch("os.urandom", fixed), patch("random._urandom", fixed):
        _save_all(folder)
    return folder


def _save_all(folder: Path) -> None:
    chance = random.Random(600)
    with (folder / "data.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(DOMAIN.names)
        table.writerows((chance.randrange(8), chance.choice("FM"), chance.randrange(50)) for _ in range(600))
    data = rs.Source.csv(folder / "data.csv")
    marginals = rs.marginals(DOMAIN, ways=[1, 2])
    queries = rs.queries(DOMAIN, ["age >= 3 and sex = 'F'", "age < 5", "sex = 'M'"])
    tables = rs.product(DOMAIN, {"age": "prefixes"}, sets=[("age", "sex"), ("sex", "income")])
    plans = {
        "residual": rs.plan(marginals, rs.ZCDP(0.5)),
        "product": rs.plan(tables, rs.GDP(1.0)),
        "dense": rs.plan(queries, rs.ApproxDP(1.0, 1e-6)),
        "pure": rs.plan(queries, rs.PureDP(1.0)),
        "pure_marginals": rs.plan(marginals, rs.PureDP(1.0)),
    }
    assert tuple(plans) == KINDS
    for kind, plan in plans.items():
        plan.save(folder / f"{kind}.json")
        assert plan.guarantee is not None
        release = rs.measure(plan, data, ledger=rs.Ledger(folder / f"{kind}.ledger", plan.guarantee))
        release.save(folder / f"{kind}_release")
        rs.project(release).save(folder / f"{kind}_projection")
    rs.plan(marginals, rs.ZCDP(0.2), unit=rs.ReplaceOne()).save(folder / "replace_one.json")
    candidates = {
        name: rs.independent(rs.marginals(DOMAIN, ways=ways), rs.ZCDP(0.3))
        for ways, name in enumerate(("one", "two"), 1)
    }
    session = rs.Session(data, rs.ZCDP(1.0), ledger=folder / "session.ledger", state=folder / "session")
    session.choose(candidates).finish("two").save(folder / "session_release")
