"""Whole maps in "onnxruntime" mode against the kernels of onnxruntime, bit for bit.

Every pair of map types of the ONNX-ML text, by seeded generators, in each form that we take.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nbmapops import CastMap, DictVectorizer

from .ort_capi import MapRunner, OrtError
from .test_differential_values import SEED, Rng, _alike, numbers, pytestmark, texts

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["pytestmark"]  # the answers of one machine and one C library

Text = str | bytes
Words = list[Any]

MAPS = 250  # of one operator
DTYPES = {"float": np.float32, "double": np.float64, "int64": np.int64, "string": object}
# Map types of DictVectorizer: those of the text, no others.
PAIRS = [
    ("string", "int64"),
    ("int64", "string"),
    ("int64", "float"),
    ("int64", "double"),
    ("string", "float"),
    ("string", "double"),
]
CAST_TO = ("TO_FLOAT", "TO_INT64", "TO_STRING")
CASTS = list(product(("float", "string"), CAST_TO, ("DENSE", "SPARSE")))
DOCUMENTED = (TypeError, ValueError, OverflowError)

# Words.


def _few(rng: Rng, count: int) -> Words:
    low = int(rng.integers(-5, 5))
    return list(range(low, low + count))


def _near(rng: Rng, count: int) -> Words:
    words: Words = rng.integers(-4 * count, 4 * count + 1, count).tolist()
    return words


def _wide(rng: Rng, count: int) -> Words:
    words: Words = rng.integers(-(2**63), 2**63 - 1, count, endpoint=True).tolist()
    return words


def _corners(rng: Rng, count: int) -> Words:
    corners = [2**53, -(2**53), 2**63 - 4, 4 - 2**63, 2**31, 2**32, 0]
    return [corners[at % 7] + int(rng.integers(-4, 4)) for at in range(count)]


def _strides(rng: Rng, count: int) -> Words:
    step, start = 1 << int(rng.integers(0, 57)), int(rng.integers(-9, 9))
    return [start + step * at for at in range(min(count, 2**62 // step))]


INT_WORDS = (_few, _near, _wide, _corners, _strides)
_PARTS = ["", "a", "b", "A", " ", "\0", "\n", "0", "1", "é", "e\u0301", "ß", "\u017f", "\u0130"]
_PARTS += ["\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "😀", "中", "\x7f", "\x80"]


def _text_words(rng: Rng, count: int) -> Words:
    """Draw texts of few letters, so that they repeat, begin alike and hold NULs."""
    letters = [_PARTS[at] for at in rng.permutation(len(_PARTS))[: rng.integers(2, len(_PARTS))]]
    sizes = rng.integers(0, 5, count).tolist()
    drawn = ["".join(letters[at] for at in rng.integers(0, len(letters), n)) for n in sizes]
    return [text * 100 if rng.random() < 0.02 else text for text in drawn]


def words_of(rng: Rng, kind: str, count: int) -> Words:
    draw = _text_words if kind == "string" else INT_WORDS[int(rng.integers(len(INT_WORDS)))]
    return draw(rng, count)


def vocabulary_of(rng: Rng, kind: str) -> Words:
    """Draw words in any order, some of them twice."""
    words = words_of(rng, kind, int(rng.choice([0, 1, 2, 5, 30, 200])))
    if rng.random() < 0.7:
        words = list(dict.fromkeys(words))
    return [words[at] for at in rng.permutation(len(words))] if rng.random() < 0.7 else words


def _keys(rng: Rng, kind: str, vocabulary: Words, count: int) -> Words:
    """Draw words of the vocabulary, their neighbours and others, some of them twice."""
    others = words_of(rng, kind, 20) or vocabulary
    neighbours = [
        word + "\0" if kind == "string" else (word + 2**63 + 1) % 2**64 - 2**63
        for word in vocabulary[:20]
    ]
    share = rng.random()
    drawn = []
    for draw in rng.random(count):
        pool = vocabulary if draw < share else others if draw < (1 + share) / 2 else neighbours
        pool = pool or others
        drawn += [pool[int(rng.integers(len(pool)))]] if pool else []
    return drawn if rng.random() < 0.3 else list(dict.fromkeys(drawn))


# Values.


def _doubles(rng: Rng, count: int) -> Any:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, 1.7976931348623157e308, 0.1]
    chosen = rng.choice(np.array(special), count)
    drawn = rng.integers(0, 2**64, count, np.uint64).view(np.float64)
    return np.where(rng.random(count) < 0.3, chosen, drawn)


def _long_ints(rng: Rng, count: int) -> Any:
    return np.array(_corners(rng, count), np.int64) if rng.random() < 0.3 else np.array(
        _wide(rng, count), np.int64
    )  # fmt: skip


def _text_values(rng: Rng, count: int) -> Any:
    values = np.empty(count, object)
    values[:] = _text_words(rng, count)
    return values


VALUES: dict[str, Callable[[Rng, int], Any]] = {
    "float": numbers,
    "double": _doubles,
    "int64": _long_ints,
    "string": _text_values,
}

# Maps, as (keys, values); our answers: an array for each map, or None where it is refused.

Map = tuple[Words, Any]


def _cut(rng: Rng, keys: Words, values: Any) -> list[Map]:
    """Cut entries into maps of 0 to 12 entries."""
    cuts = np.cumsum(rng.integers(0, 13, 2 * len(keys)))
    ends = cuts[cuts <= len(keys)][:MAPS].tolist()
    return [(keys[a:b], values[a:b]) for a, b in pairwise([0, *ends])]


def _array(words: Words, kind: str) -> Any:
    array = np.empty(len(words), DTYPES[kind])
    array[:] = words
    return array


def _is_dense(op: Any) -> bool:
    return isinstance(op, CastMap) and "SPARSE" not in repr(op)


def _in_a_batch(op: Any, kind: str, maps: list[Map]) -> list[Any]:
    keys = _array([key for words, _ in maps for key in words], kind)
    values = np.concatenate([values for _, values in maps])
    offsets = np.cumsum([0, *(len(words) for words, _ in maps)])
    if _is_dense(op):
        flat, ends = op.ragged(keys, values, offsets)
        return [flat[a:b] for a, b in pairwise(ends.tolist())]
    return list(op(keys, values, offsets))


def _one_by_one(op: Any, kind: str, maps: list[Map]) -> list[Any]:
    answers: list[Any] = []
    for words, values in maps:
        try:
            answers.append(op(_array(words, kind), values))
        except DOCUMENTED:
            answers.append(None)
    return answers


def _as_dicts(op: Any, _: str, maps: list[Map]) -> list[Any]:
    # The first value of a key wins. A scalar of a float32 array says its own type.
    dicts: list[dict[Any, Any]] = []
    for words, values in maps:
        scalars = list(values) if values.dtype == np.float32 else values.tolist()
        dicts.append(dict(zip(reversed(words), reversed(scalars), strict=True)))
    if _is_dense(op):
        flat, ends = op.ragged(dicts)
        return [flat[a:b] for a, b in pairwise(ends.tolist())]
    return list(op(dicts))


FORMS = (_in_a_batch, _one_by_one, _as_dicts)


def ours(rng: Rng, op: Any, kind: str, maps: list[Map]) -> list[Any]:
    form = FORMS[int(rng.integers(3))]
    if form is _as_dicts and not any(words for words, _ in maps):
        form = _in_a_batch  # dicts without entries do not say a type
    try:
        return form(op, kind, maps)
    except DOCUMENTED:
        return _one_by_one(op, kind, maps)


# The comparison.


def _their_answer(run: Callable[..., Any], words: Words, kind: str, value: tuple[str, Any]) -> Any:
    try:
        _, shape, flat = run((kind, words), value)
    except OrtError as error:
        if error.stage != "run":
            raise
        return None
    assert shape == (1, len(flat))
    return flat


def _differs(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is not b
    return bool(len(a) != len(b) or a.dtype != b.dtype or not _alike(a, b).all())


def compare(
    runner: MapRunner,
    rng: Rng,
    made: tuple[Any, dict[str, Any]],
    types: tuple[str, str],
    maps: list[Map],
) -> list[tuple[Any, ...]]:
    """Return the maps on which an operator and onnxruntime differ."""
    op, attributes = made
    kind, value_type = types
    run = partial(runner.run, type(op).__name__, attributes)
    found = [
        (op, types, words, values.tolist(), answer, theirs)
        for (words, values), answer in zip(maps, ours(rng, op, kind, maps), strict=True)
        if _differs(answer, theirs := _their_answer(run, words, kind, (value_type, values)))
    ]
    runner.close()
    return found


def vectorized(rng: Rng, runner: MapRunner, types: tuple[str, str]) -> tuple[int, list[Any]]:
    """Compare one DictVectorizer; return how many maps, and those that differ."""
    kind, value_type = types
    names = {"int64": "int64_vocabulary", "string": "string_vocabulary"}
    attributes: dict[str, Any] = {names[kind]: vocabulary_of(rng, kind)}
    if rng.random() < 0.1:  # the vocabulary of the other keys is not looked at
        other = "string" if kind == "int64" else "int64"
        attributes[names[other]] = vocabulary_of(rng, other)
    op = DictVectorizer(**attributes, semantics="onnxruntime")
    maps: list[Map] = []
    while len(maps) < MAPS:
        keys = _keys(rng, kind, attributes[names[kind]], 300)
        drawn = _cut(rng, keys, VALUES[value_type](rng, len(keys)))
        maps += drawn[: MAPS - len(maps)] or [([], VALUES[value_type](rng, 0))]
    return len(maps), compare(runner, rng, (op, attributes), types, maps)


def cast(rng: Rng, runner: MapRunner, types: tuple[str, str, str]) -> tuple[int, list[Any]]:
    """Compare one CastMap; return how many maps, and those that differ."""
    value_type, cast_to, map_form = types
    attributes: dict[str, Any] = {"cast_to": cast_to, "map_form": map_form}
    sparse = map_form == "SPARSE"
    if sparse or rng.random() < 0.5:
        attributes["max_map"] = int(rng.integers(1, 40)) if sparse else int(rng.integers(-3, 3))
    op = CastMap(**attributes, semantics="onnxruntime")
    count = MAPS * 6
    keys = words_of(rng, "int64", count) if rng.random() < 0.5 else _wide(rng, count)
    if sparse:  # some beyond max_map, few below 0
        keys = rng.integers(0, 1.3 * attributes["max_map"] + 1, count).tolist()
        for at in rng.integers(0, count, 20):
            keys[at] = int(rng.choice([-1, -(2**63), 2**63 - 1]))
    keys = keys[:count]
    draw = partial(_mostly_plain, rng) if value_type == "string" else partial(numbers, rng)
    values = rng.permutation(draw(len(keys)))
    maps = _cut(rng, keys, values)
    return len(maps), compare(runner, rng, (op, attributes), ("int64", value_type), maps)


def _mostly_plain(rng: Rng, count: int) -> Any:
    """Texts of which few are refused, since one refuses its whole map."""
    values = texts(rng, count)
    plain = rng.random(count) < 0.9
    values[plain] = [str(number) for number in rng.integers(-(10**6), 10**6, plain.sum())]
    return values


def run(seed: int, count: int, compare_one: Any, types: Any) -> list[tuple[Any, ...]]:
    """Compare at least `count` maps, operators of each pair of types in turn."""
    rng, runner = np.random.default_rng(seed), MapRunner()
    found: list[tuple[Any, ...]] = []
    done = turn = 0
    while done < count:
        compared, differing = compare_one(rng, runner, types[turn % len(types)])
        found += differing
        done, turn = done + compared, turn + 1
    return found


def test_a_few_thousand_maps_to_rows() -> None:
    assert run(SEED + 2, 6_000, vectorized, PAIRS) == []


def test_a_few_thousand_maps_cast() -> None:
    assert run(SEED + 3, 4_000, cast, CASTS) == []


@pytest.mark.thorough
def test_a_million_maps_to_rows() -> None:
    assert run(SEED + 4, 1_000_000, vectorized, PAIRS) == []


@pytest.mark.thorough
def test_a_million_maps_cast() -> None:
    assert run(SEED + 5, 1_000_000, cast, CASTS) == []


# What is refused when an operator is made, or by its types.


@pytest.mark.parametrize("types", [*PAIRS, ("string", "string"), ("int64", "int64")])
@pytest.mark.parametrize("given", [(), ("int64",), ("string",), ("int64", "string")])
def test_vocabularies_and_types_are_refused_alike(
    types: tuple[str, str], given: tuple[str, ...]
) -> None:
    words: dict[str, Words] = {"int64": [5, 7], "string": ["a", "b"]}
    attributes: dict[str, Any] = {f"{kind}_vocabulary": words[kind] for kind in given}
    kind, value_type = types
    key = words[kind][:1]
    values = np.array(["x" if value_type == "string" else 1], DTYPES[value_type])
    refused = True
    with suppress(OrtError):
        theirs = MapRunner().run("DictVectorizer", attributes, (kind, key), (value_type, values))
        refused = False

    def call() -> Any:
        op = DictVectorizer(**attributes, semantics="onnxruntime")
        return op(_array(key, kind), values)

    if refused:
        with pytest.raises((TypeError, ValueError)):
            call()
    else:
        assert not _differs(call(), theirs[2])
