"""Every mistake gives one short error of ours that names the argument and the remedy; none surfaces from NumPy."""

import math
import re

import numpy as np
import pytest

import residua as rs
from residua.domain import domain_of_settings
from residua.errors import DomainError, FileError, PlanError, PrivacyError, WorkloadError
from residua.plans import ProductPlan, residual

NAN, INF = math.nan, math.inf
LONG = rs.Domain.of_sizes([2**27])
DOMAIN = rs.Domain({"age": rs.Integers(17, 90), "sex": ["F", "M"], "race": rs.Anonymous(5)})
OTHER_DOMAIN = rs.Domain({"age": rs.Integers(17, 91), "sex": ["F", "M"], "race": rs.Anonymous(5)})
ASKED = rs.marginals(DOMAIN, [("age",), ("sex",)])
ELSEWHERE = rs.marginals(OTHER_DOMAIN, [("age",), ("sex",)])
BUDGET = rs.ZCDP(rho=0.5)
PLAN = rs.plan(ASKED, BUDGET)
PAIRS = rs.plan(rs.marginals(DOMAIN, ways=2), BUDGET)
BIG_DOMAIN = rs.Domain.of_sizes({"a": 1000, "b": 1000, "c": 1000})
BIG = rs.plan(rs.marginals(BIG_DOMAIN, ways=3), BUDGET)
MANY = rs.Domain.of_sizes([10] * 60)
SUM = rs.ConvexLoss(lambda v: float(v.sum()), np.ones_like)


def planned(**arguments):
    return rs.plan(ASKED, **arguments)


def convex(value=lambda v: float(v.sum()), gradient=np.ones_like):
    return planned(guarantee=BUDGET, minimise=rs.ConvexLoss(value, gradient))


CASES = {
    # ---- attributes
    "policy": (lambda: rs.Categories(["a"], unknown="ignore"), DomainError, "unknown='ignore'.*use 'error'"),
    "policy, missing": (lambda: rs.Integers(0, 1, missing=None), DomainError, "missing=None.*use 'error'"),
    "no categories": (lambda: rs.Categories([]), DomainError, "without values.*declare at least one"),
    "categories as text": (lambda: rs.Categories("FM"), DomainError, "values='FM'.*pass a list"),
    "categories as number": (lambda: rs.Categories(3), DomainError, "values=3.*pass a list"),
    "mixed categories": (lambda: rs.Categories(["a", 1]), DomainError, "all text or all whole numbers"),
    "boolean and whole categories": (lambda: rs.Categories([True, 2]), DomainError, "all text or all whole numbers"),
    "fractional categories": (lambda: rs.Categories([0.5]), DomainError, "all text or all whole numbers"),
    "unhashable categories": (lambda: rs.Categories([["a"], ["a"]]), DomainError, "all text or all whole"),
    "category twice": (lambda: rs.Categories(["F", "M", "F"]), DomainError, "category 3 is listed twice"),
    "category named like others": (
        lambda: rs.Categories(["(other)"], missing="other"), DomainError, "'\\(other\\)'.*rename it",
    ),
    "bound not whole": (lambda: rs.Integers(0, 1.5), DomainError, "high=1.5.*give whole numbers"),
    "bound boolean": (lambda: rs.Integers(False, 3), DomainError, "low=False.*give whole numbers"),
    "bound enormous": (lambda: rs.Integers(0, 2**63), DomainError, "high=.*below 2\\^62"),
    "bounds exchanged": (lambda: rs.Integers(5, 1), DomainError, "low=5 is above high=1; exchange"),
    "too many values": (lambda: rs.Integers(0, 2**40), DomainError, "too large; declare bins"),
    "one edge": (lambda: rs.Bins([1]), DomainError, "edges: 1 .*at least two"),
    "unsorted edges": (lambda: rs.Bins([0, 5, 3]), DomainError, "edges 2 and 3.*sort them"),
    "repeated edge": (lambda: rs.Bins([0, 5, 5]), DomainError, "edges 2 and 3.*list each once"),
    "edge NaN": (lambda: rs.Bins([0, NAN]), DomainError, "edges holds nan.*give numbers"),
    "edge text": (lambda: rs.Bins([0, "5"]), DomainError, "edges holds a text.*give numbers"),
    "edges as text": (lambda: rs.Bins("01"), DomainError, "edges=a text is not a list"),
    "labels as text": (lambda: rs.Bins([0, 1, 2], "ab"), DomainError, "labels='ab'.*one label for each"),
    "labels as number": (lambda: rs.Bins([0, 1, 2], 5), DomainError, "labels=5.*one label for each"),
    "labels not text": (lambda: rs.Bins([0, 1, 2], [["a"], ["b"]]), DomainError, "must be text; quote"),
    "labels too few": (lambda: rs.Bins([0, 1, 2], ["a"]), DomainError, "2 bins need as many different labels, not 1"),
    "labels twice": (lambda: rs.Bins([0, 1, 2], ["a", "a"]), DomainError, "2 bins need as many different labels"),
    "label named like others": (
        lambda: rs.Bins([0, 1], ["(other)"], unknown="other"), DomainError, "'\\(other\\)'.*rename it",
    ),
    "intervals number": (lambda: rs.Bins.of_intervals(5), DomainError, "intervals=5.*pairs"),
    "intervals of numbers": (lambda: rs.Bins.of_intervals([5, 6]), DomainError, "intervals=5 is not a list"),
    "interval of three": (lambda: rs.Bins.of_intervals([(0, 1, 2)]), DomainError, "not a pair; give \\(lower"),
    "no intervals": (lambda: rs.Bins.of_intervals([]), DomainError, "at least two edges"),
    "overlapping bins": (lambda: rs.Bins.of_intervals([(0, 5), (4, 9)]), DomainError, "overlap between 4 and 5"),
    "gap between bins": (lambda: rs.Bins.of_intervals([(0, 5), (6, 9)]), DomainError, "no bin covers 5 to 6"),
    "interval labels as text": (
        lambda: rs.Bins.of_intervals([(0, 1), (1, 2)], "ab"), DomainError, "labels='ab'.*one label",
    ),
    "size not whole": (lambda: rs.Anonymous(2.5), DomainError, "size=2.5.*number of values"),
    "size boolean": (lambda: rs.Anonymous(True), DomainError, "size=True"),
    "size zero": (lambda: rs.Anonymous(0), DomainError, "without values"),
    "size negative": (lambda: rs.Anonymous(-2), DomainError, "without values"),
    # ---- domains
    "domain a list": (lambda: rs.Domain(["a", "b"]), DomainError, "not a mapping; pass"),
    "domain empty": (lambda: rs.Domain({}), DomainError, "attributes is empty; declare"),
    "name empty": (lambda: rs.Domain({" ": ["a"]}), DomainError, "' ' is not a name; use"),
    "name a number": (lambda: rs.Domain({3: ["a"]}), DomainError, "3 is not a name; use"),
    "attribute a number": (lambda: rs.Domain({"a": 3}), DomainError, "number 1 is declared as 3; use rs.Cat"),
    "attribute a text": (lambda: rs.Domain({"a": "xy"}), DomainError, "number 1 is declared as a text; use rs.Cat"),
    "attribute bad": (lambda: rs.Domain({"a": ["x", "x"]}), DomainError, "'a': category 2 is listed twice"),
    "sizes number": (lambda: rs.Domain.of_sizes(5), DomainError, "sizes=5.*pass \\{name: size\\}"),
    "sizes text": (lambda: rs.Domain.of_sizes("55"), DomainError, "sizes='55'.*pass \\{name: size\\}"),
    "sizes empty": (lambda: rs.Domain.of_sizes([]), DomainError, "attributes is empty"),
    "unknown attribute, near": (lambda: DOMAIN["agee"], DomainError, "'agee'; did you mean 'age'\\?"),
    "unknown attribute, far": (lambda: DOMAIN.position("zzz"), DomainError, "attribute; there are 'age', 'sex'"),
    "unknown attribute, odd": (lambda: DOMAIN.position([]), DomainError, "unknown attribute; there"),
    "a name for a set": (lambda: DOMAIN.cells("age"), DomainError, "write \\('age',\\)"),
    "a number for a set": (lambda: DOMAIN.cells(3), DomainError, "3 is not a set of attributes; list"),
    "attribute twice in a set": (lambda: DOMAIN.cells(iter(["age", "age"])), DomainError, "\\('age', 'age'\\).*twice"),
    # ---- plain values
    "settings a list": (lambda: domain_of_settings([1]), DomainError, "write one \\[domain.NAME\\]"),
    "settings a number": (lambda: domain_of_settings({"a": 3}), DomainError, "'a' is declared as 3; use a table"),
    "settings unknown key": (
        lambda: domain_of_settings({"a": {"value": [1]}}), DomainError, "'a' has the keys \\['value'\\]; use values",
    ),
    "settings two kinds": (lambda: domain_of_settings({"a": {"size": 1, "low": 2}}), DomainError, "has the keys"),
    "settings values as text": (
        lambda: domain_of_settings({"a": {"values": "abc"}}), DomainError, "attribute 'a': values='abc' is not a list",
    ),
    "settings labels as text": (
        lambda: domain_of_settings({"a": {"edges": [0, 1, 2], "labels": "ab"}}), DomainError, "'a': labels='ab'",
    ),
    "settings policy": (
        lambda: domain_of_settings({"a": {"size": 2, "missing": 3}}), DomainError, "attribute 'a': missing=3",
    ),
    "settings wrong type": (lambda: domain_of_settings({"a": {"size": "3"}}), DomainError, "'a': size=a text"),
    # ---- workloads
    "not a domain": (lambda: rs.marginals({"a": 3}, ways=1), WorkloadError, "domain=.*rs.Domain"),
    "nothing said": (lambda: rs.marginals(DOMAIN), WorkloadError, "say which marginals"),
    "both said": (lambda: rs.marginals(DOMAIN, [("age",)], ways=1), WorkloadError, "say which marginals"),
    "empty list": (lambda: rs.marginals(DOMAIN, []), WorkloadError, "workload is empty; ask"),
    "nothing small": (lambda: rs.marginals(DOMAIN, ways=3, max_cells=2), WorkloadError, "workload is empty; ask"),
    "prefixes without end": (lambda: rs.plan(rs.prefixes(LONG, "a0"), rs.ZCDP(0.5)), PlanError, "GB are free; ask"),
    "ranges without end": (lambda: rs.plan(rs.ranges(LONG, "a0"), rs.ZCDP(0.5)), PlanError, "GB are free; ask"),
    "sets one name": (lambda: rs.marginals(DOMAIN, "age"), WorkloadError, "sets='age'.*such as \\[\\('age',\\)\\]"),
    "sets names only": (lambda: rs.marginals(DOMAIN, ["age", "sex"]), WorkloadError, "sets: 'age'.*write \\('age',\\)"),
    "sets number": (lambda: rs.marginals(DOMAIN, 5), WorkloadError, "sets=5 is not a list"),
    "sets of numbers": (lambda: rs.marginals(DOMAIN, [5]), WorkloadError, "sets: 5 is not a set"),
    "unknown attribute": (lambda: rs.marginals(DOMAIN, [("agee",)]), WorkloadError, "sets: unknown.*'age'"),
    "set twice": (
        lambda: rs.marginals(DOMAIN, [("age", "sex"), ("race",), ("sex", "age")]),
        WorkloadError, "\\('age', 'sex'\\) is listed twice; list it once",
    ),
    "total twice": (lambda: rs.marginals(DOMAIN, [(), ()]), WorkloadError, "\\(\\) is listed twice"),
    "attribute twice": (lambda: rs.marginals(DOMAIN, [("age", "age")]), WorkloadError, "names an attribute twice"),
    "ways too many": (lambda: rs.marginals(DOMAIN, ways=4), WorkloadError, "ways holds 4; .* from 0 to 3"),
    "ways negative": (lambda: rs.marginals(DOMAIN, ways=[-1]), WorkloadError, "ways holds -1"),
    "ways fraction": (lambda: rs.marginals(DOMAIN, ways=[1.5]), WorkloadError, "ways holds 1.5"),
    "ways boolean": (lambda: rs.marginals(DOMAIN, ways=[True]), WorkloadError, "ways holds True"),
    "ways not a list": (lambda: rs.marginals(DOMAIN, ways=1.5), WorkloadError, "ways=1.5 is not a list"),
    "ways twice": (lambda: rs.marginals(DOMAIN, ways=[1, 1]), WorkloadError, "lists a size twice"),
    "ways empty": (lambda: rs.marginals(DOMAIN, ways=[]), WorkloadError, "ways is empty; ask"),
    "ways millions": (lambda: rs.marginals(MANY, ways=10), WorkloadError, "75,394,027,566 .*33,554,432 are the"),
    "max_cells zero": (lambda: rs.marginals(DOMAIN, max_cells=0), WorkloadError, "max_cells=0 is not a positive"),
    "max_cells fraction": (lambda: rs.marginals(DOMAIN, max_cells=5.5), WorkloadError, "max_cells=5.5"),
    "max_cells millions": (
        lambda: rs.marginals(rs.Domain.of_sizes([2] * 200), max_cells=10**5), WorkloadError, "max_cells=100,000.*lower",
    ),
    "weight negative": (lambda: rs.marginals(DOMAIN, ways=1, weight=-1), WorkloadError, "weight=-1"),
    "weight zero": (lambda: rs.marginals(DOMAIN, ways=1, weight=0), WorkloadError, "weight=0.*leave out"),
    "weight NaN": (lambda: rs.marginals(DOMAIN, ways=1, weight=NAN), WorkloadError, "weight=nan"),
    "weight infinite": (lambda: rs.marginals(DOMAIN, ways=1, weight=INF), WorkloadError, "weight=inf"),
    "weight text": (lambda: rs.marginals(DOMAIN, ways=1, weight="2"), WorkloadError, "weight='2'"),
    "factor negative": (lambda: -1 * ASKED, WorkloadError, "weight=-1"),
    "factor NaN": (lambda: ASKED * NAN, WorkloadError, "weight=nan"),
    "two domains": (lambda: ASKED + ELSEWHERE, WorkloadError, "different domains; declare one"),
    # ---- guarantees
    "budget zero": (lambda: rs.ZCDP(rho=0), PrivacyError, "rho"),
    "budget negative": (lambda: rs.GDP(mu=-1), PrivacyError, "mu"),
    "budget NaN": (lambda: rs.ZCDP(rho=NAN), PrivacyError, "rho"),
    "delta one": (lambda: rs.ApproxDP(1.0, 1.0), PrivacyError, "delta"),
    "delta two": (lambda: rs.ApproxDP(1.0, 2.0), PrivacyError, "delta"),
    "pure, a loss that does not scale, and no budget": (
        lambda: rs.plan(ASKED, noise="laplace", at_most=9.0, minimise=rs.ConvexLoss(lambda v: v @ v, lambda v: 2 * v)),
        PlanError,
        "ConvexLoss does not go as 1/epsilon².*PureDP\\(epsilon",
    ),
    "pure, refined": (
        lambda: rs.plan(ASKED, rs.PureDP(1.0), form=rs.Matrix(refined=True)), PlanError, "refined.*Gaussian",
    ),
    "pure, no bias": (lambda: rs.plan(ASKED, rs.PureDP(1.0), form=rs.Matrix(bias=-0.1)), PlanError, "not a positive"),
    "pure, no target": (lambda: rs.plan(ASKED, noise="laplace"), PlanError, "say what to spend or how accurate"),
    "pure, tiny": (lambda: rs.plan(ASKED, rs.PureDP(1e-12)), PlanError, "beyond what can be computed"),
    "pure, huge": (lambda: rs.plan(ASKED, rs.PureDP(1e12)), PlanError, "beyond what can be computed"),
    # ---- planning
    "not a workload": (lambda: rs.plan(DOMAIN, BUDGET), PlanError, "workload=.*rs.marginals"),
    "not a workload, independent": (lambda: rs.independent(3, BUDGET), PlanError, "workload=3.*rs.marginals"),
    "nothing to go by": (lambda: rs.plan(ASKED), PlanError, "say what to spend or how accurate"),
    "budget a number": (lambda: rs.plan(ASKED, 0.5), PlanError, "guarantee=0.5.*use ZCDP"),
    "budget a class": (lambda: rs.plan(ASKED, rs.ZCDP), PlanError, "guarantee=<class.*use ZCDP"),
    "budget and at_most": (lambda: planned(guarantee=BUDGET, at_most=3.0), PlanError, "guarantee and at_most"),
    "at_most zero": (lambda: planned(at_most=0), PlanError, "at_most=0 is not a positive"),
    "at_most NaN": (lambda: planned(at_most=NAN), PlanError, "at_most=nan is not a positive"),
    "tolerance zero": (lambda: planned(guarantee=BUDGET, tolerance=0), PlanError, "tolerance=0.*from 1e-12"),
    "tolerance text": (lambda: planned(guarantee=BUDGET, tolerance="x"), PlanError, "tolerance='x'"),
    "limit zero": (lambda: planned(guarantee=BUDGET, form=rs.Lattice(limit=0)), PlanError, "limit=0 is not a positive"),
    "limit fraction": (lambda: planned(guarantee=BUDGET, form=rs.Lattice(limit=1.5)), PlanError, "limit=1.5"),
    "form text": (lambda: planned(guarantee=BUDGET, form="matrix"), PlanError, "form='matrix'.*use one such"),
    "form class": (lambda: planned(guarantee=BUDGET, form=rs.Matrix), PlanError, "form=<class.*rs.Matrix\\(\\)"),
    "noise unknown": (lambda: planned(guarantee=BUDGET, noise="gumbel"), PlanError, "noise='gumbel'.*'laplace'"),
    "noise of another budget": (
        lambda: planned(guarantee=BUDGET, noise="laplace"), PlanError, "noise='laplace' cannot be priced.*PureDP",
    ),
    "objective text": (lambda: planned(guarantee=BUDGET, minimise="b"), PlanError, "minimise='b'.*use one such"),
    "objective class": (
        lambda: planned(guarantee=BUDGET, minimise=rs.MaxVariance), PlanError, "minimise=<class.*rs.MaxVariance\\(\\)",
    ),
    "unit text": (lambda: planned(guarantee=BUDGET, unit="replace"), PlanError, "unit='replace'.*use rs.AddRemove"),
    "unit class": (lambda: planned(guarantee=BUDGET, unit=rs.ReplaceOne), PlanError, "unit=<class.*use rs.Add"),
    "unit text, convex": (lambda: planned(guarantee=BUDGET, unit=3, minimise=SUM), PlanError, "unit=3"),
    "unit text, independent": (lambda: rs.independent(ASKED, BUDGET, unit=3), PlanError, "unit=3"),
    "records zero": (lambda: rs.AddRemove(0), PrivacyError, "records.*at least 1"),
    "replace, total only": (
        lambda: rs.plan(rs.marginals(DOMAIN, [()]), BUDGET, unit=rs.ReplaceOne()),
        PlanError, "changes none of these tables; .* without noise",
    ),
    # ---- targets
    "target and objective": (
        lambda: planned(targets=1.0, minimise=rs.TotalVariance()), PlanError, "targets and minimise contradict",
    ),
    "targets twice": (
        lambda: planned(targets=1.0, minimise=rs.MaxVariance(2.0)), PlanError, "targets is given twice.*give it once",
    ),
    "target NaN": (lambda: planned(targets=NAN), PlanError, "targets.*\\('age',\\).*positive finite"),
    "target zero": (lambda: planned(targets=0), PlanError, "targets.*positive finite"),
    "target negative": (
        lambda: planned(targets={("age",): 1, ("sex",): -1}), PlanError, "targets.*\\('sex',\\).*positive finite",
    ),
    "target infinite": (lambda: planned(targets=INF), PlanError, "targets.*positive finite"),
    "target missing value": (
        lambda: planned(targets={("age",): None, ("sex",): 1}), PlanError, "targets.*\\('age',\\)",
    ),
    "target text": (
        lambda: planned(targets={("age",): "x", ("sex",): 1}), PlanError, "targets: a text for \\('age',\\) is not",
    ),
    "reserved name": (lambda: rs.Domain({"upper": ["a", "b"]}), DomainError, "'upper' is a column.*rename"),
    "absurd budget": (lambda: planned(guarantee=rs.ZCDP(1e-320)), PlanError, "beyond what can be computed"),
    "absurd spending": (lambda: planned(guarantee=rs.ZCDP(1e300)), PlanError, "beyond what can be computed"),
    "records without a budget": (lambda: planned(targets=1.0, form=rs.Matrix(records=3)), PlanError, "give a guar"),
    "refined for a budget": (lambda: planned(guarantee=BUDGET, form=rs.Matrix(refined=True)), PlanError, "refined"),
    "target not asked": (
        lambda: planned(targets={("race",): 1.0}), PlanError, "targets names \\('race',\\), which the workload",
    ),
    "target missing": (lambda: planned(targets={("age",): 1.0}), PlanError, "no variance for \\('sex',\\); give one"),
    "target unknown": (lambda: planned(targets={("agee",): 1.0}), PlanError, "targets: unknown attribute.*'age'"),
    "target by name": (lambda: planned(targets={"age": 1.0}), PlanError, "targets: 'age'.*write \\('age',\\)"),
    "target by number": (lambda: planned(targets={5: 1.0}), PlanError, "targets: 5 is not a set"),
    "target set twice": (
        lambda: rs.plan(
            rs.marginals(DOMAIN, ways=2),
            targets={("age", "sex"): 1.0, ("sex", "age"): 1.0},
        ),
        PlanError, "targets names \\('sex', 'age'\\) twice; name each",
    ),
    "targets too short": (lambda: planned(targets=[1.0, 2.0]), PlanError, "targets has shape \\(2,\\).*76 queries"),
    "targets a text": (lambda: planned(targets="low"), PlanError, "targets='low' is not a number"),
    "targets uneven": (
        lambda: planned(targets=[1.0] * 73 + [2.0] * 3), PlanError, "differ between cells of \\('age',\\); give all",
    ),
    "targets with a NaN": (lambda: planned(targets=[1.0] * 74 + [NAN] * 2), PlanError, "\\('sex',\\) is not a pos"),
    "targets with one NaN": (lambda: planned(targets=[1.0] * 75 + [NAN]), PlanError, "\\('sex',\\)"),
    "target not a variance": (lambda: planned(targets=-1), PlanError, "finite variance; give stddev or mar"),
    "targets and stddev": (lambda: planned(targets=25.0, stddev=5.0), PlanError, "targets and stddev both.*give one"),
    "stddev and margin": (lambda: planned(stddev=5.0, margin=5.0), PlanError, "stddev and margin both say.*give one"),
    "stddev negative": (lambda: planned(stddev=-5.0), PlanError, "stddev: -5.0 is not a positive number"),
    "stddev NaN": (lambda: planned(stddev=[NAN] * 76), PlanError, "stddev: nan is not a positive number"),
    "stddev too large": (lambda: planned(stddev=1e200), PlanError, "stddev: 1e\\+200 is not a positive number below"),
    "stddev of a table": (
        lambda: planned(stddev={("age",): 5.0, ("sex",): 0}), PlanError, "stddev: 0.0 for \\('sex',\\) is not",
    ),
    "stddev a text": (lambda: planned(stddev="low"), PlanError, "stddev='low' is not a number, a mapping"),
    "stddev a truth": (lambda: planned(stddev=True), PlanError, "stddev=True is not a number"),
    "stddev ragged": (lambda: planned(stddev=[[1.0], [1.0, 2.0]]), PlanError, "stddev=.* is not a number"),
    "stddev too short": (lambda: planned(stddev=[1.0, 2.0]), PlanError, "targets has shape \\(2,\\).*76 queries"),
    "confidence alone": (lambda: planned(stddev=5.0, confidence=0.95), PlanError, "confidence belongs to a margin"),
    "confidence of a margin": (lambda: planned(margin=5.0, confidence=95), PlanError, "confidence=95 is not"),
    "margin of Laplace noise": (
        lambda: planned(margin=5.0, noise="laplace"), PlanError, "margin is worked out for normal noise.*give stddev",
    ),
    # ---- objectives
    "none of the largest": (lambda: rs.LargestVariances(0), PlanError, "count=0.*whole number from 1"),
    "half of the largest": (lambda: rs.LargestVariances(0.5), PlanError, "count=0.5"),
    "norm below one": (lambda: rs.PNormVariance(0.5), PlanError, "p=0.5.*from 1, or MaxVariance"),
    "norm infinite": (lambda: rs.PNormVariance(INF), PlanError, "p=inf"),
    "norm NaN": (lambda: rs.PNormVariance(NAN), PlanError, "p=nan"),
    "norm text": (lambda: rs.PNormVariance("2"), PlanError, "p='2'"),
    "no stakeholders": (lambda: rs.Stakeholders([]), PlanError, "workloads is empty; give"),
    "one stakeholder bare": (lambda: rs.Stakeholders(ASKED), PlanError, "workloads is not a list of"),
    "stakeholder a number": (lambda: rs.Stakeholders([3]), PlanError, "workload=3 is not a workload;"),
    "stakeholder elsewhere": (
        lambda: planned(guarantee=BUDGET, minimise=rs.Stakeholders([ELSEWHERE])), PlanError, "over another domain",
    ),
    "stakeholder wants more": (
        lambda: planned(guarantee=BUDGET, minimise=rs.Stakeholders([rs.marginals(DOMAIN, [("race",)])])),
        PlanError, "wants \\('race',\\), which the workload lacks; add it",
    ),
    "loss NaN": (lambda: convex(value=lambda v: NAN), PlanError, "the loss is nan.*finite convex"),
    "loss infinite": (lambda: convex(value=lambda v: INF), PlanError, "the loss is inf.*finite convex"),
    "gradient shape": (lambda: convex(gradient=lambda v: np.ones(7)), PlanError, "gradient has shape \\(7,\\), not"),
    "gradient negative": (lambda: convex(gradient=lambda v: -v), PlanError, "loss falls when all variances grow alike"),
    "gradient negative, of a replaced record": (
        lambda: planned(
            guarantee=BUDGET,
            unit=rs.ReplaceOne(),
            minimise=rs.ConvexLoss(lambda v: float(v[0] + abs(v[0] - 9 * v[1])), lambda v: np.array([2.0, -9.0])),
        ),
        PlanError,
        "gradient is negative.*added or removed without limits",
    ),
    "gradient zero": (lambda: convex(gradient=lambda v: 0 * v), PlanError, "gradient is zero everywhere"),
    "gradient NaN": (lambda: convex(gradient=lambda v: v * NAN), PlanError, "gradient is zero everywhere.*not finite"),
    # ---- facts
    "precisions shape": (
        lambda: ProductPlan(DOMAIN, ASKED.lattice, np.ones(2)), PlanError, "precisions has shape.* 3 sets",
    ),
    "precisions negative": (
        lambda: ProductPlan(DOMAIN, ASKED.lattice, -np.ones(3)), PlanError, "precisions must be finite",
    ),
    "precisions NaN": (
        lambda: ProductPlan(DOMAIN, ASKED.lattice, np.array([1, NAN, 1])), PlanError, "precisions must be",
    ),
    "variance not planned": (lambda: PLAN.variance(("race",)), PlanError, "on 'race'; plan for a workload"),
    "variance unknown": (lambda: PLAN.variance(("agee",)), PlanError, "attributes: unknown attribute 'agee'"),
    "variance by name": (lambda: PLAN.variance("age"), PlanError, "write \\('age',\\)"),
    "supports by name": (lambda: PLAN.supports("age"), PlanError, "write \\('age',\\)"),
    "variances of a number": (lambda: PLAN.variances(3), PlanError, "workload=3"),
    "variances elsewhere": (lambda: PLAN.variances(ELSEWHERE), PlanError, "different domains; declare one"),
    "variances per cell": (lambda: PLAN.variances(ASKED, per="cell"), PlanError, "per='cell' is not 'query' or"),
    "variance of a number": (lambda: PLAN.variance(3), PlanError, "3 is not a set of attributes; list"),
    "supports an unknown": (lambda: PLAN.supports({"agee": 1}), PlanError, "did you mean 'age'"),
    "marginal variances elsewhere": (lambda: PLAN.variances(ELSEWHERE, per="term"), PlanError, "different domains"),
    "variances of a billion cells": (
        lambda: BIG.variances(rs.marginals(BIG_DOMAIN, ways=3)),
        PlanError, "000 queries.*variances\\(workload, per='term'\\)",
    ),
    "covariance of a billion cells": (
        lambda: BIG.covariance(("a", "b", "c")), PlanError, "1,000,000,000 by 1,000,000,000.*ask for the queries",
    ),
    "covariance by name": (lambda: PLAN.covariance("age"), PlanError, "write \\('age',\\)"),
    "covariance not planned": (lambda: PLAN.covariance(("race",)), PlanError, "does not answer"),
    "covariance with one not planned": (lambda: PLAN.covariance(("age",), ("race",)), PlanError, "does not answer"),
    "cell a number": (lambda: PLAN.covariance({"age": 17}, 17), PlanError, "17 is not a set of attributes; list"),
    "cell of an unknown": (lambda: PLAN.covariance({"agee": 1}, {}), PlanError, "did you mean 'age'"),
    "cell with a bad label": (lambda: PLAN.covariance({"age": 5}, {}), PlanError, "5 is not a value of .age.; there"),
    "cell not planned": (lambda: PLAN.covariance({"race": 1}, {}), PlanError, "does not answer"),
    "combination empty": (lambda: PLAN.combination_variance({}), PlanError, "combination is empty; give"),
    "combination shape": (lambda: PLAN.combination_variance({("sex",): [1]}), PlanError, "of shape \\(2,\\)"),
    "combination NaN": (lambda: PLAN.combination_variance({("sex",): [1, NAN]}), PlanError, "finite and of shape"),
    "combination text": (lambda: PLAN.combination_variance({("sex",): "ab"}), PlanError, "finite and of shape"),
    "combination a number": (lambda: PLAN.combination_variance(3), PlanError, "combination=3 is not a mapping; give"),
    "combination not planned": (lambda: PLAN.combination_variance({("race",): [1] + [0] * 4}), PlanError, "not answer"),
    # ---- algebra
    "common of nothing": (lambda: rs.common([]), PlanError, "plans is empty; give"),
    "common of one bare": (lambda: rs.common(PLAN), PlanError, "give a list of plans"),
    "common with a number": (lambda: rs.common([PLAN, 3]), PlanError, "3 is not a plan; make one"),
    "sum with a number": (lambda: PLAN + 3, PlanError, "3 is not a plan; make one"),
    "answers a number": (lambda: PLAN.can_answer(3), PlanError, "3 is not a plan"),
    "common elsewhere": (lambda: rs.common([PLAN, rs.plan(ELSEWHERE, BUDGET)]), PlanError, "different domains"),
    "common of two units": (
        lambda: rs.common([PLAN, rs.plan(ASKED, BUDGET, unit=rs.AddRemove(2))]), PlanError, "different units; plan",
    ),
    "residual of too little": (
        lambda: residual(PLAN, given=PAIRS), PlanError, "given is not answered by the plan; use common",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_named_with_its_remedy(name):
    call, kind, pattern = CASES[name]
    with pytest.raises(kind, match=pattern) as caught:
        call()
    assert isinstance(caught.value, rs.ResiduaError)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
    assert message.endswith((".", "?"))
    assert len(re.findall(r"[a-z)\]']\. [A-Z]", message)) == 0, "one sentence"
    assert caught.value.__cause__ is None  # nothing underneath to read through


@pytest.mark.parametrize(
    ("content", "kind", "pattern"),
    [
        ("not = = toml", FileError, "is not TOML"),
        ("[domain.a]\nsize = 3\n[domain.a]\nsize = 2", FileError, "is not TOML"),
        ("[domain]\na = 3", DomainError, "'a' is declared as 3; use a table"),
        ("[domain.a]\nsise = 3", DomainError, "'a' has the keys \\['sise'\\]; use"),
        ("[domain.a]\nvalues = 3", DomainError, "'a': values=3 is not a list"),
        ('[domain.a]\nvalues = "FM"', DomainError, "'a': values='FM' is not a list"),
        ('[domain.a]\nlow = 1\nhigh = "x"', DomainError, "'a': high='x'"),
        ("[domain.a]\nedges = 5", DomainError, "'a': edges=5"),
        ("[domain.a]\nintervals = [[0, 5], [3, 9]]", DomainError, "'a': bins overlap"),
        ("[domain.a]\nintervals = [[0, 5], [6, 9]]", DomainError, "'a': no bin covers"),
        ('[domain.a]\nsize = 3\nmissing = "ignore"', DomainError, "'a': missing='ignore'"),
        ("domain = 3", DomainError, "write one \\[domain.NAME\\]"),
        ("", DomainError, "attributes is empty"),
    ],
)
def test_a_bad_domain_file(tmp_path, content, kind, pattern):
    path = tmp_path / "domain.toml"
    path.write_text(content)
    with pytest.raises(kind, match=pattern):
        rs.Domain.load(path)


def test_a_missing_or_binary_domain_file(tmp_path):
    with pytest.raises(FileError, match=r"cannot read the domain file .*No such file"):
        rs.Domain.load(tmp_path / "none.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="is not TOML"):
        rs.Domain.load(tmp_path / "b.toml")


def test_adding_something_else_to_a_workload_is_a_type_error():
    with pytest.raises(TypeError):
        ASKED + 3


def test_an_error_is_one_short_line_whatever_was_given():
    with pytest.raises(rs.ResiduaError) as long:
        rs.Domain({"a": "x" * 100_000})
    assert len(str(long.value)) < 2_000
    assert str(long.value).endswith("or a list of labels.")
    assert str(rs.ResiduaError("a\nb\x1b[31m\x7f é")) == r"a\nb\x1b[31m\x7f é"
