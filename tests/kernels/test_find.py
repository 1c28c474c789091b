"""`kernels.find` gives for one key what `kernels.lookup` gives for many."""

from __future__ import annotations

import numpy as np
import pytest

from nbmapops import DictVectorizer, kernels


@pytest.mark.parametrize(
    "words",
    [[5, 6, 7, 8], [9, 3, 14, 5], [2**40, -(2**50), 17, 3, 2**62]],
    ids=["range", "table", "hash"],
)
def test_a_key_that_is_not_a_word_has_no_column(words: list[int]) -> None:
    index = DictVectorizer(int64_vocabulary=words).index
    others = np.random.default_rng(3).integers(-(2**62), 2**62, 300).tolist()
    keys = np.array([*words, *others, 0, -1, *range(20)])
    columns = np.empty(len(keys), np.int64)
    assert kernels.lookup(*index, keys, columns) == kernels.OK
    expected = [words.index(key) if key in words else -1 for key in keys.tolist()]
    assert columns.tolist() == expected
    assert [int(kernels.find(*index, key)) for key in keys.tolist()] == expected
