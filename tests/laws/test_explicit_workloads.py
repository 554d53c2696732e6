"""Explicit queries: matrices, SQL expressions, mixtures with marginals; and every mistake in them."""

import threading

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import residua as rs
from residua import sql
from residua.errors import SourceError, WorkloadError


@pytest.fixture(scope="module")
def domain():
    return rs.Domain(
        {
            "age": rs.Integers(0, 9, unknown="other"),
            "sex": ["F", "M"],
            "marital-status": ["a", "b"],
            "size": rs.Bins([0, 1, 2]),
        }
    )


def row(workload, i=0):
    return workload.matrix[[i]].toarray().reshape(workload.shape)


def test_a_predicate_is_one_where_it_holds(domain):
    found = row(rs.queries(domain, ["age >= 5 and sex = 'F'"]))
    for age in range(11):
        for s, sex in enumerate(("F", "M")):
            assert found[age, s] == (5 <= age < 10 and sex == "F")  # the other ages are NULL: not satisfied


def test_numeric_expressions_bins_quoted_names_and_other_cells(domain):
    workload = rs.queries(
        domain,
        {
            "years": "age",
            "half": "case when sex = 'M' then 0.5 else 0 end",
            "status": "\"marital-status\" = 'b'",
            "bin": "size = '[0, 1)'",
            "unknown age": "age is null",
            "everybody": "true",
        },
    )
    assert workload.labels == ("years", "half", "status", "bin", "unknown age", "everybody")
    cells = {name: row(workload, i) for i, name in enumerate(workload.labels)}
    assert np.array_equal(cells["years"][:, 0, 0, 0], [*range(10), 0])
    assert np.array_equal(cells["half"][0, :, 0, 0], [0, 0.5])
    assert np.array_equal(cells["status"][0, 0, :, 0], [0, 1])
    assert np.array_equal(cells["bin"][0, 0, 0, :], [1, 0])
    assert cells["unknown age"][:, 0, 0, 0].tolist() == [0] * 10 + [1]
    assert cells["everybody"].all()


def test_matrices_dense_sparse_and_in_another_order_of_attributes():
    domain = rs.Domain.of_sizes({"a": 2, "b": 3})
    matrix = np.arange(12).reshape(2, 6)
    dense, sparse = rs.explicit(domain, matrix), rs.explicit(domain, csr_array(matrix))
    assert np.array_equal(dense.matrix.toarray(), sparse.matrix.toarray())
    turned = rs.explicit(domain, matrix.reshape(2, 2, 3).transpose(0, 2, 1).reshape(2, 6), on=["b", "a"])
    assert np.array_equal(turned.matrix.toarray(), matrix)
    one = rs.explicit(domain, np.eye(3), on=["b"])
    assert np.array_equal(one.over((0, 1)).toarray(), np.tile(np.eye(3), 2))


def test_marginals_as_explicit_queries_sum_the_right_cells():
    domain = rs.Domain.of_sizes({"a": 2, "b": 3, "c": 2})
    workload = rs.marginals(domain, [("c", "a"), (), ("b",)], weight=2.0)
    found = workload.listed()
    x = np.random.default_rng(0).integers(0, 9, (2, 3, 2))
    expected = np.concatenate([x.sum(axis=1).ravel(), [x.sum()], x.sum(axis=(0, 2))])
    assert np.array_equal(found.matrix @ x.ravel(), expected)
    assert found.labels[:2] == ("a=0, c=0", "a=0, c=1")
    assert (found.weights == 2.0).all()


def test_sums_and_weights(domain):
    adults = rs.queries(domain, ["age >= 5"])
    mixed = adults + 3 * rs.marginals(domain, ["sex"][:0] or [("sex",)])
    assert mixed.labels == ("age >= 5", "sex=F", "sex=M")
    assert mixed.weights.tolist() == [1, 3, 3]
    assert (rs.marginals(domain, [("sex",)]) + adults).queries == 3
    assert repr(mixed) == "Workload(3 queries in 2 parts of age, sex)"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: rs.queries(d, ["agee > 3"]), "unknown attribute 'agee'"),
        (lambda d: rs.queries(d, ["age >"]), "syntax error"),
        (lambda d: rs.queries(d, ["sex"]), "not a condition or a number"),
        (lambda d: rs.queries(d, ["(select 1)"]), "more than one expression"),
        (lambda d: rs.queries(d, ["1; select 2"]), "syntax error"),
        (lambda d: rs.queries(d, ["age) , (sex"]), "more than one expression"),
        (lambda d: rs.queries(d, ["columns(*) is null"]), "more than one expression"),
        (lambda d: rs.queries(d, ["Age > 3"]), "unknown attribute 'Age'; did you mean 'age'"),
        (lambda d: rs.queries(d, ["sum(age)"]), "sums over rows"),
        (lambda d: rs.queries(d, ["count(*)"]), "sums over rows"),
        (lambda d: rs.queries(d, ["age > avg(age) over ()"]), "window function"),
        (lambda d: rs.queries(d, ["sex = '\ud800'"]), "half a character"),
        (lambda d: rs.queries(d, ["random() < 0.5"]), "not the same every time"),
        (lambda d: rs.queries(d, ["+".join(["age"] * 2000)]), "depth"),
        (lambda d: rs.queries(d, ["+".join(["age"] * 900)]), "too deeply"),
        (lambda d: rs.queries(d, ["1 / (age - 3)"]), "finite"),
        (lambda d: rs.queries(d, ["nosuchfunction(age)"]), "nosuchfunction"),
        (lambda d: rs.queries(d, []), "empty"),
        (lambda d: rs.queries(d, "age > 3"), "list them"),
        (lambda d: rs.queries(d, [""]), "not SQL"),
        (lambda d: rs.queries(d, [3]), "not SQL"),
        (lambda d: rs.queries(d, ["age > 3", "age > 3"]), "twice"),
        (lambda d: rs.queries(d, ["age > 3"], weight=0), "weight"),
        (lambda d: rs.queries("domain", ["age > 3"]), "not a Domain"),
        (lambda d: rs.explicit("domain", [[1]]), "not a Domain"),
        (lambda d: rs.explicit(d, np.ones((2, 3))), "88 cells"),
        (lambda d: rs.explicit(d, [[1, 2], [3]]), "matrix of numbers"),
        (lambda d: rs.explicit(d, np.full((1, 88), np.nan)), "NaN"),
        (lambda d: rs.explicit(d, np.ones((0, 88))), "no rows"),
        (lambda d: rs.explicit(d, np.ones((1, 2)), on=["sexx"]), "unknown attribute"),
        (lambda d: rs.explicit(d, np.ones((1, 88)), labels=["a", "b"]), "labels"),
        (lambda d: rs.explicit(d, np.ones((1, 88))) + rs.queries(rs.Domain.of_sizes([2]), ["a0"]), "different domains"),
    ],
)
def test_mistakes(domain, call, message):
    with pytest.raises(WorkloadError, match=message):
        call(domain)


def test_too_many_cells_says_how_many_and_what_to_use():
    domain = rs.Domain.of_sizes([100] * 4)
    with pytest.raises(WorkloadError, match=r"100,000,000 cells.*marginals"):
        rs.queries(domain, ["a0 + a1 + a2 + a3 > 3"])
    with pytest.raises(WorkloadError, match="100,000,000"):
        rs.explicit(domain, np.ones((1, 1)))


def test_a_query_cannot_reach_files(domain, tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("n\n5\n")
    for text in (f"(select n from read_csv('{path}')) > 3", f"age > (from '{path}')", f"getenv('HOME') = '{path}'"):
        with pytest.raises(WorkloadError):
            rs.queries(domain, [text])


def test_names_that_differ_in_case_only_are_told_apart():
    domain = rs.Domain({"a": ["x", "y"], "A": ["x", "y"]})
    for name, expected in (("a", [[1, 1], [0, 0]]), ("A", [[1, 0], [1, 0]])):
        assert np.array_equal(np.broadcast_to(row(rs.queries(domain, [f"{name} = 'x'", "a = A"])), (2, 2)), expected)
    assert np.array_equal(row(rs.queries(domain, ["a = A"])), np.eye(2))


def test_a_sum_of_many_terms_is_one_number(domain):
    assert np.array_equal(row(rs.queries(domain, ["+".join(["age"] * 110)]))[:10], 110 * np.arange(10))


BOMBS = [
    "length(repeat('x', 2000000000)) > 1",
    "length(lpad(sex, 2000000000, 'x')) > 1",
    "length(lpad(sex, age * 100000000, 'x')) > 1",
    "length(replace(replace(sex, 'F', 'FFFFFFFFF'), 'F', 'FFFFFFFFF')) > 1",
    "length(regexp_replace(sex, '', 'xxxxxxxxx', 'g')) > 1",
    "length(concat_ws(concat_ws(sex, 1, 1, 1, 1), 1, 1, 1, 1)) > 1",
    "length(format('{:2000000000}', age)) > 1",
    "length(printf('%2000000000d', age)) > 1",
    "len(range(2000000000)) > age",
    "length(bitstring('1', 2000000000)) > 1",
    "list_contains(list_transform([1, 2], x -> x + age), 3)",
    "CAST(NULL AS INTEGER[100000][100000]) IS NULL",
    "length(hex(hex(hex(sex)))) > 1",
    "length(sex::BLOB::VARCHAR) > 1",
]


@pytest.mark.parametrize("text", BOMBS)
def test_a_condition_that_would_fill_memory_is_refused_before_it_is_computed(text):
    domain = rs.Domain({"age": rs.Integers(0, 10), "sex": ["F", "M"]})
    with pytest.raises(WorkloadError, match=r"may use|below 1000|no longer|only removes|as a text|lambda|casts to"):
        rs.queries(domain, [text])
    with pytest.raises(SourceError, match="is refused"):
        rs.Source.frame(pa.table({"age": [1], "sex": ["F"]})).with_columns({"more": text})


def test_conditions_may_call_what_cleans_and_compares():
    """Whatever makes text no longer than what it is made from."""
    domain = rs.Domain({"day": rs.Dates("2024-01-01", "2024-12-31"), "code": ["1.a", "02-b", "3"]})
    texts = [
        "lpad(split_part(code, '.', 1), 3, '0') = '001'",
        "replace(code, '.', '') = '1a' or replace(code, '-', '_') = '02_b'",
        "regexp_replace(code, '[^0-9]', '', 'g')::INTEGER > 1",
        "concat_ws('-', code, 'x') LIKE '%b-x' or code ILIKE '%A'",
        "date_trunc('month', day) = DATE '2024-02-01' and isodow(day) IN (6, 7)",
        "TRY_CAST(left(code, 1) AS DOUBLE) BETWEEN 0 AND 2 and day + INTERVAL 1 DAY > DATE '2024-06-30'",
        "CASE WHEN list_contains(['3', '4'], code) THEN greatest(1, 2) ELSE coalesce(nullif(month(day), 1), 0) END",
    ]
    assert rs.queries(domain, texts).queries == len(texts)


def test_what_takes_too_long_is_interrupted(monkeypatch):
    class Engine:
        interrupted = threading.Event()

        def interrupt(self):
            self.interrupted.set()

    monkeypatch.setattr(sql, "_MOST_SECONDS", 0.01)
    with sql.within_time(Engine()):
        assert Engine.interrupted.wait(600)
    assert sql.engine_words(duckdb.InterruptException("x")) == "it takes longer than 0.01 s"
