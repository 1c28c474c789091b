"""Command: the file of maps, opened once: a file or standard input, compressed or not."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, cast

from nbmapops import UnknownKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    import numpy.typing as npt

    from nbmapops import MapBatch
    from nbmapops._types import Map

KeyType: TypeAlias = Literal["string", "int64"]

_GZIP, _ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
# Of Python 3.14, and for older ones. The module zstandard takes a truncated file for a whole one.
_ZSTD_MODULES = ("compression.zstd", "backports.zstd")


class InputError(Exception):
    """What is wrong with the user's files or options, in one sentence."""


class Reading(NamedTuple):
    """How the maps of a file are to be read."""

    key_type: KeyType = "string"
    column: str | None = None  # where the map stands in a line, as "a.b"
    ids: str | None = None  # where its id stands
    skip_nulls: bool = False
    one_hot: bool = False


def short(value: object) -> str:
    """Return the value as JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:36]} ..."


class Chunk(NamedTuple):
    """Some maps of the file, one after another."""

    lengths: npt.NDArray[np.int64]
    keys: Iterable[str] | Iterable[int]  # of all entries
    values: list[float] | npt.NDArray[np.generic]
    ids: list[str | int] | None
    may_repeat: bool  # whether a map can hold a key twice
    one: Callable[[int], list[Map] | MapBatch]  # a map alone, as the library takes it


class Maps(Protocol):
    """The maps of a file."""

    key_type: KeyType

    def word(self, key: Any) -> Any:
        """Return the word that a key of a chunk stands for; an error if there is none."""

    def key(self, word: Any) -> Any:
        """Return the key of a chunk that stands for a word."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the maps in order."""

    def place(self, number: int) -> str:
        """Return where map `number` stands, for messages."""


@contextmanager
def located(maps: Maps, first: int) -> Iterator[None]:
    """Give an error of the library the place in the file: its map 0 is map `first` there."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, UnknownKeyError) as error:
        # only the two ends are the library's own words: between them may stand any key
        found = re.match(r"\w+: (?:map (\d+):? )?(.*)", str(error), re.DOTALL)
        number, reason = (int(found[1] or 0), found[2]) if found else (0, str(error))
        if reason.endswith(_REMEDY):
            reason = reason.removesuffix(_REMEDY) + _OWN_REMEDY
        raise InputError(f"{maps.place(first + number)}: {reason}") from error


_REMEDY = 'pass handle_unknown="ignore" to skip unknown keys'
_OWN_REMEDY = "pass --handle-unknown ignore to skip unknown keys"


class Source(NamedTuple):
    """Where the maps come from."""

    name: str  # for messages
    path: Path | None  # None: standard input
    stream: IO[bytes]  # not compressed
    raw: IO[bytes]  # as it is in the file

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file: by its first bytes, or by its name."""
        named = self.path is not None and self.path.suffix == ".parquet"
        with readable(self.name):
            return named or _first_bytes(self.stream) == PARQUET


@contextmanager
def opened(file: str) -> Iterator[Source]:
    """Open the file; "-" is standard input, which stays open afterwards."""
    if file == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed")
        raw: IO[bytes] = sys.stdin.buffer
        yield Source("standard input", None, _decompressed("standard input", raw), raw)
        return
    with Path(file).open("rb") as raw:
        yield Source(file, Path(file), _decompressed(file, raw), raw)


def _first_bytes(stream: IO[bytes]) -> bytes:
    return cast("io.BufferedReader", stream).peek(4)[:4]


def _decompressed(name: str, raw: IO[bytes]) -> IO[bytes]:
    with readable(name):
        start = _first_bytes(raw)
    if start.startswith(_GZIP):
        return io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=raw)))
    return _zstd(name, raw) if start == _ZSTD else raw


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Name the file in errors of reading it."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name}: the compressed data is damaged: {error}") from error
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    except Exception as error:
        # Its class stands in a module that may be missing.
        if type(error).__name__ != "ZstdError":
            raise
        raise InputError(f"{name}: the compressed data is damaged: {error}") from error


def _zstd(name: str, raw: IO[bytes]) -> IO[bytes]:
    for module in _ZSTD_MODULES:
        try:
            zstd = import_module(module)
        except ImportError:
            continue
        return io.BufferedReader(zstd.ZstdFile(raw))
    file = "" if raw is getattr(sys.stdin, "buffer", None) else f"{name} "
    raise InputError(
        f"{name} is compressed with zstd, and no module for it is installed (Python 3.14 has one, "
        f"backports.zstd is one for older versions); zstdcat {file}| nbmapops - -o OUT"
    )
