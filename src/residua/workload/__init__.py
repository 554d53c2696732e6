"""What is asked: workloads of queries over a domain."""

from residua.workload.marginals import Marginals, marginals, renumber

__all__ = ["Marginals", "marginals", "renumber"]
