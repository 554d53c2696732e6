"""Given its random bits, every draw is the one that ball arithmetic decides, by the tail and not the quantile."""

import inspect
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import repeat
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from residua.errors import PrivacyError
from residua.noise import SystemEntropy, rounded_laplace, rounded_normal, samplers as rounding_module
from residua.noise.samplers import BLOCK, LAPLACE, NORMAL, refine, rounded
from residua.noise.table import Tail
from tests.exact_noise import rounded_laplace_pmf, rounded_normal_pmf

TAILS = pytest.mark.parametrize("tail", [NORMAL, LAPLACE], ids=lambda tail: tail.name)
SAMPLERS = pytest.mark.parametrize("sampler", [rounded_normal, rounded_laplace])
ONES = (1 << 64) - 1
DEEP = 4  # words of a reference position
SCALES = [  # each the rational number that a float is
    Fraction(1, 2),
    Fraction(0.7),
    Fraction(1),
    Fraction(3.3),
    Fraction(1000),
    Fraction((3 * 10**6 + 1) / 3),
    Fraction(2**25),
    Fraction((2**30 + 1) / 7 * 5),
    Fraction(2**40 / 3),
    Fraction(2**40),
]


class Script:
    """Entropy that returns `first` for the blocks, then what `later` says for each single word."""

    def __init__(self, first: list[int], later: Iterator[int]) -> None:
        self.first = np.array(first, dtype=np.uint64)
        self.later = later
        self.used = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        if self.first.size:
            taken, self.first = self.first[:count], self.first[count:]
            return taken
        assert count == 1
        self.used += 1
        return np.array([next(self.later)], dtype=np.uint64)


def edge(tail: Tail, scale: Fraction, k: int) -> arb:
    """Return T((k + 1/2)/s), the tail probability at which the draw changes from k to k + 1."""
    x = (k + Fraction(1, 2)) / scale
    return tail.survival(arb(fmpq(x.numerator, x.denominator)))


def is_correct(tail: Tail, scale: Fraction, draw: int, word: int, continuation: int) -> bool:
    """Decide by the tail whether `draw` belongs to `word` followed by `continuation` for ever (DEEP words of it)."""
    v = word >> 1
    for _ in range(DEEP - 1):
        v = v << 64 | continuation
    if draw and (draw < 0) != bool(word & 1):
        return False
    k = abs(draw)
    with ctx.workprec(64 * DEEP + 128):
        unit = arb(2) ** (64 * DEEP)
        inner = k == 0 or unit * edge(tail, scale, k - 1) >= v + 1
        return bool(inner and unit * edge(tail, scale, k) <= v)


def boundary(tail: Tail, scale: Fraction, k: int, words: int) -> int:
    """Return the first 64·words bits of the boundary between k and k + 1."""
    with ctx.workprec(64 * words + 256):
        exact = (edge(tail, scale, k) * arb(2) ** (64 * words)).floor().unique_fmpz()
    assert exact is not None
    return int(exact)


def check(tail: Tail, scales: list[Fraction], words: list[int], continuation: int) -> None:
    draws = rounded(tail, [float(s) for s in scales], (len(words),), Script(words, repeat(continuation)))
    wrong = [
        (s, word, draw)
        for s, word, draw in zip(scales, words, draws.tolist(), strict=True)
        if not is_correct(tail, s, draw, word, continuation)
    ]
    assert not wrong


@TAILS
@pytest.mark.parametrize("continuation", [0, ONES])
def test_random_words_give_the_reference_draw(tail: Tail, continuation: int) -> None:
    rng = np.random.default_rng(7)
    words = rng.integers(0, ONES, size=20_000, dtype=np.uint64, endpoint=True).tolist()
    check(tail, [SCALES[i % len(SCALES)] for i in range(len(words))], words, continuation)


@TAILS
@pytest.mark.parametrize("continuation", [0, ONES])
def test_words_at_a_boundary_give_the_reference_draw(tail: Tail, continuation: int) -> None:
    """The words just at, below and above a boundary, where a float that is off by a little decides wrongly."""
    rng = np.random.default_rng(8)
    scales, words = [], []
    for s in SCALES:
        for z in np.concatenate([[0.0], rng.exponential(1.0, size=40)]):
            v = boundary(tail, s, int(z * float(s)), 1)
            reach = int(v * 2.0**-52)  # about what a float can tell apart
            for offset in {-2, -1, 0, 1, 2, -reach, reach, -reach // 2, reach // 2}:
                if 0 < v + offset < 1 << 63:
                    words.append((v + offset) << 1 | int(rng.integers(2)))
                    scales.append(s)
    check(tail, scales, words, continuation)


@TAILS
def test_refinement_follows_the_bits_as_deep_as_needed(tail: Tail) -> None:
    """Bits that agree with a boundary for four words, then fall on one side of it."""
    for s in SCALES:
        for k in (0, 1, int(s), 2 * int(s) + 5):
            b = boundary(tail, s, k, DEEP)
            for side, expected in ((1, k), (-1, k + 1)):
                position = b + side
                digits = [(position >> (64 * i)) & ONES for i in range(DEEP - 2, -1, -1)]
                script = Script([], iter([*digits, 0]))
                for sign in (0, 1):
                    script.later, script.used = iter([*digits, 0]), 0
                    word = position >> (64 * (DEEP - 1)) << 1 | sign
                    assert refine(tail, s, word, script) == (-expected if sign else expected)
                    assert script.used >= DEEP - 2


@TAILS
def test_the_deepest_tail_is_finite(tail: Tail) -> None:
    """A word of no bits is followed into the tail; the largest one is zero."""
    for s in SCALES:
        for word in (0, 1):
            draw = rounded(tail, float(s), 1, Script([word], repeat(12345)))
            assert is_correct(tail, s, int(draw[0]), word, 12345)
            assert abs(int(draw[0])) >= 9 * s - 1
    assert rounded(tail, 1, 2, Script([ONES, ONES - 1], repeat(0))).tolist() == [0, 0]


@TAILS
def test_a_source_of_zeros_is_noticed(tail: Tail) -> None:
    with pytest.raises(PrivacyError, match="entropy source is broken"):
        rounded(tail, 2**40, 1, Script([0], repeat(0)))


@TAILS
def test_the_farthest_draw_fits_in_52_bits(tail: Tail) -> None:
    words = [0] * (rounding_module.MOST_WORDS - 3)
    draw = refine(tail, Fraction(2**40), 1, Script([], iter([*words, ONES, 5])))
    assert -(2**52) < draw < -(2**45)


@SAMPLERS
def test_each_row_has_its_own_scale(sampler: Callable[..., NDArray[np.int64]]) -> None:
    rng = np.random.default_rng(9)
    cells, scales = 7001, [0.5, 1000.0, 3.0, 2.0**38, 77.25, 12.0]
    words = rng.integers(0, ONES, size=(len(scales), cells), dtype=np.uint64)
    one = [sampler(s, cells, _entropy=Script(row.tolist(), repeat(3))) for s, row in zip(scales, words, strict=True)]

    class Measurements(Script):
        """Blocks of words are told from single ones by their count."""

        def words(self, count: int) -> NDArray[np.uint64]:
            if count == 1:
                return np.array([3], dtype=np.uint64)
            return super().words(count)

    assert words.size > BLOCK
    for given in (np.array(scales), scales, np.array(scales)[:, None]):
        shape = (len(scales), 1, cells) if np.ndim(given) == 2 else (len(scales), cells)  # type: ignore[arg-type]
        batch = sampler(given, shape, _entropy=Measurements(words.ravel().tolist(), repeat(3)))
        assert batch.dtype == np.int64
        assert batch.shape == shape
        assert np.array_equal(batch.reshape(len(scales), cells), np.stack(one))


def test_integers_and_floats_are_taken_exactly() -> None:
    """At the boundary of 3.3 the next float decides otherwise."""
    one, other = 3.3, float(np.nextafter(3.3, 4))
    k = 10
    low, high = sorted(boundary(NORMAL, Fraction(s), k, DEEP) for s in (one, other))
    position = (low + high) // 2
    digits = [(position >> (64 * i)) & ONES for i in range(DEEP - 2, -1, -1)]
    word = position >> (64 * (DEEP - 1)) << 1
    draws = [int(rounded_normal(s, 1, _entropy=Script([word], iter(digits)))[0]) for s in (one, other)]
    assert sorted(draws) == [k, k + 1]
    assert draws[0] == int(rounded_normal([one], 1, _entropy=Script([word], iter(digits)))[0])
    for same in (5, 5.0, np.int64(5), np.float32(5), np.array([5], dtype=np.int32)):
        assert int(rounded_normal(same, 1, _entropy=Script([word], iter(digits)))[0]) == int(
            rounded_normal(5, 1, _entropy=Script([word], iter(digits)))[0]
        )


@SAMPLERS
def test_nearly_all_draws_are_decided_by_floats(
    sampler: Callable[..., NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    refined = []

    def counted(*arguments: object) -> int:
        refined.append(arguments)
        return 0

    monkeypatch.setattr(rounding_module, "refine", counted)
    sampler(2**25, 1 << 20)
    assert len(refined) < 60  # expected: 8 from the tail, fewer than 1 from the bound


@SAMPLERS
@pytest.mark.parametrize(
    "scale",
    [
        *(0, 0.0, 0.49, -1, -1000.0, 1e-11, float("nan"), float("inf"), -float("inf"), 2**41, 2.0**40 + 1, 2**70),
        *(Fraction(1, 3), Fraction(5), True, "3", None, 3j, np.longdouble(3)),
        *([2, float("nan")], [Fraction(1), float("nan")], [Fraction(1), "x"], [[1], [1, 2]], np.array([3.0, 0.0])),
    ],
)
def test_a_scale_that_means_nothing_is_refused(sampler: Callable[..., NDArray[np.int64]], scale: object) -> None:
    """A scale that is tiny, negative, infinite or NaN is refused: it never means no noise."""
    with pytest.raises(PrivacyError, match=r"scale.*give an int"):
        sampler(scale, 2)


@SAMPLERS
@pytest.mark.parametrize(("scale", "size"), [([1, 2], 3), ([1, 2], ()), ([[1, 2]], (2, 1)), ([1, 2, 3], (2, 3))])
def test_scales_must_match_the_leading_axes(
    sampler: Callable[..., NDArray[np.int64]], scale: object, size: object
) -> None:
    with pytest.raises(PrivacyError, match="leading axes"):
        sampler(scale, size)


@SAMPLERS
def test_shapes(sampler: Callable[..., NDArray[np.int64]]) -> None:
    for size, shape in ((0, (0,)), ((), ()), ((2, 0, 3), (2, 0, 3)), ([2, 3], (2, 3)), (np.int64(4), (4,))):
        assert sampler(3, size).shape == shape
    assert sampler(np.ones(0), (0, 5)).shape == (0, 5)
    for size in (-1, (2, -1), 2.5, "ab", None):
        with pytest.raises(PrivacyError, match="size"):
            sampler(3, size)


@SAMPLERS
def test_no_seed_can_be_given(sampler: Callable[..., NDArray[np.int64]]) -> None:
    assert list(inspect.signature(sampler).parameters) == ["scale", "size", "_entropy"]
    assert list(inspect.signature(SystemEntropy).parameters) == []


def test_every_word_is_fresh_and_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def urandom(count: int) -> bytes:
        asked.append(count)
        return b"\x35" * count

    monkeypatch.setattr("os.urandom", urandom)
    draws = rounded_normal(3, 2 * BLOCK + 5)
    assert asked == [8 * BLOCK, 8 * BLOCK, 40]
    assert np.all(draws == draws[0])


def test_a_source_that_returns_too_little_is_refused() -> None:
    class Short:
        answer: NDArray[Any] = np.zeros(1, np.uint64)

        def words(self, count: int) -> NDArray[np.uint64]:
            return self.answer

    for Short.answer in (np.zeros(1, np.uint64), np.zeros(5, np.int64)):
        with pytest.raises(PrivacyError, match="entropy source"):
            rounded_normal(3, 5, _entropy=Short())


@pytest.mark.parametrize("pmf", [rounded_normal_pmf, rounded_laplace_pmf])
def test_the_pmf_is_accurate_symmetric_and_sums_to_one(pmf: Callable[..., arb]) -> None:
    total = sum((pmf(Fraction(7, 10), k) for k in range(-60, 61)), arb(0))
    assert abs(total - 1) < 1e-12
    for scale, k in ((2**40, 0), (2**40, 2**45), (0.5, 40), (0.5, 500), (2**40, 1000 * 2**40)):
        assert pmf(scale, k).rel_accuracy_bits() >= 64
        assert pmf(scale, k).overlaps(pmf(scale, -k))
    with pytest.raises(PrivacyError, match="scale"):
        pmf([1, 2], 0)
