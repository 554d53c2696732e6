"""Names and options of version 0.1.0 still work, each with a warning that says what to write now."""

import numpy as np
import pytest

import residua as rs

DOMAIN = rs.Domain.of_sizes({"a": 4, "b": 3})
TABLES = rs.marginals(DOMAIN, ways=[1, 2])
PLAN = rs.plan(TABLES, rs.ZCDP(0.5))


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
    ],
)
def test_an_old_name_does_what_the_new_one_does(old, new, advice):
    with pytest.warns(DeprecationWarning, match=advice):
        found = old()
    np.testing.assert_array_equal(found, new())


def test_options_that_are_not_known_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'limits'"):
        rs.plan(TABLES, rs.ZCDP(0.5), limits=3)
