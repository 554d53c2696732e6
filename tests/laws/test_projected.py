"""Projections: nearest by a general solver, not negative, consistent, facts met, zeros exact; no error bars."""

import dataclasses
from itertools import combinations

import cvxpy as cp
import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.domain.facts import Fact
from residua.projection.accuracy import bound_of
from residua.projection.problem import Terms
from residua.projection.problems import problem_of
from tests.laws.projections import (
    IMPOSSIBLE,
    all_two_way,
    domain_of_three,
    nearest_tables,
    people,
    queries_release,
    released,
)
from tests.laws.test_toy_form import Toy

PAIRS = list(combinations(range(3), 2))
SETS = [(), *((i,) for i in range(3)), *PAIRS]


class Silence:
    """In place of a random generator: a release without noise."""

    def standard_normal(self, size):
        return np.zeros(size)


def weights_of(release, metric):
    """Residual weights by their definition: precisions, or plain squares over the six asked tables."""
    if metric != "plain":
        plan, factor = release.plan, 256 if metric == "margins" else 1
        sets = (plan.lattice.members(i) for i in range(len(plan.lattice)))
        factors = {0: 4 if metric == "margins" else 1, 1: factor, 2: 1}  # the total, one attribute, the largest
        return {S: float(plan.precisions[i]) * factors[len(S)] for i, S in enumerate(sets)}
    asked = [members for members in SETS if members]
    sizes = release.domain.sizes
    return {
        S: float(sum(np.prod([1 / sizes[i] for i in set(A) - set(S)]) for A in asked if set(S) <= set(A))) for S in SETS
    }


def consistent(projected):
    """All tables not negative, and every margin of every table the smaller table itself."""
    names = projected.domain.names
    total = float(projected.estimates([]))
    near = {"atol": 1e-6 * max(1.0, total), "rtol": 0}
    for pair in PAIRS:
        table = projected.estimates([names[i] for i in pair])
        assert table.min() >= 0
        for axis, i in enumerate(pair):
            np.testing.assert_allclose(table.sum(axis=1 - axis), projected.estimates([names[i]]), **near)
    for name in names:
        assert projected.estimates([name]).sum() == pytest.approx(total, abs=near["atol"])


@pytest.mark.parametrize("metric", ["margins", "covariance", "plain"])
@pytest.mark.parametrize("facts", ["none", "total", "known", "zeros", "all"])
def test_residual_releases_go_to_the_nearest_tables_that_meet_the_terms(tmp_path, metric, facts):
    zeros = facts in ("zeros", "all")
    release = all_two_way(tmp_path, impossible=IMPOSSIBLE if zeros else ())
    total = 60 if facts in ("total", "all") else "free"
    known = {("sex",): [25, 35]} if facts in ("known", "all") else {}
    projected = rs.project(release, total=total, known=known, metric=metric, tolerance=1e-10)
    mask = np.zeros((5, 3), dtype=bool)
    mask[:2, 1:] = zeros
    wanted = nearest_tables(
        release,
        weights=weights_of(release, metric),
        total=None if total == "free" else total,
        known=[(1, np.array([25, 35]))] if known else (),
        zeros={(0, 2): mask},
    )
    names = release.domain.names
    for pair, table in wanted.items():
        np.testing.assert_allclose(projected.estimates([names[i] for i in pair]), table, atol=2e-3)
    consistent(projected)
    if total == 60:
        assert float(projected.estimates([])) == pytest.approx(60, abs=1e-6)
    if known:
        np.testing.assert_allclose(projected.estimates(["sex"]), [25, 35], atol=1e-6)
    if zeros:
        assert (projected.estimates(["age", "work"])[mask] == 0.0).all()  # exactly
        assert (projected.estimates(["work", "age"])[mask.T] == 0.0).all()


@pytest.mark.parametrize("metric", ["covariance", "plain"])
@pytest.mark.parametrize("total", ["free", 60, "released"])
def test_dense_releases_go_to_the_histogram_whose_answers_are_nearest(tmp_path, metric, total):
    release = queries_release(tmp_path, impossible=IMPOSSIBLE, rho=0.5)
    projected = rs.project(release, total=total, known={("sex",): [25, 35]} if total == 60 else {}, metric=metric)
    plan, asked = release.plan, release.plan.workload
    W = asked.over(plan.attributes).toarray()
    answers = release.answers(asked).estimates
    h = cp.Variable(30, nonneg=True)
    mask = np.zeros((5, 2, 3), dtype=bool)
    mask[:2, :, 1:] = True
    conditions = [h[mask.ravel()] == 0]
    if total != "free":
        conditions.append(cp.sum(h) == (60 if total == 60 else float(release.estimates([]))))
    if total == 60:
        women = np.zeros((5, 2, 3))
        women[:, 0] = 1.0
        conditions.append(women.ravel() @ h == 25)
    root = np.eye(len(W)) if metric == "plain" else np.linalg.cholesky(np.linalg.inv(plan.covariance(asked))).T
    cp.Problem(cp.Minimize(cp.sum_squares(root @ (W @ h - answers))), conditions).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10
    )
    np.testing.assert_allclose(projected.answers().estimates, W @ h.value, atol=2e-3)
    np.testing.assert_allclose(projected.histogram.ravel() @ W.T, projected.answers().estimates, atol=1e-9)
    assert projected.histogram.min() >= 0
    assert (projected.histogram[mask] == 0).all()
    if total == 60:  # which bounds what no query tells
        np.testing.assert_allclose(projected.histogram.sum(axis=(1, 2)), projected.estimates(["age"]))
        np.testing.assert_allclose(projected.estimates(["sex"]), [25, 35], atol=1e-6)


def test_a_release_that_meets_everything_comes_back_as_it_is(tmp_path):
    age, sex, work = (codes.ravel() for codes in np.indices((5, 2, 3)))
    everyone = pa.table({"age": age, "sex": np.array(["F", "M"])[sex], "work": np.array(["no", "yes", "both"])[work]})
    workload = rs.marginals(domain_of_three(), ways=[1, 2])
    release = released(tmp_path, workload, 10.0, pa.concat_tables([everyone] * 20))  # 40 a cell, noise of about 1
    projected = rs.project(release)
    for names in release.sets:
        np.testing.assert_allclose(projected.estimates(names), release.estimates(names), atol=1e-9)
    for total in ("free", "released"):
        projected = rs.project(release, total=total)
        assert projected.bound.projected == pytest.approx(projected.bound.released)


def test_without_any_terms_nothing_moves_and_facts_alone_are_met(tmp_path):
    release = all_two_way(tmp_path)
    free = rs.project(release, nonnegative=False, total="released")  # whatever the noise made of it
    fixed = rs.project(release, nonnegative=False, known={("sex",): [25, 35]})
    for names in release.sets:
        np.testing.assert_allclose(free.estimates(names), release.estimates(names), atol=1e-9)
    np.testing.assert_allclose(fixed.estimates(["sex"]), [25, 35], atol=1e-9)
    np.testing.assert_allclose(fixed.estimates(["age", "sex"]).sum(axis=0), [25, 35], atol=1e-9)


def test_projecting_what_a_projection_would_observe_changes_nothing(tmp_path):
    for release in (all_two_way(tmp_path), queries_release(tmp_path)):
        projected = rs.project(release, total=60, tolerance=1e-10)
        problem = problem_of(projected.plan, projected.terms)
        observed = problem.simulated(projected.fit, Silence())
        assert problem.moved(observed, problem.solve(observed)) < 1e-6
        assert problem.moved(problem.observed(release), projected.fit) > 0


def test_there_are_intervals_and_no_standard_deviations_and_it_says_so(tmp_path):
    projected = rs.project(all_two_way(tmp_path))
    for name in ("covariance", "stddev", "variance", "intervals", "combination"):
        assert not hasattr(projected, name)
    assert list(projected.table(["sex"]).columns) == ["sex", "estimate", "lower", "upper"]
    assert list(projected.table(["sex"], confidence=None).columns) == ["sex", "estimate"]
    assert "biased" in projected.statement
    assert "biased" in repr(projected)
    with pytest.raises(dataclasses.FrozenInstanceError):
        projected.bound = None
    with pytest.raises(ValueError, match="read-only"):
        projected.table(["sex"]).estimates[0] = 1
    with pytest.raises(rs.ResiduaError, match="only dense releases have a histogram"):
        projected.histogram  # noqa: B018
    with pytest.raises(rs.ResiduaError, match="does not answer the marginal"):
        projected.table(["age", "sex", "work"])


def test_counts_answers_and_tables_agree(tmp_path):
    projected = rs.project(all_two_way(tmp_path))
    table = projected.estimates(["work", "sex"])
    assert projected.count({"work": "yes", "sex": "F"}) == pytest.approx(table[1, 0])
    assert projected.count({"sex": "F", "work": ["yes", "both"]}) == pytest.approx(table[1:, 0].sum())
    assert projected.count() == pytest.approx(table.sum())
    answers = projected.answers()
    assert len(answers) == sum(projected.estimates(names).size for names in projected.plan.workload.sets)
    asked = rs.queries(projected.domain, ["sex = 'F' and work = 'yes'"])
    assert projected.answers(asked).estimates[0] == pytest.approx(table[1, 0])


def test_rounded_tables_are_whole_and_keep_public_margins(tmp_path):
    release = all_two_way(tmp_path, impossible=IMPOSSIBLE)
    projected = rs.project(release, known={("sex",): [25, 35]})
    table = projected.rounded().table(["age", "sex"])
    assert (table.estimates == np.rint(table.estimates)).all()
    assert table.estimates.sum(axis=0).tolist() == [25, 35]
    assert list(table.columns) == ["age", "sex", "estimate", "lower", "upper"]
    assert projected.rounded().table(["age", "work"]).estimates[:2, 1:].sum() == 0
    signed = rs.project(release, nonnegative=False).rounded()
    assert signed.table(["age", "sex"]).estimates.sum(axis=0).tolist() == signed.table(["sex"]).estimates.tolist()


@pytest.mark.parametrize("metric", ["covariance", "plain"])
def test_the_bound_holds_and_is_never_above_the_release(tmp_path, metric):
    """The bound fails in at most one of a thousand releases: that four of sixteen do has odds below 2e-9."""
    rng = np.random.default_rng(5)
    failures = 0
    for release in (all_two_way(tmp_path), queries_release(tmp_path)):
        problem = problem_of(release.plan, Terms(metric=metric))
        truth = rs.project(release, metric=metric, total=60).fit  # any non-negative tables will do
        for _ in range(8):
            observed = problem.simulated(truth, rng)
            fit = problem.solve(observed)
            bound = bound_of(problem, observed, fit)
            noiseless = problem.unprojected(np.array(_observed(problem, truth)))
            error = np.sqrt(problem.moved(_observed(problem, fit), noiseless) / problem.cells)
            before = np.sqrt(problem.moved(observed, noiseless) / problem.cells)
            moved = problem.moved(observed, fit) / problem.cells
            assert error**2 + moved <= before**2 * (1 + 1e-6)  # the angle at the projection is obtuse
            room = np.sqrt(fit.gap / problem.cells)  # what was found is this near to the nearest tables, proven
            left = np.sqrt(bound.released**2 - moved + room**2) + room if moved < bound.released**2 else np.inf
            assert bound.projected == pytest.approx(left, rel=1e-9)
            assert bound.projected <= bound.released + 2 * room
            failures += error > bound.projected or before > bound.released
    assert failures <= 3


@pytest.mark.parametrize("metric", ["covariance", "plain"])
def test_the_bound_holds_when_the_total_is_the_noisy_one_of_the_release(tmp_path, metric):
    """As above; the total that is met is not the truth's."""
    rng = np.random.default_rng(6)
    failures = 0
    for release in (all_two_way(tmp_path, rho=1.0), queries_release(tmp_path, rho=1.0)):
        truth = rs.project(release, metric=metric, total=60)
        free = problem_of(release.plan, Terms(metric=metric))
        stddev = float(release.table([]).columns["stddev"][0])
        for _ in range(8):
            observed = free.simulated(truth.fit, rng)
            total = float(free.unprojected(observed).marginal(()))
            problem = problem_of(
                release.plan, Terms(metric=metric, facts=(Fact((), np.asarray(total)),), total_stddev=stddev)
            )
            fit = problem.solve(observed)
            bound = bound_of(problem, observed, fit)
            noiseless = problem.unprojected(np.array(_observed(problem, truth.fit)))
            failures += np.sqrt(problem.moved(_observed(problem, fit), noiseless) / problem.cells) > bound.projected
            assert np.isfinite(bound.projected)
            assert not bound.doubtful
    assert failures <= 3


def _observed(problem, fit):
    return problem.simulated(fit, Silence())


def test_facts_that_are_false_are_doubted(tmp_path):
    release = all_two_way(tmp_path, rho=2.0)
    assert not rs.project(release, total=60).bound.doubtful
    false = rs.project(release, known={("sex",): [2000, 3000]})
    assert false.bound.doubtful
    assert "is wrong" in false.statement
    false.save(tmp_path / "false")
    for projected in (false, rs.Projected.load(tmp_path / "false")):
        assert projected.bound.projected == np.inf
        assert "at most" not in str(projected.bound)
        assert "No bound is given" in projected.statement


def test_where_the_release_moved_further_than_its_noise_reaches_nothing_is_bounded(tmp_path):
    """And what was found is only as near to the nearest tables as the gap proves."""
    release = all_two_way(tmp_path)
    problem = problem_of(release.plan, Terms())
    fit = rs.project(release, total=60).fit
    observed = _observed(problem, fit)
    reach = bound_of(problem, observed, fit).released
    for share, bounded in ((0.9, True), (1.1, False)):
        off = observed + share * reach * np.sqrt(problem.cells / problem.weights[0]) * (np.arange(len(observed)) == 0)
        bound = bound_of(problem, off, fit)
        assert np.isfinite(bound.projected) == bounded
        loose = dataclasses.replace(fit, gap=fit.gap + (reach**2 * problem.cells) / 16)
        assert bound_of(problem, off, loose).projected >= bound.projected + bounded * reach / 4


def test_simulation_tells_that_projection_helps_where_noise_is_large(tmp_path):
    error = rs.project(all_two_way(tmp_path), total=60).simulated_error(3)
    assert 0 < error.projected < error.released  # noise of about 20 a cell, where 60 people are
    release = queries_release(tmp_path)
    error = rs.project(release, total=60).simulated_error(3)
    assert 0 < error.projected < np.inf
    assert error.simulations == 3
    with pytest.raises(rs.ResiduaError, match="simulations=0"):
        rs.project(release).simulated_error(0)


def test_merged_and_unasked_cells_take_part_in_totals_only(tmp_path):
    asked = rs.queries(
        rs.Domain({"age": rs.Integers(0, 4), "sex": ["F", "M"], "work": ["no", "yes", "both"]}), ["age > 3"]
    )
    projected = rs.project(released(tmp_path, asked, rho=2.0), total=60)
    assert projected.histogram.sum() == pytest.approx(60)
    assert projected.histogram[4:].sum() == pytest.approx(projected.answers().estimates[0], abs=1e-6)


def test_every_form_of_plan_is_projected_or_refused_by_name(tmp_path):
    """The forms there are: test_projected_kinds.py."""
    guarantee = rs.ZCDP(0.5)
    plan = rs.plan(rs.marginals(domain_of_three(), [("age",)]), guarantee, form=Toy())
    release = rs.measure(plan, people(np.random.default_rng(0)), ledger=rs.Ledger(tmp_path / "l", guarantee))
    with pytest.raises(rs.ResiduaError, match="releases of ToyPlan cannot be projected"):
        rs.project(release)
