"""Estimates beside AIM and MST on real and made data: L1 error over N by number of attributes, CPU, memory.

`RESIDUA_DATA=… python -m benchmarks.beside [--data fair exact …] [--csv FILE …] [--epsilons 0.1 1 10] [--seeds 5]
[--methods plan adapt aim mst] [--learning] [--runs runs.jsonl]`. Every run is a process of its own and one line of the
file `--runs`; runs that are in it are not repeated, so that a table grows in parts. The table has means over seeds,
then the geometric mean over data sets of each figure beside the best peer's, with a 95 % interval over data sets: L1
errors of tables, those of synthetic rows, and range queries on rows (`benchmarks/fidelity.py`). AIM and MST are written
here from their papers (`benchmarks/aim.py`, `benchmarks/mst.py`), and `dpmm-aim` and `dpmm-mst` are those of the
package dpmm, of which rows are all there is (`benchmarks/dpmm_rows.py`); delta 1e-9, one record added or removed.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import residua as rs
from benchmarks.aim import Aim, rho_of
from benchmarks.datasets import MADE, REAL, coded
from benchmarks.estimates import DELTA, measured, truth
from benchmarks.fidelity import held_out, learned, query_error, rows_of
from benchmarks.mst import mst
from benchmarks.show import print_rows

OURS, PEERS = ("plan", "adapt"), ("aim", "mst", "dpmm-aim", "dpmm-mst")
_TABLES, _MOST_CELLS = 120, 2_000_000  # of each number of attributes that are looked at
_STEPS, _MEGABYTES = 60, 4.0
_COMPARED = ("L1 1", "L1 2", "L1 3", "rows 2", "rows 3", "queries")

Tables = Callable[[tuple[int, ...]], Any]


def looked_at(sizes: list[int], ways: int) -> list[tuple[int, ...]]:
    """The tables that are compared: all, or a sample that is the same for everyone."""
    every = [s for s in combinations(range(len(sizes)), ways) if math.prod(sizes[i] for i in s) <= _MOST_CELLS]
    return every[:: max(1, math.ceil(len(every) / _TABLES))]


def ours(codes: Any, domain: rs.Domain, epsilon: float, method: str) -> Any:
    data = pa.table({name: codes[:, i] for i, name in enumerate(domain.names)})
    workload, budget = rs.marginals(domain, ways=min(3, len(domain))), rs.ApproxDP(epsilon, DELTA)
    if method == "adapt":
        with tempfile.TemporaryDirectory() as folder:
            return rs.Session(data, budget, ledger=f"{folder}/ledger").adapt(workload, budget).estimated
    roughly = float(f"{len(codes):.0e}")  # what may be taken to be public: one digit and the order of magnitude
    return rs.estimate(measured(rs.plan_estimates(workload, budget, records=roughly), data))


def dpmm_rows(codes: Any, method: str, epsilon: float) -> tuple[Any, float]:
    """As many rows by the package dpmm, in an interpreter of its own (`RESIDUA_DPMM`), and the CPU seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/codes.npy", codes)
        script = Path(__file__).with_name("dpmm_rows.py")
        asked = [method.removeprefix("dpmm-"), f"{folder}/codes.npy", f"{folder}/rows.npy", f"{epsilon}", f"{DELTA}"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([os.environ["RESIDUA_DPMM"], str(script), *asked], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return np.load(f"{folder}/rows.npy"), seconds


def one_run(codes: Any, method: str, epsilon: float, seed: int, learning: bool = False) -> dict[str, Any]:
    """Errors of tables and of rows by number of attributes, stated beside true ones, CPU seconds, megabytes.

    CPU and memory are those of the tables, beyond the data. `learning` measures four fifths of the records, and tests
    on the others what classifiers learn from rows (and, as "real", from the four fifths themselves).
    """
    sizes = [int(n) for n in codes.max(axis=0) + 1]
    codes, test = held_out(codes, seed) if learning else (codes, codes[:0])
    domain = rs.Domain.of_sizes(sizes)
    counts: Tables = lambda clique: truth(codes, domain.sizes, clique)  # noqa: E731
    random = np.random.default_rng(seed)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    estimated, model, rows = None, None, None
    if method.startswith("dpmm"):
        rows, seconds = dpmm_rows(codes, method, epsilon)
        start -= seconds
    elif method == "aim":
        kept = {r: counts(r) for w in (1, 2, 3) for r in combinations(range(len(sizes)), w)}
        model = Aim(kept.__getitem__, sizes, 3, rho_of(epsilon, DELTA), _MEGABYTES, _STEPS, random).run()
    elif method == "mst":
        model = mst(counts, sizes, rho_of(epsilon, DELTA), _STEPS, random)
    else:
        estimated = ours(codes, domain, epsilon, method)
    own = {}
    for members in (s for w in (1, 2, 3) for s in looked_at(sizes, w)):
        if estimated is not None:
            own[members] = estimated.estimates([domain.names[i] for i in members])
        else:
            own[members] = truth(rows, domain.sizes, members) if model is None else model.table(members)
    spent = time.process_time() - start
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if estimated is not None:
        rows = np.concatenate(list(estimated.rows().codes()))
    elif model is not None:
        rows = rows_of(model, random)
    figures: dict[str, Any] = {"CPU s": spent, "MB": memory, "queries": query_error(codes, rows, random)}
    if learning:
        figures |= {"learned": learned(rows, test, sizes), "real": learned(codes, test, sizes)}
    for ways in (1, 2, 3):
        sets = looked_at(sizes, ways)
        squares = [float(((own[s] - counts(s)) ** 2).sum()) for s in sets]
        figures[f"L1 {ways}"] = float(np.mean([np.abs(own[s] - counts(s)).sum() for s in sets])) / len(codes)
        far = [np.abs(truth(rows, domain.sizes, s) / len(rows) - counts(s) / len(codes)).sum() for s in sets]
        figures[f"rows {ways}"] = float(np.mean(far))
        if estimated is not None:
            accuracies = [estimated.accuracy([domain.names[i] for i in s]) for s in sets]
            stated = [a.rmse**2 * own[s].size for a, s in zip(accuracies, sets, strict=True)]
            figures[f"stated {ways}"] = [stated, squares]
    return figures


def _in_child(pipe: Any, *given: Any) -> None:
    pipe.send(one_run(*given))


def run(codes: Any, *given: Any) -> dict[str, Any]:
    """One run in a process of its own, so that its memory is its own."""
    context = multiprocessing.get_context("fork")
    mine, other = context.Pipe()
    child = context.Process(target=_in_child, args=(other, codes, *given))
    child.start()
    other.close()
    try:
        return dict(mine.recv())
    except EOFError:
        return {}
    finally:
        child.join()


def _shown(runs: list[dict[str, Any]], name: str) -> str:
    values = [one[name] for one in runs if name in one]
    if not values:
        return ""
    if isinstance(values[0], list):  # squares of each table, stated and true, over all releases
        stated, true = np.sum(values, axis=0)
        each = np.sqrt(stated / np.maximum(true, 1e-9))
        return f"{math.sqrt(stated.sum() / max(true.sum(), 1e-9)):.2f} ({each.min():.2f}–{each.max():.2f})"
    return f"{np.mean(values):.4g}"


def beside_peers(runs: dict[tuple[str, float, str], list[dict[str, Any]]], epsilon: float, way: str) -> list[list[str]]:
    """The geometric mean over data sets of the error beside the best peer's, its interval, and the worst."""
    lines = []
    for name in _COMPARED:
        logs = {}
        for data in sorted({key[0] for key in runs}):
            means = {
                method: float(np.mean([one[name] for one in runs[data, epsilon, method] if name in one]))
                for method in (way, *PEERS)
                if any(name in one for one in runs.get((data, epsilon, method), []))
            }
            if way in means and len(means) > 1:
                logs[data] = math.log(means[way] / min(v for m, v in means.items() if m != way))
        if logs:
            values = np.array(list(logs.values()))
            reach = 1.96 * values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            worst = max(logs, key=lambda one: logs[one])
            ends = [f"{math.exp(values.mean() + x):.3f}" for x in (0.0, -reach, reach)]
            lines.append([f"{epsilon:g}", way, name, f"{len(values)}", *ends, f"{worst} {math.exp(logs[worst]):.2f}"])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=list(REAL))
    parser.add_argument("--csv", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=[*OURS, *PEERS], default=["plan", "adapt", "aim", "mst"])
    parser.add_argument("--learning", action="store_true", help="measure four fifths, test classifiers on the others")
    parser.add_argument("--runs", type=Path)
    given = parser.parse_args()
    lines = [json.loads(line) for line in given.runs.open()] if given.runs and given.runs.exists() else []
    makers = {**REAL, **MADE, **{Path(p).stem: lambda p=p: coded(pd.read_csv(p)) for p in given.csv}}
    runs: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for line in lines:
        runs.setdefault((line["data"], line["epsilon"], line["method"]), []).append(line)
    for data in [*given.data, *(Path(p).stem for p in given.csv)]:
        codes = None
        called = f"{data}, four fifths" if given.learning else data
        for key in [(called, epsilon, method) for epsilon in given.epsilons for method in given.methods]:
            for seed in range(len(runs.get(key, [])), given.seeds):
                codes = makers[data]() if codes is None else codes
                own = run(codes, key[2], key[1], seed, given.learning)
                line = {"data": called, "epsilon": key[1], "method": key[2], **own}
                runs.setdefault(key, []).append(line)
                shown = (value for value in line.values() if not isinstance(value, list))
                print(*(f"{value:.4g}" if isinstance(value, float) else value for value in shown), flush=True)
                if given.runs:
                    with given.runs.open("a") as file:
                        file.write(json.dumps(line) + "\n")
    names = [*_COMPARED, *(["learned", "real"] if given.learning else []), "CPU s", "MB"]
    names += ["stated 1", "stated 2", "stated 3"]
    rows = [[k[0], f"{k[1]:g}", k[2], f"{len(v)}", *(_shown(v, name) for name in names)] for k, v in runs.items()]
    print_rows(
        "Mean ‖estimate − truth‖₁/N; stated beside true RMS error over all runs: all tables (least–most of one table)",
        ["data", "epsilon", "method", "runs", *names],
        rows,
    )
    summary = [line for e in given.epsilons for way in OURS for line in beside_peers(runs, e, way)]
    columns = ["epsilon", "method", "figure", "data sets", "beside best peer", "from", "to", "worst"]
    print_rows("Error beside the best peer's: geometric mean over data sets, 95 % interval", columns, summary)


if __name__ == "__main__":
    main()
