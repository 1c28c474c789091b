"""The compiled reading of records: same answers as plain loops, and nothing that could crash."""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter, OrderedDict, defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ..conftest import WITHOUT_JIT
from ..fresh import run

if WITHOUT_JIT:
    pytest.skip(
        "Python objects can be read through the C API by compiled code only",
        allow_module_level=True,
    )

from nbmapops._reading import recordwalk
from nbmapops._reading.recordwalk import (
    DONE,
    FULL,
    IGNORE,
    LEARN,
    REFUSE,
    STOP,
    Walk,
    arrange,
    available,
)

pytestmark = pytest.mark.usefixtures("walking")

SENTINEL = 77
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Walked:
    """What one call of the walk gave, in arrays that stand inside larger ones."""

    def __init__(self, walk: Walk, maps: Any, *, first: int = 0, room: int = 64, dtype: Any = float,
                 rows: int | None = None) -> None:  # fmt: skip
        count = len(maps) if rows is None else rows
        wholes = [
            np.full(size + 6, SENTINEL, kind)
            for size, kind in ((room, np.int32), (room, dtype), (count + 1, np.int64))
        ]
        columns, values, offsets = (whole[3:-3] for whole in wholes)
        offsets[0] = 0
        self.read, self.reason = walk.read(maps, first, columns, values, offsets)
        for whole in wholes:
            assert set(whole[:3].tolist() + whole[-3:].tolist()) == {SENTINEL}
        self.offsets = offsets[: self.read + 1].tolist()
        self.columns = columns[: self.offsets[-1]].tolist()
        self.values = values[: self.offsets[-1]].tolist()


def walk_of(words: Any, unknown: int = IGNORE, **options: Any) -> Walk:
    given: dict[str, Any] = {
        "separator": "=", "none": float("nan"), "rounds": True, "low": INT64_MIN, "high": INT64_MAX,
    }  # fmt: skip
    return Walk(words, unknown=unknown, **(given | options))


def test_it_is_available_here() -> None:
    assert available()


# ---- numbers ----

NUMBERS: list[Any] = [
    0, 1, -5, 2**53, True, False, np.True_, np.False_, np.int8(-3), np.int16(-300), np.int32(-9**9),
    np.int64(-(2**40)), np.uint8(250), np.uint16(65000), np.uint32(2**32 - 1), np.uint64(2**40),
    1.5, -0.0, float("inf"), np.float64(2.5), np.float32(0.1),
]  # fmt: skip


def test_numbers_become_floats() -> None:
    found = Walked(walk_of({"a": 0}), [{"a": each} for each in NUMBERS])

    assert (found.read, found.reason) == (len(NUMBERS), DONE)
    assert list(map(repr, found.values)) == [repr(float(each)) for each in NUMBERS]


def test_numbers_become_integers() -> None:
    numbers = [each for each in NUMBERS if each != float("inf")]
    found = Walked(walk_of({"a": 0}), [{"a": each} for each in numbers], dtype=np.int64)

    assert (found.read, found.reason) == (len(numbers), DONE)
    assert found.values == [int(each) for each in numbers]


@pytest.mark.parametrize(
    "number", [2**63, -(2**80), np.uint64(2**63), np.float16(1), 1j, b"", None]
)
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_other_values_stop_the_walk(number: Any, dtype: Any) -> None:
    words: dict[Any, int] = {}
    found = Walked(walk_of(words, LEARN, none=None), [{"a": 1}, {"b": number}], dtype=dtype)

    assert (found.read, found.reason) == (1, STOP)
    assert words == {"a": 0}  # nothing of a value that is not taken is learned


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e19, -1e300, 2.0**63], ids=repr)
def test_floats_that_no_integer_holds_stop_the_walk(number: float) -> None:
    for each in (number, np.float64(number)):
        assert Walked(walk_of({"a": 0}), [{"a": each}], dtype=np.int64).reason == STOP


def test_limits_of_narrow_integers() -> None:
    for number, taken in ((-128, True), (-129, False), (127, True), (128, False), (127.9, True)):
        for each in (number, np.float64(number), np.int64(number)):
            fits = taken or int(each) == 127
            found = Walked(walk_of({"a": 0}, low=-128, high=127), [{"a": each}], dtype=np.int64)
            assert found.reason == (DONE if fits else STOP)


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, np.int64(2**62 + 1)])
def test_ints_are_rounded_only_where_that_is_asked_for(number: Any) -> None:
    found = Walked(walk_of({"a": 0}, rounds=True), [{"a": number}])
    assert found.values == [float(number)]
    assert Walked(walk_of({"a": 0}, rounds=False), [{"a": number}]).reason == STOP


def test_none_becomes_what_is_asked_for() -> None:
    assert np.isnan(Walked(walk_of({"a": 0}), [{"a": None}]).values).all()
    assert Walked(walk_of({"a": 0}, none=0.0), [{"a": None}]).values == [0.0]
    assert Walked(walk_of({"a": 0}, none=None), [{"a": None}]).reason == STOP


# ---- text ----


def test_a_text_is_one_in_the_column_of_its_name() -> None:
    words = {"a=x": 2, "a": 1, "7=x": 0}
    maps: list[Any] = [{"a": "x"}, {"a": 2.5, 7: "x"}, {"a": "y", "b": "x"}, {}]
    found = Walked(walk_of(words), maps)

    assert (found.read, found.reason) == (4, DONE)
    assert (found.columns, found.values) == ([2, 1, 0], [1, 2.5, 1])
    assert found.offsets == [0, 1, 3, 3, 3]


def test_lists_tuples_and_sets_are_read_in_their_order() -> None:
    texts = {f"t{n}" for n in range(40)}
    for n in range(0, 40, 3):
        texts.discard(f"t{n}")  # leaves holes in the table
    maps: list[Any] = [
        {"a": ["x", "y", "x"]}, {"a": ("y",)}, {"b": texts}, {"b": frozenset(texts)},
        {"a": [], "b": set(), "c": ()},
    ]  # fmt: skip
    words: dict[Any, int] = {}
    found = Walked(walk_of(words, LEARN), maps, room=200)

    names = list(words)
    assert [names[column] for column in found.columns] == [
        f"{key}={text}" for each in maps for key, texts in each.items() for text in texts
    ]
    assert set(found.values) == {1}


@pytest.mark.parametrize(
    "texts", [["x", 1], ("x", None), {"x", b"y"}, [["x"]], {"x": 1}, range(3)], ids=repr
)
def test_what_is_no_text_stops_the_walk(texts: Any) -> None:
    assert Walked(walk_of({}, LEARN), [{"a": "x"}, {"a": texts}]).reason == STOP


def test_the_dict_of_words_is_not_read_while_it_grows() -> None:
    words: dict[Any, int] = {f"word {i}": i for i in range(100)}
    maps = [{"new": 1.5}, words, {"newer": 2.5}]
    found = Walked(walk_of(words, LEARN), maps, room=300)
    assert (found.read, found.reason, found.columns) == (1, STOP, [100])


def test_text_of_numpy_is_text() -> None:
    maps: list[Any] = [{"a": np.str_("x")}, {"a": [np.str_("y"), "x"]}, {"a": np.str_("")}]
    words: dict[Any, int] = {}
    found = Walked(walk_of(words, LEARN), maps)

    assert list(words) == ["a=x", "a=y", "a="]
    assert set(map(type, words)) == {str}
    assert found.columns == [0, 1, 0, 2]


def test_one_name_has_one_column_however_it_is_made() -> None:
    maps: list[Any] = [{"a=b": 5, "a": "b"}, {"a": "b=c", "a=b": "c", "a=b=c": 2}]
    words: dict[Any, int] = {}
    found = Walked(walk_of(words, LEARN), maps)

    assert words == {"a=b": 0, "a=b=c": 1}
    assert found.columns == [0, 0, 1, 1, 1]


def test_true_and_one_are_the_same_key_but_not_in_a_name() -> None:
    words: dict[Any, int] = {}
    assert Walked(walk_of(words, LEARN), [{True: 2, 0: 3}, {1: 4}]).columns == [0, 1, 0]
    assert list(map(repr, words)) == ["True", "0"]
    assert Walked(walk_of({}, LEARN), [{1: "x"}, {True: "x"}]).read == 1


@pytest.mark.parametrize("key", [None, 1.5, ("a",), np.str_("a"), np.int64(1), b"a"], ids=repr)
def test_other_keys_stop_the_walk(key: Any) -> None:
    for value in (1.0, "x", ["x"]):
        assert Walked(walk_of({}, LEARN), [{"a": 1}, {key: value}]).read == 1


def test_a_separator_may_be_empty_or_long() -> None:
    for separator in ("", "::", "é" * 50):
        words: dict[Any, int] = {}
        Walked(walk_of(words, LEARN, separator=separator), [{"a": "x", "é": "ü", 5: "y"}])
        assert list(words) == [f"a{separator}x", f"é{separator}ü", f"5{separator}y"]


# ---- unknown names ----


def test_unknown_names_are_left_out_or_end_the_walk() -> None:
    maps: list[Any] = [{"a": 1, "g": "x"}, {"b": 1}, {"g": "y"}, {"g": ["x", "y"]}, {"a": 2}]
    found = Walked(walk_of({"a": 0, "g=x": 1}), maps)
    assert found.columns == [0, 1, 1, 0]
    assert found.offsets == [0, 2, 2, 2, 3, 4]
    for n in (1, 2, 3):
        assert Walked(walk_of({"a": 0, "g=x": 1}, REFUSE), [maps[0], maps[n]]).read == 1


def test_unknown_texts_that_are_ever_new_are_not_kept() -> None:
    walk = walk_of({"g=x": 0})
    for n in range(200):
        assert Walked(walk, [{"g": f"new{n}"}, {"g": "x"}]).columns == [0]

    assert len(walk._categories["g"]) < 10


@pytest.mark.parametrize("column", [1, -1, 2**40, 1.0, None, True, np.int64(0)], ids=repr)
def test_what_is_no_column_stops_the_walk(column: Any) -> None:
    for record in ({"a": 1.0}, {"b": "x"}):
        assert (
            Walked(walk_of({"a": column} if "a" in record else {"b=x": column}), [record]).read == 0
        )


# ---- room ----


@pytest.mark.parametrize("room", range(7))
def test_no_room_for_a_map(room: int) -> None:
    maps: list[Any] = [{"a": 1, "t": "x"}, {"t": ["x", "y", "z"]}, {"b": 1}]
    words: dict[Any, int] = {}
    walk = walk_of(words, LEARN)
    found = Walked(walk, maps, room=room)

    ends = [2, 5, 6]
    assert found.read == sum(end <= room for end in ends)
    assert found.reason == (DONE if room >= 6 else FULL)
    again = Walked(walk, maps)
    assert again.columns == [0, 1, 1, 2, 3, 4]
    assert list(words) == ["a", "t=x", "t=y", "t=z", "b"]


def test_no_room_for_offsets() -> None:
    found = Walked(walk_of({"a": 0}), [{"a": 1}] * 5, rows=3)
    assert (found.read, found.reason) == (3, FULL)


@pytest.mark.parametrize("text", ["x", ["x"], ("x",), {"x"}], ids=repr)
def test_many_keys_with_text(text: Any) -> None:
    """New keys need dicts that are made outside of the walk, some at a time."""
    maps = [{f"k{n}": text for n in range(1000)}]
    words: dict[Any, int] = {}
    walk = walk_of(words, LEARN)
    calls = 0
    while True:
        found = Walked(walk, maps, room=1000)
        calls += 1
        if found.reason == DONE:
            break
        assert found.reason == FULL
    assert calls < 20
    assert found.columns == list(range(1000))
    assert list(words) == [f"k{n}=x" for n in range(1000)]


def test_empty_maps_stand_in_their_places() -> None:
    maps: list[Any] = [{}, {}, {"a": 1}, {}, {}, {}, {"a": 2, "b": 3}, {"b": 4}, {}, {"a": 5}, {}]
    found = Walked(walk_of({"a": 0}), maps)
    assert found.offsets == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3]
    assert found.values == [1, 2, 5]
    # The last one that is complete stands before one that is not.
    found = Walked(walk_of({"a": 0}), [*maps[:6], {"a": 1j}])
    assert (found.read, found.reason, found.offsets) == (6, STOP, [0, 0, 0, 1, 1, 1, 1])


def test_the_first_map_may_be_any() -> None:
    maps = [{"a": n} for n in range(20)]
    for container in (list, tuple):
        assert Walked(walk_of({"a": 0}), container(maps), first=17).values == [17, 18, 19]
    assert Walked(walk_of({"a": 0}), maps, first=20).read == 0


def test_dicts_counters_and_defaultdicts_are_walked() -> None:
    maps: list[Any] = [{"a": 1}, Counter(a=2), defaultdict(int, a=3), {}, OrderedDict(a=4)]
    found = Walked(walk_of({"a": 0}), maps)
    assert (found.read, found.reason) == (4, STOP)
    assert found.values == [1, 2, 3]


# ---- what an address means ends with the call ----


def test_addresses_that_are_used_again_mean_what_is_there_now() -> None:
    """Keys and texts of one call are gone in the next; new ones stand in their places."""
    names = [f"n{n}" for n in range(30)]
    words: dict[Any, int] = {name: column for column, name in enumerate(names)}
    words |= {f"{name}={name}": 30 + column for column, name in enumerate(names)}
    walk = walk_of(words)
    rng = np.random.default_rng(0)
    for _ in range(300):
        chosen = [names[n] for n in rng.permutation(30)[:8]]
        maps = json.loads(json.dumps([dict.fromkeys(chosen, 1.5), {n: n for n in chosen}]))
        found = Walked(walk, maps)
        assert found.columns == [words[n] for n in chosen] + [words[f"{n}={n}"] for n in chosen]
        del maps


def test_a_number_and_a_text_under_one_key_are_told_apart_among_many() -> None:
    """Far more texts than the memo holds, in which older ones move aside."""
    words: dict[Any, int] = {f"n{n}": n for n in range(60)}
    texts = [f"t{n}" for n in range(1000)]
    maps: list[Any] = [{key: each} for key in words for each in (texts, 1.5, 2.5)]
    walk = walk_of(words)
    found = Walked(walk, maps)
    while found.reason == FULL:  # dicts for the texts of more keys
        found = Walked(walk, maps, room=120)
    assert (found.read, found.reason) == (180, DONE)
    assert found.columns == [column for column in range(60) for _ in range(2)]
    assert found.values == [1.5, 2.5] * 60


def test_what_is_made_within_is_given_back() -> None:
    """Names, the digits of a key, texts of NumPy's as plain ones, and columns."""
    maps: list[Any] = [
        {f"key {n}": f"text {n}" for n in range(400)},
        {1000 + n: np.str_(f"text {n}") for n in range(400)},
    ]

    def learn() -> None:
        words: dict[Any, int] = {}
        walk = walk_of(words, LEARN)
        while Walked(walk, maps, room=800).reason == FULL:
            pass
        assert len(words) == 800

    def refuse() -> None:
        walk = walk_of({"a": 0}, REFUSE)
        assert Walked(walk, [{"key": "text"}], room=9).reason == STOP
        assert Walked(walk, [{1000: "text"}], room=9).reason == STOP

    for call, times in ((learn, 8), (refuse, 400)):
        blocks = list[int]()
        for _ in range(2):
            for _ in range(times):
                call()
            gc.collect()
            blocks.append(sys.getallocatedblocks())
        assert blocks[1] - blocks[0] < 300


def test_nothing_leaks() -> None:
    text, key, words = "text of its own", "key of its own", {"key of its own=known": 0}
    walk = walk_of(words)
    maps: list[Any] = [{key: text}, {key: [text, np.str_("known")]}, {5: text, key: 1.0}]
    Walked(walk, maps)
    before = sys.getrefcount(text), sys.getrefcount(key), sys.getrefcount(words)
    for _ in range(1000):
        Walked(walk, maps)
    assert before == (sys.getrefcount(text), sys.getrefcount(key), sys.getrefcount(words))


def test_the_garbage_collector_does_not_run_within() -> None:
    """It would run any code; on Python 3.11 a new dict may start it."""
    maps = [{f"k{n}": f"x{n}" for n in range(60)}]
    walk = walk_of({}, LEARN)
    walk._spare += [{} for _ in range(100)]
    columns, values, offsets = np.zeros(60, np.int32), np.zeros(60), np.zeros(2, np.int64)
    walk.read(maps, 1, columns, values, offsets)
    learned: list[int] = []
    gc.callbacks.append(lambda *_: learned.append(len(walk._words)))
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(1)
        recordwalk._walk_records(id(maps), 0, walk._context.ctypes.data, columns, values, offsets)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.pop()
    assert columns.tolist() == list(range(60))
    assert set(learned) <= {0, 60}


# ---- order ----


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint32, np.int8, complex])
@pytest.mark.parametrize("renumbered", [True, False])
def test_rows_are_put_in_the_order_of_their_columns(dtype: Any, renumbered: bool) -> None:
    rng = np.random.default_rng(3)
    lengths = np.array([0, 1, 2, 7, 16, 17, 40, 63, 64, 0])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    columns = np.concatenate([rng.permutation(100)[:n] for n in lengths]).astype(np.int32)
    values = rng.integers(0, 100, len(columns)).astype(dtype)
    column_of = rng.permutation(100).astype(np.int32) if renumbered else np.empty(0, np.int32)
    expected = column_of[columns] if renumbered else columns.copy()
    pairs = [
        sorted(zip(expected[lo:hi].tolist(), values[lo:hi].tolist(), strict=True))
        for lo, hi in pairwise(offsets.tolist())
    ]
    is_sorted = arrange(columns, values, offsets, 0, len(lengths), column_of)

    assert is_sorted == (values.itemsize in (4, 8))
    if is_sorted:
        found = list(zip(columns.tolist(), values.tolist(), strict=True))
        assert found == [pair for row in pairs for pair in row]
    else:
        assert columns.tolist() == expected.tolist()


def test_equal_columns_keep_their_order_or_the_row_is_left() -> None:
    for n, is_sorted in ((16, True), (17, False), (65, False)):
        columns = np.array([3, 1, 3, 2, *range(n, 4, -1)][:n], np.int32)
        values = np.arange(float(n))
        before = columns.tolist()
        assert arrange(columns, values, np.array([0, n]), 0, 1, np.empty(0, np.int32)) == is_sorted
        if is_sorted:
            assert columns[:4].tolist() == [1, 2, 3, 3]
            assert values[:4].tolist() == [1, 3, 0, 2]
        else:
            assert (columns.tolist(), values.tolist()) == (before, [float(i) for i in range(n)])


@pytest.mark.parametrize("offsets", [[0, 5], [-1, 2], [2, 1]])
def test_offsets_and_codes_that_are_none_are_refused(offsets: Any) -> None:
    columns, values = np.array([0, 1, 2], np.int32), np.zeros(3)
    with pytest.raises(RuntimeError, match="rows changed while they were sorted"):
        arrange(columns, values, np.array(offsets), 0, 1, np.empty(0, np.int32))
    with pytest.raises(RuntimeError, match="rows changed while they were sorted"):
        arrange(columns, values, np.array([0, 3]), 0, 1, np.array([0, 1], np.int32))


def test_it_is_not_available_without_a_compiler() -> None:
    code = "from nbmapops._reading.recordwalk import available; print(available())"
    assert run(code, NUMBA_DISABLE_JIT="1").strip() == "False"
