"""Reading, object text: a column of keys that are str objects, looked up where they lie."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from nbmapops._engine import choose
from nbmapops._reading.entries import KeyKind, readonly, text_keys
from nbmapops._vocabulary import range_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmapops._constants import Array
    from nbmapops._vocabulary import Index, Vocabulary

# What a key takes in plain Python, as a share of an entry there: a dict, a binary search.
SHARE = 3


class ObjectText:
    """Text keys as an array of objects that are exactly str; a `KeyColumn`.

    A vocabulary finds each key at once, which spares the codes of `TextKeys`: a key to CSR
    takes 33 ns, not 75 (asv: dictvectorizer.TextKeys). A batch that is used again keeps codes.
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
            objects = keys.astype(object)
            surely = keys.dtype.kind == "U" or (
                keys.dtype.kind == "T" and not hasattr(keys.dtype, "na_object")
            )
            return ObjectText(objects) if surely or _are_text(objects.tolist()) else None
        if not isinstance(keys, list) or not _are_text(keys):
            return None
        objects = np.empty(len(keys), object)
        objects[:] = keys
        return ObjectText(objects)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, entries: slice) -> ObjectText:
        return ObjectText(self.array[entries])

    def take(self, entries: Array) -> ObjectText:
        """See `KeyColumn`."""
        return ObjectText(self.array[entries])

    def to_array(self) -> Array:
        """See `KeyColumn`."""
        return self.array

    def encode(self) -> tuple[Array, Sequence[str]]:
        """See `KeyColumn`."""
        return text_keys(self.array.tolist()).encode()

    def place(self, vocabulary: Vocabulary) -> tuple[Array, Index]:
        """See `KeyColumn`."""
        return readonly(find_text(self.array, vocabulary)), range_index(len(vocabulary.words))

    def shares_memory(self, out: Array) -> bool:
        """See `KeyColumn`."""
        return np.may_share_memory(out, self.array)


def _are_text(keys: list[Any]) -> bool:
    # A third faster than a set of the types.
    return 0 < len(keys) == list(map(type, keys)).count(str)


def find_text(keys: Array, vocabulary: Vocabulary) -> Array:
    """Return the column of each key, -1 for one that is not a word; int64 of shape (n,).

    Parameters
    ----------
    keys : object array, shape (n,)
        Of str.
    vocabulary : Vocabulary
        Of text.
    """
    found = walked(keys, vocabulary)
    if found is not None:
        return found
    column_of = vocabulary.columns.get
    return np.fromiter(map(column_of, keys.tolist(), repeat(-1)), np.int64, len(keys))


def walked(keys: Array, vocabulary: Vocabulary) -> Array | None:
    """Return the column of each object that is a str; None where plain Python must look."""
    if not choose.compiled(len(keys) // SHARE, 0, "texts"):
        return None
    from nbmapops._reading import textwalk

    if not textwalk.available():
        return None
    if vocabulary.text_index is None:
        vocabulary.text_index = textwalk.build(cast("Sequence[str]", vocabulary.words))
    columns = np.empty(len(keys), np.int64)
    return columns if textwalk.find(keys, vocabulary.text_index, columns) == len(keys) else None
