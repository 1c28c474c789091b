"""Reading, arrays: keys, values and offsets are validated, here only, and made canonical."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nbmapops._constants import INT64_MAX, Array
from nbmapops._foreign import let_out
from nbmapops._load import imported
from nbmapops._reading.columns import (
    arrow_text,
    is_column,
    is_integer,
    plain_column,
    refuse_missing,
)
from nbmapops._reading.entries import (
    Entries,
    Int64Keys,
    KeyColumn,
    TextKeys,
    int_array,
    readonly,
    text_keys,
)
from nbmapops._reading.objecttext import ObjectText
from nbmapops._reading.scalars import DTYPES, BadMap, exact_map, kinds_of_map

if TYPE_CHECKING:
    from nbmapops._reading.arrowdata import Text
    from nbmapops._types import Value


def value_array(values: Sequence[object], kind: str) -> Array:
    """Return exact Python scalars of one kind as an array."""
    return np.array(values, DTYPES[kind])


def read_arrays(
    keys: object,
    values: object,
    offsets: object,
    operator: str,
    expected: str | None = None,
    *,
    skip_large: bool = False,
) -> tuple[Entries, BadMap | None]:
    """Validate arrays or sequences.

    `expected` is the kind of key wanted. Where a map cannot be read, the entries are those of
    the maps before it, so that a caller can look for an error among those first. Values of
    None are ones. With `skip_large`, entries whose key is an integer beyond int64 are left out:
    it cannot be a word.
    """
    raw_keys = column(keys, "keys", operator)
    # Ids without values: each one counts 1.
    ones = values is None
    raw_values = np.ones(len(raw_keys), np.int64) if ones else column(values, "values", operator)
    if len(raw_keys) != len(raw_values):
        raise ValueError(
            f"{operator}: {len(raw_keys)} keys but {len(raw_values)} values; each entry must "
            "have one of each"
        )
    starts = _offsets(offsets, len(raw_keys), operator)
    # An operator looks keys up once; a batch keeps codes.
    ready_keys = ObjectText.of(raw_keys) if expected == "string" else None
    if ready_keys is None:
        ready_keys = typed(raw_keys, "keys", operator)
    ready_values = typed(raw_values, "values", operator)
    if ready_keys is None and ready_values is not None and skip_large and _is_unsigned(raw_keys):
        kept = raw_keys <= INT64_MAX
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])
        keys_kept = Int64Keys(_canonical(raw_keys[kept], np.int64))
        return Entries(keys_kept, readonly(ready_values[kept]), readonly(ends[starts])), None
    if ready_keys is None or ready_values is None:
        return _by_scalars(
            raw_keys if ready_keys is None else ready_keys,
            raw_values if ready_values is None else ready_values,
            starts,
            operator,
            expected,
            skip_large,
        )
    return Entries(_key_column(ready_keys), readonly(ready_values), readonly(starts)), None


def _key_column(keys: Any) -> KeyColumn:
    return Int64Keys(keys) if isinstance(keys, np.ndarray) else keys


def column(data: object, what: str, operator: str) -> Any:
    """Return data as a 1-D array, a list of scalars, or an Arrow array as it is."""
    name = f"{operator}: {what}"
    if isinstance(data, TextKeys):  # of a long table, read already
        return data
    if is_column(data):
        return (text_column(data, name) if what == "keys" else None) or _flat_column(data, name)
    if isinstance(data, (str, bytes, bytearray, Mapping, AbstractSet)) or not isinstance(
        data, Iterable
    ):
        raise TypeError(f"{name} must be an array or a sequence, not {type(data).__name__}")
    return list(data)


def text_column(data: object, name: str) -> Text | None:
    """Return keys that are Arrow text as they are, None for any other column."""
    text = None if isinstance(data, np.ndarray) else arrow_text(data, name)
    if text is None or not len(text):  # no keys are of no kind
        return None
    found: Text = imported("nbmapops._reading.arrowdata").text_of(text, name)
    return found


def _flat_column(data: object, name: str) -> Any:
    column = plain_column(data, name)
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise ValueError(f"{name} must be 1-D; the array given is {column.ndim}-D")
    return column


def typed(data: Any, what: str, operator: str) -> Any:
    """Return a column of one plain type, made canonical; None where single scalars must say."""
    if isinstance(data, list):
        return _typed_list(data, what, operator)
    if not isinstance(data, np.ndarray):  # Arrow text
        return data
    kind, size = data.dtype.kind, data.dtype.itemsize
    if kind in "OUT":
        if len(data) == 0:
            return text_keys([]) if what == "keys" else np.empty(0, object)
        return _typed_list(data.tolist(), what, operator)
    if _is_unsigned(data) and len(data) and int(data.max()) > INT64_MAX:
        return None  # the scalar rules name the map and the key
    if kind in "biu":
        return _canonical(data, np.int64)
    if what == "values" and kind == "f" and size <= 8:
        return _canonical(data, np.float64 if size == 8 else np.float32)
    must = "integers or str" if what == "keys" else "numbers (at most 64 bits) or str"
    must = "integers" if what == "rows" else must
    raise TypeError(f"{operator}: {what} are an array of {data.dtype}; {what} must be {must}")


def _is_unsigned(data: object) -> bool:
    """Tell whether this is an array that may hold integers beyond int64."""
    return isinstance(data, np.ndarray) and data.dtype.kind == "u" and data.dtype.itemsize == 8


def _typed_list(data: list[Any], what: str, operator: str) -> Any:
    """Return a list of one of Python's own types as an array; None for any other list."""
    types = set(map(type, data))
    if types <= {int}:
        try:
            # An empty list fixes no type: float64 is what values are then.
            return np.array(data, np.int64 if data or what != "values" else np.float64)
        except OverflowError as error:
            let_out(error)
            return None
    if types == {str}:
        return text_keys(data) if what == "keys" else value_array(data, "string")
    if types == {float} and what == "values":
        return np.array(data, np.float64)
    refuse_missing(data, f"{operator}: {what}")
    return None


def _canonical(data: Array, dtype: type[np.generic]) -> Array:
    array = np.ascontiguousarray(data, dtype)
    # Numba would compile all kernels anew for an array that is not aligned.
    return readonly(array if array.flags.aligned else array.copy())


def _by_scalars(
    keys: Any,
    values: Any,
    offsets: Array,
    operator: str,
    expected: str | None,
    skip_large: bool,
) -> tuple[Entries, BadMap | None]:
    """Read by the rules of single scalars, map by map.

    The same steps as `MapReader` takes for dicts, in the same order, so that the same map is the
    first bad one.
    """
    key_list, value_list = _scalars(keys), _scalars(values)
    key_kind_, value_kind_ = expected, None
    bounds = offsets.tolist()
    maps = [slice(a, b) for a, b in itertools.pairwise(bounds)]
    bad: BadMap | None = None
    for number, entries in enumerate(maps):
        where = f"{operator}: map {number}"
        try:
            key_kind_, value_kind_ = kinds_of_map(
                where, key_list[entries], value_list[entries], key_kind_, value_kind_
            )
        except TypeError as error:
            let_out(error)
            bad = BadMap(number, error)
            break
    exact_keys: list[Any] = []
    exact_values: list[Value] = []
    ends = [0]
    # Only now is it known whether floats among the values make float64 of the ints.
    for number, entries in enumerate(maps[: bad.number if bad else None]):
        where = f"{operator}: map {number}"
        try:
            map_keys, map_values = exact_map(
                where, key_list[entries], value_list[entries], value_kind_, skip_large=skip_large
            )
        except OverflowError as error:
            let_out(error)
            bad = BadMap(number, error)
            break
        exact_keys += map_keys
        exact_values += map_values
        ends.append(len(exact_keys))
    ready_keys = _key_column(
        text_keys(exact_keys) if key_kind_ == "string" else int_array(exact_keys)
    )
    ready_values = value_array(exact_values, value_kind_ or "float64")
    return Entries(ready_keys, readonly(ready_values), readonly(int_array(ends))), bad


def _scalars(data: Any) -> list[Any]:
    """Return the elements; those of a float32 array stay NumPy scalars, which know their type."""
    if isinstance(data, list):
        return list(data)
    if not isinstance(data, np.ndarray):  # text keys
        return cast("list[Any]", data.to_array().tolist())
    return list(data) if data.dtype == np.float32 else cast("list[Any]", data.tolist())


def _offsets(offsets: object, entries: int, operator: str) -> Array:
    """Return a validated copy of offsets."""
    if offsets is None:
        return int_array([0, entries])
    raw = column(offsets, "offsets", operator)
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "iu":
        large = raw.dtype.kind == "u" and len(raw) and int(raw.max()) > INT64_MAX
        array = np.array(raw, object if large else np.int64, order="C")
    else:
        scalars = _scalars(raw)
        refuse_missing(scalars, f"{operator}: offsets")
        # The elements of an array of times may be plain ints in a list.
        is_time = isinstance(raw, np.ndarray) and raw.dtype.kind in "mM"
        if is_time or not all(map(is_integer, scalars)):
            raise TypeError(f"{operator}: offsets must be integers")
        # One that int64 does not hold is refused below: it falls, or it is not the end.
        large = any(abs(x) > INT64_MAX for x in scalars)
        array = np.array(scalars, object) if large else int_array(scalars)
    if len(array) == 0:
        raise ValueError(f"{operator}: offsets are empty; they must be B + 1 for B maps")
    if array[0] != 0:
        raise ValueError(f"{operator}: offsets start at {array[0]}; they must start at 0")
    falls = array[1:] < array[:-1]
    if falls.any():
        number = int(falls.argmax())
        raise ValueError(
            f"{operator}: map {number}: offsets fall from {array[number]} to {array[number + 1]}; "
            "they must not fall"
        )
    if array[-1] != entries:
        raise ValueError(
            f"{operator}: offsets end at {array[-1]}, but there are {entries} entries; "
            "every entry must belong to a map"
        )
    return array
