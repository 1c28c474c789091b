"""Data that changes while it is read: a right answer, or one RuntimeError that says so."""

from __future__ import annotations

import sys
import threading
import time
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch
from nbmapops._limits import limits
from nbmapops._reading.entries import Entries, TextKeys
from nbmapops._reading.mappings import Block
from nbmapops.errors import CastError, UnknownKeyError

from .outcomes import WITH_SCIPY
from .ways import WAYS, way

CHANGED = "the data changed while it was read"
BY_INT = DictVectorizer(int64_vocabulary=[1, 2, 3])
BY_TEXT = DictVectorizer(string_vocabulary=["a", "b", "c"])


class Once(Mapping[Any, Any]):
    """A mapping whose items() works once; after that it is empty."""

    def __init__(self, items: dict[Any, Any]) -> None:
        self._items: dict[Any, Any] = items

    def items(self) -> Any:
        items, self._items = self._items, {}
        return items.items()

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class Shrinking(Once):
    """A mapping that has one entry less at each look."""

    def items(self) -> Any:
        items = list(self._items.items())
        if items:
            self._items.popitem()
        return items

    def __len__(self) -> int:
        length = len(self._items)
        if self._items:
            self._items.popitem()
        return length


@pytest.fixture(params=["plain", "compiled"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "engine", request.param)


def calls_of(op: Any) -> list[Callable[[Any], Any]]:
    """Return ways to read a batch of maps, each giving rows."""
    calls: list[Callable[[Any], Any]] = [
        op,
        lambda maps: op(iter(maps)),
        lambda maps: op(MapBatch.from_dicts(maps)),
        lambda maps: op(MapBatch.from_dicts(maps, null_value="skip")),
    ]
    if WITH_SCIPY:
        calls += [
            lambda maps: op.csr(maps).toarray(),
            lambda maps: op.csr(iter(maps)).toarray(),
        ]
    return calls


# Each turns what is read in another way: kinds change from map to map, so that a block ends.
BATCHES: dict[str, tuple[Any, list[dict[Any, Any]], list[list[float]]]] = {
    "ints": (BY_INT, [{1: 1, 3: 2}, {2: 4}], [[1, 0, 2], [0, 4, 0]]),
    "ints, then floats": (BY_INT, [{1: 1, 3: 2}, {2: 0.5}], [[1, 0, 2], [0, 0.5, 0]]),
    "float32, then ints": (BY_INT, [{1: np.float32(0.5)}, {2: 3}], [[0.5, 0, 0], [0, 3, 0]]),
    "texts": (BY_TEXT, [{"a": 1.0}, {"c": 2, "b": 3.0}], [[1, 0, 0], [0, 3, 2]]),
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", BATCHES)
def test_items_that_work_once_are_enough(name: str) -> None:
    op, maps, rows = BATCHES[name]
    for call in calls_of(op):
        assert call([Once(dict(each)) for each in maps]).tolist() == rows
        assert call([dict(maps[0]), *map(Once, map(dict, maps[1:]))]).tolist() == rows
    assert op(Once(dict(maps[0]))).tolist() == rows[0]
    learned = DictVectorizer.from_maps([Once(dict(each)) for each in maps])
    assert learned(maps).tolist() == DictVectorizer.from_maps(maps)(maps).tolist()
    if op is BY_INT:
        given = [Once(dict(each)) for each in maps]
        assert CastMap().ragged(given)[0].tolist() == CastMap().ragged(maps)[0].tolist()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("maps", [[{1: 1}, {9: 0.5}], [{1: 1.5}, {2: 0.5, 9: 1}], [{9: 1}]])
def test_a_bad_map_whose_items_work_once_is_named(
    maps: list[dict[Any, Any]],
) -> None:
    for call in calls_of(BY_INT):
        with pytest.raises(UnknownKeyError, match=f"map {len(maps) - 1}: key 9 "):
            call([Once(dict(each)) for each in maps])


@pytest.mark.usefixtures("engine")
def test_a_mapping_that_cannot_be_read_is_refused_though_it_could_be_read_later() -> None:
    class Odd(Once):
        def items(self) -> Any:
            items, self._items = self._items, {}
            return [7] if items else []

    for call in calls_of(BY_INT):
        with pytest.raises(TypeError, match=r"map 1: items\(\) gave 7, not a \(key, value\) pair"):
            call([{1: 1.0}, Odd({2: 2.0}), {3: 1.0}])
    for value, error in ((None, TypeError), ([], TypeError), (2**70, OverflowError)):
        for call in calls_of(BY_INT)[:3]:
            with pytest.raises(error, match="map 1: key 2: value"):
                call([{1: 1}, Once({2: value}), {3: 1}])


def test_a_map_that_has_another_length_when_its_keys_are_asked_for() -> None:
    entries = Entries(TextKeys(np.array([-1]), ("a",)), np.ones(1), np.array([0, 1]))
    assert Block(0, [{"q": 1.0}], 0, entries).map(0, "map 0") == (["q"], [1.0])
    with pytest.raises(RuntimeError, match=f"map 0: {CHANGED}"):
        Block(0, [{}], 0, entries).map(0, "map 0")


@pytest.mark.usefixtures("engine")
def test_ints_that_a_later_float_makes_inexact() -> None:
    """Found in a map whose items() worked once: its key is known all the same."""
    for call in calls_of(BY_INT)[:3] + calls_of(BY_INT)[4:]:
        with pytest.raises(OverflowError, match=f"map 0: key 2: value {2**53 + 1} has no exact"):
            call([Once({1: 1, 2: 2**53 + 1}), {3: 0.5}])
    for call in calls_of(BY_TEXT)[4:]:
        with pytest.raises(OverflowError, match="map 0: key 'b': value"):
            call([Once({"a": 1, "b": 2**53 + 1}), {"c": 0.5}])


@pytest.mark.usefixtures("engine")
def test_a_mapping_that_shrinks() -> None:
    for call in calls_of(BY_INT):
        rows = call([Shrinking({1: 1.0, 2: 2.0, 3: 3.0}), Shrinking({2: 1, 3: 4})])
        whole = [1.0, 2.0, 3.0]
        assert rows[0].tolist() in [[*whole[:n], *[0.0] * (3 - n)] for n in range(4)]
    for call in calls_of(BY_INT):
        maps = [Shrinking({1: 1, 3: 2**53 + 1}), {2: 0.5}, Shrinking({9: 1})]
        with pytest.raises((OverflowError, UnknownKeyError, RuntimeError)) as caught:
            call(maps)
        assert str(caught.value).startswith(("DictVectorizer: map ", "MapBatch: map "))


def test_the_estimator_reads_items_that_work_once() -> None:
    estimator = pytest.importorskip("nbmapops.sklearn", exc_type=ImportError).DictVectorizer
    maps: list[dict[Any, Any]] = [{"a": 1.0, "b": "x"}, {"b": "y", "c": None}]
    for engine in ("plain", "compiled"):
        limits.engine = engine
        try:
            own = estimator(sparse=False)
            found = own.fit_transform([Once(dict(each)) for each in maps])
            expected = estimator(sparse=False).fit_transform(maps)
            np.testing.assert_array_equal(found, expected)
            again = own.transform([Once(dict(each)) for each in maps])
            np.testing.assert_array_equal(again, expected)
        finally:
            limits.engine = None


# ------------------------------------------------------------------------------- another thread
@contextmanager
def changing(maps: list[Any], others: list[Any], extra: Any) -> Iterator[None]:
    """Empty and fill the dicts, shorten and lengthen the list, in another thread."""
    running = True
    whole = [dict(each) for each in maps]

    def change() -> None:
        turn = 0
        while running:
            turn += 1
            number = turn % len(whole)
            maps[number].clear() if number < len(maps) else None
            if turn % 7 == 0:
                del maps[len(whole) // 2 :]
                maps.extend([*whole[len(maps) :], *others][: len(whole) - len(maps) + turn % 2])
            for each, entries in zip(maps, whole, strict=False):
                if not each and turn % 3 == 0:
                    each.update(entries)
            if turn % 5 == 0:
                maps[0][extra] = 1.0

    thread = threading.Thread(target=change, daemon=True)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        yield
    finally:
        running = False
        thread.join()
        sys.setswitchinterval(switch)


SECONDS = 0.1


@pytest.mark.parametrize("size", [3, 400])
@pytest.mark.parametrize("key_type", ["int64", "string"])
@pytest.mark.parametrize("way", [None, "plain", "compiled"])
def test_another_thread_changes_dicts_and_the_list(
    way: str | None, key_type: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result of the right shape, or an error of the documented ones; never an internal one."""
    monkeypatch.setattr(limits, "engine", way)
    words: list[Any] = [1, 2, 3] if key_type == "int64" else ["a", "b", "c"]
    vocabulary: Any = {f"{key_type}_vocabulary": words}
    ops = [DictVectorizer(**vocabulary), DictVectorizer(**vocabulary, handle_unknown="ignore")]
    maps: list[Any] = [dict.fromkeys(words[: n % 4], 1.5) for n in range(size)]
    ones, extra = ({2: 1}, 5) if key_type == "int64" else ({"b": 1}, "e")
    calls: list[Callable[[Any], Any]] = [
        *[call for op in ops for call in calls_of(op)],
        lambda maps: ops[0](maps[0]),
        DictVectorizer.from_maps,
        lambda maps: DictVectorizer.from_maps(maps, min_maps=2),
        ops[0].unknown,
    ]
    try:
        from nbmapops.sklearn import DictVectorizer as Estimator
    except ImportError:
        pass
    else:
        if key_type == "string":
            calls += [Estimator().fit_transform, Estimator().fit(maps).transform]
    said: set[str] = set()
    with changing(maps, [{}, ones], extra):
        ends = time.monotonic() + SECONDS
        turn = 0
        while turn < len(calls) or time.monotonic() < ends:
            turn += 1
            try:
                calls[turn % len(calls)](maps)
            except RuntimeError as error:
                said.add(str(error).split(": ")[-1])
            except (UnknownKeyError, CastError):
                pass  # of a map that got another key
            except TypeError as error:
                assert "map " in str(error)  # noqa: PT017
            except ValueError as error:
                assert "X is empty" in str(error)  # noqa: PT017
    assert said <= {CHANGED}


# ------------------------------------------------------------------------------- arrays
class ChangingKeys:
    """Keys that their owner changes once they were looked at so many times."""

    def __init__(self, first: Any, later: Any, looks: int) -> None:
        self.first, self.later, self.looks = first, later, looks

    def __getitem__(self, entry: Any) -> Any:
        self.looks -= 1
        return (self.first if self.looks >= 0 else self.later)[int(entry)]


@pytest.mark.parametrize("parts", [1, 8])
def test_keys_that_change_while_they_are_partitioned_are_noticed(parts: int) -> None:
    """In the kernel run as plain Python, at every moment: no entry is lost or twice unsaid."""
    from nbmapops.kernels import order

    partition: Any = getattr(order._partition, "py_func", order._partition)
    n, mask, answers = 24, np.uint64(31), set()
    first, later = np.arange(n) * 7, np.full(n, 7 * (n - 1))
    for looks in range(4 * n):
        entries, ends = np.full(n, 2**64 - 1, np.uint64), np.zeros(parts, np.uint64)
        keys = ChangingKeys(first, later, looks)
        with np.errstate(over="ignore"):
            whole = partition(keys, 0, np.uint64(0), mask, entries, ends)
        assert whole == (sorted((entries & mask).tolist()) == list(range(n)))
        assert ends[-1] == n
        answers.add(whole)
    assert answers == ({True} if parts == 1 else {True, False})


class Growing(UserDict[Any, Any]):
    """A mapping that grows while its items are read."""

    def items(self) -> Any:
        for item in super().items():
            yield item
            self.data[len(self.data) + 100] = 1.0


@pytest.mark.parametrize("form", [list, iter])
@pytest.mark.parametrize("name", WAYS)
def test_a_mapping_that_changes_is_named_in_every_form(name: str, form: Any) -> None:
    with way(name):
        calls: list[Callable[[Any], object]] = [BY_INT, DictVectorizer.from_maps]
        for call in (*calls, *([BY_INT.csr] if WITH_SCIPY else [])):
            with pytest.raises(RuntimeError, match=f"DictVectorizer: map 1: {CHANGED}"):
                call(form([{1: 1.0}, Growing({1: 1.0})]))
        with pytest.raises(RuntimeError, match=f"MapBatch: map 1: {CHANGED}"):
            MapBatch.from_dicts(form([{1: 1.0}, Growing({1: 1.0})]))


@pytest.mark.parametrize("form", [list, iter])
@pytest.mark.parametrize("name", WAYS)
def test_a_record_that_changes_is_named_in_every_form(name: str, form: Any) -> None:
    pytest.importorskip("sklearn")
    from nbmapops.sklearn import DictVectorizer as Estimator

    with way(name):
        fitted = Estimator().fit([{"a": 1.0}])
        for call in (Estimator().fit, Estimator().fit_transform, fitted.transform):
            with pytest.raises(RuntimeError, match=f"DictVectorizer: map 1: {CHANGED}"):
                call(form([{"a": 1.0}, Growing({"a": 1.0})]))
