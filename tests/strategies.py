"""Hypothesis strategies: batches of maps that are typed, and the operators to run them through."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from .reference import INT64_MAX, INT64_MIN, Entry, float32

KEY_TYPES = ("int64", "string")
VALUE_TYPES = ("float32", "float64", "int64", "string")
SEMANTICS = ("strict", "onnxruntime")
DTYPES: dict[str, Any] = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "int64": np.dtype(np.int64),
    "string": np.dtype(object),
}


@dataclass(frozen=True)
class Maps:
    """A batch: its types and, for each map, the entries in order; a map may repeat a key."""

    key_type: str
    value_type: str
    maps: list[list[Entry]]

    @property
    def repeats(self) -> bool:
        return any(len({key for key, _ in m}) < len(m) for m in self.maps)

    def flat(self) -> tuple[list[Any], list[Any], list[int]]:
        """Keys, values and offsets as plain lists."""
        entries = [entry for m in self.maps for entry in m]
        offsets = [0]
        for m in self.maps:
            offsets.append(offsets[-1] + len(m))
        return [key for key, _ in entries], [value for _, value in entries], offsets

    def arrays(self) -> tuple[Any, Any, Any]:
        """Keys, values and offsets as arrays of the batch's types."""
        keys, values, offsets = self.flat()
        return (
            array(keys, self.key_type),
            array(values, self.value_type),
            np.array(offsets, np.int64),
        )

    def scalars(self) -> list[list[Entry]]:
        """The maps with values whose Python or NumPy type says the value type."""
        if self.value_type != "float32":
            return self.maps
        return [[(key, np.float32(value)) for key, value in m] for m in self.maps]


def array(data: list[Any], kind: str) -> Any:
    """Return a list as an array of one of the four types."""
    return np.array(data, DTYPES[kind])


class Pairs(Mapping[Any, Any]):
    """A mapping that gives exactly the pairs it was made from, repeated keys included."""

    def __init__(self, pairs: list[Entry]) -> None:
        self.pairs = pairs

    def __getitem__(self, key: Any) -> Any:
        for own, value in self.pairs:
            if own == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def items(self) -> Any:
        return list(self.pairs)


# Scalars.

# Near the limits, around 2**53 where float64 ends, and words that share their low or high bits.
_INT_CORNERS = [
    0, 1, 2, 3, 4, 5, 6, 7, -1, -2, INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1,
    2**53, 2**53 + 1, -(2**53) - 1, 2**31, 2**31 - 1, -(2**31), 2**32,
    *(k << 32 for k in range(1, 5)), *(k << 56 for k in range(1, 5)), 2**62 + 2**38 + 1,
]  # fmt: skip
int64s = st.sampled_from(_INT_CORNERS) | st.integers(INT64_MIN, INT64_MAX)

_TEXT_CORNERS = ["", "a", "b", "A", " a", "a ", "a\0", "a\0b", "\u00e9", "e\u0301", "\U0001f600"]
texts = st.sampled_from(_TEXT_CORNERS) | st.text(max_size=4)

_FLOAT_CORNERS = [
    0.0, -0.0, 1.0, -1.5, 0.1, 1e-7, 5e-324, 1e308, -1e308, 2.0**63, -(2.0**63), 2.0**53,
    1e-45, 3.4028235677973366e38, 16777217.0, 0.5, 1e20, math.nan, -math.nan, math.inf, -math.inf,
]  # fmt: skip
float64s = st.sampled_from(_FLOAT_CORNERS) | st.floats()
float32s = st.sampled_from(_FLOAT_CORNERS).map(float32) | st.floats(width=32)
_NUMBER_CORNERS = [
    "1", "-3", "+7", " 1.5", "2e2 ", ".5", "5.", "1E8", "nan", "-nan", "inf", "-INF", "Infinity",
    "\x0b2\n", "010", "0", "-0", "1_000", "1.5abc", "abc", "", " ", "1e400", "1e-46", "1e-40",
    "0x1p3", "0x", "12.7", "1e", "++5", "1\0002", "\uff11", "\u00a01", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "1.000000059604644775390626", "1,5", "1 2",
    "0x180a.5b5p-139", "3.4028235677973366e38", "0e999", "nan(1)", "infinit",
]  # fmt: skip
number_texts = (
    st.sampled_from(_NUMBER_CORNERS)
    | st.integers().map(str)
    | st.floats(width=32).map(repr)
    | st.text("0123456789+-.eExXpnaif \t\0", max_size=6)
)
valid_number_texts = st.integers(-9, 9).map(str) | st.sampled_from([" 12", "+3 ", "0", "-0"])


def keys_of(kind: str) -> st.SearchStrategy[Any]:
    return int64s if kind == "int64" else texts


def values_of(kind: str) -> st.SearchStrategy[Any]:
    return {"float32": float32s, "float64": float64s, "int64": int64s, "string": texts}[kind]


# Values that most conversions take, so that a batch is not nearly always refused.
_TAME: dict[str, st.SearchStrategy[Any]] = {
    "float32": st.integers(-99, 99).map(lambda n: n / 4),
    "float64": st.integers(-99, 99).map(lambda n: n / 4),
    "int64": int64s,
    "string": valid_number_texts,
}


@st.composite
def maps_over(
    draw: st.DrawFn,
    keys: st.SearchStrategy[Any],
    values: st.SearchStrategy[Any],
    *,
    max_maps: int = 5,
    max_entries: int = 7,
) -> list[list[Entry]]:
    """Draw maps; one batch in four may repeat keys."""
    entries = st.tuples(keys, values)
    if draw(st.integers(0, 3)) == 0:
        one: st.SearchStrategy[list[Entry]] = st.lists(entries, max_size=max_entries)
    else:
        one = st.lists(entries, max_size=max_entries, unique_by=lambda entry: entry[0])
    return draw(st.lists(one, max_size=max_maps))


@dataclass(frozen=True)
class Case:
    """An operator, by name and attributes, and a batch for it."""

    attributes: dict[str, Any]
    batch: Maps


def _fills(kind: str) -> st.SearchStrategy[Any]:
    exact = {
        "float32": st.sampled_from([0.0, -1.0, 0.5, math.nan, math.inf]),
        "float64": st.sampled_from([0.0, -1.0, 0.1, math.nan]),
        "int64": st.sampled_from([0, -1, INT64_MAX]),
        "string": st.sampled_from(["", "?"]),
    }
    return st.none() | exact[kind]


@st.composite
def dict_vectorizer_cases(draw: st.DrawFn) -> Case:
    """Draw a DictVectorizer of any kind and a batch that it mostly takes."""
    key_type = draw(st.sampled_from(KEY_TYPES))
    value_type = draw(st.sampled_from(VALUE_TYPES))
    semantics = draw(st.sampled_from(SEMANTICS))
    repeats = semantics == "onnxruntime" and draw(st.booleans())
    start = draw(st.integers(-3, 3) | st.just(INT64_MAX - 8) | st.just(INT64_MIN))
    ranges = st.integers(0, 8).map(lambda n: list(range(start, start + n)))
    words = draw(st.lists(keys_of(key_type), max_size=8, unique=not repeats))
    if key_type == "int64" and draw(st.integers(0, 3)) == 0:
        words = draw(ranges)
    known = st.sampled_from(words) if words else keys_of(key_type)
    keys = known if draw(st.booleans()) else known | keys_of(key_type)
    dtype = draw(st.none() | st.sampled_from(VALUE_TYPES)) if semantics == "strict" else None
    values = values_of(value_type)
    if dtype not in (None, value_type):
        wild = number_texts if value_type == "string" else values
        values = _TAME[value_type] if draw(st.booleans()) else wild
    attributes: dict[str, Any] = {f"{key_type}_vocabulary": words, "semantics": semantics}
    optional = {
        "dtype": dtype,
        "handle_unknown": draw(st.sampled_from([None, None, "ignore", "error"])),
        "fill_value": draw(_fills(dtype or value_type)),
    }
    attributes |= {name: value for name, value in optional.items() if value is not None}
    if semantics == "strict" and "handle_unknown" not in attributes and dtype != "string":
        attributes["unknown_columns"] = draw(st.sampled_from([0, 0, 1, 3]))
    return Case(attributes, Maps(key_type, value_type, draw(maps_over(keys, values))))


@st.composite
def cast_map_cases(draw: st.DrawFn) -> Case:
    """Draw a CastMap of any kind and a batch that it mostly takes."""
    value_type = draw(st.sampled_from(VALUE_TYPES))
    semantics = draw(st.sampled_from(SEMANTICS))
    cast_to = draw(st.sampled_from(["TO_FLOAT", "TO_INT64", "TO_STRING"]))
    wild = values_of(value_type)
    if value_type == "string" and draw(st.booleans()):
        wild = number_texts
    values = _TAME[value_type] if draw(st.booleans()) else wild
    attributes: dict[str, Any] = {"cast_to": cast_to, "semantics": semantics}
    keys: st.SearchStrategy[Any] = int64s
    target = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}[cast_to]
    if draw(st.booleans()):
        max_map = draw(st.integers(1, 8))
        attributes |= {"map_form": "SPARSE", "max_map": max_map}
        fill = draw(_fills(target))
        if fill is not None:
            attributes["fill_value"] = fill
        keys = st.integers(0, max_map - 1)
        if draw(st.integers(0, 2)) == 0:
            keys = st.integers(-1, max_map + 1) if draw(st.booleans()) else keys | int64s
    maps, level = draw(maps_over(keys, values)), draw(st.booleans())
    if "map_form" not in attributes and maps and level:
        shortest = min(len(m) for m in maps)  # DENSE gives a matrix of maps of one length
        maps = [m[:shortest] for m in maps]
    return Case(attributes, Maps("int64", value_type, maps))
