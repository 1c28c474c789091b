"""MapBatch: many maps as three arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from nbmapops import _values
from nbmapops._reading.arrays import Keys, TextKeys, int_array, read_arrays, readonly
from nbmapops._reading.mappings import MapReader, maps_of
from nbmapops._reading.scalars import (
    DTYPES,
    Array,
    Nulls,
    cast_error,
    nulls_of,
    type_name,
    without_nulls,
)
from nbmapops._reading.tables import read_lists, read_rows
from nbmapops.errors import DuplicateKeyError, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class MapBatch:
    """Many maps as arrays: the layout of an Arrow map column and of CSR.

    Map ``i`` is the entries ``offsets[i]:offsets[i + 1]`` of `keys` and `values`. A batch is made
    by `from_arrays`, `from_dicts`, `from_rows`, `from_lists` or `from_arrow`, is immutable, and
    may be shared by threads.

    Attributes
    ----------
    keys : ndarray, shape (nnz,)
        int64, or object dtype holding str.
    values : ndarray, shape (nnz,)
        float32, float64, int64, or object dtype holding str.
    offsets : ndarray of int64, shape (B + 1,)
        Rises from 0 to ``nnz``.
    null_maps : ndarray of bool, shape (B,), or None
        The maps that were null in an Arrow column, or missing among mappings; empty here.

    Notes
    -----
    Keys and values are read-only views of the arrays given, wherever their dtype, order and byte
    order allow it. Offsets are copied: a view would let their owner change what was validated.

    Examples
    --------
    >>> batch = MapBatch.from_dicts([{1: 0.5, 7: 2.0}, {}, {7: 1.0}])
    >>> batch.keys, batch.values, batch.offsets
    (array([1, 7, 7]), array([0.5, 2. , 1. ]), array([0, 2, 2, 3]))
    >>> batch[0], len(batch)
    ({1: 0.5, 7: 2.0}, 3)
    """

    __slots__ = ("_keys", "_null_maps", "_offsets", "_values")

    _keys: Keys
    _values: Array
    _offsets: Array
    _null_maps: Array | None

    def __init__(self) -> None:
        raise TypeError(
            "MapBatch is made by MapBatch.from_arrays, MapBatch.from_dicts or MapBatch.from_arrow"
        )

    @classmethod
    def _of(
        cls, keys: Keys, values: Array, offsets: Array, null_maps: Array | None = None
    ) -> MapBatch:
        """Return the batch of parts that are valid already."""
        batch = cls.__new__(cls)
        batch._keys = readonly(keys) if isinstance(keys, np.ndarray) else keys
        batch._values = readonly(values)
        batch._offsets = readonly(offsets)
        batch._null_maps = None if null_maps is None else readonly(null_maps)
        return batch

    # -------------------------------------------------------------------------- making
    @classmethod
    def from_arrays(cls, keys: Any, values: Any = None, offsets: Any = None) -> MapBatch:
        """Make a batch of arrays or sequences.

        Parameters
        ----------
        keys : array_like, shape (nnz,)
            Integers that fit in int64, or str. bool counts as 0 and 1.
        values : array_like, shape (nnz,), optional
            Numbers (float64, float32, float16, bool, integers that fit in int64), or str. By
            default each is 1: ids without values.
        offsets : array_like of int, shape (B + 1,), optional
            Map ``i`` is the entries ``offsets[i]:offsets[i + 1]``. By default all entries are
            one map.

        Returns
        -------
        MapBatch

        Raises
        ------
        TypeError
            A dtype or an element that is no key or no value.
        ValueError
            Lengths that differ, arrays that are not 1-D, offsets that do not start at 0, fall,
            or do not end at ``nnz``; missing values (None, pandas' NA, masked elements, nulls).
        OverflowError
            An integer outside int64.

        Examples
        --------
        >>> MapBatch.from_arrays([1, 7, 7], [0.5, 2.0, 1.0], [0, 2, 2, 3]).to_dicts()
        [{1: 0.5, 7: 2.0}, {}, {7: 1.0}]
        """
        entries, bad = read_arrays(keys, values, offsets, "MapBatch")
        if bad is not None:
            raise bad.error
        return cls._of(*entries)

    @classmethod
    def from_rows(
        cls, rows: Any, keys: Any, values: Any = None, *, n_maps: int | None = None
    ) -> MapBatch:
        """Make a batch of a long table, as SQL and data frames have it.

        Parameters
        ----------
        rows : array_like of int, shape (nnz,)
            The number of each entry's map, from 0, in any order. Entries of a map keep their
            order.
        keys, values : array_like, shape (nnz,)
            As for `from_arrays`; without values each is 1.
        n_maps : int, optional
            How many maps there are: more than the largest row gives empty maps at the end.

        Returns
        -------
        MapBatch

        Raises
        ------
        TypeError
            Rows that are not integers; and as for `from_arrays`.
        ValueError
            A negative row, an `n_maps` not above the largest row, missing values, lengths that
            differ.
        OverflowError
            An integer outside int64.
        MemoryError
            Row numbers so large that the empty maps between them do not fit into memory.

        Examples
        --------
        >>> MapBatch.from_rows([2, 0, 2], ["a", "b", "c"], [0.5, 1.0, 2.0]).to_dicts()
        [{'b': 1.0}, {}, {'a': 0.5, 'c': 2.0}]
        """
        entries, bad = read_rows(rows, keys, values, n_maps, "MapBatch")
        if bad is not None:
            raise bad.error
        return cls._of(*entries)

    @classmethod
    def from_lists(cls, keys: Any, values: Any = None) -> MapBatch:
        """Make a batch of two columns of lists: the keys and the values of each map.

        Parameters
        ----------
        keys : column of B lists
            Arrow or polars lists, a list of lists, an object Series or array of lists or arrays,
            an array of shape (B, n).
        values : column of B lists, optional
            Of the same lengths; without values each is 1.

        Returns
        -------
        MapBatch

        Raises
        ------
        TypeError
            A column that is not one of lists; and as for `from_arrays`.
        ValueError
            Lists of a map that differ in length, missing lists or values.
        OverflowError
            An integer outside int64.

        Examples
        --------
        >>> MapBatch.from_lists([[1, 7], [], [7]], [[0.5, 2.0], [], [1.0]]).to_dicts()
        [{1: 0.5, 7: 2.0}, {}, {7: 1.0}]
        >>> MapBatch.from_lists([["a", "b"], ["c"]]).to_dicts()
        [{'a': 1, 'b': 1}, {'c': 1}]
        """
        entries, bad = read_lists(keys, values, "MapBatch")
        if bad is not None:
            raise bad.error
        return cls._of(*entries)

    @classmethod
    def from_dicts(
        cls,
        maps: Iterable[Any],
        *,
        key_type: Any = None,
        value_type: Any = None,
        null_map: str = "error",
        null_value: Any = "error",
    ) -> MapBatch:
        """Make a batch of mappings, or of lists of (key, value) pairs.

        Parameters
        ----------
        maps : iterable of mappings or of lists of pairs
            Read once. All keys are integers or all are str. Values are all str or all numbers:
            ints give int64, np.float32 gives float32, any other mix of numbers float64. A Decimal
            or Fraction is taken where int64 or float64 holds it exactly.
        key_type : {"int64", "string"} or dtype, optional
            The type that the keys must have. Needed only where no map has an entry.
        value_type : {"float", "double", "int64", "string"} or dtype, optional
            The type that values are converted to, as by ``DictVectorizer(dtype=...)``.
        null_map : {"error", "empty"}
            What None, NaN or pandas' NA in place of a map is: a TypeError, or an empty map that
            `null_maps` marks.
        null_value : {"error", "skip"} or scalar
            What None or pandas' NA in place of a value is: a TypeError, an entry to leave out, or
            this value. NaN is a number.

        Returns
        -------
        MapBatch

        Raises
        ------
        TypeError
            An element that is not a map; keys or values of mixed or other types.
        ValueError
            Another `null_map`.
        OverflowError
            An integer outside int64, or one that float64 cannot hold among floats.
        CastError
            A value that has no counterpart in `value_type`.

        Examples
        --------
        >>> MapBatch.from_dicts([{"a": 1}, {"b": 2.5}]).values
        array([1. , 2.5])
        >>> rows = [{"a": 1, "b": None}, None, [("b", 2)]]
        >>> MapBatch.from_dicts(rows, null_map="empty", null_value="skip").to_dicts()
        [{'a': 1}, {}, {'b': 2}]
        """
        key_kind = None if key_type is None else type_name(key_type, "MapBatch: key_type")
        if key_kind not in (None, "int64", "string"):
            raise TypeError(f'MapBatch: key_type is {show(key_type)}; a key is "int64" or "string"')
        nulls = nulls_of(null_map, null_value, "MapBatch")
        missing: list[int] = []
        checked = maps_of(maps, "MapBatch")
        if nulls != Nulls():
            checked = without_nulls(checked, nulls, "MapBatch", missing)
        entries, bad = MapReader(checked, "MapBatch", key_kind).read_all()
        if bad is not None:
            raise bad.error
        null_maps = np.zeros(len(entries.offsets) - 1, bool) if missing else None
        if null_maps is not None:
            null_maps[missing] = True
        batch = cls._of(*entries, null_maps)
        if value_type is None:
            return batch
        kind = type_name(value_type, "MapBatch: value_type")
        return converted(batch, kind, "exact", "MapBatch")

    @classmethod
    def from_arrow(
        cls, column: Any, *, null_map: str = "error", null_value: Any = "error"
    ) -> MapBatch:
        """Make a batch of an Arrow map column (extra ``[arrow]``).

        Parameters
        ----------
        column : object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
            A pyarrow Array or ChunkedArray, a polars Series, a pandas Series with an Arrow
            dtype, ... of type map or list of struct with two fields. In a struct column each row
            is a map from field name to value, null fields left out. Decimals are read where
            int64 (no decimal places) or float64 holds them exactly.
        null_map : {"error", "empty"}
            What a null map is: a ValueError, or an empty map that `null_maps` marks.
        null_value : {"error", "skip"} or scalar
            What a null value is: a ValueError, an entry to leave out, or this value.

        Returns
        -------
        MapBatch
            Shares the column's memory for keys of int64 and values of int64, float32 and
            float64 that have no nulls.

        Raises
        ------
        ImportError
            pyarrow is not installed.
        TypeError
            Another Arrow type.
        ValueError
            A null key; a null map or null value where that is an error.
        OverflowError
            A number that the batch's type cannot hold exactly.

        Examples
        --------
        >>> import pyarrow as pa
        >>> column = pa.array([[(1, 0.5)], None], pa.map_(pa.int64(), pa.float64()))
        >>> batch = MapBatch.from_arrow(column, null_map="empty")
        >>> batch.to_dicts(), batch.null_maps
        ([{1: 0.5}, {}], array([False,  True]))
        """
        from nbmapops._reading import arrow  # the adapter imports pyarrow, an extra

        return cls._of(*arrow.read_column(column, null_map=null_map, null_value=null_value))

    # -------------------------------------------------------------------------- reading
    @property
    def keys(self) -> Array:
        """Keys of all entries, shape (nnz,); text is made into an object array at each call."""
        keys = self._keys
        return keys if isinstance(keys, np.ndarray) else readonly(keys.to_objects())

    @property
    def values(self) -> Array:
        """Values of all entries, shape (nnz,)."""
        return self._values

    @property
    def offsets(self) -> Array:
        """Where each map begins, and where the last one ends; int64, shape (B + 1,)."""
        return self._offsets

    @property
    def null_maps(self) -> Array | None:
        """Which maps were null or missing, shape (B,); None where none was."""
        return self._null_maps

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        for number in range(len(self)):
            yield self[number]

    @overload
    def __getitem__(self, which: int) -> dict[Any, Any]: ...
    @overload
    def __getitem__(self, which: slice) -> MapBatch: ...
    def __getitem__(self, which: int | slice) -> dict[Any, Any] | MapBatch:
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step != 1:
                raise ValueError("MapBatch: a slice takes every map; its step must be 1")
            stop = max(start, stop)
            offsets = self._offsets[start : stop + 1]
            entries = slice(int(offsets[0]), int(offsets[-1]))
            nulls = None if self._null_maps is None else self._null_maps[start:stop]
            return MapBatch._of(
                self._keys[entries], self._values[entries], offsets - offsets[0], nulls
            )
        number = range(len(self))[which]
        keys, values = entries_of(self, number)
        result = dict(zip(keys, values, strict=True))
        if len(result) < len(keys):
            key = next(key for entry, key in enumerate(keys) if key in keys[:entry])
            raise DuplicateKeyError(
                f"MapBatch: map {number}: key {show(key)} is repeated, so the map is no dict; "
                "sum_duplicates() adds up the values of repeated keys"
            )
        return result

    def to_dicts(self) -> list[dict[Any, Any]]:
        """Return the maps as dicts.

        Returns
        -------
        list of dict
            Keys are int or str, values int, float, str, or np.float32 for float32 values, so
            that `from_dicts` gives the same batch. A null map is an empty dict.

        Raises
        ------
        DuplicateKeyError
            A map with a repeated key, which a dict cannot hold.

        Examples
        --------
        >>> MapBatch.from_arrays(["a", "b"], [1, 2], [0, 1, 2]).to_dicts()
        [{'a': 1}, {'b': 2}]
        """
        return list(self)

    def to_arrow(self) -> Any:
        """Return the batch as an Arrow map column (extra ``[arrow]``).

        Returns
        -------
        pyarrow.MapArray
            Of type ``map<int64 or string, double, float, int64 or string>``, with the maps of
            `null_maps` null. Shares memory with numbers, and with text that came from Arrow.

        Raises
        ------
        ImportError
            pyarrow is not installed.
        ValueError
            Text with a lone surrogate.
        OverflowError
            More than 2**31 - 1 entries.

        Examples
        --------
        >>> batch = MapBatch.from_dicts([{"a": 0.5}, {}])
        >>> batch.to_arrow().type
        MapType(map<string, double>)
        >>> MapBatch.from_arrow(batch).to_dicts()
        [{'a': 0.5}, {}]
        """
        from nbmapops._reading.toarrow import map_column  # imports pyarrow, an extra

        return map_column(self._keys, self._values, self._offsets, self._null_maps)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Export the batch to Arrow libraries: ``pyarrow.array(batch)``, ``polars.Series(batch)``.

        Parameters
        ----------
        requested_schema : PyCapsule, optional
            As the Arrow PyCapsule interface says.

        Returns
        -------
        tuple of PyCapsule
            Schema and array.
        """
        capsules: tuple[object, object] = self.to_arrow().__arrow_c_array__(requested_schema)
        return capsules

    def sum_duplicates(self) -> MapBatch:
        """Return a batch in which the values of repeated keys are added up.

        Returns
        -------
        MapBatch
            Each key once in its map, at the place of its first entry. Values are added in the
            order of the entries.

        Raises
        ------
        TypeError
            Text values.
        OverflowError
            An int64 sum outside int64.

        Examples
        --------
        >>> MapBatch.from_arrays([7, 1, 7], [0.5, 1.0, 2.0]).sum_duplicates().to_dicts()
        [{7: 2.5, 1: 1.0}]
        """
        if value_kind(self) == "string":
            raise TypeError("MapBatch: sum_duplicates() adds numbers; these values are text")
        keys = _same_key(self._keys)
        numbers = map_numbers(self)
        order = np.lexsort((keys, numbers))  # stable: entries of one key stay in order
        starts = np.ones(len(order), bool)
        starts[1:] = (np.diff(keys[order]) != 0) | (np.diff(numbers[order]) != 0)
        if starts.all():
            return self
        first = order[starts]
        group = np.empty(len(order), np.int64)
        group[order] = np.cumsum(starts) - 1
        sums = self._values[first]  # not added to 0.0, which would lose the sign of -0.0
        later = np.ones(len(group), bool)
        later[first] = False
        np.add.at(sums, group[later], self._values[later])
        self._check_sums(sums, group, first)
        place = np.argsort(first)
        kept = first[place]
        offsets = np.searchsorted(kept, self._offsets).astype(np.int64)
        keys_kept = _take(self._keys, kept)
        return MapBatch._of(keys_kept, sums[place], offsets, self._null_maps)

    def _check_sums(self, sums: Array, group: Array, first: Array) -> None:
        """Raise where an int64 sum has wrapped."""
        if sums.dtype != np.int64:
            return
        size = np.zeros(len(sums))
        np.add.at(size, group, np.abs(self._values.astype(np.float64)))
        for suspect in np.flatnonzero(size >= 2.0**62):
            total = sum(self._values[group == suspect].tolist())
            if total != int(sums[suspect]):
                number = int(np.searchsorted(self._offsets, first[suspect], "right")) - 1
                key = entries_of(self, number)[0][int(first[suspect] - self._offsets[number])]
                raise OverflowError(
                    f"MapBatch: map {number}: key {show(key)}: the sum {total} does not fit in "
                    "int64"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._keys_state(), self._values, self._offsets, self._null_maps)

    def _keys_state(self) -> Any:
        keys = self._keys
        if isinstance(keys, np.ndarray):
            return keys
        codes, words = keys.encode()
        return np.asarray(codes), tuple(words)

    def __repr__(self) -> str:
        key_kind_ = key_kind(self)
        return (
            f"<MapBatch: {len(self)} maps, {len(self._values)} entries, "
            f"{key_kind_} -> {value_kind(self)}>"
        )


def _restore(keys: Any, values: Array, offsets: Array, null_maps: Array | None) -> MapBatch:
    if isinstance(keys, tuple):
        keys = TextKeys(readonly(keys[0]), keys[1])
    return MapBatch._of(keys, values, offsets, null_maps)


# ------------------------------------------------------------------------------- facts of a batch
_KINDS = {dtype.char: kind for kind, dtype in DTYPES.items()}


def key_kind(batch: MapBatch) -> str:
    """Return "int64" or "string"."""
    return "int64" if isinstance(batch._keys, np.ndarray) else "string"


def value_kind(batch: MapBatch) -> str:
    """Return "int64", "float32", "float64" or "string"."""
    return _KINDS[batch._values.dtype.char]


def map_numbers(batch: MapBatch) -> Array:
    """Return the map of each entry, int64 of shape (nnz,)."""
    return np.repeat(np.arange(len(batch)), np.diff(batch._offsets))


def map_of_entry(batch: MapBatch, entry: int) -> int:
    """Return the number of the map that entry `entry` of the batch belongs to."""
    return int(np.searchsorted(batch._offsets, entry, "right")) - 1


def entries_of(batch: MapBatch, number: int) -> tuple[list[Any], list[Any]]:
    """Return keys and values of one map as Python scalars (np.float32 for float32 values)."""
    start, stop = int(batch._offsets[number]), int(batch._offsets[number + 1])
    keys = batch._keys[start:stop]
    keys = keys if isinstance(keys, np.ndarray) else keys.to_objects()
    values = batch._values[start:stop]
    return keys.tolist(), list(values) if values.dtype == np.float32 else values.tolist()


def _same_key(keys: Keys) -> Array:
    """Return int64 numbers that are equal where keys are equal."""
    if isinstance(keys, np.ndarray):
        return keys
    codes, words = keys.encode()
    first: dict[str, int] = {}
    unique = int_array([first.setdefault(word, len(first)) for word in words])
    return unique[codes] if len(words) else np.asarray(codes)


def _take(keys: Keys, entries: Array) -> Keys:
    if isinstance(keys, np.ndarray):
        return keys[entries]
    codes, words = keys.encode()
    return TextKeys(readonly(codes[entries]), words)


def converted(batch: MapBatch, kind: str, rules: str, where: str) -> MapBatch:
    """Return a batch with its values in another kind; `where` is the front of messages."""
    own = value_kind(batch)
    values, refused = _values.cast_array(batch._values, own, kind, rules)
    if len(refused):
        entry = int(refused[0])
        number = map_of_entry(batch, entry)
        keys, given = entries_of(batch, number)
        position = entry - int(batch._offsets[number])
        try:
            _values.cast_one(given[position], own, kind, rules)
        except ValueError as reason:
            raise cast_error(
                f"{where}: map {number}", keys[position], given[position], kind, reason
            ) from None
        raise RuntimeError(f"{where}: map {number}: the data changed while it was read")
    return MapBatch._of(batch._keys, values, batch._offsets, batch._null_maps)
