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

from nbmapops import CastMap, DictVectorizer, MapBatch
from nbmapops._limits import limits
from nbmapops._reading.mappings import compiled_walk

from ..ways import way
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
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
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


VALUES = st.sampled_from([1.5, 2, True, np.float64(0.5), np.float32(0.1), -(2**53), 2**62])
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
