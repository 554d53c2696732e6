"""Arrays, columns and types of NumPy, pandas, Polars and Arrow stand for lists; values are pickled and copied."""

import copy
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import DomainError, ResiduaError
from tests.laws.test_errors_hold_no_data import NAMES
from tests.saved import saved

LETTERS = ["a", "b", "c"]
LISTS: dict[str, Callable[[list[Any]], Any]] = {
    "array": np.array,
    "objects": lambda values: np.array(values, dtype=object),
    "series": pd.Series,
    "index": pd.Index,
    "unique": lambda values: pd.Series(values * 2).unique(),
    "categories": lambda values: pd.CategoricalDtype(values),
    "categorical": lambda values: pd.Categorical(values),
    "polars": pl.Series,
    "arrow": pa.array,
    "chunks": lambda values: pa.chunked_array([values]),
    "scalars": lambda values: list(np.array(values)),
}


@pytest.mark.parametrize("kind", LISTS)
def test_whatever_holds_values_stands_for_their_list(kind: str) -> None:
    of = LISTS[kind]
    assert rs.Categories(of(LETTERS)) == rs.Categories(LETTERS)
    assert rs.Categories(of([3, 1, 2])) == rs.Categories([3, 1, 2])
    assert rs.Domain({"x": of(LETTERS)}) == rs.Domain({"x": LETTERS})
    assert rs.Bins(of([0.0, 1.5, 9.0]), of(["low", "high"])) == rs.Bins([0, 1.5, 9], ["low", "high"])
    grouped = rs.Categories(LETTERS, levels={"group": {"first": of(["a", "b"]), "rest": of(["c"])}})
    assert grouped == rs.Categories(LETTERS, levels={"group": {"first": ["a", "b"], "rest": ["c"]}})


def test_numbers_and_days_of_other_libraries() -> None:
    assert rs.Bins(np.linspace(0, 1, 5)).edges == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert rs.Bins.of_intervals(np.array([[0, 1], [1, 2]])) == rs.Bins([0, 1, 2])
    assert rs.Categories(np.array([False, True])).values == ("false", "true")
    assert rs.Categories(pl.Enum(LETTERS)).values == tuple(LETTERS)  # type: ignore[arg-type]
    assert rs.Integers(np.int16(0), np.uint8(9)) == rs.Integers(0, 9)  # type: ignore[arg-type]
    assert type(rs.Integers(np.int16(0), np.uint8(9)).low) is int  # type: ignore[arg-type]
    assert rs.Dates(pd.Timestamp("2024-01-01"), np.datetime64("2024-03-01")) == rs.Dates("2024-01-01", "2024-03-01")  # type: ignore[arg-type]
    for bad in (np.array(3), np.array([1.5]), pd.Series(["x", None]), {"a"}, pd.Timestamp("2024-01-01 08:00")):
        with pytest.raises(DomainError):
            rs.Categories(bad)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="is not a date"):
        rs.Dates(pd.Timestamp("2024-01-01 08:00"), "2024-02-01")  # type: ignore[arg-type]


def test_a_column_of_records_is_refused_and_not_quoted() -> None:
    for column in (pd.Series(["Anna Schmidt"] * 2), np.array(["Anna Schmidt"] * 2), pl.Series(["Anna Schmidt"] * 2)):
        for call in (rs.Categories, lambda given: rs.Domain({"name": given})):
            with pytest.raises(DomainError, match="listed twice") as caught:
                call(column)
            assert "Anna" not in str(caught.value)


def test_a_name_alone_stands_for_a_list_of_it() -> None:
    release = rs.Release.load(saved() / "residual_release")
    name, other = release.domain.names[:2]
    assert str(release.table(name)) == str(release.table([name]))
    assert str(release.share(name)) == str(release.share([name]))
    assert str(release.share(name, by=other)) == str(release.share([name], by=[other]))
    workload = rs.marginals(release.domain, ways=[1, 2])
    for named, objective in (("max", rs.MaxVariance()), ("total", rs.TotalVariance())):
        plans = [rs.plan(workload, rs.ZCDP(0.5), minimise=best) for best in (named, objective)]
        assert plans[0].variances(workload).tolist() == plans[1].variances(workload).tolist()
    with pytest.raises(ResiduaError, match="minimise='least' is not an objective; use one such as"):
        rs.plan(workload, rs.ZCDP(0.5), minimise="least")


DOMAIN = rs.Domain(
    {
        "sex": rs.Categories(["F", "M"], missing="other").described("Sex", meanings={"F": {"title": {"de": "Frau"}}}),
        "age": rs.Integers(0, 3, levels={"half": [0, 2, 3]}),
        "day": rs.Dates("2024-01-01", "2024-02-03", "week"),
        "income": rs.Bins([0, 10, float("inf")]),
        "block": rs.CodeList(["a1", "a2", "b1"], levels={"tract": ["a", "a", "b"]}),
    },
    impossible=[{"sex": "F", "age": [3]}],
)
VALUES: dict[str, Any] = {
    "domain": DOMAIN,
    "workload": rs.marginals(DOMAIN, ways=[1, 2]),
    "products": rs.prefixes(DOMAIN, "age", by="sex") + rs.queries(DOMAIN, ["age < 2"]),
    "plan": rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(0.5)),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_pickled_and_copied(name: str) -> None:
    value = VALUES[name]
    for same in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert repr(same) == repr(value)
        assert getattr(same, "domain", same) == DOMAIN
        words = getattr(same, "domain", same)["sex"].words
        assert words == DOMAIN["sex"].words
        with pytest.raises(TypeError):
            words.title[""] = "changed"  # frozen still
        if name == "plan":
            asked = VALUES["workload"]
            assert same.variances(asked).tolist() == value.variances(asked).tolist()


def test_a_pickled_release_is_what_is_saved_and_nothing_else(tmp_path: Path) -> None:
    data = pa.table({"sex": ["F", "M"] * 50, "age": [0, 1] * 50})
    domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 3)})
    plan = rs.plan(rs.marginals(domain, ways=[2]), rs.ZCDP(0.5))
    release = rs.measure(plan, data, ledger=rs.Ledger.create(tmp_path / "a.ledger", rs.ZCDP(0.5)))
    release.table(["sex"])  # which keeps what it computed
    release.save(tmp_path / "out")
    content = pickle.dumps(release)
    kept = [held for code, held, _ in pickletools.genops(content) if code.name.endswith("BYTES")]
    assert sorted(kept) == sorted(file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert str(pickle.loads(content).table(["sex"])) == str(release.table(["sex"]))
    assert copy.deepcopy(release) is copy.copy(release) is release


def test_a_domain_is_drafted_from_types_alone() -> None:
    columns = {**NAMES, "n": [1, 2], "member": [True, False], "small": np.array([1, 2], dtype=np.uint8)}
    frame = pd.DataFrame(columns).assign(kind=pd.Categorical(["x", "y"], categories=["y", "x", "z"]))
    frames = (frame, pl.from_pandas(frame).with_columns(pl.col("kind").cast(pl.Enum(["y", "x", "z"]))))
    for each in frames:
        draft = rs.Domain.draft(each)
        assert not [text for text in ("Anna", "Bob", "F32") if text in str(draft)]
        assert set(draft.attributes) == {"member", "small", "kind"}
        assert "come from the data" in draft.origins["kind"]
        domain = rs.Domain(draft.declared(n=rs.Integers(0, 9), name=None, diagnosis=None))
        assert domain.names == ("n", "member", "small", "kind")
        assert domain["kind"].labels == ("y", "x", "z")
        with pytest.raises(DomainError, match=r"do not say what 'name', 'diagnosis', 'n' may hold"):
            draft.declared()
    assert set(rs.Domain.draft(pa.Table.from_pandas(frame)).attributes) == {"member", "small"}
    with pytest.raises(DomainError, match="frame is a list"):
        rs.Domain.draft([1])
