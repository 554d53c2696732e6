"""How far estimates stray: normal ones, and sums of Laplace variables, whose tail bounds are never too small.

Sums of Laplace variables, by tilted Fourier inversion: let `X = Σ_k a_k L_k`, L_k independent standard Laplace, with
moment generating function `M(z) = Π 1/(1 − a_k² z²)`. For `0 < θ < 1/max a` the function `g(x) = e^(θx) P(X > x)` is
positive and has the Fourier transform `M(θ + it)/(θ + it)`, so by Poisson's formula

    (h/2π) Σ_j e^(−iqhj) M(θ + ihj)/(θ + ihj)  =  Σ_k g(q + 2πk/h)  ≥  g(q):

the trapezoid rule can only overstate the tail, and does so by little when `2π/h` is large. What is cut off beyond
`T = hJ` is at most `(ln 2/π) |M(θ + iT)|` where `T max a ≥ 2`, because `|M(θ + it)|` falls at least like
`2T²/(T² + t²)`; it is added. θ is the point of Chernoff's bound, so all errors are relative to the tail itself, however
small. Where so many points would be needed that it is not worth it (one coefficient far above the rest, tiny
tails), Chernoff's bound `P(X > q) ≤ e^(−θq) M(θ)` is used instead: it is valid too, and wider.

Where sums are too many to be looked at one by one, two bounds need no more than the largest share r of one term in the
variance. A Laplace variable is normal with a random variance, an exponential one, so `X = σ √R Z` with
`E e^(sR) ≤ (1 − s r)^(−1/r)`, and `log 2Φ̄(t/√R)` is concave in R: a tangent of slope s at any point gives
`P(|X| > tσ) ≤ 2Φ̄(t/√R₀) e^(−s R₀) (1 − s r)^(−1/r)` (`mixed_reach`). And where one term a L has most of the variance,
`P(|a L + Y| > q) ≤ e^(−q/a) E cosh(Y/a)`, whatever Y (`ruled_reach`).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from residua.errors import PlanError, named
from residua.linalg.arrays import Floats
from residua.linalg.lattice import batches

_ALIASING = 9.0  # e^−9 of the tail is what the trapezoid rule may overstate it by
_CUT = 1e-5  # of Chernoff's bound is what may be cut off (and is added)
_MOST_POINTS = 2048
_MOST_INVERTED = 64  # sums whose own distribution is computed
_BINS = 2.0**-8  # logarithms of terms, rounded up to whole bins: at most 0.4 % wider
_BATCH = 2**22
_LEAST_SHARE = 2.0**-20
_SAFETY = 1.0 + 1e-9  # for the rounding of sums and products


def width(confidence: float, together: float = 1) -> float:
    """How many standard deviations either side of an estimate the truth lies within, with this confidence.

    For `together` numbers at once the chance that all intervals hold is at least `confidence`, whatever their
    correlations.

    Guarantee: exact for one normal estimate; for several, at least the confidence stated.

    Reference: Šidák (1967), for centred normal vectors: `P(all |X_i| ≤ c_i) ≥ Π P(|X_i| ≤ c_i)`.

    Example:
        >>> round(width(0.95), 4), round(width(0.95, together=10), 4)
        (1.96, 2.7996)
    """
    check_confidence(confidence)
    # 1 − confidence^(1/m), without losing digits when m is large.
    miss = -math.expm1(math.log(confidence) / together)
    return -NormalDist().inv_cdf(miss / 2)


def check_confidence(confidence: float) -> None:
    """Refuses what is no probability.

    Raises:
        PlanError: it is not between 0 and 1.
    """
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise PlanError(f"confidence={named(confidence)} is not a probability between 0 and 1, such as 0.95.")


def reaches(scales: Floats, miss: float, counts: Floats | None = None) -> Floats:
    """For every row, a q with `P(|Σ_k a_k L_k| > q) ≤ miss`, (rows,); 0 for a row of zeros.

    Guarantee: at least the true quantile; within about 0.1 % of it, unless Chernoff's bound had to stand in.

    Args:
        scales: a, not negative, (rows, terms).
        miss: the two-sided probability, between 0 and 1.
        counts: how often each term occurs, (terms,); once if left out.

    Example:
        >>> float(reaches(np.array([[1.0, 0.0]]), 0.05)[0]) / -math.log(0.05)
        1.0...
    """
    counts = np.ones(scales.shape[1]) if counts is None else counts
    quantiles = np.zeros(len(scales))
    top = (scales * (counts > 0)).max(axis=1, initial=0.0)
    rows = np.flatnonzero(top > 0)
    for some in batches(len(rows), 64 * scales.shape[1], _BATCH):
        part = rows[some]
        quantiles[part] = top[part] * _reaches(scales[part] / top[part, None], counts, miss)
    return quantiles


def single_reach(scale: float, miss: float) -> float:
    """The least whole k with `P(|round(s L)| > k) ≤ miss`: `P(|round(s L)| > k) = e^(−(k + 1/2)/s)`, exactly.

    Example:
        >>> single_reach(10.0, 0.05)
        30.0
    """
    return float(max(math.ceil(-scale * math.log(miss) * (1 + 1e-15) - 0.5), 0))


def mixed_reach(shares: Floats, miss: float) -> Floats:
    """For every sum of Laplace variables, how many standard deviations it strays with chance `miss` at most, (sums,).

    Args:
        shares: at least the largest share of one term in the variance, up to 1, (sums,).
        miss: the two-sided probability.

    Example:
        >>> mixed_reach(np.array([1e-6, 0.1, 1.0]), 0.05).round(2).tolist()
        [1.96, 2.07, 2.69]
    """
    steps = np.ceil(np.log2(np.clip(shares, _LEAST_SHARE, 1.0)) * 4).astype(np.int64)  # rounded up: four per octave
    distinct, place = np.unique(steps, return_inverse=True)
    return np.array([_mixed(2.0 ** (step / 4), miss) for step in distinct.tolist()])[place]


def _mixed(share: float, miss: float) -> float:
    from scipy.special import log_ndtr

    y = np.exp(np.linspace(math.log(0.02), math.log(60.0), 2000))  # t/√R₀: any of them gives a bound
    tail = log_ndtr(-y)
    hazard = np.exp(-0.5 * y**2 - 0.5 * math.log(2 * math.pi) - tail)
    low, high = 0.0, 2.0 * math.log(2 / miss) + 2.0
    for _ in range(50):
        t = (low + high) / 2
        s = y**3 * hazard / (2 * t * t)
        with np.errstate(invalid="ignore", divide="ignore"):
            bound = math.log(2) + tail - s * (t / y) ** 2 - np.log1p(-s * share) / share
        fits = float(np.min(bound[s * share < 1.0], initial=math.inf)) <= math.log(miss)
        low, high = (low, t) if fits else (t, high)
    return high * _SAFETY


def ruled_reach(shares: Floats, miss: float) -> Floats:
    """The same where these are the shares of one term, and it rules: infinite unless they are above one half."""
    ruling = np.clip(shares, 0.5 + 1e-9, 1.0)
    quantiles = np.sqrt(ruling / 2) * (-math.log(miss) - np.log1p(-(1.0 - ruling) / ruling)) * _SAFETY
    return np.where(shares > 0.5, quantiles, np.inf)


def known_reaches(roots: Floats, miss: float) -> Floats:
    """How far sums of Laplace variables stray, in standard deviations, (sums,).

    Of few sums by their own distribution, of many by their largest term.

    Args:
        roots: of the variances of the terms of each, (terms, sums).
        miss: how often they may stray further.
    """
    if roots.shape[1] <= _MOST_INVERTED:
        return np.array([_reach(each, miss) for each in roots.T])
    squares = roots**2
    total = squares.sum(axis=0)
    share = np.where(total > 0, squares.max(axis=0) / np.where(total > 0, total, 1.0), 0.0)
    return np.where(total > 0, np.minimum(mixed_reach(share, miss), ruled_reach(share, miss)), 0.0)


def _reach(roots: Floats, miss: float) -> float:
    """How far a sum of Laplace variables strays, in standard deviations, from the roots of its terms' variances."""
    stddev = float(np.linalg.norm(roots))
    if stddev == 0.0 or not math.isfinite(stddev):
        return 0.0
    terms = np.abs(roots) / (stddev * math.sqrt(2.0))
    terms = np.maximum(terms[terms > 0], 1e-9)  # rounded up: fewer bins
    bins, counts = np.unique(np.ceil(np.log(terms) / _BINS), return_counts=True)
    return float(reaches(np.exp(bins * _BINS)[None, :], miss, counts.astype(np.float64))[0])


def _reaches(a: Floats, counts: Floats, miss: float) -> Floats:
    """The same for rows whose largest entry is 1."""
    theta = _tilt(a, counts, math.log(2 / miss))
    cumulant = -(counts * np.log1p(-((a * theta[:, None]) ** 2))).sum(axis=1)
    chernoff = (cumulant + math.log(2 / miss)) / theta
    alone = ((a > 0) * counts).sum(axis=1) == 1
    chernoff[alone] = -math.log(miss)  # one term: P(|L| > q) = e^−q
    # g(q − 2π/h) ≤ e^(θ(q − 2π/h)) beside g(q) = e^(θq) miss/2, and g(q + 2π/h) falls like e^((θ − 1) 2π/h).
    h = 2 * math.pi * np.minimum(theta / (_ALIASING + math.log(2 / miss)), np.maximum(1 - theta, 1e-3) / _ALIASING)
    points = _points(a, counts, theta, h)
    quantiles = np.minimum(chernoff, _without_the_largest(a, counts, miss))
    quantiles[alone] = chernoff[alone]
    for count in (16, 64, 256, 1024, _MOST_POINTS):
        rows = np.flatnonzero((points <= count) & (points > count // 4 * (count > 16)) & ~alone)
        for some in batches(len(rows), count * a.shape[1], _BATCH):
            part = rows[some]
            inverted = _inverted(a[part], counts, theta[part], cumulant[part], h[part], count, chernoff[part], miss)
            quantiles[part] = np.minimum(quantiles[part], inverted)
    return np.asarray(quantiles * _SAFETY)


def _without_the_largest(a: Floats, counts: Floats, miss: float) -> Floats:
    """A bound for rows that one term rules: it strays with 99 % of the chance, the rest together with 1 %."""
    rest = a * (a < 1)
    several = ((a == 1) * counts).sum(axis=1) != 1
    top = rest.max(axis=1)
    unit = rest / np.where(top > 0, top, 1.0)[:, None]
    level = math.log(2 / (0.01 * miss))
    theta = _tilt(unit, counts, level)
    cumulant = -(counts * np.log1p(-((unit * theta[:, None]) ** 2))).sum(axis=1)
    bound = -math.log(0.99 * miss) + top * (cumulant + level) / np.maximum(theta, 1e-300)
    return np.where(several, np.inf, bound)


def _tilt(a: Floats, counts: Floats, level: float) -> Floats:
    """θ with `θ K'(θ) − K(θ) = level`, K the logarithm of M: where Chernoff's bound is e^−level, by bisection."""
    low, high = np.zeros(len(a)), np.ones(len(a))
    for _ in range(40):
        middle = (low + high) / 2
        squares = (a * middle[:, None]) ** 2
        value = (counts * (2 * squares / (1 - squares) + np.log1p(-squares))).sum(axis=1)
        low, high = np.where(value < level, middle, low), np.where(value < level, high, middle)
    return np.asarray(low)


def _points(a: Floats, counts: Floats, theta: Floats, h: Floats) -> Floats:
    """How many steps until what is cut off is small, by doubling."""
    needed = np.full(len(a), np.inf)
    for count in (16, 64, 256, 1024, _MOST_POINTS):
        T = h * count
        at = np.abs(1 - (a * (theta + 1j * T)[:, None]) ** 2)
        log = (counts * (np.log1p(-((a * theta[:, None]) ** 2)) - np.log(at))).sum(axis=1)
        enough = (log < math.log(_CUT)) & (T >= 2)
        needed = np.where(enough & np.isinf(needed), count, needed)
    return needed


def _inverted(
    a: Floats, counts: Floats, theta: Floats, cumulant: Floats, h: Floats, count: int, most: Floats, miss: float
) -> Floats:
    """The least q, by bisection, at which the overstated tail is `miss/2`."""
    t = h[:, None] * np.arange(count + 1)
    z = theta[:, None] + 1j * t
    if (counts == 1).all():
        squares = a * a
        ratio = np.ones(z.shape, dtype=complex)
        for k in range(a.shape[1]):
            ratio *= (1 - squares[:, k] * theta**2)[:, None] / (1 - squares[:, k, None] * z * z)
    else:
        logs = np.zeros(z.shape, dtype=complex)
        for k in np.flatnonzero(counts > 0).tolist():
            square = a[:, k, None] ** 2
            logs += counts[k] * (np.log1p(-square * theta[:, None] ** 2) - np.log(1 - square * z * z))
        ratio = np.exp(logs)
    terms = ratio / z * (h / math.pi)[:, None]
    terms[:, 0] /= 2
    cut = math.log(2) / math.pi * np.abs(ratio[:, -1])
    low, high = np.zeros(len(a)), most.copy()
    for _ in range(40):
        q = (low + high) / 2
        wave = (terms * np.exp(-1j * q[:, None] * t)).real.sum(axis=1)
        tail = np.exp(cumulant - theta * q) * (wave + cut)
        fits = tail * _SAFETY <= miss / 2
        low, high = np.where(fits, low, q), np.where(fits, q, high)
    return np.asarray(high)
