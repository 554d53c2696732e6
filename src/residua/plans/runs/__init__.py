"""Plans with Laplace noise along one attribute of many ordered values: rows over runs of them."""

from residua.plans.runs.plan import RunsPlan

__all__ = ["RunsPlan"]
