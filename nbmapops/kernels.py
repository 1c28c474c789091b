"""Compiled kernels: arrays in, arrays out, a status returned (provisional).

These are the functions under the operators. They take plain arrays, never raise and hold no
Python object, so a user's own ``@njit`` function may call them (`lookup`, `vectorize_dense`,
`vectorize_csr`, `order_dense`). The names and the arguments may still change.

A vocabulary reaches them as four arrays, ``(header, pilots, slots, table)``:

* ``header`` int64[8]: format number, kind, number of columns, smallest word, number of slots,
  bucket bits, multiplier (the bits of an odd uint64), 0;
* kind RANGE: the words are ``low, low + 1, ...`` in column order, no arrays needed;
* kind TABLE: ``table`` int32 holds the column of ``low + i``, -1 where there is no word;
* kind HASH: a perfect hash. A word's bucket has a pilot number (``pilots`` uint16) that sends
  all words of the bucket to slots of their own; ``slots`` int64 holds word, column, word, ...

A status is -1 when all went well, ``n >= 0`` when map ``n`` (or word ``n``) is the first bad
one, and one of the negative constants of this module otherwise.

Offsets and columns are loaded once and the loaded value is checked before it becomes an index:
the owner of an array may change it while a kernel runs.

Examples
--------
A kernel called from a compiled function of one's own:

>>> import numpy as np
>>> from numba import njit
>>> from nbmapops import kernels
>>> @njit
... def known(header, pilots, slots, table, keys):
...     columns = np.empty(keys.size, np.int64)
...     status = kernels.lookup(header, pilots, slots, table, keys, columns)
...     return (columns >= 0).sum() if status == -1 else status
>>> header = np.array([kernels.FORMAT, kernels.RANGE, 3, 10, 0, 0, 0, 0])  # words 10, 11, 12
>>> none = np.empty(0, np.int64)
>>> int(known(header, none.astype(np.uint16), none, none.astype(np.int32), np.array([12, 9, 10])))
2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["lookup", "order_dense", "vectorize_csr", "vectorize_dense"]

FORMAT = 1
RANGE, TABLE, HASH = 0, 1, 2

OK = -1
OTHER_FORMAT = -2
NO_FIT = -3
MISMATCH = -4

_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xBF58476D1CE4E5B9)
_U0, _U1 = np.uint64(0), np.uint64(1)
_U6, _U32, _U63, _U64 = np.uint64(6), np.uint64(32), np.uint64(63), np.uint64(64)
_SIGN = np.uint64(1 << 63)
_BYTE = np.uint64(255)

_GROUP_ENTRIES = 1024
_GROUP_ROWS = 256
_RANKED = 64
_PILOTS = 65536

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def _kernel(function: _Function) -> _Function:
    """Compile without the interpreter lock, cached on disk where a folder can be written."""
    try:
        return njit(nogil=True, cache=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:
        return njit(nogil=True)(function)  # type: ignore[no-any-return]


@_kernel
def _hash(key, multiplier):
    h = np.uint64(key) * multiplier
    return h ^ (h >> _U32)


@_kernel
def _slot(h, pilot, n_slots):
    return ((((h ^ (np.uint64(pilot) * _K2)) * _K1) >> _U32) * n_slots) >> _U32


@_kernel
def build_hash(words, n_slots, bucket_bits, multiplier, pilots, slots):
    multiplier = np.uint64(multiplier)
    size = np.uint64(n_slots)
    to_bucket = _U64 - np.uint64(bucket_bits)
    n, buckets = words.size, pilots.size
    ends = np.zeros(buckets + 1, np.int64)
    for i in range(n):
        ends[np.int64(_hash(words[i], multiplier) >> to_bucket) + 1] += 1
    largest = 0
    for b in range(buckets):
        largest = max(largest, ends[b + 1])
        ends[b + 1] += ends[b]
    member = np.empty(n, np.int64)
    hashes = np.empty(n, np.uint64)
    fill = ends[:-1].copy()
    for i in range(n):
        h = _hash(words[i], multiplier)
        b = np.int64(h >> to_bucket)
        member[fill[b]] = i
        hashes[fill[b]] = h
        fill[b] += 1
    for b in range(buckets):
        lo, hi = ends[b], min(ends[b + 1], ends[b] + 64)
        for i in range(lo, hi):
            for j in range(lo, i):
                if hashes[i] == hashes[j]:
                    return member[i]
    if largest > 64:
        return NO_FIT
    by_size = np.zeros(largest + 2, np.int64)
    for b in range(buckets):
        by_size[largest - (ends[b + 1] - ends[b]) + 1] += 1
    for s in range(largest + 1):
        by_size[s + 1] += by_size[s]
    order = np.empty(buckets, np.int64)
    for b in range(buckets):
        s = largest - (ends[b + 1] - ends[b])
        order[by_size[s]] = b
        by_size[s] += 1
    taken = np.zeros((n_slots >> 6) + 1, np.uint64)
    for k in range(buckets):
        b = order[k]
        lo, hi = ends[b], ends[b + 1]
        found = False
        for pilot in range(_PILOTS):
            used = lo
            while used < hi:
                s = _slot(hashes[used], pilot, size)
                bit = _U1 << (s & _U63)
                if taken[s >> _U6] & bit != _U0:
                    break
                taken[s >> _U6] |= bit
                used += 1
            if used == hi:
                pilots[b] = pilot
                found = True
                break
            for m in range(lo, used):
                s = _slot(hashes[m], pilot, size)
                taken[s >> _U6] ^= _U1 << (s & _U63)
        if not found:
            return NO_FIT
    for s in range(n_slots):
        slots[2 * s] = 0
        slots[2 * s + 1] = -1
    for b in range(buckets):
        for m in range(ends[b], ends[b + 1]):
            s = np.int64(_slot(hashes[m], pilots[b], size))
            slots[2 * s] = words[member[m]]
            slots[2 * s + 1] = member[m]
    return OK


@_kernel
def build_table(words, low, table):
    for i in range(table.size):
        table[i] = -1
    for i in range(words.size):
        place = np.int64(np.uint64(words[i]) - np.uint64(low))
        if place < 0 or place >= table.size:
            return NO_FIT
        if table[place] >= 0:
            return i
        table[place] = i
    return OK


@_kernel
def _check_index(header, pilots, slots, table):
    if header.size != 8 or header[0] != FORMAT:
        return OTHER_FORMAT
    kind, columns = header[1], header[2]
    if columns < 0:
        return MISMATCH
    if kind == RANGE:
        return OK
    if kind == TABLE:
        return OK if table.size > 0 else MISMATCH
    if kind != HASH:
        return OTHER_FORMAT
    n_slots, bits = header[4], header[5]
    if n_slots < 1 or n_slots > slots.size // 2 or bits < 1 or bits > 32:
        return MISMATCH
    return OK if pilots.size == 1 << bits else MISMATCH


@_kernel
def _find(header, pilots, slots, table, keys, lo, hi, columns):
    kind, low = header[1], np.uint64(header[3])
    width = np.uint64(header[2])
    if kind == RANGE:
        for i in range(hi - lo):
            d = np.uint64(keys[lo + i]) - low
            columns[i] = np.int64(d) if d < width else -1
        return
    if kind == TABLE:
        span = np.uint64(table.size)
        for i in range(hi - lo):
            d = np.uint64(keys[lo + i]) - low
            inside = d < span
            c = np.int64(table[d if inside else _U0])
            columns[i] = c if inside and np.uint64(c) < width else -1
        return
    n_slots, to_bucket = np.uint64(header[4]), _U64 - np.uint64(header[5])
    multiplier = np.uint64(header[6])
    for i in range(hi - lo):
        key = keys[lo + i]
        h = _hash(key, multiplier)
        s = _slot(h, pilots[h >> to_bucket], n_slots) << _U1
        c = slots[s + _U1]
        columns[i] = c if slots[s] == key and np.uint64(c) < width else -1


@_kernel
def lookup(header, pilots, slots, table, keys, columns):
    """Column of every key, -1 for a key that is no word.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    keys : int64 array, shape (n,)
    columns : int64 array, shape (n,)
        Written.

    Returns
    -------
    int
        -1, or a negative status (`OTHER_FORMAT`, `MISMATCH`).
    """
    status = _check_index(header, pilots, slots, table)
    if status != OK:
        return status
    if columns.size < keys.size:
        return MISMATCH
    _find(header, pilots, slots, table, keys, 0, keys.size, columns)
    return OK


@_kernel
def _group(offsets, first, stop, lo, limit, ends):
    """Copy the ends of the next rows; fewer than wanted, and True, when an offset is broken."""
    rows, hi = 0, lo
    while rows < ends.size and first + rows < stop:
        end = offsets[first + rows + 1]
        if end < hi or end > limit:
            return rows, True
        if rows > 0 and end - lo > _GROUP_ENTRIES:
            break
        ends[rows] = end
        hi = end
        rows += 1
    return rows, False


@_kernel
def vectorize_dense(
    header, pilots, slots, table, keys, values, offsets, start, stop,
    fill, prefilled, skip_unknown, first_wins, out,
):  # fmt: skip
    """Write maps ``start .. stop - 1`` into the same rows of a dense matrix.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    keys : int64 array, shape (n,)
    values : array, shape (n,)
        Any dtype of 4 or 8 bytes; the values are only moved.
    offsets : int64 array, shape (maps + 1,)
    start, stop : int
        The maps to write.
    fill : scalar of the dtype of `out`
        Written to the positions without an entry.
    prefilled : bool
        The rows hold `fill` already.
    skip_unknown : bool
        Leave out entries whose key is no word; otherwise their map is bad.
    first_wins : bool
        Of entries with the same column the first counts; otherwise their map is bad.
    out : array, shape (maps, columns)
        Written.

    Returns
    -------
    int
        -1, the first bad map, or a negative status (`OTHER_FORMAT`, `MISMATCH`).
    """
    status = _check_index(header, pilots, slots, table)
    if status != OK:
        return status
    width = header[2]
    if start < 0 or stop > offsets.size - 1 or stop > out.shape[0] or width > out.shape[1]:
        return MISMATCH
    limit = min(keys.size, values.size)
    ends = np.empty(_GROUP_ROWS, np.int64)
    columns = np.empty(_GROUP_ENTRIES, np.int64)
    seen = np.zeros((width >> 6) + 1, np.uint64)
    row = start
    if row >= stop:
        return OK
    lo = offsets[row]
    if lo < 0 or lo > limit:
        return row
    while row < stop:
        rows, broken = _group(offsets, row, stop, lo, limit, ends)
        origin = lo
        if rows > 0:
            if ends[rows - 1] - lo > columns.size:
                columns = np.empty(ends[rows - 1] - lo, np.int64)
            _find(header, pilots, slots, table, keys, lo, ends[rows - 1], columns)
        for k in range(rows):
            hi = ends[k]
            target = out[row]
            if not prefilled:
                for c in range(target.size):
                    target[c] = fill
            for i in range(lo, hi):
                c = columns[i - origin]
                if c < 0:
                    if not skip_unknown:
                        return row
                    continue
                bit = _U1 << (np.uint64(c) & _U63)
                place = np.uint64(c) >> _U6
                if seen[place] & bit != _U0:
                    if not first_wins:
                        return row
                    continue
                seen[place] |= bit
                target[c] = values[i]
            for i in range(lo, hi):
                c = columns[i - origin]
                if c >= 0:
                    seen[np.uint64(c) >> _U6] = _U0
            lo = hi
            row += 1
        if broken:
            return row
    return OK


@_kernel
def _sort(keys, n, order):
    """Stable ascending order of ``keys[:n]`` (least significant digit first)."""
    count = np.zeros((8, 256), np.int64)
    for i in range(n):
        x = np.uint64(keys[i]) ^ _SIGN
        for d in range(8):
            count[d, np.int64((x >> np.uint64(8 * d)) & _BYTE)] += 1
    other = np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    source, target = order, other
    for d in range(8):
        shift = np.uint64(8 * d)
        shared = np.int64(((np.uint64(keys[0]) ^ _SIGN) >> shift) & _BYTE)
        if count[d, shared] == n:
            continue
        total = 0
        for b in range(256):
            total, count[d, b] = total + count[d, b], total
        for i in range(n):
            e = source[i]
            b = np.int64(((np.uint64(keys[e]) ^ _SIGN) >> shift) & _BYTE)
            target[count[d, b]] = e
            count[d, b] += 1
        source, target = target, source
    if source is not order:
        for i in range(n):
            order[i] = source[i]


@_kernel
def _row_csr(columns, source, n, values, first_wins, base, indices, data):
    """Write one row by ascending column; the number of entries, -1 when a column repeats."""
    ascending = True
    for i in range(1, n):
        ascending &= columns[i - 1] < columns[i]
    if ascending:
        for i in range(n):
            indices[base + i] = columns[i]
            data[base + i] = values[source[i]]
        return n
    order = np.empty(n, np.int64)
    _sort(columns, n, order)
    end, last = base, np.int64(-1)
    for i in range(n):
        c = columns[order[i]]
        if c == last:
            if not first_wins:
                return -1
            continue
        last = c
        indices[end] = c
        data[end] = values[source[order[i]]]
        end += 1
    return end - base


@_kernel
def vectorize_csr(
    header, pilots, slots, table, keys, values, offsets, start, stop,
    skip_unknown, first_wins, base, indptr, indices, data,
):  # fmt: skip
    """Write maps ``start .. stop - 1`` as rows of a canonical CSR matrix.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    keys : int64 array, shape (n,)
    values : array, shape (n,)
        Any dtype of 4 or 8 bytes; the values are only moved.
    offsets : int64 array, shape (maps + 1,)
    start, stop : int
        The maps to write.
    skip_unknown : bool
        Leave out entries whose key is no word; otherwise their map is bad.
    first_wins : bool
        Of entries with the same column the first counts; otherwise their map is bad.
    base : int
        Where the first of these rows starts in `indices` and `data`.
    indptr, indices : int32 or int64 arrays
        Written; ``indptr[row + 1]`` becomes the end of the row. Columns ascend in a row.
    data : array
        Written.

    Returns
    -------
    status : int
        -1, the first bad map, or a negative status (`OTHER_FORMAT`, `MISMATCH`).
    end : int
        Where the last row ends.
    """
    status = _check_index(header, pilots, slots, table)
    if status != OK:
        return status, base
    if start < 0 or base < 0 or stop > offsets.size - 1 or stop > indptr.size - 1:
        return MISMATCH, base
    if indices.itemsize == 4 and header[2] > 1 << 31:
        return MISMATCH, base
    limit, room = min(keys.size, values.size), min(indices.size, data.size)
    ends = np.empty(_GROUP_ROWS, np.int64)
    columns = np.empty(_GROUP_ENTRIES, np.int64)
    source = np.empty(_GROUP_ENTRIES, np.int64)
    row = start
    if row >= stop:
        return OK, base
    lo = offsets[row]
    if lo < 0 or lo > limit:
        return row, base
    while row < stop:
        rows, broken = _group(offsets, row, stop, lo, limit, ends)
        origin = lo
        if rows > 0:
            if ends[rows - 1] - lo > columns.size:
                columns = np.empty(ends[rows - 1] - lo, np.int64)
                source = np.empty(ends[rows - 1] - lo, np.int64)
            _find(header, pilots, slots, table, keys, lo, ends[rows - 1], columns)
        for k in range(rows):
            hi, first, n = ends[k], lo - origin, 0
            for i in range(lo, hi):
                c = columns[i - origin]
                if c >= 0:
                    columns[first + n] = c
                    source[first + n] = i
                    n += 1
                elif not skip_unknown:
                    return row, base
            if base + n > room:
                return row, base
            n = _row_csr(
                columns[first : first + n], source[first : first + n], n, values,
                first_wins, base, indices, data,
            )  # fmt: skip
            if n < 0:
                return row, base
            base += n
            indptr[row + 1] = base
            lo = hi
            row += 1
        if broken:
            return row, base
    return OK, base


@_kernel
def order_dense(keys, values, offsets, start, stop, first_wins, base, out_offsets, out):
    """Write the values of maps ``start .. stop - 1`` by ascending key.

    Parameters
    ----------
    keys : int64 array, shape (n,)
    values : array, shape (n,)
        Any dtype of 4 or 8 bytes; the values are only moved.
    offsets : int64 array, shape (maps + 1,)
    start, stop : int
        The maps to write.
    first_wins : bool
        Of entries with the same key the first counts; otherwise their map is bad.
    base : int
        Where the values of the first of these maps start in `out`.
    out_offsets : int64 array, shape (maps + 1,)
        Written; ``out_offsets[map + 1]`` becomes the end of the map.
    out : array
        Written.

    Returns
    -------
    status : int
        -1, the first bad map, or `MISMATCH`.
    end : int
        Where the last map ends.
    """
    if start < 0 or base < 0 or stop > offsets.size - 1 or stop > out_offsets.size - 1:
        return MISMATCH, base
    limit, room = min(keys.size, values.size), out.size
    if start >= stop:
        return OK, base
    lo = offsets[start]
    if lo < 0 or lo > limit:
        return start, base
    for row in range(start, stop):
        hi = offsets[row + 1]
        if hi < lo or hi > limit or hi - lo > room - base:
            return row, base
        n = hi - lo
        order = np.empty(n, np.int64)
        local = keys[lo:hi].copy()
        if n > 0:
            _sort(local, n, order)
        first = base
        for i in range(n):
            if i > 0 and local[order[i]] == local[order[i - 1]]:
                if not first_wins:
                    return row, first
                continue
            out[base] = values[lo + order[i]]
            base += 1
        out_offsets[row + 1] = base
        lo = hi
    return OK, base


@_kernel
def _distinct_slot(seen, size_bits, multiplier, found, key):
    mask = np.uint64(seen.size - 1)
    s = _hash(key, multiplier) >> (_U64 - size_bits)
    while seen[s] >= 0 and found[seen[s]] != key:
        s = (s + _U1) & mask
    return s


@_kernel
def distinct(keys, multiplier):
    multiplier = np.uint64(multiplier)
    bits = np.uint64(10)
    seen = np.full(1024, -1, np.int64)
    found = np.empty(512, np.int64)
    n = 0
    for i in range(keys.size):
        key = keys[i]
        s = _distinct_slot(seen, bits, multiplier, found, key)
        if seen[s] >= 0:
            continue
        if n == found.size:
            bits += _U1
            larger = np.empty(2 * n, np.int64)
            larger[:n] = found
            found = larger
            seen = np.full(4 * n, -1, np.int64)
            for j in range(n):
                seen[_distinct_slot(seen, bits, multiplier, found, found[j])] = j
            s = _distinct_slot(seen, bits, multiplier, found, key)
        seen[s] = n
        found[n] = key
        n += 1
    return found[:n].copy()
