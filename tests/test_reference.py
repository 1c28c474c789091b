"""The oracle itself, against what onnxruntime and the text of the operators are known to give."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import platform
import random
import struct
from fractions import Fraction
from typing import Any

import pytest

from .conformance import CASES, EXAMPLES_OF_THE_TEXT, Case
from .reference import (
    INT64_MAX,
    INT64_MIN,
    CannotConvertError,
    Refusal,
    Rows,
    Typed,
    cast_map,
    convert,
    dict_vectorizer,
    float32,
    infer,
    learned,
    parse_c_float,
    unknown,
)


def answer(case: Case, semantics: str) -> Rows | Refusal:
    value_type = case.values[0]
    attributes = {**case.attributes, "key_type": case.keys[0], "semantics": semantics}
    if case.operator == "CastMap":
        return cast_map([case.entries], value_type, **attributes)
    return dict_vectorizer([case.entries], value_type, **attributes)


def test_there_are_67_cases_and_five_examples() -> None:
    assert len(CASES) == len({case.name for case in CASES}) == 67
    assert [case.name for case in EXAMPLES_OF_THE_TEXT] == [
        "cast_map_int64_float_dense",
        "cast_map_int64_float_sparse",
        "cast_map_int64_string_dense",
        "dict_vectorizer_int64_float",
        "dict_vectorizer_string_int64",
    ]


@pytest.mark.parametrize("semantics", ["strict", "onnxruntime"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_oracle_gives_the_conformance_result(case: Case, semantics: str) -> None:
    expected = case.expected(semantics)

    actual = answer(case, semantics)

    if isinstance(expected, str):
        assert isinstance(actual, Refusal)
        assert actual.error == expected
    else:
        assert repr(actual) == repr(expected)  # repr tells -0.0 from 0.0 and finds NaN equal to NaN


def test_oracle_gives_the_sentence_of_the_text() -> None:
    """The example inside the description of DictVectorizer."""
    actual = dict_vectorizer(
        [[("a", 4), ("c", 8)]], "int64", key_type="string", string_vocabulary=["a", "c", "b", "z"]
    )

    assert actual == Rows("int64", [[4, 8, 0, 0]])


@pytest.mark.parametrize(
    ("text", "strict", "c"),
    [
        # The table of what onnxruntime reads and what a whole number text is.
        ("5.", 5.0, 5.0),
        (".5", 0.5, 0.5),
        ("1E8", 1e8, 1e8),
        ("\x0b2", 2.0, 2.0),
        ("1.5f", None, 1.5),
        ("1e", None, 1.0),
        ("1d5", None, 1.0),
        ("0x", None, 0.0),
        ("0b11", None, 0.0),
        ("0x1.8", None, 1.5),
        ("0x.p3", None, 0.0),
        ("1\0002", None, 1.0),
        ("nan(12)", None, math.nan),
        ("infinit", None, math.inf),
        ("Infinity", math.inf, math.inf),
        ("-nan", math.nan, math.nan),
        (".", None, None),
        ("e5", None, None),
        ("++5", None, None),
        ("- 5", None, None),
        ("3.5e38", None, None),
        ("0x1p128", None, None),
        ("1e-46", None, None),
        ("1e-40", float32(1e-40), None),
        ("1.1754943e-38", float32(1.1754943e-38), None),
        ("0x1p-149", None, 2.0**-149),
        ("0x0.8p-126", None, 2.0**-127),
        ("\uff11\uff12", None, None),
        ("\u0661", None, None),
        ("\u00a01.5", None, None),
        ("1e-99999999999999999999", None, None),
        ("1e99999999999999999999", None, None),
        ("0e99999999999999999999", 0.0, 0.0),
        ("-0", -0.0, -0.0),
        ("0" * 20_000 + "1", 1.0, 1.0),
        ("1" + "0" * 20_000 + "e-20000", 1.0, 1.0),
        ("340282356779733661637539395458142568447", float32(3.4028235e38), float32(3.4028235e38)),
        ("340282356779733661637539395458142568448", None, None),
    ],
)
def test_oracle_reads_floats(text: str, strict: float | None, c: float | None) -> None:
    for rules, expected in (("strict", strict), ("onnxruntime", c)):
        if expected is None:
            with pytest.raises(CannotConvertError):
                convert(text, "string", "float32", rules)
        else:
            assert repr(convert(text, "string", "float32", rules)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "strict", "c"),
    [
        (" 7 ", 7, 7),
        ("010", 10, 10),
        ("-9223372036854775808", INT64_MIN, INT64_MIN),
        ("9223372036854775807", INT64_MAX, INT64_MAX),
        ("-9223372036854775809", None, None),
        ("12.7", None, 12),
        ("1e3", None, 1),
        ("0x10", None, 0),
        ("1_000", None, 1),
        (".5", None, None),
        ("inf", None, None),
        ("\u0661", None, None),
    ],
)
def test_oracle_reads_integers(text: str, strict: int | None, c: int | None) -> None:
    for rules, expected in (("strict", strict), ("onnxruntime", c)):
        if expected is None:
            with pytest.raises(CannotConvertError):
                convert(text, "string", "int64", rules)
        else:
            assert convert(text, "string", "int64", rules) == expected


@pytest.mark.parametrize(
    ("value", "source", "strict", "c"),
    [
        (1e20, "float64", "100000000000000000000.000000", "100000002004087734272.000000"),
        (float32(123456.789), "float32", "123456.789062", "123456.789062"),
        (1 / 3, "float64", "0.3333333333333333", "0.333333"),
        (float32(1 / 3), "float32", "0.33333334", "0.333333"),
        (float32(1e-45), "float32", "0." + "0" * 44 + "1", "0.000000"),
        (-1e-9, "float64", "-0.000000001", "-0.000000"),
        (math.copysign(math.nan, -1.0), "float64", "nan", "-nan"),
        (2**53 + 1, "int64", "9007199254740993", "9007199254740992.000000"),
    ],
)
def test_oracle_writes_numbers(value: float, source: str, strict: str, c: str) -> None:
    assert convert(value, source, "string", "strict") == strict
    assert convert(value, source, "string", "onnxruntime") == c


def test_oracle_rounds_to_float32_as_the_machine_does() -> None:
    draw = random.Random(0)
    for _ in range(3000):
        x = math.ldexp(draw.uniform(-1, 1), draw.randint(-160, 128))
        middle = struct.unpack("f", struct.pack("f", x))[0] + math.ldexp(1, draw.randint(-152, 100))
        for value in (x, middle):
            try:
                expected = struct.unpack("f", struct.pack("f", value))[0]
            except OverflowError:
                expected = math.copysign(math.inf, value)
            assert float32(value) == expected
    # A double in between would round twice, to 2**62 + 2**39.
    assert float32(2**62 + 2**38 + 1) == 2.0**62 + 2.0**39
    assert float32(2**62 + 2**38) == 2.0**62


def _strtof(text: str) -> float | None:
    c = ctypes.CDLL(None, use_errno=True)
    c.strtof.restype, c.strtof.argtypes = ctypes.c_float, [ctypes.c_char_p, ctypes.c_void_p]
    buffer, end = ctypes.create_string_buffer(text.encode()), ctypes.c_void_p()
    ctypes.set_errno(0)
    value = c.strtof(buffer, ctypes.byref(end))
    assert isinstance(value, float)
    return None if end.value == ctypes.addressof(buffer) or ctypes.get_errno() else value


def _number_text(draw: random.Random) -> str:
    kind = draw.randrange(4)
    if kind == 0:
        return "".join(draw.choice("0123456789.eE+-xXpabf ninty") for _ in range(draw.randrange(9)))
    if kind == 1:
        return repr(draw.uniform(-1, 1) * 10 ** draw.uniform(-48, 40))
    if kind == 2:
        digits = draw.getrandbits(draw.randrange(1, 30)), draw.getrandbits(draw.randrange(1, 30))
        return f"0x{digits[0]:x}.{digits[1]:x}p{draw.randrange(-170, 130)}"
    x = Fraction(draw.getrandbits(28), 2 ** draw.randrange(126, 155))
    return f"{int(x * 10**200)}e-200"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="compares with glibc's strtof")
def test_oracle_reads_floats_as_glibc_does() -> None:
    draw = random.Random(0)
    for _ in range(3000):
        text = _number_text(draw)
        try:
            actual: float | None = parse_c_float(text)
        except CannotConvertError:
            actual = None
        assert repr(actual) == repr(_strtof(text)), text


def test_oracle_names_the_first_bad_map_and_the_first_rule() -> None:
    maps = [[(1, "1")], [(7, "x"), (2, "x"), (2, "y")], [(-1, "1")]]

    sparse: dict[str, Any] = {"map_form": "SPARSE", "max_map": 5}
    assert cast_map(maps, "string", **sparse) == Refusal("ValueError", 1, 7)
    assert cast_map(maps, "string") == Refusal("DuplicateKeyError", 1, 2)
    assert cast_map(maps, "string", semantics="onnxruntime") == Refusal("CastError", 1, 7)
    assert cast_map([[(4, "1"), (3, "x"), (2, "y")]], "string") == Refusal("CastError", 0, 3)

    words: dict[str, Any] = {"key_type": "int64", "int64_vocabulary": [1, 2]}
    assert dict_vectorizer(maps, "string", **words) == Refusal("DuplicateKeyError", 1, 2)
    assert dict_vectorizer([[(7, 1), (8, 1)]], "int64", **words) == Refusal("UnknownKeyError", 0, 7)
    skip = {**words, "handle_unknown": "ignore"}
    assert dict_vectorizer([[(7, 1), (7, 2), (1, 5)]], "int64", **skip) == Rows("int64", [[5, 0]])


def test_oracle_finds_the_types_of_dicts() -> None:
    def batch(*values: tuple[str, Any]) -> list[list[tuple[tuple[str, Any], tuple[str, Any]]]]:
        return [[], *[[(("int", 1), value)] for value in values]]

    assert infer([[]]) == Typed(None, None, [[]])
    assert infer(batch(("int", 1), ("float", 0.5))) == Typed(
        "int64", "float64", [[], [(1, 1.0)], [(1, 0.5)]]
    )
    assert infer(batch(("float32", 0.5))) == Typed("int64", "float32", [[], [(1, 0.5)]])
    assert infer(batch(("float32", 0.5), ("int", 1))) == Typed(
        "int64", "float64", [[], [(1, 0.5)], [(1, 1.0)]]
    )
    assert infer(batch(("int", 2**53 + 1), ("float", 0.5))) == Refusal("OverflowError", 1, 1)
    assert infer(batch(("int", 1), ("str", "a"))) == Refusal("TypeError", 2, 1)
    assert infer(batch(("int", 1), ("None", None))) == Refusal("TypeError", 2, 1)


def test_oracle_learns_and_reports() -> None:
    maps = [[(5, 0), (3, 0)], [], [(9, 0), (5, 0)]]

    assert learned(maps, "first_seen") == [5, 3, 9]
    assert learned(maps, "sorted") == [3, 5, 9]
    assert unknown(maps, [5]) == ([0, 2], [3, 9])
