"""Exact integer noise from the operating system's entropy: rounded normal and rounded Laplace."""

from residua.noise.distribution import rounded_laplace_pmf, rounded_normal_pmf
from residua.noise.entropy import Entropy, SystemEntropy
from residua.noise.laplace import rounded_laplace
from residua.noise.normal import rounded_normal

__all__ = [
    "Entropy",
    "SystemEntropy",
    "rounded_laplace",
    "rounded_laplace_pmf",
    "rounded_normal",
    "rounded_normal_pmf",
]
