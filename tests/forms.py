"""The input forms of an operator, and what a call gives, in a shape that can be compared."""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

from nbmapops import MapBatch
from nbmapops._limits import limits
from nbmapops._reading import mappings

from .reference import INT64_MAX, Entry, Refusal, Rows
from .strategies import DTYPES, Maps, Pairs

WITH_SCIPY = importlib.util.find_spec("scipy") is not None
WITH_PANDAS = importlib.util.find_spec("pandas") is not None

Arguments = tuple[Any, ...]
Form = Callable[[Maps], Arguments | None]


# A batch in each form that `op(...)` takes; None where the form cannot express this batch.


def _arrays(batch: Maps) -> Arguments:
    return batch.arrays()


def _lists(batch: Maps) -> Arguments | None:
    if not any(batch.maps):
        return None  # an empty list has no type
    keys, _, offsets = batch.flat()
    return keys, [value for m in batch.scalars() for _, value in m], offsets


def _tuples(batch: Maps) -> Arguments | None:
    lists = _lists(batch)
    return lists and tuple(map(tuple, lists))


def _object_arrays(batch: Maps) -> Arguments | None:
    lists = _lists(batch)
    if lists is None:
        return None
    made = []
    for data in lists:
        made.append(np.empty(len(data), object))
        made[-1][:] = data
    return tuple(made)


def spread(data: Any) -> Any:
    """The same elements, every second one of a longer array."""
    wide = np.repeat(data, 2)
    return wide[::2] if wide.dtype == object else wide[::-2][::-1]


def _strided(batch: Maps) -> Arguments:
    return tuple(spread(part) for part in batch.arrays())


def _read_only(batch: Maps) -> Arguments:
    parts = batch.arrays()
    for part in parts:
        part.flags.writeable = False
    return parts


def _swapped(batch: Maps) -> Arguments:
    parts = batch.arrays()
    return tuple(
        part if part.dtype == object else part.astype(part.dtype.newbyteorder()) for part in parts
    )


def _narrow(batch: Maps) -> Arguments:
    """Integers in the smallest type that holds them, unsigned where possible."""
    keys, values, offsets = batch.arrays()
    if batch.key_type == "int64":
        keys = _narrowed(keys)
    if batch.value_type == "int64":
        values = _narrowed(values)
    return keys, values, _narrowed(offsets)


def _narrowed(data: Any) -> Any:
    for dtype in (np.uint8, np.int8, np.uint16, np.int16, np.int32, np.uint64):
        limits = np.iinfo(dtype)
        if all(limits.min <= number <= limits.max for number in data.tolist()):
            return data.astype(dtype)
    return data


def _fixed_width_text(batch: Maps) -> Arguments | None:
    return _as_text(batch, lambda texts: np.array(texts, "U"), lambda text: text[-1:] != "\0")


def _numpy_strings(batch: Maps) -> Arguments | None:
    dtype: Any = np.dtypes.StringDType()
    return _as_text(batch, lambda texts: np.array(texts, dtype), lambda _: True)


def _as_text(
    batch: Maps, make: Callable[[list[str]], Any], takes: Callable[[str], bool]
) -> Arguments | None:
    parts = list(batch.arrays())
    found = False
    for place, kind in enumerate((batch.key_type, batch.value_type)):
        if kind == "string":
            texts = parts[place].tolist()
            if not texts or not all(map(takes, texts)):
                return None
            parts[place], found = make(texts), True
    return tuple(parts) if found else None


def _map_batch(batch: Maps) -> Arguments:
    return (MapBatch.from_arrays(*batch.arrays()),)


def _map_batch_slice(batch: Maps) -> Arguments:
    """A slice of a longer batch; what surrounds it would be refused, or be a new word."""
    key = {"int64": INT64_MAX - 77, "string": "nowhere"}[batch.key_type]
    value: Any = {"string": "no number"}.get(batch.value_type, 1)
    around: list[Entry] = [(key, value), (key, value)]
    wide = Maps(batch.key_type, batch.value_type, [around, *batch.maps, around])
    return (MapBatch.from_arrays(*wide.arrays())[1:-1],)


def _dicts(make: Callable[[list[dict[Any, Any]]], Any]) -> Form:
    def form(batch: Maps) -> Arguments | None:
        if batch.repeats or not any(batch.maps):
            return None
        return (make([dict(m) for m in batch.scalars()]),)

    return form


def _each(make: Callable[[dict[Any, Any]], Any]) -> Form:
    return _dicts(lambda dicts: [make(d) for d in dicts])


def _object_array_of_dicts(dicts: list[dict[Any, Any]]) -> Any:
    result = np.empty(len(dicts), object)
    result[:] = dicts
    return result


def _default_dict(d: dict[Any, Any]) -> Any:
    return defaultdict(float, d)


def _counter(d: dict[Any, Any]) -> Any:
    result: Counter[Any] = Counter()
    result.update(d)
    return result


def _series(dicts: list[dict[Any, Any]]) -> Any:
    pd: Any = importlib.import_module("pandas")
    return pd.Series(dicts, index=range(7, 7 + len(dicts)), dtype=object)


def _pairs(batch: Maps) -> Arguments | None:
    if not any(batch.maps):
        return None
    return ([Pairs(m) for m in batch.scalars()],)


def _pair_lists(batch: Maps) -> Arguments | None:
    if not any(batch.maps):
        return None
    return ([tuple(m) if n % 2 else list(m) for n, m in enumerate(batch.scalars())],)


BATCH_FORMS: dict[str, Form] = {
    "arrays": _arrays,
    "lists": _lists,
    "tuples": _tuples,
    "object arrays": _object_arrays,
    "strided arrays": _strided,
    "read-only arrays": _read_only,
    "byte-swapped arrays": _swapped,
    "narrow arrays": _narrow,
    "fixed-width text": _fixed_width_text,
    "NumPy strings": _numpy_strings,
    "MapBatch": _map_batch,
    "slice of a MapBatch": _map_batch_slice,
    "MapBatch of dicts": _dicts(MapBatch.from_dicts),
    "list of dicts": _dicts(list),
    "tuple of dicts": _dicts(tuple),
    "iterator of dicts": _dicts(iter),
    "generator of dicts": _dicts(lambda dicts: (d for d in dicts)),
    "array of dicts": _dicts(_object_array_of_dicts),
    "dicts and other mappings": _dicts(
        lambda dicts: [d if n % 2 else MappingProxyType(d) for n, d in enumerate(dicts)]
    ),
    "OrderedDicts": _each(OrderedDict),
    "UserDicts": _each(UserDict),
    "defaultdicts": _each(_default_dict),
    "Counters": _each(_counter),
    "mappings that may repeat a key": _pairs,
    "lists of pairs": _pair_lists,
}
if WITH_PANDAS:
    BATCH_FORMS["Series of dicts"] = _dicts(_series)


def batch_arguments(batch: Maps) -> Iterator[tuple[str, Callable[[], Arguments]]]:
    """Name and maker of each form that can express the batch."""
    for name, form in BATCH_FORMS.items():
        if form(batch) is not None:
            yield name, lambda form=form: form(batch)  # type: ignore[misc]


def map_arguments(batch: Maps) -> Iterator[tuple[str, Arguments]]:
    """The forms of one map: the only one of the batch."""
    (entries,) = batch.scalars()
    keys, values, _ = batch.arrays()
    yield "keys and values", (keys, values)
    if not entries:
        return
    yield "keys and values as lists", ([k for k, _ in entries], [v for _, v in entries])
    yield "mapping that may repeat a key", (Pairs(entries),)
    if not batch.repeats:
        yield "dict", (dict(entries),)
        yield "mapping proxy", (MappingProxyType(dict(entries)),)
        yield "OrderedDict", (OrderedDict(entries),)


# Ways through the library that small inputs would not take.


WAYS: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "plain engine": {"engine": "plain"},
    "plain engine, no shortcuts": {"engine": "plain", "shortcuts": False},
    "plain engine, dicts at once": {"engine": "plain", "listed_maps": 0},
    "compiled engine": {"engine": "compiled"},
    "compiled engine, no shortcuts": {"engine": "compiled", "shortcuts": False},
    "small blocks of rows": {
        "engine": "compiled", "block_entries": 2, "block_bytes": 16, "thread_entries": 1,
    },
    "small blocks of dicts": {
        "engine": "compiled", "chunk_entries": 3, "chunk_maps": 2, "iterator_maps": 3,
    },
    "dicts in plain Python": {"engine": "compiled", "shortcuts": False},
}  # fmt: skip
"""Ways through the library, and the limits that force them."""


@contextmanager
def way(name: str) -> Iterator[None]:
    """Force a way through the library that only some inputs take by themselves."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for limit, value in WAYS[name].items():
            monkeypatch.setattr(limits, limit, value)
        if name == "dicts in plain Python":
            monkeypatch.setattr(mappings, "compiled_walk", lambda: None)
        yield


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
