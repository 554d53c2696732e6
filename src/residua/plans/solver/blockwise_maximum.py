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
from residua.plans.saddle import Answer, Progress, ascend, simplices
from residua.plans.solver.blockwise import BlockwiseTotal, CellWeights, Solved, work_of
from residua.plans.solver.orbits import GramTerm, Orbits

_MOVING, _HELD, _FEWEST = 40, 400, 40  # rounds in which the split moves, and with the split held: most, fewest
_MOST_WORK = 1e11  # operations of the rounds with the split held, about
_LEAST_WEIGHT = 1e-7  # relative to the mean


class BlockwiseMaximum(BlockwiseTotal):
    """The search.

    Args:
        axes: the levels of each attribute.
        found: the kinds of terms, with their rows over the roots of the wanted variances, and of blocks.
    """

    most_growth, least_growth = 1.0, 0.05
    caution, courage = 0.8, 1.05
    far = np.inf

    def __init__(self, axes: Sequence[AttributeLevels], found: Orbits) -> None:
        super().__init__(axes, found)
        self.queries = [self._rows(term) for term, _ in found.terms]
        sizes = [len(rows) for rows in self.queries]
        self.counts = np.repeat([count for _, count in found.terms], sizes)
        groups = [alike_rows(term, axes) for term, _ in found.terms]
        starts = np.cumsum([0, *(len(np.unique(group)) for group in groups)])
        self.alike = np.concatenate([group + start for group, start in zip(groups, starts[:-1], strict=True)])
        self.cuts = np.cumsum(sizes)[:-1]
        self.shares = self.counts / self.counts.sum()  # of each query and those like it, adding up to 1
        self.variances = np.ones(len(self.shares))

    def _rows(self, term: GramTerm) -> Floats:
        """A term's queries, its blocks in the order of `self.terms`."""
        assert term.rows is not None
        return in_coordinates(self.axes, term.table, term.rows)[:, self._order(term)]

    def solve(self, tolerance: float, limit: int, progress: Progress | None = None) -> Solved:
        """Rounds with a moving split, then with the best split held until the gap is proven."""
        table = table_for(self.axes, list(self.orbits.kinds))
        self._play(CellWeights(self.orbits, table), 0.0, min(limit, _MOVING), progress)
        self._back_to_best()
        self.growth = 0.0  # weights on cells are those that nature plays
        most = max(_FEWEST, min(_HELD, int(_MOST_WORK / sum(work_of(state) for state in self.states))))
        each = [self.cells.weights.ravel()] if table is not None else [state.weights for state in self.states]
        sizes, queries = [len(part) for part in each], len(self.shares)

        def answer(theta: Floats) -> Answer:
            self.shares = theta[:queries]
            if table is None:
                for state, part in zip(self.states, np.split(theta[queries:], np.cumsum(sizes)[:-1]), strict=True):
                    state.weights = part
            else:
                self.cells.weights = theta[queries:].reshape(table.shape)
                self.cells.hand_out(self.states)
            now = self._round(self.price, tilt=False)
            costs = [self.cells.costs.ravel()] if table is not None else [state.costs for state in self.states]
            return Answer(now.bound, now.loss, np.concatenate([self.variances / now.loss, *costs]), now)

        least = _LEAST_WEIGHT / max(queries, *sizes)
        start, normalised = np.concatenate([self.shares, *each]), simplices([queries, *sizes], least)
        best = ascend(answer, start, normalised, tolerance, most, progress=progress)
        return Solved(best.plan.rows, best.plan.missing, best.loss, best.bound)

    def _round(self, price: float, *, tilt: bool) -> Solved:
        """One round, in which the sum of variances is that of nature's weights; its loss is the largest one."""
        weights = np.split(self.shares / self.counts, self.cuts)
        for k, (rows, w) in enumerate(zip(self.queries, weights, strict=True)):
            (listed, spans, _), count = self.terms[k]
            self.terms[k] = (listed, spans, (rows * w[:, None]).T @ rows), count
        now = super()._round(price, tilt=tilt)
        each = np.concatenate(self._variances())
        self.variances = (np.bincount(self.alike, np.maximum(each, 0.0)) / np.bincount(self.alike))[self.alike]
        return Solved(now.rows, now.missing, float(each.max()), now.bound)

    def _follow(self) -> None:
        """Larger where queries are worse, and cells more expensive, than others."""
        grown = self.shares * (self.variances / self.variances.max()) ** self.growth
        self.shares = simplices([len(grown)], _LEAST_WEIGHT / len(grown))(grown)
        super()._follow()

    def _variances(self) -> list[Floats]:
        """The variance of every query of each kind of term."""
        variances = []
        for rows, ((listed, _, _), _) in zip(self.queries, self.terms, strict=True):
            variances.append(np.einsum("ij,jk,ik->i", rows, self._covariance(listed), rows, optimize=True))
        return variances


def alike_rows(term: GramTerm, axes: Sequence[AttributeLevels]) -> Integers:
    """A number for each query of a term, the same for those that attributes changing places turn into each other."""
    assert term.rows is not None
    numbers = np.arange(len(term.rows))
    positions = term.positions(axes)
    swaps = [
        swapped for b, a in enumerate(positions) if a != b and (swapped := term.swapped_rows(axes, a, b)) is not None
    ]
    while True:
        least = numbers
        for swapped in swaps:
            least = np.minimum(least, least[swapped])
        if np.array_equal(least, numbers):
            return np.unique(numbers, return_inverse=True)[1]
        numbers = least
