"""Nested groups along an axis: passes over their tree against dense matrices, prices and draws against balls."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, arb_mat
from scipy.sparse import csr_array
from scipy.stats import chi2

import residua as rs
from residua.errors import FileError, PlanError, VerificationError
from residua.linalg.conductances import NestedNoise, nesting_of, simulated_along, star_network
from residua.linalg.path import over_running_sums
from residua.noise import correlated, steps
from residua.noise.correlated import exactly_ordered, rounded_field, rounded_ordered
from residua.noise.normals import Normals
from residua.noise.samplers import SystemEntropy
from residua.noise.table import precision
from residua.plans import ProductPlan
from residua.plans.operators.correlated import Asked
from residua.plans.statements import packed, unpacked
from tests.exact_noise import exact_field
from tests.laws.test_axis import price, unlike
from tests.resealed import body_of, reseal_document

POLES, WEIGHTS = np.array([1e-5, 0.03, 2.0, 300.0]), np.array([0.4, 1.0, 6.0, 30.0])


def nested_groups(rng, n):
    """Groups in up to three levels: of one value, of all of them, some twice, gaps between them."""
    found = [(0, n - 1)] if rng.random() < 0.4 else []

    def inside(first, last, levels):
        while levels and first <= last:
            end = min(first + int(rng.integers(0, max(1, (last - first) // 2 + 1))), last)
            found.extend([(first, end)] * int(rng.choice(3, p=[0.3, 0.6, 0.1])))
            inside(first, end, levels - 1)
            first = end + 1

    inside(0, n - 1, 3)
    rng.shuffle(found)
    return [(int(a), int(b)) for a, b in found]


def noises(count, most):
    """Noise with nested groups and the Gram matrix it is for: with ranges, and with uneven prefixes."""
    rng = np.random.default_rng(7)
    for number in range(count):
        n = int(rng.integers(2, most))
        groups = nested_groups(rng, n)
        held, values = 10 ** rng.uniform(-3, 3, len(groups)), 10 ** rng.uniform(-3, 1, n) * (rng.random(n) < 0.7)
        prefixes, ranges = (np.full(n, 0.7), 0.3) if number % 2 else (10 ** rng.uniform(-2, 2, n), 0.0)
        tree = nesting_of(n, groups)
        assert tree is not None
        rows = [(weight, 0, i) for i, weight in enumerate(prefixes)] + [(values[i], i, i) for i in range(n)]
        rows += [(weight, a, b) for weight, (a, b) in zip(held, groups, strict=True)]
        rows += [(ranges, a, b) for a in range(n) for b in range(a, n)]
        gram = np.zeros((n, n))
        for weight, a, b in rows:
            gram[a : b + 1, a : b + 1] += weight
        q = rng.dirichlet(np.full(n, 2.0)) + 1e-4
        yield NestedNoise(star_network(tree, prefixes, ranges, values, held), q, POLES, WEIGHTS), gram, groups


SMALL = list(noises(14, 30))


@pytest.mark.parametrize("number", range(len(SMALL)))
def test_passes_over_the_tree_are_what_matrices_say(number):
    noise, gram, groups = SMALL[number]
    network, q, n = noise.queries, noise.q, noise.size
    assert sorted(network.nesting.cut) == list(range(n))
    assert network.gram_diagonal == pytest.approx(np.diag(gram), rel=1e-12)
    S = np.sqrt(q)[:, None] * gram * np.sqrt(q)
    shares = sum(a * np.diag(np.linalg.solve(S + p * np.eye(n), S)) for p, a in zip(POLES, WEIGHTS, strict=True))
    assert network.shares(q, POLES, WEIGHTS) == pytest.approx(shares, rel=1e-8)
    cells = sum(a * np.linalg.inv(gram + p * np.diag(1 / q)) for p, a in zip(POLES, WEIGHTS, strict=True))
    sums = np.cumsum(np.cumsum(cells, axis=0), axis=1)
    assert noise.variances()[0] == pytest.approx(np.diag(sums), rel=1e-8)
    assert noise.variances()[1] == pytest.approx(np.diag(cells), rel=1e-8)
    assert noise.widths()[1] == pytest.approx([cells[a : b + 1, a : b + 1].sum() for a, b in groups], rel=1e-8)
    rng = np.random.default_rng(number)
    rows = rng.normal(size=(6, n)) * (rng.random((6, n)) < np.array([[0.1], [0.1], [0.2], [0.5], [1], [1]]))
    assert noise.row_variances(csr_array(rows)) == pytest.approx(np.diag(rows @ sums @ rows.T), rel=1e-8)
    assert noise.applied(csr_array(rows)) == pytest.approx(rows @ sums, rel=1e-6, abs=1e-8 * np.abs(sums).max())
    lower = np.tril(np.ones((n + 1, n + 1)))
    ranges = sum(  # of all differences of two running sums
        (lower[b, 1:] - lower[a, 1:]) @ cells @ (lower[b, 1:] - lower[a, 1:]) for b in range(n + 1) for a in range(b)
    )
    assert noise.sum_of_range_variances() == pytest.approx(ranges, rel=1e-7)
    drawn = np.zeros((n, n))
    for part in range(len(POLES)):
        one = replace(noise, poles=POLES[part : part + 1], weights=WEIGHTS[part : part + 1])
        for z in np.eye(n + 1):
            out = np.zeros(n)
            one.add_simulated(z[None], out)
            drawn += np.outer(out, out)
    assert drawn == pytest.approx(sums, rel=1e-7, abs=1e-10 * sums.max())
    assert sums.min() > 0  # what bounds of ranges and projections rest on


def test_groups_that_cross_or_leave_the_axis_are_no_tree():
    assert nesting_of(6, [(0, 2), (2, 3)]) is None
    assert nesting_of(6, [(-1, 2)]) is None
    assert nesting_of(6, [(3, 6)]) is None
    assert nesting_of(6, [(3, 2)]) is None
    n = 3_000
    tree = nesting_of(n, [(a, min(a + width - 1, n - 1)) for width in (7, 210, 1_470) for a in range(0, n, width)])
    assert tree is not None
    depth = np.zeros(n + 1, dtype=int)  # of every vertex: one below the deeper of the two that it lies between
    for low, cut, high in zip(tree.low, tree.cut, tree.high, strict=True):
        depth[cut] = 1 + max(depth[low] if low >= 0 else 0, depth[high] if high >= 0 else 0)
    assert depth.max() <= 2 * (math.log2(n) + 3)


def exact_gram(network):
    """The Gram matrix that the network's floats stand for, in balls."""
    _, _, _, _, grounds, springs, chords = network.arguments
    n = network.size
    gram, first = arb_mat(n, n), arb(0 if math.isinf(network.first) else network.first)

    def spring(weight, a, b):  # between C_a and C_b: the values a + 1 … b
        for i in range(a + 1, b + 1):
            for k in range(a + 1, b + 1):
                gram[i, k] += weight

    ends = [first, *(arb(each) for each in grounds.tolist())]
    for b in range(n):
        if math.isinf(network.first):
            spring(ends[b + 1], -1, b)
        else:  # the star to the hub as springs between all
            for a in range(-1, b):
                spring(ends[a + 1] * ends[b + 1] / sum(ends, arb(0)), a, b)
        spring(arb(float(springs[b])), b - 1, b)
    for low, high, weight in zip(network.nesting.low[1:], network.nesting.high[1:], chords[1:], strict=True):
        spring(arb(float(weight)), int(low), int(high))
    return gram


def shifted(gram, pole, q):
    """`(G + p Q⁻¹)⁻¹` in balls."""
    found = arb_mat(gram)
    for i, each in enumerate(q.tolist()):
        found[i, i] += arb(pole) / arb(each)
    return found.inv()


def exact_cost(noise):
    """The largest diagonal entry of Γ, in balls."""
    n, gram = noise.size, exact_gram(noise.queries)
    sigma = arb_mat(n, n)
    for pole, weight in zip(noise.poles.tolist(), noise.weights.tolist(), strict=True):
        sigma += shifted(gram, pole, noise.q) * arb(weight)
    gamma = sigma.inv()
    return max((gamma[i, i] for i in range(n)), key=float)


@pytest.mark.parametrize("number", range(0, len(SMALL), 3))
def test_passes_err_by_less_than_is_proven(number):
    noise = SMALL[number][0]
    network, q, error = noise.queries, noise.q, arb(noise.relative_error)
    with precision(500):
        gram, off = exact_gram(network), arb(0)
        diagonal = network.gram_diagonal.tolist()
        for pole in (1e-9, 0.1, 1e6):
            inverse, found = shifted(gram, pole, q), network.shares(q, np.array([pole]), np.ones(1)).tolist()
            for i in range(noise.size):
                share = 1 - arb(pole) / arb(float(q[i])) * inverse[i, i]
                assert abs(found[i] / share - 1) < error
                assert abs(diagonal[i] / gram[i, i] - 1) < error
                off = max(off, abs(found[i] / share - 1), key=float)
        assert off > 0  # there is something to bound


@pytest.mark.parametrize("number", range(0, len(SMALL), 2))
def test_the_price_is_never_below_the_truth_and_hardly_above(number):
    for noise, *_ in SMALL[number : number + 2]:
        with precision(500):
            true, ours = exact_cost(noise), price(noise)
            found = arb(ours.numerator) / arb(ours.denominator)
            assert found > true
            assert found < true * (1 + arb(1e-10))


@pytest.mark.parametrize("number", range(4))
def test_draws_in_floats_and_in_pairs_are_as_far_from_balls_as_they_say(number):
    noise = SMALL[number][0]
    n, parts = noise.size, len(POLES)
    normals = Normals(SystemEntropy(), (2, parts, n + 1))
    floats, errors = correlated.float_sums(noise, normals)
    for axis, sums, bounds in zip(range(2), *correlated.pair_sums(noise, normals, [0, 1]), strict=True):
        with precision(400):
            balls = steps.ball_sums(noise, [normals.balls(axis, j, 5) for j in range(parts)])
            for i, ball in enumerate(balls):
                assert abs(ball - arb(floats[axis, i])) <= arb(errors[axis, i])
                assert abs(ball - arb(sums[0, i]) - arb(sums[1, i])) <= arb(bounds[i])
        assert errors[axis].max() < 1e-13 * max(1.0, np.abs(floats).max())
        assert bounds.max() < 1e-10 * errors[axis].max()
        for grid in (1, 64, 2**30):
            draws, is_open = np.full((2, n), 10**9), np.zeros((2, n), dtype=bool)
            is_open[axis] = True
            correlated.refined(noise, grid, normals, draws, is_open)
            assert np.array_equal(draws[axis], correlated.judged(noise, grid, normals, axis))
            assert (draws[1 - axis] == 10**9).all()


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("off", [0.0, 1e-6])
def test_steps_err_by_less_than_they_say(number, off):
    """With exact normals nothing errs but the steps; with all off to one side the bound is hardly above the truth."""
    noise = replace(SMALL[number][0], poles=POLES[1:2], weights=WEIGHTS[1:2])
    n, rng = noise.size, np.random.default_rng(number)
    z, b = rng.normal(size=(40, n + 1)), off * rng.uniform(size=(40, n + 1))
    z[:, number % n] *= 1e6 if not off else 1.0  # so that others are drawn from what errs already
    floats, errors, sums, bounds = np.zeros((40, n)), np.zeros((40, n)), np.zeros((40, 2, n)), np.zeros((40, n))
    steps.add_floats(noise, steps.float_factors_of(noise, 0, n), z, b, floats, errors)
    steps.add_pairs(noise, steps.pair_factors_of(noise, 0, n), z, np.zeros_like(z), b, sums, bounds)
    with precision(400):
        for axis in range(40):
            true = [arb(each) + arb(beside) for each, beside in zip(z[axis].tolist(), b[axis].tolist(), strict=True)]
            for i, ball in enumerate(steps.ball_sums(noise, [true])):
                by_floats, by_pairs = (
                    abs(ball - arb(floats[axis, i])),
                    abs(ball - arb(sums[axis, 0, i]) - arb(sums[axis, 1, i])),
                )
                assert by_floats <= arb(errors[axis, i])
                assert by_pairs <= arb(bounds[axis, i])
                assert not off or arb(bounds[axis, i]) < by_pairs * (1 + arb(1e-6))


def test_springs_next_to_nothing_change_no_draw():
    """Across groups of 400 values with steep springs nothing is left but underflow."""
    n = 800
    tree = nesting_of(n, [(0, 399), (400, 799)])
    assert tree is not None
    network = star_network(tree, np.full(n, 1e3), 0.0, np.zeros(n), np.array([1e-9, 3.0]))
    noise = NestedNoise(network, np.full(n, 1 / n), np.array([1e-6]), np.array([1.0]))
    factors = np.array([each[0][:3].min() for each in noise._parts()])
    assert factors.min() < 1e-290
    normals = Normals(SystemEntropy(), (1, 1, n + 1))
    floats, errors = correlated.float_sums(noise, normals)
    (sums,), (bounds,) = correlated.pair_sums(noise, normals, [0])
    with precision(300):
        for i, ball in enumerate(steps.ball_sums(noise, [normals.balls(0, 0, 3)])):
            assert abs(ball - arb(floats[0, i])) <= arb(errors[0, i])
            assert abs(ball - arb(sums[0, i]) - arb(sums[1, i])) <= arb(bounds[i])
    assert float(price(noise)) > 0


class Known:
    """The same words every time."""

    def __init__(self):
        self.random = np.random.default_rng(11)

    def words(self, count):
        return self.random.integers(0, 2**64, count, dtype=np.uint64)


def test_whole_draws_are_those_of_balls_along_one_axis_and_along_two():
    noise = SMALL[1][0]
    assert np.array_equal(
        rounded_ordered(noise, 64, 1, _entropy=Known())[0], exactly_ordered(noise, 64, _entropy=Known())
    )
    first, second = (replace(SMALL[k][0], poles=POLES[:2], weights=WEIGHTS[:2]) for k in (4, 7))
    drawn = rounded_field(first, second, 64, 1, _entropy=Known())[0]
    assert np.array_equal(drawn, exact_field(first, second, 64, _entropy=Known()))
    assert simulated_along((first, second), np.random.default_rng(0)).shape == (first.size, second.size)


def calendar(days, levels=("month", "year"), first=datetime.date(2001, 1, 31)):  # its first month has one day
    return rs.Domain({"day": rs.Dates(first, first + datetime.timedelta(days=days - 1), levels=list(levels))})


DOMAIN = calendar(50)
WORKLOAD = rs.prefixes(DOMAIN, "day") + 5 * rs.hierarchy(DOMAIN, "day")
PLAN = rs.plan(WORKLOAD, rs.ZCDP(0.5), form=rs.Axis())


def test_drawn_noise_has_the_stated_covariances():
    """Each of three statements is wrong once in a million times."""
    (piece,) = PLAN.measurements.pieces
    assert isinstance(piece.sampled, NestedNoise)
    draws = rounded_ordered(piece.sampled, piece.grid, 4_000) / piece.grid
    distance, pairs = unlike(draws, PLAN.covariance(rs.prefixes(DOMAIN, "day")))
    assert chi2.ppf(1e-6, pairs) * 0.9 < distance < chi2.isf(1e-6, pairs) * 1.1
    months = np.array([draws[:, 0], draws[:, 28] - draws[:, 0], draws[:, -1] - draws[:, 28]])
    stated = PLAN.variances(rs.product(DOMAIN, {"day": "month"}))
    for found, variance in zip(months, stated, strict=True):
        assert chi2.ppf(1e-7, len(found)) < (found**2).sum() / variance < chi2.isf(1e-7, len(found))


@pytest.mark.parametrize(
    ("levels", "days", "weight"),
    [(("month",), 70, 30.0), (("month", "quarter", "year"), 100, 3.0), (("year",), 40, 8.0)],
)
def test_one_level_or_three_are_planned_to_the_dense_optimum(levels, days, weight):
    """Among them groups of one day, and a year that is the whole axis."""
    domain = calendar(days, levels)
    workload = rs.prefixes(domain, "day") + weight * rs.hierarchy(domain, "day")
    ours = rs.plan(workload, rs.ZCDP(0.5), form=rs.Axis())
    dense = rs.plan(workload, rs.ZCDP(0.5), form=rs.Matrix(), tolerance=1e-4)
    assert ours.gap < 1e-3
    assert ours.total_variance(workload) / (1 + ours.gap) <= dense.total_variance(workload) * (1 + 1e-9)
    assert ours.total_variance(workload) <= dense.total_variance(workload) * (1 + ours.gap)


def test_what_replaces_records_is_priced_by_four_and_planned_along_the_path():
    assert PLAN.measurements.price(rs.ReplaceOne()) == 4 * PLAN.measurements.price(rs.AddRemove())
    plain = rs.plan(WORKLOAD, rs.ZCDP(0.5), form=rs.Axis(), unit=rs.ReplaceOne())
    assert isinstance(plain, ProductPlan)
    assert not plain.strategies[plain.axes[0]].asked.is_nested
    assert np.isfinite(plain.gap)
    # Twice would be too little: entries of Γ may be negative.
    asked, q = Asked(0.53, values=0.038, groups=((1, 5, 24.0),)), np.full(6, 1 / 6)
    noise = asked.noise(q, np.array([1.4e-4, 162.0]), np.array([0.012, 2.2]))
    rows = over_running_sums(csr_array(np.eye(6)))
    gamma = np.linalg.inv(noise.covariance(rows, rows))
    replacing = (np.diag(gamma)[:, None] + np.diag(gamma) - 2 * gamma).max()
    assert 2.2 * float(price(noise)) < replacing < 4 * float(price(noise))


def test_plans_combine_with_those_that_share_their_noise():
    like = rs.plan(rs.prefixes(DOMAIN, "day"), rs.ZCDP(0.2), form=rs.Lattice(like=PLAN))
    both = PLAN + like
    assert both.pcost == pytest.approx(PLAN.pcost + like.pcost, rel=1e-9)
    assert both.measurements.price(rs.ReplaceOne()) >= 4 * both.measurements.price(rs.AddRemove()) * Fraction(9, 10)
    assert (both.variances(WORKLOAD) <= PLAN.variances(WORKLOAD)).all()


def test_levels_are_asked_beside_short_attributes_along_noise_that_is_given():
    domain = rs.Domain({"day": DOMAIN["day"], "age": rs.Integers(0, 4)})
    given = rs.plan(rs.prefixes(domain, "day") + 5 * rs.hierarchy(domain, "day"), rs.ZCDP(0.5), form=rs.Axis())
    workload = rs.product(domain, {"day": "month"}) + rs.product(domain, {"day": "prefixes", "age": "prefixes"})
    made = rs.plan(workload, rs.ZCDP(0.5), form=rs.Lattice(like=given))
    assert np.isfinite(made.variances(workload)).all()
    assert 0 < made.measurements.price(rs.AddRemove()) <= 1


@pytest.mark.parametrize(
    "change", ["less noise", "crossing", "outside", "weight", "spring", "single", "no floats", "ranges", "against"]
)
def test_tampered_plans_are_refused(change, tmp_path):
    path = tmp_path / "plan.json"
    PLAN.save(path)
    assert rs.Plan.load(path).to_body() == PLAN.to_body()
    body = json.loads(body_of(path.read_bytes()))
    (noise,) = body["axes"]
    asked = noise["asked"]
    groups = unpacked(asked["groups"], 999).reshape(3, -1)
    if change == "less noise":
        noise["weights"] = [0.999 * each for each in noise["weights"]]
    elif change == "crossing":
        groups = np.column_stack([groups, [20.0, 40.0, 1.0]])
    elif change == "outside":
        groups[1, -1] = 50.0
    elif change == "weight":
        groups[2, 0] = -groups[2, 0]
    elif change == "spring":
        groups[2, 0] *= 1e3  # the same noise along the path, and more cost
    elif change == "single":
        asked["singles"] = packed(np.full(49, 1.0))
    elif change == "no floats":
        noise["q"] = "zzzzz"  # nothing that was compressed
    elif change in ("ranges", "against"):
        asked["ranges"] = 1e-320 if change == "ranges" else -1e-320  # 1 over it is no float
    asked["groups"] = packed(groups)
    reseal_document(path, json.dumps(body).encode())
    with pytest.raises(FileError):
        rs.Plan.load(path)


def test_noise_that_is_no_noise_has_no_price():
    noise = SMALL[0][0]
    for changed in (
        replace(noise, q=noise.q[:-1]),
        replace(noise, poles=noise.poles[::-1]),
        replace(noise, queries=replace(noise.queries, grounds=0 * noise.queries.grounds)),
        replace(noise, queries=replace(noise.queries, values=noise.queries.values - 1e9)),
        replace(noise, queries=replace(noise.queries, held=noise.queries.held * np.nan)),
        replace(noise, queries=replace(noise.queries, first=-math.inf)),
        replace(noise, queries=replace(noise.queries, first=math.nan)),
        replace(noise, queries=replace(noise.queries, held=noise.queries.held * 1e70)),
    ):
        with pytest.raises(VerificationError):
            price(changed)


def test_periods_are_not_released_one_by_one_with_it(tmp_path):
    with pytest.raises(PlanError, match="prefixes alone"):
        rs.Continual(tmp_path / "c", ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(0.5)), plan=PLAN)


def test_targets_that_lie_far_apart_are_met_within_the_gap():
    """Groups may have far less variance than each of their values: the grid is fine enough for them too."""
    domain = rs.Domain({"day": rs.Dates("2001-03-16", "2001-04-18", levels=["month"])})
    workload, months = rs.prefixes(domain, "day") + rs.hierarchy(domain, "day"), rs.product(domain, {"day": "month"})
    plan = rs.plan(workload, targets={"day": 1e4, "month": 0.01}, form=rs.Axis())
    assert plan.variances(months).max() <= 0.01
    assert plan.variances(rs.prefixes(domain, "day")).max() <= 1e4
    least = rs.plan(workload, rs.ZCDP(50), form=rs.Axis(), minimise=rs.MaxVariance({"day": 1e6, "month": 1.0}))
    per_record = float(least.measurements.price(rs.AddRemove()))
    assert least.variances(months).max() <= (1 + least.gap) / per_record  # no plan has less than one over its cost
    shared = rs.plan(months, rs.ZCDP(50), form=rs.Lattice(like=least))
    ((number, (grid, *_)),) = shared.measurements.along.items()
    (noise,) = shared.measurements.sampled(number)
    drawn = noise.row_variances(over_running_sums(csr_array(months.families[0].queries[0].matrix())))
    assert (drawn + np.array([1, 2]) / (12 * grid**2) <= shared.variances(months) * 1.001).all()


def test_what_is_drawn_stays_what_was_priced():
    for name in ("q", "poles", "weights"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(PLAN.correlated.strategy, name)[:] *= 0.5
