"""Python maps into arrays: an iterable of mappings, read in cache-sized chunks.

The compiled walk of `dictwalk` reads where that is possible, and the plain rules of `scalars`
read where it is not; both give the same arrays and the same errors.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from nbmapops import _values
from nbmapops._reading.arrays import Entries, Keys, TextKeys, int_array, readonly, value_array
from nbmapops._reading.scalars import (
    DTYPES,
    Array,
    BadMap,
    exact_map,
    exact_scalar,
    inexact_error,
    items_of,
    kind_of,
    kinds_of_map,
)

# Keys and values of a chunk, 1 MiB, stay in cache between the walk and the kernel. A chunk costs
# 60 us beside its entries: with half as many the lists of dicts took 2 ns an entry more.
CHUNK_ENTRIES = 1 << 16
CHUNK_MAPS = 1 << 14
_GENERATOR_MAPS = 1 << 10
_DICTS = (dict, Counter, defaultdict)  # that the walk reads


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
        # Reads maps of int -> float64 itself, where it can: given the walk, a block, the number of
        # a map there and the most maps to read, it returns how many maps and entries it has read.
        self.take: Callable[[Any, Sequence[Any], int, int], tuple[int, int]] | None = None

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
        walk = compiled_walk()
        number = 0
        for block in self._blocks():
            done, run = 0, 1
            while done < len(block):
                if walk and self.take and self._kinds_at(block, done) == ("int64", "float64"):
                    # No further than `_kinds_at` has looked for an entry.
                    taken, entries = self.take(walk, block, done, CHUNK_MAPS)
                    if entries:
                        self.key_kind, self.value_kind = "int64", "float64"
                    done += taken
                    number += taken
                    if taken:
                        run = 1
                        continue
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

    def read_all(self) -> tuple[Entries, BadMap | None]:
        """Read all maps; where one cannot be read, the entries are those of the maps before it."""
        keys, values, lengths = [int_array([])], [], [int_array([0])]
        bad: BadMap | None = None
        try:
            for chunk in self.chunks():
                lengths.append(np.diff(chunk.offsets))
                if len(chunk.values):  # no entry fixes no kind of value
                    keys.append(chunk.keys.copy())
                    values.append(chunk.values.copy())
        except BadMap as error:
            bad = error
        dtype = DTYPES[self.value_kind or "float64"]
        all_values = np.concatenate([np.empty(0, dtype), *values], dtype=dtype)
        all_keys: Keys = np.concatenate(keys)
        if self.key_kind == "string":
            all_keys = TextKeys(readonly(np.concatenate(keys)), tuple(self.words))
        offsets = np.cumsum(np.concatenate(lengths), dtype=np.int64)
        entries = Entries(all_keys, all_values, offsets)
        return (entries if bad is None else entries.before(bad.number)), bad

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

    def _kinds_at(self, block: Sequence[Any], done: int) -> tuple[str | None, str | None]:
        """Return the kinds of key and value that the next maps have, by their first entry.

        The first entry is a guess: where a later one differs, the walk stops.
        """
        key_kind, value_kind = self.key_kind, self.value_kind
        if key_kind is not None and value_kind is not None:
            return key_kind, value_kind
        for mapping in block[done : done + CHUNK_MAPS]:
            if type(mapping) not in _DICTS:
                return None, None
            if mapping:
                key, value = next(iter(mapping.items()))
                return key_kind or kind_of(key), value_kind or kind_of(value)
        return key_kind or "int64", value_kind or "float64"

    def _walked(self, walk: Any, block: Sequence[Any], done: int, number: int) -> Chunk | None:
        """Read as many maps as fit into the buffers, or none: the next is not for the walk."""
        key_kind, value_kind = self._kinds_at(block, done)
        if key_kind not in ("int64", "string") or value_kind in (None, "string"):
            return None
        keys, values, offsets = self._room(str(value_kind), block, done)
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

    def _room(self, value_kind: str, block: Sequence[Any], done: int) -> tuple[Array, Array, Array]:
        """Return the buffers, large enough for the next map and of this kind of value."""
        mapping = block[done]
        need = len(mapping) if type(mapping) in _DICTS else 0
        if len(block) > 1:
            need = max(need, min(CHUNK_ENTRIES, 64 * len(block)))
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
        for mapping in block[done : done + most]:
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
        _, bad = _values.cast_array(chunk.values, "int64", "float64", "exact")
        if len(bad):
            entry = int(bad[0])
            number = chunk.first + int(np.searchsorted(chunk.offsets, entry, "right")) - 1
            position = entry - int(chunk.offsets[number - chunk.first])
            key = items_of(self.where(number), chunk.source(number))[0][position]
            self._inexact = (
                number,
                exact_scalar(key, self.key_kind or "int64"),
                int(chunk.values[entry]),
            )

    def _codes(self, keys: list[str]) -> Array:
        words = self.words
        if self.learn:
            return int_array([words.setdefault(key, len(words)) for key in keys])
        return int_array([words.get(key, -1) for key in keys])


LOADED: list[Any] = []
"""Holds the module of the compiled walk once it has been used."""


def compiled_walk() -> Any:
    """Return the module of the compiled walk, or None where it cannot be used."""
    try:
        from nbmapops._reading import dictwalk  # imports numba, so only when many maps are read
    except ImportError:  # the kernels refuse to run in a subinterpreter
        return None
    if not dictwalk.available():
        return None
    if not LOADED:
        LOADED.append(dictwalk)
    return dictwalk


def kernels_loaded() -> bool:
    """Tell whether somebody has paid for the import of the compiled kernels already."""
    return "nbmapops.kernels" in sys.modules


def refuse_frames(maps: Any, operator: str) -> None:
    """Raise for a data frame, which iterates over its column names."""
    name = type(maps).__name__
    if name == "LazyFrame" and hasattr(maps, "collect"):  # whose columns are not to be asked for
        raise TypeError(
            f"{operator}: a LazyFrame is not a batch of maps; pass a column of its .collect()"
        )
    if name == "DataFrame" and hasattr(maps, "columns"):
        raise TypeError(
            f"{operator}: a {name} is no batch of maps; pass a column of maps, or "
            'df.to_dict("records") (pandas), df.to_dicts() (polars)'
        )


def maps_of(maps: Any, operator: str) -> Iterable[Any]:
    """Return an iterable of mappings, after the checks that need no look at an element."""
    refuse_frames(maps, operator)
    if isinstance(maps, np.ndarray) and (maps.dtype != object or maps.ndim != 1):
        raise TypeError(
            f"{operator}: an array of {maps.dtype} with {maps.ndim} dimensions holds no maps; "
            "pass keys, values and offsets"
        )
    if isinstance(maps, Mapping):
        raise TypeError(
            f"{operator}: one {type(maps).__name__} is no batch of maps; pass a list of it"
        )
    if isinstance(maps, (str, bytes, bytearray)) or not isinstance(maps, Iterable):
        raise TypeError(
            f"{operator}: {type(maps).__name__} is no map and no batch of maps; pass a mapping, "
            "an iterable of mappings, a MapBatch, an Arrow map column, or keys and values"
        )
    return maps
