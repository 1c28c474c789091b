"""Reading, mappings: an iterable of mappings becomes blocks of entries.

The compiled walk of `dictwalk` reads where that is possible and pays, and the plain rules of
`scalars` read where it is not; both give the same entries and the same errors.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from gc import get_referents
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbmapops import _values
from nbmapops._engine import choose
from nbmapops._foreign import is_interruption
from nbmapops._limits import limits
from nbmapops._load import imported
from nbmapops._reading.arrays import value_array
from nbmapops._reading.entries import (
    Entries,
    Int64Keys,
    KeyColumn,
    TextKeys,
    int_array,
    readonly,
    text_keys,
)
from nbmapops._reading.scalars import (
    DTYPES,
    BadMap,
    changed_error,
    exact_map,
    inexact_error,
    is_arrow_map,
    is_change,
    items_of,
    kind_of,
    kinds_of_map,
)

if TYPE_CHECKING:
    from types import ModuleType

    from nbmapops._constants import Array
    from nbmapops._engine.choose import Part
    from nbmapops._types import Map, Value

DICTS = (dict, Counter, defaultdict)
"""The types of dict that the walk reads."""


# Entries that are copied in the time in which the plain engine reads one.
_COPIED = 40


class Block(NamedTuple):
    """Some maps of a batch; valid until the next block is read."""

    first: int  # number of the first map within the batch
    maps: Sequence[object]  # the source maps ...
    start: int  # ... and where this block begins among them
    entries: Entries

    def map(self, number: int, where: str) -> tuple[Sequence[object], Sequence[object]]:
        """Return the keys and values of map `number` of this block, in the order of the map.

        Of words that are not known only their dict knows the letters: it is read again. So is an
        OrderedDict, whose entries may have been read in another order.
        """
        keys, offsets = self.entries.keys, self.entries.offsets
        own = slice(int(offsets[number]), int(offsets[number + 1]))
        source = self.maps[self.start + number] if self.maps else None
        known = not isinstance(keys, TextKeys) or bool((keys.codes[own] >= 0).all())
        if known and type(source) is not OrderedDict:
            return self.entries.map(number)
        again, values = items_of(where, source)
        if len(again) != own.stop - own.start:
            raise changed_error(where)
        return again, values


class MapReader:
    """Reads mappings: a cursor that stands before the next map.

    Parameters
    ----------
    maps : iterable of mappings
    operator : str
        Name at the front of messages.
    key_kind : {"int64", "string"}, optional
        The kind that keys must have; by default the first key decides.
    parts : sequence of Part
        The kernels that will take what is read, for the choice of the engine.
    skip_large : bool
        Whether entries whose key is an integer beyond int64 are left out.
    """

    def __init__(
        self,
        maps: Iterable[object],
        operator: str,
        key_kind: str | None = None,
        parts: Sequence[Part] = (),
        *,
        skip_large: bool = False,
    ) -> None:
        # A list is copied, because another thread may shorten it.
        self.listed: list[Any] | None = list(maps) if type(maps) in (list, tuple) else None
        self.operator = operator
        self.key_kind = key_kind
        self.value_kind: str | None = None
        self.words: dict[str, int] = {}
        self.known_words: Sequence[str] | None = None
        self.compiled = False  # whether the maps at hand are work for the compiled engine
        self.maps: list[Any] = []  # at hand ...
        self.done = 0  # ... of which so many are read
        self.number = 0  # of maps that are read, of the whole batch
        self._iterator = iter(maps) if self.listed is None else None
        self._parts = tuple(parts)
        self._dicts: tuple[type, ...] = DICTS
        self._any_order = False
        self._skip_large = skip_large
        # Maps that the walk does not take come in runs: each next run of them gets more room, so
        # that a batch of nothing else is read in large blocks.
        self._run = 1
        # What was read of the next map already, or its error: another mapping may not say it twice.
        self._begun: tuple[int, Sequence[object], Sequence[object]] | BadMap | None = None
        # The first int that float64 cannot hold, while all values are ints: (map, key, value).
        self._inexact: tuple[int, object, int] | None = None
        self._buffers: tuple[Array, Array, Array] | None = None
        # Whether the next maps of an iterator are taken by the walk as they come, and what was.
        self._takes = False
        self._taken: Block | None = None

    def look_up(self, words: dict[str, int], listed: Sequence[str]) -> None:
        """Give text keys these columns, and -1 to others, instead of learning new words."""
        self.words, self.known_words = words, listed

    def take_any_order(self) -> None:
        """Read the entries of a map in any order: an OrderedDict is not copied then."""
        self._any_order, self._dicts = True, (*DICTS, OrderedDict)

    def where(self, number: int) -> str:
        """Return the front of a message about one map."""
        return f"{self.operator}: map {number}"

    # ------------------------------------------------------------------------- the cursor
    def more(self) -> bool:
        """Tell whether there is another map, and have it at hand."""
        if self._taken is not None or self.done < len(self.maps):
            return True
        if self._iterator is not None:
            if self._takes and self._take(self._iterator):
                return True
            self.maps, self.done = held(self._iterator), 0
        elif self.number == 0 and self.listed:
            self.maps = self.listed
        else:
            return False
        if not self.maps:
            return False
        sizes = expected_entries(self.maps)
        kind: Part = "text dicts" if self.kinds()[0] == "string" else "int64 dicts"
        self.compiled = choose.compiled(sizes, len(self.maps), kind, *self._parts)
        return True

    def read(self) -> Block:
        """Read some of the maps at hand; raise `BadMap` where the next one cannot be read."""
        block, self._taken = self._taken, None
        if block is None:
            block = self._read_at_hand()
            self.done += len(block.entries.offsets) - 1
        self._note_inexact(block)
        self.number += len(block.entries.offsets) - 1
        return block

    def _read_at_hand(self) -> Block:
        block = self._walked() if self.compiled else None
        if self.compiled and block is None and self._copied():
            block = self._walked()
        if block is None:
            self._run = min(2 * self._run, limits.chunk_maps)
            block = self._plain(self._run if self.compiled else limits.chunk_maps)
        else:
            self._run = 1
        return block

    def _copied(self) -> bool:
        """Make dicts of a run of other mappings, which the walk reads; whether there was one.

        An entry costs 15 to 40 ns this way, in plain Python 300 (asv: dicts.OtherMappings).
        """
        maps, stop = self.maps, min(self.done + limits.iterator_maps, len(self.maps))
        assert isinstance(maps, list)
        for at in range(self.done, stop):
            mapping = maps[at]
            copied = None if type(mapping) in self._dicts else _copied_dict(mapping)
            if copied is not None:
                maps[at] = copied
                continue
            if type(mapping) in self._dicts or not isinstance(mapping, Mapping):
                stop = at
                break
            try:
                maps[at] = _snapshot(mapping)
            except (TypeError, OverflowError) as error:  # of its items(): an error of this map
                if is_interruption(error):
                    raise
                self._begun = BadMap(self.number + at - self.done, error)
                stop = at
                break
        return stop > self.done

    def read_all(self) -> tuple[Entries, BadMap | None]:
        """Read all maps; where one cannot be read, the entries are those of the maps before it."""
        keys: list[Array] = []
        values: list[Array] = []
        lengths = [int_array([0])]
        bad: BadMap | None = None
        try:
            while self.more():
                entries = self.read().entries
                lengths.append(np.diff(entries.offsets))
                if len(entries.values):  # a block without an entry fixes no kind of value
                    keys.append(_numbers_of(entries.keys).copy())
                    values.append(entries.values.copy())
        except BadMap as error:
            bad = error
        dtype = DTYPES[self.value_kind or "float64"]
        all_values = np.concatenate([np.empty(0, dtype), *values], dtype=dtype)
        all_keys = np.concatenate([np.empty(0, np.int64), *keys])
        offsets = np.cumsum(np.concatenate(lengths), dtype=np.int64)
        entries = Entries(self.column(all_keys), readonly(all_values), readonly(offsets))
        return (entries if bad is None else entries.before(bad.number)), bad

    def column(self, numbers: Array) -> KeyColumn:
        """Return keys, or codes of words, as a column."""
        if self.key_kind != "string":
            return Int64Keys(numbers)
        words = tuple(self.words) if self.known_words is None else self.known_words
        return TextKeys(numbers, words)

    # ------------------------------------------------------------------------- errors of later maps
    def settle(self, number: int) -> None:
        """Raise the error of a map up to `number` that only later maps bring to light.

        Ints beyond 2**53 are bad when a float follows anywhere in the batch; whoever is about to
        raise for map `number` calls this first, so that the first bad map wins in every form.
        """
        if self._inexact is None or self._inexact[0] > number:
            return
        try:
            while self.more():
                self.read()
        except BadMap as bad:
            if bad.number <= number:
                raise bad.error from None

    def _settle_kinds(self, key_kind: str | None, value_kind: str | None) -> None:
        if self.value_kind == "int64" and value_kind == "float64" and self._inexact is not None:
            self.value_kind = value_kind
            number, key, value = self._inexact
            raise BadMap(number, inexact_error(self.where(number), key, value))
        self.key_kind, self.value_kind = key_kind, value_kind

    def _note_inexact(self, block: Block) -> None:
        if self.value_kind != "int64" or self._inexact is not None:
            return
        _, bad = _values.cast_array(block.entries.values, "int64", "float64", "exact")
        if len(bad):
            number = block.entries.map_of(int(bad[0]))
            where = self.where(block.first + number)
            for key, value in zip(*block.map(number, where), strict=True):
                if int(float(value)) != value:  # type: ignore[arg-type]  # these are ints
                    self._inexact = block.first + number, key, int(value)  # type: ignore[call-overload]
                    return
            raise changed_error(where)

    # ------------------------------------------------------------------------- two ways to read
    def kinds(self) -> tuple[str | None, str | None]:
        """Return the kinds of key and value that the next maps have, by their first entry.

        The first entry is a guess: where a later one differs, the walk stops.
        """
        key_kind, value_kind = self.key_kind, self.value_kind
        if key_kind is not None and value_kind is not None:
            return key_kind, value_kind
        for mapping in islice(self.maps, self.done, self.done + limits.chunk_maps):
            if type(mapping) not in self._dicts:
                return None, None
            first = first_entry(mapping)
            if first is not None:
                return key_kind or kind_of(first[0]), value_kind or kind_of(first[1])
        return key_kind or "int64", value_kind or "float64"

    def _walked(self) -> Block | None:
        """Read as many maps as fit into the buffers, or none: the next is not for the walk."""
        walk = compiled_walk()
        key_kind, value_kind = self.kinds()
        if walk is None or key_kind is None or value_kind in (None, "string"):
            return None
        mapping, maps = self.maps[self.done], len(self.maps)
        need = len(mapping) if type(mapping) in self._dicts else 0
        if maps > 1:
            need = max(need, min(limits.chunk_entries, 64 * maps))
        keys, values, offsets = self._room(str(value_kind), need, min(maps, limits.chunk_maps))
        learn = self.known_words is None
        read, _ = walk.walk(
            self.maps,
            self.done,
            key_kind,
            self.words,
            learn,
            keys,
            values,
            offsets,
            self._any_order,
        )
        if read == 0:
            return None
        if offsets[read]:
            self.key_kind, self.value_kind = key_kind, value_kind
            self._takes = (
                self._iterator is not None
                and key_kind == "int64"
                and choose.compiled(int(offsets[read]) // _COPIED, 0, "taken dicts")
            )
        entries = self._entries(keys, values, offsets, read)
        return Block(self.number, self.maps, self.done, entries)

    def _take(self, iterator: Iterator[object]) -> bool:
        """Read the next maps of an iterator as they come; whether there was one.

        Dicts that somebody else holds are not copied then, which costs half of the time
        (asv: dicts.FromGenerator).
        """
        walk = compiled_walk()
        room = limits.chunk_entries, limits.chunk_maps
        keys, values, offsets = self._room(str(self.value_kind), *room)
        read, reason, self.maps = walk.take(iterator, keys, values, offsets, self._any_order)
        self.done = 0
        if read:
            entries = self._entries(keys, values, offsets, read)
            self._taken = Block(self.number, (), 0, entries)
        if reason == walk.DONE:
            self._iterator = iter(())
        # Maps that are not taken come in runs.
        self._takes = reason == walk.FULL or (reason == walk.STOP and read > 64)
        return read > 0 or len(self.maps) > 0

    def _entries(self, keys: Array, values: Array, offsets: Array, maps: int) -> Entries:
        """Return what the walk has written to the buffers."""
        end = int(offsets[maps])
        return Entries(
            self.column(keys[:end]), readonly(values[:end]), readonly(offsets[: maps + 1])
        )

    def _room(self, value_kind: str, entries: int, maps: int) -> tuple[Array, Array, Array]:
        """Return buffers with room for so many, and of this kind of value."""
        buffers = self._buffers
        if buffers is None or len(buffers[0]) < entries or len(buffers[2]) <= maps:
            keys, bits = np.empty(entries, np.int64), np.empty(entries, np.int64)
            buffers = self._buffers = keys, bits, np.zeros(maps + 1, np.int64)
        keys, bits, offsets = buffers
        return keys, bits.view(DTYPES[value_kind]), offsets

    def _plain(self, most: int) -> Block:
        """Read maps by the scalar rules until the kind of value changes or the block is full."""
        keys: list[Any] = []
        values: list[Value] = []
        offsets = [0]
        for mapping in islice(self.maps, self.done, self.done + most):
            number = self.number + len(offsets) - 1
            where = self.where(number)
            try:
                map_keys, map_values = self._items(number, mapping)
                key_kind, value_kind = kinds_of_map(
                    where, map_keys, map_values, self.key_kind, self.value_kind
                )
                if value_kind != self.value_kind and keys:
                    self._begun = number, map_keys, map_values
                    break
                self._settle_kinds(key_kind, value_kind)
                map_keys, map_values = exact_map(
                    where, map_keys, map_values, value_kind, skip_large=self._skip_large
                )
            except (TypeError, OverflowError) as error:
                if is_interruption(error):
                    raise
                # The maps before it go first: one of them may be bad for the operator.
                if len(offsets) > 1:
                    self._begun = BadMap(number, error)
                    break
                raise BadMap(number, error) from None
            keys += map_keys
            values += map_values
            offsets.append(len(keys))
            if len(keys) >= limits.chunk_entries:
                break
        entries = Entries(
            self._column(keys),
            readonly(value_array(values, self.value_kind or "float64")),
            readonly(int_array(offsets)),
        )
        return Block(self.number, self.maps, self.done, entries)

    def _items(self, number: int, mapping: object) -> tuple[Sequence[object], Sequence[object]]:
        """Return the keys and values of the next map, which are read once."""
        begun, self._begun = self._begun, None
        if isinstance(begun, BadMap):
            if begun.number == number:
                raise begun.error
        elif begun is not None and begun[0] == number:
            return begun[1:]
        return items_of(self.where(number), mapping)

    def _column(self, keys: list[Any]) -> KeyColumn:
        if self.key_kind != "string":
            return Int64Keys(int_array(keys))
        if self.known_words is not None:
            return text_keys(keys)  # their words, so that the plain engine can name unknown ones
        words = self.words
        return self.column(int_array([words.setdefault(key, len(words)) for key in keys]))


def _numbers_of(keys: KeyColumn) -> Array:
    return keys.codes if isinstance(keys, TextKeys) else keys.to_array()


# ------------------------------------------------------------------------------- iterators
def held(iterator: Iterator[Any]) -> list[object]:
    """Take the next maps of an iterator, each as it is now.

    Whoever gives out the same dict again and again, filled anew, must not change what was read. A
    dict that nobody else holds needs no copy: that is what most generators give.
    """
    alone = _references_of_a_dict_held_here()
    maps = []
    for mapping in islice(iterator, limits.iterator_maps):
        kind = type(mapping)
        if kind not in DICTS:
            maps.append(_snapshot(mapping))
        elif sys.getrefcount(mapping) > alone:
            maps.append(dict.copy(mapping))
        else:
            maps.append(mapping)
    return maps


def _references_of_a_dict_held_here() -> int:
    """Return what `sys.getrefcount` says of a dict that only the loop of `held` holds.

    It is asked for and not known: Python 3.14 counts fewer references than 3.13.
    """
    empty: list[tuple[tuple[str, int], ...]] = [()]
    for mapping in islice(map(dict, empty), 1):
        return sys.getrefcount(mapping)
    raise AssertionError


def _snapshot(mapping: object) -> object:
    """Return what a mapping holds now; anything else is left to the rules of one map.

    That is a dict where plain keys stand once, which the walk reads, and otherwise the pairs.
    """
    if is_arrow_map(mapping):  # which never changes
        return mapping
    if type(mapping) is list:
        return list(mapping)
    if not isinstance(mapping, Mapping) or type(mapping) is Pairs:
        return mapping
    copied = _copied_dict(mapping)
    if copied is not None:
        return copied
    try:
        pairs = list(mapping.items())
    except RuntimeError as error:
        if not is_change(error):
            raise
        return Pairs([], error)
    if set(map(type, pairs)) == {tuple} and set(map(len, pairs)) == {2}:
        try:
            copied = dict(pairs)
        except TypeError as error:  # a key that has no hash is not a key
            if is_interruption(error):
                raise
        else:
            if len(copied) == len(pairs) and _KEYS.issuperset(map(type, copied)):
                return copied
    return Pairs(pairs)


def _copied_dict(mapping: object) -> Map | None:
    """Return a copy of a mapping that is a dict underneath, in its order.

    An entry takes 5 ns, of an OrderedDict 25 (asv: dicts.OtherMappings).
    """
    if type(mapping) is MappingProxyType:
        (mapping,) = get_referents(mapping)
    kind: Any = type(mapping)
    # An OrderedDict, too, is copied in its own order: dict.copy asks what iterates by itself.
    if isinstance(mapping, dict) and (kind.items is dict.items or kind is OrderedDict):
        return dict.copy(mapping)
    return None


# Of these types keys are compared without code of a class of one's own.
_KEYS = frozenset((int, bool, str))


class Pairs(Mapping[object, object]):
    """The pairs of another mapping as they were, or why they could not be read."""

    __slots__ = ("_error", "_pairs")

    def __init__(
        self, pairs: list[tuple[object, object]], error: RuntimeError | None = None
    ) -> None:
        self._pairs, self._error = pairs, error

    def items(self) -> Any:
        """Return the pairs; whoever reads the map tells the error with its number."""
        if self._error is not None:
            raise self._error
        return self._pairs

    def __getitem__(self, key: object) -> object:
        return next(value for other, value in self._pairs if other == key)

    def __iter__(self) -> Iterator[object]:
        return (key for key, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)


def first_entry(mapping: Map) -> tuple[object, object] | None:
    """Return the first entry of a dict, which another thread may change, or empty, meanwhile."""
    try:
        return next(iter(mapping.items()), None)
    except RuntimeError as error:
        if not is_change(error):
            raise
        return None  # it says nothing about the kinds


def expected_entries(maps: Sequence[Any]) -> int:
    """Return about how many entries a list of maps has, by a sample."""
    some = maps[:: len(maps) // 128 | 1]
    # The length of another mapping is code of its own, which a guess does not run.
    sample = [len(each) if type(each) in DICTS else 8 for each in some]
    return int(1.02 * sum(sample) / max(len(sample), 1) * len(maps)) + 1


_walk: list[ModuleType] = []


def compiled_walk() -> Any:
    """Return the module of the compiled walk, or None where it cannot be used."""
    if _walk:
        return _walk[0]
    dictwalk = imported("nbmapops._reading.dictwalk")  # imports Numba
    if not dictwalk.available():
        return None
    _walk.append(dictwalk)
    return dictwalk


# ------------------------------------------------------------------------------- what is refused
def refuse_frames(maps: object, operator: str) -> None:
    """Raise for a data frame, which iterates over its column names."""
    name = type(maps).__name__
    if name == "LazyFrame" and hasattr(maps, "collect"):  # whose columns are not to be asked for
        raise TypeError(
            f"{operator}: a LazyFrame is not a batch of maps; pass a column of its .collect()"
        )
    if name == "DataFrame" and hasattr(maps, "columns"):
        raise TypeError(
            f"{operator}: a {name} is not a batch of maps; pass a column of maps, or "
            'df.to_dict("records") (pandas), df.to_dicts() (polars)'
        )


def maps_of(maps: object, operator: str) -> Iterable[object]:
    """Return an iterable of mappings, after the checks that need no look at an element."""
    refuse_frames(maps, operator)
    if isinstance(maps, np.ndarray):
        if maps.dtype != object or maps.ndim != 1:
            raise TypeError(
                f"{operator}: an array of {maps.dtype} with {maps.ndim} dimensions does not hold "
                "maps; pass keys, values and offsets"
            )
        return list(maps)
    if isinstance(maps, Mapping):
        raise TypeError(
            f"{operator}: one {type(maps).__name__} is not a batch of maps; pass a list of it"
        )
    if isinstance(maps, (str, bytes, bytearray)) or not isinstance(maps, Iterable):
        raise TypeError(
            f"{operator}: {type(maps).__name__} is not a map and not a batch of maps; pass a "
            "mapping, an iterable of mappings, a MapBatch, an Arrow map column, or keys and values"
        )
    return maps
