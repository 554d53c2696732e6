"""Random product plans, whoever would plan so, and the same as dense matrices over all cells."""

from functools import reduce

import numpy as np

import residua as rs
from residua.plan.product.plan import ProductPlan
from residua.plan.product.strategy import Strategy
from residua.workload import as_products


def random_strategy(rng, size, *, full=False):
    """Plain, of full rank, or (unless full) seeing only a part of the attribute."""
    if size < 2 or rng.integers(3) == 0:
        return Strategy(size)
    count = size - 1 if full or rng.integers(3) else int(rng.integers(1, size))
    while True:
        rows = rng.integers(-200, 201, (count, size))
        if np.linalg.matrix_rank(np.vstack([np.ones(size), rows])) == count + 1:
            return Strategy(size, rows)


def random_plan(seed, *, full=False, domain=None, strategies=None):
    """A plan over a few small attributes; some sets may not be measured unless it is full."""
    rng = np.random.default_rng(seed)
    if domain is None:
        sizes = rng.integers(1, 5, int(rng.integers(1, 4)))
        domain = rs.Domain.of_sizes({f"a{i}": int(n) for i, n in enumerate(sizes)})
    ways = range(int(rng.integers(1, len(domain) + 1)) + 1)
    workload = as_products(rs.marginals(domain, ways=list(ways)))
    strategies = strategies or tuple(random_strategy(rng, int(n), full=full) for n in domain.sizes)
    precisions = rng.uniform(0.1, 2.0, len(workload.lattice))
    if not full:
        precisions[1:] *= rng.integers(4, size=len(precisions) - 1) > 0
    plan = ProductPlan(domain, workload.lattice, precisions, strategies, None, workload=workload)
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
    blocks = (
        tau * block_matrix(plan, members).T @ block_matrix(plan, members)
        for members, tau in zip(plan.lattice, plan.precisions, strict=True)
    )
    return sum(blocks, np.zeros((cells, cells)))
