"""Engine, compiled: entries are converted, cut into blocks of rows, and placed by the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbmapops import _values
from nbmapops._engine.blocks import (
    OK,
    BadRow,
    Parts,
    allocate,
    check_status,
    filled,
    index_dtype_for,
    row_blocks,
    run_blocks,
)
from nbmapops._engine.dispatch import CARRIED
from nbmapops._engine.expand import expanded
from nbmapops._load import load_kernels
from nbmapops._reading.entries import Entries, empty_keys, readonly

if TYPE_CHECKING:
    from nbmapops._constants import Array
    from nbmapops._engine.blocks import Work
    from nbmapops._options import Plan
    from nbmapops._vocabulary import Index


# ------------------------------------------------------------------------------- preparation
class Prepared(NamedTuple):
    """Entries made ready for the kernels."""

    kind: str  # of the result
    values: Array  # converted to that kind, as the kernels carry them
    keys: Array
    words: Index  # where keys are looked up
    offsets: Array
    pool: Array | None  # text results: the objects that entry numbers stand for
    bad: int | None  # the first map that is bad whatever the kernels find

    def first_bad(self, found: int | None) -> int | None:
        """Return the first bad map, given what the kernels have found."""
        numbers = [number for number in (self.bad, found) if number is not None]
        return min(numbers, default=None)


def prepare(plan: Plan, entries: Entries) -> Prepared:
    """Check the types of entries, convert the values, and make the keys ready."""
    given = entries.value_kind
    kind = plan.result_kind(given)
    if entries.keys.kind != plan.key_kind:
        if len(entries.values):
            raise BadRow(entries.map_of(0))
        entries = entries._replace(keys=empty_keys(plan.key_kind))
    cell = plan.cell(given)
    keys, index = cell.place(entries.keys, plan.vocabulary, plan.width)
    values, bad = entries.values, None
    if kind != given or plan.policy.rules == "onnxruntime":
        values, refused = _values.cast_array(values, given, kind, plan.policy.rules)
        bad = _first_refused(plan, entries, keys, index, refused)
    if plan.form == "SPARSE" and plan.policy.skip_unknown and len(keys) and keys.min() < 0:
        # Kernels skip negative keys, too.
        negative = entries.map_of(int(np.argmax(keys < 0)))
        bad = negative if bad is None else min(bad, negative)
    offsets = entries.offsets
    if plan.expands:
        columns = looked_up(index, keys)
        keys, index, values, offsets, late = expanded(plan, entries, columns, values)
        bad = min((each for each in (bad, late) if each is not None), default=None)
    if kind == "string":
        numbers = readonly(np.arange(len(values)))
        return Prepared(kind, numbers, keys, index, offsets, values, bad)
    bits = readonly(np.ascontiguousarray(values)).view(CARRIED[kind])
    return Prepared(kind, bits, keys, index, offsets, None, bad)


def _first_refused(
    plan: Plan, entries: Entries, keys: Array, index: Index, refused: Array
) -> int | None:
    """Return the first map with a value that cannot be converted, where there is one.

    Values of entries that are left out are not converted, so they make no map bad: unknown ones,
    and those whose key was seen before where the first one wins.
    """
    policy = plan.policy
    if len(refused) and plan.form != "DENSE" and policy.skip_unknown:
        refused = refused[looked_up(index, readonly(keys[refused])) >= 0]
    if len(refused) and policy.first_wins:
        own = keys if plan.form == "DENSE" else looked_up(index, keys)
        refused = refused[~_is_again(own, entries.map_numbers())[refused]]
    return entries.map_of(int(refused[0])) if len(refused) else None


def _is_again(keys: Array, maps: Array) -> Array:
    """Tell of each entry whether its key stands before it in its map."""
    order = np.lexsort((keys, maps))  # stable
    again = np.zeros(len(keys), bool)
    again[order[1:]] = (keys[order[1:]] == keys[order[:-1]]) & (maps[order[1:]] == maps[order[:-1]])
    return again


def looked_up(index: Index, keys: Array) -> Array:
    """Return the column of each key, -1 for one that is not a word."""
    columns = np.empty(len(keys), np.int64)
    check_status(load_kernels().lookup(*index, keys, columns))
    return columns


def known_columns(plan: Plan, entries: Entries) -> Array:
    """Return the column of each entry, -1 for an unknown key."""
    if entries.keys.kind != plan.key_kind and len(entries.values):
        raise BadRow(entries.map_of(0))
    assert plan.vocabulary is not None
    keys, index = entries.keys.place(plan.vocabulary)
    return looked_up(index, keys)


# ------------------------------------------------------------------------------- dense rows
def dense(
    plan: Plan, entries: Entries, out: Array | None = None, threads: int = 1, *, one: bool = False
) -> Array:
    """Return the rows of a batch, shape (B, width): VOCABULARY and SPARSE.

    `one` says that the batch is one map and `out`, where given, one row.
    """
    ready = prepare(plan, entries)
    shape = (len(entries.offsets) - 1, plan.width)
    own_shape = shape[1:] if one else shape
    rows, is_filled = filled(plan, own_shape, ready.kind, out, entries)
    rows = rows.reshape(shape)
    fill = plan.fill_for(ready.kind)
    if ready.pool is None:
        bits = rows.view(CARRIED[ready.kind])
        fill_bits = int(np.array(fill, rows.dtype).view(CARRIED[ready.kind]))

        def block(start: int, stop: int) -> tuple[int, int]:
            return _write_dense(plan, ready, (start, stop), fill_bits, bits, is_filled), stop
    else:
        pool = np.append(ready.pool, np.array([fill], object))

        def block(start: int, stop: int) -> tuple[int, int]:
            # The kernel numbers rows from 0, so that only this block's places are needed.
            part = _block_of(ready, start, stop)
            places = np.empty((stop - start, plan.width), np.int64)
            status = _write_dense(plan, part, (0, stop - start), -1, places)
            if status == OK:
                rows[start:stop] = pool[places]
            return (status if status < 0 else status + start), stop

    row_bytes = plan.width * rows.dtype.itemsize
    _run_blocks(ready, block, row_blocks(ready.offsets, row_bytes, threads), threads)
    return rows


def _write_dense(
    plan: Plan,
    ready: Prepared,
    maps: tuple[int, int],
    fill: int,
    rows: Array,
    prefilled: bool = False,
) -> int:
    policy = plan.policy
    status: int = load_kernels().vectorize_dense(
        *ready.words, ready.keys, ready.values, ready.offsets, *maps,
        fill, prefilled, policy.skip_unknown, policy.first_wins, rows,
    )  # fmt: skip
    return status


def _block_of(ready: Prepared, start: int, stop: int) -> Prepared:
    """Return some maps alone."""
    lo, hi = int(ready.offsets[start]), int(ready.offsets[stop])
    return ready._replace(
        keys=ready.keys[lo:hi],
        values=ready.values[lo:hi],
        offsets=readonly(ready.offsets[start : stop + 1] - lo),
    )


def _run_blocks(
    ready: Prepared, work: Work, blocks: list[tuple[int, int]], threads: int
) -> list[int]:
    """Run the blocks; raise `BadRow` for the first map that a kernel or the preparation refused."""
    try:
        ends = run_blocks(work, blocks, threads)
    except BadRow as bad:
        raise BadRow(ready.first_bad(bad.number) or 0) from None
    if ready.bad is not None:
        raise BadRow(ready.bad)
    return ends


# ------------------------------------------------------------------------------- ordered maps
def ordered(
    plan: Plan, entries: Entries, out: Array | None = None, threads: int = 1
) -> tuple[Array, Array]:
    """Return the values of each map by ascending key, and their offsets: DENSE.

    Numbers are written to `out` where it is given; it has room for every entry.
    """
    kernels = load_kernels()
    ready = prepare(plan, entries)
    offsets, first_wins = ready.offsets, plan.policy.first_wins
    kind = ready.kind if ready.pool is None else "int64"
    if out is None or ready.pool is not None:
        target = allocate(plan, (len(ready.values),), kind, zeros=False)
    else:
        target = out.reshape(-1)
    bits = target.view(CARRIED[kind])
    new_offsets = np.zeros(len(offsets), np.int64)

    def block(start: int, stop: int) -> tuple[int, int]:
        status, end = kernels.order_dense(
            ready.keys, ready.values, offsets, start, stop, first_wins, int(offsets[start]),
            new_offsets, bits,
        )  # fmt: skip
        return status, end

    blocks = row_blocks(offsets, 0, threads)
    ends = _run_blocks(ready, block, blocks, threads)
    size = _close_gaps(offsets, blocks, ends, new_offsets, target)
    return target[:size] if ready.pool is None else ready.pool[target[:size]], new_offsets


def _close_gaps(
    offsets: Array,
    blocks: list[tuple[int, int]],
    ends: list[int],
    ends_of_maps: Array,
    *parts: Array,
) -> int:
    """Move the blocks together where entries were left out; return the size of the whole."""
    size = 0
    for (start, stop), end in zip(blocks, ends, strict=True):
        base = int(offsets[start])
        if size < base:
            for part in parts:
                part[size : size + end - base] = part[base:end]
            ends_of_maps[start + 1 : stop + 1] -= base - size
        size += end - base
    return size


# ------------------------------------------------------------------------------- CSR
def csr(plan: Plan, entries: Entries, index_dtype: type | None = None, threads: int = 1) -> Parts:
    """Return the rows of a batch as CSR: VOCABULARY and SPARSE. Of text, data are entry numbers."""
    ready = prepare(plan, entries)
    size = len(ready.values)
    dtype = index_dtype_for(size, plan.width, index_dtype, plan.operator)
    kind = ready.kind if ready.pool is None else "int64"
    data = allocate(plan, (size,), kind, zeros=False)
    indices, indptr = np.empty(size, dtype), np.zeros(len(ready.offsets), dtype)
    end = write_csr(plan, ready, Parts(data, indices, indptr), threads)
    if end < size:
        data.resize(end, refcheck=False)
        indices.resize(end, refcheck=False)
    return Parts(data, indices, indptr)


def write_csr(plan: Plan, ready: Prepared, parts: Parts, threads: int = 1) -> int:
    """Write rows to the front of arrays that have room for every entry; return their size."""
    kernels, policy = load_kernels(), plan.policy
    offsets = ready.offsets
    bits = parts.data.view(ready.values.dtype)

    def block(start: int, stop: int) -> tuple[int, int]:
        status, end = kernels.vectorize_csr(
            *ready.words, ready.keys, ready.values, offsets, start, stop,
            policy.skip_unknown, policy.first_wins,
            int(offsets[start]), parts.indptr, parts.indices, bits,
        )  # fmt: skip
        return status, end

    blocks = row_blocks(offsets, 0, threads)
    ends = _run_blocks(ready, block, blocks, threads)
    return _close_gaps(offsets, blocks, ends, parts.indptr, parts.indices, parts.data)
