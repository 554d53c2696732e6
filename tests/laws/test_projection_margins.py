"""Margins first: tables of one attribute are projected by themselves and kept, the others are nearest given those."""

import cvxpy as cp
import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.linalg.layout import layout_of
from residua.project.interior import interior_of
from tests.laws.projections import IMPOSSIBLE, all_two_way, domain_of_three, nearest_tables, released
from tests.laws.test_projected import consistent, weights_of

NAMES = ("age", "sex", "work")


def nearest_share(values, total, root):
    """The non-negative vector with this total that is nearest to values, by a general solver."""
    x = cp.Variable(len(values), nonneg=True)
    loss = cp.sum_squares(root @ (x - values))
    cp.Problem(cp.Minimize(loss), [cp.sum(x) == total]).solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    return x.value


@pytest.mark.parametrize("metric", ["covariance", "plain"])
def test_one_way_tables_are_their_own_projection_and_the_others_the_nearest_with_those(tmp_path, metric):
    release = all_two_way(tmp_path)
    projected = rs.project(release, total=60, metric=metric, tolerance=1e-9)
    assert projected.terms.margins_first
    known = []
    for i, name in enumerate(NAMES):
        wanted = nearest_share(release.estimates([name]), 60, np.eye(len(release.estimates([name]))))
        np.testing.assert_allclose(projected.estimates([name]), wanted, atol=1e-3)
        known.append((i, projected.estimates([name])))
    for pair, table in nearest_tables(release, weights=weights_of(release, metric), total=60, known=known).items():
        np.testing.assert_allclose(projected.estimates([NAMES[i] for i in pair]), table, atol=5e-3)
    consistent(projected)


def test_one_way_tables_of_products_are_nearest_in_their_own_covariance(tmp_path):
    release = released(tmp_path, rs.product(domain_of_three(), {"age": "prefixes"}, ways=[1, 2]))
    projected = rs.project(release, total=60, tolerance=1e-9)
    K = release.plan.strategies[0].inverse
    values = release.estimates(["age"])
    v = release.plan.strategies[0].spread
    shifted = values + v * (60 - values.sum())  # what the release would say, had it been told the total
    root = np.linalg.cholesky(np.linalg.pinv(K) + np.ones((5, 5))).T
    np.testing.assert_allclose(projected.estimates(["age"]), nearest_share(shifted, 60, root), atol=1e-3)
    consistent(projected)


@pytest.mark.parametrize("terms", ["zeros", "known", "both"])
def test_attributes_that_rules_or_larger_facts_are_about_are_left_to_move(tmp_path, terms):
    """Their own tables, projected by themselves, could contradict the rule; the other attribute is kept."""
    release = all_two_way(tmp_path, impossible=IMPOSSIBLE if terms != "known" else (), rho=0.002)
    cells = np.zeros((5, 3))
    cells[:2, 0] = 12
    cells[2:] = 4
    known = {("age", "work"): cells} if terms != "zeros" else None
    projected = rs.project(release, total=60, known=known)
    consistent(projected)
    if known:
        np.testing.assert_allclose(projected.estimates(["age", "work"]), cells, atol=1e-5)
    if terms != "known":
        assert (projected.estimates(["age", "work"])[:2, 1:] == 0).all()
    alone = rs.project(release, total=60, known=None if terms == "zeros" else {("age",): cells.sum(axis=1)})
    np.testing.assert_allclose(projected.estimates(["sex"]), alone.estimates(["sex"]), atol=1e-3)


def test_a_free_total_is_that_of_the_small_tables(tmp_path):
    projected = rs.project(all_two_way(tmp_path), total="free")
    consistent(projected)
    assert np.isfinite(float(projected.estimates([])))


def test_histograms_have_no_margins_to_project_first(tmp_path):
    release = released(tmp_path, rs.queries(domain_of_three(), ["age <= 1", "sex = 'F'"]))
    with pytest.raises(rs.ResiduaError, match=r"margins='first'.*one histogram"):
        rs.project(release, margins="first")
    with pytest.raises(rs.ResiduaError, match="margins='last'"):
        rs.project(release, margins="last")
    with pytest.raises(rs.ResiduaError, match="simulations=-1"):
        rs.project(release, simulations=-1)


def test_small_tables_do_not_suffer_from_large_ones(tmp_path):
    """Thirty releases: the mean error of 1-way tables is no larger than before (4 % allowed), all together it is."""
    domain = rs.Domain({f"a{i}": rs.Integers(0, 7) for i in range(5)})
    random = np.random.default_rng(1)
    codes = {name: np.minimum(random.geometric(0.5, 2000) - 1, 7) for name in domain.names}
    data = pa.table(codes)
    plan = rs.plan(rs.marginals(domain, ways=[1, 2, 3]), rs.ZCDP(0.02))
    errors = np.zeros((30, 3))
    for i in range(30):
        release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / str(i), rs.ZCDP(0.02)))
        fits = [
            release,
            *(rs.project(release, margins=m, simulations=0, tolerance=1e-4) for m in ("first", "together")),
        ]
        for name in domain.names:
            truth = np.bincount(codes[name], minlength=8)
            errors[i] += [np.abs(fit.estimates([name]) - truth).mean() for fit in fits]
    before, first, together = errors.mean(axis=0)
    assert first < 1.04 * before
    assert first < 0.7 * together


def test_interior_tables_have_the_margins_and_stay_away_from_zero():
    random = np.random.default_rng(0)
    domain = rs.Domain.of_sizes([3, 4, 2])
    lattice = rs.marginals(domain, ways=[3]).lattice
    layout = layout_of(lattice, domain.sizes)
    even = [np.full(int(n), 1.0 / n) for n in domain.sizes]
    margins = {(): np.asarray(50.0), (0,): np.array([49.0, 0.9, 0.1]), (2,): random.dirichlet([1, 1]) * 50}
    interior = interior_of(margins, even)
    cells = {}
    found = interior.coordinates(layout, even, interior.rests)  # values for coordinates
    for group in layout:
        for members, table in zip(group.members.tolist(), group.view(found), strict=True):
            cells[tuple(members)] = 50.0 * table
    whole = cells[0, 1, 2]
    np.testing.assert_allclose(whole.sum(axis=(1, 2)), margins[0,])
    np.testing.assert_allclose(whole.sum(axis=(0, 1)), margins[2,])
    np.testing.assert_allclose(whole.sum(axis=2), cells[0, 1])
    assert whole.min() >= interior.evenness * 50 / 24 - 1e-12
    assert interior.evenness == pytest.approx(0.1 / (50 / 3))
    assert interior_of({}, even).evenness == interior_of({(): np.asarray(5.0)}, even).evenness == 1.0
    assert interior_of({(): np.asarray(5.0), (0,): np.array([5.0, 0, 0])}, even).evenness == 0.0
    assert interior_of({(): np.asarray(5.0), (0, 1): np.ones((3, 4))}, even).evenness == 0.0
