"""One law over everything: each plan of the table is what dense matrices say, by `residua.testing.check_plan`."""

from functools import cache

import pytest

from residua.testing import LAWS, Case
from tests.laws.every_plan import NAMES, made


@cache
def case(name):
    return Case(made(name))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("plan", NAMES)
def test_the_law_holds(plan, law):
    LAWS[law](case(plan))
