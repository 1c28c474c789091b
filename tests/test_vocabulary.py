"""Vocabularies: what words are taken, what is found, and what a pickle holds."""

from __future__ import annotations

import copy
import enum
import hashlib
import pickle
import subprocess
import sys
import threading
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import _vocabulary
from nbmapops._constants import FORMAT
from nbmapops._vocabulary import (
    Vocabulary,
    build_index,
    check_pruning,
    map_counts,
    pruned,
    range_index,
    table_index,
    unknown_column,
    unknown_columns,
)

from .conftest import WITHOUT_JIT
from .fresh import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEAST, MOST = -(2**63), 2**63 - 1


def numbers(words: object, *, repeats: bool = False) -> Vocabulary:
    return Vocabulary.from_words(words, "int64", repeats=repeats)


def texts(words: object, *, repeats: bool = False) -> Vocabulary:
    return Vocabulary.from_words(words, "string", name="string_vocabulary", repeats=repeats)


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 9


class Text(str):
    """A str that says it is another one."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return True


# What is taken.


@pytest.mark.parametrize(
    ("words", "exact"),
    [
        ([3, 1, 2], [3, 1, 2]),
        ((3, 1), [3, 1]),
        ([], []),
        ([LEAST, MOST, 0], [LEAST, MOST, 0]),
        ([True, 5, False], [1, 5, 0]),
        ([Level.HIGH, 1], [9, 1]),
        ([np.int8(-3), np.uint64(7), np.bool_(True), 5], [-3, 7, 1, 5]),
        (range(5, 0, -1), [5, 4, 3, 2, 1]),
        (deque([4, 2]), [4, 2]),
        (np.array([4, 2], np.uint8), [4, 2]),
        (np.array([4, 2], ">i8"), [4, 2]),
        (np.array([4, 2, 9])[::-1], [9, 2, 4]),
        (np.array([4, 2], np.uint64), [4, 2]),
        (np.array([True, False]), [1, 0]),
        (np.array([4, 2**40], object), [4, 2**40]),
        (np.array([], np.uint64), []),
    ],
)
def test_integers_become_int64(words: object, exact: list[int]) -> None:
    vocabulary = numbers(words)

    assert vocabulary.words.tolist() == exact
    assert vocabulary.words.dtype == np.int64
    assert not vocabulary.words.flags.writeable
    assert (vocabulary.kind, vocabulary.copies) == ("int64", None)
    assert vocabulary.columns == {word: i for i, word in enumerate(exact)}
    assert {type(word) for word in vocabulary.columns} <= {int}
    assert len(vocabulary) == len(exact)


@pytest.mark.parametrize(
    ("words", "exact"),
    [
        (["b", "a"], ("b", "a")),
        (("", "a\0", "\ud800", "é"), ("", "a\0", "\ud800", "é")),
        ([], ()),
        ([Text("x"), "y"], ("x", "y")),
        ([np.str_("x")], ("x",)),
        (np.array(["b", "a"]), ("b", "a")),
        (np.array(["b", "a"], object), ("b", "a")),
        (np.array(["b", "a\0c"], np.dtypes.StringDType()), ("b", "a\0c")),
        (deque(["b", "a"]), ("b", "a")),
    ],
)
def test_text_becomes_exact_str(words: object, exact: tuple[str, ...]) -> None:
    vocabulary = texts(words)

    assert vocabulary.words == exact
    assert {type(word) for word in vocabulary.words} <= {str}
    assert (vocabulary.kind, vocabulary.copies) == ("string", None)
    assert vocabulary.columns == {word: i for i, word in enumerate(exact)}


def test_columns_of_other_libraries() -> None:
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    for made in (pd.Series, pd.Index, pa.array):
        assert numbers(made([3, 2**62, 1])).words.tolist() == [3, 2**62, 1]
        assert texts(made(["b", "a\0"])).words == ("b", "a\0")
    assert numbers(pd.Series([3, 1], dtype="Int64")).words.tolist() == [3, 1]
    chunked = pa.chunked_array([[3], [2**62, 1]])
    assert numbers(chunked).words.tolist() == [3, 2**62, 1]
    assert texts(pa.array(["b", "a"]).dictionary_encode()).words == ("b", "a")
    with pytest.raises(TypeError, match=r"word 0 is np.float64\(3.0\)"):
        numbers(pd.Series([3, None]))
    with pytest.raises(TypeError, match="words must be integers"):
        numbers(pa.array([3, 1], pa.duration("s")))


def test_the_callers_array_is_copied() -> None:
    words = np.array([3, 1, 2])
    vocabulary = numbers(words)
    words[:] = 7

    assert vocabulary.words.tolist() == [3, 1, 2]
    assert words.flags.writeable


@pytest.mark.parametrize("kind", ["int64", "string"])
@pytest.mark.parametrize(
    "words",
    [{1: 2}, {"a": 0}, {1, 2}, frozenset("ab"), {1: 2}.keys(), "ab", b"cd", bytearray(2),
     memoryview(b"ab"), iter([1]), (n for n in [1]), map(int, "1"), None, 5, object()],
)  # fmt: skip
def test_what_is_no_sequence_is_refused(words: object, kind: Any) -> None:
    with pytest.raises(TypeError, match=r"^my_words must be a sequence of words"):
        Vocabulary.from_words(words, kind, name="my_words")


@pytest.mark.parametrize("words", [np.zeros((2, 2), int), np.array(3), np.zeros((0, 2))])
def test_arrays_of_another_shape_are_refused(words: object) -> None:
    with pytest.raises(ValueError, match=r"int64_vocabulary must have one dimension, not [02]"):
        numbers(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([1, 2.0], "int64_vocabulary: word 1 is 2.0 (float); words must be integers"),
        ([1, "2"], "int64_vocabulary: word 1 is '2' (str); words must be integers"),
        ([b"1"], "int64_vocabulary: word 0 is b'1' (bytes); words must be integers"),
        ([[1]], "int64_vocabulary: word 0 is [1] (list); words must be integers"),
        (np.array([1.0]), "word 0 is np.float64(1.0) (float64)"),
        (np.array(["1"]), "word 0 is '1' (str)"),
        (np.array([1], "m8[s]"), "word 0 is np.timedelta64(1,'s') (timedelta64)"),
        (np.array([1], "M8[ns]"), "(datetime64)"),
        ([np.timedelta64(1, "s")], "(timedelta64)"),
    ],
)
def test_words_that_are_no_integers(words: object, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        numbers(words)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", 1], "string_vocabulary: word 1 is 1 (int); words must be str"),
        (["a", b"b"], "string_vocabulary: word 1 is b'b' (bytes); words must be str"),
        (np.array([b"a"]), "word 0 is np.bytes_(b'a') (bytes_)"),
        (np.arange(2), "word 0 is np.int64(0) (int64)"),
    ],
)
def test_words_that_are_no_text(words: object, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        texts(words)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        [1, 2**63],
        [1, LEAST - 1],
        [1, 10**5000],  # more digits than Python writes out
        np.array([1, 2**63], np.uint64),
        np.array([1, 2**70], object),
        [1, np.uint64(2**64 - 1)],
    ],
)
def test_integers_outside_int64_are_refused(words: object) -> None:
    message = r"int64_vocabulary: word 1 is an integer, .* that int64 cannot hold; pass"
    with pytest.raises(OverflowError, match=message):
        numbers(words)


# Repeated words.


@pytest.mark.parametrize(
    ("make", "words", "message"),
    [
        (numbers, [5, 3, 5], "int64_vocabulary: word 5 is repeated (words 0 and 2)"),
        (numbers, [1, True], "int64_vocabulary: word 1 is repeated (words 0 and 1)"),
        (numbers, [9, 2**40, 7, 2**40, 9], "word 1099511627776 is repeated (words 1 and 3)"),
        (numbers, np.zeros(500, int), "word 0 is repeated (words 0 and 1)"),
        (texts, ["b", "a", "b"], "string_vocabulary: word 'b' is repeated (words 0 and 2)"),
        (texts, ["", ""], "string_vocabulary: word '' is repeated (words 0 and 1)"),
    ],
)
def test_a_repeated_word_is_named(
    make: Callable[[Any], Vocabulary], words: Sequence[Any], message: str
) -> None:
    with pytest.raises(ValueError, match="repeated") as caught:
        make(words)

    assert message in str(caught.value)


def test_repeated_words_are_told_when_they_may_repeat() -> None:
    for words in ([5, 9, 5, 7, 9, 5], [5, 2**40, 5, -7, 2**40, 5]):
        vocabulary = numbers(words, repeats=True)

        assert vocabulary.copies is not None
        later, firsts = vocabulary.copies
        assert later.tolist() == [2, 4, 5]
        assert firsts.tolist() == [0, 1, 0]
        assert not later.flags.writeable
        assert vocabulary.columns == {words[0]: 0, words[1]: 1, words[3]: 3}
        assert vocabulary.index.header[2] == 6
        assert look_up(vocabulary, [*words, 6]) == [0, 1, 0, 3, 1, 0, -1]

    text = texts(["a", "b", "a"], repeats=True)
    assert text.copies is not None
    assert [part.tolist() for part in text.copies] == [[2], [0]]
    assert text.columns == {"a": 0, "b": 1}
    assert numbers([1, 2], repeats=True).copies is None


def look_up(vocabulary: Vocabulary, keys: list[int]) -> list[int]:
    from nbmapops import kernels

    columns = np.empty(len(keys), np.int64)
    given = np.array(keys, np.int64)
    given.flags.writeable = False
    assert kernels.lookup(*vocabulary.index, given, columns) == kernels.OK
    return [int(column) for column in columns]


# What is found.


@pytest.mark.parametrize("key", [5, True, np.int8(5), np.uint64(5), Level.LOW, np.bool_(True)])
def test_integers_are_in(key: object) -> None:
    assert key in numbers([5, 1, 3, 2**40])
    assert key not in numbers([6, 2**40])
    assert key not in texts(["5", "1", "3", "True"])


@pytest.mark.parametrize(
    "key",
    [5.0, np.float32(5), 5 + 0j, "5", b"1", None, [], {}, [5], (5,), 2**63, -(2**70),
     np.timedelta64(5, "s"), np.array(5), np.array([5]), object(), float("nan")],
)  # fmt: skip
def test_anything_else_is_not_in(key: object) -> None:
    assert key not in numbers([5, 1, 0])
    if not isinstance(key, str):
        assert key not in texts(["5", ""])


def test_text_is_in_by_its_own_content() -> None:
    vocabulary = texts(["a", "b", "other"])

    assert "a" in vocabulary
    assert np.str_("a") in vocabulary
    assert Text("b") in vocabulary
    assert Text("c") not in vocabulary  # whatever it says about itself
    assert b"a" not in vocabulary


def test_text_has_no_int64_index() -> None:
    with pytest.raises(TypeError, match="no int64 index"):
        _ = texts(["a"]).index


# Indexes.


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ([], 0),
        ([7], 0),
        ([MOST], 0),
        ([LEAST], 0),
        ([7, 8, 9], 0),
        ([9, 8, 7], 1),
        ([7, 9, 8, 10], 1),
        ([0, 4], 1),
        ([0, 8], 2),
        ([LEAST, LEAST + 5], 1),
        ([MOST, LEAST], 2),  # one apart when numbers wrap around
        ([MOST, LEAST, LEAST + 1], 2),
        ([MOST - 1, MOST], 0),
        ([0, 399], 2),
        (list(range(0, 400, 4)), 1),
        (list(range(0, 500, 5)), 2),
    ],
)
def test_words_choose_the_kind_of_index(words: list[int], kind: int) -> None:
    index = build_index(np.array(words, np.int64))

    assert index.header.tolist()[:3] == [1, kind, len(words)]
    assert not any(array.flags.writeable for array in index)
    assert [array.dtype.name for array in index] == ["int64", "uint16", "int64", "int32"]
    assert look_up(numbers(words), words) == list(range(len(words)))
    beside = [word + step for word in words for step in (-1, 1) if LEAST <= word + step <= MOST]
    column = {word: i for i, word in enumerate(words)}
    assert look_up(numbers(words), beside) == [column.get(key, -1) for key in beside]


def test_words_of_an_index_must_differ() -> None:
    for words in ([3, 3], [3, 4, 3], [0, 2**40, 0]):
        with pytest.raises(ValueError, match="repeated"):
            build_index(np.array(words))


def test_the_array_that_an_index_is_made_of_stays_writable() -> None:
    for listed in ([3, 4, 5], [5, 3], [0, 2**40]):
        words = np.array(listed)
        build_index(words)
        words[:] = 0


def test_ranges_and_tables_by_hand() -> None:
    ranged = range_index(3, low=-1)
    assert ranged.header.tolist() == [1, 0, 3, -1, 0, 0, 0, 0]

    codes = np.array([2, -1, 0], np.int32)
    table = table_index(codes)
    codes[:] = 9
    assert table.header.tolist() == [1, 1, 3, 0, 0, 0, 0, 0]
    assert table.table.tolist() == [2, -1, 0]
    assert table_index(np.empty(0, np.int32)).header[1] == 0
    assert not any(array.flags.writeable for array in (*ranged, *table))


def test_tables_and_ranges_need_no_compiler() -> None:
    code = """
import sys
import numpy as np
from nbmapops import _vocabulary
from nbmapops._constants import FORMAT
from nbmapops._vocabulary import Vocabulary, range_index, table_index
range_index(5), table_index(np.array([1, 0], np.int32))
for words in ([5, 6], [9, 5, 7], list(range(1000, 0, -2))):
    vocabulary = Vocabulary.from_words(words, "int64")
    vocabulary.index, vocabulary.state(), 5 in vocabulary
Vocabulary.from_words(["a"], "string").state()
assert "numba" not in sys.modules
Vocabulary.from_words([5, 2**40], "int64").columns
assert "numba" not in sys.modules
"""
    run(code)


HASHED = [5, 2**40, -3, LEAST, MOST]


def test_the_multiplier_follows_from_the_words() -> None:
    one, same, other = (build_index(np.array(w)) for w in (HASHED, HASHED, HASHED[::-1]))

    assert [a.tobytes() for a in one] == [a.tobytes() for a in same]
    assert one.header[6] != other.header[6]
    assert one.header[6] % 2 == 1
    digest = hashlib.blake2b(np.array(HASHED, "<i8").tobytes(), digest_size=32).digest()
    seed = hashlib.blake2b(digest, digest_size=8, salt=bytes(8)).digest()
    assert one.header[6] == int.from_bytes(seed, "little", signed=True) | 1


def test_the_index_is_built_once_and_by_any_thread() -> None:
    vocabulary = numbers(HASHED)
    barrier = threading.Barrier(4)
    found: list[Any] = []

    def use() -> None:
        barrier.wait()
        found.append(vocabulary.index)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({b"".join(a.tobytes() for a in index) for index in found}) == 1
    assert vocabulary.index is vocabulary.index


# Equality, pickles.


def test_equality_is_that_of_the_words() -> None:
    equal = [
        (numbers([1, 2**40]), numbers(np.array([1, 2**40]))),
        (numbers([True]), numbers([1])),
        (texts(["a"]), texts([np.str_("a")])),
        (numbers([1, 1], repeats=True), numbers([1, 1], repeats=True)),
    ]
    for one, other in equal:
        assert one == other
        assert hash(one) == hash(other)
        assert pickle.dumps(one) == pickle.dumps(other)
    several = [numbers([1, 2]), numbers([2, 1]), numbers([1]), numbers([]), texts([]), texts(["1"])]
    assert len(set(several)) == len(several)
    assert numbers([1]) != [1]
    assert numbers([1]) != texts(["1"])


words_lists = st.one_of(
    st.lists(st.integers(LEAST, MOST), max_size=12),
    st.lists(st.integers(-5, 5), max_size=12),
    st.lists(st.text(st.characters(), max_size=3), max_size=12),  # lone surrogates too
)


def made(words: list[Any]) -> Vocabulary:
    return (texts if words and isinstance(words[0], str) else numbers)(words, repeats=True)


@given(words_lists)
def test_pickles_bring_back_equal_vocabularies(words: list[Any]) -> None:
    vocabulary = made(words)
    first = pickle.dumps(vocabulary)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(vocabulary, protocol))
        assert again == vocabulary
        assert again.columns == vocabulary.columns
        assert (again.copies is None) == (vocabulary.copies is None)
        assert pickle.dumps(again) == first
        if vocabulary.kind == "int64":
            for name, ours in vocabulary.index._asdict().items():
                theirs = getattr(again.index, name)
                assert ours.tobytes() == theirs.tobytes()
                assert (ours.dtype, theirs.flags.writeable) == (theirs.dtype, False)
    assert copy.copy(vocabulary) == copy.deepcopy(vocabulary) == vocabulary


@pytest.mark.parametrize("words", [[5, 6, 7], [9, 5, 7], HASHED, [5, 2**40, 5], []])
def test_pickles_are_equal_whatever_has_been_built(words: list[int]) -> None:
    fresh, used, loaded = (numbers(words, repeats=True) for _ in range(3))
    _ = used.index, used.columns, hash(used), 5 in used
    loaded = pickle.loads(pickle.dumps(loaded))
    _ = loaded.columns

    assert pickle.dumps(fresh) == pickle.dumps(used) == pickle.dumps(loaded)


def test_pickles_of_text_know_nothing_of_its_objects() -> None:
    """The same str object twice, or two equal ones; shared with others or not."""
    shared, letters = "keyword", list("keyword")
    one = texts([shared, "a"])
    other = texts(["".join(letters), "a"])

    assert one.words[0] is not other.words[0]
    assert pickle.dumps([one, shared]) == pickle.dumps([other, "".join(letters)])


def test_pickles_hold_no_hash_of_a_str() -> None:
    code = """
import pickle, sys
from nbmapops._vocabulary import Vocabulary
vocabulary = Vocabulary.from_words([f"word {n}" for n in range(50)], "string")
hash(vocabulary), vocabulary.columns
sys.stdout.write(pickle.dumps(vocabulary).hex())
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, text=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip

    assert len(seen) == 1
    assert pickle.loads(bytes.fromhex(seen.pop())).columns["word 7"] == 7


@pytest.mark.parametrize("words", [HASHED, [9, 5, 7]])
def test_an_index_of_another_format_is_made_anew(
    words: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = numbers(words)
    number, kind, packed, header, *rest = ours.state()
    other = (number + 1, kind, packed, header[:8], *rest, b"more")

    loaded = Vocabulary.from_state(other)
    assert loaded == ours
    assert [a.tobytes() for a in loaded.index] == [a.tobytes() for a in ours.index]

    monkeypatch.setattr(_vocabulary, "build_index", None)  # this format is taken as it is
    assert Vocabulary.from_state(ours.state()).index.header[1] == ours.index.header[1]


def test_pickles_are_compact() -> None:
    n = 300 if WITHOUT_JIT else 20_000
    words = np.random.default_rng(0).integers(LEAST, MOST, n)

    assert len(pickle.dumps(numbers(words))) <= n * (8 + 28) + 1_000
    assert len(pickle.dumps(texts([str(word) for word in words]))) <= n * (20 + 8) + 1_000


def test_repr_is_short() -> None:
    assert repr(numbers(range(1000))) == "<Vocabulary of 1000 int64 words>"
    assert repr(texts(["a"])) == "<Vocabulary of 1 string words>"


def test_the_format_stands_for_the_hash() -> None:
    """Pickles hold indexes: whoever changes what an index is has to raise FORMAT."""
    words = (np.arange(2000) - 700) ** 3
    digest = hashlib.blake2b(digest_size=8)
    for part in build_index(words):
        digest.update(part.astype(part.dtype.newbyteorder("<")).tobytes())
    assert (FORMAT, digest.hexdigest()) == (1, "995b9777b77d27f4")


# Unknown keys, and fewer words.


def splitmix(x: int) -> int:
    """The finaliser as its author words it, on Python's own integers."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def test_the_hash_of_unknown_keys_is_fixed_for_ever() -> None:
    assert splitmix(0) == 0xE220A8397B1DCDAF  # the first number of SplitMix64 with seed 0
    keys = np.array([0, 1, -1, LEAST, MOST])
    assert unknown_columns(keys, 1000).tolist() == [535, 465, 936, 915, 39]
    assert unknown_columns(["", "a", "é", "\ud800"], 1000).tolist() == [535, 774, 104, 238]
    assert unknown_columns(keys, 1).tolist() == [0] * 5
    assert unknown_columns(keys[::-2], 1000).tolist() == [39, 936, 535]
    assert unknown_columns(keys[:0], 7).dtype == np.int64
    assert unknown_columns([], 7).dtype == np.int64


@given(st.lists(st.integers(LEAST, MOST)) | st.lists(st.text()), st.integers(1, 2**40))
def test_one_unknown_key_and_many_go_the_same_way(keys: list[Any], n: int) -> None:
    given: Any = np.array(keys, np.int64) if keys and isinstance(keys[0], int) else keys
    expected = []
    for key in keys:
        text = isinstance(key, str)
        number = zlib.crc32(key.encode("utf-8", "surrogatepass")) if text else key % 2**64
        expected.append(splitmix(number) % n)
    assert [unknown_column(key, n) for key in keys] == expected
    assert unknown_columns(given, n).tolist() == expected


def test_unknown_keys_spread_over_the_columns() -> None:
    for keys in (np.arange(8000), np.arange(8000) * 2**20, [f"word {n}" for n in range(8000)]):
        counts = np.bincount(unknown_columns(keys, 8), minlength=8)
        assert counts.min() > 850
        assert counts.max() < 1150


@given(st.data(), st.lists(st.lists(st.integers(-1, 5), max_size=6), max_size=6))
def test_words_are_counted_once_a_map_and_pruned(data: st.DataObject, maps: list[Any]) -> None:
    flat = np.array([column for m in maps for column in m], np.int64)
    offsets = np.cumsum([0, *map(len, maps)])
    counts = map_counts(flat, offsets, 6)
    assert counts.tolist() == [sum(word in m for m in maps) for word in range(6)]
    assert counts.dtype == np.int64

    least, most = data.draw(st.integers(1, 4)), data.draw(st.none() | st.integers(1, 7))
    kept = [word for word in range(6) if counts[word] >= least]
    kept = sorted(sorted(kept, key=lambda word: -counts[word])[:most])  # ties: the earlier
    assert pruned(counts, least, most).tolist() == kept
    assert pruned(np.array([2, 1, 3, 3, 2]), 2, 3).tolist() == [0, 2, 3]


def test_limits_of_pruning_are_checked() -> None:
    assert check_pruning(np.int64(2), None, "Operator") == (2, None)
    assert check_pruning(1, 3, "Operator") == (1, 3)
    for bad in (0, -1):
        with pytest.raises(ValueError, match=f"min_maps must be an integer >= 1, not {bad}"):
            check_pruning(bad, None, "Operator")
        with pytest.raises(
            ValueError, match=f"max_words must be an integer >= 1 or None, not {bad}"
        ):
            check_pruning(1, bad, "Operator")
    for worse in (1.0, True, "1", None):
        with pytest.raises(TypeError, match="Operator: min_maps must be an integer >= 1, not"):
            check_pruning(worse, None, "Operator")
    with pytest.raises(TypeError, match="Operator: max_words must be an integer >= 1 or None"):
        check_pruning(1, 1.0, "Operator")


@given(words_lists, st.lists(st.integers(LEAST, MOST) | st.integers(-6, 6)))
def test_a_search_finds_what_the_dict_finds(words: list[Any], keys: list[int]) -> None:
    if words and isinstance(words[0], str):
        return
    vocabulary = numbers(words, repeats=True)
    keys += words
    expected = [vocabulary.columns.get(key, -1) for key in keys]
    assert vocabulary.find(np.array(keys, np.int64)).tolist() == expected


@pytest.mark.parametrize("step", [1, -1])
def test_a_large_vocabulary_makes_no_dict_to_tell_whether_a_word_is_in(step: int) -> None:
    words = np.arange(0, 6000, 3)[::step]
    vocabulary = numbers(words)
    assert [key in vocabulary for key in (0, 1, 5997, 6000, -3, np.int8(3), True)] == [
        True, False, True, False, False, True, False,
    ]  # fmt: skip
    for key in (2**63, -(2**63) - 3, 3.0, "3", None):
        assert key not in vocabulary
    assert vocabulary._columns is None
    assert vocabulary.columns[3] == words.tolist().index(3)
    assert 3 in vocabulary
    assert pickle.dumps(vocabulary) == pickle.dumps(numbers(words))


def test_a_dict_is_no_vocabulary_and_the_message_says_how_to_make_one() -> None:
    columns = {"b": 0, "a": 1}
    with pytest.raises(TypeError, match=r"sorted\(d, key=d.get\)"):
        texts(columns)
    assert texts(sorted(columns, key=columns.__getitem__)).words == ("b", "a")
