"""Negative cells raised by mass of their own: against the histogram written out, and what it spares in rounds."""

import numpy as np
import pytest

from residua.linalg.lattice import all_sets, closure, layout_of
from residua.projection.alternating import nearest
from residua.projection.arrangement import Arrangement, repair_of
from residua.projection.local import Residuals
from tests.laws.test_projection_solvers import families

TOTAL = 70.0


def tables_of(histogram, lattice):
    axes = range(histogram.ndim)
    return {
        members: histogram.sum(axis=tuple(i for i in axes if i not in members))
        for members in (tuple(lattice.members(number)) for number in range(len(lattice)))
    }


def centred(table):
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def flat(tables, layout, lattice):
    found = np.zeros(layout.cells)
    for number in range(len(lattice)):
        if layout.starts[number] >= 0:
            table = tables[tuple(lattice.members(number))]
            found[layout.starts[number] : layout.starts[number] + table.size] = table.ravel()
    return found


@pytest.mark.parametrize("name", ["pairs of four", "a triple and pairs", "one axis"])
@pytest.mark.parametrize("keeps", [False, True])
def test_what_is_mixed_in_is_the_histogram_of_what_cells_lack(name, keeps):
    lattice, sizes = families()[name]
    sizes = np.sort(sizes)  # as the arrangement numbers them
    arrangement = Arrangement(lattice, sizes)
    random = np.random.default_rng(5)
    histogram = random.dirichlet(np.full(sizes.prod(), 0.3)).reshape(sizes) * TOTAL
    tables = tables_of(histogram, lattice)
    noise = {
        members: (40.0 if name == "one axis" else 4.0) * centred(random.standard_normal(t.shape))
        for members, t in tables.items()
    }
    wanted = {m: centred(tables[m]) + (0.0 if keeps and m == (0,) else noise[m]) for m in tables}
    wanted[()] = np.asarray(TOTAL)
    top, low = (flat(wanted, layout, lattice) for layout in (arrangement.top, arrangement.low))
    least = np.full(len(lattice), 0.01)
    fixed = {0: tables[0,] / TOTAL} if keeps else {}
    found = repair_of(arrangement, top, low, least, fixed, lambda work: [work(part) for part in arrangement.parts])

    def cells(members):  # of the tables that residuals amount to
        table = np.zeros([int(sizes[i]) for i in members])
        for subset, residual in wanted.items():
            if set(subset) <= set(members):
                wide = [int(sizes[i]) if i in subset else 1 for i in members]
                spread = np.prod([float(sizes[i]) for i in members if i not in subset])
                table = table + residual.reshape(wide) / spread
        return table

    margins = [np.maximum(cells((i,)), 0.0) for i in range(len(sizes))]
    whole = np.zeros(sizes)
    for number in np.flatnonzero(lattice.is_maximal):
        members = tuple(lattice.members(int(number)))
        lacking = np.maximum(least[number] - cells(members), 0.0)
        part = lacking.reshape([int(sizes[i]) if i in members else 1 for i in range(len(sizes))])
        for i, margin in enumerate(margins):
            if i not in members:
                part = part * (margin / margin.sum()).reshape([-1 if j == i else 1 for j in range(len(sizes))])
        whole += part
    mass = whole.sum()
    assert mass > 0
    if not keeps:
        assert found.share == pytest.approx(mass / (mass + TOTAL), rel=1e-6)
        expected = {m: centred(t) for m, t in tables_of(whole / mass, lattice).items()}
        np.testing.assert_allclose(found.top, flat(expected, arrangement.top, lattice), atol=1e-12)
        np.testing.assert_allclose(found.low, flat(expected, arrangement.low, lattice), atol=1e-12)
    for layout, mixed, before in ((arrangement.top, found.top, top), (arrangement.low, found.low, low)):
        after = (1.0 - found.share) * before + found.share * TOTAL * mixed
        for number in np.flatnonzero(layout.starts >= 0):
            members, start = tuple(lattice.members(int(number))), layout.starts[number]
            shape = [int(sizes[i]) for i in members]
            wanted[members] = after[start : start + int(np.prod(shape))].reshape(shape)
    for number in range(len(lattice)):
        assert cells(tuple(lattice.members(number))).min() >= 0.0
    assert float(cells(())) == pytest.approx(TOTAL, rel=1e-12)
    if keeps:
        np.testing.assert_allclose(cells((0,)), tables[0,], rtol=1e-9)


def test_the_last_negative_cells_do_not_hold_up_what_is_proven():
    """Sparse tables of six attributes: raising all cells evenly took 225 rounds at this tolerance, this takes 75."""
    lattice, sizes = closure([all_sets(6, 3)], 6), np.array([40, 30, 20, 8, 4, 2])
    layout = layout_of(lattice, sizes)
    random = np.random.default_rng(0)
    records = np.array([np.minimum(random.geometric(0.4, 2000) - 1, n - 1) for n in sizes])
    noisy = np.zeros(layout.cells)
    for group in layout:
        for number, members in zip(group.numbers.tolist(), group.members.tolist(), strict=True):
            counted = np.zeros(group.shape)
            np.add.at(counted, tuple(records[i] for i in members), 1.0)
            start = layout.starts[number]
            noisy[start : start + counted.size] = centred(counted).ravel()
    noisy += 5.0 * random.standard_normal(len(noisy))
    weights = np.ones(len(lattice))
    form = Residuals, Arrangement(lattice, sizes)
    found = nearest(*form, noisy, weights, fixed={(): np.asarray(2000.0)}, tolerance=1e-3, rounds=5000)
    assert found.converged
    assert found.infeasibility == 0.0
    assert found.gap <= 1e-3 * found.distance
    assert found.rounds <= 125
