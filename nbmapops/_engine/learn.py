"""Engine, learning: the distinct keys of maps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import numpy as np

from nbmapops._engine import choose, plain
from nbmapops._load import load_kernels
from nbmapops._reading.entries import Int64Keys, int_array, readonly
from nbmapops._reading.inputs import read_input
from nbmapops._reading.mappings import MapReader
from nbmapops._reading.scalars import BadMap
from nbmapops._vocabulary import counted_words, pruned

if TYPE_CHECKING:
    from nbmapops._constants import Array


def learn(maps: object, values: object, offsets: object) -> tuple[str, Array | list[str]]:
    """Return the kind of the keys, and the distinct keys in the order they are first seen."""
    given = read_input("DictVectorizer", maps, values, offsets, None, ("distinct",))
    if isinstance(given.source, MapReader):
        return _learn_blocks(given.source)
    if given.bad is not None:
        raise given.bad.error
    keys = given.source.keys
    if isinstance(keys, Int64Keys):
        return "int64", distinct(keys.array)
    codes, words = cast("tuple[Array, tuple[str, ...]]", keys.encode())
    # A dictionary may hold a word twice, and words that no entry of a slice uses.
    return "string", list(dict.fromkeys(words[code] for code in distinct(codes).tolist()))


def _learn_blocks(reader: MapReader) -> tuple[str, Array | list[str]]:
    seen, waiting, size = int_array([]), [], 0
    try:
        while reader.more():
            keys = reader.read().entries.keys
            if reader.key_kind == "int64":
                waiting.append(keys.to_array().copy())
                size += len(keys)
            # As many keys as words are learned at once, so that no word is looked at often.
            if size > len(seen):
                seen, waiting, size = distinct(np.concatenate([seen, *waiting])), [], 0
    except BadMap as bad:
        raise bad.error from None
    if reader.key_kind == "string":
        return "string", list(reader.words)
    return "int64", distinct(np.concatenate([seen, *waiting]))


def learn_pruned(
    maps: object, values: object, offsets: object, order: str, min_maps: int, max_words: int | None
) -> tuple[str, Array | list[str]]:
    """Return the kind of the keys, and those of enough maps in the order asked for."""
    given = read_input("DictVectorizer", maps, values, offsets, None, ("distinct",))
    entries, bad = given.read_all()
    if bad is not None:
        raise bad.error
    keys = entries.keys
    words: Array | list[str]
    if isinstance(keys, Int64Keys):
        words, counts = counted_words(keys.array, None, entries.offsets)
    else:
        codes, texts = cast("tuple[Array, tuple[str, ...]]", keys.encode())
        words, counts = counted_words(codes, texts, entries.offsets)
    places = np.arange(len(words))
    if order == "sorted":
        text = not isinstance(words, np.ndarray)
        ascending = sorted(range(len(words)), key=words.__getitem__) if text else np.argsort(words)
        places = np.asarray(ascending, np.int64)
    places = places[pruned(counts[places], min_maps, max_words)]
    if isinstance(words, np.ndarray):
        return keys.kind, words[places]
    return keys.kind, [words[place] for place in places.tolist()]


def distinct(keys: Array) -> Array:
    """Return the distinct numbers in the order in which they are first seen."""
    # In plain Python a number takes a twentieth of what an entry takes there.
    if not choose.compiled(len(keys) // 20, 0, "distinct"):
        return plain.first_seen(keys)
    # Drawn anew, so that nobody can choose keys that collide; the result does not depend on it.
    multiplier = int.from_bytes(os.urandom(8), "little", signed=True) | 1
    found: Array = load_kernels().distinct(readonly(keys), multiplier)
    return found
