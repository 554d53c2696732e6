"""Next to the pipeline: what people use today and what papers compare with, norms and bounds of a workload."""

from residua.analysis.baselines import (
    Comparison as Comparison,
    baselines,
    compare,
    haar,
    hierarchical,
    kronecker_template,
    marginal_template,
    on_cells,
    regularised,
)
from residua.analysis.choosing import choice_probabilities, counts_between, thresholds
from residua.analysis.norms import factorisation_norm, least_sensitivity, singular_value_bound
from residua.plans.matrix.algebra import derivation

__all__ = [
    "Comparison",
    "baselines",
    "choice_probabilities",
    "compare",
    "counts_between",
    "derivation",
    "factorisation_norm",
    "haar",
    "hierarchical",
    "kronecker_template",
    "least_sensitivity",
    "marginal_template",
    "on_cells",
    "regularised",
    "singular_value_bound",
    "thresholds",
]
