"""What is asked: workloads of queries over a domain."""

from residua.workload.asking import MatrixRows as MatrixRows, attribute_queries as attribute_queries
from residua.workload.pieces import (
    Family as Family,
    Term as Term,
    applied as applied,
    renumber as renumber,
    term_title as term_title,
    titled as titled,
)
from residua.workload.rows import KINDS as KINDS, AttributeQueries as AttributeQueries, Identity as Identity
from residua.workload.selecting import (
    Where as Where,
    coefficients as coefficients,
    plain_condition as plain_condition,
    selected as selected,
)
from residua.workload.single import explicit as explicit, queries as queries
from residua.workload.tables import (
    AskedRows as AskedRows,
    hierarchy as hierarchy,
    marginals as marginals,
    prefixes as prefixes,
    product as product,
    ranges as ranges,
)
from residua.workload.workload import Workload as Workload, added as added, on_one_lattice as on_one_lattice
