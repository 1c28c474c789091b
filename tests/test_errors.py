"""What errors say: operator, map number, key, value, rule, remedy."""

from __future__ import annotations

import math
import pickle
import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nbmapops
from nbmapops import (
    CastError,
    CastMap,
    DictVectorizer,
    DuplicateKeyError,
    MapBatch,
    UnknownKeyError,
)

from .outcomes import WITH_SCIPY
from .strategies import Pairs
from .ways import WAYS, way

if TYPE_CHECKING:
    from collections.abc import Callable

BY_INT = DictVectorizer(int64_vocabulary=[1, 2, 3])
BY_STR = DictVectorizer(string_vocabulary=["a", "b", "c"])
SPARSE = CastMap(map_form="SPARSE", max_map=5)


def test_classes_are_also_built_in_errors() -> None:
    assert issubclass(UnknownKeyError, KeyError)
    assert issubclass(DuplicateKeyError, ValueError)
    assert issubclass(CastError, ValueError)
    for error in (UnknownKeyError, DuplicateKeyError, CastError):
        assert getattr(nbmapops, error.__name__) is error


@pytest.mark.parametrize("error", [UnknownKeyError, DuplicateKeyError, CastError])
def test_str_is_the_sentence(error: type[Exception]) -> None:
    sentence = "DictVectorizer: map 3: key 'a\\n' is not ..."

    assert str(error(sentence)) == sentence
    assert str(pickle.loads(pickle.dumps(error(sentence)))) == sentence
    assert sentence in repr(error(sentence)) or "map 3" in repr(error(sentence))
    str(error())
    str(error("a", "b"))


def test_the_sentence_of_the_design() -> None:
    with pytest.raises(UnknownKeyError) as caught:
        BY_INT([{1: 1.0}, {}, {}, {2: 1.0, 17: 1.0}])

    assert str(caught.value) == (
        "DictVectorizer: map 3: key 17 is not in int64_vocabulary (3 words); "
        'pass handle_unknown="ignore" to skip unknown keys'
    )


# Call, class, and what the message must hold, in order.
MESSAGES: list[tuple[str, Callable[[], Any], type[Exception], list[str]]] = [
    (
        "unknown text key",
        lambda: BY_STR([{}, {"a": 1.0, "z'": 2.0}]),
        UnknownKeyError,
        ['DictVectorizer: map 1: key "z\'"', "string_vocabulary (3 words)", "handle_unknown="],
    ),
    (
        "repeated key",
        lambda: BY_INT([1, 1], [1, 2]),
        DuplicateKeyError,
        ["DictVectorizer: map 0: key 1 is repeated", "sum_duplicates()"],
    ),
    (
        "no whole number",
        lambda: DictVectorizer(int64_vocabulary=[1], dtype="int64")({1: 2.5}),
        CastError,
        ["DictVectorizer: map 0: key 1: value 2.5", "int64", "whole number"],
    ),
    (
        "NaN",
        lambda: CastMap(cast_to="TO_INT64")([{}, {7: math.nan}, {}]),
        CastError,
        ["CastMap: map 1: key 7: value nan", "int64", "NaN"],
    ),
    (
        "text that is not a number",
        lambda: CastMap()({7: "abc"}),
        CastError,
        ["CastMap: map 0: key 7: value 'abc'", "float32", "decimal number"],
    ),
    (
        "float32 of a batch",
        lambda: CastMap(cast_to="TO_INT64")([{7: np.float32(1e30)}]),
        CastError,
        ["CastMap: map 0: key 7: value 1.0000000150474662e+30", "int64", "range"],
    ),
    (
        "overflow",
        lambda: CastMap()({7: 1e300}),
        CastError,
        ["CastMap: map 0: key 7: value 1e+300", "float32", "range"],
    ),
    (
        "beyond max_map",
        lambda: SPARSE([{}, {7: 1.0}]),
        ValueError,
        ["CastMap: map 1: key 7", "max_map=5"],
    ),
    (
        "negative key",
        lambda: SPARSE([{-7: 1.0}]),
        ValueError,
        ["CastMap: map 0: key -7", "negative"],
    ),
    (
        "other key type",
        lambda: BY_INT([{"a": 1}]),
        TypeError,
        ["DictVectorizer: map 0: key 'a' is str", "integer"],
    ),
    ("key of no type", lambda: BY_STR({1.5: 1}), TypeError, ["map 0: key 1.5 is float", "str"]),
    ("no value", lambda: BY_INT({1: None}), TypeError, ["map 0: key 1: value None is NoneType"]),
    (
        "text among numbers",
        lambda: BY_INT([{1: 1}, {2: "a"}]),
        TypeError,
        ["DictVectorizer: map 1: key 2: value 'a' is str", "numbers"],
    ),
    (
        "key outside int64",
        lambda: BY_INT({2**63: 1}),
        OverflowError,
        ["map 0: key 9223372036854775808", "int64"],
    ),
    (
        "value outside int64",
        lambda: BY_INT({1: -(2**63) - 1}),
        OverflowError,
        ["map 0: key 1: value -9223372036854775809", "int64"],
    ),
    (
        "integer among floats",
        lambda: BY_INT([{1: 2**53 + 1}, {1: 0.5}]),
        OverflowError,
        ["map 0: key 1: value 9007199254740993", "float64", "floats"],
    ),
    (
        "pairs of the text",
        lambda: DictVectorizer(int64_vocabulary=[1], semantics="onnxruntime")([{1: 1}]),
        TypeError,
        ["DictVectorizer: ", "int64 -> int64", "int64 -> float32", "string -> int64"],
    ),
    (
        "lengths that differ",
        lambda: CastMap()([{1: 1, 2: 2}, {1: 1, 2: 2}, {3: 3}]),
        ValueError,
        ["CastMap: map 2", "1 entries", "2", "ragged"],
    ),
    ("two vocabularies", DictVectorizer, ValueError, ["int64_vocabulary", "string_vocabulary"]),
    (
        "repeated word",
        lambda: DictVectorizer(string_vocabulary=["a", "b", "b"]),
        ValueError,
        ["DictVectorizer: string_vocabulary", "'b'", "repeated"],
    ),
    (
        "offsets that fall",
        lambda: BY_INT([1, 2], [1, 2], [0, 2, 1]),
        ValueError,
        ["DictVectorizer: map 1: offsets fall from 2 to 1"],
    ),
    (
        "offsets that end early",
        lambda: MapBatch.from_arrays([1, 2], [1, 2], [0, 1]),
        ValueError,
        ["MapBatch: offsets end at 1", "2 entries"],
    ),
    (
        "out",
        lambda: BY_INT([{1: 1}], out=np.zeros((1, 3))),
        ValueError,
        ["DictVectorizer: out must have the shape (1, 3) and dtype int64", "(1, 3) and float64"],
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "parts"), [m[1:] for m in MESSAGES], ids=[m[0] for m in MESSAGES]
)
def test_each_error_names_operator_map_key_and_remedy(
    call: Callable[[], Any], error: type[Exception], parts: list[str]
) -> None:
    for name in WAYS:
        with way(name), pytest.raises(error) as caught:
            call()
        assert type(caught.value) is error
        message = str(caught.value)
        assert re.search(".*".join(map(re.escape, parts)), message), message
        assert str(pickle.loads(pickle.dumps(caught.value))) == message
        assert len(message) < 300
        assert "np." not in message
        # The cause is told in the sentence; no inner traceback before it.
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_long_keys_and_values_are_cut() -> None:
    key, big = "k" * 10_000, 10**4000
    calls: list[tuple[Any, Any]] = [
        (BY_STR, {key: 1.0}),
        (BY_STR, [{key: 1.0}]),
        (BY_INT, [{1: big}]),
        (BY_INT, {big: 1}),
        (CastMap(), {1: key}),
        (CastMap(), [{1: key}]),
        (BY_INT, [{1: [0] * 10_000}]),
        (BY_INT, [[0] * 10_000]),
    ]
    for op, given in calls:
        with pytest.raises((KeyError, ValueError, OverflowError, TypeError)) as caught:
            op(given)
        assert len(str(caught.value)) < 400
        assert "map 0" in str(caught.value)


def test_integer_of_too_many_digits_to_be_shown() -> None:
    """Python refuses to write more than 4300 digits; the error is still ours."""
    for given in ({1: 10**5000}, [{1: 10**5000}], {10**5000: 1}):
        with pytest.raises(OverflowError, match="DictVectorizer: map 0: key "):
            BY_INT(given)
    with pytest.raises(OverflowError, match="int64_vocabulary"):
        DictVectorizer(int64_vocabulary=[10**5000])


def test_order_of_the_rules_inside_a_map() -> None:
    """Type, range, repeated key, unknown key, cast; then the lowest entry."""
    op = DictVectorizer(int64_vocabulary=[1, 2, 3], dtype="int64")
    steps: list[tuple[list[Any], list[Any], str]] = [
        ([9, 2**63, 1, 1, "a"], [0.5, 0, 0, 0, 0], "TypeError: key 'a'"),
        ([9, 2**63, 1, 1, 2], [0.5, 0, 0, 0, 0], "OverflowError: key 9223372036854775808"),
        ([2, 9, 1, 1, 3], [0.5, 0.0, 0.0, 0.0, 0.0], "DuplicateKeyError: key 1"),
        ([2, 9, 1, 8, 3], [0.5, 0.0, 0.0, 0.0, 0.0], "UnknownKeyError: key 9"),
        ([2, 3, 1], [0.5, 0.0, 0.5], "CastError: key 2"),
    ]
    for keys, values, expected in steps:
        pairs = list(zip(keys, values, strict=True))
        n = len(keys)
        forms: list[tuple[Any, ...]] = [
            ([Pairs([]), Pairs(pairs)],),
            ((Pairs([]), Pairs(pairs)),),
            (keys, values, [0, 0, n]),
            (Pairs(pairs),),
            (keys, values),
        ]
        for name in WAYS:
            for form in forms:
                with (
                    way(name),
                    pytest.raises((TypeError, ValueError, KeyError, OverflowError)) as c,
                ):
                    op(*form)
                said = f"{type(c.value).__name__}: {str(c.value).split(': ', 2)[2]}"
                assert said.startswith(expected), (said, name)
                number = 0 if len(form) == 2 or isinstance(form[0], Pairs) else 1
                assert f"map {number}: " in str(c.value)


def test_values_of_keys_that_stood_before_are_looked_at_once() -> None:
    op = CastMap(cast_to="TO_INT64", semantics="onnxruntime")
    steps = 0

    def note(frame: Any, event: str, argument: object) -> None:
        nonlocal steps
        steps += event == "call" and frame.f_code.co_name == "map_of"

    with way("compiled engine"):
        for values in (["1"] + ["x"] * 500, ["1"] + ["x"] * 500 + ["2"]):
            sys.setprofile(note)
            try:
                result = op([7] * len(values), values)
            finally:
                sys.setprofile(None)
            assert result.tolist() == [1]
    assert steps < 10
    with way("compiled engine"), pytest.raises(CastError, match="map 1: key 8"):
        op([7, 7, 7, 8, 8], ["1", "x", "2", "x", "3"], [0, 2, 5])


def test_first_bad_map_wins_whatever_its_rule() -> None:
    """A later map may be bad in a way that is found earlier, such as its types."""
    unknown, cast, late_type = {9: 1.0}, {1: 0.5}, {"a": 1.0}
    op = DictVectorizer(int64_vocabulary=[1, 2], dtype="int64")
    maps: list[dict[Any, Any]] = [{1: 1.0}, unknown, cast, late_type, {1: None}, {2**63: 1.0}]
    for first in range(1, len(maps)):
        rest = [{1: 1.0}, *maps[first:], *maps[1:first]]
        expected = [UnknownKeyError, CastError, TypeError, TypeError, OverflowError][first - 1]
        for name in WAYS:
            for call in (op, op.csr) if WITH_SCIPY else (op,):
                for batch in (rest, tuple(rest), iter(rest), [*rest]):
                    with way(name), pytest.raises(expected, match="map 1: "):
                        call(batch)


def test_integer_among_floats_is_bad_from_its_own_map_on() -> None:
    """Only the float of a later map makes the int of map 1 bad; map 2 is bad by itself."""
    op = DictVectorizer(int64_vocabulary=[1, 2])
    maps: list[dict[int, Any]] = [{1: 1}, {1: 2**53 + 1}, {9: 1}, {1: 0.5}]
    for name in WAYS:
        for call in (op, op.csr) if WITH_SCIPY else (op,):
            for batch in (maps, iter(maps), (m for m in maps)):
                with way(name), pytest.raises(OverflowError, match="map 1: key 1: value"):
                    call(batch)
            swapped = [maps[0], maps[2], maps[1], maps[3]]
            with way(name), pytest.raises(UnknownKeyError, match="map 1: key 9"):
                call(swapped)


@pytest.mark.skipif(not WITH_SCIPY, reason="csr is SciPy's")
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize(
    ("op", "maps", "error", "sentence"),
    [
        # Text is refused for all maps before the bad one; within it, what reading finds goes first.
        (BY_INT, [{1: "x"}, {1: 1.5}], ValueError, "csr takes numbers"),
        (BY_INT, [{}, {1: "x", 2**64: "y"}], OverflowError, "map 1: key"),
        (BY_INT, [{"a": "x"}], TypeError, "map 0: key 'a' is str"),
        # Maps without entries before the bad one have no type of value that may not be taken.
        (
            DictVectorizer(int64_vocabulary=[1], semantics="onnxruntime", dtype="int64"),
            [{}, {1: None}],
            TypeError,
            "map 1: key 1: value None",
        ),
    ],
)
def test_csr_tells_one_error_whatever_the_threads_and_forms(
    name: str, op: DictVectorizer, maps: list[Any], error: type[Exception], sentence: str
) -> None:
    batches: list[Callable[[], Any]] = [
        lambda: maps,
        lambda: iter(maps),
        lambda: [[*each.items()] for each in maps],
    ]
    if isinstance(next(iter(maps[0]), None), str):
        batches.append(lambda: MapBatch.from_dicts(maps))
    for batch in batches:
        for threads in (1, 2):
            with way(name), pytest.raises(error, match=re.escape(sentence)):
                op.csr(batch(), threads=threads)


@pytest.mark.parametrize("name", WAYS)
def test_one_map_that_cannot_be_read_is_told_before_options_that_do_not_fit(name: str) -> None:
    filled = DictVectorizer(int64_vocabulary=[1], fill_value=math.nan)
    spec = DictVectorizer(int64_vocabulary=[1], semantics="onnxruntime")
    for op in (filled, spec):
        for given in ({1: 2**63}, [{1: 2**63}], Pairs([(1, 2**63)])):
            with way(name), pytest.raises(OverflowError, match="map 0: key 1: value"):
                op(given)


@pytest.mark.parametrize("name", WAYS)
def test_a_map_that_cannot_be_read_is_told_before_an_out_that_does_not_fit(name: str) -> None:
    op = DictVectorizer(int64_vocabulary=[1])
    for given in ({1: 1.0, "x": 2.0}, [{1: 1.0, "x": 2.0}], [{1: 1.0}, {"x": 2.0}]):
        with way(name), pytest.raises(TypeError, match=r"map \d: key 'x' is str"):
            op(given, out=np.empty(7))


def test_the_first_map_wins_between_a_value_and_a_key_that_are_refused() -> None:
    """Conversions are made before keys are looked at, for all maps at once."""
    sparse = CastMap(map_form="SPARSE", max_map=3, cast_to="TO_INT64", semantics="onnxruntime")
    shared = DictVectorizer(int64_vocabulary=[1], unknown_columns=2, dtype="int64")
    again = MapBatch.from_arrays([7, 7, 1], [1.0, 2.0, 0.5], [0, 2, 3])
    later = MapBatch.from_arrays([1, 7, 7], [0.5, 1.0, 2.0], [0, 1, 3])
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (sparse, [{-1: "5"}, {1: "x"}], ValueError, "map 0: key -1 must not be negative"),
        (sparse, [{1: "x"}, {-1: "5"}], CastError, "map 0: key 1: value 'x' cannot"),
        (shared, again, DuplicateKeyError, "map 0: key 7 is repeated"),
        (shared, later, CastError, "map 0: key 1: value 0.5 cannot"),
    ]
    for name in WAYS:
        for op, batch, error, message in cases:
            for call in (op, op.csr) if WITH_SCIPY else (op,):
                with way(name), pytest.raises(error, match=message):
                    call(batch)


def test_values_of_skipped_entries_are_not_converted_by_any_engine() -> None:
    op = DictVectorizer(int64_vocabulary=[1], dtype="int64", handle_unknown="ignore")
    for name in WAYS:
        with way(name):
            assert op([{9: 0.5, 1: 2.0}, {8: float("nan")}]).tolist() == [[2], [0]]
            assert op([9, 1, 8], [0.5, 2.0, math.nan], [0, 2, 3]).tolist() == [[2], [0]]


def test_nothing_has_changed_after_an_error() -> None:
    op, twin = (DictVectorizer(string_vocabulary=["a", "b"]) for _ in range(2))
    for given in ([{"a": 1.0}, {"z": 1.0}], [{"a": 1.0}, {1: 1.0}], [{"a": None}], 5):
        with pytest.raises((KeyError, TypeError)):
            op(given)
    assert op == twin
    assert pickle.dumps(op) == pickle.dumps(twin)
    assert op([{"a": 1.0}]).tolist() == [[1.0, 0.0]]
    assert list(op.vocabulary) == ["a", "b"]


def test_generator_is_closed_after_an_error() -> None:
    closed = []

    def maps() -> Any:
        try:
            yield {1: 1.0}
            yield {9: 1.0}
            yield from [{1: 1.0}] * 5000
        finally:
            closed.append(True)

    source = maps()
    with pytest.raises(UnknownKeyError):
        BY_INT(source)
    del source
    assert closed == [True]
