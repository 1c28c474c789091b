"""Compiled: the distinct keys of a batch, from which a vocabulary is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops._jit import inlined, kernel
from nbmapops.kernels.index import hash_key

if TYPE_CHECKING:
    from nbmapops._constants import Array, Integer

__all__ = ["distinct"]

_U1 = np.uint64(1)


@inlined
def _probe(table: Array, shift: Any, multiplier: Any, key: Any, empty: Any) -> Any:
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
