"""Small tables keep their accuracy when large ones are projected; tables with given margins that are nowhere zero."""

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.linalg.lattice import layout_of
from residua.projection.crossing import interior_of
from tests.laws.projections import domain_of_three, released


def test_histograms_have_no_margins_that_could_weigh_more(tmp_path):
    release = released(tmp_path, rs.queries(domain_of_three(), ["age <= 1", "sex = 'F'"]))
    with pytest.raises(rs.ResiduaError, match=r"metric='margins'.*one histogram"):
        rs.project(release, metric="margins")
    with pytest.raises(rs.ResiduaError, match="simulations=-1"):
        rs.project(release, simulations=-1)


def test_small_tables_do_not_suffer_from_large_ones(tmp_path):
    """Thirty releases: the mean error of 1-way tables is no larger than before (4 % allowed); by covariance it is."""
    domain = rs.Domain({f"a{i}": rs.Integers(0, 7) for i in range(5)})
    random = np.random.default_rng(1)
    codes = {name: np.minimum(random.geometric(0.5, 2000) - 1, 7) for name in domain.names}
    data = pa.table(codes)
    plan = rs.plan(rs.marginals(domain, ways=[1, 2, 3]), rs.ZCDP(0.02))
    errors = np.zeros((30, 3))
    for i in range(30):
        release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / str(i), rs.ZCDP(0.02)))
        fits = [release, *(rs.project(release, metric=metric, tolerance=1e-4) for metric in ("margins", "covariance"))]
        for name in domain.names:
            truth = np.bincount(codes[name], minlength=8)
            errors[i] += [np.abs(fit.estimates([name]) - truth).mean() for fit in fits]
    before, margins, covariance = errors.mean(axis=0)
    assert margins < 1.04 * before
    assert margins < 0.7 * covariance


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
