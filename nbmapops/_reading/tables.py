"""Reading, tables: long ones (row, key, value) and columns of lists become entries."""

from __future__ import annotations

import sys
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nbmapops._constants import INT64_MAX
from nbmapops._engine import choose
from nbmapops._foreign import is_interruption, let_out
from nbmapops._load import imported, load_kernels
from nbmapops._reading.arrays import column, read_arrays, typed
from nbmapops._reading.columns import (
    arrow_inside,
    is_column,
    is_integer,
    is_masked_array,
    plain_column,
)
from nbmapops._reading.entries import Entries, Int64Keys, KeyColumn, TextKeys, int_array, readonly
from nbmapops._reading.scalars import exact_scalar, is_missing_map, kind_of
from nbmapops.errors import show

if TYPE_CHECKING:
    from nbmapops._constants import Array
    from nbmapops._reading.arrowlib import ArrowChunks
    from nbmapops._reading.scalars import BadMap


# ------------------------------------------------------------------------------- long tables
def read_rows(
    rows: object, keys: object, values: object, n_maps: object, operator: str
) -> tuple[Entries, BadMap | None]:
    """Read a long table: the map number of each entry in any order, its key, its value.

    Entries of a map keep their order. What is returned is that of `read_arrays`.
    """
    raw_keys = column(keys, "keys", operator)
    if not isinstance(raw_keys, (np.ndarray, list)):  # Arrow text
        codes, words = raw_keys.encode()
        raw_keys = TextKeys(readonly(codes), words)
    entries = len(raw_keys)
    raw_values = (
        np.ones(entries, np.int64) if values is None else column(values, "values", operator)
    )
    numbers = _row_numbers(rows, entries, operator)
    if len(raw_values) != entries:
        raise ValueError(
            f"{operator}: {entries} keys but {len(raw_values)} values; each entry must have "
            "one of each"
        )
    count = _map_count(numbers, n_maps, operator)
    offsets = _counted(numbers, count, operator)
    if bool((numbers[1:] >= numbers[:-1]).all()):
        return read_arrays(raw_keys, raw_values, offsets, operator)
    ready_keys = typed(raw_keys, "keys", operator)
    ready_values = typed(raw_values, "values", operator)
    if ready_keys is not None and ready_values is not None:
        grouped = _compiled_group(numbers, ready_keys, ready_values, offsets, operator)
        if grouped is not None:
            return grouped, None
    order = np.argsort(numbers, kind="stable")
    return read_arrays(_taken(raw_keys, order), _taken(raw_values, order), offsets, operator)


def _row_numbers(rows: object, entries: int, operator: str) -> Array:
    raw = column(rows, "rows", operator)
    if len(raw) != entries:
        raise ValueError(
            f"{operator}: {len(raw)} rows but {entries} keys; each entry must have both"
        )
    numbers = typed(raw, "rows", operator) if entries else int_array([])
    if numbers is None:  # the rules of single scalars
        numbers = _by_scalars(list(raw), operator)
    if not isinstance(numbers, np.ndarray) or numbers.dtype != np.int64:
        raise _no_rows(operator)
    if len(numbers) and int(numbers.min()) < 0:
        entry = int((numbers < 0).argmax())
        raise ValueError(
            f"{operator}: the row of entry {entry} is {numbers[entry]}; rows must be at least 0"
        )
    return numbers


def _by_scalars(rows: list[object], operator: str) -> Array:
    if any(kind_of(row) != "int64" for row in rows):
        raise _no_rows(operator)
    exact = [exact_scalar(row, "int64") for row in rows]
    if max(map(abs, exact)) > INT64_MAX:
        raise OverflowError(f"{operator}: a row does not fit in int64; rows must number the maps")
    return int_array(exact)


def _no_rows(operator: str) -> TypeError:
    return TypeError(
        f"{operator}: rows must be integers from 0, the number of each entry's map; "
        "np.unique(rows, return_inverse=True)[1] numbers any names"
    )


def _map_count(numbers: Array, n_maps: object, operator: str) -> int:
    least = int(numbers.max()) + 1 if len(numbers) else 0
    if n_maps is None:
        return least
    if not is_integer(n_maps):
        raise TypeError(f"{operator}: n_maps must be an integer, not {show(n_maps)}")
    if n_maps < least:
        raise ValueError(
            f"{operator}: n_maps must be at least {least}, one more than the largest row, "
            f"not {n_maps}"
        )
    return int(n_maps)


def _counted(numbers: Array, count: int, operator: str) -> Array:
    try:
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(numbers, minlength=count), out=offsets[1:])
    except (MemoryError, ValueError, OverflowError) as error:
        let_out(error)
        raise MemoryError(
            f"{operator}: {count} maps need {8 * (count + 1)} bytes of offsets; rows number maps "
            "without gaps where np.unique(rows, return_inverse=True)[1] is passed"
        ) from None
    return offsets


def _compiled_group(
    numbers: Array, keys: Array | TextKeys, values: Array, offsets: Array, operator: str
) -> Entries | None:
    """Return the entries in the order of their maps; None where NumPy does that sooner."""
    # An entry takes NumPy 100 ns and the kernel 10, and one_map ten times as long as NumPy (asv:
    # dictvectorizer.LongTable).
    if not choose.compiled(len(numbers) // 10, 0, "rows"):
        return None
    kernels = load_kernels()
    codes = keys.codes if isinstance(keys, TextKeys) else keys
    # The kernel moves bits, or entry numbers of text.
    text = values.dtype == object
    carried = np.arange(len(values)) if text else values.view(f"i{values.itemsize}")
    ends = offsets[:-1].copy()
    codes_out, moved = np.empty_like(codes), np.empty_like(carried)
    status = kernels.group(
        readonly(numbers), readonly(codes), readonly(carried), ends, codes_out, moved
    )
    if status != kernels.OK or not (ends == offsets[1:]).all():
        raise RuntimeError(f"{operator}: the rows changed while they were read")
    ready_values = values[moved] if text else moved.view(values.dtype)
    grouped: KeyColumn
    if isinstance(keys, TextKeys):
        grouped = TextKeys(codes_out, keys.words)
    else:
        grouped = Int64Keys(codes_out)
    return Entries(grouped, readonly(ready_values), readonly(offsets))


def _taken(data: Any, order: Array) -> Any:
    if isinstance(data, TextKeys):
        return data.to_array()[order]
    return data[order] if isinstance(data, np.ndarray) else [data[i] for i in order.tolist()]


# ------------------------------------------------------------------------------- columns of lists
def read_lists(keys: object, values: object, operator: str) -> tuple[Entries, BadMap | None]:
    """Read two columns of lists, or one of keys; what is returned is that of `read_arrays`."""
    flat_keys, lengths = _flat(keys, "keys", operator, sets=values is None)
    if values is None:
        flat_values, value_lengths = np.ones(int(lengths.sum()), np.int64), lengths
    else:
        flat_values, value_lengths = _flat(values, "values", operator)
    if len(lengths) != len(value_lengths):
        raise ValueError(
            f"{operator}: {len(lengths)} lists of keys but {len(value_lengths)} lists of values; "
            "each map must have one of each"
        )
    odd = np.flatnonzero(lengths != value_lengths)
    if odd.size:
        number = int(odd[0])
        raise ValueError(
            f"{operator}: map {number} has {lengths[number]} keys but {value_lengths[number]} "
            "values; each entry must have one of each"
        )
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return read_arrays(flat_keys, flat_values, offsets, operator)


def _flat(data: Any, what: str, operator: str, *, sets: bool = False) -> tuple[Any, Array]:
    """Return the elements of all lists (or sets) of a column, and the length of each list."""
    name = f"{operator}: {what}"
    if is_column(data):
        if isinstance(data, np.ndarray) and data.ndim == 2 and not is_masked_array(data):
            return data.reshape(-1), np.full(data.shape[0], data.shape[1], np.int64)
        arrow = _as_arrow(data, name)
        if arrow is not None:
            return _flat_arrow(arrow, name)
        data = plain_column(data, name)
    elif isinstance(data, (str, bytes, dict)) or not hasattr(data, "__iter__"):
        raise TypeError(f"{name} must be a column of lists, not {type(data).__name__}")
    lists = list(data)
    kinds = (list, tuple, AbstractSet) if sets else (list, tuple)
    for number, one in enumerate(lists):
        if not (isinstance(one, kinds) or is_column(one)):
            raise _no_list(f"{operator}: map {number}", what, one)
    parts = [column(one, what, operator) if is_column(one) else one for one in lists]
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    dtypes = {part.dtype if isinstance(part, np.ndarray) else None for part in parts}
    if len(dtypes) == 1 and None not in dtypes:
        return np.concatenate(parts), lengths
    return [element for part in parts for element in part], lengths


def _no_list(where: str, what: str, thing: object) -> Exception:
    if is_missing_map(thing):
        return ValueError(f"{where}: its list of {what} is missing; fill it with [] or drop it")
    return TypeError(
        f"{where}: {what} must be a list, a tuple or an array, not {show(thing)} of type "
        f"{type(thing).__name__}"
    )


def _as_arrow(data: object, name: str) -> ArrowChunks | None:
    """Return a column of Arrow lists as a pyarrow ChunkedArray, None for any other column."""
    data = arrow_inside(data, name)
    pa: Any = sys.modules.get("pyarrow")
    exports = hasattr(data, "__arrow_c_stream__")
    if exports and not isinstance(getattr(data, "dtype", None), np.dtype):
        try:
            pa = imported("pyarrow")
        except ImportError as error:  # polars: its elements are read one by one
            if is_interruption(error):
                raise
            return None
        data = pa.chunked_array(data)
    if pa is None or not isinstance(data, (pa.Array, pa.ChunkedArray)):
        return None
    chunked = data if isinstance(data, pa.ChunkedArray) else pa.chunked_array([data])
    kinds = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    if not any(getattr(pa.types, f"is_{kind}")(chunked.type) for kind in kinds):
        raise TypeError(f"{name} must be a column of lists, not of {chunked.type}")
    return chunked


def _flat_arrow(chunked: Any, name: str) -> tuple[Any, Array]:
    pa, pc = imported("pyarrow"), imported("pyarrow.compute")
    if chunked.null_count:
        number = int(np.asarray(chunked.is_null()).argmax())
        where, _, what = name.rpartition(" ")
        raise _no_list(f"{where} map {number}", what, None)
    try:
        for chunk in chunked.chunks:
            chunk.validate(full=True)  # pyarrow believes offsets, wherever they point
    except pa.ArrowException as error:
        raise ValueError(f"{name} are a corrupt Arrow column: {error}") from error
    lengths = np.asarray(pc.list_value_length(chunked)).astype(np.int64)
    parts = [chunk.flatten() for chunk in chunked.chunks]
    return pa.chunked_array(parts, chunked.type.value_type), cast("Array", lengths)
