"""Command: JSON Lines, one object a line, so that map i is line i + 1."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections import Counter
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nbmapops._cli.progress import progress
from nbmapops._cli.source import Chunk, InputError, readable, short
from nbmapops.errors import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from nbmapops._cli.source import KeyType, Reading, Source
    from nbmapops._types import Map

Json: TypeAlias = Any  # what a JSON text may stand for
Mapping: TypeAlias = dict[str, Json]

# Of text; as dicts it takes some thirty times as much. More than the second cache holds takes a
# third more time (compare.py: S31).
_CHUNK_BYTES = 1 << 15
_NUMBERS = frozenset([int, float, bool])


class _Lines(NamedTuple):
    maps: list[Mapping]
    ids: list[str | int]
    values: list[Json] | npt.NDArray[np.float64] | None = None  # of all maps, where they are known


class JsonLines:
    """The maps of a JSON Lines file.

    A chunk of lines is read as one JSON array: one call, and equal keys are one object, whose hash
    is known (compare.py: S31). Whatever is unusual in it is read again, line by line: that is the
    definition, and the author of errors.
    """

    def __init__(self, source: Source, reading: Reading) -> None:
        self._source = source
        self._reading = reading
        self._map_path = _steps(reading.column)
        self._id_path = _steps(reading.ids)
        self.key_type: KeyType = reading.key_type

    def word(self, key: str) -> str | int:
        """Return the integer that the text stands for, if keys are integers."""
        return key if self.key_type == "string" else _integer(key)

    def key(self, word: str | int) -> str:
        """Return the text of a word."""
        return str(word)

    def place(self, number: int) -> str:
        """Return where map `number` stands, for messages."""
        return f"{self._source.name}:{number + 1}"

    def chunks(self) -> Iterator[Chunk]:
        """Yield the maps in order; a bad line is an InputError once those before it were given."""
        first = done = 0
        with progress("reading", _size(self._source), "B") as advance:
            while block := self._block():
                if first == 0:
                    block = block.removeprefix(b"\xef\xbb\xbf")  # a byte order mark
                    self._check_start(block)
                lines, bad = self._read(block.removesuffix(b"\n"), first)
                if lines.maps:
                    yield self._chunk(lines)
                if bad is not None:
                    raise bad
                first += len(lines.maps)
                position = _position(self._source.raw) or done + len(block)
                advance(position - done)
                done = position

    def _block(self) -> bytes:
        """Return the next whole lines; nothing at the end."""
        with readable(self._source.name):
            return self._source.stream.read(_CHUNK_BYTES) + self._source.stream.readline()

    def _check_start(self, block: bytes) -> None:
        if block.lstrip().startswith(b"["):
            path = self._source.path
            raise InputError(
                f"{self.place(0)}: this is a JSON array, but each line must be a JSON object: "
                f"jq -c '.[]' {'' if path is None else f'{path} '}| nbmapops - -o OUT"
            )

    def _chunk(self, lines: _Lines) -> Chunk:
        maps = lines.maps

        def one(number: int) -> list[Map]:
            return [{self.word(key): value for key, value in maps[number].items()}]

        return Chunk(
            lengths=np.fromiter(map(len, maps), np.int64, len(maps)),
            keys=chain.from_iterable(maps),
            values=_values(maps) if lines.values is None else lines.values,
            ids=lines.ids if self._id_path else None,
            may_repeat=False,
            one=one,
        )

    # ---------------------------------------------------------------------- a chunk of lines
    def _read(self, block: bytes, first: int) -> tuple[_Lines, InputError | None]:
        """Return the maps up to a bad line, and what is wrong with that one."""
        try:
            return self._read_at_once(block), None
        except (ValueError, TypeError, LookupError, RecursionError):
            lines = _Lines([], [])
        for line in block.split(b"\n"):
            try:
                mapping, name = self._read_line(line)
            except InputError as error:
                return lines, InputError(f"{self.place(first + len(lines.maps))}: {error}")
            lines.maps.append(mapping)
            lines.ids.append(name)
        return lines, None

    def _read_at_once(self, block: bytes) -> _Lines:
        """Return the maps of all lines; any exception means: read line by line."""
        objects = _decoded_at_once(block, json.loads)
        maps = self._maps(objects)
        values: list[Json] | npt.NDArray[np.float64] = _values(maps)
        kinds = set(map(type, values))
        floats = np.zeros(0)
        if kinds == {float}:
            floats = values = np.fromiter(values, np.float64, len(values))
        elif float in kinds:
            floats = np.array([value for value in values if type(value) is float])
        if self._has_repeats(block, objects, maps) or _is_out_of_range(block, floats):
            objects = _decoded_at_once(block, _strictly)  # an exception, or the same
            maps = self._maps(objects)
        ids = _followed(objects, self._id_path) if self._id_path else []
        if not {str, int}.issuperset(map(type, ids)):
            raise TypeError
        if kinds <= _NUMBERS:
            return _Lines(maps, ids, values)
        return _Lines(list(map(self._plain, maps)), ids)

    def _maps(self, objects: list[Json]) -> list[Mapping]:
        maps = _followed(objects, self._map_path)
        if self._reading.skip_nulls:
            maps = [{} if found is None else found for found in maps]
        if set(map(type, maps)) != {dict}:
            raise TypeError
        return maps

    def _has_repeats(self, block: bytes, objects: list[Json], maps: list[Mapping]) -> bool:
        """Whether an object may hold a key twice, of which `json` would keep the last.

        Each pair of an object has a colon and two quotation marks. If the text has no more of them
        than there are pairs, no pair is missing.
        """
        pairs = sum(map(len, maps))
        for step in range(len(self._map_path)):
            pairs += sum(map(len, _followed(objects, self._map_path[:step])))
        return block.count(b":") > pairs and block.count(b'"') > 2 * pairs

    # ------------------------------------------------------------------------------ one line
    def _read_line(self, line: bytes) -> tuple[Mapping, str | int]:
        try:
            found = _strictly(line.removesuffix(b"\r").decode())
            name = self._id(found) if self._id_path else 0
            return self._plain(self._map(found)), name
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
        raise InputError(reason)

    def _map(self, line: Json) -> Mapping:
        found, where = line, ""
        if self._map_path:
            found = _follow(line, self._map_path, "--column")
            where = f" at {self._reading.column!r}"
        if found is None and self._reading.skip_nulls:
            return {}
        if type(found) is not dict:
            remedy = "; pass --null skip to take it as empty" if found is None else ""
            must = "it" if where else "each line"
            raise ValueError(
                f"{short(found)}{where} is not a map; {must} must be a JSON object{remedy}"
            )
        return found

    def _id(self, line: Json) -> str | int:
        name = _follow(line, self._id_path, "--id")
        if type(name) is not str and type(name) is not int:
            raise ValueError(
                f"the id at {self._reading.ids!r} must be text or an integer, not {short(name)}"
            )
        return name

    def _plain(self, mapping: Mapping) -> Mapping:
        """Return a map of numbers, after the rules for nulls and text."""
        if _NUMBERS.issuperset(map(type, mapping.values())):
            return mapping
        numbers: Mapping = {}
        for key, value in mapping.items():
            kind = type(value)
            name, number = key, value
            if kind is str and self._reading.one_hot:
                name, number = f"{key}={value}", 1
            elif value is None and self._reading.skip_nulls:
                continue
            elif kind not in _NUMBERS:
                raise ValueError(
                    f"key {key!r}: {short(value)} is not a number{_remedy(key, value)}"
                )
            if name in numbers:
                raise ValueError(f"key {name!r} occurs twice in one map, once as key and text")
            numbers[name] = number
        return numbers


def _remedy(key: str, value: Json) -> str:
    if value is None:
        return "; pass --null skip to leave it out"
    if type(value) is str:
        return "; pass --one-hot to make a column of each key and text"
    return f"; pass --column {key} to convert the map in it" if type(value) is dict else ""


# ---------------------------------------------------------------------------------- decoding
def _decoded_at_once(block: bytes, decode: Callable[[str], Json]) -> list[Json]:
    """Return what the lines stand for, decoded as one array.

    Between two lines a number is put in that no file can know: a text that goes on in the next
    line has it in the wrong place.
    """
    mark = secrets.randbits(60)
    text = block.decode().replace("\n", f",{mark},")
    found = decode(f"[{text}]")
    objects, marks = found[::2], found[1::2]
    borders = block.count(b"\n")
    if not marks.count(mark) == len(marks) == len(objects) - 1 == borders:
        raise ValueError
    return objects  # type: ignore[no-any-return]


def _is_out_of_range(block: bytes, floats: npt.NDArray[np.float64]) -> bool:
    """Whether a number may be too large or too small for float64, which `json` would not tell."""
    if np.isinf(floats).any():
        return True
    # what rounds to 0 has an exponent or very many zeros
    tiny = b"e-" in block or b"E-" in block or b"0" * 300 in block
    return tiny and not floats.all()


def _values(maps: list[Mapping]) -> list[Json]:
    return list(chain.from_iterable(map(dict.values, maps)))


def _pairs(pairs: list[tuple[str, Json]]) -> Mapping:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"key {key!r} occurs twice in one map")
    return mapping


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number) or (number == 0 and re.search("[1-9]", text.lower().split("e")[0])):
        raise ValueError(f"{text} is out of the range of float64")
    return number


_strictly = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=_float).decode


def _integer(key: str) -> int:
    """Return the integer; each has one spelling, so different keys stay different."""
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,99}", key):
        raise ValueError(f"key {show(key)} is not a decimal integer such as 17 or -3")
    return int(key)


# ------------------------------------------------------------------------------------- paths
def _steps(path: str | None) -> list[str]:
    return [] if path is None else path.split(".")


def _followed(objects: list[Json], path: list[str]) -> list[Json]:
    for step in path:
        objects = [found[step] for found in objects]
    return objects


def _follow(found: Json, path: list[str], option: str) -> Json:
    for depth, step in enumerate(path):
        if type(found) is not dict or step not in found:
            raise ValueError(
                f"there is nothing at {'.'.join(path[: depth + 1])!r}; {option} {'.'.join(path)} "
                "must lead from object to object"
            )
        found = found[step]
    return found


def _size(source: Source) -> int | None:
    if source.path is None or not source.path.is_file():
        return None
    return source.path.stat().st_size


def _position(raw: IO[bytes]) -> int | None:
    """Return how much of the file was read, if it can tell: a pipe cannot."""
    try:
        return raw.tell()
    except (OSError, ValueError):
        return None
