"""MapBatch: many maps as three arrays, and the one place that validates arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, cast, overload

import numpy as np

from nbmapops import _cast
from nbmapops._maps import (
    DTYPES,
    INT64_MAX,
    Array,
    BadMap,
    MapReader,
    exact_map,
    int_array,
    kinds_of_map,
    readonly,
    type_name,
    value_array,
)
from nbmapops.errors import CastError, DuplicateKeyError, show

if TYPE_CHECKING:
    from nbmapops.arrow import Text


class TextKeys:
    """Text keys as codes of words, so that each distinct word is looked up once.

    Words may repeat (an Arrow dictionary may) and need not be used.
    """

    __slots__ = ("codes", "words")

    def __init__(self, codes: Array, words: Sequence[str]) -> None:
        self.codes = codes
        self.words = words

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, entries: slice) -> TextKeys:
        return TextKeys(self.codes[entries], self.words)

    def to_objects(self) -> Array:
        """Return the keys as an object array of str."""
        words = np.empty(len(self.words), object)
        words[:] = self.words
        return cast("Array", words[self.codes])

    def encode(self) -> tuple[Array, Sequence[str]]:
        """Return codes and words."""
        return self.codes, self.words


Keys: TypeAlias = "Array | TextKeys | Text"


class MapBatch:
    """Many maps as arrays: the layout of an Arrow map column and of CSR.

    Map ``i`` is the entries ``offsets[i]:offsets[i + 1]`` of `keys` and `values`. A batch is made
    by `from_arrays`, `from_dicts` or `from_arrow`, is immutable, and may be shared by threads.

    Attributes
    ----------
    keys : ndarray, shape (nnz,)
        int64, or object dtype holding str.
    values : ndarray, shape (nnz,)
        float32, float64, int64, or object dtype holding str.
    offsets : ndarray of int64, shape (B + 1,)
        Rises from 0 to ``nnz``.
    null_maps : ndarray of bool, shape (B,), or None
        The maps that were null in an Arrow column; they are empty here.

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
    def from_arrays(cls, keys: Any, values: Any, offsets: Any = None) -> MapBatch:
        """Make a batch of arrays or sequences.

        Parameters
        ----------
        keys : array_like, shape (nnz,)
            Integers that fit in int64, or str. bool counts as 0 and 1.
        values : array_like, shape (nnz,)
            Numbers (float64, float32, float16, bool, integers that fit in int64), or str.
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
            or do not end at ``nnz``.
        OverflowError
            An integer outside int64.

        Examples
        --------
        >>> MapBatch.from_arrays([1, 7, 7], [0.5, 2.0, 1.0], [0, 2, 2, 3]).to_dicts()
        [{1: 0.5, 7: 2.0}, {}, {7: 1.0}]
        """
        batch, bad = batch_of_arrays(keys, values, offsets, "MapBatch")
        if bad is not None:
            raise bad.error
        return batch

    @classmethod
    def from_dicts(
        cls, maps: Iterable[Mapping[Any, Any]], *, key_type: Any = None, value_type: Any = None
    ) -> MapBatch:
        """Make a batch of mappings.

        Parameters
        ----------
        maps : iterable of mappings
            Read once. All keys are integers or all are str. Values are all str or all numbers:
            ints give int64, np.float32 gives float32, any other mix of numbers float64.
        key_type : {"int64", "string"} or dtype, optional
            The type that the keys must have. Needed only where no map has an entry.
        value_type : {"float", "double", "int64", "string"} or dtype, optional
            The type that values are converted to, as by ``DictVectorizer(dtype=...)``.

        Returns
        -------
        MapBatch

        Raises
        ------
        TypeError
            An element that is no mapping; keys or values of mixed or other types.
        OverflowError
            An integer outside int64, or one that float64 cannot hold among floats.
        CastError
            A value that has no counterpart in `value_type`.

        Examples
        --------
        >>> MapBatch.from_dicts([{"a": 1}, {"b": 2.5}]).values
        array([1. , 2.5])
        """
        key_kind = None if key_type is None else type_name(key_type, "MapBatch: key_type")
        if key_kind not in (None, "int64", "string"):
            raise TypeError(f'MapBatch: key_type is {show(key_type)}; a key is "int64" or "string"')
        reader = MapReader(maps_of(maps, "MapBatch"), "MapBatch", key_kind)
        batch, bad = batch_of_reader(reader)
        if bad is not None:
            raise bad.error
        if value_type is None:
            return batch
        kind = type_name(value_type, "MapBatch: value_type")
        values, refused = _cast.cast_array(batch._values, value_kind(batch), kind, "exact")
        if len(refused):
            _raise_cast(batch, int(refused[0]), kind)
        return cls._of(batch._keys, values, batch._offsets)

    @classmethod
    def from_arrow(
        cls, column: Any, *, null_map: str = "error", null_value: Any = "error"
    ) -> MapBatch:
        """Make a batch of an Arrow map column (extra ``[arrow]``).

        Parameters
        ----------
        column : object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
            A pyarrow Array or ChunkedArray, a polars Series, a pandas Series with an Arrow
            dtype, ... of type map or list of struct with two fields.
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

        Examples
        --------
        >>> import pyarrow as pa
        >>> column = pa.array([[(1, 0.5)], None], pa.map_(pa.int64(), pa.float64()))
        >>> batch = MapBatch.from_arrow(column, null_map="empty")
        >>> batch.to_dicts(), batch.null_maps
        ([{1: 0.5}, {}], array([False,  True]))
        """
        from nbmapops import arrow  # the adapter imports pyarrow, an extra

        parts = arrow.read_column(column, null_map=null_map, null_value=null_value)
        keys = parts.keys
        if isinstance(keys, tuple):
            keys = TextKeys(readonly(keys[0]), keys[1])
        return cls._of(keys, parts.values, parts.offsets, parts.null_maps)

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
        """Which maps were null in an Arrow column, shape (B,); None where there was no null."""
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
        sums = np.zeros(len(first), self._values.dtype)
        np.add.at(sums, group, self._values)
        self._check_sums(sums, group, first)
        place = np.argsort(first)
        kept = first[place]
        offsets = np.searchsorted(kept, self._offsets).astype(np.int64)
        own = self._keys
        text = isinstance(own, np.ndarray)
        new_keys = own[kept] if text else _take(own, kept)  # type: ignore[index]
        return MapBatch._of(new_keys, sums[place], offsets, self._null_maps)

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


def _take(keys: TextKeys | Text, entries: Array) -> TextKeys:
    codes, words = keys.encode()
    return TextKeys(readonly(codes[entries]), words)


def _raise_cast(batch: MapBatch, entry: int, kind: str) -> NoReturn:
    number = map_of_entry(batch, entry)
    keys, values = entries_of(batch, number)
    position = entry - int(batch._offsets[number])
    try:
        _cast.cast_one(values[position], value_kind(batch), kind, "exact")
    except ValueError as reason:
        raise cast_error(
            f"MapBatch: map {number}", keys[position], values[position], kind, reason
        ) from None
    raise AssertionError("cast_array and cast_one disagree")


def cast_error(where: str, key: object, value: Any, kind: str, reason: object) -> CastError:
    """Return the error for a value that cannot be converted."""
    if isinstance(value, np.floating):
        value = float(value)
    target = "str" if kind == "string" else kind
    return CastError(
        f"{where}: key {show(key)}: value {show(value)} cannot become {target}: {reason}"
    )


# ------------------------------------------------------------------------------- arrays
def batch_of_arrays(
    keys: Any, values: Any, offsets: Any, operator: str, expected: str | None = None
) -> tuple[MapBatch, BadMap | None]:
    """Validate arrays or sequences and make them a batch.

    `expected` is the kind of key wanted. Where a map cannot be read, the batch holds the maps
    before it, so that a caller can look for an error among those first.
    """
    raw_keys = _column(keys, "keys", operator)
    raw_values = _column(values, "values", operator)
    if len(raw_keys) != len(raw_values):
        raise ValueError(
            f"{operator}: {len(raw_keys)} keys but {len(raw_values)} values; each entry has one "
            "of both"
        )
    starts = _offsets(offsets, len(raw_keys), operator)
    ready_keys = _typed(raw_keys, "keys", operator)
    ready_values = _typed(raw_values, "values", operator)
    if ready_keys is None or ready_values is None:
        return _by_scalars(
            raw_keys if ready_keys is None else ready_keys,
            raw_values if ready_values is None else ready_values,
            starts,
            operator,
            expected,
        )
    return MapBatch._of(ready_keys, ready_values, starts), None


def _column(data: Any, what: str, operator: str) -> Any:
    """Return data as a 1-D array, a list of scalars, or an Arrow array as it is."""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(f"{operator}: {what} are a masked array; pass .compressed() or .filled()")
    if isinstance(data, np.ndarray):
        array = np.asarray(data)
        if array.ndim != 1:
            raise ValueError(f"{operator}: {what} must be 1-D; the array given is {array.ndim}-D")
        return array
    if isinstance(data, (str, bytes, bytearray, Mapping, Set)) or not isinstance(data, Iterable):
        raise TypeError(
            f"{operator}: {what} must be an array or a sequence, not {type(data).__name__}"
        )
    if hasattr(data, "__array__") and hasattr(data, "dtype"):  # a pandas Series or Index
        return _column(np.asarray(data), what, operator)
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        return _column(np.array(data.to_pylist(), object), what, operator)
    return list(data)


def _typed(data: Any, what: str, operator: str) -> Any:
    """Return a column of one plain type, made canonical; None where single scalars must say."""
    if isinstance(data, list):
        return _typed_list(data, what)
    if data.dtype == object:
        if len(data) == 0:
            return text_keys([]) if what == "keys" else np.empty(0, object)
        return _typed_list(data.tolist(), what)
    kind, size = data.dtype.kind, data.dtype.itemsize
    if kind in "UT":
        if len(data) == 0:
            return text_keys([]) if what == "keys" else np.empty(0, object)
        return _typed_list(data.tolist(), what)
    if kind == "u" and size == 8 and len(data) and int(data.max()) > INT64_MAX:
        return None  # the scalar rules name the map and the key
    if kind in "biu":
        return _canonical(data, np.int64)
    if what == "values" and kind == "f" and size <= 8:
        return _canonical(data, np.float64 if size == 8 else np.float32)
    takes = "integers or str" if what == "keys" else "numbers (at most 64 bits) or str"
    raise TypeError(f"{operator}: {what} are an array of {data.dtype}; {what} are {takes}")


def _typed_list(data: list[Any], what: str) -> Any:
    """Return a list of one of Python's own types as an array; None for any other list."""
    types = set(map(type, data))
    if types <= {int}:
        try:
            # An empty list fixes no type: float64 is what values are then.
            return np.array(data, np.int64 if data or what == "keys" else np.float64)
        except OverflowError:
            return None
    if types == {str}:
        return text_keys(data) if what == "keys" else value_array(data, "string")
    if types == {float} and what == "values":
        return np.array(data, np.float64)
    return None


def _canonical(data: Array, dtype: Any) -> Array:
    return readonly(np.ascontiguousarray(data, dtype))


def _by_scalars(
    keys: Any, values: Any, offsets: Array, operator: str, expected: str | None
) -> tuple[MapBatch, BadMap | None]:
    """Make a batch by the rules of single scalars, map by map.

    The same steps as `MapReader` takes for dicts, in the same order, so that the same map is the
    first bad one.
    """
    key_list, value_list = _scalars(keys), _scalars(values)
    key_kind_, value_kind_ = expected, None
    bounds = offsets.tolist()
    maps = [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    bad: BadMap | None = None
    for number, entries in enumerate(maps):
        where = f"{operator}: map {number}"
        try:
            key_kind_, value_kind_ = kinds_of_map(
                where, key_list[entries], value_list[entries], key_kind_, value_kind_
            )
        except TypeError as error:
            bad = BadMap(number, error)
            break
    exact_keys: list[Any] = []
    exact_values: list[Any] = []
    # Only now is it known whether floats among the values make float64 of the ints.
    for number, entries in enumerate(maps[: bad.number if bad else None]):
        where = f"{operator}: map {number}"
        try:
            map_keys, map_values = exact_map(
                where, key_list[entries], value_list[entries], value_kind_
            )
        except OverflowError as error:
            bad = BadMap(number, error)
            break
        exact_keys += map_keys
        exact_values += map_values
    ready_keys: Keys = text_keys(exact_keys) if key_kind_ == "string" else int_array(exact_keys)
    ready_values = value_array(exact_values, value_kind_ or "float64")
    if bad is not None:
        offsets = offsets[: bad.number + 1]
    return MapBatch._of(ready_keys, ready_values, offsets), bad


def _scalars(data: Any) -> list[Any]:
    """Return the elements; those of a float32 array stay NumPy scalars, which know their type."""
    if isinstance(data, TextKeys):
        return cast("list[Any]", data.to_objects().tolist())
    if not isinstance(data, np.ndarray):
        return list(data)
    return list(data) if data.dtype == np.float32 else cast("list[Any]", data.tolist())


def text_keys(keys: Iterable[str]) -> TextKeys:
    """Return str keys as codes and words."""
    words: dict[str, int] = {}
    codes = int_array([words.setdefault(key, len(words)) for key in keys])
    return TextKeys(readonly(codes), tuple(words))


def _offsets(offsets: Any, entries: int, operator: str) -> Array:
    """Return a validated copy of offsets."""
    if offsets is None:
        return int_array([0, entries])
    raw = _column(offsets, "offsets", operator)
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "iu":
        if raw.dtype.kind == "u" and len(raw) and int(raw.max()) > INT64_MAX:
            raise ValueError(f"{operator}: offsets must end at {entries}, the number of entries")
        array = np.array(raw, np.int64, order="C")
    else:
        scalars = _scalars(raw)
        if not all(
            isinstance(x, (int, np.integer)) and not isinstance(x, (bool, np.timedelta64))
            for x in scalars
        ):
            raise TypeError(f"{operator}: offsets must be integers")
        if any(not 0 <= x <= entries for x in scalars):
            raise ValueError(
                f"{operator}: offsets must lie between 0 and {entries}, the number of entries"
            )
        array = int_array(scalars)
    if len(array) == 0:
        raise ValueError(f"{operator}: offsets are empty; B maps have B + 1 offsets")
    if array[0] != 0:
        raise ValueError(f"{operator}: offsets start at {array[0]}; they must start at 0")
    falls = np.flatnonzero(array[1:] < array[:-1])
    if len(falls):
        number = int(falls[0])
        raise ValueError(
            f"{operator}: map {number}: offsets fall from {array[number]} to {array[number + 1]}"
        )
    if array[-1] != entries:
        raise ValueError(
            f"{operator}: offsets end at {array[-1]}, but there are {entries} entries; "
            "every entry must belong to a map"
        )
    return array


# ------------------------------------------------------------------------------- Python maps
def _refuse_frames(maps: Any, operator: str) -> None:
    name = type(maps).__name__
    if name in ("DataFrame", "LazyFrame") and hasattr(maps, "columns"):
        raise TypeError(
            f"{operator}: a {name} is no batch of maps; pass a column of maps, or "
            'df.to_dict("records") (pandas), df.to_dicts() (polars)'
        )


def maps_of(maps: Any, operator: str) -> Iterable[Any]:
    """Return an iterable of mappings, after the checks that need no look at an element."""
    _refuse_frames(maps, operator)
    if isinstance(maps, np.ndarray) and (maps.dtype != object or maps.ndim != 1):
        raise TypeError(
            f"{operator}: an array of {maps.dtype} with {maps.ndim} dimensions holds no maps; "
            "pass keys, values and offsets"
        )
    if isinstance(maps, (str, bytes, bytearray, Mapping)) or not isinstance(maps, Iterable):
        raise TypeError(
            f"{operator}: {type(maps).__name__} is no map and no batch of maps; pass a mapping, "
            "an iterable of mappings, a MapBatch, an Arrow map column, or keys and values"
        )
    return maps


def batch_of_reader(reader: MapReader) -> tuple[MapBatch, BadMap | None]:
    """Read all maps into one batch; where one cannot be read, the maps before it."""
    keys, values, lengths = [int_array([])], [], [int_array([0])]
    bad: BadMap | None = None
    try:
        for chunk in reader.chunks():
            lengths.append(np.diff(chunk.offsets))
            if len(chunk.values):  # no entry fixes no kind of value
                keys.append(chunk.keys.copy())
                values.append(chunk.values.copy())
    except BadMap as error:
        bad = error
    dtype = DTYPES[reader.value_kind or "float64"]
    all_values = np.concatenate(values, dtype=dtype) if values else np.empty(0, dtype)
    offsets = np.cumsum(np.concatenate(lengths), dtype=np.int64)
    all_keys: Keys = np.concatenate(keys)
    if reader.key_kind == "string":
        all_keys = TextKeys(readonly(all_keys), tuple(reader.words))
    batch = MapBatch._of(all_keys, all_values, offsets)
    return (batch if bad is None else batch[: bad.number]), bad


class Input(NamedTuple):
    """What an operator was called with."""

    source: MapBatch | MapReader | Mapping[Any, Any]  # a batch, an iterable of maps, one map
    one: bool  # the result is that of one map
    bad: BadMap | None = None  # a map of the source that cannot be read; the batch ends before it


def read_input(
    operator: str, maps: Any, values: Any, offsets: Any, expected: str | None
) -> Input:
    """Tell what an operator was called with; `expected` is the kind of key it takes."""
    if values is not None:
        if isinstance(maps, (Mapping, MapBatch)):
            raise TypeError(
                f"{operator}: a second argument goes with keys, but the first is "
                f"{type(maps).__name__}; pass one map, one batch, or keys and values"
            )
        batch, bad = batch_of_arrays(maps, values, offsets, operator, expected)
        return Input(batch, offsets is None, bad)
    if offsets is not None:
        raise TypeError(f"{operator}: offsets go with keys and values")
    if isinstance(maps, MapBatch):
        return Input(maps, one=False)
    if type(maps) is dict:
        return Input(maps, one=True)
    if type(maps).__name__ == "MapScalar":
        from nbmapops import arrow

        pairs = arrow.map_scalar(maps)
        if pairs is not None:
            keys, items = [key for key, _ in pairs], [item for _, item in pairs]
            batch, bad = batch_of_arrays(keys, items, None, operator, expected)
            return Input(batch, one=True, bad=bad)
    if isinstance(maps, Mapping):
        return Input(maps, one=True)
    _refuse_frames(maps, operator)
    exports = hasattr(maps, "__arrow_c_array__") or hasattr(maps, "__arrow_c_stream__")
    # pandas exports every Series; one of a NumPy dtype holds Python objects, and needs no pyarrow.
    if exports and not isinstance(getattr(maps, "dtype", None), np.dtype):
        from nbmapops import arrow

        if arrow.is_column(maps):
            return Input(MapBatch.from_arrow(maps), one=False)
    return Input(MapReader(maps_of(maps, operator), operator, expected), one=False)
