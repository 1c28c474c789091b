"""Mappings that become CSR block by block: the room for them, and the type of their indices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nbmapops import DictVectorizer
from nbmapops._engine import blocks, stream
from nbmapops._limits import limits

from ..ways import way

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("scipy")

MAPS = [{row % 5: row / 3, 5: 0.5} for row in range(40)]
WAYS = ["plain engine, no shortcuts", "compiled engine, no shortcuts"]


@pytest.fixture(params=WAYS, autouse=True)
def _one_way(request: pytest.FixtureRequest) -> Iterator[None]:
    with way(request.param):
        yield


def check(given: Any) -> np.dtype[Any]:
    """Compare the result with a plain one; the dtype of its indices."""
    matrix = DictVectorizer(int64_vocabulary=range(6)).csr(given)
    assert matrix.toarray().tolist() == [[each.get(key, 0) for key in range(6)] for each in MAPS]
    assert matrix.indices.dtype == matrix.indptr.dtype
    found: np.dtype[Any] = matrix.indices.dtype
    return found


@pytest.mark.parametrize("later", [0.5, 3, np.float32(0.5)])
def test_an_iterator_of_many_entries_ends_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, later: float
) -> None:
    """It is not copied in the end; pieces of another type are, which may hold more exactly."""
    ends: list[list[int]] = []
    finish = stream._Rows.finish

    def noted(rows: stream._Rows, kind: str) -> blocks.Parts:
        ends.append([len(piece) for piece in rows.data])
        return finish(rows, kind)

    monkeypatch.setattr(stream._Rows, "finish", noted)
    monkeypatch.setattr(stream, "_MANY", 2000)
    monkeypatch.setattr(stream, "_LARGE", 9000)
    monkeypatch.setattr(limits, "iterator_maps", 16)
    monkeypatch.setattr(limits, "chunk_entries", 500)
    op = DictVectorizer(int64_vocabulary=range(20))
    for many in (50, 150, 400, 2000):
        maps = [{key: key + row * 0.5 for key in range(20)} for row in range(many)]
        maps[many // 3 : many // 2] = [dict.fromkeys(range(20), later)] * (many // 2 - many // 3)
        found, expected = op.csr(iter(maps)), op.csr(maps)
        assert (found.dtype, found.indices.dtype) == (expected.dtype, expected.indices.dtype)
        assert np.array_equal(found.toarray(), expected.toarray())
        assert np.array_equal(found.indptr, expected.indptr)
    if type(later) is float:
        assert len(ends[0]) > 1  # little work takes little room
        assert ends[4][0] > 2000
        assert len(ends[4]) == 1


@pytest.mark.parametrize("container", [list, iter])
def test_indices_are_wide_where_there_are_many_entries(
    container: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(container(MAPS)) == np.int32
    many, dtype_for = 2**31, blocks.index_dtype_for

    def as_if_many(entries: int, *others: Any) -> Any:
        return dtype_for(many if entries == 80 else entries, *others)

    monkeypatch.setattr(stream, "index_dtype_for", as_if_many)
    assert check(container(MAPS)) == np.int64


def test_an_expectation_that_memory_does_not_hold_is_not_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def expected(maps: Any) -> int:
        asked.append(len(maps))
        return 1 << 50

    monkeypatch.setattr(stream, "expected_entries", expected)
    check(MAPS)
    assert asked == [40]


@pytest.mark.parametrize("refused", [np.float64, np.int32])
def test_a_large_piece_that_memory_does_not_hold_takes_in_nothing(
    monkeypatch: pytest.MonkeyPatch, refused: type
) -> None:
    """Neither of data alone nor of indices alone: a smaller piece follows those before it."""
    # By NumPy itself: what other code raises is not for the library to catch.
    numpy: dict[str, Any] = {"__name__": "numpy", "np": np, "refused": refused}
    exec(
        "def empty(size, dtype):\n"
        "    if size >= 200 and np.dtype(dtype) == refused:\n"
        "        raise MemoryError\n"
        "    return np.zeros(size, dtype)\n",
        numpy,
    )
    monkeypatch.setattr(stream, "_MANY", 20)
    monkeypatch.setattr(stream, "_LARGE", 200)
    monkeypatch.setattr(limits, "iterator_maps", 4)
    monkeypatch.setattr(limits, "chunk_entries", 8)
    monkeypatch.setattr(stream, "np", SimpleNamespace(**{**vars(np), "empty": numpy["empty"]}))
    check(iter(MAPS))


@pytest.mark.parametrize("container", [list, iter])
@pytest.mark.parametrize(
    "maps", [[{1: "a"}], [{9: "a"}], [{1: "a"}, {9: "b"}], [{}, {1: "a"}, {1: 2}, None]], ids=repr
)
def test_text_is_refused_before_anything_behind_it(maps: Any, container: Any) -> None:
    with pytest.raises(ValueError, match="csr takes numbers, and these results are text"):
        DictVectorizer(int64_vocabulary=[1, 2]).csr(container(maps))
