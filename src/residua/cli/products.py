"""What the command says of a product plan: every term's expected error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from residua.cli.show import ROWS_SHOWN, out, plain_table
from residua.plan.product.plan import ProductPlan
from residua.workload import Identity, Products

_MOST_LISTED = 2**24  # queries: beyond, the largest variance of a term is not sought


def term_name(workload: Products, term: Any) -> str:
    """A term in words, such as `age: prefixes × sex`."""
    names = workload.domain.names
    parts = [names[i] if isinstance(asked, Identity) else f"{names[i]}: {asked.kind}" for i, asked in term]
    return " × ".join(parts) or "(total)"
