"""Engine, stream: mappings become CSR block by block; neither the maps nor a batch is kept."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from nbmapops._engine import plain, rows
from nbmapops._engine.blocks import BadRow, Parts, index_dtype_for
from nbmapops._options import refuse_text
from nbmapops._reading.mappings import expected_entries
from nbmapops._reading.scalars import DTYPES, BadMap
from nbmapops._semantics import rerun

if TYPE_CHECKING:
    from typing import NoReturn

    from nbmapops._constants import Array
    from nbmapops._options import Plan
    from nbmapops._reading.mappings import Block, MapReader


def csr(plan: Plan, reader: MapReader, index_dtype: type | None = None) -> Parts:
    """Return mappings as CSR: VOCABULARY and SPARSE."""
    # Unknown keys that have a column are needed as they are.
    if plan.vocabulary is not None and plan.key_kind == "string" and not plan.unknown_columns:
        reader.look_up(plan.vocabulary.columns, plan.vocabulary.words)
    result = _GrowingRows(plan, expected_entries(reader.listed or ()), index_dtype)
    try:
        while reader.more():
            block = reader.read()
            bad_row = _append(result, block, reader)
            if bad_row is not None:
                _fail(plan, reader, block, bad_row)
    except BadMap as bad:
        raise bad.error from None
    kind = plan.result_kind(reader.value_kind or "float64")
    refuse_text(plan, kind)
    plan.cell(reader.value_kind or "float64")
    return result.finish(kind)


def _append(result: _GrowingRows, block: Block, reader: MapReader) -> BadRow | None:
    """Write the rows of a block; what is said of its first bad map, if there is one."""
    try:
        result.append(block, compiled=reader.compiled)
    except BadRow as bad:
        return bad
    return None


def _fail(plan: Plan, reader: MapReader, block: Block, bad: BadRow) -> NoReturn:
    """Raise the error of a bad map of a block."""
    kind, number = reader.value_kind, block.first + bad.number
    keys, values = block.map(bad.number, reader.where(number))
    reader.settle(number)
    rerun(plan, number, keys, values, kind, bad.error)


class _GrowingRows:
    """CSR arrays to which blocks are written at their place, so that no block is copied."""

    def __init__(self, plan: Plan, expected: int, index_dtype: type | None) -> None:
        self.plan = plan
        self.wanted = index_dtype
        self.expected = expected  # entries; 0: nobody knows
        self.data = np.empty(0, np.float64)
        self.indices = np.empty(0, index_dtype_for(0, plan.width, index_dtype, plan.operator))
        self.ends = [np.zeros(1, np.int64)]
        self.size = 0

    def append(self, block: Block, *, compiled: bool) -> None:
        """Write the rows of the next block."""
        entries = block.entries
        kind = self.plan.result_kind(entries.value_kind)
        if len(entries.values):
            refuse_text(self.plan, kind)
            self._take_kind(kind)
        if not compiled:
            self._copy(plain.csr(self.plan, entries, self.indices.dtype.type))
            return
        ready = rows.prepare(self.plan, entries)
        self._reserve(len(ready.values))
        indptr = np.zeros(len(ready.offsets), self.indices.dtype)
        written = 0
        if len(ready.values) or ready.bad is not None:
            parts = Parts(self.data[self.size :], self.indices[self.size :], indptr)
            written = rows.write_csr(self.plan, ready, parts)
        self._add(indptr, written)

    def _copy(self, parts: Parts) -> None:
        size = len(parts.data)
        self._reserve(size)
        self.data[self.size : self.size + size] = parts.data
        self.indices[self.size : self.size + size] = parts.indices
        self._add(parts.indptr, size)

    def _take_kind(self, kind: str) -> None:
        if self.data.dtype != DTYPES[kind]:
            room = self.data[: self.size].astype(DTYPES[kind])
            self.data = with_room(room, self.size, len(self.data))

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


def with_room(array: Array, size: int, room: int) -> Array:
    """Return the first elements in an array with room for more."""
    # ndarray.resize would write zeros to all of the room first.
    larger: Array = np.empty(room, array.dtype)
    larger[:size] = array[:size]
    return larger
