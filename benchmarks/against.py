"""Two checkouts in one run: `python -m benchmarks.against OTHER/src` times the same work there and here, in turns.

`python -m benchmarks.against OTHER/src 3 tree` runs the tasks with "tree" in their name, three times each.

Each task runs in a process of its own, alternately with either checkout. Counted are CPU seconds, those of child
processes included, and the best of several runs; the last columns are their ratio and, where a task has one, the figure
that its result states (an error, a variance, a gap) there and here. Tasks use names that both have.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TASKS = {
    "import": "",
    "plan marginals, total variance, 100 × 10, ≤3-way": """
        w = rs.marginals(rs.Domain.of_sizes({f"a{i}": 10 for i in range(100)}), ways=range(4))
        done(lambda: rs.plan(w, rs.ZCDP(0.5)))""",
    "plan marginals, largest variance, 60 × 10, ≤3-way": """
        w = rs.marginals(rs.Domain.of_sizes({f"a{i}": 10 for i in range(60)}), ways=range(4))
        done(lambda: rs.plan(w, rs.ZCDP(0.5), minimise=rs.MaxVariance()))""",
    "plan prefixes of 256, targets": """
        w = rs.explicit(rs.Domain.of_sizes({"a": 256}), np.tril(np.ones((256, 256))))
        done(lambda: rs.plan(w, targets=1.0))""",
    "plan products (Adult, prefixes of five, ≤2-way)": """
        sizes = [85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2]
        d = rs.Domain.of_sizes({f"a{i}": n for i, n in enumerate(sizes)})
        w = rs.product(d, {f"a{i}": "prefixes" for i in (0, 2, 9, 10, 11)}, ways=[1, 2])
        done(lambda: rs.plan(w, rs.GDP(1.0)))""",
    "plan with Laplace noise, prefixes of 64": """
        w = rs.explicit(rs.Domain.of_sizes({"a": 64}), np.tril(np.ones((64, 64))))
        done(lambda: rs.plan(w, rs.PureDP(1.0)))""",
    "save and load a plan of 4,951 sets": """
        p = rs.plan(rs.marginals(rs.Domain.of_sizes({f"a{i}": 5 for i in range(99)}), ways=range(3)), rs.ZCDP(0.5))
        def both():
            p.save("p.json"); rs.Plan.load("p.json"); os.unlink("p.json")
        done(both)""",
    "measure marginals, 30 × 10, ≤3-way, 10^5 records": """
        d = rs.Domain.of_sizes({f"a{i}": 10 for i in range(30)})
        p = rs.plan(rs.marginals(d, ways=range(4)), rs.ZCDP(0.5))
        data = pa.table({n: np.random.default_rng(1).integers(0, 10, 100_000) for n in d.names})
        number = iter(range(99))
        done(lambda: rs.measure(p, data, ledger=rs.Ledger(f"l{next(number)}", rs.ZCDP(0.5))))""",
    "all estimates of those": """
        d = rs.Domain.of_sizes({f"a{i}": 10 for i in range(30)})
        p = rs.plan(rs.marginals(d, ways=range(4)), rs.ZCDP(0.5))
        data = pa.table({n: np.random.default_rng(1).integers(0, 10, 1000) for n in d.names})
        r = rs.measure(p, data, ledger=rs.Ledger("l", rs.ZCDP(0.5)))
        done(lambda: [None for _ in r.all_estimates()])""",
    "measure products, ranges of 100 × 20 × 20 × 5, 10^5 records": """
        d = rs.Domain.of_sizes({"a": 100, "b": 20, "c": 20, "e": 5})
        p = rs.plan(rs.product(d, {"a": "prefixes", "b": "ranges"}, ways=[1, 2, 3]), rs.ZCDP(0.5))
        data = pa.table({n: np.random.default_rng(1).integers(0, 5, 100_000) for n in d.names})
        number = iter(range(99))
        done(lambda: rs.measure(p, data, ledger=rs.Ledger(f"l{next(number)}", rs.ZCDP(0.5))))""",
    "tables of a release of products": """
        d = rs.Domain.of_sizes({"a": 100, "b": 20, "c": 20, "e": 5})
        p = rs.plan(rs.product(d, {"a": "prefixes", "b": "ranges"}, ways=[1, 2, 3]), rs.ZCDP(0.5))
        data = pa.table({n: np.random.default_rng(1).integers(0, 5, 1000) for n in d.names})
        r = rs.measure(p, data, ledger=rs.Ledger("l", rs.ZCDP(0.5)))
        done(lambda: list(r.tables()))""",
    "project marginals, 12 × 8, ≤2-way": """
        d = rs.Domain.of_sizes({f"a{i}": 8 for i in range(12)})
        p = rs.plan(rs.marginals(d, ways=range(3)), rs.ZCDP(0.01))
        data = pa.table({n: np.random.default_rng(1).integers(0, 3, 1000) for n in d.names})
        r = rs.measure(p, data, ledger=rs.Ledger("l", rs.ZCDP(0.01)))
        done(lambda: rs.project(r, simulations=0))""",
    "common and top-up of plans of 36,051 sets": """
        d = rs.Domain.of_sizes({f"a{i}": 10 for i in range(60)})
        p, q = (rs.plan(rs.marginals(d, ways=w), rs.ZCDP(0.5)) for w in (range(4), [2, 3]))
        done(lambda: rs.top_up(p, given=rs.common([p, q])))""",
    "plan prefixes of 100,000 values": """
        w = rs.prefixes(rs.Domain.of_sizes({"a": 100_000}), "a")
        done(lambda: rs.plan(w, rs.ZCDP(0.5)), rms)""",
    "plan ranges of 10,000 values": """
        w = rs.ranges(rs.Domain.of_sizes({"a": 10_000}), "a")
        done(lambda: rs.plan(w, rs.ZCDP(0.5)), rms)""",
    "plan prefixes of 2,000 values × 2 × 9": """
        d = rs.Domain.of_sizes({"a": 2000, "b": 2, "c": 9})
        w = rs.product(d, {"a": "prefixes"}, ways=[1, 2, 3])
        done(lambda: rs.plan(w, rs.ZCDP(0.5)), rms)""",
    "measure those, 10^5 records": """
        d = rs.Domain.of_sizes({"a": 2000, "b": 2, "c": 9})
        p = rs.plan(rs.product(d, {"a": "prefixes"}, ways=[1, 2, 3]), rs.ZCDP(0.5))
        data = pa.table({n: np.random.default_rng(1).integers(0, 2, 100_000) for n in d.names})
        number = iter(range(99))
        done(lambda: rs.measure(p, data, ledger=rs.Ledger(f"l{next(number)}", rs.ZCDP(0.5))))""",
    "plan a tree of 7 × 30 × 100 places, by sex": """
        w = nation(7, 30, 100)
        done(lambda: rs.plan(w, rs.ZCDP(0.5)), rms)""",
    "measure that tree, 10^5 records": """
        w = nation(7, 30, 100)
        p = rs.plan(w, rs.ZCDP(0.5))
        ids = np.random.default_rng(1).integers(0, 21_000, 100_000)
        data = pa.table({"place": [f"{i:06}" for i in ids], "sex": ["f", "m"] * 50_000})
        number = iter(range(99))
        done(lambda: rs.measure(p, data, ledger=rs.Ledger(f"l{next(number)}", rs.ZCDP(0.5))))""",
    "plan prefixes of 1,024 values with Laplace noise": """
        w = rs.prefixes(rs.Domain.of_sizes({"a": 1024}), "a")
        done(lambda: rs.plan(w, rs.PureDP(1.0)), rms)""",
    "plan marginals with Laplace noise, 14 × 5, ≤2-way": """
        w = rs.marginals(rs.Domain.of_sizes({f"a{i}": 5 for i in range(14)}), ways=range(3))
        done(lambda: rs.plan(w, rs.PureDP(1.0)), rms)""",
    "plan queries that tie attributes together (blockwise)": """
        d = rs.Domain.of_sizes({f"a{i}": 12 for i in range(8)})
        w = rs.queries(d, [f"a{i} + a{j} <= {k}" for i in range(8) for j in range(i) for k in (4, 9, 14)])
        done(lambda: rs.plan(w, rs.ZCDP(0.5), form=rs.Blockwise()), rms)""",
    "plan random ranges of 256 cells, largest variance": """
        ends = np.sort(np.random.default_rng(1).integers(0, 256, (512, 2)), axis=1)
        rows = (np.arange(256) >= ends[:, :1]) & (np.arange(256) <= ends[:, 1:])
        w = rs.explicit(rs.Domain.of_sizes({"a": 256}), rows.astype(float))
        done(lambda: rs.plan(w, rs.ZCDP(0.5), minimise=rs.MaxVariance()), rms)""",
    "measure queries over merged cells (matrix), 10^5 records": """
        d = rs.Domain.of_sizes({"a": 64, "b": 8})
        rows = np.random.default_rng(1).integers(0, 2, (200, 512)).astype(float)
        p = rs.plan(rs.explicit(d, rows), rs.ZCDP(0.5))
        data = pa.table({n: np.random.default_rng(1).integers(0, 8, 100_000) for n in d.names})
        number = iter(range(99))
        done(lambda: rs.measure(p, data, ledger=rs.Ledger(f"l{next(number)}", rs.ZCDP(0.5))))""",
    "estimate of 6 × 5, ≤2-way, 10^4 records": """
        d = rs.Domain.of_sizes({f"a{i}": 5 for i in range(6)})
        p = rs.plan(rs.marginals(d, ways=range(3)), rs.ZCDP(0.05))
        data = pa.table({n: np.random.default_rng(1).integers(0, 4, 10_000) for n in d.names})
        r = rs.measure(p, data, ledger=rs.Ledger("l", rs.ZCDP(0.05)))
        done(lambda: rs.estimate(r))""",
    "project prefixes of 5,000 values": """
        d = rs.Domain.of_sizes({"a": 5000})
        p = rs.plan(rs.prefixes(d, "a"), rs.ZCDP(0.01))
        data = pa.table({"a": np.random.default_rng(1).integers(0, 3000, 10_000)})
        r = rs.measure(p, data, ledger=rs.Ledger("l", rs.ZCDP(0.01)))
        done(lambda: rs.project(r, simulations=0))""",
    "save and load a release of 30 × 10, ≤3-way": """
        d = rs.Domain.of_sizes({f"a{i}": 10 for i in range(30)})
        p = rs.plan(rs.marginals(d, ways=range(4)), rs.ZCDP(0.5))
        data = pa.table({n: np.random.default_rng(1).integers(0, 10, 1000) for n in d.names})
        r = rs.measure(p, data, ledger=rs.Ledger("l", rs.ZCDP(0.5)))
        number = iter(range(99))
        def both():
            name = f"r{next(number)}"; r.save(name); rs.Release.load(name)
        done(both)""",
    "`+` of 1,500 workloads": """
        d = rs.Domain.of_sizes({"a": 40, "b": 40})
        ws = [rs.explicit(d, np.eye(1600)[i : i + 1]) for i in range(1500)]
        import functools, operator
        done(lambda: functools.reduce(operator.add, ws))""",
}
_HEAD = """
import json, os, resource, sys, time, tempfile, warnings
cpu = time.process_time()
import residua as rs
answer = [time.process_time() - cpu, None]
warnings.simplefilter("ignore")
import numpy as np, pyarrow as pa, pyarrow.csv
os.chdir(tempfile.mkdtemp())
def spent():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
def rms(plan):
    return plan.total_variance(plan.workload) ** 0.5
def nation(states, counties, places):
    ids = range(states * counties * places)
    pa.csv.write_csv(pa.table({
        "place": [f"{i:06}" for i in ids],
        "county": [f"c{i // places}" for i in ids],
        "state": [f"s{i // places // counties}" for i in ids],
    }), "places.csv")
    place = rs.CodeList.from_file("places.csv", "place", levels=["county", "state"])
    d = rs.Domain({"place": place, "sex": ["f", "m"]})
    return rs.product(d, {"place": "hierarchy", "sex": "identity"}) + rs.hierarchy(d, "place")
def done(work, figure=None):
    answer[0] = 1e9
    for _ in range(3):
        start = spent(); result = work(); answer[0] = min(answer[0], spent() - start)
    if figure is not None:
        answer[1] = figure(result)
"""


def _run(name: str, script: str, source: Path) -> tuple[float, float | None]:
    """CPU seconds and figure of one process."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{name} with {source}:\n{ran.stderr}")
    seconds, figure = json.loads(ran.stdout.splitlines()[-1])
    return seconds, figure


def main() -> None:
    """Prints the table."""
    other = Path(sys.argv[1]).resolve()
    here = Path(__file__).parents[1] / "src"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    chosen = sys.argv[3] if len(sys.argv) > 3 else ""
    print(f"{'task':<62}{'there':>9}{'here':>9}{'ratio':>7}{'figure there':>16}{'here':>14}")
    for name, body in TASKS.items():
        if chosen not in name:
            continue
        lines = "\n".join(line.removeprefix("        ") for line in body.splitlines())
        script = _HEAD + lines + "\nprint(json.dumps(answer))"
        runs = [[_run(name, script, source) for source in (other, here)] for _ in range(rounds)]
        answers = [min(column) for column in zip(*runs, strict=True)]
        times = [answer[0] for answer in answers]
        figures = "".join("" if answer[1] is None else f"{answer[1]:>15.6g}" for answer in answers)
        print(f"{name:<62}{times[0]:>9.4f}{times[1]:>9.4f}{times[1] / times[0]:>7.2f}{figures}", flush=True)


if __name__ == "__main__":
    main()
