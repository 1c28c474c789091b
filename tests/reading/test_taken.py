"""Maps of an iterator that compiled code takes as they come, without a copy."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import traceback
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import CastMap, DictVectorizer, MapBatch, UnknownKeyError
from nbmapops._limits import limits
from nbmapops._reading.mappings import compiled_walk

from ..ways import way
from .test_dictwalk import DTYPES, ODD_VALUES, SIZES, Arrays, cases, name_of, plain_walk
from .test_held import KINDS, OP, RIGHT, SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


WIDE = DictVectorizer(int64_vocabulary=range(300))


@pytest.fixture(autouse=True)
def _held_one_by_one(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(limits, "iterator_maps", 1)
    with way("compiled engine"):
        yield


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch, walking: None) -> list[int]:
    """How many maps each call of the walk has taken of an iterator."""
    walk, taken = compiled_walk(), list[int]()
    take = walk.take

    def counted(*arguments: Any) -> Any:
        found = take(*arguments)
        taken.append(found[0])
        return found

    monkeypatch.setattr(walk, "take", counted)
    return taken


@pytest.mark.parametrize("made", KINDS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_mapping_that_is_filled_anew_gives_what_it_showed(
    source: Callable[..., Iterator[Any]], made: Callable[[], Any]
) -> None:
    assert OP(source(made)).tolist() == RIGHT
    assert OP.csr(source(made)).toarray().tolist() == RIGHT
    assert MapBatch.from_dicts(source(made)).to_dicts() == [{0: 1.0}, {1: 2.0}, {2: 3.0}]
    learned = DictVectorizer.from_maps(source(made), order="first_seen")
    assert learned.vocabulary.tolist() == [0, 1, 2]
    assert DictVectorizer(int64_vocabulary=[0]).unknown(source(made))[1].tolist() == [1, 2]
    assert CastMap()(source(made)).tolist() == [[1], [2], [3]]


def test_all_maps_behind_the_first_are_taken_at_once(counts: list[int]) -> None:
    maps = [{row % 300: row / 3} for row in range(500)]
    assert (WIDE.csr(iter(maps)) != WIDE.csr(maps)).nnz == 0
    assert counts == [499]


def test_maps_that_are_not_taken_are_read_by_the_plain_rules(counts: list[int]) -> None:
    maps: list[Any] = [{row % 300: row / 3, 299 - row % 300: 1} for row in range(400)]
    maps[100] = {1: "a"}
    maps[200] = OrderedDict({5: 2.5})
    maps[300] = [(7, 1.5)]
    with pytest.raises(TypeError, match="map 100"):
        WIDE.csr(iter(maps))
    maps[100] = {1: np.float32(0.1), 7: True}
    assert (WIDE.csr(iter(maps)) != WIDE.csr(maps)).nnz == 0
    assert sum(counts) >= 390


@pytest.mark.parametrize("number", [0, 1, 150, 399])
def test_a_bad_map_among_those_that_are_taken_is_named(number: int) -> None:
    maps: list[Any] = [{row % 300: row / 3} for row in range(400)]
    maps[number] = {1: 0.5, 300: 1.5}
    with pytest.raises(UnknownKeyError, match=f"map {number}: key 300 "):
        WIDE.csr(iter(maps))


def test_an_int_that_was_taken_is_bad_where_a_float_follows() -> None:
    maps: list[Any] = [{1: 1}, {2: 2}, {3: 2**53 + 1}, {4: 4}]
    assert WIDE.csr(iter(maps)).data.tolist() == [1, 2, 2**53 + 1, 4]
    for last in ({5: 0.5}, OrderedDict({5: 0.5})):
        failed = told(WIDE.csr, iter([*maps, last]))
        assert failed[0] is OverflowError
        assert "map 2: " in failed[1]
        assert failed == told(WIDE.csr, [*maps, last])


def test_int_keys_behind_words_are_not_taken_for_their_numbers() -> None:
    maps: list[Any] = [{"a": 1.5, "b": 2.5}, {1: 3.5}]
    for call in (MapBatch.from_dicts, DictVectorizer(string_vocabulary=["a", "b"]).csr):
        failed = told(call, iter(maps))
        assert issubclass(failed[0], TypeError)
        assert failed == told(call, maps)


VALUES = st.sampled_from(
    [1.5, 2, True, np.float64(0.5), np.float32(0.1), -(2**53), 2**53 + 1, 2**62]
)
MAPS = st.dictionaries(st.integers(0, 40), VALUES, max_size=30)


@given(
    st.lists(st.one_of(MAPS, MAPS.map(Counter), MAPS.map(OrderedDict)), max_size=12),
    st.sampled_from([1, 3, 40, 1 << 16]),
    st.sampled_from([2, 5, 1 << 14]),
)
def test_a_generator_gives_what_a_list_gives(maps: list[Any], entries: int, rows: int) -> None:
    before = limits.chunk_entries, limits.chunk_maps
    limits.chunk_entries, limits.chunk_maps = entries, rows
    try:
        for call in (WIDE.csr, MapBatch.from_dicts, CastMap(cast_to="TO_INT64")):
            assert told(call, (each for each in maps)) == told(call, maps)
    finally:
        limits.chunk_entries, limits.chunk_maps = before


def told(call: Callable[[Any], Any], maps: Any) -> Any:
    try:
        result = call(maps)
    except (TypeError, ValueError, OverflowError) as error:
        return type(error), str(error)
    if isinstance(result, MapBatch):
        return result.to_dicts(), repr(result)
    if hasattr(result, "indptr"):
        parts = result.data, result.indices, result.indptr
        return [(part.dtype, part.tolist()) for part in parts]
    return result.dtype, result.tolist()


@pytest.mark.parametrize("error", [KeyError("own"), SystemExit(3), StopAsyncIteration()])
def test_an_exception_of_the_iterator_comes_out_as_it_is(error: BaseException) -> None:
    def maps() -> Iterator[dict[int, float]]:
        for row in range(200):
            yield {row: 1.5}
        raise error

    references = sys.getrefcount(error)
    for _ in range(3):
        with pytest.raises(type(error)) as caught:
            WIDE.csr(maps())
        assert caught.value is error
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "maps"
        error.__traceback__ = None
        del caught
    assert sys.getrefcount(error) <= references + 1
    assert WIDE.csr(iter([{1: 1.0}] * 9)).nnz == 9


def test_what_a_signal_handler_raises_comes_out() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")

    def maps() -> Iterator[dict[int, float]]:
        while True:
            yield {1: 1.5}

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            WIDE.csr(maps())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_iterator_is_not_asked_after_its_end() -> None:
    asked: list[int] = []

    class Maps:
        def __iter__(self) -> Maps:
            return self

        def __next__(self) -> dict[int, float]:
            asked.append(len(asked))
            if len(asked) > 50:
                raise StopIteration
            return {1: 1.5}

    assert WIDE.csr(Maps()).nnz == 50
    assert len(asked) == 51


def test_no_reference_to_a_map_is_kept_or_lost() -> None:
    maps: list[Any] = [{row % 300: row / 3} for row in range(300)]
    maps[150] = OrderedDict({5: 2.5})
    before = [sys.getrefcount(each) for each in maps]
    for _ in range(5):
        WIDE.csr(each for each in maps)
    with pytest.raises(TypeError):
        WIDE.csr(iter([*maps, 7]))
    gc.collect()  # what the error holds
    assert [sys.getrefcount(each) for each in maps] == before


def test_the_code_of_an_iterator_may_use_the_operator_itself() -> None:
    def maps(depth: int) -> Iterator[dict[int, float]]:
        for row in range(20):
            if depth and row % 7 == 3:
                assert WIDE.csr(maps(depth - 1)).nnz == 20
            yield {row: 1.5}

    assert WIDE.csr(maps(2)).nnz == 20


def test_a_map_that_is_larger_than_all_before_it_is_read_whole(
    counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "chunk_entries", 64)
    maps = [{row: 1.5} for row in range(100)] + [dict.fromkeys(range(300), 2.5)] * 3
    assert (WIDE.csr(iter(maps)) != WIDE.csr(maps)).nnz == 0
    assert sum(counts) > 90


# ---- one call of the compiled code ----


def take(maps: list[Any], keys: int, values: int, offsets: int, dtype: Any) -> int:
    """Compare one call with plain loops, and where it left the iterator; its count of maps."""
    arrays = Arrays.of(keys, values, offsets, dtype)
    _, right_keys, right_values, right_offsets = plain_walk(
        maps, 0, None, False, min(keys, values), offsets - 1, dtype
    )
    right = len(right_offsets) - 1
    walk, iterator = compiled_walk(), iter(maps)
    count, reason, refused = walk.take(iterator, *arrays[1:])
    rest = list(iterator)
    assert count == right
    assert arrays.keys[: len(right_keys)].tolist() == right_keys
    assert arrays.values[: len(right_values)].tobytes() == np.array(right_values, dtype).tobytes()
    assert arrays.offsets[: right + 1].tolist() == right_offsets
    assert arrays.edges_hold()
    if count == offsets - 1:  # no other map is asked for
        assert (reason, refused) == (walk.FULL, [])
    elif count == len(maps):
        assert (reason, refused) == (walk.DONE, [])
    else:
        assert reason == walk.STOP
        assert list(map(id, refused)) == [id(maps[count])]
    assert list(map(id, refused + rest)) == list(map(id, maps[count:]))
    return right


@pytest.mark.usefixtures("walking")
@given(cases(odd=True))
def test_one_call_takes_what_plain_loops_take(case: tuple[Any, ...]) -> None:
    maps, _, _, _, keys, values, offsets, dtype = case
    take(list(maps), keys, values, offsets, dtype)


@pytest.mark.usefixtures("walking")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("odd", [*ODD_VALUES, 2**53 + 1, 0.5], ids=name_of)
def test_odd_values_are_not_taken(odd: Any, dtype: Any) -> None:
    one = dtype(1) if dtype is np.float32 else 1
    maps = [{1: one, 2: one}, {}, {3: one, 4: odd}, {5: one}]
    taken = (type(odd), dtype) in ((float, np.float64), (int, np.int64)) and abs(odd) < 2**63
    assert take(maps, 9, 9, 9, dtype) == (4 if taken else 2)


@pytest.mark.usefixtures("walking")
@pytest.mark.parametrize("odd", [1.5, None, "a", 2**63, -(2**64), np.int64(4)], ids=name_of)
def test_odd_keys_are_not_taken(odd: Any) -> None:
    assert take([{1: 1.5}, {2: 2.5, odd: 1.5}, {5: 1.5}], 9, 9, 9, np.float64) == 1


@pytest.mark.usefixtures("walking")
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_are_filled_to_the_end_and_not_behind_it(dtype: Any) -> None:
    value = dtype(1) if dtype is np.float32 else 1
    maps: list[Any] = [dict.fromkeys(range(n), value) for n in (2, 0, 3, 1, 4, 0)]
    counts = {
        take(maps, keys, values, offsets, dtype)
        for keys in range(12)
        for values in (keys - 1, keys, 11)
        if values >= 0
        for offsets in range(1, 9)
    }
    assert counts == set(range(7))


@pytest.mark.usefixtures("walking")
@pytest.mark.parametrize("odd_key", [False, True])
def test_an_odd_entry_is_seen_wherever_it_stands(odd_key: bool) -> None:
    """Entries are noted in groups."""
    for bad in range(sum(SIZES)):
        entry, maps = 0, list[Any]()
        for size in SIZES:
            numbers = range(entry, entry + size)
            maps.append({("a" if odd_key and i == bad else i): i / 2 for i in numbers})
            if not odd_key and bad in numbers:
                maps[-1][bad] = "a"
            entry += size
        stops = next(i for i in range(len(SIZES)) if sum(SIZES[: i + 1]) > bad)
        assert take(maps, entry, entry, 12, np.float64) == stops


@pytest.mark.usefixtures("walking")
def test_dicts_of_every_inner_form_are_taken() -> None:
    class Point:
        pass

    holes = {i: i / 2 for i in range(400)}
    for i in range(0, 400, 3):
        del holes[i]
    emptied = dict.fromkeys(range(40), 0.5)
    while emptied:
        emptied.popitem()
    mixed: dict[Any, float] = {"a": 0.5, 1: 1.5, 2: 2.5}  # as a table of text would hold it
    del mixed["a"]
    split: Any = vars(Point())
    split.update({7: 0.5})
    maps = [holes, emptied, mixed, split, {}, {1: 1.5}, {}, holes]
    assert take(maps, 900, 900, 20, np.float64) == 8
