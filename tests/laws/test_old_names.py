"""Names and options of version 0.1.0 still work, each with a warning that says what to write now."""

import numpy as np
import pytest

import residua as rs

DOMAIN = rs.Domain.of_sizes({"a": 4, "b": 3})
TABLES = rs.marginals(DOMAIN, ways=[1, 2])
PLAN = rs.plan(TABLES, rs.ZCDP(0.5))
QUERIES = rs.explicit(DOMAIN, np.tril(np.ones((4, 4))), attributes=["a"])


@pytest.mark.parametrize(
    ("old", "new", "advice"),
    [
        (lambda: PLAN.answers(PLAN), lambda: PLAN.can_answer(PLAN), "can_answer"),
        (lambda: PLAN.marginal_variances(TABLES), lambda: PLAN.variances(TABLES, per="term"), 'per="term"'),
        (lambda: PLAN.term_variances(TABLES), lambda: PLAN.variances(TABLES, per="term"), 'per="term"'),
        (lambda: PLAN.query_variance({"a": 0}), lambda: PLAN.variance({"a": 0}), "variance"),
        (
            lambda: PLAN.query_covariance({"a": 0}, {"b": 0}),
            lambda: PLAN.covariance({"a": 0}, {"b": 0}),
            "covariance",
        ),
        (
            lambda: PLAN.cell_covariance({"a": 0}, {"a": 1}),
            lambda: PLAN.covariance({"a": 0}, {"a": 1}),
            "covariance",
        ),
        (
            lambda: rs.plan(TABLES, rs.ZCDP(0.5), limit=5).pcost,
            lambda: rs.plan(TABLES, rs.ZCDP(0.5), form=rs.Lattice(limit=5)).pcost,
            "rs.Lattice",
        ),
        (
            lambda: rs.plan(TABLES, rs.ZCDP(0.5), like=PLAN).pcost,
            lambda: rs.plan(TABLES, rs.ZCDP(0.5), form=rs.Lattice(like=PLAN)).pcost,
            "rs.Lattice",
        ),
        (
            lambda: rs.plan(QUERIES, targets=1.0, refined=True).pcost,
            lambda: rs.plan(QUERIES, targets=1.0, form=rs.Matrix(refined=True)).pcost,
            "rs.Matrix",
        ),
        (
            lambda: rs.plan(TABLES, rs.PureDP, targets=9.0).epsilon,
            lambda: rs.plan(TABLES, noise="laplace", targets=9.0).epsilon,
            "laplace",
        ),
    ],
)
def test_an_old_name_does_what_the_new_one_does(old, new, advice):
    with pytest.warns(DeprecationWarning, match=advice):
        found = old()
    np.testing.assert_array_equal(found, new())


def test_options_of_two_forms_and_of_none_are_refused():
    with pytest.raises(rs.ResiduaError, match="give one form"):
        rs.plan(TABLES, rs.ZCDP(0.5), bias=0.1, like=PLAN)
    with pytest.raises(rs.ResiduaError, match="a part of form"):
        rs.plan(TABLES, rs.ZCDP(0.5), form=rs.Lattice(), limit=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'limits'"):
        rs.plan(TABLES, rs.ZCDP(0.5), limits=3)
