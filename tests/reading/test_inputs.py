"""What an input is taken for, and that bad arrays and hostile objects end in a documented error."""

from __future__ import annotations

import importlib.util
from collections import ChainMap, defaultdict
from collections.abc import Iterator, Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import CastMap, DictVectorizer, MapBatch, UnknownKeyError

from ..inputs import WITH_PANDAS, spread
from ..reference import INT64_MAX, INT64_MIN
from ..strategies import Pairs
from ..ways import WAYS, way

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTED = (TypeError, ValueError, KeyError, OverflowError, MemoryError)
BY_INT = DictVectorizer(int64_vocabulary=[1, 2, 3])
BY_STR = DictVectorizer(string_vocabulary=["a", "b"])


# One map or a batch.


def test_one_map_gives_a_row_and_a_batch_gives_rows() -> None:
    one = {1: 1.0}
    for mapping in (one, MappingProxyType(one), ChainMap(one), Pairs([(1, 1.0)])):
        assert BY_INT(mapping).shape == (3,)
        assert BY_INT([mapping]).shape == (1, 3)
        assert CastMap()(mapping).shape == (1,)
        assert CastMap()([mapping]).shape == (1, 1)
    assert BY_INT([1], [1.0]).shape == (3,)
    assert BY_INT([1], [1.0], [0, 1]).shape == (1, 3)
    assert BY_INT(MapBatch.from_arrays([1], [1.0])).shape == (1, 3)


def test_batches_of_every_kind_of_iterable() -> None:
    maps = [{1: 1.0}, {2: 2.0}]
    objects = np.empty(2, object)
    objects[:] = maps
    expected = [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    for batch in (
        maps,
        tuple(maps),
        iter(maps),
        (m for m in maps),
        objects,
        dict(enumerate(maps)).values(),
    ):
        assert BY_INT(batch).tolist() == expected
    assert BY_INT(map(dict, maps)).tolist() == expected
    assert BY_INT(objects[::-1]).tolist() == expected[::-1]


class NotAMap:
    """Iterable, but of what?"""

    def __init__(self, *items: Any) -> None:
        self.items_ = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items_)


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    "arguments",
    [
        ("abc",),
        (b"abc",),
        (bytearray(b"abc"),),
        (5,),
        (1.5,),
        (None,),
        (object(),),
        (np.int64(3),),
        (np.array([1, 2]),),
        (np.array([[{1: 1}]], object),),
        (np.array(["a"]),),
        ([1, 2],),
        ([(1, 2)],),
        (["a", "b"],),
        ([[{1: 1.0}]],),
        ([None],),
        ([{1: 1.0}, None],),
        ({1, 2},),
        (NotAMap(1),),
        (Point(1, 2),),
        (print,),
        ({1: 1.0}, {2: 2.0}),
        ({1: 1.0}, [2.0]),
        ([{1: 1.0}], [{2: 2.0}]),
        (MapBatch.from_arrays([1], [1]), [1]),
        ([1], {1: 1}),
        ([1], "1"),
        ("a", [1]),
        ([1], 5),
        (5, [1]),
        ({1}, [1]),
        ([1], [1], "01"),
        ([1], [1], 1),
        ([1], [1], [0.0, 1.0]),
        ([1], [1], ["0", "1"]),
        ([1], [1], np.array([0, 1], "m8[s]")),
        ([1], [1], np.array([False, True])),
        ([[1]], [1]),
        ([1], [[1]]),
    ],
    ids=lambda arguments: ascii(arguments)[:60],
)
def test_what_is_no_input_is_a_type_error(arguments: tuple[Any, ...]) -> None:
    for op in (BY_INT, CastMap()):
        with pytest.raises(TypeError, match=rf"^{type(op).__name__}: "):
            op(*arguments)


def test_offsets_need_keys_and_values() -> None:
    with pytest.raises(TypeError, match="offsets go with keys and values"):
        BY_INT([{1: 1}], None, [0, 1])
    with pytest.raises(TypeError, match="offsets go with keys and values"):
        CastMap()([{1: 1}], None, [0, 1])
    with pytest.raises(TypeError, match="goes with keys, but the first is MapBatch"):
        BY_INT(MapBatch.from_dicts([{1: 1}]), [1])


@pytest.mark.skipif(not WITH_PANDAS, reason="needs pandas")
def test_data_frames_are_refused_and_series_are_read() -> None:
    pd: Any = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    for op in (BY_INT, BY_STR, CastMap()):
        with pytest.raises(TypeError, match=r'df\.to_dict\("records"\)'):
            op(frame)
    with pytest.raises(TypeError, match=r'df\.to_dict\("records"\)'):
        DictVectorizer.from_maps(frame)
    with pytest.raises(TypeError, match=r'df\.to_dict\("records"\)'):
        MapBatch.from_dicts(frame)
    assert BY_STR(frame.to_dict("records")).tolist() == [[1, 3], [2, 4]]
    series = pd.Series([{"a": 1}, {"b": 2}], index=[7, 9])
    assert BY_STR(series).tolist() == [[1, 0], [0, 2]]
    assert BY_STR(series[::-1]).tolist() == [[0, 2], [1, 0]]
    numbers = pd.Series([1.5, 2.5], index=[7, 9])
    assert BY_INT(pd.Series([2, 1]), numbers).tolist() == [2.5, 1.5, 0.0]
    assert BY_INT(pd.Index([2, 1]), numbers).tolist() == [2.5, 1.5, 0.0]
    assert BY_STR(pd.Series(["a", "b"]), numbers).tolist() == [1.5, 2.5]
    for series in (pd.Series([1.0, 2.0]), pd.Series(["a"], dtype="category")):
        with pytest.raises(TypeError, match="DictVectorizer: "):
            BY_INT(series)


# Scalars.


class Colour(IntEnum):
    RED = 1


class Name(StrEnum):
    A = "a"


def test_subclasses_of_int_float_and_str_count_as_what_they_are() -> None:
    class Number(int):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("not to be asked")

        __hash__ = int.__hash__

    class Text(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            raise AssertionError("not to be asked")

        __hash__ = str.__hash__

    class Real(float):
        def __float__(self) -> float:
            raise AssertionError("not to be asked")

    for name in WAYS:
        with way(name):
            assert BY_INT({Colour.RED: 5}).tolist() == [5, 0, 0]
            assert BY_INT([{Colour.RED: Number(5)}]).tolist() == [[5, 0, 0]]
            assert BY_INT([{Number(1): 5}]).tolist() == [[5, 0, 0]]
            assert BY_INT({Number(1): 5}).tolist() == [5, 0, 0]
            assert BY_INT({1: Real(2.5)}).tolist() == [2.5, 0, 0]
            assert BY_INT([{1: Real(2.5)}]).tolist() == [[2.5, 0, 0]]
            assert BY_STR({Name.A: 5}).tolist() == [5, 0]
            assert BY_STR([{Text("a"): 5}]).tolist() == [[5, 0]]
            assert BY_STR({Text("a"): 5}).tolist() == [5, 0]
            assert BY_STR([Text("a")], [5]).tolist() == [5, 0]
    cells = BY_INT([{1: Text("x")}, {2: np.str_("y")}, {3: Name.A}])
    assert cells.tolist() == [["x", "", ""], ["", "y", ""], ["", "", "a"]]
    assert {type(cell) for cell in cells.ravel()} == {str}


def test_str_of_a_str_subclass_is_not_asked() -> None:
    """What counts is the text itself, not what the class makes of it."""

    class Liar(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "b"

    assert BY_STR([{Liar("a"): 1}]).tolist() == [[1, 0]]
    assert BY_STR({Liar("a"): 1}).tolist() == [1, 0]
    assert BY_STR([Liar("a")], [1]).tolist() == [1, 0]
    assert list(DictVectorizer(string_vocabulary=[Liar("a")]).vocabulary) == ["a"]
    assert BY_INT([{1: Liar("x")}]).tolist() == [["x", "", ""]]


def test_lists_obey_the_rules_of_scalars() -> None:
    """np.asarray would make text of [1, "a"], and drop the NUL at the end of a text."""
    with pytest.raises(TypeError, match="map 0: key 'a' is str"):
        BY_INT([1, "a"], [1.0, 2.0])
    with pytest.raises(TypeError, match=r"map 0: key 2: value 'x' is str"):
        BY_INT([1, 2], [1.0, "x"])
    nul = DictVectorizer(string_vocabulary=["a", "a\0"])
    assert nul(["a\0"], [1]).tolist() == [0, 1]
    assert nul(["a\0"], ["b\0"]).tolist() == ["", "b\0"]
    assert BY_INT([1], [2**53 + 1]).tolist() == [2**53 + 1, 0, 0]
    with pytest.raises(OverflowError, match="map 0: key 1: value 9007199254740993"):
        BY_INT([1, 2], [2**53 + 1, 0.5])
    assert BY_INT([True, 2], [np.float32(1), np.float32(2)]).dtype == np.float32
    for odd in (1j, b"a", np.datetime64(1, "s"), [1], ()):
        with pytest.raises(TypeError, match="DictVectorizer: map 0: key 1: value "):
            BY_INT([1], [odd])
        with pytest.raises(TypeError, match="DictVectorizer: map 0: key "):
            BY_INT([odd], [1])


# Arrays.

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("order", ["=", "<", ">"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.__name__)
def test_integer_arrays_of_every_width_and_byte_order(dtype: Any, order: str) -> None:
    own = np.dtype(dtype).newbyteorder(order)
    keys, values, offsets = (np.array(data, own) for data in ([3, 1, 2], [7, 8, 9], [0, 1, 3]))
    expected = [[0, 0, 7], [8, 9, 0]]

    assert BY_INT(keys, values, offsets).tolist() == expected
    assert BY_INT(keys, values, offsets).dtype == np.int64
    assert BY_INT(spread(keys), spread(values), spread(offsets)).tolist() == expected
    assert BY_INT(keys[::-1], values[::-1], offsets).tolist() == [[0, 9, 0], [8, 0, 7]]
    assert (keys.tolist(), values.tolist(), offsets.tolist()) == ([3, 1, 2], [7, 8, 9], [0, 1, 3])


@pytest.mark.parametrize("order", ["=", "<", ">"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_arrays_of_every_width_and_byte_order(dtype: Any, order: str) -> None:
    values = np.array([0.5, -0.0, np.inf], np.dtype(dtype).newbyteorder(order))
    result = BY_INT([1, 2, 3], values)

    assert repr(result.tolist()) == "[0.5, -0.0, inf]"
    assert result.dtype == (np.float64 if dtype is np.float64 else np.float32)
    assert result.dtype.isnative


def test_bool_arrays_count_as_0_and_1() -> None:
    flags = np.array([True, False])
    op = DictVectorizer(int64_vocabulary=[1, 0])

    assert op(flags, flags).tolist() == [1, 0]
    assert op(flags, flags, [0, 1, 2]).dtype == np.int64


@pytest.mark.parametrize(
    "keys",
    [
        np.array([1.0]),
        np.array([1], np.float32),
        np.array([1], "M8[s]"),
        np.array([1], "m8[s]"),
        np.array([1], complex),
        np.array([b"a"]),
        np.array([(1,)], [("x", "i8")]),
        np.array([1.0], object),
        np.array([b"a"], object),
        np.array(["a", 1], object),
        np.array([1, "a"], object),
    ],
    ids=lambda keys: f"{keys.dtype}-{keys.tolist()}",
)
def test_arrays_of_other_dtypes_are_no_keys(keys: Any) -> None:
    for op in (BY_INT, BY_STR, CastMap()):
        for offsets in ((), ([0, len(keys)],)):
            with pytest.raises(TypeError, match=rf"^{type(op).__name__}: .*key"):
                op(keys, np.ones(len(keys)), *offsets)


@pytest.mark.parametrize(
    "values",
    [
        np.array([1], "M8[s]"),
        np.array([1], "m8[s]"),
        np.array([1], complex),
        np.array([b"a"]),
        np.array([(1,)], [("x", "i8")]),
        np.array([b"a"], object),
        np.array([[1]], object)[0:1, 0:1].reshape(1)[:0],
    ],
    ids=lambda values: f"{values.dtype}-{values.tolist()}",
)
def test_arrays_of_other_dtypes_are_no_values(values: Any) -> None:
    if values.dtype == object and len(values) == 0:
        assert BY_INT(np.empty(0, np.int64), values).tolist() == ["", "", ""]
        return
    for op in (BY_INT, CastMap()):
        with pytest.raises(TypeError, match=rf"^{type(op).__name__}: .*value"):
            op(np.ones(len(values), np.int64), values)


def test_long_doubles_are_no_values() -> None:
    if np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("long double is float64 on this machine")
    with pytest.raises(TypeError, match="values"):
        BY_INT([1], np.array([1], np.longdouble))
    with pytest.raises(TypeError, match="value"):
        BY_INT([1], [np.longdouble(1)])


@pytest.mark.parametrize("shape", [(), (1, 1), (3, 1), (1, 3), (0, 3)])
def test_arrays_must_be_1d(shape: tuple[int, ...]) -> None:
    square, line = np.ones(shape, np.int64), np.ones(max(shape or (1,)), np.int64)
    for arguments in (
        (square, line),
        (line, square),
        (square, square),
        (line, line, square),
        (square.astype(object), line),
    ):
        with pytest.raises(ValueError, match=r"DictVectorizer: .*1-D"):
            BY_INT(*arguments)


def test_unsigned_integers_that_do_not_fit() -> None:
    big = np.array([1, 2**63], np.uint64)
    for op in (BY_INT, CastMap()):
        with pytest.raises(OverflowError, match=r"map 1: key 9223372036854775808 "):
            op(big, [1, 2], [0, 1, 2])
        with pytest.raises(OverflowError, match=r"map 1: key 2: value 9223372036854775808 "):
            op([1, 2], big, [0, 1, 2])
        with pytest.raises(ValueError, match="offsets"):
            op([1, 2], [1, 2], big)
    fits = np.array([2**63 - 1], np.uint64)
    assert DictVectorizer(int64_vocabulary=[INT64_MAX])(fits, fits).tolist() == [INT64_MAX]


def test_lengths_must_agree() -> None:
    for keys, values in (([1], []), ([], [1]), ([1, 2], [1.0]), (np.arange(3), np.arange(2.0))):
        for offsets in ((), ([0, len(keys)],)):
            with pytest.raises(ValueError, match=rf"{len(keys)} keys but {len(values)} values"):
                BY_INT(keys, values, *offsets)
            with pytest.raises(ValueError, match=rf"{len(keys)} keys but {len(values)} values"):
                MapBatch.from_arrays(keys, values, *offsets)


OFFSETS = {
    "empty": [],
    "start above 0": [1, 3],
    "start below 0": [-1, 3],
    "start at the lowest": [INT64_MIN, 3],
    "fall": [0, 2, 1, 3],
    "fall below 0": [0, -1, 3],
    "fall to the lowest": [0, INT64_MIN, 3],
    "end before the data": [0, 2],
    "end past the data": [0, 4],
    "end at the highest": [0, INT64_MAX],
    "past the data on the way": [0, 9, 3],
    "highest on the way": [0, INT64_MAX, 3],
    "only a start": [0],
    "difference wraps": [0, INT64_MAX, INT64_MIN, 3],
}


@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS)
def test_bad_offsets_are_refused(offsets: list[int]) -> None:
    keys, values = np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0])
    for form in (offsets, tuple(offsets), np.array(offsets, np.int64), np.array(offsets, object)):
        for make in (BY_INT, BY_INT.unknown, CastMap(), CastMap().ragged, MapBatch.from_arrays):
            with pytest.raises(ValueError, match="offsets") as caught:
                make(keys, values, form)
            assert type(caught.value) is ValueError


@pytest.mark.parametrize("key", [None, float("nan")], ids=repr)
def test_a_key_that_stands_for_nothing_is_missing(key: Any) -> None:
    for name in WAYS:
        with way(name):
            for given in ({key: 1.0}, [{1: 2.0}, {key: 1.0}], iter([{1: 2.0}, {key: 1.0}])):
                with pytest.raises(TypeError, match=r"map \d: key .*, a missing key; leave the"):
                    BY_INT(given)


def test_a_map_beyond_the_batch_is_an_index_error_that_says_so() -> None:
    batch = MapBatch.from_dicts([{1: 2.0}])
    assert batch[-1] == {1: 2.0}
    with pytest.raises(IndexError, match="MapBatch: map 1 is not one of 1 maps"):
        batch[1]


@pytest.mark.parametrize("kind", ["M8", "m8"])
@pytest.mark.parametrize("unit", ["ns", "us", "s", "D"])
def test_times_are_not_offsets_nor_numbers_of_anything(kind: str, unit: str) -> None:
    """NumPy gives those of nanoseconds as plain ints, and calls a time span an integer."""
    times = np.array([0, 1, 3]).astype(f"{kind}[{unit}]")
    with pytest.raises(TypeError, match="offsets must be integers"):
        BY_INT(np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0]), times)
    with pytest.raises(TypeError, match="threads must be an integer"):
        BY_INT([1], [1.0], [0, 1], threads=times[1])
    with pytest.raises(TypeError, match="n_maps must be an integer"):
        MapBatch.from_rows([0], [1], [1.0], n_maps=times[2])
    with pytest.raises(TypeError, match="min_maps must be an integer"):
        DictVectorizer.from_maps([{1: 1.0}], min_maps=times[1])
    with pytest.raises(TypeError, match="unknown_columns must be an integer"):
        DictVectorizer(int64_vocabulary=[1], unknown_columns=times[1])


def test_bad_offsets_as_narrow_and_unsigned_arrays() -> None:
    keys, values = np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0])
    for dtype in (np.uint8, np.int8, np.uint32, np.uint64):
        for offsets in ([0, 2, 1, 3], [0, 4], [1, 3], [0, 200 if dtype is np.uint8 else 100, 3]):
            with pytest.raises(ValueError, match="offsets"):
                BY_INT(keys, values, np.array(offsets, dtype))
    with pytest.raises(ValueError, match="offsets"):
        BY_INT(keys, values, np.array([0, 2**64 - 1, 3], np.uint64))
    with pytest.raises(ValueError, match="offsets"):
        BY_INT(keys, values, [0, 2**70, 3])
    with pytest.raises(ValueError, match="map 0: offsets fall from 0 to -1180591620717411303424"):
        BY_INT(keys, values, [0, -(2**70), 3])
    for word in (1.5, "x", np.timedelta64(1, "s")):
        with pytest.raises(TypeError, match="offsets"):
            BY_INT(keys, values, [0, word, 3])


def test_offsets_of_empty_maps() -> None:
    assert BY_INT([1], [5], [0, 0, 1, 1, 1]).tolist() == [[0] * 3, [5, 0, 0], [0] * 3, [0] * 3]
    assert BY_INT([], [], [0]).shape == (0, 3)


def test_offsets_taken_from_a_longer_array() -> None:
    """A view that begins inside the parent counts from its own start."""
    offsets = np.array([0, 0, 2, 3])[1:]
    values = np.array([9.0, 1.0, 2.0, 3.0])[1:]

    assert BY_INT([1, 2, 3], values, offsets).tolist() == [[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]


def test_inputs_are_never_modified() -> None:
    keys, values, offsets = np.array([3, 1, 2]), np.array([1.0, 2.0, 3.0]), np.array([0, 1, 3])
    before = [part.copy() for part in (keys, values, offsets)]
    maps: list[dict[Any, Any]] = [{3: 1.0}, {1: 2.0, 2: 3.0}]
    for op in (BY_INT, CastMap(map_form="SPARSE", max_map=4), CastMap()):
        for threads in (1, 2):
            if op == CastMap():
                op.ragged(keys, values, offsets, threads=threads)  # type: ignore[union-attr]
                continue
            op(keys, values, offsets, threads=threads)
            op(maps, threads=threads)
    DictVectorizer.from_maps(keys, values, offsets)
    MapBatch.from_arrays(keys, values, offsets).sum_duplicates()
    assert [part.tolist() for part in (keys, values, offsets)] == [b.tolist() for b in before]
    assert maps == [{3: 1.0}, {1: 2.0, 2: 3.0}]


def test_results_do_not_share_memory_with_the_input() -> None:
    keys, values = np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0], np.float32)
    for result in (
        BY_INT(keys, values),
        BY_INT(keys, values, [0, 3]),
        CastMap()(keys, values),
        CastMap()(keys, values, [0, 3]),
        CastMap().ragged(keys, values, [0, 3])[0],
    ):
        assert not np.may_share_memory(result, values)
        result[...] = 9.0
    assert values.tolist() == [1.0, 2.0, 3.0]


# Objects that lie, fail or change.


class Failure(Exception):
    """Raised by an object of the test, and by nothing else."""


class FailingItems(Pairs):
    def items(self) -> Any:
        raise Failure


class FailingIteration(Pairs):
    def items(self) -> Any:
        yield from self.pairs
        raise Failure


class WrongItems(Pairs):
    """items() that are not pairs."""

    def items(self) -> Any:
        return list(self)


class WrongLength(Pairs):
    def __len__(self) -> int:
        return 10**6


class FailingRepr:
    def __repr__(self) -> str:
        raise Failure


class FailingIndex:
    def __index__(self) -> int:
        raise Failure

    __int__ = __index__

    def __float__(self) -> float:
        raise Failure


class Hashless:
    __hash__ = None  # type: ignore[assignment]


class LyingSequence(list[Any]):
    """A list that tells another length than it has."""

    def __len__(self) -> int:
        return 10**9


class ShrinkingDict(dict[Any, Any]):
    """A dict whose items() end early."""

    def items(self) -> Any:
        return list(super().items())[:1]


@pytest.mark.parametrize("name", WAYS)
def test_failing_objects_fail_with_their_own_error(name: str) -> None:
    with way(name):
        for mapping in (FailingItems([(1, 1.0)]), FailingIteration([(1, 1.0)])):
            for given in (mapping, [mapping], [{1: 1.0}, mapping], iter([mapping])):
                with pytest.raises(Failure):
                    BY_INT(given)

        def failing() -> Iterator[dict[int, float]]:
            yield {1: 1.0}
            raise Failure

        with pytest.raises(Failure):
            BY_INT(failing())
        with pytest.raises(Failure):
            DictVectorizer.from_maps(failing())


@pytest.mark.parametrize("name", WAYS)
def test_odd_objects_end_in_documented_errors(name: str) -> None:
    odd: list[Any] = [
        [WrongItems([(1, 1.0)])],
        WrongItems([(1, 1.0)]),
        [{1: FailingIndex()}],
        [{FailingIndex(): 1}],
        {1: FailingIndex()},
        [{1: Hashless()}],
        [{1: FailingRepr()}],
        {1: FailingRepr()},
        [FailingRepr()],
        FailingRepr(),
        [{FailingRepr(): 1}],
        [{1: 1.0}, FailingRepr()],
    ]
    with way(name):
        for given in odd:
            for call in (BY_INT, CastMap(), MapBatch.from_dicts, DictVectorizer.from_maps):
                with pytest.raises(TypeError):
                    call(given)
    with pytest.raises(TypeError):
        DictVectorizer(int64_vocabulary=[FailingRepr()])
    with pytest.raises(TypeError):
        BY_INT([FailingRepr()], [1])
    with pytest.raises(TypeError):
        BY_INT([1], [FailingRepr()])
    with pytest.raises(ValueError, match="out"):
        BY_INT([{1: 1.0}], out=odd[-3])


def test_lengths_that_lie_are_not_believed() -> None:
    for name in WAYS:
        with way(name):
            mapping = WrongLength([(1, 5.0)])
            assert BY_INT([mapping]).tolist() == [[5.0, 0.0, 0.0]]
            assert BY_INT(mapping).tolist() == [5.0, 0.0, 0.0]
            assert BY_INT(LyingSequence([{1: 5.0}])).tolist() == [[5.0, 0.0, 0.0]]
            assert BY_INT(LyingSequence([1]), LyingSequence([5.0])).tolist() == [5.0, 0.0, 0.0]
            shrinking = ShrinkingDict({1: 5.0, 9: 6.0})
            assert BY_INT([shrinking]).tolist() == [[5.0, 0.0, 0.0]]
            assert BY_INT(shrinking).tolist() == [5.0, 0.0, 0.0]


def test_mapping_is_read_once() -> None:
    class Counting(Pairs):
        reads = 0

        def items(self) -> Any:
            type(self).reads += 1
            return super().items()

    for name in WAYS:
        with way(name):
            for given in ([Counting([(1, 5.0)])], Counting([(1, 5.0)])):
                Counting.reads = 0
                BY_INT(given)
                assert Counting.reads == 1


def test_mapping_that_changes_when_it_is_read_again() -> None:
    """A bad map is read twice: once by the kernels' reader, once for the message."""

    class Changing(Pairs):
        reads = 0

        def items(self) -> Any:
            self.reads += 1
            return [(1, 1.0)] if self.reads > 1 else [(9, 1.0)]

    for name in WAYS:
        with way(name), pytest.raises((KeyError, RuntimeError)):
            BY_INT([Changing([])])


def test_defaultdict_is_not_filled_by_a_call() -> None:
    counts: Any = defaultdict(int, {1: 5})
    for form in (counts, [counts]):
        BY_INT(form)
    assert dict(counts) == {1: 5}


def test_endless_iterators_stop_at_the_first_bad_map() -> None:
    def endless() -> Iterator[dict[int, float]]:
        yield {1: 1.0}
        while True:
            yield {9: 1.0}

    taken = 0

    def counted() -> Iterator[dict[int, float]]:
        nonlocal taken
        for m in endless():
            taken += 1
            if taken > 200_000:
                raise Failure
            yield m

    pytest.importorskip("scipy")
    with pytest.raises(KeyError, match="map 1: key 9"):
        BY_INT.csr(counted())


class Countdown(Mapping[Any, Any]):
    """A mapping that gives other items than its keys say."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __getitem__(self, key: Any) -> Any:
        raise Failure

    def __iter__(self) -> Iterator[Any]:
        raise Failure

    def __len__(self) -> int:
        raise Failure

    def items(self) -> Any:
        return self._items


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
        | st.complex_numbers() | st.builds(Hashless),
        lambda inner: st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text() | st.none() | st.floats(), inner, max_size=3)
        | st.lists(st.tuples(inner, inner), max_size=2).map(Countdown),
        max_leaves=6,
    ),
    st.sampled_from(sorted(WAYS)),
)  # fmt: skip
def test_any_object_gives_a_result_or_a_documented_error(thing: Any, name: str) -> None:
    with way(name):
        for call in (BY_INT, BY_STR, CastMap(), DictVectorizer.from_maps, MapBatch.from_dicts):
            for arguments in ((thing,), ([thing],), ([1], thing), (thing, [1]), ([1], [1], thing)):
                if call == MapBatch.from_dicts and len(arguments) > 1:
                    continue
                try:
                    call(*arguments)
                except DOCUMENTED:
                    pass
                except Failure:
                    # Raised by the object itself where it must be asked.
                    assert "Countdown" in repr(type(thing)) or isinstance(
                        thing, (list, tuple, dict)
                    )


def _array_of_any_kind(draw: st.DrawFn) -> Any:
    dtype = draw(
        st.sampled_from(
            ["i1", "u1", "<i2", ">i4", "u8", "i8", ">i8", "f2", "f4", ">f8", "f8", "?", "O", "U2",
             "S2", "M8[s]", "m8[s]", "c8", "V3"]
        )
    )  # fmt: skip
    shape = draw(st.sampled_from([(0,), (1,), (2,), (3,), (4,), (3, 1), (), (1, 3), (2, 2)]))
    size = int(np.prod(shape))
    raw = draw(st.binary(min_size=8 * size, max_size=8 * size))
    if dtype == "O":
        items = st.none() | st.integers(-(2**64), 2**64) | st.text(max_size=2) | st.floats()
        data = np.empty(size, object)
        data[:] = [draw(items) for _ in range(size)]
    elif dtype == "U2":
        data = np.array([draw(st.text(max_size=2)) for _ in range(size)], "U2")
    else:
        width = np.dtype(dtype).itemsize
        data = np.frombuffer(raw[: size * width], dtype)
        if draw(st.booleans()):
            data = (np.arange(size) % 4).astype(data.dtype) if data.dtype.kind in "iuf" else data
    data = data.reshape(shape)
    if draw(st.booleans()) and data.ndim:
        data = np.repeat(data, 2, axis=0)[::2]
    if draw(st.booleans()) and data.ndim:
        data = data[::-1]
    return data


arrays = st.composite(_array_of_any_kind)()


@given(arrays, arrays, st.none() | arrays | st.lists(st.integers(-1, 5), max_size=5))
def test_any_arrays_give_a_result_or_a_documented_error(
    keys: Any, values: Any, offsets: Any
) -> None:
    ops: list[Any] = [
        BY_INT, BY_STR, CastMap(), CastMap(map_form="SPARSE", max_map=3, cast_to="TO_STRING"),
        DictVectorizer(int64_vocabulary=[1, 2, 3], semantics="onnxruntime"),
        CastMap(semantics="onnxruntime", cast_to="TO_INT64", map_form="SPARSE", max_map=2),
        MapBatch.from_arrays, DictVectorizer.from_maps, BY_INT.unknown,
    ]  # fmt: skip
    for op in ops:
        try:
            result = op(keys, values) if offsets is None else op(keys, values, offsets)
        except DOCUMENTED:
            continue
        assert isinstance(result, (np.ndarray, MapBatch, DictVectorizer, tuple))


# Arrays that their owner changes after they were validated.


def test_keys_and_offsets_changed_by_their_owner() -> None:
    keys, values = np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0])
    offsets = np.array([0, 1, 3])
    batch = MapBatch.from_arrays(keys, values, offsets)
    offsets[:] = [0, 10**9, -5]
    keys[0] = INT64_MIN
    with pytest.raises(KeyError, match="map 0"):
        BY_INT(batch)
    keys[0], values[0] = 3, 7.0
    assert BY_INT(batch).tolist() == [[0.0, 0.0, 7.0], [0.0, 2.0, 3.0]]


if importlib.util.find_spec("pyarrow") is None:  # the adapter's own tests need pyarrow

    def test_arrow_objects_need_the_extra() -> None:
        class Column:
            def __arrow_c_array__(self) -> None:
                raise Failure

        with pytest.raises((ImportError, TypeError, Failure)):
            MapBatch.from_arrow(Column())


@pytest.mark.parametrize(
    "op",
    [CastMap(map_form="SPARSE", max_map=2), CastMap(), DictVectorizer(int64_vocabulary=[0, 1])],
)
@pytest.mark.parametrize("one", [True, False])
def test_an_out_of_a_subclass(op: Any, one: bool, tmp_path: Path) -> None:
    maps: Any = {1: 1.5, 0: 0.5} if one else [{1: 1.5, 0: 0.5}]
    plain = op(maps)
    with pytest.raises(ValueError, match="out must be an array, not MaskedArray"):
        op(maps, out=np.ma.zeros(plain.shape, plain.dtype))
    mapped = np.memmap(tmp_path / "rows", plain.dtype, "w+", shape=plain.shape)
    assert op(maps, out=mapped) is mapped
    assert (mapped == plain).all()


def test_a_masked_matrix_has_no_inverse() -> None:
    with pytest.raises(TypeError, match="DictVectorizer: the matrix is a masked array"):
        DictVectorizer(int64_vocabulary=[0, 1]).inverse(
            np.ma.array([[1.0, 2.0]], mask=[[True, False]])
        )


def test_a_list_that_shrinks_is_read_as_it_was_at_the_call() -> None:
    pytest.importorskip("scipy")

    class Shrinking(dict[int, float]):
        def items(self) -> Any:
            del maps[1:]
            return super().items()

    maps: list[Any] = [Shrinking({1: 0.5}), {7: 0.5}, {1: 0.5}]
    with pytest.raises(UnknownKeyError, match="DictVectorizer: map 1: key 7 "):
        DictVectorizer(int64_vocabulary=[1]).csr(maps)
