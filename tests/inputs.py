"""The forms in which an operator takes its input."""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np

from nbmapops import MapBatch

from .reference import INT64_MAX, Entry
from .strategies import Maps, Pairs

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
