"""Columns that the shortcut of csr reads as they are, and those that it must leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import nbmapops

from ..ways import way

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable


def _map_array(
    offsets: list[int], keys: Any, values: Any, *, nulls: list[bool] | None = None
) -> Any:
    buffers = [None if nulls is None else pa.array(nulls, pa.bool_()).buffers()[1]]
    buffers.append(pa.array(offsets, pa.int32()).buffers()[1])
    kind = pa.map_(keys.type, values.type)
    entries = pa.StructArray.from_arrays(
        [keys, values],
        fields=[pa.field("key", keys.type, nullable=False), pa.field("value", values.type)],
    )
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers, children=[entries])


def _text_beyond() -> Any:
    ends = pa.array([0, 1, 2, 3, 99], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 4, [None, ends, pa.py_buffer(b"abca")])


NUMBERS = pa.array([1.5, 2.5, 3.5, 4.5])
LETTERS = pa.array(["a", "b", "c", "a"])
COLUMNS: dict[str, Callable[[], Any]] = {
    "plain": lambda: _map_array([0, 2, 4], LETTERS, NUMBERS),
    "empty maps": lambda: _map_array([0, 0, 4, 4], LETTERS, NUMBERS),
    "no map": lambda: _map_array([0, 2, 4], LETTERS, NUMBERS)[:0],
    "sliced": lambda: _map_array([0, 1, 2, 4], LETTERS, NUMBERS)[1:],
    "sliced entries": lambda: _map_array([0, 1, 3], LETTERS[1:], NUMBERS[1:]),
    "entries behind the last map": lambda: _map_array([1, 2, 3], LETTERS, NUMBERS),
    "two chunks": lambda: pa.chunked_array([_map_array([0, 2, 4], LETTERS, NUMBERS)] * 2),
    "no chunk": lambda: pa.chunked_array([], pa.map_(pa.string(), pa.float64())),
    "large text": lambda: _map_array([0, 2, 4], LETTERS.cast(pa.large_string()), NUMBERS),
    "text views": lambda: _map_array([0, 2, 4], LETTERS.cast(pa.string_view()), NUMBERS),
    "words": lambda: _map_array([0, 2, 4], LETTERS.dictionary_encode(), NUMBERS),
    "narrow values": lambda: _map_array([0, 2, 4], LETTERS, pa.array([1, 2, 3, 4], pa.int8())),
    "half values": lambda: _map_array([0, 2, 4], LETTERS, NUMBERS.cast(pa.float16())),
    "a null map": lambda: _map_array([0, 2, 4], LETTERS, NUMBERS, nulls=[True, False]),
    "a null value": lambda: _map_array([0, 2, 4], LETTERS, pa.array([1.5, None, 2.5, 3.5])),
    "an unknown key": lambda: _map_array([0, 2, 4], pa.array(["a", "b", "q", "a"]), NUMBERS),
    "a key twice": lambda: _map_array([0, 2, 4], pa.array(["a", "b", "a", "a"]), NUMBERS),
    "int keys": lambda: _map_array([0, 2, 4], pa.array([1, 2, 3, 1]), NUMBERS),
    "text values": lambda: _map_array([0, 2, 4], LETTERS, LETTERS),
    "falling offsets": lambda: _map_array([0, 3, 2, 4], LETTERS, NUMBERS),
    "offsets beyond the entries": lambda: _map_array([0, 2, 9], LETTERS, NUMBERS),
    "a negative offset": lambda: _map_array([-1, 2, 4], LETTERS, NUMBERS),
    "not UTF-8": lambda: _map_array(
        [0, 2, 4], pa.array([b"a", b"\xff", b"c", b"a"]).view(pa.string()), NUMBERS
    ),
    "text offsets beyond the text": lambda: _map_array(
        [0, 2, 4],
        pa.Array.from_buffers(
            pa.string(),
            4,
            [None, pa.array([0, 1, 2, 3, 99], pa.int32()).buffers()[1], pa.py_buffer(b"abca")],
        ),
        NUMBERS,
    ),
}


@pytest.mark.parametrize("words", [["b", "a", "c"], [3, 1, 2]], ids=["text", "int64"])
@pytest.mark.parametrize("unknown", ["error", "ignore"])
@pytest.mark.parametrize("name", COLUMNS)
def test_csr_of_a_column_is_that_of_the_general_way(name: str, unknown: Any, words: Any) -> None:
    pytest.importorskip("scipy")
    kind = "int64" if words[0] == 3 else "string"
    op = nbmapops.DictVectorizer(**{f"{kind}_vocabulary": words}, handle_unknown=unknown)
    told: list[Any] = []
    for engine in ("compiled engine", "compiled engine, no shortcuts"):
        with way(engine):
            try:
                matrix = op.csr(COLUMNS[name]())
            except (TypeError, ValueError, LookupError) as error:
                told.append((type(error), str(error)))
            else:
                parts = matrix.data, matrix.indices, matrix.indptr
                told.append([(part.dtype, part.tolist()) for part in parts])
    assert told[0] == told[1]
