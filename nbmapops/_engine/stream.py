"""Engine, stream: mappings become CSR block by block; neither the maps nor a batch is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nbmapops._engine import plain, rows
from nbmapops._engine.blocks import BadRow, Parts, index_dtype_for
from nbmapops._foreign import let_out
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
    # Unknown keys that have a column are needed as they are, and added up in their order.
    if not plan.unknown_columns:
        reader.take_any_order()
        if plan.vocabulary is not None and plan.key_kind == "string":
            reader.look_up(plan.vocabulary.columns, plan.vocabulary.words)
    result = _Rows(plan, expected_entries(reader.listed) if reader.listed else 0, index_dtype)
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


def _append(result: _Rows, block: Block, reader: MapReader) -> BadRow | None:
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
    rerun(plan, number, keys, values, kind)


# Of an iterator nobody knows how much is to come. Its pieces are small until there are so many
# entries: then a large piece, with room for so many more, takes in those before it. A result of
# some MiB is one piece, which is not copied in the end (asv: dicts.FromGenerator).
_MANY, _LARGE = 1 << 17, 1 << 19


class _Rows:
    """CSR arrays in pieces with room for several blocks; joined at the end where there are many."""

    def __init__(self, plan: Plan, expected: int, index_dtype: type | None) -> None:
        self.plan = plan
        self.wanted = index_dtype
        self.index_dtype = index_dtype_for(0, plan.width, index_dtype, plan.operator)  # of pieces
        self.expected = expected  # entries; 0: nobody knows
        self.data: list[Array] = []
        self.indices: list[Array] = []
        self.ends = [np.zeros(1, np.int64)]
        self.used = self.size = 0  # entries in the last piece, and in all

    def append(self, block: Block, *, compiled: bool) -> None:
        """Write the rows of the next block."""
        entries = block.entries
        kind = self.plan.result_kind(entries.value_kind)
        if len(entries.values):
            refuse_text(self.plan, kind)
        if not compiled:
            given = plain.csr(self.plan, entries, self.index_dtype)
            data, indices = self._room(kind, len(given.data))
            data[:], indices[:] = given.data, given.indices
            self._add(given.indptr, len(data))
            return
        ready = rows.prepare(self.plan, entries)
        indptr = np.zeros(len(ready.offsets), self.index_dtype)
        written = 0
        if len(ready.values) or ready.bad is not None:
            data, indices = self._room(kind, len(ready.values))
            written = rows.write_csr(self.plan, ready, Parts(data, indices, indptr))
        self._add(indptr, written)

    def _room(self, kind: str, entries: int) -> tuple[Array, Array]:
        """Return where data and indices of a block are written: in the last piece or a new one."""
        dtype = DTYPES[kind]
        last = self.data[-1] if self.data else None
        if last is None or last.dtype != dtype or self.used + entries > len(last):
            self._close()
            try:
                self._open(dtype, max(entries, self._more()))
            except MemoryError as error:  # what is expected of a sample may be far off
                let_out(error)
                self._open(dtype, entries)
        own = slice(self.used, self.used + entries)
        return self.data[-1][own], self.indices[-1][own]

    def _more(self) -> int:
        """Return how many entries a new piece should hold; what is not written costs nothing."""
        if self.expected:
            return max(self.expected - self.size, self.size // 8)
        return max(_LARGE if self.size > _MANY else 0, self.size // 8)

    def _open(self, dtype: np.dtype[np.generic], room: int) -> None:
        """Begin a piece; the first large one of an iterator takes in those before it."""
        gathers = (
            room >= _LARGE
            and self.size > _MANY
            and not self.expected
            and len(self.data[0]) <= _MANY
            and all(piece.dtype == dtype for piece in self.data)
        )
        used = self.size if gathers else 0
        # Both, before anything changes: there may be no memory for one of them.
        data, indices = np.empty(used + room, dtype), np.empty(used + room, self.index_dtype)
        for pieces, piece in ((self.data, data), (self.indices, indices)):
            if gathers:
                np.concatenate(pieces, out=piece[:used])
                pieces.clear()
            pieces.append(piece)
        self.used = used

    def _close(self) -> None:
        for pieces in (self.data, self.indices):
            if pieces:
                pieces[-1].resize(self.used, refcheck=False)

    def _add(self, indptr: Array, written: int) -> None:
        self.ends.append(indptr[1:].astype(np.int64) + self.size)
        self.used += written
        self.size += written

    def finish(self, kind: str) -> Parts:
        """Return the arrays at their final size."""
        self._close()
        dtype = index_dtype_for(self.size, self.plan.width, self.wanted, self.plan.operator)
        return Parts(
            _joined(self.data, DTYPES[kind]),
            _joined(self.indices, np.dtype(dtype)),
            np.concatenate(self.ends).astype(dtype, copy=False),
        )


def _joined(pieces: list[Array], dtype: np.dtype[np.generic]) -> Array:
    """Join pieces; each is given back as soon as it is copied, so that none is held twice."""
    if len(pieces) == 1:
        return pieces[0].astype(dtype, copy=False)
    whole: Array = np.empty(sum(map(len, pieces)), dtype)
    start = 0
    while pieces:
        piece = pieces.pop(0)
        whole[start : start + len(piece)] = piece
        start += len(piece)
    return whole
