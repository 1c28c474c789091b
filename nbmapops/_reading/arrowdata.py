"""Reading, Arrow data: arrays of Arrow as NumPy arrays and as text keys, checked before."""

from __future__ import annotations

import re
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from nbmapops._constants import INT64_MAX, Array
from nbmapops._foreign import let_out
from nbmapops._reading.arrowlib import pa, pc
from nbmapops._reading.entries import Entries, Int64Keys, KeyKind, TextKeys, readonly
from nbmapops._reading.scalars import DTYPES, exact_value
from nbmapops._vocabulary import range_index

if TYPE_CHECKING:
    from nbmapops._reading.arrowlib import ArrowArray, ArrowChunks, ArrowType
    from nbmapops._reading.entries import KeyColumn
    from nbmapops._vocabulary import Index, Vocabulary

Int64Array: TypeAlias = npt.NDArray[np.int64]
Int32Array: TypeAlias = npt.NDArray[np.int32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_SURROGATE = re.compile("[\ud800-\udfff]")


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


# ------------------------------------------------------------------------------- text keys
class Text:
    """Text keys that stay in Arrow: strings, or dictionaries of strings, without nulls."""

    __slots__ = ("_data",)

    kind: ClassVar[KeyKind] = "string"

    def __init__(self, data: ArrowChunks) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def to_arrow(self) -> ArrowChunks:
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
        parts = [as_values(plain_array(chunk)) for chunk in self._data.chunks]
        return readonly(joined(parts, np.dtype(object)))

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
        columns: Array = self.columns(vocabulary)
        columns.setflags(write=False)
        return columns, range_index(len(vocabulary.words))

    def columns(self, vocabulary: Vocabulary) -> Int32Array:
        """Return the column of each key in a vocabulary of text, -1 where it is not a word."""
        if not is_words(self._data.type):
            return _columns_of(self._data, vocabulary)
        parts: list[Int32Array] = []
        dictionary, table = None, None
        for chunk in map(plain_array, self._data.chunks):
            if dictionary is None or not dictionary.equals(chunk.dictionary):
                dictionary = chunk.dictionary
                same = _are_words(dictionary, vocabulary)  # then positions are columns
                table = None if same else _columns_of(dictionary, vocabulary)
            positions = buffer_view(chunk.indices)
            if table is not None:
                # Faster than table[positions] (asv: arrow.Csr); all positions are checked already.
                positions = table.take(positions, mode="clip")
            parts.append(positions)
        return joined(parts, np.dtype(np.int32))

    def encode(self) -> tuple[Int64Array, tuple[str, ...]]:
        """Return codes and words; those of dictionaries may repeat, and need not be used."""
        data = self._data
        data = data.unify_dictionaries() if is_words(data.type) else data.dictionary_encode()
        codes = [buffer_view(chunk.indices).astype(np.int64) for chunk in data.chunks]
        words = tuple(data.chunk(0).dictionary.to_pylist()) if codes else ()
        return joined(codes, np.dtype(np.int64)), words


def text_of(column: ArrowChunks, name: str) -> Text:
    """Return a ChunkedArray of text without nulls as keys; `name` is the front of messages."""
    try:
        for chunk in column.chunks:
            chunk.validate()
            validate_text(chunk)
    except pa.ArrowException as error:
        raise ValueError(f"{name} are a corrupt Arrow column: {error}") from error
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return Text(column)


def _are_words(dictionary: ArrowArray, vocabulary: Vocabulary) -> bool:
    """Whether a dictionary is the vocabulary, so that its positions are the columns."""
    if len(dictionary) != len(vocabulary) or vocabulary.copies is not None:
        return False
    return bool(dictionary.cast(pa.large_string()).equals(_word_set(vocabulary)))


def _columns_of(text: ArrowArray, vocabulary: Vocabulary) -> Int32Array:
    """Return the columns of text, -1 where it is not a word."""
    if len(text) < len(vocabulary.words):  # pyarrow would first hash every word
        found = map(vocabulary.columns.get, text.to_pylist(), repeat(-1))
        return np.fromiter(found, np.int32, len(text))
    parts: list[Int32Array] = []
    found = pc.index_in(text, value_set=_word_set(vocabulary))
    for chunk in found.chunks if isinstance(found, pa.ChunkedArray) else [found]:
        columns, missing = buffer_view(chunk), null_mask(chunk)
        if missing is not None:
            # Faster than columns[missing] = -1 where many keys are missing (asv: arrow.Csr).
            columns = columns + 1
            columns *= ~missing
            columns -= 1
        parts.append(columns)
    return joined(parts, np.dtype(np.int32))


def _word_set(vocabulary: Vocabulary) -> ArrowArray:
    """Return words as Arrow text, null for one with a lone surrogate: no Arrow text equals it."""
    if vocabulary.arrow_words is None:
        words = vocabulary.words
        try:
            vocabulary.arrow_words = pa.array(words, pa.large_string())
        except UnicodeEncodeError as error:
            let_out(error)
            fit = [None if _SURROGATE.search(word) else word for word in words]
            vocabulary.arrow_words = pa.array(fit, pa.large_string())
    return vocabulary.arrow_words


# ------------------------------------------------------------------------------- whole columns
def read_as_it_is(column: ArrowArray | ArrowChunks) -> Entries | None:
    """Return the entries of a column of maps where no rule is needed, None for any other.

    It is one chunk, holds no null, and its keys and values are of the types that are not converted.
    """
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            return None
        column = column.chunk(0)
    if not isinstance(column, pa.MapArray) or column.null_count or not len(column):
        return None
    offsets, entries = column.offsets.to_numpy().astype(np.int64), column.values
    start, stop = int(offsets[0]), int(offsets[-1])
    offsets -= start
    if not 0 <= start <= stop <= len(entries) or (offsets[1:] < offsets[:-1]).any():
        return None
    try:
        entries.validate()
        entries = entries.slice(start, stop - start)
        keys, values = entries.field(0), entries.field(1)
        validate_text(keys)
    except pa.ArrowException:
        return None  # it is corrupt
    is_number = values.type in (pa.float64(), pa.int64(), pa.float32())
    if entries.null_count or keys.null_count or values.null_count or not is_number:
        return None
    column_of_keys: KeyColumn
    if keys.type in (pa.string(), pa.large_string()):
        column_of_keys = Text(pa.chunked_array([keys]))
    elif keys.type == pa.int64():
        column_of_keys = Int64Keys(buffer_view(keys))
    else:
        return None
    offsets.setflags(write=False)
    return Entries(column_of_keys, buffer_view(values), offsets)
