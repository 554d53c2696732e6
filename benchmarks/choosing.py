"""Choosing an age bucketisation for each census tract, as in the paper's Table 7: `python -m benchmarks.choosing`.

Four candidates publish counts by gender and age bucket (1, 4, 9 or 23 buckets) with independent noise. The look is
taken step by step; the finest candidate that still serves the one before it is finished: at least half of the coarser
buckets with a signal-to-noise ratio of at least 20. A choice is right if the true counts would have made it.

Beside it stands the rule of a single population count: three thresholds on the total, learned from the true choices
(which no real release could do), applied to the exact total, and to one measured with a tenth of the budget.

The budget saved is the least privacy cost of answering the queries of the last look, query by query as accurately as
the look did: what the traditional way would have to set aside for choosing.
"""

import sys
import tempfile

import numpy as np

import residua as rs
from benchmarks.show import print_rows
from benchmarks.tracts import BUCKETS, bucket_matrix, in_buckets, tracts
from residua.workload import Workload

SHARE, SNR = 0.5, 20.0
PUBLISHED = {  # rho: share of each choice, accuracy, budget saved (common-mechanism, Table 7)
    1 / 8: ((0.34, 0.68, 1.64, 97.34), 99.80, 49.67),
    1 / 32: ((0.39, 1.31, 12.61, 85.69), 98.74, 49.59),
    1 / 72: ((0.45, 3.46, 31.51, 64.58), 97.32, 48.92),
    1 / 128: ((0.50, 8.08, 49.95, 41.47), 96.09, 47.74),
    1 / 200: ((0.56, 14.50, 61.43, 23.51), 95.88, 46.11),
    1 / 288: ((0.63, 22.55, 64.85, 11.97), 95.75, 46.06),
}
NAMES = list(BUCKETS)
FINE = BUCKETS["Age23"]


def domain() -> rs.Domain:
    """Gender by the 23 finest buckets."""
    return rs.Domain({"gender": ["Female", "Male"], "age": [str(age) for age in FINE]})


def workload(name: str) -> Workload:
    """Counts by gender and bucket."""
    return rs.explicit(domain(), np.kron(np.eye(2), bucket_matrix(BUCKETS[name], FINE)))


def candidates(rho: float) -> dict[str, rs.Plan]:
    """Independent noise on every count, at the whole budget."""
    return {name: rs.independent(workload(name), rs.ZCDP(rho)) for name in NAMES}


def looks(plans: dict[str, rs.Plan]) -> list[rs.Plan]:
    """The chain of common mechanisms: of all four, of the last three, of the last two."""
    return [rs.common(list(plans.values())[k:]) for k in range(3)]


class Rule:
    """Which candidate counts lead to, whether true or estimated from the looks."""

    def __init__(self, plans: dict[str, rs.Plan]) -> None:
        later = list(plans.values())[1:]
        self.stddevs = [np.sqrt(plan.variances(workload(name))) for name, plan in zip(NAMES, later, strict=False)]

    def choice(self, counts: list[np.ndarray]) -> np.ndarray:
        """The number of the chosen candidate in each tract; counts by gender and bucket, (tracts, queries) per step."""
        chosen = np.zeros(len(counts[0]), dtype=int)
        going = np.ones(len(chosen), dtype=bool)
        for queries, stddevs in zip(counts, self.stddevs, strict=True):
            going &= (queries / stddevs >= SNR).mean(axis=1) >= SHARE
            chosen += going
        return chosen


def estimated(people: np.ndarray, plans: list[rs.Plan], rng: np.random.Generator) -> list[np.ndarray]:
    """What the looks of a chain estimate in every tract, jointly: each look is the next one with noise added."""
    found: list[np.ndarray] = []
    finer, covariance = None, None
    for name, look in reversed(list(zip(NAMES, plans, strict=False))):
        asked = workload(name)
        own = look.covariance(asked)
        if finer is None:
            mean, extra = people @ asked.matrix.toarray().T, own
        else:
            merge = np.linalg.lstsq(workload(finer).matrix.toarray().T, asked.matrix.toarray().T, rcond=None)[0].T
            mean, extra = found[0] @ merge.T, own - merge @ covariance @ merge.T
        values, vectors = np.linalg.eigh(extra)
        assert values.min() > -1e-6 * np.diag(own).max(), "the looks are not nested"
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        found.insert(0, mean + rng.standard_normal(mean.shape) @ root.T)
        finer, covariance = name, own
    return found


def by_population(totals: np.ndarray, truth: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The single-count rule: the best three thresholds on the true totals, applied to what is seen."""
    chosen = np.zeros(len(truth), dtype=int)
    order = np.argsort(totals)
    for level in range(1, 4):
        above = (truth[order] >= level).astype(int)
        wrong = np.concatenate([[0], np.cumsum(above)]) + np.concatenate([np.cumsum((1 - above)[::-1])[::-1], [0]])
        cut = int(wrong.argmin())
        chosen += seen >= (totals[order][cut] if cut < len(order) else np.inf)
    return chosen


def saved(plans: list[rs.Plan], rho: float, *, youngest: bool = True) -> list[float]:
    """What each look would cost alone, as a share of the budget: its queries at its accuracy, at the least privacy.

    Age9 and Age23 have the bucket [0, 5) in common, so that the last look spends all of a child's budget; leave it out
    with `youngest=False`.
    """
    shares = []
    for name, look in zip(NAMES, plans, strict=False):
        asked = workload(name)
        if name == "Age9" and not youngest:
            rows = asked.matrix.toarray()
            asked = rs.explicit(asked.domain, rows[rows @ np.tile(np.eye(23)[0], 2) == 0])
        least = rs.plan(asked, targets=look.variances(asked))
        shares.append(least.pcost / (2 * rho))
    return shares


def sessions(people: np.ndarray, rho: float, rule: Rule) -> tuple[int, int]:
    """Some tracts through real sessions, ledgers and all: how many chose correctly, of how many."""
    import pyarrow as pa

    right = 0
    for tract in people:
        codes = np.arange(46)
        rows = {
            "gender": np.array(["Female", "Male"])[codes // 23],
            "age": np.array([str(a) for a in FINE])[codes % 23],
        }
        data = rs.Source.frame(pa.table({**rows, "n": tract}), counts="n")
        with tempfile.TemporaryDirectory() as folder:
            session = rs.Session(data, rs.ZCDP(rho), ledger=f"{folder}/a.ledger")
            choice = session.choose(candidates(rho))
            while (found := choice.recommend(share=SHARE, snr=SNR)).action == "step":
                choice = choice.step()
            chosen = found.candidate or next(iter(choice.candidates))
            choice.finish(chosen)
            truth = rule.choice([tract[None] @ workload(name).matrix.toarray().T for name in NAMES[:3]])[0]
            right += NAMES[truth] == chosen
    return right, len(people)


def main() -> None:
    rng = np.random.default_rng(2023)
    people = in_buckets(tracts(4_000 if "--quick" in sys.argv else 73_426, rng), FINE).reshape(-1, 46)
    totals = people.sum(axis=1).astype(float)
    rows = []
    for rho, (shares, accuracy, budget) in PUBLISHED.items():
        plans = candidates(rho)
        chain, rule = looks(plans), Rule(plans)
        truth = rule.choice([people @ workload(name).matrix.toarray().T for name in NAMES[:3]])
        chosen = rule.choice(estimated(people, chain, rng))
        last, older = (np.array(saved(chain, rho, youngest=y))[np.minimum(truth, 2)].mean() for y in (True, False))
        noisy = totals + rng.standard_normal(len(totals)) / np.sqrt(2 * rho * 0.1)
        ours = " ".join(f"{(truth == k).mean():6.2%}" for k in range(4))
        rows.append(
            [
                f"1/{round(1 / rho)}",
                ours,
                " ".join(f"{share:5.2f}%" for share in shares),
                f"{(chosen == truth).mean():.2%}",
                f"{accuracy:.2f}%",
                f"{(by_population(totals, truth, totals) == truth).mean():.2%}",
                f"{(by_population(totals, truth, noisy) == truth).mean():.2%}",
                f"{last:.1%}",
                f"{older:.2%}",
                f"{budget:.2f}%",
            ]
        )
    print_rows(
        f"{len(people):,} synthetic tracts: Total / Age4 / Age9 / Age23",
        [
            "rho",
            "right choices",
            "paper",
            "accuracy",
            "paper",
            "exact count",
            "noisy count",
            "saved",
            "without 0–4",
            "paper",
        ],
        rows,
    )
    right, of = sessions(people[:10], 1 / 72, Rule(candidates(1 / 72)))
    print(f"through real sessions at rho = 1/72: {right} of {of} tracts chosen correctly")


if __name__ == "__main__":
    main()
