"""`sum_rows` against sums in Python's exact integers, and floats added in the same order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import kernels

MOST, LEAST = 2**63 - 1, -(2**63)
MULTIPLIER = 0x1E3779B97F4A7C15


def summed(keys: Any, values: Any, offsets: Any, dtype: Any = np.int64) -> tuple[Any, ...]:
    """Status, entries kept, their sums, and the ends of maps."""
    n = len(keys)
    kept, sums = np.empty(n, np.int64), np.empty(n, dtype)
    ends = np.zeros(len(offsets), np.int64)
    status, end = kernels.sum_rows(
        np.array(keys, np.int64), np.array(values, dtype), np.array(offsets, np.int64),
        MULTIPLIER, kept, sums, ends,
    )  # fmt: skip
    return int(status), kept[:end].tolist(), sums[:end].tolist(), ends.tolist()


def expected(keys: list[int], values: list[Any], offsets: list[int]) -> tuple[Any, ...]:
    kept: list[int] = []
    sums: list[Any] = []
    ends = [0] * len(offsets)
    for row, (lo, hi) in enumerate(pairwise(offsets)):
        place: dict[int, int] = {}
        start = len(sums)
        for i in range(lo, hi):
            if keys[i] in place:
                sums[place[keys[i]]] += values[i]
            else:
                place[keys[i]] = len(sums)
                kept.append(i)
                sums.append(values[i])
        if any(isinstance(s, int) and not LEAST <= s <= MOST for s in sums[start:]):
            return row, kept[:start], sums[:start], ends
        ends[row + 1] = len(sums)
    return -1, kept, sums, ends


KEYS = st.sampled_from([0, 1, -1, 2, 7, LEAST, MOST, 2**40])
NUMBERS = st.sampled_from([0, 1, -1, 5, MOST, LEAST, MOST - 1, 2**62, -(2**62)])


@given(st.lists(st.lists(st.tuples(KEYS, NUMBERS), max_size=20), max_size=5))
def test_sums_of_int64_are_exact_or_their_map_is_bad(maps: list[list[tuple[int, int]]]) -> None:
    entries = [entry for each in maps for entry in each]
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in maps])]).astype(int).tolist()
    keys, values = [k for k, _ in entries], [v for _, v in entries]
    assert summed(keys, values, offsets) == expected(keys, values, offsets)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_added_in_the_order_of_entries(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 9, 400).tolist()
    values = [dtype(x) for x in rng.normal(0, 1e6, 400)]
    offsets = [0, 0, 100, 390, 400]
    status, kept, sums, ends = summed(keys, values, offsets, dtype)
    assert (status, kept, [dtype(x) for x in sums], ends) == expected(keys, values, offsets)


def test_a_value_that_stands_alone_is_not_touched() -> None:
    _, kept, sums, _ = summed([1, 2, 3, 1], [-0.0, np.nan, np.inf, -0.0], [0, 4], np.float64)
    assert kept == [0, 1, 2]
    assert str(sums) == "[-0.0, nan, inf]"


def test_long_and_short_maps_take_turns() -> None:
    rng = np.random.default_rng(5)
    lengths = [0, 3, 2000, 1, 5, 300, 2]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    keys = rng.integers(0, 1000, offsets[-1]).tolist()
    values = rng.integers(-99, 99, offsets[-1]).tolist()
    assert summed(keys, values, offsets) == expected(keys, values, offsets)


@pytest.mark.parametrize(
    ("offsets", "status"), [([0, 2, 1], 1), ([0, 4], 0), ([-1, 2], 0), ([], kernels.MISMATCH)]
)
def test_offsets_that_are_none_are_refused(offsets: list[int], status: int) -> None:
    assert summed([1, 2, 3], [1, 2, 3], offsets)[0] == status


def test_arrays_without_room_are_refused() -> None:
    three, two = np.zeros(3, np.int64), np.zeros(2, np.int64)
    offsets = np.array([0, 3])
    for kept, sums, ends in ((two, three, three), (three, two, three), (three, three, two[:1])):
        status, _ = kernels.sum_rows(three, three, offsets, MULTIPLIER, kept, sums, ends)
        assert status == kernels.MISMATCH
