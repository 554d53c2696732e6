"""The search for a strategy under Laplace noise: every known one is tried and improved, and the best is kept.

Identity plus a few: every cell, and p more queries with the best coefficients (p-identity, with signs).

`A = [I; Θ] D⁻¹`, Θ of shape (p, n), `D = diag(1 + Σ_k |Θ_k|)`, has sensitivity 1 and full rank whatever Θ is, and
`(AᵀA)⁻¹ = D (I − Θᵀ(I + ΘΘᵀ)⁻¹Θ) D`: one evaluation of the loss and its gradient costs one product of (p, n) by
(n, n). The loss is not convex in Θ. Many starts are descended a little, the better ones further, the best to the end;
all of them are fixed, so that plans repeat, and so many that rounding hardly matters.

On ordered cells good Θ are windows of neighbouring cells, overlapping a little, about √n of them, and on many cells a
few wide ones above them: those are starts, beside random ones.

Reference: McKenna, Miklau, Hay and Machanavajjhala (2018), "Optimizing error of high-dimensional statistical queries",
§5 (OPT_0), where Θ ≥ 0; the derivation here is our own.

Strategies of any rows and signs on few cells, by descents from many starts.

A strategy `A = Z D⁻¹`, D the column sums of |Z|, has sensitivity 1 whatever Z is, and the loss `tr (AᵀA)⁻¹ V`. |z| has
a kink at 0, where good strategies have most of their entries, so that plain descents end anywhere. So |z| is first
`√(z² + w²)`, with w smaller from stage to stage; then entries that are nearly 0 are left out, and the others descend to
the end, where the loss is smooth. All starts are fixed, so that plans repeat. Nothing is proven of the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Booleans, Floats
from residua.plans.saddle import smooth_maximum
from residua.plans.search import strategies

_TALL = 8  # times as many queries as cells: the workload itself is then not worth trying as a strategy
_SMALL = 16  # cells up to which every rotation is descended far
_BRANCHINGS = (2, 4, 8, 16)  # of hierarchies; one with weighted levels is identity plus its nodes
_PROMISING = 4.0  # times the least loss: strategies up to this are worth a search for a better rotation


@dataclass(frozen=True, eq=False)
class Tried:
    """A strategy of sensitivity 1 and its loss (see `Judged`)."""

    name: str
    strategy: Floats
    loss: float


def search(asked: strategies.Judged, workload: Floats, profile: Floats, told: strategies.Told) -> list[Tried]:
    """Every strategy tried, best first, each augmented and rotated.

    Args:
        asked: what they are judged by.
        workload: the queries on the distinct cells, unweighted, (m, n).
        profile: a strategy with the error profile of the L2 optimum, (r, n).
        told: called after every step with a loss that is reached.

    Reference: matrix-mechanism, §5.2 to §5.4 and §6.
    """
    tried: list[Tried] = []
    for name, strategy in _plain(asked, workload, profile, told):
        tried.append(_scaled(asked, name, strategy))
        _improve(asked, tried)
        told(tried[-1].loss)
    return sorted(tried, key=lambda each: each.loss)


def _plain(
    asked: strategies.Judged, workload: Floats, profile: Floats, told: strategies.Told
) -> Iterator[tuple[str, Floats]]:
    n = asked.cells
    yield "identity", np.eye(n)
    plus = identity_plus(asked, told)
    yield "identity plus", plus
    for total in asked.totals(plus) if n in FEW_CELLS else ():
        signed = signed_rows(total, total.loss(plus))
        if signed is not None:
            yield "signed rows", signed
    if len(workload) <= _TALL * n:
        yield "workload", workload
    yield "L2 optimum", profile
    yield "singular values", strategies.singular_values(asked)
    if n > 2:
        yield "wavelet", strategies.haar(n)
        branching = min(_BRANCHINGS, key=lambda b: asked.loss(strategies.hierarchy(n, b)))
        yield f"hierarchy of {branching}", strategies.hierarchy(n, branching)


def _improve(asked: strategies.Judged, tried: list[Tried]) -> None:
    """The last one found, with deficient columns completed and its rows rotated, where that lowers the loss."""
    plain = tried[-1]
    least = min(each.loss for each in tried)
    best = _lower(plain, _scaled(asked, f"{plain.name}, augmented", strategies.augmented(plain.strategy)))
    if np.isfinite(plain.loss) and len(plain.strategy) <= _TALL * asked.cells:
        small = asked.cells <= _SMALL
        rounds = 100 if small else 15 if plain.loss <= _PROMISING * least else 0
        turned = strategies.rotated(plain.strategy, rounds, starts=3 if small else 1)
        if strategies.sensitivity(turned) < strategies.sensitivity(plain.strategy) * (1 - 1e-9):
            best = _lower(best, _scaled(asked, f"{plain.name}, rotated", strategies.augmented(turned)))
    if best is not plain:
        tried.append(best)


def _lower(first: Tried, second: Tried) -> Tried:
    return second if second.loss < first.loss * (1 - 1e-9) else first


def _scaled(asked: strategies.Judged, name: str, strategy: Floats) -> Tried:
    return Tried(name, strategy / strategies.sensitivity(strategy), asked.loss(strategy))


Loss = Callable[[Floats], tuple[float, Floats, Floats]]
_REFUSED = 1e300
_MORE_ACCURATE = 0.02  # of the accuracy: a round may gain little although later ones gain more


def descended(loss: Loss, start: Floats, accuracy: float, rounds: int, largest: float) -> tuple[float, Floats]:
    """The loss after a descent, and where: never above where it started.

    `x = y − z` with y, z ≥ 0 has no kink at 0: at the optimum one of both is 0, and `|x| = y + z`.

    Args:
        loss: x ↦ (value, ∂F/∂x, ∂F/∂|x| ≥ 0); a value that is not positive and finite is refused.
        start: x, (k,).
        accuracy: relative gain per round below which to stop.
        rounds: most rounds.
        largest: no variable may be larger than this.
    """
    k, first = len(start), np.clip(start, -largest, largest)

    def objective(both: Floats) -> tuple[float, Floats]:
        value, slope, toll = loss(both[:k] - both[k:])
        return (value if 0 < value < math.inf else _REFUSED), np.append(toll + slope, toll - slope)

    parts, bounds = np.append(np.maximum(first, 0.0), np.maximum(-first, 0.0)), [(0.0, largest)] * (2 * k)
    options = {"maxiter": rounds, "maxfun": 3 * rounds, "ftol": _MORE_ACCURATE * accuracy, "gtol": 0.0}
    value, both = strategies.lowest(objective, [parts], bounds, **options)
    return value, both[:k] - both[k:]


_SHARPNESS = (6.0, 40.0)  # orders of the norm that stands for a maximum, one after the other
_STAGES = ((40, 1e-5, 6), (150, 1e-6, 2), (400, 1e-7, 1))  # rounds, accuracy, and how many of each kind go on
_FEW, _MORE = 128, (2, 4)  # up to so many cells, so many times as many go on (more where a maximum is made smooth)
_LAST = 1500, 1e-8
_CLOSE = 1.01, 1.05  # times the least loss: up to this goes through the last stage
_MOST_WORK = 5e10  # multiplications spent on one kind of start, or on one descent
_SHARES = (0.4, 0.5, 0.625, 0.75, 0.875, 1.0, 1.25)  # how many windows, as shares of √n
_HEIGHT = 0.45  # of windows at first
_LARGEST = 1e3  # |Θ|: such a cell's own row is all but left out; beyond, rounding would pass for progress


def identity_plus(asked: strategies.Judged, told: strategies.Told | None = None) -> Floats:
    """The best strategy found of identity plus a few queries, (n + p, n), sensitivity 1."""
    kinds = [windows(asked.cells), _random(asked.cells)]
    more = _MORE[asked.worst] if asked.cells <= _FEW else 1
    for rounds, accuracy, kept in _STAGES:
        improved = [_better(asked, starts, rounds, accuracy, told)[: kept * more] for starts in kinds]
        kinds = [[theta for _, theta in each] for each in improved]
    least = min(each[0][0] for each in improved)
    close = [theta for each in improved for loss, theta in each if loss <= _CLOSE[asked.worst] * least]
    if asked.worst and asked.cells <= _FEW:
        close += windows(asked.cells)  # the rough stages may leave a good one behind: they see a smoother maximum
    return strategy_of(_better(asked, close, *_LAST, told, last=True)[0][1])


def strategy_of(theta: Floats) -> Floats:
    """`[I; Θ] D⁻¹`, without rows of Θ that are nothing."""
    sizes = np.abs(theta)
    theta = np.where(sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1.0), theta, 0.0)
    theta = theta[theta.any(axis=1)]
    return np.asarray(np.vstack([np.eye(theta.shape[1]), theta]) / (1.0 + np.abs(theta).sum(axis=0)))


def windows(cells: int) -> list[Floats]:
    """Neighbouring cells in about √n windows, with and without wider ones above; and a coarse tree."""
    counts = sorted({min(max(round(share * math.sqrt(cells)), 1), cells) for share in _SHARES})
    layers = (
        [[k] for k in counts]
        + [[k, k // 4] for k in counts if k >= 4]
        + [[k, k // 4, k // 16] for k in counts if k >= 16]
    )
    layers.append([k for k in strategies.level_counts(cells, 4)[:-1] if k <= max(cells // 8, 1)])
    return [_HEIGHT * np.vstack([strategies.partition(cells, k) for k in each]) for each in layers if each]


def _random(cells: int) -> list[Floats]:
    """Random coefficients for several p, half of them with signs."""
    starts = []
    for seed in range(16 if cells <= 64 else 12):
        rng = np.random.default_rng(seed)
        share = (16, 12, 10, 16, 8, 12)[seed % 6]
        p = max(cells // share, 1) if cells > 16 else max(cells // 4, 1) + seed % 3
        p = min(p, 2 * math.isqrt(cells) + 1)
        starts.append(rng.random((p, cells)) if seed % 4 < 3 else rng.standard_normal((p, cells)))
    return starts


def _better(
    asked: strategies.Judged,
    starts: list[Floats],
    rounds: int,
    accuracy: float,
    told: strategies.Told | None,
    *,
    last: bool = False,
) -> list[tuple[float, Floats]]:
    """What descents from some starts come to, best first; from as many as the work allows."""
    descents: list[tuple[float, Floats]] = []
    done = 0.0
    for theta in starts:
        work = 1.0 * len(theta) * asked.cells**2
        done += work * rounds
        if descents and done > _MOST_WORK and not last:
            break
        descents.append(_improved(asked, theta, min(rounds, max(int(_MOST_WORK / work), 20)), accuracy, last))
        if told:
            told(min(loss for loss, _ in descents))
    return sorted(descents, key=lambda each: each[0])


def _improved(
    asked: strategies.Judged, theta: Floats, rounds: int, accuracy: float, last: bool
) -> tuple[float, Floats]:
    """Descent from one start: the loss (before the last stage as the descent has it), and Θ."""
    shape = theta.shape
    unit = float(np.trace(asked.gram)) if asked.slopes is None else asked.loss(np.eye(asked.cells))
    value = math.inf
    for sharpness in (_SHARPNESS if last else _SHARPNESS[:1]) if asked.worst else (1.0,):

        def objective(x: Floats, sharpness: float = sharpness) -> tuple[float, Floats, Floats]:
            value, slope, toll = _loss(asked, x.reshape(shape), sharpness)
            return value / unit, slope.ravel() / unit, np.broadcast_to(toll / unit, shape).ravel()

        value, x = descended(objective, theta.ravel(), accuracy, rounds, _LARGEST)
        theta = x.reshape(shape)
    return asked.loss(strategy_of(theta)) if last else value * unit, theta


def _loss(asked: strategies.Judged, theta: Floats, sharpness: float) -> tuple[float, Floats, Floats]:
    """The loss of Θ, its derivative in Θ for given D, (p, n), and that in D, (n,). O(p n²)."""
    d = 1.0 + np.abs(theta).sum(axis=0)
    C: Floats = np.asarray(np.linalg.inv(np.eye(len(theta)) + theta @ theta.T), dtype=np.float64)
    if not asked.worst and asked.slopes is None:
        return _total(asked.gram, theta, d, C)
    variances = np.maximum(asked.queries.diagonal(d[:, None] * (np.eye(len(d)) - theta.T @ (C @ theta)) * d), 0.0)
    value, weights = smooth_maximum(variances, sharpness) if asked.slopes is None else asked.slopes(variances)
    return value, *_total(asked.queries.gram(weights), theta, d, C)[1:]


def _total(V: Floats, theta: Floats, d: Floats, C: Floats) -> tuple[float, Floats, Floats]:
    """`tr V (AᵀA)⁻¹` and its derivatives in Θ and D."""
    diagonal = np.diagonal(V)
    G = C @ (((theta * d) @ V) * d)
    inner = (theta * G).sum(axis=0)
    value = float((diagonal * d * d).sum() - inner.sum())
    return value, -2.0 * (G - (G @ theta.T) @ (C @ theta)), 2.0 * (diagonal * d - inner / d)


# ---- signed rows on few cells

FEW_CELLS = range(6, 15)
_MORE_ROWS = (0, 1, 3)  # than cells
_SEEDS, _FIRST, _KEPT = 12, 9, 6
_GAIN = 1e-3  # relative: where the first starts win less, others are not tried
_ROUGH, _FINE = (0.03, 0.01), (0.003, 0.001)  # w, as a share of a column's sum
_ROUNDS = {"rough": 60, "fine": 600, "last": 1000}
_NO_ENTRY = 0.01  # of a column's sum: smaller entries are left out
_RIDGE = 1e-12


def signed_rows(asked: strategies.Judged, least: float) -> Floats | None:
    """The best strategy found, (rows, n), sensitivity 1; None where it is not better than a known loss.

    Args:
        asked: the queries, on few cells, judged by their total.
        least: the loss to beat.
    """
    starts = _starts(asked.cells)
    first = _best_of(asked, starts[:_FIRST], _KEPT // 3)
    if asked.loss(first) > (1 - _GAIN) * least:
        return None
    return min((first, _best_of(asked, starts[_FIRST:], _KEPT)), key=asked.loss)


def _best_of(asked: strategies.Judged, starts: Sequence[Floats], kept: int) -> Floats:
    """The best after rough descents from all starts, and fine ones from the better of them."""
    tried = [_narrowed(asked, start, _ROUGH, _ROUNDS["rough"]) for start in starts]
    return min((_ended(asked, Z) for Z in sorted(tried, key=asked.loss)[:kept]), key=asked.loss)


def _starts(n: int) -> list[Floats]:
    """Random rows, and the cells with a little of everything."""
    starts = []
    for seed in range(_SEEDS):
        for more in _MORE_ROWS:
            noise = np.random.default_rng(1000 * (n + more) + seed).standard_normal((n + more, n))
            starts.append(_of_columns(0.3 * noise + np.eye(n + more, n) if seed % 2 else noise))
    return starts


def _of_columns(Z: Floats) -> Floats:
    return np.asarray(Z / np.abs(Z).sum(axis=0))


def _narrowed(asked: strategies.Judged, Z: Floats, widths: Sequence[float], rounds: int) -> Floats:
    every = np.ones(Z.shape, dtype=bool)
    for width in widths:
        Z = _of_columns(_lowered(asked, Z, every, width, rounds))
    return Z


def _ended(asked: strategies.Judged, Z: Floats) -> Floats:
    """The strategy after the last stages, without entries that are nearly nothing."""
    Z = _narrowed(asked, Z, _FINE, _ROUNDS["fine"])
    kept = np.abs(Z) > _NO_ENTRY
    if np.linalg.matrix_rank(np.where(kept, Z, 0.0)) < Z.shape[1]:
        return Z
    last = _lowered(asked, np.where(kept, Z, 0.0), kept, 0.0, _ROUNDS["last"])
    last = last[np.abs(last).any(axis=1)]
    last = last / strategies.sensitivity(last)
    return min((last, Z), key=asked.loss)


def _lowered(asked: strategies.Judged, Z: Floats, kept: Booleans, width: float, rounds: int) -> Floats:
    """The entries that are kept, after a descent."""
    options = {"maxiter": rounds, "maxcor": 20, "maxfun": 10 * rounds, "ftol": 1e-12, "gtol": 1e-9}
    lower = np.zeros(Z.shape)
    lower[kept] = strategies.lowest(
        _smoothed(asked.gram, kept, width), [Z[kept]], [(None, None)] * int(kept.sum()), **options
    )[1]
    return lower


def _smoothed(V: Floats, kept: Booleans, width: float) -> strategies.Slopes:
    """`log tr (AᵀA)⁻¹ V` and its slopes, for the entries that are kept."""
    ridge = _RIDGE * np.eye(len(V))

    def objective(x: Floats) -> tuple[float, Floats]:
        Z, soft = np.zeros(kept.shape), np.zeros(kept.shape)
        Z[kept] = x
        soft[kept] = np.sqrt(x * x + width * width)
        sums = np.maximum(soft.sum(axis=0), 1e-300)
        A = Z / sums
        inverse = np.linalg.inv(A.T @ A + ridge)
        half = inverse @ V
        value = float(np.trace(half))
        slope = -2.0 * A @ (half @ inverse)
        turn = np.divide(Z, soft, out=np.zeros(kept.shape), where=soft > 0)
        slope = (slope - turn * (slope * A).sum(axis=0)) / sums
        return float(np.log(value)), slope[kept] / value

    return objective
