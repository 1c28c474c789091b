"""The words among an array of str objects, found by compiled code as a dict finds them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops._limits import limits
from nbmapops._reading import textwalk
from nbmapops._reading.lookup import columns_of
from nbmapops._vocabulary import Vocabulary

pytestmark = pytest.mark.skipif(
    not textwalk.available(), reason="str objects are read by plain Python here"
)
texts = st.text(st.sampled_from("ab\0é€😀\ud800"), max_size=18) | st.text(max_size=3)


def found(keys: Any, words: list[str]) -> list[int]:
    objects = np.empty(len(keys), object)
    objects[:] = keys
    columns = np.full(len(keys), -7)
    assert textwalk.find(objects, textwalk.build(words), columns) == len(keys)
    return columns.tolist()


def whole(text: str) -> bool:
    """Whether a text has UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


@given(st.lists(texts, max_size=40), st.lists(texts, max_size=50))
def test_texts_are_found_as_in_a_dict(words: list[str], others: list[str]) -> None:
    keys = [key for key in words + others if whole(key)]
    keys += ["".join(list(key)) for key in keys]  # equal, but another object
    first = {word: column for column, word in reversed(list(enumerate(words)))}
    assert found(keys, words) == [first.get(key, -1) for key in keys]


def test_words_of_every_length_and_width() -> None:
    words = [
        letter * n for n in range(40) for letter in ("a", "é", "€", "😀") if n or letter == "a"
    ]
    words += [f"{'x' * 24}{n}" for n in range(500)]
    assert found(words[::-1], words) == list(range(len(words)))[::-1]
    assert found([word + "a" for word in words if word.strip("a")], words) == [-1] * (
        sum(bool(word.strip("a")) for word in words)
    )
    assert found([], words) == []
    assert found(["", "a"], []) == [-1, -1]


def test_words_beside_each_other_in_the_table_are_told_apart() -> None:
    words = [str(n) for n in range(300)]
    index = textwalk.build(words)
    assert np.count_nonzero(index.slots) == len(words)
    wandering = (index.slots != 0).astype(int).tolist()
    assert max(map(len, "".join(map(str, wandering)).split("0"))) > 1
    assert found(words + [f"{word}." for word in words], words) == [*range(300), *[-1] * 300]


def test_words_of_equal_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tags are hardly ever equal by chance: a table of one word with the text of another."""
    monkeypatch.setattr("os.urandom", bytes)  # the same seed for all tables
    columns = np.empty(1, np.int64)
    for key, other in (
        ("a", "b"),
        ("abcd", "abce"),
        ("abcdefghi", "abcdefgh!"),
        ("x" * 20, "y" * 20),
        ("x" * 20, "y" + "x" * 19),  # which differ in the first eight bytes alone,
        ("x" * 20, "x" * 11 + "y" + "x" * 8),  # in the next
    ):
        hashed, written = textwalk.build([key]), textwalk.build([other])
        keys = np.array([key], object)
        for index, expected in ((hashed, 0), (hashed._replace(text=written.text), -1)):
            assert textwalk.find(keys, index, columns) == 1
            assert columns.tolist() == [expected]
    long, longer = textwalk.build(["abc"]), textwalk.build(["abc\0"])
    assert textwalk.find(np.array(["abc"], object), long._replace(text=longer.text), columns) == 1
    assert columns.tolist() == [-1]


@pytest.mark.parametrize(
    "odd", [None, 1, b"a", np.str_("a"), type("Text", (str,), {})("a"), "\ud800", ["a"]], ids=ascii
)
@pytest.mark.parametrize("place", [0, 1, 15, 16, 17, 99])
def test_what_is_not_exactly_a_str_ends_the_walk(odd: Any, place: int) -> None:
    keys = np.empty(100, object)
    keys[:] = "a"
    keys[place] = odd
    columns = np.full(100, -7)
    read = textwalk.find(keys, textwalk.build(["b", "a"]), columns)
    assert read == place - place % 16
    assert columns[:read].tolist() == [1] * read


def test_places_that_were_never_filled_end_the_walk() -> None:
    keys = np.full(40, None)
    keys[:16] = "a"
    ctypes.memset(keys[16:].ctypes.data, 0, 24 * 8)  # as code in C leaves them; NumPy says None
    assert keys[16] is None
    columns = np.full(40, -7)
    assert textwalk.find(keys, textwalk.build(["b", "a"]), columns) == 16
    assert columns[:16].tolist() == [1] * 16


def test_strided_arrays_are_looked_up() -> None:
    keys = np.empty((40, 3), object)
    keys[:] = "z"
    keys[:, 1] = ["a", "b"] * 20
    for part in (keys[:, 1], keys[::-3, 1]):
        columns = np.empty(len(part), np.int64)
        assert textwalk.find(part, textwalk.build(["b", "a"]), columns) == len(part)
        assert columns.tolist() == [1 - "ab".index(key) for key in part]


def test_keys_that_the_walk_does_not_take_are_found_by_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vocabulary = Vocabulary.from_words(["b", "a", "\ud800"], "string")
    monkeypatch.setattr(limits, "engine", "compiled")
    keys = np.array([["a", np.str_("b")], ["\ud800", "z"]], object)
    assert columns_of(keys, vocabulary, "Operator").tolist() == [[1, 0], [2, -1]]
    assert columns_of(keys.tolist(), vocabulary, "Operator").tolist() == [[1, 0], [2, -1]]
    assert vocabulary.text_index is not None
    with pytest.raises(ValueError, match="Operator: keys hold missing values"):
        columns_of(np.array(["a", None], object), vocabulary, "Operator")
    monkeypatch.setattr(textwalk, "available", lambda: False)
    assert columns_of(keys[:, 0], vocabulary, "Operator").tolist() == [1, 2]
