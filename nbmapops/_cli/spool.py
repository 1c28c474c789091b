"""Command: rows that wait on disk until their columns, number and type are known."""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Self

    import numpy.typing as npt

    from nbmapops._constants import Array


_BLOCK = 1 << 20  # numbers written at a time
_PIECE = 1 << 15  # rows or entries
_INT32_MAX = 2**31 - 1
_LENGTH, _CODE = np.dtype(np.int64), np.dtype(np.int32)


class _Piece(NamedTuple):
    rows: int
    entries: int
    dtype: np.dtype[np.generic]


class Spool:
    """Rows in pieces: the length of each, and the code and value of each entry."""

    def __init__(self, folder: Path) -> None:
        self._pieces: list[_Piece] = []
        self._open = ExitStack()
        self._lengths, self._codes, self._data = (
            self._open.enter_context((folder / name).open("x+b"))
            for name in ("lengths", "codes", "data")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open.close()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(piece.rows for piece in self._pieces)

    def append(
        self, lengths: npt.NDArray[np.int64], codes: npt.NDArray[np.int32], data: Array
    ) -> None:
        """Add the next rows."""
        piece = _Piece(len(lengths), len(data), data.dtype)
        last = self._pieces[-1] if self._pieces else None
        if last and last.dtype == piece.dtype and max(last[:2]) < _PIECE:
            self._pieces[-1] = _Piece(
                last.rows + piece.rows, last.entries + piece.entries, piece.dtype
            )
        else:
            self._pieces.append(piece)
        self._lengths.write(lengths.data)
        self._codes.write(codes.data)
        self._data.write(data.data)

    def write_npz(
        self, stream: IO[bytes], columns: npt.NDArray[np.int32], dtype: np.dtype[np.generic]
    ) -> None:
        """Write what ``scipy.sparse.load_npz`` reads; numbers as they are, not compressed.

        `columns` is the column of each code. The rows become canonical: columns ascend in each.
        """
        self._sort(columns)
        rows, entries = self.rows, sum(piece.entries for piece in self._pieces)
        index = np.dtype(np.int32 if entries <= _INT32_MAX else np.int64)
        members: list[tuple[str, tuple[int, ...], np.dtype[np.generic], Iterable[Array]]] = [
            ("format", (), np.dtype("S3"), [np.array(b"csr")]),
            ("_is_array", (), np.dtype(bool), [np.array(True)]),
            ("shape", (2,), np.dtype(np.int64), [np.array([rows, len(columns)])]),
            ("indptr", (rows + 1,), index, self._indptr()),
            ("indices", (entries,), index, self._stored_codes()),
            ("data", (entries,), dtype, self._stored_data()),
        ]
        with zipfile.ZipFile(stream, "w") as archive:
            for name, shape, kind, blocks in members:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_array(member, shape, kind, blocks)

    def write_npy(
        self, stream: IO[bytes], columns: npt.NDArray[np.int32], dtype: np.dtype[np.generic]
    ) -> None:
        """Write the dense matrix."""
        _write_array(stream, (self.rows, len(columns)), dtype, self._dense(columns))

    def _sort(self, columns: npt.NDArray[np.int32]) -> None:
        """Put columns in the place of codes, and order the entries of each row by column."""
        place = 0, 0
        for piece, lengths, codes, data in self._stored():
            after = self._codes.tell(), self._data.tell()
            numbers = columns[codes]
            cells = np.repeat(np.arange(piece.rows), lengths) * len(columns) + numbers
            if not (cells[1:] > cells[:-1]).all():
                order = np.argsort(cells)
                arrays = numbers[order], data[order]
            else:
                arrays = numbers, data
            for file, array, start, stop in zip(
                (self._codes, self._data), arrays, place, after, strict=True
            ):
                file.seek(start)
                file.write(array.data)
                file.seek(stop)
            place = after

    def _dense(self, columns: npt.NDArray[np.int32]) -> Iterator[Array]:
        step = max(1, _BLOCK // max(1, len(columns)))
        for piece, lengths, codes, data in self._stored():
            rows = np.repeat(np.arange(piece.rows), lengths)
            numbers = columns[codes]
            for first in range(0, piece.rows, step):
                block = np.zeros((min(step, piece.rows - first), len(columns)), data.dtype)
                start, stop = np.searchsorted(rows, (first, first + step))
                block[rows[start:stop] - first, numbers[start:stop]] = data[start:stop]
                yield block

    def _stored(self) -> Iterator[tuple[_Piece, Array, Array, Array]]:
        return zip(
            self._pieces,
            self._stored_lengths(),
            self._stored_codes(),
            self._stored_data(),
            strict=True,
        )

    def _indptr(self) -> Iterator[Array]:
        end = np.zeros(1, np.int64)
        yield end
        for lengths in self._stored_lengths():
            ends = end[-1] + np.cumsum(lengths)
            yield ends
            end = ends

    def _stored_lengths(self) -> Iterator[Array]:
        return _read(self._lengths, ((piece.rows, _LENGTH) for piece in self._pieces))

    def _stored_codes(self) -> Iterator[Array]:
        return _read(self._codes, ((piece.entries, _CODE) for piece in self._pieces))

    def _stored_data(self) -> Iterator[Array]:
        return _read(self._data, ((piece.entries, piece.dtype) for piece in self._pieces))


def _read(file: IO[bytes], pieces: Iterable[tuple[int, np.dtype[np.generic]]]) -> Iterator[Array]:
    file.seek(0)
    for count, dtype in pieces:
        yield np.frombuffer(file.read(count * dtype.itemsize), dtype)


def _write_array(
    stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[np.generic], blocks: Iterable[Array]
) -> None:
    """Write a ``.npy`` file block by block."""
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(stream, header)
    stream.writelines(block.astype(dtype, copy=False).tobytes() for block in blocks)
