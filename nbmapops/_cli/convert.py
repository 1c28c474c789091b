"""Command: a file of maps into a file with a matrix, in one pass.

Maps are read in chunks and their entries wait on disk, so neither the input nor the result has to
fit in memory; the vocabulary and one chunk do.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from nbmapops import MapBatch
from nbmapops._cli.jsonlines import JsonLines
from nbmapops._cli.parquet import Parquet
from nbmapops._cli.signals import uninterrupted
from nbmapops._cli.source import InputError, located, opened
from nbmapops._cli.spool import Spool
from nbmapops._cli.words import LearnedWords, read_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from nbmapops._cli.options import Options
    from nbmapops._cli.source import Chunk, Maps
    from nbmapops._cli.words import Words
    from nbmapops._constants import Array


_INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


class Report(NamedTuple):
    """What a conversion did."""

    maps: int
    entries: int
    unknown: int
    words: int
    dtype: np.dtype[np.generic]


def convert(options: Options) -> Report:
    """Write the maps of a file as a matrix and say what was done.

    All files appear when they are complete, or none does.

    Raises
    ------
    InputError
        A bad option, line, value or key; the message names file and line.
    OSError
        A file that cannot be read or written.
    """
    with ExitStack() as stack:
        source = stack.enter_context(opened(options.file))
        maps: Maps = (Parquet if source.is_parquet else JsonLines)(source, options.reading)
        words: Words = LearnedWords(maps)
        if options.vocabulary is not None:
            words = read_words(options.vocabulary, options.handle_unknown, maps)
        new = _NewFiles(stack, options)
        with Spool(new.folder) as spool, _IdsFile(new.ids) as ids:
            conversion = _Conversion(maps, words, spool, ids)
            for chunk in maps.chunks():
                conversion.take(chunk)
            listed, columns = words.in_order()
            dtype = conversion.types.result()
            with new.matrix.open("xb") as stream:
                (spool.write_npy if options.dense else spool.write_npz)(stream, columns, dtype)
        if new.words is not None:
            with new.words.open("x", encoding="utf-8") as text:
                json.dump(listed, text)
        # From here on a signal comes too late.
        with uninterrupted():
            new.publish()
            stack.close()
    return Report(spool.rows, conversion.entries, conversion.unknown, len(listed), dtype)


class _NewFiles:
    """Files that appear under their names at the end, all of them."""

    def __init__(self, stack: ExitStack, options: Options) -> None:
        self._stack = stack
        self._folders: dict[Path, Path] = {}
        self._names: dict[Path, Path] = {}
        self.words = None if options.learned is None else self._new("words", options.learned)
        self.ids = None if options.ids is None else self._new("ids", options.ids)
        self.matrix = self._new("matrix", options.out)
        self.folder = self.matrix.parent

    def _new(self, name: str, path: Path) -> Path:
        final = Path(os.path.realpath(path))  # a symbolic link is written through
        parent = final.parent
        if parent not in self._folders:
            folder = tempfile.TemporaryDirectory(prefix=f".{final.name}-", dir=parent)
            self._folders[parent] = Path(self._stack.enter_context(folder))
        self._names[final] = self._folders[parent] / name
        return self._names[final]

    def publish(self) -> None:
        """Give all files their names; if one cannot have it, the files of before are back."""
        done: list[tuple[Path, Path]] = []
        try:
            for final, new in self._names.items():
                old = new.with_name(f"{new.name}-old")
                if final.exists():
                    final.replace(old)
                done.append((final, old))
                new.replace(final)
        except OSError:
            for final, old in done:
                final.unlink(missing_ok=True)
                if old.exists():
                    old.replace(final)
            raise


class _IdsFile:
    """A JSON array with an id a line; none is written where no path is given."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("x", encoding="utf-8")
        self._before = "[\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._file is not None:
            self._file.write("[]\n" if self._before == "[\n" else "\n]\n")
            self._file.close()

    def write(self, ids: Iterable[str | int]) -> None:
        """Add the ids of the next maps."""
        assert self._file is not None
        for name in ids:
            self._file.write(f"{self._before}{json.dumps(name)}")
            self._before = ",\n"


class _Conversion:
    """Maps become rows of the spool."""

    def __init__(self, maps: Maps, words: Words, spool: Spool, ids: _IdsFile) -> None:
        self._maps = maps
        self._words = words
        self._spool = spool
        self._ids = ids
        self._read = 0
        self.entries = self.unknown = 0
        self.types = _Types()

    def take(self, chunk: Chunk) -> None:
        """Add the maps of a chunk.

        The whole chunk at once; where something is wrong, map by map for the error of the first bad
        one, so that neither depends on where chunks end.
        """
        before = replace(self.types, dtypes=set(self.types.dtypes))
        try:
            values = numbers(chunk.values)
            self._see(self.types, chunk, 0, values)
            codes = np.fromiter(map(self._words.__getitem__, chunk.keys), np.int32, len(values))
            if chunk.may_repeat:
                _check_repeats(codes, chunk.lengths)
        except (InputError, TypeError, ValueError, OverflowError, LookupError):
            self._explain(chunk, before)
            raise
        self._read += len(chunk.lengths)
        self.entries += len(values)
        lengths, known = chunk.lengths, codes >= 0
        if not known.all():
            rows = np.repeat(np.arange(len(lengths)), lengths)
            lengths = np.bincount(rows[known], minlength=len(lengths)).astype(np.int64)
            codes, values = codes[known], values[known]
            self.unknown += len(known) - len(codes)
        self._spool.append(lengths, codes, np.ascontiguousarray(values))
        if chunk.ids is not None:
            self._ids.write(chunk.ids)

    def _explain(self, chunk: Chunk, types: _Types) -> None:
        """Raise the error of the first bad map; the library is the author of most."""
        stop = 0
        for number, length in enumerate(chunk.lengths.tolist()):
            start, stop = stop, stop + length
            with suppress(TypeError, OverflowError):  # which the library tells better
                self._see(types, chunk, number, numbers(chunk.values[start:stop]))
            with located(self._maps, self._read + number):
                self._words.check(chunk.one(number))

    def _see(self, types: _Types, chunk: Chunk, first: int, values: Array) -> None:
        """Note the type of values, which are those of the maps from the chunk's map `first` on."""
        entry = types.see(values)
        if entry is not None:
            ends = np.cumsum(chunk.lengths[first:])
            number = first + int(np.searchsorted(ends, entry, side="right"))
            mapping = next(iter(chunk.one(number)))
            key = list(mapping)[entry - int(ends[number - first]) + len(mapping)]
            # among floats it has an error, which is the library's
            try:
                with located(self._maps, self._read + number):
                    MapBatch.from_dicts([{key: mapping[key]}, {key: 0.5}])
            except InputError as error:
                types.inexact = error
        types.check()


@dataclass
class _Types:
    """The types of all values so far."""

    dtypes: set[np.dtype[np.generic]] = field(default_factory=set)
    inexact: InputError | None = None  # the first int64 that no float64 equals

    def see(self, values: Array) -> int | None:
        """Note the type of these values; return the first that is inexact, if it is news."""
        if len(values):
            self.dtypes.add(values.dtype)
        if values.dtype != _INT64 or self.inexact is not None:
            return None
        large = np.flatnonzero((values > 2**53) | (values < -(2**53)))
        return next((e for e in large.tolist() if int(float(values[e])) != int(values[e])), None)

    def check(self) -> None:
        """Raise an error if an integer would have to become a float that it is not."""
        if self.inexact is not None and _FLOAT64 in self.dtypes:
            raise self.inexact

    def result(self) -> np.dtype[np.generic]:
        """Return the type that holds all values."""
        return self.dtypes.copy().pop() if len(self.dtypes) == 1 else _FLOAT64


def numbers(values: list[float] | Array) -> Array:
    """Return the numbers as int64 or float64; an error if these do not hold them."""
    if isinstance(values, np.ndarray):
        return values
    kinds = set(map(type, values))
    if float not in kinds:
        return np.fromiter(values, _INT64 if values else _FLOAT64, len(values))
    floats = np.fromiter(values, _FLOAT64, len(values))
    if int in kinds:
        for entry in np.flatnonzero(np.abs(floats) >= 2**53).tolist():
            value = values[entry]
            if type(value) is int and (
                int(floats[entry]) != value or not -(2**63) <= value < 2**63
            ):
                raise OverflowError
    return floats


def _check_repeats(codes: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]) -> None:
    known = codes >= 0
    rows = np.repeat(np.arange(len(lengths)), lengths)[known]
    cells = rows << 32 | codes[known]
    if len(np.unique(cells)) < len(cells):
        raise ValueError
