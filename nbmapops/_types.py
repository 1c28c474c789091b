"""Types of arguments, for type checkers: what an option may be, what a vocabulary is."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    SupportsIndex,
    TypeAlias,
    TypedDict,
    TypeVar,
)

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal
    from fractions import Fraction

    from nbmapops._constants import Array

Semantics = Literal["strict", "onnxruntime"]
HandleUnknown = Literal["error", "ignore"]
Order = Literal["sorted", "first_seen"]
CastTo = Literal["TO_FLOAT", "TO_INT64", "TO_STRING"]
MapForm = Literal["DENSE", "SPARSE"]
NullMap = Literal["error", "empty"]
Dtype: TypeAlias = (
    Literal["float", "double", "int64", "string", "float32", "float64"]
    | np.dtype[np.generic]
    | type[np.generic | float | str]
)
IndexDtype: TypeAlias = Literal["int32", "int64"] | np.dtype[np.generic] | type[np.signedinteger]

Map: TypeAlias = dict[Any, Any]
"""A dict whose keys and values are looked at before they are used."""
Key: TypeAlias = int | str
Value: TypeAlias = int | float | str
"""Of Python's own types, or np.float32, which is to keep its bits."""

_Word_co = TypeVar("_Word_co", covariant=True)


class Words(Protocol[_Word_co]):
    """A list, a tuple, a range.

    A str is not one, because ``in`` takes text only there; dicts and sets have no `index`.
    """

    def __contains__(self, word: object, /) -> bool: ...
    def __getitem__(self, position: SupportsIndex, /) -> _Word_co: ...
    def __iter__(self) -> Iterator[_Word_co]: ...
    def __len__(self) -> int: ...
    def index(self, word: Any, /) -> int: ...


class Column(Protocol):
    """An array of NumPy or Arrow, a column of pandas or polars."""

    def __len__(self) -> int: ...
    def __array__(self) -> Array: ...


IntWords: TypeAlias = Words[int | np.integer] | Column
TextWords: TypeAlias = Words[str] | Column


class Options(TypedDict, total=False):
    """What `replace` takes: the parameters of both operators."""

    cast_to: CastTo
    map_form: MapForm
    max_map: int
    int64_vocabulary: IntWords | None
    string_vocabulary: TextWords | None
    dtype: Dtype | None
    handle_unknown: HandleUnknown | None
    fill_value: float | str | Decimal | Fraction | None
    semantics: Semantics
    unknown_columns: int
