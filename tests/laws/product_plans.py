"""Random workloads of products, random plans, whoever would plan so, and the same as dense matrices over all cells."""

from functools import reduce

import numpy as np
from hypothesis import HealthCheck, Phase, assume, settings, strategies as st

import residua as rs
from residua.plans.product.plan import ProductPlan
from residua.plans.strategy import Plain, Rows

KINDS = ("identity", "prefixes", "ranges", "matrix")
# Shrinking would plan thousands of times; a workload of a few cells is small enough to read as it is.
PHASES = [Phase.explicit, Phase.generate]
SETTINGS = settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=PHASES)


def random_strategy(rng, size, *, full=False):
    """Plain, of full rank, or (unless full) seeing only a part of the attribute."""
    if size < 2 or rng.integers(3) == 0:
        return Plain(size)
    count = size - 1 if full or rng.integers(3) else int(rng.integers(1, size))
    while True:
        rows = rng.integers(-200, 201, (count, size))
        if np.linalg.matrix_rank(np.vstack([np.ones(size), rows])) == count + 1:
            return Rows(size, rows)


def random_plan(seed, *, full=False, domain=None, strategies=None):
    """A plan over a few small attributes; some sets may not be measured unless it is full."""
    rng = np.random.default_rng(seed)
    if domain is None:
        sizes = rng.integers(1, 5, int(rng.integers(1, 4)))
        domain = rs.Domain.of_sizes({f"a{i}": int(n) for i, n in enumerate(sizes)})
    ways = range(int(rng.integers(1, len(domain) + 1)) + 1)
    workload = rs.marginals(domain, ways=list(ways))
    strategies = strategies or tuple(random_strategy(rng, int(n), full=full) for n in domain.sizes)
    precisions = rng.uniform(0.1, 2.0, len(workload.lattice))
    if not full:
        precisions[1:] *= rng.integers(4, size=len(precisions) - 1) > 0
    plan = ProductPlan(domain, workload.lattice, precisions, workload=workload, strategies=strategies)
    return plan.replaced(guarantee=rs.ZCDP.of_pcost(plan.pcost * (1 + 1e-6)))


def block_matrix(plan, members, *, scaled=True):
    """`⊗_{i∈S} R_i ⊗_{i∉S} 1ᵀ` over all cells of the domain, R divided by its unit if scaled."""
    factors = []
    for i, strategy in enumerate(plan.strategies):
        R = strategy.matrix / (strategy.unit if scaled else 1)
        factors.append(R if i in members else np.ones((1, strategy.size)))
    return reduce(np.kron, factors)


def gamma(plan):
    """The plan's privacy cost matrix."""
    cells = int(np.prod(plan.domain.sizes))
    measurements = (
        tau * block_matrix(plan, members).T @ block_matrix(plan, members)
        for members, tau in zip(plan.lattice, plan.precisions, strict=True)
    )
    return sum(measurements, np.zeros((cells, cells)))


def all_cells(workload) -> np.ndarray:
    return workload.listed().over(tuple(range(len(workload.domain)))).toarray()


def dense_variances(plan, W) -> np.ndarray:
    inverse = np.linalg.pinv(gamma(plan), rcond=1e-11, hermitian=True)
    return np.einsum("ij,jk,ik->i", W, inverse, W)


@st.composite
def asked(draw, domain):
    """A kind of query, or a small matrix, for every attribute."""
    found = {}
    for name in domain.names:
        kind = draw(st.sampled_from(KINDS))
        n = domain[name].size
        if kind == "matrix":
            rows = draw(st.lists(st.lists(st.integers(-1, 2), min_size=n, max_size=n), min_size=1, max_size=3))
            assume(all(any(row) for row in rows))
            kind = np.array(rows, dtype=float)
        found[name] = kind
    return found


@st.composite
def workloads(draw):
    """One or two families, so that an attribute may be asked in two ways."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda s: 1 < np.prod(s) <= 48))
    domain = rs.Domain.of_sizes(sizes)
    total = None
    for _ in range(draw(st.integers(1, 2))):
        ways = draw(st.sets(st.integers(0, len(sizes)), min_size=1, max_size=3).filter(lambda w: w != {0}))
        term = rs.product(domain, draw(asked(domain)), ways=sorted(ways), weight=draw(st.floats(0.1, 10.0)))
        total = term if total is None else total + term
    assume(total.with_rows)
    return total
