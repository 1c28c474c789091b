"""Engine, blocks: memory for results; rows of a batch cut into blocks and shared by threads."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbmapops._engine.dispatch import CARRIED_DTYPES
from nbmapops._foreign import let_out
from nbmapops._limits import limits
from nbmapops._load import imported, load_kernels
from nbmapops._reading.columns import is_masked_array
from nbmapops._reading.scalars import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from scipy.sparse import csr_array

    from nbmapops._constants import Array
    from nbmapops._options import Plan
    from nbmapops._reading.entries import Entries
    from nbmapops._vocabulary import Index

    # Does a block of rows; returns a status and where the block ends.
    Work = Callable[[int, int], tuple[int, int]]

OK = -1
"""The status of a kernel that found nothing wrong."""

NOT_RUN = -100
"""The status of a block that no thread has taken."""

ENTRY_BYTES = 16  # a key and a value: what an entry costs beside the bytes of its row


# ------------------------------------------------------------------------------- dense results
def allocate(plan: Plan, shape: tuple[int, ...], kind: str, *, zeros: bool) -> Array:
    """Return an array for the result, or a MemoryError that says how large it would be."""
    dtype = DTYPES[kind]
    size = dtype.itemsize
    for length in shape:
        size *= max(length, 1)  # NumPy refuses rows of any size, were there none of them
    if size <= sys.maxsize:  # NumPy has other errors for sizes that no memory can have
        try:
            return np.zeros(shape, dtype) if zeros else np.empty(shape, dtype)
        except MemoryError as error:
            let_out(error)
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


def filled(
    plan: Plan, shape: tuple[int, ...], kind: str, out: Array | None, entries: Entries | None
) -> tuple[Array, bool]:
    """Return where the result goes, and whether it holds the fill value already."""
    fill = plan.fill_for(kind)
    if out is not None:
        return check_out(plan, out, shape, kind, entries), False
    zeros = kind != "string" and not np.array(fill, DTYPES[kind]).tobytes().strip(b"\0")
    return allocate(plan, shape, kind, zeros=zeros), zeros


def check_out(
    plan: Plan, out: object, shape: tuple[int, ...], kind: str, entries: Entries | None
) -> Array:
    """Return `out` when the result may be written there."""
    dtype = DTYPES[kind]
    name = f"{plan.operator}: out"
    if not isinstance(out, np.ndarray) or is_masked_array(out):
        raise ValueError(f"{name} must be an array, not {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(
            f"{name} must have the shape {shape} and dtype {dtype} of the result, not {out.shape} "
            f"and {out.dtype}"
        )
    if not out.flags.carray:
        raise ValueError(f"{name} must be C-contiguous, aligned and writable")
    if entries is not None and (
        entries.keys.shares_memory(out) or np.may_share_memory(out, entries.values)
    ):
        raise ValueError(f"{name} must not share memory with the input")
    return np.asarray(out)  # without the ways of a subclass


# ------------------------------------------------------------------------------- sparse results
class Parts(NamedTuple):
    """The arrays of a canonical CSR matrix."""

    data: Array
    indices: Array
    indptr: Array


def index_dtype_for(
    nnz: int, columns: int, wanted: type | None = None, operator: str = "csr"
) -> type[np.signedinteger]:
    """Return the dtype of index arrays: int32 where entries and columns fit, else int64."""
    fits = max(nnz, columns) <= 2**31 - 1
    if wanted is np.int32 and not fits:
        raise ValueError(
            f"{operator}: {nnz} entries in {columns} columns need index_dtype int64, not int32"
        )
    return wanted or (np.int32 if fits else np.int64)


# SciPy's constructor takes 30 us, a copy of an empty matrix 1 (asv: dictvectorizer.SmallArrays).
# That one holds an indptr, so that only small ones are kept.
_TEMPLATE_ROWS = 1 << 12


def csr_array_of(parts: Parts, width: int) -> csr_array:
    """Return the parts as a canonical scipy.sparse.csr_array, without a copy."""
    rows = len(parts.indptr) - 1
    like = (_template if rows <= _TEMPLATE_ROWS else _template.__wrapped__)((rows, width))
    matrix = object.__new__(type(like))
    vars(matrix).update(vars(like))  # what copy.copy does
    # The constructor that takes the arrays would narrow int64 indices that somebody asked for.
    matrix.data, matrix.indices, matrix.indptr = parts
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix


@lru_cache(maxsize=32)
def _template(shape: tuple[int, int]) -> csr_array:
    """Return an empty matrix of this shape."""
    matrix: csr_array = imported("scipy.sparse").csr_array(shape)
    return matrix


def kernel_csr(
    plan: Plan,
    words: Index,
    keys: Array,
    values: Array,
    offsets: Array,
    index_dtype: type | None,
) -> csr_array | None:
    """Return the matrix of canonical, read-only arrays, or None where a kernel finds a bad map."""
    kernels = load_kernels()
    carried, entries, rows = CARRIED_DTYPES[values.dtype], len(keys), len(offsets) - 1
    dtype = index_dtype_for(entries, plan.width, index_dtype, plan.operator)
    data, indices = np.empty(entries, values.dtype), np.empty(entries, dtype)
    indptr = np.zeros(rows + 1, dtype)
    status, end = kernels.vectorize_csr(
        *words, keys, values.view(carried), offsets,
        0, rows, plan.policy.skip_unknown, False, 0, indptr, indices, data.view(carried),
    )  # fmt: skip
    if status != kernels.OK:
        return None
    if end < entries:
        data.resize(end, refcheck=False)
        indices.resize(end, refcheck=False)
    return csr_array_of(Parts(data, indices, indptr), plan.width)


# ------------------------------------------------------------------------------- rows in blocks
def row_blocks(offsets: Array, row_bytes: int, threads: int) -> list[tuple[int, int]]:
    """Cut rows into blocks of bounded size, at least one for each thread that pays."""
    rows, entries = len(offsets) - 1, int(offsets[-1])
    size = entries * ENTRY_BYTES + rows * row_bytes
    if threads > 1:
        threads = min(threads, max(size // (ENTRY_BYTES * limits.thread_entries), 1))
    blocks = max(-(-entries // limits.block_entries), -(-rows * row_bytes // limits.block_bytes))
    blocks = max(-(-blocks // threads) * threads, threads)
    if blocks == 1:
        return [(0, rows)]
    # Equal shares of entries and row bytes together.
    marks = [size * block // blocks for block in range(1, blocks)]
    work = offsets * ENTRY_BYTES
    if row_bytes:  # rows of CSR have no cells to fill
        work = work + np.arange(rows + 1) * row_bytes
    cuts = [0, *np.searchsorted(work, marks).tolist(), rows]
    return [(start, stop) for start, stop in itertools.pairwise(cuts) if stop > start]


class BadRow(Exception):
    """An engine has found the first bad map of some entries: its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_blocks(work: Work, blocks: list[tuple[int, int]], threads: int) -> list[int]:
    """Run the blocks; return where each of them ended, or raise `BadRow` for the first bad map.

    The calling thread works, too. Blocks are taken in order, so that all before the first bad one
    have been run; when this returns, or raises, no thread writes any more.
    """
    found: list[tuple[int, int]] = [(NOT_RUN, 0)] * len(blocks)
    waiting = deque(range(len(blocks)))
    failed: list[BaseException] = []

    def take() -> None:
        while waiting:
            try:
                number = waiting.popleft()
            except IndexError as error:  # another thread was faster
                let_out(error)
                return
            found[number] = work(*blocks[number])
            if found[number][0] != OK:
                waiting.clear()

    def help_out() -> None:
        try:
            take()
        except BaseException as error:  # noqa: BLE001  (raised again by the calling thread)
            failed.append(error)
            waiting.clear()

    helpers = []
    try:
        for _ in range(min(threads, len(blocks)) - 1):
            helper = Thread(target=help_out, name="nbmapops", daemon=True)
            helpers.append(helper)  # before it starts: what breaks `start` off leaves it running
            try:
                helper.start()
            except RuntimeError as error:  # the machine refuses another thread: fewer do the same
                let_out(error)
                break
        take()
    finally:
        waiting.clear()
        for helper in helpers:
            if helper.is_alive():
                helper.join()
    if failed:
        raise failed[0]
    for status, _ in found:
        if status != OK:
            raise BadRow(check_status(status))
    return [end for _, end in found]


def check_status(status: int) -> int:
    """Return the status of a kernel: `OK`, or the number of a bad map."""
    if status < OK:
        raise RuntimeError(f"a kernel refused its arrays (status {status})")
    return int(status)
