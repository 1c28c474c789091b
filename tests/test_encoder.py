"""The vocabulary as an encoder (`columns`), and words that `from_maps` leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import DictVectorizer, MapBatch

BY_INT = DictVectorizer(int64_vocabulary=[8, 1])
BY_STR = DictVectorizer(string_vocabulary=["b", "a"])


# columns


def test_columns_of_keys_of_any_shape() -> None:
    assert BY_INT.columns(np.array([[8, 1], [17, 8]])).tolist() == [[0, 1], [-1, 0]]
    assert BY_INT.columns(8) == 0
    assert BY_INT.columns(2**63) == -1
    assert BY_STR.columns([["a", "b"], ["z", ""]]).tolist() == [[1, 0], [-1, -1]]
    assert BY_STR.columns(np.array("a")).tolist() == 1
    assert BY_INT.columns(np.empty((0, 2), int)).shape == (0, 2)


def test_columns_do_not_heed_handle_unknown_and_find_the_first_of_repeated_words() -> None:
    op = DictVectorizer(int64_vocabulary=[5, 7, 5], semantics="onnxruntime")
    assert op.columns([5, 7, 6]).tolist() == [0, 1, -1]
    both = DictVectorizer(int64_vocabulary=[5], string_vocabulary=["a"], semantics="onnxruntime")
    with pytest.raises(ValueError, match="both vocabularies"):
        both.columns([5])


def test_lists_of_more_levels_than_an_array_has_are_refused() -> None:
    op = DictVectorizer(int64_vocabulary=[8])
    within_itself: list[Any] = []
    within_itself += [within_itself, within_itself]
    deep: Any = 8
    for _ in range(63):
        deep = [deep]
    assert op.columns(deep).shape == (1,) * 63
    for keys in (within_itself, [deep], (deep,)):
        with pytest.raises(ValueError, match="nested at most 63 lists deep"):
            op.columns(keys)


@pytest.mark.parametrize("keys", ["a", 1.0, [8, "a"], np.array([1.5]), {8: 1}, None, [None]])
def test_keys_of_another_type_are_refused(keys: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^DictVectorizer: key"):
        BY_INT.columns(keys)


@given(st.lists(st.integers(-3, 3)), st.lists(st.integers(-3, 3), unique=True))
def test_columns_agree_with_a_call(keys: list[int], words: list[int]) -> None:
    op = DictVectorizer(int64_vocabulary=words)
    columns = op.columns(keys)
    assert columns.tolist() == [words.index(key) if key in words else -1 for key in keys]
    unknown = op.unknown(MapBatch.from_arrays(keys))[1] if keys else np.empty(0)
    assert [key for key, column in zip(keys, columns, strict=True) if column < 0] == list(unknown)


# min_maps, max_words


MAPS: list[dict[str, int]] = [{"d": 1, "a": 1}, {"a": 2, "c": 1}, {"a": 1, "c": 1, "b": 1}, {}]


def test_words_of_few_maps_are_left_out() -> None:
    assert DictVectorizer.from_maps(MAPS, min_maps=2).vocabulary == ("a", "c")
    assert DictVectorizer.from_maps(MAPS, min_maps=3).vocabulary == ("a",)
    assert DictVectorizer.from_maps(MAPS, min_maps=4).vocabulary == ()
    assert DictVectorizer.from_maps(MAPS, min_maps=1).vocabulary == ("a", "b", "c", "d")
    assert DictVectorizer.from_maps(MAPS, max_words=3).vocabulary == ("a", "b", "c")
    first_seen = DictVectorizer.from_maps(MAPS, max_words=3, order="first_seen")
    assert first_seen.vocabulary == ("d", "a", "c")
    op = DictVectorizer.from_maps(MAPS, min_maps=2, max_words=1, handle_unknown="ignore")
    assert op(MAPS).tolist() == [[1], [2], [1], [0]]


def test_a_word_twice_in_a_map_counts_once() -> None:
    op = DictVectorizer.from_maps([1, 1, 1, 2, 2], [1] * 5, [0, 3, 4, 5], min_maps=2)
    assert op.vocabulary.tolist() == [2]
    pairs = [[("a", 1), ("a", 2)], [("b", 1)], [("b", 1)]]
    assert DictVectorizer.from_maps(pairs, min_maps=2).vocabulary == ("b",)


maps_of_words = st.lists(
    st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), max_size=5), max_size=6
)


@given(
    maps_of_words, st.integers(1, 4), st.none() | st.integers(1, 5), st.booleans(), st.booleans()
)
def test_pruning_as_a_loop_does_it(
    maps: list[Any], least: int, most: int | None, ascending: bool, text: bool
) -> None:
    if text:
        maps = [[(f"w{key}", value) for key, value in m] for m in maps]
    words = list(dict.fromkeys(key for m in maps for key, _ in m))
    if ascending:
        words.sort()
    counts = {word: sum(word in dict(m) for m in maps) for word in words}
    kept = [word for word in words if counts[word] >= least]
    stay = sorted(kept, key=lambda word: -counts[word])[:most]
    expected = [word for word in kept if word in stay]

    order: Any = "sorted" if ascending else "first_seen"
    flat = [entry for m in maps for entry in m]
    offsets = np.cumsum([0, *map(len, maps)])
    forms: list[tuple[Any, ...]] = [(maps,), (iter(maps),), ([dict(m) for m in maps],)]
    if flat:
        forms += [([key for key, _ in flat], [value for _, value in flat], offsets)]
        forms += [(MapBatch.from_arrays(*forms[-1]),)]
    for form in forms:
        op = DictVectorizer.from_maps(*form, min_maps=least, max_words=most, order=order)
        assert list(op.vocabulary) == expected


def test_arrow_dictionaries_are_pruned_by_their_entries() -> None:
    """Words of a dictionary that no entry uses are not words, and repeated ones are one."""
    pa = pytest.importorskip("pyarrow")
    words = pa.DictionaryArray.from_arrays(
        pa.array([2, 1, 3], pa.int32()), pa.array(["x", "a", "a", "b"])
    )
    column = pa.MapArray.from_arrays(pa.array([0, 1, 3], pa.int32()), words, pa.array([1, 2, 3]))
    assert DictVectorizer.from_maps(column, min_maps=2).vocabulary == ("a",)
    assert DictVectorizer.from_maps(column, max_words=5).vocabulary == ("a", "b")


def test_limits_are_checked_before_anything_is_read() -> None:
    never = map(int, ["must not be read"])
    bad: list[dict[str, Any]] = [{"min_maps": 0}, {"max_words": 0}]
    for options in bad:
        with pytest.raises(ValueError, match=r"DictVectorizer: .* must be an integer >= 1"):
            DictVectorizer.from_maps(never, **options)
    worse: list[dict[str, Any]] = [{"min_maps": 1.0}, {"max_words": True}, {"min_maps": None}]
    for options in worse:
        with pytest.raises(TypeError, match=r"DictVectorizer: .* must be an integer >= 1"):
            DictVectorizer.from_maps(never, **options)
