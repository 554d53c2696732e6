"""Noisy tables: marginals measured as they are, with Laplace noise, pooled through a lattice."""
