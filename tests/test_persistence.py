"""Operators and batches survive pickling: same results, equal bytes, other processes."""

from __future__ import annotations

import copy
import json
import os
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch, _vocabulary
from nbmapops._constants import FORMAT
from nbmapops.errors import CastError, DuplicateKeyError, UnknownKeyError

RNG = np.random.default_rng(0)
HASHED = RNG.integers(-(2**62), 2**62, 500)
NAMES = [f"w{n}" for n in range(500)]
PROTOCOLS = [2, 3, 4, 5]


def operators() -> dict[str, Any]:
    """Operators of every kind: each kind of index, text, and all attributes."""
    return {
        "range": DictVectorizer(int64_vocabulary=range(5, 9)),
        "table": DictVectorizer(int64_vocabulary=[9, 5, 7, 6], handle_unknown="ignore"),
        "hash": DictVectorizer(int64_vocabulary=HASHED, dtype="float", fill_value=0.5),
        "text": DictVectorizer(string_vocabulary=NAMES, fill_value=float("nan")),
        "no words": DictVectorizer(string_vocabulary=[]),
        "copies": DictVectorizer(int64_vocabulary=[7, 5, 7], semantics="onnxruntime"),
        "copies of text": DictVectorizer(string_vocabulary=["a", "a"], semantics="onnxruntime"),
        "both": DictVectorizer(
            int64_vocabulary=[5], string_vocabulary=["a"], semantics="onnxruntime"
        ),
        "dense": CastMap(cast_to="TO_STRING"),
        "sparse": CastMap(map_form="SPARSE", max_map=9, fill_value=-1, semantics="onnxruntime"),
        "numeric sparse": CastMap(map_form="SPARSE", max_map=3, cast_to="TO_INT64"),
    }


def answers(op: Any) -> list[Any]:
    """What an operator says to one map, to a batch and to a batch of arrays."""
    if isinstance(op, CastMap):
        key: Any = 2
    else:
        plan = next(iter(op._plans.values()))
        if len(op._plans) == 1 and len(op) == 0:
            return [op({}).tolist(), op([{}]).tolist()]
        word = plan.vocabulary.words[0]
        key = word if isinstance(word, str) else int(word)
    return [
        repr(op({key: 1.5}).tolist()),
        repr(op([{key: 2.5}, {}]).tolist()) if repr(op) != "CastMap(cast_to='TO_STRING')" else "",
        repr(op([key], [3.5], [0, 1]).tolist()),
        hash(op) == hash(copy.copy(op)),
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", operators())
def test_pickle_gives_an_equal_operator(name: str, protocol: int) -> None:
    op = operators()[name]
    back = pickle.loads(pickle.dumps(op, protocol))

    assert back == op
    assert hash(back) == hash(op)
    assert repr(back) == repr(op)
    assert answers(back) == answers(op)


@pytest.mark.parametrize("name", operators())
def test_copies_are_equal_operators(name: str) -> None:
    op = operators()[name]
    for twin in (copy.copy(op), copy.deepcopy(op)):
        assert twin == op
        assert answers(twin) == answers(op)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", operators())
def test_equal_operators_have_equal_pickles(name: str, protocol: int) -> None:
    """However they were made, and whether or not they were used."""
    op, used = operators()[name], operators()[name]
    fresh = pickle.dumps(op, protocol)
    answers(used)

    assert pickle.dumps(used, protocol) == fresh
    assert pickle.dumps(pickle.loads(fresh), protocol) == fresh
    assert pickle.dumps(copy.deepcopy(used), protocol) == fresh


def test_equal_operators_of_other_sources_have_equal_pickles() -> None:
    numbers = [
        DictVectorizer(int64_vocabulary=HASHED),
        DictVectorizer(int64_vocabulary=HASHED.tolist()),
        DictVectorizer(int64_vocabulary=tuple(HASHED.astype(object))),
        DictVectorizer(int64_vocabulary=HASHED.astype(">i8")),
        DictVectorizer.from_maps([{int(k): 1.0} for k in HASHED], order="first_seen"),
        DictVectorizer.from_maps(HASHED, np.ones(500), [0, 500], order="first_seen"),
    ]
    texts = [
        DictVectorizer(string_vocabulary=NAMES),
        DictVectorizer(string_vocabulary=np.array(NAMES)),
        DictVectorizer(string_vocabulary=[np.str_(name) for name in NAMES]),
        DictVectorizer.from_maps([dict.fromkeys(NAMES, 1)], order="first_seen"),
    ]
    for equal in (numbers, texts):
        assert len(set(equal)) == 1
        assert len({pickle.dumps(op) for op in equal}) == 1
    for a, b in (
        (CastMap(max_map=3), CastMap(max_map=int(np.int16(3)))),
        (CastMap(fill_value=1), CastMap(fill_value=1.0)),
        (DictVectorizer(int64_vocabulary=[1], dtype="float"),
         DictVectorizer(int64_vocabulary=[1], dtype=np.float32)),
    ):  # fmt: skip
        assert a == b
        assert pickle.dumps(a) == pickle.dumps(b)


def test_pickle_of_text_words_of_equal_content_but_other_objects() -> None:
    """Pickle writes an object once: words that are one object must not shorten the bytes."""
    one = "word"
    same = DictVectorizer(string_vocabulary=[one, one], semantics="onnxruntime")
    other = DictVectorizer(string_vocabulary=[one, str(b"word", "ascii")], semantics="onnxruntime")

    assert same == other
    assert pickle.dumps(same) == pickle.dumps(other)


@pytest.mark.parametrize("name", operators())
def test_pickle_holds_nothing_but_numpy_and_nbmapops(name: str) -> None:
    data = pickle.dumps(operators()[name], 4)
    strings = [str(arg) for op, arg, _ in pickletools.genops(data) if "UNICODE" in op.name]
    modules = {text.split(".")[0] for text in strings if "." in text or text == "nbmapops"}

    assert b"numba" not in data
    assert "nbmapops._" not in data.decode("latin-1"), "pickles name public paths"
    assert "nbmapops" in modules
    assert modules <= {"nbmapops", "numpy", "0"}


def test_pickle_is_not_much_larger_than_the_words() -> None:
    words = RNG.integers(-(2**62), 2**62, 20_000)

    assert len(pickle.dumps(DictVectorizer(int64_vocabulary=words), 5)) < 20_000 * (8 + 28) + 2000
    many = [f"w{n}" for n in range(20_000)]
    assert len(pickle.dumps(DictVectorizer(string_vocabulary=many), 5)) < 20_000 * 16


@pytest.mark.parametrize("written", [0, 2, 99])
@pytest.mark.parametrize("name", ["range", "table", "hash", "copies", "both"])
def test_other_format_number_rebuilds_the_index(
    name: str, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pickle of another version of the index still gives the right columns."""
    op = operators()[name]
    with monkeypatch.context() as other:
        other.setattr(_vocabulary, "FORMAT", written)
        data = pickle.dumps(operators()[name])
    back = pickle.loads(data)

    assert back == op
    assert answers(back) == answers(op)
    if name != "both":
        assert int(back.index.header[0]) == int(op.index.header[0]) == FORMAT


def batches() -> dict[str, MapBatch]:
    return {
        "numbers": MapBatch.from_dicts([{1: 0.5, 7: 2.0}, {}, {7: 1.0}]),
        "float32": MapBatch.from_arrays([1], np.array([2.5], np.float32)),
        "text": MapBatch.from_dicts([{"a": "x"}, {"b": "", "a\0": "\ud800"}]),
        "slice": MapBatch.from_dicts([{"a": 1}, {"b": 2}, {"c": 3}])[1:],
        "empty": MapBatch.from_dicts([]),
        "repeats": MapBatch.from_arrays([1, 1], [2, 3]),
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", batches())
def test_batches_survive(name: str, protocol: int) -> None:
    batch = batches()[name]
    for twin in (
        pickle.loads(pickle.dumps(batch, protocol)),
        copy.copy(batch),
        copy.deepcopy(batch),
    ):
        for own, other in (
            (batch.keys, twin.keys),
            (batch.values, twin.values),
            (batch.offsets, twin.offsets),
        ):
            assert own.dtype == other.dtype
            assert own.tolist() == other.tolist()
            assert not other.flags.writeable


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("error", [UnknownKeyError, DuplicateKeyError, CastError])
def test_errors_survive(error: type[Exception], protocol: int) -> None:
    sentence = "CastMap: map 3: key 'x': something"
    back = pickle.loads(pickle.dumps(error(sentence), protocol))

    assert type(back) is error
    assert str(back) == sentence
    assert back.args == (sentence,)


_CHILD = """
import json, pickle, sys
import numpy as np
found = {}
for name, data in pickle.load(sys.stdin.buffer).items():
    op = pickle.loads(data)
    key = "w7" if name == "text" else 5
    given = {key: 1.5} if name != "hash" else {int(op.vocabulary[7]): 1.5}
    found[name] = [op(given).tolist(), op([given, {}]).tolist(), pickle.dumps(op, 4) == data]
print(json.dumps([found, hash("w7")]))
"""


def test_pickles_load_in_other_processes() -> None:
    """str hashes differ between processes; columns, rows and bytes do not."""
    chosen = {name: operators()[name] for name in ("range", "table", "hash", "text", "copies")}
    data = {name: pickle.dumps(op, 4) for name, op in chosen.items()}
    seen = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        child = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input=pickle.dumps(data),
            capture_output=True,
            env=environment,
            check=True,
            cwd=Path(__file__).parents[1],
        )
        found, str_hash = json.loads(child.stdout)
        seen.add(str_hash)
        for name, op in chosen.items():
            key: Any = "w7" if name == "text" else 5
            given = {int(HASHED[7]) if name == "hash" else key: 1.5}
            row, rows, same_bytes = found[name]
            assert same_bytes, name
            assert repr(row) == repr(op(given).tolist())
            assert repr(rows) == repr(op([given, {}]).tolist())
    assert len(seen) == 2


def test_joblib_dumps_and_loads(tmp_path: Path) -> None:
    joblib: Any = pytest.importorskip("joblib")
    for name, op in operators().items():
        for compress in (0, 3):
            joblib.dump(op, tmp_path / "op", compress=compress)
            back = joblib.load(tmp_path / "op")
            assert back == op, name
            assert answers(back) == answers(op)
        if name in ("range", "table", "hash"):
            # Arrays that joblib maps from the file are read-only and not this process's own.
            joblib.dump(op, tmp_path / "mapped")
            back = joblib.load(tmp_path / "mapped", mmap_mode="r")
            assert answers(back) == answers(op)
