"""Keys of any shape to columns, int64 and text, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops._limits import limits
from nbmapops._reading.lookup import columns_of
from nbmapops._vocabulary import Vocabulary

from ..reference import INT64_MAX, INT64_MIN

NUMBERS = Vocabulary.from_words([8, 1, 2**53 + 1, INT64_MIN, -1], "int64")
TEXTS = Vocabulary.from_words(["b", "a", "a\0", "\ud800", ""], "string")


def found(keys: Any, vocabulary: Vocabulary = NUMBERS) -> Any:
    result = columns_of(keys, vocabulary, "Operator")
    assert result.dtype == np.int64
    return result.tolist()


@pytest.fixture(params=["plain", "compiled"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either way to find keys, however few."""
    monkeypatch.setattr(limits, "engine", request.param)


def test_columns_have_the_shape_of_the_keys() -> None:
    assert found(np.array([[8, 1], [17, 8]])) == [[0, 1], [-1, 0]]
    assert found(8) == 0
    assert found(np.int64(17)) == -1
    assert found(np.array(1)) == 1
    assert found([8, 17]) == [0, -1]
    assert found([[8, 1], [17, 8]]) == [[0, 1], [-1, 0]]
    assert found([[[8], (1,)], ((17,), [8])]) == [[[0], [1]], [[-1], [0]]]
    assert found((8, True, np.uint8(8))) == [0, 1, 0]
    assert found(iter([8, 17])) == [0, -1]
    assert found(np.array([[1, 8], [8, 1]], np.uint16).T[::-1]) == [[0, 1], [1, 0]]
    empty: list[Any] = [[], (), np.empty(0), np.empty(0, object)]
    for none in empty:
        assert found(none) == []
    assert columns_of(np.empty((0, 3), int), NUMBERS, "Operator").shape == (0, 3)
    assert columns_of([[], []], NUMBERS, "Operator").shape == (2, 0)
    assert isinstance(columns_of(8, NUMBERS, "Operator"), np.int64)


def test_text_is_found_exactly() -> None:
    assert found("a", TEXTS) == 1
    assert found(np.str_("a"), TEXTS) == 1
    assert found(["a\0", "a", "", "z", "\ud800"], TEXTS) == [2, 1, 4, -1, 3]
    assert found([["a", "b"], ["z", ""]], TEXTS) == [[1, 0], [-1, 4]]
    assert found(np.array([["a", "b"], ["z", "a\0"]], object), TEXTS) == [[1, 0], [-1, 2]]
    assert found(np.array(["a", "zz"]), TEXTS) == [1, -1]
    assert found(np.array(["a", "a\0"], np.dtypes.StringDType()), TEXTS) == [1, 2]


@given(st.lists(st.integers(INT64_MIN - 2, INT64_MAX + 2) | st.integers(-9, 9), max_size=9))
def test_integers_are_found_as_in_a_dict(keys: list[int]) -> None:
    expected = [NUMBERS.columns.get(key, -1) for key in keys]
    assert found(keys) == expected
    assert found(np.array(keys, object)) == expected
    for dtype in (np.int64, np.uint64, np.int8):
        limits = np.iinfo(dtype)
        if all(limits.min <= key <= limits.max for key in keys):
            assert found(np.array(keys, dtype)) == expected


@given(st.lists(st.integers(INT64_MIN, INT64_MAX) | st.integers(-9, 9), max_size=20))
def test_any_words_are_found(words: list[int]) -> None:
    vocabulary = Vocabulary.from_words(words, "int64", repeats=True)
    beside = [*words, *(word - 1 for word in words), 0, INT64_MAX, INT64_MIN]
    assert found(beside, vocabulary) == [vocabulary.columns.get(key, -1) for key in beside]


def test_integers_beyond_int64_are_not_words() -> None:
    assert found([2**63, 8, -(2**70)]) == [-1, 0, -1]
    assert found(2**63) == -1
    assert found([2**63, 0], Vocabulary.from_words([0], "int64")) == [-1, 0]
    largest = Vocabulary.from_words([INT64_MAX], "int64")
    assert found([INT64_MAX, INT64_MAX + 1], largest) == [0, -1]
    assert found(np.array([2**64 - 1, 8, 2**63], np.uint64)) == [-1, 0, -1]


def test_columns_of_other_libraries() -> None:
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    for keys in (pd.Series([8, 17], dtype="Int64"), pa.array([8, 17]), pl.Series([8, 17]),
                 pd.Index([8, 17]), np.ma.array([8, 17]),
                 pa.chunked_array([[8], [17]])):  # fmt: skip
        assert found(keys) == [0, -1]
    texts = ["a\0", "z", "b"]
    for keys in (pd.Series(texts), pd.Series(texts, dtype="category"), pl.Series(texts),
                 pa.array(texts), pa.chunked_array([texts[:1], texts[1:]]),
                 pa.array(texts).dictionary_encode(), pa.array(texts, pa.string_view()),
                 pa.array(["q", *texts])[1:],
                 pd.Series(texts, dtype="string[pyarrow]")):  # fmt: skip
        assert found(keys, TEXTS) == [2, -1, 0]
    assert found(pa.array([], pa.string()), TEXTS) == []
    for column in (pd.Series([8, None], dtype="Int64"), pa.array([8, None]), pl.Series([8, None]),
                   np.ma.array([8, 1], mask=[False, True]), [8, None], [[8], [pd.NA]]):  # fmt: skip
        with pytest.raises(ValueError, match="Operator: keys hold missing values"):
            found(column)
    for column in (pd.Series(["a", None]), pa.array(["a", None]), pl.Series(["a", None])):
        with pytest.raises(ValueError, match="Operator: keys hold missing values"):
            found(column, TEXTS)


@pytest.mark.parametrize(
    "keys", ["a", ["a"], [8, "a"], np.array(["a"]), np.array(["a"], object), 1.0, [1.0], b"a",
             np.array([1.0]), np.array([1], "m8[s]"), Decimal(1), {"a"}, [[8, 1], 8], [{}]],
    ids=repr,
)  # fmt: skip
def test_other_keys_are_refused(keys: Any) -> None:
    with pytest.raises(TypeError, match=r"Operator: key"):
        found(keys)


@pytest.mark.parametrize("keys", [8, [8], ["a", 8], np.array([8]), np.array([8], object), b"a"])
def test_numbers_are_not_text(keys: Any) -> None:
    with pytest.raises(TypeError, match=r"Operator: key.* must be (str|an array)"):
        found(keys, TEXTS)


def test_a_missing_key_and_ragged_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="Operator: keys hold missing values"):
        found(None)
    with pytest.raises(ValueError, match="nested keys must have one length, not 1 and 2"):
        found([[8], [1, 2]])
    deep: Any = 8
    for _ in range(63):
        deep = [deep]
    assert np.ravel(found(deep)).tolist() == [0]
    with pytest.raises(ValueError, match="keys must be nested at most 63 lists deep"):
        found([deep])
    with pytest.raises(TypeError, match="keys must be an array or a sequence, not dict"):
        found({8: 1})
