"""Threads: the same result bit for bit, the same error, and one operator for all of them."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch
from nbmapops._limits import limits

from ..conftest import WITHOUT_JIT
from ..outcomes import WITH_SCIPY, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

MAPS = 60 if WITHOUT_JIT else 500
WORDS = np.random.default_rng(1).integers(-(2**62), 2**62, 400)


@cache
def many_maps(*, repeats: bool = False, seed: int = 0) -> tuple[Any, Any, Any]:
    """Maps of 0 to 40 entries over WORDS, in arrays."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 40, MAPS)
    lengths[MAPS // 2] = len(WORDS)
    keys = [rng.choice(WORDS, n, replace=repeats) for n in lengths]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return np.concatenate(keys), rng.standard_normal(offsets[-1]), offsets


def same_bits(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return all(map(same_bits, a, b))
    if not isinstance(a, np.ndarray):  # a CSR matrix
        return all(same_bits(getattr(a, p), getattr(b, p)) for p in ("data", "indices", "indptr"))
    if a.dtype == object:
        return bool(a.shape == b.shape and a.tolist() == b.tolist())
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


@cache
def calls() -> dict[str, Callable[..., Any]]:
    keys, values, offsets = many_maps()
    small = np.concatenate([np.arange(n) for n in np.diff(offsets)])
    known = DictVectorizer(int64_vocabulary=WORDS)
    ignore = DictVectorizer(int64_vocabulary=WORDS[::2], handle_unknown="ignore")
    relaxed = DictVectorizer(int64_vocabulary=[*WORDS, *WORDS[:9]], semantics="onnxruntime")
    text = DictVectorizer(string_vocabulary=[f"w{w}" for w in WORDS])
    names = np.array([f"w{key}" for key in keys], object)
    texts = np.array([str(value) for value in values], object)
    sparse = CastMap(map_form="SPARSE", max_map=len(WORDS))
    width = int(np.diff(offsets)[3])
    maps = MapBatch.from_arrays(keys, values, offsets).to_dicts()
    found: dict[str, Callable[..., Any]] = {
        "dense": lambda **k: known(keys, values, offsets, **k),
        "dense float32": lambda **k: known(keys, values.astype(np.float32), offsets, **k),
        "dense text": lambda **k: known(keys, texts, offsets, **k),
        "dense ignore": lambda **k: ignore(keys, values, offsets, **k),
        "dense repeats": lambda **k: relaxed(*many_maps(repeats=True), **k),
        "dense by text": lambda **k: text(names, values, offsets, **k),
        "dense of dicts": lambda **k: known(maps, **k),
        "sparse": lambda **k: sparse(small, values, offsets, **k),
        "ragged": lambda **k: CastMap().ragged(keys, values, offsets, **k),
        "ragged text": lambda **k: CastMap(cast_to="TO_STRING").ragged(keys, values, offsets, **k),
        "ragged repeats": lambda **k: CastMap(semantics="onnxruntime").ragged(
            *many_maps(repeats=True), **k
        ),
        "CastMap of equal lengths": lambda **k: CastMap()(
            keys[: width * (len(keys) // max(width, 1))],
            values[: width * (len(keys) // max(width, 1))],
            np.arange(len(keys) // max(width, 1) + 1) * width,
            **k,
        ),
    }
    if WITH_SCIPY:
        found |= {
            "csr": lambda **k: known.csr(keys, values, offsets, **k),
            "csr ignore": lambda **k: ignore.csr(keys, values, offsets, **k),
            "csr repeats": lambda **k: relaxed.csr(*many_maps(repeats=True), **k),
            "csr int64": lambda **k: known.csr(keys, values, offsets, index_dtype=np.int64, **k),
            "csr of dicts": lambda **k: known.csr(iter(maps), **k),
            "csr sparse": lambda **k: sparse.csr(small, values, offsets, **k),
        }
    return found


@pytest.mark.parametrize("blocks", ["as shipped", "many blocks"])
@pytest.mark.parametrize("name", calls())
def test_threads_change_no_bit(name: str, blocks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = calls()[name]
    expected = outcome(call)
    alone = call() if not expected.failed else None
    if blocks == "many blocks":
        monkeypatch.setattr(limits, "block_entries", 50)
        monkeypatch.setattr(limits, "block_bytes", 1000)
    for threads in (1, 2, 3, 8):
        if expected.failed:
            assert outcome(lambda t=threads: call(threads=t)) == expected  # type: ignore[misc]
        else:
            assert same_bits(call(threads=threads), alone)


def test_more_threads_than_maps() -> None:
    op = DictVectorizer(int64_vocabulary=[1, 2])
    batches: list[list[dict[int, float]]] = [[], [{}], [{1: 1.0}], [{1: 1.0}, {2: 2.0}]]
    for maps in batches:
        assert op(maps, threads=64).tolist() == op(maps).tolist()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("bad_maps", [[0], [7], [7, 9], [MAPS - 1], [MAPS - 1, 3], [5, MAPS // 2]])
def test_first_bad_map_wins_for_any_number_of_threads(
    bad_maps: list[int], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "block_entries", 40)
    monkeypatch.setattr(limits, "block_bytes", 4000)
    op = DictVectorizer(int64_vocabulary=WORDS)
    keys, values, offsets = many_maps()
    keys, with_entries = keys.copy(), np.flatnonzero(np.diff(offsets))
    for number in bad_maps:
        near = with_entries[np.searchsorted(with_entries, number).clip(max=len(with_entries) - 1)]
        keys[offsets[near]] = 5
    found = [n for n in range(MAPS) if 5 in keys[offsets[n] : offsets[n + 1]]]
    said = {outcome(lambda: op(keys, values, offsets, threads=threads))}
    if WITH_SCIPY:
        said.add(outcome(lambda: op.csr(keys, values, offsets, threads=threads)))
    assert len(said) == 1
    (error,) = said
    assert error.kind == "UnknownKeyError"
    assert f"map {found[0]}: key 5 " in error.content


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_first_bad_map_wins_over_kinds_of_errors(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cast error in map 2, a repeated key in map 4, an unknown one in map 6."""
    monkeypatch.setattr(limits, "block_entries", 2)
    op = DictVectorizer(int64_vocabulary=[1, 2, 3], dtype="int64")
    sparse = CastMap(map_form="SPARSE", max_map=4, cast_to="TO_INT64")
    keys, offsets = [1, 2, 1, 2, 1, 2, 1, 2, 3, 3, 1, 2, 9, 1], [0, 2, 4, 6, 8, 10, 12, 14]
    values = [1.0] * len(keys)
    for bad, error, number in (
        ({4: 0.5}, "CastError" , 2),
        ({}, "DuplicateKeyError", 4),
        ({12: 0.5}, "DuplicateKeyError", 4),
    ):  # fmt: skip
        given = [bad.get(n, value) for n, value in enumerate(values)]
        actual = outcome(lambda g=given: op(keys, g, offsets, threads=threads))  # type: ignore[misc]
        assert actual.kind == error
        assert f"map {number}: " in actual.content
    keys[9] = 2
    assert outcome(lambda: op(keys, values, offsets, threads=threads)).kind == "UnknownKeyError"
    nan = [float("nan") if n == 4 else 1.0 for n in range(len(keys))]
    assert outcome(lambda: sparse(keys, nan, offsets, threads=threads)).kind == "CastError"
    assert outcome(lambda: sparse(keys, values, offsets, threads=threads)).kind == "ValueError"


def at_once(work: Callable[[int], Any], threads: int = 8) -> list[Any]:
    """Run `work(0)`, `work(1)`, ... on threads that start together."""
    barrier = threading.Barrier(threads)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def test_one_operator_serves_many_threads() -> None:
    ops: list[Any] = [
        DictVectorizer(int64_vocabulary=WORDS),
        DictVectorizer(string_vocabulary=[f"w{w}" for w in WORDS], handle_unknown="ignore"),
        CastMap(),
    ]
    rounds = 3 if WITHOUT_JIT else 15

    def work(number: int) -> list[Any]:
        results = []
        for n in range(rounds):
            rng = np.random.default_rng((number + n) % 8)
            keys = rng.choice(WORDS, 30, replace=False)
            maps = [{int(k): float(k) for k in part} for part in keys.reshape(5, 6)]
            texts = [{f"w{k}": v for k, v in m.items()} for m in maps]
            results += [ops[0](maps), ops[0](keys, keys), ops[1](iter(texts)), ops[1](texts[0])]
            results += [ops[2](maps), outcome(lambda m=maps: ops[0]([*m, {5: 1.0}]))]  # type: ignore[misc]
            if WITH_SCIPY:
                results.append(ops[0].csr(maps).toarray())
        return results

    expected = [work(number) for number in range(8)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        found = at_once(work)
    finally:
        sys.setswitchinterval(switch)
    for mine, theirs in zip(found, expected, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert same_bits(a, b) if isinstance(a, np.ndarray) else a == b


def test_index_built_lazily_by_many_threads_at_once() -> None:
    for words in (list(range(50)), WORDS.tolist(), [9, 5, 7]):
        op = DictVectorizer(int64_vocabulary=words)
        text = DictVectorizer(string_vocabulary=[f"w{w}" for w in words])

        def work(number: int, words: Any = words, op: Any = op, text: Any = text) -> list[Any]:
            word = words[number % 3]
            batch = op([word], [1.0], [0, 1])
            return [batch.tolist(), text([{f"w{word}": 1.0}]).tolist()]

        for number, found in enumerate(at_once(work)):
            expected = [[float(n == number % 3) for n in range(len(words))]]
            assert found == [expected, expected]


def test_threads_that_write_into_one_array() -> None:
    """Rows of one result, each thread its own part."""
    keys, values, offsets = many_maps()
    op = DictVectorizer(int64_vocabulary=WORDS)
    batch = MapBatch.from_arrays(keys, values, offsets)
    out = np.full((MAPS, len(WORDS)), -77.0)
    bounds = np.linspace(0, MAPS, 9).astype(int)
    at_once(lambda n: op(batch[bounds[n] : bounds[n + 1]], out=out[bounds[n] : bounds[n + 1]]))

    assert same_bits(out, op(batch))


@pytest.mark.parametrize("threads", [1, 2, 64])
def test_small_dicts_take_their_shortcuts_with_any_number_of_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("the general way was taken")

    monkeypatch.setattr(DictVectorizer, "_read", refuse)
    for op, key in (
        (DictVectorizer(int64_vocabulary=[1, 2]), 1),
        (DictVectorizer(string_vocabulary=["a", "b"]), "a"),
    ):
        maps: Any = [{key: 1.5}, {}, {key: 2.5}]
        assert op(maps[0], threads=threads).tolist() == [1.5, 0]
        assert op(maps, threads=threads).tolist() == [[1.5, 0], [0, 0], [2.5, 0]]
        if WITH_SCIPY:
            rows = op.csr(maps, threads=threads).toarray()
            assert rows.tolist() == [[1.5, 0], [0, 0], [2.5, 0]]
