"""DictVectorizer: attributes, vocabularies, learning, unknown keys, and the way back."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from nbmapops import CastError, DictVectorizer, DuplicateKeyError, MapBatch, UnknownKeyError

from .conftest import WITHOUT_JIT
from .outcomes import WITH_SCIPY
from .reference import INT64_MAX, INT64_MIN
from .strategies import DTYPES, Pairs
from .ways import WAYS, way

needs_scipy = pytest.mark.skipif(not WITH_SCIPY, reason="csr needs scipy")


def by_int(words: Any = (1, 2, 3), **attributes: Any) -> DictVectorizer:
    return DictVectorizer(int64_vocabulary=words, **attributes)


def by_str(words: Any = ("a", "b", "c"), **attributes: Any) -> DictVectorizer:
    return DictVectorizer(string_vocabulary=words, **attributes)


# Attributes.


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({}, ValueError),
        ({"int64_vocabulary": [1], "string_vocabulary": ["a"]}, ValueError),
        ({"int64_vocabulary": [], "string_vocabulary": []}, ValueError),
        ({"int64_vocabulary": [1, 2, 1]}, ValueError),
        ({"string_vocabulary": ["a", "b", "a"]}, ValueError),
        ({"int64_vocabulary": [1, True]}, ValueError),
        ({"int64_vocabulary": {1: 0}}, TypeError),
        ({"int64_vocabulary": {1}}, TypeError),
        ({"int64_vocabulary": frozenset()}, TypeError),
        ({"int64_vocabulary": 5}, TypeError),
        ({"int64_vocabulary": [1.0]}, TypeError),
        ({"int64_vocabulary": ["1"]}, TypeError),
        ({"int64_vocabulary": [None]}, ValueError),
        ({"int64_vocabulary": np.array([1.0])}, TypeError),
        ({"int64_vocabulary": np.array(["2020-01-01"], "M8[D]")}, TypeError),
        ({"int64_vocabulary": np.array([1], "m8[D]")}, TypeError),
        ({"int64_vocabulary": [2**63]}, OverflowError),
        ({"int64_vocabulary": np.array([2**63], np.uint64)}, OverflowError),
        ({"int64_vocabulary": np.zeros((1, 1), np.int64)}, ValueError),
        ({"string_vocabulary": "abc"}, TypeError),
        ({"string_vocabulary": b"abc"}, TypeError),
        ({"string_vocabulary": {"a": 0}}, TypeError),
        ({"string_vocabulary": {"a"}}, TypeError),
        ({"string_vocabulary": [1]}, TypeError),
        ({"string_vocabulary": [b"a"]}, TypeError),
        ({"string_vocabulary": ["a", None]}, ValueError),
        ({"int64_vocabulary": [1], "dtype": "text"}, TypeError),
        ({"int64_vocabulary": [1], "dtype": np.int32}, TypeError),
        ({"int64_vocabulary": [1], "dtype": 7}, TypeError),
        ({"int64_vocabulary": [1], "handle_unknown": "skip"}, ValueError),
        ({"int64_vocabulary": [1], "handle_unknown": True}, ValueError),
        ({"int64_vocabulary": [1], "semantics": "loose"}, ValueError),
        ({"int64_vocabulary": [1], "fill_value": None, "dtype": "int64", "max_map": 1}, TypeError),
        ({"int64_vocabulary": [1], "dtype": "int64", "fill_value": 0.5}, ValueError),
        ({"int64_vocabulary": [1], "dtype": "float", "fill_value": 0.1}, ValueError),
        ({"int64_vocabulary": [1], "dtype": "string", "fill_value": 0}, ValueError),
        ({"int64_vocabulary": [1], "dtype": "double", "fill_value": ""}, ValueError),
        ({"int64_vocabulary": [1], "fill_value": (0,)}, TypeError),
    ],
)
def test_bad_attributes_are_refused_when_built(
    attributes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"DictVectorizer|max_map") as caught:
        DictVectorizer(**attributes)
    assert type(caught.value) is error


def test_refused_words_are_named_with_their_place() -> None:
    with pytest.raises(ValueError, match=r"int64_vocabulary.*\b7\b"):
        by_int([5, 7, 8, 7])
    with pytest.raises(ValueError, match=r"string_vocabulary.*'b'"):
        by_str(["a", "b", "b"])
    with pytest.raises(TypeError, match=r"string_vocabulary.*2"):
        by_str(["a", "b", 3])


@pytest.mark.parametrize(
    "words",
    [
        [3, 1, 2],
        (3, 1, 2),
        np.array([3, 1, 2]),
        np.array([3, 1, 2], np.uint8),
        np.array([3, 1, 2], ">i4"),
        np.array([3, 9, 1, 9, 2], np.int16)[::2],
        np.array([3, 1, 2], object),
        [np.int8(3), np.uint64(1), 2],
        [3, True, 2],
    ],
    ids=["list", "tuple", "int64", "uint8", "big-endian", "strided", "object", "NumPy", "bool"],
)
def test_int64_words_come_from_any_sequence(words: Any) -> None:
    op = by_int(words)

    assert [int(word) for word in op.vocabulary] == [3, 1, 2]
    assert op == by_int([3, 1, 2])
    assert op({1: 1.5}).tolist() == [0.0, 1.5, 0.0]


@pytest.mark.parametrize(
    "words",
    [
        ["b", "", "a\0b"],
        ("b", "", "a\0b"),
        np.array(["b", "", "a\0b"]),
        np.array(["b", "", "a\0b"], object),
        np.array(["b", "", "a\0b"], np.dtypes.StringDType()),  # type: ignore[attr-defined, unused-ignore]
        [np.str_("b"), "", "a\0b"],
    ],
    ids=["list", "tuple", "U", "object", "StringDType", "np.str_"],
)
def test_str_words_come_from_any_sequence(words: Any) -> None:
    op = by_str(words)

    assert list(op.vocabulary) == ["b", "", "a\0b"]
    assert {type(word) for word in op.vocabulary} == {str}
    assert op({"": 1, "a\0b": 2}).tolist() == [0, 1, 2]


def test_words_are_copied() -> None:
    words, letters = np.array([5, 6]), ["a", "b"]
    op, text = by_int(words), by_str(letters)
    words[0], letters[0] = 7, "z"

    assert op({5: 1}).tolist() == [1, 0]
    assert text({"a": 1}).tolist() == [1, 0]
    with pytest.raises((ValueError, TypeError)):
        op.vocabulary[0] = 1
    with pytest.raises((ValueError, TypeError)):
        text.vocabulary[0] = "z"


def test_vocabulary_length_and_membership() -> None:
    op, text = by_int([5, -1, INT64_MIN]), by_str(["a", "1", ""])

    assert len(op) == len(text) == 3
    assert list(op.vocabulary) == [5, -1, INT64_MIN]
    assert list(text.vocabulary) == ["a", "1", ""]
    for key in (5, -1, INT64_MIN, np.int8(5), np.int64(INT64_MIN)):
        assert key in op
    for odd in (6, "5", 5.0, None, [5], 2**63, b"5", math.nan, object()):
        assert odd not in op
    for word in ("a", "1", "", np.str_("a")):
        assert word in text
    others: list[Any] = ["b", 1, None, ["a"], b"a", {}]
    for other in others:
        assert other not in text
    assert True not in op
    assert True in by_int([1])


def test_empty_vocabulary_is_a_vocabulary() -> None:
    for op, key in ((by_int([]), 1), (by_str([]), "a")):
        assert len(op) == 0
        assert op({}).shape == (0,)
        assert op([{}, {}]).shape == (2, 0)
        with pytest.raises(UnknownKeyError, match="0 words"):
            op({key: 1.0})
    assert by_int([], handle_unknown="ignore")([{1: 1.0}]).shape == (1, 0)
    assert by_str([], handle_unknown="ignore")([{"a": 1.0}]).shape == (1, 0)


def test_operator_is_immutable_hashable_and_comparable() -> None:
    op, same = by_int(), by_int(np.array([1, 2, 3], np.uint16))

    assert op == same
    assert hash(op) == hash(same)
    assert len({op, same, by_int([1, 2]), by_str()}) == 3
    assert op != "op"
    for name in ("vocabulary", "dtype", "anything"):
        with pytest.raises(AttributeError):
            setattr(op, name, 1)


@pytest.mark.parametrize(
    "attributes",
    [
        {"dtype": "float"},
        {"handle_unknown": "ignore"},
        {"semantics": "onnxruntime"},
        {"fill_value": 1},
        {"fill_value": math.nan},
    ],
)
def test_each_attribute_counts_in_a_comparison(attributes: dict[str, Any]) -> None:
    assert by_int(**attributes) != by_int()
    assert by_int(**attributes) == by_int(**attributes)
    assert hash(by_int(**attributes)) == hash(by_int(**attributes))


def test_words_and_their_order_count_in_a_comparison() -> None:
    assert by_int([1, 2]) != by_int([2, 1])
    assert by_str(["a"]) != by_str(["b"])
    assert by_str([]) != by_int([])


def test_repr_stays_short_and_names_the_class() -> None:
    op = by_str([f"word {n}" * 50 for n in range(1000)], handle_unknown="ignore", dtype="float")

    assert len(repr(op)) < 400
    assert repr(op).startswith("DictVectorizer(")
    assert "ignore" in repr(op)
    assert repr(by_int([1, 2])) == "DictVectorizer(int64_vocabulary=[1, 2])"
    assert repr(by_int([1, 2, 3, 4])) == "DictVectorizer(int64_vocabulary=[1, 2, 3, ...])"
    assert repr(by_int([1], unknown_columns=5)) == (
        "DictVectorizer(int64_vocabulary=[1], unknown_columns=5)"
    )


# Results.


@pytest.mark.parametrize("value_type", ["float32", "float64", "int64", "string"])
def test_result_has_the_type_of_the_values(value_type: str) -> None:
    data = [1, 2] if value_type != "string" else ["x", "y"]
    values = np.array(data, DTYPES[value_type])
    zero = {"string": ""}.get(value_type, 0)
    for op, keys in ((by_int(), [3, 1]), (by_str(), ["c", "a"])):
        one, batch = op(keys, values), op(keys, values, [0, 2])
        assert one.dtype == batch.dtype == DTYPES[value_type]
        assert one.tolist() == batch[0].tolist() == [data[1], zero, data[0]]
        empty = op([], values[:0])
        assert empty.dtype == DTYPES[value_type]
        assert empty.tolist() == [zero] * 3


def test_batch_without_entries_is_float64_or_dtype() -> None:
    for op in (by_int(), by_str()):
        nothing: list[Any] = [[], [{}, {}], (), iter([]), iter([{}]), [Pairs([])]]
        for given in nothing:
            assert op(given).dtype == np.float64
        assert op({}).dtype == np.float64
        assert op([], []).dtype == np.float64
        assert op([], [], [0, 0, 0]).tolist() == [[0.0] * 3] * 2
        assert op(np.empty(0, object), np.empty(0, object)).tolist() == [""] * 3
        assert op(np.empty(0, object), []).tolist() == [0.0] * 3
    for dtype in ("float", "int64", "string", "double"):
        expected = {"float": np.float32, "double": np.float64, "int64": np.int64, "string": object}
        op = by_str(dtype=dtype)
        for given in ([], [{}], {}):
            assert op(given).dtype == expected[dtype]


def test_empty_maps_fix_no_type() -> None:
    assert by_int()([{}, {1: 1}, {}, {2: 2}]).tolist() == [[0, 0, 0], [1, 0, 0], [0] * 3, [0, 2, 0]]
    assert by_int()([{}, {1: "x"}]).tolist() == [["", "", ""], ["x", "", ""]]
    for name in WAYS:
        with way(name):
            assert by_str()([{}, Pairs([]), {"a": 1}]).dtype == np.int64
            assert by_str()([Pairs([]), {}, Pairs([("a", 1)])]).dtype == np.int64


def test_values_pass_bit_for_bit() -> None:
    """DictVectorizer moves values: NaN payloads, -0.0 and subnormals survive."""
    f32 = np.array([0x7FC00001, 0xFFC00002, 0x7F800001, 0x80000000, 1], np.uint32).view(np.float32)
    f64 = np.array(
        [0x7FF8000000000001, 0xFFF8000000000002, 0x7FF0000000000001, 1 << 63, 1], np.uint64
    ).view(np.float64)
    op = by_int(range(5))
    for values, bits in ((f32, np.uint32), (f64, np.uint64)):
        batch = op(np.arange(5), values, [0, 5])
        assert batch.view(bits).ravel().tolist() == values.view(bits).tolist()
        if WITH_SCIPY:
            data = op.csr(np.arange(5), values, [0, 5]).data
            assert data.view(bits).tolist() == values.view(bits).tolist()
    signs = [math.nan, -math.nan, -0.0, 5e-324]
    assert [math.copysign(1, x) for x in op(dict(enumerate(signs))).tolist()[:4]] == [1, -1, -1, 1]


def test_int64_never_passes_through_a_float() -> None:
    values = [INT64_MAX, INT64_MIN, 2**53 + 1]
    for name in WAYS:
        with way(name):
            for op, keys in ((by_int(), [1, 2, 3]), (by_str(), list("abc"))):
                for given in (
                    (dict(zip(keys, values, strict=True)),),
                    ([dict(zip(keys, values, strict=True))],),
                    (keys, values),
                    (keys, values, [0, 3]),
                ):
                    assert op(*given).ravel().tolist() == values
                    if WITH_SCIPY:
                        assert op.csr(*given).data.tolist() == values


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float", np.float32),
        ("float32", np.float32),
        (np.float32, np.float32),
        (np.dtype("f4"), np.float32),
        ("double", np.float64),
        ("float64", np.float64),
        (float, np.float64),
        ("int64", np.int64),
        (np.int64, np.int64),
        ("string", object),
        (str, object),
        (object, object),
    ],
    ids=repr,
)
def test_dtype_is_named_as_onnx_and_numpy_do(name: Any, dtype: Any) -> None:
    assert by_int(dtype=name)({1: 1}).dtype == dtype


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int64", 2.0, 2),
        ("int64", 2.5, None),
        ("int64", math.nan, None),
        ("int64", math.inf, None),
        ("int64", 2.0**63, None),
        ("int64", -(2.0**63), INT64_MIN),
        ("int64", "12", 12),
        ("int64", "12.0", None),
        ("int64", INT64_MAX, INT64_MAX),
        ("float", 0.1, float(np.float32(0.1))),
        ("float", 1e300, None),
        ("float", 2**24 + 1, 2.0**24),
        ("float", "1e-46", None),
        ("double", "0.1", 0.1),
        ("double", "1e308", 1e308),
        ("double", "1e309", None),
        ("double", 2**53, 2.0**53),
        ("double", np.float32(0.1), float(np.float32(0.1))),
        ("double", True, 1.0),
        ("string", 7, "7"),
        ("string", 0.1, "0.100000"),
        ("string", "a", "a"),
    ],
)
def test_dtype_converts_or_refuses(dtype: str, value: Any, expected: Any) -> None:
    op = by_int(dtype=dtype)
    for given in ({2: value}, [{2: value}], [Pairs([(2, value)])]):
        if expected is None:
            with pytest.raises(CastError, match=r"DictVectorizer: map 0: key 2: value "):
                op(given)
        else:
            assert op(given).ravel().tolist()[1] == expected
            assert type(op(given).ravel().tolist()[1]) is type(expected)


def test_skipped_entries_are_not_converted() -> None:
    op = by_int(dtype="int64", handle_unknown="ignore")
    for given in ({9: 2.5, 2: 1.0}, [{9: 2.5, 2: 1.0}]):
        assert op(given).ravel().tolist() == [0, 1, 0]


def test_missing_positions_hold_the_fill_value() -> None:
    cases: list[tuple[Any, dict[int, Any], list[Any]]] = [
        (-1, {1: 5}, [5, -1, -1]),
        (math.nan, {1: 5.0}, [5.0, math.nan, math.nan]),
        (0.1, {1: 5.0}, [5.0, 0.1, 0.1]),
        ("?", {1: "x"}, ["x", "?", "?"]),
        (-0.0, {1: 5.0}, [5.0, -0.0, -0.0]),
        (np.float32(0.5), {1: np.float32(5)}, [5.0, 0.5, 0.5]),
        (True, {1: 5}, [5, 1, 1]),
    ]
    for fill, values, expected in cases:
        op = by_int(fill_value=fill)
        assert repr(op(values).tolist()) == repr(expected)
        assert repr(op([values]).tolist()) == repr([expected])
        assert repr(op([1], [values[1]], [0, 1]).tolist()) == repr([expected])


@pytest.mark.parametrize(
    ("fill", "value"), [(0.5, 1), ("", 1), (0, "x"), (2**53 + 1, 1.0), (0.1, np.float32(1))]
)
def test_fill_value_that_does_not_fit_the_result_is_refused(fill: Any, value: Any) -> None:
    op = by_int(fill_value=fill)
    for given in ({1: value}, [{1: value}]):
        with pytest.raises(ValueError, match=r"DictVectorizer: fill_value .*"):
            op(given)


# Keys and the vocabulary.


def test_unknown_keys_in_both_modes() -> None:
    strict, ignore = by_int(), by_int(handle_unknown="ignore")
    relaxed = by_int(semantics="onnxruntime")
    harsh = by_int(semantics="onnxruntime", handle_unknown="error")
    for given in ({1: 1.0, 9: 2.0}, [{1: 1.0, 9: 2.0}], [Pairs([(1, 1.0), (9, 2.0)])]):
        for op in (strict, harsh):
            with pytest.raises(UnknownKeyError, match=r"map 0: key 9 is not in int64_vocabulary"):
                op(given)
        for op in (ignore, relaxed):
            assert op(given).ravel().tolist() == [1.0, 0.0, 0.0]


def test_vocabulary_of_the_other_key_type() -> None:
    for semantics in ("strict", "onnxruntime"):
        for handle in ("error", "ignore"):
            attributes = {"semantics": semantics, "handle_unknown": handle}
            for op, key in ((by_int([1], **attributes), "1"), (by_str(["1"], **attributes), 1)):
                for given in (
                    ({key: 1.0},),
                    ([{key: 1.0}],),
                    ([key], [1.0]),
                    ([key], [1.0], [0, 1]),
                    (np.array([key]), [1.0]),
                    (MapBatch.from_dicts([{key: 1.0}]),),
                ):
                    with pytest.raises(TypeError, match=r"DictVectorizer: map 0: key '?1'? "):
                        op(*given)


def test_no_coercion_between_keys() -> None:
    """True is 1, as in a dict; 1.0, "1" and b"1" are not."""
    op = by_int([1, 0])

    assert op({True: 5, False: 6}).tolist() == [5, 6]
    assert op([{np.True_: 5}]).tolist() == [[5, 0]]
    assert op([{np.uint8(1): 5, np.int64(0): 1}]).tolist() == [[5, 1]]
    for key in (1.0, "1", b"1", None, (1,), np.float64(1), np.datetime64(1, "D")):
        for given in ({key: 5}, [{key: 5}], [Pairs([(key, 5)])]):
            with pytest.raises(TypeError, match="DictVectorizer: map 0: key "):
                op(given)
    for big in (2**63, -(2**63) - 1, 10**100, np.uint64(2**63)):
        large: list[Any] = [{big: 5}, [{big: 5}], [Pairs([(big, 5)])]]
        for given in large:
            with pytest.raises(OverflowError, match=r"DictVectorizer: map 0: key .*int64"):
                op(given)


def test_str_keys_are_compared_by_code_point() -> None:
    words = ["\U0001f600", "\u00e9", "e\u0301", "A", "a", " a", "a\0", "", "\ud800"]
    op = by_str(words)
    for position, word in enumerate(words):
        assert op({word: 1}).tolist() == [int(n == position) for n in range(len(words))]
        assert op([{word: 1}])[0].tolist() == op({word: 1}).tolist()
        assert op([word], [1], [0, 1])[0].tolist() == op({word: 1}).tolist()


def test_repeated_keys_are_refused_or_the_first_wins() -> None:
    ignore, relaxed = by_int(handle_unknown="ignore"), by_int(semantics="onnxruntime")
    for op in (by_int(), ignore):
        for given in (([1, 2, 1], [1.0, 2, 3]), ([1, 2, 1], [1.0, 2, 3], [0, 3])):
            with pytest.raises(DuplicateKeyError, match=r"map 0: key 1 .*sum_duplicates"):
                op(*given)
    with pytest.raises(DuplicateKeyError, match="key 9"):
        by_int()([9, 9, 8], [1.0, 2, 3])
    assert ignore([9, 1, 9], [1.0, 2, 3]).tolist() == [2.0, 0, 0]
    assert relaxed([1, 2, 1], [1.0, 2, 3]).tolist() == [1.0, 2, 0]
    assert relaxed([1, 2, 1], [1.0, 2, 3], [0, 3]).tolist() == [[1.0, 2, 0]]
    # In different maps a key may come again.
    assert by_int()([1, 1], [1.0, 2], [0, 1, 2]).tolist() == [[1.0, 0, 0], [2.0, 0, 0]]


def test_each_copy_of_a_repeated_word_gets_the_value() -> None:
    op = DictVectorizer(string_vocabulary=["a", "b", "a", "a"], semantics="onnxruntime")
    number = DictVectorizer(int64_vocabulary=[7, 5, 7, 7], semantics="onnxruntime")
    for given, same in (
        (({"a": 1, "b": 2},), ({7: 1.0, 5: 2.0},)),
        (([{"a": 1, "b": 2}],), ([{7: 1.0, 5: 2.0}],)),
        ((["a", "b"], [1, 2], [0, 2]), ([7, 5], [1.0, 2], [0, 2])),
    ):
        assert op(*given).ravel().tolist() == [1, 2, 1, 1]
        assert number(*same).ravel().tolist() == [1, 2, 1, 1]
        if WITH_SCIPY:
            for index_dtype in (np.int32, np.int64, None):
                matrix = number.csr(*same, index_dtype=index_dtype)
                assert matrix.indices.tolist() == [0, 1, 2, 3]
                assert matrix.data.tolist() == [1, 2, 1, 1]
                assert matrix.indices.dtype == matrix.indptr.dtype == (index_dtype or np.int32)
    assert len(op) == 4
    assert list(op.vocabulary) == ["a", "b", "a", "a"]
    assert op != DictVectorizer(string_vocabulary=["a", "b", "a", "b"], semantics="onnxruntime")


def test_both_vocabularies_in_onnxruntime_mode() -> None:
    op = DictVectorizer(int64_vocabulary=[1], string_vocabulary=["a", "b"], semantics="onnxruntime")

    assert op({"a": 1.0}).tolist() == [1.0, 0.0]
    assert op({1: 2.0}).tolist() == [2.0]
    assert op([{"b": 1.0}, {}]).tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert op([{}, {1: 2.0}]).tolist() == [[0.0], [2.0]]
    assert op(iter([{}, {1: 2.0}])).tolist() == [[0.0], [2.0]]
    assert op([1], [2.0], [0, 1]).tolist() == [[2.0]]
    assert op(["a"], [2.0]).tolist() == [2.0, 0.0]
    if WITH_SCIPY:
        assert op.csr([{}, {1: 2.0}]).shape == (2, 1)
        assert op.csr([{"a": 2.0}]).shape == (1, 2)
    for call in (lambda: op.vocabulary, lambda: len(op), lambda: op.inverse(np.zeros((1, 1)))):
        with pytest.raises(ValueError, match="both"):
            call()


def test_with_both_vocabularies_a_bad_map_and_a_large_key_are_told() -> None:
    op = DictVectorizer(int64_vocabulary=[1], string_vocabulary=["a"], semantics="onnxruntime")
    with pytest.raises(TypeError, match="map 1: key 'a' is str; here a key must be an integer"):
        op([{1: 1.0}, {"a": 1.0}])
    with pytest.raises(TypeError, match="map 1 is 7 of type int"):
        op([{1: 1.0}, 7])
    assert op([{1: 1.0, 2**63: 2.0}]).tolist() == [[1.0]]
    with pytest.raises(OverflowError, match=f"map 0: key {2**63} does not fit in int64"):
        op.unknown([{1: 1.0, 2**63: 2.0}])


def test_only_the_pairs_of_the_text_in_onnxruntime_mode() -> None:
    cases: list[tuple[DictVectorizer, Any, list[Any]]] = [
        (by_int([1], semantics="onnxruntime"), 1, [1.0, np.float32(1), "x"]),
        (by_str(["a"], semantics="onnxruntime"), "a", [1.0, np.float32(1), 1]),
    ]
    for op, key, taken in cases:
        refused = "x" if key == "a" else 1
        for value in taken:
            assert op({key: value}).tolist() == [value]
            assert op([{key: value}]).tolist() == [[value]]
        for given in ({key: refused}, [{key: refused}], iter([{key: refused}])):
            with pytest.raises(TypeError, match=r"it takes int64 -> float32.*string -> int64"):
                op(given)


# Learning.


def test_from_maps_sorts_or_keeps_the_order() -> None:
    maps = [{"b": 1, "a": 2}, {}, {"c": 3, "b": 4}, {"": 0, "B": 1}]
    for source in (
        lambda: maps,
        lambda: iter(maps),
        lambda: (m for m in maps),
        lambda: tuple(maps),
    ):
        assert list(DictVectorizer.from_maps(source()).vocabulary) == ["", "B", "a", "b", "c"]
        first_seen = DictVectorizer.from_maps(source(), order="first_seen")
        assert list(first_seen.vocabulary) == ["b", "a", "c", "", "B"]
    keys = [5, INT64_MAX, -3, 5, INT64_MIN]
    for arguments in (
        (keys, [0.0] * 5, [0, 3, 5]),
        (MapBatch.from_arrays(keys, [0.0] * 5, [0, 3, 5]),),
        ([{5: 1, INT64_MAX: 1, -3: 1}, {5: 1, INT64_MIN: 1}],),
    ):
        op = DictVectorizer.from_maps(*arguments)
        assert list(op.vocabulary) == [INT64_MIN, -3, 5, INT64_MAX]
        op = DictVectorizer.from_maps(*arguments, order="first_seen")
        assert list(op.vocabulary) == [5, INT64_MAX, -3, INT64_MIN]


def test_from_maps_passes_attributes_on() -> None:
    op = DictVectorizer.from_maps(
        [{"a": 1}], dtype="float", handle_unknown="ignore", fill_value=0.5, semantics="strict"
    )

    assert op == by_str(["a"], dtype="float", handle_unknown="ignore", fill_value=0.5)


def test_from_maps_refuses_mixed_keys_and_other_orders() -> None:
    for maps in ([{"a": 1, 2: 3}], [{"a": 1}, {2: 3}], [{1: 1}, Pairs([("a", 1)])]):
        with pytest.raises(TypeError, match=r"map \d: key "):
            DictVectorizer.from_maps(maps)
    with pytest.raises(ValueError, match="first_seen"):
        DictVectorizer.from_maps([{"a": 1}], order="random")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        DictVectorizer.from_maps([{"a": 1}], string_vocabulary=["b"])  # type: ignore[call-arg]


def test_from_maps_learns_one_map() -> None:
    assert list(DictVectorizer.from_maps({"b": 1, "a": 2}).vocabulary) == ["a", "b"]


def test_words_of_other_maps_are_not_learned() -> None:
    batch = MapBatch.from_dicts([{"x": 1}, {"a": 1}, {"b": 2, "a": 3}, {"y": 1}])

    assert list(DictVectorizer.from_maps(batch[1:3]).vocabulary) == ["a", "b"]
    assert by_str(["a", "b"])(batch[1:3]).tolist() == [[1, 0], [3, 2]]


def test_learning_many_words_in_chunks() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 3000, 20_000)
    maps = [{int(key): 1.0} for key in keys]
    texts = [{f"w{key}": 1.0} for key in keys]
    expected = np.unique(keys).tolist()

    assert list(DictVectorizer.from_maps(iter(maps)).vocabulary) == expected
    assert list(DictVectorizer.from_maps(maps, order="first_seen").vocabulary) == list(
        dict.fromkeys(keys.tolist())
    )
    assert list(DictVectorizer.from_maps(iter(texts)).vocabulary) == sorted(
        f"w{key}" for key in expected
    )


# Asking what is unknown.


def test_unknown_names_every_entry() -> None:
    op, text = by_int([1, 2]), by_str(["a"])
    maps = [{1: 0, 9: 0, 8: 0}, {}, {2: 0}, {9: 0, INT64_MIN: 0}]
    for given in (maps, iter(maps), MapBatch.from_dicts(maps)):
        numbers, keys = op.unknown(given)
        assert numbers.tolist() == [0, 0, 3, 3]
        assert keys.tolist() == [9, 8, 9, INT64_MIN]
        assert keys.dtype == np.int64
    numbers, keys = text.unknown([{"b": 1, "a": 2}, {"b": 3}])
    assert numbers.tolist() == [0, 1]
    assert keys.tolist() == ["b", "b"]
    assert [part.tolist() for part in op.unknown([3, 1], [0, 0])] == [[0], [3]]
    assert [part.tolist() for part in op.unknown({1: 0})] == [[], []]
    assert [part.tolist() for part in op.unknown([])] == [[], []]
    for other in ([{"b": 1}], {"b": 1}, MapBatch.from_dicts([{"b": 1}])):
        with pytest.raises(TypeError, match="map 0: key 'b' is str"):
            op.unknown(other)


@pytest.mark.parametrize("words", [[1, 2, 3, 5, 6], [], [6, 1, 3, 2, 5], [-(2**60), 0, 2**60]])
def test_absent_keys_are_never_a_neighbour(words: list[int]) -> None:
    keys = sorted({word + step for word in [*words, 0] for step in (-1, 0, 1)})
    _, absent = by_int(words).unknown(keys, [0] * len(keys))

    assert absent.tolist() == [key for key in keys if key not in words]


# The way back.


def test_inverse_of_dense_leaves_out_cells_equal_to_the_fill_value() -> None:
    for op, maps in (
        (by_str(), [{"b": 2.5}, {}, {"a": -1.0, "c": 7.0}]),
        (by_int(), [{2: 5}, {}, {1: -1, 3: 7}]),
        (by_int(), [{2: "x"}, {}, {1: "y", 3: "z"}]),
        (by_int(fill_value=-1), [{2: 0}, {}, {1: 5}]),
        (by_int(fill_value=math.nan), [{2: 0.0}, {}, {1: math.inf}]),
        (by_int(fill_value="?"), [{2: ""}, {}]),
    ):
        back = op.inverse(op(maps))
        assert isinstance(back, MapBatch)
        assert back.to_dicts() == maps


def test_inverse_of_dense_cannot_know_entries_equal_to_the_fill_value() -> None:
    op = by_str()

    assert op.inverse(op([{"a": 0, "b": 5}])).to_dicts() == [{"b": 5}]
    nan = by_str(fill_value=math.nan)
    assert nan.inverse(nan([{"a": math.nan, "b": 5.0}])).to_dicts() == [{"b": 5.0}]


@needs_scipy
def test_inverse_of_csr_keeps_stored_zeros() -> None:
    import scipy.sparse as sp

    for op, maps in (
        (by_str(), [{"a": 0, "b": 5}, {}, {"c": 0}]),
        (by_int(), [{1: 0.0, 2: 5.5}, {}, {3: math.inf}]),
    ):
        matrix = op.csr(maps)
        for sparse in (matrix, sp.csr_matrix(matrix), matrix.tocsc(), matrix.tocoo()):
            back = op.inverse(sparse).to_dicts()
            assert back == [dict(sorted(m.items())) for m in maps]
    # A matrix that repeats a cell means the sum.
    double = sp.csr_array(([1.0, 2.0], [1, 1], [0, 2]), shape=(1, 3))
    assert by_int().inverse(double).to_dicts() == [{2: 3.0}]
    assert double.nnz == 2


@pytest.mark.parametrize("shape", [(1, 2), (1, 4), (2,), (4,), (0, 4), (1, 1, 3), ()])
def test_inverse_of_a_wrong_width_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="DictVectorizer: the matrix"):
        by_int().inverse(np.zeros(shape))


@needs_scipy
def test_inverse_of_a_wrong_sparse_width_is_refused() -> None:
    import scipy.sparse as sp

    with pytest.raises(ValueError, match="DictVectorizer: the matrix"):
        by_int().inverse(sp.csr_array((1, 4)))


@pytest.mark.parametrize("cell", [None, 1j, b"a", [1]], ids=repr)
def test_inverse_of_what_no_value_can_be_is_refused(cell: Any) -> None:
    matrix = np.empty((1, 3), object)
    matrix[0, 0], matrix[0, 1], matrix[0, 2] = cell, 0, 0
    with pytest.raises(TypeError, match=r"^DictVectorizer: "):
        by_int().inverse(matrix)
    if isinstance(cell, complex):
        with pytest.raises(TypeError, match=r"^DictVectorizer: "):
            by_int().inverse(np.array([[cell] * 3]))


@pytest.mark.parametrize("dtype", ["V4", "m8[s]", "M8[s]", "S3", "c16", "V0"])
def test_inverse_of_a_dtype_of_no_values_is_refused(dtype: str) -> None:
    with pytest.raises(TypeError, match=r"^DictVectorizer: the matrix of .* has cells that are no"):
        by_int().inverse(np.zeros((2, 3), dtype))


@pytest.mark.parametrize(
    ("part", "damage", "message"),
    [
        ("indices", [0, -1, 2], "column -1 of 3"),
        ("indices", [0, 99, 2], "column 99 of 3"),
        ("indptr", [1, 2, 3], "indptr"),
        ("indptr", [0, 3, 2], "indptr"),
        ("indptr", [0, 2, 2**30], "indptr"),
    ],
)
def test_inverse_of_a_damaged_matrix_is_refused(part: str, damage: Any, message: str) -> None:
    pytest.importorskip("scipy")
    matrix = by_int().csr([{1: 0.5, 2: 1.5}, {3: 2.5}])
    getattr(matrix, part)[:] = damage
    with pytest.raises(ValueError, match=f"DictVectorizer: the matrix is damaged: {message}"):
        by_int().inverse(matrix)


def test_inverse_of_an_integer_beyond_int64_overflows() -> None:
    cells = np.array([[0, 2**63, 1]], np.uint64)
    sparse = pytest.importorskip("scipy.sparse").csr_array(cells)
    for matrix in (cells, sparse):
        with pytest.raises(OverflowError, match=r"of uint64: value 9\d+ does not fit in int64"):
            by_int().inverse(matrix)
    with pytest.raises(OverflowError, match=r"of lists: value 9\d+ does not fit in int64"):
        by_int().inverse([[0, 2**63, 1]])
    with pytest.raises(OverflowError, match=r"of lists: value 9\d+ has no exact float64"):
        by_int().inverse([[0, 2**53 + 1, 0.5]])


@pytest.mark.parametrize(
    ("fill", "matrix", "maps"),
    [
        (2**53 + 1, [[2.0**53, 1.0]], [{1: 2.0**53, 2: 1.0}]),
        (2.0**53, np.array([[2**53 + 1, 2**53]]), [{1: 2**53 + 1}]),
        (1e300, np.array([[np.inf, 1]], np.float32), [{1: np.inf, 2: 1.0}]),
        (0.1, np.array([[0.1, 1]], np.float32), [{1: float(np.float32(0.1)), 2: 1.0}]),
        (0.5, np.array([[0, 1]]), [{1: 0, 2: 1}]),
        (-1, np.array([[255, 1]], np.uint8), [{1: 255, 2: 1}]),
        (1, np.array([[True, False]]), [{2: 0}]),
        (-0.0, np.array([[0.0, 1.0]]), [{2: 1.0}]),
        (np.nan, np.array([[np.nan, 1]]), [{2: 1.0}]),
        (np.nan, np.array([[3, 1]]), [{1: 3, 2: 1}]),
    ],
)
def test_inverse_leaves_out_what_is_exactly_the_fill_value(
    fill: float, matrix: Any, maps: list[Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op = DictVectorizer(int64_vocabulary=[1, 2], fill_value=fill)
        assert op.inverse(np.asarray(matrix)).to_dicts() == maps


def test_inverse_leaves_room_behind_the_entries_alone() -> None:
    sp = pytest.importorskip("scipy.sparse")
    matrix = sp.csr_array((1, 3))
    matrix.indptr = np.array([0, 1])
    matrix.data, matrix.indices = np.array([0.5, 9.0]), np.array([1, 99])
    assert by_int().inverse(matrix).to_dicts() == [{2: 0.5}]


def test_inverse_of_objects_takes_text_only() -> None:
    words = by_int(dtype="string")
    assert words.inverse(np.array([["a", "", "b"]], object)).to_dicts() == [{1: "a", 3: "b"}]
    for fill in (None, "x"):
        with pytest.raises(TypeError, match="DictVectorizer: the matrix holds objects"):
            by_int(fill_value=fill).inverse(np.array([[0, 1.5, 0]], object))


def test_inverse_of_lists_keeps_the_type_of_each_cell() -> None:
    op = by_int()
    assert op.inverse([[0, 2**53 + 1, 7]]).to_dicts() == [{2: 2**53 + 1, 3: 7}]
    assert op.inverse([0, 1.5, 0]).to_dicts() == op.inverse(((0, 1.5, 0),)).to_dicts()
    assert op.inverse([np.array([0, 5, 0]), [1, 0, 0]]).to_dicts() == [{2: 5}, {1: 1}]
    assert op.inverse([["", "a\0", ""]]).to_dicts() == [{2: "a\0"}]
    lists: list[Any] = [[[1, "a", 0]], [[[1, 2, 3]]]]
    for rows in lists:
        with pytest.raises(TypeError, match="matrix of lists has cells that are not values"):
            op.inverse(rows)
    with pytest.raises(ValueError, match="missing values"):
        op.inverse([[1, None, 0]])
    for rows in ([[1, 0, 0], [1, 0]], [[1, 0, 0], 5]):
        with pytest.raises(ValueError, match="rows of one length"):
            op.inverse(rows)
    with pytest.raises(ValueError, match="must have 3 columns, not 0"):
        op.inverse([])


@needs_scipy
def test_inverse_of_a_sparse_vector_is_refused() -> None:
    import scipy.sparse as sp

    with pytest.raises(ValueError, match="a sparse matrix must be 2-D, not 1-D"):
        by_int().inverse(sp.coo_array([1.0, 0, 2.0]))


def test_inverse_does_not_share_or_change_the_matrix() -> None:
    matrix = np.array([[1.0, 0.0, 2.0]])
    back = by_int().inverse(matrix)
    matrix[:] = 9.0

    assert back.to_dicts() == [{1: 1.0, 3: 2.0}]
    assert by_int().inverse(np.zeros((0, 3))).to_dicts() == []
    assert by_int().inverse(np.array([0.0, 5.0, 0.0])).to_dicts() == [{2: 5.0}]


def test_inverse_of_repeated_words_names_each_once() -> None:
    op = DictVectorizer(string_vocabulary=["a", "b", "a"], semantics="onnxruntime")

    assert op.inverse(op([{"a": 1, "b": 2}, {"b": 3}])).to_dicts() == [{"a": 1, "b": 2}, {"b": 3}]


# csr.


@needs_scipy
def test_csr_refuses_text_and_fill_values() -> None:
    refused: list[tuple[DictVectorizer, Any]] = [
        (by_int(), ([{1: "x"}],)),
        (by_int(), ({1: "x"},)),
        (by_int(), ([1], ["x"], [0, 1])),
        (by_int(dtype="string"), ([{1: 1}],)),
    ]
    for op, given in refused:
        with pytest.raises(ValueError, match="text"):
            op.csr(*given)
    for fill in (1, -1, 0.5, math.nan, -0.0):
        with pytest.raises(ValueError, match="fill_value"):
            by_int(fill_value=fill).csr([{1: 1}])
    assert by_int(fill_value=0).csr([{1: 1}]).nnz == 1
    for index_dtype in ("int16", np.uint32, float, "x"):
        with pytest.raises((TypeError, ValueError), match="index_dtype"):
            by_int().csr([{1: 1}], index_dtype=index_dtype)  # type: ignore[arg-type]


@needs_scipy
def test_csr_keeps_explicit_zeros_and_sorts_columns() -> None:
    for name in WAYS:
        with way(name):
            matrix = by_int([5, 3, 9]).csr([{9: 0.0, 5: 1.0}, {}, {3: -0.0}])
            assert matrix.indices.tolist() == [0, 2, 1]
            assert repr(matrix.data.tolist()) == "[1.0, 0.0, -0.0]"
            assert matrix.indptr.tolist() == [0, 2, 2, 3]
            assert matrix.has_canonical_format
            assert matrix.indices.dtype == matrix.indptr.dtype == np.int32


@needs_scipy
@pytest.mark.parametrize("n", [1, 7, 63, 64, 65, 200, 3000] + [20_000] * (not WITHOUT_JIT))
def test_csr_of_rows_of_any_length(n: int) -> None:
    """Short rows, long rows and a mix of both, words close together and far apart."""
    rng = np.random.default_rng(n)
    for stride in (1, 7, 2**45 + 1):
        words = rng.permutation(n).astype(np.int64) * stride
        keys = rng.permutation(words)
        column = {word: c for c, word in enumerate(words.tolist())}
        expected = sorted((column[key], value) for value, key in enumerate(keys.tolist()))
        offsets = [0, 0, n, n + 1, n + 1 + n // 2]
        all_keys = np.concatenate([keys, keys[:1], keys[: n // 2]])
        values = np.concatenate([np.arange(n), [5], np.arange(n // 2)])
        matrix = by_int(words).csr(all_keys, values, offsets)
        assert matrix.indptr.tolist() == offsets
        found = list(zip(matrix.indices.tolist(), matrix.data.tolist(), strict=True))
        assert found[:n] == expected
        assert found[n] == (column[int(keys[0])], 5)
        assert found[n + 1 :] == [entry for entry in expected if entry[1] < n // 2]
        dense = by_int(words)(all_keys[n:], values[n:], [0, 1, 1 + n // 2])
        assert dense[1][[c for c, _ in found[n + 1 :]]].tolist() == [v for _, v in found[n + 1 :]]


@needs_scipy
def test_csr_shares_no_memory_with_the_input() -> None:
    keys, values, offsets = np.arange(3), np.arange(3.0), np.array([0, 3])
    matrix = by_int([0, 1, 2]).csr(keys, values, offsets)

    for part in (matrix.data, matrix.indices, matrix.indptr):
        assert part.flags.writeable
        for own in (keys, values, offsets):
            assert not np.may_share_memory(part, own)


# Sizes.


def test_result_too_large_for_memory_is_refused_with_its_size() -> None:
    op = by_int(np.arange(1 << 20))
    offsets = np.zeros(1 << 22, np.int64)

    with pytest.raises(MemoryError, match=r"DictVectorizer: .*32\.0 TiB.*csr"):
        op([], [], offsets)
    with pytest.raises(MemoryError, match=r"DictVectorizer: .*TiB"):
        by_int(np.arange(1 << 20), dtype="string")([], [], offsets)


# out=


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("value", [1, 1.5, np.float32(2), "x"], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("semantics", ["strict", "onnxruntime"])
def test_out_is_written_and_returned(value: Any, name: str, semantics: Any) -> None:
    op = DictVectorizer(string_vocabulary=["a", "b", "c"], semantics=semantics)
    if isinstance(value, str) and semantics == "onnxruntime":
        op = DictVectorizer(int64_vocabulary=[1, 2, 1], semantics=semantics)
    word = op.vocabulary[1] if isinstance(op.vocabulary[1], str) else int(op.vocabulary[1])
    for given in ({word: value}, [{word: value}, {}]):
        expected = op(given)
        out = np.full_like(expected, "old" if isinstance(value, str) else 77)
        with way(name):
            assert op(given, out=out) is out
        assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "out",
    [
        np.empty((1, 2)),
        np.empty((2, 3)),
        np.empty(3),
        np.empty((1, 3), np.float32),
        np.empty((3, 1)).T[:, ::-1],
        np.empty((1, 6))[:, ::2],
        np.ndarray((1, 3), np.float64, bytearray(25), 1),
        np.empty((1, 3), object),
        [[0.0] * 3],
    ],
    ids=["width", "rows", "rank", "dtype", "negative", "strided", "unaligned", "object", "list"],
)
def test_out_that_does_not_fit_is_refused(out: Any) -> None:
    for name in WAYS:
        with way(name), pytest.raises(ValueError, match="DictVectorizer: out "):
            by_int()([{1: 1.0}], out=out)


def test_out_may_be_a_subclass_or_reused() -> None:
    out = np.empty((2, 3))
    for maps in ([{1: 1.0}, {2: 2.0}], [{3: 3.0}, {}]):
        by_int()(maps, out=out)
        assert out.tolist() == by_int()(maps).tolist()


def test_out_after_an_error_is_all_that_changed() -> None:
    keys, values = np.array([1, 9]), np.array([1.0, 2.0])
    out = np.zeros((2, 3))
    with pytest.raises(UnknownKeyError):
        by_int()(keys, values, [0, 1, 2], out=out)

    assert keys.tolist() == [1, 9]
    assert values.tolist() == [1.0, 2.0]


# Threads.


@pytest.mark.parametrize(
    ("threads", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), ("2", TypeError)]
)
def test_bad_number_of_threads_is_refused(threads: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="threads"):
        by_int()([{1: 1}], threads=threads)
    if WITH_SCIPY:
        with pytest.raises(error, match="threads"):
            by_int().csr([{1: 1}], threads=threads)


# The index for a user's own kernels.


def test_index_is_given_for_int64_words_only() -> None:
    index = by_int([5, 6, 9]).index

    assert len(index) == 4
    assert not any(part.flags.writeable for part in index)
    with pytest.raises(ValueError, match="int64_vocabulary"):
        _ = by_str().index


def test_repr_shows_a_fill_value_that_looks_like_a_mode() -> None:
    assert "fill_value='strict'" in repr(by_str(dtype="string", fill_value="strict"))
