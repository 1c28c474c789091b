"""Reading, records: maps of numbers, text, lists of text and None become rows of a matrix.

What scikit-learn's DictVectorizer makes of them: a number stands in the column of its key, a text
in that of the name ``key=text``. The compiled walk of `recordwalk` reads what it takes, and
`RecordReader` itself, in plain Python, the few odd maps between, and everything that is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbmapops._constants import INT64_MAX, INT64_MIN, Array
from nbmapops._engine import choose
from nbmapops._foreign import is_interruption
from nbmapops._limits import limits
from nbmapops._load import imported
from nbmapops._reading import mappings
from nbmapops._reading.batch import MapBatch
from nbmapops._reading.mappings import DICTS, Pairs, expected_entries
from nbmapops._reading.scalars import changed_error, is_arrow_map, is_change, items_of
from nbmapops.errors import DuplicateKeyError, UnknownKeyError, show

if TYPE_CHECKING:
    from types import ModuleType

    from nbmapops._reading.recordwalk import Walk
    from nbmapops._types import Map

__all__ = ["RecordReader", "Rows"]

_WORDS = {str, int, bool}  # whose comparing runs no user code


class _Conversion(NamedTuple):
    """How values become those of the result: as the dtype, called for each of them, does."""

    wide: type[np.generic]  # what the walk reads: float64 or int64
    none: float | None = None  # what the dtype makes of None; None: an error
    rounds: bool = True  # whether ints that float64 does not hold are rounded to it at once
    low: int = INT64_MIN
    high: int = INT64_MAX


_ONLY_NAMES = _Conversion(np.float64, 0.0)
_CONVERSIONS: dict[type, _Conversion] = {
    float: _Conversion(np.float64),
    complex: _Conversion(np.float64),
    np.complex128: _Conversion(np.float64),
    np.complex64: _Conversion(np.float64, rounds=False),
    np.float64: _Conversion(np.float64, np.nan),
    np.float32: _Conversion(np.float64, np.nan, rounds=False),
    bool: _Conversion(np.float64, 0.0),
    np.bool_: _Conversion(np.float64, 0.0),
    int: _Conversion(np.int64),
    np.int64: _Conversion(np.int64),
    np.uint64: _Conversion(np.int64, low=0),
    **{
        kind: _Conversion(np.int64, low=np.iinfo(kind).min, high=np.iinfo(kind).max)
        for kind in (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32)
    },
}


class Rows(NamedTuple):
    """The rows of a matrix, as CSR has them."""

    data: Array
    indices: Array
    indptr: Array
    is_sorted: bool


class RecordReader:
    """Reads records into rows, all in one pass.

    Parameters
    ----------
    words : dict
        The column of each name. With ``learn`` new names are added.
    dtype : type
        Called to convert a value.
    separator : str
        Between key and text in a name.
    learn : bool
        Whether names that are not known are learned, in the order in which they are seen.
    refuse_unknown : bool
        Whether a name that is not known is an error; otherwise its entry is left out.
    keep : bool
        Whether the rows are kept, not only the names.
    """

    def __init__(
        self,
        words: dict[object, int],
        *,
        dtype: Any,
        separator: str,
        learn: bool,
        refuse_unknown: bool = False,
        keep: bool = True,
    ) -> None:
        self.words = words
        self.dtype = dtype
        self.separator = separator
        self.learn = learn
        self.refuse_unknown = refuse_unknown
        self.keep = keep
        self.rows = 0
        known = _CONVERSIONS.get(dtype) if isinstance(dtype, type) else None
        self._conversion = known if keep else _ONLY_NAMES
        self._module: ModuleType | None = None  # of the walk, once it is used
        self._walk: Walk | None = None
        self._may_walk = self._conversion is not None and type(separator) is str
        self._expected = 0
        self._size = 0
        result = np.dtype(dtype) if keep and self._conversion else np.dtype(np.float64)
        self._indices, self._data = np.empty(0, np.int32), np.empty(0, result)
        self._odd: list[object] = []  # values of a dtype that only scikit-learn's array maker knows
        self._offsets = np.zeros(1, np.int64)

    # -------------------------------------------------------------------------------- reading
    def read(self, maps: object) -> None:
        """Read a map, or all maps of an iterable, each before the next one is asked for."""
        if isinstance(maps, Mapping):
            maps = [maps]
        for block in _blocks(maps):
            if not self.rows:
                self._expected = expected_entries(block)
            if self._walk is None and self._may_walk:
                self._choose(block)
            done, run = 0, limits.iterator_maps if self._walk is None else 1
            while done < len(block):
                read = self._walked(block, done)
                done += read
                # A walk that reads nothing costs as much as some entries do.
                run = 1 if read else min(2 * run, limits.iterator_maps)
                rest = block[done : done + run]
                self._read_odd(rest)
                done += len(rest)

    def _choose(self, block: Sequence[object]) -> None:
        """Have the walk read what follows if that takes less time, loading included."""
        words, entries = self.words, expected_entries(block)
        # Names are looked at in every call: somebody may have put others there meanwhile.
        if not self.learn and len(words) > 32 * entries and limits.engine is None:
            return
        if not choose.compiled(entries, len(block), "records"):
            return
        if type(words) is dict and set(map(type, words)) <= _WORDS:
            self._module = record_walk()
        self._may_walk = self._module is not None
        if self._module is not None and self._conversion is not None:
            unknown = self._module.LEARN if self.learn else self._module.IGNORE
            unknown = self._module.REFUSE if self.refuse_unknown else unknown
            _, *conversion = self._conversion
            self._walk = self._module.Walk(words, self.separator, unknown, *conversion)

    def _read_odd(self, maps: Sequence[object]) -> None:
        """Read maps that the walk has not taken; it takes the entries of other mappings."""
        if self._walk is not None and any(type(each) not in DICTS for each in maps):
            maps = [_with_own_lists(each) for each in maps]
            maps = maps[self._walked(maps, 0) :]
        self._read_plain(maps)

    def _walked(self, block: Sequence[object], first: int) -> int:
        """Read maps as far as the walk goes; how many."""
        done, need = first, 0
        while self._walk is not None and self._module is not None and done < len(block):
            columns, values = self._room(block, done, need)
            ends = np.zeros(min(len(block) - done, limits.chunk_maps) + 1, np.int64)
            read, reason = self._walk.read(block, done, columns, values, ends)
            self._take(values, ends[: read + 1])
            done += read
            if reason == self._module.STOP:
                break
            need = 0 if read else 2 * len(columns)
        return done - first

    def _read_plain(self, maps: Sequence[object]) -> None:
        """Read maps in plain Python."""
        columns: list[int] = []
        values: list[object] = []
        ends = np.zeros(len(maps) + 1, np.int64)
        for number, mapping in enumerate(maps, 1):
            self._read_map(self.rows + number - 1, mapping, columns, values)
            ends[number] = len(columns)
        if self._may_walk and self.learn and not set(map(type, self.words)) <= _WORDS:
            self._may_walk, self._walk = False, None
        indices = np.array(columns, np.int32)
        if self._conversion is None:
            self._odd += values
            self._add(indices, np.zeros(len(indices)), ends)
        else:
            self._add(indices, np.array(values, self._data.dtype), ends)

    def _read_map(
        self, row: int, mapping: object, columns: list[int], values: list[object]
    ) -> None:
        words = self.words
        for name, value in self._entries(row, mapping):
            if name in words:
                column = words[name]
            elif self.learn:
                column = words[name] = len(words)
            elif self.refuse_unknown:
                raise self._unknown(row, name, mapping)
            else:
                continue
            columns.append(column)
            values.append(self.dtype(value) if self.keep else 0)

    def _entries(self, row: int, mapping: object) -> Iterator[tuple[object, object]]:
        """Yield the names and values of one map."""
        separator = self.separator
        for key, value in _items(row, mapping):
            if isinstance(value, str):
                yield "%s%s%s" % (key, separator, value), 1  # noqa: UP031  (str(key), not format)
            elif value is None or isinstance(value, (Number, np.bool_)):
                if key is not None:  # which scikit-learn takes to mean that there is no name
                    yield key, bool(value) if isinstance(value, np.bool_) else value
            elif isinstance(value, Mapping) or not isinstance(value, Iterable):
                raise _noted(row, self._value_error(key, value))
            else:
                for text in value:
                    if not isinstance(text, str):
                        raise _noted(row, _item_error(text))
                    yield "%s%s%s" % (key, separator, text), 1  # noqa: UP031

    def _value_error(self, key: object, value: object) -> TypeError:
        kind = type(value)
        if isinstance(value, Mapping) and not self.keep:  # said otherwise by `fit`
            return TypeError(
                f"Unsupported value type {kind} for {key}: {value}.\n"
                "Mapping objects are not supported."
            )
        return TypeError(
            f"Unsupported value Type {kind} for {key}: {value}.\n{kind} objects are not supported."
        )

    def _unknown(self, row: int, name: object, mapping: object) -> UnknownKeyError:
        what = "key" if any(name == key for key, _ in _items(row, mapping)) else "feature"
        return UnknownKeyError(
            f"DictVectorizer: map {row}: {what} {show(name)} is not in vocabulary_ "
            f'({len(self.words)} names); pass handle_unknown="ignore" to skip unknown names'
        )

    # -------------------------------------------------------------------------------- rows
    def _room(self, block: Sequence[object], first: int, need: int) -> tuple[Array, Array]:
        """Return where the walk writes: columns, and values as it reads them."""
        wide = self._conversion.wide  # type: ignore[union-attr]
        left = len(block) - first
        mean = self._size // self.rows + 1 if self.rows and self.keep else 0
        likely = left * max(mean, _length(block[first])) + 16
        room = max(need, _length(block[first]), min(likely, limits.chunk_entries))
        self._reserve(room)
        columns = self._indices[self._size : self._size + room]
        if self._data.dtype == wide:
            return columns, self._data[self._size : self._size + room]
        return columns, np.empty(room, wide)

    def _reserve(self, room: int) -> None:
        size = self._size + room
        if size <= len(self._indices):
            return
        if self._expected >= size and not self._size:
            self._indices = np.empty(self._expected, np.int32)
            self._data = np.empty(self._expected, self._data.dtype)
            return
        # The pages of large arrays are moved, never held twice.
        size = max(size, self._size + self._size // 4)
        self._indices.resize(size, refcheck=False)
        self._data.resize(size, refcheck=False)

    def _take(self, values: Array, ends: Array) -> None:
        """Keep what stands behind the rows."""
        entries = int(ends[-1])
        if self.keep and values.dtype != self._data.dtype:
            self._data[self._size : self._size + entries] = values[:entries]
        self._end_rows(ends)

    def _add(self, indices: Array, data: Array, ends: Array) -> None:
        """Put entries behind the rows."""
        self._reserve(len(indices))
        self._indices[self._size : self._size + len(indices)] = indices
        self._data[self._size : self._size + len(indices)] = data
        self._end_rows(ends)

    def _end_rows(self, ends: Array) -> None:
        rows = len(ends) - 1
        if self.keep:
            if self.rows + rows >= len(self._offsets):
                self._offsets.resize(self.rows + rows + self.rows // 4 + 1, refcheck=False)
            self._offsets[self.rows + 1 : self.rows + rows + 1] = ends[1:] + self._size
            self._size += int(ends[-1])
        self.rows += rows

    def finish(self, column_of: Array) -> Rows:
        """Return all rows.

        Parameters
        ----------
        column_of : int32 array
            The column of each word's code, or empty: codes are columns.
        """
        for array in (self._indices, self._data):
            array.resize(self._size, refcheck=False)
        self._offsets.resize(self.rows + 1, refcheck=False)
        indices, data, offsets = self._indices, self._data, self._offsets
        if self._module is not None:
            is_sorted = self._module.arrange(indices, data, offsets, 0, self.rows, column_of)
        else:
            is_sorted = False
            if len(column_of):
                indices[:] = column_of[indices]
        if self._conversion is None:
            data = np.array(self._odd, np.dtype(self.dtype))
        if self._size <= np.iinfo(np.int32).max:
            offsets = offsets.astype(np.int32)
        return Rows(data, indices, offsets, is_sorted)


def record_walk() -> ModuleType | None:
    """Return the module of the compiled walk, or None where it cannot be used."""
    if mappings.compiled_walk() is None:
        return None
    recordwalk = imported("nbmapops._reading.recordwalk")  # imports Numba
    return recordwalk if recordwalk.available() else None


def _item_error(item: object) -> TypeError:
    return TypeError(
        f"Unsupported type {type(item)} in iterable value. Only iterables of string are supported."
    )


def _noted(row: int, error: TypeError) -> TypeError:
    """Return an error with scikit-learn's words, and where it happened beside them."""
    error.add_note(f"DictVectorizer: map {row}")
    return error


def _length(mapping: Any) -> int:
    return len(mapping) if type(mapping) in DICTS else 0


def _has_items(mapping: object) -> bool:
    """Tell whether this gives its pairs; those of a map of Arrow fail, or hold its own scalars."""
    return hasattr(mapping, "items") and not is_arrow_map(mapping)


def _items(row: int, mapping: Any) -> Iterable[tuple[object, object]]:
    """Return keys and values of what is given as a map: a mapping, or a list of pairs."""
    where = f"DictVectorizer: map {row}"
    if _has_items(mapping):
        try:
            return list(mapping.items())
        except RuntimeError as error:
            if not is_change(error):
                raise
            raise changed_error(where) from None
    keys, values = items_of(where, mapping)
    if len(set(keys)) < len(keys):
        repeated = next(key for number, key in enumerate(keys) if key in keys[:number])
        raise DuplicateKeyError(
            f"{where}: key {show(repeated)} is repeated; a map must hold each key once"
        )
    return zip(keys, values, strict=True)


def _blocks(maps: Any) -> Iterator[Sequence[object]]:
    """Yield the maps in lists, each map as it was when it came."""
    if isinstance(maps, MapBatch):
        maps = maps.to_dicts()
    if type(maps) not in (list, tuple):
        maps = mappings.maps_of(maps, "DictVectorizer")
        for to_list in ("to_pylist", "tolist"):  # columns of Arrow, a Series
            maps = getattr(maps, to_list)() if hasattr(maps, to_list) else maps
    if type(maps) in (list, tuple):
        yield list(maps)  # because another thread may shorten it
        return
    iterator = map(_with_own_lists, maps)
    while block := mappings.held(iterator):
        yield block


_MUTABLE = {list, set}


def _with_own_lists(mapping: Any) -> Any:
    """Return a map whose lists and sets nobody changes, as a dict where one can hold it."""
    if not _has_items(mapping):
        return mapping
    try:
        if type(mapping) in DICTS and _MUTABLE.isdisjoint(map(type, mapping.values())):
            return mapping
        items = list(mapping.items())
    except RuntimeError as error:
        if not is_change(error):
            raise
        return Pairs([], error)
    try:
        entries = _with_tuples(items)
    except (TypeError, ValueError) as error:  # not hashable, or not pairs
        if is_interruption(error):
            raise
        return Pairs(items)
    return entries if len(entries) == len(items) else Pairs(items)


def _with_tuples(items: Iterable[tuple[object, Any]]) -> Map:
    return {key: tuple(each) if type(each) in _MUTABLE else each for key, each in items}
