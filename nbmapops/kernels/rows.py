"""Compiled: maps become rows of a dense matrix, of a CSR matrix, or values by ascending key."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbmapops._jit import called_compiled, inlined, kernel
from nbmapops.kernels.arguments import dtype_check
from nbmapops.kernels.index import MISMATCH, OK, find_columns, read_header, zeros64
from nbmapops.kernels.order import RANKED, ascends, rank, write_ordered

if TYPE_CHECKING:
    from nbmapops._constants import Array, Integer

__all__ = ["order_dense", "vectorize_csr", "vectorize_dense"]

_U0, _U1, _U6, _U63 = (np.uint64(bits) for bits in (0, 1, 6, 63))

# Rows are looked up together up to this many entries: cache misses of a large index overlap,
# and the scratch stays in the first-level cache.
_GROUP_ENTRIES = 1024
_GROUP_ROWS = 256

# Rows of so many columns at most see repeated ones by a sparse set: 512 KiB.
_NARROW = 1 << 16

# The status of a kernel that leaves the rest to one that can order rows.
UNORDERED = -5


class _Group(NamedTuple):
    """Maps that are looked up together."""

    columns: Array  # of each entry; negative: its key is not a word
    values: Array  # of each entry
    ends: Array  # of each map, among the entries
    maps: Integer


class _Rows(NamedTuple):
    """The arrays of a CSR matrix."""

    indptr: Array
    indices: Array
    data: Array


@inlined
def _next_group(
    offsets: Array, first: Integer, stop: Integer, lo: Integer, limit: Integer, ends: Array
) -> tuple[Integer, bool | np.bool_]:
    """Copy the ends of the next maps.

    Returns the number of maps, and whether an offset follows that does not fit.
    """
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


@inlined
def _reserve(array: Array, size: Integer) -> Array:
    return array if array.size >= size else np.empty(size, array.dtype)


# Rows of a dense matrix


@inlined
def _write_rows(
    group: _Group, lo: Integer, fill: float | np.generic, prefilled: bool,
    skip_unknown: bool, first_wins: bool, seen: Array, out: Array,
) -> Integer:  # fmt: skip
    """Write a group of maps; `seen` tells the columns that stand in the row already.

    Of narrow rows it is a sparse set (Briggs and Torczon, 1993): it holds for a column the number
    of an entry with it. It is never cleared and not even set at first: a number counts if it is
    that of an entry of this row before, and that entry has this column indeed. Entries do not wait
    for each other, as they do with bits, of which 64 share a word: 3.3 -> 2.4 ns an entry
    (compare.py: S14). Wide rows have bits, which need a 64th of the memory.

    Returns the number of maps written, up to a bad one.
    """
    columns, values, ends, maps = group
    at, entry = np.uint64(lo), _U0
    wide = out.shape[1] > _NARROW
    for m in range(maps):
        if not prefilled:
            for c in range(out.shape[1]):
                out[m, c] = fill
        good = True
        first, entry = entry, np.uint64(ends[m]) - at
        for i in range(first, entry):
            column = columns[i]
            if column < 0:
                good &= skip_unknown
                continue
            place = np.uint64(column)
            if wide:
                bit, word = _U1 << (place & _U63), seen[place >> _U6]
                again = word & bit != _U0
                seen[place >> _U6] = word | bit
            else:
                other = seen[place]
                # Below `first` the difference wraps round: the number is not one of this row.
                again = other - first < i - first and columns[other] == column
                seen[place] = i
            if again:
                good &= first_wins
                continue
            out[m, place] = values[at + i]
        if not good:
            return m
        if wide:
            for i in range(first, entry):
                seen[np.uint64(max(columns[i], 0)) >> _U6] = _U0
    return maps


_check_vectorize_dense = dtype_check(
    "vectorize_dense", "header", "pilots", "slots", "table", "keys", "values", "offsets", "out"
)


@kernel
def vectorize_dense(
    header: Array, pilots: Array, slots: Array, table: Array,
    keys: Array, values: Array, offsets: Array, start: Integer, stop: Integer,
    fill: float | np.generic, prefilled: bool, skip_unknown: bool, first_wins: bool, out: Array,
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
        Whether to leave out entries whose key is not a word; otherwise their map is bad.
    first_wins : bool
        Whether of entries with the same column the first counts; otherwise their map is bad.
    out : array, shape (maps, columns)
        Written.

    Returns
    -------
    int
        -1, the first bad map, or a negative status (`OTHER_FORMAT`, `MISMATCH`).
    """
    _check_vectorize_dense((header, pilots, slots, table, keys, values, offsets, out))
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
    seen = np.empty(width, np.uint64) if out.shape[1] <= _NARROW else zeros64((width >> 6) + 1)
    row = start
    while row < stop:
        maps, broken = _next_group(offsets, row, stop, lo, limit, ends)
        last = ends[maps - 1] if maps > 0 else lo
        columns = _reserve(columns, last - lo)
        find_columns(head, pilots, slots, table, keys, lo, last, columns)
        group = _Group(columns, values, ends, maps)
        written = _write_rows(group, lo, fill, prefilled, skip_unknown, first_wins, seen, out[row:])
        row += written
        if broken or written < maps:
            return row
        lo = last
    return OK


# Rows of a CSR matrix


@inlined
def _take_known(columns: Array, held: Array, ends: Array, maps: Integer, skip: bool) -> Integer:
    """Close the gaps of unknown keys: compaction.

    Returns the number of maps up to one that must not have unknown keys.
    """
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
def _emit_rows(
    group: _Group, first_wins: bool, scratch: tuple[Array, Array], row: Integer, base: Integer,
    rows: _Rows, ordered: bool | None,
) -> tuple[Integer, Integer, bool]:  # fmt: skip
    """Write a group of rows by ascending column.

    Returns the number of rows written, where the last one ends, and whether the next is bad: if
    not, it must be ordered, which is not to be done here.
    """
    columns, held, ends, maps = group
    indptr, indices, data = rows
    local, ranks = scratch
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
        elif ordered is None:
            return m, base, False
        else:
            n = write_ordered(columns, held, lo, n, first_wins, base, indices, data)
            if n < 0:
                return m, base, True
        base += n
        indptr[row + m + 1] = base
        lo = ends[m]
    return maps, base, False


_check_csr_rows = dtype_check(
    "vectorize_csr",
    "header",
    "pilots",
    "slots",
    "table",
    "keys",
    "values",
    "offsets",
    "indptr",
    "indices",
    "data",
)


@kernel
def csr_rows(
    header: Array, pilots: Array, slots: Array, table: Array,
    keys: Array, values: Array, offsets: Array, start: Integer, stop: Integer,
    skip_unknown: bool, first_wins: bool, base: Integer,
    indptr: Array, indices: Array, data: Array, ordered: bool | None,
) -> tuple[Integer, Integer, Integer]:  # fmt: skip
    """Do what `vectorize_csr` does; with None for `ordered` up to a row that must be ordered.

    That takes two thirds of the time to compile, and most batches have no such row. Returns the
    status, where the last written row ends, and the row that must be ordered.
    """
    _check_csr_rows((header, pilots, slots, table, keys, values, offsets, indptr, indices, data))
    head = read_header(header, pilots, slots, table)
    if head[0] != OK:
        return head[0], base, start
    fits = start >= 0 and stop < min(offsets.size, indptr.size)
    fits &= 0 <= base <= min(indices.size, data.size)
    if not fits or (indices.itemsize == 4 and head[2] > 1 << 31):
        return MISMATCH, base, start
    if start >= stop:
        return OK, base, start
    if indptr.itemsize == 4:  # a row that ends further is a row without room
        indices = indices[: (1 << 31) - 1]
    limit, lo = min(values.size, keys.size), offsets[start]
    if lo < 0 or lo > limit:
        return start, base, start
    ends = np.empty(np.int64(_GROUP_ROWS), np.int64)
    columns = np.empty(np.int64(_GROUP_ENTRIES), indices.dtype)
    held = np.empty(np.int64(_GROUP_ENTRIES), values.dtype)
    scratch = (np.empty(np.int64(RANKED), indices.dtype), np.empty(np.int64(RANKED), indices.dtype))
    rows, row = _Rows(indptr, indices, data), start
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
        group = _Group(columns, held, ends, maps)
        written, base, bad = _emit_rows(group, first_wins, scratch, row, base, rows, ordered)
        row += written
        if written < maps and not bad:
            return UNORDERED, base, row
        if broken or bad:
            return row, base, row
        lo = last
    return OK, base, row


def vectorize_csr(
    header: Array, pilots: Array, slots: Array, table: Array,
    keys: Array, values: Array, offsets: Array, start: Integer, stop: Integer,
    skip_unknown: bool, first_wins: bool, base: Integer,
    indptr: Array, indices: Array, data: Array,
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
        Whether to leave out entries whose key is not a word; otherwise their map is bad.
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
    status, end, row = csr_rows(
        header, pilots, slots, table, keys, values, offsets, start, stop, skip_unknown, first_wins,
        base, indptr, indices, data, None,
    )  # fmt: skip
    if status == UNORDERED:
        status, end, _ = csr_rows(
            header, pilots, slots, table, keys, values, offsets, row, stop, skip_unknown,
            first_wins, end, indptr, indices, data, True,
        )  # fmt: skip
    return status, end


@called_compiled(vectorize_csr, csr_rows)
def _vectorize_csr(
    header: Array, pilots: Array, slots: Array, table: Array,
    keys: Array, values: Array, offsets: Array, start: Integer, stop: Integer,
    skip_unknown: bool, first_wins: bool, base: Integer,
    indptr: Array, indices: Array, data: Array,
) -> tuple[Integer, Integer]:  # fmt: skip
    status, end, _ = csr_rows(
        header, pilots, slots, table, keys, values, offsets, start, stop, skip_unknown, first_wins,
        base, indptr, indices, data, True,
    )  # fmt: skip
    return status, end


# CastMap: values by ascending key


_check_ordered_rows = dtype_check("order_dense", "keys", "values", "offsets", "out_offsets", "out")


@kernel
def ordered_rows(
    keys: Array, values: Array, offsets: Array, start: Integer, stop: Integer, first_wins: bool,
    base: Integer, out_offsets: Array, out: Array, ordered: bool | None,
) -> tuple[Integer, Integer, Integer]:  # fmt: skip
    """Do what `order_dense` does; with None for `ordered` up to a map that must be ordered.

    Returns the status, where the last written map ends, and the map that must be ordered.
    """
    _check_ordered_rows((keys, values, offsets, out_offsets, out))
    if start < 0 or stop > offsets.size - 1 or stop > out_offsets.size - 1:
        return MISMATCH, base, start
    if base < 0 or base > out.size:
        return MISMATCH, base, start
    if start >= stop:
        return OK, base, start
    limit, lo = min(values.size, keys.size), offsets[start]
    if lo < 0 or lo > limit:
        return start, base, start
    local, ranks = np.empty(np.int64(RANKED), np.int64), np.empty(np.int64(RANKED), np.int64)
    for row in range(start, stop):
        hi = offsets[row + 1]
        if hi < lo or hi > limit:
            return row, base, row
        n = hi - lo
        at, to = np.uint64(lo), np.uint64(base)
        fits = n <= out.size - base
        if fits and ascends(keys, lo, n):
            for i in range(np.uint64(n)):
                out[to + i] = values[at + i]
        elif fits and n <= RANKED and rank(keys, lo, n, local, ranks):
            for i in range(np.uint64(n)):
                out[to + np.uint64(ranks[i])] = values[at + i]
        elif ordered is None:
            return UNORDERED, base, row
        else:
            n = write_ordered(keys, values, lo, n, first_wins, base, None, out)
            if n < 0:
                return row, base, row
        base += n
        out_offsets[row + 1] = base
        lo = hi
    return OK, base, stop


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
    status, end, row = ordered_rows(
        keys, values, offsets, start, stop, first_wins, base, out_offsets, out, None
    )
    if status == UNORDERED:
        status, end, _ = ordered_rows(
            keys, values, offsets, row, stop, first_wins, end, out_offsets, out, True
        )
    return status, end


@called_compiled(order_dense, ordered_rows)
def _order_dense(
    keys: Array, values: Array, offsets: Array, start: Integer, stop: Integer, first_wins: bool,
    base: Integer, out_offsets: Array, out: Array,
) -> tuple[Integer, Integer]:  # fmt: skip
    status, end, _ = ordered_rows(
        keys, values, offsets, start, stop, first_wins, base, out_offsets, out, True
    )
    return status, end
