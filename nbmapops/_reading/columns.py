"""Reading, columns: those of other libraries as plain arrays or lists; missing values are errors.

Nothing is imported for it: a column comes from a library that its owner has imported already.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops._foreign import is_interruption
from nbmapops._load import imported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import TypeIs

    from nbmapops._constants import Array


_WIDE = ("Int128", "UInt128")  # of polars; NumPy has no such integers


def is_missing(scalar: object) -> bool:
    """Tell whether this object stands for a missing value: None, pandas' NA and NaT, masked."""
    return scalar is None or _is_mark(type(scalar))


def _is_mark(kind: type) -> bool:
    if kind.__name__ in ("NAType", "NaTType"):
        return kind.__module__.partition(".")[0] == "pandas"
    if issubclass(kind, np.ndarray):
        return kind is np.ma.core.MaskedConstant
    return kind is type(None)


def is_integer(scalar: object) -> TypeIs[int | np.integer]:
    """Tell whether this is an integer of Python or NumPy: not a bool, and not a time."""
    return isinstance(scalar, (int, np.integer)) and not isinstance(scalar, (bool, np.timedelta64))


def refuse_missing(elements: Sequence[object] | Array, name: str) -> None:
    """Raise where an element stands for a missing value; `name` is the front of the message."""
    if any(map(_is_mark, set(map(type, elements)))):
        raise _missing_error(name, [is_missing(element) for element in elements])


def _missing_error(name: str, missing: object) -> ValueError:
    entry = int(np.argmax(np.asarray(missing, bool)))
    return ValueError(
        f"{name} hold missing values (the first is entry {entry}); drop them or fill them first"
    )


def is_masked_array(data: object) -> TypeIs[np.ma.MaskedArray[Any, Any]]:
    """Tell whether this is a masked array, without an import of `numpy.ma` (5 ms) for others."""
    is_own = isinstance(data, np.ndarray) and type(data) is not np.ndarray
    return is_own and isinstance(data, np.ma.MaskedArray)


def is_column(data: object) -> bool:
    """Tell whether this is an array or a column of some library, not just an iterable."""
    exports = any(hasattr(data, f"__{name}__") for name in _EXPORTS)
    return exports and not isinstance(data, np.generic)


_EXPORTS = ("array", "arrow_c_stream", "arrow_c_array")


def plain_column(data: object, name: str) -> Array | list[Any]:
    """Return a column as a NumPy array, or as a list where an array would change its elements.

    Parameters
    ----------
    data : object
        What `is_column` is true for.
    name : str
        What messages call it, as in "DictVectorizer: values".

    Returns
    -------
    ndarray or list
        Elements of an object array or a list may still be missing: see `refuse_missing`.

    Raises
    ------
    ValueError
        The column marks a value as missing.
    TypeError
        A column that NumPy cannot hold.
    """
    if is_masked_array(data):
        if np.ma.is_masked(data):
            raise _missing_error(name, np.ma.getmaskarray(data))
        return np.asarray(data.data)
    if isinstance(data, np.ndarray):
        return np.asarray(data)
    data = arrow_inside(data, name)
    if _is_arrow(data):
        _validate(data, name)  # text would be read wherever its offsets point
    return _of_library(data, name)


def _of_library(data: Any, name: str) -> Array | list[Any]:
    dtype = getattr(data, "dtype", None)
    nulls = getattr(data, "null_count", 0)  # pyarrow, cudf: a number; polars: a method
    if nulls() if callable(nulls) else nulls:
        raise _missing_error(name, data.is_null())
    # In a NumPy dtype NaN is a number, whatever pandas thinks of it.
    if hasattr(data, "isna") and not isinstance(dtype, np.dtype):
        missing = np.asarray(data.isna())
        if missing.any():
            raise _missing_error(name, missing)
    if str(dtype) in _WIDE:
        return list(data)
    try:
        array = np.asarray(data)
    except NotImplementedError as error:  # pyarrow, for its unions
        raise TypeError(
            f"{name} are a column of {getattr(data, 'type', dtype)}; it must hold numbers or text"
        ) from error
    if array.dtype.kind == "f" and getattr(dtype, "kind", "f") in "iu":
        raise ValueError(f"{name} hold missing values; drop them or fill them first")
    if array.dtype.kind == "U" and hasattr(data, "to_list"):
        return list(data.to_list())  # text of fixed width ends before a NUL
    return array


def arrow_inside(data: Any, name: str) -> Any:
    """Return the Arrow array that a column holds, decoded, so that it knows its nulls."""
    if hasattr(getattr(data, "dtype", None), "pyarrow_dtype"):  # pandas
        data = getattr(data, "array", data).__arrow_array__()
    elif not hasattr(data, "__array__"):
        data = _imported(data, name)
    if not _is_arrow(data):
        return data
    pa = imported("pyarrow")
    while pa.types.is_dictionary(data.type):
        _validate(data, name)  # pyarrow believes positions, wherever they point
        data = data.cast(data.type.value_type)
    if pa.types.is_run_end_encoded(data.type):
        _validate(data, name)
        data = imported("pyarrow.compute").run_end_decode(data)
    return data


def _is_arrow(data: object) -> bool:
    pa = sys.modules.get("pyarrow")
    return pa is not None and isinstance(data, (pa.Array, pa.ChunkedArray))


def _validate(data: Any, name: str) -> None:
    try:
        data.validate(full=True)
    except ValueError as error:  # pyarrow's class is one
        if is_interruption(error):
            raise
        raise ValueError(f"{name} are a corrupt Arrow column: {error}") from error


def arrow_text(data: Any, name: str) -> Any:
    """Return a column of Arrow text as a pyarrow ChunkedArray without nulls; None for any other.

    Made without a copy: pyarrow's own, the text of pandas that pyarrow stores, that of polars.
    """
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype):
        return None
    if getattr(dtype, "storage", None) == "pyarrow":  # pandas' str and string
        data = getattr(data, "array", data).__arrow_array__()
    elif str(dtype) == "String" and "pyarrow" in sys.modules:  # polars
        data = sys.modules["pyarrow"].chunked_array(data)
    data = arrow_inside(data, name)
    if not _is_arrow(data):
        return None
    pa = sys.modules["pyarrow"]
    if not any(getattr(pa.types, f"is_{kind}")(data.type) for kind in _TEXTS):
        return None
    if data.null_count:
        raise _missing_error(name, data.is_null())
    return data if isinstance(data, pa.ChunkedArray) else pa.chunked_array([data])


_TEXTS = ("string", "large_string", "string_view")


def _imported(data: object, name: str) -> Any:
    """Return the one column of an object that only exports Arrow data: a DuckDB relation."""
    try:
        pa = imported("pyarrow")
    except ImportError as error:
        raise ImportError(
            f"{name}: Arrow columns need pyarrow: pip install 'nbmapops[arrow]'"
        ) from error
    stream = hasattr(data, "__arrow_c_stream__")
    column = pa.chunked_array(data) if stream else pa.chunked_array([pa.array(data)])
    if not pa.types.is_struct(column.type):
        return column
    if column.type.num_fields != 1:
        raise TypeError(
            f"{name} are a {type(data).__name__} of {column.type.num_fields} columns; pass one"
        )
    return pa.chunked_array(
        [chunk for part in column.chunks for chunk in part.flatten()], column.type.field(0).type
    )
