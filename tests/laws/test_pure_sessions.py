"""Plans with Laplace noise combined, pooled and topped up: precisions add up row by row, epsilons in the price."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import LedgerError, PlanError, SessionError
from residua.plans import MatrixPlan
from residua.plans.algebra import common, residual, top_up
from residua.plans.noise import LAPLACE
from residua.release.base import Release
from residua.release.pooled import pooled
from residua.testing import check_plan

DOMAIN = rs.Domain.of_sizes([2, 3, 4])
ONE, TWO = rs.marginals(DOMAIN, ways=[1]), rs.marginals(DOMAIN, ways=[2])
ROWS = rs.explicit(DOMAIN, np.random.default_rng(0).integers(0, 2, (5, 24)))
COUNTS = np.random.default_rng(1).integers(0, 200, (2, 3, 4))
CODES = np.repeat(np.indices((2, 3, 4)).reshape(3, -1), COUNTS.ravel(), axis=1)
DATA = pa.table(dict(zip(DOMAIN.names, CODES, strict=True)))


def noisy(workload: rs.Workload, epsilon: float) -> rs.Plan:
    return rs.independent(workload, rs.PureDP(epsilon))


PLANS = {
    "tables": (noisy(ONE, 0.3), noisy(ONE + TWO, 0.7)),
    "queries": (noisy(ROWS, 0.3), rs.plan(ROWS, rs.PureDP(0.7))),
    "mixed": (rs.plan(ONE + TWO, rs.PureDP(0.3)), noisy(ROWS, 0.7)),
}


def covariance_beside(plans: list[rs.Plan], workload: rs.Workload) -> np.ndarray:
    """Least squares of everything that these plans measure, from their integers."""
    rows = []
    for plan in plans:
        grouping, own = plan.laplace_rows()
        columns = grouping.over(range(3), DOMAIN.sizes)
        rows.append(np.append(own, np.zeros((len(own), 1)), axis=1)[:, columns] / np.sqrt(2))
    stacked, W = np.vstack(rows), workload.listed().matrix.toarray()
    return np.einsum("ij,jk,ik->i", W, np.linalg.pinv(stacked.T @ stacked), W)


@pytest.mark.parametrize("kind", PLANS)
def test_a_sum_is_as_accurate_as_both_pooled_and_costs_no_more(kind: str) -> None:
    first, second = PLANS[kind]
    both = first + second
    check_plan(both)
    assert both.can_answer(first)
    assert both.can_answer(second)
    assert both.guarantee == rs.PureDP(both.unit_epsilon) or both.unit_epsilon <= both.guarantee.epsilon
    assert both.epsilon < first.epsilon + second.epsilon
    assert both.objective == "as precise as both plans together"  # running both costs the sum
    np.testing.assert_allclose(both.variances(both.workload), covariance_beside([first, second], both.workload), 1e-6)
    assert not top_up(first, given=both).pcost
    assert common([first, both]).can_answer(first)


def test_the_same_rows_measured_twice_are_measured_once_at_the_root_of_the_sum_of_squares() -> None:
    for plan in (noisy(ONE, 0.5), noisy(ROWS, 0.5)):
        assert (plan + plan).epsilon == pytest.approx(0.5 * np.sqrt(2), rel=1e-9)
        better = plan + plan + plan
        assert top_up(better, given=plan).epsilon == pytest.approx(0.5 * np.sqrt(2), rel=1e-9)
        assert residual(better, given=plan).epsilon == pytest.approx(0.5 * np.sqrt(2), rel=1e-9)


def test_other_noise_and_buckets_are_refused_in_a_sentence() -> None:
    with pytest.raises(PlanError, match="normal and with Laplace"):
        noisy(ONE, 1.0) + rs.plan(ONE, rs.GDP(1.0))
    buckets = rs.plan(rs.ranges(rs.Domain({"x": rs.Integers(0, 4999)}), "x"), rs.PureDP(1.0))
    with pytest.raises(PlanError, match="buckets"):
        buckets + buckets


@pytest.mark.parametrize("kind", PLANS)
def test_a_pool_states_its_variances_and_its_intervals_hold(kind: str, tmp_path: Path) -> None:
    plans = [*PLANS[kind], noisy(TWO, 0.5)]
    truth = TWO.listed().matrix @ COUNTS.ravel()
    held, squares = 0, []
    for number in range(40):
        ledger = rs.Ledger(tmp_path / f"{number}", rs.PureDP(1.6))
        whole = pooled([rs.measure(plan, DATA, ledger=ledger) for plan in plans])
        stated = whole.plan.variances(TWO)
        least = covariance_beside(plans, TWO)
        assert (stated >= least * (1 - 1e-9)).all()
        assert (stated <= least * (1 + 1e-4)).all()
        columns = whole.answers(TWO, confidence=0.9).columns
        held += int(((columns["lower"] <= truth) & (truth <= columns["upper"])).sum())
        squares.append((np.asarray(columns["estimate"]) - truth) ** 2 / stated)
    # 40 releases of 26 numbers, correlated: as if 40 × 3 independent ones, five deviations. False alarm below 1e-6.
    assert held / (40 * TWO.queries) > 0.9 - 5 * np.sqrt(0.09 / 120)
    assert np.mean(squares) < 2.5
    assert whole.planned.guarantee.epsilon == pytest.approx(1.5, rel=1e-6)


def test_a_pool_of_many_weak_releases_states_no_less_than_their_variance() -> None:
    domain = rs.Domain.of_sizes([2])

    def part(rows: list[list[int]], scale: float) -> Release:
        plan = MatrixPlan(domain, (0,), np.arange(2), np.array(rows), scale, guarantee=rs.PureDP(2.0), noise=LAPLACE)
        return Release(plan, plan.compile(), np.zeros(len(rows), dtype=np.int64))

    # In integers of 33 bits the weak rows are 257, not 256.51: all their noise is off in one direction.
    weak, number = part([[0, 1]], 2.0**33 / 256.51), 300
    whole = pooled([part([[2**30, 0]], 2.0**30), *[weak] * number]).planned
    cells = rs.marginals(domain, ways=[1])
    least = np.array([LAPLACE.variance(2.0**30) / 4.0**30, weak.planned.variances(cells)[1] / number])
    assert (whole.variances(cells) >= least * (1 - 1e-9)).all()
    assert (whole.variances(cells) <= least * 1.01).all()


@pytest.mark.parametrize("epsilon", [1e-2, 1e-3, 1e-5])
def test_releases_with_next_to_no_epsilon_are_pooled_and_added(epsilon: float) -> None:
    plan = rs.plan(rs.prefixes(rs.Domain({"x": rs.Integers(0, 4)}), "x"), rs.PureDP(epsilon))
    part = Release(plan, plan.measurements, np.zeros(plan.measurements.cells, dtype=np.int64))
    stated, own = (each.variances(plan.workload) for each in (pooled([part, part]).planned, plan))
    assert (stated >= own / 2 * (1 - 1e-9)).all()
    assert (stated <= own / 2 * (1 + 1e-4)).all()
    assert (plan + plan).epsilon == pytest.approx(epsilon * np.sqrt(2), rel=1e-6)


def test_a_session_pays_epsilons_and_tops_up(tmp_path: Path) -> None:
    session = rs.Session(DATA, rs.PureDP(1.5), ledger=tmp_path / "ledger")
    coarse, fine, other = noisy(ONE, 0.6), noisy(ONE, 1.0), rs.plan(ROWS, rs.PureDP(0.2))
    session.release(coarse)
    assert session.price(coarse) == 0
    assert float(session.price(fine)) == pytest.approx(0.8, rel=1e-9)  # 0.6² + 0.8² = 1
    release = session.release(fine)
    assert (release.plan.variances(ONE) <= fine.variances(ONE) * (1 + 1e-4)).all()
    assert session.ledger.spent_exactly == session.status.spent_exactly == pytest.approx(Fraction(7, 5), rel=1e-9)
    with pytest.raises(LedgerError, match="epsilon"):
        session.release(other)
    again = rs.Session(DATA, ledger=tmp_path / "ledger")
    known = again.known
    assert known is not None
    np.testing.assert_array_equal(known.estimates(["a0"]), release.estimates(["a0"]))
    known.save(tmp_path / "known")
    assert rs.Release.load(tmp_path / "known").planned.guarantee == known.planned.guarantee
    again.report(tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1.4" in report
    assert "Laplace" in report


def test_what_would_waste_epsilons_is_refused(tmp_path: Path) -> None:
    session = rs.Session(DATA, rs.PureDP(1.5), ledger=tmp_path / "ledger")
    plans = [noisy(ONE, 0.5), noisy(TWO, 0.5)]
    for attempt in (
        lambda: session.choose(plans),
        lambda: session.price_look(plans),
        lambda: session.adapt(ONE, rs.PureDP(0.1)),
    ):
        with pytest.raises(SessionError, match="nothing was spent"):
            attempt()
    with pytest.raises(PlanError, match="plan with PureDP"):
        session.release(rs.plan(ONE, rs.GDP(1.0)))
    assert session.ledger.spent_exactly == 0
