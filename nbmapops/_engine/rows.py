"""The array stage: a batch is converted, cut into blocks of rows, and placed by the kernels."""

from __future__ import annotations

import contextlib
import itertools
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from nbmapops import _values
from nbmapops._engine.dispatch import CARRIED, implementation
from nbmapops._options import Plan, refuse_text
from nbmapops._reading.arrays import readonly
from nbmapops._reading.batch import MapBatch, entries_of, key_kind, map_of_entry, value_kind
from nbmapops._reading.scalars import DTYPES, Array, BadMap, items_of
from nbmapops._semantics import one_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nbmapops._reading.mappings import Chunk, MapReader
    from nbmapops._vocabulary import Index

# Between two blocks of rows Python is in control again: Ctrl-C is honoured. A block of 2**21
# entries, or 32 MiB of dense result, takes some 20 ms.
BLOCK_ENTRIES = 1 << 21
BLOCK_BYTES = 1 << 25

_OK = -1  # the status of a kernel that found nothing wrong


@cache
def compiled() -> Any:
    """Return the compiled kernels; an import statement in a function costs 1 us each time."""
    from nbmapops import kernels  # imports Numba

    thread_pools()
    return kernels


@cache
def thread_pools() -> Any:
    """Return the class of thread pools, whose import is 3 % of the time to import nbmapops.

    It is imported with the kernels, and not in a call on many threads: a process that is forked
    while another thread imports a module can never import it.
    """
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor


# ------------------------------------------------------------------------------- preparation
class Columns:
    """Keys that a reader has looked up already: columns of the vocabulary, -1 for unknown."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Array) -> None:
        self._columns = columns

    def columns(self, words: object) -> Array:
        """Return the columns."""
        del words
        return self._columns


class Source(NamedTuple):
    """Where a batch comes from: how to see a map again as it was given, and how to fail."""

    entries: Callable[[int], tuple[list[Any], list[Any]]]
    fail: Callable[[int], NoReturn]


def source_of(plan: Plan, batch: MapBatch) -> Source:
    """Return the source of a batch that holds its keys."""

    def entries(number: int) -> tuple[list[Any], list[Any]]:
        return entries_of(batch, number)

    def fail(number: int) -> NoReturn:
        rerun(plan, number, *entries(number), value_kind(batch))

    return Source(entries, fail)


def rerun(
    plan: Plan, number: int, keys: list[Any], values: list[Any], kind: str | None
) -> NoReturn:
    """Raise the error of a bad map: `one_map` runs it again and says what is wrong."""
    one_map(plan, number, keys, values, kind)
    raise RuntimeError(f"{plan.operator}: map {number}: the data changed while it was read")


@dataclass(slots=True)
class Work:
    """A batch made ready for the kernels."""

    batch: MapBatch
    kind: str  # of the result
    values: Array  # converted to that kind; as the kernels carry them
    keys: Array
    index: Index
    pool: Array | None  # text results: the objects that entry numbers stand for
    bad: list[int]  # maps that are bad whatever the kernels find


def prepare(plan: Plan, batch: MapBatch, source: Source) -> Work:
    """Check the types of a batch, convert its values, and make its keys ready."""
    own = value_kind(batch)
    if len(batch._values) and key_kind(batch) != plan.key_kind:
        source.fail(map_of_entry(batch, 0))
    kind = plan.result_kind(own)
    cell = implementation(plan, own)
    keys, index = cell.place(plan, batch)
    values, refused = _values.cast_array(batch._values, own, kind, plan.policy.rules)
    bad = _bad_values(plan, batch, source, keys, index, refused) + _negative(plan, batch, keys)
    if kind == "string":
        return Work(batch, kind, readonly(np.arange(len(values))), keys, index, values, bad)
    bits = readonly(np.ascontiguousarray(values)).view(CARRIED[kind])
    return Work(batch, kind, bits, keys, index, None, bad)


def _bad_values(
    plan: Plan, batch: MapBatch, source: Source, keys: Array, index: Index, refused: Array
) -> list[int]:
    """Return the first map with a value that cannot be converted, where there is one.

    Values of entries that are left out are not converted, so they make no map bad.
    """
    if len(refused) and plan.form != "DENSE" and plan.policy.skip_unknown:
        columns = np.empty(len(refused), np.int64)
        check_status(compiled().lookup(*index, readonly(keys[refused]), columns))
        refused = refused[columns >= 0]
    if not len(refused):
        return []
    if not plan.policy.first_wins:
        return [map_of_entry(batch, int(refused[0]))]
    for number in np.unique(np.searchsorted(batch._offsets, refused, "right") - 1).tolist():
        try:
            one_map(plan, number, *source.entries(number), value_kind(batch))
        except ValueError:
            return [number]
    return []


def _negative(plan: Plan, batch: MapBatch, keys: Array) -> list[int]:
    """Return the first map with a negative SPARSE key where the kernels would skip it."""
    if plan.form != "SPARSE" or not plan.policy.skip_unknown or not len(keys) or keys.min() >= 0:
        return []
    return [map_of_entry(batch, int(np.argmax(keys < 0)))]


def row_blocks(offsets: Array, row_bytes: int, threads: int) -> list[tuple[int, int]]:
    """Cut rows into blocks of bounded size, at least one for each thread."""
    rows, entries = len(offsets) - 1, int(offsets[-1])
    if threads == 1 and entries <= BLOCK_ENTRIES and rows * row_bytes <= BLOCK_BYTES:
        return [(0, rows)]
    size = entries * 16 + rows * row_bytes
    blocks = max(-(-entries // BLOCK_ENTRIES), -(-rows * row_bytes // BLOCK_BYTES), 1)
    if threads > 1:
        blocks = -(-blocks // threads) * threads
    # Equal shares of entries and row bytes together; a CSR result has no rows to fill.
    marks = [size * block // blocks for block in range(1, blocks)]
    work = offsets * 16 + np.arange(rows + 1) * row_bytes if row_bytes else offsets
    if not row_bytes:
        marks = [mark // 16 for mark in marks]
    cuts = [0, *np.searchsorted(work, marks).tolist(), rows]
    return [(start, stop) for start, stop in itertools.pairwise(cuts) if stop > start]


def run_blocks(
    work: Callable[[int, int], tuple[int, int]], blocks: list[tuple[int, int]], threads: int
) -> tuple[int | None, list[int]]:
    """Run the blocks; return the first bad map (or None) and where each block ended."""
    ends: list[int] = []
    if threads == 1 or len(blocks) == 1:
        for start, stop in blocks:
            status, end = work(start, stop)
            if status != _OK:
                return check_status(status), ends
            ends.append(end)
        return None, ends
    pool = thread_pools()(threads)
    try:
        for status, end in pool.map(work, *zip(*blocks, strict=True)):
            if status != _OK:
                return check_status(status), ends
            ends.append(end)
    finally:
        pool.shutdown(cancel_futures=True)
    return None, ends


def check_status(status: int) -> int:
    """Return the status of a kernel: `_OK`, or the number of a bad map."""
    if status < _OK:
        raise RuntimeError(f"a kernel refused its arrays (status {status})")
    return int(status)


def allocate(plan: Plan, shape: tuple[int, ...], kind: str, *, zeros: bool) -> Array:
    """Return an array for the result, or a MemoryError that says how large it would be."""
    dtype = DTYPES[kind]
    size = dtype.itemsize
    for length in shape:
        size *= length
    # NumPy has other errors for sizes that no memory can have.
    if size <= sys.maxsize and max(shape) <= sys.maxsize:
        try:
            return np.zeros(shape, dtype) if zeros else np.empty(shape, dtype)
        except MemoryError:
            pass
    dense = plan.form != "DENSE" and kind != "string"
    raise MemoryError(
        f"{plan.operator}: a result of shape {shape} and type {kind} needs {_bytes(size)}"
        + ("; csr() keeps only the entries" if dense else "")
    )


def _bytes(size: int) -> str:
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} bytes"


def check_out(
    plan: Plan,
    out: Any,
    shape: tuple[int, ...],
    kind: str,
    batch: MapBatch | None,
    columns: Array | None = None,
) -> Array:
    """Return `out` when the result may be written there.

    `columns` are what the keys of a batch have become; they may lie in an Arrow buffer.
    """
    dtype = DTYPES[kind]
    name = f"{plan.operator}: out"
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise ValueError(  # noqa: TRY004  (one error for every `out` that does not fit)
            f"{name} is {type(out).__name__}; it must be an array"
        )
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(
            f"{name} has shape {out.shape} and dtype {out.dtype}; the result has shape {shape} "
            f"and dtype {dtype}"
        )
    if not out.dtype.isnative or not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError(f"{name} must be C-contiguous, writable and of native byte order")
    if batch is not None:
        for part in (batch._keys, batch._values, columns):
            part = getattr(part, "codes", part)  # noqa: PLW2901  (text keys hold codes)
            if isinstance(part, np.ndarray) and np.may_share_memory(out, part):
                raise ValueError(f"{name} shares memory with the input")
    return np.asarray(out)  # without the ways of a subclass


# ------------------------------------------------------------------------------- dense rows
def dense_rows(
    plan: Plan,
    batch: MapBatch,
    source: Source,
    out: Array | None = None,
    threads: int = 1,
    *,
    one: bool = False,
) -> Array:
    """Return the rows of a batch, shape (B, width): VOCABULARY and SPARSE.

    `one` says that the batch is one map and `out`, where given, one row.
    """
    kernels = compiled()
    work = prepare(plan, batch, source)
    fill = plan.fill_for(work.kind)
    shape = (len(batch), plan.width)
    fresh_zeros = out is None and work.kind != "string" and all_bits_zero(fill, work.kind)
    if out is None:
        rows = allocate(plan, shape, work.kind, zeros=fresh_zeros)
    else:
        rows = check_out(plan, out, shape[one:], work.kind, batch, work.keys).reshape(shape)
    skip, first_wins = plan.policy.skip_unknown, plan.policy.first_wins
    offsets = batch._offsets

    if work.pool is None:
        bits = rows.view(CARRIED[work.kind])
        fill_bits = int(np.array(fill, rows.dtype).view(CARRIED[work.kind]))

        def block(start: int, stop: int) -> tuple[int, int]:
            status = kernels.vectorize_dense(
                *work.index, work.keys, work.values, offsets, start, stop,
                fill_bits, fresh_zeros, skip, first_wins, bits,
            )  # fmt: skip
            return status, stop
    else:
        pool = np.append(work.pool, np.array([fill], object))

        def block(start: int, stop: int) -> tuple[int, int]:
            # The kernel numbers rows from 0, so that only this block's places are needed.
            lo, hi = int(offsets[start]), int(offsets[stop])
            places = np.empty((stop - start, plan.width), np.int64)
            status = kernels.vectorize_dense(
                *work.index, work.keys[lo:hi], work.values[lo:hi],
                readonly(offsets[start : stop + 1] - lo), 0, stop - start,
                -1, False, skip, first_wins, places,
            )  # fmt: skip
            if status == _OK:
                rows[start:stop] = pool[places]
            return (status if status < 0 else status + start), stop

    row_bytes = plan.width * rows.dtype.itemsize
    bad, _ = run_blocks(block, row_blocks(offsets, row_bytes, threads), threads)
    _raise_first(work, source, bad)
    if plan.vocabulary is not None and plan.vocabulary.copies is not None:
        later, first = plan.vocabulary.copies
        rows[:, later] = rows[:, first]
    return rows


def all_bits_zero(fill: Any, kind: str) -> bool:
    """Tell whether fresh zeroed memory holds the fill value (it does not hold -0.0)."""
    return not np.array(fill, DTYPES[kind]).tobytes().strip(b"\0")


def _raise_first(work: Work, source: Source, bad: int | None) -> None:
    found = work.bad if bad is None else [*work.bad, bad]
    if found:
        source.fail(min(found))


# ------------------------------------------------------------------------------- ordered maps
def ordered(
    plan: Plan, batch: MapBatch, source: Source, out: Array | None = None, threads: int = 1
) -> tuple[Array, Array]:
    """Return the values of each map by ascending key, and their offsets: DENSE.

    Numbers are written to `out` where it is given; it has room for every entry.
    """
    kernels = compiled()
    work = prepare(plan, batch, source)
    offsets, first_wins = batch._offsets, plan.policy.first_wins
    entries = len(work.values)
    if out is None or work.pool is not None:
        kind = "int64" if work.pool is not None else work.kind
        target = allocate(plan, (entries,), kind, zeros=False)
    else:
        target = out.reshape(-1)
    bits = target.view(CARRIED["int64" if work.pool is not None else work.kind])
    new_offsets = np.zeros(len(offsets), np.int64)

    def block(start: int, stop: int) -> tuple[int, int]:
        status, end = kernels.order_dense(
            work.keys, work.values, offsets, start, stop, first_wins, int(offsets[start]),
            new_offsets, bits,
        )  # fmt: skip
        return status, end

    blocks = row_blocks(offsets, 0, threads)
    bad, ends = run_blocks(block, blocks, threads)
    _raise_first(work, source, bad)
    size = _close_gaps(offsets, blocks, ends, new_offsets, target)
    return target[:size] if work.pool is None else work.pool[target[:size]], new_offsets


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
class Parts(NamedTuple):
    """The arrays of a canonical CSR matrix."""

    data: Array
    indices: Array
    indptr: Array


def index_dtype_for(nnz: int, columns: int, wanted: Any = None, operator: str = "csr") -> Any:
    """Return the dtype of index arrays: int32 where entries and columns fit, else int64."""
    fits = max(nnz, columns) <= 2**31 - 1
    if wanted is np.int32 and not fits:
        raise ValueError(
            f"{operator}: {nnz} entries in {columns} columns need index_dtype int64, not int32"
        )
    return wanted or (np.int32 if fits else np.int64)


def csr_parts(
    plan: Plan, batch: MapBatch, source: Source, index_dtype: Any = None, threads: int = 1
) -> Parts:
    """Return the rows of a batch as CSR: VOCABULARY and SPARSE."""
    work = prepare(plan, batch, source)
    refuse_text(plan, work.kind)
    return place_csr(plan, work, source, index_dtype, threads)


def place_csr(
    plan: Plan, work: Work, source: Source, index_dtype: Any = None, threads: int = 1
) -> Parts:
    """Return prepared work as CSR; of text the data are entry numbers."""
    entries = len(work.values)
    dtype = index_dtype_for(entries, plan.width, index_dtype, plan.operator)
    data = allocate(plan, (entries,), work.kind if work.pool is None else "int64", zeros=False)
    indices, indptr = np.empty(entries, dtype), np.zeros(len(work.batch) + 1, dtype)
    size = _write_csr(plan, work, source, threads, Parts(data, indices, indptr))
    if size < entries:
        data.resize(size, refcheck=False)
        indices.resize(size, refcheck=False)
    return Parts(data, indices, indptr)


def _write_csr(plan: Plan, work: Work, source: Source, threads: int, parts: Parts) -> int:
    """Write rows to the front of arrays that have room for every entry; return their size."""
    kernels = compiled()
    skip, first_wins = plan.policy.skip_unknown, plan.policy.first_wins
    offsets = work.batch._offsets
    bits = parts.data.view(work.values.dtype)

    def block(start: int, stop: int) -> tuple[int, int]:
        status, end = kernels.vectorize_csr(
            *work.index, work.keys, work.values, offsets, start, stop, skip, first_wins,
            int(offsets[start]), parts.indptr, parts.indices, bits,
        )  # fmt: skip
        return status, end

    blocks = row_blocks(offsets, 0, threads)
    bad, ends = run_blocks(block, blocks, threads)
    _raise_first(work, source, bad)
    return _close_gaps(offsets, blocks, ends, parts.indptr, parts.indices, parts.data)


def csr_of_reader(plan: Plan, reader: MapReader, index_dtype: Any = None) -> Parts:
    """Return mappings as CSR, chunk by chunk: neither the maps nor a batch of them is kept."""
    if plan.vocabulary is not None and plan.key_kind == "string":
        reader.look_up(plan.vocabulary.columns)
    rows = _GrowingRows(plan, reader, index_dtype)
    if plan.key_kind == "int64" and plan.result_kind("float64") == "float64":
        reader.take = rows.take
    chunks = reader.chunks()
    try:
        for chunk in chunks:
            keys = Columns(chunk.keys) if plan.key_kind == "string" else chunk.keys
            batch = MapBatch._of(keys, chunk.values, chunk.offsets)  # type: ignore[arg-type]
            source = _source_of_chunk(plan, reader, chunks, chunk)
            rows.append(prepare(plan, batch, source), source)
    except BadMap as bad:
        raise bad.error from None
    kind = plan.result_kind(reader.value_kind or "float64")
    refuse_text(plan, kind)
    implementation(plan, kind)
    return rows.finish(kind)


class _GrowingRows:
    """CSR arrays to which chunks are written at their place: no chunk is copied, 3 ns an entry."""

    def __init__(self, plan: Plan, reader: MapReader, index_dtype: Any) -> None:
        self.plan = plan
        self.wanted = index_dtype
        self.expected = expected_entries(reader.maps)
        self.data = np.empty(0, np.float64)
        self.indices = np.empty(0, index_dtype_for(0, plan.width, index_dtype, plan.operator))
        self.ends = [np.zeros(1, np.int64)]
        self.size = 0

    def append(self, work: Work, source: Source) -> None:
        """Write the rows of the next chunk."""
        refuse_text(self.plan, work.kind)
        entries = len(work.values)
        if entries and self.data.dtype != DTYPES[work.kind]:
            room = self.data[: self.size].astype(DTYPES[work.kind])
            self.data = with_room(room, self.size, len(self.data))
        self._reserve(entries)
        indptr = np.zeros(len(work.batch) + 1, self.indices.dtype)
        if entries:
            parts = Parts(self.data[self.size :], self.indices[self.size :], indptr)
            written = _write_csr(self.plan, work, source, 1, parts)
        else:
            written = 0
        self._add(indptr, written)

    def take(self, walk: Any, maps: Sequence[Any], first: int, most: int) -> tuple[int, int]:
        """Let compiled code write the rows of maps that it reads; how many maps and entries."""
        if self.data.dtype != np.float64:
            return 0, 0
        self._reserve(walk.PIECE)
        indptr = np.zeros(min(len(maps) - first, most) + 1, self.indices.dtype)
        policy, index = self.plan.policy, self.plan.vocabulary.index  # type: ignore[union-attr]
        count, entries, written = walk.walk_csr(
            maps, first, index, policy.skip_unknown, policy.first_wins, BLOCK_ENTRIES,
            indptr, self.indices[self.size :], self.data[self.size :],
        )  # fmt: skip
        self._add(indptr[: count + 1], written)
        return count, entries

    def _add(self, indptr: Array, written: int) -> None:
        self.ends.append(indptr[1:].astype(np.int64) + self.size)
        self.size += written

    def _reserve(self, entries: int) -> None:
        need = self.size + entries
        if need > len(self.data):
            room = need + need // 8 if self.expected else need + need // 2
            with contextlib.suppress(MemoryError):  # what is expected of a sample may be far off
                self._grow(max(room, self.expected))
                return
            self._grow(room)

    def _grow(self, room: int) -> None:
        if not self.expected:
            # A generator's arrays grow often: the pages of large ones are moved, never held twice.
            self.data.resize(room, refcheck=False)
            self.indices.resize(room, refcheck=False)
            return
        data = with_room(self.data, self.size, room)
        self.indices = with_room(self.indices, self.size, room)
        self.data = data

    def finish(self, kind: str) -> Parts:
        """Return the arrays at their final size."""
        self.data.resize(self.size, refcheck=False)
        self.indices.resize(self.size, refcheck=False)
        dtype = index_dtype_for(self.size, self.plan.width, self.wanted, self.plan.operator)
        return Parts(
            self.data.astype(DTYPES[kind], copy=False),
            self.indices.astype(dtype, copy=False),
            np.concatenate(self.ends).astype(dtype, copy=False),
        )


def expected_entries(maps: Any) -> int:
    """Return about how many entries a list of maps has, by a sample; 0: nobody knows."""
    if type(maps) not in (list, tuple):
        return 0
    sample = [len(each) for each in maps[:: len(maps) // 128 | 1] if type(each) is dict]
    return int(1.02 * sum(sample) / max(len(sample), 1) * len(maps)) + 1


def with_room(array: Array, size: int, room: int) -> Array:
    """Return the first elements in an array with room for more."""
    # ndarray.resize would write zeros to all of the room first.
    larger = np.empty(room, array.dtype)
    larger[:size] = array[:size]
    return larger


def _source_of_chunk(
    plan: Plan, reader: MapReader, chunks: Iterator[Chunk], chunk: Chunk
) -> Source:
    kind = reader.value_kind

    def entries(number: int) -> tuple[list[Any], list[Any]]:
        where = reader.where(number + chunk.first)
        try:
            mapping = chunk.source(number + chunk.first)
        except IndexError:
            raise RuntimeError(f"{where}: the list of maps changed while it was read") from None
        return items_of(where, mapping)

    def fail(number: int) -> NoReturn:
        keys, values = entries(number)
        reader.settle(chunks, number + chunk.first)
        rerun(plan, number + chunk.first, keys, values, kind)

    return Source(entries, fail)
