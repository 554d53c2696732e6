"""The solvers of projection: nearest by an independent solver, feasible, unchanged where feasible, gaps proven anew."""

from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest

from residua.errors import PlanError
from residua.linalg.lattice import all_sets, closure, layout_of
from residua.projection.alternating import nearest
from residua.projection.arrangement import Arrangement
from residua.projection.local import Residuals
from residua.projection.simplex import nearest_histogram

RECORDS = 100.0
TOLERANCE = 1e-11
EXACT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


# ---- tables


def families():
    triple = np.array([[0, 1, 2]], dtype=np.int32)
    mixed = np.array([[0, 3], [1, 3]], dtype=np.int32)
    return {
        "pairs of three": (closure([all_sets(3, 2)], 3), np.array([3, 2, 4])),
        "pairs of four": (closure([all_sets(4, 2)], 4), np.array([3, 2, 4, 2])),
        "a triple and pairs": (closure([triple, mixed], 4), np.array([4, 2, 3, 2])),
        "one axis": (closure([all_sets(2, 1)], 2), np.array([5, 1])),
    }


class Instance:
    """A small problem with its matrices written out: T from residuals to maximal tables, C the centring."""

    def __init__(self, name, seed):
        self.lattice, self.sizes = families()[name]
        random = np.random.default_rng(seed)
        self.layout = layout_of(self.lattice, self.sizes)
        self.top = layout_of(self.lattice, self.sizes, self.lattice.is_maximal)
        self.form = Residuals, Arrangement(self.lattice, self.sizes)
        self.T = np.zeros((self.top.cells, self.layout.cells))
        self.C = np.zeros((self.layout.cells, self.layout.cells))
        x = random.multinomial(RECORDS, random.dirichlet(np.full(self.sizes.prod(), 0.2))).reshape(self.sizes)
        self.truth = np.zeros(self.layout.cells)
        for number, members in enumerate(self.lattice):
            self._fill(number, members)
            rest = tuple(i for i in range(len(self.sizes)) if i not in members)
            self.truth[self.cells(members)] = x.sum(axis=rest).ravel()
        self.noisy = self.truth + 8.0 * random.standard_normal(self.layout.cells)
        self.weights = random.uniform(0.2, 3.0, len(self.lattice))
        self.random = random

    def shape(self, members):
        return tuple(int(self.sizes[i]) for i in members)

    def cells(self, members):
        number = int(self.lattice.find(np.array([members], dtype=np.int32).reshape(1, -1))[0])
        start = self.layout.starts[number]
        return slice(start, start + int(np.prod(self.shape(members))))

    def _fill(self, number, members):
        centring = np.ones((1, 1))
        for n in self.shape(members):
            centring = np.kron(centring, np.eye(n) - 1.0 / n)
        self.C[self.cells(members), self.cells(members)] = centring
        if self.top.starts[number] < 0:
            return
        for size in range(len(members) + 1):
            for subset in combinations(members, size):
                spread = np.ones((1, 1))
                for i in members:
                    n = int(self.sizes[i])
                    spread = np.kron(spread, np.eye(n) if i in subset else np.full((n, 1), 1.0 / n))
                begin = self.top.starts[number]
                self.T[begin : begin + len(spread), self.cells(subset)] = spread

    def constraints(self, kind):
        """Fixed residuals and zeros of one kind of problem, true of the instance's own data."""
        residuals = self.C @ self.truth
        fixed = {}
        if kind in ("total", "zeros"):
            fixed = {(): np.array(RECORDS)}
        if kind == "invariant":
            fixed = {m: residuals[self.cells(m)].reshape(self.shape(m)) for m in [(), (0,)]}
        zeros = None
        if kind == "zeros":
            zeros = (self.T @ residuals < 0.5) & (self.random.random(self.top.cells) < 0.4)
        return fixed, zeros

    def nearest(self, fixed, zeros):
        r = cp.Variable(self.layout.cells)
        wanted, free = self.C @ self.noisy, np.ones(self.layout.cells)
        rules = [self.C @ r == r, self.T @ r >= 0]
        for members, table in fixed.items():
            rules.append(r[self.cells(members)] == table.ravel())
            free[self.cells(members)] = 0.0
        if zeros is not None and zeros.any():
            rules.append(self.T[zeros] @ r == 0)
        root = free * np.sqrt(self.per_cell())
        problem = cp.Problem(cp.Minimize(cp.sum_squares(cp.multiply(root, r - wanted))), rules)
        problem.solve(**EXACT)
        return problem.value, r.value

    def per_cell(self):
        weights = np.empty(self.layout.cells)
        for number, members in enumerate(self.lattice):
            weights[self.cells(members)] = self.weights[number]
        return weights


@pytest.mark.parametrize("kind", ["free", "total", "invariant", "zeros"])
@pytest.mark.parametrize("name", list(families()))
@pytest.mark.parametrize("seed", range(3))
def test_tables_are_the_nearest_by_an_independent_solver(name, kind, seed):
    instance = Instance(name, seed)
    fixed, zeros = instance.constraints(kind)
    fit = nearest(
        *instance.form, instance.noisy, instance.weights, fixed=fixed, zeros=zeros,
        tolerance=TOLERANCE, rounds=50_000,
    )  # fmt: skip
    value, residuals = instance.nearest(fixed, zeros)
    assert fit.converged
    assert fit.distance == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert fit.distance - fit.gap <= value * (1.0 + 1e-8) + 1e-8, "the bound is above what is possible"
    tables = instance.T @ fit.coordinates
    np.testing.assert_allclose(tables, instance.T @ residuals, atol=1e-6 * RECORDS)
    assert tables.min() >= -1e-9 * RECORDS
    np.testing.assert_allclose(instance.C @ fit.coordinates, fit.coordinates, atol=1e-11 * RECORDS)
    for members, table in fixed.items():
        np.testing.assert_allclose(fit.coordinates[instance.cells(members)], table.ravel(), atol=1e-11 * RECORDS)
    if zeros is not None:
        assert np.abs(tables[zeros]).max(initial=0.0) <= 1e-9 * RECORDS
    again = nearest(*instance.form, fit.coordinates, instance.weights, fixed=fixed, zeros=zeros)
    assert again.rounds == 0
    np.testing.assert_allclose(again.coordinates, fit.coordinates, atol=1e-13 * RECORDS)


@pytest.mark.parametrize("name", list(families()))
def test_feasible_tables_come_back_unchanged(name):
    instance = Instance(name, 7)
    fit = nearest(*instance.form, instance.truth, instance.weights)
    np.testing.assert_allclose(fit.coordinates, instance.C @ instance.truth, atol=1e-12 * RECORDS)
    assert (fit.rounds, fit.gap, fit.distance) == (0, 0.0, 0.0)


def test_projection_without_the_rule_of_signs_meets_the_zeros_alone():
    instance = Instance("pairs of three", 3)
    fixed, zeros = instance.constraints("zeros")
    fit = nearest(
        *instance.form, instance.noisy, instance.weights, fixed=fixed, zeros=zeros,
        nonnegative=False, tolerance=1e-11,
    )  # fmt: skip
    tables = instance.T @ fit.coordinates
    assert np.abs(tables[zeros]).max() <= 1e-9 * RECORDS
    assert tables.min() < -1.0


def test_contradictory_zeros_and_totals_are_refused():
    instance = Instance("pairs of three", 3)
    zeros = np.ones(instance.top.cells, dtype=bool)
    with pytest.raises(PlanError, match="no consistent non-negative tables"):
        nearest(*instance.form, instance.noisy, instance.weights, fixed={(): RECORDS}, zeros=zeros)


def test_a_gap_that_was_not_reached_is_still_a_proof():
    instance = Instance("pairs of four", 1)
    value, _ = instance.nearest({}, None)
    for rounds in (1, 5, 25):
        fit = nearest(*instance.form, instance.noisy, instance.weights, tolerance=1e-12, rounds=rounds)
        assert not fit.converged
        assert (instance.T @ fit.coordinates).min() >= -1e-9 * RECORDS
        apart = fit.coordinates - instance.C @ instance.noisy
        assert fit.distance == pytest.approx(float(instance.per_cell() @ apart**2), rel=1e-9)
        assert fit.distance - fit.gap <= value * (1.0 + 1e-8)


def test_known_margins_are_kept_by_the_repair_of_what_was_not_reached():
    """After five rounds cells are still negative: tables of the interior are mixed in that have the same margins."""
    instance = Instance("pairs of three", 4)
    margin = np.array([50.0, 30.0, 20.0])
    fixed = {(): np.array(RECORDS), (0,): margin - RECORDS / 3}
    fit = nearest(*instance.form, 3.0 * instance.noisy, instance.weights, fixed=fixed, rounds=5)
    assert not fit.converged
    assert fit.infeasibility == 0.0
    assert (instance.T @ fit.coordinates).min() >= -1e-12 * RECORDS
    np.testing.assert_allclose(fit.coordinates[instance.cells((0,))], fixed[0,], atol=1e-10)


def test_zeros_that_were_not_reached_are_reported():
    instance = Instance("pairs of three", 3)
    fixed, zeros = instance.constraints("zeros")
    fit = nearest(*instance.form, 4.0 * instance.noisy, instance.weights, fixed=fixed, zeros=zeros, rounds=3)
    tables = instance.T @ fit.coordinates
    assert tables[~zeros].min() < -1e-3
    assert fit.infeasibility == pytest.approx(max(-tables[~zeros].min(), np.abs(tables[zeros]).max()), rel=1e-6)
    assert fit.infeasibility > 1e-3


def test_a_family_of_the_total_alone_is_one_number():
    lattice = closure([], 2)
    fit = nearest(Residuals, Arrangement(lattice, np.array([2, 3])), np.array([-4.0]), np.array([0.5]))
    assert fit.coordinates.tolist() == [0.0]
    assert fit.distance == 8.0


# ---- histograms


@pytest.mark.parametrize("kind", ["free", "total", "equations"])
@pytest.mark.parametrize("seed", range(8))
def test_histograms_are_the_nearest_by_an_independent_solver(kind, seed):
    random = np.random.default_rng(seed)
    k, d = random.integers(2, 50), random.integers(3, 40)
    F = random.choice([-1.0, 1.0], (k, d)) if seed % 2 else random.standard_normal((k, d))
    x = random.multinomial(50, random.dirichlet(np.full(d, 0.3))).astype(float)
    t = F @ x + 20.0 * random.standard_normal(k)
    h = cp.Variable(d)
    rules, total, equations = [h >= 0], None, None
    if kind != "free":
        total = 50.0
        rules.append(cp.sum(h) == total)
    if kind == "equations":
        E = (random.random((2, d)) < 0.4).astype(float)
        equations = (np.vstack([E, E.sum(axis=0)]), np.append(E @ x, (E @ x).sum()))  # the last follows from the others
        rules.append(equations[0] @ h == equations[1])
    problem = cp.Problem(cp.Minimize(cp.sum_squares(F @ h - t)), rules)
    problem.solve(**EXACT)
    fit = nearest_histogram(F, t, total=total, equalities=equations)
    scale = float(t @ t)
    assert fit.distance == pytest.approx(problem.value, rel=1e-6, abs=1e-12 * scale)
    assert fit.gap <= 1e-9 * fit.distance + 1e-15 * scale
    assert fit.distance - fit.gap <= problem.value * (1.0 + 1e-9) + 1e-12 * scale
    np.testing.assert_allclose(F @ fit.coordinates, F @ h.value, atol=1e-6 * np.sqrt(scale))
    assert fit.coordinates.min() >= 0
    assert fit.infeasibility <= 1e-9 * 50
    again = nearest_histogram(F, F @ fit.coordinates, total=total, equalities=equations)
    np.testing.assert_allclose(F @ again.coordinates, F @ fit.coordinates, atol=1e-7 * np.sqrt(scale))


def test_projection_never_increases_the_error_in_a_thousand_instances():
    random = np.random.default_rng(2)
    for _ in range(1000):
        k, d, n = (int(random.integers(*ends)) for ends in ((4, 40), (2, 12), (1, 200)))
        F = random.choice([-1.0, 1.0], (k, d))
        truth = F @ random.multinomial(n, random.dirichlet(np.ones(d)))
        noisy = truth + 10.0 ** random.uniform(-1, 2) * random.standard_normal(k)
        projected = F @ nearest_histogram(F, noisy, total=float(n)).coordinates
        before = np.linalg.norm(noisy - truth)
        assert np.linalg.norm(projected - truth) <= before * (1.0 + 1e-7)


def test_equations_that_contradict_are_refused():
    F, t = np.eye(3), np.ones(3)
    with pytest.raises(PlanError, match="contradicts"):
        nearest_histogram(F, t, total=3.0, equalities=([[1.0, 1.0, 1.0]], [4.0]))
    with pytest.raises(PlanError, match="no non-negative histogram"):
        nearest_histogram(F, t, total=3.0, equalities=([[1.0, 1.0, 0.0]], [4.0]))
    with pytest.raises(PlanError, match="total"):
        nearest_histogram(F, t, total=-1.0)


def test_without_the_rule_of_signs_it_is_least_squares():
    fit = nearest_histogram(np.eye(2), [5.0, -1.0], total=2.0, nonnegative=False)
    np.testing.assert_allclose(fit.coordinates, [4.0, -2.0])
