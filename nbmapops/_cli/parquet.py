"""Command: a map column of a Parquet file."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nbmapops import MapBatch
from nbmapops._cli.progress import progress
from nbmapops._cli.source import Chunk, InputError, located

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbmapops._cli.source import KeyType, Reading, Source

_CHUNK_ROWS = 1 << 13
_Arrow: TypeAlias = Any  # of pyarrow, which has no annotations


class Parquet:
    """The maps of a column of a Parquet file."""

    def __init__(self, source: Source, reading: Reading) -> None:
        self._name = source.name
        self._reading = reading
        if source.path is None:
            raise InputError("standard input is a Parquet file; give the name of the file")
        if reading.column is None:
            raise InputError(f"{source.name} needs --column NAME")
        self._columns = [reading.column, *([] if reading.ids is None else [reading.ids])]
        with self._readable() as parquet:
            self._file = parquet.ParquetFile(source.name)
            schema = self._file.schema_arrow
        for column in self._columns:
            count = schema.names.count(column)
            if count != 1:
                found = "are two columns" if count else "is no column"
                names = ", ".join(schema.names)
                raise InputError(f"{source.name}: there {found} {column!r}; it has {names}")
        with located(self, 0):
            none = MapBatch.from_arrow(schema.empty_table().column(reading.column))
        self.key_type: KeyType = "string" if none.keys.dtype == object else "int64"
        if self.key_type == "int64" and reading.one_hot:
            raise InputError(f"{source.name}: --one-hot needs text keys")

    def word(self, key: str | int) -> str | int:
        """Return the key."""
        return key

    def key(self, word: str | int) -> str | int:
        """Return the word."""
        return word

    def place(self, number: int) -> str:
        """Return where map `number` stands, for messages."""
        return f"{self._name}: row {number + 1}"

    def chunks(self) -> Iterator[Chunk]:
        """Yield the maps in order; a bad map is an InputError."""
        with ExitStack() as stack:
            stack.enter_context(self._readable())
            advance = stack.enter_context(
                progress("reading", self._file.metadata.num_rows, " maps")
            )
            first = 0
            for rows in self._batches():
                yield self._chunk(rows, first)
                first += len(rows)
                advance(len(rows))

    def _batches(self) -> Iterator[_Arrow]:
        # pyarrow cannot read maps with dictionaries for keys across row groups
        for group in range(self._file.num_row_groups):
            yield from self._file.iter_batches(_CHUNK_ROWS, [group], self._columns)

    def _chunk(self, rows: _Arrow, first: int) -> Chunk:
        maps = rows.column(self._columns[0])
        maps.validate(full=True)
        batch = self._batch(maps, first)
        ids = self._ids(rows, first) if self._reading.ids else None
        return Chunk(
            lengths=np.diff(batch.offsets),
            keys=batch.keys.tolist(),
            values=batch.values,
            ids=ids,
            may_repeat=True,
            one=lambda number: batch[number : number + 1],
        )

    def _batch(self, maps: _Arrow, first: int) -> MapBatch:
        skip = self._reading.skip_nulls
        if maps.null_count and not skip:
            number = maps.is_null().index(True).as_py()
            raise InputError(
                f"{self.place(first + number)}: the map is null; pass --null skip to take it as "
                "empty"
            )
        with located(self, first):
            batch = MapBatch.from_arrow(
                maps, null_map="empty", null_value="skip" if skip else "error"
            )
        if batch.values.dtype != object or len(batch.values) == 0:
            return batch
        if not self._reading.one_hot:
            raise InputError(
                f"{self._name}: the values of {self._columns[0]!r} are text; pass --one-hot to "
                "make a column of each key and text"
            )
        pairs = zip(batch.keys.tolist(), batch.values.tolist(), strict=True)
        names = np.array([f"{key}={text}" for key, text in pairs], object)
        return MapBatch.from_arrays(names, np.ones(len(names), np.int64), batch.offsets)

    def _ids(self, rows: _Arrow, first: int) -> list[str | int]:
        ids: list[str | int] = rows.column(self._columns[1]).to_pylist()
        for number, name in enumerate(ids):
            if type(name) is not str and type(name) is not int:
                raise InputError(
                    f"{self.place(first + number)}: the id must be text or an integer, not {name!r}"
                )
        return ids

    @contextmanager
    def _readable(self) -> Iterator[_Arrow]:
        """Name the file in what pyarrow says about damaged ones."""
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise InputError(
                "reading Parquet needs pyarrow: pip install 'nbmapops[arrow]'"
            ) from error
        try:
            yield pyarrow.parquet
        except (pyarrow.ArrowException, ValueError) as error:
            raise InputError(f"{self._name}: {error}") from error
