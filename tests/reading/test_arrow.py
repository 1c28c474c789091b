"""Arrow columns: what is read from them, what is refused, and that nothing is copied."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import sys
from decimal import Decimal
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", minversion="18")

from nbmapops import (  # noqa: E402
    CastMap,
    DictVectorizer,
    DuplicateKeyError,
    MapBatch,
    UnknownKeyError,
)
from nbmapops._reading import arrow, inputs  # noqa: E402
from nbmapops._reading.arrow import is_arrow  # noqa: E402
from nbmapops._reading.arrowdata import Text  # noqa: E402
from nbmapops._reading.entries import Entries, Int64Keys  # noqa: E402
from nbmapops._reading.inputs import read_input  # noqa: E402
from nbmapops._reading.mappings import MapReader  # noqa: E402
from nbmapops._vocabulary import Vocabulary  # noqa: E402

from ..fresh import run  # noqa: E402
from ..ways import WAYS, way  # noqa: E402

INT64_MAX = 2**63 - 1
KEY, VALUE = pa.int64(), pa.float64()
TEXT = [pa.string(), pa.large_string(), pa.string_view()]
LAYOUTS = ["map", "list", "large_list", "list_view", "large_list_view"]
Entry = tuple[Any, Any]
Map = list[Entry] | None


class Parts(NamedTuple):
    """What a column consists of."""

    keys: Any
    values: Any
    offsets: Any
    null_maps: Any


def parts_of(entries: Entries, null_maps: Any) -> Parts:
    keys = entries.keys.array if isinstance(entries.keys, Int64Keys) else entries.keys
    return Parts(keys, entries.values, entries.offsets, null_maps)


def read_column(column: object, **options: Any) -> Parts:
    return parts_of(*arrow.read_column(column, **options))


def read_maps(column: object, **options: Any) -> tuple[Parts, Any]:
    entries, null_maps, bad = arrow.read_maps(column, **options)
    return parts_of(entries, null_maps), bad


# -- columns as Arrow allows them, made from Python maps --------------------------------------


class Junk(NamedTuple):
    """Entries in the buffers that belong to no map that counts."""

    before: int = 0  # skipped by the offset of the entries struct
    lead: int = 0  # skipped by the first offset
    hidden: int = 0  # under each null map
    tail: int = 0  # behind the last map
    rows: int = 0  # whole maps that a slice leaves out, at both ends


NO_JUNK = Junk()
MUCH_JUNK = Junk(before=1, lead=2, hidden=2, tail=1, rows=1)


def bits(flags: list[bool]) -> Any:
    return pa.array(flags, pa.bool_()).buffers()[1]


def column_of(
    maps: list[Map],
    key_type: Any = KEY,
    value_type: Any = VALUE,
    layout: str = "map",
    junk: Junk = NO_JUNK,
) -> Any:
    """Build an array of maps from its buffers, as another library might lay it out.

    (pa.array of dicts aborts the process where None stands among entries.)
    """
    filler = [(next((key for m in maps for key, _ in m or []), None), None)]
    if filler[0][0] is None:
        filler = [("", None) if "string" in str(key_type) else (0, None)]
    entries = filler * (junk.before + junk.lead)
    starts, sizes = [], []
    for entries_of_map in [*[filler] * junk.rows, *maps, *[filler] * junk.rows]:
        starts.append(len(entries) - junk.before)
        entries += filler * junk.hidden if entries_of_map is None else entries_of_map
        sizes.append(len(entries) - junk.before - starts[-1])
    ends = [*starts, len(entries) - junk.before]
    entries += filler * junk.tail
    keys, values = (
        pa.array([entry[i] for entry in entries]).cast(kind)
        if pa.types.is_boolean(kind)
        else pa.array([entry[i] for entry in entries], kind)
        for i, kind in enumerate([key_type, value_type])
    )
    fields = [pa.field("key", key_type, nullable=layout != "map"), pa.field("value", value_type)]
    struct = pa.StructArray.from_arrays([keys, values], fields=fields).slice(junk.before)
    width = np.int64 if layout.startswith("large") else np.int32
    valid = [True] * junk.rows + [m is not None for m in maps] + [True] * junk.rows
    buffers = [bits(valid) if not all(valid) else None, pa.py_buffer(np.array(ends, width))]
    if layout.endswith("view"):
        buffers[1] = pa.py_buffer(np.array(starts, width))
        buffers.append(pa.py_buffer(np.array(sizes, width)))
    kind = {
        "map": lambda: pa.map_(key_type, value_type),
        "list": lambda: pa.list_(struct.type),
        "large_list": lambda: pa.large_list(struct.type),
        "list_view": lambda: pa.list_view(struct.type),
        "large_list_view": lambda: pa.large_list_view(struct.type),
    }[layout]()
    array = pa.Array.from_buffers(kind, len(valid), buffers, children=[struct])
    array.validate(full=True)
    return array.slice(junk.rows, len(maps))


def keys_of(parts: Parts) -> list[Any]:
    keys: Any = parts.keys
    return list(keys.to_array() if isinstance(keys, Text) else keys.tolist())


def maps_of(parts: Parts) -> list[list[Entry]]:
    keys, values, offsets = keys_of(parts), parts.values.tolist(), parts.offsets.tolist()
    assert offsets[0] == 0
    assert offsets[-1] == len(keys) == len(values)
    entries = list(zip(keys, values, strict=True))
    return [entries[a:b] for a, b in pairwise(offsets)]


def nulls_of(parts: Parts) -> list[bool]:
    count = len(parts.offsets) - 1
    return [False] * count if parts.null_maps is None else parts.null_maps.tolist()


# -- the columns of the issue, one by one ------------------------------------------------------


@pytest.mark.parametrize("value_type", ["int64", "float64", "float32"])
@pytest.mark.parametrize("null_map", [False, True])
def test_keys_and_values_are_views_of_the_arrow_buffers(value_type: str, null_map: bool) -> None:
    maps: list[Map] = [[(1, 5), (2, 6)], None if null_map else [], [(3, 7)], [(4, 8)]]
    array = column_of(maps, value_type=pa.from_numpy_dtype(np.dtype(value_type)))
    for column in (array, array.slice(0, 3), array.slice(1), pa.chunked_array([array])):
        parts = read_column(column, null_map="empty")
        assert isinstance(parts.keys, np.ndarray)
        assert parts.keys.dtype == np.int64
        assert parts.values.dtype == value_type
        for part, child in ((parts.keys, 0), (parts.values, 1)):
            buffer = array.values.field(child).buffers()[1]
            assert np.shares_memory(part, np.frombuffer(buffer, part.dtype))
            assert not part.flags.writeable
        assert not np.shares_memory(parts.offsets, np.frombuffer(array.buffers()[1], np.int32))
    last = read_column(array.slice(3))
    assert isinstance(last.keys, np.ndarray)
    assert last.keys.ctypes.data == array.values.field(0).buffers()[1].address + 3 * 8


def test_empty_chunks_do_not_cost_the_view() -> None:
    array = column_of([[(1, 5.0)]])
    parts = read_column(pa.chunked_array([array.slice(0, 0), array, array.slice(1)]))
    assert parts.values.ctypes.data == array.values.field(1).buffers()[1].address


def test_text_keys_are_not_copied() -> None:
    array = column_of([[("a", 5.0)], [("b", 6.0)]], pa.string())
    text = read_column(array).keys
    assert isinstance(text, Text)
    assert text._data.chunk(0).buffers()[2].address == array.values.field(0).buffers()[2].address


def test_unaligned_buffers_are_read() -> None:
    data = pa.py_buffer(b"x" + np.array([5, 6], np.int64).tobytes()).slice(1)
    keys = pa.Array.from_buffers(pa.int64(), 2, [None, data])
    column = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), keys, keys)
    parts = read_column(column)
    assert maps_of(parts) == [[(5, 5), (6, 6)]]
    assert parts.values.flags.aligned


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_belongs_to_no_map_is_never_seen(layout: str) -> None:
    array = column_of([[(1, 5.0)], None, [], [(2, 6.0), (3, 7.0)]], layout=layout, junk=MUCH_JUNK)
    parts = read_column(array, null_map="empty")  # the values of the junk are null
    assert maps_of(parts) == [[(1, 5.0)], [], [], [(2, 6.0), (3, 7.0)]]
    assert nulls_of(parts) == [False, True, False, False]


def test_fixed_size_lists_are_maps() -> None:
    entry = pa.struct([("k", pa.int64()), ("v", pa.float64())])
    rows = [[{"k": 1, "v": 5.0}], [{"k": 2, "v": 6.0}], None, [{"k": 3, "v": 7.0}]]
    column = pa.array(rows, pa.list_(entry, 1)).slice(1)
    parts = read_column(column, null_map="empty")
    assert maps_of(parts) == [[(2, 6.0)], [], [(3, 7.0)]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_empty_columns_keep_their_types(layout: str) -> None:
    array = column_of([[(1, 5.0)]], value_type=pa.float32(), layout=layout)
    for column in (array.slice(0, 0), array.slice(1), pa.chunked_array([], array.type)):
        parts = read_column(column)
        assert maps_of(parts) == []
        assert parts.null_maps is None
        assert isinstance(parts.keys, np.ndarray)
        assert [parts.keys.dtype, parts.values.dtype] == ["int64", "float32"]


@pytest.mark.parametrize(
    "key_type", [pa.string(), pa.string_view(), pa.dictionary("int8", "string")]
)
def test_empty_columns_of_text(key_type: Any) -> None:
    array = column_of([[("a", 5.0)]], key_type)
    for column in (array.slice(0, 0), pa.chunked_array([], array.type)):
        parts = read_column(column)
        assert maps_of(parts) == []
        assert isinstance(parts.keys, Text)
        assert parts.keys.columns(vocabulary("a")).tolist() == []
        codes, words = parts.keys.encode()
        assert (codes.tolist(), words) == ([], ())


@pytest.mark.parametrize(
    "name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool_"]
)
def test_all_integer_keys_and_values_widen(name: str) -> None:
    kind = getattr(pa, name)()
    top = 1 if name == "bool_" else min(np.iinfo(name).max, INT64_MAX)
    parts = read_column(column_of([[(0, top)], [(top, 0)]], kind, kind).slice(1))
    assert maps_of(parts) == [[(top, 0)]]
    assert isinstance(parts.keys, np.ndarray)
    assert [parts.keys.dtype, parts.values.dtype] == ["int64", "int64"]
    parts = read_column(column_of([[(0, top)], [(top, None)]], kind, kind), null_value=1)
    assert maps_of(parts) == [[(0, top)], [(top, 1)]]


def test_float16_widens_to_float32() -> None:
    parts = read_column(column_of([[(0, np.float16(1.5))]], value_type=pa.float16()))
    assert parts.values.dtype == np.float32
    assert maps_of(parts) == [[(0, 1.5)]]


@pytest.mark.parametrize("layout", ["map", "large_list"])
@pytest.mark.parametrize("name", ["string", "large_string", "string_view"])
def test_text_keys_and_values(name: str, layout: str) -> None:
    kind = getattr(pa, name)()
    rows: list[Map] = [[("a", "x")], None, [("", "é\0"), ("a" * 20, "y" * 20)]]
    parts = read_column(column_of(rows, kind, kind, layout, MUCH_JUNK), null_map="empty")
    assert maps_of(parts) == [rows[0], [], rows[2]]
    assert isinstance(parts.keys, Text)
    assert parts.values.dtype == object
    parts = read_column(column_of([[("a", None)]], kind, kind, layout), null_value="fill")
    assert maps_of(parts) == [[("a", "fill")]]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float32(), pa.string(), pa.string_view()])
def test_dictionary_encoded_values_are_decoded(kind: Any) -> None:
    words = ["x", "y"] if "string" in str(kind) else [1, 2]
    indices = pa.array([1, 0, None, 1], pa.uint8())
    values = pa.DictionaryArray.from_arrays(indices, pa.array([*words, None], kind))
    column = pa.MapArray.from_arrays(pa.array([0, 4], pa.int32()), pa.array([1, 2, 3, 4]), values)
    assert maps_of(read_column(column, null_value=words[0])) == [
        [(1, words[1]), (2, words[0]), (3, words[0]), (4, words[1])]
    ]
    assert maps_of(read_column(column, null_value="skip")) == [
        [(1, words[1]), (2, words[0]), (4, words[1])]
    ]


def test_dictionary_encoded_integer_keys() -> None:
    keys = pa.array([7, 9, 7], pa.int32()).dictionary_encode()
    column = pa.MapArray.from_arrays(pa.array([0, 3], pa.int32()), keys, pa.array([1.0, 2.0, 3.0]))
    assert maps_of(read_column(column)) == [[(7, 1.0), (9, 2.0), (7, 3.0)]]


def words_column(indices: list[int], words: list[Any], kind: Any = None) -> Any:
    keys = pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int8()), pa.array(words, kind or pa.string())
    )
    ends = pa.array(range(len(indices) + 1), pa.int32())
    return pa.MapArray.from_arrays(ends, keys, pa.array([float(i) for i in indices]))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_dictionary_keys_stay_codes_of_words(kind: Any) -> None:
    column = words_column([1, 0, 2, 1], ["a", "b", "a"], kind)
    parts = read_column(column)
    assert isinstance(parts.keys, Text)
    codes, words = parts.keys.encode()
    assert codes.dtype == np.int64
    assert (codes.tolist(), words) == ([1, 0, 2, 1], ("a", "b", "a"))
    assert keys_of(parts) == ["b", "a", "a", "b"]
    assert keys_of(parts._replace(keys=parts.keys[1:2])) == ["a"]
    assert parts.keys[1:2].columns(vocabulary("b", "a")).tolist() == [1]
    assert parts.keys.columns(vocabulary("a", "b", "a")).tolist() == [1, 0, 0, 1]


def test_dictionaries_of_chunks_are_joined() -> None:
    chunks = [words_column([0, 1], ["a", "b"]), words_column([0, 1], ["b", "c"])]
    parts = read_column(pa.chunked_array([*chunks, chunks[1].slice(1)]))
    assert keys_of(parts) == ["a", "b", "b", "c", "c"]
    assert isinstance(parts.keys, Text)
    assert parts.keys.encode()[1] == ("a", "b", "c")
    for words in ("ab", "bc", "cab", "c", "abc"):
        columns = [words.find(key) for key in "abbcc"]
        assert parts.keys.columns(vocabulary(*words)).tolist() == columns


def test_unused_words_of_a_large_dictionary_are_not_read() -> None:
    column = words_column([0, 1, 99], [f"word{i}" for i in range(100)])
    parts = read_column(column.slice(1))
    assert isinstance(parts.keys, Text)
    assert parts.keys.encode()[1] == ("word1", "word99")


def test_a_null_key_goes_before_a_null_value_of_its_map() -> None:
    entry = pa.struct([("key", pa.string()), ("value", pa.int64())])
    for pairs in ([(None, None)], [("a", None), (None, 1)]):
        with pytest.raises(ValueError, match=r"^MapBatch: map 1: "):
            MapBatch.from_arrow(pa.array([[], pairs], pa.list_(entry)))
    with pytest.raises(ValueError, match=r"^MapBatch: map 1: a key is null$"):
        MapBatch.from_arrow(pa.array([[], [("a", None), (None, 1)]], pa.list_(entry)))


def test_a_null_word_is_a_null_key_where_it_is_used() -> None:
    column = words_column([0, 1, 1, 0], ["a", None])
    assert keys_of(read_column(column.slice(0, 1))) == ["a"]
    with pytest.raises(ValueError, match=r"^MapBatch: map 1: a key is null$"):
        read_column(column)


def test_positions_outside_a_dictionary_are_an_error() -> None:
    for position in (-1, 2, 100):
        keys = pa.DictionaryArray.from_arrays(
            pa.array([0, position], pa.int8()), pa.array(["a", "b"]), safe=False
        )
        for children in ([keys, pa.array([1, 2])], [pa.array([1, 2]), keys]):
            column = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), *children)
            with pytest.raises(ValueError, match="points outside its dictionary"):
                read_column(column)


@pytest.mark.parametrize("index", ["int8", "uint8", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("words", [["a", "b"], ["a", None], ["a", "b", "c", "d"], [5, 6]])
def test_positions_outside_any_dictionary_are_an_error(words: list[Any], index: str) -> None:
    """Also where pyarrow decodes it, whose IndexError names nothing."""
    kind = pa.int64() if words == [5, 6] else pa.string()
    # beyond what int32 holds, where the type allows it
    position = {"64": 2**32, "32": 2**31 + 1}.get(index[-2:], 100)
    codes = pa.DictionaryArray.from_arrays(
        pa.array([0, None, position], index), pa.array(words, kind), safe=False
    )
    refused = r"^CastMap: the Arrow column points outside its dictionary$"
    ends = pa.array([0, 3], pa.int32())
    column = pa.MapArray.from_arrays(ends, pa.array([1, 2, 3]), codes)
    with pytest.raises(ValueError, match=refused):
        read_maps(column, null_value="skip", operator="CastMap")
    # a key that a message would show
    ends = pa.array([0, 1], pa.int32())
    column = pa.MapArray.from_arrays(ends, codes.slice(2), pa.array([None], VALUE))
    with pytest.raises(ValueError, match=refused):
        read_maps(column, operator="CastMap")


@pytest.mark.parametrize("offsets", [[0, 1, 3], [0, 2, 1], [2, 1, 2], [-1, 1, 2]])
def test_broken_offsets_are_an_error(offsets: list[int]) -> None:
    good = column_of([[(1, 5.0)], [(2, 6.0)]])
    owned = np.array([0, 1, 2], np.int32)
    column = pa.Array.from_buffers(
        good.type, 2, [None, pa.py_buffer(owned)], children=[good.values]
    )
    owned[:] = offsets
    with pytest.raises(ValueError, match="offsets of the Arrow column do not fit"):
        read_column(column)


@pytest.mark.parametrize("layout", ["map", "list", "large_list", "list_view"])
def test_text_beyond_its_buffer_is_an_error(layout: str) -> None:
    ends = np.array([0, 1, 2], np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"ab")]
    text = pa.Array.from_buffers(pa.string(), 2, buffers)
    numbers = pa.array([1, 2])
    for names in ([text, numbers], [numbers, text]):
        ends[:] = [0, 1, 2]
        entries = pa.StructArray.from_arrays(names, names=["key", "value"])
        if layout == "map":
            column = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), *names)
        elif layout == "list_view":
            column = pa.ListViewArray.from_arrays([0], [2], entries)
        else:
            make = pa.ListArray if layout == "list" else pa.LargeListArray
            column = make.from_arrays([0, 2], entries)
        assert len(read_column(column).values) == 2
        ends[2] = 10**9
        for chunks in (column, pa.chunked_array([column] * 9)):
            with pytest.raises(ValueError, match=r"^CastMap: the Arrow column is corrupt: "):
                read_maps(chunks, operator="CastMap")


@pytest.mark.parametrize("ends", [[0, 3000, 2], [0, -9, 2], [-1, 1, 2], [0, 2, 1], [0, 1, 3]])
@pytest.mark.parametrize("words", [False, True], ids=["plain", "dictionary"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_text_with_broken_offsets_is_an_error(ends: list[int], words: bool, kind: Any) -> None:
    """An IPC stream may bring them; pyarrow alone ends the process, or shows other memory."""
    owned = np.array([0, 1, 2], np.int32 if kind == pa.string() else np.int64)
    text = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(owned), pa.py_buffer(b"ab")])
    if words:
        text = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), text)
    numbers = pa.array([1, 2])
    for names in ([text, numbers], [numbers, text]):
        owned[:] = [0, 1, 2]
        column = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), *names)
        assert len(read_column(column).values) == 2
        owned[:] = ends
        for chunks in (column, pa.chunked_array([column] * 9)):
            with pytest.raises(ValueError, match=r"^CastMap: the Arrow column is corrupt: "):
                read_maps(chunks, operator="CastMap")


@pytest.mark.parametrize("words", [["a"], ["a", "b", "c"]])
@pytest.mark.parametrize("kind", [*TEXT, "dictionary"])
@pytest.mark.parametrize("place", ["key", "value"])
def test_text_that_is_no_utf8_is_an_error(place: str, kind: Any, words: list[str]) -> None:
    """Whether it would be looked up by pyarrow or not, and an unknown key or not."""
    text = pa.array([b"\xc3\xa9", b"a\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, text.buffers())
    good = pa.array(["b", "a"])
    if kind == "dictionary":
        text = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), text)
    elif kind != pa.string():
        text = (
            text.view(pa.binary())
            .cast(pa.binary_view() if kind == pa.string_view() else pa.large_binary())
            .view(kind)
        )
    keys, values = (text, good) if place == "key" else (good, text)
    column = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), keys, values)
    operator = DictVectorizer(string_vocabulary=words, handle_unknown="ignore")
    for call in (MapBatch.from_arrow, operator, DictVectorizer.from_maps):
        with pytest.raises(ValueError, match=r"^\w+: the Arrow column is corrupt: "):
            call(column)
    if kind != "dictionary":  # a dictionary is checked whole
        assert len(MapBatch.from_arrow(column[:1])) == 1


def test_views_beyond_their_buffers_are_an_error() -> None:
    text = pa.array(["x" * 20], pa.string_view())
    column = pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), text, pa.array([1]))
    assert len(read_column(column).values) == 1
    # the first number of a view is the length of its text
    ctypes.c_int32.from_address(text.buffers()[1].address).value = 10**9
    with pytest.raises(ValueError, match="MapBatch: the Arrow column is corrupt: "):
        read_column(column)
    starts = np.array([0], np.int32)
    entries = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["key", "value"])
    make = pa.Array.from_buffers
    lists = pa.list_view(entries.type)
    sizes = pa.py_buffer(np.array([1], np.int32))
    column = make(lists, 1, [None, pa.py_buffer(starts), sizes], children=[entries])
    assert len(read_column(column).values) == 1
    starts[0] = 100
    with pytest.raises(ValueError, match="MapBatch: the Arrow column is corrupt: "):
        read_column(column)


def test_many_small_chunks_read_as_one() -> None:
    rows: list[Map] = [[(i, float(i))] * (i % 3) if i % 7 else None for i in range(40)]
    parts = [column_of([row], junk=MUCH_JUNK) for row in rows]
    read = read_column(pa.chunked_array(parts), null_map="empty")
    assert maps_of(read) == [row or [] for row in rows]
    assert nulls_of(read) == [row is None for row in rows]


def test_small_chunks_that_pyarrow_cannot_join(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(_: object) -> None:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    parts = [column_of([[(i, float(i))]]) for i in range(10)]
    monkeypatch.setattr(pa, "concat_arrays", cannot)
    assert maps_of(read_column(pa.chunked_array(parts))) == [[(i, float(i))] for i in range(10)]


# -- any column ---------------------------------------------------------------------------------

key_kinds: dict[str, Any] = {
    "int64": st.integers(-(2**63), INT64_MAX),
    "int32": st.integers(-5, 5),
    "uint8": st.integers(0, 5),
    "string": st.sampled_from(["", "a", "b", "é", "a" * 20]),
    "large_string": st.text(st.characters(codec="utf-8"), max_size=3),
    "string_view": st.text(st.characters(codec="utf-8"), max_size=15),
    "words": st.sampled_from(["", "a", "b", "é", "a" * 20]),
}
value_kinds: dict[str, Any] = {
    "int64": st.integers(-(2**63), INT64_MAX),
    "uint16": st.integers(0, 2**16 - 1),
    "bool_": st.integers(0, 1),
    "float32": st.floats(width=32),
    "float64": st.floats(),
    "string": st.text(st.characters(codec="utf-8"), max_size=3),
    "words": st.sampled_from(["", "x", "y"]),
}


def arrow_type(name: str) -> Any:
    return pa.dictionary("int8", pa.string()) if name == "words" else getattr(pa, name)()


FILLS: dict[str, Any] = {"string": "?", "words": "?", "float32": 0.5, "float64": 0.5}


class Drawn(NamedTuple):
    column: Any
    maps: list[Map]
    value_kind: str


@st.composite
def columns(draw: st.DrawFn, unique: bool = False) -> Drawn:
    key_kind = draw(st.sampled_from(sorted(key_kinds)))
    value_kind = draw(st.sampled_from(sorted(value_kinds)))
    layout = draw(st.sampled_from(LAYOUTS))
    values = value_kinds[value_kind]
    entry = st.tuples(key_kinds[key_kind], draw(st.sampled_from([values, st.none() | values])))
    one_map = st.lists(entry, max_size=4, unique_by=(lambda entry: entry[0]) if unique else None)
    maps = st.lists(draw(st.sampled_from([one_map, st.none() | one_map])), max_size=4)
    few = st.integers(0, 2)
    junk = st.just(NO_JUNK) | st.builds(Junk, few, few, few, few, few)
    whole: list[Map] = []
    chunks = []
    for _ in range(draw(st.sampled_from([1, 1, 2, 3, 9]))):
        part = draw(maps)
        array = column_of(part, arrow_type(key_kind), arrow_type(value_kind), layout, draw(junk))
        a = draw(st.integers(0, len(part)))
        b = draw(st.integers(a, len(part)))
        whole += part[a:b]
        chunks.append(array.slice(a, b - a))
    column = chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks)
    return Drawn(column, whole, value_kind)


def same(read: list[list[Entry]], expected: list[list[Entry]]) -> bool:
    """Equal, NaN equal to NaN, -0.0 not to 0.0, and no int equal to a float."""
    return [[(k, repr(v)) for k, v in row] for row in read] == [
        [(k, repr(v)) for k, v in row] for row in expected
    ]


@given(columns(), st.sampled_from(["error", "empty"]), st.sampled_from(["error", "skip", "fill"]))
def test_any_column_is_read_or_its_first_bad_map_is_told(
    drawn: Drawn, null_map: str, null_value: str
) -> None:
    fill = FILLS.get(drawn.value_kind, 1)
    options = {"null_map": null_map, "null_value": fill if null_value == "fill" else null_value}
    bad = next(
        (
            number
            for number, row in enumerate(drawn.maps)
            if (row is None and null_map == "error")
            or (null_value == "error" and any(value is None for _, value in row or []))
        ),
        None,
    )
    if bad is not None:
        with pytest.raises(ValueError, match=rf"^MapBatch: map {bad}( is null|: the value of key)"):
            read_column(drawn.column, **options)
    expected = [
        [
            (key, fill if value is None else value)
            for key, value in row or []
            if value is not None or null_value == "fill"
        ]
        for row in drawn.maps[:bad]
    ]
    parts, stop = read_maps(drawn.column, **options)
    assert (None if stop is None else stop.number) == bad
    assert same(maps_of(parts), expected)
    assert nulls_of(parts) == [row is None for row in drawn.maps[:bad]]
    assert (parts.null_maps is None) == all(row is not None for row in drawn.maps[:bad])


# -- what is refused ----------------------------------------------------------------------------


def test_the_first_null_map_is_named_with_the_remedy() -> None:
    column = pa.chunked_array([column_of([[(1, 5.0)]]), column_of([[], None, None])])
    with pytest.raises(ValueError, match=r'^MapBatch: map 2 is null; .*null_map="empty"'):
        read_column(column)


def test_the_first_null_value_is_named_with_the_remedy() -> None:
    column = column_of([[("a", 1.0)], [("b", 2.0), ("c", None)], None], pa.string())
    with pytest.raises(ValueError, match=r"^MapBatch: map 1: .* key 'c' is null; .*\"skip\""):
        read_column(column)


@pytest.mark.parametrize("layout", ["list", "large_list", "list_view"])
def test_null_keys_and_null_entries_are_errors(layout: str) -> None:
    column = column_of([[(1, 5.0)], [(2, 6.0), (None, 7.0)]], layout=layout)
    for options in ({}, {"null_value": "skip"}, {"null_value": 1}):
        with pytest.raises(ValueError, match=r"^MapBatch: map 1: a key is null$"):
            read_column(column, **options)
    entry = pa.struct([("k", pa.int64()), ("v", pa.float64())])
    rows = [[{"k": 1, "v": 5.0}], None, [{"k": 1, "v": 5.0}, None]]
    column = pa.array(rows, getattr(pa, "list_" if layout == "list" else layout)(entry))
    for options in ({}, {"null_value": "skip"}, {"null_value": 1}):
        with pytest.raises(ValueError, match=r"^MapBatch: map 2: an entry is null$"):
            read_column(column, null_map="empty", **options)


def test_unsigned_numbers_above_int64_are_named() -> None:
    big = INT64_MAX + 1
    column = column_of([[(1, 2)], [(3, big)]], pa.uint64(), pa.uint64())
    refused = rf"^MapBatch: map 1: key 3: value {big} does not fit in int64"
    with pytest.raises(OverflowError, match=refused):
        read_column(column)
    column = column_of([[(1, 2)], [(3, 4), (big, 5)]], pa.uint64(), pa.uint64())
    refused = rf"^MapBatch: map 1: key {big} does not fit in int64; larger keys must be text$"
    with pytest.raises(OverflowError, match=refused):
        read_column(column)
    column = column_of([[(1, 2)], [(big, None)]], pa.uint64(), pa.uint64())
    assert maps_of(read_column(column, null_value="skip")) == [[(1, 2)], []]
    with pytest.raises(OverflowError, match=f"map 1: key {big} does not fit in int64"):
        read_column(column, null_value=0)


@pytest.mark.parametrize("value_type", [VALUE, pa.uint64()])
def test_large_keys_are_left_out_where_asked(value_type: Any) -> None:
    big = INT64_MAX + 1
    maps: list[Map] = [[(1, 2), (big, 3)], [], [(big + 1, 4)], [(5, 6), (big, None), (7, 8)]]
    column = column_of(maps, pa.uint64(), value_type)
    parts, bad = read_maps(column, skip_large=True)
    assert bad is None
    assert maps_of(parts) == [[(1, 2)], [], [], [(5, 6), (7, 8)]]
    entry = pa.struct([("k", pa.uint64()), ("v", pa.float64())])
    column = pa.array([[{"k": big, "v": 1.0}], [{"k": None, "v": 1.0}]], pa.list_(entry))
    with pytest.raises(ValueError, match=r"^MapBatch: map 1: a key is null$"):
        raise read_maps(column, skip_large=True)[1].error


def test_large_keys_are_unknown_keys() -> None:
    big = INT64_MAX + 1
    column = column_of([[(big, 2.0), (1, 3.0)], [(big, 4.0)]], pa.uint64())
    columns = [column, pa.chunked_array([column])]
    if importlib.util.find_spec("polars"):
        columns.append(importlib.import_module("polars").from_arrow(column))
    ignore = DictVectorizer(int64_vocabulary=[1], handle_unknown="ignore")
    for each in columns:
        assert ignore(each).tolist() == ignore.csr(each).toarray().tolist() == [[3.0], [0.0]]
        for call in (DictVectorizer(int64_vocabulary=[1]), DictVectorizer.from_maps):
            with pytest.raises(
                OverflowError, match=rf"map 0: key {big} does not fit in int64; .*text"
            ):
                call(each)


def test_the_first_bad_map_wins_whatever_is_wrong_with_it() -> None:
    big = INT64_MAX + 1
    null_value: Map = [(1, None)]
    overflow: Map = [(1, big)]
    cases = {
        "map 1 is null": [[], None, null_value, overflow],
        "map 1: the value of key 1 is null": [[], null_value, None, overflow],
        "map 1: key 1: value": [[], overflow, None, null_value],
    }
    for message, maps in cases.items():
        with pytest.raises((ValueError, OverflowError), match=f"^MapBatch: {message}"):
            read_column(column_of(maps, value_type=pa.uint64()))


def test_null_entries_under_a_null_map_are_not_judged() -> None:
    entry = pa.struct([("k", pa.int64()), ("v", pa.float64())])
    rows = [[None, {"k": 1, "v": 5.0}], [{"k": 2, "v": 6.0}], [{"k": 3, "v": 7.0}, None]]
    shown = pa.array(rows, pa.list_(entry))
    column = pa.Array.from_buffers(
        shown.type, 3, [bits([False, True, True]), shown.buffers()[1]], children=[shown.values]
    )
    assert maps_of(read_column(column.slice(0, 2), null_map="empty")) == [[], [(2, 6.0)]]
    with pytest.raises(ValueError, match=r"^MapBatch: map 2: an entry is null$"):
        read_column(column, null_map="empty")


def test_hidden_entries_are_not_judged() -> None:
    big = INT64_MAX + 1
    entries = [(big, big), (1, 2)]
    shown = column_of([entries, [(3, 4)]], pa.uint64(), pa.uint64())
    column = pa.Array.from_buffers(
        shown.type, 2, [bits([False, True]), shown.buffers()[1]], children=[shown.values]
    )
    assert maps_of(read_column(column, null_map="empty")) == [[], [(3, 4)]]


@pytest.mark.parametrize(
    ("key_type", "value_type", "message"),
    [
        (
            pa.float64(),
            VALUE,
            "keys must be .* not double; cast the column to keys of int64 or string$",
        ),
        (pa.binary(), VALUE, "keys must be integers or text, not binary"),
        (pa.timestamp("s"), VALUE, r"keys must be integers or text, not timestamp"),
        (pa.decimal128(5), VALUE, "keys must be integers or text, not decimal128"),
        (
            KEY,
            pa.date32(),
            r"values must be .* date32.*; cast the column to values of double, int64 or string$",
        ),
        (KEY, pa.duration("s"), "values must be numbers or text, not duration"),
        (KEY, pa.binary(), "values must be numbers or text, not binary"),
        (KEY, pa.null(), "values must be numbers or text, not null"),
        (KEY, pa.list_(VALUE), "values must be numbers or text, not list"),
        (KEY, pa.dictionary("int8", pa.binary()), "values must be numbers or text, not dictionary"),
    ],
)
def test_other_types_of_keys_and_values(key_type: Any, value_type: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^MapBatch: {message}"):
        read_column(pa.chunked_array([], pa.map_(key_type, value_type)))


STRANGE: list[Any] = [
    pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([7])),
    pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"])),
    pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 2, pa.binary(16))),
    pa.array([1, 2], pa.time32("s")),
    pa.array([b"a", b"b"], pa.binary_view()),
    pa.array([[1], [2]]),
    pa.array([{"x": 1}, {"x": 2}]),
]


@pytest.mark.parametrize("strange", STRANGE, ids=range(len(STRANGE)))
@pytest.mark.parametrize("place", ["key", "value", "field"])
def test_no_type_ends_in_an_error_of_pyarrow(strange: Any, place: str) -> None:
    if place == "field":
        column = pa.StructArray.from_arrays([strange], ["a"])
    else:
        good = pa.array([1, 2])
        children = [strange, good] if place == "key" else [good, strange]
        column = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), *children)
    for each in (column, pa.chunked_array([column] * 9)):
        with pytest.raises(TypeError, match=r"^CastMap: (key|value)s? .*must be .* cast "):
            read_maps(each, operator="CastMap")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2]),
        pa.array([[1]]),
        pa.nulls(2),
        pa.array([[{"k": 1}]]),
        pa.array([[{"k": 1, "v": 2, "w": 3}]]),
    ],
)
def test_columns_that_hold_no_maps(column: Any) -> None:
    with pytest.raises(TypeError, match=r'does not hold maps .* table\["name"\]$'):
        read_column(column)


def test_a_table_names_its_columns() -> None:
    array = column_of([[(1, 5.0)]])
    for table in (pa.table({"m": array}), pa.record_batch({"m": array, "n": array})):
        with pytest.raises(TypeError, match=r"is a table.* table\['m'\] \(columns: 'm'.*to_pylist"):
            read_column(table)
    stranger = SimpleNamespace(columns=["m"], __arrow_c_stream__=None)
    with pytest.raises(TypeError, match=r"\(columns: 'm'\)$"):
        read_column(stranger)
    wide = pa.table({f"c{i}": array for i in range(9)})
    with pytest.raises(TypeError, match=r"'c4', \.\.\.\)"):
        read_column(wide)


@pytest.mark.parametrize("kind", ["map", "list", "struct"])
def test_a_table_names_its_first_column_of_maps(kind: str) -> None:
    column = column_of([[(1, 5.0)]], layout="map" if kind == "map" else "list")
    if kind == "struct":
        column = pa.array([{"a": 1}])
    table = pa.table({"stamp": pa.array([1], pa.timestamp("s")), "m": column, "n": column})
    named = r"table\['m'\] \(columns: 'stamp', 'm', 'n'\)"
    frames: list[Any] = [table, table.to_batches()[0]]
    for library in ("polars", "pandas"):
        if importlib.util.find_spec(library):
            module = importlib.import_module(library)
            mapper = getattr(module, "ArrowDtype", None)
            frames.append(
                module.from_arrow(table)
                if library == "polars"
                else table.to_pandas(types_mapper=mapper)
            )
    for frame in frames:
        with pytest.raises(TypeError, match=named):
            read_column(frame)


def test_a_table_with_two_columns_of_one_name_tells_their_number() -> None:
    maps = column_of([[(1, 5.0)]])
    table = pa.Table.from_arrays([pa.array([1]), maps, maps], ["i", "m", "m"])
    with pytest.raises(TypeError, match=r"pick the column, e\.g\. table\.column\(1\) "):
        read_column(table)


def test_a_lazy_frame_is_to_be_collected(recwarn: pytest.WarningsRecorder) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.LazyFrame({"m": [1]})
    operator = DictVectorizer(int64_vocabulary=[1])
    for call in (operator, operator.csr, MapBatch.from_arrow, MapBatch.from_dicts):
        with pytest.raises(TypeError, match=r"LazyFrame.*\.collect\(\)"):
            call(frame)
    assert not recwarn.list


def test_integers_that_arrow_does_not_have_are_a_type_error() -> None:
    polars = pytest.importorskip("polars")
    if not hasattr(polars, "Int128"):
        pytest.skip("a polars without 128-bit integers")
    entry = polars.Struct({"k": polars.Int64, "v": polars.Int128})
    column = polars.Series([[{"k": 1, "v": 2}]], dtype=polars.List(entry))
    for each in (column, column.explode()):
        with pytest.raises(TypeError, match=r"^MapBatch: pyarrow .*Int128.* to Int64 or Decimal"):
            read_column(each)


def test_what_is_no_arrow_column() -> None:
    for obj in ([{1: 2.0}], {1: 2.0}, np.zeros(3), None, "text"):
        assert not is_arrow(obj)
        with pytest.raises(TypeError, match="is not an Arrow column of maps"):
            read_column(obj)


def test_errors_name_the_operator_that_was_called() -> None:
    operator = DictVectorizer(int64_vocabulary=[1])
    codes = pa.DictionaryArray.from_arrays(pa.array([5]), pa.array(["a"]), safe=False)
    ends = pa.array([0, 1], pa.int32())
    owned = np.array([0, 1], np.int32)
    falling = pa.Array.from_buffers(
        pa.map_(KEY, VALUE),
        1,
        [None, pa.py_buffer(owned)],
        children=[column_of([[(1, 5.0)]]).values],
    )
    owned[:] = [1, 0]
    for column, message in [
        (pa.array([1, 2]), "a column of int64 does not hold maps"),
        (pa.table({"m": [1]}), "Table is a table"),
        (pa.array([], pa.map_(pa.float64(), VALUE)), "keys must be"),
        (pa.array([], pa.map_(KEY, pa.binary())), "values must be"),
        (pa.MapArray.from_arrays(ends, codes, pa.array([1])), "the Arrow column points outside"),
        (pa.MapArray.from_arrays(ends, pa.array([1]), codes), "the Arrow column points outside"),
        (falling, "the offsets of the Arrow column"),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"^DictVectorizer: {message}"):
            operator(column)


def test_options_are_checked_before_anything_is_read() -> None:
    numbers, texts = column_of([[(1, 5.0)]]), column_of([[(1, "x")]], value_type=pa.string())
    whole = column_of([[(1, 5)]], value_type=pa.int8())
    single = column_of([[(1, 5.0)]], value_type=pa.float32())
    wrong: list[Any] = [None, "x", np.array(["error", "x"])]
    for null_map in wrong:
        with pytest.raises(
            ValueError, match=r'^MapBatch: null_map must be "error" or "empty", not'
        ):
            MapBatch.from_arrow(numbers, null_map=null_map)
    for column, null_value in (
        (numbers, None),
        (numbers, "0"),
        (numbers, 1j),
        (numbers, [0]),
        (texts, 0),
        (texts, None),
    ):
        with pytest.raises(TypeError, match='null_value must be "error", "skip" or fit values'):
            read_column(column, null_value=null_value)
    for column, null_value in (
        (whole, 0.5),
        (whole, math.nan),
        (whole, math.inf),
        (whole, 2**63),
        (single, 0.1),
        (single, 1e300),
        (single, 2**24 + 1),
        (numbers, 2**53 + 1),
        (numbers, 10**400),
    ):
        with pytest.raises(ValueError, match=r"has no exact (int64|float32|float64) value"):
            read_column(column, null_value=null_value)


@pytest.mark.parametrize(
    ("value_type", "fills"),
    [
        (pa.int8(), [0, -1, True, 2.0, np.float32(3), INT64_MAX, np.int8(4)]),
        (pa.float32(), [0, 0.5, -0.0, math.nan, math.inf, 2**24, np.float64(1.5), False]),
        (pa.float64(), [0, 0.1, math.nan, 2**60, np.float32(0.1)]),
    ],
)
def test_fills_are_exact(value_type: Any, fills: list[Any]) -> None:
    column = column_of([[(1, None), (2, 3)]], value_type=value_type)
    for fill in fills:
        value = read_column(column, null_value=fill).values[0].item()
        assert repr(value) == repr(type(value)(fill))


# -- decimals -----------------------------------------------------------------------------------


def decimals(maps: list[Map], kind: Any) -> Any:
    return pa.array(
        [None if m is None else [(k, v if v is None else Decimal(v)) for k, v in m] for m in maps],
        pa.map_(pa.int64(), kind),
    )


@pytest.mark.parametrize("make", [pa.decimal128, pa.decimal256])
def test_exact_decimals_are_numbers(make: Any) -> None:
    parts = read_column(decimals([[(1, "5"), (2, "-7")], [(3, f"{2**63 - 1}")]], make(30, 0)))
    assert parts.values.dtype == np.int64
    assert parts.values.tolist() == [5, -7, 2**63 - 1]
    column = decimals(
        [[(1, "0.50"), (2, None)], [(3, "-1024.75"), (4, f"{2**53 + 2}")]], make(30, 2)
    )
    parts = read_column(column, null_value="skip")
    assert parts.values.dtype == np.float64
    assert parts.values.tolist() == [0.5, -1024.75, 2.0**53 + 2]
    assert read_column(column, null_value=1).values.tolist()[1] == 1.0


@pytest.mark.parametrize(
    ("text", "scale", "kind"),
    [
        ("0.10", 2, "float64"),
        (f"{2**53 + 1}", 2, "float64"),
        (f"{2**63}", 0, "int64"),
        (f"{-(2**63) - 1}", 0, "int64"),
    ],
)
def test_other_decimals_are_named(text: str, scale: int, kind: str) -> None:
    column = decimals([[(1, "5")], [(1, "7"), (8, text)], [(1, text)]], pa.decimal128(38, scale))
    refused = (
        rf"^CastMap: map 1: key 8: value Decimal\('{text}.*'\) has no exact {kind}; cast .* double"
    )
    for each in (column, pa.chunked_array([column[:1], column[1:]])):
        parts, bad = read_maps(each, operator="CastMap")
        assert bad is not None
        assert bad.number == 1
        assert maps_of(parts) == [[(1, 5)]]
        with pytest.raises(OverflowError, match=refused):
            raise bad.error


# -- structs ------------------------------------------------------------------------------------


def test_a_struct_is_a_map_from_field_name_to_value() -> None:
    rows = [{"a": 1, "b": None}, {"a": None, "b": 3}, {"a": None, "b": None}]
    column = pa.array(rows)
    operator = DictVectorizer(string_vocabulary=["a", "b"])
    for each in (column, pa.chunked_array([column[:1], column[1:]])):
        assert maps_of(read_column(each)) == [[("a", 1)], [("b", 3)], []]
        assert operator(each).tolist() == [[1, 0], [0, 3], [0, 0]]
        assert operator.csr(each).toarray().tolist() == [[1, 0], [0, 3], [0, 0]]
        assert DictVectorizer.from_maps(each).vocabulary == ("a", "b")
    with pytest.raises(UnknownKeyError, match="map 1: key 'b'"):
        DictVectorizer(string_vocabulary=["a"])(column)


def test_structs_of_polars_are_maps() -> None:
    polars = pytest.importorskip("polars")
    operator = DictVectorizer(string_vocabulary=["a", "b"])
    series = polars.Series([{"a": 1, "b": None}, {"a": None, "b": 3}])
    assert operator(series).tolist() == [[1, 0], [0, 3]]
    words = polars.Series([{"a": "x"}, {"a": "y"}], dtype=polars.Struct({"a": polars.Categorical}))
    assert operator(words).tolist() == [["x", ""], ["y", ""]]


def test_null_structs_are_null_maps() -> None:
    column = pa.array([{"a": 1}, None, {"a": None}])
    parts = read_column(column, null_map="empty")
    assert maps_of(parts) == [[("a", 1)], [], []]
    assert nulls_of(parts) == [False, True, False]
    with pytest.raises(ValueError, match=r"^MapBatch: map 1 is null; .*null_map=\"empty\""):
        read_column(column)
    hidden = pa.StructArray.from_arrays(
        [pa.array([1, 2], pa.int64())], ["a"], mask=pa.array([False, True])
    )
    assert maps_of(read_column(hidden, null_map="empty")) == [[("a", 1)], []]


def test_struct_slices_heed_their_start() -> None:
    column = pa.array([{"a": i, "b": f"{i}"} for i in range(4)])
    numbers = pa.StructArray.from_arrays([column.field(0)[1:]], ["a"]).slice(1)
    assert maps_of(read_column(numbers)) == [[("a", 2)], [("a", 3)]]
    texts = pa.array([{"b": f"{i}", "c": None if i % 2 else "z"} for i in range(4)]).slice(1)
    assert maps_of(read_column(texts)) == [
        [("b", "1")],
        [("b", "2"), ("c", "z")],
        [("b", "3")],
    ]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["int8", "uint64"], "int64"),
        (["int8", "float32"], "float64"),
        (["float32", "float16"], "float32"),
        (["float32", "float64"], "float64"),
        (["bool_", "int16"], "int64"),
    ],
)
def test_fields_of_different_numbers_promote_as_from_dicts(types: list[str], expected: str) -> None:
    fields = [pa.array([1, None, 0]).cast(getattr(pa, types[0])())]
    fields.append(pa.array([None, 1, 0]).cast(getattr(pa, types[1])()))
    column = pa.StructArray.from_arrays(fields, ["a", "b"])
    parts = read_column(column)
    assert parts.values.dtype == expected
    assert maps_of(parts) == [[("a", 1)], [("b", 1)], [("a", 0), ("b", 0)]]


def test_fields_of_nulls_only_count_for_nothing() -> None:
    fields = [pa.array([1, 2]), pa.nulls(2), pa.nulls(2, pa.string()), pa.nulls(2, pa.binary())]
    column = pa.StructArray.from_arrays(fields, ["a", "b", "c", "d"])
    parts = read_column(column)
    assert parts.values.dtype == np.int64
    assert maps_of(parts) == [[("a", 1)], [("a", 2)]]
    parts = read_column(column[:0])
    assert maps_of(parts) == []
    assert parts.values.dtype == np.float64
    assert maps_of(read_column(pa.array([{}, {}], pa.struct([])))) == [[], []]


def test_integers_beside_floats_are_exact_or_named() -> None:
    rows: list[dict[str, Any]] = [{"id": 7, "x": 0.5}, {"id": 2**53 + 1}, {"id": 1, "x": 1.0}]
    column = pa.array(rows)
    for each in (column, pa.chunked_array([column[:1], column[1:]])):
        parts, bad = read_maps(each, operator="CastMap")
        assert maps_of(parts) == [[("id", 7.0), ("x", 0.5)]]
        assert bad is not None
        assert bad.number == 1
        with pytest.raises(
            OverflowError, match=r"^CastMap: map 1: key 'id': value .* no exact float64"
        ):
            raise bad.error
    with pytest.raises(OverflowError) as of_dicts:
        MapBatch.from_dicts(rows)
    with pytest.raises(OverflowError) as of_structs:
        MapBatch.from_arrow(column)
    assert str(of_structs.value) == str(of_dicts.value)


def test_a_null_map_before_a_bad_number_wins() -> None:
    column = pa.array([{"a": 1.5, "b": 0}, None, {"a": None, "b": 2**53 + 1}])
    with pytest.raises(ValueError, match=r"^MapBatch: map 1 is null"):
        read_column(column)
    with pytest.raises(OverflowError, match=r"^MapBatch: map 2: key 'b'"):
        read_column(column, null_map="empty")


@pytest.mark.parametrize("beside", [pa.int64(), pa.float64()])
def test_numbers_of_a_struct_beyond_int64_are_named(beside: Any) -> None:
    big = INT64_MAX + 1
    fields = [pa.array([1, 2], beside), pa.array([3, big], pa.uint64())]
    column = pa.StructArray.from_arrays(fields, ["a", "b"])
    with pytest.raises(
        OverflowError, match=rf"^MapBatch: map 1: key 'b': value {big} does not fit"
    ):
        read_column(column)


def test_the_first_bad_row_of_a_struct_wins_whatever_its_field() -> None:
    big = INT64_MAX + 1
    fields = [pa.array([1, 1, big], pa.uint64()), pa.array([1, big, 1], pa.uint64())]
    column = pa.StructArray.from_arrays(fields, ["a", "b"])
    with pytest.raises(OverflowError, match=r"^MapBatch: map 1: key 'b'"):
        read_column(column)
    with pytest.raises(OverflowError, match=r"^MapBatch: map 0: key 'a'"):
        read_column(pa.StructArray.from_arrays([fields[1][1:], fields[1][1:]], ["a", "b"]))


def test_decimals_in_structs_are_exact() -> None:
    kind = pa.decimal128(10, 2)
    column = pa.array(
        [{"a": 1, "b": Decimal("0.50")}, {"a": 2, "b": Decimal("0.10")}],
        pa.struct([("a", pa.int32()), ("b", kind)]),
    )
    assert maps_of(read_column(column[:1])) == [[("a", 1.0), ("b", 0.5)]]
    with pytest.raises(OverflowError, match=r"^MapBatch: map 1: key 'b': value Decimal\('0.10'\)"):
        read_column(column)


@pytest.mark.parametrize("words", [pa.string(), pa.string_view(), pa.dictionary("int8", "utf8")])
def test_text_in_structs_is_read(words: Any) -> None:
    fields = [pa.array(["x", None, "é"]).cast(words), pa.array([None, "y", "zz"])]
    column = pa.StructArray.from_arrays(fields, ["a", "b"])
    parts = read_column(column)
    assert maps_of(parts) == [[("a", "x")], [("b", "y")], [("a", "é"), ("b", "zz")]]
    mixed = pa.StructArray.from_arrays([fields[0], pa.array([1, None, None])], ["a", "b"])
    with pytest.raises(
        TypeError, match=r"^MapBatch: key 'a' .* text, key 'b' numbers; a batch holds"
    ):
        read_column(mixed)


def test_structs_that_hold_other_things() -> None:
    for field, shown in ((pa.array([[1]]), "list"), (pa.array([{"x": 1}]), "struct")):
        column = pa.StructArray.from_arrays([field], ["a"])
        with pytest.raises(TypeError, match=f"^MapBatch: key 'a' of the struct .* not {shown}"):
            read_column(column)
    with pytest.raises(ValueError, match=r'null_value must be "error" or "skip" for .* structs'):
        read_column(pa.array([{"a": None}]), null_value=0)


def test_corrupt_structs_are_value_errors() -> None:
    codes = pa.DictionaryArray.from_arrays(
        pa.array([0, 9], pa.uint32()), pa.array(["a"]), safe=False
    )
    ends = np.array([0, 1, 2], np.int32)
    text = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(ends), pa.py_buffer(b"ab")])
    broken = pa.array([b"a", b"\xff"], pa.binary()).buffers()
    for field in (codes, text, pa.Array.from_buffers(pa.string(), 2, broken)):
        ends[2] = 2
        column = pa.StructArray.from_arrays([field], ["a"])
        ends[2] = 10**9
        with pytest.raises(ValueError, match=r"^MapBatch: the Arrow column (is corrupt|points)"):
            read_column(column)


@pytest.mark.parametrize("ends", [[0, 3000, 2], [0, -9, 2], [0, 2, 1], [0, 1, 3]])
def test_text_with_broken_offsets_in_a_struct_is_a_value_error(ends: list[int]) -> None:
    owned = np.array([0, 1, 2], np.int32)
    text = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(owned), pa.py_buffer(b"ab")])
    column = pa.StructArray.from_arrays([text], ["a"])
    assert maps_of(read_column(column)) == [[("a", "a")], [("a", "b")]]
    owned[:] = ends
    with pytest.raises(ValueError, match=r"^MapBatch: the Arrow column is corrupt: "):
        read_column(column)


def test_a_field_shorter_than_its_struct_is_a_value_error() -> None:
    """As an exporter may hand it over: pyarrow itself makes none."""
    column = pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["a"])
    schema, array = column.__arrow_c_array__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # length, null_count, offset, n_buffers, n_children, buffers, children
    whole = (ctypes.c_int64 * 7).from_address(pointer_of(array, b"arrow_array"))
    child = ctypes.c_int64.from_address(ctypes.c_int64.from_address(whole[6]).value)
    assert (whole[0], child.value) == (3, 3)
    child.value = 1
    given = SimpleNamespace(__arrow_c_array__=lambda requested_schema=None: (schema, array))
    with pytest.raises(ValueError, match=r"^MapBatch: the Arrow column is corrupt: "):
        read_column(given)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("form", [list, tuple, iter])
def test_scalars_of_arrow_are_maps_in_every_form(name: str, form: Any) -> None:
    pytest.importorskip("scipy")
    operator = DictVectorizer(string_vocabulary=["a", "b"])
    structs = pa.array([{"a": 1, "b": None}, {"a": None, "b": 3}])
    pairs = pa.array([[("a", 1)], [("b", 3)]], pa.map_(pa.string(), pa.int64()))
    with way(name):
        for column in (structs, pairs):
            scalars = list(column)
            assert operator(form(scalars)).tolist() == [[1, 0], [0, 3]]
            assert operator.csr(form(scalars)).toarray().tolist() == [[1, 0], [0, 3]]
            assert MapBatch.from_dicts(form(scalars)).to_dicts() == [{"a": 1}, {"b": 3}]


@pytest.mark.parametrize("name", WAYS)
def test_scalars_of_arrow_are_records(name: str) -> None:
    pytest.importorskip("sklearn")
    from nbmapops.sklearn import DictVectorizer as Estimator

    column = pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "y"}])
    with way(name):
        for form in (list, iter):
            found = Estimator().fit_transform(form(list(column))).toarray()
            assert found.tolist() == [[1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("kind", [pa.map_(pa.string(), pa.float32()), "struct"])
def test_scalars_of_arrow_are_as_their_column(kind: Any) -> None:
    """float32 stays float32, a null is a missing map, and no field is lost."""
    maps: Any = [[("a", 0.1)], None]
    if kind == "struct":
        kind, maps = pa.struct([("a", pa.float32())]), [{"a": 0.1}, None]
    column, operator = pa.array(maps, kind), DictVectorizer(string_vocabulary=["a"])
    for name in WAYS:
        with way(name):
            for form in (list, iter):
                found = operator(form(list(column[:1])))
                assert found.dtype == np.float32
                assert found.tolist() == operator(column[:1]).tolist()
                with pytest.raises(TypeError, match=r"map 1 is .* a missing map"):
                    operator(form(list(column)))
                batch = MapBatch.from_dicts(form(list(column)), null_map="empty")
                assert len(batch) == 2
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(DuplicateKeyError, match="map 0: key 'a' is repeated"):
        operator([twice[0]])


def test_one_struct_is_one_map() -> None:
    column = pa.array([{"a": 1, "b": None}, {"a": None, "b": 3}, None])
    operator = DictVectorizer(string_vocabulary=["a", "b"])
    assert operator(column[0]).tolist() == [1, 0]
    assert operator.csr(column[1]).toarray().tolist() == [[0, 3]]
    assert operator(list(column)[:2]).tolist() == [[1, 0], [0, 3]]
    words = pa.dictionary("int8", pa.string_view())
    single = pa.StructArray.from_arrays([pa.array(["x"]).cast(words)], ["a"])[0]
    assert operator(single).tolist() == ["x", ""]
    with pytest.raises(ValueError, match="map 0 is null"):
        operator(column[2])
    with pytest.raises(TypeError, match="map 1 is "):
        operator([{"a": 1}, column[2]])


DICTIONARIES: list[Any] = [
    pa.array(["x", "y"]),
    pa.array(["x", None], pa.string_view()),
    pa.array([5, 6]),
    pa.array([0.5, 1.5], pa.float32()),
]


@pytest.mark.parametrize("words", DICTIONARIES, ids=range(len(DICTIONARIES)))
@pytest.mark.parametrize("layout", [pa.ListViewArray, pa.LargeListViewArray])
@pytest.mark.parametrize(("starts", "sizes"), [([0, 2, 2], [2, 0, 1]), ([0, 0, 1], [2, 2, 2])])
def test_list_views_with_a_null_row_and_dictionaries(
    words: Any, layout: Any, starts: list[int], sizes: list[int]
) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.uint32()), words)
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(["p", "q"]))
    entries = pa.StructArray.from_arrays([keys, values], ["k", "v"])
    kind = pa.int32() if layout is pa.ListViewArray else pa.int64()
    column = layout.from_arrays(
        pa.array(starts, kind), pa.array(sizes, kind), entries, mask=pa.array([False, True, False])
    )
    expected = [
        {entry["k"]: entry["v"] for entry in row or [] if entry["v"] is not None}
        for row in column.to_pylist()
    ]
    for each in (column, column[1:], pa.chunked_array([column, column])):
        batch = MapBatch.from_arrow(each, null_map="empty", null_value="skip")
        assert batch.to_dicts() == (expected * 2)[-len(batch) :]


def test_two_fields_of_one_name_are_a_repeated_key() -> None:
    column = pa.StructArray.from_arrays([pa.array([1, 1]), pa.array([None, 2])], ["a", "a"])
    operator = DictVectorizer(string_vocabulary=["a"])
    assert operator(column[:1]).tolist() == [[1]]
    with pytest.raises(DuplicateKeyError, match="map 1: key 'a' is repeated"):
        operator(column)


numbers_or_null = st.none() | st.integers(-(2**53), 2**53)


@given(
    st.lists(
        st.none() | st.fixed_dictionaries({"a": numbers_or_null, "b": st.none() | st.floats()})
    )
)
def test_any_structs_are_read_as_dicts_without_nulls(rows: list[Any]) -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.float64())])
    column = pa.array(rows, kind)
    cells = [[(key, (row or {}).get(key)) for key in "ab"] for row in rows]
    plain = [{key: value for key, value in row if value is not None} for row in cells]
    batch = MapBatch.from_arrow(column, null_map="empty")
    expected = MapBatch.from_dicts(plain, key_type="string")
    assert repr(batch.to_dicts()) == repr(expected.to_dicts())
    assert batch.values.dtype == expected.values.dtype


# -- text keys ----------------------------------------------------------------------------------


def vocabulary(*words: str) -> Vocabulary:
    return Vocabulary.from_words(words, "string", repeats=True)


def text_of(chunks: list[list[str]], kind: Any = None) -> Text:
    return Text(pa.chunked_array(chunks, type=kind or pa.string()))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("more", [0, 10])  # a vocabulary of more words than there are keys
def test_text_keys_are_looked_up(kind: Any, more: int) -> None:
    text = text_of([["b", "x"], [], ["a", "b", "", "a"]], kind)
    others = [str(number) for number in range(more)]
    for words in (["a", "b", "", "b"], ["a", "b", ""]):
        columns = text.columns(vocabulary(*words, *others))
        assert columns.dtype == np.int32
        assert columns.tolist() == [1, -1, 0, 1, 2, 0]
    assert text.columns(vocabulary()).tolist() == [-1] * 6
    assert text[1:3].columns(vocabulary("a")).tolist() == [-1, 0]


def test_out_shares_no_memory_with_positions_that_are_columns() -> None:
    positions = np.array([1, 0, 2, 0, 0, 0], np.int32)
    keys = pa.DictionaryArray.from_arrays(pa.array(positions), pa.array(["a", "b", "c"]))
    values = pa.array([1, 2, 3, 4, 5, 6], pa.float32())
    offsets = pa.array([0, 2, 4], pa.int32())
    column = pa.MapArray.from_arrays(offsets, keys[:4], values[:4])
    operator = DictVectorizer(string_vocabulary=["a", "b", "c"])
    want = operator(MapBatch.from_arrow(column)).tolist()
    assert want == [[2, 1, 0], [4, 0, 3]]
    with pytest.raises(ValueError, match="out must not share memory with the input"):
        operator(MapBatch.from_arrow(column), out=positions.view(np.float32).reshape(2, 3))
    assert operator(MapBatch.from_arrow(column)).tolist() == want


def test_few_text_keys_do_not_wait_for_a_large_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbmapops._reading.arrowdata._word_set", None)
    text = text_of([["b", "x"]])
    assert text.columns(vocabulary("a", "b", "c")).tolist() == [1, -1]


@pytest.mark.parametrize("words", [["\ud800", "b", "a\udfff", "é"], ["\ud800", "b"]])
def test_words_that_are_no_unicode_stand_for_nothing(words: list[str]) -> None:
    text = text_of([["a", "b"]])
    assert text.columns(vocabulary(*words)).tolist() == [-1, 1]


def test_text_keys_are_sliced_without_copy() -> None:
    text = text_of([["a", "b"], ["c", "d"]])
    part = text[1:3]
    assert len(part) == 2
    assert part.to_array().tolist() == ["b", "c"]
    assert part._data.chunk(1).buffers()[2].address == text._data.chunk(1).buffers()[2].address
    assert len(text[3:1]) == len(text[9:]) == 0
    assert text[3:1].to_array().tolist() == []
    with pytest.raises(ValueError, match="step 1"):
        text[::2]


def test_text_keys_are_encoded() -> None:
    text = text_of([["b", "a"], ["a", "c"]])
    codes, words = text.encode()
    assert codes.dtype == np.int64
    assert (codes.tolist(), words) == ([0, 1, 1, 2], ("b", "a", "c"))
    assert text.to_array().dtype == object


@given(
    st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=2)), max_size=3),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=2)),
)
def test_any_text_keys_have_their_columns(chunks: list[list[str]], words: list[str]) -> None:
    text, keys = text_of(chunks), [key for chunk in chunks for key in chunk]
    known = {word: len(words) - 1 - i for i, word in enumerate(reversed(words))}
    columns = text.columns(vocabulary(*words))
    assert columns.tolist() == [known.get(key, -1) for key in keys]
    codes, distinct = text.encode()
    assert [distinct[code] for code in codes] == keys
    assert distinct == tuple(dict.fromkeys(keys))


# -- one map ------------------------------------------------------------------------------------


def test_a_map_scalar_is_one_map() -> None:
    column = column_of([[(9, 9.0)], [(1, 5.0), (1, 6.0)], []], value_type=pa.float32())
    parts = read_column(column[1])
    assert maps_of(parts) == [[(1, 5.0), (1, 6.0)]]
    assert parts.values.dtype == np.float32
    assert maps_of(read_column(column[2])) == [[]]
    assert maps_of(read_column(pa.chunked_array([column])[0])) == [[(9, 9.0)]]
    for kind in (pa.string(), pa.string_view(), pa.dictionary("int8", pa.string())):
        scalar = column_of([[("a", 1), ("b", 2)]], kind, pa.int8(), junk=MUCH_JUNK)[0]
        assert maps_of(read_column(scalar)) == [[("a", 1), ("b", 2)]]


def test_null_map_scalars_are_refused_or_empty() -> None:
    column = column_of([None, [(1, None)]])
    with pytest.raises(ValueError, match=r"^MapBatch: map 0 is null"):
        read_column(column[0])
    with pytest.raises(ValueError, match=r"^MapBatch: map 0: the value of key 1 is null"):
        read_column(column[1])
    parts = read_column(column[0], null_map="empty")
    assert (maps_of(parts), nulls_of(parts)) == ([[]], [True])


# -- other libraries ----------------------------------------------------------------------------

ROWS: list[Map] = [[("a", 1.0)], [], None, [("b", 2.0), ("a", 3.0)]]


def check_rows(column: Any) -> None:
    assert is_arrow(column)
    parts = read_column(column, null_map="empty")
    assert maps_of(parts) == [row or [] for row in ROWS]
    assert nulls_of(parts) == [row is None for row in ROWS]


def test_columns_of_polars_are_read() -> None:
    polars = pytest.importorskip("polars")
    series = polars.Series(
        "m",
        [None if row is None else [{"k": k, "v": v} for k, v in row] for row in ROWS],
        polars.List(polars.Struct({"k": polars.String, "v": polars.Float64})),
    )
    check_rows(series)
    check_rows(polars.concat([series[:2], series[2:]], rechunk=False))
    if hasattr(polars, "Map"):  # polars 2; polars 1.20 cannot export a categorical in a struct
        categorical = polars.List(polars.Struct({"k": polars.Categorical, "v": polars.Float64}))
        check_rows(series.cast(categorical))
        series = polars.from_arrow(column_of(ROWS, pa.string()))
        assert isinstance(series.dtype, polars.Map)
        check_rows(series)
    for frame in (series.to_frame(), polars.DataFrame({"a": [1]})):
        with pytest.raises(TypeError, match=r"is a table.*to_dicts\(\) if every row"):
            read_column(frame)


def test_arrow_columns_of_pandas_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    array = pa.chunked_array([column_of(ROWS, pa.string())])
    check_rows(pandas.Series(pandas.arrays.ArrowExtensionArray(array), index=[7, 8, 9, 10]))
    for series in (pandas.Series([{"a": 1.0}]), pandas.Series([1]), pandas.Series(["a"])):
        assert not is_arrow(series)
    frame = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    with pytest.raises(TypeError, match=r'table\[\'a\'\].*to_dict\("records"\) if every row'):
        read_column(frame)


def test_columns_of_narwhals_are_read() -> None:
    narwhals = pytest.importorskip("narwhals")
    array = pa.chunked_array([column_of(ROWS, pa.string())])
    check_rows(narwhals.from_native(array, series_only=True))


def test_maps_of_duckdb_are_read() -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        relation = connection.sql(
            "select * from (values (1, map {'a': 1.0::double}), (2, map {}), (3, null), "
            "(4, map {'b': 2.0::double, 'a': 3.0::double})) as t(i, m) order by i"
        )
        check_rows(relation.select("m"))
        check_rows(relation.select("m"))
        integers = read_column(connection.sql("select map {1: 2, 3: 4} as m"))
        assert maps_of(integers) == [[(1, 2), (3, 4)]]
        with pytest.raises(TypeError, match=r"table\['m'\] \(columns: 'i', 'm'\)"):
            read_column(relation)
        with pytest.raises(TypeError, match="does not hold maps"):
            read_column(relation.select("i"))


def test_anything_with_the_capsule_methods() -> None:
    array = column_of(ROWS, pa.string())
    check_rows(SimpleNamespace(__arrow_c_array__=array.__arrow_c_array__))
    chunked = pa.chunked_array([array.slice(0, 1), array.slice(1)])
    check_rows(SimpleNamespace(__arrow_c_stream__=chunked.__arrow_c_stream__))


def test_old_pandas_series_export_through_their_dtype() -> None:
    array = column_of(ROWS, pa.string())

    class Old:
        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            raise NotImplementedError

        def __arrow_array__(self, type: object = None) -> Any:
            return pa.chunked_array([array])

    assert maps_of(read_column(Old(), null_map="empty")) == [row or [] for row in ROWS]


@pytest.mark.parametrize("read_dictionary", [False, True])
@pytest.mark.parametrize("store_schema", [True, False])
def test_maps_of_parquet_are_read(tmp_path: Any, store_schema: bool, read_dictionary: bool) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "maps.parquet"
    table = pa.table({"m": column_of(ROWS * 3, pa.string())})
    parquet.write_table(table, path, row_group_size=5, store_schema=store_schema)
    columns = ["m.key_value.key"] if read_dictionary else None
    column = parquet.read_table(path, read_dictionary=columns)["m"]
    parts = read_column(column, null_map="empty")
    assert maps_of(parts) == [row or [] for row in ROWS] * 3
    assert isinstance(parts.keys, Text)
    assert pa.types.is_dictionary(parts.keys._data.type) == read_dictionary


def test_parquet_as_spark_writes_it(tmp_path: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "part-00000.snappy.parquet"
    maps: list[Map] = [[(5, 1.5), (7, None)], None, []]
    schema = pa.schema(
        [("m", pa.map_(pa.field("key", pa.int64(), False), pa.field("value", pa.float64())))]
    )
    table = pa.table([column_of(maps)], schema=schema)
    parquet.write_table(
        table, path, store_schema=False, compression="snappy", use_compliant_nested_type=False
    )
    column = parquet.read_table(path)["m"]
    assert (column.type.key_type, column.type.item_type) == (pa.int64(), pa.float64())
    parts = read_column(column, null_map="empty", null_value="skip")
    assert maps_of(parts) == [[(5, 1.5)], [], []]
    assert nulls_of(parts) == [False, True, False]


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint32()])
def test_parquet_with_narrow_keys(tmp_path: Any, kind: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "maps.parquet"
    column = column_of([[(1, 2)], [(3, 4)]], kind, pa.int16())
    parquet.write_table(pa.table({"m": column}), path, store_schema=False)
    parts = read_column(parquet.read_table(path)["m"])
    assert maps_of(parts) == [[(1, 2)], [(3, 4)]]


# -- through the operators ------------------------------------------------------------------------


def dense_of(maps: list[Map], words: list[Any], fill: Any) -> list[list[Any]]:
    """The plain answer: a dict for each map, a look-up for each cell."""
    rows = [dict(row or []) for row in maps]
    return [[row.get(word, fill) for word in words] for row in rows]


def vectorizer_of(words: list[Any], **attributes: Any) -> DictVectorizer:
    if isinstance(words[0], str):
        return DictVectorizer(string_vocabulary=words, **attributes)
    return DictVectorizer(int64_vocabulary=words, **attributes)


def cells_of(matrix: Any) -> list[dict[int, Any]]:
    """Columns and values that a CSR matrix stores (toarray turns -0.0 into 0.0)."""
    cells = list(zip(matrix.indices.tolist(), matrix.data.tolist(), strict=True))
    return [dict(cells[a:b]) for a, b in pairwise(matrix.indptr.tolist())]


def check_vectorizer(column: Any, maps: list[Map], words: list[Any]) -> None:
    vectorizer = vectorizer_of(words)
    expected = dense_of(maps, words, 0)
    batch = MapBatch.from_arrow(column, null_map="empty")
    assert batch.to_dicts() == [dict(row or []) for row in maps]
    inputs = [batch] if None in maps else [batch, column]
    for source in inputs:
        assert vectorizer(source).tolist() == expected
        matrix = vectorizer.csr(source)
        assert matrix.toarray().tolist() == expected
        assert matrix.nnz == sum(len(row or []) for row in maps)
        assert matrix.has_canonical_format
    if None in maps:
        with pytest.raises(ValueError, match=f"map {maps.index(None)} is null"):
            vectorizer(column)
    assert nulls_of(batch) == [row is None for row in maps]  # type: ignore[arg-type]
    assert list(DictVectorizer.from_maps(batch).vocabulary) == sorted(words)


@given(columns(unique=True), st.booleans())
def test_any_column_gives_the_answer_of_plain_dicts(drawn: Drawn, ignore: bool) -> None:
    fill = FILLS.get(drawn.value_kind, 1)
    kept: list[Map] = [
        [(key, fill if value is None else value) for key, value in row or []] for row in drawn.maps
    ]
    words = sorted({key for row in kept for key, _ in row or []})
    if not words:
        return
    if ignore:
        words = words[::2]
    vectorizer = vectorizer_of(words, handle_unknown="ignore" if ignore else None)
    batch = MapBatch.from_arrow(drawn.column, null_map="empty", null_value=fill)
    text = drawn.value_kind in ("string", "words")
    expected = dense_of(kept, words, "" if text else vectorizer(batch).dtype.type(0).item())
    assert repr(vectorizer(batch).tolist()) == repr(expected)
    if not text:
        matrix = vectorizer.csr(batch)
        assert matrix.has_canonical_format
        assert repr(cells_of(matrix)) == repr(
            [
                {column: row[word] for column, word in enumerate(words) if word in row}
                for row in [dict(row or []) for row in kept]
            ]
        )


def test_all_arrow_producers_give_the_same_matrix() -> None:
    array = column_of(ROWS, pa.string())
    producers: list[Any] = [array, pa.chunked_array([array.slice(0, 2), array.slice(2)])]
    producers += [column_of(ROWS, kind, junk=MUCH_JUNK) for kind in TEXT]
    producers.append(column_of(ROWS, pa.dictionary("int8", pa.string()), layout="large_list"))
    for column in producers:
        check_vectorizer(column, ROWS, ["a", "b"])
        check_vectorizer(column[3:], ROWS[3:], ["b", "a"][::-1])


@pytest.mark.parametrize("library", ["polars", "pandas", "duckdb", "narwhals"])
def test_columns_of_other_libraries_go_straight_in(library: str) -> None:
    module = pytest.importorskip(library)
    maps: list[Map] = [[(7, 1.0)], [], [(9, 2.0), (7, 3.0)]]
    array = pa.chunked_array([column_of(maps)])
    if library == "polars":
        struct = module.List(module.Struct({"k": module.Int64, "v": module.Float64}))
        rows = [[{"k": k, "v": v} for k, v in row or []] for row in maps]
        check_vectorizer(module.Series("m", rows, struct), maps, [7, 9])
        if hasattr(module, "Map"):
            check_vectorizer(module.from_arrow(array), maps, [7, 9])
    elif library == "pandas":
        series = module.Series(module.arrays.ArrowExtensionArray(array))
        for column in (series, series.array):  # in pandas 2.2 neither exports Arrow data
            check_vectorizer(column, maps, [7, 9])
    elif library == "duckdb":
        table = pa.table({"m": array})
        with module.connect() as connection:
            # duckdb 1.2 exports a relation once
            one, two = (connection.from_arrow(table).select("m") for _ in range(2))
            vectorizer = DictVectorizer(int64_vocabulary=[7, 9])
            assert vectorizer(one).tolist() == dense_of(maps, [7, 9], 0)
            assert vectorizer.csr(two).toarray().tolist() == dense_of(maps, [7, 9], 0)
    else:
        check_vectorizer(module.from_native(array, series_only=True), maps, [7, 9])


def test_cast_map_takes_columns() -> None:
    column = column_of([[(4, 1.9), (0, -2.9)], [(2, 3.0), (3, 4.0)]], pa.int32())
    assert CastMap(cast_to="TO_INT64")(column).tolist() == [[-2, 1], [3, 4]]
    sparse = CastMap(map_form="SPARSE", max_map=5)
    assert sparse(column).tolist() == [
        [np.float32(-2.9), 0, 0, 0, np.float32(1.9)],
        [0, 0, 3, 4, 0],
    ]
    assert sparse.csr(column).toarray().tolist() == sparse(column).tolist()
    assert CastMap(cast_to="TO_STRING")(column_of([[(1, 5)]], value_type=pa.int8())).tolist() == [
        ["5"]
    ]


def test_one_arrow_map_gives_one_row() -> None:
    column = column_of([[("b", 1.5), ("a", 2.5)]], pa.string(), pa.float32())
    row = DictVectorizer(string_vocabulary=["a", "b"])(column[0])
    assert row.dtype == np.float32
    assert row.tolist() == [2.5, 1.5]
    with pytest.raises(DuplicateKeyError):
        DictVectorizer(int64_vocabulary=[1])(column_of([[(1, 5.0), (1, 6.0)]])[0])


@pytest.mark.parametrize("key_type", [pa.string(), pa.string_view(), pa.dictionary("int8", "utf8")])
def test_errors_name_the_map_and_key_of_a_column(key_type: Any) -> None:
    vectorizer = DictVectorizer(string_vocabulary=["a"])
    column = column_of([[("a", 1.0)], [("a", 2.0), ("q", 3.0)]], key_type, junk=MUCH_JUNK)
    for call in (vectorizer, vectorizer.csr):
        with pytest.raises(UnknownKeyError, match="map 1: key 'q' is not in string_vocabulary"):
            call(column)
    numbers, keys = vectorizer.unknown(MapBatch.from_arrow(column))
    assert (numbers.tolist(), list(keys)) == ([1], ["q"])
    column = column_of([[("a", 1.0)], [("a", 2.0), ("a", 3.0)]], key_type)
    for call in (vectorizer, vectorizer.csr):
        with pytest.raises(DuplicateKeyError, match="map 1: key 'a' is repeated"):
            call(column)
    assert MapBatch.from_arrow(column).sum_duplicates().to_dicts() == [{"a": 1.0}, {"a": 5.0}]


def test_words_that_a_slice_does_not_use_are_neither_refused_nor_learned() -> None:
    column = words_column([0, 1, 0], ["a", "zz"])
    batch = MapBatch.from_arrow(column)
    vectorizer = DictVectorizer(string_vocabulary=["a"])
    assert vectorizer(column.slice(2)).tolist() == vectorizer(batch[2:]).tolist() == [[0.0]]
    assert DictVectorizer.from_maps(batch[2:]).vocabulary == ("a",)


def test_a_repeated_word_of_a_dictionary_is_a_repeated_key() -> None:
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", "a"]))
    column = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), keys, pa.array([1.0, 2.0]))
    for call in (
        DictVectorizer(string_vocabulary=["a"]),
        DictVectorizer(string_vocabulary=["a"]).csr,
    ):
        with pytest.raises(DuplicateKeyError, match="map 0: key 'a' is repeated"):
            call(column)


@pytest.mark.parametrize("chunks", [[(7, 10)], [(7, 8), (8, 8), (8, 10)]])
def test_p20_sliced_maps_keep_their_keys(chunks: list[tuple[int, int]]) -> None:
    maps: list[Map] = [[(k, float(k))] for k in range(10)]
    array = column_of(maps)
    column = pa.chunked_array([array.slice(a, b - a) for a, b in chunks])
    vectorizer = DictVectorizer(int64_vocabulary=range(10))
    expected = np.zeros((3, 10))
    expected[[0, 1, 2], [7, 8, 9]] = [7, 8, 9]
    assert vectorizer(column).tolist() == expected.tolist()
    assert vectorizer.csr(column).toarray().tolist() == expected.tolist()
    assert vectorizer(array.slice(7, 0)).shape == (0, 10)
    assert vectorizer.csr(array.slice(7, 0)).shape == (0, 10)
    view = column_of([[], [(1, 1.0), (2, 2.0)], [(3, 3.0)]]).slice(1)
    assert maps_of(read_column(view)) == [[(1, 1.0), (2, 2.0)], [(3, 3.0)]]


def test_p21_null_maps_and_null_values() -> None:
    maps: list[Map] = [[("a", 1)], [], None, [("b", None)]]
    column = column_of(maps, pa.string(), pa.int64())
    vectorizer = DictVectorizer(string_vocabulary=["a", "b"])
    for null_value, cell in (("skip", 0), (5, 5)):
        batch = MapBatch.from_arrow(column, null_map="empty", null_value=null_value)
        assert batch.null_maps is not None
        assert batch.null_maps.tolist() == [False, False, True, False]
        assert vectorizer(batch).tolist() == [[1, 0], [0, 0], [0, 0], [0, cell]]
        part = batch[2:].null_maps
        assert part is not None
        assert part.tolist() == [True, False]
    with pytest.raises(ValueError, match="map 2 is null"):
        vectorizer(column)
    with pytest.raises(ValueError, match="map 3: the value of key 'b' is null"):
        MapBatch.from_arrow(column, null_map="empty")


def test_p24_large_integers_stay_exact() -> None:
    big = 9007199254740993
    for value_type in (pa.int64(), pa.uint64()):
        column = column_of([[("id", big)], [("z", 1)], [("id", None)]], pa.string(), value_type)
        vectorizer = DictVectorizer(string_vocabulary=["id", "z"])
        batch = MapBatch.from_arrow(column, null_value="skip")
        for result in (vectorizer(batch), vectorizer.csr(batch).toarray()):
            assert result.dtype == np.int64
            assert result.tolist() == [[big, 0], [0, 1], [0, 0]]


# -- to Arrow -----------------------------------------------------------------------------------


def test_a_batch_of_numbers_shares_its_memory_with_the_column() -> None:
    batch = MapBatch.from_dicts([{1: 0.5, 7: 2.0}, {}, {7: 1.0}])
    column = batch.to_arrow()
    assert column.type == pa.map_(pa.int64(), pa.float64())
    assert column.to_pylist() == [[(1, 0.5), (7, 2.0)], [], [(7, 1.0)]]
    for child, array in enumerate((batch.keys, batch.values)):
        assert column.values.field(child).buffers()[1].address == array.ctypes.data
    column.validate(full=True)


def test_arrow_text_is_shared_too() -> None:
    column = column_of([[("a", 5.0)], [("b", 6.0), ("c", 7.0)]], pa.large_string())
    back = MapBatch.from_arrow(column)[1:].to_arrow()
    assert back.equals(column[1:])
    assert back.values.field(0).buffers()[2].address == column.values.field(0).buffers()[2].address


BATCHES: list[tuple[Any, Any, Any]] = [
    ([1, 2, 1], [0.5, math.nan, -0.0], pa.map_(pa.int64(), pa.float64())),
    ([1, 2, 1], np.array([1, 2, 3], np.float32), pa.map_(pa.int64(), pa.float32())),
    (["a", "é\0", "a"], [1, 2, 2**63 - 1], pa.map_(pa.string(), pa.int64())),
    (["a", "", "a"], ["x", "", "\0"], pa.map_(pa.string(), pa.string())),
    ([], np.empty(0), pa.map_(pa.int64(), pa.float64())),
]


def test_a_slice_goes_to_arrow_whatever_text_is_outside_of_it() -> None:
    batch = MapBatch.from_arrays(["\ud800", "b", "a"], ["\ud800", "x", "y"], [0, 1, 3])
    assert batch[1:].to_arrow().to_pylist() == [[("b", "x"), ("a", "y")]]
    assert batch[1:1].to_arrow().to_pylist() == []
    with pytest.raises(ValueError, match="is not Unicode text"):
        batch.to_arrow()


@pytest.mark.parametrize(("keys", "values", "kind"), BATCHES)
def test_batches_go_to_arrow_and_back(keys: Any, values: Any, kind: Any) -> None:
    offsets = [0, 2, 2, 3] if len(keys) else [0, 0]
    batch = MapBatch.from_arrays(keys if len(keys) else np.empty(0, np.int64), values, offsets)
    column = pa.array(batch)
    column.validate(full=True)
    assert column.type == kind
    back = MapBatch.from_arrow(column)
    assert repr(back.to_dicts()) == repr(batch.to_dicts())
    assert back.values.dtype == batch.values.dtype
    assert MapBatch.from_arrow(batch).to_arrow().equals(column) or "nan" in repr(values)
    assert batch[1:].to_arrow().equals(column[1:])


def test_null_maps_are_null_in_the_column() -> None:
    for layout in LAYOUTS:
        column = column_of(ROWS, pa.string(), layout=layout, junk=MUCH_JUNK)
        batch = MapBatch.from_arrow(column, null_map="empty")
        assert batch.to_arrow().to_pylist() == ROWS
        assert batch[1:].to_arrow().null_count == 1
    for kind in (pa.string_view(), pa.dictionary("int8", pa.string())):
        column = pa.chunked_array([column_of(ROWS, kind), column_of(ROWS[3:], kind)])
        batch = MapBatch.from_arrow(column, null_map="empty")
        assert batch.to_arrow().to_pylist() == ROWS + ROWS[3:]


@pytest.mark.parametrize(("keys", "values", "kind"), BATCHES)
def test_batches_flow_on_into_other_libraries(
    keys: Any, values: Any, kind: Any, tmp_path: Any
) -> None:
    if not len(keys):
        keys = np.empty(0, np.int64)
    batch = MapBatch.from_arrays(keys, values, [0, 2, 2, 3] if len(keys) else [0, 0])
    expected = repr(batch.to_dicts())
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    if hasattr(polars, "Map"):
        assert repr(MapBatch.from_arrow(polars.Series(batch)).to_dicts()) == expected
    table = pa.table({"m": pa.array(batch)})
    with duckdb.connect() as connection:
        relation = connection.from_arrow(table)
        assert repr(MapBatch.from_arrow(relation.select("m")).to_dicts()) == expected
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table, tmp_path / "m.parquet")
    read = parquet.read_table(tmp_path / "m.parquet")["m"]
    assert repr(MapBatch.from_arrow(read).to_dicts()) == expected


def test_inverse_flows_on_into_arrow() -> None:
    operator = DictVectorizer(string_vocabulary=["a", "b"])
    batch = operator.inverse(operator([{"a": 1.5}, {}, {"b": 2.5, "a": 3.0}]))
    assert pa.array(batch).to_pylist() == [[("a", 1.5)], [], [("a", 3.0), ("b", 2.5)]]


@pytest.mark.parametrize(("keys", "values"), [(["\ud800"], [1]), (["a"], ["\ud800"])])
def test_text_that_is_no_unicode_cannot_go_to_arrow(keys: list[str], values: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"^MapBatch: (key|value) '\\ud800' is not Unicode text"):
        MapBatch.from_arrays(keys, values).to_arrow()


def test_what_int32_offsets_do_not_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = MapBatch.from_arrays(["ab", "ab", "c"], [1, 2, 3], [0, 1, 3])
    chunks = pa.chunked_array([column_of([[("ab", 1)]], pa.string())] * 2)
    monkeypatch.setattr("nbmapops._reading.toarrow._MOST", 3)
    assert batch.to_arrow().type == pa.map_(pa.large_string(), pa.int64())
    assert batch.to_arrow().to_pylist() == [[("ab", 1)], [("ab", 2), ("c", 3)]]
    joined = MapBatch.from_arrow(chunks).to_arrow()
    assert joined.type == pa.map_(pa.large_string(), pa.float64())
    assert joined.to_pylist() == [[("ab", 1)], [("ab", 1)]]
    monkeypatch.setattr("nbmapops._reading.toarrow._MOST", 2)
    with pytest.raises(OverflowError, match=r"^MapBatch: 3 entries .*batch\[start:stop\]"):
        batch.to_arrow()


# -- without pyarrow ----------------------------------------------------------------------------


def load_again() -> None:
    spec = importlib.util.find_spec("nbmapops._reading.arrowlib")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_a_missing_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    load_again()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'nbmapops\[arrow\]'"):
        load_again()


def test_an_old_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "__version__", "9.0.0")
    with pytest.raises(ImportError, match=r"pyarrow 18 .* this is 9.0.0: pip install -U"):
        load_again()


@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_columns_of_other_libraries_say_that_they_need_pyarrow(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip(library)
    if library == "polars":
        column = module.Series([[{"k": 1, "v": 2.0}]])
    else:
        column = module.sql("select map {1: 2.0} as m")
    for name in [name for name in sys.modules if name.startswith("nbmapops._reading.")]:
        if "arrow" in name:
            monkeypatch.delitem(sys.modules, name)
            monkeypatch.delattr(f"nbmapops._reading.{name.rpartition('.')[2]}", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    inputs._arrow.cache_clear()
    operator = DictVectorizer(int64_vocabulary=[1])
    batch = MapBatch.from_dicts([{1: 2.0}])
    for call in (
        lambda: operator(column),
        lambda: operator.csr(column),
        lambda: MapBatch.from_arrow(column),
        batch.to_arrow,
        batch.__arrow_c_array__,
    ):
        with pytest.raises(ImportError, match=r"need pyarrow: pip install 'nbmapops\[arrow\]'"):
            call()


def test_columns_need_no_pandas() -> None:
    """Which pyarrow before 25 imports to tell the dtype of a type."""
    code = """
import sys

class NoPandas:
    def find_spec(self, name, *others):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPandas())
import numpy as np
import pyarrow as pa
from nbmapops import MapBatch


words = pa.dictionary(pa.int8(), pa.string())
ends = pa.array([0, None, 1, 2], pa.int32())
for key, keys in [(pa.int64(), [1, 3]), (pa.uint8(), [1, 3]), (words, ["1", "3"])]:
    for dtype in ("i2", "u8", "f2", "f4", "f8", "?"):
        values = pa.array(np.array([0, 1], dtype))
        column = pa.MapArray.from_arrays(ends, pa.array(keys, key), values)
        batch = MapBatch.from_arrow(column, null_map="empty")
        assert batch.to_dicts() == [{keys[0]: 0}, {}, {keys[1]: 1}], (key, dtype)
"""
    run(code)


def test_map_scalars_are_maps_in_a_list_too() -> None:
    column = pa.array([[("a", 1.5)], [], [("b", 2.5)]], pa.map_(pa.string(), pa.float64()))
    dv = DictVectorizer(string_vocabulary=["a", "b"])
    assert dv(list(column)).tolist() == [[1.5, 0], [0, 0], [0, 2.5]]
    repeated = pa.array([[("a", 1.5), ("a", 2.5)]], column.type)
    with pytest.raises(DuplicateKeyError, match="map 1: key 'a'"):
        dv([{"a": 1.5}, *repeated])
    with pytest.raises(TypeError, match="map 1 is "):
        dv([{"a": 1.5}, *pa.array([None], column.type)])


def test_a_class_of_the_name_of_a_map_scalar_is_a_mapping() -> None:
    class MapScalar(dict[Any, Any]):
        pass

    mapping = MapScalar({1: 2.5})
    given = read_input("CastMap", mapping, None, None, "int64")
    assert isinstance(given.source, MapReader)
    assert given.source.listed == [mapping]
    assert given.one
    scalar = pa.array([[(1, 2.5)]], pa.map_(KEY, VALUE))[0]
    assert read_input("CastMap", scalar, None, None, None).one
