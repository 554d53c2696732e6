"""Clip against error: what `rs.clips` says beforehand of each bound, and what releases then had.

    python -m benchmarks.amounts

Amounts are lognormal, 20,000 records in four cells; what is said beforehand comes from other draws of the same
distribution. The error of a release is that of the four sums against the sums without clipping, root mean square over
ten releases.
"""

import tempfile

import numpy as np
import pyarrow as pa

import residua as rs

HIGHS = (25_000, 50_000, 100_000, 200_000, 400_000, 800_000)
RECORDS, RELEASES = 20_000, 10


def main() -> None:
    """Prints a row per bound."""
    random = np.random.default_rng(1)
    amounts, earlier = (random.lognormal(9.5, 1.1, RECORDS) for _ in range(2))
    cells = random.integers(0, 4, RECORDS)
    true = np.bincount(cells, weights=amounts)
    print(f"{'high':>9} {'clipped':>8} {'bias':>12} {'noise':>10} {'error':>11} {'error of releases':>18}")
    for high in HIGHS:
        domain = rs.Domain({"cell": rs.Integers(0, 3), "amount": rs.Amount(0, high, unit=high / 1000)})
        plan = rs.plan(rs.marginals(domain, [("cell", "amount")]), rs.ZCDP(0.1))
        [row] = rs.clips(plan, "amount", amounts=earlier, records=RECORDS / 4, by=["cell"], highs=[high])
        data, errors = pa.table({"cell": cells, "amount": amounts}), []
        with tempfile.TemporaryDirectory() as folder:
            ledger = rs.Ledger.create(f"{folder}/a.ledger", rs.ZCDP(0.1 * RELEASES * 1.001))
            for _ in range(RELEASES):
                release = rs.measure(plan, data, ledger=ledger)
                errors.append(release.table(["cell", "amount"]).estimates[:, 0] - true)
        real = float(np.sqrt(np.mean(np.square(errors))))
        said = f"{row['percent']:>7.2f}% {row['bias']:>12,.0f} {row['noise']:>10,.0f} {row['error']:>11,.0f}"
        print(f"{high:>9,} {said} {real:>18,.0f}", flush=True)


if __name__ == "__main__":
    main()
