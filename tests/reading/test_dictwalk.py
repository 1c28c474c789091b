"""The compiled reading of dicts: same answers as plain loops, and nothing that could crash."""

from __future__ import annotations

import ctypes
import enum
import json
import os
import sys
import textwrap
from collections import Counter, OrderedDict, UserDict, defaultdict
from decimal import Decimal
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.errors import TypingError

from ..fresh import run
from ..outcomes import outcome
from ..ways import way

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

from nbmapops import DictVectorizer, UnknownKeyError
from nbmapops._limits import limits
from nbmapops._reading import dictwalk, objects
from nbmapops._reading.dictwalk import DONE, FULL, STOP, available, walk

pytestmark = pytest.mark.usefixtures("walking")

SENTINEL = 77


class Arrays(NamedTuple):
    """Arrays for `walk` that stand inside larger ones, so that a stray write shows."""

    wholes: tuple[np.ndarray[Any, Any], ...]
    keys: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    offsets: np.ndarray[Any, Any]

    @classmethod
    def of(cls, keys: int, values: int, offsets: int, dtype: Any = np.float64) -> Arrays:
        wholes = tuple(
            np.full(size + 6, SENTINEL, kind)
            for size, kind in ((keys, np.int64), (values, dtype), (offsets, np.int64))
        )
        inner = [whole[3:-3] for whole in wholes]
        inner[2][:1] = 0
        return cls(wholes, *inner)

    def edges_hold(self) -> bool:
        return all(
            bool((whole[:3] == SENTINEL).all() and (whole[-3:] == SENTINEL).all())
            for whole in self.wholes
        )


def plain_key(key: Any, words: dict[str, int] | None, learn: bool) -> int | None:
    """Key or code as `walk` takes it; None where it stops."""
    if words is None:
        return int(key) if type(key) in (int, bool) and -(2**63) <= key < 2**63 else None
    if type(key) is not str:
        return None
    if key not in words:
        if not learn:
            return -1
        words[key] = len(words)
    return words[key]


def plain_value(value: Any, dtype: Any) -> Any:
    """Value as `walk` takes it; None where it stops."""
    kind = type(value)
    if dtype is np.float32:
        return value if kind is np.float32 else None
    if kind in (int, bool) and -(2**63) <= value < 2**63:
        return int(value) if dtype is np.int64 or int(float(value)) == value else None
    return float(value) if dtype is np.float64 and kind in (float, np.float64, np.float32) else None


def plain_walk(
    maps: Any,
    first: int,
    words: dict[str, int] | None,
    learn: bool,
    room: int,
    most: int,
    dtype: Any,
) -> tuple[int, list[int], list[Any], list[int]]:
    """Reason, keys, values and offsets, by plain loops."""
    keys: list[int] = []
    values: list[Any] = []
    offsets = [0]
    for item in maps[first:]:
        if len(offsets) > most:
            return FULL, keys, values, offsets
        if type(item) not in (dict, Counter, defaultdict):
            return STOP, keys, values, offsets
        if offsets[-1] + len(item) > room:
            return FULL, keys, values, offsets
        pairs = []
        for key, value in item.items():
            pair = plain_key(key, words, learn), plain_value(value, dtype)
            if None in pair:
                return STOP, keys, values, offsets
            pairs.append(pair)
        keys += [key for key, _ in pairs]  # type: ignore[misc]
        values += [value for _, value in pairs]
        offsets.append(len(keys))
    return DONE, keys, values, offsets


def name_of(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"


class Colour(enum.IntEnum):
    RED = 3


class Text(str):
    __slots__ = ()


class Number(float):
    __slots__ = ()


class Dict(dict[Any, Any]):
    pass


int64s = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from(
        [s * 2**power + d for power in (30, 53, 60, 62) for d in (-1, 0, 1) for s in (-1, 1)]
    ),
    st.booleans(),
)
big_ints = st.sampled_from([2**63, -(2**63) - 1, 2**64, 2**70, 2**2000])
doubles = st.one_of(st.floats(), st.floats().map(np.float64))
singles = st.floats(width=32).map(np.float32)
texts = st.text(alphabet="ab\0é\u20ac\U0001f600\ud800", max_size=3)
odd_values = st.sampled_from(
    [None, "a", 1j, Colour.RED, Number(1.5), np.int64(1), np.float16(1), np.bool_(True), [1.0]]
)
odd_keys = st.one_of(
    big_ints,
    st.sampled_from([Colour.RED, Text("a"), b"a", None, 1.5, np.int64(4), np.str_("a"), ()]),
)
odd_maps = st.sampled_from(
    [
        OrderedDict({1: 1.0}),
        Dict({1: 1.0}),
        UserDict({1: 1.0}),
        MappingProxyType({1: 1.0}),
        None,
        [(1, 1.0)],
        dict,
        3,
    ]
)
VALUES = {np.float64: st.one_of(doubles, int64s, singles), np.int64: int64s, np.float32: singles}
DTYPES = list(VALUES)
EVERY_VALUE = st.one_of(doubles, int64s, big_ints, singles, odd_values)


def as_map(pairs: list[tuple[Any, Any]], kind: Any, fresh: bool) -> Any:
    """Make a map of an exact type; `fresh`: its str keys are objects of their own."""
    if fresh:
        pairs = [("".join(list(k)) if type(k) is str else k, value) for k, value in pairs]
    made = kind(int) if kind is defaultdict else kind()
    dict.update(made, pairs)
    return made


def maps_of(keys: Any, values: Any) -> Any:
    pairs = st.lists(st.tuples(keys, values), max_size=5)
    kinds = st.sampled_from([dict, dict, Counter, defaultdict])
    return st.builds(as_map, pairs, kinds, st.booleans())


@st.composite
def cases(draw: Any, odd: bool) -> tuple[Any, ...]:
    """Draw maps, first, words (None: int keys), learn, sizes of three arrays, dtype."""
    dtype = draw(st.sampled_from(DTYPES))
    textual = draw(st.booleans())
    keys = texts if textual else int64s
    plain = maps_of(keys, VALUES[dtype])
    if odd:
        strange = maps_of(st.one_of(keys, keys, odd_keys), st.one_of(VALUES[dtype], EVERY_VALUE))
        plain = st.one_of(plain, plain, strange, odd_maps)
    maps = draw(st.lists(plain, max_size=6))
    words = {word: 3 * i for i, word in enumerate(draw(st.lists(texts, unique=True, max_size=6)))}
    total = sum(len(each) for each in maps if isinstance(each, dict))
    sizes = [draw(st.one_of(st.just(total + 1), st.integers(0, total + 1))) for _ in range(2)]
    offsets = draw(st.one_of(st.just(len(maps) + 1), st.integers(1, len(maps) + 2)))
    first = draw(st.one_of(st.just(0), st.integers(0, len(maps) + 1)))
    kind = draw(st.sampled_from([list, tuple]))
    return (
        kind(maps),
        first,
        words if textual else None,
        draw(st.booleans()),
        *sizes,
        offsets,
        dtype,
    )


def check(case: tuple[Any, ...]) -> tuple[int, int]:
    """Compare one walk with plain loops; its answer."""
    maps, first, words, learn, n_keys, n_values, n_offsets, dtype = case
    arrays = Arrays.of(n_keys, n_values, n_offsets, dtype)
    expected_words = None if words is None else dict(words)
    room = min(n_keys, n_values)
    reason, keys, values, offsets = plain_walk(
        maps, first, expected_words, learn, room, n_offsets - 1, dtype
    )
    kind = "int64" if words is None else "string"
    answer = walk(maps, first, kind, words, learn, *arrays[1:])
    assert answer == (len(offsets) - 1, reason)
    assert arrays.keys[: len(keys)].tolist() == keys
    same = arrays.values[: len(values)].tobytes() == np.array(values, dtype).tobytes()
    assert same, (arrays.values[: len(values)], values)
    assert arrays.offsets[: len(offsets)].tolist() == offsets
    assert arrays.edges_hold()
    assert words is None or list(words.items()) == list((expected_words or {}).items())
    return answer


def read(
    maps: Any, words: dict[str, int] | None = None, *, learn: bool = False, dtype: Any = np.float64
) -> tuple[int, int]:
    """Compare a walk over all maps, with room to spare, with plain loops; its answer."""
    total = sum(len(each) for each in maps if isinstance(each, dict))
    return check((maps, 0, words, learn, total + 9, total + 9, len(maps) + 1, dtype))


@given(cases(odd=False))
def test_maps_are_read_like_plain_loops_read_them(case: tuple[Any, ...]) -> None:
    _, reason = check(case)
    assert reason != STOP or case[-1] is np.float64  # an int that float64 does not hold


@given(cases(odd=True))
def test_anything_odd_stops_at_its_map(case: tuple[Any, ...]) -> None:
    check(case)


@pytest.mark.parametrize("words", [None, {}], ids=["int64", "string"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_full_at_every_position(words: dict[str, int] | None, dtype: Any) -> None:
    value = dtype(1) if dtype is np.float32 else 1
    keys = range(4) if words is None else "abcd"
    maps = [dict.fromkeys(list(keys)[:n], value) for n in (0, 3, 0, 1, 4, 0)]
    reasons = Counter(
        check((maps, first, words, True, n_keys, n_values, n_offsets, dtype))[1]
        for first in range(7)
        for n_keys in range(10)
        for n_values in (n_keys - 1, n_keys, 9)
        if n_values >= 0
        for n_offsets in range(1, 9)
    )
    assert reasons[FULL] > 500
    assert reasons[DONE] > 300


SIZES = (20, 0, 33, 64, 0, 0, 1, 32, 100, 31, 7)


@pytest.mark.parametrize("textual", [False, True])
def test_maps_of_many_sizes_stop_and_fill_up_at_every_entry(textual: bool) -> None:
    """Entries are noted in groups, which end within maps and within entries that are odd."""
    for bad in range(sum(SIZES)):
        rest = iter(range(sum(SIZES)))
        maps = [
            {str(i) if textual else i: "a" if i == bad else i / 2 for i in islice(rest, size)}
            for size in SIZES
        ]
        assert read(maps, {} if textual else None, learn=True)[1] == STOP
        good = [each for each in maps if "a" not in each.values()]
        check((good, 0, {} if textual else None, True, bad, bad, 12, np.float64))


ODD_VALUES = [
    None,
    "1",
    1j,
    2**63,
    -(2**63) - 1,
    Colour.RED,
    Number(1.5),
    np.int64(1),
    np.float16(1),
    np.longdouble(1),
    np.bool_(True),
    [1.0],
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("odd", ODD_VALUES, ids=name_of)
def test_odd_values_stop(odd: Any, dtype: Any) -> None:
    one = dtype(1) if dtype is np.float32 else 1
    assert read([{1: one, 2: one}, {3: one, 4: odd}, {5: one}], dtype=dtype) == (1, STOP)
    assert read([{"1": one, "2": one}, {"3": one, "4": odd}], {}, dtype=dtype) == (1, STOP)


@pytest.mark.parametrize(
    "odd", [1.5, None, b"a", "a", 2**63, -(2**64), Colour.RED, np.int64(4)], ids=name_of
)
def test_odd_keys_stop_a_walk_over_int_keys(odd: Any) -> None:
    assert read([{1: 1.5}, {2: 2.5, odd: 1.5}, {5: 1.5}]) == (1, STOP)


@pytest.mark.parametrize("odd", [1, None, b"a", Text("a"), np.str_("a"), ("a",)], ids=name_of)
def test_odd_keys_stop_a_walk_over_str_keys(odd: Any) -> None:
    assert read([{"a": 1.5}, {"b": 2.5, odd: 1.5}, {"c": 1.5}], {"a": 3}) == (1, STOP)


@pytest.mark.parametrize(
    "odd",
    [OrderedDict(), Dict(), UserDict(), MappingProxyType({}), None, [], dict, np.zeros(2)],
    ids=name_of,
)
def test_odd_maps_stop(odd: Any) -> None:
    assert read([{1: 1.5}, odd, {2: 2.5}]) == (1, STOP)
    assert read(({"a": 1.5}, odd), {}) == (1, STOP)


class List(list[Any]):
    pass


@pytest.mark.parametrize(
    "maps",
    [List([{1: 1.5}]), {1: 1.5}, None, iter(()), np.zeros(1, object)],
    ids=lambda maps: type(maps).__name__,
)
def test_only_exact_lists_and_tuples_are_walked(maps: Any) -> None:
    arrays = Arrays.of(4, 4, 4)
    assert walk(maps, 0, "int64", None, False, *arrays[1:]) == (0, STOP)
    assert walk(maps, 0, "string", {}, False, *arrays[1:]) == (0, STOP)


def test_a_negative_first_map_is_refused() -> None:
    assert walk([{1: 1.5}], -1, "int64", None, False, *Arrays.of(4, 4, 4)[1:]) == (0, STOP)
    assert walk([{"a": 1.5}], -1, "string", {}, False, *Arrays.of(4, 4, 4)[1:]) == (0, STOP)


@pytest.mark.parametrize("words", [None, OrderedDict(a=1), Dict(a=1), [], "a"], ids=name_of)
def test_only_an_exact_dict_of_words_is_looked_at(words: Any) -> None:
    assert walk([{"a": 1.5}], 0, "string", words, True, *Arrays.of(4, 4, 4)[1:]) == (0, STOP)


@pytest.mark.parametrize("code", [True, -1, 2**63, None, 1.0, Colour.RED, np.int64(1)], ids=name_of)
def test_a_code_that_is_no_plain_number_stops(code: Any) -> None:
    words = {"a": 1, "b": code}
    maps = [{"a": 1.5}, {"b": 1.5}]
    assert walk(maps, 0, "string", words, False, *Arrays.of(4, 4, 4)[1:]) == (1, STOP)


def test_dicts_of_every_inner_form_are_read() -> None:
    holes = {i: i / 2 for i in range(1000)}
    for i in range(0, 1000, 3):
        del holes[i]
    emptied = dict.fromkeys(range(40), 0.5)
    while emptied:
        emptied.popitem()
    moved = {1: 1.5, 2: 2.5, 3: 3.5}
    moved[1] = moved.pop(1)
    grown = defaultdict(float, {i: float(i) for i in range(70_000)})
    assert grown[-1] == 0.0
    assert read([holes, emptied, moved, grown, {}, dict.fromkeys(range(9), 1.5)]) == (6, DONE)
    texts = {f"{i}": i / 2 for i in range(1000)}
    for i in range(0, 1000, 7):
        del texts[f"{i}"]
    mixed: dict[Any, float] = {5: 1.5, **texts}  # as a table of any keys holds them
    del mixed[5]
    assert read([texts, mixed, dict(mixed)], {"1": 0, "999": 1}) == (3, DONE)


def test_attributes_of_objects_are_read() -> None:
    class Point:
        def __init__(self, x: float) -> None:
            self.x = x
            self.y = -x
            if x > 2:
                del self.x
                self.z = x

    points: list[Any] = [vars(Point(x)) for x in (1.0, 2.0, 3.0)]
    assert read(points, {"y": 0, "x": 1}) == (3, DONE)
    among = [each for point in points for each in ({"y": 0.5, "z": 1.5}, point)]
    assert read(among, {"y": 0, "x": 1}) == (6, DONE)


def test_the_dict_of_words_is_not_read_while_it_grows() -> None:
    words = {f"word {i}": i for i in range(100)}
    maps = [{"new": 1.5}, words, {"newer": 2.5}]
    arrays = Arrays.of(300, 300, 6)
    assert walk(maps, 0, "string", words, True, *arrays[1:]) == (1, STOP)
    assert walk(maps, 0, "string", words, False, *arrays[1:]) == (3, DONE)
    assert arrays.keys[:103].tolist() == [100, *range(101), -1]
    assert list(words.values()) == list(range(101))


@pytest.mark.parametrize("count", [1, 10, 500, 1500, 40_000])
@pytest.mark.parametrize("learn", [False, True])
def test_more_words_than_the_memo_holds(count: int, learn: bool) -> None:
    rng = np.random.default_rng(count)
    names = [f"word {i}" for i in range(count)]
    draws = [rng.integers(0, count, 20).tolist() for _ in range(2000)]
    maps = [{names[i]: float(i) for i in draw} for draw in draws]
    words = {} if learn else {name: i for i, name in enumerate(names) if i % 3}
    assert read(maps, words, learn=learn) == (2000, DONE)
    arrays = Arrays.of(4000, 4000, 2001)
    first, codes = 0, []
    while first < len(maps):  # in chunks
        count, reason = walk(maps, first, "string", words, learn, *arrays[1:])
        codes += arrays.keys[: arrays.offsets[count]].tolist()
        first += count
        assert reason == (DONE if first == len(maps) else FULL)
    assert codes == [words.get(key, -1) for each in maps for key in each]


@pytest.mark.parametrize("learn", [False, True])
def test_addresses_that_are_used_again_by_other_keys(learn: bool) -> None:
    words = {} if learn else {f"key {i}": i for i in range(4000)}
    arrays = Arrays.of(5000, 5000, 5000)
    before: set[int] = set()
    shared = 0
    for chunk in range(8):
        text = json.dumps([{f"key {(7 * i + 501 * chunk) % 4000}": 0.5} for i in range(4000)])
        maps = json.loads(text)
        now = {id(key) for each in maps for key in each}
        shared += len(now & before)
        before = now
        assert walk(maps, 0, "string", words, learn, *arrays[1:]) == (4000, DONE)
        assert arrays.keys[:4000].tolist() == [words[key] for each in maps for key in each]
        del maps
    assert shared > 1000  # else this shows nothing


class Hostile:
    """Any attempt to use such an object runs code, which would be noticed."""

    calls = 0

    def hit(self, *_: Any) -> Any:
        Hostile.calls += 1
        return NotImplemented

    def hash_of(self, *_: Any) -> int:
        Hostile.calls += 1
        return 1

    __float__ = __index__ = __int__ = __bool__ = __eq__ = __len__ = __iter__ = __getitem__ = hit
    __hash__ = hash_of


class HostileText(str):
    __slots__ = ()
    __hash__ = Hostile.hash_of
    __eq__ = __len__ = Hostile.hit


class HostileInt(int):
    __hash__ = Hostile.hash_of
    __eq__ = __index__ = __int__ = Hostile.hit


class HostileFloat(float):
    __slots__ = ()
    __hash__ = Hostile.hash_of
    __eq__ = __float__ = Hostile.hit


class HostileDict(dict[Any, Any]):
    __iter__ = __len__ = items = keys = __getitem__ = Hostile.hit


class Disguised(Hostile):
    """An object that says it is a dict, a float, ..."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        Hostile.calls += 1
        return dict


def hostile_maps() -> Iterator[Any]:
    yield {1: Hostile()}
    yield {"a": Hostile()}
    yield {1: HostileFloat(1.5)}
    yield {"a": HostileInt(1)}
    yield {1: HostileText("a")}
    yield {Hostile(): 1.5}
    yield Hostile()
    yield Disguised()
    yield HostileDict({1: 1.5})
    yield {HostileText("a"): 1.5}
    yield {HostileInt(1): 1.5}


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_code_of_keys_values_or_maps_is_run(dtype: Any) -> None:
    one = dtype(1) if dtype is np.float32 else 1
    for hostile in hostile_maps():
        for key, kind, words in ((1, "int64", None), ("a", "string", {"a": 1})):
            maps = [{key: one}, hostile]
            Hostile.calls = 0
            assert walk(maps, 0, kind, words, True, *Arrays.of(4, 4, 4, dtype)[1:]) == (1, STOP)
            assert Hostile.calls == 0
            assert words in (None, {"a": 1})


def test_reference_counts_stay() -> None:
    keys = [f"key {i}" for i in range(50)]
    numbers = [10_000 + i for i in range(50)]
    values: list[Any] = [i + 0.5 for i in range(40)] + [np.float32(i) for i in range(10)]
    codes = {key: 5000 + i for i, key in enumerate(keys[:40])}
    maps: list[Any] = [dict(zip(keys, values, strict=True)), Counter({keys[3]: 5}), {keys[0]: None}]
    ints: list[Any] = [dict(zip(numbers, values, strict=True)), {2**70: 1.0}]
    learned: dict[str, int] = {}
    watched = [*keys, *numbers, *values, *codes.values(), *maps, *ints, codes, learned, maps, ints]

    def counts() -> list[int]:
        return [sys.getrefcount(each) for each in watched]

    arrays = Arrays.of(60, 60, 9)
    assert walk(maps, 0, "string", codes, False, *arrays[1:]) == (2, STOP)
    assert walk(maps, 0, "string", learned, True, *arrays[1:]) == (2, STOP)
    before = counts()
    for _ in range(20):
        assert walk(maps, 0, "string", codes, False, *arrays[1:]) == (2, STOP)
        assert walk(maps, 0, "string", learned, True, *arrays[1:]) == (2, STOP)
        assert walk(maps, 2, "string", learned, True, *arrays[1:]) == (0, STOP)
        assert walk(ints, 0, "int64", None, True, *arrays[1:]) == (1, STOP)
    assert counts() == before
    fresh = {f"fresh {i}": i for i in range(300, 330)}
    assert walk([fresh], 0, "string", learned, True, *arrays[1:]) == (1, DONE)
    plain = {f"plain {i}": i for i in range(30)}
    held = dict(plain)  # what plain Python holds alike; the number differs between versions
    assert {sys.getrefcount(key) for key in fresh} == {sys.getrefcount(key) for key in plain}
    # A learned code belongs to `learned` alone.
    big = {f"many {i}": 1.5 for i in range(300)}
    arrays = Arrays.of(300, 300, 9)
    assert walk([big], 0, "string", learned, True, *arrays[1:]) == (1, DONE)
    held["many 299"] = int("1000299")
    counted = [sys.getrefcount(each["many 299"]) for each in (learned, held)]
    assert counted[0] == counted[1]


def test_no_exception_is_left_behind() -> None:
    occurred = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyErr_Occurred", ctypes.pythonapi))
    arrays = Arrays.of(9, 9, 9)
    for maps in ([{2**70: 1.0}], [{1: 2**70}], [{1: 2**53 + 1}], [{1: None}], [None], [{"a": 1.0}]):
        assert walk(maps, 0, "int64", None, False, *arrays[1:]) == (0, STOP)
        assert occurred() is None
    for word in ("b", "\ud800", ""):
        assert walk([{word: 1.0}], 0, "string", {"a": 1}, False, *arrays[1:]) == (1, DONE)
        assert occurred() is None
        assert arrays.keys[0] == -1


def test_lone_surrogates_and_nuls_are_words_like_others() -> None:
    words = {chr(0xD800): 4, "a\0": 5, "a": 6, chr(0xDFFF): 7}
    maps = [{"a": 1.0, "a\0": 2.0}, {chr(code): 0.5 for code in (0xDFFF, 0xD800, 0xD801)}]
    assert read(maps, words) == (2, DONE)


def test_numbers_keep_every_bit() -> None:
    singles = np.array([0x7FC00001, 0x80000000, 1, 0x7F800000], np.uint32).view(np.float32)
    doubles = np.array([0x7FF8000000000ABC, 1 << 63, 1], np.uint64).view(np.float64)
    assert read([dict(enumerate(singles))], dtype=np.float32) == (1, DONE)
    arrays = Arrays.of(4, 4, 2)
    assert walk([dict(enumerate(doubles))], 0, "int64", None, False, *arrays[1:]) == (1, DONE)
    assert arrays.values[:3].tobytes() == doubles.tobytes()
    assert walk([dict(enumerate(doubles.tolist()))], 0, "int64", None, False, *arrays[1:])[0] == 1
    assert arrays.values[:3].tobytes() == doubles.tobytes()


@pytest.mark.parametrize("sign", [1, -1])
def test_ints_where_float64_begins_to_lose(sign: int) -> None:
    for power in range(64):
        for number in (sign * (2**power + d) for d in range(-2, 3)):
            fits = -(2**63) <= number < 2**63
            exact = fits and int(float(number)) == number
            assert read([{0: number}]) == ((1, DONE) if exact else (0, STOP))
            assert read([{0: number}], dtype=np.int64) == ((1, DONE) if fits else (0, STOP))
            assert read([{number: 0}]) == ((1, DONE) if fits else (0, STOP))


# ---- in a process of its own: whatever could crash or needs another environment ----


HEAD = """
import gc, json, os, signal, sys, threading
import numpy as np
from nbmapops._reading.dictwalk import DONE, FULL, STOP, available, walk
assert available()
keys, values, offsets = np.zeros(20_000, np.int64), np.zeros(20_000), np.zeros(2_001, np.int64)
for kind in ("int64", "string"):  # compiled, loaded and tested before anything else happens
    assert walk([{}], 0, kind, {}, False, keys, values, offsets) == (1, DONE)
def pairs(count):
    end = offsets[count]
    return zip(keys[:end].tolist(), values[:end].tolist())
"""


def script(body: str) -> str:
    return HEAD + textwrap.dedent(body)


def test_another_thread_changes_the_dicts_and_lists_meanwhile() -> None:
    # Every entry that is ever in a map has value = key / 2: so must every entry read.
    body = """
    sys.setswitchinterval(1e-5)
    maps = [{i + j: (i + j) / 2 for j in range(10)} for i in range(0, 5000, 10)]
    words = {}
    texts = [{str(k): v for k, v in each.items()} for each in maps]
    running = True
    def change():
        n = 0
        while running:
            n += 1
            for group, name in ((maps, int), (texts, str)):
                each = group[n % len(group)]
                each[name(n)] = n / 2
                if len(each) > 12:
                    each.pop(next(iter(each)))
                if n % 50 == 0:
                    group.append({name(n): n / 2})
                    del group[n % len(group)]
                if n % 1000 == 0:
                    group[0].clear()
                    group[-1] = {name(k): k / 2 for k in range(n, n + 300)}
    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    walks = 0
    while walks < 20 or len(words) < 6000:
        count, reason = walk(maps, 0, "int64", None, False, keys, values, offsets)
        assert reason == DONE and count >= 499, (count, reason)
        assert all(key / 2 == value for key, value in pairs(count))
        count, reason = walk(texts, 0, "string", words, True, keys, values, offsets)
        assert reason == DONE
        names = list(words)
        assert all(int(names[key]) / 2 == value for key, value in pairs(count))
        walks += 1
    running = False
    thread.join()
    """
    run(script(body))


def test_threads_walk_at_the_same_time() -> None:
    body = """
    sys.setswitchinterval(1e-5)
    maps = [{f"w{(i * j) % 97}": float(j) for j in range(20)} for i in range(500)]
    words = {f"w{i}": i for i in range(90)}
    expected = [words.get(key, -1) for each in maps for key in each]
    wrong = []
    def work():
        keys, values = np.zeros(10_000, np.int64), np.zeros(10_000)
        offsets = np.zeros(501, np.int64)
        for _ in range(100):
            answer = walk(maps, 0, "string", words, False, keys, values, offsets)
            if answer != (500, DONE) or keys[:len(expected)].tolist() != expected:
                wrong.append(answer)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not wrong, wrong
    """
    run(script(body))


def test_the_garbage_collector_runs_meanwhile() -> None:
    body = """
    gc.set_threshold(1, 1, 1)
    class Cycle:
        def __init__(self): self.me = self
        def __del__(self): made.append(len(made))
    made = []
    running = True
    def collect():
        while running:
            Cycle(); gc.collect()
    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    words = {}
    turn = -1
    while turn < 60 or len(made) < 50:
        turn += 1
        maps = json.loads(json.dumps([{f"{turn} {i} {j}": j for j in range(5)} for i in range(50)]))
        Cycle()
        assert walk(maps, 0, "string", words, True, keys, values, offsets) == (50, DONE)
        assert list(words.values()) == list(range(250 * (turn + 1)))
    running = False
    thread.join()
    """
    run(script(body))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_walks() -> None:
    body = """
    maps = [{f"w{i}": 1.0, "a": 2.0} for i in range(1000)]
    ints = [{i: 1.0} for i in range(1000)]
    words = {"a": 7}
    def both():
        return (
            walk(maps, 0, "string", words, True, keys, values, offsets) == (1000, DONE)
            and walk(ints, 0, "int64", None, False, keys, values, offsets) == (1000, DONE)
            and keys[:1000].tolist() == list(range(1000))
        )
    for warm in (False, True):
        child = os.fork()
        if child == 0:
            os._exit(0 if available() and both() else 1)
        status = os.waitpid(child, 0)[1]
        assert status == 0, status  # 256 times the exit code, or the signal
        assert both()
    """
    run(script(body))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no interval timers")
def test_signal_handlers_run_between_walks() -> None:
    # The handler changes what is walked, walks itself, and sometimes raises.
    body = """
    class Interrupt(Exception): pass
    maps = [{f"w{i % 50}": i / 2 for i in range(j, j + 8)} for j in range(400)]
    words, mine = {}, [np.zeros(9, np.int64), np.zeros(9), np.zeros(9, np.int64)]
    ticks = raised = walks = 0
    walking = False
    def tick(number, frame):
        global ticks, raised, walking
        ticks += 1
        maps[ticks % 400] = {f"w{ticks % 60}": 0.5, f"x{ticks}": 1.5}
        if ticks % 3 == 0:
            maps.append(maps.pop(0))
        assert walk(({"w1": 1.5},), 0, "string", words, True, *mine) == (1, DONE)
        if walking and ticks % 7 == 0:
            walking = False
            raised += 1
            raise Interrupt
    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    while walks < 200 or ticks < 100 or raised < 10:
        try:
            walking = True
            count, reason = walk(maps, 0, "string", words, True, keys, values, offsets)
            walking = False
            assert reason == DONE and count == len(maps)
            walks += 1
        except Interrupt:
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert list(words.values()) == list(range(len(words)))
    """
    run(script(body))


GROWTH = """
import resource
maps = [{f"w{i}": 0.5 for i in range(j, j + 5)} for j in range(10)] + [None]
ints = [{i: i for i in range(5)}, {1: 2**70}]
words = {f"w{i}": i for i in range(12)}
short = keys[:16], values[:16], offsets[:9]
def calls(count):
    for _ in range(count):
        walk(maps, 0, "string", words, False, keys, values, offsets)
        walk(maps, 0, "string", {}, True, *short)
        walk(ints, 0, "int64", None, False, keys, values, offsets)
def used():
    gc.collect()
    return sys.getallocatedblocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
calls(2000)
blocks, peak = used()
calls(COUNT)
more_blocks, more_peak = used()
print(more_blocks - blocks, more_peak - peak)
"""


@pytest.mark.parametrize("count", [10_000, pytest.param(1_000_000, marks=pytest.mark.thorough)])
def test_memory_does_not_grow(count: int) -> None:
    pytest.importorskip("resource")
    blocks, peak = map(int, run(HEAD + GROWTH.replace("COUNT", str(count)), timeout=600).split())
    assert blocks < 100
    assert peak < 2000 * (1024 if sys.platform == "darwin" else 1)  # kB; bytes on macOS


def test_a_kernel_serves_every_type_of_value_and_is_loaded_by_another_process(
    tmp_path: Path,
) -> None:
    # A folder of its own: of two processes that write an index at once one loses its entry.
    code = """
    import numpy as np
    from nbmapops._reading import dictwalk
    assert dictwalk.available()
    ints = np.zeros(4, np.int64)
    for kind, maps in (("int64", [{1: 2}]), ("string", [{"a": 2}])):
        for values in (np.zeros(4, np.int64), np.zeros(4), np.zeros(4, np.float32)):
            dictwalk.walk(maps, 0, kind, {"a": 1}, False, ints, values, ints.copy())
    stats = [dictwalk._walk_int64.stats, dictwalk._walk_string.stats]
    print(sum(sum(each.cache_hits.values()) for each in stats), end=" ")
    print(sum(sum(each.cache_misses.values()) for each in stats))
    """
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["0", "2"]
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["2", "0"]


# ---- lists of dicts in the operators ----


@pytest.mark.parametrize("container", [list, tuple, iter])
def test_the_walk_goes_on_after_maps_that_it_does_not_take(
    container: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    maps: list[Any] = [
        {int(key): float(key) / 3 for key in rng.permutation(300)[: rng.integers(40)]}
        for _ in range(3000)
    ]
    maps[700] = {1: Decimal("0.5")}  # not for the walk
    maps[1500] = {key: float(key) for key in range(300)} | {7: 7}  # an int among floats
    maps[2999] = {}
    expected = np.zeros((3000, 300))
    for row, each in zip(expected, maps, strict=True):
        for key, value in each.items():
            row[key] = value
    monkeypatch.setattr(limits, "engine", "compiled")
    dv = DictVectorizer(int64_vocabulary=range(300))
    taken: list[int] = []

    def counted(read: Any) -> Any:
        def reading(*arguments: Any) -> Any:
            found = read(*arguments)
            taken.append(found[0])
            return found

        return reading

    monkeypatch.setattr(limits, "chunk_entries", 4096)
    for read in (dictwalk.walk, dictwalk.take):
        monkeypatch.setattr(dictwalk, read.__name__, counted(read))
    assert (dv.csr(container(maps)).toarray() == expected).all()
    assert 2990 <= sum(taken) < 3000


@pytest.mark.parametrize("number", [0, 1, 899, 900, 1999])
def test_a_bad_map_among_those_that_are_walked_is_named(number: int) -> None:
    maps: list[Any] = [{1: 0.5, 2: 1.5} for _ in range(2000)]
    dv = DictVectorizer(int64_vocabulary=[1, 2])
    skipping = DictVectorizer(int64_vocabulary=[1, 2], handle_unknown="ignore")
    maps[number] = {1: 0.5, 3: 1.5}
    with pytest.raises(UnknownKeyError, match=f"map {number}: key 3 "):
        dv.csr(maps)
    assert skipping.csr(maps).nnz == 3999
    maps[number] = {1: 0.5, 2: "a"}
    for operator in (dv, skipping):
        with pytest.raises(TypeError, match=f"map {number}: "):
            operator.csr(maps)


def test_empty_maps_do_not_decide_the_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "chunk_maps", 2)
    dv = DictVectorizer(int64_vocabulary=[0, 1])
    for value in (np.float32(0.5), 1, 0.5):
        matrix = dv.csr([{}, {}, {}, {0: value}])
        assert matrix.dtype == dv([{0: value}]).dtype
        assert matrix.toarray().tolist() == [[0, 0]] * 3 + [[value, 0]]


def test_a_map_longer_than_a_chunk_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "chunk_entries", 100)
    long = dict.fromkeys(range(101), 0.5)
    dv = DictVectorizer(int64_vocabulary=range(101))
    assert dv.csr([{1: 0.5}, long, {2: 0.5}]).indptr.tolist() == [
        0,
        1,
        len(long) + 1,
        len(long) + 2,
    ]


# ---- one dict into a row ----

NUMBERS = {1: 0, 7: 1, 2**62: 2, -(2**63): 3}
WORDS = {"a": 0, "b": 1, "": 2}


@pytest.mark.parametrize(
    ("mapping", "dtype", "row"),
    [
        ({7: 0.5, -(2**63): -0.0}, float, [0, 0.5, 0, -0.0]),
        ({7: np.float64(0.5), 2**62: 3, True: True}, float, [1, 0.5, 3, 0]),
        ({7: 2**63 - 1, 2**62: -(2**63)}, int, [0, 2**63 - 1, -(2**63), 0]),
        ({7: np.float32(0.1)}, np.float32, [0, np.float32(0.1), 0, 0]),
        ({"b": 1.5, "": 2.5}, float, [0, 1.5, 2.5]),
        ({}, float, [0, 0, 0, 0]),
    ],
)
def test_a_dict_fills_a_row(mapping: Any, dtype: Any, row: list[Any]) -> None:
    words, kind = (WORDS, "string") if "b" in mapping else (NUMBERS, "int64")
    filled = np.zeros(len(row), dtype)
    fill = dictwalk.row_filler(words, kind, skip_unknown=False)
    # Numbers of this test alone: other tests have counts of the constants above.
    mapping = {key: each if type(each) is int else each * 1 for key, each in mapping.items()}
    watched = [each for each in mapping.values() if type(each) is not int]

    before = [sys.getrefcount(each) for each in watched]
    taken = fill(mapping, filled)
    after = [sys.getrefcount(each) for each in watched]

    assert taken
    assert after == before
    assert filled.tobytes() == np.array(row, dtype).tobytes()


@pytest.mark.parametrize(
    "mapping",
    [
        {7: 0.5, 8: 0.5},  # unknown
        {7: 0.5, 2**70: 0.5},
        {7: 0.5, "a": 0.5},
        {7: 0.5, 7.0 + 1: 0.5},
        {7: 0.5, np.int64(1): 0.5},
        {7: "a"},
        {7: None},
        {7: 2**53 + 1},
        {7: type("Own", (float,), {})(1.5)},
    ],
)
def test_what_a_row_does_not_take(mapping: Any) -> None:
    fill = dictwalk.row_filler(NUMBERS, "int64", skip_unknown=False)
    assert not fill(mapping, np.zeros(4))
    assert not dictwalk.row_filler(WORDS, "string", skip_unknown=False)(mapping, np.zeros(4))


def test_unknown_keys_are_left_out_of_a_row() -> None:
    fill = dictwalk.row_filler(NUMBERS, "int64", skip_unknown=True)
    row = np.zeros(4)
    assert fill({7: 0.5, 8: 1.5, -1: 2}, row)
    assert not fill({7: 0.5, 2**70: 2.5}, row)
    assert not fill({"a": 0.5}, row)
    assert row.tolist() == [0, 0.5, 0, 0]


@pytest.mark.parametrize(
    "mapping",
    [
        {7: 1, 8: 2.5},  # a batch of it is float64
        {7: 1.5, 8: None},
        {7: 1.5, 8: "text"},
        {7: np.float32(1.5), 8: 2.5},
        {7: 1, 8: 2**70},
        {7: 1.5, 8: 2**53 + 1},
        {7: 1.5, 2**63: 2.5},
        {8: 1, 9: 2.5},
        {7: 1.5, 8: 2, 9: np.float64(3.5), 2**62: True},
    ],
)
def test_entries_that_are_left_out_have_a_say(mapping: Any) -> None:
    operators = [
        (DictVectorizer(int64_vocabulary=[7, 2**62], handle_unknown="ignore"), mapping),
        (
            DictVectorizer(string_vocabulary=["7", str(2**62)], handle_unknown="ignore"),
            {str(key): value for key, value in mapping.items()},
        ),
    ]
    for op, each in operators:
        one, batch = outcome(lambda: op(each)), outcome(lambda: op([each])[0])  # noqa: B023
        assert one == batch


def test_a_row_that_is_too_short_is_not_overrun() -> None:
    room = np.full(6, SENTINEL, float)
    fill = dictwalk.row_filler(NUMBERS, "int64", skip_unknown=False)
    assert not fill({1: 0.5, 2**62: 0.5}, room[:2])
    assert room.tolist() == [0.5, *[SENTINEL] * 5]
    outside = dictwalk.row_filler({1: -1, 2: 2**62}, "int64", skip_unknown=False)
    assert not outside({1: 0.5}, room)
    assert not outside({2: 0.5}, room)


def test_the_operator_fills_rows_once_the_walk_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    dv = DictVectorizer(int64_vocabulary=[1, 7])
    with way("compiled engine, no shortcuts"):
        dv([{1: 0.5}] * 3)
    made: list[str] = []
    filler = dictwalk.row_filler

    def counted(words: Any, kind: str, skip_unknown: bool) -> Any:
        made.append(kind)
        return filler(words, kind, skip_unknown)

    monkeypatch.setattr(dictwalk, "row_filler", counted)
    out = np.full(2, 9.0)
    assert dv({7: 0.5}, out=out) is out
    assert out.tolist() == [0, 0.5]
    assert dv({7: 3}).tolist() == [0, 3]
    assert made == ["int64"]
    with pytest.raises(UnknownKeyError, match="map 0: key 8 "):
        dv({8: 0.5})


# ---- the self-test ----


class Interrupt(Exception):
    """What a signal handler may raise."""


@pytest.fixture
def retested() -> Iterator[None]:
    """Let the self-test of the kernels run again, in the test and after it."""
    dictwalk._holds.cache_clear()
    yield
    dictwalk._holds.cache_clear()


@pytest.mark.usefixtures("retested")
@pytest.mark.parametrize(("kind", "maps"), [("int64", [{1: 1.5}]), ("string", [{"a": 1.5}])])
def test_a_kernel_that_answers_wrongly_is_not_used(
    kind: str, maps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = Arrays.of(4, 4, 4)
    read = dictwalk._read

    def wrong(*arguments: Any) -> tuple[int, int]:
        answer = read(*arguments)
        arguments[5][:1] += 1  # keys
        return answer

    monkeypatch.setattr(dictwalk, "_read", wrong)
    assert walk(maps, 0, kind, {}, True, *arrays[1:]) == (0, STOP)
    monkeypatch.undo()
    assert walk(maps, 0, kind, {}, True, *arrays[1:]) == (0, STOP)  # for good
    words = dict.fromkeys(maps[0], 0)
    assert not dictwalk.row_filler(words, kind, skip_unknown=False)(maps[0], np.zeros(1))
    dv = DictVectorizer.from_maps(maps * 3)
    assert dv(maps * 3).tolist() == [[1.5]] * 3


@pytest.mark.usefixtures("retested")
@pytest.mark.parametrize("error", [Interrupt, KeyboardInterrupt, MemoryError, SystemError])
def test_an_exception_in_the_self_test_comes_out_and_decides_nothing(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise error

    arrays = Arrays.of(4, 4, 4)
    with monkeypatch.context() as patch:
        patch.setattr(dictwalk, "_read", interrupted)
        with pytest.raises(error):
            walk([{1: 1.5}], 0, "int64", None, False, *arrays[1:])
    with monkeypatch.context() as patch:
        patch.setattr(objects, "peek", interrupted)
        with pytest.raises(error):
            available.__wrapped__()
    assert available()
    assert walk([{1: 1.5}], 0, "int64", None, False, *arrays[1:]) == (1, DONE)


@pytest.mark.usefixtures("retested")
def test_a_kernel_that_cannot_be_compiled_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise TypingError("no such thing in this version")

    monkeypatch.setattr(dictwalk, "_walk_int64", refused)
    arrays = Arrays.of(4, 4, 4)
    assert walk([{1: 1.5}], 0, "int64", None, False, *arrays[1:]) == (0, STOP)
