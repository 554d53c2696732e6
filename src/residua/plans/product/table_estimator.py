"""What noisy tables say: every marginal of the family, consistent, pooled from all that were measured.

A table A measured with variance v_A per cell says of residual S ⊆ A, through its margin on S, with precision
`(1/v_A) Π_{i∈A∖S} 1/n_i`. So `P_S = Σ_{A⊇S} (1/v_A) Π_{i∈A∖S} 1/n_i · margin_S(y_A)` over `τ_S`, the same sum without
the margins, has the pooled residual as its centred part: least squares, because residuals are orthogonal. The sum
over all supersets is one pass per attribute: `P_{A∖i} += (Σ_i P_A)/n_i`.

Which noise is in an answer: a linear combination of cells is `Σ_S ⟨q_S, r̂_S⟩` over residuals, with
`q_S = Σ_A C_S margin_S(c_A)/Π_{i∈A∖S} n_i`, and `r̂_S = C_S P_S/τ_S`. So a measured cell of table B has the coefficient
`(1/v_B) Σ_{S⊆B} q_S/τ_S · Π_{i∈B∖S} 1/n_i` at its own place. Only `D = B ∩ ∪A` matters: cells of B that agree on D have
the same coefficient, and tables with the same D differ by the factor `Π_{i∈B∖D} 1/n_i / v_B`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from residua.language import say_many
from residua.linalg.arrays import Array, Floats, Integers, Positions, centred
from residua.linalg.lattice import Group, Layout, Set, SetFamily, batches, closure, layout_of, subsets
from residua.plans.estimator import Answerable, Combination, combined
from residua.plans.product.set_estimator import FamilyEstimator, Reconstruction
from residua.plans.product.table_measurements import TableMeasurements
from residua.plans.tails import reaches, single_reach
from residua.workload import Workload

Numbers = Positions
_BATCH_CELLS = 1_000_000


def pooled_residuals(tables: TableMeasurements, noisy: Array) -> Reconstruction:
    """What all measured tables together say of every residual."""
    layout = layout_of(tables.lattice, tables.sizes)
    buffer = np.zeros(layout.cells)
    weights = _weights(tables)
    for group in tables.layout:
        target = layout.starts[group.numbers][:, None] + np.arange(group.cells)
        buffer[target] = group.rows(noisy) * weights[group.numbers, None]
    owner = {int(number): group for group in layout for number in group.numbers}
    for i, (with_i, without_i) in enumerate(tables.lattice.covers):
        for group, rows in _by_group(with_i, owner):
            _pass_down(layout, buffer, group, with_i[rows], without_i[rows], i)
    tau = tables.pooled_precisions
    known = np.flatnonzero(tau > 0)
    return Reconstruction(tables.lattice, tables.sizes, known, tau[known], layout, buffer)


def _weights(tables: TableMeasurements) -> Floats:
    """What a step of each set's integers counts in the pool: `t/v`, 0 where it is not measured, (sets,)."""
    return tables.cell_precisions / np.maximum(tables.on_lattice[0], 1)


def pooled_below(tables: TableMeasurements, noisy: Array) -> tuple[Layout, Floats]:
    """What all measured tables together say of the residuals that lie below others, some tables at a time.

    The largest residuals, most cells of all, are said by one table alone and left out: so memory stays small.
    """
    lattice, (grids, scales) = tables.lattice, tables.on_lattice
    layout = layout_of(lattice, tables.sizes, ~lattice.is_maximal)
    total = np.zeros(layout.cells)
    for group in tables.layout:
        for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
            family, chosen = closure([group.members[part]], lattice.attributes), group.numbers[part]
            some = TableMeasurements(
                family, tables.sizes, family.find(group.members[part]), grids[chosen], scales[chosen]
            )
            first = group.start + part.start * group.cells
            own = pooled_residuals(some, noisy[first : first + len(chosen) * group.cells])
            numbers = np.concatenate([lattice.find(level) for level in family.levels])
            for piece in own.layout:
                starts = layout.starts[numbers[piece.numbers]]
                below = np.flatnonzero(starts >= 0)
                total[starts[below, None] + np.arange(piece.cells)] += piece.rows(own.noisy)[below]
    return layout, total


def _by_group(numbers: Numbers, owner: dict[int, Group]) -> list[tuple[Group, Integers]]:
    """Sets by the group their tables are in."""
    by_group: dict[int, tuple[Group, list[int]]] = {}
    for row, number in enumerate(numbers.tolist()):
        group = owner[number]
        by_group.setdefault(group.start, (group, []))[1].append(row)
    return [(group, np.array(rows)) for group, rows in by_group.values()]


def _pass_down(layout: Layout, buffer: Floats, group: Group, above: Numbers, below: Numbers, i: int) -> None:
    """`P_{A∖i} += (Σ_i P_A)/n_i` for sets A of one shape."""
    rows = np.searchsorted(group.numbers, above)
    axes = (group.members[rows] == i).argmax(axis=1)
    for axis in np.unique(axes):
        chosen = np.flatnonzero(axes == axis)
        n = group.shape[axis]
        for part in batches(len(chosen), group.cells, _BATCH_CELLS):
            at = chosen[part]
            tables = group.view(buffer)[rows[at]].sum(axis=int(axis) + 1).reshape(len(at), -1) / n
            # For a fixed attribute the map A → A∖{i} is one-to-one, so no target is met twice.
            buffer[layout.starts[below[at]][:, None] + np.arange(group.cells // n)] += tables


Terms = tuple[Floats, Floats, Floats]
_MOST_JOINT = 2**18  # cells of the joint table of a combination's sets
_STEP = 1e-4  # coefficients this close, relatively, are one; the larger stands for both


def noise_terms(tables: TableMeasurements, combination: Mapping[Set, Floats]) -> list[Terms]:
    """Coefficients, noise scales and multiplicities of the noise in a combination of cells; 0s are left out.

    One triple; or one for each set, to be bounded apart, where their joint table would be too large. Coefficients that
    nearly agree are merged and rounded up: a sum of symmetric unimodal variables only strays further for it.
    """
    union = {i for members in combination for i in members}
    if len(combination) > 1 and math.prod(int(tables.sizes[i]) for i in union) > _MOST_JOINT:
        return [_terms(tables, {members: given}) for members, given in combination.items()]
    return [_terms(tables, combination)]


def _terms(tables: TableMeasurements, combination: Mapping[Set, Floats]) -> Terms:
    sizes = tables.sizes.astype(np.float64)
    residuals: dict[Set, Floats] = {}
    for asked, given in combination.items():
        for members, part in _residuals(tables, asked, given):
            residuals[members] = residuals.get(members, 0.0) + part
    union = sorted({i for members in residuals for i in members})
    inside, outside = _tables(tables, union)
    terms: list[tuple[Floats, Floats, Floats]] = []
    for code in np.unique(inside):
        here = np.flatnonzero(inside == code)
        D = tuple(i for bit, i in enumerate(union) if code >> bit & 1)
        values, counts = _distinct(np.abs(_spread(residuals, D, sizes)).ravel())
        kept = values > 0
        if not kept.any():
            continue
        values, counts = values[kept], counts[kept]
        weight = tables.cell_precisions[tables.measured[here]] / tables.grids[here] / outside[here]
        scales = np.repeat(tables.scales[here], len(values))
        both = [np.multiply.outer(*each).ravel() for each in ((weight, values), (outside[here], counts))]
        terms.append((both[0], scales, both[1]))
    return _merged(*(np.concatenate(part) for part in zip(*terms, strict=True)))


def _residuals(tables: TableMeasurements, members: Set, given: Floats) -> Iterator[tuple[Set, Floats]]:
    """`C_S margin_S(c)/Π_{i∈A∖S} n_i/τ_S` for every S ⊆ A, where the residual is not empty."""
    for S in subsets(members):
        number = tables.lattice.number(S)
        tau = float(tables.pooled_precisions[number]) if number >= 0 else 0.0
        if tau > 0:  # else a residual that is empty, or that the combination has no part in
            yield S, centred(given.mean(axis=tuple(j for j, i in enumerate(members) if i not in S))) / tau


def _tables(tables: TableMeasurements, union: list[int]) -> tuple[Integers, Floats]:
    """For each measured table, which attributes of the union it has (as bits), and `Π n_i` of its others."""
    inside, outside = [], []
    bit = np.zeros(len(tables.sizes), dtype=np.int64)
    bit[union] = 2 ** np.arange(len(union), dtype=np.int64)
    sizes = np.where(bit > 0, 1.0, tables.sizes)
    for level in tables.lattice.levels:
        inside.append(bit[level].sum(axis=1))
        outside.append(sizes[level].prod(axis=1))
    return np.concatenate(inside)[tables.measured], np.concatenate(outside)[tables.measured]


def _spread(residuals: Mapping[Set, Floats], D: Set, sizes: Floats) -> Floats:
    """`Σ_{S⊆D} q_S/τ_S Π_{i∈D∖S} 1/n_i`, over the cells of D."""
    total = np.zeros([int(sizes[i]) for i in D])
    for S, part in residuals.items():
        if set(S) <= set(D):
            wide = [int(sizes[i]) if i in S else 1 for i in D]
            total = total + np.reshape(part, wide) / math.prod(sizes[i] for i in D if i not in S)
    return np.asarray(total)


def _distinct(values: Floats) -> tuple[Floats, Floats]:
    """Distinct values, equal up to rounding, and how often each occurs."""
    top = float(values.max(initial=0.0))
    if top == 0:
        return np.zeros(1), np.array([float(len(values))])
    keys = np.where(values > 1e-13 * top, values, 0.0)
    return _grouped(keys, np.ones(len(keys)))


def _merged(coefficients: Floats, scales: Floats, counts: Floats) -> Terms:
    """Terms whose `coefficient · scale` nearly agree as one, the largest standing for all."""
    if len(coefficients) < 64:
        return coefficients, scales, counts
    sizes, merged = _grouped(coefficients * scales, counts)
    # Only the product and, for the rounding, coefficients matter: the smallest scale overstates the latter.
    least = float(scales.min())
    return sizes / least, np.full(len(sizes), least), merged


def _grouped(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    positive = values > 0
    keys = np.zeros(len(values))
    keys[positive] = np.ceil(np.log(values[positive]) / _STEP)
    _, inverse = np.unique(np.where(positive, keys, -np.inf), return_inverse=True)
    top = np.zeros(int(inverse.max()) + 1)
    np.maximum.at(top, inverse, values)
    return top, np.bincount(inverse, weights=counts).astype(np.float64)


class TablesEstimator(FamilyEstimator):
    """Estimates pooled from noisy tables.

    Guarantee: all tables agree.
    """

    measurements: TableMeasurements

    @cached_property
    def reconstruction(self) -> Reconstruction:
        """From what all tables together say of every residual."""
        return pooled_residuals(self.measurements, self.noisy)

    @cached_property
    def below(self) -> tuple[Layout, Floats]:
        """What all tables together say of the residuals that lie below others."""
        return pooled_below(self.measurements, self.noisy)

    def part(self, family: SetFamily) -> Reconstruction:
        """Pooled residuals of a smaller family; the largest are read off the measurements, each from its own table."""
        tables, weights = self.measurements, _weights(self.measurements)
        below, pooled = self.below
        numbers = np.concatenate([tables.lattice.find(level) for level in family.levels])
        layout = layout_of(family, tables.sizes)
        buffer = np.zeros(layout.cells)
        for group in layout:
            own, view = numbers[group.numbers], group.rows(buffer)
            cells = np.arange(group.cells)
            lower, alone = (np.where(own >= 0, each.starts[own], -1) for each in (below, tables.layout))
            here, top = np.flatnonzero(lower >= 0), np.flatnonzero((lower < 0) & (alone >= 0))
            view[here] = pooled[lower[here, None] + cells]
            view[top] = self.noisy[alone[top, None] + cells] * weights[own[top], None]
        tau = np.where(numbers >= 0, tables.pooled_precisions[numbers], 0.0)
        known = np.flatnonzero(tau > 0)
        return Reconstruction(family, tables.sizes, known, tau[known], layout, buffer)

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        asked = 0 if self.plan.workload is None else len(self.plan.workload)
        read = say_many(
            "1 marginal over {attributes} attributes, {cells} noisy integers in all.",
            "{n} marginals over {attributes} attributes, {cells} noisy integers in all.",
            len(self.measurements.measured), attributes=len(self.plan.domain), cells=len(self.noisy),
        )  # fmt: skip
        wanted = say_many("1 table was asked for.", "{n} tables were asked for.", asked)
        return f"{read} {wanted}" if asked else read

    def _reaches(self, asked: Answerable, miss: float) -> float | Floats:
        """From the coefficient of every measured cell in an answer."""
        if isinstance(asked, tuple):
            return self._cell_width(asked, miss)
        if not isinstance(asked, Workload):
            return self._width(asked, miss)
        if asked.plain:
            return np.repeat([self._cell_width(names, miss) for names in asked.sets], asked.cells.astype(np.int64))
        listed = asked.listed()
        rows = (listed.matrix[[i]].toarray().reshape(listed.shape) for i in range(listed.queries))
        return np.array([self._width({listed.names: row}, miss) for row in rows])

    def _cell_width(self, names: Sequence[str], miss: float) -> float:
        """The same for every cell of a marginal: it looks the same from each."""
        cell = np.zeros([int(self.plan.domain[name].size) for name in names])
        cell.flat[0] = 1.0
        return self._width({tuple(names): cell}, miss)

    def _width(self, combination: Combination, miss: float) -> float:
        stddev = math.sqrt(self.plan.combination_variance(combination))
        if stddev == 0:
            return 0.0
        # Several sets whose joint table is large: their reaches add up, each with its part of the chance.
        parts = noise_terms(self.measurements, combined(self.plan.domain, combination))
        return sum(_reach(terms, miss / len(parts)) for terms in parts) / stddev


def _reach(terms: tuple[Floats, Floats, Floats], miss: float) -> float:
    """How far a sum of rounded Laplace noise strays: coefficient, scale and multiplicity of its terms."""
    coefficients, scales, counts = terms
    if counts.sum() == 1:
        return float(coefficients[0]) * single_reach(float(scales[0]), miss)
    rounding = float((coefficients * counts).sum()) / 2
    return float(reaches((coefficients * scales)[None, :], miss, counts)[0]) + rounding
