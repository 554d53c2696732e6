"""Plans over one attribute with nested levels, of millions of values, crossed with short attributes."""

from residua.plans.tree.plan import TreePlan

__all__ = ["TreePlan"]
