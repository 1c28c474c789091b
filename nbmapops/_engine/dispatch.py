"""Engine, dispatch: one literal table says which code runs for a type of map.

A cell says how keys are made ready for the kernels. How a result travels through them is said by
`CARRIED`: kernels move values without looking at them, as 4- or 8-byte integers; of text they place
entry numbers, and NumPy gathers the objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbmapops._vocabulary import Index, range_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmapops._constants import Array
    from nbmapops._reading.entries import KeyColumn
    from nbmapops._vocabulary import Vocabulary

    Place = Callable[["KeyColumn", "Vocabulary | None", int], "tuple[Array, Index]"]


class Cell(NamedTuple):
    """What runs for one type of map."""

    place: Place  # makes keys ready: gives the numbers and the index that a kernel takes
    spec: bool  # whether the ONNX-ML text has this type


def by_word(keys: KeyColumn, vocabulary: Vocabulary | None, width: int) -> tuple[Array, Index]:
    """Place a key at the column of its word."""
    del width  # the index knows it
    assert vocabulary is not None
    return keys.place(vocabulary)


def by_position(keys: KeyColumn, vocabulary: Vocabulary | None, width: int) -> tuple[Array, Index]:
    """Place a key at the column that it is, below `width`; DENSE takes the order of keys alone."""
    del vocabulary  # CastMap has none
    return keys.to_array(), range_index(width)


CARRIED: dict[str, type[np.signedinteger]] = {
    "float32": np.int32,
    "float64": np.int64,
    "int64": np.int64,
}
"""As what a result of numbers travels through the kernels."""
CARRIED_DTYPES = {np.dtype(kind): carried for kind, carried in CARRIED.items()}

TABLE: dict[tuple[str, str, str, str], Cell] = {
    # operator, form, kind of key, kind of value: how keys reach the kernel
    ("CastMap", "DENSE", "int64", "float32"): Cell(by_position, spec=True),
    ("CastMap", "DENSE", "int64", "float64"): Cell(by_position, spec=False),
    ("CastMap", "DENSE", "int64", "int64"): Cell(by_position, spec=False),
    ("CastMap", "DENSE", "int64", "string"): Cell(by_position, spec=True),
    ("CastMap", "SPARSE", "int64", "float32"): Cell(by_position, spec=True),
    ("CastMap", "SPARSE", "int64", "float64"): Cell(by_position, spec=False),
    ("CastMap", "SPARSE", "int64", "int64"): Cell(by_position, spec=False),
    ("CastMap", "SPARSE", "int64", "string"): Cell(by_position, spec=True),
    ("DictVectorizer", "VOCABULARY", "int64", "float32"): Cell(by_word, spec=True),
    ("DictVectorizer", "VOCABULARY", "int64", "float64"): Cell(by_word, spec=True),
    ("DictVectorizer", "VOCABULARY", "int64", "int64"): Cell(by_word, spec=False),
    ("DictVectorizer", "VOCABULARY", "int64", "string"): Cell(by_word, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "float32"): Cell(by_word, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "float64"): Cell(by_word, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "int64"): Cell(by_word, spec=True),
    ("DictVectorizer", "VOCABULARY", "string", "string"): Cell(by_word, spec=False),
}


def refused_type(operator: str, form: str, key: str, value: str, *, spec: bool) -> TypeError:
    """Return the error for a type of map that is not taken; it lists those that are."""
    pairs = [
        f"{other} -> {kind}"
        for (name, shape, other, kind), cell in TABLE.items()
        if (name, shape) == (operator, form) and (cell.spec or not spec)
    ]
    return TypeError(
        f"{operator}: maps of {key} -> {value} are not taken here; it takes {', '.join(pairs)}"
    )
