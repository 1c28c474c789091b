"""Compiled: the index of a vocabulary, built and looked up.

Words that are neither consecutive nor close get a perfect hash with pilots, in the manner of
PTHash (Pibiri and Trani: "PTHash: Revisiting FCH Minimal Perfect Hashing", SIGIR 2021): words are
hashed into buckets, and for each bucket, the largest first, the smallest pilot number is searched
that sends its words to free slots. Unlike there it need not be minimal, and slots hold the words.
A look-up is two loads and one comparison, with no branch that is hard to guess.

Measured against open addressing with linear probing (ns a key, known keys at random):

==================  ========  ===========  =============  ================
words               1,000     100,000      1,000,000      bytes a word
==================  ========  ===========  =============  ================
perfect hash        4.5       9.0          47             20.5
open addressing     9.6       15.7         31             33 to 52
==================  ========  ===========  =============  ================

Keys that are not words cost the perfect hash no more than words, and open addressing always more
(asv: dictvectorizer.Csr).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from nbmapops._constants import FORMAT, HASH, RANGE, TABLE, Array, Integer
from nbmapops._jit import inlined, kernel
from nbmapops.kernels.arguments import dtype_check

__all__ = ["build_hash", "find", "find_columns", "hash_key", "lookup", "read_header", "zeros64"]

OK, OTHER_FORMAT, NO_FIT, MISMATCH = -1, -2, -3, -4

Header: TypeAlias = tuple[Integer, Integer, Integer, Integer, Integer, Integer, Integer]

# An unsigned number combined with an int literal is not an unsigned number in Numba.
_U0, _U1, _U6, _U32, _U63, _U64 = (np.uint64(bits) for bits in (0, 1, 6, 32, 63, 64))
_K1, _K2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)

_LARGEST_BUCKET = 64
_PILOTS = 65536


@kernel
def hash_key(key: Integer, multiplier: np.uint64) -> np.uint64:
    """Mix the bits of a key into a uint64.

    The multiplier is odd, so no two keys have the same hash. It multiplies twice: once left the
    words of an arithmetic progression in buckets of very different sizes. The high half is added
    first: words that differ only there took up to 42 times the steps to build an index.
    """
    h = np.uint64(key)
    h = (h ^ (h >> _U32)) * multiplier
    return (h ^ (h >> _U32)) * multiplier


@kernel
def _slot(h: np.uint64, pilot: np.uint64, n_slots: np.uint64) -> np.uint64:
    return ((((h ^ (pilot * _K2)) * _K1) >> _U32) * n_slots) >> _U32


@inlined
def zeros64(size: Integer) -> Array:
    """Return zeros, as NumPy's function does in three times the time to compile."""
    array = np.empty(size, np.uint64)
    for i in range(size):
        array[i] = _U0
    return array


@inlined
def _largest_first(sizes: Array, largest: np.uint64) -> Array:
    """Bucket numbers by falling size (counting sort)."""
    first = zeros64(_LARGEST_BUCKET + 2)
    for b in range(sizes.size):
        first[largest - sizes[b] + _U1] += _U1
    for s in range(_LARGEST_BUCKET):
        first[s + 1] += first[s]
    order = np.empty(sizes.size, np.uint64)
    for b in range(sizes.size):
        s = largest - sizes[b]
        order[first[s]] = b
        first[s] += _U1
    return order


@inlined
def _group_hashes(
    words: Array,
    multiplier: np.uint64,
    to_bucket: np.uint64,
    order: Array,
    ends: Array,
    hashes: Array,
) -> None:
    """Put hashes of one bucket side by side, the buckets in this order; sizes become ends.

    The search for pilots reads them in that order, without a cache miss for each bucket.
    """
    start = _U0
    for k in range(order.size):
        size = ends[order[k]]
        ends[order[k]] = start
        start += size
    for i in range(words.size):
        h = hash_key(words[i], multiplier)
        b = h >> to_bucket
        place = ends[b]
        hashes[place] = h
        ends[b] = place + _U1


@inlined
def _equal_at(items: Array, start: np.uint64, stop: np.uint64) -> Integer:
    """Position of an item of ``items[start:stop]`` that stands there before, or -1."""
    for i in range(start + _U1, stop):
        for j in range(start, i):
            if items[i] == items[j]:
                return np.int64(i)
    return np.int64(-1)


@inlined
def _second(words: Array, multiplier: np.uint64, h: np.uint64) -> Integer:
    """Position of the second word that has the hash `h`."""
    before = 0
    for i in range(words.size):
        if hash_key(words[i], multiplier) == h:
            if before > 0:
                return i
            before += 1
    return NO_FIT


@inlined
def _find_pilot(
    hashes: Array, lo: np.uint64, hi: np.uint64, n_slots: np.uint64, taken: Array, places: Array
) -> Integer:
    """Smallest pilot that sends ``hashes[lo:hi]`` to free slots (set in `places`), or -1."""
    for pilot in range(_PILOTS):
        hit = _U0
        for i in range(lo, hi):
            s = _slot(hashes[i], np.uint64(pilot), n_slots)
            places[i - lo] = s
            hit |= taken[s >> _U6] >> (s & _U63)
        if hit & _U1 == _U0 and _equal_at(places, _U0, hi - lo) < 0:
            return pilot
    return -1


@kernel
def build_hash(
    words: Array,
    n_slots: Integer,
    bucket_bits: Integer,
    multiplier: Integer,
    pilots: Array,
    slots: Array,
) -> Integer:
    """Fill the arrays of a perfect hash of distinct words.

    Parameters
    ----------
    words : int64 array, shape (n,)
        The words in column order.
    n_slots : int
        More than `n`; below 2**32.
    bucket_bits : int
        There are ``2**bucket_bits`` buckets.
    multiplier : int64
        The bits of an odd uint64.
    pilots : uint16 array, shape (2**bucket_bits,)
        Written; zeros before.
    slots : int64 array, shape (2 * n_slots,)
        Written.

    Returns
    -------
    int
        -1; the number of a word that stands in `words` before; or `NO_FIT`, when another
        multiplier or more slots must be tried (also for many copies of one word).
    """
    factor, size = np.uint64(np.int64(multiplier)), np.uint64(n_slots)
    to_bucket = _U64 - np.uint64(bucket_bits)
    ends = zeros64(pilots.size)  # first the sizes of buckets
    for i in range(words.size):
        ends[hash_key(words[i], factor) >> to_bucket] += _U1
    largest = _U0
    for b in range(ends.size):
        largest = max(largest, ends[b])
    if largest > _LARGEST_BUCKET:
        return NO_FIT
    taken = zeros64((n_slots >> 6) + 1)
    places = np.empty(_LARGEST_BUCKET, np.uint64)
    order = _largest_first(ends, largest)
    hashes = np.empty(words.size, np.uint64)
    _group_hashes(words, factor, to_bucket, order, ends, hashes)
    hi = _U0
    for k in range(order.size):
        b = order[k]
        lo, hi = hi, ends[b]
        repeated = _equal_at(hashes, lo, hi)
        if repeated >= 0:
            return _second(words, factor, hashes[repeated])
        pilot = _find_pilot(hashes, lo, hi, size, taken, places)
        if pilot < 0:
            return NO_FIT
        pilots[b] = pilot
        for i in range(hi - lo):
            taken[places[i] >> _U6] |= _U1 << (places[i] & _U63)
    for s in range(n_slots):
        slots[2 * s] = 0
        slots[2 * s + 1] = -1
    for i in range(words.size):
        h = hash_key(words[i], factor)
        place = _slot(h, np.uint64(pilots[h >> to_bucket]), size) << _U1
        slots[place] = words[i]
        slots[place + _U1] = i
    return OK


@inlined
def read_header(header: Array, pilots: Array, slots: Array, table: Array) -> Header:
    """Load the header: status, kind, columns, smallest word, slots, bucket bits, multiplier."""
    if header.size != 8 or header[0] != FORMAT:
        return OTHER_FORMAT, 0, 0, 0, 0, 0, 0
    kind, columns, low = header[1], header[2], header[3]
    n_slots, bits, multiplier = header[4], header[5], header[6]
    fits = columns >= 0
    if kind == TABLE:
        fits &= table.size > 0
    elif kind == HASH:
        fits &= 1 <= n_slots <= slots.size // 2 and 1 <= bits <= 32
        fits = fits and pilots.size >= 1 << bits
    elif kind != RANGE:
        return OTHER_FORMAT, 0, 0, 0, 0, 0, 0
    return OK if fits else MISMATCH, kind, columns, low, n_slots, bits, multiplier


@kernel
def find_columns(
    head: Header, pilots: Array, slots: Array, table: Array,
    keys: Array, lo: Integer, hi: Integer, columns: Array,
) -> bool:  # fmt: skip
    """Set ``columns[:hi - lo]``, -1 for a key that is not a word; whether all keys are words."""
    kind, width, low = head[1], np.uint64(head[2]), np.uint64(head[3])
    at, n = np.uint64(lo), np.uint64(hi - lo)
    least = np.int64(0)
    if kind == RANGE:
        for i in range(n):
            place = np.uint64(keys[at + i]) - low
            column = np.int64(place) if place < width else np.int64(-1)
            columns[i] = column
            least |= column
    elif kind == TABLE:
        span = np.uint64(table.size)
        for i in range(n):
            place = np.uint64(keys[at + i]) - low
            inside = place < span
            column = np.int64(table[place if inside else _U0])
            column = column if inside and np.uint64(column) < width else np.int64(-1)
            columns[i] = column
            least |= column
    else:
        n_slots, to_bucket = np.uint64(head[4]), _U64 - np.uint64(head[5])
        multiplier = np.uint64(head[6])
        for i in range(n):
            key = keys[at + i]
            h = hash_key(key, multiplier)
            s = _slot(h, np.uint64(pilots[h >> to_bucket]), n_slots) << _U1
            column = slots[s + _U1]
            known = slots[s] == key and np.uint64(column) < width
            column = column if known else np.int64(-1)
            columns[i] = column
            least |= column
    return bool(least >= 0)


_check_lookup = dtype_check("lookup", "header", "pilots", "slots", "table", "keys", "columns")


@kernel
def lookup(
    header: Array, pilots: Array, slots: Array, table: Array, keys: Array, columns: Array
) -> Integer:
    """Find the column of every key.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    keys : int64 or int32 array, shape (n,)
        The keys.
    columns : int64 array, shape (n,)
        Written: the column of each key, -1 for a key that is not a word.

    Returns
    -------
    int
        -1, or a negative status (`OTHER_FORMAT`, `MISMATCH`).
    """
    _check_lookup((header, pilots, slots, table, keys, columns))
    head = read_header(header, pilots, slots, table)
    if head[0] != OK:
        return head[0]
    if columns.size < keys.size:
        return MISMATCH
    find_columns(head, pilots, slots, table, keys, 0, keys.size, columns)
    return OK


_check_find = dtype_check("find", "header", "pilots", "slots", "table", "key")


@kernel
def find(header: Array, pilots: Array, slots: Array, table: Array, key: Integer) -> Integer:
    """Find the column of one key, in a loop of one's own; `lookup` is faster for many.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    key : int64 or int32
        The key.

    Returns
    -------
    int
        Its column; -1 for a key that is not a word; or `OTHER_FORMAT` or `MISMATCH`.

    Examples
    --------
    >>> import nbmapops
    >>> from nbmapops import kernels
    >>> index = nbmapops.DictVectorizer(int64_vocabulary=[10, 30, 20]).index
    >>> kernels.find(*index, 20), kernels.find(*index, 21)
    (2, -1)
    """
    _check_find((header, pilots, slots, table, key))
    head = read_header(header, pilots, slots, table)
    if head[0] != OK:
        return head[0]
    kind, place = head[1], np.uint64(np.int64(key)) - np.uint64(head[3])
    column = np.int64(-1)
    if kind == RANGE:
        column = np.int64(place)
    elif kind == TABLE:
        column = np.int64(table[place]) if place < np.uint64(table.size) else column
    else:
        h = hash_key(np.int64(key), np.uint64(head[6]))
        pilot = pilots[h >> (_U64 - np.uint64(head[5]))]
        s = _slot(h, np.uint64(pilot), np.uint64(head[4])) << _U1
        column = slots[s + _U1] if slots[s] == key else column
    return column if np.uint64(column) < np.uint64(head[2]) else np.int64(-1)
