"""Values: every rule that turns a value of one type into one of another.

Three sets of rules share one table: "strict" (CastMap), "exact" (``DictVectorizer(dtype=...)``: as
strict, but an integer takes only whole numbers) and "onnxruntime" (what its C++ kernels do in the C
locale). Each cell holds the rule for one value and the rule for an array; the first is the
definition, the second only answers faster.
"""

from __future__ import annotations

import ctypes
import errno
import math
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nbmapops._constants import INT64_MAX, INT64_MIN, Array
from nbmapops._foreign import let_out
from nbmapops._load import imported, undisturbed
from nbmapops._types import Value

Positions: TypeAlias = NDArray[np.int64]
One: TypeAlias = Callable[[Any], Value]
Many: TypeAlias = Callable[[Array], tuple[Array, Positions]]

_FLOAT32_MIN, _FLOAT32_MAX = 2.0**-126, 2.0**128 - 2.0**104  # the smallest normal, the largest

_NONE: Positions = np.empty(0, np.int64)
_NONE.setflags(write=False)


class _Rule(NamedTuple):
    one: One
    many: Many


def cast_one(value: Value, source: str, target: str, rules: str) -> Any:
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


def _nearest_float32(number: float) -> float:
    # C's cast: infinite where float32 is too small. struct.pack raises there (Python 3.13.13), and
    # np.float32 would need np.errstate around each number.
    nearest: float = ctypes.c_float(number).value
    return nearest


def _int_nearest_float32(number: int) -> float:
    return float(np.float32(np.int64(number)))


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


def _same(value: Value) -> Value:
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


def _shortest(number: np.floating) -> str:
    """Plain decimal: the shortest text that reads back, its exact digits up to six places."""
    return np.format_float_positional(number, unique=True, min_digits=6, trim="k")


def _float32_to_text(number: float) -> str:
    return _shortest(np.float32(number))


def _float64_to_text(number: float) -> str:
    return _shortest(np.float64(number))


# Beyond this size half a step of the type is more than 5e-7, so that six places read back.
_COARSE = {"f": 2.0**4, "d": 2.0**33}


# From so many numbers on their way through Arrow is shorter.
_ARROW_PAYS = 64


def _floats_to_texts(numbers: Array) -> tuple[Array, Positions]:
    result = np.empty(len(numbers), object)
    rest = np.arange(len(numbers))
    for places in range(6, 13 if numbers.dtype == np.float32 else 7):
        part = numbers[rest]
        done = _are_shown(part, places)
        result[rest[done]] = [f"%.{places}f" % number for number in part[done].tolist()]
        rest = rest[~done]
    result[rest] = _many_places(numbers[rest])
    return result, _NONE


def _are_shown(numbers: Array, places: int) -> Array:
    """Return which numbers "%f" with so many places shows as the rule does; fewer do not."""
    # The float64 nearest to the text, without the text: 10**places and, below _COARSE, the whole
    # number before the division are exact. It is not the middle of two float32 (5**12 < 2**28).
    with np.errstate(all="ignore"):
        read = np.rint(numbers * np.float64(10.0**places)) / 10.0**places
        shown: Array = (read.astype(numbers.dtype) == numbers) | ~np.isfinite(numbers)
    return shown | (np.abs(numbers) >= _COARSE[numbers.dtype.char])


def _many_places(numbers: Array) -> list[str]:
    if numbers.dtype == np.float32:
        return list(map(_shortest, numbers))
    texts = _shortest_by_arrow(numbers)
    if texts is None:
        texts = list(map(repr, numbers.tolist()))  # half the time of _shortest
    return [_without_power(text) if "e" in text else text for text in texts]


def _shortest_by_arrow(numbers: Array) -> list[str] | None:
    """Return the digits of repr in a fourth of its time, if the process has loaded what it takes.

    An import is not for this call to make: a signal handler might break it off (compare.py: S40).
    """
    arrow, compute = sys.modules.get("pyarrow"), sys.modules.get("pyarrow.compute")
    if len(numbers) < _ARROW_PAYS or arrow is None or not hasattr(compute, "cast"):
        return None
    # Arrow's own reading of an array imports pandas.
    buffers = [None, arrow.py_buffer(np.ascontiguousarray(numbers))]
    column = arrow.Array.from_buffers(arrow.float64(), len(numbers), buffers)
    texts: list[str] = column.cast(arrow.large_string()).to_pylist()
    return texts


def _without_power(shortest: str) -> str:
    digits, power = shortest.split("e-")
    sign, digits = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
    return f"{sign}0.{'0' * (int(power) - 1)}{digits.replace('.', '')}"


def _c_float_to_text(number: float) -> str:
    # Python's own %f never shows the sign of a NaN.
    if math.isnan(number) and math.copysign(1.0, number) < 0:
        return "-nan"
    return f"{number:.6f}"


def _c_floats_to_texts(numbers: Array) -> tuple[Array, Positions]:
    texts = [f"{number:.6f}" for number in numbers.tolist()]
    for position in np.flatnonzero(np.isnan(numbers) & np.signbit(numbers)).tolist():
        texts[position] = "-nan"
    return _objects(texts), _NONE


# Text to numbers. No pattern can match one stretch of a text in two ways, so that a search takes
# time in proportion to the text.

_BLANKS = r"[ \t\n\v\f\r]*"
_DIGITS = r"(?P<digits>(?=\.?[0-9])[0-9]*(?:\.[0-9]*)?)(?:e[+-]?[0-9]+)?"
_FLAGS = re.ASCII | re.IGNORECASE
_FLOAT = re.compile(rf"{_BLANKS}[+-]?(?:inf(?:inity)?|nan|{_DIGITS}){_BLANKS}", _FLAGS)
_INT = re.compile(rf"{_BLANKS}(?P<sign>[+-]?)(?P<digits>[0-9]+){_BLANKS}", _FLAGS)

Match: TypeAlias = re.Match[str]


def _float_match(text: str) -> Match:
    match = _FLOAT.fullmatch(text)
    if match is None:
        raise ValueError("it is not a decimal number")
    return match


def _in_range(number: float, match: Match, target: str) -> float:
    """Return the number that stands for a text, if not all of the text's number is lost."""
    if match["digits"] and math.isinf(number):
        raise ValueError(f"it is out of the range of {target}")
    if match["digits"] and not number and match["digits"].strip("0."):
        raise ValueError(f"it is not 0, but too small for {target}")
    return number


def _text_to_float64(text: str) -> float:
    match = _float_match(text)
    return _in_range(float(text), match, "float64")


def _text_to_float32(text: str) -> float:
    match = _float_match(text)
    return _in_range(_nearest_float32(_off_middle(float(text), text)), match, "float32")


def _off_middle(number: float, text: str) -> float:
    """Return a float64 that rounds to float32 as the decimal text does, which `number` is next to.

    Only where `number` is the middle of two float32 does it hide on which side of the middle the
    text lies: there the neighbour of `number` on that side is returned.
    """
    step = max(math.ulp(number) * 2.0**29, 2.0**-149)  # of float32
    if abs(number) % step != step / 2:
        return number
    Decimal = imported("decimal").Decimal  # exact, and linear in the length of the text
    # Decimal(number) may be an error: decimal.FloatOperation.
    middle, exact = Decimal.from_float(number), Decimal(text)
    if exact == middle:
        return number
    return math.nextafter(number, math.inf if exact > middle else -math.inf)


def _int64_of(match: Match) -> int:
    digits = match["digits"].lstrip("0") or "0"
    # 2**63 has 19 digits; reading more would take quadratic time.
    number = int(match["sign"] + digits) if len(digits) < 20 else 2**64
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError("it is out of the range of int64")
    return number


def _text_to_int64(text: str) -> int:
    match = _INT.fullmatch(text)
    if match is None:
        raise ValueError("it is not a decimal integer")
    return _int64_of(match)


def _c_text_to_int64(text: str) -> int:
    match = _INT.match(text)
    if match is None:
        raise ValueError("it does not start with an integer")
    return _int64_of(match)


# Text to float as C reads it: by the function that onnxruntime calls, too.

_C_START = re.compile(rf"{_BLANKS}[+-]?(?:inf|nan|\.?[0-9])", _FLAGS)
_C_RANGE = "it is out of the range of C's strtof"


def _c_text_to_float32(text: str) -> float:
    if not _C_START.match(text):
        raise ValueError("it does not start with a number")
    return (_library_strtof() or _plain_strtof)(text)


@lru_cache(maxsize=1)
def _library_strtof() -> Callable[[str], float] | None:
    """Return the C library's strtof, in the C locale whatever locale the process has."""
    # What a signal handler raises may be one of these errors.
    return undisturbed(_found_strtof)


def _found_strtof() -> Callable[[str], float] | None:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        newlocale, strtof = library.newlocale, library.strtof_l
    except (AttributeError, OSError, TypeError):  # Windows has neither the name None nor these
        return None
    newlocale.restype, strtof.restype = ctypes.c_void_p, ctypes.c_float
    strtof.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    # The mask as glibc, musl and macOS define it; what it leaves out is as in C, too.
    numeric: int = imported("locale").LC_NUMERIC
    c_locale = newlocale(ctypes.c_int(1 << numeric), b"C", None)

    def read(text: str) -> float:
        ctypes.set_errno(0)
        number: float = strtof(text.encode("utf-8", "surrogatepass"), None, c_locale)
        if ctypes.get_errno() == errno.ERANGE:
            raise ValueError(_C_RANGE)
        return number

    return read if c_locale else None


_C_DECIMAL = re.compile(rf"{_BLANKS}[+-]?(?:inf|nan|{_DIGITS})", _FLAGS)
_C_HEXADECIMAL = re.compile(
    rf"{_BLANKS}(?P<sign>[+-]?)0x(?P<digits>(?=\.?[0-9a-f])[0-9a-f]*(?:\.[0-9a-f]*)?)"
    r"(?:p(?P<power>[+-]?[0-9]+))?",
    _FLAGS,
)
# What rounds up to the smallest normal number with 24 binary digits is not tiny to C.
_TINY = 2.0**-126 - 2.0**-151


def _plain_strtof(text: str) -> float:
    """Read the start of a text as the C standard says, where no C library can be asked."""
    Decimal = imported("decimal").Decimal
    hexadecimal = _C_HEXADECIMAL.match(text)
    match = hexadecimal or _C_DECIMAL.match(text)
    assert match is not None  # _C_START has matched
    if not match["digits"]:
        return float(match[0])
    number = _hexadecimal(hexadecimal) if hexadecimal else _off_middle(float(match[0]), match[0])
    nearest = _nearest_float32(number)
    if not number:
        lost = bool(match["digits"].strip("0."))
    elif abs(number) < _TINY:
        lost = nearest != (number if hexadecimal else Decimal(match[0]))
    else:
        lost = math.isinf(nearest)
    if lost:
        raise ValueError(_C_RANGE)
    return nearest


def _hexadecimal(match: Match) -> float:
    """Return a float64 that rounds to float32 as the hexadecimal text does."""
    whole, _, fraction = match["digits"].partition(".")
    mantissa = int(whole + fraction, 16)
    # 50 binary digits, and one that stands for all the rest
    excess = max(mantissa.bit_length() - 50, 0)
    mantissa = (mantissa >> excess) << 1 | bool(mantissa & ((1 << excess) - 1))
    power = int(max(-1e9, min(float(match["power"] or "0"), 1e9)))
    try:
        number = math.ldexp(mantissa, power + excess - 1 - 4 * len(fraction))
    except OverflowError as error:
        let_out(error)
        number = math.inf
    return -number if match["sign"] == "-" else number


# Arrays of text. Python's own readers take most texts at five times the speed; what they might take
# in another way than the rules, or not at all, goes through the rule for one text.


def _may_be_read(texts: list[str]) -> bool:
    # All that Python's readers take beyond the rules has "_" or a character beyond ASCII in it.
    joined = "".join(texts)
    return joined.isascii() and "_" not in joined


def _float_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        let_out(error)
        return math.nan


def _read_floats(texts: list[str]) -> tuple[NDArray[np.float64], list[int]]:
    """Return the float64 of each text, and where it may not be what the rules say."""
    if not _may_be_read(texts):
        return np.zeros(len(texts)), list(range(len(texts)))
    try:
        read = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError as error:
        let_out(error)
        read = np.fromiter(map(_float_or_nan, texts), np.float64, len(texts))
    zeros = [at for at in np.flatnonzero(read == 0).tolist() if texts[at].strip(" \t\n\v\f\r+-0.")]
    return read, zeros + np.flatnonzero(~np.isfinite(read)).tolist()


def _fill(texts: list[str], result: Array, unsure: list[int], one: One) -> tuple[Array, Positions]:
    """Convert the texts at the positions `unsure` one by one."""
    refused = []
    for position in sorted(unsure):
        try:
            result[position] = one(texts[position])
        except ValueError as error:
            let_out(error)
            refused.append(position)
    return result, np.array(refused, np.int64)


def _texts_to_float32_by(one: One) -> Many:
    def many(values: Array) -> tuple[Array, Positions]:
        texts = values.tolist()
        read, unsure = _read_floats(texts)
        size = np.abs(read)
        # The middle of two float32 has one binary digit more than they have.
        middle = (read.view(np.int64) & (2**29 - 1)) == 2**28
        beside = middle | (size < _FLOAT32_MIN) & (size > 0) | (size > _FLOAT32_MAX)
        unsure += np.flatnonzero(beside & np.isfinite(read)).tolist()
        return _fill(texts, _nearest_float32_array(read), unsure, one)

    return many


def _texts_to_float64(values: Array) -> tuple[Array, Positions]:
    texts = values.tolist()
    return _fill(texts, *_read_floats(texts), _text_to_float64)


def _texts_to_int64_by(one: One) -> Many:
    def many(values: Array) -> tuple[Array, Positions]:
        texts = values.tolist()
        # Python's int reads a long text in quadratic time.
        if max(map(len, texts), default=0) > 100 or not _may_be_read(texts):
            return _fill(texts, np.zeros(len(texts), np.int64), list(range(len(texts))), one)
        try:
            return np.fromiter(map(int, texts), np.int64, len(texts)), _NONE
        except (ValueError, OverflowError) as error:
            let_out(error)
            read = list(map(_int_or_none, texts))
        unsure = [position for position, number in enumerate(read) if number is None]
        return _fill(texts, np.array([number or 0 for number in read], np.int64), unsure, one)

    return many


def _int_or_none(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError as error:
        let_out(error)
        return None
    return number if INT64_MIN <= number <= INT64_MAX else None


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
    ("float32", "string"): _Rule(_float32_to_text, _floats_to_texts),
    ("float64", "float32"): _ROUND,
    ("float64", "float64"): _UNCHANGED,
    ("float64", "int64"): _TRUNCATE,
    ("float64", "string"): _Rule(_float64_to_text, _floats_to_texts),
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
