"""Every rule of conversion: tables of known answers, exact arithmetic, one value against arrays."""

from __future__ import annotations

import ctypes
import math
import platform
import random
import subprocess
import sys
from decimal import Decimal, FloatOperation, Inexact, Rounded, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nbmapops import _values
from nbmapops._values import _RULES, cast_array, cast_one

from . import reference
from .fresh import run
from .reference import OLD_GLIBC, float_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FLT_MAX = 2.0**128 - 2.0**104
FLT_MIN = 2.0**-126
DTYPES: dict[str, Any] = {
    "float32": np.float32,
    "float64": np.float64,
    "int64": np.int64,
    "string": object,
}
CELLS = [(source, target, rules) for rules, cells in _RULES.items() for source, target in cells]
REFUSED = "refused"


def answer(value: Any, source: str, target: str, rules: str = "strict") -> Any:
    """Return what `cast_one` returns, or that it refuses."""
    try:
        return cast_one(value, source, target, rules)
    except ValueError:
        return REFUSED


def same(a: Any, b: Any) -> bool:
    """Say whether two values have the same type and the same bits, NaN payloads aside."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a == b or (a != a and b != b)) and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


def as_array(values: list[Any], kind: str) -> NDArray[Any]:
    array = np.empty(len(values), DTYPES[kind])
    array[:] = values
    return array


# An oracle in exact arithmetic.


def nearest(number: Fraction, digits: int, least: int) -> Fraction | None:
    """Round to a float of so many binary digits and so small a step; None where it is too large."""
    size = abs(number)
    if not size:
        return size
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** max(exponent - digits + 1, least)
    rounded = round(size / step) * step
    top = Fraction(2) ** (128 if digits == 24 else 1024)
    return None if rounded >= top else rounded if number > 0 else -rounded


def oracle(number: Fraction, kind: str) -> Any:
    """Return the float32 or float64 nearest to a number, refused where a strict cast refuses."""
    near = nearest(number, *((24, -149) if kind == "float32" else (53, -1074)))
    return REFUSED if near is None or (number and not near) else float(near)


# Numbers to numbers.


@pytest.mark.parametrize(
    ("number", "strict", "exact", "onnxruntime"),
    [
        (1.9, 1, REFUSED, 1),
        (-1.9, -1, REFUSED, -1),
        (-0.5, 0, REFUSED, 0),
        (-0.0, 0, 0, 0),
        (7.0, 7, 7, 7),
        (9223371487098961920.0, 9223371487098961920, 9223371487098961920, 9223371487098961920),
        (-(2.0**63), INT64_MIN, INT64_MIN, INT64_MIN),
        (2.0**63, REFUSED, REFUSED, INT64_MIN),
        (-(2.0**63) - 2.0**40, REFUSED, REFUSED, INT64_MIN),
        (3e38, REFUSED, REFUSED, INT64_MIN),
        (math.nan, REFUSED, REFUSED, INT64_MIN),
        (math.inf, REFUSED, REFUSED, INT64_MIN),
        (-math.inf, REFUSED, REFUSED, INT64_MIN),
    ],
)
def test_float_to_int64(number: float, strict: Any, exact: Any, onnxruntime: Any) -> None:
    single = float(np.float32(number))

    assert same(answer(single, "float32", "int64"), strict)
    assert same(answer(number, "float64", "int64"), strict)
    assert same(answer(single, "float32", "int64", "exact"), exact)
    assert same(answer(number, "float64", "int64", "exact"), exact)
    assert same(answer(single, "float32", "int64", "onnxruntime"), onnxruntime)
    assert same(answer(number, "float64", "int64", "onnxruntime"), onnxruntime)


def test_the_largest_float64_below_2_to_the_63_is_an_int64() -> None:
    largest = math.nextafter(2.0**63, 0)

    assert cast_one(largest, "float64", "int64", "strict") == 2**63 - 1024
    # Rounded to float32 it is 2**63.
    assert cast_one(largest, "float64", "int64", "onnxruntime") == INT64_MIN


def test_an_int64_stays_one_but_in_onnxruntime_which_has_only_float32() -> None:
    assert cast_one(INT64_MAX, "int64", "int64", "strict") == INT64_MAX
    assert cast_one(2**53 + 1, "int64", "int64", "exact") == 2**53 + 1
    assert cast_one(2**24 + 1, "int64", "int64", "onnxruntime") == 2**24
    assert cast_one(INT64_MAX, "int64", "int64", "onnxruntime") == INT64_MIN
    assert cast_one(5, "int64", "string", "onnxruntime") == "5.000000"


@pytest.mark.parametrize("rules", ["strict", "exact"])
def test_float64_to_float32_rounds_and_refuses_only_infinity(rules: str) -> None:
    middle = FLT_MAX + 2.0**103

    assert cast_one(0.1, "float64", "float32", rules) == 0.10000000149011612
    assert cast_one(1e-300, "float64", "float32", rules) == 0.0
    assert cast_one(math.inf, "float64", "float32", rules) == math.inf
    assert math.isnan(cast_one(math.nan, "float64", "float32", rules))
    assert cast_one(math.nextafter(middle, 0), "float64", "float32", rules) == FLT_MAX
    assert answer(middle, "float64", "float32", rules) == REFUSED
    assert answer(-1e300, "float64", "float32", rules) == REFUSED
    assert cast_one(-1e300, "float64", "float32", "onnxruntime") == -math.inf


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (2**53, float(2**53)),
        (2**53 + 1, REFUSED),
        (2**53 + 2, float(2**53 + 2)),
        (-(2**53) - 1, REFUSED),
        (INT64_MIN, -(2.0**63)),
        (INT64_MAX, REFUSED),
        (INT64_MAX - 511, REFUSED),
        (INT64_MAX - 1023, float(2**63 - 1024)),
    ],
)
def test_int64_to_float64_is_exact_or_refused(number: int, expected: Any) -> None:
    assert same(answer(number, "int64", "float64", "exact"), expected)


near_middles_of_float32 = st.builds(
    lambda top, shift, hair: max(INT64_MIN, min(INT64_MAX, (top << shift) + hair)),
    st.integers(-(2**25), 2**25),
    st.integers(0, 38),
    st.integers(-2, 2),
)


@given(near_middles_of_float32 | st.integers(INT64_MIN, INT64_MAX))
@example(2**62 + 2**38 + 1)
@example(-(2**62) - 2**38 - 1)
@example(2**62 + 3 * 2**38 - 1)
def test_int64_to_float32_rounds_once(number: int) -> None:
    expected = oracle(Fraction(number), "float32")

    assert same(cast_one(number, "int64", "float32", "strict"), expected)
    assert same(cast_one(number, "int64", "float32", "onnxruntime"), expected)
    assert cast_array(np.array([number]), "int64", "float32", "strict")[0].item() == expected


# Numbers to text.


@pytest.mark.parametrize(
    ("number", "strict", "onnxruntime"),
    [
        (0.1, "0.100000", "0.100000"),
        (2.5, "2.500000", "2.500000"),
        (0.0078125, "0.0078125", "0.007812"),
        (0.0234375, "0.0234375", "0.023438"),
        (1e20, "100000002004087734272.000000", "100000002004087734272.000000"),
        (123456.789, "123456.789062", "123456.789062"),
        (16777216.0, "16777216.000000", "16777216.000000"),
        (FLT_MAX, f"{int(FLT_MAX)}.000000", f"{int(FLT_MAX)}.000000"),
        (1 / 3, "0.33333334", "0.333333"),
        (1e-7, "0.0000001", "0.000000"),
        (5e-7, "0.0000005", "0.000000"),
        (1e-45, f"0.{'0' * 44}1", "0.000000"),
        (-1e-9, "-0.000000001", "-0.000000"),
        (0.0, "0.000000", "0.000000"),
        (-0.0, "-0.000000", "-0.000000"),
        (math.nan, "nan", "nan"),
        (-math.nan, "nan", "-nan"),
        (math.inf, "inf", "inf"),
        (-math.inf, "-inf", "-inf"),
    ],
)
def test_float32_to_text(number: float, strict: str, onnxruntime: str) -> None:
    single = float(np.float32(number))

    assert cast_one(single, "float32", "string", "strict") == strict
    assert cast_one(single, "float32", "string", "exact") == strict
    assert cast_one(single, "float32", "string", "onnxruntime") == onnxruntime
    assert cast_one(number, "float64", "string", "onnxruntime") == onnxruntime


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.100000"),
        (1 / 3, "0.3333333333333333"),
        (1e20, "100000000000000000000.000000"),
        (5e-324, f"0.{'0' * 323}5"),
        (-math.nan, "nan"),
        (-math.inf, "-inf"),
        (-0.0, "-0.000000"),
    ],
)
def test_float64_to_text(number: float, text: str) -> None:
    assert cast_one(number, "float64", "string", "strict") == text


def test_int64_to_text_is_its_digits() -> None:
    assert cast_one(INT64_MIN, "int64", "string", "strict") == "-9223372036854775808"
    assert cast_one(0, "int64", "string", "exact") == "0"


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(7.038530691851209e-26)  # the float64 of its text is the middle of two float32
def test_float32_text_is_the_shortest_that_reads_back(number: float) -> None:
    assert cast_one(number, "float32", "string", "strict") == float_text(number, "float32")


@given(st.floats(1e-12, 1e12))
@example(1e23)
@example(9007199254740993.0)
@example(2.0**-44)  # a text with as few digits lies nearer, but next to the number below
def test_float64_text_is_the_shortest_that_reads_back(number: float) -> None:
    assert cast_one(number, "float64", "string", "strict") == float_text(number, "float64")


def edges(kind: str) -> NDArray[Any]:
    """Return the numbers where steps and decades change, with their neighbours and negatives."""
    least, top, tens = (-149, 128, 38) if kind == "float32" else (-1074, 1024, 308)
    turns = [2.0**power for power in range(least, top)]
    turns += [float(f"1e{power}") for power in range(-tens - 7, tens + 1)]
    near = np.array(turns, DTYPES[kind])
    zero, top_of_all = DTYPES[kind](0), DTYPES[kind](INF)
    near = np.concatenate([near, np.nextafter(near, zero), np.nextafter(near, top_of_all)])
    near = near[np.isfinite(near)]
    return np.concatenate([near, -near])


def test_float32_text_where_steps_and_decades_change() -> None:
    subnormals = np.arange(1, 60, dtype=np.uint32).view(np.float32)

    for number in np.concatenate([edges("float32"), subnormals]).tolist():
        text = cast_one(number, "float32", "string", "strict")
        assert text == float_text(number, "float32")


def random_floats(rng: np.random.Generator, kind: str, count: int) -> NDArray[Any]:
    """Draw numbers of any bits, of few places, half-way between few places, of common sizes."""
    whole = rng.integers(-(10**7), 10**7, count)
    drawn = [
        whole / 10.0 ** rng.integers(0, 13, count),
        whole / 2.0 ** rng.integers(0, 13, count),
        rng.standard_normal(count) * 10.0 ** rng.integers(-9, 9, count),
    ]
    bits = "u4" if kind == "float32" else "u8"
    any_bits = rng.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(DTYPES[kind])
    return np.concatenate([*[each.astype(DTYPES[kind]) for each in drawn], any_bits])


def check_texts(numbers: NDArray[Any], kind: str) -> None:
    texts, _ = cast_array(numbers, kind, "string", "strict")
    expected = [cast_one(number, kind, "string", "strict") for number in numbers.tolist()]

    assert texts.tolist() == expected
    assert cast_array(numbers, kind, "string", "onnxruntime")[0].tolist() == [
        cast_one(number, kind, "string", "onnxruntime") for number in numbers.tolist()
    ]


@pytest.fixture(params=["repr", "pyarrow"])
def _shortest_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave to pyarrow, or to Python although pyarrow is loaded, what the shortest digits are."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow.compute")
    else:
        monkeypatch.delitem(sys.modules, "pyarrow.compute", raising=False)
    found = _values._shortest_by_arrow(np.arange(100) / 7)
    assert (found is None) == (request.param == "repr")


def test_text_of_floats_imports_nothing() -> None:
    pytest.importorskip("pyarrow")
    code = """
        import sys, numpy as np, pyarrow
        from nbmapops import CastMap
        from nbmapops._values import cast_array

        def text():
            before = set(sys.modules)
            CastMap(cast_to="TO_STRING", map_form="SPARSE", max_map=4)([{1: 0.5}])
            cast_array(np.arange(300) / 7, "float64", "string", "strict")
            return {name.partition(".")[0] for name in set(sys.modules) - before} - {"nbmapops"}

        text()
        sys.modules["pyarrow.compute"] = None
        print(text())
        del sys.modules["pyarrow.compute"]
        import pyarrow.compute
        print(text(), "pandas" in sys.modules)
    """
    assert run(code).split() == ["set()", "set()", "False"]


@pytest.mark.usefixtures("_shortest_by")
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_texts_of_an_array_of_floats(kind: str) -> None:
    numbers = random_floats(np.random.default_rng(1), kind, 1000)
    numbers = numbers[~(np.abs(numbers) > 1e30)]  # whose texts are long, and all alike

    check_texts(np.concatenate([numbers, edges(kind)]), kind)


@pytest.mark.thorough
@pytest.mark.usefixtures("_shortest_by")
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_texts_of_many_floats(kind: str) -> None:
    for seed in range(10):
        check_texts(random_floats(np.random.default_rng(seed), kind, 10_000), kind)


# Text to float32: semantics in a table.

INF, NAN = math.inf, math.nan

FLOAT_TEXTS: list[tuple[str, Any, Any]] = [
    # text, strict, onnxruntime
    *(
        (text, value, value)
        for text, value in [("1.5", 1.5), ("+5", 5.0), (".5", 0.5), ("5.", 5.0)]
    ),
    *((text, value, value) for text, value in [("1E8", 1e8), ("-0", -0.0), ("-.0e9", -0.0)]),
    ("1e-5", 9.999999747378752e-06, 9.999999747378752e-06),
    *((text, 1.5, 1.5) for text in [" 1.5", "\t1.5", "\x0b1.5", "1.5 ", "\f\r\n1.5\v", "01.50"]),
    *(
        (text, REFUSED, 1.5)
        for text in ["1.5abc", "1.5f", "1.5 2", "1.5.2", "1.5d5", "1.5e", "1.5e+"]
    ),
    *((text, REFUSED, 1.0) for text in ["1 2", "1/2", "1_000", "1,5", "1,000", "1\x002", "1\x00"]),
    ("50%", REFUSED, 50.0),
    *(
        (text, REFUSED, value)
        for text, value in [("0x1p3", 8.0), ("0x1.8", 1.5), ("-0X.8P1", -1.0)]
    ),
    *((text, REFUSED, 0.0) for text in ["0x", "0b11", "0x.", "0x.p1", "0xg"]),
    *((text, NAN, NAN) for text in ["nan", "NaN", "+nan", " NAN "]),
    ("-nan", -NAN, -NAN),
    *((text, INF, INF) for text in ["inf", "+INF", "Infinity", "\tiNf\r"]),
    *((text, -INF, -INF) for text in ["-inf", "-infinity"]),
    *((text, REFUSED, NAN) for text in ["nan(12)", "nanabc", "nan("]),
    *((text, REFUSED, INF) for text in ["infinit", "inf.", "infinityy"]),
    *((text, REFUSED, REFUSED) for text in ["", "   ", "abc", ".", "e5", "++5", "- 5", "(1)", "+"]),
    *((text, REFUSED, REFUSED) for text in ["\0", "\x001", "in", "na", "+-1", ".e1", "-", "_1"]),
    *(
        (text, REFUSED, REFUSED)
        for text in ["1e400", "3.5e38", "-1e39", "1e-46", "7e-46", "-1e-400"]
    ),
    ("0x1p128", REFUSED, REFUSED),
    ("1e" + "9" * 50, REFUSED, REFUSED),
    ("1e-" + "9" * 50, REFUSED, REFUSED),
    ("0e" + "9" * 50, 0.0, 0.0),
    ("-0x0p" + "9" * 50, REFUSED, -0.0),
    ("340282356779733661637539395458142568447.999", FLT_MAX, FLT_MAX),
    ("340282356779733661637539395458142568448", REFUSED, REFUSED),
    ("0x1.fffffefp127", REFUSED, FLT_MAX),
    ("0x1.ffffffp127", REFUSED, REFUSED),
    # Subnormals: the nearest one, but C reports all that it does not hold exactly.
    ("1e-40", 9.99994610111476e-41, REFUSED),
    ("1.4e-45", 2.0**-149, REFUSED),
    ("1.1754943e-38", FLT_MIN, REFUSED),
    (f"{Decimal(2.0**-149):f}", 2.0**-149, 2.0**-149),
    (f"{Decimal(2.0**-149):f}1", 2.0**-149, REFUSED),
    ("0x1p-149", REFUSED, 2.0**-149),
    ("0x0.8p-126", REFUSED, 2.0**-127),
    ("0x1p-150", REFUSED, REFUSED),
    ("0x1p-99999", REFUSED, REFUSED),
    # What has FLT_MIN as its neighbour among numbers of 24 binary digits is not tiny.
    (f"{Decimal(FLT_MIN - 2.0**-151):f}", FLT_MIN, FLT_MIN),
    (f"{Decimal(FLT_MIN - 2.0**-150):f}", FLT_MIN, REFUSED),
    ("0x0.ffffff8p-126", REFUSED, FLT_MIN),
    ("0x0.ffffff7p-126", REFUSED, REFUSED),
    # Old glibc overlooks a 25th digit that is the last: of a decimal within 151 places only.
    ("0x1.000001p-127", REFUSED, 2.0**-127 if OLD_GLIBC else REFUSED),
    ("0x1.000001p-129", REFUSED, 2.0**-129 if OLD_GLIBC else REFUSED),
    ("0x1.4a18e9p-128", REFUSED, float.fromhex("0x1.4a18e8p-128") if OLD_GLIBC else REFUSED),
    ("0x1.0000011p-129", REFUSED, REFUSED),
    ("0x1.000002p-127", REFUSED, REFUSED),
    (
        f"{Decimal(2.0**-127 + 2.0**-151):f}",
        2.0**-127,
        2.0**-127 if OLD_GLIBC else REFUSED,
    ),
    (f"{Decimal(2.0**-127 + 2.0**-151):f}1", 2.0**-127, REFUSED),
    (f"{Decimal(2.0**-128 + 2.0**-152):f}", 2.0**-128, REFUSED),
    # Digits and blanks that are not ASCII.
    *((text, REFUSED, REFUSED) for text in ["\uff11", "\u0661", "\xa01.5", "\x852", "\u20033"]),
    *(
        (text, REFUSED, REFUSED)
        for text in ["\x1c1", "\x1f1", "\u0131nf", "\u2212" + "1", "\udc80"]
    ),
    *(
        (text, REFUSED, 1.0)
        for text in ["1\u0661", "1\xa0", "1\x1c", "1\x1f", "1\ud800", "1e\u0661"]
    ),
    # The middle of two float32, and a hair beside it.
    ("1.000000059604644775390624", 1.0, 1.0),
    ("1.000000059604644775390625", 1.0, 1.0),
    ("1.000000059604644775390626", 1.0000001192092896, 1.0000001192092896),
    ("1.000000178813934326171874", 1.0000001192092896, 1.0000001192092896),
    ("1.000000178813934326171875", 1.000000238418579, 1.000000238418579),
    ("-16777217.0000000000000000000001", -16777218.0, -16777218.0),
    ("0x1.0000010000000000000000001p0", REFUSED, 1.0000001192092896),
]


@pytest.mark.parametrize(("text", "strict", "onnxruntime"), FLOAT_TEXTS)
def test_text_to_float32(text: str, strict: Any, onnxruntime: Any) -> None:
    assert same(answer(text, "string", "float32"), strict)
    assert same(answer(text, "string", "float32", "exact"), strict)
    assert same(answer(text, "string", "float32", "onnxruntime"), onnxruntime)


NO_C_LIBRARY = lru_cache(lambda: None)


def number_texts(seed: int, count: int) -> list[str]:
    """Draw the starts of numbers, as decimals and in base 16, around the limits of float32."""
    draw = random.Random(seed)
    texts = []
    for at in range(count):
        digits = "".join(draw.choices("0123456789abcdef"[: 16 if at % 2 else 10], k=30))
        cut = draw.randrange(1, 30)
        power = draw.choice([0, 37, -37, -45, draw.randrange(-170, 140)])
        start = "0x" if at % 2 else ""
        mark = "p" if at % 2 else "e"
        zeros = "0" * draw.choice([0, 0, 40]) + draw.choice(["", "1"])
        texts.append(f"{start}{digits[:cut]}.{digits[cut:]}{zeros}{mark}{power - cut}")
        x = Fraction(draw.getrandbits(26), 2 ** draw.randrange(126, 155))
        texts.append(f"{int(x * 10**200)}e-200")
        texts.append(f"-0x{draw.getrandbits(26):x}.{zeros}p-{draw.randrange(120, 160)}")
    return texts


def test_where_no_c_library_can_be_asked_texts_are_read_as_the_standard_of_c_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_values, "_library_strtof", NO_C_LIBRARY)
    monkeypatch.setattr(reference, "OLD_GLIBC", False)
    texts = [text for text, _, _ in FLOAT_TEXTS if "\ud800" not in text]

    for text in texts + number_texts(3, 400):
        try:
            expected: Any = reference.parse_c_float(text)
        except reference.CannotConvertError:
            expected = REFUSED
        assert same(answer(text, "string", "float32", "onnxruntime"), expected), text


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="compares with glibc's strtof")
def test_the_c_library_is_asked_where_there_is_one() -> None:
    assert _values._library_strtof() is not None
    for text in number_texts(4, 400):
        try:
            expected: Any = reference.parse_c_float(text)
        except reference.CannotConvertError:
            expected = REFUSED
        assert same(answer(text, "string", "float32", "onnxruntime"), expected), text


@pytest.mark.parametrize("broken", [OSError, TypeError, AttributeError])
def test_a_platform_without_a_c_library_to_ask(
    monkeypatch: pytest.MonkeyPatch, broken: type[Exception]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise broken

    monkeypatch.setattr(ctypes, "CDLL", refuse)

    assert _values._library_strtof.__wrapped__() is None


def test_the_context_of_decimal_makes_no_difference() -> None:
    with localcontext() as context:
        context.prec = 3
        for signal in (FloatOperation, Inexact, Rounded):
            context.traps[signal] = True
        read = cast_one("1.000000059604644775390626", "string", "float32", "strict")

    assert read == 1.0000001192092896


RAISES_ON_OVERFLOW = """
import struct

pack, made = struct.pack, struct.Struct


def refuse(form, *values):
    if form.strip("@=<>!") == "f" and any(abs(value) > 3.5e38 for value in values):
        raise OverflowError("float too large to pack with f format")
    return pack(form, *values)


class Struct(made):
    def pack(self, *values):
        return refuse(self.format, *values)


struct.pack, struct.Struct = refuse, Struct
import nbmapops

for value in (1e39, "1e39"):
    try:
        nbmapops.CastMap(cast_to="TO_FLOAT")({1: value})
    except nbmapops.CastError as error:
        print(type(error).__name__)
print(nbmapops.CastMap(cast_to="TO_FLOAT", semantics="onnxruntime")({1: 1e39}))
"""


def test_numbers_are_rounded_without_struct_which_newer_pythons_let_raise() -> None:
    # from 3.13.13, 3.14.8 and 3.15 on
    run = subprocess.run(
        [sys.executable, "-c", RAISES_ON_OVERFLOW], capture_output=True, text=True, check=False
    )

    assert (run.stdout, run.stderr) == ("CastError\nCastError\n[inf]\n", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e300", 1e300),
        (" -.5 ", -0.5),
        ("1e-320", 1e-320),
        ("9007199254740993", 9007199254740992.0),
        ("9007199254740993.00000000000000000000000001", 9007199254740994.0),
        ("-0.0", -0.0),
        ("inf", INF),
        ("1e309", REFUSED),
        ("1e-324", REFUSED),
        ("0x1p3", REFUSED),
        ("1_0", REFUSED),
        ("\u0661", REFUSED),
        ("", REFUSED),
    ],
)
def test_text_to_float64(text: str, expected: Any) -> None:
    assert same(answer(text, "string", "float64", "exact"), expected)
    assert same(answer(text, "string", "float64", "strict"), expected)


@pytest.mark.parametrize(
    ("text", "strict", "onnxruntime"),
    [
        *((text, 7, 7) for text in ["7", " 7", "7 ", "+7", "\t007\r\n", "0" * 50 + "7"]),
        *((text, 0, 0) for text in ["0", "-0", "+000"]),
        ("010", 10, 10),
        ("-3", -3, -3),
        ("9223372036854775807", INT64_MAX, INT64_MAX),
        ("-9223372036854775808", INT64_MIN, INT64_MIN),
        ("-" + "0" * 99 + "9223372036854775808", INT64_MIN, INT64_MIN),
        ("9223372036854775808", REFUSED, REFUSED),
        ("-9223372036854775809", REFUSED, REFUSED),
        ("9" * 30, REFUSED, REFUSED),
        *(
            (text, REFUSED, 1)
            for text in ["1e3", "1_000", "1e400", "1 2", "1\x002", "1\xa0", "1\x1c"]
        ),
        ("12.7", REFUSED, 12),
        ("-1.0", REFUSED, -1),
        ("0x10", REFUSED, 0),
        *(
            (text, REFUSED, REFUSED)
            for text in ["", " ", ".5", "nan", "inf", "+", "- 1", "+-1", "\0"]
        ),
        *(
            (text, REFUSED, REFUSED)
            for text in ["\u0661", "\uff11", "\xa01", "\x1c1", "_1", "\ud800"]
        ),
    ],
)
def test_text_to_int64(text: str, strict: Any, onnxruntime: Any) -> None:
    assert same(answer(text, "string", "int64"), strict)
    assert same(answer(text, "string", "int64", "exact"), strict)
    assert same(answer(text, "string", "int64", "onnxruntime"), onnxruntime)


@pytest.mark.parametrize("rules", ["strict", "exact", "onnxruntime"])
def test_text_to_text_is_unchanged(rules: str) -> None:
    for text in ["", "a\0b\0", "\u65e5\u672c", " 1 ", "\ud800"]:
        assert cast_one(text, "string", "string", rules) is text


@pytest.mark.parametrize(
    ("value", "source", "target", "rules", "reason"),
    [
        (NAN, "float32", "int64", "strict", "NaN has no int64 value"),
        (-INF, "float64", "int64", "exact", "infinity has no int64 value"),
        (1e19, "float64", "int64", "strict", "it is out of the range of int64"),
        (2.5, "float32", "int64", "exact", "it is not a whole number"),
        (1e39, "float64", "float32", "strict", "it is out of the range of float32"),
        (2**53 + 1, "int64", "float64", "exact", "float64 cannot hold it exactly"),
        ("abc", "string", "float32", "strict", "it is not a decimal number"),
        ("1e39", "string", "float32", "strict", "it is out of the range of float32"),
        ("1e-99", "string", "float32", "strict", "it is not 0, but too small for float32"),
        ("abc", "string", "float64", "exact", "it is not a decimal number"),
        ("1e999", "string", "float64", "exact", "it is out of the range of float64"),
        ("1e-999", "string", "float64", "exact", "it is not 0, but too small for float64"),
        ("1.0", "string", "int64", "strict", "it is not a decimal integer"),
        ("9" * 19, "string", "int64", "strict", "it is out of the range of int64"),
        ("abc", "string", "float32", "onnxruntime", "it does not start with a number"),
        ("1e39", "string", "float32", "onnxruntime", "it is out of the range of C's strtof"),
        ("abc", "string", "int64", "onnxruntime", "it does not start with an integer"),
        ("9" * 19, "string", "int64", "onnxruntime", "it is out of the range of int64"),
    ],
)
def test_each_refusal_has_its_reason(
    value: Any, source: str, target: str, rules: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        cast_one(value, source, target, rules)

    assert str(caught.value) == reason


# Text to floats: rounding against exact arithmetic.


def spelled(digits: str, exponent: int, point: int) -> str:
    """Spell ``digits * 10**exponent`` with a point before the last `point` digits."""
    digits = digits.rjust(point + 1, "0")
    whole, fraction = digits[: len(digits) - point], digits[len(digits) - point :]
    return f"{whole}.{fraction}e{exponent + point}"


@st.composite
def near_middles(draw: st.DrawFn, kind: str) -> str:
    """Draw the text of the middle of two floats, or of a number a hair beside it."""
    if kind == "float32":
        low = draw(st.floats(0, width=32, allow_nan=False, allow_infinity=False))
        with np.errstate(all="ignore"):
            high = float(np.nextafter(np.float32(low), np.float32(INF)))
        top = Fraction(2) ** 128
    else:
        low = draw(st.floats(0, allow_nan=False, allow_infinity=False))
        high, top = math.nextafter(low, INF), Fraction(2) ** 1024
    middle = (Fraction(low) + (top if math.isinf(high) else Fraction(high))) / 2
    places = middle.denominator.bit_length() - 1
    hair = draw(st.sampled_from([0, 1, -1]))
    zeros = draw(st.sampled_from([1, 2, 40, 700])) if hair else 0
    digits = str(middle.numerator * 5**places * 10**zeros + hair)
    text = spelled(digits, -places - zeros, draw(st.integers(0, 60)))
    return draw(st.sampled_from(["", "-", " +", "00"])) + text


decimals = st.builds(
    "{}{}.{}e{}".format,
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**30) | st.integers(0, 999),
    st.integers(0, 10**30) | st.integers(0, 999),
    st.integers(-80, 60),
)


@given(near_middles("float32") | decimals)
@example("7.006492321624085354618e-46")
@example("7.006492321624085354619e-46")
def test_text_to_float32_is_correctly_rounded(text: str) -> None:
    expected = oracle(Fraction(text.strip()), "float32")
    if expected == 0:
        expected = math.copysign(0.0, -1 if "-" in text.partition("e")[0] else 1)

    assert same(answer(text, "string", "float32"), expected)
    read, refused = cast_array(as_array([text], "string"), "string", "float32", "strict")
    assert same(REFUSED if len(refused) else read.item(), expected)


@given(near_middles("float32") | decimals)
def test_onnxruntime_text_to_float32_is_correctly_rounded_too(text: str) -> None:
    number = Fraction(text.strip())
    expected = oracle(number, "float32")
    # Tiny numbers have rules of their own: see the table.
    if expected != REFUSED and (not number or abs(number) >= FLT_MIN):
        assert answer(text, "string", "float32", "onnxruntime") == expected


@given(near_middles("float64") | decimals)
def test_text_to_float64_is_correctly_rounded(text: str) -> None:
    expected = oracle(Fraction(text.strip()), "float64")

    assert answer(text, "string", "float64") == expected


# Long texts. Most of them would take minutes in quadratic time.

LONG = 1_000_000


@pytest.fixture
def _only_short_ints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where Python's int is given a long text, which it reads in quadratic time."""

    def read(value: Any, *base: int) -> int:
        assert not isinstance(value, str) or len(value) <= 100
        return int(value, *base)

    monkeypatch.setattr(_values, "int", read, raising=False)


@pytest.mark.usefixtures("_only_short_ints")
@pytest.mark.parametrize(
    ("text", "strict", "onnxruntime"),
    [
        ("1." + "3" * LONG, 1.3333333730697632, 1.3333333730697632),
        ("1" * LONG, REFUSED, REFUSED),
        ("1" + "0" * LONG + f"e-{LONG}", 1.0, 1.0),
        ("0." + "0" * LONG + f"1e{LONG + 1}", 1.0, 1.0),
        ("0" * LONG + "1.5" + "0" * LONG, 1.5, 1.5),
        ("1.000000059604644775390625" + "0" * LONG + "1", 1.0000001192092896, 1.0000001192092896),
        ("1.000000059604644775390625" + "0" * LONG, 1.0, 1.0),
        ("1.000000059604644775390624" + "9" * LONG, 1.0, 1.0),
        ("1e" + "0" * LONG + "5", 1e5, 1e5),
        ("1e" + "9" * LONG, REFUSED, REFUSED),
        ("1e-" + "9" * LONG, REFUSED, REFUSED),
        ("0e" + "9" * LONG, 0.0, 0.0),
        (" " * LONG + "2" + "\t" * LONG, 2.0, 2.0),
        (" " * LONG, REFUSED, REFUSED),
        ("1" * LONG + "x", REFUSED, REFUSED),
        ("0." + "1" * LONG + "x", REFUSED, 0.1111111119389534),
        ("1e" + "0" * LONG + "x", REFUSED, 1.0),
        ("1" + " " * LONG + "x", REFUSED, 1.0),
        (" " * LONG + "x", REFUSED, REFUSED),
        ("0x1." + "0" * LONG + "1", REFUSED, 1.0),
        ("0x1.000001" + "0" * LONG + "1", REFUSED, 1.0000001192092896),
        ("0x" + "1" * LONG + f"p-{4 * LONG - 4}", REFUSED, 1.0666667222976685),
        ("0x0." + "0" * LONG + f"8p{4 * LONG + 4}", REFUSED, 8.0),
        ("0x1p" + "0" * LONG + "3", REFUSED, 8.0),
        ("0x1p" + "9" * LONG, REFUSED, REFUSED),
        ("0x1p-" + "9" * LONG, REFUSED, REFUSED),
    ],
    ids=range(26),
)
def test_long_text_to_float32(text: str, strict: Any, onnxruntime: Any) -> None:
    assert same(answer(text, "string", "float32"), strict)
    assert same(answer(text, "string", "float32", "onnxruntime"), onnxruntime)
    _, refused = cast_array(as_array([text, "1"], "string"), "string", "float32", "strict")
    assert refused.tolist() == [0] * (strict is REFUSED)


@pytest.mark.usefixtures("_only_short_ints")
@pytest.mark.parametrize(
    ("text", "strict", "onnxruntime"),
    [
        ("0" * LONG + "7", 7, 7),
        ("-" + "0" * LONG, 0, 0),
        ("1" * LONG, REFUSED, REFUSED),
        ("0" * LONG + "x", REFUSED, 0),
        (" " * LONG + "7" + " " * LONG, 7, 7),
        ("7" + " " * LONG + "x", REFUSED, 7),
    ],
    ids=range(6),
)
def test_long_text_to_int64(text: str, strict: Any, onnxruntime: Any) -> None:
    assert same(answer(text, "string", "int64"), strict)
    assert same(answer(text, "string", "int64", "onnxruntime"), onnxruntime)
    _, refused = cast_array(as_array([text, "1"], "string"), "string", "int64", "strict")
    assert refused.tolist() == [0] * (strict is REFUSED)


def test_long_text_to_float64() -> None:
    assert cast_one("1." + "3" * LONG, "string", "float64", "exact") == 4 / 3
    assert answer("1" * LONG, "string", "float64", "exact") == REFUSED
    assert answer("1" * LONG + "x", "string", "float64", "exact") == REFUSED


# Arrays against single values.

ODD_INTS = [
    0,
    1,
    -1,
    2**24 + 1,
    2**53 + 1,
    2**62 + 2**38 + 1,
    INT64_MAX,
    INT64_MAX - 1023,
    INT64_MIN,
]
ODD_SINGLES = [0.5, -1.5, 0.10000000149011612, 2.0**-149, FLT_MIN, 2.0**24, FLT_MAX, 1e10]
ODD_SINGLES += [2.0**63, -(2.0**63), 2.0**63 - 2.0**39, 0.0, -0.0, INF, -INF, NAN, -NAN]
ODD_FLOATS = [0.1, 1e-7, 2.0**24 + 1, 2.0**63 - 1024, FLT_MAX + 2.0**103, 1e39, -1e300, 1e-320]
ODD_FLOATS += ODD_SINGLES
CLEAN_TEXTS = [
    "0",
    "1",
    "-12",
    " 7\n",
    "1.5",
    "1e400",
    "1e-400",
    "nan",
    "-inf",
    "9" * 19,
    "9" * 200,
]
CLEAN_TEXTS += [
    "3.5e38",
    "1.000000059604644775390626",
    "1e-40",
    "3.4028235677973366e38",
    "3.4028236e38",
    "x",
    "",
    "0x1p3",
]
CLEAN_TEXTS += ["1.000000059604644775390625", "12.7", "0x1.000001p-127", "-0", "00", "1\x00"]
ODD_TEXTS = ["1_0", "\u0661", "\x1c1", "1\x1f", "\xa01", "\ud800"]

clean_texts = st.sampled_from(CLEAN_TEXTS) | st.from_regex(
    r"[+-]?[0-9]{0,4}\.?[0-9]{0,9}", fullmatch=True
)
texts = clean_texts | st.sampled_from(ODD_TEXTS) | st.text("019.+-exp_ \t\0\u0661naif", max_size=8)
singles = st.floats(width=32) | st.sampled_from(ODD_SINGLES)
VALUES: dict[str, st.SearchStrategy[list[Any]]] = {
    "float32": st.lists(singles),
    "float64": st.lists(st.floats() | singles | st.sampled_from(ODD_FLOATS)),
    "int64": st.lists(st.integers(INT64_MIN, INT64_MAX) | st.sampled_from(ODD_INTS)),
    "string": st.lists(clean_texts) | st.lists(texts),
}
ODD: dict[str, list[Any]] = {
    "float32": ODD_SINGLES,
    "float64": ODD_FLOATS,
    "int64": ODD_INTS,
    "string": CLEAN_TEXTS,
}


def check_array(values: list[Any], source: str, target: str, rules: str) -> None:
    """Check that an array is converted as its elements are, and left alone."""
    array = as_array(values, source)
    before = array.copy()
    array.setflags(write=False)
    converted, refused = cast_array(array, source, target, rules)
    expected = [answer(value, source, target, rules) for value in values]

    assert converted.dtype == DTYPES[target]
    assert converted.shape == array.shape
    assert refused.dtype == np.int64
    assert refused.tolist() == [at for at, value in enumerate(expected) if value is REFUSED]
    for ours, theirs in zip(converted.tolist(), expected, strict=True):
        assert theirs is REFUSED or same(ours, theirs)
    assert all(map(same, array.tolist(), before.tolist()))


@pytest.mark.parametrize(("source", "target", "rules"), CELLS)
@given(data=st.data())
def test_an_array_is_converted_as_its_elements(
    source: str, target: str, rules: str, data: st.DataObject
) -> None:
    check_array(data.draw(VALUES[source]), source, target, rules)


@pytest.mark.parametrize(("source", "target", "rules"), CELLS)
def test_an_array_of_the_odd_values_is_converted_as_its_elements(
    source: str, target: str, rules: str
) -> None:
    check_array(ODD[source], source, target, rules)
    check_array([], source, target, rules)
    for text in ODD_TEXTS if source == "string" else []:
        check_array(["1", text], source, target, rules)


@pytest.mark.parametrize(("source", "target", "rules"), CELLS)
def test_strided_arrays_are_converted(source: str, target: str, rules: str) -> None:
    array = as_array(ODD[source], source)
    converted, refused = cast_array(array[::-2], source, target, rules)
    expected, expected_refused = cast_array(array[::-2].copy(), source, target, rules)

    assert refused.tolist() == expected_refused.tolist()
    keep = np.delete(np.arange(len(converted)), refused)
    assert all(map(same, converted[keep].tolist(), expected[keep].tolist()))


@pytest.mark.parametrize("target", ["float32", "float64", "int64"])
def test_every_character_of_ascii_in_arrays_of_text(target: str) -> None:
    """Where Python's own readers took more than the rules, arrays would take it."""
    for number in range(128):
        character = chr(number)
        for text in (f"{character}1", f"1{character}", f"1{character}2", character):
            check_array([text], "string", target, "strict")


def test_signalling_nans_pass_without_a_warning() -> None:
    singles = np.array([0x7F800001, 0xFF800001], np.uint32).view(np.float32)
    doubles = np.array([0x7FF0000000000001, 0xFFF0000000000001], np.uint64).view(np.float64)
    for source, target, rules in CELLS:
        if source in {"float32", "float64"}:
            cast_array(singles if source == "float32" else doubles, source, target, rules)


@pytest.mark.parametrize(
    ("kind", "rules"),
    [(kind, rules) for kind in DTYPES for rules in ("strict", "exact")]
    + [("float32", "onnxruntime"), ("string", "onnxruntime")],
)
def test_an_array_of_the_right_type_is_returned_itself(kind: str, rules: str) -> None:
    array = as_array(ODD[kind], kind)
    converted, refused = cast_array(array, kind, kind, rules)

    assert converted is array
    assert len(refused) == 0
