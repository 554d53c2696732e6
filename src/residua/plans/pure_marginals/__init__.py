"""Marginals with Laplace noise: which tables to measure, how to split epsilon, and one estimate from all of them."""
