"""Residual plans as dense matrices over all cells of a small domain: the brute force our closed forms must equal.

Nothing here uses residua's formulas: only the definition `Γ = Σ_S τ_S Q_Sᵀ C_S Q_S` (measuring the centred marginal
`C_S Q_S x` with noise of variance 1/τ_S), ordinary Kronecker products, and pseudo-inverses.
"""

from functools import reduce
from itertools import combinations

import cvxpy as cp
import numpy as np


def kron(factors) -> np.ndarray:
    return reduce(np.kron, factors, np.ones((1, 1)))


def marginal_matrix(sizes, members) -> np.ndarray:
    """Q_A: cells of the marginal, row by row in the domain's order, from all cells of the table."""
    return kron(np.eye(n) if i in members else np.ones((1, n)) for i, n in enumerate(sizes))


def centring(sizes, members) -> np.ndarray:
    return kron(np.eye(n) - np.ones((n, n)) / n for i, n in enumerate(sizes) if i in members)


def gamma_of(sizes, sets, precisions) -> np.ndarray:
    cells = int(np.prod(sizes))
    gamma = np.zeros((cells, cells))
    for members, tau in zip(sets, precisions, strict=True):
        Q = marginal_matrix(sizes, members)
        gamma += tau * Q.T @ centring(sizes, members) @ Q
    return gamma


def gamma(plan) -> np.ndarray:
    """Γ of a residual plan."""
    return gamma_of(plan.domain.sizes.tolist(), list(plan.lattice), plan.precisions)


def covariance(gamma_matrix, first, second=None) -> np.ndarray | None:
    """`W₁ Γ⁺ W₂ᵀ`, or None when some query is outside the row space of Γ."""
    second = first if second is None else second
    inverse = np.linalg.pinv(gamma_matrix, rcond=1e-10, hermitian=True)
    for W in (first, second):
        if not np.allclose(W @ inverse @ gamma_matrix, W, atol=1e-7):
            return None
    return first @ inverse @ second.T


def is_psd(matrix, scale=1.0) -> bool:
    return bool(np.linalg.eigvalsh((matrix + matrix.T) / 2).min() >= -1e-9 * scale)


def replacement(gamma_matrix) -> float:
    """The largest `(e_i − e_j)ᵀ Γ (e_i − e_j)` over all pairs of cells."""
    diagonal = np.diag(gamma_matrix)
    return float((diagonal[:, None] + diagonal[None, :] - 2 * gamma_matrix).max())


def all_subsets(members):
    return [subset for k in range(len(members) + 1) for subset in combinations(members, k)]


def closure_of(sets) -> list[tuple[int, ...]]:
    """All subsets of these sets, by size and then lexicographically."""
    return sorted({subset for members in sets for subset in all_subsets(sorted(members))}, key=lambda s: (len(s), s))


# ---- planning, given to a general convex solver


def variance_matrix(sizes, sets, asked) -> np.ndarray:
    """Cell variance of each asked marginal for unit noise on each residual alone, from Q⁺: no closed form of ours."""
    rows = np.zeros((len(asked), len(sets)))
    for j, members in enumerate(sets):
        Q = marginal_matrix(sizes, members)
        cells = Q.shape[1] / Q.shape[0]
        # The residual's best estimate is Qᵀ C y / (cells behind each marginal cell), with covariance Qᵀ C Q / cells².
        noise = Q.T @ centring(sizes, members) @ Q / cells**2
        for i, wanted in enumerate(asked):
            W = marginal_matrix(sizes, wanted)
            rows[i, j] = (W @ noise @ W.T)[0, 0]
    return rows


def cost_vector(sizes, sets) -> np.ndarray:
    return np.array([gamma_of(sizes, [members], [1.0]).diagonal().max() for members in sets])


def optimum(workload, loss, pcost=1.0) -> float:
    """The least `loss(variances)` at this privacy cost, by CVXPY."""
    sizes, sets = workload.domain.sizes.tolist(), list(workload.lattice)
    M, kappa = variance_matrix(sizes, sets, asked_of(workload)), cost_vector(sizes, sets)
    used = kappa > 1e-12
    noise = cp.Variable(int(used.sum()), pos=True)
    cost = cp.sum(cp.multiply(kappa[used], cp.inv_pos(noise)))
    problem = cp.Problem(cp.Minimize(loss(M[:, used] @ noise)), [cost <= pcost])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal", problem.status
    return float(problem.value)


def asked_of(workload) -> list[tuple[int, ...]]:
    return [workload.lattice.members(int(number)) for number in workload.numbers]


def recreate(target, target_covariance, parts) -> list[np.ndarray]:
    """The matrices A_i with which `Σ A_i M_i(x)` is the target's answer: `A_i = Σ^½ (BᵀΣ^-½)⁺ B_iᵀ Σ_i⁻¹`.

    Of parts, query matrix and covariance each, whose privacy cost matrices sum to the target's (common-mechanism,
    Algorithm 4). Where the target's rows are dependent it is made consistent.
    """
    values, vectors = np.linalg.eigh(target_covariance)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    back = root @ np.linalg.pinv((inverse @ target).T, rcond=1e-10)
    return [back @ np.linalg.solve(covariance, rows).T for rows, covariance in parts]
