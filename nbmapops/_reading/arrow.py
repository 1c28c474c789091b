"""Arrow columns of maps, read into plain parts: keys, values, offsets, mask of null maps.

Anything that exports Arrow data is read: pyarrow arrays, polars and narwhals Series, pandas Series
with an Arrow dtype, DuckDB relations of one column.  Keys and values that are int64, float64 or
float32 without nulls are views of the Arrow buffers; offsets are always copied.
"""

from __future__ import annotations

import re
import sys
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nbmapops._constants import INT64_MAX
from nbmapops._reading.arrowlib import pa, pc
from nbmapops._reading.entries import Entries, Int64Keys, KeyColumn, KeyKind, TextKeys, readonly
from nbmapops._reading.scalars import DTYPES, BadMap, exact_value, inexact_error, promote
from nbmapops._values import cast_array
from nbmapops._vocabulary import range_index
from nbmapops.errors import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmapops._constants import Array
    from nbmapops._vocabulary import Index, Vocabulary

__all__ = ["Text", "is_column", "read_column", "read_maps"]

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_SURROGATE = re.compile("[\ud800-\udfff]")


class Text:
    """Text keys that stay in Arrow: strings, or dictionaries of strings, without nulls."""

    __slots__ = ("_data",)

    kind: ClassVar[KeyKind] = "string"

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def to_arrow(self) -> Any:
        """Return the keys as a ``pyarrow.ChunkedArray``."""
        return self._data

    def __getitem__(self, part: slice) -> Text:
        """Return the entries of a slice of step 1, without a copy."""
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise ValueError("text keys are sliced with step 1")
        return Text(self._data.slice(start, max(stop - start, 0)))

    def take(self, entries: Array) -> TextKeys:
        """See `KeyColumn`."""
        codes, words = self.encode()
        return TextKeys(codes[entries], words)

    def to_array(self) -> Array:
        """See `KeyColumn`."""
        parts = [_values(_plain(chunk), None, _NO_FILL) for chunk in self._data.chunks]
        return readonly(_joined(parts, np.dtype(object)))

    def shares_memory(self, out: Array) -> bool:
        """See `KeyColumn`."""
        return any(
            np.may_share_memory(out, np.frombuffer(buffer, np.uint8))
            for chunk in self._data.chunks
            for buffer in chunk.buffers()
            if buffer is not None
        )

    def place(self, vocabulary: Vocabulary) -> tuple[Array, Index]:
        """See `KeyColumn`: the columns, which may lie in an Arrow buffer."""
        return readonly(self.columns(vocabulary)), range_index(len(vocabulary))

    def columns(self, vocabulary: Vocabulary) -> Int32Array:
        """Return the column of each key in a vocabulary of text, -1 where it is not a word."""
        if not _is_words(self._data.type):
            return _columns(self._data, vocabulary)
        parts: list[Int32Array] = []
        dictionary, table = None, None
        for chunk in map(_plain, self._data.chunks):
            if dictionary is None or not dictionary.equals(chunk.dictionary):
                dictionary = chunk.dictionary
                same = _are_words(dictionary, vocabulary)  # then positions are columns
                table = None if same else _columns(dictionary, vocabulary)
            positions = _view(chunk.indices)
            if table is not None:
                # 1.4 ns a key, table[positions] 2.0; all positions are checked already
                positions = table.take(positions, mode="clip")
            parts.append(positions)
        return _joined(parts, np.dtype(np.int32))

    def encode(self) -> tuple[Int64Array, tuple[str, ...]]:
        """Return codes and words; those of dictionaries may repeat, and need not be used."""
        data = self._data
        data = data.unify_dictionaries() if _is_words(data.type) else data.dictionary_encode()
        codes = [_view(chunk.indices).astype(np.int64) for chunk in data.chunks]
        words = tuple(data.chunk(0).dictionary.to_pylist()) if codes else ()
        return _joined(codes, np.dtype(np.int64)), words


def text_of(column: Any, name: str) -> Text:
    """Return a ChunkedArray of text without nulls as keys; `name` is the front of messages."""
    try:
        for chunk in column.chunks:
            chunk.validate()
            _validate_text(chunk)
    except pa.ArrowException as error:
        raise ValueError(f"{name} are a corrupt Arrow column: {error}") from error
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return Text(column)


class _Rules(NamedTuple):
    """What becomes of nulls: "error" or "empty"; "error", "skip" or "fill" and the fill."""

    null_map: str
    null_value: str
    fill: Any
    operator: str = "MapBatch"


_NO_FILL = _Rules("error", "error", None)


class _Entries(NamedTuple):
    """Entries of one chunk: Arrow keys and values, offsets from 0, masks or None."""

    keys: Any
    values: Any
    offsets: Int64Array
    holes: BoolArray | None
    null_maps: BoolArray | None

    def kept(self, keep: BoolArray) -> _Entries:
        """Return the entries where `keep` is true."""
        chosen = pa.array(keep)
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)))
        return self._replace(
            keys=self.keys.filter(chosen),
            values=self.values.filter(chosen),
            offsets=ends[self.offsets],
            holes=None if self.holes is None else self.holes[keep],
        )

    def before(self, row: int) -> _Entries:
        """Return the maps before map `row`, none of which has a hole."""
        offsets = self.offsets[: row + 1]
        end = int(offsets[-1])
        nulls = None if self.null_maps is None else self.null_maps[:row]
        return _Entries(self.keys.slice(0, end), self.values.slice(0, end), offsets, None, nulls)


def is_column(obj: object) -> bool:
    """Whether an object is Arrow data (a pandas Series: only with an Arrow dtype)."""
    if hasattr(getattr(obj, "dtype", None), "pyarrow_dtype"):
        return True
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(obj, pandas.Series):
        return False
    exports = hasattr(obj, "__arrow_c_stream__") or hasattr(obj, "__arrow_c_array__")
    return exports or isinstance(obj, pa.MapScalar)


def read_column(
    column: object, *, null_map: str = "error", null_value: Any = "error"
) -> tuple[Entries, BoolArray | None]:
    """Read an Arrow column, or a MapScalar, as `MapBatch.from_arrow` says."""
    entries, null_maps, bad = read_maps(column, null_map=null_map, null_value=null_value)
    if bad is not None:
        raise bad.error
    return entries, null_maps


def read_maps(
    column: object,
    *,
    null_map: str = "error",
    null_value: Any = "error",
    operator: str = "MapBatch",
    skip_large: bool = False,
) -> tuple[Entries, BoolArray | None, BadMap | None]:
    """Read an Arrow column up to the first map that cannot be taken.

    Returns the entries of the maps before it, or of all; which maps are null (and read as empty),
    None where none is; and what is wrong with the map that cannot be taken, or None. `operator` is
    the name at the front of messages.
    """
    chunked, bad_struct = _import(column, operator), None
    if pa.types.is_struct(chunked.type):
        chunked, bad_struct = _maps_of_structs(chunked, null_value, operator)
    key_type, value_type = _entry_types(chunked.type, operator)
    rules = _rules(null_map, null_value, value_type)._replace(operator=operator)
    text = _plain(pa.nulls(0, key_type)).type if _is_text(_plain_type(key_type)) else None
    keys: list[Any] = []
    values: list[npt.NDArray[Any]] = []
    offsets: list[Int64Array] = []
    null_maps: list[BoolArray] = []
    first = end = 0
    masked = False
    bad = None
    chunks = [part for part in chunked.chunks if len(part)]
    for chunk in chunks:
        _validate(chunk, operator)
    for chunk in _fewer(chunks):
        entries = _visible(chunk, operator)
        large = _above(entries.keys, _nulls(entries.keys)) if skip_large else None
        if large is not None:
            entries = entries.kept(~large)
        null_values = _nulls(entries.values)
        bad = _bad_map(entries, null_values, rules, first)
        if bad is not None:
            entries = entries.before(bad.number - first)
            null_values = _nulls(entries.values)
        if null_values is not None and rules.null_value == "skip":
            entries, null_values = entries.kept(~null_values), None
        count = len(entries.offsets) - 1
        if _is_words(entries.keys.type):
            _positions(entries.keys, None, operator)
        keys.append(entries.keys if text else _numbers(entries.keys))
        values.append(_values(entries.values, null_values, rules))
        offsets.append(entries.offsets[1:] + end if offsets else entries.offsets)
        null_maps.append(_mask(entries.null_maps, count))
        masked = masked or bool(null_maps[-1].any())
        if bad is not None:
            break
        first += count
        end += len(entries.keys)
    all_keys: KeyColumn
    if text:
        all_keys = Text(pa.chunked_array(keys, type=text))
    else:
        all_keys = Int64Keys(_joined(keys, np.dtype(np.int64)))
    found = Entries(
        all_keys,
        readonly(_joined(values, _dtype(value_type))),
        readonly(_joined(offsets or [np.zeros(1, np.int64)], np.dtype(np.int64))),
    )
    return found, np.concatenate(null_maps) if masked else None, bad or bad_struct


def _import(column: Any, operator: str) -> Any:
    """Return any Arrow column as a ChunkedArray."""
    if isinstance(column, pa.MapScalar):
        if not column.is_valid:
            return pa.chunked_array([pa.nulls(1, column.type)])
        ends = pa.array([0, len(column)], pa.int32())
        return pa.chunked_array([pa.ListArray.from_arrays(ends, column.values)])
    if not is_column(column):
        lazy = "; .collect() it and pick the column" if hasattr(column, "collect") else ""
        raise TypeError(f"{operator}: {type(column).__name__} is not an Arrow column of maps{lazy}")
    if hasattr(column, "columns"):
        names = list(getattr(column, "column_names", column.columns))
        duckdb = sys.modules.get("duckdb")
        relation = duckdb is not None and isinstance(column, duckdb.DuckDBPyRelation)
        if not (relation and len(names) == 1):
            raise TypeError(_table_message(column, names, operator))
        return pa.table(column).column(0)
    if isinstance(column, pa.ChunkedArray):
        return column
    try:
        if hasattr(column, "__arrow_c_stream__"):
            return pa.chunked_array(column)
        array = pa.array(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeError(
            f"{operator}: pyarrow cannot read this {type(column).__name__} "
            f"({getattr(column, 'dtype', 'no dtype')}): {error}; cast the column to types that "
            "Arrow has (128-bit integers: to Int64 or Decimal)"
        ) from error
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _validate(maps: Any, operator: str) -> None:
    """Refuse a chunk that points outside its buffers, which would end the process."""
    # validate() of a map refuses nulls among entries that belong to no map, too; its offsets are
    # checked where they are read
    checked = maps.values if pa.types.is_map(maps.type) else maps
    try:
        checked.validate(full=hasattr(maps, "sizes"))
        entries = maps.values
        if hasattr(maps, "offsets") and not hasattr(maps, "sizes"):
            start, stop = (maps.offsets[place].as_py() for place in (0, -1))
            entries = entries[max(start, 0) : max(stop, 0)]
        for number in (0, 1):
            _validate_text(entries.field(number))
    except pa.ArrowException as error:
        raise ValueError(f"{operator}: the Arrow column is corrupt: {error}") from error


def _validate_text(array: Any) -> None:
    """Refuse text that points outside its buffer or is no UTF-8: validate(full=True) takes 7 ns."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary
    if pa.types.is_string_view(array.type):
        array.validate(full=True)
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)) or not array:
        return
    _, offsets, text = array.buffers()
    dtype = np.dtype(np.int32 if pa.types.is_string(array.type) else np.int64)
    ends = np.frombuffer(offsets, dtype, len(array) + 1, array.offset * dtype.itemsize)
    size = 0 if text is None else text.size
    if ends[0] < 0 or ends[-1] > size or (ends[1:] < ends[:-1]).any():
        raise pa.ArrowInvalid("offsets of text lie outside its buffer")
    if size and np.frombuffer(text, np.uint8)[ends[0] : ends[-1]].max(initial=0) > 127:
        array.validate(full=True)  # ASCII, which is UTF-8 however it is cut, takes 1 ns


def _fewer(chunks: list[Any]) -> list[Any]:
    """Join many small chunks: reading one takes 40-600 us, joining it 2-50."""
    if len(chunks) < 8 or sum(len(chunk) for chunk in chunks) > 1000 * len(chunks):
        return chunks
    try:
        return [pa.concat_arrays(chunks)]
    except pa.ArrowException:
        # more entries or text than int32 offsets reach, or a type that pyarrow cannot join
        return chunks


def _table_message(table: Any, names: list[Any], operator: str) -> str:
    shown = ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
    number = next((n for n, kind in enumerate(_column_types(table)) if _MAPS.search(str(kind))), 0)
    name = names[number] if names else "name"
    column = f"column({number})" if names.count(name) > 1 else f"[{name!r}]"
    message = (
        f"{operator}: {type(table).__name__} is a table, not a column of maps; "
        f"pick the column, e.g. table{'.' if names.count(name) > 1 else ''}{column} "
        f"(columns: {shown})"
    )
    for method in ("to_dicts()", "to_pylist()", 'to_dict("records")'):
        if hasattr(table, method.partition("(")[0]):
            return f"{message}, or pass table.{method} if every row is a map"
    return message


_MAPS = re.compile(r"\b(map|struct)\b", re.IGNORECASE)


def _column_types(table: Any) -> list[Any]:
    """Return the types of a table's columns: of pyarrow, DuckDB, polars or pandas."""
    holders = [getattr(table, "schema", None), table, table]
    names = ["types", "types", "dtypes"]
    found = [getattr(*pair, None) for pair in zip(holders, names, strict=True)]
    return next((list(types) for types in found if types is not None), [])


def _entry_types(column_type: Any, operator: str) -> tuple[Any, Any]:
    """Return key and value type of a column of maps, or say what is wrong with it."""
    types = pa.types
    if types.is_map(column_type):
        key_type, value_type = column_type.key_type, column_type.item_type
    elif (
        any(is_list(column_type) for is_list in _LISTS)
        and types.is_struct(column_type.value_type)
        and column_type.value_type.num_fields == 2
    ):
        key_type, value_type = (column_type.value_type.field(i).type for i in (0, 1))
    else:
        raise TypeError(
            f"{operator}: a column of {column_type} does not hold maps (map<key, value>, a list of "
            'struct<key, value>, or struct); pick the column of maps, e.g. table["name"]'
        )
    plain = _plain_type(key_type)
    if not (types.is_integer(plain) or types.is_boolean(plain) or _is_text(plain)):
        raise TypeError(
            f"{operator}: keys must be integers or text, not {key_type}; "
            "cast the column to keys of int64 or string"
        )
    if _value_kind(value_type) is None:
        raise TypeError(
            f"{operator}: values must be numbers or text, not {value_type}; "
            "cast the column to values of double, int64 or string"
        )
    return key_type, value_type


_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
    pa.types.is_fixed_size_list,
)


def _value_kind(arrow_type: Any) -> str | None:
    """Return the kind of values that a type holds; decimals with no places are integers."""
    types, plain = pa.types, _plain_type(arrow_type)
    if _is_text(plain):
        return "string"
    if types.is_decimal(plain):
        return "float64" if plain.scale > 0 else "int64"
    if types.is_floating(plain):
        return "float64" if types.is_float64(plain) else "float32"
    return "int64" if types.is_integer(plain) or types.is_boolean(plain) else None


def _plain_type(arrow_type: Any) -> Any:
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def _is_text(arrow_type: Any) -> bool:
    types = pa.types
    return bool(
        types.is_string(arrow_type)
        or types.is_large_string(arrow_type)
        or types.is_string_view(arrow_type)
    )


def _is_words(arrow_type: Any) -> bool:
    return bool(pa.types.is_dictionary(arrow_type)) and _is_text(arrow_type.value_type)


def _rules(null_map: str, null_value: Any, value_type: Any) -> _Rules:
    """Check what is to become of nulls."""
    if null_map not in ("error", "empty"):
        raise ValueError(f'null_map must be "error" or "empty", not {show(null_map)}')
    if isinstance(null_value, str):
        if null_value in ("error", "skip"):
            return _Rules(null_map, null_value, None)
        if _is_text(_plain_type(value_type)):
            return _Rules(null_map, "fill", null_value)
    elif isinstance(null_value, int | float | np.integer | np.floating | np.bool_):
        dtype = _dtype(value_type)
        if dtype.kind != "O":
            return _Rules(null_map, "fill", _exact(null_value, dtype))
    raise TypeError(
        f'null_value must be "error", "skip" or fit values of type {value_type}, '
        f"not {show(null_value)}"
    )


def _exact(number: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number in the type of the values, if it is the same number there."""
    number = number.item() if isinstance(number, np.generic) else number
    try:
        with np.errstate(over="ignore"):
            fitted = dtype.type(int(number) if dtype.kind == "i" else number)
        if fitted.item() == number or np.isnan(number):
            return fitted
    except (OverflowError, ValueError):
        pass
    raise ValueError(f"null_value {show(number)} has no exact {dtype} value")


def _visible(maps: Any, operator: str) -> _Entries:
    """Return the entries of a chunk that belong to a map that is not null."""
    null_maps = _nulls(maps)
    if hasattr(maps, "offsets") and not hasattr(maps, "sizes"):
        offsets = maps.offsets.to_numpy().astype(np.int64)
        child = maps.values
        start, stop = int(offsets[0]), int(offsets[-1])
        offsets -= start
    else:
        # list views and fixed size lists: flatten leaves out what null rows hide
        child = maps.flatten()
        sizes = maps.sizes.to_numpy() if hasattr(maps, "sizes") else maps.type.list_size
        lengths = np.where(_mask(null_maps, len(maps)), 0, sizes)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
        start, stop = 0, len(child)
    falls = (offsets[1:] < offsets[:-1]).any()
    if start < 0 or stop > len(child) or offsets[-1] != stop - start or falls:
        raise ValueError(f"{operator}: the offsets of the Arrow column do not fit its entries")
    child = child.slice(start, stop - start)
    # field() heeds the offset of the struct; .keys and .items of a MapArray do not
    keys, values = (_plain(child.field(i), operator) for i in (0, 1))
    entries = _Entries(keys, values, offsets, _nulls(child), null_maps)
    if null_maps is not None:
        lengths = np.diff(offsets)
        if lengths[null_maps].any():
            return entries.kept(np.repeat(~null_maps, lengths))
    return entries


def _plain(array: Any, operator: str = "MapBatch") -> Any:
    """Return an array of a type that pyarrow can filter and look up."""
    if pa.types.is_dictionary(array.type):
        if not _is_text(array.type.value_type):
            _positions(array, _nulls(array.indices), operator)
            return array.dictionary_decode()
        dictionary = array.dictionary
        if pa.types.is_string_view(dictionary.type):
            dictionary = dictionary.cast(pa.large_string())
        if array.indices.type.bit_width > 32 or pa.types.is_uint32(array.indices.type):
            _positions(array, _nulls(array.indices), operator)
        indices = array.indices.cast(pa.int32())
        array = pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)
        # a dictionary may hold null as a word, or (a slice) many words that no entry here uses
        if dictionary.null_count or len(dictionary) > len(array):
            _positions(array, _nulls(array.indices), operator)
            array = array.dictionary_decode().dictionary_encode()
    elif pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return array


def _nulls(array: Any) -> BoolArray | None:
    """Return the mask of nulls, None if there are none."""
    if not array.null_count:
        return None
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False))


def _mask(nulls: BoolArray | None, length: int) -> BoolArray:
    return np.zeros(length, np.bool_) if nulls is None else nulls


def _bad_map(
    entries: _Entries, null_values: BoolArray | None, rules: _Rules, first: int
) -> BadMap | None:
    """Return the first map of a chunk that cannot be taken; `first` is the chunk's map 0."""
    skipped = null_values if rules.null_value == "skip" else None
    checks: list[tuple[BoolArray | None, type[Exception], str]] = [
        (entries.holes, ValueError, "an entry is null"),
        (_nulls(entries.keys), ValueError, "a key is null"),
        (
            _above(entries.keys, skipped),
            OverflowError,
            _LARGE_KEY,
        ),
        (
            _above(entries.values, null_values),
            OverflowError,
            "key {}: value {} does not fit in int64",
        ),
    ]
    if pa.types.is_decimal(entries.values.type):
        checks.append((_decimals(entries.values)[1], OverflowError, _no_exact(entries.values)))
    if rules.null_value == "error":
        checks.append((null_values, ValueError, _NULL_VALUE))
    found = [
        (_map_of(entries.offsets, int(mask.argmax())), order, int(mask.argmax()))
        for order, (mask, _, _) in enumerate(checks)
        if mask is not None and mask.any()
    ]
    row, order, entry = min(found, default=(len(entries.offsets), 0, 0))
    if rules.null_map == "error" and entries.null_maps is not None:
        null_row = int(entries.null_maps.argmax())
        if null_row < row:
            number = first + null_row
            return BadMap(number, ValueError(f"{rules.operator}: map {number} {_NULL_MAP}"))
    if not found:
        return None
    _, error, text = checks[order]
    for array in (entries.keys, entries.values):
        if pa.types.is_dictionary(array.type):
            shown = array.slice(entry, 1)
            _positions(shown, _nulls(shown.indices), rules.operator)
    key, value = (show(array[entry].as_py()) for array in (entries.keys, entries.values))
    number = first + row
    return BadMap(number, error(f"{rules.operator}: map {number}: {text.format(key, value)}"))


_LARGE_KEY = (
    "key {} does not fit in int64; larger keys must be text, as words of a string_vocabulary"
)


def _no_exact(array: Any) -> str:
    kind = _value_kind(array.type)
    return f"key {{}}: value {{}} has no exact {kind}; cast the values to double first"


_NULL_MAP = 'is null; MapBatch.from_arrow(column, null_map="empty") reads null maps as empty'
_NULL_VALUE = (
    'the value of key {} is null; MapBatch.from_arrow(column, null_value="skip") leaves such '
    "entries out, null_value=<a value> fills them"
)


def _map_of(offsets: Int64Array, entry: int) -> int:
    return int(np.searchsorted(offsets, entry, side="right")) - 1


def _above(array: Any, nulls: BoolArray | None) -> BoolArray | None:
    """Return where unsigned numbers do not fit int64; None for all other types."""
    if not pa.types.is_uint64(array.type):
        return None
    above: BoolArray = _view(array) > INT64_MAX
    return above if nulls is None else above & ~nulls


def _view(array: Any) -> npt.NDArray[Any]:
    """Return the data buffer of a primitive array; what stands at a null is undefined."""
    dtype = _buffer_dtype(array.type)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, dtype)
    view = np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)
    # producers other than pyarrow need not align their buffers
    view = np.require(view, requirements="A")
    view.flags.writeable = False
    return view


def _buffer_dtype(arrow_type: Any) -> np.dtype[Any]:
    """Return the dtype of a data buffer; Arrow's to_pandas_dtype() may import pandas."""
    types = pa.types
    unsigned = "u" if types.is_unsigned_integer(arrow_type) else "i"
    kind = "f" if types.is_floating(arrow_type) else unsigned
    return np.dtype(f"{kind}{arrow_type.bit_width // 8}")


def _values(array: Any, nulls: BoolArray | None, rules: _Rules) -> npt.NDArray[Any]:
    """Return values as numbers or as objects, with the fill where they are null."""
    values: npt.NDArray[Any]
    if _is_words(array.type):
        words = np.array([*array.dictionary.to_pylist(), None], object)
        values = words[_positions(array, nulls, rules.operator)]
    else:
        values = _objects(array) if _is_text(array.type) else _numbers(array)
    if nulls is not None:
        values = np.array(values)
        values[nulls] = rules.fill
    return values


def _positions(array: Any, nulls: BoolArray | None, operator: str) -> npt.NDArray[Any]:
    """Return positions in a dictionary, that of a null behind the last word."""
    positions, end = _view(array.indices), len(array.dictionary)
    if nulls is not None:
        positions, end = np.where(nulls, end, positions.astype(np.int64)), end + 1
    # seen as unsigned, negative positions lie behind the end too: one pass
    if len(positions) and positions.view(f"u{positions.itemsize}").max() >= end:
        raise ValueError(f"{operator}: the Arrow column points outside its dictionary")
    return positions


def _decimals(array: Any) -> tuple[npt.NDArray[Any], BoolArray]:
    """Return decimals as int64 or float64, and which of them have no exact one."""
    numbers = np.zeros(len(array), _dtype(array.type))
    lost = np.zeros(len(array), np.bool_)
    whole = numbers.dtype == np.int64
    for entry, decimal in enumerate(array.to_pylist()):
        if decimal is not None:
            number = exact_value(decimal)
            lost[entry] = number is None or (
                type(number) is not int if whole else float(number) != number
            )
            numbers[entry] = 0 if lost[entry] else number
    return numbers, lost


def _numbers(array: Any) -> npt.NDArray[Any]:
    """Return numbers as int64, float64 or float32: a view where that is their type."""
    if pa.types.is_decimal(array.type):
        return _decimals(array)[0]
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int64())
    numbers: npt.NDArray[Any] = _view(array).astype(_dtype(array.type), copy=False)
    return numbers


def _objects(array: Any) -> npt.NDArray[np.object_]:
    objects: npt.NDArray[np.object_] = array.to_numpy(zero_copy_only=False)
    return objects


def _dtype(arrow_type: Any) -> np.dtype[Any]:
    return DTYPES[_value_kind(arrow_type) or "string"]


def _are_words(dictionary: Any, vocabulary: Vocabulary) -> bool:
    """Whether a dictionary is the vocabulary, so that its positions are the columns."""
    if len(dictionary) != len(vocabulary) or vocabulary.copies is not None:
        return False
    return bool(dictionary.cast(pa.large_string()).equals(_word_set(vocabulary)))


def _columns(text: Any, vocabulary: Vocabulary) -> Int32Array:
    """Return the columns of text, -1 where it is no word."""
    if len(text) < len(vocabulary):  # pyarrow would first hash every word: 100 ns each
        found = map(vocabulary.columns.get, text.to_pylist(), repeat(-1))
        return np.fromiter(found, np.int32, len(text))
    parts: list[Int32Array] = []
    found = pc.index_in(text, value_set=_word_set(vocabulary))
    for chunk in found.chunks if isinstance(found, pa.ChunkedArray) else [found]:
        columns, missing = _view(chunk), _nulls(chunk)
        if missing is not None:
            # 0.8 ns a key; columns[missing] = -1 takes 4.6 where half of the keys are missing
            columns = columns + 1
            columns *= ~missing
            columns -= 1
        parts.append(columns)
    return _joined(parts, np.dtype(np.int32))


def _word_set(vocabulary: Vocabulary) -> Any:
    """Return words as Arrow text, null for one with a lone surrogate: no Arrow text equals it."""
    if vocabulary.arrow_words is None:
        words = vocabulary.words
        try:
            vocabulary.arrow_words = pa.array(words, pa.large_string())
        except UnicodeEncodeError:
            fit = [None if _SURROGATE.search(word) else word for word in words]
            vocabulary.arrow_words = pa.array(fit, pa.large_string())
    return vocabulary.arrow_words


def _joined(parts: list[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Join arrays; one array is returned as it is."""
    if len(parts) == 1:
        whole: npt.NDArray[Any] = parts[0]
        return whole
    return np.concatenate(parts) if parts else np.empty(0, dtype)


# Structs: rows of a struct column as maps from field name to value. Dicts that went through Arrow
# come back as structs that hold every field, null where a dict had no such key.


class _Field(NamedTuple):
    """The values of one field in one chunk, and the rows in which they stand."""

    name: str
    number: int
    rows: Int64Array
    values: Any


def _maps_of_structs(column: Any, null_value: object, operator: str) -> tuple[Any, BadMap | None]:
    """Return a column of structs as lists of field name and value, null fields left out.

    Ends before the first map that has a value without counterpart, and tells what is wrong there.
    """
    if null_value not in ("error", "skip"):
        raise ValueError(
            f'{operator}: null_value must be "error" or "skip" for a column of structs, not '
            f"{show(null_value)}: null fields are left out"
        )
    names = pa.array([field.name for field in column.type], pa.large_string())
    chunks = [_fields(chunk, operator) for chunk in column.chunks]
    kind = _common_kind([field for fields in chunks for field in fields], operator)
    values_of = pa.from_numpy_dtype(DTYPES[kind]) if kind != "string" else pa.large_string()
    made, first = [], 0
    for chunk, fields in zip(column.chunks, chunks, strict=True):
        bad = _bad_field(fields, kind, first, operator)
        rows = len(chunk) if bad is None else bad.number - first
        made.append(_lists(chunk.slice(0, rows), fields, names, values_of))
        if bad is not None:
            return pa.chunked_array(made), bad
        first += rows
    return pa.chunked_array(made, _lists(pa.nulls(0, column.type), [], names, values_of).type), None


def _fields(chunk: Any, operator: str) -> list[_Field]:
    """Return the fields of a chunk that have a value in a row that is not null."""
    try:
        chunk.validate()
        for number in range(chunk.type.num_fields):
            _validate_text(chunk.field(number))
    except pa.ArrowException as error:
        raise ValueError(f"{operator}: the Arrow column is corrupt: {error}") from error
    fields = []
    for number, field in enumerate(chunk.type):
        values = _plain(chunk.field(number), operator)
        present = ~(_mask(_nulls(values), len(chunk)) | _mask(_nulls(chunk), len(chunk)))
        if present.any():
            if _is_words(values.type):
                _positions(values, _nulls(values), operator)
                values = values.dictionary_decode()
            kept = values if present.all() else values.filter(pa.array(present))
            fields.append(_Field(field.name, number, np.flatnonzero(present), kept))
    return fields


def _common_kind(fields: list[_Field], operator: str) -> str:
    """Return the kind of value that all fields take, as from dicts."""
    kinds: dict[str, str] = {}
    for field in fields:
        kind = _value_kind(field.values.type)
        if kind is None:
            raise TypeError(
                f"{operator}: key {field.name!r} of the struct column: values must be numbers or "
                f"text, not {field.values.type}; drop the field or cast it"
            )
        kinds.setdefault(kind, field.name)
    if "string" in kinds and len(kinds) > 1:
        number = next(name for kind, name in kinds.items() if kind != "string")
        raise TypeError(
            f"{operator}: key {kinds['string']!r} of the struct column holds text, key "
            f"{number!r} numbers; a batch holds numbers or text, not both"
        )
    return promote(set(kinds)) if kinds else "float64"


def _bad_field(fields: list[_Field], kind: str, first: int, operator: str) -> BadMap | None:
    """Return the first map with a number that has no counterpart in the kind of the batch."""
    found = []
    for field in fields:
        for mask, error_of in _refused(field.values, kind):
            if mask.any():
                at = int(mask.argmax())
                found.append((int(field.rows[at]), field.number, at, field, error_of))
    if not found:
        return None
    row, _, at, field, error_of = min(found, key=lambda each: each[:2])
    where = f"{operator}: map {first + row}"
    return BadMap(first + row, error_of(where, field.name, field.values[at].as_py()))


def _refused(
    values: Any, kind: str
) -> list[tuple[BoolArray, Callable[[str, object, object], Exception]]]:
    """Return which numbers have no counterpart, and what is to be said of such a one."""
    if pa.types.is_decimal(values.type):
        text = _no_exact(values)
        lost = _decimals(values)[1]
        return [
            (
                lost,
                lambda where, *shown: OverflowError(f"{where}: {text.format(*map(show, shown))}"),
            )
        ]
    above = _above(values, None)
    if above is not None and above.any():
        return [
            (
                above,
                lambda where, key, value: OverflowError(
                    f"{where}: key {show(key)}: value {show(value)} does not fit in int64"
                ),
            )
        ]
    if kind == "float64" and _value_kind(values.type) == "int64":
        inexact = np.zeros(len(values), np.bool_)
        inexact[cast_array(_numbers(values), "int64", "float64", "exact")[1]] = True
        return [(inexact, inexact_error)]
    return []


def _lists(chunk: Any, fields: list[_Field], names: Any, values_of: Any) -> Any:
    """Return the rows of a chunk as lists of field name and value."""
    parts = [_cut(field, len(chunk)) for field in fields]
    rows = np.concatenate([np.empty(0, np.int64), *[part.rows for part in parts]])
    numbers = np.repeat(
        np.array([part.number for part in parts], np.int32), [len(part.rows) for part in parts]
    )
    order = np.argsort(rows, kind="stable")  # from field after field to row after row
    keys = pa.DictionaryArray.from_arrays(pa.array(numbers[order]), names)
    if pa.types.is_large_string(values_of):
        texts = [part.values.cast(values_of) for part in parts]
        values = pa.concat_arrays([pa.array([], values_of), *texts]).take(pa.array(order))
    else:
        dtype = _dtype(values_of)
        numbers_of = [_numbers(part.values).astype(dtype) for part in parts]
        values = pa.array(np.concatenate([np.empty(0, dtype), *numbers_of])[order])
    entries = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    ends = np.zeros(len(chunk) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(chunk)), out=ends[1:])
    valid = chunk.is_valid().buffers()[1] if chunk.null_count else None
    kind = pa.large_list(entries.type)
    return pa.Array.from_buffers(kind, len(chunk), [valid, pa.py_buffer(ends)], children=[entries])


def _cut(field: _Field, rows: int) -> _Field:
    """Return the values in the first rows."""
    count = int(np.searchsorted(field.rows, rows))
    return field._replace(rows=field.rows[:count], values=field.values.slice(0, count))
