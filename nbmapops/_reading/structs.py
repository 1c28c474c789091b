"""Reading, Arrow structs: rows of a struct column as maps from field name to value.

Dicts that went through Arrow come back as structs that hold every field, null where a dict had no
such key: null fields are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbmapops._reading.arrowdata import (
    BoolArray,
    Int64Array,
    above_int64,
    as_exact,
    as_numbers,
    checked_positions,
    dtype_of,
    full_mask,
    is_words,
    no_exact,
    null_mask,
    plain_array,
    validate_text,
    value_kind,
)
from nbmapops._reading.arrowlib import ArrowArray, pa
from nbmapops._reading.scalars import DTYPES, BadMap, inexact_error, promote
from nbmapops._values import cast_array
from nbmapops.errors import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmapops._reading.arrowlib import ArrowChunks, ArrowType


class _Field(NamedTuple):
    """The values of one field in one chunk, and the rows in which they stand."""

    name: str
    number: int
    rows: Int64Array
    values: ArrowArray


def maps_of_structs(
    column: ArrowChunks, null_value: object, operator: str
) -> tuple[ArrowChunks, BadMap | None]:
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


def _fields(chunk: ArrowArray, operator: str) -> list[_Field]:
    """Return the fields of a chunk that have a value in a row that is not null."""
    try:
        chunk.validate()
        for number in range(chunk.type.num_fields):
            validate_text(chunk.field(number))
    except pa.ArrowException as error:
        raise ValueError(f"{operator}: the Arrow column is corrupt: {error}") from error
    fields = []
    for number, field in enumerate(chunk.type):
        values = plain_array(chunk.field(number), operator)
        present = ~(
            full_mask(null_mask(values), len(chunk)) | full_mask(null_mask(chunk), len(chunk))
        )
        if present.any():
            if is_words(values.type):
                checked_positions(values, null_mask(values), operator)
                values = values.dictionary_decode()
            kept = values if present.all() else values.filter(pa.array(present))
            fields.append(_Field(field.name, number, np.flatnonzero(present), kept))
    return fields


def _common_kind(fields: list[_Field], operator: str) -> str:
    """Return the kind of value that all fields take, as from dicts."""
    kinds: dict[str, str] = {}
    for field in fields:
        kind = value_kind(field.values.type)
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
    values: ArrowArray, kind: str
) -> list[tuple[BoolArray, Callable[[str, object, object], Exception]]]:
    """Return which numbers have no counterpart, and what is to be said of such a one."""
    if pa.types.is_decimal(values.type):
        text = no_exact(values)
        lost = as_exact(values)[1]
        return [
            (
                lost,
                lambda where, *shown: OverflowError(f"{where}: {text.format(*map(show, shown))}"),
            )
        ]
    above = above_int64(values, None)
    if above is not None and above.any():
        return [
            (
                above,
                lambda where, key, value: OverflowError(
                    f"{where}: key {show(key)}: value {show(value)} does not fit in int64"
                ),
            )
        ]
    if kind == "float64" and value_kind(values.type) == "int64":
        inexact = np.zeros(len(values), np.bool_)
        inexact[cast_array(as_numbers(values), "int64", "float64", "exact")[1]] = True
        return [(inexact, inexact_error)]
    return []


def _lists(
    chunk: ArrowArray, fields: list[_Field], names: ArrowArray, values_of: ArrowType
) -> ArrowArray:
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
        dtype = dtype_of(values_of)
        numbers_of = [as_numbers(part.values).astype(dtype) for part in parts]
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
