"""Reading, scalars: which are keys and values, and of what kind: the rules for one map."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Rational
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbmapops._constants import INT64_MAX, INT64_MIN
from nbmapops._foreign import let_out
from nbmapops._reading.columns import is_missing
from nbmapops.errors import CastError, show

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

    from nbmapops._types import Key, Value

DTYPES: dict[str, np.dtype[np.generic]] = {
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
        except TypeError as error:
            let_out(error)
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
    """Return the kind of a key or a plain value, or None where it has none."""
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


def value_kind_of(scalar: object) -> str | None:
    """Return the kind of a value, or None where it has none.

    A Decimal or Fraction counts as an int where it has no decimal places (no denominator), and as
    a float otherwise; where one of int64 and float64 alone holds it exactly, as that.
    """
    kind = kind_of(scalar)
    # Loaded by whoever has such a number: importing them takes 1 ms, which small work does without.
    decimal, fractions = sys.modules.get("decimal"), sys.modules.get("fractions")
    exact = (getattr(decimal, "Decimal", ()), getattr(fractions, "Fraction", ()))
    if kind is None and isinstance(scalar, exact):
        return "int64" if isinstance(_exact_number(scalar), int) else "float64"
    return kind


def _exact_number(number: Decimal | Fraction) -> int | float | None:
    """Return the int64 or float64 that equals a number, None where there is none."""
    if isinstance(number, Rational):
        plain = number.denominator == 1
    elif number.is_nan():
        return float("nan")
    else:
        exponent = number.as_tuple().exponent
        plain = (
            isinstance(exponent, int) and exponent >= 0 and not (not number and number.is_signed())
        )
    in_range = INT64_MIN <= number <= INT64_MAX
    if plain and in_range:
        return int(number)
    try:
        if (real := float(number)) == number:
            return real
    except OverflowError as error:  # a Fraction beyond all floats
        let_out(error)
        return None
    return int(number) if in_range and int(number) == number else None


def exact_value(value: Any) -> Any:
    """Return a value as Python's own int, float or str; None for a Decimal that none equals."""
    kind = kind_of(value)
    return _exact_number(value) if kind is None else exact_scalar(value, kind)


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
    if is_missing(key) or (isinstance(key, float) and key != key):  # noqa: PLR0124
        return TypeError(
            f"{where}: key {show(key)} is {name}, a missing key; leave the entry out or name it"
        )
    if expected is None:
        return TypeError(f"{where}: key {show(key)} is {name}; a key must be an integer or a str")
    need = "an integer" if expected == "int64" else "a str"
    return TypeError(f"{where}: key {show(key)} is {name}; here a key must be {need}")


def value_type_error(where: str, key: object, value: object, expected: str | None) -> TypeError:
    """Return the error for a value of the wrong type; `expected` is the kind the others have."""
    what = f"{where}: key {show(key)}: value {show(value)} is {type(value).__name__}"
    if is_missing(value):
        return TypeError(
            f'{what}, a missing value; MapBatch.from_dicts(maps, null_value="skip") leaves such '
            "entries out, null_value=<a value> fills them"
        )
    if isinstance(value, Mapping):
        return TypeError(f'{what}; flatten nested maps first, as in {{"a.b": 1}}')
    if expected is None:
        return TypeError(f"{what}; a value must be a number (int64, float32, float64) or a str")
    others = "text" if expected == "string" else "numbers"
    return TypeError(
        f"{what}, but the values before it are {others}; a batch holds numbers or text, not both"
    )


def kinds_of_map(
    where: str,
    keys: Sequence[object],
    values: Sequence[object],
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
        kind = value_kind_of(value)
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
    keys: Sequence[object], values: Sequence[object], key_kind: str | None, value_kind: str | None
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
    where: str,
    keys: Sequence[Any],
    values: Sequence[Any],
    value_kind: str | None,
    *,
    skip_large: bool = False,
) -> tuple[list[Key], list[Value]]:
    """Return keys and values as exact Python scalars of the batch's kinds: the range step.

    With `skip_large`, entries whose key is beyond int64 are left out: it cannot be a word.
    """
    if set(map(type, values)) <= {float, str} and (
        (key_types := set(map(type, keys))) <= {str}
        or (key_types <= {int} and min(keys) >= INT64_MIN and max(keys) <= INT64_MAX)
    ):
        return list(keys), list(values)
    exact_keys: list[Key] = []
    exact_values: list[Value] = []
    for raw_key, raw_value in zip(keys, values, strict=True):
        key = exact_scalar(raw_key, kind_of(raw_key) or "string")
        large = isinstance(key, int) and not INT64_MIN <= key <= INT64_MAX
        if large and not skip_large:
            raise large_key_error(where, key)
        # A signalling NaN of float32 does not survive the way through a float64.
        narrow = type(raw_value) is np.float32 and value_kind == "float32"
        value = raw_value if narrow else exact_value(raw_value)
        if value is None:
            raise OverflowError(
                f"{where}: key {show(key)}: value {show(raw_value)} has no exact int64 or float64; "
                "round it first: float(value)"
            )
        if isinstance(value, int):
            if not INT64_MIN <= value <= INT64_MAX:
                raise OverflowError(
                    f"{where}: key {show(key)}: value {show(value)} does not fit in int64"
                )
            if value_kind == "float64":
                if int(float(value)) != value:
                    raise inexact_error(where, key, value)
                value = float(value)
        if not large:
            exact_keys.append(key)
            exact_values.append(value)
    return exact_keys, exact_values


def large_key_error(where: str, key: object) -> OverflowError:
    """Return the error for an integer key that cannot be a word of an int64 vocabulary."""
    return OverflowError(
        f"{where}: key {show(key)} does not fit in int64; larger keys must be text"
    )


def inexact_error(where: str, key: object, value: object) -> OverflowError:
    """Return the error for an int that the batch's float64 values cannot hold."""
    return OverflowError(
        f"{where}: key {show(key)}: value {show(value)} has no exact float64, and other values of "
        "the batch are floats; make all values ints or all floats"
    )


def changed_error(where: str) -> RuntimeError:
    """Return the error for data whose owner changed them during the call."""
    return RuntimeError(f"{where}: the data changed while it was read")


def is_change(error: RuntimeError) -> bool:
    """Tell whether Python refuses to read on, because a dict or a deque has changed."""
    return type(error) is RuntimeError and str(error).endswith(" during iteration")


def cast_error(where: str, key: object, value: object, kind: str, reason: object) -> CastError:
    """Return the error for a value that cannot be converted."""
    if isinstance(value, np.floating):
        value = float(value)
    target = "str" if kind == "string" else kind
    return CastError(
        f"{where}: key {show(key)}: value {show(value)} cannot become {target}: {reason}"
    )


def is_arrow_map(thing: object) -> bool:
    """Tell whether this is one map or struct of pyarrow: a Mapping only in some versions."""
    kind = type(thing)
    return kind.__name__ in _ARROW_MAPS and kind.__module__.startswith("pyarrow")


_ARROW_MAPS = ("MapScalar", "StructScalar")


def _pairs_of(mapping: Any) -> list[tuple[object, object]]:
    if not is_arrow_map(mapping):
        return list(mapping.items())
    scalar = mapping  # whose items() fail, do not exist or give scalars of Arrow
    if type(scalar).__name__ == "MapScalar":
        kind = scalar.type.item_type
        return [(key, _as_stored(value, kind)) for key, value in scalar.as_py()]
    # A struct holds null for what is not there. Its as_py() refuses two fields of one name.
    fields = ((scalar.type.field(at), scalar[at].as_py()) for at in range(scalar.type.num_fields))
    return [
        (field.name, _as_stored(value, field.type)) for field, value in fields if value is not None
    ]


def _as_stored(value: object, kind: object) -> object:
    """Give a value of Arrow its type again, which as_py() loses."""
    if isinstance(value, float) and str(kind) in ("float", "halffloat"):
        return np.float32(value)
    return value


def items_of(where: str, mapping: object) -> tuple[list[object], list[object]]:
    """Return the keys and values of one map, read once: a mapping, or a list of pairs."""
    if isinstance(mapping, (list, tuple)):
        items = list(mapping)
        if all(isinstance(item, (tuple, list)) and len(item) == 2 for item in items):
            return [key for key, _ in items], [value for _, value in items]
    if is_missing_map(mapping) or not (is_arrow_map(mapping) or isinstance(mapping, Mapping)):
        raise _no_map_error(where, mapping)
    try:
        items = _pairs_of(mapping)
    except RuntimeError as error:
        if not is_change(error):
            raise
        raise changed_error(where) from None
    for item in items:
        if type(item) is not tuple or len(item) != 2:
            raise TypeError(f"{where}: items() gave {show(item)}, not a (key, value) pair")
    return [key for key, _ in items], [value for _, value in items]


def _no_map_error(where: str, thing: object) -> TypeError:
    what = f"{where} is {show(thing)} of type {type(thing).__name__}"
    if is_missing_map(thing):
        return TypeError(
            f'{what}, a missing map; MapBatch.from_dicts(maps, null_map="empty") reads such maps '
            "as empty"
        )
    return TypeError(
        f"{what}; every element of a batch must be a mapping or a list of (key, value) pairs"
    )


# ------------------------------------------------------------------------------- missing values
def is_missing_map(thing: object) -> bool:
    """Tell whether this stands for a missing map: NaN does, too, in columns of pandas."""
    if is_arrow_map(thing):
        return not getattr(thing, "is_valid", True)
    return is_missing(thing) or (isinstance(thing, float) and thing != thing)  # noqa: PLR0124


class Nulls(NamedTuple):
    """What becomes of missing maps and values of mappings."""

    empty: bool = False  # a missing map is an empty one
    keep: bool = True  # a missing value is left as it is: an error
    fill: object = None  # instead of a missing value; None: its entry is left out


def nulls_of(null_map: object, null_value: object, operator: str) -> Nulls:
    """Check what is to become of missing maps ("error", "empty") and values ("error", "skip")."""
    if not isinstance(null_map, str) or null_map not in ("error", "empty"):
        raise ValueError(f'{operator}: null_map must be "error" or "empty", not {show(null_map)}')
    skip = isinstance(null_value, str) and null_value == "skip"
    keep = isinstance(null_value, str) and null_value == "error"
    if value_kind_of(null_value) is None:
        raise TypeError(
            f'{operator}: null_value must be "error", "skip" or a value, not {show(null_value)}'
        )
    return Nulls(null_map == "empty", keep, None if skip or keep else null_value)


def without_nulls(
    maps: Iterable[object], nulls: Nulls, operator: str, missing: list[int]
) -> Iterator[object]:
    """Yield maps without missing maps and values; `missing` gets the numbers of missing maps."""
    for number, mapping in enumerate(maps):
        if nulls.empty and is_missing_map(mapping):
            missing.append(number)
            yield {}
        elif nulls.keep or is_missing_map(mapping):
            yield mapping
        else:
            yield _filled(*items_of(f"{operator}: map {number}", mapping), nulls.fill)


def _filled(keys: list[object], values: list[object], fill: object) -> list[tuple[object, object]]:
    pairs = zip(keys, values, strict=True)
    if fill is None:
        return [(key, value) for key, value in pairs if not is_missing(value)]
    return [(key, fill if is_missing(value) else value) for key, value in pairs]


class BadMap(Exception):
    """A map cannot be read: its number, and the error to raise once the maps before it are fine."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(number, error)
        self.number = number
        self.error = error
