"""The oracle: CastMap and DictVectorizer as their texts word them, in dict loops.

Nothing here is fast, uses NumPy or imports the library. A map is a sequence of (key, value) pairs
in entry order, a batch a sequence of maps. Keys are ``int`` or ``str``; values are ``int``,
``float`` or ``str`` of the value type that is passed beside them, a float32 being a float that
float32 holds exactly. The answer is either ``Rows`` or the ``Refusal`` that a caller should see.
"""

from __future__ import annotations

import binascii
import math
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Key: TypeAlias = int | str
Value: TypeAlias = int | float | str
Entry: TypeAlias = tuple[Any, Any]
Batch: TypeAlias = Sequence[Sequence[Entry]]


@dataclass(frozen=True)
class Rows:
    """A result: its type and one list of cells for each map."""

    dtype: str
    rows: list[list[Any]]


@dataclass(frozen=True)
class Refusal:
    """An error: the name of its class, the map that is to blame, the key it names."""

    error: str
    map: int | None = None
    key: Any = None


class Typed(NamedTuple):
    """A batch of dicts after its types were found."""

    key_type: str | None
    value_type: str | None
    maps: list[list[Entry]]


class CannotConvertError(Exception):
    """A value without counterpart in the result type."""


# Numbers and texts.

BLANKS = " \t\n\v\f\r"
_STRICT_FLOAT = re.compile(
    r"[ \t\n\v\f\r]*([+-]?)(?:(inf|infinity)|(nan)|([0-9]+\.?[0-9]*|\.[0-9]+)(?:e([+-]?[0-9]+))?)"
    r"[ \t\n\v\f\r]*",
    re.IGNORECASE | re.ASCII,
)
_STRICT_INT = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)[ \t\n\v\f\r]*", re.ASCII)
_C_FLOAT = re.compile(
    r"[ \t\n\v\f\r]*([+-]?)(?:(inf)|(nan)"
    r"|0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p([+-]?[0-9]+))?"
    r"|([0-9]+\.?[0-9]*|\.[0-9]+)(?:e([+-]?[0-9]+))?)",
    re.IGNORECASE | re.ASCII,
)
_C_INT = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)", re.ASCII)


def _floor_log2(x: Fraction) -> int:
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= Fraction(2) ** e else e - 1


def _nearest(x: Fraction, quantum: int) -> Fraction:
    return round(x / Fraction(2) ** quantum) * Fraction(2) ** quantum


def float32(value: float | Fraction) -> float:
    """The float32 nearest to a number, ties to even; infinite from 2**128 less half a step on."""
    if isinstance(value, float) and not (math.isfinite(value) and value):
        return value
    x = Fraction(value)
    if not x:
        return 0.0
    size = _nearest(abs(x), max(_floor_log2(abs(x)) - 23, -149))
    result = math.inf if size >= 2**128 else float(size)
    return math.copysign(result, -1.0 if x < 0 else 1.0)


def _is_tiny(x: Fraction) -> bool:
    """Whether C calls a nonzero number too small: below 2**-126 after rounding to 24 digits."""
    return _nearest(abs(x), _floor_log2(abs(x)) - 23) < Fraction(1, 2**126)


# glibc's strtof before 2.41 says nothing of some numbers that are too small; see _odd_one.
OLD_GLIBC = platform.libc_ver()[0] == "glibc" and [
    int(part) for part in platform.libc_ver()[1].split(".")
] < [2, 41]


def _odd_one(x: Fraction) -> bool:
    """Whether the one binary digit that float32 cannot hold is the 25th: old glibc says nothing.

    That is so below 2**-126 for hexadecimal texts, for decimal ones only above 2**-127.
    """
    grid = Fraction(2) ** -149
    return x % grid == Fraction(2) ** (_floor_log2(x) - 24) < grid / 2


def _integer(digits: str, base: int = 10) -> int:
    """An integer from digits, cut where no float could tell the difference."""
    value = 0
    for at in range(0, len(digits), 1000):
        part = digits[at : at + 1000]
        value = value * base ** len(part) + int(part, base)
    return value


def _scaled(digits: str, exponent: str | None, base: int, power: int) -> Fraction:
    """The number ``digits * power**exponent``; far outside of float64 any number as far outside."""
    whole, _, fraction = digits.partition(".")
    mantissa = _integer(whole + fraction, base) if whole + fraction else 0
    if not mantissa:
        return Fraction(0)
    sign = -1 if (exponent or "").startswith("-") else 1
    magnitude = (exponent or "0").lstrip("+-").lstrip("0")
    size = sign * (int(magnitude or "0") if len(magnitude) < 18 else 10**18)
    size -= len(fraction) * {10: 1, 16: 4}[base]
    digits_before = len(str(mantissa)) if mantissa < 10**400 else int(mantissa.bit_length() * 0.301)
    decimal = digits_before + (size if power == 10 else int(size * 0.301))
    if decimal > 400 or decimal < -400:
        return Fraction(10) ** (500 if decimal > 0 else -500)
    return mantissa * Fraction(power) ** size


def _signed(value: float, sign: str) -> float:
    return -value if sign == "-" else value


def parse_float(text: str, target: str) -> float:
    """A float from the whole text, the decimal forms alone."""
    found = _STRICT_FLOAT.fullmatch(text)
    if not found:
        raise CannotConvertError
    sign, infinite, nan, digits, exponent = found.groups()
    if infinite or nan:
        return _signed(math.inf if infinite else math.nan, sign)
    x = _scaled(digits, exponent, 10, 10)
    try:
        value = float32(x) if target == "float32" else float(x)
    except OverflowError:
        raise CannotConvertError from None
    if math.isinf(value) or (x and not value):
        raise CannotConvertError
    return _signed(value, sign)


def parse_int(text: str) -> int:
    """An int64 from the whole text: digits with a sign."""
    found = _STRICT_INT.fullmatch(text)
    return _int64(found)


def _int64(found: re.Match[str] | None) -> int:
    if not found:
        raise CannotConvertError
    sign, digits = found.groups()
    digits = digits.lstrip("0") or "0"
    value = int(sign + digits) if len(digits) < 20 else 2**64
    if not INT64_MIN <= value <= INT64_MAX:
        raise CannotConvertError
    return value


def parse_c_float(text: str) -> float:
    """A float32 as C's ``strtof`` reads the start of a text, its range errors refused."""
    found = _C_FLOAT.match(text.partition("\0")[0])
    if not found:
        raise CannotConvertError
    sign, infinite, nan, hexadecimal, binary, digits, exponent = found.groups()
    if infinite or nan:
        return _signed(math.inf if infinite else math.nan, sign)
    text, exponent, base, power = (
        (hexadecimal, binary, 16, 2) if hexadecimal else (digits, exponent, 10, 10)
    )
    x = _scaled(text, exponent, base, power)
    value = float32(x)
    if math.isinf(value):
        raise CannotConvertError
    odd = OLD_GLIBC and x and _odd_one(x) and (hexadecimal or x > Fraction(1, 2**127))
    if x and _is_tiny(x) and not (Fraction(value) == x or odd):
        raise CannotConvertError
    return _signed(value, sign)


def parse_c_int(text: str) -> int:
    """An int64 as C's ``strtoll`` reads the start of a text, its range errors refused."""
    return _int64(_C_INT.match(text.partition("\0")[0]))


def float_text(value: float, source: str) -> str:
    """Plain decimal text: six places, or the fewest more with which a text reads back.

    Of the texts of one length that read back, the nearest to the number.
    """
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    size = abs(Fraction(value))
    places = 6
    while True:
        scaled = size * 10**places
        nearest = round(scaled)
        beside = nearest + (1 if scaled > nearest else -1)
        for digits in (nearest, beside):
            number = Fraction(digits, 10**places)
            if (float32(number) if source == "float32" else float(number)) == abs(value):
                whole, fraction = divmod(digits, 10**places)
                return f"{sign}{whole}.{fraction:0{places}}"
        places += 1


def c_float_text(value: float) -> str:
    """The text of C's ``%f``, which shows the sign of a NaN."""
    if math.isnan(value):
        return "-nan" if math.copysign(1.0, value) < 0 else "nan"
    return f"{value:f}"


def convert(value: Value, source: str, target: str, rules: str) -> Value:
    """One value in another type; ``rules`` is "strict", "onnxruntime" or "exact"."""
    if rules == "onnxruntime" and source != "string":
        value, source = float32(value), "float32"  # type: ignore[arg-type]
    if isinstance(value, str):
        return _from_text(value, target, rules)
    if target == "string":
        if source == "int64":
            return str(value)
        return c_float_text(value) if rules == "onnxruntime" else float_text(value, source)
    if target == "int64":
        return _to_int64(value, rules)
    if target == "float32":
        return _to_float32(value, rules)
    if isinstance(value, int) and int(float(value)) != value:
        raise CannotConvertError  # rounding is for float32 alone
    return float(value)


def _from_text(value: str, target: str, rules: str) -> Value:
    if target == "string":
        return value
    if target == "int64":
        return parse_c_int(value) if rules == "onnxruntime" else parse_int(value)
    return parse_c_float(value) if rules == "onnxruntime" else parse_float(value, target)


def _to_int64(value: float, rules: str) -> int:
    if isinstance(value, int):
        return value
    if not math.isfinite(value) or not INT64_MIN <= int(value) <= INT64_MAX:
        if rules == "onnxruntime":
            return INT64_MIN
        raise CannotConvertError
    if rules == "exact" and value != int(value):
        raise CannotConvertError
    return int(value)


def _to_float32(value: float, rules: str) -> float:
    result = float32(value)
    if math.isinf(result) and not math.isinf(value) and rules != "onnxruntime":
        raise CannotConvertError
    return result


# What both operators share.

_ZEROS: dict[str, Value] = {"float32": 0.0, "float64": 0.0, "int64": 0, "string": ""}


def _repeated(entries: Sequence[Entry]) -> Any:
    """The first key that was there before, in a list; None when there is none."""
    seen = set()
    for key, _ in entries:
        if key in seen:
            return [key]
        seen.add(key)
    return None


def _first_of_each(entries: Sequence[Entry]) -> list[Entry]:
    kept: dict[Any, Any] = {}
    for key, value in entries:
        kept.setdefault(key, value)
    return list(kept.items())


def _converted(
    number: int, entries: Sequence[Entry], source: str, target: str, rules: str
) -> list[Entry] | Refusal:
    done = []
    for key, value in entries:
        try:
            done.append((key, convert(value, source, target, rules)))
        except CannotConvertError:
            return Refusal("CastError", number, key)
    return done


# CastMap.

CAST_TARGETS = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}


def cast_entries(
    maps: Batch,
    value_type: str,
    *,
    cast_to: str = "TO_FLOAT",
    map_form: str = "DENSE",
    max_map: int = 1,
    semantics: str = "strict",
    key_type: str = "int64",
) -> tuple[str, list[dict[int, Any]]] | Refusal:
    """Result type, and for each map its converted values by key."""
    strict = semantics == "strict"
    if cast_to not in CAST_TARGETS or map_form not in ("DENSE", "SPARSE"):
        return Refusal("ValueError")
    if map_form == "SPARSE" and max_map < 1:
        return Refusal("ValueError")
    if key_type != "int64":
        return Refusal("TypeError")
    target = CAST_TARGETS[cast_to]
    rows = []
    for number, whole in enumerate(maps):
        entries = list(whole)
        if map_form == "SPARSE":
            for key, _ in entries:
                if key < 0 or (strict and key >= max_map):
                    return Refusal("ValueError", number, key)
            entries = [(key, value) for key, value in entries if key < max_map]
        if strict and (twice := _repeated(entries)):
            return Refusal("DuplicateKeyError", number, twice[0])
        done = _converted(number, _first_of_each(entries), value_type, target, semantics)
        if isinstance(done, Refusal):
            return done
        rows.append(dict(done))
    return target, rows


def cast_map(
    maps: Batch, value_type: str, *, fill_value: Value | None = None, **attributes: Any
) -> Rows | Refusal:
    """CastMap on a batch: values by ascending key, or at the place that the key names."""
    result = cast_entries(maps, value_type, **attributes)
    if isinstance(result, Refusal):
        return result
    target, by_key = result
    if attributes.get("map_form", "DENSE") == "DENSE":
        return Rows(target, [[row[key] for key in sorted(row)] for row in by_key])
    fill: Any = fill_value
    if fill is None:
        text = target == "string" and attributes.get("semantics") == "onnxruntime"
        fill = "0.f" if text else _ZEROS[target]
    width = attributes.get("max_map", 1)
    return Rows(target, [[row.get(key, fill) for key in range(width)] for row in by_key])


def odd_map(result: Rows) -> int | None:
    """The first map whose number of entries differs from that of map 0."""
    for number, row in enumerate(result.rows):
        if len(row) != len(result.rows[0]):
            return number
    return None


# DictVectorizer.

_SPEC_PAIRS = {
    ("int64", "float64"),
    ("int64", "float32"),
    ("int64", "string"),
    ("string", "float64"),
    ("string", "float32"),
    ("string", "int64"),
}


def _vocabulary(
    int64_vocabulary: Sequence[int] | None,
    string_vocabulary: Sequence[str] | None,
    key_type: str,
    semantics: str,
) -> Sequence[Key] | Refusal:
    if int64_vocabulary is None and string_vocabulary is None:
        return Refusal("ValueError")
    if semantics == "strict":
        if int64_vocabulary is not None and string_vocabulary is not None:
            return Refusal("ValueError")
        words: Sequence[Key] = (
            int64_vocabulary if int64_vocabulary is not None else string_vocabulary or []
        )
        if len(set(words)) != len(words):
            return Refusal("ValueError")
    chosen = int64_vocabulary if key_type == "int64" else string_vocabulary
    return Refusal("TypeError") if chosen is None else chosen


def placed(
    maps: Batch,
    value_type: str,
    *,
    key_type: str,
    int64_vocabulary: Sequence[int] | None = None,
    string_vocabulary: Sequence[str] | None = None,
    dtype: str | None = None,
    handle_unknown: str | None = None,
    semantics: str = "strict",
    unknown_columns: int = 0,
) -> tuple[str, int, list[dict[int, Any]]] | Refusal:
    """Result type, number of columns, and for each map its values by column."""
    strict = semantics == "strict"
    words = _vocabulary(int64_vocabulary, string_vocabulary, key_type, semantics)
    if isinstance(words, Refusal):
        return words
    if not strict and (key_type, value_type) not in _SPEC_PAIRS:
        return Refusal("TypeError")
    columns: dict[Key, list[int]] = {}
    for column, word in enumerate(words):
        columns.setdefault(word, []).append(column)
    skip = (handle_unknown or ("error" if strict else "ignore")) == "ignore"
    target = dtype or value_type
    if unknown_columns and target == "string":
        return Refusal("TypeError")
    rows = []
    for number, whole in enumerate(maps):
        entries = [entry for entry in whole if not skip or entry[0] in columns]
        if strict and (twice := _repeated(entries)):
            return Refusal("DuplicateKeyError", number, twice[0])
        for key, _ in entries:
            if key not in columns and not unknown_columns:
                return Refusal("UnknownKeyError", number, key)
        done: list[Entry] | Refusal = _first_of_each(entries)
        if target != value_type:
            done = _converted(number, _first_of_each(entries), value_type, target, "exact")
        if isinstance(done, Refusal):
            return done
        row: dict[int, Any] = {}
        for key, value in done:
            for column in columns.get(key, ()):
                row[column] = value
            if key not in columns:
                column = len(words) + hashed_column(key, unknown_columns)
                total = _sum(row[column], value, target) if column in row else value
                if total is None:
                    return Refusal("OverflowError", number, key)
                row[column] = total
        rows.append(row)
    return target, len(words) + unknown_columns, rows


def _sum(a: Any, b: Any, kind: str) -> Any:
    """The sum of two values of a kind; None where an int64 sum does not fit."""
    if kind == "int64":
        return a + b if INT64_MIN <= a + b <= INT64_MAX else None
    total = float(a) + float(b)
    if kind == "float64" or not math.isfinite(total):
        return total
    # The sum of two float32 in float64 is exact or rounds innocuously: 53 >= 2 * 24 + 2 digits.
    return float32(Fraction(total)) if total else total


def hashed_column(key: Key, n: int) -> int:
    """The column, among n, of an unknown key: SplitMix64's finaliser, of text's CRC-32."""
    word = 2**64
    x = key if isinstance(key, int) else binascii.crc32(key.encode("utf-8", "surrogatepass"))
    x = (x + 0x9E3779B97F4A7C15) % word
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % word
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % word
    return (x ^ (x >> 31)) % n


def dict_vectorizer(
    maps: Batch, value_type: str, *, fill_value: Value | None = None, **attributes: Any
) -> Rows | Refusal:
    """DictVectorizer on a batch: each value at the columns of its key."""
    result = placed(maps, value_type, **attributes)
    if isinstance(result, Refusal):
        return result
    target, width, rows = result
    fill = _ZEROS[target] if fill_value is None else fill_value
    return Rows(target, [[row.get(column, fill) for column in range(width)] for row in rows])


def unknown(maps: Batch, words: Sequence[Key]) -> tuple[list[int], list[Key]]:
    """Map number and key of every entry whose key is not a word, in entry order."""
    found = [(n, key) for n, entries in enumerate(maps) for key, _ in entries if key not in words]
    return [number for number, _ in found], [key for _, key in found]


def learned(maps: Batch, order: str) -> list[Key]:
    """The vocabulary of a batch: its distinct keys, sorted or as they first come."""
    words = list(dict.fromkeys(key for entries in maps for key, _ in entries))
    return sorted(words) if order == "sorted" else words


# Types of dicts.


def infer(maps: Sequence[Sequence[tuple[tuple[str, Any], tuple[str, Any]]]]) -> Typed | Refusal:
    """The types of a batch of dicts, from keys and values that carry the name of their own type.

    Names of types: "int" (of any size; bool is one), "str", "float", "float32", or anything else,
    which nothing takes.
    """
    key_kinds: set[str] = set()
    value_kinds: set[str] = set()
    whole, refusal = len(maps), None
    for number, entries in enumerate(maps):
        kinds = key_kinds | set(), value_kinds | set()
        refusal = _bad_type(number, entries, key_kinds, value_kinds)
        if refusal is not None:
            # A map before it may be bad, too, as far as the maps before it tell.
            whole, (key_kinds, value_kinds) = number, kinds
            break
    value_type = _value_type(value_kinds)
    plain: list[list[Entry]] = []
    for number, entries in enumerate(maps[:whole]):
        plain.append([])
        for (_, key), (kind, value) in entries:
            if value_type == "float64" and kind == "int" and int(float(value)) != value:
                return Refusal("OverflowError", number, key)
            exact = float(value) if value_type == "float64" else value
            plain[-1].append((key, int(value) if value_type == "int64" else exact))
    if refusal is not None:
        return refusal
    key_type = {"int": "int64", "str": "string", None: None}[next(iter(key_kinds), None)]
    return Typed(key_type, value_type, plain)


def _bad_type(
    number: int,
    entries: Sequence[tuple[tuple[str, Any], tuple[str, Any]]],
    key_kinds: set[str],
    value_kinds: set[str],
) -> Refusal | None:
    """What is wrong with the types or ranges of one map, given those before; they are noted."""
    for (key_kind, key), (value_kind, _) in entries:
        if key_kind not in ("int", "str") or key_kinds - {key_kind}:
            return Refusal("TypeError", number, key)
        key_kinds.add(key_kind)
        if value_kind not in ("int", "str", "float", "float32"):
            return Refusal("TypeError", number, key)
        if value_kinds and (value_kind == "str") != ("str" in value_kinds):
            return Refusal("TypeError", number, key)
        value_kinds.add(value_kind)
    for (key_kind, key), (value_kind, value) in entries:
        for kind, content in ((key_kind, key), (value_kind, value)):
            if kind == "int" and not INT64_MIN <= content <= INT64_MAX:
                return Refusal("OverflowError", number, key)
    return None


def _value_type(kinds: set[str]) -> str | None:
    if not kinds:
        return None
    names: Mapping[frozenset[str], str] = {
        frozenset({"str"}): "string",
        frozenset({"int"}): "int64",
        frozenset({"float32"}): "float32",
    }
    return names.get(frozenset(kinds), "float64")
