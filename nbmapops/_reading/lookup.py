"""Reading, look-up: keys of any shape to columns, so that a vocabulary is an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbmapops._constants import INT64_MAX, INT64_MIN
from nbmapops._engine import choose
from nbmapops._load import load_kernels
from nbmapops._reading.arrays import column, text_column, typed
from nbmapops._reading.columns import is_column, plain_column, refuse_missing
from nbmapops._reading.entries import readonly
from nbmapops._reading.objecttext import SHARE, find_text, walked
from nbmapops._reading.scalars import exact_scalar, kind_of
from nbmapops.errors import show

if TYPE_CHECKING:
    from nbmapops._constants import Array
    from nbmapops._vocabulary import Vocabulary

# An array of NumPy has no more.
_MOST_DIMENSIONS = 64


def columns_of(keys: object, vocabulary: Vocabulary, operator: str) -> Any:
    """Return the column of each key, -1 for one that is not a word.

    Parameters
    ----------
    keys : int or str, or array_like of them of any shape
        Of the vocabulary's kind. Integers beyond int64 are not words.
    vocabulary : Vocabulary
    operator : str
        Name at the front of messages.

    Returns
    -------
    int64 array of the same shape, or np.int64 for a single key

    Raises
    ------
    TypeError
        Keys of the other kind or of another type.
    ValueError
        Missing values, nested lists of different lengths.
    """
    if vocabulary.kind == "string" and is_column(keys):
        text = text_column(keys, f"{operator}: keys")
        if text is not None:
            return text.columns(vocabulary).astype(np.int64)
    flat, shape = _flat(keys, operator)
    found = _found(flat, vocabulary, operator)
    return found.reshape(shape) if shape else found[0]


def _flat(keys: object, operator: str) -> tuple[Any, tuple[int, ...]]:
    """Return keys as a column, and their shape."""
    if isinstance(keys, np.generic) or not (
        hasattr(keys, "__iter__") and not isinstance(keys, str)
    ):
        return [keys], ()
    if is_column(keys):
        plain = plain_column(keys, f"{operator}: keys")
        shape = (len(plain),) if isinstance(plain, list) else plain.shape
        return plain if isinstance(plain, list) else plain.reshape(-1), shape
    flat = column(keys, "keys", operator)
    _refuse_deep(flat, operator)
    shape = (len(flat),)
    while flat and all(isinstance(one, (list, tuple)) for one in flat):
        lengths = set(map(len, flat))
        if len(lengths) > 1:
            raise ValueError(
                f"{operator}: nested keys must have one length, not {min(lengths)} and "
                f"{max(lengths)}"
            )
        shape += (*lengths,)
        flat = [one for part in flat for one in part]
    return flat, shape


def _refuse_deep(keys: Any, operator: str) -> None:
    """Raise for lists in more levels than an array has dimensions, and for one within itself."""
    for _ in range(_MOST_DIMENSIONS):
        if not (isinstance(keys, (list, tuple)) and keys):
            return
        keys = keys[0]
    raise ValueError(f"{operator}: keys must be nested at most {_MOST_DIMENSIONS - 1} lists deep")


def _found(flat: Any, vocabulary: Vocabulary, operator: str) -> Array:
    if len(flat) == 0:
        return np.empty(0, np.int64)
    if vocabulary.kind == "int64":
        ready = typed(flat, "keys", operator)
        if isinstance(ready, np.ndarray):
            return _find(readonly(ready), vocabulary)
    elif isinstance(flat, np.ndarray) and flat.dtype == object:
        found = walked(flat, vocabulary)
        if found is not None:
            return found
    scalars = flat if isinstance(flat, list) else flat.tolist()
    refuse_missing(scalars, f"{operator}: keys")
    return _by_scalars(scalars, vocabulary, operator)


def _by_scalars(scalars: list[Any], vocabulary: Vocabulary, operator: str) -> Array:
    kind = vocabulary.kind
    if kind == "string" and set(map(type, scalars)) == {str}:
        return find_text(scalars, vocabulary)
    for key in scalars:
        if kind_of(key) != kind:
            need = "integers" if kind == "int64" else "str"
            raise TypeError(
                f"{operator}: key {show(key)} is {type(key).__name__}; keys must be {need}, as the "
                "words of the vocabulary are"
            )
    exact = [exact_scalar(key, kind) for key in scalars]
    if kind == "string":
        return find_text(exact, vocabulary)
    fits = np.fromiter((INT64_MIN <= key <= INT64_MAX for key in exact), np.bool_, len(exact))
    numbers = np.array([key if fit else 0 for key, fit in zip(exact, fits, strict=True)], np.int64)
    return np.where(fits, _find(readonly(numbers), vocabulary), -1)


def _find(keys: Array, vocabulary: Vocabulary) -> Array:
    """Return the column of each int64 key."""
    if choose.compiled(len(keys) // SHARE, 0, "lookup"):
        kernels = load_kernels()
        columns = np.empty(len(keys), np.int64)
        if kernels.lookup(*vocabulary.index, keys, columns) == kernels.OK:
            return columns
    return vocabulary.find(keys)
