"""A record replaced over many attributes of which none are alike: what two cells have in common at least, and plans."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

import residua as rs
from residua.plans.product import balanced
from residua.plans.product.balanced import least_in_common
from tests.conformance.test_second_verifier import ROUNDING, second


def random_costs(numbers, n, ways, even):
    rows = [row for t in range(1, ways + 1) for row in itertools.combinations(range(n), t)]
    kept = [row for row in rows if even or numbers.random() < 0.8] or rows[:1]
    return {row: 1 + int(10**6 * numbers.random() ** (0.1 if even else 2)) for row in kept}


@pytest.mark.parametrize("ways", [1, 2, 3, 4])
@pytest.mark.parametrize("even", [False, True])
def test_no_two_cells_have_less_in_common(ways, even):
    numbers = np.random.default_rng(ways)
    for _ in range(6):
        n = int(numbers.integers(ways, 8))
        ratios = {i: Fraction(-1, int(numbers.integers(1, 9))) for i in range(n)}
        costs = random_costs(numbers, n, ways, even)
        corners = (
            sum(cost * math.prod(ratios[i] if apart[i] else 1 for i in row) for row, cost in costs.items())
            for apart in itertools.product((False, True), repeat=n)
        )
        assert least_in_common(costs, ratios) <= min(corners)


class Ratio:
    """A factor of the second verifier, of which only the least ratio is asked."""

    def __init__(self, ratio):
        self.ratio = ratio


def extreme_costs(numbers, n, kind):
    """Whole numbers of 2^-200: products, one set beside which others are nothing, and of any size, some left out."""
    rows = [row for t in range(1, min(n, 3) + 1) for row in itertools.combinations(range(n), t)]
    weights = np.exp(numbers.normal(size=n))
    if kind == "products":
        costs = {row: int(2**60 * math.prod(weights[i] for i in row)) * 2**100 for row in rows}
    elif kind == "one":
        costs = dict.fromkeys(rows, 1) | {rows[int(numbers.integers(len(rows)))]: 2**230}
    else:
        costs = {row: int(2.0 ** (60 * numbers.random())) ** 3 for row in rows}
        costs = {row: cost for row, cost in costs.items() if kind == "all" or numbers.random() < 0.5} or {rows[0]: 1}
    return {row: cost for row, cost in costs.items() if numbers.integers(2) or len(row) > 1} or {rows[-1]: 1}


@pytest.mark.parametrize("kind", ["products", "one", "all", "some"])
def test_neither_verifier_finds_more_in_common_than_there_is_however_costs_differ(kind):
    numbers = np.random.default_rng(7)
    for _ in range(8):
        n = int(numbers.integers(1, 8))
        ratios = [Fraction(int(numbers.choice([-10, -9, -5, -1, 0, 3])), 10) for _ in range(n)]
        costs = extreme_costs(numbers, n, kind)
        least = min(
            sum(cost * math.prod(each[i] for i in row) for row, cost in costs.items())
            for each in itertools.product(*zip(ratios, [1] * n, strict=True))
        )
        assert least_in_common(costs, dict(enumerate(ratios))) <= least
        factors = [Ratio(each) for each in ratios]
        assert second.in_common([(cost, [factors[i] for i in row]) for row, cost in costs.items()]) <= least


@pytest.mark.parametrize("ways", [(2,), (3,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("ratio", [Fraction(-1), Fraction(-1, 3)])
@pytest.mark.parametrize("missing", [0, 9 * 10**5, 10**6])
def test_no_part_of_the_bound_can_be_left_out(ways, ratio, missing, monkeypatch):
    # Of 9 alike but for blocks with both of the first two, which cost less, or are not there: so the bound is near.
    n, unit = 9, 10**6
    costs = {row: unit for t in ways for row in itertools.combinations(range(n), t)}
    costs |= {row: unit - missing for row in costs if row[:2] == (0, 1)}
    costs = {row: cost for row, cost in costs.items() if cost}
    corners = ([ratio] * k + [1] * (2 - k) + [ratio] * d + [1] * (7 - d) for k in range(3) for d in range(8))
    least = min(sum(cost * math.prod(x[i] for i in row) for row, cost in costs.items()) for x in corners)
    factors = [Ratio(ratio) for _ in range(n)]
    assert second.in_common([(cost, [factors[i] for i in row]) for row, cost in costs.items()]) <= least
    assert (proven := least_in_common(costs, dict.fromkeys(range(n), ratio))) <= least
    assert missing or 3 in ways or proven >= least - Fraction(1, 10) * sum(costs.values())
    # However a and β are chosen: here as if all blocks cost the same, also those that are not there.
    betas = {2: 1.0 * (2 in ways), 3: 1.0 * (3 in ways)}
    monkeypatch.setattr(balanced, "fitted", lambda rows, costs, n: ([1.0] * n, betas))
    assert least_in_common(costs, dict.fromkeys(range(n), ratio)) <= least


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_the_bound_of_one_sum_is_the_polynomial_itself_and_of_an_interval_no_more(n, largest):
    numbers = np.random.default_rng(n)
    for _ in range(20):
        a, r = ([Fraction(int(k), 8) for k in numbers.integers(low, high, n)] for low, high in ((1, 9), (-8, 0)))
        x = [Fraction(1)] * n if largest else r
        each = [p * q for p, q in zip(a, x, strict=True)]
        three, nu = (Fraction(int(k), 3) for k in numbers.integers(0, 9, 2))
        two, s = 8 * three * int(numbers.integers(0 if largest else 1, 2)), sum(each)
        linear = -(10**6) if largest else 10**6  # so large that every x is at that end
        exact = linear * sum(x) + sum(
            beta * math.prod(row) for t, beta in ((2, two), (3, three)) for row in itertools.combinations(each, t)
        )
        terms = [(Fraction(linear), p, q) for p, q in zip(a, r, strict=True)]
        assert balanced._least(terms, two, three, s, s, nu) == exact
        for low, high in ((1, 0), (0, 1), (Fraction(1, 2), 2)):
            assert balanced._least(terms, two, three, s - low, s + high, nu) <= exact
            assert balanced._least(terms, two, three, s - low, s + high, Fraction(0)) <= exact


def some_corners(costs, ratios, numbers):
    """The least in common of cells that are found by changing one attribute at a time, of up to two in a block."""
    n = len(ratios)
    linear, pairs = np.zeros(n), np.zeros((n, n))
    for row, cost in costs.items():
        if len(row) == 1:
            linear[row[0]] += cost
        else:
            pairs[row] = pairs[row[::-1]] = cost
    least = np.inf
    for _ in range(20):
        x = np.where(numbers.random(n) < numbers.random(), 1.0, ratios)
        while (moved := (change := np.where(x == 1.0, ratios, 1.0) - x) * (linear + pairs @ x)).min() < -1e-9:
            x[moved.argmin()] += change[moved.argmin()]
        least = min(least, float(linear @ x + x @ pairs @ x / 2))
    return least


def test_what_is_proven_is_nearly_reached_where_costs_are_products():
    sizes = np.arange(5, 45)
    costs = {
        row: int(1e12 * math.prod(math.sqrt(sizes[i]) for i in row))
        for t in (1, 2)
        for row in itertools.combinations(range(40), t)
    }
    proven = least_in_common(costs, {i: Fraction(-1, int(n) - 1) for i, n in enumerate(sizes)})
    reached = some_corners(costs, -1.0 / (sizes - 1.0), np.random.default_rng(0))
    assert proven <= reached <= proven + 1e-3 * sum(costs.values())


@pytest.mark.parametrize(
    ("sizes", "ways", "objective", "gap"),
    [
        (range(10, 110), [1, 2], rs.TotalVariance(), 1e-3),
        (range(5, 35), [1, 2], rs.TotalVariance(), 4e-3),
        (range(5, 35), [2], rs.MaxVariance(), 5e-3),
        (range(5, 27), [1, 2, 3], rs.TotalVariance(), 1e-2),
    ],
)
def test_many_unlike_attributes_are_planned_near_the_best_and_both_verifiers_agree(
    sizes, ways, objective, gap, tmp_path
):
    domain = rs.Domain.of_sizes(list(sizes))
    workload = rs.marginals(domain, ways=ways)
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=objective, unit=rs.ReplaceOne())
    assert plan.gap <= gap
    own = plan.measurements.cost(plan.unit)
    assert 1 - 1e-6 <= own <= 1
    plan.save(tmp_path / "plan.json")
    other, _ = second.price(json.loads((tmp_path / "plan.json").read_text())["body"])
    assert own * (1 - Fraction(1, 1000)) <= other <= own * (1 + ROUNDING)
    # Two cells that differ in every attribute, and in every one but one, cost no more; independent ones as much, about.
    lattice, kappa = plan.lattice, plan.lattice.products(1.0 - 1.0 / domain.sizes)
    spent, ratios = plan.precisions * kappa, -1.0 / (domain.sizes - 1.0)
    for same in (None, *range(len(domain))):
        x = ratios.copy()
        x[[] if same is None else [same]] = 1.0
        assert float(2.0 * spent @ (1.0 - lattice.products(x))) <= 1.0
    assert float(2.0 * spent[1:].sum()) >= 1.0 - gap
