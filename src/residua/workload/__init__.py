"""What is asked: workloads of queries over a domain."""

from residua.workload.explicit import Explicit, explicit, explicit_of_marginals
from residua.workload.marginals import Marginals, marginals, renumber
from residua.workload.predicates import queries

__all__ = ["Explicit", "Marginals", "explicit", "explicit_of_marginals", "marginals", "queries", "renumber"]
