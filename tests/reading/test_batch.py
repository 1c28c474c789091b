"""MapBatch: making, reading, slicing, adding up repeated keys."""

from __future__ import annotations

import copy
import json
import math
import re
from collections import Counter, OrderedDict, UserDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import CastError, DictVectorizer, DuplicateKeyError, MapBatch
from nbmapops._limits import limits

from ..reference import INT64_MAX, INT64_MIN
from ..strategies import KEY_TYPES, VALUE_TYPES, Maps, Pairs, keys_of, maps_over, values_of
from ..ways import WAYS, way

if TYPE_CHECKING:
    from collections.abc import Iterator

MAPS: list[dict[Any, Any]] = [{1: 0.5, 7: 2.0}, {}, {7: 1.0}]


def test_attributes_of_a_batch() -> None:
    batch = MapBatch.from_dicts(MAPS)

    assert batch.keys.tolist() == [1, 7, 7]
    assert batch.values.tolist() == [0.5, 2.0, 1.0]
    assert batch.offsets.tolist() == [0, 2, 2, 3]
    assert batch.null_maps is None
    assert (batch.keys.dtype, batch.values.dtype, batch.offsets.dtype) == ("i8", "f8", "i8")
    assert len(batch) == 3
    assert list(batch) == MAPS
    assert "3 maps" in repr(batch)
    assert len(repr(batch)) < 100


def test_batch_is_made_by_its_class_methods_only() -> None:
    with pytest.raises(TypeError, match="from_arrays"):
        MapBatch()
    with pytest.raises(AttributeError):
        MapBatch.from_dicts([]).keys = 1  # type: ignore[misc, assignment]
    with pytest.raises(AttributeError):
        MapBatch.from_dicts([]).more = 1  # type: ignore[attr-defined]


def test_arrays_of_a_batch_are_read_only() -> None:
    for batch in (
        MapBatch.from_dicts(MAPS),
        MapBatch.from_dicts([{"a": 1}]),
        MapBatch.from_arrays(np.arange(3), np.arange(3.0)),
    ):
        for part in (batch.keys, batch.values, batch.offsets):
            with pytest.raises(ValueError, match="read-only"):
                part[:] = part


@pytest.mark.parametrize("key_type", KEY_TYPES)
@pytest.mark.parametrize("value_type", VALUE_TYPES)
@given(data=st.data())
def test_dicts_come_back(key_type: str, value_type: str, data: st.DataObject) -> None:
    maps = data.draw(maps_over(keys_of(key_type), values_of(value_type)))
    drawn = Maps(key_type, value_type, [list(dict(m).items()) for m in maps])
    dicts = [dict(m) for m in drawn.scalars()]
    first = MapBatch.from_dicts(dicts)
    kept: Any = "float" if first.values.dtype == np.float32 else None
    second = MapBatch.from_dicts(first.to_dicts(), value_type=kept)
    if kept is not None:
        dicts = [{key: value.item() for key, value in m.items()} for m in dicts]
    for batch in (first, second):
        assert [list(map(repr, m.items())) for m in batch.to_dicts()] == [
            list(map(repr, m.items())) for m in dicts
        ]
        assert batch.values.dtype == (first.values.dtype if any(dicts) else np.float64)
    for number in range(len(dicts)):
        assert repr(first[number]) == repr(dicts[number])
        assert repr(first[number - len(dicts)]) == repr(dicts[number])


def test_scalars_of_dicts_are_pythons_own() -> None:
    (one,) = MapBatch.from_arrays(np.array([3], np.int16), np.array([1], np.uint8), [0, 1])
    assert [type(x) for entry in one.items() for x in entry] == [int, int]
    (one,) = MapBatch.from_arrays(np.array(["a"]), np.array(["b"]), [0, 1])
    assert [type(x) for entry in one.items() for x in entry] == [str, str]
    (one,) = MapBatch.from_arrays([1], np.array([1], np.float64), [0, 1])
    assert type(one[1]) is float
    for narrow in (np.float32, np.float16):
        batch = MapBatch.from_arrays([1], np.array([0.1], narrow), [0, 1])
        for one in (*batch, batch[0], *batch.to_dicts()):
            assert type(one[1]) is float
            assert json.loads(json.dumps(one)) == {"1": float(narrow(0.1))}


@pytest.mark.parametrize("key_type", KEY_TYPES)
@given(data=st.data())
def test_slices_are_those_of_a_list(key_type: str, data: st.DataObject) -> None:
    maps = data.draw(maps_over(keys_of(key_type), st.integers(0, 9)))
    dicts = [dict(m) for m in maps]
    batch = MapBatch.from_dicts(dicts)
    bound = st.none() | st.integers(-7, 7)
    first = slice(data.draw(bound), data.draw(bound))
    second = slice(data.draw(bound), data.draw(bound))
    assert batch[first].to_dicts() == dicts[first]
    assert batch[first][second].to_dicts() == dicts[first][second]
    assert batch[first].offsets[0] == 0
    assert batch[first].offsets[-1] == len(batch[first].keys) == len(batch[first].values)


def test_slice_shares_memory_and_refuses_steps() -> None:
    batch = MapBatch.from_dicts(MAPS)

    assert np.shares_memory(batch[1:].values, batch.values)
    for step in (2, -1):
        with pytest.raises(ValueError, match="step"):
            _ = batch[::step]
    for number in (3, -4):
        with pytest.raises(IndexError):
            _ = batch[number]
    with pytest.raises(TypeError):
        _ = batch["0"]  # type: ignore[call-overload]


def test_map_with_repeated_keys_is_no_dict() -> None:
    batch = MapBatch.from_arrays([5, 3, 3, 5], [1, 2, 3, 4], [0, 1, 4])

    assert batch[0] == {5: 1}
    for call in (lambda: batch[1], batch.to_dicts, lambda: list(batch)):
        with pytest.raises(DuplicateKeyError, match=r"MapBatch: map 1: key 3 .*sum_duplicates"):
            call()


# Making one of arrays.


def test_canonical_arrays_are_viewed_and_offsets_copied() -> None:
    for dtype in (np.int64, np.float32, np.float64):
        keys, values, offsets = np.arange(4), np.arange(4).astype(dtype), np.array([0, 2, 4])
        batch = MapBatch.from_arrays(keys, values, offsets)
        assert np.shares_memory(batch.keys, keys)
        assert np.shares_memory(batch.values, values)
        assert not np.shares_memory(batch.offsets, offsets)
        offsets[1] = 99
        assert batch.offsets.tolist() == [0, 2, 4]
        assert keys.flags.writeable
        assert values.flags.writeable


def test_arrays_that_are_not_aligned_are_copied() -> None:
    odd = np.frombuffer(bytes(17), np.int64, offset=1)
    assert not odd.flags.aligned
    for batch in (MapBatch.from_arrays(odd, odd), MapBatch.from_rows([1, 0], odd, odd)):
        assert batch.keys.flags.aligned
        assert batch.values.flags.aligned


def test_codes_of_text_keys_are_copied() -> None:
    keys = np.array(["a", "b"], object)
    batch = MapBatch.from_arrays(keys, [1, 2])
    keys[:] = "z"

    assert batch.to_dicts() == [{"a": 1, "b": 2}]


def test_without_offsets_all_entries_are_one_map() -> None:
    assert MapBatch.from_arrays([1, 2], [3, 4]).to_dicts() == [{1: 3, 2: 4}]
    assert MapBatch.from_arrays([], []).to_dicts() == [{}]


def test_float16_widens_to_float32_and_small_integers_to_int64() -> None:
    halves = np.array([0.1, 65504, math.nan], np.float16)
    batch = MapBatch.from_arrays(np.arange(3, dtype=np.uint8), halves)

    assert batch.values.dtype == np.float32
    assert batch.values.tolist()[:2] == [float(halves[0]), 65504.0]
    assert batch.keys.dtype == np.int64
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.uint64, bool):
        assert MapBatch.from_arrays([1], np.array([1], dtype)).values.dtype == np.int64


# Making one of dicts.


def test_kind_of_values_by_the_rules() -> None:
    f32 = np.float32
    cases: list[tuple[list[Any], Any]] = [
        ([1, 2], np.int64),
        ([1, True], np.int64),
        ([np.uint8(1), 2], np.int64),
        ([np.bool_(True)], np.int64),
        ([1.0, 2], np.float64),
        ([1, 2.0], np.float64),
        ([f32(1)], np.float32),
        ([f32(1), f32(2)], np.float32),
        ([np.float16(1), f32(2)], np.float32),
        ([f32(1), 2], np.float64),
        ([2, f32(1)], np.float64),
        ([f32(1), 2.0], np.float64),
        ([np.float64(1)], np.float64),
        (["a", "b"], object),
        ([np.str_("a")], object),
    ]
    for values, dtype in cases:
        one = MapBatch.from_dicts([dict(enumerate(values))])
        several = MapBatch.from_dicts({0: value} for value in values)
        odd = MapBatch.from_dicts([Pairs([(0, value)]) for value in values])
        for batch in (one, several, odd, MapBatch.from_arrays(range(len(values)), values)):
            assert batch.values.dtype == dtype, values
            assert batch.values.tolist() == list(values)


@pytest.mark.parametrize(
    "maps",
    [
        [{1: 2**53 + 1}, {1: 0.5}],
        [{1: 0.5}, {}, {1: 2**53 + 1}],
        [{1: -(2**53) - 1, 2: 0.5}],
        [{2: 0.5, 1: 2**53 + 1}],
        [{1: INT64_MAX}, {1: np.float32(0.5)}],
        [{1: 1}, {1: INT64_MAX}, {1: 1}, {3: 1.5}],
    ],
)
def test_integer_that_float64_cannot_hold_among_floats(maps: list[dict[int, Any]]) -> None:
    number = next(n for n, m in enumerate(maps) if any(abs(v) > 2**53 for v in m.values()))
    for source in (maps, tuple(maps), iter(maps), [Pairs(list(m.items())) for m in maps]):
        with pytest.raises(OverflowError, match=rf"MapBatch: map {number}: key 1: value -?\d+"):
            MapBatch.from_dicts(source)
    flat = [entry for m in maps for entry in m.items()]
    offsets = [0]
    for m in maps:
        offsets.append(offsets[-1] + len(m))
    with pytest.raises(OverflowError, match=rf"MapBatch: map {number}: key 1: value -?\d+"):
        MapBatch.from_arrays([k for k, _ in flat], [v for _, v in flat], offsets)
    with pytest.raises(OverflowError, match=rf"map {number}: key 1: value "):
        DictVectorizer(int64_vocabulary=[1, 2, 3])(maps)


def test_large_integers_stay_exact_where_all_are_integers() -> None:
    maps = [{1: 2**53 + 1}, {2: INT64_MIN}, {1: INT64_MAX}]

    assert MapBatch.from_dicts(iter(maps)).to_dicts() == maps


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        ([{1: 1}, {"a": 1}], r"map 1: key 'a' is str"),
        ([{"a": 1}, {1: 1}], r"map 1: key 1 is int"),
        ([{"a": 1, 1: 1}], r"map 0: key 1 is int"),
        ([{1.5: 1}], r"map 0: key 1\.5 is float"),
        ([{None: 1}], r"map 0: key None is NoneType"),
        ([{(1,): 1}], r"map 0: key \(1,\) is tuple"),
        ([{b"a": 1}], r"map 0: key b'a' is bytes"),
        ([{1: 1}, {2: "a"}], r"map 1: key 2: value 'a' is str"),
        ([{1: "a"}, {2: 1.0}], r"map 1: key 2: value 1\.0 is float"),
        ([{1: None}], r"map 0: key 1: value None is NoneType"),
        ([{1: [1]}], r"map 0: key 1: value \[1\] is list"),
        ([{1: b"a"}], r"map 0: key 1: value b'a' is bytes"),
        ([{1: 1j}], r"map 0: key 1: value 1j is complex"),
        ([{1: np.timedelta64(1, "D")}], r"map 0: key 1: value .* is timedelta64"),
        ([{1: np.array(1.0)}], r"map 0: key 1: value .* is ndarray"),
        ([{1: {}}], r"map 0: key 1: value \{\} is dict"),
        ([{1: 1}, None], r"map 1 is None of type NoneType"),
        ([{1: 1}, [(1, 1), 2]], r"map 1 is .* of type list"),
        ([{1: 1}, "a"], r"map 1 is 'a' of type str"),
        ([1, 2], r"map 0 is 1 of type int"),
    ],
)
def test_wrong_types_are_named(maps: list[Any], message: str) -> None:
    for source in (maps, tuple(maps), iter(maps)):
        with pytest.raises(TypeError, match=r"^MapBatch: " + message):
            MapBatch.from_dicts(source)
    with pytest.raises(TypeError, match=r"^DictVectorizer: " + message):
        DictVectorizer.from_maps(maps)


def test_integers_outside_int64_are_named() -> None:
    for big in (2**63, -(2**63) - 1, 10**30, np.uint64(2**63)):
        cases: list[tuple[list[dict[Any, Any]], str]] = [
            ([{1: 1}, {big: 1}], r"map 1: key -?\d+"),
            ([{"a": 1}, {"b": big}], r"map 1: key 'b': value -?\d+"),
        ]
        for maps, message in cases:
            for source in (maps, iter(maps), [Pairs(list(m.items())) for m in maps]):
                with pytest.raises(OverflowError, match=rf"MapBatch: {message}.*int64"):
                    MapBatch.from_dicts(source)


def test_mappings_of_every_kind() -> None:
    plain = {"b": 1, "a": 2}
    made = [OrderedDict(plain), UserDict(plain), Counter(plain), Pairs(list(plain.items()))]

    assert MapBatch.from_dicts(made).to_dicts() == [plain] * 4


def test_mapping_that_repeats_a_key_keeps_both_entries() -> None:
    batch = MapBatch.from_dicts([Pairs([(1, 2), (1, 3)])])

    assert batch.keys.tolist() == [1, 1]
    assert batch.values.tolist() == [2, 3]


def test_key_type_and_value_type() -> None:
    assert MapBatch.from_dicts([], key_type="string").keys.dtype == object
    assert MapBatch.from_dicts([{}], key_type="int64").keys.dtype == np.int64
    assert MapBatch.from_dicts([{}], key_type=str, value_type="string").values.dtype == object
    assert MapBatch.from_dicts([{}]).values.dtype == np.float64
    assert MapBatch.from_dicts([{1: 1}], value_type="float").values.dtype == np.float32
    assert MapBatch.from_dicts([{1: 2.0}], value_type=np.int64).values.tolist() == [2]
    assert MapBatch.from_dicts([{1: "7"}], value_type="double").values.tolist() == [7.0]
    with pytest.raises(CastError, match=r"MapBatch: map 1: key 5: value 2\.5 .*int64"):
        MapBatch.from_dicts([{1: 1.0}, {5: 2.5}], value_type="int64")
    with pytest.raises(TypeError, match="MapBatch: map 0: key 1 "):
        MapBatch.from_dicts([{1: 1}], key_type="string")
    for wrong in ("float", "text", np.int32, 7):
        with pytest.raises(TypeError, match="key_type"):
            MapBatch.from_dicts([], key_type=wrong)  # type: ignore[arg-type]
    for wrong in ("text", np.int32, 7):
        with pytest.raises(TypeError, match="value_type"):
            MapBatch.from_dicts([], value_type=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "source", ["abc", b"abc", {1: 2}, 5, None, np.zeros(2), np.zeros((1, 1))], ids=repr
)
def test_what_is_no_batch_of_dicts(source: Any) -> None:
    with pytest.raises(TypeError, match="MapBatch: "):
        MapBatch.from_dicts(source)


# sum_duplicates.


@pytest.fixture(scope="class", params=["plain", "compiled"])
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    before, limits.engine = limits.engine, request.param
    yield
    limits.engine = before


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("key_type", KEY_TYPES)
@pytest.mark.parametrize("value_type", ["float64", "float32", "int64"])
@given(data=st.data())
def test_sum_of_duplicates_is_that_of_a_loop(
    key_type: str, value_type: str, data: st.DataObject
) -> None:
    keys = st.sampled_from([-1, 0, 5] if key_type == "int64" else ["", "a", "b"])
    maps = data.draw(
        st.lists(st.lists(st.tuples(keys, st.integers(-99, 99)), max_size=6), max_size=4)
    )
    drawn = Maps(key_type, value_type, maps)
    expected: list[dict[Any, Any]] = []
    for m in maps:
        expected.append({})
        for key, value in m:
            expected[-1][key] = expected[-1].get(key, 0) + value
    batch = MapBatch.from_arrays(*drawn.arrays())
    summed = batch.sum_duplicates()

    assert [list(m.items()) for m in summed.to_dicts()] == [list(m.items()) for m in expected]
    assert summed.values.dtype == batch.values.dtype
    assert batch.values.tolist() == [value for m in maps for _, value in m]


@pytest.mark.usefixtures("engine")
def test_sum_adds_floats_in_entry_order() -> None:
    values = [1e16, 1.0, -1e16, 1.0]
    batch = MapBatch.from_arrays([7] * 4, values)

    assert batch.sum_duplicates().to_dicts() == [{7: ((1e16 + 1.0) - 1e16) + 1.0}]


@pytest.mark.usefixtures("engine")
def test_sum_outside_int64_is_refused() -> None:
    for key in (7, "a"):
        keys = [key, key, key]
        batch = MapBatch.from_arrays([key, *keys], [0, INT64_MAX, 1, 0], [0, 1, 4])
        with pytest.raises(OverflowError, match=rf"map 1: key {key!r}: .*9223372036854775808"):
            batch.sum_duplicates()
        # A sum that only passes outside on its way is none of those.
        fine = MapBatch.from_arrays(keys, [INT64_MAX, 1, -1])
        assert fine.sum_duplicates().to_dicts() == [{key: INT64_MAX}]
        # Of these the sum of the nearest floats is below 2**63.
        near = [2**62 + 511, 2**61 + 255, 2**61 - 767]
        assert MapBatch.from_arrays(keys, near).sum_duplicates().to_dicts() == [{key: INT64_MAX}]
        near[-1] += 1
        with pytest.raises(OverflowError, match=f"map 0: key {key!r}: the sum {2**63} "):
            MapBatch.from_arrays(keys, near).sum_duplicates()
    low = MapBatch.from_arrays([1, 1], [INT64_MIN, -1])
    with pytest.raises(OverflowError, match="-9223372036854775809"):
        low.sum_duplicates()


def test_text_is_not_summed() -> None:
    with pytest.raises(TypeError, match="text"):
        MapBatch.from_arrays([1, 1], ["a", "b"]).sum_duplicates()


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_sums_beyond_all_floats_are_infinite_without_a_warning(name: str, kind: str) -> None:
    large = np.full(2, np.finfo(kind).max, kind)
    with way(name):  # a warning is an error in all tests
        assert MapBatch.from_arrays([1, 1], large).sum_duplicates().to_dicts() == [{1: math.inf}]


def test_of_many_large_sums_the_one_that_does_not_fit_is_named() -> None:
    maps = 50_000
    keys, ends = np.repeat(np.arange(maps), 2), np.arange(0, 2 * maps + 1, 2)
    values = np.tile([2**62, 2**61], maps)
    sums = MapBatch.from_arrays(keys, values, ends).sum_duplicates()
    assert set(sums.values.tolist()) == {2**62 + 2**61}
    values[-1] = 2**62
    with pytest.raises(OverflowError, match=f"map {maps - 1}: key {maps - 1}: the sum {2**63} "):
        MapBatch.from_arrays(keys, values, ends).sum_duplicates()


def test_copies_and_equality_of_content() -> None:
    batch = MapBatch.from_dicts([{"a": 1, "b": 2}, {}])
    for twin in (copy.copy(batch), copy.deepcopy(batch)):
        assert twin.to_dicts() == batch.to_dicts()
        assert not twin.values.flags.writeable


@pytest.mark.usefixtures("engine")
def test_sums_keep_the_sign_of_a_zero() -> None:
    batch = MapBatch.from_arrays([1, 2, 2, 3, 3], [-0.0, 1.0, 1.0, -0.0, -0.0])
    assert repr(batch.sum_duplicates().values.tolist()) == "[-0.0, 2.0, -0.0]"


@pytest.mark.parametrize("one", [{1: 2.0}, {}])
def test_one_map_is_no_batch(one: Any) -> None:
    with pytest.raises(TypeError, match="MapBatch: one dict is not a batch of maps; pass a list"):
        MapBatch.from_dicts(one)


def test_notebooks_show_the_first_maps_as_a_table() -> None:
    maps = [{"a": 1.5, "<b>": 2.0}, {}, {f"k{n}": n for n in range(1000)}, *[{"z": 0.5}] * 20]
    html = MapBatch.from_dicts(maps)._repr_html_()

    assert html.count("<tr>") == 9
    assert "<caption>MapBatch: 23 maps, 1022 entries, string -&gt; float64</caption>" in html
    assert "&#x27;a&#x27;: 1.5, &#x27;&lt;b&gt;&#x27;: 2.0</td>" in html
    assert "<b>" not in html
    assert "and 994 more</td>" in html
    assert "15 more maps" in html
    assert len(html) < 3000


@pytest.mark.parametrize(
    "evil", ["<script>alert(1)</script>", "</td>&amp;", '"onload="x', "\ud800"], ids=ascii
)
def test_keys_and_values_in_notebooks_are_escaped(evil: str) -> None:
    html = MapBatch.from_arrays([evil], [evil])._repr_html_()
    bare = re.sub(r'</?(table|caption|tbody|tr|th|td)( style="text-align: left")?>', "", html)

    assert not {"<", ">", '"'} & set(bare)
    html.encode()  # can be written to a page


def test_notebooks_show_null_maps_numbers_and_long_text_shortly() -> None:
    batch = MapBatch.from_dicts([None, {7: np.float32(0.5)}], null_map="empty")
    assert ">null</td>" in batch._repr_html_()
    assert "7: 0.5</td>" in batch._repr_html_()
    assert len(MapBatch.from_arrays(["x" * 10**6], [1])._repr_html_()) < 1000
    assert MapBatch.from_dicts([])._repr_html_().endswith("<tbody></tbody></table>")
