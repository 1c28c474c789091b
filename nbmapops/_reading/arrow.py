"""Reading, Arrow columns: any column of maps that exports Arrow data becomes entries.

Anything that exports Arrow data is read: pyarrow arrays, polars and narwhals Series, pandas Series
with an Arrow dtype, DuckDB relations of one column.  Keys and values that are int64, float64 or
float32 without nulls are views of the Arrow buffers; offsets are always copied.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbmapops._foreign import let_out
from nbmapops._reading.arrowdata import (
    BoolArray,
    Int64Array,
    Text,
    above_int64,
    as_exact,
    as_numbers,
    as_values,
    checked_positions,
    dtype_of,
    full_mask,
    is_text,
    is_words,
    joined,
    no_exact,
    null_mask,
    plain_array,
    plain_type,
    validate_text,
    value_kind,
)
from nbmapops._reading.arrowlib import ArrowArray, pa
from nbmapops._reading.entries import Entries, Int64Keys, readonly
from nbmapops._reading.scalars import BadMap
from nbmapops._reading.structs import maps_of_structs
from nbmapops.errors import show

if TYPE_CHECKING:
    from nbmapops._constants import Array
    from nbmapops._reading.arrowlib import ArrowChunks, ArrowType


class _Rules(NamedTuple):
    """What becomes of nulls: "error" or "empty"; "error", "skip" or "fill" and the fill."""

    null_map: str
    null_value: str
    fill: object
    operator: str


class _Entries(NamedTuple):
    """Entries of one chunk: Arrow keys and values, offsets from 0, masks or None."""

    keys: ArrowArray
    values: ArrowArray
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


def is_arrow(obj: object) -> bool:
    """Whether an object is Arrow data (a pandas Series: only with an Arrow dtype)."""
    if hasattr(getattr(obj, "dtype", None), "pyarrow_dtype"):
        return True
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(obj, pandas.Series):
        return False
    exports = hasattr(obj, "__arrow_c_stream__") or hasattr(obj, "__arrow_c_array__")
    return exports or isinstance(obj, pa.MapScalar | pa.StructScalar)


def read_column(
    column: object, *, null_map: str = "error", null_value: object = "error"
) -> tuple[Entries, BoolArray | None]:
    """Read an Arrow column, or one map or struct of it, as `MapBatch.from_arrow` says."""
    entries, null_maps, bad = read_maps(column, null_map=null_map, null_value=null_value)
    if bad is not None:
        raise bad.error
    return entries, null_maps


def read_maps(
    column: object,
    *,
    null_map: str = "error",
    null_value: object = "error",
    operator: str = "MapBatch",
    skip_large: bool = False,
) -> tuple[Entries, BoolArray | None, BadMap | None]:
    """Read an Arrow column up to the first map that cannot be taken.

    Returns the entries of the maps before it, or of all; which maps are null (and read as empty),
    None where none is; and what is wrong with the map that cannot be taken, or None. `operator` is
    the name at the front of messages; with `skip_large`, entries whose key is beyond int64 are left
    out.
    """
    chunked, bad_struct = _import(column, operator), None
    if pa.types.is_struct(chunked.type):
        chunked, bad_struct = maps_of_structs(chunked, null_value, operator)
    key_type, value_type = _entry_types(chunked.type, operator)
    rules = _rules(null_map, null_value, value_type, operator)
    chunks = [part for part in chunked.chunks if len(part)]
    for chunk in chunks:
        _validate(chunk, operator)
    pieces, first, bad = [], 0, None
    for chunk in _fewer(chunks):
        piece, bad = _piece(chunk, rules, first, skip_large=skip_large)
        pieces.append(piece)
        if bad is not None:
            break
        first += len(piece.offsets) - 1
    null_maps = _joined_masks(pieces)
    return _joined_pieces(pieces, key_type, value_type), null_maps, bad or bad_struct


class _Piece(NamedTuple):
    """What is read from one chunk: text keys in Arrow, numbers as arrays, offsets from 0."""

    keys: Array | ArrowArray
    values: Array
    offsets: Int64Array
    null_maps: BoolArray | None


def _piece(
    chunk: ArrowArray, rules: _Rules, first: int, *, skip_large: bool
) -> tuple[_Piece, BadMap | None]:
    """Read a chunk up to the first map that cannot be taken; `first` is the chunk's map 0."""
    entries = _visible(chunk, rules.operator)
    large = above_int64(entries.keys, null_mask(entries.keys)) if skip_large else None
    if large is not None:
        entries = entries.kept(~large)
    null_values = null_mask(entries.values)
    bad = _bad_map(entries, null_values, rules, first)
    if bad is not None:
        entries = entries.before(bad.number - first)
        null_values = null_mask(entries.values)
    if null_values is not None and rules.null_value == "skip":
        entries, null_values = entries.kept(~null_values), None
    keys = entries.keys
    if is_words(keys.type):
        checked_positions(keys, None, rules.operator)
    elif not is_text(keys.type):
        keys = as_numbers(keys)
    values = as_values(entries.values, null_values, rules.fill, rules.operator)
    return _Piece(keys, values, entries.offsets, entries.null_maps), bad


def _joined_pieces(pieces: list[_Piece], key_type: ArrowType, value_type: ArrowType) -> Entries:
    """Return the entries of all chunks."""
    keys = [piece.keys for piece in pieces]
    text = plain_array(pa.nulls(0, key_type)).type if is_text(plain_type(key_type)) else None
    offsets: list[Array] = []
    end = 0
    for piece in pieces:
        offsets.append(piece.offsets[1:] + end if offsets else piece.offsets)
        end += len(piece.values)
    return Entries(
        Text(pa.chunked_array(keys, type=text)) if text else Int64Keys(joined(keys, np.int64)),
        readonly(joined([piece.values for piece in pieces], dtype_of(value_type))),
        readonly(joined(offsets or [np.zeros(1, np.int64)], np.int64)),
    )


def _joined_masks(pieces: list[_Piece]) -> BoolArray | None:
    """Return which maps are null, None where none is."""
    masks = [full_mask(piece.null_maps, len(piece.offsets) - 1) for piece in pieces]
    return np.concatenate(masks) if any(mask.any() for mask in masks) else None


def _import(column: Any, operator: str) -> ArrowChunks:
    """Return any Arrow column as a ChunkedArray."""
    if isinstance(column, pa.MapScalar):
        if not column.is_valid:
            return pa.chunked_array([pa.nulls(1, column.type)])
        ends = pa.array([0, len(column)], pa.int32())
        return pa.chunked_array([pa.ListArray.from_arrays(ends, column.values)])
    if isinstance(column, pa.StructScalar):
        return pa.chunked_array([pa.repeat(column, 1)])
    if not is_arrow(column):
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


def _validate(maps: ArrowArray, operator: str) -> None:
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
            validate_text(entries.field(number))
    except pa.ArrowException as error:
        raise ValueError(f"{operator}: the Arrow column is corrupt: {error}") from error


def _fewer(chunks: list[ArrowArray]) -> list[ArrowArray]:
    """Join many small chunks, because reading one takes longer than joining it."""
    if len(chunks) < 8 or sum(len(chunk) for chunk in chunks) > 1000 * len(chunks):
        return chunks
    try:
        return [pa.concat_arrays(chunks)]
    except pa.ArrowException:
        # more entries or text than int32 offsets reach, or a type that pyarrow cannot join
        return chunks


def _table_message(table: object, names: list[object], operator: str) -> str:
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


def _column_types(table: object) -> list[object]:
    """Return the types of a table's columns: of pyarrow, DuckDB, polars or pandas."""
    holders = [getattr(table, "schema", None), table, table]
    names = ["types", "types", "dtypes"]
    found = [getattr(*pair, None) for pair in zip(holders, names, strict=True)]
    return next((list(types) for types in found if types is not None), [])


def _entry_types(column_type: ArrowType, operator: str) -> tuple[ArrowType, ArrowType]:
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
    plain = plain_type(key_type)
    if not (types.is_integer(plain) or types.is_boolean(plain) or is_text(plain)):
        raise TypeError(
            f"{operator}: keys must be integers or text, not {key_type}; "
            "cast the column to keys of int64 or string"
        )
    if value_kind(value_type) is None:
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


def _rules(null_map: object, null_value: object, value_type: ArrowType, operator: str) -> _Rules:
    """Check what is to become of nulls."""
    if not isinstance(null_map, str) or null_map not in ("error", "empty"):
        raise ValueError(f'{operator}: null_map must be "error" or "empty", not {show(null_map)}')
    if isinstance(null_value, str):
        if null_value in ("error", "skip"):
            return _Rules(null_map, null_value, None, operator)
        if is_text(plain_type(value_type)):
            return _Rules(null_map, "fill", null_value, operator)
    elif isinstance(null_value, int | float | np.integer | np.floating | np.bool_):
        dtype = dtype_of(value_type)
        if dtype.kind != "O":
            return _Rules(null_map, "fill", _exact(null_value, dtype, operator), operator)
    raise TypeError(
        f'{operator}: null_value must be "error", "skip" or fit values of type {value_type}, '
        f"not {show(null_value)}"
    )


def _exact(number: Any, dtype: np.dtype[np.generic], operator: str) -> object:
    """Return a number in the type of the values, if it is the same number there."""
    number = number.item() if isinstance(number, np.generic) else number
    try:
        with np.errstate(over="ignore"):
            fitted = dtype.type(int(number) if dtype.kind == "i" else number)
        if fitted.item() == number or np.isnan(number):
            return fitted
    except (OverflowError, ValueError) as error:
        let_out(error)
    raise ValueError(f"{operator}: null_value {show(number)} has no exact {dtype} value")


def _visible(maps: ArrowArray, operator: str) -> _Entries:
    """Return the entries of a chunk that belong to a map that is not null."""
    null_maps = null_mask(maps)
    if hasattr(maps, "offsets") and not hasattr(maps, "sizes"):
        offsets = maps.offsets.to_numpy().astype(np.int64)
        child = maps.values
        start, stop = int(offsets[0]), int(offsets[-1])
        offsets -= start
    else:
        # list views and fixed size lists: flatten leaves out what null rows hide
        child = maps.flatten()
        sizes = maps.sizes.to_numpy() if hasattr(maps, "sizes") else maps.type.list_size
        lengths = np.where(full_mask(null_maps, len(maps)), 0, sizes)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
        start, stop = 0, len(child)
    falls = (offsets[1:] < offsets[:-1]).any()
    if start < 0 or stop > len(child) or offsets[-1] != stop - start or falls:
        raise ValueError(f"{operator}: the offsets of the Arrow column do not fit its entries")
    child = child.slice(start, stop - start)
    # field() heeds the offset of the struct; .keys and .items of a MapArray do not
    keys, values = (plain_array(child.field(i), operator) for i in (0, 1))
    entries = _Entries(keys, values, offsets, null_mask(child), null_maps)
    if null_maps is not None:
        lengths = np.diff(offsets)
        if lengths[null_maps].any():
            return entries.kept(np.repeat(~null_maps, lengths))
    return entries


class _Check(NamedTuple):
    """What may be wrong with an entry: where it is, and what is to be said."""

    mask: BoolArray
    error: type[Exception]
    text: str


def _checks(entries: _Entries, null_values: BoolArray | None, rules: _Rules) -> list[_Check]:
    """Return what is wrong with entries, in the order in which it counts within a map."""
    keys, values = entries.keys, entries.values
    skipped = null_values if rules.null_value == "skip" else None
    checks: list[tuple[BoolArray | None, type[Exception], str]] = [
        (entries.holes, ValueError, "an entry is null"),
        (null_mask(keys), ValueError, "a key is null"),
        (above_int64(keys, skipped), OverflowError, _LARGE_KEY),
        (above_int64(values, null_values), OverflowError, _LARGE_VALUE),
    ]
    if pa.types.is_decimal(values.type):
        checks.append((as_exact(values)[1], OverflowError, no_exact(values)))
    if rules.null_value == "error":
        checks.append((null_values, ValueError, _NULL_VALUE))
    return [
        _Check(mask, error, text) for mask, error, text in checks if mask is not None and mask.any()
    ]


def _bad_map(
    entries: _Entries, null_values: BoolArray | None, rules: _Rules, first: int
) -> BadMap | None:
    """Return the first map of a chunk that cannot be taken; `first` is the chunk's map 0."""
    found = []
    for order, check in enumerate(_checks(entries, null_values, rules)):
        entry = int(check.mask.argmax())
        row = int(np.searchsorted(entries.offsets, entry, side="right")) - 1
        found.append((row, order, entry, check))
    if rules.null_map == "error" and entries.null_maps is not None:
        row = int(entries.null_maps.argmax())
        if all(row < other for other, *_ in found):
            number = first + row
            return BadMap(number, ValueError(f"{rules.operator}: map {number} {_NULL_MAP}"))
    if not found:
        return None
    row, _, entry, check = min(found)
    shown = [_shown(array, entry, rules.operator) for array in (entries.keys, entries.values)]
    number = first + row
    text = check.text.format(*shown)
    return BadMap(number, check.error(f"{rules.operator}: map {number}: {text}"))


def _shown(array: ArrowArray, entry: int, operator: str) -> str:
    """Return a key or value as messages show it."""
    if pa.types.is_dictionary(array.type):
        part = array.slice(entry, 1)
        checked_positions(part, null_mask(part.indices), operator)
    return show(array[entry].as_py())


_LARGE_KEY = "key {} does not fit in int64; larger keys must be text"
_LARGE_VALUE = "key {}: value {} does not fit in int64"
_NULL_MAP = 'is null; MapBatch.from_arrow(column, null_map="empty") reads null maps as empty'
_NULL_VALUE = (
    'the value of key {} is null; MapBatch.from_arrow(column, null_value="skip") leaves such '
    "entries out, null_value=<a value> fills them"
)
