"""Reading, batch: MapBatch, many maps as three arrays."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from nbmapops import _values
from nbmapops._foreign import let_out
from nbmapops._load import imported
from nbmapops._reading.arrays import read_arrays
from nbmapops._reading.duplicates import sum_duplicates
from nbmapops._reading.entries import Entries, Int64Keys, TextKeys, readonly
from nbmapops._reading.mappings import MapReader, maps_of
from nbmapops._reading.scalars import (
    Nulls,
    cast_error,
    changed_error,
    nulls_of,
    type_name,
    without_nulls,
)
from nbmapops._reading.shown import as_table
from nbmapops._reading.tables import read_lists, read_rows
from nbmapops.errors import DuplicateKeyError, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nbmapops._constants import Array
    from nbmapops._types import Dtype, Map, NullMap


# What a pickle holds: keys, or codes and words; values, offsets, null maps.
_State: TypeAlias = "tuple[Array | tuple[Array, Any], Array, Array, Array | None]"


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

    __module__ = "nbmapops"  # where pickles find it, whatever file it stands in
    __slots__ = ("_entries", "_null_maps")

    _entries: Entries
    _null_maps: Array | None

    def __init__(self) -> None:
        raise TypeError(
            "MapBatch must be made by from_arrays, from_dicts, from_rows, from_lists or "
            "from_arrow, as in MapBatch.from_dicts(maps)"
        )

    @classmethod
    def _of(cls, entries: Entries, null_maps: Array | None = None) -> MapBatch:
        """Return the batch of entries that are valid already."""
        batch = cls.__new__(cls)
        batch._entries = entries
        batch._null_maps = None if null_maps is None else readonly(null_maps)
        return batch

    # -------------------------------------------------------------------------- making
    @classmethod
    def from_arrays(cls, keys: object, values: object = None, offsets: object = None) -> MapBatch:
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
            A dtype or an element that is not a key or not a value.
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
        return cls._of(entries)

    @classmethod
    def from_rows(
        cls, rows: object, keys: object, values: object = None, *, n_maps: int | None = None
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
        return cls._of(entries)

    @classmethod
    def from_lists(cls, keys: object, values: object = None) -> MapBatch:
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
        return cls._of(entries)

    @classmethod
    def from_dicts(
        cls,
        maps: Iterable[object],
        *,
        key_type: Dtype | None = None,
        value_type: Dtype | None = None,
        null_map: NullMap = "error",
        null_value: object = "error",
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
            raise TypeError(f'MapBatch: key_type must be "int64" or "string", not {show(key_type)}')
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
        batch = cls._of(entries, null_maps)
        if value_type is None:
            return batch
        kind = type_name(value_type, "MapBatch: value_type")
        return converted(batch, kind, "exact", "MapBatch")

    @classmethod
    def from_arrow(
        cls, column: object, *, null_map: NullMap = "error", null_value: object = "error"
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
        arrow = imported("nbmapops._reading.arrow")  # the adapter imports pyarrow, an extra
        return cls._of(*arrow.read_column(column, null_map=null_map, null_value=null_value))

    # -------------------------------------------------------------------------- reading
    @property
    def keys(self) -> Array:
        """Keys of all entries, shape (nnz,); text is made into an object array at each call."""
        return self._entries.keys.to_array()

    @property
    def values(self) -> Array:
        """Values of all entries, shape (nnz,)."""
        return self._entries.values

    @property
    def offsets(self) -> Array:
        """Where each map begins, and where the last one ends; int64, shape (B + 1,)."""
        return self._entries.offsets

    @property
    def null_maps(self) -> Array | None:
        """Which maps were null or missing, shape (B,); None where none was."""
        return self._null_maps

    def __len__(self) -> int:
        return len(self._entries.offsets) - 1

    def __iter__(self) -> Iterator[Map]:
        for number in range(len(self)):
            yield self[number]

    @overload
    def __getitem__(self, which: int) -> Map: ...
    @overload
    def __getitem__(self, which: slice) -> MapBatch: ...
    def __getitem__(self, which: int | slice) -> Map | MapBatch:
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step != 1:
                raise ValueError("MapBatch: a slice takes every map; its step must be 1")
            stop = max(start, stop)
            keys, values, offsets = self._entries
            offsets = offsets[start : stop + 1]
            part = slice(int(offsets[0]), int(offsets[-1]))
            nulls = None if self._null_maps is None else self._null_maps[start:stop]
            entries = Entries(keys[part], values[part], readonly(offsets - offsets[0]))
            return MapBatch._of(entries, nulls)
        try:
            number = range(len(self))[which]
        except IndexError:
            raise IndexError(f"MapBatch: map {which} is not one of {len(self)} maps") from None
        listed, scalars = self._entries.map(number)
        return _dict(number, listed, _plain(scalars))

    def to_dicts(self) -> list[Map]:
        """Return the maps as dicts.

        Returns
        -------
        list of dict
            Keys are int or str, values int, float or str, as JSON takes them. A null map is an
            empty dict.

        Raises
        ------
        DuplicateKeyError
            A map with a repeated key, which a dict cannot hold.

        Notes
        -----
        A float32 value becomes the float that equals it, so that
        ``MapBatch.from_dicts(dicts, value_type="float")`` gives the float32 values back, all bits
        of numbers; without `value_type` they are float64.

        Examples
        --------
        >>> MapBatch.from_arrays(["a", "b"], [1, 2], [0, 1, 2]).to_dicts()
        [{'a': 1}, {'b': 2}]
        """
        keys, values, offsets = self._entries
        listed = values.tolist()
        pairs = zip(keys.to_array().tolist(), listed, strict=True)
        dicts = [dict(islice(pairs, length)) for length in np.diff(offsets).tolist()]
        if sum(map(len, dicts)) < len(listed):
            for number in range(len(dicts)):
                _dict(number, *self._entries.map(number))  # raises for the first repeated key
        return dicts

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
        toarrow = imported("nbmapops._reading.toarrow")  # imports pyarrow, an extra
        return toarrow.map_column(self._entries, self._null_maps)

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
        summed = sum_duplicates(self._entries)
        return self if summed is None else MapBatch._of(summed, self._null_maps)

    def __getstate__(self) -> _State:
        keys, values, offsets = self._entries
        if isinstance(keys, Int64Keys):
            return keys.array, values, offsets, self._null_maps
        codes, words = keys.encode()
        return (np.asarray(codes), tuple(words)), values, offsets, self._null_maps

    def __setstate__(self, state: _State) -> None:
        keys, values, offsets, self._null_maps = state
        column = TextKeys(*keys) if isinstance(keys, tuple) else Int64Keys(keys)
        self._entries = Entries(column, readonly(values), readonly(offsets))

    def __repr__(self) -> str:
        keys, values, _ = self._entries
        return (
            f"<MapBatch: {len(self)} maps, {len(values)} entries, "
            f"{keys.kind} -> {self._entries.value_kind}>"
        )

    def _repr_html_(self) -> str:
        return as_table(self._entries, self._null_maps, repr(self)[1:-1])


def _plain(values: Sequence[object]) -> Sequence[object]:
    """Return float32 scalars as Python's floats, and others as they are."""
    return [value.item() if isinstance(value, np.float32) else value for value in values]


def _dict(number: int, keys: Sequence[object], values: Sequence[object]) -> Map:
    result = dict(zip(keys, values, strict=True))
    if len(result) < len(keys):
        key = next(key for entry, key in enumerate(keys) if key in keys[:entry])
        raise DuplicateKeyError(
            f"MapBatch: map {number}: key {show(key)} is repeated, so the map is not a dict; "
            "sum_duplicates() adds up the values of repeated keys"
        )
    return result


def converted(batch: MapBatch, kind: str, rules: str, where: str) -> MapBatch:
    """Return a batch with its values in another kind; `where` is the front of messages."""
    entries = batch._entries
    own = entries.value_kind
    values, refused = _values.cast_array(entries.values, own, kind, rules)
    if len(refused):
        number = entries.map_of(int(refused[0]))
        keys, given = entries.map(number)
        position = int(refused[0]) - int(entries.offsets[number])
        try:
            _values.cast_one(given[position], own, kind, rules)
        except ValueError as reason:
            let_out(reason)
            raise cast_error(
                f"{where}: map {number}", keys[position], given[position], kind, reason
            ) from None
        raise changed_error(f"{where}: map {number}")
    if values is entries.values:
        return batch
    return MapBatch._of(Entries(entries.keys, readonly(values), entries.offsets), batch._null_maps)
