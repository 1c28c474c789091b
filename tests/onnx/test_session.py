"""The ONNX adapter against onnx and onnxruntime themselves."""

from __future__ import annotations

import signal
from collections import UserDict
from typing import Any

import numpy as np
import pytest

import nbmapops

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnx.helper as h
import onnxruntime
from onnx.reference import ReferenceEvaluator

from nbmapops.onnx import MapSession, from_node, reference_ops, to_model

from ..ort_capi import MapRunner
from .models import DOMAIN, map_input, model_of, operator_model, tensor


# ------------------------------------------------------------------------------- from_node
def test_from_node_takes_every_attribute() -> None:
    node = h.make_node(
        "CastMap", ["x"], ["y"], domain=DOMAIN, cast_to="TO_STRING", map_form="SPARSE", max_map=3
    )
    assert from_node(node) == nbmapops.CastMap(cast_to="TO_STRING", map_form="SPARSE", max_map=3)
    node = h.make_node("DictVectorizer", ["x"], ["y"], domain=DOMAIN, string_vocabulary=["é", ""])
    assert from_node(node, handle_unknown="ignore") == nbmapops.DictVectorizer(
        string_vocabulary=["é", ""], handle_unknown="ignore"
    )
    node = h.make_node("DictVectorizer", ["x"], ["y"], domain=DOMAIN, int64_vocabulary=[5, -5])
    assert from_node(node, semantics="onnxruntime") == nbmapops.DictVectorizer(
        int64_vocabulary=[5, -5], semantics="onnxruntime"
    )


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (h.make_node("Cast", ["x"], ["y"], to=1), "is not a map operator"),
        (h.make_node("CastMap", ["x"], ["y"]), "is not a map operator"),
        (h.make_node("CastMap", ["x"], ["y"], domain=DOMAIN, pad=1), "'pad'"),
        (h.make_node("CastMap", ["x"], ["y"], domain=DOMAIN, max_map="3"), "'max_map'"),
        (h.make_node("CastMap", ["x"], ["y"], domain=DOMAIN, cast_to="TO_DOUBLE"), "TO_DOUBLE"),
    ],
    ids=["other operator", "other domain", "other attribute", "other type", "other value"],
)
def test_from_node_refuses(node: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_node(node)


# ------------------------------------------------------------------------------- evaluator
def test_reference_evaluator_runs_both_operators() -> None:
    model = operator_model("CastMap", "int64", "float", "int64", cast_to="TO_INT64")
    evaluator: Any = ReferenceEvaluator(model, new_ops=reference_ops)
    (row,) = evaluator.run(None, {"x": {2: 2.9, 1: -1.9}})
    assert row.tolist() == [-1, 2]
    assert row.dtype == np.int64
    model = operator_model(
        "DictVectorizer", "string", "int64", "int64", string_vocabulary=["a", "b"]
    )
    evaluator = ReferenceEvaluator(model, new_ops=reference_ops)
    assert evaluator.run(None, {"x": {"b": 3}})[0].tolist() == [0, 3]
    assert evaluator.run(None, {"x": [{"b": 2**53 + 1}, {}]})[0].tolist() == [
        [0, 2**53 + 1],
        [0, 0],
    ]
    with pytest.raises(KeyError, match="'c' is not in string_vocabulary"):
        evaluator.run(None, {"x": {"c": 1}})


# ------------------------------------------------------------------------------- MapSession
VALUES: dict[str, list[Any]] = {
    "float": [0.5, -0.0, 2.5],
    "double": [0.1, 1e300, -0.0],
    "int64": [2**53 + 1, -1, 0],
    "string": ["p", "", "é"],
}
PAIRS = [
    ("int64", "float"), ("int64", "double"), ("int64", "string"),
    ("string", "float"), ("string", "double"), ("string", "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), PAIRS)
def test_every_map_type_of_the_text_gives_the_kernels_numbers(key: str, value: str) -> None:
    words: list[Any] = [7, -1, 3] if key == "int64" else ["a", "b", "c"]
    attributes = {f"{key}_vocabulary": words}
    model = operator_model("DictVectorizer", key, value, value, **attributes)
    maps = [dict(zip(words, VALUES[value], strict=True)), {words[1]: VALUES[value][2]}, {}]
    maps[1][99 if key == "int64" else "unknown"] = VALUES[value][0]
    (rows,) = MapSession(model).run(None, {"x": maps})
    runner = MapRunner()
    try:
        for row, one in zip(rows, maps, strict=True):
            _, _, expected = runner.run(
                "DictVectorizer", attributes, (key, list(one)), (value, list(one.values()))
            )
            if value == "string":
                expected = np.array([text.decode() for text in expected], object)
            assert row.tolist() == expected.tolist()
    finally:
        runner.close()
    assert rows.dtype == {"float": "f4", "double": "f8", "int64": "i8", "string": "O"}[value]


@pytest.mark.parametrize("cast_to", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
def test_cast_map_alone_and_in_front(cast_to: str) -> None:
    result = {"TO_FLOAT": "float", "TO_INT64": "int64", "TO_STRING": "string"}[cast_to]
    attributes: dict[str, Any] = {"cast_to": cast_to, "map_form": "SPARSE", "max_map": 4}
    alone = operator_model("CastMap", "int64", "float", result, **attributes)
    maps = [{0: 1.5, 3: -2.5}, {1: 3.25, 9: 1.0}, {2: float("nan")}]
    (rows,) = MapSession(alone).run(["y"], {"x": maps})
    theirs = onnxruntime.InferenceSession(alone.SerializeToString())
    one_by_one = np.concatenate([theirs.run(None, {"x": one})[0] for one in maps])
    np.testing.assert_array_equal(rows, one_by_one)
    assert MapSession(alone).run(None, {"x": maps[0]})[0].shape == (1, 4)
    nodes = [
        h.make_node("CastMap", ["x"], ["t"], domain=DOMAIN, **attributes),
        h.make_node("Identity", ["t"], ["y"]),
    ]
    front = model_of(nodes, [map_input("x", "int64", "float")], [tensor("y", result)])
    np.testing.assert_array_equal(MapSession(front).run(None, {"x": maps})[0], one_by_one)


def test_values_are_narrowed_as_onnxruntime_narrows_them() -> None:
    model = operator_model("DictVectorizer", "string", "float", "float", string_vocabulary=["a"])
    maps = [{"a": 16777217}, {"a": 1e300}, {"a": 0.1}, {"a": True}]
    (rows,) = MapSession(model).run(None, {"x": maps})
    theirs = onnxruntime.InferenceSession(model.SerializeToString())
    assert [row.tolist() for row in rows] == [
        theirs.run(None, {"x": one})[0][0].tolist() for one in maps
    ]
    with pytest.raises(nbmapops.CastError, match="map 1: key 'a'"):
        MapSession(model, semantics="strict").run(None, {"x": maps})


def test_strict_and_handle_unknown_can_be_asked_for() -> None:
    model = operator_model("DictVectorizer", "string", "float", "float", string_vocabulary=["a"])
    maps = [{"a": 1.0}, {"q": 2.0}]
    assert MapSession(model).run(None, {"x": maps})[0].tolist() == [[1.0], [0.0]]
    for session in (
        MapSession(model, semantics="strict"),
        MapSession(model, handle_unknown="error"),
    ):
        with pytest.raises(nbmapops.UnknownKeyError, match="map 1: key 'q'"):
            session.run(None, {"x": maps})
    lenient = MapSession(model, semantics="strict", handle_unknown="ignore")
    assert lenient.run(None, {"x": maps})[0].tolist() == [[1.0], [0.0]]


def test_a_model_takes_several_inputs() -> None:
    nodes = [
        h.make_node("DictVectorizer", ["m"], ["a"], domain=DOMAIN, string_vocabulary=["p", "q"]),
        h.make_node("CastMap", ["n"], ["b"], domain=DOMAIN, map_form="SPARSE", max_map=2),
        h.make_node("Add", ["a", "b"], ["s"]),
        h.make_node("Mul", ["s", "t"], ["y"]),
    ]
    inputs = [
        map_input("m", "string", "float"), map_input("n", "int64", "float"),
        tensor("t", "float", [None, 1]),
    ]  # fmt: skip
    model = model_of(nodes, inputs, [tensor("y", "float"), tensor("a", "float")])
    session = MapSession(model)
    assert session.input_names == ["m", "n", "t"]
    feeds = {
        "m": [{"p": 1.0}, {"q": 2.0}],
        "n": [{0: 10.0}, {1: 20.0}],
        "t": np.array([[1.0], [2.0]], np.float32),
    }
    summed, left = session.run(None, feeds)
    assert summed.tolist() == [[11.0, 0.0], [0.0, 44.0]]
    assert left.tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert session.run(["a"], feeds)[0].tolist() == left.tolist()
    with pytest.raises(ValueError, match="different size"):
        session.run(None, {**feeds, "n": [{0: 1.0}]})
    with pytest.raises(ValueError, match="'t' is missing"):
        session.run(None, {"m": [], "n": []})
    with pytest.raises(ValueError, match="no output 'z'"):
        session.run(["z"], feeds)
    with pytest.raises(ValueError, match="no input 'z'"):
        session.run(None, {**feeds, "z": 1})


def test_models_that_cannot_be_cut() -> None:
    plain = model_of(
        [h.make_node("Identity", ["x"], ["y"])], [tensor("x", "float")], [tensor("y", "float")]
    )
    with pytest.raises(ValueError, match="no CastMap and no DictVectorizer"):
        MapSession(plain)
    middle = model_of(
        [
            h.make_node("Identity", ["x"], ["t"]),
            h.make_node("CastMap", ["t"], ["y"], domain=DOMAIN),
        ],
        [map_input("x", "int64", "float")],
        [tensor("y", "float")],
    )
    with pytest.raises(ValueError, match="reads 't'"):
        MapSession(middle)
    shared = model_of(
        [
            h.make_node("CastMap", ["x"], ["y"], domain=DOMAIN),
            h.make_node("Identity", ["x"], ["z"]),
        ],
        [map_input("x", "int64", "float")],
        [tensor("y", "float"), map_input("z", "int64", "float")],
    )
    with pytest.raises(ValueError, match="reads the map 'x' itself"):
        MapSession(shared)


def test_errors_name_the_input_and_the_map() -> None:
    model = operator_model("DictVectorizer", "string", "int64", "int64", string_vocabulary=["a"])
    session = MapSession(model)
    with pytest.raises(nbmapops.CastError, match=r"input 'x': map 1: key 'a': value 2\.5"):
        session.run(None, {"x": [{"a": 1.0}, {"a": 2.5}]})
    with pytest.raises(TypeError, match="values are text"):
        session.run(None, {"x": [{"a": "1"}]})
    with pytest.raises(TypeError, match="input 'x': map 0: key 1 is int"):
        session.run(None, {"x": [{1: 1}]})


@pytest.mark.parametrize(("key", "value"), [("string", "string"), ("int64", "int64")])
def test_types_that_onnxruntime_does_not_take_are_refused_by_its_semantics(
    key: str, value: str
) -> None:
    words: list[Any] = [7] if key == "int64" else ["a"]
    model = operator_model("DictVectorizer", key, value, value, **{f"{key}_vocabulary": words})
    maps = [{words[0]: "p" if value == "string" else 3}]
    with pytest.raises(TypeError, match="DictVectorizer"):
        MapSession(model).run(None, {"x": maps})
    assert MapSession(model, semantics="strict").run(None, {"x": maps})[0].size == 1


def test_errors_show_plain_numbers() -> None:
    model = operator_model("DictVectorizer", "int64", "double", "double", int64_vocabulary=[5])
    refused = r"^MapSession: input 'x': map 1: key 5: value 9007199254740993 cannot become float64"
    with pytest.raises(nbmapops.CastError, match=refused):
        MapSession(model).run(None, {"x": [{5: 1}, {4: 2, 5: 2**53 + 1}]})
    model = operator_model("DictVectorizer", "string", "int64", "int64", string_vocabulary=["a"])
    column = nbmapops.MapBatch.from_arrays(["a", "a"], np.array([1, 2.5], np.float32), [0, 1, 2])
    with pytest.raises(nbmapops.CastError, match=r"input 'x': map 1: key 'a': value 2\.5 cannot"):
        MapSession(model).run(None, {"x": column})


@pytest.mark.parametrize(
    ("declared", "given", "found"),
    [("string", 7, "numbers"), ("string", 0.5, "numbers")]
    + [(kind, "7", "text") for kind in ("int64", "float", "double")],
)
def test_text_is_no_number_and_numbers_are_no_text(declared: str, given: Any, found: str) -> None:
    model = operator_model("CastMap", "int64", declared, "string", cast_to="TO_STRING")
    session = MapSession(model)
    with pytest.raises(TypeError, match=f"^MapSession: input 'x' is .*the values are {found}$"):
        session.run(None, {"x": [{1: given}]})


@pytest.mark.parametrize("kind", ["float", "string"])
def test_maps_without_entries_are_of_every_type(kind: str) -> None:
    model = operator_model("CastMap", "int64", kind, "float", map_form="SPARSE", max_map=2)
    assert MapSession(model).run(None, {"x": [{}, {}]})[0].tolist() == [[0, 0], [0, 0]]


def test_batches_in_every_form(tmp_path: Any) -> None:
    model = operator_model("DictVectorizer", "int64", "double", "double", int64_vocabulary=[5, 6])
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    maps = [{5: 0.5}, {6: 1.5}]
    for source in (path, str(path), model.SerializeToString(), model):
        session = MapSession(source)
        for batch in (maps, tuple(maps), iter(maps), nbmapops.MapBatch.from_dicts(maps)):
            assert session.run(None, {"x": batch})[0].tolist() == [[0.5, 0.0], [0.0, 1.5]]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no signal of one's own")
@pytest.mark.parametrize("one", [True, False])
def test_what_a_signal_handler_raises_comes_out(one: bool) -> None:
    """Also an error of a type that a refused map has."""

    class Rings(UserDict[str, float]):
        def items(self) -> Any:
            if not rung:
                rung.append(True)
                signal.raise_signal(signal.SIGUSR1)
            return super().items()

    def ring(*_: object) -> None:
        raise ValueError("time is up")

    op = nbmapops.DictVectorizer(string_vocabulary=["a", "b"])
    session = MapSession(to_model(op, value_type="float"))
    maps = [Rings(a=1.0), Rings(b=2.0)]
    rung: list[bool] = []
    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with pytest.raises(ValueError, match="time is up"):
            session.run(None, {"x": maps[0] if one else maps})
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert session.run(None, {"x": maps})[0].tolist() == [[1.0, 0.0], [0.0, 2.0]]
