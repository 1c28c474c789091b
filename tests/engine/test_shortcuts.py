"""Each shortcut gives what the general way gives, and leaves to it what is an error."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nbmapops
from nbmapops._engine.shortcuts import SHORTCUTS, arrays_csr, arrays_ordered

from ..conftest import WITHOUT_JIT
from ..outcomes import WITH_SCIPY
from ..ways import way

if TYPE_CHECKING:
    from collections.abc import Callable

FLOATS: list[dict[Any, Any]] = [
    {"a": 1.5, "q": 2.5}, {"q": float("nan")}, {}, {"b": -0.0, "a": float("inf"), "r": 1.0}
]  # fmt: skip
SINGLE = [{key: np.float32(value) for key, value in one.items()} for one in FLOATS]
MIXED: list[dict[Any, Any]] = [
    {"a": 1, "q": 2.5}, {"b": 2**53}, {"b": -(2**53), "a": float("inf"), "r": 0}
]  # fmt: skip
INTS: list[dict[Any, Any]] = [{"a": 1, "q": 2}, {"b": 3}]
WORDS = {"a": 7, "b": -(2**63), "q": 2**63 - 1, "r": 0}


def renamed(maps: list[dict[Any, Any]], key: str) -> list[dict[Any, Any]]:
    if key == "string":
        return maps
    return [{WORDS[word]: value for word, value in one.items()} for one in maps]


@pytest.mark.parametrize("key", ["string", "int64"])
@pytest.mark.parametrize(
    "maps", [FLOATS, SINGLE, INTS, MIXED], ids=["double", "float", "int", "mixed"]
)
@pytest.mark.parametrize("unknown", ["error", "ignore"])
def test_unknown_keys_are_left_out_or_refused_as_in_the_general_way(
    key: Any, maps: list[dict[Any, Any]], unknown: Any
) -> None:
    words = ["b", "a"] if key == "string" else [WORDS["b"], WORDS["a"]]
    op = nbmapops.DictVectorizer(**{f"{key}_vocabulary": words}, handle_unknown=unknown)  # type: ignore[arg-type]
    given = renamed(maps, key)

    def results() -> list[Any]:
        found: list[Any] = []
        for call in (lambda: op(given), lambda: op(given[0]), lambda: op.csr(given).toarray()):
            try:
                rows = call()
                found.append((rows.dtype, rows.shape, rows.tobytes()))
            except KeyError as error:
                found.append(str(error))
        return found

    for engine in ("plain engine", "compiled engine"):
        with way(engine):
            quick = results()
        with way(f"{engine}, no shortcuts"):
            assert quick == results()


@pytest.mark.parametrize("key", ["string", "int64"])
@pytest.mark.parametrize("index_dtype", [None, np.int32, np.int64])
@pytest.mark.parametrize("maps", [1, 200, 2000])
def test_lists_of_hundreds_of_dicts_are_read_as_in_the_general_way(
    maps: int, key: Any, index_dtype: Any
) -> None:
    words = ["b", "a", "q", "r"]
    own = words if key == "string" else [WORDS[word] for word in words]
    op = nbmapops.DictVectorizer(**{f"{key}_vocabulary": own})  # type: ignore[arg-type]
    rng = np.random.default_rng(maps)
    listed = [
        {words[i]: float(i) for i in rng.permutation(4)[: rng.integers(5)]} for _ in range(maps)
    ]
    wrong = [*listed, {"z": 1.5}] if key == "string" else [*listed, {5: 1.5}]
    given = [renamed([each], key)[0] for each in listed]
    odd = [*given, Counter(given[0])]
    found = []
    for name in ("compiled engine", "compiled engine, no shortcuts"):
        with way(name):
            matrices = [
                op.csr(each, index_dtype=index_dtype) for each in (given, tuple(given), odd)
            ]
            with pytest.raises(nbmapops.UnknownKeyError, match=f"map {maps}: ") as error:
                op.csr([*given, wrong[-1]])
        parts = [part for each in matrices for part in (each.data, each.indices, each.indptr)]
        found.append([(part.dtype, part.tolist()) for part in parts] + [str(error.value)])
    assert found[0] == found[1]


def test_an_int_beyond_int64_is_an_error_with_an_unknown_key_too() -> None:
    op = nbmapops.DictVectorizer(string_vocabulary=["a"], handle_unknown="ignore")
    for name in ("plain engine", "plain engine, no shortcuts", "compiled engine"):
        with way(name):
            for call in (op, op.csr):
                with pytest.raises(OverflowError, match="map 1: key 'q'"):
                    call([{"a": 1}, {"q": 2**63}])


@pytest.mark.parametrize("unknown", ["error", "ignore"])
def test_an_int_that_float64_does_not_hold_is_an_error_among_floats(unknown: Any) -> None:
    op = nbmapops.DictVectorizer(string_vocabulary=["a"], handle_unknown=unknown)
    for name in ("plain engine", "plain engine, no shortcuts", "compiled engine"):
        with way(name):
            for maps in (
                [{"a": 0.5}, {"a": 2**53 + 1}],
                {"a": 2**53 + 1, "q": 0.5},
                {"q": 0.5, "a": 2**53 + 1},
                [{"q": 0.5, "a": 2**53 + 1}],
                [{}, {"q": np.float32(0.5), "a": 2**53 + 1, "b": 0.5}],
            ):
                calls: list[Any] = [op, op.csr] if isinstance(maps, list) and WITH_SCIPY else [op]
                for call in calls:
                    with pytest.raises(OverflowError, match="key 'a'"):
                        call(maps)
                    if isinstance(maps, list):
                        with pytest.raises(OverflowError, match="key 'a'"):
                            call(maps * 40)


ODD: list[Any] = [
    {1: 1.5, 2: 1}, {1: True}, {True: 1.5, 2: 2.5}, {1: None}, {1: 2**63}, {2**63: 1}, {-1: 1.5},
    {9: 1.5}, {1: float("nan")}, {1: 1e300}, {1: "x", 2: "5"}, {"a": 1.5}, {}, {1: np.float32(0.1)},
    [{1: 1.5}, {1: 1.5, 2: 2.5}], [{1: 1.5}, {}], [{}, {1: 2}], [{1: 1.5}, {2: "a"}], [{}], [],
    [{1: 1.5}, None], nbmapops.MapBatch.from_arrays([1, 1], [0.5, 1.5]),
    nbmapops.MapBatch.from_arrays([2, 1, 2, 2], [0.5, 1.5, 2.5, 3.5], [0, 2, 4]),
    nbmapops.MapBatch.from_arrays([2, 1, 2, 1], ["1", "2", "3", "x"], [0, 2, 4]),
    nbmapops.MapBatch.from_arrays(["a"], [1.5]), nbmapops.MapBatch.from_arrays([2, 3], [1, 2])[1:],
]  # fmt: skip


@pytest.mark.parametrize("semantics", ["strict", "onnxruntime"])
@pytest.mark.parametrize("target", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
def test_odd_maps_are_cast_or_refused_as_in_the_general_way(
    form: Any, target: Any, semantics: Any
) -> None:
    op = nbmapops.CastMap(cast_to=target, map_form=form, max_map=6, semantics=semantics)

    def results() -> list[Any]:
        found: list[Any] = []
        for given in ODD:
            try:
                rows = op(given)
                found.append((rows.dtype, rows.shape, repr(rows.tolist())))
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                found.append((type(error), str(error)))
        return found

    with way("plain engine"):
        quick = results()
    with way("plain engine, no shortcuts"):
        assert quick == results()


# ------------------------------------------------------------------------------- arrays as they are
OP = nbmapops.DictVectorizer(int64_vocabulary=np.arange(5000))
KEYS, VALUES = np.arange(4000), np.arange(4000) / 2
OFFSETS = np.array([0, 1000, 4000])


@pytest.fixture
def loaded() -> None:
    """Kernels that are loaded, so that arrays take their shortcuts."""
    pytest.importorskip("scipy")
    if WITHOUT_JIT:
        pytest.skip("the shortcuts of arrays are taken once a kernel is compiled")
    with way("compiled engine, no shortcuts"):
        OP.csr(KEYS, VALUES, OFFSETS)
        nbmapops.CastMap()(KEYS, VALUES.astype(np.float32))
    assert arrays_csr(OP._plan, KEYS, VALUES, OFFSETS, None) is not None
    assert arrays_ordered(nbmapops.CastMap()._plan, KEYS, VALUES.astype(np.float32)) is not None


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([1, 1000, 4000], "offsets start at 1"),
        ([-1, 1000, 4000], "offsets start at -1"),
        ([0, 1000, 3999], "offsets end at 3999, but there are 4000 entries"),
        ([0, 1000, 4001], "offsets end at 4001, but there are 4000 entries"),
        ([0, 5000, 4000], "map 1: offsets fall from 5000 to 4000"),
        ([0, -1, 4000], "map 0: offsets fall from 0 to -1"),
        ([0], "offsets end at 0, but there are 4000 entries"),
        ([], "offsets are empty"),
    ],
)
def test_bad_offsets_are_refused_by_csr_once_the_kernels_are_loaded(
    offsets: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        OP.csr(KEYS, VALUES, np.array(offsets, np.int64))


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(("keys", "values"), [(3999, 4000), (4000, 3999)])
def test_lengths_must_agree_once_the_kernels_are_loaded(keys: int, values: int) -> None:
    own = VALUES[:values].astype(np.float32)
    with pytest.raises(ValueError, match=f"{keys} keys but {values} values"):
        OP.csr(KEYS[:keys], VALUES[:values], np.array([0, min(keys, values)]))
    with pytest.raises(ValueError, match=f"{keys} keys but {values} values"):
        nbmapops.CastMap()(KEYS[:keys], own)


@pytest.mark.usefixtures("loaded")
def test_what_a_kernel_refuses_is_told_once_the_kernels_are_loaded() -> None:
    again, unknown = KEYS.copy(), KEYS.copy()
    again[-1], unknown[-1] = 2000, 5000
    with pytest.raises(nbmapops.DuplicateKeyError, match="map 1: key 2000 is repeated"):
        OP.csr(again, VALUES, OFFSETS)
    with pytest.raises(nbmapops.UnknownKeyError, match="map 1: key 5000 "):
        OP.csr(unknown, VALUES, OFFSETS)
    with pytest.raises(nbmapops.DuplicateKeyError, match="map 0: key 2000 is repeated"):
        nbmapops.CastMap()(again, VALUES.astype(np.float32))


@pytest.mark.usefixtures("loaded")
def test_arrays_that_are_not_aligned_compile_nothing() -> None:
    from nbmapops.kernels import order, rows

    def signatures() -> int:
        found: list[Any] = [rows.csr_rows, rows.ordered_rows, order.write_ordered]
        return sum(len(each.signatures) for each in found)

    def shifted(array: Any) -> Any:
        room = np.zeros(array.nbytes + 1, np.uint8)
        moved = room[1:].view(array.dtype)
        moved[:] = array
        return moved

    before = signatures()
    values = VALUES.astype(np.float32)
    expected = OP.csr(KEYS, VALUES, OFFSETS).toarray()
    for parts in (
        (shifted(KEYS), VALUES, OFFSETS),
        (KEYS, shifted(VALUES), OFFSETS),
        (KEYS, VALUES, shifted(OFFSETS)),
    ):
        assert (OP.csr(*parts).toarray() == expected).all()
    assert (nbmapops.CastMap()(shifted(KEYS), values) == values).all()
    assert (nbmapops.CastMap()(KEYS, shifted(values)) == values).all()
    assert signatures() == before


@pytest.mark.usefixtures("loaded")
def test_arrays_of_other_kinds_leave_the_shortcut() -> None:
    narrow = VALUES.astype(np.float32)
    first = nbmapops.CastMap(semantics="onnxruntime")
    again = KEYS.copy()
    again[-1] = 2000
    assert len(first(again, narrow)) == 3999
    text = nbmapops.DictVectorizer(string_vocabulary=["a"])
    with pytest.raises(TypeError, match="key 0 is int; here a key must be a str"):
        text.csr(KEYS, VALUES, OFFSETS)
    as_ints = nbmapops.DictVectorizer(int64_vocabulary=np.arange(5000), dtype="int64")
    assert as_ints.csr(KEYS, VALUES * 2, OFFSETS).dtype == np.int64
    cast = nbmapops.CastMap(cast_to="TO_INT64")(KEYS, narrow * 2)
    assert cast.dtype == np.int64
    shared = nbmapops.DictVectorizer(int64_vocabulary=np.arange(3999), unknown_columns=1)
    assert shared.csr(KEYS, VALUES, OFFSETS)[1, 3999] == VALUES[-1]
    twice = nbmapops.DictVectorizer(
        int64_vocabulary=[*range(4000), 3999], semantics="onnxruntime", handle_unknown="error"
    )
    assert twice.csr(KEYS, VALUES, OFFSETS)[1, 4000] == VALUES[-1]


# ------------------------------------------------------------------------------- the whole list
DICTS = [
    {"a": 3, "b": -4}, {}, {"b": 2**53}, {"a": 0}, {"b": 7, "a": 2**62}
]  # fmt: skip
SHORT, LONG = np.array([0, 2, 2, 4]), np.array([10, -3, 0, 10])  # offsets; keys
MANY = np.random.default_rng(5).permutation(4000)
NUMBERS = {"float": np.float32, "double": np.float64, "int64": np.int64}
CASTS = {"float": "TO_FLOAT", "int64": "TO_INT64"}  # what of CastMap needs no conversion


def of_dicts(method: str, key: Any, number: str, *, one: bool = False) -> Callable[[], Any]:
    """A call with dicts whose values are of one Python type."""
    kind: Any = {"float": np.float32, "double": float, "int64": int}[number]
    words = ["b", "z", "a"] if key == "string" else [WORDS["b"], 0, WORDS["a"]]
    op = nbmapops.DictVectorizer(**{f"{key}_vocabulary": words})  # type: ignore[arg-type]
    maps = renamed([{word: kind(value) for word, value in each.items()} for each in DICTS], key)
    return lambda: getattr(op, method)(maps[0] if one else maps)


def of_arrays(method: str, number: str) -> Callable[[], Any]:
    """A call with a batch as three arrays."""
    op = nbmapops.DictVectorizer(int64_vocabulary=[0, 10, -3, 2**40])
    return lambda: getattr(op, method)(LONG, LONG.astype(NUMBERS[number]), SHORT)


def of_arrow(key: Any, number: str, *, chunked: bool) -> Callable[[], Any]:
    """A call with an Arrow column."""
    words = [9, 5, 7] if key == "int64" else ["z", "x", "y"]
    op = nbmapops.DictVectorizer(**{f"{key}_vocabulary": words})  # type: ignore[arg-type]

    def call() -> Any:
        pa = pytest.importorskip("pyarrow")
        numbers = {"float": pa.float32(), "double": pa.float64(), "int64": pa.int64()}
        keys = pa.array([words[i] for i in (2, 1, 0, 2)])
        values = pa.array([1, 2, 3, 4]).cast(numbers[number])
        column = pa.MapArray.from_arrays(pa.array([0, 1, 1, 3, 4], pa.int32()), keys, values)[1:]
        return op.csr(pa.chunked_array([column]) if chunked else column)

    return call


def of_one_map_of_arrays(number: str) -> Callable[[], Any]:
    """A call with one map as two arrays."""
    op = nbmapops.CastMap(cast_to=CASTS[number])  # type: ignore[arg-type]
    return lambda: op(MANY, MANY.astype(NUMBERS[number]))


def of_casts(form: str, target: str, value: Any, given: str) -> Callable[[], Any]:
    """A call with few maps whose values must be converted."""
    op = nbmapops.CastMap(cast_to=target, map_form=form, max_map=6, fill_value=7)  # type: ignore[arg-type]
    maps = [{4: value, 0: value}, {5: value, 3: value}]
    batch = nbmapops.MapBatch.from_dicts(maps)
    inputs = {"dict": maps[0], "list": maps, "tuple": (maps[0],), "batch": batch}
    return lambda: op(inputs[given])


KEY_TYPES = ("int64", "string")
TAKEN: dict[str, dict[str, Callable[[], Any]]] = {
    "one dict": {
        f"{key} {number}": of_dicts("__call__", key, number, one=True)
        for key in KEY_TYPES
        for number in NUMBERS
    },
    "few dicts, dense": {
        f"{key} {number}": of_dicts("__call__", key, number)
        for key in KEY_TYPES
        for number in NUMBERS
    },
    "few dicts, csr": {
        f"{key} {number}": of_dicts("csr", key, number) for key in KEY_TYPES for number in NUMBERS
    },
    "few casts": {
        f"{form} {type(value).__name__} {given}": of_casts(form, target, value, given)
        for form in ("DENSE", "SPARSE")
        for target, value in (("TO_FLOAT", 0.1), ("TO_INT64", 2**62), ("TO_INT64", "-3"))
        for given in ("dict", "list", "tuple", "batch")
    },
    "one map of arrays, ordered": {number: of_one_map_of_arrays(number) for number in CASTS},
    "arrays, dense": {number: of_arrays("__call__", number) for number in NUMBERS},
    "arrays, csr": {number: of_arrays("csr", number) for number in NUMBERS},
    "an Arrow column, csr": {
        f"{key} {number}{' in a chunk' * chunked}": of_arrow(key, number, chunked=chunked)
        for key in KEY_TYPES
        for number in NUMBERS
        for chunked in (False, True)
    },
}
"""Inputs that are sure to take each shortcut."""


def bits(result: Any) -> list[tuple[Any, ...]]:
    """All that a result is made of."""
    parts = [result] if isinstance(result, np.ndarray) else [
        result.data, result.indices, result.indptr
    ]  # fmt: skip
    return [(type(result), result.shape, each.dtype, each.tobytes()) for each in parts]


def with_results_of(shortcut: Callable[..., Any], call: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """What a call gives, and what the shortcut gave meanwhile."""
    given: list[Any] = []

    def note(frame: Any, event: str, result: Any) -> None:
        if event == "return" and frame.f_code is shortcut.__code__:
            given.append(result)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        return call(), given
    finally:
        sys.setprofile(before)


def test_the_list_of_shortcuts_is_whole() -> None:
    assert TAKEN.keys() == SHORTCUTS.keys()


@pytest.mark.parametrize("engine", ["plain", "compiled"])
@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in TAKEN.items() for case in cases]
)
def test_a_shortcut_is_taken_and_gives_what_the_general_way_gives(
    name: str, case: str, engine: str
) -> None:
    pytest.importorskip("scipy")
    if WITHOUT_JIT and ("arrays" in name or "Arrow" in name):
        pytest.skip("kernels that are not compiled are never loaded")
    call = TAKEN[name][case]
    with way("compiled engine, no shortcuts"):  # which loads the kernels
        expected, given = with_results_of(SHORTCUTS[name], call)
        assert all(each is None for each in given)
    with way("plain engine, no shortcuts"):
        assert bits(call()) == bits(expected)
    with way(f"{engine} engine"):
        result, given = with_results_of(SHORTCUTS[name], call)
    assert len(given) == 1
    assert given[0] is result
    assert bits(result) == bits(expected)
