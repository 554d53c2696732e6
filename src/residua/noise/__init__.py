"""Exact integer noise from the operating system's entropy: rounded normal and rounded Laplace."""

from residua.noise.samplers import Entropy, SystemEntropy, rounded_laplace, rounded_normal

__all__ = ["Entropy", "SystemEntropy", "rounded_laplace", "rounded_normal"]
