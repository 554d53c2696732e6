"""Residual plans: optimal noisy marginals over any number of attributes, from precisions on subsets of attributes."""
