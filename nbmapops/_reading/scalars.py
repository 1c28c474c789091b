"""Which scalars are keys and values, and of what kind: the rules for one map of Python objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nbmapops._constants import INT64_MAX as INT64_MAX  # noqa: PLC0414 (others import it from here)
from nbmapops._constants import INT64_MIN as INT64_MIN  # noqa: PLC0414 (others import it from here)
from nbmapops._constants import Array as Array  # noqa: PLC0414 (others import it from here)
from nbmapops.errors import CastError, show

DTYPES: dict[str, np.dtype[Any]] = {
    "int64": np.dtype(np.int64),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "string": np.dtype(object),
}
# The names users know: ONNX's, then NumPy's.
TYPE_NAMES = {
    "float": "float32",
    "double": "float64",
    "int64": "int64",
    "string": "string",
    "float32": "float32",
    "float64": "float64",
}


def type_name(kind: object, what: str) -> str:
    """Return the internal name of a type given by its ONNX name or as a NumPy dtype."""
    if isinstance(kind, str):
        if kind in TYPE_NAMES:
            return TYPE_NAMES[kind]
    elif kind is not None:
        try:
            dtype = np.dtype(kind)  # type: ignore[call-overload]
        except TypeError:
            dtype = np.dtype(np.void)
        for name, known in DTYPES.items():
            if dtype == known:
                return name
        if dtype.kind in "UT":
            return "string"
    raise TypeError(
        f'{what} is {show(kind)}; it must be one of "float", "double", "int64", "string" '
        "or a NumPy dtype of these"
    )


_KINDS_OF_TYPES: dict[type, str] = {
    bool: "int64",
    np.bool_: "int64",
    int: "int64",
    float: "float64",
    np.float64: "float64",
    np.float32: "float32",
    np.float16: "float32",
    str: "string",
    np.str_: "string",
}


def kind_of(scalar: object) -> str | None:
    """Return the kind of a key or value, or None where it has none."""
    kind = _KINDS_OF_TYPES.get(type(scalar))
    if kind is not None:
        return kind
    if isinstance(scalar, str):
        return "string"
    if isinstance(scalar, int):
        return "int64"
    # By dtype: NumPy's class of signed integers has time spans in it, whose unit would be lost.
    if isinstance(scalar, np.generic) and scalar.dtype.kind in "iu":
        return "int64"
    if isinstance(scalar, float):
        return "float64"
    return None


def promote(kinds: set[str]) -> str:
    """Return the one kind that holds values of all these kinds of number, or text."""
    return next(iter(kinds)) if len(kinds) == 1 else "float64"


def exact_scalar(scalar: Any, kind: str) -> Any:
    """Return the scalar as Python's own int, float or str, whatever its class overrides."""
    if kind == "int64":
        return int.__index__(scalar) if isinstance(scalar, int) else int(scalar)
    if kind == "string":
        return str.__str__(scalar)
    return float.__float__(scalar) if isinstance(scalar, float) else float(scalar)


def key_type_error(where: str, key: object, expected: str | None) -> TypeError:
    """Return the error for a key of the wrong type; `expected` is the kind the others have."""
    name = type(key).__name__
    if expected is None:
        return TypeError(f"{where}: key {show(key)} is {name}; a key is an integer or a str")
    need = "an integer" if expected == "int64" else "a str"
    return TypeError(f"{where}: key {show(key)} is {name}; here a key must be {need}")


def value_type_error(where: str, key: object, value: object, expected: str | None) -> TypeError:
    """Return the error for a value of the wrong type; `expected` is the kind the others have."""
    what = f"{where}: key {show(key)}: value {show(value)} is {type(value).__name__}"
    if expected is None:
        return TypeError(f"{what}; a value is a number (int64, float32, float64) or a str")
    others = "text" if expected == "string" else "numbers"
    return TypeError(f"{what}, but the values before it are {others}; one batch holds one of both")


def kinds_of_map(
    where: str,
    keys: Sequence[Any],
    values: Sequence[Any],
    key_kind: str | None,
    value_kind: str | None,
) -> tuple[str | None, str | None]:
    """Return the key kind and the value kind once this map has been read: the type step.

    The kinds given are those of the maps before (None: not fixed yet).
    """
    quick = _quick_kinds(keys, values, key_kind, value_kind)
    if quick is not None:
        return quick
    kinds = set()
    for key, value in zip(keys, values, strict=True):
        kind = kind_of(key)
        if kind not in ("int64", "string") or (key_kind is not None and kind != key_kind):
            raise key_type_error(where, key, key_kind)
        key_kind = kind
        kind = kind_of(value)
        if kind is None:
            raise value_type_error(where, key, value, None)
        if value_kind is not None and (kind == "string") != (value_kind == "string"):
            raise value_type_error(where, key, value, value_kind)
        kinds.add(kind)
        if value_kind is None:
            value_kind = kind
    if kinds:
        value_kind = promote(kinds | {value_kind or "float64"})
    return key_kind, value_kind


def _quick_kinds(
    keys: Sequence[Any], values: Sequence[Any], key_kind: str | None, value_kind: str | None
) -> tuple[str | None, str | None] | None:
    """Return what `kinds_of_map` does where the sets of types tell; a tenth of its time."""
    key_kinds = set(map(_KINDS_OF_TYPES.get, set(map(type, keys))))
    value_kinds = set(map(_KINDS_OF_TYPES.get, set(map(type, values))))
    if not key_kinds and not value_kinds:
        return key_kind, value_kind
    if len(key_kinds) != 1 or None in value_kinds or len(keys) != len(values):
        return None
    kind = key_kinds.pop()
    if kind not in ("int64", "string") or key_kind not in (None, kind):
        return None
    if value_kind is not None:
        value_kinds.add(value_kind)
    if "string" in value_kinds and len(value_kinds) > 1:
        return None
    return kind, promote(value_kinds)  # type: ignore[arg-type]


def exact_map(
    where: str, keys: Sequence[Any], values: Sequence[Any], value_kind: str | None
) -> tuple[list[Any], list[Any]]:
    """Return keys and values as exact Python scalars of the batch's kinds: the range step."""
    if set(map(type, values)) <= {float, str} and (
        (key_types := set(map(type, keys))) <= {str}
        or (key_types <= {int} and min(keys) >= INT64_MIN and max(keys) <= INT64_MAX)
    ):
        return list(keys), list(values)
    exact_keys, exact_values = [], []
    for raw_key, raw_value in zip(keys, values, strict=True):
        key = exact_scalar(raw_key, kind_of(raw_key) or "string")
        if isinstance(key, int) and not INT64_MIN <= key <= INT64_MAX:
            raise OverflowError(f"{where}: key {show(key)} does not fit in int64")
        value = exact_scalar(raw_value, kind_of(raw_value) or "string")
        if isinstance(value, int):
            if not INT64_MIN <= value <= INT64_MAX:
                raise OverflowError(
                    f"{where}: key {show(key)}: value {show(value)} does not fit in int64"
                )
            if value_kind == "float64":
                if int(float(value)) != value:
                    raise inexact_error(where, key, value)
                value = float(value)
        exact_keys.append(key)
        exact_values.append(value)
    return exact_keys, exact_values


def inexact_error(where: str, key: object, value: object) -> OverflowError:
    """Return the error for an int that the batch's float64 values cannot hold."""
    return OverflowError(
        f"{where}: key {show(key)}: value {show(value)} has no exact float64, and other values of "
        "the batch are floats; make all values ints or all floats"
    )


def cast_error(where: str, key: object, value: Any, kind: str, reason: object) -> CastError:
    """Return the error for a value that cannot be converted."""
    if isinstance(value, np.floating):
        value = float(value)
    target = "str" if kind == "string" else kind
    return CastError(
        f"{where}: key {show(key)}: value {show(value)} cannot become {target}: {reason}"
    )


def items_of(where: str, mapping: object) -> tuple[list[Any], list[Any]]:
    """Return the keys and values of one mapping, read once."""
    pairs: Any = None
    kind = type(mapping)
    if kind.__name__ == "MapScalar" and kind.__module__.startswith("pyarrow"):
        # Its items() fail or do not exist, whatever its version.
        pairs = mapping.as_py()  # type: ignore[attr-defined]
    elif isinstance(mapping, Mapping):
        pairs = mapping.items()
    if pairs is None:
        raise TypeError(
            f"{where} is {show(mapping)} of type {type(mapping).__name__}; "
            "every element of a batch must be a mapping"
        )
    items = list(pairs)
    for item in items:
        if type(item) is not tuple or len(item) != 2:
            raise TypeError(f"{where}: items() gave {show(item)}, which is no (key, value) pair")
    return [key for key, _ in items], [value for _, value in items]


class BadMap(Exception):
    """A map cannot be read: its number, and the error to raise once the maps before it are fine."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(number, error)
        self.number = number
        self.error = error
