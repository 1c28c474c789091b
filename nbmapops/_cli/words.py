"""Command: the column of each key, given or learned while the maps are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from nbmapops import DictVectorizer
from nbmapops._cli.source import InputError, short

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from nbmapops import MapBatch
    from nbmapops._cli.source import Maps
    from nbmapops._types import Map


class Words(Protocol):
    """The code of each key, as the file has it; -1 stands for a key to be skipped.

    Both kinds are dicts: a look-up is one call of C code, a quarter of the time that an entry takes
    to be decoded, so that compiled code would gain nothing here, and nobody waits for it.
    """

    def __getitem__(self, key: str | int, /) -> int: ...

    def check(self, maps: Sequence[Map] | MapBatch) -> None:
        """Raise the library's error for maps that it does not take."""

    def in_order(self) -> tuple[list[str] | list[int], npt.NDArray[np.int32]]:
        """Return the words in column order, and the column of each code."""


class LearnedWords(dict[str | int, int]):
    """Each key gets the next code when it is first seen; the columns are sorted."""

    def __init__(self, maps: Maps) -> None:
        super().__init__()
        self._word = maps.word

    def __missing__(self, key: str | int) -> int:
        word = self._word(key)
        if type(word) is int and not -(2**63) <= word < 2**63:
            raise OverflowError
        self[key] = code = len(self)
        return code

    def check(self, maps: Sequence[Map] | MapBatch) -> None:
        DictVectorizer.from_maps(maps)(maps)

    def in_order(self) -> tuple[list[str] | list[int], npt.NDArray[np.int32]]:
        words = list(map(self._word, self))
        order = sorted(range(len(words)), key=words.__getitem__)
        columns = np.empty(len(words), np.int32)
        columns[order] = np.arange(len(words))
        return [words[code] for code in order], columns


class GivenWords(dict[str | int, int]):
    """The columns of a vocabulary."""

    def __init__(self, operator: DictVectorizer, maps: Maps, *, skips: bool) -> None:
        self._operator = operator
        self._word = maps.word
        self._skips = skips
        self._remedy = ""
        words = list(operator.vocabulary)
        kind = "int64" if words and type(words[0]) is not str else "string"
        if words and kind != maps.key_type:
            self._skips = False  # the operator has an error for each key
            words = []
            self._remedy = (
                "the vocabulary holds integers: --key-type int64 reads keys of JSON as integers"
                if kind == "int64"
                else "the vocabulary holds text: --key-type string reads keys of JSON as text"
            )
        super().__init__(zip(map(maps.key, words), range(len(words)), strict=True))

    def __missing__(self, key: str | int) -> int:
        self._word(key)
        if not self._skips:
            raise LookupError
        return -1

    def check(self, maps: Sequence[Map] | MapBatch) -> None:
        try:
            self._operator(maps)
        except TypeError as error:
            if not self._remedy:
                raise
            raise TypeError(f"{error}; {self._remedy}") from error

    def in_order(self) -> tuple[list[str] | list[int], npt.NDArray[np.int32]]:
        words = list(self._operator.vocabulary)
        return words, np.arange(len(words), dtype=np.int32)


def read_words(path: Path, handle_unknown: Literal["error", "ignore"], maps: Maps) -> GivenWords:
    """Read a vocabulary: a JSON array of words."""
    try:
        words = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: this is not JSON: {error}") from error
    if not isinstance(words, list):
        raise InputError(f"{path}: {short(words)} is not a JSON array of words")
    kind = ("int64" if type(words[0]) is int else "string") if words else maps.key_type
    try:
        if kind == "int64":
            operator = DictVectorizer(int64_vocabulary=words, handle_unknown=handle_unknown)
        else:
            operator = DictVectorizer(string_vocabulary=words, handle_unknown=handle_unknown)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: {error}") from error
    return GivenWords(operator, maps, skips=handle_unknown == "ignore")
