"""Reading, Arrow data: arrays and buffers of Arrow as NumPy arrays, checked before."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from nbmapops._constants import INT64_MAX, Array
from nbmapops._reading.arrowlib import pa, pc
from nbmapops._reading.scalars import DTYPES, exact_value

if TYPE_CHECKING:
    from nbmapops._reading.arrowlib import ArrowArray, ArrowType

Int64Array: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


def value_kind(arrow_type: ArrowType) -> str | None:
    """Return the kind of values that a type holds; decimals with no places are integers."""
    types, plain = pa.types, plain_type(arrow_type)
    if is_text(plain):
        return "string"
    if types.is_decimal(plain):
        return "float64" if plain.scale > 0 else "int64"
    if types.is_floating(plain):
        return "float64" if types.is_float64(plain) else "float32"
    return "int64" if types.is_integer(plain) or types.is_boolean(plain) else None


def dtype_of(arrow_type: ArrowType) -> np.dtype[np.generic]:
    return DTYPES[value_kind(arrow_type) or "string"]


def plain_type(arrow_type: ArrowType) -> ArrowType:
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def is_text(arrow_type: ArrowType) -> bool:
    types = pa.types
    return bool(
        types.is_string(arrow_type)
        or types.is_large_string(arrow_type)
        or types.is_string_view(arrow_type)
    )


def is_words(arrow_type: ArrowType) -> bool:
    return bool(pa.types.is_dictionary(arrow_type)) and is_text(arrow_type.value_type)


def validate_text(array: ArrowArray) -> None:
    """Refuse text that points outside its buffer or is not UTF-8.

    ASCII, which is UTF-8 however it is cut, needs less than validate(full=True): 1 ns a text, not 7
    (asv: arrow.Csr).
    """
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
        array.validate(full=True)


def plain_array(array: ArrowArray, operator: str = "MapBatch") -> ArrowArray:
    """Return an array of a type that pyarrow can filter and look up."""
    if pa.types.is_dictionary(array.type):
        if not is_text(array.type.value_type):
            checked_positions(array, null_mask(array.indices), operator)
            return array.dictionary_decode()
        dictionary = array.dictionary
        if pa.types.is_string_view(dictionary.type):
            dictionary = dictionary.cast(pa.large_string())
        if array.indices.type.bit_width > 32 or pa.types.is_uint32(array.indices.type):
            checked_positions(array, null_mask(array.indices), operator)
        indices = array.indices.cast(pa.int32())
        array = pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)
        # a dictionary may hold null as a word, or (a slice) many words that no entry here uses
        if dictionary.null_count or len(dictionary) > len(array):
            checked_positions(array, null_mask(array.indices), operator)
            array = array.dictionary_decode().dictionary_encode()
    elif pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return array


def null_mask(array: ArrowArray) -> BoolArray | None:
    """Return the mask of nulls, None if there are none."""
    if not array.null_count:
        return None
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False))


def full_mask(nulls: BoolArray | None, length: int) -> BoolArray:
    return np.zeros(length, np.bool_) if nulls is None else nulls


def above_int64(array: ArrowArray, nulls: BoolArray | None) -> BoolArray | None:
    """Return where unsigned numbers do not fit int64; None for all other types."""
    if not pa.types.is_uint64(array.type):
        return None
    above: BoolArray = buffer_view(array) > INT64_MAX
    return above if nulls is None else above & ~nulls


def buffer_view(array: ArrowArray) -> Array:
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


def _buffer_dtype(arrow_type: ArrowType) -> np.dtype[np.generic]:
    """Return the dtype of a data buffer; Arrow's to_pandas_dtype() may import pandas."""
    types = pa.types
    unsigned = "u" if types.is_unsigned_integer(arrow_type) else "i"
    kind = "f" if types.is_floating(arrow_type) else unsigned
    return np.dtype(f"{kind}{arrow_type.bit_width // 8}")


def checked_positions(array: ArrowArray, nulls: BoolArray | None, operator: str) -> Array:
    """Return positions in a dictionary, that of a null behind the last word."""
    positions, end = buffer_view(array.indices), len(array.dictionary)
    if nulls is not None:
        positions, end = np.where(nulls, end, positions.astype(np.int64)), end + 1
    # seen as unsigned, negative positions lie behind the end too: one pass
    if len(positions) and positions.view(f"u{positions.itemsize}").max() >= end:
        raise ValueError(f"{operator}: the Arrow column points outside its dictionary")
    return positions


def as_values(
    array: ArrowArray,
    nulls: BoolArray | None = None,
    fill: object = None,
    operator: str = "MapBatch",
) -> Array:
    """Return values as numbers or as objects, with the fill where they are null."""
    values: Array
    if is_words(array.type):
        words = np.array([*array.dictionary.to_pylist(), None], object)
        values = words[checked_positions(array, nulls, operator)]
    else:
        values = as_objects(array) if is_text(array.type) else as_numbers(array)
    if nulls is not None:
        values = np.array(values)
        values[nulls] = fill
    return values


def as_exact(array: ArrowArray) -> tuple[Array, BoolArray]:
    """Return decimals as int64 or float64, and which of them have no exact one."""
    numbers = np.zeros(len(array), dtype_of(array.type))
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


def no_exact(array: ArrowArray) -> str:
    kind = value_kind(array.type)
    return f"key {{}}: value {{}} has no exact {kind}; cast the values to double first"


def as_numbers(array: ArrowArray) -> Array:
    """Return numbers as int64, float64 or float32: a view where that is their type."""
    if pa.types.is_decimal(array.type):
        return as_exact(array)[0]
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int64())
    numbers: Array = buffer_view(array).astype(dtype_of(array.type), copy=False)
    return numbers


def as_objects(array: ArrowArray) -> npt.NDArray[np.object_]:
    objects: npt.NDArray[np.object_] = array.to_numpy(zero_copy_only=False)
    return objects


def joined(parts: list[Array], dtype: npt.DTypeLike) -> Array:
    """Join arrays; one array is returned as it is."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)
