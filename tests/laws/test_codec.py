"""The codec against a slow reading of the same rules, value by value, over every Arrow type that can hold it."""

import datetime
import math
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from residua.domain import Anonymous, Attribute, Bins, Categories, Integers
from residua.domain.codec import MISSING, UNKNOWN, encode, settle, whole_numbers
from residua.errors import SourceError

AGE = Integers(-5, 90)
BINS = Bins([0, 10.5, 20, math.inf])
DIGITS = Categories([3, 1, -7])
NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 3), pa.decimal256(50, 0), pa.string()),
]
TEXTS = pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())


def number(text: str) -> Decimal | None:
    words = {"true": "1", "false": "0"}
    try:
        return Decimal(words.get(text.strip().lower(), text.strip()))
    except InvalidOperation:
        return None


def slow_code(attribute: Attribute, text: str | None) -> int:
    """The rules of the codec's docstring, in the plainest Python."""
    if text is None or not text.strip() or text.strip().lower() == "nan":
        return MISSING
    value = number(text)
    if value is None or "_" in text:
        return UNKNOWN
    if isinstance(attribute, Bins):
        edges, real = attribute.edges, float(value)
        for i in range(len(edges) - 1):
            if edges[i] <= real < edges[i + 1]:
                return i
        return len(edges) - 2 if real == edges[-1] else UNKNOWN
    if value.is_infinite() or value != int(value):
        return UNKNOWN
    labels = list(attribute.declared_labels)
    return labels.index(int(value)) if int(value) in labels else UNKNOWN


numerals = st.one_of(
    st.integers(-120, 120).map(str),
    st.integers(-(10**25), 10**25).map(str),
    st.decimals(-100, 100, places=2, allow_nan=False).map(str),
    st.builds(lambda n, zeros: f" {n}.{'0' * zeros} ", st.integers(-9, 99), st.integers(0, 4)),
    st.builds(lambda n, e: f"{n}e{e}", st.integers(-9, 9), st.integers(-3, 3)),
    st.sampled_from(["", " ", "nan", "NaN", "inf", "-inf", "Infinity", "true", "False", "x", "1_0", "0x1", "+7"]),
    st.sampled_from(["-0", "007", "1e400", "1,5", "--1", ".5", "5.", ".", "e5", "9" * 19, "4611686018427387904"]),
    st.none(),
)


@pytest.mark.parametrize("attribute", [AGE, BINS, DIGITS, Anonymous(40)], ids=lambda a: a.kind)
@given(values=st.lists(numerals, max_size=20))
def test_numbers_in_text_are_read_as_the_rules_say(attribute: Attribute, values: list[str | None]) -> None:
    expected = [slow_code(attribute, value) for value in values]
    for kind in TEXTS:
        column = pa.array(values, pa.string())
        column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
        assert encode(attribute, column).tolist() == expected, kind


@pytest.mark.parametrize("values", [(), (None,), (1, 0, None, 1), (3, 7, 90, 3)])
@pytest.mark.parametrize("kind", NUMBERS, ids=str)
@pytest.mark.parametrize("attribute", [AGE, BINS, DIGITS, Anonymous(40), Categories(["3", "0", "1"])], ids=repr)
def test_the_same_whole_numbers_have_the_same_codes_in_every_type(
    attribute: Attribute, kind: pa.DataType, values: tuple[int | None, ...]
) -> None:
    if pa.types.is_float16(kind):
        column = pa.array([None if v is None else np.float16(v) for v in values], kind)
    elif pa.types.is_string(kind):
        column = pa.array([None if v is None else str(v) for v in values], kind)
    else:
        if pa.types.is_decimal(kind) and attribute.declared_labels[0] == "3":
            kind = pa.decimal128(9, 0)  # one with places is spelled with them: 3.000
        column = pa.array([None if v is None else Decimal(v) if pa.types.is_decimal(kind) else v for v in values], kind)
    expected = encode(attribute, pa.array(values, pa.int64()))
    for shape in (column, pa.chunked_array([column[:1], column[1:]]), column.dictionary_encode()):
        assert np.array_equal(encode(attribute, shape), expected)


def test_extreme_numbers_are_unknown_and_never_wrap_around() -> None:
    near = Integers(-3, 3)
    assert encode(near, pa.array([2**64 - 1, 2**63, 2**62], pa.uint64())).tolist() == [UNKNOWN] * 3
    assert encode(near, pa.array([-(2**63), 2**63 - 1, None], pa.int64())).tolist() == [UNKNOWN, UNKNOWN, MISSING]
    assert encode(near, pa.array([1e300, -math.inf, math.nan, 2.5, None])).tolist() == [UNKNOWN] * 2 + [
        MISSING,
        UNKNOWN,
        MISSING,
    ]
    far = Integers(2**62 - 4, 2**62 - 1)
    assert encode(far, pa.array([str(2**62 - 1), str(2**62), "4e18"])).tolist() == [3, UNKNOWN, UNKNOWN]
    assert encode(Categories([1, 10**30]), pa.array(["1", str(10**30), str(2**62)])).tolist() == [0, -1, -1]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_text_categories_match_exactly(kind: pa.DataType) -> None:
    column = pa.array(["01", "1", " 1", "", None, "nan", "é"], pa.string())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    assert encode(Categories(["1", "é"]), column).tolist() == [-1, 0, -1, MISSING, MISSING, -1, 1]
    assert encode(Categories(["", "01"]), column).tolist() == [1, -1, -1, 0, MISSING, -1, -1]


def test_typed_values_match_the_category_that_spells_them() -> None:
    assert encode(Categories(["False", "True"]), pa.array([True, False, None])).tolist() == [1, 0, MISSING]
    assert encode(Categories(["true"]), pa.array([True, False])).tolist() == [0, UNKNOWN]
    assert encode(Categories(["2", "0.5"]), pa.array([2.0, 0.5, math.nan, 3.0])).tolist() == [0, 1, MISSING, -1]
    assert encode(Categories(["2.0"]), pa.array([2.0])).tolist() == [0]
    days = pa.array([datetime.date(2024, 1, 31), None])
    assert encode(Categories(["2024-01-31"]), days).tolist() == [0, MISSING]
    assert encode(AGE, days).tolist() == [UNKNOWN, MISSING]
    assert encode(Integers(0, 1), pa.array([True, None, False])).tolist() == [1, MISSING, 0]


def test_a_dictionary_larger_than_the_column_and_with_nulls_inside() -> None:
    labels = pa.array(["a", None, "b", *map(str, range(50))])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 5], pa.int8()), labels)
    assert encode(Categories(["a", "b"]), column).tolist() == [0, MISSING, 1, MISSING, UNKNOWN]
    assert encode(Categories(["a", "b"]), pa.concat_arrays([column] * 20)[:60]).tolist() == [0, -2, 1, -2, -1] * 12


def test_bins_are_closed_on_the_left_and_the_last_on_both_sides() -> None:
    codes = encode(Bins([0, 10, 20]), pa.array([0.0, 9.99, 10.0, 20.0, 20.01, -0.01]))
    assert codes.tolist() == [0, 0, 1, 1, UNKNOWN, UNKNOWN]


@given(st.lists(st.integers(0, 2), max_size=9))
def test_decoding_undoes_encoding(codes: list[int]) -> None:
    for attribute in (Categories(["b", "a", "c"]), Integers(4, 6), Anonymous(3), Categories([7, 5, 6])):
        labels = [attribute.labels[code] for code in codes]
        column = pa.array(labels, pa.string() if isinstance(attribute.labels[0], str) else pa.int64())
        assert encode(attribute, column).tolist() == codes


def test_policies_are_applied_by_the_declaration() -> None:
    column = pa.array(["a", "x", None])
    both = Categories(["a"], unknown="other", missing="other")
    assert settle(both, encode(both, column)).tolist() == [0, 1, 1]
    one = Categories(["a"], unknown="drop", missing="other")
    assert settle(one, encode(one, column)).tolist() == [0, UNKNOWN, 1]


def test_truth_values_match_in_every_spelling() -> None:
    for declared in (["false", "true"], ["False", "True"], [False, True]):
        truth = Categories(declared)
        for column in (pa.array([True, False]), pa.array(["True", "FALSE"]), pa.array(["true", "false"])):
            assert encode(truth, column).tolist() == [1, 0]
    assert Categories([False, True]).labels == ("false", "true")
    assert encode(Categories(["true", "other"]), pa.array(["True"])).tolist() == [UNKNOWN]


def test_a_type_that_holds_no_values_is_refused() -> None:
    for column in (pa.array([[1]]), pa.array([b"x"]), pa.array([0], pa.timestamp("us"))):
        with pytest.raises(SourceError, match=r"column 'c' has the type .*convert it"):
            encode(AGE, column, "c")
        with pytest.raises(SourceError, match="convert it"):
            whole_numbers(column, "c")


def test_whole_numbers_of_weights() -> None:
    numbers, states = whole_numbers(pa.array(["3", "0", "", "-2", "1.5"]))
    assert numbers[:2].tolist() == [3, 0]
    assert numbers[3] == -2
    assert states.tolist() == [0, 0, MISSING, 0, UNKNOWN]
    assert whole_numbers(pa.array([Decimal(4)]).dictionary_encode())[0].tolist() == [4]
    assert whole_numbers(pa.nulls(2))[1].tolist() == [MISSING, MISSING]
