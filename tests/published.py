"""A small release with all that formats and reports must cope with: codes, languages, hostile labels, negatives."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa

import residua as rs

HOSTILE = "<script>alert(1)</script>"
NAME = 'in"come</title><img src=x onerror=alert(2)>'
LABELS = (
    HOSTILE,
    '"><svg onload=alert(3)>',
    "{{ 7 * 7 }}{% raw %}",
    "=1+1",
    "a\u202eb\x1b[31m",
    "it's; DATA=\n;#" + "x" * 300,
)
RHO = 0.1


@cache
def domain() -> rs.Domain:
    sex = rs.Categories(["F", "M"]).described(
        {"en": "Sex", "de": "Geschlecht"},
        description="As in the register.",
        code="SEX",
        meanings={
            "F": {"code": "2", "title": {"en": "Female", "de": "weiblich"}},
            "M": {"code": "1", "title": {"en": "Male", "de": "männlich"}},
        },
    )
    age = rs.Integers(0, 11, missing="other", levels={"band": [0, 6, 12]})
    return rs.Domain({"age": age, "sex": sex, NAME: list(LABELS), "quality": ["good", "bad"]})


@cache
def plan() -> rs.Plan:
    asked = rs.marginals(
        domain(), [[], ["sex"], ["age"], [NAME], ["age", "sex"], ["sex", NAME], ["age", NAME], ["sex", "quality"]]
    )
    return rs.plan(asked, rs.ZCDP(RHO))


@cache
def release() -> rs.Release:
    place = np.random.default_rng(7)
    n = 3000
    data = pa.table(
        {
            "age": place.integers(0, 12, n),
            "sex": np.array(["F", "M"])[place.integers(0, 2, n)],
            NAME: np.array(LABELS, dtype=object)[np.minimum(place.geometric(0.6, n) - 1, 5)],
            "quality": np.array(["good", "bad"])[place.integers(0, 2, n)],
        }
    )
    return rs.measure(plan(), data, ledger=rs.Ledger(Path(mkdtemp()) / "people.ledger", rs.ZCDP(RHO)))
