"""What a call gives, and what the oracle says it should give, in a shape that can be compared."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .reference import Refusal, Rows
from .strategies import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable

WITH_SCIPY = importlib.util.find_spec("scipy") is not None


# What a call gives.


class Outcome(NamedTuple):
    """A result as type, shape and cells, or an error as class and message."""

    kind: str
    shape: tuple[int, ...]
    content: str

    @property
    def failed(self) -> bool:
        return self.kind.endswith("Error")


def cells(kind: str, rows: Any) -> str:
    """Cells as text that tells -0.0 from 0.0, and finds NaN equal to NaN."""
    if kind in ("float32", "float64"):
        return repr(np.array(rows, np.float64).tolist())
    return repr(rows)


def type_of(result: Any) -> str:
    """The name of a result's type; text is an object array of exact str."""
    if result.dtype != object:
        return str(result.dtype)
    assert {type(cell) for cell in result.ravel()} <= {str}
    return "string"


def outcome(call: Callable[[], Any]) -> Outcome:
    """Run a call that gives an array, a CSR matrix or ragged rows."""
    try:
        result = call()
    except Exception as error:  # noqa: BLE001  (the class is what is compared)
        return Outcome(type(error).__name__, (), str(error))
    if isinstance(result, tuple):
        values, offsets = result
        assert offsets.dtype == np.int64
        ends = offsets.tolist()
        rows = [values[a:b].tolist() for a, b in pairwise(ends)]
        assert ends[0] == 0
        assert ends[-1] == len(values)
        return Outcome(type_of(values), (len(rows),), cells_of_ragged(type_of(values), rows))
    if not isinstance(result, np.ndarray):
        return _csr_outcome(result)
    assert result.flags.c_contiguous
    kind = type_of(result)
    return Outcome(kind, result.shape, cells(kind, result.tolist()))


def cells_of_ragged(kind: str, rows: list[list[Any]]) -> str:
    return repr([cells(kind, row) for row in rows])


def _csr_outcome(matrix: Any) -> Outcome:
    import scipy.sparse as sp

    assert type(matrix) is sp.csr_array
    assert matrix.indices.dtype == matrix.indptr.dtype
    assert matrix.indptr[0] == 0
    assert matrix.indptr[-1] == len(matrix.indices) == len(matrix.data)
    kind = str(matrix.dtype)
    rows = []
    for start, stop in pairwise(matrix.indptr.tolist()):
        columns = matrix.indices[start:stop].tolist()
        assert columns == sorted(set(columns))
        rows.append((columns, cells(kind, matrix.data[start:stop].tolist())))
    return Outcome(kind, matrix.shape, repr(rows))


# What the oracle says it should give.


def expected_rows(answer: Rows | Refusal, width: int | None) -> Outcome | Refusal:
    """Dense rows of `width` columns; None for CastMap DENSE, where maps may differ."""
    if isinstance(answer, Refusal):
        return answer
    if width is None:
        width = len(answer.rows[0]) if answer.rows else 0
    return Outcome(answer.dtype, (len(answer.rows), width), cells(answer.dtype, answer.rows))


def expected_csr(kind: str, width: int, rows: list[dict[int, Any]]) -> Outcome:
    content = []
    for row in rows:
        columns = sorted(row)
        content.append((columns, cells(kind, [row[column] for column in columns])))
    return Outcome(kind, (len(rows), width), repr(content))


def check(actual: Outcome, expected: Outcome | Refusal) -> None:
    """Compare; of an error, the class, and the map and key that its message must name."""
    if isinstance(expected, Outcome):
        assert actual == expected
        return
    assert actual.kind == expected.error, actual
    if expected.map is not None:
        assert f": map {expected.map}: key " in actual.content
        if len(repr(expected.key)) < 40:
            assert f": key {expected.key!r}" in actual.content


def result_array(shape: tuple[int, ...], kind: str) -> Any:
    """An array to be given as ``out``, full of what must not survive."""
    fill: Any = "left over" if kind == "string" else -77
    return np.full(shape, fill, DTYPES[kind])
