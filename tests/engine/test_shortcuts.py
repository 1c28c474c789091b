"""Shortcuts leave unknown keys out as the general way does, and leave to it what is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbmapops

from ..forms import way

FLOATS: list[dict[Any, Any]] = [
    {"a": 1.5, "q": 2.5}, {"q": float("nan")}, {}, {"b": -0.0, "a": float("inf"), "r": 1.0}
]  # fmt: skip
SINGLE = [{key: np.float32(value) for key, value in one.items()} for one in FLOATS]
MIXED: list[dict[Any, Any]] = [
    {"a": 1, "q": 2.5}, {"b": 2**53}, {"b": -(2**53), "a": float("inf"), "r": 0}
]  # fmt: skip
INTS: list[dict[Any, Any]] = [{"a": 1, "q": 2}, {"b": 3}]
WORDS = {"a": 7, "b": -(2**63), "q": 2**63 - 1, "r": 0}


def renamed(maps: list[dict[Any, Any]], key: str) -> list[dict[Any, Any]]:
    if key == "string":
        return maps
    return [{WORDS[word]: value for word, value in one.items()} for one in maps]


@pytest.mark.parametrize("key", ["string", "int64"])
@pytest.mark.parametrize(
    "maps", [FLOATS, SINGLE, INTS, MIXED], ids=["double", "float", "int", "mixed"]
)
@pytest.mark.parametrize("unknown", ["error", "ignore"])
def test_unknown_keys(key: Any, maps: list[dict[Any, Any]], unknown: Any) -> None:
    words = ["b", "a"] if key == "string" else [WORDS["b"], WORDS["a"]]
    op = nbmapops.DictVectorizer(**{f"{key}_vocabulary": words}, handle_unknown=unknown)  # type: ignore[arg-type]
    given = renamed(maps, key)

    def results() -> list[Any]:
        found: list[Any] = []
        for call in (lambda: op(given), lambda: op(given[0]), lambda: op.csr(given).toarray()):
            try:
                rows = call()
                found.append((rows.dtype, rows.shape, rows.tobytes()))
            except KeyError as error:
                found.append(str(error))
        return found

    with way("plain engine"):
        quick = results()
    with way("plain engine, no shortcuts"):
        assert quick == results()


def test_an_int_beyond_int64_is_an_error_with_an_unknown_key_too() -> None:
    op = nbmapops.DictVectorizer(string_vocabulary=["a"], handle_unknown="ignore")
    for name in ("plain engine", "plain engine, no shortcuts"):
        with way(name):
            for call in (op, op.csr):
                with pytest.raises(OverflowError, match="map 1: key 'q'"):
                    call([{"a": 1}, {"q": 2**63}])


@pytest.mark.parametrize("unknown", ["error", "ignore"])
def test_an_int_that_float64_does_not_hold_is_an_error_among_floats(unknown: Any) -> None:
    op = nbmapops.DictVectorizer(string_vocabulary=["a"], handle_unknown=unknown)
    for name in ("plain engine", "plain engine, no shortcuts"):
        with way(name):
            for maps in ([{"a": 0.5}, {"a": 2**53 + 1}], {"a": 2**53 + 1, "q": 0.5}):
                with pytest.raises(OverflowError, match="key 'a'"):
                    op(maps)
