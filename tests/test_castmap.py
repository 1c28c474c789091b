"""CastMap: attributes, forms, conversions, and what the README promises about them."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

from nbmapops import CastError, CastMap, DuplicateKeyError, MapBatch

from .outcomes import WITH_SCIPY
from .reference import INT64_MAX, INT64_MIN, CannotConvertError, convert, float32
from .strategies import DTYPES, array
from .ways import WAYS, way

F32 = np.float32
needs_scipy = pytest.mark.skipif(not WITH_SCIPY, reason="csr needs scipy")


# Attributes.


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"cast_to": "TO_DOUBLE"}, ValueError),
        ({"cast_to": "to_float"}, ValueError),
        ({"cast_to": ""}, ValueError),
        ({"cast_to": None}, ValueError),
        ({"cast_to": 1}, ValueError),
        ({"map_form": "dense"}, ValueError),
        ({"map_form": ["DENSE"]}, ValueError),
        ({"map_form": "SPARSE", "max_map": 0}, ValueError),
        ({"map_form": "SPARSE", "max_map": -1}, ValueError),
        ({"map_form": "SPARSE", "max_map": 2**63}, ValueError),
        ({"max_map": 1.0}, TypeError),
        ({"max_map": "3"}, TypeError),
        ({"max_map": None}, TypeError),
        ({"max_map": True}, TypeError),
        ({"semantics": "lenient"}, ValueError),
        ({"semantics": None}, ValueError),
        ({"fill_value": "x"}, ValueError),
        ({"fill_value": 0.1}, ValueError),
        ({"fill_value": 2**24 + 1}, ValueError),
        ({"fill_value": 1e300}, ValueError),
        ({"cast_to": "TO_INT64", "fill_value": 0.5}, ValueError),
        ({"cast_to": "TO_INT64", "fill_value": math.nan}, ValueError),
        ({"cast_to": "TO_INT64", "fill_value": 2**63}, ValueError),
        ({"cast_to": "TO_STRING", "fill_value": 0}, ValueError),
        ({"fill_value": [0]}, TypeError),
        ({"fill_value": b"0"}, TypeError),
        ({"handle_unknown": "ignore"}, TypeError),
    ],
)
def test_bad_attributes_are_refused_when_built(
    attributes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"CastMap|handle_unknown"):
        CastMap(**attributes)


def test_attributes_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        CastMap("TO_FLOAT")  # type: ignore[call-arg]


def test_dense_ignores_max_map() -> None:
    for max_map in (0, -7, 1):
        assert CastMap(max_map=max_map)({9: 1.0, 3: 2.0}).tolist() == [2.0, 1.0]


def test_max_map_may_be_a_numpy_integer() -> None:
    three: Any = np.int16(3)
    op = CastMap(map_form="SPARSE", max_map=three)

    assert op == CastMap(map_form="SPARSE", max_map=3)
    assert op({2: 1}).tolist() == [0.0, 0.0, 1.0]


def test_operator_is_immutable_hashable_and_comparable() -> None:
    op, same = CastMap(cast_to="TO_INT64"), CastMap(cast_to="TO_INT64", map_form="DENSE")

    assert op == same
    assert hash(op) == hash(same)
    assert len({op, same, CastMap()}) == 2
    assert op != "CastMap"
    with pytest.raises(AttributeError):
        op.cast_to = "TO_FLOAT"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        op.anything = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "attributes",
    [
        {"cast_to": "TO_STRING"},
        {"map_form": "SPARSE"},
        {"max_map": 2},
        {"semantics": "onnxruntime"},
        {"fill_value": 1},
        {"fill_value": math.nan},
    ],
)
def test_each_attribute_counts_in_a_comparison(attributes: dict[str, Any]) -> None:
    assert CastMap(**attributes) != CastMap()
    assert CastMap(**attributes) == CastMap(**attributes)
    assert hash(CastMap(**attributes)) == hash(CastMap(**attributes))


def test_repr_is_short_and_evaluates_to_the_operator() -> None:
    op = CastMap(cast_to="TO_INT64", map_form="SPARSE", max_map=10**6, fill_value=-1)

    assert len(repr(op)) < 100
    assert eval(repr(op), {"CastMap": CastMap}) == op
    assert repr(CastMap()) == "CastMap()"


# Shapes and types of results.


@pytest.mark.parametrize("cast_to", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
@pytest.mark.parametrize("value_type", ["float32", "float64", "int64", "string"])
def test_result_type_is_that_of_cast_to(cast_to: Any, value_type: str) -> None:
    dtype = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}[cast_to]
    keys, values, offsets = [2, 0, 1], array(["3", "1", "2"], "string"), [0, 3]
    if value_type != "string":
        values = np.array([3, 1, 2], DTYPES[value_type])
    for form in ({}, {"map_form": "SPARSE", "max_map": 4}):
        op = CastMap(cast_to=cast_to, **form)  # type: ignore[arg-type]
        one, batch = op(keys, values), op(keys, values, offsets)
        assert one.dtype == batch.dtype == dtype
        assert one.shape == ((4,) if form else (3,))
        assert batch.shape == (1, *one.shape)
        assert one.tolist() == batch[0].tolist()
        assert op([], values[:0]).dtype == dtype
        assert op([], values[:0], [0, 0]).shape == ((1, 4) if form else (1, 0))
        assert op([], values[:0], [0]).shape == ((0, 4) if form else (0, 0))
        assert op([]).shape == ((0, 4) if form else (0, 0))
        assert op({}).shape == ((4,) if form else (0,))


def test_dense_orders_by_key_with_extreme_keys() -> None:
    keys = [INT64_MAX, 0, INT64_MIN, -1, INT64_MIN + 1, 1, INT64_MAX - 1]

    for name in WAYS:
        with way(name):
            ordered = CastMap(cast_to="TO_INT64")(keys, list(range(7)))
            assert ordered.tolist() == [2, 4, 3, 1, 5, 6, 0]


@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 1000, 5000])
@pytest.mark.parametrize("spacing", [1, 3, 2**40, 2**50 + 1])
def test_dense_orders_maps_of_any_size_and_width(n: int, spacing: int) -> None:
    """Ascending, descending and shuffled keys, close together and far apart."""
    rng = np.random.default_rng(n)
    places = np.arange(n, dtype=np.int64) - n // 2
    for order in (places, places[::-1], rng.permutation(places)):
        keys = order * spacing
        result = CastMap(cast_to="TO_INT64")(keys, order)
        assert result.tolist() == sorted(order.tolist())
        pair = CastMap(cast_to="TO_INT64")(
            np.concatenate([keys, keys]), np.concatenate([order, order]), [0, n, 2 * n]
        )
        assert pair.tolist() == [sorted(order.tolist())] * 2


def test_dense_batch_of_odd_lengths_names_the_map_and_ragged() -> None:
    maps = [{1: 1.0, 2: 2.0}, {1: 1.0, 5: 2.0}, {1: 1.0}, {}]
    op = CastMap()

    with pytest.raises(ValueError, match=r"CastMap: map 2 .*ragged"):
        op(maps)
    values, offsets = op.ragged(maps)
    assert values.tolist() == [1.0, 2.0, 1.0, 2.0, 1.0]
    assert offsets.tolist() == [0, 2, 4, 5, 5]
    assert values.dtype == np.float32
    assert offsets.dtype == np.int64


def test_ragged_takes_one_map_and_no_map() -> None:
    values, offsets = CastMap().ragged({5: 1.0, 3: 2.0})

    assert values.tolist() == [2.0, 1.0]
    assert offsets.tolist() == [0, 2]
    values, offsets = CastMap().ragged([])
    assert values.tolist() == []
    assert offsets.tolist() == [0]


def test_ragged_is_for_dense() -> None:
    with pytest.raises(ValueError, match="SPARSE"):
        CastMap(map_form="SPARSE").ragged([{0: 1}])


@needs_scipy
def test_csr_is_for_sparse_numbers_without_fill() -> None:
    with pytest.raises(ValueError, match="DENSE"):
        CastMap().csr([{0: 1}])
    with pytest.raises(ValueError, match="text"):
        CastMap(map_form="SPARSE", cast_to="TO_STRING").csr([{0: 1}])
    with pytest.raises(ValueError, match="fill_value"):
        CastMap(map_form="SPARSE", fill_value=1).csr([{0: 1}])
    kept = CastMap(map_form="SPARSE", max_map=3, fill_value=0).csr([{2: 0.0, 1: 5.0}, {}])
    assert kept.indices.tolist() == [1, 2]
    assert kept.data.tolist() == [5.0, 0.0]
    assert kept.indptr.tolist() == [0, 2, 2]


@needs_scipy
@pytest.mark.parametrize("max_map", [2**31 - 1, 2**31, INT64_MAX])
def test_csr_of_huge_max_map(max_map: int) -> None:
    matrix = CastMap(map_form="SPARSE", max_map=max_map).csr([{max_map - 1: 1.0, 0: 2.0}])

    assert matrix.shape == (1, max_map)
    assert matrix.indices.tolist() == [0, max_map - 1]
    assert matrix.indices.dtype == (np.int32 if max_map < 2**31 else np.int64)


def test_result_too_large_for_memory_is_refused_with_its_size() -> None:
    op = CastMap(map_form="SPARSE", max_map=INT64_MAX)

    for arguments in (({1: 1.0},), ([{1: 1.0}],), ([1], [1.0], [0, 0, 1])):
        with pytest.raises(MemoryError, match=r"CastMap: .*TiB.*csr"):
            op(*arguments)
    text = CastMap(map_form="SPARSE", max_map=2**60, cast_to="TO_STRING")
    with pytest.raises(MemoryError, match="TiB"):
        text([{1: "a"}])


@needs_scipy
def test_index_dtype_that_is_too_narrow_is_refused() -> None:
    op = CastMap(map_form="SPARSE", max_map=2**40)
    for maps in ([{1: 1}], iter([{1: 1}]), {1: 1}, MapBatch.from_dicts([{1: 1}])):
        with pytest.raises(ValueError, match=r"^CastMap: .*index_dtype"):
            op.csr(maps, index_dtype=np.int32)
    assert op.csr([{1: 1}], index_dtype=np.int64).indices.dtype == np.int64


# Conversions.

TEXT_CORNERS = [
    "1.5", "+5", ".5", "5.", "1E8", "1e-5", " 1.5", "\t1.5", "\x0b2", "1.5 ", "\r\n7\f", "1.5abc",
    "1.5f", "1 2", "1.2.3", "50%", "1/2", "1e", "1d5", "1_000", "1,5", "0x1p3", "0x1.8", "0x",
    "0b11", "1\0002", "nan", "NaN", "-nan", "inf", "+INF", "Infinity", "nan(12)", "nanabc",
    "infinit", "inf.", "", "   ", "abc", ".", "e5", "++5", "- 5", "(1)", "1e400", "3.5e38",
    "0x1p128", "1e-46", "7e-46", "1e-40", "1.4e-45", "1.1754943e-38", "0x1p-149", "0x0.8p-126",
    "\uff11\uff12", "\u0661", "\u00a01.5", "\x852", "\u20033", "1.000000059604644775390626",
    "340282356779733661637539395458142568447", "340282356779733661637539395458142568448", "-0",
    "0e999", "1" * 400, "1" * 400 + "e-400", "0." + "0" * 400 + "1e401", "9223372036854775808",
    "9223372036854775807", "-9223372036854775808", "-9223372036854775809", "010", "12.7", "1e3",
    "0x180a.5b5p-139", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("semantics", ["strict", "onnxruntime"])
@pytest.mark.parametrize("cast_to", ["TO_FLOAT", "TO_INT64"])
def test_text_becomes_a_number_or_a_cast_error(cast_to: Any, semantics: Any) -> None:
    op = CastMap(cast_to=cast_to, semantics=semantics)
    target = "float32" if cast_to == "TO_FLOAT" else "int64"
    for text in TEXT_CORNERS:
        try:
            expected = repr([convert(text, "string", target, semantics)])
        except CannotConvertError:
            for arguments in (({5: text},), ([5], [text], [0, 1])):
                with pytest.raises(CastError, match=r"CastMap: map 0: key 5: value "):
                    op(*arguments)
            continue
        assert repr(op({5: text}).tolist()) == expected
        assert repr(op([5], [text], [0, 1])[0].tolist()) == expected


@pytest.mark.parametrize("digits", [10**5, 10**6])
def test_long_texts_are_read(digits: int) -> None:
    """Also beyond the number of digits at which Python's int refuses."""
    text = "1" + "0" * digits
    assert CastMap()({0: f"{text}e-{digits}"}).tolist() == [1.0]
    assert CastMap(cast_to="TO_INT64")({0: "0" * digits + "12"}).tolist() == [12]
    assert CastMap(semantics="onnxruntime")({0: f"{text}e-{digits}x"}).tolist() == [1.0]
    for op in (CastMap(), CastMap(cast_to="TO_INT64")):
        with pytest.raises(CastError) as caught:
            op({0: text})
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("value", "strict", "c"),
    [
        (F32(0.1), "0.100000", "0.100000"),
        (0.1, "0.100000", "0.100000"),
        (1 / 3, "0.3333333333333333", "0.333333"),
        (F32(1 / 3), "0.33333334", "0.333333"),
        (F32(1e-7), "0.0000001", "0.000000"),
        (-1e-9, "-0.000000001", "-0.000000"),
        (1e20, "100000000000000000000.000000", "100000002004087734272.000000"),
        (F32(16777217), "16777216.000000", "16777216.000000"),
        (16777217.0, "16777217.000000", "16777216.000000"),
        (-0.0, "-0.000000", "-0.000000"),
        (math.nan, "nan", "nan"),
        (-math.nan, "nan", "-nan"),
        (math.inf, "inf", "inf"),
        (-math.inf, "-inf", "-inf"),
        (1e300, f"{1e300:.6f}", "inf"),
        (5e-324, f"{5e-324:.324f}", "0.000000"),
        (7, "7", "7.000000"),
        (2**53 + 1, "9007199254740993", "9007199254740992.000000"),
        (INT64_MIN, "-9223372036854775808", "-9223372036854775808.000000"),
        (True, "1", "1.000000"),
        ("a\0b", "a\0b", "a\0b"),
    ],
)
def test_values_become_text(value: Any, strict: str, c: str) -> None:
    both: list[tuple[Any, str]] = [("strict", strict), ("onnxruntime", c)]
    for semantics, expected in both:
        op = CastMap(cast_to="TO_STRING", semantics=semantics)
        assert op({3: value}).tolist() == [expected]
        assert op([{3: value}]).tolist() == [[expected]]
        assert {type(cell) for cell in op([{3: value}]).ravel()} == {str}


@pytest.mark.parametrize(
    ("value", "strict", "c"),
    [
        (1.9, 1, 1),
        (-1.9, -1, -1),
        (-0.5, 0, 0),
        (math.nan, None, INT64_MIN),
        (math.inf, None, INT64_MIN),
        (-math.inf, None, INT64_MIN),
        (2.0**63, None, INT64_MIN),
        (-(2.0**63), INT64_MIN, INT64_MIN),
        (np.nextafter(2.0**63, 0), 2**63 - 1024, INT64_MIN),
        (F32(np.nextafter(F32(2.0**63), F32(0))), 2**63 - 2**39, 2**63 - 2**39),
        (-1e300, None, INT64_MIN),
        (INT64_MAX, INT64_MAX, INT64_MIN),
        (2**53 + 1, 2**53 + 1, 2**53),
        (2**24 + 1, 2**24 + 1, 2**24),
        (False, 0, 0),
    ],
)
def test_numbers_become_int64(value: Any, strict: int | None, c: int) -> None:
    assert CastMap(cast_to="TO_INT64", semantics="onnxruntime")({3: value}).tolist() == [c]
    assert CastMap(cast_to="TO_INT64", semantics="onnxruntime")([{3: value}]).tolist() == [[c]]
    op = CastMap(cast_to="TO_INT64")
    for batch in ({3: value}, [{3: value}]):
        if strict is None:
            with pytest.raises(CastError, match=r"CastMap: map 0: key 3: value .*int64"):
                op(batch)
        else:
            assert op(batch).ravel().tolist() == [strict]


@pytest.mark.parametrize(
    ("value", "strict", "c"),
    [
        (0.1, float32(0.1), float32(0.1)),
        (1e300, None, math.inf),
        (-1e300, None, -math.inf),
        (3.4028235677973366e38, None, math.inf),
        (3.4028235677973362e38, 3.4028234663852886e38, 3.4028234663852886e38),
        (1e-300, 0.0, 0.0),
        (-1e-300, -0.0, -0.0),
        (math.inf, math.inf, math.inf),
        (math.nan, math.nan, math.nan),
        (2**24 + 1, 2.0**24, 2.0**24),
        (2**62 + 2**38 + 1, 2.0**62 + 2.0**39, 2.0**62 + 2.0**39),
        (INT64_MAX, 2.0**63, 2.0**63),
    ],
)
def test_numbers_become_float32(value: Any, strict: float | None, c: float) -> None:
    for batch in ({3: value}, [{3: value}]):
        relaxed = CastMap(semantics="onnxruntime")(batch)
        assert repr(relaxed.ravel().tolist()) == repr([c])
        if strict is None:
            with pytest.raises(CastError, match=r"CastMap: map 0: key 3: value .*float32"):
                CastMap()(batch)
        else:
            assert repr(CastMap()(batch).ravel().tolist()) == repr([strict])


def test_float32_values_pass_bit_for_bit() -> None:
    """NaN payloads included: float32 to float32 converts nothing."""
    bits = np.array([0x7FC00001, 0xFFC00002, 0x80000000, 0x00000001, 0x7F800000], np.uint32)
    values = bits.view(np.float32)

    result = CastMap()(np.arange(5), values)
    batch = CastMap()(np.arange(5), values, [0, 5])
    sparse = CastMap(map_form="SPARSE", max_map=5)(np.arange(5), values, [0, 5])

    for rows in (batch, sparse):
        assert rows.view(np.uint32).ravel().tolist() == bits.tolist()
    assert result.view(np.uint32)[2:].tolist() == bits[2:].tolist()


# The modes.


def test_sparse_key_out_of_range() -> None:
    strict = CastMap(map_form="SPARSE", max_map=4)
    relaxed = CastMap(map_form="SPARSE", max_map=4, semantics="onnxruntime")
    for key in (4, 5, INT64_MAX):
        for batch in ({1: "1", key: "bad"}, [{}, {1: "1", key: "bad"}]):
            with pytest.raises(ValueError, match=rf"map \d: key {key} .*max_map=4") as caught:
                strict(batch)
            assert type(caught.value) is ValueError
            # Dropped before anything looks at its value.
            assert relaxed(batch).reshape(-1, 4)[-1].tolist() == [0.0, 1.0, 0.0, 0.0]
        for numbers in ({1: 1.0, key: 2.0}, [{key: 2.0}, {}], [{}, {key: 2.0, 1: 1.0}]):
            with pytest.raises(ValueError, match=rf"map \d: key {key} .*max_map=4"):
                strict(numbers)
    for key in (-1, INT64_MIN):
        for op in (strict, relaxed):
            for given in ({1: 1.0, key: 2.0}, [{}, {9: 1.0} if op is relaxed else {}, {key: 2.0}]):
                with pytest.raises(ValueError, match=rf"map \d: key {key} .*negative"):
                    op(given)


def test_missing_positions_hold_the_fill_value() -> None:
    cases: list[tuple[Any, Any, Any, Any]] = [
        ("TO_FLOAT", "strict", None, 0.0),
        ("TO_FLOAT", "onnxruntime", None, 0.0),
        ("TO_INT64", "strict", None, 0),
        ("TO_STRING", "strict", None, ""),
        ("TO_STRING", "onnxruntime", None, "0.f"),
        ("TO_STRING", "onnxruntime", "", ""),
        ("TO_STRING", "strict", "?", "?"),
        ("TO_FLOAT", "strict", math.inf, math.inf),
        ("TO_FLOAT", "onnxruntime", -1, -1.0),
        ("TO_INT64", "onnxruntime", INT64_MIN, INT64_MIN),
        ("TO_INT64", "strict", INT64_MAX, INT64_MAX),
    ]
    for cast_to, semantics, fill, expected in cases:
        op = CastMap(
            map_form="SPARSE", max_map=2, cast_to=cast_to, semantics=semantics, fill_value=fill
        )
        for rows in (op({}), op([{}])[0], op([], [], [0, 0])[0]):
            assert rows.tolist() == [expected] * 2


def test_negative_zero_can_be_the_fill_value() -> None:
    op = CastMap(map_form="SPARSE", max_map=2, fill_value=-0.0)

    for rows in (op({}), op([{}])[0]):
        assert repr(rows.tolist()) == "[-0.0, -0.0]"


def test_repeated_keys_are_refused_or_the_first_wins() -> None:
    keys, values = [3, 1, 3, 1], ["1", "2", "bad", "4"]
    for form in ({}, {"map_form": "SPARSE", "max_map": 4}):
        for arguments in ((keys, values), (keys, values, [0, 4])):
            with pytest.raises(DuplicateKeyError, match=r"map 0: key 3 .*sum_duplicates"):
                CastMap(**form)(*arguments)  # type: ignore[arg-type]
    relaxed = CastMap(semantics="onnxruntime")
    assert relaxed(keys, values).tolist() == [2.0, 1.0]
    assert relaxed(keys, values, [0, 4]).tolist() == [[2.0, 1.0]]
    values_of_maps, offsets = relaxed.ragged([*keys, 7], [*values, "7"], [0, 4, 5])
    assert values_of_maps.tolist() == [2.0, 1.0, 7.0]
    assert offsets.tolist() == [0, 2, 3]
    # Lengths count what is left.
    assert relaxed([*keys, 7, 8], [*values, "7", "8"], [0, 4, 6]).tolist() == [[2, 1], [7, 8]]


@pytest.mark.parametrize("n", [2, 3, 64, 65, 300, 5000])
def test_repeated_keys_are_seen_wherever_they_stand(n: int) -> None:
    """Side by side in ascending keys, at the ends, in short maps and long ones, close and wide."""
    for spacing in (1, 2**40):
        for first, second in ((0, 1), (n - 2, n - 1), (0, n - 1), (n // 2 - 1, n // 2)):
            keys = np.arange(n) * spacing
            keys[second] = keys[first]
            for given in (keys, keys[::-1], np.roll(keys, n // 3)):
                with pytest.raises(DuplicateKeyError, match=f"map 1: key {keys[first]} "):
                    CastMap()(given, np.ones(n), [0, 0, n])
                relaxed = CastMap(semantics="onnxruntime", cast_to="TO_INT64")
                kept, _ = relaxed.ragged(given, np.arange(n) % 1000, [0, n])
                expected = {k: v % 1000 for v, k in reversed(list(enumerate(given.tolist())))}
                assert kept.tolist() == [expected[key] for key in sorted(expected)]


def test_keys_of_another_type_are_refused() -> None:
    for op in (CastMap(), CastMap(map_form="SPARSE", semantics="onnxruntime")):
        for given in (({"a": 1},), ([{"a": 1}],), (["a"], [1]), (MapBatch.from_dicts([{"a": 1}]),)):
            with pytest.raises(TypeError, match="CastMap: map 0: key 'a' is str"):
                op(*given)


def test_remedy_for_repeated_keys_works() -> None:
    batch = MapBatch.from_arrays([3, 1, 3], [1.0, 2.0, 4.0])

    with pytest.raises(DuplicateKeyError):
        CastMap()(batch)
    assert CastMap()(batch.sum_duplicates()).tolist() == [[2.0, 5.0]]


# out=


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("cast_to", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
@pytest.mark.parametrize("form", [{}, {"map_form": "SPARSE", "max_map": 4}])
@pytest.mark.parametrize("semantics", ["strict", "onnxruntime"])
def test_out_is_written_and_returned(
    form: dict[str, Any], cast_to: Any, name: str, semantics: Any
) -> None:
    op = CastMap(cast_to=cast_to, semantics=semantics, **form)
    for given in ({2: 1, 0: 2}, [{2: 1, 0: 2}, {1: 3, 3: 4}]):
        expected = op(given)
        out = np.full_like(expected, "old" if cast_to == "TO_STRING" else 77)
        with way(name):
            assert op(given, out=out) is out
        assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "out",
    [
        np.empty(3, np.float32),
        np.empty((1, 2), np.float32),
        np.empty(2, np.float64),
        np.empty(2, ">f4" if sys.byteorder == "little" else "<f4"),
        np.empty(4, np.float32)[::2],
        np.frombuffer(bytes(8), np.float32),
        np.ndarray((2,), np.float32, bytearray(9), 1),
        [0.0, 0.0],
        bytearray(8),
    ],
    ids=[
        "length",
        "rank",
        "dtype",
        "byte order",
        "strided",
        "read-only",
        "unaligned",
        "list",
        "bytearray",
    ],
)
def test_out_that_does_not_fit_is_refused(out: Any) -> None:
    for op in (CastMap(), CastMap(map_form="SPARSE", max_map=2)):
        for name in ("as shipped", "compiled engine"):
            with way(name), pytest.raises(ValueError, match="CastMap: out "):
                op({1: 1.0, 0: 2.0}, out=out)


def test_out_may_not_share_memory_with_the_input() -> None:
    memory = np.arange(8, dtype=np.float32)
    keys = np.arange(4)
    with pytest.raises(ValueError, match="must not share memory"):
        CastMap()(keys, memory[:4], out=memory[:4])
    with pytest.raises(ValueError, match="must not share memory"):
        CastMap()(keys, memory[:4], [0, 2, 4], out=memory[2:6].reshape(2, 2))
    values = np.arange(4, dtype=np.int64)
    with pytest.raises(ValueError, match="must not share memory"):
        CastMap(cast_to="TO_INT64")(keys, values, out=keys)
    with pytest.raises(ValueError, match="must not share memory"):
        CastMap(semantics="onnxruntime")(keys, memory[:4], out=memory[:4])
    assert memory.tolist() == list(range(8))
    apart = CastMap()(keys, memory[:4], out=memory[4:])
    assert apart.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("odd", [[], np.array(["DENSE", "SPARSE"]), 1, None])
def test_attributes_of_other_types_are_refused(odd: Any) -> None:
    for name in ("cast_to", "map_form"):
        with pytest.raises(ValueError, match=f"CastMap: {name} must be "):
            CastMap(**{name: odd})


@pytest.mark.parametrize("cast_to", ["TO_FLOAT", "TO_INT64"])
def test_a_fill_value_beyond_all_floats_is_refused(cast_to: Any) -> None:
    with pytest.raises(ValueError, match=r"CastMap: fill_value .* has no exact"):
        CastMap(cast_to=cast_to, fill_value=10**400)


def test_an_out_for_maps_of_the_first_length_has_no_room_for_longer_ones() -> None:
    out = np.empty((3, 0), np.float32)
    with pytest.raises(DuplicateKeyError, match="CastMap: map 2: key 0 "):
        CastMap()([0, 0, 0], [0.5, 0.5, 0.5], [0, 0, 1, 3], out=out)
    with pytest.raises(ValueError, match="CastMap: map 1 has 1 entries where map 0 has 0"):
        CastMap()([0, 0, 1], [0.5, 0.5, 0.5], [0, 0, 1, 3], out=out)
