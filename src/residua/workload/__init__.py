"""What is asked: workloads of queries over a domain."""

from residua.workload.asking import attribute_queries, range_ends
from residua.workload.attribute_queries import AttributeQueries, Identity, MatrixRows
from residua.workload.explicit import Explicit, explicit, explicit_of_marginals
from residua.workload.joint import Joint, added, parts_of, queries_in, tables_in
from residua.workload.marginals import Marginals, marginals, renumber
from residua.workload.ordered import applied
from residua.workload.predicates import queries
from residua.workload.products import (
    Asked,
    Family,
    Products,
    as_explicit,
    as_products,
    explicit_of_products,
    hierarchy,
    prefixes,
    product,
    ranges,
    term_title,
    titled,
)
from residua.workload.selecting import Where, coefficients, selected

__all__ = [
    "Asked",
    "AttributeQueries",
    "Explicit",
    "Family",
    "Identity",
    "Joint",
    "Marginals",
    "MatrixRows",
    "Products",
    "Where",
    "added",
    "applied",
    "as_explicit",
    "as_products",
    "attribute_queries",
    "coefficients",
    "explicit",
    "explicit_of_marginals",
    "explicit_of_products",
    "hierarchy",
    "marginals",
    "parts_of",
    "prefixes",
    "product",
    "queries",
    "queries_in",
    "range_ends",
    "ranges",
    "renumber",
    "selected",
    "tables_in",
    "term_title",
    "titled",
]
