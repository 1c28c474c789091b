"""Which scalars and which elements of a batch are taken: exact numbers, pairs, missing values."""

from __future__ import annotations

from collections import OrderedDict
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import CastMap, DictVectorizer, DuplicateKeyError, MapBatch, UnknownKeyError
from nbmapops._reading.arrays import read_arrays
from nbmapops._reading.scalars import exact_map, exact_value, items_of, value_kind_of

from ..reference import INT64_MAX, INT64_MIN
from ..ways import WAYS, way

if TYPE_CHECKING:
    from nbmapops._reading.entries import Entries

BIG = 2**53 + 1  # no float64 holds it
BY_INT = DictVectorizer(int64_vocabulary=[0, 1, 2])
BY_STR = DictVectorizer(string_vocabulary=["a", "b"])


# Decimal and Fraction.


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (Decimal(5), 5),
        (Decimal(9007199254740993), BIG),
        (Decimal("9007199254740993.00"), BIG),  # which no float64 is
        (Decimal("2.00"), 2.0),
        (Decimal("-0.5"), -0.5),
        (Decimal("3E+2"), 300),
        (Decimal(INT64_MAX), INT64_MAX),
        (Decimal(INT64_MIN), INT64_MIN),
        (Decimal(2**63), 2.0**63),
        (Decimal("-0"), -0.0),
        (Decimal(0), 0),
        (Decimal("Infinity"), float("inf")),
        (Decimal("NaN"), float("nan")),
        (Decimal("sNaN"), float("nan")),
        (Fraction(6, 3), 2),
        (Fraction(3, 4), 0.75),
        (Fraction(BIG), BIG),
        (Fraction(2**100), 2.0**100),
    ],
)
def test_exact_numbers_are_taken(value: Any, exact: Any) -> None:
    assert repr(exact_value(value)) == repr(exact)
    assert value_kind_of(value) == {int: "int64", float: "float64"}[type(exact)]
    dtype = np.int64 if type(exact) is int else np.float64
    for name in WAYS:
        with way(name):
            for result in (
                BY_INT({1: value}),
                BY_INT([{1: value}])[0],
                BY_INT([[(1, value)]])[0],
                BY_INT([1], [value]),
                BY_INT(np.array([1]), np.array([value], object), [0, 1])[0],
            ):
                assert repr(result.tolist()[1]) == repr(exact)
                assert result.dtype == dtype


@pytest.mark.parametrize(
    "value",
    [Decimal("0.1"), Decimal("1E+400"), Decimal("1E-999999"), Decimal("1E+999999999"),
     Decimal(2**63 + 1), Fraction(1, 3), Fraction(10**400), Fraction(2**64 + 1, 2)],
    ids=str,
)  # fmt: skip
def test_numbers_that_nothing_holds_exactly_are_overflow_errors(value: Any) -> None:
    for name in WAYS:
        with way(name):
            for call in (BY_INT, CastMap(), MapBatch.from_dicts, DictVectorizer.from_maps):
                with pytest.raises(OverflowError, match=r"map 1: key 1: value .* round it first"):
                    call([{2: 0.5}, {1: value}])
    with pytest.raises(OverflowError, match=r"map 0: key 1: value .* has no exact int64 or float"):
        BY_INT([1], [value])


def test_exact_numbers_among_others() -> None:
    assert BY_INT([{1: Decimal(3)}, {1: 0.5}]).tolist() == [[0, 3, 0], [0, 0.5, 0]]
    assert BY_INT([{1: Decimal(3)}, {2: BIG}]).tolist() == [[0, 3, 0], [0, 0, BIG]]
    assert BY_INT({1: np.float32(0.1), 2: Decimal("0.5")}).dtype == np.float64
    with pytest.raises(OverflowError, match="map 0: key 1: value 9007199254740993 has no exact"):
        BY_INT([{1: Decimal(BIG)}, {1: Decimal("0.5")}])
    with pytest.raises(TypeError, match="a batch holds numbers or text, not both"):
        BY_INT([{1: "x"}, {1: Decimal("0.5")}])
    filled = DictVectorizer(int64_vocabulary=[1, 2], fill_value=Decimal("0.5"))
    assert filled({1: 1.5}).tolist() == [1.5, 0.5]
    with pytest.raises(ValueError, match=r"fill_value Decimal.* has no exact int64 or float64"):
        DictVectorizer(int64_vocabulary=[1], fill_value=Decimal("0.1"))


@given(st.decimals() | st.fractions() | st.floats().map(Decimal) | st.integers().map(Decimal))
def test_an_exact_value_equals_what_was_given(number: Any) -> None:
    exact = exact_value(number)
    if exact is None:
        with pytest.raises((OverflowError, AssertionError)):
            assert float(number) == number
        assert not (INT64_MIN <= number <= INT64_MAX and int(number) == number)
    elif exact == exact:
        assert exact == number
        assert type(exact) is float or INT64_MIN <= exact <= INT64_MAX
    else:
        assert number.is_nan()


@pytest.mark.parametrize("key", [Decimal(1), Fraction(1)])
def test_decimals_are_no_keys_or_words(key: Any) -> None:
    for call in (
        lambda: BY_INT({key: 1}),
        lambda: BY_INT([{key: 1}]),
        lambda: BY_INT([key], [1]),
        lambda: DictVectorizer(int64_vocabulary=[key]),
        lambda: CastMap(map_form="SPARSE", max_map=key),
    ):
        with pytest.raises(TypeError, match=r"Decimal|Fraction"):
            call()


def test_a_nested_map_names_the_remedy() -> None:
    for call in (BY_STR, MapBatch.from_dicts, DictVectorizer.from_maps):
        with pytest.raises(TypeError, match=r'key \'a\': .* flatten nested maps .*{"a.b": 1}'):
            call([{"a": {"b": 1}}])


# Integers beyond int64 as keys.


LARGE = [INT64_MAX + 1, INT64_MIN - 1, 14692702688101715474, 10**30]


@pytest.mark.parametrize("key", LARGE)
def test_a_key_beyond_int64_names_text_keys(key: int) -> None:
    for call in (BY_INT, BY_INT.unknown, CastMap(), MapBatch.from_dicts, DictVectorizer.from_maps):
        with pytest.raises(OverflowError, match=rf"map 1: key {key} does not fit .* must be text"):
            call([{1: 0.5}, {1: 0.5, key: 0.5}])
    with pytest.raises(OverflowError, match=rf"map 0: key {key} does not fit .* must be text"):
        BY_INT([1, key], [1, 2])


def listed(entries: Entries) -> list[Any]:
    return [entries.keys.to_array().tolist(), entries.values.tolist(), entries.offsets.tolist()]


@pytest.mark.parametrize("options", [{"handle_unknown": "ignore"}, {"semantics": "onnxruntime"}])
def test_keys_beyond_int64_are_left_out_as_unknown_but_not_in_silence(options: Any) -> None:
    op = DictVectorizer(int64_vocabulary=[1], **options)
    for key in LARGE:
        forms: list[tuple[Any, ...]] = [
            ([{key: 2.0, 1: 3.0}],), ([[(key, 2.0), (1, 3.0)]],), ([key, 1], [2.0, 3.0], [0, 2]),
            ({1: 3.0, key: 2.0},), ([key, 1], [2.0, 3.0]),
        ]  # fmt: skip
        if 0 <= key < 2**64:
            forms.append((np.array([key, 1], np.uint64), np.array([2.0, 3.0]), [0, 2]))
        for name in WAYS:
            with way(name):
                for form in forms:
                    assert op(*form).ravel().tolist() == [3.0]
                    assert op.csr(*form).toarray().tolist() == [[3.0]]
                    with pytest.raises(OverflowError, match=f"map 0: key {key} does not fit"):
                        op.unknown(*form)


def test_keys_beyond_int64_are_left_out_where_asked() -> None:
    """Their values still count for the type, as those of other entries that are skipped."""
    expected = [[1], [3.0], [0, 0, 1, 1]]
    unsigned = np.array([2**63, 1, 2**64 - 1], np.uint64)
    offsets = [0, 1, 2, 3]
    for keys in (unsigned, unsigned.tolist(), unsigned.astype(object)):
        numbers: list[Any] = [[1, 3.0, 1], np.array([1, 3.0, 1])]
        for values in numbers:
            entries, bad = read_arrays(keys, values, offsets, "Operator", skip_large=True)
            assert bad is None
            assert listed(entries) == expected
            assert entries.values.dtype == np.float64
    wholes: list[Any] = [[1, 3, 10**30], np.array([1, 3, 10**30], object)]
    for values in wholes:
        entries, bad = read_arrays(unsigned, values, offsets, "Operator", skip_large=True)
        assert bad is not None
        assert "Operator: map 2: key 18446744073709551615: value 1000" in str(bad.error)
        assert listed(entries) == [[1], [3], [0, 0, 1]]
    largest = DictVectorizer(int64_vocabulary=[2**63 - 1], handle_unknown="ignore")
    beside = np.array([2**63 - 1, 2**63], np.uint64)
    assert largest(beside, np.array([2.0, 3.0])).tolist() == [2.0]
    exact = exact_map("map 0", [10**30, 5], [Decimal(1), 2.5], "float64", skip_large=True)
    assert exact == ([5], [2.5])


# Lists of pairs.


def test_pairs_are_maps() -> None:
    for name in WAYS:
        with way(name):
            assert BY_INT([[(0, 1), (2, 3)], [(1, 2)]]).tolist() == [[1, 0, 3], [0, 2, 0]]
            assert BY_INT([((0, 1), (2, 3)), []]).tolist() == [[1, 0, 3], [0, 0, 0]]
            assert BY_STR([[["a", 0.5]], {"b": 1}, ()]).tolist() == [[0.5, 0], [0, 1], [0, 0]]
            assert MapBatch.from_dicts([[(1, 2)], []]).to_dicts() == [{1: 2}, {}]
            assert CastMap()(iter([[(2, 0.5), (1, 1.5)]])).tolist() == [[1.5, 0.5]]
            assert DictVectorizer.from_maps([[("b", 1)], [("a", 1)]]).vocabulary == ("a", "b")
            for call in (BY_INT, BY_INT.csr, CastMap()):
                with pytest.raises(DuplicateKeyError, match="map 1: key 2 is repeated"):
                    call([[(2, 1)], [(2, 3), (2, 4)]])
            with pytest.raises(UnknownKeyError, match="map 0: key 7"):
                BY_INT([[(7, 1)]])


def test_arrow_maps_in_pandas_are_lists_of_pairs() -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    column = pa.array([[(0, 1), (2, 3)], [], [(1, 2)]], pa.map_(pa.int64(), pa.int64()))
    series = pa.table({"x": column}).to_pandas()["x"]
    assert BY_INT(series).tolist() == BY_INT(column).tolist() == [[1, 0, 3], [0, 0, 0], [0, 2, 0]]


@pytest.mark.parametrize(
    "element", [[1, 2], (1, 2), [(1,)], [(1, 2, 3)], ["ab"], ("ab", "cd"), [(1, 2), 3], "ab",
                [{1, 2}], [{1: 2}], np.array([(1, 2)])]
)  # fmt: skip
def test_other_elements_are_not_maps(element: Any) -> None:
    for call in (BY_INT, CastMap(), MapBatch.from_dicts, DictVectorizer.from_maps):
        with pytest.raises(TypeError, match=r"map 1 is .*must be a mapping or a list of \(key, v"):
            call([{1: 1}, element])


def test_pairs_are_read_once_and_in_full() -> None:
    pairs = [(1, 2), (3, 4)]
    assert items_of("map 0", pairs) == ([1, 3], [2, 4])
    assert items_of("map 0", OrderedDict(pairs)) == ([1, 3], [2, 4])
    assert items_of("map 0", ()) == ([], [])


# Missing maps and values.


ROWS: list[Any] = [{"a": 1}, None, {"b": 2}]


def test_missing_maps_and_values_name_the_remedy() -> None:
    pd = pytest.importorskip("pandas")
    marks = [None, pd.NA, pd.NaT]
    for call in (BY_STR, MapBatch.from_dicts, DictVectorizer.from_maps, BY_STR.unknown):
        for element in (*marks, float("nan"), np.float64("nan")):
            with pytest.raises(TypeError, match=r'map 1 is .*\.from_dicts\(.*null_map="empty"'):
                call([{"a": 1}, element])
        for mark in marks:
            for element in ({"b": mark}, [("b", mark)]):
                with pytest.raises(TypeError, match=r"map 1: key 'b': .*null_value=\"skip\""):
                    call([{"a": 1}, element])


def test_missing_maps_can_be_empty() -> None:
    for rows in (ROWS, tuple(ROWS), iter(ROWS), np.array(ROWS, object)):
        batch = MapBatch.from_dicts(rows, null_map="empty", null_value="skip")
        assert BY_STR(batch).tolist() == [[1, 0], [0, 0], [0, 2]]
        assert batch.null_maps is not None
        assert batch.null_maps.tolist() == [False, True, False]
        with pytest.raises(ValueError, match="read-only"):
            batch.null_maps[0] = True
    assert MapBatch.from_dicts([{"a": 1}], null_map="empty").null_maps is None
    floats = MapBatch.from_dicts(ROWS[1:], null_map="empty", value_type="float")
    assert floats.null_maps is not None
    assert floats.null_maps.tolist() == [True, False]
    nan = [{"a": 1}, float("nan")]
    assert MapBatch.from_dicts(nan, null_map="empty").to_dicts() == [{"a": 1}, {}]


def test_missing_values_can_be_left_out_or_filled() -> None:
    rows: list[Any] = [{"a": 1, "b": None}, [("a", None), ("b", 5)], {}]
    skipped = MapBatch.from_dicts(rows, null_value="skip")
    assert skipped.to_dicts() == [{"a": 1}, {"b": 5}, {}]
    assert skipped.values.dtype == np.int64
    filled = MapBatch.from_dicts(rows, null_value=-1)
    assert filled.to_dicts() == [{"a": 1, "b": -1}, {"a": -1, "b": 5}, {}]
    nan = MapBatch.from_dicts(rows, null_value=float("nan"))
    assert repr(nan.to_dicts()[0]) == "{'a': 1.0, 'b': nan}"
    text = MapBatch.from_dicts([{"a": "x", "b": None}], null_value="none")
    assert text.to_dicts() == [{"a": "x", "b": "none"}]
    repeated = MapBatch.from_dicts([[("a", None), ("a", 1), ("a", 2)]], null_value="skip")
    assert repeated.values.tolist() == [1, 2]
    with pytest.raises(TypeError, match="map 1 is None"):
        MapBatch.from_dicts([{"a": None}, None], null_value="skip")
    with pytest.raises(TypeError, match="map 1: key 'a': value None"):
        MapBatch.from_dicts([None, {"a": None}], null_map="empty")
    with pytest.raises(TypeError, match="map 0: key 'b': value 'x' is str"):
        MapBatch.from_dicts([{"a": 1, "b": None}], null_value="x")


def test_rules_for_missing_values_are_checked() -> None:
    for bad in ("skip", None, 1):
        with pytest.raises(ValueError, match='null_map must be "error" or "empty", not'):
            MapBatch.from_dicts([], null_map=bad)  # type: ignore[arg-type]
    for worse in (None, [1], b"x"):
        with pytest.raises(TypeError, match='null_value must be "error", "skip" or a value, not'):
            MapBatch.from_dicts([], null_value=worse)


def test_rules_for_missing_values_change_nothing_else() -> None:
    """A map is read before the next is asked for, and errors name it."""

    def refilled() -> Any:
        d: dict[int, float] = {}
        for number in range(3):
            d.clear()
            d[number] = number + 1.0
            yield d

    batch = MapBatch.from_dicts(refilled(), null_value="skip")
    assert BY_INT(batch).tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 3]]
    with pytest.raises(TypeError, match="MapBatch: map 2 is 5 of type int"):
        MapBatch.from_dicts([None, {}, 5], null_map="empty", null_value="skip")
