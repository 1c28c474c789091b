"""A million words in an order that could be a trap: building and looking up take no more steps."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numba import njit

from nbmapops import kernels
from nbmapops._vocabulary import build_index
from nbmapops.kernels import index as index_file

from ..conftest import WITHOUT_JIT
from ..kernels.test_kernels import GUESS, inverse, signed

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 1_000_000
pytestmark = pytest.mark.skipif(WITHOUT_JIT, reason="too slow without a compiler")

Words = np.ndarray[Any, np.dtype[np.int64]]


def _random() -> Words:
    drawn = np.random.default_rng(8).integers(-(2**63), 2**63 - 1, COUNT + 100)
    return np.unique(drawn)[:COUNT]


def _stride(step: int) -> Words:
    with np.errstate(over="ignore"):
        return np.arange(COUNT, dtype=np.int64) * np.int64(signed(step % 2**64))


ORDERS: dict[str, Callable[[], Words]] = {
    "sorted": lambda: np.sort(_random()),
    "reversed": lambda: np.sort(_random())[::-1],
    "step 5": lambda: _stride(5),
    "step -1000": lambda: _stride(-1000),
    "step 2**20": lambda: _stride(2**20),
    "step 2**32 + 1": lambda: _stride(2**32 + 1),
    "step 2**43": lambda: _stride(2**43),
    "step 3 * 2**31": lambda: _stride(3 * 2**31),
    "step 3 * 2**39": lambda: _stride(3 * 2**39),
    "step of a constant of the hash": lambda: _stride(GUESS),
    "step of its inverse": lambda: _stride(inverse(GUESS)),
    "step of another constant": lambda: _stride(int(index_file._K2)),
}


def steps_to_build(words: Words) -> int:
    """Pilots that were tried; the kernel goes once over the words besides."""
    index = build_index(words)
    assert index.header[1] == kernels.HASH
    assert index.header[4] == COUNT + COUNT // 4 + 8, "built at the first attempt"
    return int(index.pilots.sum(dtype=np.int64)) + len(index.pilots)


@njit
def hashes(words: Any, multiplier: Any) -> Any:
    found = np.empty(words.size, np.uint64)
    for i in range(words.size):
        found[i] = index_file.hash_key(words[i], multiplier)
    return found


def steps_to_learn(words: Words, multiplier: int) -> int:
    """Places looked at until each word has its own, in a half full table as `distinct` has it."""
    bits = max(11, (2 * COUNT).bit_length())
    home = np.sort(hashes(words, np.uint64(multiplier)) >> np.uint64(64 - bits)).astype(np.int64)
    order = np.arange(COUNT)
    taken = np.maximum.accumulate(home - order) + order  # the next free place, in any order
    return int((taken - home).sum()) + COUNT


@cache
def usual() -> tuple[int, int]:
    words = np.random.default_rng(9).permutation(_random())
    return steps_to_build(words), steps_to_learn(words, GUESS)


@pytest.mark.parametrize("name", ORDERS)
def test_a_million_words_are_indexed_in_as_many_steps_as_random_ones(name: str) -> None:
    words = np.ascontiguousarray(ORDERS[name]())
    assert steps_to_build(words) <= 3 * usual()[0]
    # A perfect hash: one pilot and one slot for each lookup, whatever the words.
    columns = np.empty(COUNT, np.int64)
    assert kernels.lookup(*build_index(words), words, columns) == kernels.OK
    assert (columns == np.arange(COUNT)).all()


@pytest.mark.parametrize("name", ORDERS)
def test_a_million_words_are_learned_in_as_many_steps_as_random_ones(name: str) -> None:
    words = np.ascontiguousarray(ORDERS[name]())
    for seed in range(3):
        multiplier = int(np.random.default_rng(seed).integers(2**63)) * 2 + 1
        assert steps_to_learn(words, multiplier) <= 3 * usual()[1]
