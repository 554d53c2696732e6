"""What is asked: workloads of queries over a domain."""

from residua.workload.asking import MatrixRows, attribute_queries
from residua.workload.pieces import Family, Term, applied, renumber, term_title, titled
from residua.workload.plain_conditions import plain_condition
from residua.workload.rows import KINDS, AttributeQueries, Identity
from residua.workload.selecting import Where, coefficients, selected
from residua.workload.single import explicit, queries
from residua.workload.tables import AskedRows, hierarchy, marginals, prefixes, product, ranges
from residua.workload.workload import Workload, added, on_one_lattice

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
    "marginals",
    "on_one_lattice",
    "plain_condition",
    "prefixes",
    "product",
    "queries",
    "ranges",
    "renumber",
    "selected",
    "term_title",
    "titled",
]
