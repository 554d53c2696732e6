"""The laws of every plan, each against dense matrices of what it really measures. None knows a form of plan."""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from residua.errors import FileError, PlanError, VerificationError
from residua.files import digest_of
from residua.linalg.arrays import Floats
from residua.plans.algebra import common, residual, top_up
from residua.plans.contract import Plan
from residua.plans.estimator import Estimator
from residua.plans.noise import guarantee_like
from residua.plans.verifier import POINT, composed_cost, priced
from residua.privacy import AddRemove, Guarantee, Person, PureDP, ReplaceOne, Unit
from residua.privacy.exact import round_up
from residua.testing.case import (
    Case,
    changes_of,
    inverse,
    measured_by,
    measured_exactly,
    require,
    require_close,
    require_refusal,
)
from residua.workload import Workload

# By how much a price may be above the truth: independent noise along a tree is added up in floats.
_INDEPENDENT, _CORRELATED = Fraction(1, 2**44), Fraction(2, 1000)
_NOISELESS = 1e-5  # of what has hardly any noise, such as a total that costs nothing: a billionth at 1e-4


def is_measured(case: Case) -> None:
    """What is measured is linear in the counts, the same from a saved release, and stays within 64 bits."""
    plan, rows = case.plan, case.measured.rows
    x = np.asarray(np.random.default_rng(3).integers(0, 9, rows.shape[1]))
    require(
        np.array_equal(measured_exactly(plan.measurements, case.sizes, x), rows @ x), "what is measured is not linear"
    )
    saved = plan.saved_measurements(plan.measurements.arrays())
    again = measured_by(saved, case.sizes)
    same = np.array_equal(again.rows, rows) and np.array_equal(again.noise, case.measured.noise)
    require(same, "a saved release measures something else")
    require(saved.price(plan.unit) == plan.measurements.price(plan.unit), "a saved release has another price")
    largest = int(np.abs(rows).max(initial=0))
    require(largest * plan.measurements.most_records < 2**63 - 2**45, "a measurement may leave 64 bits")


def is_priced(case: Case) -> None:
    """The price is the largest norm of what is measured: that itself for records, never less for any unit."""
    plan, measurements, measured = case.plan, case.plan.measurements, case.measured
    price = measurements.price(AddRemove())
    truth = measured.largest_cost(np.eye(math.prod(case.sizes), dtype=np.int64))
    slack = price * (_CORRELATED if measured.correlated else _INDEPENDENT)
    require(truth <= price <= truth + slack, f"the price is {float(price)}, in truth {float(truth)}")
    require_close(plan.pcost if plan.noise.gaussian else plan.epsilon, price, 1e-6, "what the plan says it costs")
    name = max(plan.domain.names, key=lambda each: plan.domain[each].size)
    others: list[Unit] = [AddRemove(3), ReplaceOne(), Person(2), Person(2, one_per=name), Person(3, per={name: 2})]
    for unit in (plan.unit, *others):
        own, truth = measurements.price(unit), measured.largest_cost(changes_of(plan.domain, unit))
        require(truth <= own, f"{unit}: the price is {float(own)}, less than the truth, {float(truth)}")
        if unit.contribution is not None:
            most = price * unit.contribution.records ** (2 if plan.noise.gaussian else 1)
            require(own <= most * (1 + Fraction(1, 10**12)), f"{unit}: dearer than all records in one cell")
        if unit == plan.unit and math.isfinite(plan.slack):
            most = truth * (1 + Fraction(plan.slack) + Fraction(1, 10**6)) + slack
            require(own <= most, f"{unit}: the price is {float(own)}, looser than stated; in truth {float(truth)}")
    own = measurements.price(plan.unit)
    stated = plan.unit_pcost if plan.noise.gaussian else plan.unit_epsilon
    require_close(stated, own, 1e-6, "what the plan says it costs its unit")
    require(plan.cost == round_up(own), "the plan's cost is not its price")
    require(priced(plan)[1] == own, "what is debited is not the price")


def is_priced_together(case: Case) -> None:
    """Nobody pays less than the truth in any cell, and measuring twice costs twice as much."""
    plan, measurements = case.plan, case.plan.measurements
    profile, power = measurements.profile(), 1 if plan.noise.gaussian else 2
    shape = [n if i in profile.grouping.attributes else 1 for i, n in enumerate(case.sizes)]
    groups = np.broadcast_to(profile.grouping.columns.reshape(shape), case.sizes).ravel()
    for group, truth in zip(groups.tolist(), case.measured.costs(np.eye(len(groups), dtype=np.int64)), strict=True):
        stated = Fraction(int(profile.values[group] if group >= 0 else 0) + profile.everywhere, POINT)
        require(stated >= truth**power, "the profile is less than the truth in a cell")
    require_close(profile.largest, measurements.price(AddRemove()) ** power, 1e-9, "the most expensive cell")
    twice = 2 * measurements.price(plan.unit) ** power
    require_close(composed_cost([plan, plan]), twice, 1e-9, "what measuring twice costs")


def states_facts(case: Case) -> None:
    """Variances, and which queries can be answered, are those of dense linear algebra."""
    plan = case.truth
    for what, workload in case.workloads.items():
        truth = case.dense[what][1]
        require_close(plan.variances(workload), truth, case.slack, f"variances of {what}")
        require(plan.supports(workload) == np.isfinite(truth).all(), f"whether {what} can be answered")
        total = float(workload.query_weights @ truth)
        require_close(plan.total_variance(workload), total, case.slack, f"the total variance of {what}")
        finite = np.isfinite(plan.variances(workload, per="term")).all()
        require(finite == np.isfinite(truth).all(), f"the mean variances of {what}")
    for names, (W, truth) in case.tables.items():
        known = bool(np.isfinite(truth).all())
        require(plan.supports(names) == known, f"supports({names!r}) is not {known}")
        coefficients = np.random.default_rng(7).integers(-2, 3, truth.shape).astype(float)
        own = case.variances(coefficients.reshape(1, -1) @ W)[0]
        if not known:
            _refused_or_infinite(partial(plan.variance, names), truth, case.slack, f"variance({names!r})")
            asked = partial(plan.combination_variance, {names: coefficients})
            _refused_or_infinite(asked, own, case.slack, f"a combination of {names!r}")
            continue
        require_close(plan.variance(names[::-1]).T, truth, case.slack, f"variance({names!r})")
        stated = plan.combination_variance({names: coefficients})
        require_close(stated, own, case.slack, f"a combination of {names!r}", float(truth.max()) + own)


def states_covariances(case: Case) -> None:
    """Covariances within and between workloads, explicit queries among them, are those of dense linear algebra."""
    plan, known = case.truth, []
    for what, workload in case.workloads.items():
        if np.isfinite(case.dense[what][1]).all():
            known.append(what)
        else:
            require_refusal(partial(plan.covariance, workload), f"covariances of {what}", PlanError)
    for one, other in itertools.combinations_with_replacement(known, 2):
        (V, first), (W, second) = case.dense[one], case.dense[other]
        scale = np.sqrt(np.outer(first, second)) + 1e-9
        stated, truth = plan.covariance(case.workloads[one], case.workloads[other]), V @ case.inverse @ W.T
        require_close(stated, truth, case.slack, f"covariances of {one} and {other}", scale)


def estimates_best(case: Case) -> None:
    """Estimates are those of generalised least squares, and of measurements without noise the truth."""
    plan, measured, random = case.plan, case.measured, np.random.default_rng(11)
    exact = measured.rows @ random.integers(0, 50, measured.rows.shape[1])
    added = np.rint(random.standard_normal(len(exact)) * np.sqrt(np.diag(measured.noise))).astype(np.int64)
    best = case.inverse @ measured.rows.T @ inverse(measured.noise)
    for noisy in (exact, exact + added):
        estimator, histogram = plan.estimator(plan.measurements, noisy), best @ noisy
        for what, workload in case.workloads.items():
            W, variances = case.dense[what]
            if not np.isfinite(variances).all():
                _refused_or_infinite(partial(_stated, estimator, workload), variances, case.slack, what)
                continue
            estimates, stated = estimator.answers(workload)
            truth, least = W @ histogram, np.sqrt(variances) + 1e-6
            require_close(estimates, truth, 1e-4, f"estimates of {what}", least + _NOISELESS * np.abs(truth))
            require_close(stated, variances, case.slack, f"variances of {what} beside estimates")
        for names, (W, variances) in case.tables.items():
            if np.isfinite(variances).all():
                table, deviations = (W @ histogram).reshape(variances.shape), np.sqrt(variances)
                stated = np.reshape(estimator.marginal(plan.domain.positions(names)), table.shape)
                tiny = _NOISELESS * float(np.abs(table).max())
                require_close(stated, table, 1e-4, f"the table {names!r}", deviations.max() + tiny)
                total = estimator.combination({names: np.ones(table.shape)})[0]
                require_close(total, table.sum(), 1e-4, f"the sum of the table {names!r}", deviations.sum() + tiny)


def is_as_accurate_as_stated(case: Case) -> None:
    """Errors stated before measuring are those after, but for rounding to integers."""
    for what, workload in case.workloads.items():
        before, after = case.plan.variances(workload), case.truth.variances(workload)
        finite = np.isfinite(before)
        require(np.array_equal(finite, np.isfinite(after)), f"what can be answered of {what}")
        require((after[finite] <= before[finite] * (1 + case.slack) + 1e-6).all(), f"the stated errors of {what}")


def is_kept_in_files(case: Case) -> None:
    """A plan comes back from its file as it was; one that was altered, or promises less than it costs, is refused."""
    plan = case.plan
    cheap = plan.replaced(guarantee=_half(plan.guarantee))
    require_refusal(partial(priced, cheap), "measuring a plan that promises half of its cost", VerificationError)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan.save(path)
        text, again = path.read_text(), Plan.load(path)
        require(type(again) is type(plan) and _plain(again) == _plain(plan), "a plan came back from its file altered")
        require(again.cost == plan.cost, "a plan came back from its file with another cost")
        for what, workload in case.workloads.items():
            same = np.array_equal(again.variances(workload), plan.variances(workload))
            require(same, f"a plan came back from its file with other variances of {what}")
        for place in np.linspace(0, len(text) - 1, 20).astype(int).tolist():
            path.write_text(text[:place] + ("2" if text[place] == "1" else "1") + text[place + 1 :])
            require_refusal(partial(Plan.load, path), f"a file altered at place {place}", FileError)
        body = json.loads(text)["body"]
        for key in body:
            _seal(path, text, {name: value for name, value in body.items() if name != key})
            _require_no_other(path, plan, f"a file without {key!r}")
        _seal(path, text, cheap.to_body())
        require_refusal(partial(Plan.load, path), "a file that promises half of its plan's cost", FileError)


def has_algebra(case: Case) -> None:
    """What is run twice, shared, left and missing is so in matrices; or the plan says why it cannot be combined."""
    plan = case.plan
    try:
        twice = plan + plan
    except PlanError as problem:
        require(len(str(problem).split()) > 3, f"a sum is refused without a sentence: {problem!r}")
        for action in (
            partial(common, [plan, plan]),
            partial(residual, plan, given=plan),
            partial(top_up, plan, given=plan),
            partial(plan.can_answer, plan),
        ):
            require_refusal(action, "the algebra of a plan that has no sum", PlanError)
        return
    require(twice.can_answer(plan), "a plan run twice does not answer the plan")
    require(not plan.can_answer(twice), "a plan answers itself run twice")
    require(plan.equivalent(plan), "a plan is not equivalent to itself")
    gamma = case.measured.gamma(case.measured.bare)
    for what, combined, factor in (
        ("run twice", twice, 2.0),
        ("shared", common([plan, twice]), 1.0),
        ("left", residual(twice, given=plan), 1.0),
        ("missing", top_up(twice, given=plan), 1.0),
    ):
        own = Case(combined).measured
        require_close(own.gamma(own.bare), factor * gamma, 1e-5, f"what is {what}", factor * np.diag(gamma).max())
    require(top_up(plan, given=twice).pcost <= 1e-6 * plan.pcost, "something is missing beside more than the plan")


LAWS: dict[str, Callable[[Case], None]] = {
    law.__name__: law
    for law in (
        is_measured,
        is_priced,
        is_priced_together,
        states_facts,
        states_covariances,
        estimates_best,
        is_as_accurate_as_stated,
        is_kept_in_files,
        has_algebra,
    )
}


def _stated(estimator: Estimator, workload: Workload) -> Floats:
    return estimator.answers(workload)[1]


def _refused_or_infinite(action: Callable[[], object], truth: Floats, slack: float, what: str) -> None:
    """Requires that what cannot all be answered is refused, or that it is said which of it cannot."""
    try:
        stated = action()
    except PlanError as problem:
        require(len(str(problem).split()) > 3, f"{what} is refused without a sentence: {problem!r}")
        return
    require_close(stated, truth, slack, what)


def _plain(plan: Plan) -> Any:
    return json.loads(_text(plan.to_body()))


def _text(body: dict[str, Any]) -> str:
    return json.dumps(body, default=lambda value: np.asarray(value).tolist(), separators=(",", ":"))


def _seal(path: Path, text: str, body: dict[str, Any]) -> None:
    """Gives a plan's file another body and a digest that fits it: what only the plan's own checks can notice."""
    head = {name: value for name, value in json.loads(text).items() if name not in ("body", "sha256")}
    inner = _text(body)
    path.write_text(json.dumps({**head, "sha256": digest_of(inner.encode())})[:-1] + ',"body":' + inner + "}")


def _require_no_other(path: Path, plan: Plan, what: str) -> None:
    try:
        again = Plan.load(path)
    except FileError:
        return
    require(_plain(again) == _plain(plan), f"{what} is read as another plan")


def _half(guarantee: Guarantee | None) -> Guarantee | None:
    if isinstance(guarantee, PureDP):
        return PureDP(guarantee.epsilon / 2)
    return guarantee and guarantee_like(guarantee, float(guarantee.pcost_allowed()) / 2)
