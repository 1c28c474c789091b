"""A file of maps into a file with a matrix: ``python -m nbmapops FILE``.

Maps are read in chunks and their entries wait on disk, so neither the input nor the result has to
fit in memory; the vocabulary and one chunk do.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
import tempfile
import threading
import zipfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from nbmapops import DictVectorizer, MapBatch, UnknownKeyError
from nbmapops._engine.rows import csr_parts, source_of
from nbmapops._reading.batch import entries_of, map_of_entry
from nbmapops._reading.scalars import BadMap, inexact_error
from nbmapops._values import cast_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

KeyType: TypeAlias = Literal["string", "int64"]
Array: TypeAlias = np.ndarray[Any, Any]

_CHUNK_BYTES = 1 << 20  # of text; as dicts it takes some thirty times as much
_CHUNK_ROWS = 1 << 13  # of a Parquet column
_BLOCK = 1 << 20  # numbers written at a time
_INT32_MAX = 2**31 - 1


class InputError(Exception):
    """What is wrong with the user's files or options, in one sentence."""


class Report(NamedTuple):
    """What a conversion did."""

    maps: int
    entries: int
    unknown: int
    words: int
    dtype: np.dtype[Any]
    learned: Path | None


def convert(
    source: str,
    target: Path,
    *,
    dense: bool,
    vocabulary: Path | None,
    key_type: KeyType,
    handle_unknown: Literal["error", "ignore"],
    column: str | None,
) -> Report:
    """Write the maps of the file `source` to `target` and say what was done.

    Parameters
    ----------
    source : str
        A JSON Lines file, a Parquet file (then `column` is needed), or "-" for standard input.
    target : Path
        The ``.npz`` file (sparse) or ``.npy`` file (dense); it appears when it is complete.
    dense : bool
        Whether to write a dense matrix.
    vocabulary : Path or None
        A JSON array of words. If None, the vocabulary is learned from the maps and written beside
        `target`.
    key_type : {"string", "int64"}
        How the keys of JSON objects are read; a Parquet column has its own key type.
    handle_unknown : {"error", "ignore"}
        What happens to entries whose key is not in the vocabulary.
    column : str or None
        The map column of a Parquet file.

    Returns
    -------
    Report
        The counts.

    Raises
    ------
    InputError
        A bad option, line, value or key; the message names file and line.
    OSError
        A file that cannot be read or written.
    """
    maps: _Maps = _JsonLines(source, key_type) if column is None else _Parquet(source, column)
    learned = learned_path(target) if vocabulary is None else None
    with ExitStack() as last:
        prefix = f".{target.name}-"
        folder = Path(
            last.enter_context(tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent))
        )
        vectorizer = _learn(maps) if vocabulary is None else _read_words(vocabulary, handle_unknown)
        with _Spool(folder, len(vectorizer)) as spool:
            report = _fill(spool, maps, vectorizer)
            with (folder / "matrix").open("xb") as stream:
                (spool.write_npy if dense else spool.write_npz)(stream)
        if learned is not None:
            with (folder / "words").open("x", encoding="utf-8") as text:
                json.dump(np.asarray(vectorizer.vocabulary).tolist(), text)
        # Both files appear, or none: from here on an interrupt comes too late.
        with _uninterrupted():
            if learned is not None:
                (folder / "words").replace(learned)
            (folder / "matrix").replace(target)
            last.close()
    return report._replace(learned=learned)


def learned_path(target: Path) -> Path:
    """Return the file for the vocabulary that is learned on the way to `target`."""
    return target.with_suffix(".vocabulary.json")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C; only the main thread sees it."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------------------------- maps in
class _Maps(Protocol):
    """A file of maps."""

    def chunks(self, what: str) -> Iterator[MapBatch]:
        """Yield the maps in order; `what` is done with them, to be shown as progress."""

    def place(self, number: int) -> str:
        """Return where map `number` stands, for messages."""


class _JsonLines:
    """One JSON object a line, so that map i is line i + 1."""

    def __init__(self, source: str, key_type: KeyType) -> None:
        self._source = source
        self._key_type = key_type
        self._decode = json.JSONDecoder(
            object_pairs_hook=_mapping if key_type == "string" else _mapping_of_integers,
            parse_float=_float,
        ).decode

    def place(self, number: int) -> str:
        name = "standard input" if self._source == "-" else self._source
        return f"{name}:{number + 1}"

    def chunks(self, what: str) -> Iterator[MapBatch]:
        with ExitStack() as stack:
            if self._source == "-":
                stream: IO[bytes] = sys.stdin.buffer
                size = None
            else:
                stream = stack.enter_context(Path(self._source).open("rb"))
                size = os.fstat(stream.fileno()).st_size
            progress = stack.enter_context(_progress(what, size, "B"))
            first = 0
            while lines := stream.readlines(_CHUNK_BYTES):
                if first == 0:
                    lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")  # a byte order mark
                maps = [self._map(line, first + n) for n, line in enumerate(lines)]
                with _located(self, first):
                    batch = MapBatch.from_dicts(maps, key_type=self._key_type)
                yield batch
                first += len(lines)
                progress(sum(map(len, lines)))

    def _map(self, line: bytes, number: int) -> dict[Any, Any]:
        try:
            mapping = self._decode(line.rstrip(b"\r\n").decode())
            if type(mapping) is not dict:
                reason = f"{_short(mapping)} is not a map; each line must be a JSON object"
            elif _NUMBERS.issuperset(map(type, mapping.values())):
                return mapping
            else:
                key, value = next(i for i in mapping.items() if type(i[1]) not in _NUMBERS)
                reason = f"key {key!r}: {_short(value)} is not a number"
        except json.JSONDecodeError as error:
            reason = f"this is not JSON: {error.msg} at column {error.colno}"
            if not line.strip():
                reason = "the line is empty; a map without entries is written {}"
        except UnicodeDecodeError as error:
            reason = f"byte {error.start + 1} of the line is not UTF-8"
        except RecursionError:
            reason = "the line is nested too deeply"
        except ValueError as error:
            reason = str(error)
        raise InputError(f"{self.place(number)}: {reason}")


_NUMBERS = frozenset([int, float, bool])


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"key {key!r} occurs twice in one map")
    return mapping


def _mapping_of_integers(pairs: list[tuple[str, Any]]) -> dict[int, Any]:
    return {_integer(key): value for key, value in _mapping(pairs).items()}


def _integer(key: str) -> int:
    """Return the integer; each has one spelling, so different keys stay different."""
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,18}", key):
        raise ValueError(f"key {key!r} is not a decimal integer such as 17 or -3")
    return int(key)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number) or (number == 0 and re.search("[1-9]", text.lower().split("e")[0])):
        raise ValueError(f"{text} is out of the range of float64")
    return number


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:36]} ..."


class _Parquet:
    """A map column of a Parquet file."""

    def __init__(self, source: str, column: str) -> None:
        self._source = source
        self._column = column
        with self._readable() as parquet:
            self._file = parquet.ParquetFile(source)
            names = self._file.schema_arrow.names
        if column not in names:
            raise InputError(f"{source}: there is no column {column!r}, only {', '.join(names)}")

    def place(self, number: int) -> str:
        return f"{self._source}: row {number + 1}"

    def chunks(self, what: str) -> Iterator[MapBatch]:
        with ExitStack() as stack:
            stack.enter_context(self._readable())
            total = self._file.metadata.num_rows
            progress = stack.enter_context(_progress(what, total, " maps"))
            first = 0
            for rows in self._batches():
                maps = rows.column(0)
                maps.validate(full=True)
                if maps.null_count:
                    number = maps.is_null().index(True).as_py()
                    raise InputError(f"{self.place(first + number)}: the map is null")
                with _located(self, first):
                    batch = MapBatch.from_arrow(maps)
                if batch.values.dtype == object:
                    raise InputError(f"{self._source}: the values of {self._column!r} are text")
                yield batch
                first += len(rows)
                progress(len(rows))

    def _batches(self) -> Iterator[Any]:
        # pyarrow cannot read maps with dictionaries for keys across row groups
        for group in range(self._file.num_row_groups):
            yield from self._file.iter_batches(_CHUNK_ROWS, [group], [self._column])

    @contextmanager
    def _readable(self) -> Iterator[Any]:
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
            raise InputError(f"{self._source}: {error}") from error


@contextmanager
def _located(maps: _Maps, first: int) -> Iterator[None]:
    """Give an error of the library the place in the file: its map 0 is map `first` there."""
    try:
        yield
    except BadMap as bad:
        number, error = bad.number, bad.error
    except (TypeError, ValueError, OverflowError, UnknownKeyError) as other:
        number, error = None, other
    else:
        return
    # only the two ends are the library's own words: between them may stand any key
    found = re.match(r"\w+: map (\d+):? (.*)", str(error), re.DOTALL)
    named, reason = (int(found[1]), found[2]) if found else (0, str(error))
    if reason.endswith(_REMEDY):
        reason = f"{reason.removesuffix(_REMEDY)}pass --handle-unknown ignore to skip unknown keys"
    number = named if number is None else number
    raise InputError(f"{maps.place(first + number)}: {reason}") from error


_REMEDY = 'pass handle_unknown="ignore" to skip unknown keys'


# -------------------------------------------------------------------------------- vocabulary
def _learn(maps: _Maps) -> DictVectorizer:
    words: set[Any] = set()
    for batch in maps.chunks("learning the vocabulary"):
        words.update(batch.keys.tolist())
    return _vectorizer(sorted(words), "error")


def _read_words(path: Path, handle_unknown: str) -> DictVectorizer:
    try:
        words = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{path}: this is not JSON: {error}") from error
    if not isinstance(words, list):
        raise InputError(f"{path}: {_short(words)} is not a JSON array of words")
    try:
        return _vectorizer(words, handle_unknown)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: {error}") from error


def _vectorizer(words: list[Any], handle_unknown: str) -> DictVectorizer:
    if words and type(words[0]) is int:
        return DictVectorizer(int64_vocabulary=words, handle_unknown=handle_unknown)
    return DictVectorizer(string_vocabulary=words, handle_unknown=handle_unknown)


# -------------------------------------------------------------------------------- matrix out
def _fill(spool: _Spool, maps: _Maps, vectorizer: DictVectorizer) -> Report:
    plan = vectorizer._plan
    read = entries = unknown = 0
    inexact: str | None = None
    for batch in maps.chunks("vectorizing"):
        with _located(maps, read):
            data, indices, indptr = csr_parts(plan, batch, source_of(plan, batch))
        spool.append(data, indices, indptr)
        inexact = inexact or _first_inexact(maps, read, batch)
        if inexact and spool.dtype == np.float64:
            raise InputError(inexact)
        read += len(batch)
        entries += len(batch.values)
        unknown += len(batch.values) - len(data)
    return Report(read, entries, unknown, len(vectorizer), spool.dtype, None)


def _first_inexact(maps: _Maps, first: int, batch: MapBatch) -> str | None:
    """Return the complaint about an integer that must not meet a float in the same matrix."""
    if batch.values.dtype != np.int64:
        return None
    _, refused = cast_array(batch.values, "int64", "float64", "exact")
    if not len(refused):
        return None
    entry = int(refused[0])
    number = map_of_entry(batch, entry)
    keys, values = entries_of(batch, number)
    position = entry - int(batch.offsets[number])
    return str(inexact_error(maps.place(first + number), keys[position], values[position]))


class _Piece(NamedTuple):
    rows: int
    entries: int
    dtype: np.dtype[Any]


class _Spool:
    """CSR arrays that grow on disk, piece by piece, until their size and type are known."""

    def __init__(self, folder: Path, columns: int) -> None:
        self._columns = columns
        self._pieces: list[_Piece] = []
        self._open = ExitStack()
        self._lengths, self._indices, self._data = (
            self._open.enter_context((folder / name).open("x+b"))
            for name in ("lengths", "indices", "data")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open.close()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that holds all values: int64 and float64 together give float64."""
        types = {piece.dtype for piece in self._pieces if piece.entries}
        return types.pop() if len(types) == 1 else np.dtype(np.float64)

    def append(self, data: Array, indices: Array, indptr: Array) -> None:
        """Add the next rows."""
        self._pieces.append(_Piece(len(indptr) - 1, len(data), data.dtype))
        self._lengths.write(np.diff(indptr).astype(np.int64).tobytes())
        self._indices.write(indices.astype(np.int32).tobytes())
        self._data.write(data.tobytes())

    def write_npz(self, stream: IO[bytes]) -> None:
        """Write what ``scipy.sparse.load_npz`` reads; numbers as they are, not compressed."""
        rows = sum(piece.rows for piece in self._pieces)
        entries = sum(piece.entries for piece in self._pieces)
        index = np.dtype(np.int32 if entries <= _INT32_MAX else np.int64)
        members: list[tuple[str, tuple[int, ...], np.dtype[Any], Iterable[Array]]] = [
            ("format", (), np.dtype("S3"), [np.array(b"csr")]),
            ("_is_array", (), np.dtype(bool), [np.array(True)]),
            ("shape", (2,), np.dtype(np.int64), [np.array([rows, self._columns])]),
            ("indptr", (rows + 1,), index, self._indptr()),
            ("indices", (entries,), index, self._stored_indices()),
            ("data", (entries,), self.dtype, self._stored_data()),
        ]
        with zipfile.ZipFile(stream, "w") as archive:
            for name, shape, dtype, blocks in members:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_array(member, shape, dtype, blocks)

    def write_npy(self, stream: IO[bytes]) -> None:
        """Write the dense matrix."""
        rows = sum(piece.rows for piece in self._pieces)
        _write_array(stream, (rows, self._columns), self.dtype, self._dense())

    def _dense(self) -> Iterator[Array]:
        step = max(1, _BLOCK // max(1, self._columns))
        for lengths, indices, data in zip(
            self._stored_lengths(), self._stored_indices(), self._stored_data(), strict=True
        ):
            rows = np.repeat(np.arange(len(lengths)), lengths)
            for first in range(0, len(lengths), step):
                block = np.zeros((min(step, len(lengths) - first), self._columns), data.dtype)
                start, stop = np.searchsorted(rows, (first, first + step))
                block[rows[start:stop] - first, indices[start:stop]] = data[start:stop]
                yield block

    def _indptr(self) -> Iterator[Array]:
        end = np.zeros(1, np.int64)
        yield end
        for lengths in self._stored_lengths():
            ends = end[-1] + np.cumsum(lengths)
            yield ends
            end = ends

    def _stored_lengths(self) -> Iterator[Array]:
        return _stored(self._lengths, ((piece.rows, np.dtype(np.int64)) for piece in self._pieces))

    def _stored_indices(self) -> Iterator[Array]:
        types = ((piece.entries, np.dtype(np.int32)) for piece in self._pieces)
        return _stored(self._indices, types)

    def _stored_data(self) -> Iterator[Array]:
        return _stored(self._data, ((piece.entries, piece.dtype) for piece in self._pieces))


def _stored(file: IO[bytes], pieces: Iterable[tuple[int, np.dtype[Any]]]) -> Iterator[Array]:
    file.seek(0)
    for count, dtype in pieces:
        yield np.frombuffer(file.read(count * dtype.itemsize), dtype)


def _write_array(
    stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], blocks: Iterable[Array]
) -> None:
    """Write a ``.npy`` file block by block."""
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(stream, header)
    stream.writelines(block.astype(dtype, copy=False).tobytes() for block in blocks)


# ---------------------------------------------------------------------------------- progress
@contextmanager
def _progress(what: str, total: int | None, unit: str) -> Iterator[Callable[[int], object]]:
    """Show on a terminal how far a longer run is, with tqdm (extra ``[progress]``)."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda _: None
        return
    # disable=None: only on a terminal
    with tqdm(
        desc=what, total=total, unit=unit, unit_scale=True, delay=2, leave=False, disable=None
    ) as bar:
        yield bar.update
