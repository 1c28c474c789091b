"""Python maps into arrays: which scalars are keys and values, and the reading of many maps.

The scalar rules stand here once. `MapReader` reads an iterable of mappings into cache-sized chunks
of arrays, through the compiled walk of `_dictwalk` where that is possible and through the plain
rules where it is not; both give the same arrays and the same errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nbmapops import _cast
from nbmapops.errors import show

Array: TypeAlias = np.ndarray[Any, Any]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
DTYPES: dict[str, np.dtype[Any]] = {
    "int64": np.dtype(np.int64),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "string": np.dtype(object),
}
# The names users know: ONNX's, then NumPy's.
TYPE_NAMES = {
    "float": "float32",
    "double": "float64",
    "int64": "int64",
    "string": "string",
    "float32": "float32",
    "float64": "float64",
}
# A chunk of 32,768 entries (512 KiB of keys and values) stays in the second-level cache between
# the walk that writes it and the kernel that reads it.
CHUNK_ENTRIES = 1 << 15
CHUNK_MAPS = 1 << 13
_GENERATOR_MAPS = 1 << 10


def type_name(kind: object, what: str) -> str:
    """Return the internal name of a type given by its ONNX name or as a NumPy dtype."""
    if isinstance(kind, str):
        if kind in TYPE_NAMES:
            return TYPE_NAMES[kind]
    elif kind is not None:
        try:
            dtype = np.dtype(kind)  # type: ignore[call-overload]
        except TypeError:
            dtype = np.dtype(np.void)
        for name, known in DTYPES.items():
            if dtype == known:
                return name
        if dtype.kind in "UT":
            return "string"
    raise TypeError(
        f'{what} is {show(kind)}; it must be one of "float", "double", "int64", "string" '
        "or a NumPy dtype of these"
    )


# ------------------------------------------------------------------------------- scalar rules
_KINDS_OF_TYPES: dict[type, str] = {
    bool: "int64",
    np.bool_: "int64",
    int: "int64",
    float: "float64",
    np.float64: "float64",
    np.float32: "float32",
    np.float16: "float32",
    str: "string",
    np.str_: "string",
}


def _kind_of(scalar: object) -> str | None:
    """Return the kind of a key or value, or None where it has none."""
    kind = _KINDS_OF_TYPES.get(type(scalar))
    if kind is not None:
        return kind
    if isinstance(scalar, str):
        return "string"
    if isinstance(scalar, int):
        return "int64"
    # NumPy counts a time span as a signed integer; its unit would be lost.
    if isinstance(scalar, np.integer) and not isinstance(scalar, np.timedelta64):
        return "int64"
    if isinstance(scalar, float):
        return "float64"
    return None


def promote(kinds: set[str]) -> str:
    """Return the one kind that holds values of all these kinds of number, or text."""
    return next(iter(kinds)) if len(kinds) == 1 else "float64"


def _exact(scalar: Any, kind: str) -> Any:
    """Return the scalar as Python's own int, float or str, whatever its class overrides."""
    if kind == "int64":
        return int.__index__(scalar) if isinstance(scalar, int) else int(scalar)
    if kind == "string":
        return str.__str__(scalar)
    return float.__float__(scalar) if isinstance(scalar, float) else float(scalar)


def key_type_error(where: str, key: object, expected: str | None) -> TypeError:
    """Return the error for a key of the wrong type; `expected` is the kind the others have."""
    name = type(key).__name__
    if expected is None:
        return TypeError(f"{where}: key {show(key)} is {name}; a key is an integer or a str")
    need = "an integer" if expected == "int64" else "a str"
    return TypeError(f"{where}: key {show(key)} is {name}; here a key must be {need}")


def value_type_error(where: str, key: object, value: object, expected: str | None) -> TypeError:
    """Return the error for a value of the wrong type; `expected` is the kind the others have."""
    what = f"{where}: key {show(key)}: value {show(value)} is {type(value).__name__}"
    if expected is None:
        return TypeError(f"{what}; a value is a number (int64, float32, float64) or a str")
    others = "text" if expected == "string" else "numbers"
    return TypeError(f"{what}, but the values before it are {others}; one batch holds one of both")


def kinds_of_map(
    where: str,
    keys: Sequence[Any],
    values: Sequence[Any],
    key_kind: str | None,
    value_kind: str | None,
) -> tuple[str | None, str | None]:
    """Return the key kind and the value kind once this map has been read: the type step.

    The kinds given are those of the maps before (None: not fixed yet).
    """
    quick = _quick_kinds(keys, values, key_kind, value_kind)
    if quick is not None:
        return quick
    kinds = set()
    for key, value in zip(keys, values, strict=True):
        kind = _kind_of(key)
        if kind not in ("int64", "string") or (key_kind is not None and kind != key_kind):
            raise key_type_error(where, key, key_kind)
        key_kind = kind
        kind = _kind_of(value)
        if kind is None:
            raise value_type_error(where, key, value, None)
        if value_kind is not None and (kind == "string") != (value_kind == "string"):
            raise value_type_error(where, key, value, value_kind)
        kinds.add(kind)
        if value_kind is None:
            value_kind = kind
    if kinds:
        value_kind = promote(kinds | {value_kind or "float64"})
    return key_kind, value_kind


def _quick_kinds(
    keys: Sequence[Any], values: Sequence[Any], key_kind: str | None, value_kind: str | None
) -> tuple[str | None, str | None] | None:
    """Return what `kinds_of_map` does where the sets of types tell; a tenth of its time."""
    key_kinds = set(map(_KINDS_OF_TYPES.get, set(map(type, keys))))
    value_kinds = set(map(_KINDS_OF_TYPES.get, set(map(type, values))))
    if not key_kinds and not value_kinds:
        return key_kind, value_kind
    if len(key_kinds) != 1 or None in value_kinds or len(keys) != len(values):
        return None
    kind = key_kinds.pop()
    if kind not in ("int64", "string") or key_kind not in (None, kind):
        return None
    if value_kind is not None:
        value_kinds.add(value_kind)
    if "string" in value_kinds and len(value_kinds) > 1:
        return None
    return kind, promote(value_kinds)  # type: ignore[arg-type]


def exact_map(
    where: str, keys: Sequence[Any], values: Sequence[Any], value_kind: str | None
) -> tuple[list[Any], list[Any]]:
    """Return keys and values as exact Python scalars of the batch's kinds: the range step."""
    if set(map(type, values)) <= {float, str} and (
        (key_types := set(map(type, keys))) <= {str}
        or (key_types <= {int} and INT64_MIN <= min(keys) and max(keys) <= INT64_MAX)
    ):
        return list(keys), list(values)
    exact_keys, exact_values = [], []
    for raw_key, raw_value in zip(keys, values, strict=True):
        key = _exact(raw_key, _kind_of(raw_key) or "string")
        if isinstance(key, int) and not INT64_MIN <= key <= INT64_MAX:
            raise OverflowError(f"{where}: key {show(key)} does not fit in int64")
        value = _exact(raw_value, _kind_of(raw_value) or "string")
        if isinstance(value, int):
            if not INT64_MIN <= value <= INT64_MAX:
                raise OverflowError(
                    f"{where}: key {show(key)}: value {show(value)} does not fit in int64"
                )
            if value_kind == "float64":
                if int(float(value)) != value:
                    raise inexact_error(where, key, value)
                value = float(value)
        exact_keys.append(key)
        exact_values.append(value)
    return exact_keys, exact_values


def inexact_error(where: str, key: object, value: object) -> OverflowError:
    """Return the error for an int that the batch's float64 values cannot hold."""
    return OverflowError(
        f"{where}: key {show(key)}: value {show(value)} has no exact float64, and other values of "
        "the batch are floats; make all values ints or all floats"
    )


def items_of(where: str, mapping: object) -> tuple[list[Any], list[Any]]:
    """Return the keys and values of one mapping, read once."""
    if not isinstance(mapping, Mapping):
        raise TypeError(
            f"{where} is {show(mapping)} of type {type(mapping).__name__}; "
            "every element of a batch must be a mapping"
        )
    items = list(mapping.items())
    for item in items:
        if type(item) is not tuple or len(item) != 2:
            raise TypeError(f"{where}: items() gave {show(item)}, which is no (key, value) pair")
    return [key for key, _ in items], [value for _, value in items]


# ------------------------------------------------------------------------------- many maps
class BadMap(Exception):  # noqa: N818  (a signal between our own functions, never shown)
    """A map cannot be read: its number, and the error to raise once the maps before it are fine."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(number, error)
        self.number = number
        self.error = error


class Chunk(NamedTuple):
    """Some maps of a batch as arrays; valid until the next chunk is read."""

    first: int  # number of the first map within the batch
    maps: Sequence[Any]  # the block of source maps ...
    start: int  # ... and where this chunk begins in it
    keys: Array  # int64 keys, or codes of words (-1: not among the words)
    values: Array
    offsets: Array

    def source(self, number: int) -> Any:
        """Return map `number` of the batch as it was given."""
        return self.maps[self.start + number - self.first]


class MapReader:
    """Reads mappings into chunks: int64 keys or codes of words, values, offsets.

    Parameters
    ----------
    maps : iterable of mappings
    operator : str
        Name at the front of messages.
    key_kind : {"int64", "string"}, optional
        The kind that keys must have; by default the first key decides.
    """

    def __init__(
        self,
        maps: Iterable[Any],
        operator: str,
        key_kind: str | None = None,
    ) -> None:
        self.maps = maps
        self.operator = operator
        self.key_kind = key_kind
        self.value_kind: str | None = None
        self.words: dict[str, int] = {}
        self.learn = True
        # The first int that float64 cannot hold, while all values are ints: (map, key, value).
        self._inexact: tuple[int, Any, int] | None = None
        self._buffers: tuple[Array, Array, Array] | None = None

    def look_up(self, words: dict[str, int]) -> None:
        """Give text keys these codes, and -1 to others, instead of learning new words."""
        self.words, self.learn = words, False

    def where(self, number: int) -> str:
        """Return the front of a message about one map."""
        return f"{self.operator}: map {number}"

    def chunks(self) -> Iterator[Chunk]:
        """Yield the maps in order; a chunk is valid until the next one is asked for.

        Raises `BadMap` for a map that cannot be read.
        """
        walk = _walk()
        number = 0
        for block in self._blocks():
            done, run = 0, 1
            while done < len(block):
                chunk = walk and self._walked(walk, block, done, number)
                if chunk:
                    run = 1
                else:
                    # Maps that the walk does not take come in runs: give each next run of them
                    # more room, so that a batch of nothing else is read in large chunks.
                    run = min(2 * run, CHUNK_MAPS)
                    chunk = self._plain(block, done, number, run if walk else CHUNK_MAPS)
                read = len(chunk.offsets) - 1
                self._note_inexact(chunk)
                done += read
                number += read
                yield chunk

    def settle(self, chunks: Iterator[Chunk], number: int) -> None:
        """Raise the error of a map up to `number` that only later maps bring to light.

        Ints beyond 2**53 are bad when a float follows anywhere in the batch; whoever is about to
        raise for map `number` calls this first, so that the first bad map wins in every form.
        """
        noted = self._inexact
        if noted is None or noted[0] > number:
            return
        try:
            for _ in chunks:
                pass
        except BadMap as bad:
            if bad.number <= number:
                raise bad.error from None

    def _blocks(self) -> Iterator[Sequence[Any]]:
        if type(self.maps) in (list, tuple):
            yield self.maps  # type: ignore[misc]
            return
        iterator = iter(self.maps)
        while block := list(islice(iterator, _GENERATOR_MAPS)):
            yield block

    def _walked(self, walk: Any, block: Sequence[Any], done: int, number: int) -> Chunk | None:
        """Read as many maps as fit into the buffers, or none: the next is not for the walk."""
        if self.value_kind == "string":
            return None
        key_kind, value_kind = self.key_kind, self.value_kind
        if key_kind is None or value_kind is None:
            # The first entry is a guess: where a later one differs, the walk stops.
            for mapping in islice(block, done, done + CHUNK_MAPS):
                if type(mapping) is not dict:
                    return None
                if mapping:
                    key, value = next(iter(mapping.items()))
                    key_kind = key_kind or _kind_of(key)
                    value_kind = value_kind or _kind_of(value)
                    break
            else:
                key_kind, value_kind = key_kind or "int64", value_kind or "float64"
            if key_kind not in ("int64", "string") or value_kind in (None, "string"):
                return None
        keys, values, offsets = self._room(value_kind or "float64", block, done)
        read, reason = walk.walk(
            block, done, key_kind, self.words, self.learn, keys, values, offsets
        )
        del reason
        if read == 0:
            return None
        entries = int(offsets[read])
        if entries:
            self.key_kind, self.value_kind = key_kind, value_kind
        return Chunk(
            number,
            block,
            done,
            readonly(keys[:entries]),
            readonly(values[:entries]),
            readonly(offsets[: read + 1]),
        )

    def _room(
        self, value_kind: str, block: Sequence[Any], done: int
    ) -> tuple[Array, Array, Array]:
        """Return the buffers, large enough for the next map and of this kind of value."""
        mapping = block[done]
        need = len(mapping) if type(mapping) is dict else 0
        if len(block) > 1:
            need = max(need, CHUNK_ENTRIES)
        if self._buffers is None or len(self._buffers[0]) < need:
            self._buffers = (
                np.empty(need, np.int64),
                np.empty(need, np.int64),
                np.zeros(min(len(block), CHUNK_MAPS) + 1, np.int64),
            )
        keys, bits, offsets = self._buffers
        return keys, bits.view(DTYPES[value_kind]), offsets

    def _plain(self, block: Sequence[Any], done: int, number: int, most: int) -> Chunk:
        """Read maps by the scalar rules until the kind of value changes or the chunk is full."""
        keys: list[Any] = []
        values: list[Any] = []
        offsets = [0]
        for mapping in islice(block, done, done + most):
            where = self.where(number + len(offsets) - 1)
            try:
                map_keys, map_values = items_of(where, mapping)
                key_kind, value_kind = kinds_of_map(
                    where, map_keys, map_values, self.key_kind, self.value_kind
                )
                if value_kind != self.value_kind and keys:
                    break
                self._settle_kinds(key_kind, value_kind)
                map_keys, map_values = exact_map(where, map_keys, map_values, value_kind)
            except (TypeError, OverflowError) as error:
                # The maps before it go first: one of them may be bad for the operator.
                if len(offsets) > 1:
                    break
                raise BadMap(number, error) from None
            keys += map_keys
            values += map_values
            offsets.append(len(keys))
            if len(keys) >= CHUNK_ENTRIES:
                break
        kind = self.value_kind or "float64"
        return Chunk(
            number,
            block,
            done,
            readonly(self._codes(keys) if self.key_kind == "string" else int_array(keys)),
            readonly(value_array(values, kind)),
            readonly(int_array(offsets)),
        )

    def _settle_kinds(self, key_kind: str | None, value_kind: str | None) -> None:
        if self.value_kind == "int64" and value_kind == "float64" and self._inexact is not None:
            self.value_kind = value_kind
            number, key, value = self._inexact
            raise BadMap(number, inexact_error(self.where(number), key, value))
        self.key_kind, self.value_kind = key_kind, value_kind

    def _note_inexact(self, chunk: Chunk) -> None:
        if self.value_kind != "int64" or self._inexact is not None:
            return
        _, bad = _cast.cast_array(chunk.values, "int64", "float64", "exact")
        if len(bad):
            entry = int(bad[0])
            number = chunk.first + int(np.searchsorted(chunk.offsets, entry, "right")) - 1
            position = entry - int(chunk.offsets[number - chunk.first])
            key = items_of(self.where(number), chunk.source(number))[0][position]
            self._inexact = (number, _exact(key, self.key_kind or "int64"), int(chunk.values[entry]))

    def _codes(self, keys: list[str]) -> Array:
        words = self.words
        if self.learn:
            return int_array([words.setdefault(key, len(words)) for key in keys])
        return int_array([words.get(key, -1) for key in keys])


def _walk() -> Any:
    """Return the module of the compiled walk, or None where it cannot be used."""
    from nbmapops import _dictwalk  # imports numba, so only when many maps are read

    return _dictwalk if _dictwalk.available() else None


def kernels_loaded() -> bool:
    """Tell whether somebody has paid for the import of the compiled kernels already."""
    return "nbmapops.kernels" in sys.modules


# ------------------------------------------------------------------------------- arrays
def readonly(array: Array) -> Array:
    """Return a read-only view.

    Numba compiles a kernel anew for writable and for read-only arrays; inputs are always the
    latter, so every kernel has one specialisation for each dtype.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def int_array(values: Sequence[int]) -> Array:
    """Return ints as an int64 array."""
    return np.array(values, np.int64)


def value_array(values: Sequence[Any], kind: str) -> Array:
    """Return exact Python scalars of one kind as an array."""
    return np.array(values, DTYPES[kind])
