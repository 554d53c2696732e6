"""Measuring straight into a folder: on one machine, or, where the data is on Spark, by its executors."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

from residua.errors import LedgerError
from residua.measurement.ledger import Entry, Ledger
from residua.measurement.measure import Progress, _checked, _receipt, _step, carry_out
from residua.measurement.told import told_of_debit
from residua.plans.blocks import Blocks
from residua.plans.contract import Plan
from residua.release import Release, reserve
from residua.source import Source
from residua.source.bound import KEY_BYTES, bound_of, require_agreement
from residua.source.counting import Tallies

if TYPE_CHECKING:
    from residua.source.spark import SparkSource


def written(
    plan: Plan,
    blocks: Blocks,
    cost: Fraction,
    data: Source,
    pay: Callable[[str], tuple[Entry, Ledger]],
    out: Path,
    *,
    progress: Progress | None,
    notice: Callable[[Tallies], None] | None,
) -> Release:
    """What `carry_out` does, into a folder; the arguments are its own."""
    if type(data).__name__ != "SparkSource":  # by its name: that module loads what others do not need
        with reserve(out, plan, blocks) as room:
            room.commit(carry_out(plan, blocks, cost, data, pay, progress=progress, notice=notice))
        return Release.load(out)
    from residua.measurement.on_spark import measured_on_executors, place_on_executors

    spark = cast("SparkSource", data)
    require_agreement(data.options, plan.unit, plan.domain)
    trial = bound_of(plan.unit, plan.domain, secrets.token_bytes(KEY_BYTES))
    with place_on_executors(out, plan, blocks, spark) as place:
        try:
            fingerprint = _checked(data, plan.domain, blocks.most_records, progress, trial)
        except BaseException as problem:
            traceback.clear_frames(problem.__traceback__)
            raise
        entry, ledger = pay(fingerprint)
        if not isinstance(entry, Entry):
            raise LedgerError("no debit was made; nothing was measured.")
        bound = None if trial is None else bound_of(plan.unit, plan.domain, ledger.choosing_key)
        receipt, step = _receipt(entry, cost, blocks.currency), _step("measuring", progress)
        return told_of_debit(
            lambda: measured_on_executors(
                plan, blocks, spark, fingerprint, bound, place, receipt, progress=step, notice=notice
            ),
            entry,
        )
