"""What is asked: workloads of queries over a domain."""

from residua.workload.asking import attribute_queries, range_ends, rows_of_body
from residua.workload.attribute_queries import KINDS, AttributeQueries, MatrixRows
from residua.workload.explicit import explicit
from residua.workload.marginals import marginals
from residua.workload.nested import Identity
from residua.workload.ordered import applied
from residua.workload.predicates import queries
from residua.workload.products import AskedRows, hierarchy, prefixes, product, ranges
from residua.workload.selecting import Where, coefficients, selected
from residua.workload.terms import Family, Term, identities, on_one_lattice, renumber, term_title, titled
from residua.workload.workload import Workload, added

__all__ = [
    "KINDS",
    "AskedRows",
    "AttributeQueries",
    "Family",
    "Identity",
    "MatrixRows",
    "Term",
    "Where",
    "Workload",
    "added",
    "applied",
    "attribute_queries",
    "coefficients",
    "explicit",
    "hierarchy",
    "identities",
    "marginals",
    "on_one_lattice",
    "prefixes",
    "product",
    "queries",
    "range_ends",
    "ranges",
    "renumber",
    "rows_of_body",
    "selected",
    "term_title",
    "titled",
]
