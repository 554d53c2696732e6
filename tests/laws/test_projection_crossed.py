"""Projection in coordinates along axes: white noise, no cross terms, the same as in residuals where both apply."""

import numpy as np
import pytest

import residua as rs
from residua.domain.facts import Fact
from residua.errors import PlanError
from residua.plans.strategy import Plain, Rows
from residua.projection.alternating import nearest
from residua.projection.axes import axis_along
from residua.projection.crossed import Crossed
from residua.projection.crossing import Below, Crossing
from residua.projection.family import FamilyProblem
from residua.projection.problem import Terms
from residua.projection.products import ProductProblem
from tests.laws.projections import IMPOSSIBLE, all_two_way

POSITIVE = np.array([[2, -1, 0, 0], [0, 3, -2, 0], [0, 0, 2, -3]])  # v = (1, 2, 3, 2)/8
NEGATIVE = np.array([[2, 1, 0, 0], [0, 1, -2, 0], [0, 0, 1, -1]])


def axis_of(strategy):
    return axis_along(strategy.spread, strategy.inverse)


@pytest.mark.parametrize("rows", [None, POSITIVE, NEGATIVE], ids=["plain", "positive", "negative"])
def test_along_an_axis_noise_is_white_and_weighed_squares_have_no_cross_terms(rows):
    strategy = Plain(4) if rows is None else Rows(4, rows)
    axis = axis_of(strategy)
    v, F, D = axis.up[:, 0], axis.up[:, 1:], np.diag(axis.cell_weights)
    np.testing.assert_allclose(v, strategy.spread, atol=1e-12)
    np.testing.assert_allclose(F @ F.T, strategy.inverse, atol=1e-12)  # y of variance 1 gives the covariance stated
    np.testing.assert_allclose(axis.up @ axis.down, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(axis.down[0], 1.0, atol=1e-12)
    np.testing.assert_allclose(F.T @ D @ F, np.diag(axis.lengths), atol=1e-12)
    assert axis.even.sum() == pytest.approx(1.0)
    assert axis.even.min() > 0
    gram, diagonal = axis.up.T @ D @ axis.up, np.concatenate([[axis.total_length], axis.lengths])
    assert (strategy.spread.min() < 0) == (rows is NEGATIVE) == (axis.crossing > 0)
    assert np.linalg.eigvalsh((1.0 + axis.crossing) * np.diag(diagonal) - gram).min() >= -1e-12


@pytest.mark.parametrize("facts", ["free", "total", "known", "zeros"])
def test_where_noise_is_alike_in_all_directions_it_is_the_projection_in_residuals(tmp_path, facts):
    given = {
        "free": (),
        "total": (Fact((), np.asarray(60.0)),),
        "known": (Fact((1,), np.array([25.0, 35.0])),),
        "zeros": (Fact((), np.asarray(60.0)),),
    }[facts]
    release = all_two_way(tmp_path, impossible=IMPOSSIBLE if facts == "zeros" else ())
    terms = Terms(facts=given, tolerance=1e-10)
    residual, crossed = FamilyProblem(release.plan, terms), ProductProblem(release.plan, terms)
    observed = residual.observed(release)
    first, second = residual.solve(observed), crossed.solve(observed)
    np.testing.assert_allclose(second.array, first.array, atol=1e-4)
    assert crossed.moved(observed, second) == pytest.approx(residual.moved(observed, second), rel=1e-9)
    assert crossed.size(second) == pytest.approx(residual.size(second), rel=1e-9)
    assert crossed.noise_sums == pytest.approx(residual.noise_sums)
    assert second.infeasibility <= 1e-9 * 60


def test_a_gap_that_was_not_reached_is_still_a_proof():
    domain = rs.Domain.of_sizes([4, 3, 4, 1])
    names = domain.names
    lattice = rs.marginals(domain, [(names[0], names[1], names[2]), (names[1], names[3])]).lattice
    axes = [axis_of(Rows(4, POSITIVE)), axis_of(Plain(3)), axis_of(Rows(4, NEGATIVE)), axis_of(Plain(1))]
    random = np.random.default_rng(5)
    crossing = Crossing(lattice, axes, lattice.is_maximal)
    y = 8.0 * random.standard_normal(crossing.given_layout.cells)
    y[0] = 100.0
    weights = random.uniform(0.2, 3.0, len(lattice))
    best = nearest(Crossed, crossing, y, weights, tolerance=1e-11, rounds=50_000)
    assert best.converged
    for rounds in (1, 5, 25):
        fit = nearest(Crossed, crossing, y, weights, tolerance=1e-12, rounds=rounds)
        assert not fit.converged
        assert fit.distance - fit.gap <= best.distance * (1.0 + 1e-9)
        assert best.distance - best.gap <= fit.distance
        least = min(part.up(part.rows(crossing.gather(fit.coordinates))).min() for part in crossing.parts)
        assert least >= -1e-9 * 100
    again = nearest(Crossed, crossing, best.coordinates, weights)
    assert again.rounds == 0
    np.testing.assert_allclose(again.coordinates, best.coordinates, atol=1e-12)


def test_known_margins_are_kept_by_the_repair_of_what_was_not_reached():
    """After five rounds cells are still negative: tables of the interior are mixed in that have the same margins."""
    lattice = rs.marginals(rs.Domain.of_sizes([3, 4]), ways=[2]).lattice
    axes = [axis_of(Plain(3)), axis_of(Rows(4, POSITIVE))]
    crossing = Crossing(lattice, axes, lattice.is_maximal)
    y = np.concatenate([[50.0], 30.0 * np.random.default_rng(1).standard_normal(11)])
    margin = np.array([20.0, 10.0, 15.0, 5.0])
    fixed = {(): np.array(50.0), (1,): axes[1].down[1:] @ margin}
    fit = nearest(Crossed, crossing, y, np.ones(4), fixed=fixed, rounds=5)
    cells = crossing.parts[0].up(crossing.gather(fit.coordinates).reshape(1, -1))[0].reshape(3, 4)
    assert not fit.converged
    assert cells.min() >= -1e-12
    assert fit.infeasibility == 0.0
    np.testing.assert_allclose(cells.sum(axis=0), margin, atol=1e-10)


def test_facts_that_nothing_can_meet_are_refused():
    lattice = rs.marginals(rs.Domain.of_sizes([3, 4]), ways=[2]).lattice
    axes = [axis_of(Plain(3)), axis_of(Rows(4, POSITIVE))]
    crossing, y, weights = Crossing(lattice, axes, lattice.is_maximal), np.ones(12), np.ones(4)
    with pytest.raises(PlanError, match="no consistent non-negative tables"):
        nearest(Crossed, crossing, y, weights, fixed={(): np.array(5.0)}, zeros=np.ones(12, dtype=bool))
    with pytest.raises(PlanError, match="12 finite numbers"):
        nearest(Crossed, crossing, y[1:], weights)
    with pytest.raises(PlanError, match="4 positive numbers"):
        nearest(Crossed, crossing, y, weights - 1.0)


def test_without_the_rule_of_signs_the_zeros_alone_are_met():
    lattice = rs.marginals(rs.Domain.of_sizes([3, 4]), ways=[2]).lattice
    axes = [axis_of(Plain(3)), axis_of(Rows(4, POSITIVE))]
    crossing = Crossing(lattice, axes, lattice.is_maximal)
    zeros = np.arange(12) % 5 == 0
    y = 10.0 * np.random.default_rng(0).standard_normal(12)
    fit = nearest(Crossed, crossing, y, np.ones(4), zeros=zeros, nonnegative=False, tolerance=1e-11)
    cells = crossing.parts[0].up(crossing.gather(fit.coordinates).reshape(1, -1))[0]
    assert np.abs(cells[zeros]).max() < 1e-8
    assert cells.min() < -1.0


def test_shared_coordinates_are_kept_once_and_found_in_every_table():
    lattice = rs.marginals(rs.Domain.of_sizes([3, 4, 2, 1]), ways=[2, 3]).lattice
    axes = [axis_of(Plain(3)), axis_of(Rows(4, NEGATIVE)), axis_of(Plain(2)), axis_of(Plain(1))]
    crossing = Crossing(lattice, axes, lattice.is_maximal)
    y = np.random.default_rng(0).standard_normal(crossing.given_layout.cells)
    everything = Crossing(lattice, axes, np.ones(len(lattice), dtype=bool))
    tables, below = {}, Below.of(crossing)
    for part in everything.parts:
        for members, cells in zip(part.members.tolist(), part.up(part.rows(everything.gather(y))), strict=True):
            tables[tuple(members)] = cells.reshape(part.shape)
    for members, table in tables.items():
        for axis in range(len(members)):
            smaller = tables[members[:axis] + members[axis + 1 :]]
            np.testing.assert_allclose(table.sum(axis=axis), smaller, atol=1e-12)
    buffer = np.zeros(crossing.cells)
    below.spread(y[below.places], buffer)
    gathered = crossing.gather(y)
    shared = np.zeros(crossing.cells, dtype=bool)
    shared[below.here] = True
    np.testing.assert_array_equal(buffer[shared], gathered[shared])
    assert len(np.unique(below.places)) + sum(crossing.own(part)[1].size for part in crossing.parts) == len(y)
