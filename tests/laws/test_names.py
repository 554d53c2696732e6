"""A name alone where attributes are listed is that attribute, or refused; it is never read letter by letter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import residua as rs
from residua.errors import ResiduaError
from tests.saved import saved

# The letters of the third name are names, too: read letter by letter it would be another table.
DOMAIN = rs.Domain({"a": ["x", "y"], "b": ["u", "v"], "ab": ["p", "q"]})
MARGINALS, QUERIES = rs.marginals(DOMAIN, ways=[0, 1, 2]), rs.queries(DOMAIN, ["a = 'x'", "b = 'u'", "ab = 'p'"])
PLANS = {
    "residual": rs.plan(MARGINALS, rs.ZCDP(0.5)),
    "product": rs.plan(rs.prefixes(DOMAIN, "a", by=["b"]) + rs.prefixes(DOMAIN, "ab"), rs.ZCDP(0.5)),
    "dense": rs.plan(QUERIES, rs.ZCDP(0.5)),
    "pure": rs.plan(QUERIES, rs.PureDP(1.0)),
    "pure marginals": rs.plan(MARGINALS, rs.PureDP(1.0)),
}
OF_PLANS: list[Callable[[Any], object]] = [lambda plan: plan.variance("ab"), lambda plan: plan.supports("ab")]
OF_RELEASES: list[Callable[[Any, Any], object]] = [
    lambda release, names: release.table(names),
    lambda release, names: release.table(names, queries={"ab": "prefixes"}),
    lambda release, names: release.estimates(names),
]
OF_PROJECTIONS = [*OF_RELEASES, lambda projected, names: projected.rounded().table(names)]
OF_WORKLOADS: list[Callable[[], object]] = [
    lambda: rs.marginals(DOMAIN, "ab"),
    lambda: rs.marginals(DOMAIN, ["ab"]),
    lambda: rs.explicit(DOMAIN, np.eye(2), on="ab"),
    lambda: rs.product(DOMAIN, {"a": "prefixes"}, sets="ab"),
    lambda: DOMAIN.cells("ab"),
]


def answer(question: Callable[[Any, Any], object], of: Any, names: Any) -> str:
    """The answer, or the words of the refusal."""
    try:
        return repr(question(of, names))
    except ResiduaError as problem:
        return str(problem)


def release_of(plan: rs.Plan) -> rs.Release:
    measurements = plan.compile()
    return rs.Release(plan, measurements, np.zeros(measurements.cells, dtype=np.int64), {"pcost": 1.0, "epsilon": 1.0})


@pytest.mark.parametrize("kind", PLANS)
def test_a_name_alone_is_itself_or_refused_with_the_remedy(kind: str) -> None:
    plan = PLANS[kind]
    release = release_of(plan)
    projected = rs.project(release)
    for ask in OF_PLANS:
        with pytest.raises(ResiduaError, match=r"'ab' is a name, not a set of attributes; write \('ab',\)"):
            ask(plan)
    for of, questions in ((release, OF_RELEASES), (projected, OF_PROJECTIONS)):
        for answered in questions:
            alone = answer(answered, of, "ab")
            assert alone == answer(answered, of, ("ab",))
            assert alone != answer(answered, of, ("a", "b")) or "cannot be rounded" in alone
    for question in OF_WORKLOADS:
        with pytest.raises(ResiduaError, match=r"is a name|is one name"):
            question()


def test_what_is_no_condition_is_refused_with_the_remedy() -> None:
    for answers in (rs.Release.load(saved() / "residual_release"), rs.Projected.load(saved() / "residual_projection")):
        for where in (["origin"], 3):
            with pytest.raises(ResiduaError, match=r"is not a dictionary; give .*rs\.between"):
                answers.count(where)  # type: ignore[arg-type]
        with pytest.raises(ResiduaError, match="unknown attribute; there are 'age'"):
            answers.count("origin = 'JFK'")
        with pytest.raises(ResiduaError, match="query"):
            answers.count("")
        answers.count("sex = 'F'")
        answers.count()
        answers.count({})
    with pytest.raises(ResiduaError, match=r"combination=.* is not a mapping"):
        rs.Release.load(saved() / "residual_release").combination("total")  # type: ignore[arg-type]
