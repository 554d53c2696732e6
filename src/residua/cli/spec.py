"""A specification: one TOML file that says source, domain, workload, privacy or targets, and objective.

[source]          path = "adult.csv" (CSV, Parquet, Feather, JSON lines, Excel, SPSS, Stata, SAS, a glob, a list, a
                  folder of Parquet, here or at s3://, gs://, abfss://, https://), with a query over the table `data`
                  if you like; or database and query; or uri and query; or [source.tables] and query;
                  or delta = "folder", version = 3; or iceberg = "catalogue.table", snapshot = 7; or spark = "db.table";
                  delimiter = ";", encoding = "cp1252", decimal = ",", date_format = "%d.%m.%Y" of delimited text;
                  sheet = "Tabelle1" of a workbook; counts = "n" (how many records each row stands for, if the data is
                  aggregated); person = "id" (a column, or a list of them), with no_person = "refuse" | "drop" |
                  "apart" for records that are nobody's
[domain.NAME]     values = […] | values = { file, column } | low, high | edges, labels | intervals | first, last, unit |
                  size; unknown, missing; levels; expression = SQL over the columns of one record
[[domain.impossible]]  NAME = a value | values | { low, high }, for each attribute of the rule
[[workload]]      ways = [1, 2] | sets = [["age", "sex"]] | max_cells = 5000 | queries = ["age >= 18"], or a table of
                  label = SQL | prefixes = "age", ranges = "age" (listed = [[18, 64]]) or hierarchy = "county", with
                  by = ["sex"] | product = { age = "prefixes", sex = "identity" }, with ways or sets if you like;
                  weight; variance, stddev, or margin with confidence as target
[privacy]         rho | mu | epsilon and delta | epsilon: Laplace noise; epsilon = "least" with targets;
                  records = 1 per person, or replace = true; where [source] names the person: the most records of
                  each that are counted, with one_per = "month" or per = { month = 1 } if you like; left_out = 0.02:
                  the share that goes to estimating how many are not (0: none), left_out_most = 50 of each person;
                  where it has weights: sampling = 0.05, the share for the sampling error (0: bounds alone)
[objective]       minimise = "total" | "max" | "largest" with count | "p-norm" with p | "estimates" with records;
                  tolerance; dense = true: one by one; axis = true: with noise along an axis, however short, as a
                  continual release takes it
[ledger]          path = "adult.ledger"; rho | mu | epsilon and delta | epsilon: the whole budget of the dataset;
                  witness = "/elsewhere/adult.witness", discovery_delta = 1e-9
[report]          language = "de": of all that people read about it, where they ask for no other
[plan.NAME]       candidates of a session (sessions.py); [session] state = "folder"
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from residua.cli.objectives import NUMBERS, SPENDING, TARGETS, changed, known_keys, objective_of, section, target_of
from residua.cli.options import WhatIf
from residua.cli.sources import refuse_credentials
from residua.domain import Domain, domain_of_settings
from residua.errors import FileError, PrivacyError, ResiduaError, SpecError
from residua.files import read_regular, require_path
from residua.plans.objectives import Objective
from residua.privacy import GDP, ZCDP, AddRemove, ApproxDP, Guarantee, Person, PureDP, ReplaceOne, Unit
from residua.privacy.guarantees import LEFT_OUT_SHARE, SAMPLING_SHARE, without_share
from residua.source import Weights
from residua.source.options import NO_WEIGHT
from residua.source.records import parsed_expression
from residua.workload import Workload, added, hierarchy, marginals, prefixes, product, queries, ranges

_SECTIONS = {
    "source": {
        *("path", "tables", "database", "uri", "delta", "version", "iceberg", "snapshot", "spark", "query"),
        *("delimiter", "encoding", "decimal", "date_format", "sheet", "counts", "weights", "person", "no_person"),
    },
    "privacy": {*SPENDING, "records", "replace", "one_per", "per", "left_out", "left_out_most", "sampling"},
    "objective": {"minimise", *NUMBERS, "tolerance", "dense", "axis"},
    "ledger": {"path", "witness", "discovery_delta", *SPENDING},
    "session": {"state", "by"},
    "report": {"language"},
}
_BUDGETS: dict[frozenset[str], tuple[Callable[..., Guarantee], str]] = {
    frozenset({"rho"}): (ZCDP, "rho = 0.5"),
    frozenset({"mu"}): (GDP, "mu = 1.0"),
    frozenset({"epsilon", "delta"}): (ApproxDP, "epsilon = 1.0 with delta = 1e-9"),
    frozenset({"epsilon"}): (PureDP, "epsilon = 1.0"),
}
_LEAST = "least"  # in place of epsilon: the least that meets the targets
_MARGINALS = {"ways", "sets", "max_cells"}
_ALONG: dict[str, Callable[..., Workload]] = {"prefixes": prefixes, "ranges": ranges, "hierarchy": hierarchy}
_AS_IT_IS = WhatIf()
_WORKLOAD = {*_MARGINALS, *_ALONG, "queries", "product", "by", "listed", "weight", *TARGETS}


@dataclass(frozen=True, eq=False)
class Spec:
    """What a specification file says, checked."""

    path: Path
    domain: Domain
    workload: Workload
    guarantee: Guarantee | None
    least_epsilon: bool  # Laplace noise, of the least epsilon that meets the targets
    targets: np.ndarray[Any, np.dtype[np.float64]] | None
    unit: Unit
    minimise: Objective | None
    for_estimates: bool  # planned by `rs.plan_estimates`
    records: Any  # about how many there are, for estimates
    tolerance: float | None
    axis: bool  # whether noise is to be correlated along an axis, however short
    source: Mapping[str, Any]
    expressions: Mapping[str, str]  # attributes that are computed from a record's columns
    ledger: Mapping[str, Any]
    ledger_budget: Guarantee | None  # the dataset's whole budget, if stated
    left_out: float  # which share to spend on how many records of persons are not counted
    left_out_most: int | None
    weights: Weights | None  # survey weights, which are clipped
    sampling: float  # which share to spend on their squares, for the sampling error

    @property
    def folder(self) -> Path:
        """What its paths are relative to."""
        return self.path.absolute().parent

    @property
    def ledger_path(self) -> Path:
        """Where the dataset's ledger is."""
        return self.folder / str(self.ledger.get("path", "residua.ledger"))


def read_spec(path: Path, what_if: WhatIf = _AS_IT_IS) -> Spec:
    """Reads and checks a specification file, with some changes if there are any.

    Raises:
        SpecError: the file is missing, is not TOML, or says something that means nothing.
    """
    content = read_content(path)
    if "plan" in content and "workload" not in content:
        raise SpecError(
            f"{path.name} has named plans and no [[workload]] of its own; use residua session, or write a [[workload]]."
        )
    return spec_of(changed(content, what_if), path)


def read_content(path: Path) -> dict[str, Any]:
    """The tables of a specification file, unchecked."""
    try:
        return tomllib.loads(read_regular(path, follow=True).decode())
    except FileError as problem:
        why = str(problem).removeprefix(f"cannot read {str(path)!r}: ").rstrip(".")
        raise SpecError(
            f"cannot read the specification {str(path)!r}: {why}; check the path, or draft one with residua init."
        ) from None
    except (ValueError, RecursionError) as problem:
        raise SpecError(f"{str(path)!r} is not TOML: {problem}; correct it there.") from None


def spec_of(content: Mapping[str, Any], path: Path, where: str = "") -> Spec:
    """The specification that some tables make, read from a file; `where` says which part of it is meant."""
    try:
        return _spec(content, path)
    except SpecError as problem:
        if where:
            raise SpecError(f"{where}: {problem}") from None
        raise
    except ResiduaError as problem:
        raise SpecError(f"{where or path.name}: {problem}") from None


def _spec(content: Mapping[str, Any], path: Path) -> Spec:
    known_keys("the specification", content, {*_SECTIONS, "domain", "workload", "plan", "facts"})
    if "weight" in section(content, "source"):
        raise SpecError(f"[source] has no weight; {NO_WEIGHT}")
    for name, known in _SECTIONS.items():
        known_keys(f"[{name}]", section(content, name), known)
    source, privacy, objective, ledger = (
        section(content, name) for name in ("source", "privacy", "objective", "ledger")
    )
    refuse_credentials(source)
    if "domain" not in content:
        raise SpecError("there is no domain; declare each attribute in a [domain.NAME] table.")
    declared, expressions = _expressions(content["domain"])
    report = section(content, "report")
    if not isinstance(report.get("language", ""), str):
        raise SpecError(f'[report] language = {report["language"]!r} is not a text; write "de", for example.')
    folder = path.absolute().parent
    domain = domain_of_settings(declared, folder)
    if report:
        domain = Domain(domain.attributes, domain.impossible, **report)
    workload, targets = _workload(domain, content.get("workload"))
    dense, axis = (flag("[objective]", objective, key) for key in ("dense", "axis"))
    if dense and axis:
        raise SpecError("[objective] has both dense and axis, which are two forms of plans; give one.")
    if dense:
        workload = workload.listed()
    least = _least_epsilon(privacy, targets is not None)
    guarantee = None if least else budget_of("privacy", privacy)
    weights, sampling = _weights(privacy, source)
    if guarantee is not None and sampling:
        guarantee = without_share(guarantee, sampling)
    if (least or isinstance(guarantee, PureDP)) and any("margin" in term for term in content["workload"]):
        raise SpecError(
            "[[workload]] margin is worked out for normal noise, and epsilon without delta is Laplace noise, whose "
            "tails are heavier; give stddev instead, or a delta."
        )
    if axis and (least or isinstance(guarantee, PureDP)):
        raise SpecError("[objective] axis is for normal noise; remove it, or give a delta, or rho or mu.")
    for name in ("path", "witness"):
        if not isinstance(ledger.get(name, ""), str) or "\0" in ledger.get(name, ""):
            raise SpecError(f"[ledger] {name} = {ledger[name]!r} is not a path; name the ledger's file.")
    require_path(folder / ledger.get("path", ""))
    if guarantee is None and targets is None:
        raise SpecError("say what to spend, [privacy] rho = 0.5, or how accurate to be, [[workload]] stddev = 10.")
    return Spec(
        path=path,
        domain=domain,
        workload=workload,
        guarantee=guarantee,
        least_epsilon=least,
        targets=targets,
        unit=_unit(privacy, source) if weights is None else weights.protects,
        minimise=objective_of(objective, targets is not None),
        for_estimates=objective.get("minimise") == "estimates",
        records=objective.get("records"),
        tolerance=objective.get("tolerance"),
        axis=axis,
        source=source,
        expressions=expressions,
        ledger=ledger,
        ledger_budget=budget_of("ledger", ledger),
        **_left_out(privacy, source),
        weights=weights,
        sampling=sampling,
    )


def flag(where: str, settings: Mapping[str, Any], key: str) -> bool:
    """A setting that is true or false, and false where it is left out."""
    value = settings.get(key, False)
    if not isinstance(value, bool):
        raise SpecError(f"{where} {key} = {value!r} is not true or false; write one of them.")
    return value


def _expressions(domain: Any) -> tuple[Any, dict[str, str]]:
    """The domain's declaration without the expressions in it, and the expressions: they say how records are read."""
    if not isinstance(domain, Mapping):
        return domain, {}
    expressions = {
        name: declared["expression"]
        for name, declared in domain.items()
        if isinstance(declared, Mapping) and "expression" in declared
    }
    for name, text in expressions.items():
        parsed_expression(name, text)
    plain = {
        name: {key: value for key, value in declared.items() if key != "expression"}
        if name in expressions
        else declared
        for name, declared in domain.items()
    }
    return plain, expressions


def _workload(domain: Domain, terms: Any) -> tuple[Workload, np.ndarray[Any, np.dtype[np.float64]] | None]:
    if not isinstance(terms, list) or not terms:
        raise SpecError('there is no workload; write [[workload]] with ways = [1, 2] or sets = [["age"], …].')
    parts: list[Workload] = []
    targets: list[float | None] = []
    for term in terms:
        known_keys("[[workload]]", term, _WORKLOAD)
        parts.append(_term(domain, term))
        targets.append(target_of(term))
    workload = added(parts)
    if all(target is None for target in targets):
        return workload, None
    if any(target is None for target in targets):
        raise SpecError(
            "some [[workload]] entries have a target and some have none; give each a variance, stddev or margin."
        )
    if workload.queries < sum(part.queries for part in parts):
        raise SpecError("a marginal is asked for in two [[workload]] entries with targets; ask for it in one.")
    return workload, _targets(workload, parts, [target for target in targets if target is not None])


def _targets(workload: Workload, parts: list[Workload], targets: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The target of every query of the workload, in its order."""
    if not workload.with_rows:
        return np.concatenate([np.full(part.queries, c) for part, c in zip(parts, targets, strict=True)])
    # Terms that ask alike stand together in a products workload, in whatever order they were written.
    by_term = {
        term: target for part, target in zip(parts, targets, strict=True) if part.tabular for term in part.terms()
    }
    return np.repeat([by_term[term] for term in workload.terms()], workload.cells.astype(np.int64))


def _term(domain: Domain, term: Mapping[str, Any]) -> Workload:
    weight = term.get("weight", 1.0)
    what = [key for key in ("queries", "product", *_ALONG) if key in term]
    if len(what) > 1:
        raise SpecError(f"[[workload]] has {what[0]} beside {what[1]}; write two [[workload]] entries.")
    allowed = {"queries": set(), "product": {"ways", "sets"}, "ranges": {"by", "listed"}}.get(
        what[0] if what else "", {"by"} if what else _MARGINALS
    )
    stray = sorted(set(term) & ({*_MARGINALS, "by", "listed"} - allowed))
    if stray and not what:
        raise SpecError(f"[[workload]] has {stray[0]}, but neither prefixes, ranges nor hierarchy; say which.")
    if stray:
        raise SpecError(f"[[workload]] has {what[0]} beside {stray[-1]}; write two [[workload]] entries.")
    if "queries" in term:
        return queries(domain, term["queries"], weight=weight)
    asked = {key: term[key] for key in allowed if key in term}
    if "product" in term:
        return product(domain, term["product"], weight=weight, **asked)
    if what:
        return _ALONG[what[0]](domain, term[what[0]], weight=weight, **asked)
    return marginals(domain, weight=weight, **asked)


def _least_epsilon(settings: Mapping[str, Any], has_targets: bool) -> bool:
    """Whether [privacy] asks for the least epsilon that meets the targets."""
    if settings.get("epsilon") != _LEAST:
        return False
    beside = [key for key in ("rho", "mu", "delta") if key in settings]
    if beside:
        raise SpecError(
            f'[privacy] has {beside[0]} beside epsilon = "least", which is for Laplace noise alone; remove one of them.'
        )
    if not has_targets:
        raise SpecError(
            '[privacy] epsilon = "least" needs targets to meet; give each [[workload]] a variance or stddev.'
        )
    return True


def budget_of(section: str, settings: Mapping[str, Any]) -> Guarantee | None:
    """The budget that settings state: rho, mu, epsilon with delta, or epsilon alone; None without any of them."""
    given = {key: settings[key] for key in SPENDING if key in settings}
    least = [key for key, value in given.items() if value == _LEAST]
    if least and section == "ledger":
        raise SpecError(f'[ledger] {least[0]} = "least" is no budget; write a number.')
    if least:
        raise SpecError(
            f'[privacy] {least[0]} = "least" is only for epsilon; with targets, leave [privacy] {least[0]} out.'
        )
    if not given:
        return None
    if frozenset(given) not in _BUDGETS:
        raise SpecError(
            f"[{section}] has {', '.join(given)}; give rho, or mu, or epsilon with delta, or epsilon alone."
        )
    make, example = _BUDGETS[frozenset(given)]
    try:
        return make(**given)
    except PrivacyError as problem:
        why = str(problem).partition("; give a budget such as")[0].rstrip(".")  # which is for Python
        raise SpecError(f"[{section}] {why}; write {example}, for example.") from None


def _unit(settings: Mapping[str, Any], source: Mapping[str, Any]) -> Unit:
    if source.get("person") is not None:
        return _person(settings)
    stray = [key for key in ("one_per", "per") if key in settings]
    if stray:
        raise SpecError(
            f"[privacy] {stray[0]} bounds what each person contributes, but [source] does not say whose each record "
            'is; write person = "id" there.'
        )
    if flag("[privacy]", settings, "replace"):
        if "records" in settings:
            raise SpecError("[privacy] has both records and replace; give one.")
        return ReplaceOne()
    return AddRemove(settings.get("records", 1))


def _person(settings: Mapping[str, Any]) -> Person:
    if "replace" in settings:
        raise SpecError("[privacy] replace is about one record, and [source] names persons; remove one of the two.")
    if "records" not in settings:
        raise SpecError("[source] names the person; say how many records of each are counted: [privacy] records = 5.")
    try:
        return Person(settings["records"], one_per=settings.get("one_per"), per=settings.get("per", ()))
    except PrivacyError as problem:
        raise SpecError(f"[privacy] {problem}") from None


def _left_out(settings: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    asked = {name: settings[name] for name in ("left_out", "left_out_most") if name in settings}
    if asked and source.get("person") is None:
        raise SpecError('[privacy] left_out is about persons; say whose each record is: [source] person = "id".')
    return {"left_out": asked.get("left_out", LEFT_OUT_SHARE), "left_out_most": asked.get("left_out_most")}


def _weights(settings: Mapping[str, Any], source: Mapping[str, Any]) -> tuple[Weights | None, float]:
    """The survey weights, and which share of what is spent goes to their squares."""
    if "weights" not in source:
        if "sampling" in settings:
            raise SpecError('[privacy] sampling is about survey weights; write [source] weights = { column = "w", … }.')
        return None, 0.0
    known_keys("[source] weights", source["weights"], {"column", "most", "step"})
    if lacking := [key for key in ("column", "most") if key not in source["weights"]]:
        raise SpecError(f'[source] weights lacks {lacking[0]}; write weights = {{ column = "w", most = 50 }}.')
    stray = [key for key in ("records", "replace", "one_per", "per") if key in settings]
    if stray:
        raise SpecError(
            f"[privacy] has {stray[0]}, and [source] weights already say what one respondent changes; remove one "
            "of the two."
        )
    share = settings.get("sampling", SAMPLING_SHARE)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise SpecError(f"[privacy] sampling = {share!r} is not a share of what is spent; write 0.05, or 0 for none.")
    return Weights(**source["weights"]), float(share)
