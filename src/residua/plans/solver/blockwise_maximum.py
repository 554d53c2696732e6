"""The least largest variance of blockwise plans: nature weighs queries as well as cells.

For weights w on queries, summing to 1, and q on cells, the best blockwise plan in a given split has the weighted loss
`(Σ_b tr (M_b^½ G_b^½)^½)²` (`blockwise.py`), G_b being linear in w and M_b in q; its root is a sum of fidelities, which
are jointly concave. So weights that grow where queries are worse, and cells more expensive, than others climb to the
best proof, and every round's value bounds the largest variance of every plan with that split. The split moves first,
with the weights; then it is held, so that one bound is about one class of plans.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.levels import AttributeLevels, in_coordinates, table_for
from residua.plans.solver.blockwise import BlockwiseTotal, Progress, Solved, work_of
from residua.plans.solver.cell_weights import Apart, Together
from residua.plans.solver.orbits import Orbits, Term

_MOVING, _HELD, _FEWEST = 40, 400, 40  # rounds in which the split moves, and with the split held: most, fewest
_MOST_WORK = 1e11  # operations of the rounds with the split held, about
_GROWTH, _SMALLEST_GROWTH = 1.0, 0.05  # exponents of the weights on queries and cells
_CAUTION, _COURAGE = 0.8, 1.05  # what they are multiplied by where the largest variance rises, and where it falls
_LEAST_WEIGHT = 1e-7  # of a query, relative to the mean


class BlockwiseMaximum(BlockwiseTotal):
    """The search.

    Args:
        axes: the levels of each attribute.
        found: the kinds of terms, with their rows over the roots of the wanted variances, and of blocks.
    """

    def __init__(self, axes: Sequence[AttributeLevels], found: Orbits) -> None:
        super().__init__(axes, found)
        self.queries = [self._rows(term) for term, _ in found.terms]
        self.alike = [alike_rows(term, axes) for term, _ in found.terms]
        total = sum(count * len(rows) for rows, (_, count) in zip(self.queries, found.terms, strict=True))
        self.weights = [np.full(len(rows), 1.0 / total) for rows in self.queries]

    def _rows(self, term: Term) -> Floats:
        """A term's queries, its blocks in the order of `self.terms`."""
        assert term.rows is not None
        return in_coordinates(self.axes, term.table, term.rows)[:, self._order(term)]

    def solve(self, tolerance: float, limit: int, progress: Progress | None = None) -> Solved:
        """Rounds with a moving split, then with the best split held until the gap is proven."""
        table = table_for(self.axes, list(self.orbits.kinds))
        self.cells = Apart(self.orbits) if table is None else Together(table, self.orbits)
        self.growth, self.step, self.power = _GROWTH, 1.0, _GROWTH
        self.cells.begin(self.states)
        best = self._rounds(min(limit, _MOVING), tolerance, progress, 0, tilt=True)
        self.growth, self.power = _GROWTH, _GROWTH
        affordable = int(_MOST_WORK / sum(work_of(state) for state in self.states))
        held = max(_FEWEST, min(_HELD, affordable))
        return self._rounds(held, tolerance, progress, best[0], tilt=False)[1]

    def _rounds(
        self, limit: int, tolerance: float, progress: Progress | None, done: int, *, tilt: bool
    ) -> tuple[int, Solved]:
        """Rounds, ending at the state whose largest variance is the least; and how many there were."""
        price, before, bound, best, number = 1.0, np.inf, 0.0, None, 0
        for number in range(limit):
            for k, (rows, w) in enumerate(zip(self.queries, self.weights, strict=True)):
                (listed, spans, _), count = self.terms[k]
                self.terms[k] = (listed, spans, (rows * w[:, None]).T @ rows), count
            self._sweep(price, tilt=tilt and number >= self.cells.patience)
            made = self._shared_out()
            price = made.loss
            variances = self._variances()
            worst = max(float(v.max()) for v in variances)
            bound = made.bound if tilt else max(bound, made.bound)  # of this split, or of the one that is held
            if best is None or worst < best[0].loss:
                kept = self.weights, self.cells.kept(), [state.kept() for state in self.states]
                best = Solved(made.rows, made.missing, worst, bound), kept
            factor = _CAUTION if worst > before else _COURAGE
            self.power = min(max(self.power * factor, _SMALLEST_GROWTH), _GROWTH)
            self.growth = min(max(self.growth * factor, _SMALLEST_GROWTH), _GROWTH)
            before = worst
            gap = best[0].loss / bound - 1.0
            if progress:
                progress(done + number + 1, gap)
            if not tilt and gap < tolerance:
                break
            self._reweigh(variances, worst)
            self.cells.reweigh(self.states, self.growth)
        assert best is not None
        solved, (self.weights, cells, states) = best
        self.cells.restore(cells)
        for state, held in zip(self.states, states, strict=True):
            state.restore(held)
        return done + number + 1, Solved(solved.rows, solved.missing, solved.loss, solved.bound if tilt else bound)

    def _variances(self) -> list[Floats]:
        """The variance of every query of each kind of term."""
        found = []
        for rows, ((listed, _, _), _) in zip(self.queries, self.terms, strict=True):
            found.append(np.einsum("ij,jk,ik->i", rows, self._covariance(listed), rows, optimize=True))
        return found

    def _reweigh(self, variances: Sequence[Floats], worst: float) -> None:
        """Larger where queries are worse, alike for queries that are alike."""
        grown = []
        for v, w, alike in zip(variances, self.weights, self.alike, strict=True):
            mean = np.bincount(alike, w * np.maximum(v / worst, 0.0) ** self.power) / np.bincount(alike)
            grown.append(mean[alike])
        counts = [count for _, count in self.orbits.terms]
        number = sum(count * len(w) for count, w in zip(counts, grown, strict=True))
        for _ in range(2):  # summing to 1, none below the least
            total = sum(count * float(w.sum()) for count, w in zip(counts, grown, strict=True))
            grown = [np.maximum(w / total, _LEAST_WEIGHT / number) for w in grown]
        total = sum(count * float(w.sum()) for count, w in zip(counts, grown, strict=True))
        self.weights = [w / total for w in grown]


def alike_rows(term: Term, axes: Sequence[AttributeLevels]) -> Integers:
    """A number for each query of a term, the same for those that attributes changing places turn into each other."""
    assert term.rows is not None
    found = np.arange(len(term.rows))
    positions = term.positions(axes)
    swaps = [
        swapped for b, a in enumerate(positions) if a != b and (swapped := term.swapped_rows(axes, a, b)) is not None
    ]
    while True:
        least = found
        for swapped in swaps:
            least = np.minimum(least, least[swapped])
        if np.array_equal(least, found):
            return np.unique(found, return_inverse=True)[1]
        found = least
