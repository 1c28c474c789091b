"""Long tables and columns of lists: the maps they hold, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import DictVectorizer, DuplicateKeyError, MapBatch
from nbmapops._limits import limits

from ..reference import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator


def long_table(rows: list[int], keys: list[Any], values: list[Any], n_maps: int) -> list[Any]:
    """What a long table means: the pairs of each map, in the order of the entries."""
    maps: list[list[tuple[Any, Any]]] = [[] for _ in range(n_maps)]
    for row, key, value in zip(rows, keys, values, strict=True):
        maps[row].append((key, value))
    return maps


def pairs(batch: MapBatch) -> list[Any]:
    ends = batch.offsets.tolist()
    keys, values = batch.keys.tolist(), batch.values.tolist()
    return [list(zip(keys[a:b], values[a:b], strict=True)) for a, b in pairwise(ends)]


@pytest.fixture(params=["plain", "compiled"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either way to group entries, however few."""
    monkeypatch.setattr(limits, "engine", request.param)
    return str(request.param)


int64s = st.integers(INT64_MIN, INT64_MAX)
KEYS = {"int64": int64s, "string": st.text(max_size=3)}
VALUES: dict[str, Any] = {
    "int64": int64s,
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=3),
}
DTYPES = {"int64": np.int64, "float32": np.float32, "float64": np.float64, "string": object}


@pytest.mark.usefixtures("engine")
@given(data=st.data(), key_kind=st.sampled_from(list(KEYS)), value_kind=st.sampled_from([*VALUES]))
def test_a_long_table_gives_its_maps(data: st.DataObject, key_kind: str, value_kind: str) -> None:
    entry = st.tuples(st.integers(0, 5), KEYS[key_kind], VALUES[value_kind])
    table = data.draw(st.lists(entry, max_size=12))
    more = data.draw(st.none() | st.integers(6, 9))
    rows = [row for row, _, _ in table]
    keys, values = ([entry[i] for entry in table] for i in (1, 2))
    count = max(rows, default=-1) + 1 if more is None else more
    expected = long_table(rows, keys, values, count)
    array = np.empty(len(values), DTYPES[value_kind])
    array[:] = values
    for batch in (
        MapBatch.from_rows(rows, keys, array, n_maps=more),
        MapBatch.from_rows(np.array(rows, np.uint8), tuple(keys), array[::-1][::-1], n_maps=more),
    ):
        assert repr(pairs(batch)) == repr(expected)
        assert batch.values.dtype == DTYPES[value_kind]
        assert len(batch) == count
        assert batch.offsets.dtype == np.int64
    ones = MapBatch.from_rows(rows, keys, n_maps=more)
    assert pairs(ones) == [[(key, 1) for key, _ in m] for m in expected]
    assert ones.values.dtype == np.int64


@pytest.mark.usefixtures("engine")
def test_a_large_long_table() -> None:
    random = np.random.default_rng(0)
    rows, keys = random.integers(0, 500, 5000), random.integers(0, 50, 5000)
    values = np.arange(5000.0)
    batch = MapBatch.from_rows(rows, keys, values, n_maps=510)
    order = np.argsort(rows, kind="stable")
    assert batch.keys.tolist() == keys[order].tolist()
    assert batch.values.tolist() == values[order].tolist()
    assert batch.offsets.tolist() == np.searchsorted(rows[order], np.arange(511)).tolist()


def test_rows_in_order_are_not_copied() -> None:
    keys, values = np.array([3, 1, 2]), np.array([1.0, 2.0, 3.0])
    batch = MapBatch.from_rows([0, 0, 2], keys, values)
    assert np.shares_memory(batch.keys, keys)
    assert np.shares_memory(batch.values, values)
    assert batch.to_dicts() == [{3: 1.0, 1: 2.0}, {}, {2: 3.0}]


@pytest.mark.usefixtures("engine")
def test_scalars_of_a_long_table_obey_the_rules_of_dicts() -> None:
    """Errors name the map by its row, and the first bad map wins."""
    mixed = MapBatch.from_rows([1, 0], [5, 6], [2, 0.5])
    assert mixed.to_dicts() == [{6: 0.5}, {5: 2.0}]
    assert MapBatch.from_rows([np.int64(1), 0], [5, 6]).to_dicts() == [{6: 1}, {5: 1}]
    assert MapBatch.from_rows([True, False], [5, 6]).to_dicts() == [{6: 1}, {5: 1}]
    with pytest.raises(TypeError, match="MapBatch: map 3: key 'a' is str"):
        MapBatch.from_rows([9, 3, 0], [1.5, "a", 1], [1, 1, 1])
    with pytest.raises(OverflowError, match="MapBatch: map 2: key 1: value 9007199254740993"):
        MapBatch.from_rows([7, 2], [2, 1], [0.5, 2**53 + 1])
    with pytest.raises(OverflowError, match="MapBatch: map 2: key 9223372036854775808"):
        MapBatch.from_rows([7, 2], np.array([2**63 + 5, 2**63], np.uint64), [1.0, 2.0])
    op = DictVectorizer(int64_vocabulary=[1, 2])
    with pytest.raises(DuplicateKeyError, match="map 1: key 2 is repeated"):
        op(MapBatch.from_rows([1, 0, 1], [2, 1, 2]))


@pytest.mark.parametrize(
    ("arguments", "n_maps", "error", "message"),
    [
        (([0, -1], [1, 2]), None, ValueError, "the row of entry 1 is -1; rows must be at least 0"),
        (([0, INT64_MIN], [1, 2]), None, ValueError, "the row of entry 1 is -9223372036854775808"),
        (([0], [1, 2]), None, ValueError, "1 rows but 2 keys"),
        (([0, 1], [1, 2], [1]), None, ValueError, "2 keys but 1 values"),
        (([0, 3], [1, 2]), 3, ValueError, "n_maps must be at least 4, one more than .*, not 3"),
        (([], []), -1, ValueError, "n_maps must be at least 0"),
        (([0], [1]), 1.0, TypeError, "n_maps must be an integer, not 1.0"),
        (([0], [1]), True, TypeError, "n_maps must be an integer, not True"),
        ((["x"], [1]), None, TypeError, "rows must be integers from 0.*np.unique"),
        (([0, "x"], [1, 2]), None, TypeError, "rows must be integers from 0.*np.unique"),
        ((np.array([0.0]), [1]), None, TypeError, "rows are an array of float64; .* be integers"),
        ((np.array([0], "m8[s]"), [1]), None, TypeError, "rows are an array of timedelta64"),
        (([0, None], [1, 2]), None, ValueError, "rows hold missing values"),
        (([0, 2**70], [1, 2]), None, OverflowError, "a row does not fit in int64"),
        ((np.array([2**64 - 1], np.uint64), [1]), None, OverflowError, "a row does not fit"),
        (([2**62], [1]), None, MemoryError, "4611686018427387905 maps need .* bytes .*np.unique"),
        (([0], [1]), 2**70, MemoryError, "maps need .* bytes of offsets"),
        ((5, [1]), None, TypeError, "rows must be an array or a sequence, not int"),
        ((np.zeros((1, 1), int), [1]), None, ValueError, "rows must be 1-D"),
    ],
)
def test_bad_long_tables_are_refused(
    arguments: Any, n_maps: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^MapBatch: .*{message}"):
        MapBatch.from_rows(*arguments, n_maps=n_maps)


def test_an_empty_long_table() -> None:
    empty: list[Any] = [[], np.empty(0), np.empty(0, object), np.empty(0, np.int32)]
    for rows in empty:
        assert len(MapBatch.from_rows(rows, [])) == 0
        assert MapBatch.from_rows(rows, [], [], n_maps=2).to_dicts() == [{}, {}]


def test_rows_that_change_while_they_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    from nbmapops import kernels

    monkeypatch.setattr(limits, "engine", "compiled")
    true = kernels.group
    for changed in ([1, 1, 0], [5, 0, 0], [-1, 0, 0], [0, 0, 0], [0, 1, 1]):

        def group(rows: Any, *parts: Any, changed: list[int] = changed) -> int:
            return int(true(np.array(changed), *parts))

        monkeypatch.setattr(kernels, "group", group)
        with pytest.raises(RuntimeError, match="the rows changed while they were read"):
            MapBatch.from_rows(np.array([1, 0, 0]), np.array([1, 2, 3]))


def test_long_tables_of_other_libraries() -> None:
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    data: dict[str, list[Any]] = {"row": [2, 0, 2], "key": ["a", "b", "c"], "value": [1, 2, 3]}
    for table in (pd.DataFrame(data), pl.DataFrame(data), pa.table(data)):
        batch = MapBatch.from_rows(table["row"], table["key"], table["value"])
        assert batch.to_dicts() == [{"b": 2}, {}, {"a": 1, "c": 3}]


# Columns of lists.


LISTS: list[list[Any]] = [[1, 2**53 + 1], [], [7]]
NUMBERS: list[list[Any]] = [[2**53 + 1, 2], [], [3]]
MAPS = [{1: 2**53 + 1, 2**53 + 1: 2}, {}, {7: 3}]


def objects(lists: list[Any]) -> Any:
    made = np.empty(len(lists), object)
    made[:] = lists
    return made


def columns_of_lists(lists: list[list[int]]) -> Iterator[Any]:
    yield from (lists, tuple(map(tuple, lists)), iter(lists), objects(lists))
    yield [np.array(one, np.int64) for one in lists]
    yield objects([np.array(one, np.int64 if one else float) for one in lists])
    yield [np.array(one, object) for one in lists]
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    yield pd.Series(lists, index=range(5, 5 + len(lists)))
    yield [pd.Series(one, dtype="Int64") for one in lists]
    yield pl.Series(lists, dtype=pl.List(pl.Int64))
    yield [pl.Series(one, dtype=pl.Int64) for one in lists]
    listed = (pa.list_, pa.large_list, pa.list_view)
    for made in listed:
        yield pa.array(lists, made(pa.int64()))
    array = pa.array([[9], *lists, None, [8]], pa.list_(pa.int64()))
    yield array[1:-2]
    yield pa.chunked_array([array[1:2], array[2:-2]])
    yield pd.Series(lists, dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    yield pa.chunked_array([array[1:-2]]).to_pandas()
    yield duckdb.sql(f"SELECT unnest({lists}::BIGINT[][]) AS x")


def test_columns_of_lists_give_their_maps() -> None:
    for keys, values in zip(columns_of_lists(LISTS), columns_of_lists(NUMBERS), strict=True):
        kind = type(keys)
        batch = MapBatch.from_lists(keys, values)
        assert batch.to_dicts() == MAPS, kind
        assert batch.values.dtype == np.int64
    for keys in columns_of_lists(LISTS):
        assert MapBatch.from_lists(keys).to_dicts() == [dict.fromkeys(m, 1) for m in MAPS]
    for keys in columns_of_lists(LISTS):
        assert MapBatch.from_lists(keys, NUMBERS).to_dicts() == MAPS


def test_lists_of_text_and_of_every_number() -> None:
    texts = [["a\0", "b"], ["c"]]
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    for keys in (texts, pa.array(texts), pl.Series(texts), pa.array(texts).to_numpy(False)):
        batch = MapBatch.from_lists(keys, [[0.5, 1], [2]])
        assert batch.to_dicts() == [{"a\0": 0.5, "b": 1.0}, {"c": 2.0}]
    fixed = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))
    square = np.array([[1, 2], [3, 4]])
    for keys in (fixed, square, square.T.copy().T, np.ma.array(square)):
        assert MapBatch.from_lists(keys).to_dicts() == [{1: 1, 2: 1}, {3: 1, 4: 1}]
    assert MapBatch.from_lists([], []).to_dicts() == []
    assert MapBatch.from_lists([[], []]).to_dicts() == [{}, {}]
    assert (
        MapBatch.from_lists([[1], [2]], [np.array([0.5], np.float32), [2]]).values.dtype
        == np.float64
    )


def test_sets_of_ids_have_no_values() -> None:
    sets = [{3, 5}, frozenset(), {5: 1}.keys()]
    op = DictVectorizer(int64_vocabulary=[3, 5])
    assert op(MapBatch.from_lists(sets)).tolist() == [[1, 1], [0, 0], [0, 1]]
    with pytest.raises(TypeError, match="map 0: keys must be a list, a tuple or an array"):
        MapBatch.from_lists(sets, [[1, 2], [], [3]])


def test_lists_that_differ_in_length_name_the_map() -> None:
    pa = pytest.importorskip("pyarrow")
    bad = [[1, 2], [], [3, 4]]
    for keys in (LISTS, pa.array(LISTS)):
        for values in (bad, pa.array(bad), objects(bad)):
            with pytest.raises(ValueError, match="MapBatch: map 2 has 1 keys but 2 values"):
                MapBatch.from_lists(keys, values)
    with pytest.raises(ValueError, match="3 lists of keys but 2 lists of values"):
        MapBatch.from_lists(LISTS, [[1, 2], []])


def test_missing_lists_and_elements_are_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    holed = [[1], None]
    for keys in (holed, pa.array(holed), pl.Series(holed), pd.Series(holed), [[1], float("nan")],
                 pd.Series(holed, dtype=pd.ArrowDtype(pa.list_(pa.int64())))):  # fmt: skip
        with pytest.raises(ValueError, match="MapBatch: map 1: its list of keys is missing"):
            MapBatch.from_lists(keys)
    inside: list[Any] = [[1, None], [2]]
    masked: Any = np.ma.array([[1, 2], [1, 1]], bool, mask=[[False, True], [False, False]])
    for values in (inside, pa.array(inside), pl.Series(inside), objects(inside),
                   [pd.array([1, None], dtype="Int64"), [2]], [masked[0], [2]],
                   masked):  # fmt: skip
        with pytest.raises(ValueError, match="MapBatch: values hold missing values"):
            MapBatch.from_lists([[1, 2], [3]], values)


@pytest.mark.parametrize(
    "keys",
    ["ab", {1: 2}, 5, None, [1, 2], ["ab"], [{1: 2}], np.array([1, 2]), [5], np.array(["a"])],
    ids=repr,
)
def test_what_is_not_a_column_of_lists_is_refused(keys: Any) -> None:
    with pytest.raises(TypeError, match=r"MapBatch: (keys|map 0: keys) must be a "):
        MapBatch.from_lists(keys)


def test_arrow_columns_of_something_else_are_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    for keys in (pa.array([1, 2]), pa.chunked_array([["a"]]), pl.Series([1])):
        with pytest.raises(TypeError, match="keys must be a column of lists, not of"):
            MapBatch.from_lists(keys)
    offsets = np.array([0, 1])
    data = pa.array([[1]], pa.large_list(pa.int64())).from_buffers(
        pa.large_list(pa.int64()), 1, [None, pa.py_buffer(offsets)], children=[pa.array([1])]
    )
    offsets[1] = 5
    corrupt = pa.chunked_array([data])
    with pytest.raises(ValueError, match="keys are a corrupt Arrow column"):
        MapBatch.from_lists(corrupt)


def test_what_is_not_a_list_is_not_compared() -> None:
    class Odd:
        def __ne__(self, other: object) -> bool:
            raise RuntimeError("its comparison has no truth value")

        __hash__ = object.__hash__

    with pytest.raises(TypeError, match="MapBatch: map 1: keys must be a list"):
        MapBatch.from_lists([[1], Odd()])
