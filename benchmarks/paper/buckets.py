"""Choosing an age bucketisation for each census tract (common-mechanism, §7.5): candidates, looks, rule, budget saved.

Four candidates publish counts by gender and age bucket (1, 4, 9 or 23 buckets) with independent noise. The look is
taken step by step; the finest candidate that still serves the one before it is finished: at least half of the coarser
buckets with a signal-to-noise ratio of at least 20, by the noise of the next candidate. A choice is right if the true
counts would have made it.

The text counts women and men in the candidate Total. The authors' program (cmla-psu/commonmech) has one total there,
judged by the noise of the eight counts of Age4 that it is the sum of (k = 8): `Buckets(gender=False)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

import residua as rs
from benchmarks.paper.tracts import BUCKETS, bucket_matrix
from residua.workload import Workload

SHARE, SNR = 0.5, 20.0
NAMES = list(BUCKETS)
FINE = BUCKETS["Age23"]


def domain() -> rs.Domain:
    """Gender by the 23 finest buckets."""
    return rs.Domain({"gender": ["Female", "Male"], "age": [str(age) for age in FINE]})


@cache
def workload(name: str, gender: bool = True) -> Workload:
    """Counts by gender and bucket; without gender, the candidate Total is one count."""
    if name == "Total" and not gender:
        return rs.explicit(domain(), np.ones((1, 46)))
    return rs.explicit(domain(), np.kron(np.eye(2), bucket_matrix(BUCKETS[name], FINE)))


@dataclass(frozen=True)
class Buckets:
    """The four candidates at a budget.

    Args:
        rho: the budget, as zCDP.
        gender: whether the candidate Total counts women and men apart, as the text has it.
    """

    rho: float
    gender: bool = True

    def asked(self, name: str) -> Workload:
        """The counts of a candidate."""
        return workload(name, self.gender or name != "Total")

    def candidates(self) -> dict[str, rs.Plan]:
        """Independent noise on every count, at the whole budget."""
        return {name: rs.independent(self.asked(name), rs.ZCDP(self.rho)) for name in NAMES}

    def looks(self) -> list[rs.Plan]:
        """The chain of common mechanisms: of all four, of the last three, of the last two."""
        plans = list(self.candidates().values())
        return [rs.common(plans[k:]) for k in range(3)]

    def stddevs(self) -> list[np.ndarray]:
        """The noise that the next candidate would have on the counts of each step."""
        later = list(self.candidates().values())[1:]
        return [np.sqrt(plan.variances(self.asked(name))) for name, plan in zip(NAMES, later, strict=False)]

    def choice(self, counts: list[np.ndarray]) -> np.ndarray:
        """The number of the chosen candidate in each tract; counts by step, (tracts, queries), true or estimated."""
        chosen, going = np.zeros(len(counts[0]), dtype=int), np.ones(len(counts[0]), dtype=bool)
        for queries, stddevs in zip(counts, self.stddevs(), strict=True):
            going &= (queries / stddevs >= SNR).mean(axis=1) >= SHARE
            chosen += going
        return chosen

    def truth(self, people: np.ndarray) -> np.ndarray:
        """The right choices, from true counts, (tracts, 46)."""
        return self.choice([people @ self.asked(name).matrix.toarray().T for name in NAMES[:3]])

    def estimated(self, people: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """What the looks estimate in every tract, jointly: each look is the next one with noise added."""
        estimates: list[np.ndarray] = []
        finer, covariance = None, None
        for name, look in reversed(list(zip(NAMES, self.looks(), strict=False))):
            asked = self.asked(name)
            own = look.covariance(asked)
            if finer is None:
                mean, extra = people @ asked.matrix.toarray().T, own
            else:
                rows = self.asked(finer).matrix.toarray(), asked.matrix.toarray()
                merge = np.linalg.lstsq(rows[0].T, rows[1].T, rcond=None)[0].T
                mean, extra = estimates[0] @ merge.T, own - merge @ covariance @ merge.T
            values, vectors = np.linalg.eigh(extra)
            assert values.min() > -1e-6 * np.diag(own).max(), "the looks are not nested"
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            estimates.insert(0, mean + rng.standard_normal(mean.shape) @ root.T)
            finer, covariance = name, own
        return estimates

    def saved(self, *, youngest: bool = True) -> list[float]:
        """What each look would cost alone, as a share of the budget: its queries at its accuracy, at least privacy.

        Age9 and Age23 have the bucket [0, 5) in common, so that the last look spends all of a child's budget; leave it
        out with `youngest=False`.
        """
        shares = []
        for name, look in zip(NAMES, self.looks(), strict=False):
            asked = self.asked(name)
            if name == "Age9" and not youngest:
                rows = asked.matrix.toarray()
                asked = rs.explicit(asked.domain, rows[rows @ np.tile(np.eye(23)[0], 2) == 0])
            shares.append(rs.plan(asked, targets=look.variances(asked)).pcost / (2 * self.rho))
        return shares
