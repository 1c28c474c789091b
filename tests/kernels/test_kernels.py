"""The kernels against plain loops over dicts, on shapes that are sure to take each of the ways."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmapops import _vocabulary, kernels
from nbmapops._vocabulary import Index, build_index, range_index, table_index
from nbmapops.kernels import index as index_file
from nbmapops.kernels import order
from nbmapops.kernels import rows as rows_file
from nbmapops.kernels.index import hash_key

from ..conftest import WITHOUT_JIT
from ..fresh import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

compiled_only = pytest.mark.skipif(WITHOUT_JIT, reason="too slow, or pointless, without a compiler")

LEAST, MOST = -(2**63), 2**63 - 1
BITS = 2**64
# A guess at the multiplier, as somebody who reads the source might make it.
GUESS = int(index_file._K1)


def readonly(array: object, dtype: Any = None) -> Array:
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view


def signed(number: int) -> int:
    return (number + 2**63) % BITS - 2**63


def rng_of(*seed: int) -> np.random.Generator:
    return np.random.default_rng([20261129, *seed])


def wide_words(n: int, *seed: int) -> Array:
    words = np.unique(rng_of(n, *seed).integers(LEAST, MOST, n + 2, endpoint=True))[1:-1]
    words = np.concatenate([[LEAST, MOST], words])[:n]
    return rng_of(n).permutation(words)


WORDS: dict[str, Array] = {
    "empty": np.empty(0, np.int64),
    "one": np.array([17]),
    "range": np.arange(100),
    "range below 0": np.arange(-60, 40),
    "range to the end": np.arange(MOST - 99, MOST) + 1,
    "table": rng_of(1).permutation(np.arange(-300, 0, 3)),
    "table at the start": LEAST + rng_of(2).permutation(np.arange(0, 300, 3)),
    "table at the end": MOST - rng_of(3).permutation(np.arange(0, 300, 3)),
    "hash": wide_words(100),
    "hash of ends": np.array([MOST, LEAST]),
    "hash of 0": np.array([0, 2**40, -(2**50)]),
    "large hash": wide_words(50 if WITHOUT_JIT else 20_000),
}
KIND = {"range": 0, "table": 1, "hash": 2}


def kind_of(name: str) -> int:
    return next((kind for word, kind in KIND.items() if word in name), 0)


@pytest.mark.parametrize("name", WORDS)
def test_each_kind_of_index_is_built(name: str) -> None:
    header = build_index(WORDS[name]).header

    assert header[1] == kind_of(name)
    assert header[2] == len(WORDS[name])
    assert len(header) == 8


def columns_of(index: Index, keys: Array) -> list[int]:
    columns = np.full(len(keys), -7)
    assert kernels.lookup(*index, readonly(keys, np.int64), columns) == kernels.OK
    return [int(column) for column in columns]


@pytest.mark.parametrize("name", WORDS)
def test_lookup_finds_words_and_nothing_else(name: str) -> None:
    words = WORDS[name]
    column = {int(word): i for i, word in enumerate(words)}
    keys = [int(word) for word in words]
    keys += [signed(key + step) for key in keys for step in (-1, 1, 2**32, 2**63)]
    keys += [0, -1, 1, LEAST, LEAST + 1, MOST, MOST - 1]

    assert columns_of(build_index(words), np.array(keys)) == [column.get(key, -1) for key in keys]


def test_a_key_that_lands_in_an_empty_slot_is_unknown() -> None:
    """Empty slots hold the word 0: a vocabulary without 0, looked up for 0, under many seeds."""
    for seed in range(50):
        words = rng_of(seed).integers(1, MOST, 3)

        assert columns_of(build_index(words), np.array([0])) == [-1]


# Batches: rows of every length, of known keys unless said otherwise.


def batch(
    words: Array,
    lengths: Iterable[int],
    *,
    unknown: float = 0,
    repeats: bool = False,
    seed: int = 0,
) -> tuple[Array, Array, Array]:
    """Keys, values and offsets of maps with the given numbers of entries."""
    rng = rng_of(seed)
    known = {int(word) for word in words}
    rows = []
    for n in lengths:
        row = rng.choice(words, n, replace=True) if repeats else rng.permutation(words)[:n]
        strange = rng.random(n) < unknown
        odd = rng.integers(LEAST, MOST, n)
        rows.append(
            [odd[i] if strange[i] and int(odd[i]) not in known else row[i] for i in range(n)]
        )
    keys = np.array([key for row in rows for key in row], np.int64)
    offsets = np.cumsum([0, *map(len, rows)])
    return readonly(keys), readonly(rng.integers(1, 2**40, len(keys))), readonly(offsets, np.int64)


def expected_rows(
    words: Iterable[int] | None,
    keys: Array,
    values: Array,
    offsets: Array,
    *,
    skip: bool = False,
    first: bool = False,
) -> tuple[int, list[dict[int, Any]]]:
    """First bad map or -1, and for each map before it column (or key) -> value."""
    column = None if words is None else {int(word): i for i, word in enumerate(words)}
    rows: list[dict[int, Any]] = []
    for lo, hi in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        row: dict[int, Any] = {}
        for key, value in zip(keys[lo:hi].tolist(), values[lo:hi], strict=True):
            place = key if column is None else column.get(key, -1)
            if column is not None and place < 0:
                if not skip:
                    return len(rows), rows
            elif place not in row:
                row[place] = value
            elif not first:
                return len(rows), rows
        rows.append(row)
    return -1, rows


def check_csr(
    words: Array, keys: Array, values: Array, offsets: Array, *,
    skip: bool = False, first: bool = False, base: int = 3, index_dtype: Any = np.int32,
) -> int:  # fmt: skip
    """Run `vectorize_csr` into the middle of larger arrays; the status."""
    bad, rows = expected_rows(words, keys, values, offsets, skip=skip, first=first)
    maps, entries = len(offsets) - 1, len(keys)
    indptr = np.full(maps + 3, -9, index_dtype)
    indices = np.full(base + entries + 5, -9, index_dtype)
    data = np.full(base + entries + 5, -9, values.dtype)

    status, end = kernels.vectorize_csr(
        *build_index(words), keys, values, offsets, 0, maps, skip, first, base,
        indptr, indices[: base + entries], data[: base + entries],
    )  # fmt: skip

    assert status == bad
    ends = np.cumsum([base, *map(len, rows)])
    assert end == ends[-1]
    assert indptr.tolist()[: len(rows) + 1] == [-9, *ends[1:]]
    assert (indptr[maps + 1 :] == -9).all()
    wanted = [(column, row[column]) for row in rows for column in sorted(row)]
    assert indices[base:end].tolist() == [column for column, _ in wanted]
    assert data[base:end].tobytes() == np.array([v for _, v in wanted], data.dtype).tobytes()
    for array in (indices, data):
        assert (array[:base] == -9).all()
        assert (array[base + entries :] == -9).all()
    return int(status)


def check_dense(
    words: Array, keys: Array, values: Array, offsets: Array, *,
    skip: bool = False, first: bool = False, prefilled: bool = False,
) -> int:  # fmt: skip
    """Run `vectorize_dense` into rows between rows that must stay; the status."""
    bad, rows = expected_rows(words, keys, values, offsets, skip=skip, first=first)
    maps, width = len(offsets) - 1, len(words)
    around = np.full((maps + 2, width), -9, values.dtype)
    out = around[1:-1]
    if prefilled:
        out[:] = 5

    status = kernels.vectorize_dense(
        *build_index(words), keys, values, offsets, 0, maps,
        values.dtype.type(5), prefilled, skip, first, out,
    )  # fmt: skip

    assert status == bad
    for made, row in zip(out, rows, strict=False):
        wanted = np.full(width, 5, values.dtype)
        wanted[list(row)] = list(row.values())
        assert made.tobytes() == wanted.tobytes()
    assert (around[[0, -1]] == -9).all()
    return int(status)


SMALL = [0, 1, 2, 5, 0, 20, 7, 8, 9, 15, 16, 17, 64, 65, 63, 100, 0]


@pytest.mark.parametrize("prefilled", [False, True])
@pytest.mark.parametrize("name", ["range", "table", "hash"])
def test_rows_of_known_keys(name: str, prefilled: bool) -> None:
    arrays = batch(WORDS[name], SMALL)

    assert check_csr(WORDS[name], *arrays) == -1
    assert check_csr(WORDS[name], *arrays, base=0, index_dtype=np.int64) == -1
    assert check_dense(WORDS[name], *arrays, prefilled=prefilled) == -1


@pytest.mark.parametrize("name", ["range below 0", "table", "hash"])
def test_keys_of_int32_are_looked_up(name: str) -> None:
    """Columns that Arrow has found are int32, -1 for an unknown key."""
    words = WORDS[name]
    if name == "hash":
        words = rng_of(5).permutation(np.arange(-50, 50) * 40_000_009)
    assert kind_of(name) == build_index(words).header[1]
    keys, values, offsets = batch(words, SMALL)
    strange = readonly(np.where(np.arange(len(keys)) % 7 == 3, 2**31 - 1, keys), np.int32)

    assert check_csr(words, readonly(keys, np.int32), values, offsets) == -1
    assert check_dense(words, readonly(keys, np.int32), values, offsets) == -1
    for skip in (False, True):
        check_csr(words, strange, values, offsets, skip=skip)
        check_dense(words, strange, values, offsets, skip=skip)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_values_are_moved_bit_by_bit(dtype: Any) -> None:
    """The library passes int32 and int64 views; a user's own function may pass floats."""
    keys, values, offsets = batch(WORDS["hash"], [3, 40, 100])
    odd = (values % 1_000).astype(dtype)
    if odd.dtype.kind == "f":
        odd[:6] = [np.nan, -0.0, np.inf, -np.inf, np.nan, 0.0]
        odd.view(np.uint8)[0] ^= 1  # a NaN of another payload
    odd = readonly(odd)

    assert check_csr(WORDS["hash"], keys, odd, offsets) == -1
    assert check_dense(WORDS["hash"], keys, odd, offsets) == -1
    assert check_order(keys, odd, offsets) == -1


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("name", ["range", "table", "hash"])
def test_unknown_and_repeated_keys(name: str, repeats: bool, skip: bool, first: bool) -> None:
    for seed in range(8):
        lengths = rng_of(seed).integers(0, 12, 20)
        arrays = batch(WORDS[name], lengths, unknown=0.05, repeats=repeats, seed=seed)

        check_csr(WORDS[name], *arrays, skip=skip, first=first)
        check_dense(WORDS[name], *arrays, skip=skip, first=first)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("repeats", [False, True])
def test_unknown_and_repeated_keys_of_rows_too_wide_for_a_sparse_set(
    repeats: bool, skip: bool, first: bool
) -> None:
    words = np.arange(rows_file._NARROW + 100)
    for seed in range(8):
        lengths = rng_of(seed).integers(0, 12, 8)
        arrays = batch(words, lengths, unknown=0.05, repeats=repeats, seed=seed)

        check_dense(words, *arrays, skip=skip, first=first, prefilled=True)


@pytest.mark.parametrize("length", [1, 10, 64, 65, 90])
def test_first_bad_map_whatever_is_bad(length: int) -> None:
    keys, values, offsets = batch(WORDS["hash"], [length] * 30)
    good = [key for key in keys.tolist() for _ in (0,)]
    assert check_csr(WORDS["hash"], keys, values, offsets) == -1
    for bad in (0, 13, 29):
        unknown = good.copy()
        unknown[bad * length + length // 2] = 12345
        assert check_csr(WORDS["hash"], readonly(unknown), values, offsets) == bad
        assert check_dense(WORDS["hash"], readonly(unknown), values, offsets) == bad
        if length > 1:
            unknown[bad * length + length // 2] = unknown[bad * length]
            repeated = readonly(unknown)
            unknown[min(bad + 1, 29) * length] += bad < 29  # unknown, in the map after it
            assert check_csr(WORDS["hash"], repeated, values, offsets) == bad
            assert check_dense(WORDS["hash"], repeated, values, offsets, skip=True) == bad


# Rows too long to be ranked, by how the columns lie: (columns, number of columns).
LONG = 200 if WITHOUT_JIT else 6_000


def skewed(n: int) -> Array:
    """Powers of two and what is near: most keys share their leading digits at every scale."""
    spread = np.array([2.0]) ** rng_of(n).uniform(0, 62, n)
    return np.unique(np.concatenate([spread.astype(np.int64), [0, LEAST, MOST]]))


def clusters(n: int) -> Array:
    """Six far apart clusters of narrow keys: more gaps than there are runs."""
    centres = np.array([0, 1 << 20, 1 << 31, 1 << 40, 1 << 50, 1 << 62])
    return np.unique(rng_of(n).choice(centres, n) + rng_of(n, 1).integers(0, n, n))


KEYS: dict[str, Array] = {
    "ascending": np.arange(0, 5 * LONG, 5),
    "narrow": rng_of(0).permutation(2 * LONG)[:LONG] - LONG,
    "narrow, no gap": rng_of(1).permutation(LONG),
    "narrow at the start": LEAST + rng_of(2).permutation(3 * LONG)[:LONG],
    "narrow at the end": MOST - rng_of(3).permutation(3 * LONG)[:LONG],
    "just narrow": rng_of(4).permutation(16 * LONG)[:LONG],
    "not quite narrow": rng_of(5).permutation(40 * LONG)[:LONG],
    "wide": wide_words(LONG),
    "wide, short": wide_words(70),
    "one outlier": np.append(rng_of(6).permutation(LONG), 1 << 60),
    "two halves": np.concatenate([np.arange(LONG // 2) + LEAST, MOST - np.arange(LONG // 2)]),
    "multiples": rng_of(7).permutation(LONG) << 44,
    "clusters": rng_of(8).permutation(clusters(LONG)),
    "skewed": rng_of(9).permutation(skewed(LONG)),
    "skewed, short": rng_of(9).permutation(skewed(100)),
    "close pairs": rng_of(10).permutation(
        np.concatenate([wide_words(LONG // 2) | 1, (wide_words(LONG // 2) | 1) - 1])
    ),
    "falling": np.arange(5 * LONG, 0, -5) << 20,
}


def check_order(
    keys: Array, values: Array, offsets: Array, *, first: bool = False, base: int = 2
) -> int:
    bad, rows = expected_rows(None, keys, values, offsets, first=first)
    maps, entries = len(offsets) - 1, len(keys)
    ends = np.full(maps + 3, -9)
    out = np.full(base + entries + 4, -9, values.dtype)

    status, end = kernels.order_dense(
        keys, values, offsets, 0, maps, first, base, ends, out[: base + entries]
    )

    assert status == bad
    wanted_ends = np.cumsum([base, *map(len, rows)])
    assert end == wanted_ends[-1]
    assert ends.tolist()[: len(rows) + 1] == [-9, *wanted_ends[1:]]
    wanted = [row[key] for row in rows for key in sorted(row)]
    assert out[base:end].tobytes() == np.array(wanted, values.dtype).tobytes()
    assert (out[:base] == -9).all()
    assert (out[base + entries :] == -9).all()
    assert (ends[maps + 1 :] == -9).all()
    return int(status)


@pytest.mark.parametrize("name", KEYS)
def test_order_of_long_maps(name: str) -> None:
    keys = KEYS[name].astype(np.int64)
    n = len(keys)
    values = readonly(np.arange(n) * 3)

    assert check_order(readonly(keys), values, readonly([0, n])) == -1
    assert check_order(readonly(keys), values, readonly([0, 5, 5, n // 2, n])) == -1

    twice = keys.copy()
    twice[n // 3] = twice[2 * n // 3]
    assert check_order(readonly(twice), values, readonly([0, n])) == 0
    assert check_order(readonly(twice), values, readonly([0, n]), first=True) == -1


@pytest.mark.parametrize("name", KEYS)
def test_csr_of_long_rows(name: str) -> None:
    """As columns of a very wide matrix, and as few columns of a hash."""
    keys = KEYS[name].astype(np.int64)
    n = len(keys)
    values, offsets = readonly(rng_of(n).integers(0, MOST, n)), readonly([0, n // 4, n])
    assert check_csr(np.sort(keys), readonly(keys), values, offsets) == -1

    columns = readonly(keys.view(np.uint64) >> np.uint64(1), np.int64)
    order = np.argsort(columns[: n // 4], kind="stable")
    indptr, indices = np.zeros(3, np.int64), np.empty(n, np.int64)
    data = np.empty(n, np.int64)
    if len(np.unique(columns)) == n:
        status, end = kernels.vectorize_csr(
            *range_index(MOST), columns, values, offsets, 0, 2, False, False, 0,
            indptr, indices, data,
        )  # fmt: skip
        assert (status, end) == (-1, n)
        assert (np.diff(indices[n // 4 :]) > 0).all()
        assert indices[: n // 4].tolist() == columns[: n // 4][order].tolist()
        assert data[: n // 4].tolist() == values[: n // 4][order].tolist()

    twice = keys.copy()
    twice[n // 3] = twice[2 * n // 3]
    assert check_csr(np.sort(keys), readonly(twice), values, offsets) == 1
    assert check_csr(np.sort(keys), readonly(twice), values, offsets, first=True) == -1


def test_equal_keys_keep_their_first_value() -> None:
    for repeats in (2, 3, 50):
        keys = rng_of(repeats).permutation(np.repeat(wide_words(30), repeats))
        values = readonly(np.arange(len(keys)))
        offsets = readonly([0, 10, len(keys)])

        assert check_order(readonly(keys), values, offsets, first=True) == -1
        assert check_csr(wide_words(30), readonly(keys), values, offsets, first=True) == -1
        assert check_order(readonly(keys), values, readonly([0, len(keys)])) == 0

    same = readonly(np.full(500, LEAST))
    assert check_order(same, readonly(np.arange(500)), readonly([0, 500]), first=True) == -1
    assert check_order(same, readonly(np.arange(500)), readonly([0, 500])) == 0


def test_close_keys_are_settled_by_the_whole_key() -> None:
    """Keys that differ only below the bits that fit beside an entry number."""
    keys = rng_of(0).permutation(np.concatenate([np.arange(80), 2**62 + np.arange(80) * 3]))
    keys = np.concatenate([keys, [LEAST + 5, LEAST + 1, LEAST + 3, MOST - 1, MOST]])

    assert check_order(readonly(keys), readonly(np.arange(165)), readonly([0, 165])) == -1


@pytest.mark.parametrize("name", ["skewed", "clusters", "wide", "two halves"])
@pytest.mark.parametrize("bits", [8, 11])
def test_radix_sort_is_stable(name: str, bits: int) -> None:
    keys = np.concatenate([[7, 7], KEYS[name].astype(np.int64)])

    entries, repeated = order._radix_sort(readonly(keys), 2, len(keys) - 2, bits)
    assert entries.tolist() == np.argsort(keys[2:], kind="stable").tolist()
    assert not repeated

    entries, repeated = order._radix_sort(readonly(keys), 0, len(keys), bits)
    assert entries.tolist() == np.argsort(keys, kind="stable").tolist()
    assert repeated


def test_settling_gives_up_in_time() -> None:
    """Entries in falling order: a quadratic insertion sort, if it were carried on."""
    n = 400
    keys, entries = np.arange(n), np.arange(n, 0, -1).astype(np.uint64) << np.uint64(20)

    repeated, given_up = order._insertion_sort(keys, 0, entries, np.uint64(2**20 - 1))

    assert (repeated, given_up) == (False, True)
    assert (np.diff(np.sort(entries).astype(np.int64)) == 1 << 20).all()  # none is lost


@compiled_only
def test_one_row_of_a_million_entries() -> None:
    n = 1_000_000
    keys = readonly(rng_of(n).permutation(4 * n)[:n])
    values, offsets = readonly(np.arange(n)), readonly([0, n])
    order = np.argsort(keys)
    indptr, indices, data = np.zeros(2, np.int32), np.empty(n, np.int32), np.empty(n, np.int64)
    out, ends = np.empty(n, np.int64), np.zeros(2, np.int64)

    kernels.vectorize_csr(
        *range_index(4 * n), keys, values, offsets, 0, 1, False, False, 0, indptr, indices, data
    )
    kernels.order_dense(keys, values, offsets, 0, 1, False, 0, ends, out)

    assert (indices == keys[order]).all()
    assert (data == order).all()
    assert (out == order).all()
    wide = readonly(keys * 1_000_003 % (2**61 - 1))
    kernels.order_dense(wide, values, offsets, 0, 1, False, 0, ends, out)
    assert (out == np.argsort(wide)).all()


def test_many_short_rows_and_one_long_row() -> None:
    """More maps than a group takes, empty ones too, around a map of more entries than a group."""
    many = 300
    words = np.arange(-20, 3_000)
    for lengths in ([1] * many, [0] * many, [0] * many + [1_500] + [2] * many, [1_500, 1_500]):
        arrays = batch(words, lengths)

        assert check_csr(words, *arrays) == -1
        keys, values, offsets = arrays
        out = np.full((len(lengths), len(words)), -1)
        status = kernels.vectorize_dense(
            *build_index(words), keys, values, offsets, 0, len(lengths),
            0, False, False, False, out,
        )  # fmt: skip
        assert status == -1
        sums = [int(values[lo:hi].sum()) for lo, hi in pairwise(offsets)]
        assert out.sum(axis=1).tolist() == sums


int64s = st.one_of(
    st.integers(LEAST, MOST),
    st.integers(-4, 4),
    st.sampled_from([LEAST, LEAST + 1, -1, 0, 1, 2**32, MOST - 1, MOST]),
)


@given(data=st.data())
def test_any_words_and_maps(data: st.DataObject) -> None:
    words = np.array(data.draw(st.lists(int64s, unique=True, max_size=20)), np.int64)
    key = st.one_of(int64s, st.sampled_from(words.tolist())) if len(words) else int64s
    rows = data.draw(st.lists(st.lists(key, max_size=9), max_size=6))
    keys = np.array([key for row in rows for key in row], np.int64)
    offsets = readonly(np.cumsum([0, *map(len, rows)]), np.int64)
    values = readonly(np.arange(len(keys)))
    skip, first = data.draw(st.booleans()), data.draw(st.booleans())

    check_csr(words, readonly(keys), values, offsets, skip=skip, first=first)
    check_dense(words, readonly(keys), values, offsets, skip=skip, first=first)
    check_order(readonly(keys), values, offsets, first=first)
    assert kernels.distinct(readonly(keys), GUESS - BITS).tolist() == list(
        dict.fromkeys(keys.tolist())
    )


@given(
    n=st.integers(65, 90),
    step=st.sampled_from([1, 2, 40, 2**31, 2**40, 2**56]),
    low=st.sampled_from([LEAST, -(2**40), 0, 2**62]),
    seed=st.integers(0, 2**32),
)
def test_any_long_row_is_ordered(n: int, step: int, low: int, seed: int) -> None:
    rng = rng_of(seed)
    between = rng.integers(0, step, n).tolist()  # so that all differ
    places = rng.permutation(n).tolist()
    keys = np.array([signed(low + k * step + e) for k, e in zip(places, between, strict=True)])

    assert check_order(readonly(keys), readonly(np.arange(n)), readonly([0, n])) == -1


# A part of the maps, by several calls, by several threads.


@pytest.mark.parametrize("step", [1, 3, 50])
def test_blocks_of_maps_fit_together(step: int) -> None:
    words = WORDS["hash"]
    keys, values, offsets = batch(words, [5, 0, 30, 70, 1] * 9)
    maps, entries = len(offsets) - 1, len(keys)
    index = build_index(words)
    indptr, ends = np.zeros(maps + 1, np.int32), np.zeros(maps + 1, np.int64)
    indices, data = np.empty(entries, np.int32), np.empty(entries, np.int64)
    out, ordered = np.zeros((maps, len(words)), np.int64), np.empty(entries, np.int64)
    for start in range(0, maps, step):
        stop, base = min(start + step, maps), int(offsets[start])
        assert kernels.vectorize_csr(
            *index, keys, values, offsets, start, stop, False, False, base, indptr, indices, data
        ) == (-1, offsets[stop])
        assert kernels.order_dense(
            keys, values, offsets, start, stop, False, base, ends, ordered
        ) == (-1, offsets[stop])
        assert (
            kernels.vectorize_dense(
                *index, keys, values, offsets, start, stop, 0, True, False, False, out
            )
            == -1
        )

    assert indptr.tolist() == offsets.tolist() == ends.tolist()
    rows = np.repeat(np.arange(maps), np.diff(offsets))
    assert (out[rows, indices] == data).all()
    assert np.count_nonzero(out) == entries


@compiled_only
def test_threads_write_disjoint_rows() -> None:
    words = WORDS["large hash"]
    keys, values, offsets = batch(words, [20] * 400)
    index = build_index(words)
    maps, entries = len(offsets) - 1, len(keys)

    def run(threads: int) -> tuple[Array, Array, Array]:
        indptr = np.zeros(maps + 1, np.int32)
        indices, data = np.empty(entries, np.int32), np.empty(entries, np.int64)

        def part(start: int) -> int:
            return int(
                kernels.vectorize_csr(
                    *index, keys, values, offsets, start, start + 40, False, False,
                    int(offsets[start]), indptr, indices, data,
                )[0]
            )  # fmt: skip

        with ThreadPoolExecutor(threads) as pool:
            assert set(pool.map(part, range(0, maps, 40))) == {-1}
        return indptr, indices, data

    for one, several in zip(run(1), run(4), strict=True):
        assert one.tobytes() == several.tobytes()


# Hostile arrays: nonsense may come out, nothing outside the arrays is read or written.


@pytest.mark.parametrize(
    ("offsets", "bad"),
    [
        ([0, 5, 3, 8], 1),
        ([0, 5, 9, 40], 1),
        ([0, 5, MOST, 8], 1),
        ([0, LEAST, 4, 8], 0),
        ([-1, 5, 6, 8], 0),
        ([LEAST, 5, 6, 8], 0),
        ([9, 9, 9, 9], 0),
        ([MOST, MOST, MOST, MOST], 0),
        ([0, 1, 2, -3], 2),
    ],
)
def test_broken_offsets_are_a_bad_map(offsets: list[int], bad: int) -> None:
    keys, values = readonly(np.arange(8)), readonly(np.arange(8))
    broken = readonly(offsets)
    index, out = range_index(8), np.full((3, 8), -9)
    indptr, indices, data = np.zeros(4, np.int32), np.empty(8, np.int32), np.empty(8, np.int64)

    status, end = kernels.vectorize_csr(
        *index, keys, values, broken, 0, 3, True, True, 0, indptr, indices, data
    )
    assert status == bad
    assert 0 <= end <= 8
    assert bad == kernels.vectorize_dense(
        *index, keys, values, broken, 0, 3, 0, False, True, True, out
    )
    assert (
        kernels.order_dense(keys, values, broken, 0, 3, True, 0, np.zeros(4, np.int64), data)[0]
        == bad
    )


def test_values_that_end_before_the_keys_are_a_bad_map() -> None:
    keys, values, offsets = readonly(np.arange(8)), readonly(np.arange(5)), readonly([0, 4, 8])
    indptr, indices, data = np.zeros(3, np.int32), np.empty(8, np.int32), np.empty(8, np.int64)

    status = kernels.vectorize_csr(
        *range_index(8), keys, values, offsets, 0, 2, False, False, 0, indptr, indices, data
    )
    assert status == (1, 4)
    assert kernels.vectorize_dense(
        *range_index(8), keys, values, offsets, 0, 2, 0, False, False, False,
        np.zeros((2, 8), np.int64),
    ) == 1  # fmt: skip


@pytest.mark.parametrize("order", ["ascending", "mixed", "long", "repeated"])
def test_a_row_that_does_not_fit_is_a_bad_map(order: str) -> None:
    n = 80 if order == "long" else 10
    row = np.arange(n) if order == "ascending" else rng_of(n).permutation(n)
    if order == "repeated":
        row = np.append(row[:-1], row[0])
    keys, values, offsets = readonly(row), readonly(np.arange(n)), readonly([0, n])
    kept = len(np.unique(row))
    for room in (0, 1, kept - 1, kept):
        around = np.full(room + 20, -9)
        wanted = 0 if room < kept else -1

        status, _ = kernels.vectorize_csr(
            *range_index(n), keys, values, offsets, 0, 1, False, True, 0,
            np.zeros(2, np.int64), np.empty(n, np.int64), around[:room],
        )  # fmt: skip
        assert status == wanted
        assert (around[room:] == -9).all()
        around[:] = -9
        status, _ = kernels.order_dense(
            keys, values, offsets, 0, 1, True, 0, np.zeros(2, np.int64), around[:room]
        )
        assert status == wanted
        assert (around[room:] == -9).all()


def test_columns_beyond_the_width_are_no_columns() -> None:
    """A table and slots that name columns that the header does not have."""
    table = table_index(np.array([0, 5, 1, 2**31 - 1, -7], np.int32))
    header = table.header.copy()
    header[2] = 2
    forged = table._replace(header=readonly(header))
    assert columns_of(forged, np.arange(5)) == [0, -1, 1, -1, -1]

    index = build_index(WORDS["hash"])
    slots = index.slots.copy()
    slots[1::2] += 50
    forged = index._replace(slots=readonly(slots))
    found = columns_of(forged, WORDS["hash"])
    assert found == [column + 50 if column < 50 else -1 for column in range(100)]


def header_of(index: Index, **changes: int) -> Index:
    names = ["format", "kind", "columns", "low", "slots", "bits", "multiplier", "spare"]
    header = index.header.copy()
    for name, value in changes.items():
        header[names.index(name)] = value
    return index._replace(header=readonly(header))


HASH = build_index(WORDS["hash"])
FORGED = [
    (header_of(HASH, format=2), kernels.OTHER_FORMAT),
    (header_of(HASH, format=0), kernels.OTHER_FORMAT),
    (header_of(HASH, kind=3), kernels.OTHER_FORMAT),
    (header_of(HASH, kind=-1), kernels.OTHER_FORMAT),
    (HASH._replace(header=readonly(np.empty(0, np.int64))), kernels.OTHER_FORMAT),
    (HASH._replace(header=HASH.header[:7]), kernels.OTHER_FORMAT),
    (header_of(HASH, columns=-1), kernels.MISMATCH),
    (header_of(HASH, kind=1), kernels.MISMATCH),
    (header_of(HASH, slots=0), kernels.MISMATCH),
    (header_of(HASH, slots=-5), kernels.MISMATCH),
    (header_of(HASH, slots=MOST), kernels.MISMATCH),
    (header_of(HASH, slots=len(HASH.slots) // 2 + 1), kernels.MISMATCH),
    (header_of(HASH, bits=0), kernels.MISMATCH),
    (header_of(HASH, bits=64), kernels.MISMATCH),
    (header_of(HASH, bits=int(HASH.header[5]) + 1), kernels.MISMATCH),
    (HASH._replace(pilots=HASH.pilots[:-1]), kernels.MISMATCH),
    (HASH._replace(slots=HASH.slots[:-2]), kernels.MISMATCH),
]


@pytest.mark.parametrize(("index", "status"), FORGED)
def test_an_index_that_does_not_fit_is_refused(index: Index, status: int) -> None:
    keys, values, offsets = batch(WORDS["hash"], [3, 3])
    out, data = np.full((2, 100), -9), np.full(6, -9)

    assert kernels.lookup(*index, keys, np.empty(6, np.int64)) == status
    assert status == kernels.vectorize_dense(
        *index, keys, values, offsets, 0, 2, 0, False, False, False, out
    )
    assert (status, 0) == kernels.vectorize_csr(
        *index, keys, values, offsets, 0, 2, False, False, 0,
        np.zeros(3, np.int32), np.empty(6, np.int32), data,
    )  # fmt: skip
    assert (out == -9).all()
    assert (data == -9).all()


def test_arrays_that_do_not_fit_each_other_are_refused() -> None:
    keys, values, offsets = batch(WORDS["range"], [3, 3])
    index = build_index(WORDS["range"])

    def dense(start: int, stop: int, shape: tuple[int, int]) -> int:
        return int(
            kernels.vectorize_dense(
                *index,
                keys,
                values,
                offsets,
                start,
                stop,
                0,
                False,
                False,
                False,
                np.empty(shape, np.int64),
            )
        )

    assert dense(0, 2, (2, 100)) == -1
    assert dense(1, 1, (1, 100)) == -1
    assert dense(-1, 2, (2, 100)) == kernels.MISMATCH
    assert dense(0, 3, (3, 100)) == kernels.MISMATCH
    assert dense(0, 2, (1, 100)) == kernels.MISMATCH
    assert dense(0, 2, (2, 99)) == kernels.MISMATCH

    def csr(start: int, stop: int, base: int, maps: int = 2, width: int = 100) -> Any:
        return kernels.vectorize_csr(
            *range_index(width), keys, values, offsets, start, stop, False, False, base,
            np.zeros(maps + 1, np.int32), np.empty(6, np.int32), np.empty(6, np.int64),
        )  # fmt: skip

    assert csr(0, 2, 0) == (-1, 6)
    assert csr(2, 2, 6) == (-1, 6)
    assert csr(0, 2, 0, width=2**31) == (-1, 6)
    for refused in (
        csr(-1, 2, 0),
        csr(0, 3, 0),
        csr(0, 2, 0, maps=1),
        csr(0, 2, 0, width=2**31 + 1),
    ):
        assert refused == (kernels.MISMATCH, 0)
    for base in (-1, 7):
        assert csr(0, 2, base) == (kernels.MISMATCH, base)

    def order(start: int, stop: int, base: int, maps: int = 2) -> Any:
        ends = np.zeros(maps + 1, np.int64)
        return kernels.order_dense(
            keys, values, offsets, start, stop, False, base, ends, np.empty(6, np.int64)
        )

    assert order(0, 2, 0) == (-1, 6)
    assert order(1, 1, 6) == (-1, 6)
    for refused in (order(-1, 2, 0), order(0, 3, 0), order(0, 2, 0, maps=1)):
        assert refused == (kernels.MISMATCH, 0)
    for base in (-1, 7):
        assert order(0, 2, base) == (kernels.MISMATCH, base)
    assert kernels.lookup(*index, keys, np.empty(5, np.int64)) == kernels.MISMATCH


@compiled_only
def test_arrays_that_change_while_kernels_run() -> None:
    """Another thread scribbles over keys and offsets: no crash, and nothing around is touched."""
    rng = rng_of(0)
    n = 20_000
    keys, offsets = rng.permutation(2 * n)[:n], np.array([0, 100, 130, n // 2, n])
    values = readonly(np.arange(n))
    around = np.full(n + 2_000, -9)
    inside = around[1_000:-1_000]
    dense = np.full((6, 2 * n), -9)
    index, ends = range_index(2 * n), np.zeros(5, np.int64)
    indices = np.empty(n, np.int64)
    done = threading.Event()

    def scribble() -> None:
        noise = [keys.copy(), rng.integers(LEAST, MOST, n), rng.integers(0, 2 * n, n)]
        while not done.is_set():
            for other in noise:
                keys[:] = other
                offsets[:] = [0, 100, MOST, LEAST, n]
                offsets[:] = [0, 100, 130, n // 2, n]

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for _ in range(150):
            k, o = readonly(keys), readonly(offsets)
            kernels.order_dense(k, values, o, 0, 4, True, 0, ends, inside)
            kernels.vectorize_csr(*index, k, values, o, 0, 4, True, True, 0, ends, indices, inside)
            kernels.vectorize_dense(*index, k, values, o, 0, 4, 0, False, True, True, dense[1:5])
    finally:
        done.set()
        thread.join()

    assert (around[:1_000] == -9).all()
    assert (around[-1_000:] == -9).all()
    assert (dense[[0, 5]] == -9).all()


# Building an index.


def build(words: Sequence[int] | Array, multiplier: int, load: float = 0.8) -> tuple[int, Array]:
    """Status of `build_hash`, and the pilots."""
    n = len(words)
    bits = max(1, (n // 4).bit_length())
    n_slots = int(n / load) + 8
    pilots, slots = np.zeros(1 << bits, np.uint16), np.empty(2 * n_slots, np.int64)
    status = kernels.build_hash(
        readonly(words, np.int64), n_slots, bits, signed(multiplier), pilots, slots
    )
    return int(status), pilots


def inverse(odd: int) -> int:
    return pow(odd, -1, BITS)


def key_of_hash(h: int, multiplier: int) -> int:
    """The key whose hash is `h`: the hash is a bijection."""
    h = h * inverse(multiplier) % BITS
    h = (h ^ (h >> 32)) * inverse(multiplier) % BITS
    return signed(h ^ (h >> 32))


COUNT = 60 if WITHOUT_JIT else 5_000


def reversed_bits(n: int) -> int:
    return signed(int(f"{n:064b}"[::-1], 2))


CHOSEN: dict[str, list[int]] = {
    "one bucket": [key_of_hash((0xABCD << 48) + i, GUESS) for i in range(COUNT)],
    "one bucket, high bits": [key_of_hash((i << 20) + 5, GUESS) for i in range(COUNT)],
    "all low bits equal": [signed(i << 40) for i in range(COUNT)],
    "only high bits differ": [signed(i << 50) for i in range(min(COUNT, 2**14))],
    "all high bits equal": [2**62 + i * 7 for i in range(COUNT)],
    "steps of the multiplier": [signed(i * GUESS) for i in range(COUNT)],
    "steps of its inverse": [signed(i * inverse(GUESS)) for i in range(COUNT)],
    "a progression": [i * 1_000_003 - 2**60 for i in range(COUNT)],
    "reversed bits": [reversed_bits(i) for i in range(COUNT)],
    "squares": [i * i * 97 for i in range(COUNT)],
    "one bit each, and sums": [
        signed((1 << (i % 64)) + (1 << (i // 64 % 64))) for i in range(4096)
    ],
}


def pilots_tried(words: Iterable[int]) -> float:
    """Pilots tried for a word, over several sets: the steps that building takes."""
    distinct = list(dict.fromkeys(words))
    index = build_index(np.array(distinct))
    assert index.header[1] == kernels.HASH
    attempts_slots = len(distinct) + len(distinct) // 4 + 8
    assert index.header[4] == attempts_slots, "built at the first attempt"
    return (float(index.pilots.sum()) + len(index.pilots)) / len(distinct)


@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_words_take_no_longer_than_random_ones(name: str) -> None:
    words = list(dict.fromkeys(CHOSEN[name]))
    usual = pilots_tried(wide_words(len(words)).tolist())

    assert pilots_tried(words) <= 3 * usual
    assert columns_of(build_index(np.array(words)), np.array(words)) == list(range(len(words)))


def test_words_chosen_for_a_multiplier_would_collide_under_it() -> None:
    """What the test above is worth: with the guessed multiplier these words do not fit."""
    words = [key_of_hash((0xABCD << 48) + i, GUESS) for i in range(70)]

    assert build(words, GUESS)[0] == kernels.NO_FIT
    assert build_index(np.array(words)).header[1] == kernels.HASH


def test_hash_is_a_bijection() -> None:
    multiplier = np.uint64(GUESS)
    for key in [*WORDS["hash"].tolist(), 0, 1, -1]:
        h = int(hash_key(np.int64(key), multiplier))
        assert key_of_hash(h, GUESS) == key


def test_hash_that_does_not_fit_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never fails: one refusal more, one multiplier and some slots more; memory stays bounded."""
    words = wide_words(200)
    real, tried = kernels.build_hash, []

    def refuse(*arguments: Any) -> int:
        tried.append((arguments[1], int(arguments[3])))
        return kernels.NO_FIT if len(tried) < 4 else int(real(*arguments))

    monkeypatch.setattr(kernels, "build_hash", refuse)
    index = _vocabulary.build_index(words)

    assert columns_of(index, words) == list(range(200))
    assert len({multiplier for _, multiplier in tried}) == 4
    assert all(multiplier % 2 == 1 for _, multiplier in tried)
    assert [slots for slots, _ in tried] == sorted({slots for slots, _ in tried})


def test_no_pilot_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many slots as words: the last bucket finds none, and this is said, not looped on."""
    if WITHOUT_JIT:
        monkeypatch.setattr(index_file, "_PILOTS", 50)
    words = wide_words(40)
    statuses = set()
    for seed in range(3):
        pilots, slots = np.zeros(2, np.uint16), np.empty(2 * 40, np.int64)
        multiplier = int(rng_of(seed).integers(LEAST, MOST)) | 1
        statuses.add(int(kernels.build_hash(readonly(words), 40, 1, multiplier, pilots, slots)))

    assert statuses <= {kernels.NO_FIT, kernels.OK}
    assert kernels.NO_FIT in statuses


@pytest.mark.parametrize("copies", [2, 3, 60])
def test_repeated_words_are_found_by_the_hash(copies: int) -> None:
    words = [*wide_words(100).tolist()]
    where = [10 + i for i in range(copies - 1)]
    for place in where:
        words[place] = words[3]

    assert build(words, GUESS)[0] == where[0]
    with pytest.raises(ValueError, match="repeated"):
        build_index(np.array(words))


def test_so_many_copies_that_a_bucket_is_too_large() -> None:
    words = [*wide_words(100).tolist(), *[5] * 80]

    assert build(words, GUESS)[0] == kernels.NO_FIT
    with pytest.raises(ValueError, match="repeated"):
        build_index(np.array(words))


@compiled_only
@pytest.mark.parametrize("n", [100_000, 1_000_000])
def test_index_takes_at_most_28_bytes_a_word(n: int) -> None:
    words = rng_of(n).integers(LEAST, MOST, n)
    index = build_index(words)

    assert index.header[1] == kernels.HASH
    assert sum(array.nbytes for array in index) <= 28 * n
    assert columns_of(index, words[::997]) == list(range(0, n, 997))


def test_table_takes_at_most_28_bytes_a_word() -> None:
    words = rng_of(0).permutation(400)[:100] - 200
    index = build_index(words)

    assert index.header[1] == kernels.TABLE
    assert sum(array.nbytes for array in index) <= 28 * 100 + 64


# Learning.


@pytest.mark.parametrize("n", [0, 1, 2, 400, 600, 3000])
def test_distinct_keys_in_the_order_of_their_first_entry(n: int) -> None:
    words = wide_words(n) if n > 1 else np.arange(n)
    keys = np.concatenate([words[: n // 2], rng_of(n).choice(words, n)]) if n else words

    found = kernels.distinct(readonly(keys, np.int64), GUESS - BITS)

    assert found.tolist() == list(dict.fromkeys(keys.tolist()))
    assert found.dtype == np.int64


def probes(keys: Iterable[int], multiplier: int) -> float:
    """Steps for a key in a table as `distinct` keeps it, half full, found in plain Python."""
    keys = list(keys)
    bits = max(11, (2 * len(keys)).bit_length())
    table: dict[int, int] = {}
    steps = 0
    for key in keys:
        place = int(hash_key(np.int64(key), np.uint64(multiplier))) >> (64 - bits)
        steps += 1
        while place in table:
            place = (place + 1) % (1 << bits)
            steps += 1
        table[place] = key
    return steps / len(keys)


@pytest.mark.parametrize("name", ["one bucket", "all low bits equal", "a progression", "squares"])
def test_chosen_keys_are_learned_as_fast_as_random_ones(name: str) -> None:
    keys = list(dict.fromkeys(CHOSEN[name]))[:1_000]
    if name == "one bucket" and not WITHOUT_JIT:
        assert probes(keys, GUESS) > 100  # with the multiplier that they are chosen for

    usual = probes(wide_words(len(keys)).tolist(), GUESS)
    for seed in range(3):
        multiplier = int(rng_of(seed).integers(0, MOST)) * 2 + 1
        assert probes(keys, multiplier) <= 3 * usual


# Compilation.


@compiled_only
def test_each_kernel_is_compiled_once_for_a_dtype() -> None:
    words = WORDS["hash"]
    index = build_index(words)
    public = {name: getattr(kernels, name) for name in kernels.__all__ if name.islower()}

    def use(lengths: list[int], maps: Any, flag: Any) -> dict[str, int]:
        keys, values, offsets = batch(words, lengths)
        moved = readonly(values.view(np.int64))
        kernels.lookup(*index, keys, np.empty(len(keys), np.int64))
        kernels.find(*index, maps)
        kernels.sum_rows(
            keys, moved, offsets, 1, np.empty(len(keys), np.int64), np.empty(len(keys), np.int64),
            np.empty(len(offsets), np.int64),
        )  # fmt: skip
        kernels.vectorize_dense(
            *index, keys, moved, offsets, 0, maps, 0, flag, flag, flag,
            np.zeros((len(lengths), 100), np.int64),
        )  # fmt: skip
        kernels.vectorize_csr(
            *index, keys, moved, offsets, 0, maps, flag, flag, 0,
            np.zeros(len(lengths) + 1, np.int32), np.empty(len(keys), np.int32),
            np.empty(len(keys), np.int64),
        )  # fmt: skip
        kernels.order_dense(
            keys, moved, offsets, 0, maps, flag, 0,
            np.zeros(len(lengths) + 1, np.int64), np.empty(len(keys), np.int64),
        )  # fmt: skip
        return {name: len(kernel.overloads) for name, kernel in public.items()}

    before = use([3, 70], 2, False)

    assert all(before.values())
    assert use([0, 0, 5], np.int64(3), np.True_) == before
    assert use([], 0, True) == before


NO_CACHE = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []  # what is left where no folder can be written
import numpy as np
from nbmapops.kernels.index import hash_key as used
print(used(np.int64(0), np.uint64(9)), len(used.signatures), used.stats.cache_path)
"""


@compiled_only
def test_kernels_compile_where_nothing_can_be_cached() -> None:
    assert run(NO_CACHE).split("\n")[0] == "0 1 None"
