"""The kinds of plan are registered once and completely: every class of plan and of blocks has its row."""

from __future__ import annotations

from residua.measurement.noisy import _MEASURED_BY
from residua.plans.contract import Blocks, Plan
from residua.plans.kinds import KINDS
from residua.projection.kinds import _KINDS as PROJECTED
from residua.release.base import Release
from residua.release.kinds import _KINDS


def _concrete(base: type) -> set[type]:
    found = {base, *(below for cls in base.__subclasses__() for below in _concrete(cls))}
    return {
        cls for cls in found if not getattr(cls, "__abstractmethods__", None) and cls.__module__.startswith("residua.")
    }


def test_every_kind_of_plan_has_one_row():
    assert [kind.plan for kind in KINDS] == list(dict.fromkeys(kind.plan for kind in KINDS))
    assert {kind.plan for kind in KINDS} == _concrete(Plan)


def test_every_kind_of_plan_has_a_release():
    assert {kind.name for kind in KINDS} == set(_KINDS)
    assert {kind.make for kind in _KINDS.values()} == _concrete(Release)


def test_every_kind_of_plan_can_be_projected():
    assert {kind.name for kind in KINDS} == set(PROJECTED)


def test_every_kind_of_blocks_can_be_measured():
    assert set(_MEASURED_BY) == _concrete(Blocks)
