"""From a plan and its input to the result: the dispatch table and the array stage.

One literal table says, by dtype, which implementation runs. The array stage casts the values,
cuts the batch into blocks of rows, and lets the kernels place them, on as many threads as asked.
Kernels move values without looking at them, as 4- or 8-byte integers; of text they place entry
numbers, and NumPy gathers the objects.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import numpy as np

from nbmapops import _cast
from nbmapops._arrays import readonly
from nbmapops._batch import MapBatch, entries_of, key_kind, map_of_entry, value_kind
from nbmapops._fallback import one_map
from nbmapops._inputs import Input, read_input, whole
from nbmapops._maps import Chunk, MapReader, kernels_loaded
from nbmapops._plan import SMALL_VOCABULARY, Plan, refuse_text
from nbmapops._scalars import DTYPES, Array, BadMap, items_of, kinds_of_map
from nbmapops._vocabulary import Index, range_index, table_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Between two blocks of rows Python is in control again: Ctrl-C is honoured. A block of 2**21
# entries, or 32 MiB of dense result, takes some 20 ms.
BLOCK_ENTRIES = 1 << 21
BLOCK_BYTES = 1 << 25
# Up to here one map runs in plain Python: 80 us, where the first use of a kernel takes 600 ms.
SMALL_MAP = 1 << 10
# The same once the kernels are loaded: a call of one takes 40 us, whatever the map.
QUICK_MAP = 1 << 6


_OK = -1  # the status of a kernel that found nothing wrong


# ------------------------------------------------------------------------------- the table
class Implementation(NamedTuple):
    """One cell: what places the values of a batch, and whether the ONNX-ML text has the type."""

    place: Callable[[Plan, MapBatch], tuple[Array, Index]]
    spec: bool


def _place_rows(plan: Plan, batch: MapBatch) -> tuple[Array, Index]:
    """Return the keys and the index that the vectorising kernels take."""
    keys = batch._keys
    if plan.vocabulary is None:
        return _place_in_order(plan, batch)
    if isinstance(keys, np.ndarray):
        # Without an entry, keys are of the kind that is asked for.
        return keys, plan.vocabulary.index if plan.key_kind == "int64" else range_index(0)
    if plan.key_kind == "int64":
        return readonly(np.empty(0, np.int64)), range_index(0)
    if hasattr(keys, "columns"):  # plain Arrow text, or looked up while it was read
        return readonly(keys.columns(plan.vocabulary.words)), range_index(plan.width)
    codes, words = keys.encode()
    column_of = plan.vocabulary.columns
    return codes, table_index(np.array([column_of.get(word, -1) for word in words], np.int32))


def _place_in_order(plan: Plan, batch: MapBatch) -> tuple[Array, Index]:
    """Return the keys that the ordering kernel takes, and an index that it does not need."""
    keys = batch._keys
    return keys if isinstance(keys, np.ndarray) else readonly(np.empty(0, np.int64)), range_index(
        plan.width
    )


TABLE: dict[tuple[str, str, str, str], Implementation] = {
    # operator, form, kind of key, dtype of value: implementation
    ("CastMap", "DENSE", "int64", "float32"): Implementation(_place_in_order, spec=True),
    ("CastMap", "DENSE", "int64", "float64"): Implementation(_place_in_order, spec=False),
    ("CastMap", "DENSE", "int64", "int64"): Implementation(_place_in_order, spec=False),
    ("CastMap", "DENSE", "int64", "string"): Implementation(_place_in_order, spec=True),
    ("CastMap", "SPARSE", "int64", "float32"): Implementation(_place_rows, spec=True),
    ("CastMap", "SPARSE", "int64", "float64"): Implementation(_place_rows, spec=False),
    ("CastMap", "SPARSE", "int64", "int64"): Implementation(_place_rows, spec=False),
    ("CastMap", "SPARSE", "int64", "string"): Implementation(_place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "int64", "float32"): Implementation(_place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "int64", "float64"): Implementation(_place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "int64", "int64"): Implementation(_place_rows, spec=False),
    ("DictVectorizer", "VOCABULARY", "int64", "string"): Implementation(_place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "float32"): Implementation(_place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "float64"): Implementation(_place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "int64"): Implementation(_place_rows, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "string"): Implementation(_place_rows, spec=False),
}
# How a result travels through the kernels.
CARRIED: dict[str, Any] = {"float32": np.int32, "float64": np.int64, "int64": np.int64}


def implementation(plan: Plan, kind: str) -> Implementation:
    """Return the cell for values of this kind, or raise the TypeError that lists the cells."""
    if plan.operator == "DictVectorizer":
        kind = plan.result_kind(kind)  # values are converted to `dtype` first
    cell = TABLE.get((plan.operator, plan.form, plan.key_kind, kind))
    only_spec = plan.policy.spec_types and plan.operator == "DictVectorizer"
    if cell is None or (only_spec and not cell.spec):
        pairs = [
            f"{key} -> {value}"
            for (operator, form, key, value), other in TABLE.items()
            if (operator, form) == (plan.operator, plan.form) and (other.spec or not only_spec)
        ]
        raise TypeError(
            f"{plan.operator}: maps of {plan.key_kind} -> {kind} are not taken here; it takes "
            + ", ".join(pairs)
        )
    return cell


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


@dataclass(frozen=True, slots=True)
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
    values, refused = _cast.cast_array(batch._values, own, kind, plan.policy.rules)
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
        from nbmapops import kernels

        columns = np.empty(len(refused), np.int64)
        kernels.lookup(*index, readonly(keys[refused]), columns)
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
    # Equal shares of entries and row bytes together.
    marks = [size * block // blocks for block in range(1, blocks)]
    work = offsets * 16 + np.arange(rows + 1) * row_bytes
    cuts = [0, *np.searchsorted(work, marks).tolist(), rows]
    return [(start, stop) for start, stop in itertools.pairwise(cuts) if stop > start]


def run_blocks(
    work: Callable[[int, int], tuple[int, int]], blocks: list[tuple[int, int]], threads: int
) -> tuple[int | None, list[int]]:
    """Run the blocks; return the first bad map (or None) and where each block ended."""
    ends: list[int] = []
    if threads == 1 or len(blocks) == 1:
        results: Iterator[tuple[int, int]] = (work(start, stop) for start, stop in blocks)
        for status, end in results:
            if status != _OK:
                return _checked(status), ends
            ends.append(end)
        return None, ends
    pool = ThreadPoolExecutor(threads)
    try:
        for status, end in pool.map(work, *zip(*blocks, strict=True)):
            if status != _OK:
                return _checked(status), ends
            ends.append(end)
    finally:
        pool.shutdown(cancel_futures=True)
    return None, ends


def _checked_ok(status: int) -> None:
    if status != _OK:
        _checked(status)


def _checked(status: int) -> int:
    if status < 0:
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
        with contextlib.suppress(MemoryError):
            return np.zeros(shape, dtype) if zeros else np.empty(shape, dtype)
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
    plan: Plan, out: Any, shape: tuple[int, ...], kind: str, batch: MapBatch | None
) -> Array:
    """Return `out` when the result may be written there."""
    dtype = DTYPES[kind]
    name = f"{plan.operator}: out"
    if not isinstance(out, np.ndarray):
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
        for part in (batch._keys, batch._values):
            part = getattr(part, "codes", part)  # noqa: PLW2901  (text keys hold codes)
            if isinstance(part, np.ndarray) and np.may_share_memory(out, part):
                raise ValueError(f"{name} shares memory with the input")
    return out


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
    from nbmapops import kernels

    work = prepare(plan, batch, source)
    fill = plan.fill_for(work.kind)
    shape = (len(batch), plan.width)
    fresh_zeros = out is None and work.kind != "string" and _all_bits_zero(fill, work.kind)
    if out is None:
        rows = allocate(plan, shape, work.kind, zeros=fresh_zeros)
    else:
        rows = check_out(plan, out, shape[one:], work.kind, batch).reshape(shape)
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


def _all_bits_zero(fill: Any, kind: str) -> bool:
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
    from nbmapops import kernels

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


def index_dtype_for(nnz: int, columns: int) -> Any:
    """Return the dtype of index arrays: int32 where entries and columns fit, else int64."""
    return np.int32 if max(nnz, columns) <= np.iinfo(np.int32).max else np.int64


def csr_parts(
    plan: Plan, batch: MapBatch, source: Source, index_dtype: Any = None, threads: int = 1
) -> Parts:
    """Return the rows of a batch as CSR: VOCABULARY and SPARSE."""
    work = prepare(plan, batch, source)
    refuse_text(plan, work.kind)
    return _place_csr(plan, work, source, index_dtype, threads)


def _place_csr(plan: Plan, work: Work, source: Source, index_dtype: Any, threads: int) -> Parts:
    from nbmapops import kernels

    kind = work.kind if work.pool is None else "int64"
    skip, first_wins = plan.policy.skip_unknown, plan.policy.first_wins
    offsets, entries = work.batch._offsets, len(work.values)
    dtype = index_dtype or index_dtype_for(entries, plan.width)
    data = allocate(plan, (entries,), kind, zeros=False)
    indices, indptr = np.empty(entries, dtype), np.zeros(len(offsets), dtype)
    bits = data.view(CARRIED[kind])

    def block(start: int, stop: int) -> tuple[int, int]:
        status, end = kernels.vectorize_csr(
            *work.index, work.keys, work.values, offsets, start, stop, skip, first_wins,
            int(offsets[start]), indptr, indices, bits,
        )  # fmt: skip
        return status, end

    blocks = row_blocks(offsets, 0, threads)
    bad, ends = run_blocks(block, blocks, threads)
    _raise_first(work, source, bad)
    size = _close_gaps(offsets, blocks, ends, indptr, indices, data)
    if size < entries:
        del bits
        data.resize(size, refcheck=False)
        indices.resize(size, refcheck=False)
    return Parts(data, indices, indptr)


def csr_of_reader(plan: Plan, reader: MapReader, index_dtype: Any = None) -> Parts:
    """Return mappings as CSR, chunk by chunk: neither the maps nor a batch of them is kept."""
    data, indices, lengths = [], [], [np.zeros(1, np.int64)]
    if plan.vocabulary is not None and plan.key_kind == "string":
        reader.look_up(plan.vocabulary.columns)
    chunks = reader.chunks()
    try:
        for chunk in chunks:
            keys = Columns(chunk.keys) if plan.key_kind == "string" else chunk.keys
            batch = MapBatch._of(keys, chunk.values, chunk.offsets)  # type: ignore[arg-type]
            source = _source_of_chunk(plan, reader, chunks, chunk)
            parts = csr_parts(plan, batch, source)
            lengths.append(np.diff(parts.indptr))
            if len(chunk.values):  # no entry fixes no kind of value
                data.append(parts.data)
                indices.append(parts.indices)
    except BadMap as bad:
        raise bad.error from None
    kind = plan.result_kind(reader.value_kind or "float64")
    refuse_text(plan, kind)
    implementation(plan, kind)
    indptr = np.concatenate(lengths).cumsum(dtype=np.int64)
    dtype = index_dtype or index_dtype_for(int(indptr[-1]), plan.width)
    # One array at a time, so that at most one and a half times the result is held.
    joined = np.concatenate([np.empty(0, DTYPES[kind]), *data], dtype=DTYPES[kind])
    data.clear()
    return Parts(
        joined,
        np.concatenate([np.empty(0, dtype), *indices], dtype=dtype),
        indptr.astype(dtype, copy=False),
    )


def _source_of_chunk(
    plan: Plan, reader: MapReader, chunks: Iterator[Chunk], chunk: Chunk
) -> Source:
    kind = reader.value_kind

    def entries(number: int) -> tuple[list[Any], list[Any]]:
        number += chunk.first
        return items_of(reader.where(number), chunk.source(number))

    def fail(number: int) -> NoReturn:
        keys, values = entries(number)
        reader.settle(chunks, number + chunk.first)
        rerun(plan, number + chunk.first, keys, values, kind)

    return Source(entries, fail)


def csr_array_of(parts: Parts, shape: tuple[int, int]) -> Any:
    """Return the parts as a canonical scipy.sparse.csr_array, without a copy."""
    try:
        from scipy.sparse import csr_array
    except ImportError as error:
        raise ImportError("csr needs SciPy: pip install 'nbmapops[sparse]'") from error
    matrix = csr_array(shape, dtype=parts.data.dtype)
    # The constructor that takes the arrays would narrow int64 indices that somebody asked for.
    matrix.data, matrix.indices, matrix.indptr = parts
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix


# ------------------------------------------------------------------------------- calls
def choose(plans: dict[str, Plan], operator: str, call: tuple[Any, Any, Any]) -> tuple[Plan, Input]:
    """Read what an operator was called with, and choose the plan for its kind of key."""
    expected = next(iter(plans)) if len(plans) == 1 else None
    given = read_input(operator, *call, expected)
    if expected is None:
        given = whole(given, operator, None)
        assert isinstance(given.source, MapBatch)
        expected = key_kind(given.source)
    return plans[expected], given


def checked(plan: Plan, given: Input) -> tuple[MapBatch, Source]:
    """Return the whole batch; where a map cannot be read, raise the first error of all maps."""
    given = whole(given, plan.operator, plan.key_kind)
    batch = given.source
    assert isinstance(batch, MapBatch)
    source = source_of(plan, batch)
    if given.bad is not None:
        if plan.form == "DENSE":
            ordered(plan, batch, source)
        else:
            _place_csr(plan, prepare(plan, batch, source), source, None, 1)
        raise given.bad.error
    return batch, source


def call_dense(plan: Plan, given: Input, out: Any, threads: int) -> Array:
    """Return the dense result for VOCABULARY and SPARSE: (B, width), or (width,) for one map."""
    found = small_map(plan, given)
    if found is not None:
        return place_row(plan, *found, out, given)
    batch, source = checked(plan, given)
    rows = dense_rows(plan, batch, source, out, threads, one=given.one)
    if out is not None:
        return cast("Array", out)
    return cast("Array", rows[0]) if given.one else rows


def call_csr(plan: Plan, given: Input, index_dtype: Any, threads: int) -> Any:
    """Return the sparse result for VOCABULARY and SPARSE."""
    if isinstance(given.source, MapReader) and threads == 1:
        parts = csr_of_reader(plan, given.source, index_dtype)
    else:
        batch, source = checked(plan, given)
        parts = csr_parts(plan, batch, source, index_dtype, threads)
    rows = len(parts.indptr) - 1
    matrix = csr_array_of(parts, (rows, plan.width))
    if plan.vocabulary is None or plan.vocabulary.copies is None:
        return matrix
    later, first = plan.vocabulary.copies
    column_of = np.arange(plan.width)
    column_of[later] = first
    matrix = matrix[:, column_of]
    matrix.sort_indices()
    return matrix


def known_columns(plan: Plan, batch: MapBatch) -> Array:
    """Return the column of each entry of a batch, -1 for an unknown key."""
    from nbmapops import kernels

    if len(batch._values) and key_kind(batch) != plan.key_kind:
        source_of(plan, batch).fail(map_of_entry(batch, 0))
    keys, index = _place_rows(plan, batch)
    columns = np.empty(len(keys), np.int64)
    _checked_ok(kernels.lookup(*index, keys, columns))
    return columns


# ------------------------------------------------------------------------------- one map
def small_map(plan: Plan, given: Input) -> tuple[list[int], list[Any], str] | None:
    """Run one small map in plain Python; None where the kernels are the better way."""
    source = given.source
    if not given.one or given.bad is not None:
        return None
    words = plan.vocabulary is not None and plan.key_kind == "int64" and plan.width
    size = len(source.values) if isinstance(source, MapBatch) else len(source)  # type: ignore[arg-type]
    most = QUICK_MAP if kernels_loaded() else SMALL_MAP
    if size > most or words > SMALL_VOCABULARY:
        return None
    where = f"{plan.operator}: map 0"
    batch_kind = value_kind(source) if isinstance(source, MapBatch) else None
    keys, values = (
        entries_of(source, 0) if isinstance(source, MapBatch) else items_of(where, source)
    )
    _, kind = kinds_of_map(where, keys, values, plan.key_kind, batch_kind)
    implementation(plan, kind or "float64")
    return one_map(plan, 0, keys, values, batch_kind)


def place_row(
    plan: Plan, columns: list[int], values: list[Any], kind: str, out: Any, given: Input
) -> Array:
    """Return the row of one map."""
    fill = plan.fill_for(kind)
    shape = (len(values) if plan.form == "DENSE" else plan.width,)
    if out is not None:
        batch = given.source if isinstance(given.source, MapBatch) else None
        row = check_out(plan, out, shape, kind, batch)
        row[:] = fill
    elif kind == "string" or not _all_bits_zero(fill, kind):
        row = allocate(plan, shape, kind, zeros=False)
        row[:] = fill
    else:
        row = allocate(plan, shape, kind, zeros=True)
    cells: Any = row if kind == "string" else memoryview(row)  # type: ignore[arg-type]
    for column, value in zip(columns, values, strict=True):
        cells[column] = value
    if plan.vocabulary is not None and plan.vocabulary.copies is not None:
        later, first = plan.vocabulary.copies
        row[later] = row[first]
    return row
