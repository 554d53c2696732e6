"""What floats leave open is decided by pairs of floats, and by balls where those fail: all see the same normals."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from residua.linalg.path import OrderedNoise, prefix_path, range_path
from residua.noise import correlated, kernels, steps
from residua.noise.correlated import begun, rounded_so_far
from residua.noise.normals import Normals, normal
from residua.noise.samplers import NORMAL, SystemEntropy
from residua.noise.table import long_table, precision
from tests.laws.test_noise_bound import adversarial


def noises():
    """Axes of all kinds: grounded on the left or not, with single values or not, uneven weights, slow chains."""
    rng = np.random.default_rng(3)
    for n, path in (
        (2, range_path(2, 0.3, 1.0)),
        (31, prefix_path(rng.uniform(0.1, 3, 31))),
        (24, range_path(24, 0.7, 0.4, values=2.0)),
        (80, replace(prefix_path(np.ones(80)), values=0.01)),
        (80, range_path(80, 0.0, 1.0)),
    ):
        q = rng.dirichlet(np.full(n, 0.5)) + 1e-6
        yield OrderedNoise(path, q, 10 ** np.array([-6.0, -2.0, 0.5, 3.0]), rng.uniform(0.1, 40, 4))


NOISES = list(noises())


def test_quantiles_in_pairs_are_within_their_bound():
    rng = np.random.default_rng(0)
    v = np.concatenate([rng.permutation(adversarial())[:4_000], rng.integers(1 << 46, 1 << 63, 2_000, dtype=np.uint64)])
    seconds = rng.integers(0, 2**64, len(v), dtype=np.uint64)
    seconds[::7], seconds[1::7] = 0, 2**64 - 1
    high, low, bounds = long_table(NORMAL).evaluate(v << np.uint64(1), seconds)
    assert bounds.max() < 2.0**-96
    with ctx.workprec(180):
        for i, (top, word) in enumerate(zip(v.tolist(), seconds.tolist(), strict=True)):
            position, middle = top << 64 | word, arb(high[i]) + arb(low[i])
            assert arb(2) ** 128 * NORMAL.survival(middle + arb(bounds[i])) <= position
            assert arb(2) ** 128 * NORMAL.survival(middle - arb(bounds[i])) >= position + 1


def test_pairs_err_as_little_as_is_said():
    rng = np.random.default_rng(1)
    least = Fraction(1, 2**100)

    def of(a, b):
        return Fraction(float(a)) + Fraction(float(b))

    for _ in range(3_000):
        a, c = 2.0 ** rng.uniform(-90, 90, 2)
        if rng.random() < 0.3:  # nearly alike, where differences cancel
            c = a * (1 + rng.integers(-3, 4) * 2.0**-52)
        b, d = a * rng.uniform(-1, 1) * 2.0**-53, c * rng.uniform(-1, 1) * 2.0**-53
        x, y = of(a, b), of(c, d)
        for sign in (1, -1):
            assert abs(of(*kernels.plus(a, b, sign * c, sign * d)) - (x + sign * y)) <= least * (x + y)
        assert abs(of(*kernels.times(a, b, c, d)) - x * y) <= least * x * y
        assert abs(of(*kernels.over(a, b, c, d)) - x / y) <= least * x / y
        root = of(*kernels.root(a, b))
        assert (root * (1 - least)) ** 2 <= x <= (root * (1 + least)) ** 2


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: f"{noise.queries.size} values")
def test_floats_and_pairs_are_as_far_from_the_balls_as_they_say(noise):
    normals = Normals(SystemEntropy(), (2, len(noise.poles), noise.queries.size + 1))
    floats, errors = correlated.float_sums(noise, normals)
    for axis, sums, bounds in zip(range(2), *correlated.pair_sums(noise, normals, [0, 1]), strict=True):
        with precision(400):
            balls = steps.ball_sums(noise, [normals.balls(axis, j, 5) for j in range(len(noise.poles))])
            for i, ball in enumerate(balls):
                assert abs(ball - arb(floats[axis, i])) <= arb(errors[axis, i])
                assert abs(ball - arb(sums[0, i]) - arb(sums[1, i])) <= arb(bounds[i])
        assert errors[axis].max() < 1e-9 * max(1.0, np.abs(floats).max())
        assert bounds.max() < 1e-9 * errors[axis].max()


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: f"{noise.queries.size} values")
def test_forced_to_decide_pairs_round_like_balls(noise, monkeypatch):
    judged, asked = correlated.judged, []
    monkeypatch.setattr(correlated, "judged", lambda *given: asked.append(given) or judged(*given))
    for grid in (1, 64, 2**30):
        normals = Normals(SystemEntropy(), (1, len(noise.poles), noise.queries.size + 1))
        draws = np.full((1, noise.queries.size), 10**9)
        correlated.refined(noise, grid, normals, draws, np.ones(draws.shape, dtype=bool))
        assert not asked  # pairs decided all of them
        assert np.array_equal(draws[0], judged(noise, grid, normals, 0))


def test_what_pairs_leave_open_balls_decide_with_the_same_bits(monkeypatch):
    noise = NOISES[2]
    monkeypatch.setattr(correlated, "UNDECIDED", 1.0)
    normals = Normals(SystemEntropy(), (1, len(noise.poles), noise.queries.size + 1))
    sums, bounds = correlated.float_sums(noise, normals)
    draws = np.empty((1, noise.queries.size), dtype=np.int64)
    is_open = correlated.rounded_where_decided(64, sums, bounds, draws)
    assert is_open.all()
    by_pairs = draws.copy()
    correlated.refined(noise, 64, normals, by_pairs, is_open)
    before = normals.more
    assert all(bits == 128 for _, bits in before.values())
    monkeypatch.setattr(kernels, "round_pairs", lambda *given: None)
    draws[:] = 10**9  # what floats said is forgotten: balls alone decide
    correlated.refined(noise, 64, normals, draws, is_open)
    assert np.array_equal(draws, by_pairs)
    assert {place: (v >> bits - 128, 128) for place, (v, bits) in normals.more.items()} == before


def test_a_rounding_that_is_open_is_left_open():
    half = np.array([[2.5, -0.5, 3.5], [0.0, 2.0**-80, -(2.0**-70)]])
    whole, is_open = np.zeros(3, dtype=np.int64), np.ones(3, dtype=bool)
    kernels.round_pairs(1.0, half, np.full(3, 2.0**-75), whole, is_open)
    assert is_open.tolist() == [True, True, False]
    assert whole[2] == 3
    kernels.round_pairs(1.0, half, np.full(3, 2.0**-85), whole, is_open)
    assert is_open.tolist() == [True, False, False]
    assert whole.tolist()[1:] == [0, 3]


def test_next_to_the_middle_between_two_integers_pairs_round_as_they_are():
    ulp = 2.0**-54
    for middle in (-2.5, -1.5, -0.5, 0.5, 1.5):
        for ulps in range(-9, 10):
            high = middle + ulps * ulp
            lows = np.array([0.0, 0.3, 0.49, -0.3, -0.49]) * np.spacing(abs(high))
            out = np.array([np.full(5, high), lows])
            whole, is_open = np.full(5, 99), np.ones(5, dtype=bool)
            kernels.round_pairs(1.0, out, np.full(5, 2.0**-70), whole, is_open)
            for low, found, left in zip(lows.tolist(), whole.tolist(), is_open.tolist(), strict=True):
                exact = Fraction(high) + Fraction(low)
                assert left == (abs(exact - Fraction(middle)) <= Fraction(1, 2**70))
                assert left or found == (exact + Fraction(1, 2)).__floor__()


def test_a_bound_that_reaches_another_middle_leaves_the_rounding_open():
    is_open = np.ones(1, dtype=bool)
    out = np.array([[2.0**44], [-(2.0**-10)]])
    kernels.round_pairs(1.0, out, np.full(1, 0.5), np.zeros(1, dtype=np.int64), is_open)
    assert is_open.all()


class Scripted:
    """Words as they are given, one after the other."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        found, self.left = self.left[:count], self.left[count:]
        return np.array(found, dtype=np.uint64)


def test_a_draw_just_above_minus_one_half_is_rounded_like_its_ball():
    noise = OrderedNoise(prefix_path(np.ones(1)), np.ones(1), np.ones(1), np.ones(1))
    for part in (0.1, 0.4, 0.7, 0.95, 1.2, 1.6, -0.3):
        with precision(400):  # C = σ z with σ² = 1/2
            z = (arb(0.5) - arb(part) * arb(2) ** -54) * arb(2).sqrt()
            xi = int((NORMAL.survival(z) * arb(2) ** 192).floor().unique_fmpz())
        words = (xi >> 128) << 1 | 1, xi >> 64 & 2**64 - 1, xi & 2**64 - 1

        def script(words=words):
            return Scripted(words[0], 0, words[1], 0, words[2], 0, *range(1, 20))

        assert correlated.rounded_ordered(noise, 1, 1, _entropy=script()).tolist() == [[0 if part > 0 else -1]]


def test_nothing_of_the_long_table_underflows():
    numbers = np.abs(long_table(NORMAL).rows[:, :-1])
    assert numbers[:, [0, 1, 3, 5, 7, 9, 11, 13, 15, 17, *range(19, 28)]].min() > 2.0**-300
    assert numbers[numbers > 0].min() > 2.0**-400


class Tails:
    """Words of which every fifth is beyond the tables."""

    def __init__(self):
        self.random = np.random.default_rng(5)

    def words(self, count):
        words = self.random.integers(0, 2**64, count, dtype=np.uint64)
        words[::5] >>= np.uint64(20)
        return words


def test_normals_beyond_the_tables_keep_the_bits_that_were_drawn():
    normals = Normals(Tails(), (1, 2, 50))
    floats = [normals.floats(part) for part in range(2)]
    assert len(normals.more) == 20
    known = dict(normals.more)
    for part, (z, b) in enumerate(floats):
        high, low, bounds = normals.pairs(0, part)
        assert np.all(np.abs(high - z[0]) <= b[0] * 1.001)
        assert bounds.max() < 1e-29
        with precision(500):
            for number in range(50):
                v, bits = normals._extended(0, part, number, 256)
                ball = normal(v, bits)
                exact = -ball if normals._words[0, part, number] & np.uint64(1) else ball
                assert abs(exact - arb(high[number]) - arb(low[number])) <= arb(bounds[number])
                if (part, number) in known:
                    assert v >> bits - known[part, number][1] == known[part, number][0]


def test_fields_are_refined_to_the_same_numbers(monkeypatch):
    first, second = NOISES[0], NOISES[2]
    judged, asked = correlated.judged, []
    monkeypatch.setattr(correlated, "judged", lambda *given: asked.append(given) or judged(*given))
    monkeypatch.setattr(correlated, "UNDECIDED", 1.0)
    kept = []
    refined = correlated.refined
    monkeypatch.setattr(correlated, "refined", lambda *given: kept.append(given[2]) or refined(*given))
    draws = correlated.rounded_field(first, second, 2**12, 1)[0]
    assert not asked
    assert np.array_equal(draws.T, [judged(first, 2**12, kept[0], column) for column in range(second.size)])
    monkeypatch.setattr(kernels, "round_pairs", lambda *given: None)
    balls = np.full(draws.T.shape, 10**9)
    refined(first, 2**12, kept[0], balls, np.ones(balls.shape, dtype=bool))  # by balls alone, of the same bits
    assert np.array_equal(draws.T, balls)


def test_as_an_axis_grows_refined_numbers_stay(monkeypatch):
    noise = NOISES[1]
    monkeypatch.setattr(correlated, "UNDECIDED", 1.0)
    drawn, known = begun(noise), []
    for period in range(6):
        drawn = drawn.extended()
        found, drawn = rounded_so_far(noise, 64, drawn)
        assert found.tolist()[:period] == known
        known = found.tolist()
        assert len(drawn.more) == len(noise.poles) * (period + 2)
    assert all(bits >= 128 and v < 2 ** (bits - 1) for v, bits in drawn.more.values())
