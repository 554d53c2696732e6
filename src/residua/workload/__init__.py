"""What is asked: workloads of queries over a domain."""

from residua.workload.asking import attribute_queries, range_ends, rows_of_body
from residua.workload.attribute_queries import KINDS, AttributeQueries, MatrixRows
from residua.workload.nested import Identity
from residua.workload.ordered import applied
from residua.workload.selecting import Where, coefficients, selected
from residua.workload.single import explicit, queries
from residua.workload.tables import AskedRows, hierarchy, marginals, prefixes, product, ranges
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
