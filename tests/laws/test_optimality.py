"""Every planner against CVXPY on random small instances, and every certificate against that optimum.

The law, for each objective: bound ≤ optimum ≤ achieved ≤ (1 + gap) · bound, with gap ≤ the tolerance asked for.
"""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, strategies as st

import residua as rs
from residua.plans.saddle import capped
from tests.laws import dense

SOLVER = 2e-6  # relative accuracy of CVXPY's answer
SEEDS = range(8)


def instance(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    domain = rs.Domain.of_sizes(rng.integers(1, 5, size=d).tolist())
    subsets = dense.all_subsets(range(d))
    chosen = rng.choice(len(subsets), size=min(len(subsets), int(rng.integers(2, 8))), replace=False)
    workload = None
    for k in chosen:
        names = [domain.names[i] for i in subsets[k]]
        term = rs.marginals(domain, [names], weight=float(10 ** rng.uniform(-1, 1)))
        workload = term if workload is None else workload + term
    return workload, rng


def check(plan, workload, loss, expression, pcost=1.0, tolerance=1e-4):
    """The law above, for a plan made at this cost."""
    optimum = dense.optimum(workload, expression, pcost)
    achieved = loss(plan.variances(workload, per="term"))
    assert plan.gap <= tolerance
    assert plan.pcost <= pcost
    assert plan.pcost == pytest.approx(pcost, rel=1e-10)
    assert achieved / (1 + plan.gap) <= optimum * (1 + SOLVER)
    assert optimum <= achieved * (1 + SOLVER)
    assert achieved <= optimum * (1 + plan.gap + SOLVER)


@pytest.mark.parametrize("seed", SEEDS)
def test_total_variance(seed):
    workload, _ = instance(seed)
    mass = workload.weights * workload.cells
    plan = rs.plan(workload, rs.ZCDP(rho=0.35))
    check(plan, workload, lambda v: mass @ v, lambda v: mass @ v, pcost=0.7, tolerance=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_max_variance_with_weights(seed):
    workload, _ = instance(seed)
    w = workload.weights
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=rs.MaxVariance())
    check(plan, workload, lambda v: (w * v).max(), lambda v: cp.max(cp.multiply(w, v)))


@pytest.mark.parametrize("seed", SEEDS)
def test_max_variance_with_targets_for_a_budget(seed):
    workload, rng = instance(seed)
    c = 10 ** rng.uniform(-1, 1, size=len(workload))
    plan = rs.plan(workload, rs.GDP(mu=2.0), targets=dict(zip(workload.sets, c, strict=True)), tolerance=1e-5)
    check(plan, workload, lambda v: (v / c).max(), lambda v: cp.max(cp.multiply(1 / c, v)), pcost=4.0, tolerance=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_least_privacy_for_targets(seed):
    workload, rng = instance(seed)
    c = 10 ** rng.uniform(-1, 1, size=len(workload))
    plan = rs.plan(workload, targets=dict(zip(workload.sets, c, strict=True)))
    assert (plan.variances(workload, per="term") <= c).all()
    assert (plan.variances(workload, per="term") / c).max() == pytest.approx(1.0, abs=1e-9)
    # Variances are homogeneous in the cost: the least cost for ratio 1 is the least ratio at cost 1.
    optimum = dense.optimum(workload, lambda v: cp.max(cp.multiply(1 / c, v)))
    assert plan.gap <= 1e-4
    assert plan.pcost / (1 + plan.gap) <= optimum * (1 + SOLVER)
    assert optimum <= plan.pcost * (1 + SOLVER)
    assert isinstance(plan.guarantee, rs.ZCDP)
    assert 2 * plan.guarantee.rho >= plan.pcost
    assert 2 * plan.guarantee.rho == pytest.approx(plan.pcost, rel=1e-12)


def test_the_three_ways_to_state_targets_agree():
    domain = rs.Domain.of_sizes({"a": 3, "b": 2})
    workload = rs.marginals(domain, [("a", "b"), ("b",)])
    ways = [5.0, {("b", "a"): 5.0, ("b",): 5}, np.full(8, 5.0), [5.0] * 8, np.float32(5)]
    found = [rs.plan(workload, targets=targets).precisions for targets in ways]
    assert all(np.array_equal(found[0], other) for other in found)
    uneven = rs.plan(workload, targets={("a", "b"): 1.0, ("b",): 9.0}, tolerance=1e-8)
    listed = rs.plan(workload, targets=[1.0] * 6 + [9.0] * 2, tolerance=1e-8)
    assert np.array_equal(uneven.precisions, listed.precisions)
    assert (uneven.variance(("a", "b")) <= 1.0).all()


@pytest.mark.parametrize("count", [1, 2, 3, 100])
@pytest.mark.parametrize("seed", range(4))
def test_largest_variances(seed, count):
    workload, _ = instance(seed)
    w, most = workload.weights, min(count, len(workload))
    objective = rs.LargestVariances(count)
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=objective)
    check(plan, workload, lambda v: objective.loss(workload, v), lambda v: cp.sum_largest(cp.multiply(w, v), most))


def test_the_largest_of_thousands_of_ties_are_planned_in_few_rounds():
    domain = rs.Domain.of_sizes([10] * 30)
    workload, rounds = rs.marginals(domain, ways=[1, 2, 3]), []
    objective = rs.LargestVariances(100)
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=objective, progress=lambda done, gap: rounds.append(done))
    assert plan.gap <= 1e-4
    assert rounds[-1] <= 50
    total = rs.plan(workload, rs.GDP(mu=1.0))
    v, other = (each.variances(workload, per="term") for each in (plan, total))
    assert objective.loss(workload, v) < objective.loss(workload, other)


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=12), st.integers(1, 12))
def test_capped_weights_are_those_nearest_in_relative_entropy(values, total):
    values = np.array(values)
    total = min(total, len(values))
    p = capped(values, total)
    assert p.max() <= 1.0
    assert p.sum() == pytest.approx(total, rel=1e-9)
    free = p < 1.0
    if free.any():  # p = min(c values, 1) for one c
        c = (p / values)[free]
        assert c.max() == pytest.approx(c.min(), rel=1e-9)
        assert (values[~free] * c.max() >= 1.0 - 1e-9).all()


@pytest.mark.parametrize("p", [1, 1.5, 2, 7, 20])
@pytest.mark.parametrize("seed", range(3))
def test_p_norm(seed, p):
    workload, _ = instance(seed)
    mass = workload.weights * workload.cells
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=rs.PNormVariance(p))
    achieved = rs.PNormVariance(p).loss(workload, plan.variances(workload, per="term"))
    root = mass ** (1 / p)
    expression = (lambda v: mass @ v) if p == 1 else (lambda v: cp.pnorm(cp.multiply(root, v), p, approx=p < 10))
    optimum = dense.optimum(workload, expression)
    assert plan.gap <= 1e-4
    assert achieved / (1 + plan.gap) <= optimum * (1 + SOLVER)
    assert optimum <= achieved * (1 + SOLVER)


def test_a_p_norm_is_the_total_at_one_and_nears_the_maximum():
    workload, _ = instance(3)
    flat = rs.marginals(workload.domain, workload.sets)
    v = np.linspace(1, 2, len(flat))
    assert rs.PNormVariance(1).loss(flat, v) == pytest.approx(rs.TotalVariance().loss(flat, v))
    assert rs.PNormVariance(5000).loss(flat, v) == pytest.approx(rs.MaxVariance().loss(flat, v), rel=1e-2)


@pytest.mark.parametrize("seed", SEEDS)
def test_stakeholders(seed):
    workload, rng = instance(seed)
    groups = []
    for _ in range(3):
        chosen = np.flatnonzero(rng.random(len(workload)) < 0.6)
        chosen = chosen if len(chosen) else np.arange(len(workload))
        group = rs.marginals(workload.domain, [workload.sets[k] for k in chosen], weight=float(rng.uniform(0.3, 3)))
        groups.append(group)
    # Somebody wants everything, so that every marginal matters.
    groups.append(rs.marginals(workload.domain, workload.sets, weight=0.5))
    shares = np.zeros((4, len(workload)))
    for row, group in zip(shares, groups, strict=True):
        for names, mass in zip(group.sets, group.weights * group.cells, strict=True):
            row[workload.sets.index(names)] = mass
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=rs.Stakeholders(groups))
    check(plan, workload, lambda v: (shares @ v).max(), lambda v: cp.max(shares @ v))


# ---- any convex loss


def sum_of_squares(workload):
    return lambda v: float((v**2).sum()), lambda v: 2 * v, lambda v: cp.sum_squares(v)


def exponential(workload):
    return lambda v: float(np.exp(v / 9).sum()), lambda v: np.exp(v / 9) / 9, lambda v: cp.sum(cp.exp(v / 9))


def largest(workload):
    return lambda v: float(v.max()), lambda v: (np.arange(len(v)) == v.argmax()) * 1.0, cp.max


def hinge(workload):
    # Zero slope on marginals that are good enough: nature may leave some without any weight.
    plan = rs.plan(workload, rs.GDP(mu=1.0))
    c = plan.variances(workload, per="term") * np.linspace(0.6, 1.3, len(workload))
    return lambda v: float(np.maximum(v - c, 0).sum()), lambda v: (v > c) * 1.0, lambda v: cp.sum(cp.pos(v - c))


def two_parties(workload):
    half = (len(workload) + 1) // 2
    first = np.arange(len(workload)) < half

    def gradient(v):
        return (first if v[first].sum() >= v[~first].sum() else ~first) * 1.0

    return (
        lambda v: float(max(v[first].sum(), v[~first].sum())),
        gradient,
        lambda v: cp.maximum(first * 1.0 @ v, ~first * 1.0 @ v),
    )


LOSSES = [sum_of_squares, exponential, largest, hinge, two_parties]


def test_any_convex_loss_is_tried_on_enough_instances():
    assert all(len(instance(seed)[0]) >= 2 for seed in SEEDS)


@pytest.mark.parametrize("make", LOSSES)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_convex_loss_for_a_budget(seed, make):
    workload, _ = instance(seed)
    value, gradient, expression = make(workload)
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=rs.ConvexLoss(value, gradient), form=rs.Lattice(limit=500))
    check(plan, workload, value, expression)


@pytest.mark.parametrize("seed", range(12))
def test_a_loss_that_ignores_some_marginals_never_proves_too_much(seed):
    # A marginal without weight once got variance 1e50, and rounding there "proved" plans optimal that were not.
    rng = np.random.default_rng(seed)
    workload = rs.marginals(rs.Domain.of_sizes(rng.integers(2, 6, size=3).tolist()), ways=range(4))
    c = rs.plan(workload, rs.GDP(mu=1.0)).variances(workload, per="term") * rng.uniform(0.5, 1.3, size=8)
    loss = rs.ConvexLoss(lambda v: float(np.maximum(v - c, 0).sum()), lambda v: (v > c) * 1.0)
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=loss, form=rs.Lattice(limit=500))
    check(plan, workload, loss.value, lambda v: cp.sum(cp.pos(v - c)))


@pytest.mark.parametrize("pcost", [0.3, 3.0])
def test_a_loss_that_does_not_scale_is_solved_at_the_given_cost(pcost):
    workload, _ = instance(1)
    value, gradient, expression = exponential(workload)
    plan = rs.plan(workload, rs.ZCDP(rho=pcost / 2), minimise=rs.ConvexLoss(value, gradient))
    check(plan, workload, value, expression, pcost=pcost)


def test_a_loss_that_overflows_far_away_is_still_minimised():
    domain = rs.Domain.of_sizes([4, 3, 2])
    workload = rs.marginals(domain, ways=range(4))
    steep = rs.ConvexLoss(lambda v: float(np.exp(2 * v).sum()), lambda v: 2 * np.exp(2 * v))
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=steep, tolerance=1e-3)
    check(plan, workload, steep.value, lambda v: cp.sum(cp.exp(2 * v)), tolerance=1e-3)


@pytest.mark.parametrize("make", [sum_of_squares, exponential, largest])
@pytest.mark.parametrize("cost", [0.3, 1.0, 5.0])
def test_least_privacy_for_a_convex_loss(make, cost):
    workload, _ = instance(2)
    value, gradient, expression = make(workload)
    wanted = dense.optimum(workload, expression, pcost=cost)
    plan = rs.plan(workload, minimise=rs.ConvexLoss(value, gradient), at_most=wanted)
    assert value(plan.variances(workload, per="term")) <= wanted
    assert plan.gap <= 1e-4
    assert plan.pcost / (1 + plan.gap) <= cost * (1 + 1e-5)
    assert cost <= plan.pcost * (1 + 1e-5)


@pytest.mark.parametrize("objective", [rs.TotalVariance(), rs.MaxVariance(), rs.PNormVariance(3)])
def test_at_most_is_the_budget_problem_read_backwards(objective):
    workload, _ = instance(4)
    forwards = rs.plan(workload, rs.GDP(mu=0.7), minimise=objective)
    loss = objective.loss(workload, forwards.variances(workload, per="term"))
    backwards = rs.plan(workload, minimise=objective, at_most=loss)
    assert objective.loss(workload, backwards.variances(workload, per="term")) <= loss
    assert backwards.pcost == pytest.approx(forwards.pcost, rel=1e-9)
    assert backwards.gap == forwards.gap


def test_an_unreachable_loss_is_said_to_be():
    workload, _ = instance(2)
    loss = rs.ConvexLoss(lambda v: float(5 + v.sum()), lambda v: np.ones_like(v))
    with pytest.raises(rs.ResiduaError, match=r"at_most=4\.0 cannot be reached"):
        rs.plan(workload, minimise=loss, at_most=4.0)


# ---- the certificate


def test_independent_noise_states_its_true_gap():
    workload, _ = instance(5)
    mass = workload.weights * workload.cells
    plan = rs.independent(workload, rs.GDP(mu=1.0))
    optimum = dense.optimum(workload, lambda v: mass @ v)
    assert mass @ plan.variances(workload, per="term") == pytest.approx(optimum * (1 + plan.gap), rel=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_replace_one_plans_state_a_true_gap(seed):
    # The optimum under the replacement cost, over all residual plans: cost is the worst pattern of agreement.
    workload, _ = instance(seed)
    sizes, sets = workload.domain.sizes.tolist(), list(workload.lattice)
    if all(n == 1 for s in sets for n in np.array(sizes)[list(s)]):
        with pytest.raises(rs.ResiduaError, match="changes none of these tables"):
            rs.plan(workload, rs.GDP(mu=1.0), unit=rs.ReplaceOne())
        return
    mass = workload.weights * workload.cells
    plan = rs.plan(workload, rs.GDP(mu=1.0), unit=rs.ReplaceOne())
    gammas = [dense.gamma_of(sizes, [s], [1.0]) for s in sets]
    used = np.array([g.max() > 1e-12 and s != () for g, s in zip(gammas, sets, strict=True)])
    # Cell 0 meets every pattern of agreement; one row a pattern, one column a residual.
    patterns = np.array([2 * g[0, 0] - 2 * g[0] for g in gammas]).T[:, used]
    patterns = np.unique(patterns.round(12), axis=0)
    assert (patterns >= 0).all()
    noise = cp.Variable(int(used.sum()), pos=True)
    M = dense.variance_matrix(sizes, sets, dense.asked_of(workload))
    cost = [row @ cp.inv_pos(noise) <= 1 for row in patterns if row.any()]
    problem = cp.Problem(cp.Minimize(mass @ (M[:, used] @ noise)), cost)
    problem.solve(solver=cp.CLARABEL)
    achieved = mass @ plan.variances(workload, per="term")
    assert achieved / (1 + plan.gap) <= problem.value * (1 + SOLVER)
    assert problem.value <= achieved * (1 + SOLVER)
    assert plan.gap <= 1e-3
    assert achieved <= problem.value * (1 + 1e-3)


@pytest.mark.parametrize(("sizes", "ways", "least"), [([2] * 8, 1, 128.0), ([3, 4, 5], [1, 2], 309.9005)])
def test_replaced_records_pay_nothing_for_the_total(sizes, ways, least):
    workload = rs.marginals(rs.Domain.of_sizes(sizes), ways=ways)
    plan = rs.plan(workload, rs.GDP(1.0), unit=rs.ReplaceOne())
    assert plan.total_variance(workload) == pytest.approx(least, rel=2e-5)
    assert plan.gap <= 1e-4
    assert plan.measurements.cost(rs.ReplaceOne()) <= 1
    assert plan.variance({}) < 1e-5  # the number of records, which does not change: rounded, it is exact
    worst = rs.plan(workload, rs.GDP(1.0), unit=rs.ReplaceOne(), minimise=rs.MaxVariance())
    assert worst.variances(workload).max() <= plan.variances(workload).max() * (1 + 1e-9)
    assert worst.gap <= 1e-4


def least_of_kinds(counts, most):
    """Least total variance of all tables of up to so many attributes where records are replaced, by CVXPY.

    Attributes come in classes, `counts[n]` of n values. Sets with as many of each class are alike, and two cells differ
    in so many attributes of each class: a variable per kind of set, a constraint per kind of pair.
    """
    n, m = np.array(list(counts)), np.array(list(counts.values()))
    kinds = [t for t in itertools.product(*(range(min(most, each) + 1) for each in m)) if 0 < sum(t) <= most]

    def sets(t, left):
        return math.prod(map(math.comb, left, t))

    def products(d, t):
        """The mean of `Π r` over the sets of a kind."""
        ways = [
            sum(math.comb(a, h) * math.comb(b - a, c - h) * (-1 / (size - 1)) ** h for h in range(c + 1))
            / math.comb(b, c)
            for a, b, c, size in zip(d, m.tolist(), t, n.tolist(), strict=True)
        ]
        return math.prod(ways)

    kappa = np.array([math.prod((1 - 1 / n) ** np.array(t)) for t in kinds])
    number = np.array([float(sets(t, m.tolist())) for t in kinds])
    u = [
        sum(
            sets(a, (m - t).tolist())
            * math.prod(n ** np.array(a))
            * math.prod(n ** np.array(t))
            / math.prod(n ** (2 * np.array(a)))
            for a in itertools.product(*(range(most + 1) for _ in m))
            if sum(a) + sum(t) <= most
        )
        for t in map(np.array, kinds)
    ]
    pairs = [d for d in itertools.product(*(range(each + 1) for each in m)) if any(d)]
    rows = np.array([[1 - products(d, t) for t in kinds] for d in pairs]) * (2 * kappa * number)
    matter, most_paid = kappa * number * u, rows.max(axis=0)
    scale = np.sqrt(most_paid / matter)  # so that all variables are about 1
    noise, unit = cp.Variable(len(kinds), pos=True), float(matter @ scale)
    within = [(rows / scale / unit) @ cp.inv_pos(noise) <= 1]
    problem = cp.Problem(cp.Minimize((matter * scale / unit) @ noise), within)
    problem.solve(solver=cp.CLARABEL)
    return problem.value * unit**2


@pytest.mark.parametrize(
    ("counts", "most"), [({2: 30}, 2), ({10: 100}, 2), ({2: 12, 3: 8, 7: 4}, 2), ({2: 10, 5: 9}, 3)]
)
def test_replaced_records_of_many_attributes_are_planned_within_a_thousandth(counts, most):
    sizes = [n for n, times in counts.items() for _ in range(times)]
    np.random.default_rng(0).shuffle(sizes)
    workload = rs.marginals(rs.Domain.of_sizes(sizes), ways=range(1, most + 1))
    plan = rs.plan(workload, rs.GDP(1.0), unit=rs.ReplaceOne())
    optimum, achieved = least_of_kinds(counts, most), plan.total_variance(workload)
    assert plan.gap <= 1e-3
    assert optimum <= achieved * (1 + SOLVER)
    assert achieved / (1 + plan.gap) <= optimum * (1 + SOLVER)
    assert 1 - 1e-9 <= plan.measurements.cost(rs.ReplaceOne()) <= 1


def test_attributes_that_only_look_alike_are_priced_apart():
    """Pairs along a ring: each attribute is in two, yet a record that changes every second one changes every pair."""
    domain = rs.Domain.of_sizes([2] * 12)
    ring = [(f"a{i}", f"a{(i + 1) % 12}") for i in range(12)]
    plan = rs.plan(rs.marginals(domain, [tuple(sorted(pair)) for pair in ring]), rs.GDP(1.0), unit=rs.ReplaceOne())
    members, costs = list(plan.lattice), plan.precisions * 0.5**plan.lattice.set_sizes
    worst = max(
        sum(4 * cost for row, cost in zip(members, costs, strict=True) if row and sum(pattern[i] for i in row) % 2)
        for pattern in itertools.product((0, 1), repeat=12)
    )
    assert float(plan.measurements.cost(rs.ReplaceOne())) == pytest.approx(worst, rel=1e-9)


def test_stopping_early_warns_and_states_the_gap_reached():
    workload = rs.marginals(rs.Domain.of_sizes([10, 7, 5, 3, 2]), ways=range(4))
    with pytest.warns(rs.GapWarning, match="proven optimal only up to"):
        plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=rs.MaxVariance(), form=rs.Lattice(limit=1))
    best = rs.plan(workload, rs.GDP(mu=1.0), minimise=rs.MaxVariance(), tolerance=1e-8)
    worst, optimum = plan.variances(workload, per="term").max(), best.variances(workload, per="term").max()
    assert plan.gap > 1e-4
    assert worst / (1 + plan.gap) <= optimum * (1 + 1e-8)


def test_progress_is_told_every_round_and_gaps_shrink():
    workload = rs.marginals(rs.Domain.of_sizes([10, 7, 5, 3, 2]), ways=range(4))
    heard = []
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=rs.MaxVariance(), progress=lambda i, gap: heard.append((i, gap)))
    assert [i for i, _ in heard] == list(range(1, len(heard) + 1))
    gaps = [gap for _, gap in heard]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] == plan.gap <= 1e-4


@pytest.mark.parametrize("guarantee", [rs.ZCDP(0.2), rs.GDP(0.3), rs.ApproxDP(1.0, 1e-9)])
@pytest.mark.parametrize("unit", [rs.AddRemove(), rs.AddRemove(2), rs.ReplaceOne()])
def test_every_plan_stays_within_its_guarantee(guarantee, unit):
    workload = rs.marginals(rs.Domain.of_sizes([4, 3, 2]), ways=[1, 2])
    for plan in (
        rs.plan(workload, guarantee, unit=unit),
        rs.plan(workload, guarantee, unit=unit, minimise=rs.MaxVariance()),
        rs.independent(workload, guarantee, unit=unit),
    ):
        assert plan.guarantee is guarantee
        assert plan.unit == unit
        assert 0.999999 * float(guarantee.pcost_allowed()) <= plan.unit_pcost <= guarantee.pcost_allowed()
    targets = rs.plan(workload, targets=10.0, unit=unit)
    assert (targets.variances(workload, per="term") <= 10.0).all()
    assert targets.unit_pcost <= targets.guarantee.pcost_allowed()


def test_a_loss_with_more_kinks_than_cuts_is_solved():
    """The ten largest of 1,351 variances, all of which tie at the best plan: more kinks than cutting planes hold."""
    workload = rs.marginals(rs.Domain.of_sizes([2 + 7 * i % 19 for i in range(20)]), ways=range(4))

    def value(v):
        return float(np.sort(v)[-10:].sum())

    def gradient(v):
        slope = np.zeros_like(v)
        slope[np.argpartition(v, -10)[-10:]] = 1.0
        return slope

    rounds = []
    plan = rs.plan(
        workload, rs.GDP(1.0), minimise=rs.ConvexLoss(value, gradient), tolerance=0.02,
        progress=lambda done, gap: rounds.append((done, gap)),
    )  # fmt: skip
    best = rs.plan(workload, rs.GDP(1.0), minimise=rs.LargestVariances(10))
    found, least = (value(each.variances(workload, per="term")) for each in (plan, best))
    assert plan.gap <= 0.02
    assert least * (1 - 2e-4) <= found <= 1.02 * least * (1 + 2e-4)
    assert found / (1 + plan.gap) <= least * (1 + 1e-9)  # what was proven is true
    assert [done for done, _ in rounds] == list(range(1, len(rounds) + 1))


def test_standard_deviations_and_margins_are_targets_in_other_words():
    workload = rs.marginals(rs.Domain.of_sizes({"a": 3, "b": 2}), [("a", "b"), ("b",)])
    for variances, stddevs in [
        (25.0, 5.0),
        ({("a", "b"): 25.0, ("b",): 100.0}, {("a", "b"): 5, ("b",): 10.0}),
        ([25.0] * 6 + [100.0] * 2, np.array([5.0] * 6 + [10.0] * 2)),
    ]:
        plan = rs.plan(workload, targets=variances)
        assert rs.plan(workload, stddev=stddevs).guarantee == plan.guarantee
    strict, usual = (rs.plan(workload, margin=10.0, **options) for options in ({"confidence": 0.99}, {}))
    assert float(plan.guarantee.rho) > 0
    assert np.sqrt(usual.variances(workload)).max() == pytest.approx(10.0 / 1.959964, rel=1e-6)
    assert np.sqrt(strict.variances(workload)).max() == pytest.approx(10.0 / 2.575829, rel=1e-6)
    relaxed = rs.plan(workload, rs.ZCDP(rho=0.1), stddev={("a", "b"): 5.0, ("b",): 10.0})
    assert relaxed.guarantee == rs.ZCDP(rho=0.1)


def test_the_print_says_what_targets_were_taken_for():
    workload = rs.marginals(rs.Domain.of_sizes({"a": 3, "b": 2}), ways=1)
    assert "targets (variances of 10: a standard deviation of 3.16)" in str(rs.plan(workload, targets=10))
    assert "targets (variances of 25: a standard deviation of 5)" in str(rs.plan(workload, stddev=5.0))
    uneven = rs.plan(workload, stddev={("a",): 3.0, ("b",): 10.0})
    assert "targets (variances of 9 to 100: standard deviations of 3 to 10)" in str(uneven)
