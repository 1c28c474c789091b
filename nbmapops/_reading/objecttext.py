"""Reading, object text: a column of keys that are str objects, looked up where they lie."""

from __future__ import annotations

from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from nbmapops._engine import choose
from nbmapops._load import imported
from nbmapops._reading.entries import KeyKind, readonly, text_keys
from nbmapops._reading.scalars import changed_error
from nbmapops._vocabulary import range_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmapops._constants import Array
    from nbmapops._vocabulary import Index, Vocabulary

# What a key takes in plain Python, as a share of an entry there: a dict, a binary search.
SHARE = 3
# Keys whose types are looked at while they are in cache: 9 ns a key, not 11.
_PART = 1 << 12


class ObjectText:
    """Text keys as an array of objects that are exactly str; a `KeyColumn`.

    A vocabulary finds each key at once, which spares the codes of `TextKeys`: a key to CSR takes
    30 ns, not 75 (asv: dictvectorizer.TextKeys). A batch that is used again keeps codes. The array
    may be the caller's, whom nothing keeps from changing it in another thread.
    """

    __slots__ = ("array",)

    kind: ClassVar[KeyKind] = "string"

    def __init__(self, array: Array) -> None:
        self.array = readonly(array)

    @staticmethod
    def of(keys: Any) -> ObjectText | None:
        """Return keys, an array or a list, as objects; None where one is not exactly a str."""
        if isinstance(keys, np.ndarray):
            if keys.dtype.kind not in "OUT":
                return None
            objects = keys.astype(object, copy=False)
            surely = keys.dtype.kind == "U" or (
                keys.dtype.kind == "T" and not hasattr(keys.dtype, "na_object")
            )
            parts = range(0, 0 if surely else len(objects), _PART)
            is_text = all(_are_text(objects[start : start + _PART].tolist()) for start in parts)
            return ObjectText(objects) if len(objects) and is_text else None
        if not isinstance(keys, list) or not keys or not _are_text(keys):
            return None
        return ObjectText(_objects(keys))

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, entries: slice) -> ObjectText:
        return ObjectText(self.array[entries])

    def take(self, entries: Array) -> ObjectText:
        """See `KeyColumn`."""
        return ObjectText(self.array[entries])

    def _texts(self) -> list[str]:
        keys: list[str] = self.array.tolist()
        if not _are_text(keys):
            raise changed_error("keys")
        return keys

    def to_array(self) -> Array:
        """See `KeyColumn`."""
        return readonly(_objects(self._texts()))

    def encode(self) -> tuple[Array, Sequence[str]]:
        """See `KeyColumn`."""
        return text_keys(self._texts()).encode()

    def place(self, vocabulary: Vocabulary) -> tuple[Array, Index]:
        """See `KeyColumn`."""
        columns = walked(self.array, vocabulary)
        if columns is None:
            columns = _looked_up(self._texts(), vocabulary)
        return readonly(columns), range_index(len(vocabulary.words))

    def shares_memory(self, out: Array) -> bool:
        """See `KeyColumn`."""
        return np.may_share_memory(out, self.array)


def _are_text(keys: list[Any]) -> bool:
    """Tell whether all are exactly str; a third faster than a set of the types."""
    return list(map(type, keys)).count(str) == len(keys)


def _objects(keys: list[str]) -> Array:
    objects = np.empty(len(keys), object)
    objects[:] = keys
    return objects


def find_text(keys: list[str], vocabulary: Vocabulary) -> Array:
    """Return the column of each key, -1 for one that is not a word; int64 of shape (n,)."""
    columns = walked(_objects(keys), vocabulary)
    return _looked_up(keys, vocabulary) if columns is None else columns


def _looked_up(keys: list[str], vocabulary: Vocabulary) -> Array:
    return np.fromiter(map(vocabulary.columns.get, keys, repeat(-1)), np.int64, len(keys))


@cache
def _textwalk() -> Any:
    return imported("nbmapops._reading.textwalk")  # imports Numba


def walked(keys: Array, vocabulary: Vocabulary) -> Array | None:
    """Return the column of each object that is a str; None where plain Python must look."""
    if not choose.compiled(len(keys) // SHARE, 0, "texts"):
        return None
    textwalk = _textwalk()
    if not textwalk.available():
        return None
    if vocabulary.text_index is None:
        vocabulary.text_index = textwalk.build(cast("Sequence[str]", vocabulary.words))
    columns = np.empty(len(keys), np.int64)
    return columns if textwalk.find(keys, vocabulary.text_index, columns) == len(keys) else None
