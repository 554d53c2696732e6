"""Looking first and finishing later is the same as measuring at once: 50,000 runs of each, same mean and covariance.

The runs use the measuring step's own noise on copies of the counts, and the pooled release's own estimates: these are
linear in the measurements, so that their matrix is read off a release with one measurement after another set to a
million and the rest to 0. Forty more runs go through the whole door: ledger, folders and all.

Every comparison allows for its own sampling error; each test's false-alarm rate is below one in a million.
"""

import math
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.plans.verifier import priced
from residua.release import Release, pooled
from residua.session.measuring import missing
from tests.statistics.copies import measured

RUNS = 50_000
ALARM = 1e-6
DOMAIN = rs.Domain.of_sizes({"a": 2, "b": 3})
TRUTH = np.arange(6).reshape(2, 3) * 40 + 25
CELLS = rs.marginals(DOMAIN, ways=2)
GDP = rs.GDP(1.0)
RESIDUAL = [rs.independent(rs.marginals(DOMAIN, ways=1), GDP), rs.independent(CELLS, GDP)]
PREFIX = rs.explicit(DOMAIN, np.tril(np.ones((6, 6))))
DENSE = [rs.plan(PREFIX, GDP), rs.independent(rs.explicit(DOMAIN, np.eye(6)), GDP)]


def errors_allowed(comparisons: int) -> float:
    """Standard errors that none of so many normal statistics exceeds, but for one run in a million."""
    return -NormalDist().inv_cdf(ALARM / comparisons / 2)


def estimates(parts, workload) -> np.ndarray:
    """What 50,000 pooled releases of these (plan, blocks) estimate, (runs, queries)."""
    unit, found = 10**6, 0.0
    for which, (_, measurements) in enumerate(parts):
        columns = []
        for k in range(measurements.cells):
            values = [np.zeros(b.cells, dtype=np.int64) for _, b in parts]
            values[which][k] = unit
            releases = [Release(p, b, m) for (p, b), m in zip(parts, values, strict=True)]
            columns.append(pooled(releases).answers(workload).columns["estimate"] / unit)
        found = found + measured(measurements, TRUTH, RUNS) @ np.array(columns)
    return found


@pytest.mark.parametrize(
    ("candidates", "chosen", "workload"),
    [
        (RESIDUAL, 0, RESIDUAL[0].workload),
        (RESIDUAL, 1, CELLS),
        (DENSE, 0, PREFIX),
        (DENSE, 1, DENSE[1].workload),
        ([RESIDUAL[0], DENSE[1]], 1, DENSE[1].workload),
    ],
    ids=["residual coarse", "residual fine", "dense prefixes", "dense cells", "mixed"],
)
def test_look_then_finish_has_the_mean_and_covariance_of_the_plan_alone(candidates, chosen, workload):
    plan = candidates[chosen]
    look = rs.common(candidates)
    rest = missing(plan, [look])
    assert rest is not None
    assert rest.together == priced(plan)[1]
    adaptive = estimates([(look, priced(look)[0]), (rest.plan, rest.measurements)], workload)
    direct = estimates([(plan, priced(plan)[0])], workload)
    asked = workload.listed() if workload.plain else workload
    truth = asked.matrix @ TRUTH.ravel()
    stated = pooled([Release(plan, priced(plan)[0], np.zeros(priced(plan)[0].cells, np.int64))])
    variances = stated.answers(workload).columns["stddev"] ** 2
    k = len(truth)
    for found in (adaptive, direct):
        z = (found.mean(axis=0) - truth) / np.sqrt(variances / RUNS)
        assert abs(z).max() < errors_allowed(4 * k * k)
    first, second = (np.cov(found.T) for found in (adaptive, direct))
    error = np.sqrt((np.outer(variances, variances) + second**2) / RUNS)
    assert (abs(np.diag(first) - variances) / np.diag(error)).max() < 1.2 * errors_allowed(4 * k * k)
    assert (abs(first - second) / error).max() < 1.2 * math.sqrt(2) * errors_allowed(4 * k * k)


def test_forty_sessions_through_the_whole_door(tmp_path):
    at = np.repeat(np.arange(6), TRUTH.ravel())
    data = pa.table({"a": at // 3, "b": at % 3})
    one, two = RESIDUAL
    z = []
    for i in range(40):
        session = rs.Session(data, GDP, ledger=tmp_path / f"{i}.ledger")
        release = session.choose([one, two]).finish(two)
        assert session.ledger.spent_exactly == priced(two)[1]
        z.append(((release.estimates(("a", "b")) - TRUTH) / np.sqrt(two.variance(("a", "b")))).ravel())
    z = np.array(z)
    assert abs(z.mean(axis=0) * math.sqrt(40)).max() < errors_allowed(12)
    cube = ((z**2).mean(axis=0)) ** (1 / 3)  # chi-square with 40 degrees of freedom, Wilson–Hilferty
    assert (abs(cube - (1 - 2 / (9 * 40))) / math.sqrt(2 / (9 * 40))).max() < errors_allowed(12)
