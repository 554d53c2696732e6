"""Projection beside long axes against a general solver, with structural zeros and without; how soon it gets there."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest

import residua as rs
from residua.domain import impossible_cells
from residua.domain.facts import Fact
from residua.projection.alternating import nearest
from residua.projection.axes import CosineBasis, PrefixSums
from residua.projection.axis_kernels import give_total, nearest_rising
from residua.projection.problem import Terms
from residua.projection.products import PlainProblem

ASKED = {
    "one axis, one table": [("minute", "region", "sex"), ("minute",), ("region", "sex")],
    "one axis, two tables": [("minute", "region"), ("minute", "sex"), ("region", "sex")],
    "two axes, one table": [("minute", "day", "sex"), ("minute",), ("day", "sex")],
    "two axes, three tables": [("minute", "day"), ("minute", "sex"), ("day", "sex")],
}
RULES = ({"minute": rs.between(4, 6), "sex": "f"}, {"minute": [0, 11], "sex": "m"})


def observed_of(kind, sizes, *, rules=(), tolerance=1e-7, records=60, seed=0, tail=0):
    """What a release of few records observes, none of them late on the axis; all prefixes are asked of the axes."""
    names = {name for each in ASKED[kind] for name in each}
    attributes = {
        "minute": rs.Integers(0, sizes[0] - 1), "day": rs.Integers(0, sizes[1] - 1),
        "region": ["a", "b", "c"], "sex": ["f", "m"],
    }  # fmt: skip
    domain = rs.Domain({name: own for name, own in attributes.items() if name in names}, impossible=rules)
    axes = tuple(name for name in ("minute", "day") if name in names)
    workload = rs.product(domain, dict.fromkeys(axes, "prefixes"), sets=ASKED[kind])
    plan = rs.plan(workload, rs.GDP(1.0), form=rs.Axis(axes), tolerance=0.05)
    random = np.random.default_rng(seed)
    mask = impossible_cells(domain, domain.names)
    rate = np.ones(domain.sizes) if mask is None else np.where(mask, 0.0, 1.0)
    rate[len(rate) - tail :] = 0.0
    counts = random.poisson(records * rate / rate.sum())
    total = Fact((), np.asarray(float(counts.sum())))
    problem = PlainProblem(plan, Terms(facts=(total,), metric="plain", tolerance=tolerance), 0)
    truth = np.empty(problem.layout.cells)
    for group in problem.layout:
        for k, members in enumerate(group.members.tolist()):
            table = counts.sum(axis=tuple(i for i in range(counts.ndim) if i not in members)).astype(float)
            for axis in range(table.ndim):
                table = table - table.mean(axis=axis, keepdims=True)
            group.view(truth)[k] = table
    return problem, problem.simulated(problem.fit_of(truth, 0.0, 0.0), random)


def largest(problem):
    return [problem.lattice.members(int(k)) for k in np.flatnonzero(problem.lattice.is_maximal)]


def least_by_a_general_solver(problem, observed):
    """The least sum of squares over all that is asked, and the tables that have it."""
    domain, raw = problem.plan.domain, problem.unprojected(observed)
    shapes = {members: [int(domain.sizes[i]) for i in members] for members in largest(problem)}
    tables = {members: cp.Variable(int(np.prod(shape)), nonneg=True) for members, shape in shapes.items()}

    def flat(members):
        """One marginal of the first table that has it, flat."""
        return next(margin(owner, members) for owner in tables if set(members) <= set(owner))

    def margin(owner, members):
        rows = np.ones((1, 1))
        for i in owner:
            n = int(domain.sizes[i])
            rows = np.kron(rows, np.eye(n) if i in members else np.ones((1, n)))
        return rows @ tables[owner]

    rules = [flat(()) == float(problem.terms.facts[0].values)]
    for owner in tables:
        for other in tables:
            shared = tuple(i for i in owner if i in other)
            rules.append(margin(owner, shared) == margin(other, shared))
        mask = impossible_cells(domain, [domain.names[i] for i in owner])
        rules += [] if mask is None else [tables[owner][np.flatnonzero(mask)] == 0]
    loss = 0
    for term in problem.plan.workload.terms():
        members = tuple(i for i, _ in term)
        W = np.ones((1, 1))
        for i, _ in term:
            n = int(domain.sizes[i])
            W = np.kron(W, np.tril(np.ones((n, n))) if i in problem.long else np.eye(n))
        loss += cp.sum_squares(W @ (flat(members) - raw.marginal(members).ravel()))
    found = cp.Problem(cp.Minimize(loss), rules)
    found.solve(solver=cp.CLARABEL, tol_gap_abs=1e-7, tol_gap_rel=1e-7, tol_feas=1e-7)
    return float(found.value), {members: table.value.reshape(shapes[members]) for members, table in tables.items()}


@pytest.mark.parametrize("rules", [(), RULES], ids=["", "zeros"])
@pytest.mark.parametrize("kind", sorted(ASKED))
def test_it_is_the_projection_of_a_general_solver(kind, rules):
    problem, observed = observed_of(kind, (12, 8), rules=rules)
    kinds = [type(axis) for axis in problem.long.values()]
    assert kinds == [PrefixSums, CosineBasis][: len(kinds)]
    fit, (least, best) = problem.solve(observed), least_by_a_general_solver(problem, observed)
    moved = problem.moved(observed, fit)
    assert moved - fit.gap <= least * (1 + 1e-6)
    assert least <= moved + 1e-6 * least
    assert fit.gap <= 1e-6 * least
    assert fit.infeasibility <= 1e-9 * float(fit.marginal(()))
    for members, table in best.items():
        found = fit.marginal(members)
        mask = impossible_cells(problem.plan.domain, [problem.plan.domain.names[i] for i in members])
        assert found.min() >= -1e-8
        assert mask is None or np.abs(found[mask]).max() < 1e-8
        np.testing.assert_allclose(found, table, atol=0.02)
    raw = problem.unprojected(observed)
    assert min(raw.marginal(members).min() for members in best) < -0.5  # there was something to do


@pytest.mark.parametrize("rules", [(), RULES], ids=["", "zeros"])
def test_a_gap_that_was_not_reached_is_still_a_proof(rules):
    problem, observed = observed_of("two axes, three tables", (20, 12), rules=rules)
    arguments = *problem._method(), problem._coordinates(observed), problem.weights
    given = {"fixed": {(): np.asarray(problem.terms.facts[0].values)}, "zeros": problem.zeros()}
    best = nearest(*arguments, **given, tolerance=1e-8, rounds=20_000)
    assert best.gap <= 1e-8 * best.distance
    for rounds in (1, 5, 25):
        fit = nearest(*arguments, **given, tolerance=1e-12, rounds=rounds)
        assert not fit.converged
        assert fit.distance - fit.gap <= best.distance * (1 + 1e-9)
        assert rules or best.distance - best.gap <= fit.distance  # with zeros what is left is not feasible yet


@pytest.mark.parametrize(
    ("kind", "sizes", "tail", "most"),
    [("one axis, one table", (400, 1), 200, 125), ("two axes, one table", (60, 40), 0, 150)],
)
def test_rounds_are_few_where_axes_end_in_a_tail_or_are_crossed(kind, sizes, tail, most):
    problem, observed = observed_of(kind, sizes, records=3000, tail=tail, tolerance=1e-4)
    rounds = []
    fit = problem.solve(observed, lambda done, _: rounds.append(done))
    assert fit.gap <= 1e-4 * problem.moved(observed, fit)
    assert rounds[-1] <= most


def test_sums_with_zeros_meet_the_conditions_of_the_nearest():
    """What was cut off is orthogonal to what is left, and at no acute angle to any allowed table."""
    random = np.random.default_rng(1)
    w, zeros = random.standard_normal((4, 2, 9, 11)).cumsum(axis=2) + 0.5, random.random((4, 2, 9, 11)) < 0.4
    zeros[0, 0, :, 0] = True
    floor, last = 0.3, 4.0
    even = np.roll(np.cumsum(np.where(zeros, 0.0, random.random(zeros.shape)), axis=2), 1, axis=2)
    found = nearest_rising(w, zeros, even, floor, last)
    order, weights = np.r_[1:9, 0], np.r_[np.ones(8), last]
    for t, a, b in np.ndindex(4, 2, 11):
        z, given, empty = (found - floor * even)[t, a, order, b], w[t, a, order, b], zeros[t, a, :, b]
        cells = np.diff(z, prepend=0.0)
        assert cells.min() >= -1e-12
        assert np.abs(cells[empty]).max(initial=0.0) < 1e-12
        cut = weights * (given - found[t, a, order, b])
        assert cut @ z == pytest.approx(0.0, abs=1e-10)
        assert cut[::-1].cumsum()[::-1][~empty].max(initial=0.0) <= 1e-10  # one record in any possible cell
    assert (found[0, 0, :, 0] == 0).all()


@pytest.mark.parametrize("share", [0.5, 1.0, 1.7])
def test_a_total_is_given_to_rising_sums_without_breaking_them(share):
    random = np.random.default_rng(2)
    cells, zeros = random.random((2, 3, 6, 2)), random.random((2, 3, 6, 2)) < 0.5
    zeros[1, 1, :, 1] = True
    cells[zeros] = 0.0
    sums = np.roll(np.cumsum(cells, axis=2), 1, axis=2)
    totals = sums[:, :, 0].copy()
    give_total(sums, zeros, share)
    np.testing.assert_allclose(sums[:, :, 0], share * totals)
    rising = np.roll(sums, -1, axis=2)
    for before, after in pairwise(np.moveaxis(rising, 2, 0)):
        assert (after >= before).all()
    assert (np.diff(rising, axis=2, prepend=0.0)[zeros] == 0).all()
