"""Two checkouts in one run: `python -m benchmarks.against OTHER/src` times the same work there and here, in turns.

Each task runs in a process of its own, alternately with either checkout; the best of several runs counts, and the last
column is the ratio. Tasks use names that both have.
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
}
_HEAD = """
import json, os, sys, time, tempfile, warnings
start = time.perf_counter(); cpu = time.process_time()
import residua as rs
imported = time.process_time() - cpu
warnings.simplefilter("ignore")
import numpy as np, pyarrow as pa
os.chdir(tempfile.mkdtemp())
best = imported
def done(work):
    global best
    best = 1e9
    for _ in range(3):
        start = time.perf_counter(); work(); best = min(best, time.perf_counter() - start)
"""


def main() -> None:
    """Prints the table."""
    other = Path(sys.argv[1]).resolve()
    here = Path(__file__).parents[1] / "src"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print(f"{'task':<62}{'there':>10}{'here':>10}{'ratio':>8}")
    for name, body in TASKS.items():
        lines = "\n".join(line.removeprefix("        ") for line in body.splitlines())
        script = _HEAD + lines + "\nprint(json.dumps(best))"
        best = [1e9, 1e9]
        for _ in range(rounds):
            for which, source in enumerate((other, here)):
                environment = {**os.environ, "PYTHONPATH": str(source)}
                found = subprocess.run(
                    [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
                )
                if found.returncode:
                    raise SystemExit(f"{name} with {source}:\n{found.stderr}")
                best[which] = min(best[which], json.loads(found.stdout.splitlines()[-1]))
        print(f"{name:<62}{best[0]:>10.4f}{best[1]:>10.4f}{best[1] / best[0]:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
