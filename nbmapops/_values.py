"""Every rule that turns a value of one type into a value of another.

Three sets of rules share one table: "strict" (CastMap), "exact" (``DictVectorizer(dtype=...)``: as
strict, but an integer takes only whole numbers) and "onnxruntime" (what its C++ kernels do in the C
locale). Each cell holds the rule for one value and the rule for an array; the first is the
definition, the second only answers faster.

A number that becomes float32 is rounded once. The float64 next to a text or an int64 leads to the
right float32 but where it is the middle of two of them, and so hides on which side of the middle
the number lies. There the number is compared with the exact middle, and the float64 moved one step
to the side of the number; it then rounds as the number itself would.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nbmapops._constants import INT64_MAX, INT64_MIN, Array

Positions: TypeAlias = NDArray[np.int64]
One: TypeAlias = Callable[[Any], Any]
Many: TypeAlias = Callable[[Array], tuple[Array, Positions]]

_FLOAT32_MIN, _FLOAT32_MAX = 2.0**-126, 2.0**128 - 2.0**104  # the smallest normal, the largest
# What rounds up to _FLOAT32_MIN with 24 binary digits is not tiny to C.
_TINY = 2.0**-126 - 2.0**-151

_NONE: Positions = np.empty(0, np.int64)
_NONE.setflags(write=False)


class _Rule(NamedTuple):
    one: One
    many: Many


def cast_one(value: Any, source: str, target: str, rules: str) -> Any:
    """Convert one value.

    Parameters
    ----------
    value : float, int or str
        A value of type `source`; a float32 is a float that float32 holds exactly.
    source, target : {"float32", "float64", "int64", "string"}
        Types before and after. There is no float64 result under "onnxruntime".
    rules : {"strict", "exact", "onnxruntime"}
        Which set of rules holds.

    Returns
    -------
    float, int or str
        The value in the type `target`.

    Raises
    ------
    ValueError
        The value has no counterpart; the message is the bare reason, such as
        "NaN has no int64 value".
    """
    return _RULES[rules][source, target].one(value)


def cast_array(values: Array, source: str, target: str, rules: str) -> tuple[Array, Positions]:
    """Convert an array as `cast_one` converts each of its elements.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Values of type `source`; text is an object array of str. Only read.
    source, target, rules : str
        As for `cast_one`.

    Returns
    -------
    converted : ndarray of shape (n,)
        The values in the type `target`; `values` itself where nothing is to be done.
    positions : ndarray of int64
        Ascending positions of the values that `cast_one` refuses. What `converted` holds there has
        no meaning.
    """
    return _RULES[rules][source, target].many(values)


# Numbers to numbers.


# A native "f" is C's cast, which takes what is too large to infinity; "<f" would raise.
_AS_FLOAT32 = struct.Struct("f")


def _nearest_float32(number: float) -> float:
    nearest: float = _AS_FLOAT32.unpack(_AS_FLOAT32.pack(number))[0]
    return nearest


def _is_middle(number: float) -> bool:
    """Whether a float64 lies in the middle of two neighbouring float32 values."""
    steps = math.ldexp(number, 24 - max(math.frexp(number)[1], -125))
    return steps % 1.0 == 0.5


def _moved(number: float, order: int) -> float:
    """Return the float64 next to `number`, away from 0 if `order` is positive."""
    if not order:
        return number
    return math.nextafter(number, math.copysign(math.inf, number) if order > 0 else 0.0)


def _int_nearest_float32(number: int) -> float:
    near = float(number)
    if _is_middle(near):
        near = _moved(near, (abs(number) > abs(near)) - (abs(number) < abs(near)))
    return _nearest_float32(near)


def _float_to_float32(number: float) -> float:
    nearest = _nearest_float32(number)
    if math.isinf(nearest) and not math.isinf(number):
        raise ValueError("it is out of the range of float32")
    return nearest


def _float_to_int64(number: float) -> int:
    if math.isnan(number):
        raise ValueError("NaN has no int64 value")
    if math.isinf(number):
        raise ValueError("infinity has no int64 value")
    if not -(2.0**63) <= number < 2.0**63:
        raise ValueError("it is out of the range of int64")
    return int(number)


def _whole_to_int64(number: float) -> int:
    result = _float_to_int64(number)
    if result != number:
        raise ValueError("it is not a whole number")
    return result


def _int64_to_float64(number: int) -> float:
    result = float(number)
    if result != number:
        raise ValueError("float64 cannot hold it exactly")
    return result


def _c_float_to_int64(number: float) -> int:
    # C leaves this cast undefined where no int64 is near; x86-64 gives INT64_MIN.
    return int(number) if -(2.0**63) <= number < 2.0**63 else INT64_MIN


def _same(value: Any) -> Any:
    return value


def _same_array(values: Array) -> tuple[Array, Positions]:
    return values, _NONE


def _where(refused: Array) -> Positions:
    return np.flatnonzero(refused).astype(np.int64, copy=False)


def _nearest_float32_array(numbers: Array) -> Array:
    with np.errstate(all="ignore"):
        return numbers.astype(np.float32)


def _numbers_to_float32(numbers: Array) -> tuple[Array, Positions]:
    nearest = _nearest_float32_array(numbers)
    return nearest, _where(np.isinf(nearest) & np.isfinite(numbers))


def _numbers_to_float64(numbers: Array) -> tuple[Array, Positions]:
    with np.errstate(all="ignore"):  # a signalling NaN sets the invalid flag
        return numbers.astype(np.float64), _NONE


def _int64s_to_float64(numbers: Array) -> tuple[Array, Positions]:
    floats = numbers.astype(np.float64)
    return floats, _where(_truncated(floats)[0] != numbers)


def _truncated(numbers: Array) -> tuple[Array, Array]:
    """Numbers as int64, and which have none: those are INT64_MIN."""
    with np.errstate(all="ignore"):
        beyond = ~((numbers >= -(2.0**63)) & (numbers < 2.0**63))
        return np.where(beyond, -(2.0**63), numbers).astype(np.int64), beyond


def _floats_to_int64(numbers: Array) -> tuple[Array, Positions]:
    result, beyond = _truncated(numbers)
    return result, _where(beyond)


def _wholes_to_int64(numbers: Array) -> tuple[Array, Positions]:
    result, beyond = _truncated(numbers)
    with np.errstate(all="ignore"):
        return result, _where(beyond | (numbers != np.trunc(numbers)))


def _c_floats_to_int64(numbers: Array) -> tuple[Array, Positions]:
    return _truncated(numbers)[0], _NONE


# Numbers to text.


def _objects(texts: list[str]) -> Array:
    result = np.empty(len(texts), object)
    result[:] = texts
    return result


def _ints_to_texts(numbers: Array) -> tuple[Array, Positions]:
    return _objects(list(map(str, numbers.tolist()))), _NONE


def _places(shortest: str) -> int:
    mantissa, _, power = shortest.partition("e")
    return len(mantissa.partition(".")[2]) - int(power or "0")


def _more_places(number: float, shortest: str, reads_back: Callable[[str, float], bool]) -> str:
    """Show a number, for which six places are too few, with the fewest that read back.

    No text with fewer places than the shortest one reads back: it would be as short, or shorter.
    """
    places = _places(shortest)
    while not reads_back(text := f"{number:.{places}f}", number):
        places += 1
    return text


def _reads_back_float32(text: str, number: float) -> bool:
    read = float(text)
    return (_text_to_float32(text) if _is_middle(read) else _nearest_float32(read)) == number


def _reads_back_float64(text: str, number: float) -> bool:
    return float(text) == number


def _float32_to_text(number: float) -> str:
    text = f"{number:.6f}"
    if not math.isfinite(number) or _reads_back_float32(text, number):
        return text
    return _more_places(number, str(np.float32(number)), _reads_back_float32)


def _float64_to_text(number: float) -> str:
    text = f"{number:.6f}"
    if not math.isfinite(number) or _reads_back_float64(text, number):
        return text
    return _more_places(number, repr(number), _reads_back_float64)


def _float32s_to_texts(numbers: Array) -> tuple[Array, Positions]:
    texts, read = _six_places(numbers)
    # Six places never come so close to the middle of two float32 that float64 hides the side.
    sure = _nearest_float32_array(read) == numbers
    return _corrected(texts, numbers, sure, _float32_to_text)


def _float64s_to_texts(numbers: Array) -> tuple[Array, Positions]:
    texts, read = _six_places(numbers)
    return _corrected(texts, numbers, read == numbers, _float64_to_text)


def _six_places(numbers: Array) -> tuple[list[str], NDArray[np.float64]]:
    texts = [f"{number:.6f}" for number in numbers.tolist()]
    return texts, np.fromiter(map(float, texts), np.float64, len(texts))


def _corrected(texts: list[str], numbers: Array, sure: Array, one: One) -> tuple[Array, Positions]:
    unsure = np.flatnonzero(~sure)
    for position, number in zip(unsure.tolist(), numbers[unsure].tolist(), strict=True):
        texts[position] = one(number)
    return _objects(texts), _NONE


def _c_float_to_text(number: float) -> str:
    # Python's own %f never shows the sign of a NaN.
    if math.isnan(number) and math.copysign(1.0, number) < 0:
        return "-nan"
    return f"{number:.6f}"


def _c_floats_to_texts(numbers: Array) -> tuple[Array, Positions]:
    return _objects([_c_float_to_text(number) for number in numbers.tolist()]), _NONE


# Text to numbers. No pattern can match one stretch of a text in two ways, so that a search takes
# time in proportion to the text.

_BLANKS = r"[ \t\n\v\f\r]*"
_DECIMAL = (
    r"(?P<decimal>(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:e(?P<power>[+-]?[0-9]+))?)"
)
# "0x" without digits is no hexadecimal number but the decimal "0"; either way it is 0.
_HEXADECIMAL = (
    r"0x(?P<hex_whole>[0-9a-f]*)(?:\.(?P<hex_fraction>[0-9a-f]*))?"
    r"(?:p(?P<hex_power>[+-]?[0-9]+))?"
)
_FLAGS = re.ASCII | re.IGNORECASE
_WHOLE_FLOAT = re.compile(rf"{_BLANKS}[+-]?(?:inf(?:inity)?|nan|{_DECIMAL}){_BLANKS}", _FLAGS)
_C_FLOAT = re.compile(
    rf"{_BLANKS}(?P<sign>[+-]?)(?:(?P<word>inf|nan)|{_HEXADECIMAL}|{_DECIMAL})", _FLAGS
)
_C_INT = re.compile(rf"{_BLANKS}(?P<sign>[+-]?)(?P<digits>[0-9]+)", _FLAGS)
_WHOLE_INT = re.compile(_C_INT.pattern + _BLANKS, _FLAGS)

Match: TypeAlias = re.Match[str]


def _exponent(power: str | None) -> int:
    """Read an exponent; one that no mantissa could make up for is cut."""
    digits = (power or "0").lstrip("+-").lstrip("0")
    size = int(digits or "0") if len(digits) <= 18 else 10**18
    return -size if power and power[0] == "-" else size


def _is_zero(match: Match) -> bool:
    return not (match["whole"].strip("0") or (match["fraction"] or "").strip("0"))


def _compare(match: Match, number: float) -> int:
    """Whether a decimal text is larger (1), smaller (-1) in magnitude than a float64, or equal (0).

    The float64 has at most 25 binary digits and is at least 2**-150, hence at most 130 decimal
    digits.
    """
    digits = match["whole"] + (match["fraction"] or "")
    significant = digits.lstrip("0")
    zeros = len(digits) - len(significant)
    point = len(match["whole"]) - zeros + _exponent(match["power"])
    shown, _, power = f"{abs(number):.140e}".partition("e")
    ours = point, significant.rstrip("0")
    theirs = int(power) + 1, shown.replace(".", "").rstrip("0")
    return (ours > theirs) - (ours < theirs)


def _text_to_float64(text: str) -> float:
    match = _WHOLE_FLOAT.fullmatch(text)
    if match is None:
        raise ValueError("it is not a decimal number")
    number = float(text)
    if match["decimal"]:
        _refuse_loss(match, number, "float64")
    return number


def _refuse_loss(match: Match, number: float, target: str) -> None:
    if math.isinf(number):
        raise ValueError(f"it is out of the range of {target}")
    if not number and not _is_zero(match):
        raise ValueError(f"it is not 0, but too small for {target}")


def _text_to_float32(text: str) -> float:
    match = _WHOLE_FLOAT.fullmatch(text)
    if match is None:
        raise ValueError("it is not a decimal number")
    if not match["decimal"]:
        return float(text)
    number = float(text)
    if _is_middle(number):
        number = _moved(number, _compare(match, number))
    nearest = _nearest_float32(number)
    _refuse_loss(match, nearest, "float32")
    return nearest


def _int_of(match: Match) -> int | None:
    """Read sign and digits as int64; None where they are out of its range."""
    digits = match["digits"].lstrip("0") or "0"
    if len(digits) > 19:  # 2**63 has 19; reading more would take quadratic time
        return None
    number = int(match["sign"] + digits)
    return number if INT64_MIN <= number <= INT64_MAX else None


def _text_to_int64(text: str) -> int:
    match = _WHOLE_INT.fullmatch(text)
    if match is None:
        raise ValueError("it is not a decimal integer")
    number = _int_of(match)
    if number is None:
        raise ValueError("it is out of the range of int64")
    return number


def _c_text_to_int64(text: str) -> int:
    match = _C_INT.match(text)
    if match is None:
        raise ValueError("it does not start with an integer")
    number = _int_of(match)
    if number is None:
        raise ValueError("it is out of the range of int64")
    return number


def _c_text_to_float32(text: str) -> float:
    match = _C_FLOAT.match(text)
    if match is None:
        raise ValueError("it does not start with a number")
    if match["word"]:
        number = math.nan if match["word"].lower() == "nan" else math.inf
    elif match["decimal"]:
        number = 0.0 if _is_zero(match) else _c_range(_decimal_float(match), 2.0**-127)
    else:
        number = _c_hexadecimal(match)
    return -number if match["sign"] == "-" else number


def _decimal_float(match: Match) -> float:
    """Return a float64 that rounds to float32, and misses it, as the decimal text does."""
    number = float(match["decimal"])
    middle = _has_25_digits(number) if number < _FLOAT32_MIN else _is_middle(number)
    return _moved(number, _compare(match, number)) if middle and number >= 2.0**-150 else number


def _has_25_digits(number: float) -> bool:
    """Whether a float64 has at most 25 binary digits, one more than float32."""
    return math.ldexp(math.frexp(number)[0], 25).is_integer()


def _c_hexadecimal(match: Match) -> float:
    digits = match["hex_whole"] + (match["hex_fraction"] or "")
    significant = digits.lstrip("0")
    if not significant:
        return 0.0
    # 48 binary digits and one that stands for all the rest round as the whole text does.
    head, rest = significant[:12], significant[12:].strip("0")
    mantissa = 2 * int(head, 16) + bool(rest)
    zeros = len(digits) - len(significant)
    point = 4 * (len(match["hex_whole"]) - zeros - len(head))
    exponent = point + _exponent(match["hex_power"]) - 1
    if exponent > 200:
        return _c_range(math.inf, 0.0)
    return _c_range(math.ldexp(mantissa, exponent), 0.0)


def _c_range(number: float, overlooks_from: float) -> float:
    """Round a positive number to float32 and refuse what strtof reports as out of range.

    glibc overlooks the 25th binary digit of a tiny number where it is the last one; that of a
    decimal only from 2**-127 on, since it does not read beyond 151 decimal places.
    """
    if overlooks_from <= number < _TINY:
        fraction, exponent = math.frexp(number)
        digits = math.ldexp(fraction, 24)
        if digits % 1.0 == 0.5:
            number = math.ldexp(math.floor(digits), exponent - 24)
    nearest = _nearest_float32(number)
    if math.isinf(nearest) or not number or (number < _TINY and nearest != number):
        raise ValueError("it is out of the range of C's strtof")
    return nearest


# Arrays of text. Python's own readers take most texts at five times the speed; what they might take
# in another way than the rules, or not at all, goes through the rule for one text.


def _may_be_read(texts: list[str]) -> bool:
    # All that Python's readers take beyond the rules has "_" or a character beyond ASCII in it.
    joined = "".join(texts)
    return joined.isascii() and "_" not in joined


def _float_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _read_floats(texts: list[str]) -> NDArray[np.float64]:
    """Return the float64 of each text, NaN where Python cannot be asked."""
    if not _may_be_read(texts):
        return np.full(len(texts), math.nan)
    return np.fromiter(map(_float_or_nan, texts), np.float64, len(texts))


def _middles(numbers: NDArray[np.float64]) -> Array:
    """Which float64 numbers, none of them below float32's smallest normal, pass `_is_middle`."""
    middles: Array = (numbers.view(np.int64) & (2**29 - 1)) == 2**28
    return middles


def _fill(
    texts: list[str], result: Array, unsure: Iterable[int], one: One
) -> tuple[Array, Positions]:
    """Convert the texts at the positions `unsure` one by one."""
    refused = []
    for position in unsure:
        try:
            result[position] = one(texts[position])
        except ValueError:
            refused.append(position)
    return result, np.array(refused, np.int64)


def _texts_to_float32_by(one: One) -> Many:
    def many(values: Array) -> tuple[Array, Positions]:
        texts = values.tolist()
        read = _read_floats(texts)
        size = np.abs(read)
        sure = (size >= _FLOAT32_MIN) & (size <= _FLOAT32_MAX) & ~_middles(read)
        result = _nearest_float32_array(read)
        return _fill(texts, result, np.flatnonzero(~sure).tolist(), one)

    return many


def _texts_to_float64(values: Array) -> tuple[Array, Positions]:
    texts = values.tolist()
    read = _read_floats(texts)
    sure = np.isfinite(read) & (read != 0)
    return _fill(texts, read, np.flatnonzero(~sure).tolist(), _text_to_float64)


def _texts_to_int64_by(one: One) -> Many:
    def many(values: Array) -> tuple[Array, Positions]:
        texts = values.tolist()
        result = np.zeros(len(texts), np.int64)
        # Python's int reads a long text in quadratic time.
        if max(map(len, texts), default=0) > 100 or not _may_be_read(texts):
            return _fill(texts, result, range(len(texts)), one)
        unsure = []
        for position, text in enumerate(texts):
            try:
                result[position] = int(text)
            except (ValueError, OverflowError):
                unsure.append(position)
        return _fill(texts, result, unsure, one)

    return many


# The table.


def _after_rounding(to_float32: One, rule: _Rule) -> _Rule:
    """Return `rule` for numbers that are rounded to float32 first."""
    return _Rule(
        lambda number: rule.one(to_float32(number)),
        lambda numbers: rule.many(_nearest_float32_array(numbers)),
    )


_UNCHANGED = _Rule(_same, _same_array)
_ROUND = _Rule(_float_to_float32, _numbers_to_float32)
_TRUNCATE = _Rule(_float_to_int64, _floats_to_int64)
_WHOLE = _Rule(_whole_to_int64, _wholes_to_int64)

_STRICT: dict[tuple[str, str], _Rule] = {
    ("float32", "float32"): _UNCHANGED,
    ("float32", "float64"): _Rule(_same, _numbers_to_float64),
    ("float32", "int64"): _TRUNCATE,
    ("float32", "string"): _Rule(_float32_to_text, _float32s_to_texts),
    ("float64", "float32"): _ROUND,
    ("float64", "float64"): _UNCHANGED,
    ("float64", "int64"): _TRUNCATE,
    ("float64", "string"): _Rule(_float64_to_text, _float64s_to_texts),
    ("int64", "float32"): _Rule(_int_nearest_float32, _numbers_to_float32),
    ("int64", "float64"): _Rule(_int64_to_float64, _int64s_to_float64),
    ("int64", "int64"): _UNCHANGED,
    ("int64", "string"): _Rule(str, _ints_to_texts),
    ("string", "float32"): _Rule(_text_to_float32, _texts_to_float32_by(_text_to_float32)),
    ("string", "float64"): _Rule(_text_to_float64, _texts_to_float64),
    ("string", "int64"): _Rule(_text_to_int64, _texts_to_int64_by(_text_to_int64)),
    ("string", "string"): _UNCHANGED,
}
_EXACT = {**_STRICT, ("float32", "int64"): _WHOLE, ("float64", "int64"): _WHOLE}

_C_FROM_FLOAT32 = {
    "float32": _UNCHANGED,
    "int64": _Rule(_c_float_to_int64, _c_floats_to_int64),
    "string": _Rule(_c_float_to_text, _c_floats_to_texts),
}
_ONNXRUNTIME: dict[tuple[str, str], _Rule] = {
    **{("float32", target): rule for target, rule in _C_FROM_FLOAT32.items()},
    **{
        (source, target): _after_rounding(rounds, rule)
        for source, rounds in (("float64", _nearest_float32), ("int64", _int_nearest_float32))
        for target, rule in _C_FROM_FLOAT32.items()
    },
    ("string", "float32"): _Rule(_c_text_to_float32, _texts_to_float32_by(_c_text_to_float32)),
    ("string", "int64"): _Rule(_c_text_to_int64, _texts_to_int64_by(_c_text_to_int64)),
    ("string", "string"): _UNCHANGED,
}
_RULES = {"strict": _STRICT, "exact": _EXACT, "onnxruntime": _ONNXRUNTIME}
