"""Compiled: the distinct keys of a batch, and maps in which each key stands once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types
from numba.extending import overload

from nbmapops._jit import Untyped, inlined, kernel
from nbmapops.kernels.arguments import dtype_check
from nbmapops.kernels.index import MISMATCH, OK, hash_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmapops._constants import Array, Integer

__all__ = ["distinct", "sum_rows"]

_U1 = np.uint64(1)


@kernel
def _probe(
    table: Array, shift: np.uint64, multiplier: np.uint64, key: Integer, empty: Integer
) -> np.uint64:
    """Where `table` holds `key`, or the empty place where it belongs."""
    mask = np.uint64(table.size - 1)
    place = hash_key(key, multiplier) >> shift
    while table[place] != key and table[place] != empty:
        place = (place + _U1) & mask
    return place


@kernel
def distinct(keys: Array, multiplier: Integer) -> Array:
    """Find the distinct keys.

    Parameters
    ----------
    keys : int64 array, shape (n,)
        The keys.
    multiplier : int64
        The bits of an odd uint64; random, so that no keys can be chosen to be slow.

    Returns
    -------
    int64 array
        Every key once, in the order in which they are first seen.
    """
    found = np.empty(512, np.int64)
    if keys.size == 0:
        return found[:0]
    factor, bits = np.uint64(np.int64(multiplier)), 11
    # Places without a key hold the first key: it needs no place, and no key is set aside.
    first = keys[0]
    table = np.full(1 << bits, first, np.int64)
    found[0] = first
    n = 1
    for i in range(1, keys.size):
        key = keys[i]
        place = _probe(table, np.uint64(64 - bits), factor, key, first)
        if table[place] == key:
            continue
        table[place] = key
        if n == found.size:
            larger = np.empty(2 * n, np.int64)
            larger[:n] = found
            found = larger
        found[n] = key
        n += 1
        if 2 * n > table.size:
            bits += 2
            table = np.full(1 << bits, first, np.int64)
            for j in range(1, n):
                table[_probe(table, np.uint64(64 - bits), factor, found[j], first)] = found[j]
    return found[:n].copy()


def _add(number: Untyped, other: Untyped) -> tuple[Untyped, int]:
    """Return the sum modulo 2**64, and by how many 2**64 the exact one is more; one NaN of all."""
    if isinstance(number, np.floating):
        with np.errstate(all="ignore"):
            both = number + other
        return (type(number)(np.nan) if np.isnan(both) else both), 0
    total = int(number) + int(other)
    carry = (total + 2**63) >> 64
    return np.int64(total - (carry << 64)), carry


def _add_compiled(number: Untyped, _: Untyped) -> Callable[..., Untyped]:
    if isinstance(number, types.Float):
        nan = (np.float32 if number == types.float32 else np.float64)(np.nan)

        def add_floats(number: Untyped, other: Untyped) -> Untyped:
            both = number + other
            return nan if np.isnan(both) else both, np.int64(0)

        return add_floats

    def add(number: Untyped, other: Untyped) -> Untyped:
        # Unsigned, because a sum of int64 that wraps is undefined in compiled code.
        total = np.int64(np.uint64(number) + np.uint64(other))
        wraps = (number ^ total) & (other ^ total) < 0
        return total, np.int64(0) if not wraps else np.int64(1) if other > 0 else np.int64(-1)

    return add


overload(_add, inline="always", strict=False)(_add_compiled)


@inlined
def _table_bits(bits: int, n: Integer) -> int:
    """Return the size of a table for `n` keys, at most half full, as a power of two."""
    while 1 << bits < 2 * n:
        bits += 1
    while bits > 3 and 1 << (bits - 1) >= 2 * n:
        bits -= 1
    return bits


_check_sum_rows = dtype_check("sum_rows", "keys", "values", "offsets", "kept", "sums", "ends")


@kernel
def sum_rows(
    keys: Array, values: Array, offsets: Array, multiplier: Integer,
    kept: Array, sums: Array, ends: Array,
) -> tuple[Integer, Integer]:  # fmt: skip
    """Add up the values of repeated keys, map by map.

    Parameters
    ----------
    keys : int64 array, shape (n,)
        The keys of all maps.
    values : int64, float32 or float64 array, shape (n,)
        Their values.
    offsets : int64 array, shape (maps + 1,)
        Map ``i`` is the entries ``offsets[i] .. offsets[i + 1] - 1``.
    multiplier : int64
        The bits of an odd uint64; random, so that no keys can be chosen to be slow.
    kept : int64 array, shape (n,)
        Written: the number of the first entry of each key of a map.
    sums : array of the dtype of `values`, shape (n,)
        Written: the sum for each of these, added in the order of the entries.
    ends : int64 array, shape (maps + 1,)
        Written: ``ends[i + 1]`` is where map ``i`` ends in `kept` and `sums`.

    Returns
    -------
    status : int
        -1; the first map with a sum outside int64, or that is not a map; or `MISMATCH`.
    end : int
        The number of entries written.
    """
    _check_sum_rows((keys, values, offsets, kept, sums, ends))
    n = min(keys.size, values.size)
    if offsets.size < 1 or ends.size < offsets.size or min(kept.size, sums.size) < n:
        return MISMATCH, np.int64(0)
    factor, bits, end = np.uint64(np.int64(multiplier)), 3, np.int64(0)
    table = np.empty(np.int64(1) << bits, np.int64)  # where in `kept` the key of a place is
    carries = np.empty(np.int64(4), np.int64)  # the high half of each sum
    ends[0] = 0
    lo = offsets[0]
    if lo < 0:
        return np.int64(0), end
    for row in range(offsets.size - 1):
        hi = offsets[row + 1]
        if hi < lo or hi > n:
            return row, end
        bits = _table_bits(bits, hi - lo)
        if table.size < 1 << bits:
            table = np.empty(np.int64(1) << bits, np.int64)
            carries = np.empty(np.int64(1) << (bits - 1), np.int64)
        shift, mask = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
        for place in range(1 << bits):
            table[place] = -1
        start, wrapped = end, np.int64(0)
        for i in range(lo, hi):
            key, value = keys[i], values[i]
            at = hash_key(key, factor) >> shift
            k = table[at]
            while k >= 0 and keys[kept[k]] != key:
                at = (at + _U1) & mask
                k = table[at]
            if k < 0:
                table[at] = end
                kept[end], sums[end], carries[end - start] = i, value, 0
                end += 1
                continue
            sums[k], carry = _add(sums[k], value)
            carries[k - start] += carry
        for k in range(end - start):
            wrapped |= carries[k]
        if wrapped != 0:
            return row, start
        ends[row + 1] = end
        lo = hi
    return OK, end
