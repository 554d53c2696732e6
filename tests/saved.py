"""One of each thing that residua saves, made once per process in a folder that goes when the process ends.

data.csv                             600 records
{kind}.json                          a plan of each kind, and `replace_one.json`
{kind}.ledger                        what pays for one release of it
{kind}_release, {kind}_projection    what was measured, and what is published from it
session, session.ledger              a session of one choice between two plans; its release is `session_release`

What takes longer, or is needed by few, is made when it is first asked for: `adapted`, `estimates`, `code_lists`, and
`form`, a plan, a release and a projection of each form in `laws/every_plan.py`.
"""

import atexit
import csv
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

import residua as rs
from tests.laws.every_plan import NAMES, made

DOMAIN = rs.Domain({"age": rs.Integers(0, 7), "sex": ["F", "M"], "income": rs.Bins([0, 10, 20, 50])})
KINDS = ("residual", "product", "dense", "pure", "pure_marginals")


@cache
def saved() -> Path:
    """The folder that holds them all; copy what is to be changed. Noise and salts are fixed: a red run repeats."""
    folder = Path(tempfile.mkdtemp(prefix="residua-saved-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with _fixed():
        _save_all(folder)
    return folder


@contextmanager
def _fixed() -> Iterator[None]:
    fixed = random.Random(7).randbytes
    with patch("os.urandom", fixed), patch("random._urandom", fixed):
        yield


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


@cache
def adapted() -> Path:
    """A session that chose in groups and adapted: `session` and `a.ledger`."""
    folder = saved() / "adapted"
    folder.mkdir()
    with _fixed():
        data = rs.Source.csv(saved() / "data.csv")
        session = rs.Session(data, rs.ZCDP(9.0), ledger=folder / "a.ledger", state=folder / "session")
        groups = {
            name: rs.independent(rs.marginals(DOMAIN, [members]), rs.ZCDP(0.3))
            for name, members in (("one", ["age"]), ("two", ["age", "income"]))
        }
        session.choose(groups, by=["sex"]).finish({"F": "one", "M": "two"})
        session.adapt(rs.marginals(DOMAIN, ways=3), rs.ZCDP(0.25))
    return folder


@cache
def estimates() -> Path:
    """What is estimated from `session_release`."""
    rs.estimate(rs.Release.load(saved() / "session_release")).save(saved() / "estimates")
    return saved() / "estimates"


@cache
def code_lists() -> Path:
    """A folder with one code list of two levels, twice: `codes.csv` and `codes.parquet`."""
    folder = saved() / "code_lists"
    folder.mkdir()
    codes = [f"{number:03d}" for number in range(60)]
    listed = pa.table({"code": codes, "tract": [code[:2] for code in codes], "state": [code[:1] for code in codes]})
    pacsv.write_csv(listed, folder / "codes.csv")
    pq.write_table(listed, folder / "codes.parquet")
    return folder


FORMS = NAMES
LEFT_OUT = {"marginals, limited": 0.1, "tables, limited": 0.3}  # whose releases count what their bound leaves out


@cache
def form(name: str) -> Path:
    """The folder of one form: `plan.json`, `a.ledger`, `release` and `projection`."""
    folder = saved() / "forms" / str(FORMS.index(name))
    folder.mkdir(parents=True)
    plan, chance = made(name), random.Random(name)
    plan.save(folder / "plan.json")
    columns: dict[str, list[object]] = {
        attribute: chance.choices(list(plan.domain[attribute].labels), k=200) for attribute in plan.domain.names
    }
    persons = isinstance(plan.unit, rs.Person)
    table = pa.table(columns | ({"id": [number // 5 for number in range(200)]} if persons else {}))
    data = rs.Source.frame(table, person="id" if persons else None)
    most = rs.ZCDP(10.0**6) if plan.noise.gaussian else rs.PureDP(99.0)
    share = {"left_out": LEFT_OUT.get(name, 0.0)} if persons else {}
    with _fixed():
        release = rs.measure(plan, data, ledger=rs.Ledger(folder / "a.ledger", most, unit=plan.unit), **share)
    release.save(folder / "release")
    rs.project(release).save(folder / "projection")
    return folder
