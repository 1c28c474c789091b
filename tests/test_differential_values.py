"""The conversions of "onnxruntime" mode against the kernels of onnxruntime, bit for bit.

Values come from seeded generators that favour the places where two readers of numbers may differ.
"""

from __future__ import annotations

import platform
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nbmapops._values import cast_array

from .ort_capi import MapRunner, OrtError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
# What C leaves undefined is compared as well, with the answers of one machine and one C library.
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="the answers of onnxruntime are those of x86-64 and glibc",
)

Rng = np.random.Generator

SEED = 20_261_129
TARGETS = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}
PAIRS = [(source, cast_to) for source in ("float32", "string") for cast_to in TARGETS]


# Numbers.


def _bits(rng: Rng, count: int) -> NDArray[Any]:
    return rng.integers(0, 2**32, count, np.uint32).view(np.float32)


def _subnormals(rng: Rng, count: int) -> NDArray[Any]:
    return rng.integers(0, 2**24, count, np.uint32).view(np.float32)


def _near_int64_limits(rng: Rng, count: int) -> NDArray[Any]:
    limits = np.array([2.0**63, -(2.0**63), 2.0**24, 1.0, -1.0, 0.0], np.float32)
    near = rng.choice(limits, count).view(np.int32) + rng.integers(-3, 4, count, np.int32)
    result: NDArray[Any] = near.view(np.float32)
    return result


def _ties_of_six_places(rng: Rng, count: int) -> NDArray[Any]:
    return (rng.integers(-(2**20), 2**20, count) / 2.0 ** rng.integers(0, 12, count)).astype("f4")


def _short_decimals(rng: Rng, count: int) -> NDArray[Any]:
    return (rng.integers(-(10**7), 10**7, count) / 10.0 ** rng.integers(0, 9, count)).astype("f4")


def _special(rng: Rng, count: int) -> NDArray[Any]:
    nan = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    return rng.choice(np.concatenate([nan, np.array([np.inf, -np.inf, 0.0, -0.0], "f4")]), count)


NUMBERS = (
    _bits,
    _subnormals,
    _near_int64_limits,
    _ties_of_six_places,
    _short_decimals,
    _special,
)


def numbers(rng: Rng, count: int) -> NDArray[Any]:
    """Draw float32 values."""
    share = -(-count // len(NUMBERS))
    return np.concatenate([draw(rng, share) for draw in NUMBERS])[:count]


# Texts.

_SOUP = (
    "0011223456789..++--eExXpPaAfF_,'  \t\n\v\f\r\0nNaAiIfFtTyY()"
    "\x1c\x1f\x85\xa0\u2003\u0661\uff11\u2212\u0131\u017f"
)
_WORDS = ["inf", "INFINITY", "Infinit", "infinity1", "nan", "NaN(", "nan(12)", "nan(x y)", "na"]
_WORDS += ["in", "nanabc", "inf.", "infi", "0x", "0x.", "0b11", "0X1P", "0x.p1", "1e", "1e+", "."]
_WORDS += ["", " ", "+", "-", "++1", "- 1", ".e1", "e1", "\0", "\u0131nf", "1\0" + "2", "(1)"]


def _pick(rng: Rng, options: Sequence[Any]) -> Any:
    # Generator.choice would make an array of them, which drops a NUL at the end of a text.
    return options[int(rng.integers(len(options)))]


def _digits(rng: Rng, count: int, alphabet: str = "0123456789") -> str:
    return "".join(alphabet[at] for at in rng.integers(0, len(alphabet), count))


def _soup(rng: Rng) -> str:
    return _digits(rng, int(rng.integers(0, 12)), _SOUP)


def _power(rng: Rng, mark: str, at: int = 0) -> str:
    spread = _pick(rng, [2, 10, 60, 400, 10**6, 10**12, 10**25])
    power = at + int(rng.uniform(-1.0, 1.0) * spread)
    zeros = "0" * _pick(rng, [0, 0, 0, 1, 30])
    return f"{mark}{_pick(rng, ['', '+']) if power >= 0 else '-'}{zeros}{abs(power)}"


def _decimal(rng: Rng) -> str:
    text = _digits(rng, _pick(rng, [0, 1, 2, 8, 20]))
    if rng.random() < 0.7:
        text += "." + _digits(rng, _pick(rng, [0, 1, 3, 10, 40]))
    return text + _power(rng, _pick(rng, ["e", "E"])) if rng.random() < 0.6 else text


def _shown(rng: Rng, number: float) -> str:
    """Show a number exactly, or a hair off, in one of the ways a decimal can be written."""
    sign, digits, exponent = Decimal(number).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    change = rng.integers(0, 5)
    if change == 1:
        zeros = _pick(rng, [0, 1, 30, 800])
        text, exponent = text + "0" * zeros + "1", exponent - zeros - 1
    elif change == 2:
        nines = _pick(rng, [1, 2, 30, 800])
        text, exponent = str(int(text) - 1) + "9" * nines, exponent - nines
    elif change == 3:
        kept = int(rng.integers(1, len(text) + 1))
        text, exponent = text[:kept], exponent + len(text) - kept
    point = int(rng.integers(-5, len(text) + 5)) if rng.random() < 0.5 else len(text) + exponent
    power = exponent + len(text) - point
    if point <= 0:
        text = "0." + "0" * -point + text
    else:
        text = text.ljust(point, "0")
        text = text[:point] + "." + text[point:] if text[point:] or rng.random() < 0.2 else text
    return ("-" if sign else "") + text + (f"e{power}" if power or rng.random() < 0.1 else "")


def _middle(rng: Rng) -> str:
    number = float(_bits(rng, 1)[0])
    step = float(np.nextafter(np.float32(number), np.float32(0), dtype=np.float32))
    return _shown(rng, (number + step) / 2) if np.isfinite(number + step) else "1"


def _tiny(rng: Rng) -> str:
    """Choose near 2**-126, or far below, with 24, 25 or 26 binary digits."""
    mantissa = _pick(rng, [1, 2, 3, 2**22, 2**23, 2**24 - 1, rng.integers(1, 2**24)])
    mantissa = 2 ** int(rng.integers(0, 3)) * mantissa + int(rng.integers(-1, 2))
    return _shown(rng, mantissa * 2.0 ** -int(rng.integers(149, 154)))


_LEAST, _TOP = 2.0**-126, 2.0**128
_EDGES = [_TOP, _TOP - 2.0**103, _TOP - 2.0**104, 2.0**-149, 2.0**-150, 2.0**-151]
_EDGES += [_LEAST, _LEAST - 2.0**-151, _LEAST - 2.0**-150, _LEAST - 2.0**-149]


def _edge(rng: Rng) -> str:
    return _shown(rng, _pick(rng, _EDGES))


def _hexadecimal(rng: Rng) -> str:
    digits = "0123456789abcdefABCDEF" if rng.random() < 0.5 else "000000008f"
    text = _digits(rng, _pick(rng, [0, 1, 6, 7, 15]), digits)
    if rng.random() < 0.7:
        text += "." + _digits(rng, _pick(rng, [0, 1, 6, 7, 40]), digits)
    text += _power(rng, _pick(rng, ["p", "P"]), _pick(rng, [0, 127, -126, -149, -160]))
    start: str = _pick(rng, ["0x", "0X"])
    return start + text


def _short_hexadecimal(rng: Rng) -> str:
    """Choose up to 27 binary digits, near 2**-126 or anywhere, exact or a hair above."""
    mantissa = int(rng.integers(0, 2**27)) >> int(rng.integers(0, 26))
    tail = "0" * _pick(rng, [0, 3, 20]) + _pick(rng, ["", "1"])
    power = -int(rng.integers(144, 156) if rng.random() < 0.7 else rng.integers(-130, 180))
    return f"0x{mantissa:x}.{tail}p{power}"


def _overlooked(rng: Rng) -> str:
    """Choose a float32 below 2**-126 plus a 25th binary digit, which glibc may not notice."""
    mantissa = int(rng.integers(1, 2**23)) >> int(_pick(rng, [0, 0, rng.integers(0, 23)]))
    number = mantissa * 2.0**-149 + 2.0 ** (mantissa.bit_length() - 174)
    if rng.random() < 0.3:
        tail = "0" * _pick(rng, [0, 20]) + _pick(rng, ["", "", "1"])
        return number.hex().replace("p", f"{tail}p")
    return _shown(rng, number)


def _integer(rng: Rng) -> str:
    near = _pick(rng, [0, 2**63, 2**64, 2**31, 10**18])
    text = str(near + int(rng.integers(-3, 4)))
    zeros = "0" * _pick(rng, [0, 0, 1, 40])
    sign, text = ("-", text[1:]) if text.startswith("-") else (_pick(rng, ["", "+", "-"]), text)
    return f"{sign}{zeros}{text}{_pick(rng, ['', '', '.7', 'e3', '_0', 'x', chr(0), '00'])}"


def _long(rng: Rng) -> str:
    size = int(rng.integers(100, 2000))
    digits = _digits(rng, size, "0123456789" if rng.random() < 0.5 else "01")
    if rng.random() < 0.5:
        return f"{digits}e-{size + int(rng.integers(-50, 50))}"
    return f"0.{'0' * size}{digits}e{size + int(rng.integers(-50, 50))}"


def _word(rng: Rng) -> str:
    return f"{_pick(rng, _WORDS)}{_pick(rng, ['', '', '12', ')'])}"


TEXTS: tuple[Callable[[Rng], str], ...] = (
    _soup,
    _decimal,
    _middle,
    _tiny,
    _edge,
    _hexadecimal,
    _short_hexadecimal,
    _overlooked,
    _integer,
    _long,
    _word,
)


def texts(rng: Rng, count: int) -> NDArray[Any]:
    """Draw texts, some of them with a sign, blanks or other text around them."""
    result = np.empty(count, object)
    for position in range(count):
        text = TEXTS[position % len(TEXTS)](rng)
        if rng.random() < 0.1:
            text = _pick(rng, ["-", "+", " ", "\t-", "\v\f\r\n ", "\xa0"]) + text
        if rng.random() < 0.1:
            text += _pick(rng, [" ", "x", "\0", "f", "e", "\u0661", "_1", "p1", "\n"])
        result[position] = text
    return result


# The comparison.


def _their_answers(
    runner: MapRunner, values: NDArray[Any], source: str, cast_to: str, alone: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return what onnxruntime makes of each value, and which it refuses.

    It refuses a map as a whole, without a word on the value that is to blame: such a map is run
    again in halves. Values at the positions `alone` have a map of their own from the start.
    """
    value_type = "float" if source == "float32" else "string"
    dtype = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}[cast_to]
    answers, refused = np.zeros(len(values), dtype), np.zeros(len(values), np.bool_)
    rest = np.delete(np.arange(len(values)), alone)
    parts = [*np.array_split(rest, -(-len(rest) // 64) or 1), *alone.reshape(-1, 1)]
    while parts:
        part = parts.pop()
        content = value_type, values[part]
        try:
            keys = "int64", np.arange(len(part))
            answers[part] = runner.run("CastMap", {"cast_to": cast_to}, keys, content)[2]
        except OrtError as error:
            if error.stage != "run":
                raise
            if len(part) == 1:
                refused[part] = True
            else:
                parts += np.array_split(part, 2)
    return answers, refused


def _alike(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.bool_]:
    """Say where the bits are the same, those of a NaN but for its payload."""
    if ours.dtype == object:
        sent = [text.encode("utf-8", "surrogatepass") for text in ours]
        return np.array([a == b for a, b in zip(sent, theirs, strict=True)], np.bool_)
    same: NDArray[np.bool_] = ours == theirs
    if ours.dtype != np.int64:
        same |= np.isnan(ours) & np.isnan(theirs)
        same &= np.signbit(ours) == np.signbit(theirs)
    return same


def differences(
    runner: MapRunner, values: NDArray[Any], source: str, cast_to: str
) -> list[tuple[Any, ...]]:
    """Return each value on which we and onnxruntime differ, with both answers."""
    ours, positions = cast_array(values, source, TARGETS[cast_to], "onnxruntime")
    theirs, refused = _their_answers(runner, values, source, cast_to, positions)
    our_refused = np.zeros(len(values), np.bool_)
    our_refused[positions] = True
    alike = (refused == our_refused) & (refused | _alike(ours, theirs))
    return [
        (
            values[at],
            "refused" if our_refused[at] else ours[at],
            "refused" if refused[at] else theirs[at],
        )
        for at in np.flatnonzero(~alike)
    ]


def run(seed: int, count: int) -> list[tuple[Any, ...]]:
    """Compare at least `count` values, shared out over the six pairs of types."""
    rng = np.random.default_rng(seed)
    runner = MapRunner()
    found: list[tuple[Any, ...]] = []
    share = -(-count // len(PAIRS))
    for start in range(0, share, 10_000):
        size = min(10_000, share - start)
        for source, cast_to in PAIRS:
            values = (numbers if source == "float32" else texts)(rng, size)
            found += [
                (source, cast_to, *each) for each in differences(runner, values, source, cast_to)
            ]
    runner.close()
    return found


def test_a_few_thousand_values() -> None:
    assert run(SEED, 12_000) == []


@pytest.mark.thorough
def test_a_million_values() -> None:
    assert run(SEED + 1, 1_000_000) == []
