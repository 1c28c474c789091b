"""Every model that onnxruntime runs with a map in front, or a clear ValueError (P48-P51, P63)."""

from __future__ import annotations

import pickle
import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx.helper as h
import onnxruntime
from onnx import TensorProto as T

from nbmapops.onnx import MapSession

from .models import DOMAIN, map_input, model_of, operator_model, tensor

TEXT = {"string_vocabulary": ["a", "b"]}


def vectorizer(source: str, rows: str, **attributes: Any) -> Any:
    return h.make_node("DictVectorizer", [source], [rows], domain=DOMAIN, **(attributes or TEXT))


def quiet_ort(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of every overridable initializer
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def one_by_one(model: Any, maps: list[Any], **tensors: Any) -> list[np.ndarray[Any, Any]]:
    session = quiet_ort(model)
    runs = [session.run(None, {"x": one, **tensors}) for one in maps]
    return [np.concatenate(parts) for parts in zip(*runs, strict=True)]


def weighed(ir_version: int, *, as_input: bool = True) -> Any:
    """Rows times a weight that is an initializer and, where asked, an input, too."""
    inputs = [map_input("x", "string", "float")]
    if as_input:
        inputs.append(tensor("w", "float", [2]))
    model = model_of(
        [vectorizer("x", "r"), h.make_node("Mul", ["r", "w"], ["y"])],
        inputs,
        [tensor("y", "float")],
    )
    model.graph.initializer.append(h.make_tensor("w", T.FLOAT, [2], [2.0, 3.0]))
    model.ir_version = ir_version
    return model


MAPS = [{"a": 1.5}, {"b": -2.0, "q": 1.0}, {"a": 0.25, "b": 4.0}]


# ----------------------------------------------------------------------- as InferenceSession
def described(values: list[Any]) -> list[tuple[str, str, list[Any]]]:
    return [(value.name, value.type, value.shape) for value in values]


MODELS = {
    "alone": operator_model("DictVectorizer", "string", "double", "double", **TEXT),
    "weighed": weighed(9),
    "IR version 3": weighed(3),
    "CastMap": operator_model("CastMap", "int64", "string", "int64", cast_to="TO_INT64"),
    "tensors": model_of(
        [vectorizer("x", "r"), h.make_node("Mul", ["r", "t"], ["y"])],
        [map_input("x", "string", "float"), tensor("t", "float", ["N", 1])],
        [tensor("y", "float", ["N", 2]), tensor("r", "float", [1, 2])],
    ),
    "ZipMap": model_of(
        [
            vectorizer("x", "r"),
            h.make_node("ZipMap", ["r"], ["y"], domain=DOMAIN, classlabels_int64s=[7, 8]),
        ],
        [map_input("x", "string", "float")],
        [
            h.make_value_info(
                "y",
                h.make_sequence_type_proto(
                    h.make_map_type_proto(T.INT64, h.make_tensor_type_proto(T.FLOAT, []))
                ),
            )
        ],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_session_describes_itself_as_that_of_onnxruntime(name: str) -> None:
    model = MODELS[name]
    model.producer_name, model.model_version, model.doc_string = "tests", 4, "a text"
    h.set_model_props(model, {"key": "value"})
    mine, theirs = MapSession(model), quiet_ort(model)
    for method in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        assert described(getattr(mine, method)()) == described(getattr(theirs, method)()), method
    for attribute in (
        "producer_name", "graph_name", "domain", "description", "graph_description", "version",
        "custom_metadata_map",
    ):  # fmt: skip
        expected = getattr(theirs.get_modelmeta(), attribute)
        assert getattr(mine.get_modelmeta(), attribute) == expected, attribute
    assert mine.get_providers() == theirs.get_providers()
    assert mine.input_names == [value.name for value in theirs.get_inputs()]
    assert mine.output_names == [value.name for value in theirs.get_outputs()]


def test_a_list_of_inputs_that_its_owner_changes_is_given_again_as_it_was() -> None:
    session = MapSession(weighed(9))
    for method in (session.get_inputs, session.get_outputs):
        before = list(method())
        method().clear()
        assert method() == before != []


def test_a_model_without_a_version_is_described_as_by_onnxruntime() -> None:
    model = operator_model("DictVectorizer", "string", "float", "float", **TEXT)
    assert MapSession(model).get_modelmeta().version == quiet_ort(model).get_modelmeta().version


def test_repr_is_short() -> None:
    assert repr(MapSession(weighed(9))) == "<MapSession 'graph': x -> y; r: DictVectorizer>"


def test_run_options_reach_the_rest_of_the_model() -> None:
    session = MapSession(weighed(9, as_input=False))
    options = onnxruntime.RunOptions()
    assert session.run(None, {"x": MAPS}, options)[0].shape == (3, 2)
    options.terminate = True
    with pytest.raises(Exception, match="terminate"):
        session.run(None, {"x": MAPS}, options)


def test_pickles_hold_model_and_options() -> None:
    session = MapSession(
        weighed(9, as_input=False), semantics="strict", providers=["CPUExecutionProvider"]
    )
    again = pickle.loads(pickle.dumps(session))
    assert again.run(None, {"x": MAPS[:1]})[0].tolist() == [[3.0, 0.0]]
    with pytest.raises(KeyError, match="'q'"):
        again.run(None, {"x": MAPS})
    assert repr(again) == repr(session)


def test_pickles_serve_other_processes() -> None:
    joblib = pytest.importorskip("joblib")
    session = MapSession(weighed(9, as_input=False))
    expected = session.run(None, {"x": MAPS})[0].tolist()
    parts = joblib.Parallel(n_jobs=2)(
        joblib.delayed(session.run)(None, {"x": [one]}) for one in MAPS
    )
    assert [part[0][0].tolist() for part in parts] == expected


def test_threads_share_a_session() -> None:
    model = weighed(9, as_input=False)
    session = MapSession(model)
    rng = np.random.default_rng(3)
    batches = [
        [{"a": float(v), "b": float(w)} for v, w in rng.random((size, 2)).astype("f4")]
        for size in (1, 2, 9, 40)
    ]
    expected = [one_by_one(model, batch)[0].tolist() for batch in batches]
    wrong: list[object] = []

    def work(first: int) -> None:
        for turn in range(50):
            which = (first + turn) % len(batches)
            found = session.run(None, {"x": batches[which]})[0].tolist()
            if found != expected[which]:
                wrong.append((which, found))

    workers = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


# ----------------------------------------------------------------------- forms of models
@pytest.mark.parametrize(("key", "maps"), [("string", MAPS), ("int64", [{2: 1.0}, {1: 3.0}])])
def test_the_declared_keys_pick_one_of_two_vocabularies(key: str, maps: list[Any]) -> None:
    both = {"string_vocabulary": ["a", "b"], "int64_vocabulary": [1, 2, 3]}
    model = operator_model("DictVectorizer", key, "float", "float", **both)
    for semantics in ("onnxruntime", "strict"):
        session = MapSession(model, semantics=semantics, handle_unknown="ignore")
        assert session.run(None, {"x": maps})[0].tolist() == one_by_one(model, maps)[0].tolist()


@pytest.mark.parametrize("ir_version", [4, 9])
def test_overridable_initializers_may_be_fed(ir_version: int) -> None:
    model = weighed(ir_version)
    session = MapSession(model)
    weights = np.array([10.0, 20.0], np.float32)
    assert session.input_names == ["x"]
    assert session.run(None, {"x": MAPS})[0].tolist() == one_by_one(model, MAPS)[0].tolist()
    mine = session.run(None, {"x": MAPS, "w": weights})
    assert mine[0].tolist() == one_by_one(model, MAPS, w=weights)[0].tolist()


def test_initializers_of_ir_version_3_are_inputs_that_nobody_feeds() -> None:
    model = weighed(3)
    session = MapSession(model)
    assert session.run(None, {"x": MAPS})[0].tolist() == one_by_one(model, MAPS)[0].tolist()
    with pytest.raises(ValueError, match="no input 'w'"):
        session.run(None, {"x": MAPS, "w": np.ones(2, np.float32)})
    with pytest.raises(Exception, match="w"):
        one_by_one(model, MAPS, w=np.ones(2, np.float32))


def test_a_map_input_that_nothing_reads_is_fed_like_the_others() -> None:
    model = model_of(
        [vectorizer("x", "y")],
        [map_input("x", "string", "float"), map_input("u", "int64", "float")],
        [tensor("y", "float")],
    )
    session = MapSession(model)
    unread = [{1: 1.0}, {}, {2: 0.5}]
    assert session.run(None, {"x": MAPS, "u": unread})[0].tolist() == [[1.5, 0], [0, -2], [0.25, 4]]
    with pytest.raises(ValueError, match="'u' is missing"):
        session.run(None, {"x": MAPS})
    with pytest.raises(ValueError, match="different size"):
        session.run(None, {"x": MAPS, "u": unread[:2]})
    with pytest.raises(TypeError, match="input 'u': map 1"):
        session.run(None, {"x": MAPS, "u": [{1: 1.0}, {"a": 1.0}, {}]})


def fixed_shapes() -> Any:
    """All shapes are declared for one map, inside the graph, too."""
    model = model_of(
        [
            vectorizer("x", "r"),
            h.make_node("Add", ["r", "t"], ["s"]),
            h.make_node("Abs", ["s"], ["y"]),
        ],
        [map_input("x", "string", "float"), tensor("t", "float", [1, 2])],
        [tensor("y", "float", [1, 2]), tensor("r", "float", [1, 2])],
    )
    model.graph.value_info.extend([tensor("s", "float", [1, 2])])
    return model


def test_shapes_that_are_declared_for_one_map_hold_for_each_of_a_batch(
    capfd: pytest.CaptureFixture[str],
) -> None:
    session = MapSession(fixed_shapes())
    shift = np.array([[1.0, -1.0]], np.float32)
    expected = one_by_one(fixed_shapes(), MAPS, t=shift)
    capfd.readouterr()
    for fed in (shift, np.repeat(shift, 3, axis=0)):
        found = session.run(None, {"x": MAPS, "t": fed})
        assert [part.tolist() for part in found] == [part.tolist() for part in expected]
    assert capfd.readouterr().err == ""


def test_functions_are_looked_into() -> None:
    opsets = [h.make_opsetid("", 18), h.make_opsetid(DOMAIN, 1)]
    own = h.make_opsetid("own", 1)
    nodes = [vectorizer("m", "r"), h.make_node("Neg", ["r"], ["o"])]
    inner = h.make_function("own", "Inner", ["m"], ["o"], nodes, opsets)
    nodes = [h.make_node("Inner", ["m"], ["o"], domain="own")]
    outer = h.make_function("own", "Outer", ["m"], ["o"], nodes, [*opsets, own])
    for name in ("Inner", "Outer"):
        model = model_of(
            [h.make_node(name, ["x"], ["y"], domain="own")],
            [map_input("x", "string", "float")],
            [tensor("y", "float")],
        )
        model.functions.extend([inner, outer])
        model.opset_import.extend([own])
        (rows,) = MapSession(model).run(None, {"x": MAPS})
        assert rows.tolist() == [[-1.5, 0], [0, 2], [-0.25, -4]]
        if name == "Inner":  # onnxruntime takes no maps in functions of functions
            assert rows.tolist() == one_by_one(model, MAPS)[0].tolist()


def inside_an_if() -> Any:
    branches = {
        f"{name}_branch": h.make_graph([vectorizer("x", name)], name, [], [tensor(name, "float")])
        for name in ("then", "else")
    }
    return model_of(
        [h.make_node("If", ["c"], ["y"], name="choice", **branches)],
        [map_input("x", "string", "float"), h.make_tensor_value_info("c", T.BOOL, [])],
        [tensor("y", "float")],
    )


def without_inputs(inputs: list[str]) -> Any:
    node = vectorizer("x", "r")
    del node.input[:]
    node.input.extend(inputs)
    return model_of(
        [vectorizer("x", "y"), node], [map_input("x", "string", "float")], [tensor("y", "float")]
    )


def of_a_tensor() -> Any:
    return model_of([vectorizer("x", "y")], [tensor("x", "float")], [tensor("y", "float")])


REFUSED = {
    "in a subgraph": (inside_an_if(), "DictVectorizer is in a subgraph of If 'choice'"),
    "no input": (without_inputs([]), "DictVectorizer must have one input and one output, not 0"),
    "empty input": (without_inputs([""]), "must have one input and one output, not 0"),
    "two inputs": (without_inputs(["x", "x"]), "must have one input and one output, not 2"),
    "a tensor": (of_a_tensor(), "reads 'x', which is not declared as a map"),
    "no vocabulary": (
        operator_model("DictVectorizer", "int64", "float", "float", **TEXT),
        "has no int64_vocabulary, but input 'x' is declared with int64 keys",
    ),
    "text keys of a CastMap": (
        operator_model("CastMap", "string", "float", "float"),
        "takes int64 keys, but input 'x' is declared with text keys",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_cannot_be_run_on_a_batch_are_refused_at_once(name: str) -> None:
    model, message = REFUSED[name]
    with pytest.raises(ValueError, match=f"^MapSession: .*{message}"):
        MapSession(model)


def test_a_model_that_does_not_give_a_row_for_each_map_is_refused() -> None:
    model = model_of(
        [vectorizer("x", "r"), h.make_node("ReduceSum", ["r"], ["y"], keepdims=0)],
        [map_input("x", "string", "float")],
        [tensor("y", "float")],
    )
    session = MapSession(model)
    assert session.run(None, {"x": MAPS[0]})[0] == 1.5
    with pytest.raises(ValueError, match=r"output 'y' of 3 maps must have a row for each.*\(\)"):
        session.run(None, {"x": MAPS})


def test_an_output_that_does_not_depend_on_maps_is_given_as_it_is() -> None:
    model = model_of(
        [vectorizer("x", "y"), h.make_node("Neg", ["w"], ["z"])],
        [map_input("x", "string", "float")],
        [tensor("y", "float"), tensor("z", "float")],
    )
    model.graph.initializer.append(h.make_tensor("w", T.FLOAT, [3], [1.0, 2.0, 3.0]))
    session = MapSession(model)
    for maps in (MAPS[:2], []):
        assert session.run(None, {"x": maps})[1].tolist() == [-1, -2, -3]


def test_no_maps_give_no_rows() -> None:
    for name in ("weighed", "tensors", "ZipMap", "alone"):
        session = MapSession(MODELS[name])
        feeds: dict[str, Any] = {"x": []}
        if name == "tensors":
            feeds["t"] = np.zeros((0, 1), np.float32)
        outputs = session.run(None, feeds)
        assert [len(output) for output in outputs] == [0] * len(outputs)
        if name != "ZipMap":
            assert outputs[0].shape == (0, 2)
    assert outputs[0].dtype == np.float64


# ----------------------------------------------------------------------- numbers
NUMBERS = [
    {"a": 1700000000000000001, "b": 0.5},
    {"a": 2**63, "b": -(2**63) - 1},
    {"a": 2**54 + 2**30 + 1},  # rounded to float64 first, then to float32
    {"a": 10**38, "b": 10**39},
    {"a": True, "b": 2**53 + 1},
    {"b": np.int64(2**54 + 2**30 + 1)},
    {"a": 1e300, "b": -1e-300},
    {"a": Decimal("0.1"), "b": Fraction(1, 3)},
]


@pytest.mark.parametrize("form", [list, tuple, iter, "series", "one by one", "ints alone"])
def test_numbers_beyond_int64_and_float64_are_narrowed_as_onnxruntime_narrows_them(
    form: Any,
) -> None:
    model = operator_model("DictVectorizer", "string", "float", "float", **TEXT)
    session = MapSession(model)
    maps: list[Any] = NUMBERS
    if form == "ints alone":
        maps = [NUMBERS[2], {"b": 2**54 + 2**30 + 1}]
    expected = one_by_one(model, maps)[0]
    if form == "series":
        given: Any = pytest.importorskip("pandas").Series(maps)
    else:
        given = maps if isinstance(form, str) else form(maps)
    if form == "one by one":
        found = np.concatenate([session.run(None, {"x": one})[0] for one in maps])
    else:
        found = session.run(None, {"x": given})[0]
    assert found.tolist() == expected.tolist()


def test_integers_beyond_all_floats_and_other_overflows_name_the_map() -> None:
    model = operator_model("DictVectorizer", "string", "float", "float", **TEXT)
    with pytest.raises(OverflowError, match=r"input 'x': map 1: key 'a': value 10{20}.*beyond all"):
        MapSession(model).run(None, {"x": [{"a": 1.0}, {"a": 10**400}]})
    with pytest.raises(OverflowError, match="map 1: key 'a'"):
        MapSession(model, semantics="strict").run(None, {"x": [{"a": 1}, {"a": 2**63}]})
    exact = operator_model("DictVectorizer", "string", "double", "double", **TEXT)
    with pytest.raises(OverflowError, match="map 1: key 'a'"):
        MapSession(exact).run(None, {"x": [{"a": 1}, {"a": 2**63}]})


def test_signs_of_zero_and_nan_are_kept() -> None:
    model = operator_model("DictVectorizer", "string", "float", "float", **TEXT)
    (rows,) = MapSession(model).run(None, {"x": [{"a": -0.0, "b": float("nan")}, {"b": -0.0}]})
    assert np.signbit(rows).tolist() == [[True, False], [False, True]]
    assert np.isnan(rows[0, 1])
