"""Keys that are str objects: every container gives what dicts give, in both engines."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nbmapops
from nbmapops._reading.entries import text_keys
from nbmapops._reading.objecttext import ObjectText
from nbmapops._vocabulary import Vocabulary

from ..ways import way

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = ["b", "a", "", "é" * 9, "a long word, of more than eight bytes", "\ud800", "0"]
KEYS = [*WORDS, "q", *WORDS[::-1], "?"]
OFFSETS = [0, 8, 8, 16]
VALUES = [float(number) for number in range(16)]
MAPS = [
    dict(zip(KEYS[start:stop], VALUES[start:stop], strict=True))
    for start, stop in pairwise(OFFSETS)
]
CONTAINERS: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "tuple": tuple,
    "object": lambda keys: np.array(keys, object),
    "every second": lambda keys: np.repeat(np.array(keys, object), 2)[::2],
    "U": np.array,
    "StringDType": lambda keys: np.array(keys, np.dtypes.StringDType()),
    "StringDType with NA": lambda keys: np.array(keys, np.dtypes.StringDType(na_object=None)),
    "subclasses": lambda keys: list(map(np.str_, keys)),
}
ENGINES = ["plain engine", "compiled engine", "compiled engine, no shortcuts"]


def without_surrogates(container: str) -> bool:
    return container.startswith("StringDType")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_of_words_gives_what_dicts_give(container: str, engine: str) -> None:
    pytest.importorskip("scipy")
    op = nbmapops.DictVectorizer(string_vocabulary=WORDS, handle_unknown="ignore")
    maps, given = MAPS, KEYS
    if without_surrogates(container):
        given = ["x" if key == "\ud800" else key for key in KEYS]
        maps = [{"x" if key == "\ud800" else key: v for key, v in one.items()} for one in MAPS]
    keys = CONTAINERS[container](given)
    expected = op(maps)
    with way(engine):
        assert op(keys, VALUES, OFFSETS).tolist() == expected.tolist()
        assert op.csr(keys, VALUES, OFFSETS).toarray().tolist() == expected.tolist()
        assert op(keys[:8], VALUES[:8]).tolist() == expected[0].tolist()
        assert nbmapops.MapBatch.from_arrays(keys, VALUES, OFFSETS).to_dicts() == maps


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("container", CONTAINERS)
def test_what_is_wrong_is_named_in_every_container(container: str, engine: str) -> None:
    keys = CONTAINERS[container](["b", "q", "a", "b", "a", "b"])
    op = nbmapops.DictVectorizer(string_vocabulary=WORDS)
    loose = nbmapops.DictVectorizer(string_vocabulary=WORDS, handle_unknown="ignore")
    shared = nbmapops.DictVectorizer(string_vocabulary=WORDS, unknown_columns=3)
    with way(engine):
        with pytest.raises(nbmapops.UnknownKeyError, match="map 1: key 'q'"):
            op(keys, [1.0] * 6, [0, 1, 3, 6])
        with pytest.raises(nbmapops.DuplicateKeyError, match="map 1: key 'b' is repeated"):
            loose(keys, [1.0] * 6, [0, 3, 6])
        with pytest.raises(TypeError, match="here a key must be an integer"):
            nbmapops.DictVectorizer(int64_vocabulary=[1])(keys, [1.0] * 6, [0, 3, 6])
        assert shared(keys, [1.0] * 6, [0, 3, 5, 6])[0, 7:].sum() == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("odd", [None, float("nan"), 7, b"a", ("a",), ["a"]])
def test_a_key_that_is_not_a_str_is_refused_beside_words(odd: Any, engine: str) -> None:
    keys = np.empty(3, object)
    keys[:2] = ["a", "b"]
    keys[2] = odd
    op = nbmapops.DictVectorizer(string_vocabulary=WORDS)
    for given in (keys, list(keys)):
        with way(engine), pytest.raises((TypeError, ValueError), match=r"key|missing"):
            op(given, [1.0, 2.0, 3.0])


def test_it_is_a_column_of_keys() -> None:
    """As the codes of the same words are."""
    objects, codes = ObjectText.of(KEYS), text_keys(KEYS)
    assert objects is not None
    assert len(objects) == len(KEYS)
    for mine, other in (
        (objects, codes), (objects[3:5], codes[3:5]),
        (objects.take(np.array([4, 0])), codes.take(np.array([4, 0]))),
    ):  # fmt: skip
        assert mine.kind == other.kind
        assert mine.to_array().tolist() == other.to_array().tolist()
        assert not mine.to_array().flags.writeable
        numbers, words = mine.encode()
        assert [words[number] for number in numbers.tolist()] == other.to_array().tolist()
    assert objects.shares_memory(objects.array)
    assert not objects.shares_memory(np.zeros(3))
    assert ObjectText.of([]) is ObjectText.of(np.arange(3)) is ObjectText.of(["a", 1]) is None


def test_keys_that_another_thread_changes_are_an_error() -> None:
    keys = np.array(["a", "b"], object)
    column = ObjectText.of(keys)
    assert column is not None
    keys[0] = []
    vocabulary = Vocabulary.from_words(WORDS, "string")
    for engine in ENGINES:
        for read in (column.to_array, column.encode, lambda: column.place(vocabulary)):
            with way(engine), pytest.raises(RuntimeError, match="keys: the data changed"):
                read()
    keys[0] = "q"
    assert column.to_array().tolist() == ["q", "b"]
