"""Inputs of the benchmarks: seeded, the same in every run, maps of 20 entries."""

from __future__ import annotations

import json
from collections import OrderedDict
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZE = 20


class Arrays(NamedTuple):
    """A vocabulary and a batch of maps over it, as arrays."""

    words: NDArray[np.int64]
    keys: NDArray[np.int64]
    values: NDArray[Any]
    offsets: NDArray[np.int64]

    def dicts(self) -> list[dict[int, float]]:
        """Give the same maps as dicts of Python ints and floats."""
        keys, values, cuts = self.keys.tolist(), self.values.tolist(), self.offsets.tolist()
        return [
            dict(zip(keys[start:stop], values[start:stop], strict=True))
            for start, stop in pairwise(cuts)
        ]


def distinct_columns(maps: int, width: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw different columns for each map, in random order (Floyd's method, all maps at once)."""
    columns = np.empty((maps, SIZE), np.int64)
    for drawn, last in enumerate(range(width - SIZE, width)):
        column = rng.integers(0, last + 1, maps)
        taken = (columns[:, :drawn] == column[:, None]).any(axis=1)
        columns[:, drawn] = np.where(taken, last, column)
    return rng.permuted(columns, axis=1).ravel()


def random_words(width: int, rng: np.random.Generator, high: int = 2**62) -> NDArray[np.int64]:
    """Draw `width` different words between -high and high, in ascending order."""
    words = np.unique(rng.integers(-high, high, width + width // 8 + 10))
    return np.sort(rng.permutation(words)[:width])


def batch(width: int, maps: int) -> Arrays:
    """Make a batch of float64 maps over a vocabulary of random int64 words in random order."""
    rng = np.random.default_rng(width)
    words = rng.permutation(random_words(width, rng))
    keys = words[distinct_columns(maps, width, rng)]
    return Arrays(words, keys, rng.random(keys.size), _offsets(maps))


def narrow_batch(width: int, maps: int) -> Arrays:
    """Make a batch of float32 maps over the vocabulary 0 .. width - 1."""
    rng = np.random.default_rng(width)
    keys = distinct_columns(maps, width, rng)
    return Arrays(np.arange(width), keys, rng.random(keys.size, np.float32), _offsets(maps))


def one_map(order: str, entries: int) -> Arrays:
    """Make one float32 map: its keys are "narrow", "wide" or "ascending"."""
    rng = np.random.default_rng(entries)
    keys = rng.permutation(2 * entries)[:entries]
    if order == "wide":
        keys = rng.permutation(random_words(entries, rng))
    elif order == "ascending":
        keys.sort()
    values = rng.random(entries, np.float32)
    return Arrays(np.sort(keys), keys, values, np.array([0, entries]))


def int_dicts(width: int, maps: int) -> tuple[list[int], list[dict[int, float]]]:
    """Make a sorted vocabulary of scattered ids and dicts over it whose values float32 holds."""
    rng = np.random.default_rng(width)
    words = random_words(width, rng, 2**31)
    keys = words[distinct_columns(maps, width, rng)]
    values = rng.random(keys.size, np.float32)
    return words.tolist(), Arrays(words, keys, values, _offsets(maps)).dicts()


def str_dicts(
    width: int, maps: int, *, fresh: bool = False
) -> tuple[list[str], list[dict[str, float]]]:
    """Make a sorted vocabulary of text and a list of dicts over it.

    A word is one shared object in all maps, or with `fresh` a new object in each, as JSON parsed
    line by line gives it.
    """
    words = _names(width)
    maps_of_int = narrow_batch(width, maps).dicts()
    dicts = [{words[key]: value for key, value in row.items()} for row in maps_of_int]
    return words, [json.loads(json.dumps(row)) for row in dicts] if fresh else dicts


RECORDS = ("3 texts, 4 numbers", "1 text, 4 numbers", "3 texts", "json", "lists", "None")


def records(kind: str, maps: int) -> list[dict[str, Any]]:
    """Make records of texts and numbers; "json", "lists" and "None" have 3 texts and 4 numbers.

    Keys and texts are shared objects, but new ones in each record of "json"; "lists" has three
    lists of three texts and no numbers, "None" has a None in each record.
    """
    rng = np.random.default_rng(maps)
    texts = [_names(width) for width in (20, 200, 1000)][: 1 if kind.startswith("1") else 3]
    size = 3 if kind == "lists" else 1
    columns: dict[str, list[Any]] = {}
    for number, names in enumerate(texts):
        chosen = [[names[i] for i in row] for row in rng.integers(0, len(names), (maps, size))]
        columns[f"t{number}"] = chosen if kind == "lists" else [each for (each,) in chosen]
    if kind not in ("3 texts", "lists"):
        columns |= {f"n{number}": rng.random(maps).tolist() for number in range(4)}
    if kind == "None":
        columns["missing"] = [None] * maps
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [json.loads(json.dumps(row)) for row in rows] if kind == "json" else rows


def other_mappings(kind: str, dicts: list[dict[str, float]]) -> list[Any]:
    """Make mappings of a kind that is not exactly dict."""
    kinds = {"OrderedDict": OrderedDict, "subclass": _Row, "MappingProxyType": MappingProxyType}
    return list(map(kinds[kind], dicts))


class _Row(dict[str, float]):
    """What a user's own class of rows is."""


def text_batch(kind: str, width: int, maps: int) -> tuple[list[str], Any, Any, Any]:
    """Make words and arrays whose keys are texts: each is an object of its own, as read."""
    words = _names(width)
    _, columns, values, offsets = narrow_batch(width, maps)
    texts = np.array(words)[columns]
    if kind == "object":
        return words, texts.astype(object), values, offsets
    return words, texts.astype(np.dtypes.StringDType()) if kind != "U" else texts, values, offsets


def repeated_batch(width: int, maps: int) -> tuple[Any, Any, Any]:
    """Make float64 maps over 0 .. width - 1; every second one has three of its keys again."""
    _, keys, values, offsets = narrow_batch(width, maps)
    table = keys.reshape(maps, SIZE).copy()
    table[::2, -3:] = table[::2, :3]
    return table.ravel(), values.astype(np.float64), offsets


def arrow_column(keys: str, width: int, maps: int) -> tuple[Any, Any]:
    """Make Arrow words and a map column over them: keys are "int64", "string" or "dictionary"."""
    import pyarrow as pa

    rng = np.random.default_rng(width)
    columns = distinct_columns(maps, width, rng)
    values = pa.array(rng.random(columns.size))
    offsets = pa.array(_offsets(maps).astype(np.int32))
    words = pa.array(random_words(width, rng) if keys == "int64" else _names(width))
    if keys == "dictionary":
        entries = pa.DictionaryArray.from_arrays(pa.array(columns.astype(np.int32)), words)
    else:
        entries = words.take(pa.array(columns))
    return words, pa.MapArray.from_arrays(offsets, entries, values)


def _names(width: int) -> list[str]:
    return [f"feature_{column:07d}" for column in range(width)]


def _offsets(maps: int) -> NDArray[np.int64]:
    return np.arange(maps + 1) * SIZE
