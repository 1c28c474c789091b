"""Compiled: maps become rows of a dense matrix, of a CSR matrix, or values by ascending key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops._jit import kernel
from nbmapops.kernels.index import MISMATCH, OK, find_columns, read_header
from nbmapops.kernels.order import (
    NARROW,
    RANKED,
    ascends,
    mark,
    marked_before,
    order_entries,
    rank,
    survey,
)

if TYPE_CHECKING:
    from nbmapops._constants import Array, Integer

__all__ = ["order_dense", "vectorize_csr", "vectorize_dense"]

_U0, _U1, _U6, _U63 = (np.uint64(bits) for bits in (0, 1, 6, 63))

# Rows are looked up together up to this many entries: cache misses of a large index overlap,
# and the scratch stays in the first-level cache.
_GROUP_ENTRIES = 1024
_GROUP_ROWS = 256


@kernel
def _next_group(
    offsets: Array, first: Integer, stop: Integer, lo: Integer, limit: Integer, ends: Array
) -> Any:
    """Copy the ends of the next maps; how many, and whether an offset that is none follows."""
    maps, hi = 0, lo
    while maps < ends.size and first + maps < stop:
        end = offsets[first + maps + 1]
        if end < hi or end > limit:
            return maps, True
        if maps > 0 and end - lo > _GROUP_ENTRIES:
            break
        ends[maps] = end
        hi = end
        maps += 1
    return maps, False


@kernel
def _reserve(array: Array, size: Integer) -> Array:
    return array if array.size >= size else np.empty(size, array.dtype)


# Rows of a dense matrix


@kernel
def _write_rows(
    columns: Array, values: Array, lo: Integer, ends: Array, maps: Integer, fill: Any,
    prefilled: bool, skip_unknown: bool, first_wins: bool, seen: Array, row: Integer, out: Array,
) -> Integer:  # fmt: skip
    """Write a group of maps; how many, up to a bad one. `seen` has a bit for each column."""
    at, entry = np.uint64(lo), _U0
    for m in range(maps):
        r = row + m
        if not prefilled:
            for c in range(out.shape[1]):
                out[r, c] = fill
        good = True
        first, entry = entry, np.uint64(ends[m]) - at
        for i in range(first, entry):
            column = columns[i]
            if column < 0:
                good &= skip_unknown
                continue
            place = np.uint64(column)
            bit = _U1 << (place & _U63)
            before = seen[place >> _U6]
            if before & bit != _U0:
                good &= first_wins
                continue
            seen[place >> _U6] = before | bit
            out[r, place] = values[at + i]
        if not good:
            return m
        for i in range(first, entry):
            seen[np.uint64(max(columns[i], 0)) >> _U6] = _U0
    return maps


@kernel
def vectorize_dense(
    header: Array, pilots: Array, slots: Array, table: Array,
    keys: Array, values: Array, offsets: Array, start: Integer, stop: Integer,
    fill: Any, prefilled: bool, skip_unknown: bool, first_wins: bool, out: Array,
) -> Integer:  # fmt: skip
    """Write maps ``start .. stop - 1`` into the same rows of a dense matrix.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    keys : int64 or int32 array, shape (n,)
        The keys of all maps.
    values : array, shape (n,)
        Their values, of any dtype of 4 or 8 bytes: values are only moved.
    offsets : int64 array, shape (maps + 1,)
        Map ``i`` is the entries ``offsets[i] .. offsets[i + 1] - 1``.
    start, stop : int
        The maps to write.
    fill : scalar of the dtype of `out`
        Written to the positions without an entry.
    prefilled : bool
        Whether the rows hold `fill` already.
    skip_unknown : bool
        Whether to leave out entries whose key is no word; otherwise their map is bad.
    first_wins : bool
        Whether of entries with the same column the first counts; otherwise their map is bad.
    out : array, shape (maps, columns)
        Written.

    Returns
    -------
    int
        -1, the first bad map, or a negative status (`OTHER_FORMAT`, `MISMATCH`).
    """
    head = read_header(header, pilots, slots, table)
    if head[0] != OK:
        return head[0]
    width = head[2]
    if start < 0 or stop > offsets.size - 1 or stop > out.shape[0] or width > out.shape[1]:
        return MISMATCH
    if start >= stop:
        return OK
    limit, lo = min(keys.size, values.size), offsets[start]
    if lo < 0 or lo > limit:
        return start
    ends = np.empty(_GROUP_ROWS, np.int64)
    columns = np.empty(_GROUP_ENTRIES, np.int64)
    seen = np.zeros((width >> 6) + 1, np.uint64)
    row = start
    while row < stop:
        maps, broken = _next_group(offsets, row, stop, lo, limit, ends)
        last = ends[maps - 1] if maps > 0 else lo
        columns = _reserve(columns, last - lo)
        find_columns(head, pilots, slots, table, keys, lo, last, columns)
        written = _write_rows(
            columns, values, lo, ends, maps, fill, prefilled,
            skip_unknown, first_wins, seen, row, out,
        )  # fmt: skip
        row += written
        if broken or written < maps:
            return row
        lo = last
    return OK


# Rows of a CSR matrix


@kernel
def _take_known(columns: Array, held: Array, ends: Array, maps: Integer, skip: bool) -> Integer:
    """Close the gaps of unknown keys; the number of maps up to one that must not have any."""
    kept, first, stop = _U0, _U0, _U0
    for m in range(maps):
        first, stop = stop, np.uint64(ends[m])
        for i in range(first, stop):
            column = columns[i]
            if column < 0 and not skip:
                return m
            columns[kept] = column
            held[kept] = held[i]
            kept += _U1 if column >= 0 else _U0
        ends[m] = np.int64(kept)
    return maps


@kernel
def _emit_long(
    columns: Array, held: Array, lo: Integer, n: Integer, first_wins: bool,
    base: Integer, indices: Array, data: Array,
) -> Integer:  # fmt: skip
    """Write a row of many entries, or with repeated columns; how many entries, -1: a bad map."""
    room = min(indices.size, data.size)
    at, place = np.uint64(lo), np.uint64(base)
    least, span = survey(columns, lo, n)
    if n > RANKED and n <= room - base and span >> NARROW < np.uint64(n):
        bitmap, single = mark(columns, lo, n, least, span)
        if single:
            for i in range(np.uint64(n)):
                column = columns[at + i]
                to = place + marked_before(bitmap, np.uint64(column) - least)
                indices[to] = column
                data[to] = held[at + i]
            return n
    entries, mask, repeated = order_entries(columns, lo, n, least)
    if repeated and not first_wins:
        return -1
    last, end = np.int64(-1), np.uint64(room)
    for i in range(n):
        entry = at + (entries[i] & mask)
        column = np.int64(columns[entry])
        if column == last:
            continue
        if place >= end:
            return -1
        indices[place] = column
        data[place] = held[entry]
        place += _U1
        last = column
    return np.int64(place) - base


@kernel
def _emit_rows(
    columns: Array, held: Array, ends: Array, maps: Integer, first_wins: bool,
    local: Array, ranks: Array, row: Integer, base: Integer,
    indptr: Array, indices: Array, data: Array,
) -> Any:  # fmt: skip
    """Write a group of rows by ascending column; how many, up to a bad one, and their end."""
    room = min(indices.size, data.size)
    lo = np.int64(0)
    for m in range(maps):
        n = ends[m] - lo
        fits = n <= room - base
        at, to = np.uint64(lo), np.uint64(base)
        if fits and ascends(columns, lo, n):
            for i in range(np.uint64(n)):
                indices[to + i] = columns[at + i]
                data[to + i] = held[at + i]
        elif fits and n <= RANKED and rank(columns, lo, n, local, ranks):
            for i in range(np.uint64(n)):
                place = to + np.uint64(ranks[i])
                indices[place] = local[i]
                data[place] = held[at + i]
        else:
            n = _emit_long(columns, held, lo, n, first_wins, base, indices, data)
            if n < 0:
                return m, base
        base += n
        indptr[row + m + 1] = base
        lo = ends[m]
    return maps, base


@kernel
def vectorize_csr(
    header: Array, pilots: Array, slots: Array, table: Array,
    keys: Array, values: Array, offsets: Array, start: Integer, stop: Integer,
    skip_unknown: bool, first_wins: bool, base: Integer, indptr: Array, indices: Array, data: Array,
) -> tuple[Integer, Integer]:  # fmt: skip
    """Write maps ``start .. stop - 1`` as rows of a canonical CSR matrix.

    Parameters
    ----------
    header, pilots, slots, table : arrays
        The index of a vocabulary (see the module's description).
    keys : int64 or int32 array, shape (n,)
        The keys of all maps.
    values : array, shape (n,)
        Their values, of any dtype of 4 or 8 bytes: values are only moved.
    offsets : int64 array, shape (maps + 1,)
        Map ``i`` is the entries ``offsets[i] .. offsets[i + 1] - 1``.
    start, stop : int
        The maps to write.
    skip_unknown : bool
        Whether to leave out entries whose key is no word; otherwise their map is bad.
    first_wins : bool
        Whether of entries with the same column the first counts; otherwise their map is bad.
    base : int
        Where the first of these rows starts in `indices` and `data`.
    indptr : int32 or int64 array, shape (maps + 1,)
        Written: ``indptr[i + 1]`` is where row ``i`` ends.
    indices : array of the dtype of `indptr`
        Written: the columns, ascending in a row, none twice.
    data : array of the dtype of `values`
        Written: the values.

    Returns
    -------
    status : int
        -1, the first bad map (also when it does not fit in `indices` and `data`), or a negative
        status (`OTHER_FORMAT`, `MISMATCH`).
    end : int
        Where the last written row ends.
    """
    head = read_header(header, pilots, slots, table)
    if head[0] != OK:
        return head[0], base
    if start < 0 or stop > offsets.size - 1 or stop > indptr.size - 1:
        return MISMATCH, base
    if not 0 <= base <= min(indices.size, data.size):
        return MISMATCH, base
    if indices.itemsize == 4 and head[2] > 1 << 31:
        return MISMATCH, base
    if start >= stop:
        return OK, base
    if indptr.itemsize == 4:  # a row that ends further is a row without room
        indices = indices[: (1 << 31) - 1]
    limit, lo = min(keys.size, values.size), offsets[start]
    if lo < 0 or lo > limit:
        return start, base
    ends = np.empty(_GROUP_ROWS, np.int64)
    columns = np.empty(_GROUP_ENTRIES, indices.dtype)
    held = np.empty(_GROUP_ENTRIES, values.dtype)
    local, ranks = np.empty(RANKED, indices.dtype), np.empty(RANKED, indices.dtype)
    row = start
    while row < stop:
        maps, broken = _next_group(offsets, row, stop, lo, limit, ends)
        last = ends[maps - 1] if maps > 0 else lo
        columns, held = _reserve(columns, last - lo), _reserve(held, last - lo)
        known = find_columns(head, pilots, slots, table, keys, lo, last, columns)
        at = np.uint64(lo)
        for i in range(np.uint64(last - lo)):
            held[i] = values[at + i]
        for m in range(maps):
            ends[m] -= lo
        if not known:
            whole = _take_known(columns, held, ends, maps, skip_unknown)
            broken |= whole < maps
            maps = whole
        written, base = _emit_rows(
            columns, held, ends, maps, first_wins, local, ranks, row, base, indptr, indices, data
        )
        row += written
        if broken or written < maps:
            return row, base
        lo = last
    return OK, base


# CastMap: values by ascending key


@kernel
def _order_long(
    keys: Array, values: Array, lo: Integer, n: Integer, first_wins: bool, base: Integer, out: Array
) -> Integer:
    """Write a map of many entries, or with repeated keys; how many entries, -1: a bad map."""
    at, place = np.uint64(lo), np.uint64(base)
    least, span = survey(keys, lo, n)
    fits = n <= out.size - base
    if fits and n > RANKED and span >> NARROW < np.uint64(n):
        bitmap, single = mark(keys, lo, n, least, span)
        if single:
            last = np.uint64(n - 1)
            for i in range(np.uint64(n)):
                before = marked_before(bitmap, min(np.uint64(keys[at + i]) - least, span))
                out[place + min(before, last)] = values[at + i]
            return n
    entries, mask, repeated = order_entries(keys, lo, n, least)
    if fits and not repeated:
        for i in range(np.uint64(n)):
            out[place + i] = values[at + (entries[i] & mask)]
        return n
    if not first_wins:
        return -1
    end, previous = np.uint64(out.size), np.int64(0)
    for i in range(n):
        entry = at + (entries[i] & mask)
        key = keys[entry]
        if i > 0 and key == previous:
            continue
        if place >= end:
            return -1
        out[place] = values[entry]
        place += _U1
        previous = key
    return np.int64(place) - base


@kernel
def order_dense(
    keys: Array, values: Array, offsets: Array, start: Integer, stop: Integer, first_wins: bool,
    base: Integer, out_offsets: Array, out: Array,
) -> tuple[Integer, Integer]:  # fmt: skip
    """Write the values of maps ``start .. stop - 1`` by ascending key.

    Parameters
    ----------
    keys : int64 array, shape (n,)
        The keys of all maps.
    values : array, shape (n,)
        Their values, of any dtype of 4 or 8 bytes: values are only moved.
    offsets : int64 array, shape (maps + 1,)
        Map ``i`` is the entries ``offsets[i] .. offsets[i + 1] - 1``.
    start, stop : int
        The maps to write.
    first_wins : bool
        Whether of entries with the same key the first counts; otherwise their map is bad.
    base : int
        Where the values of the first of these maps start in `out`.
    out_offsets : int64 array, shape (maps + 1,)
        Written: ``out_offsets[i + 1]`` is where the values of map ``i`` end.
    out : array of the dtype of `values`
        Written.

    Returns
    -------
    status : int
        -1, the first bad map (also when it does not fit in `out`), or `MISMATCH`.
    end : int
        Where the last written map ends.
    """
    if start < 0 or stop > offsets.size - 1 or stop > out_offsets.size - 1:
        return MISMATCH, base
    if not 0 <= base <= out.size:
        return MISMATCH, base
    if start >= stop:
        return OK, base
    limit, lo = min(keys.size, values.size), offsets[start]
    if lo < 0 or lo > limit:
        return start, base
    local, ranks = np.empty(RANKED, np.int64), np.empty(RANKED, np.int64)
    for row in range(start, stop):
        hi = offsets[row + 1]
        if hi < lo or hi > limit:
            return row, base
        n = hi - lo
        at, to = np.uint64(lo), np.uint64(base)
        fits = n <= out.size - base
        if fits and ascends(keys, lo, n):
            for i in range(np.uint64(n)):
                out[to + i] = values[at + i]
        elif fits and n <= RANKED and rank(keys, lo, n, local, ranks):
            for i in range(np.uint64(n)):
                out[to + np.uint64(ranks[i])] = values[at + i]
        else:
            n = _order_long(keys, values, lo, n, first_wins, base, out)
            if n < 0:
                return row, base
        base += n
        out_offsets[row + 1] = base
        lo = hi
    return OK, base
