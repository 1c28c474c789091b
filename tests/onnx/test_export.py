"""Operators as nodes and models: run by onnxruntime and by the reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx.checker
import onnxruntime
from onnx.reference import ReferenceEvaluator

from nbmapops import CastMap, DictVectorizer
from nbmapops.onnx import MapSession, from_node, reference_ops, to_model, to_node

from ..ort_capi import MapRunner
from .models import model_of

TEXT = DictVectorizer(string_vocabulary=["b", "", "é", "a"])
IDS = DictVectorizer(int64_vocabulary=[5, -(2**63), 2**63 - 1])
OPERATORS = [
    TEXT,
    IDS,
    DictVectorizer(string_vocabulary=["a"], handle_unknown="ignore"),
    DictVectorizer(string_vocabulary=[]),
    DictVectorizer(int64_vocabulary=[]),
    DictVectorizer(int64_vocabulary=[1, 1], semantics="onnxruntime"),
    CastMap(),
    CastMap(cast_to="TO_STRING", map_form="SPARSE", max_map=7),
    CastMap(cast_to="TO_INT64", semantics="onnxruntime"),
]


@pytest.mark.parametrize("op", OPERATORS, ids=repr)
def test_a_node_and_its_operator_lead_to_each_other(op: Any) -> None:
    node = to_node(op, input="maps", output="rows", name="front")
    assert (list(node.input), list(node.output), node.name) == (["maps"], ["rows"], "front")
    kept: dict[str, Any] = {"semantics": "onnxruntime"} if "onnxruntime" in repr(op) else {}
    if "ignore" in repr(op):
        kept["handle_unknown"] = "ignore"
    assert from_node(node, **kept) == op


VALUES: dict[str, list[Any]] = {
    "float": [0.5, -0.0, 2.5],
    "double": [0.1, 1e300, -0.0],
    "int64": [2**53 + 1, -1, 0],
    "string": ["p", "", "é"],
}
TYPES = [
    (IDS, "float"), (IDS, "double"), (IDS, "string"),
    (TEXT, "float"), (TEXT, "double"), (TEXT, "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "value_type"), TYPES, ids=str)
def test_models_give_the_operators_rows_everywhere(op: Any, value_type: Any) -> None:
    words: list[Any] = [op.vocabulary[2], op.vocabulary[0]]
    words = [word if isinstance(word, str) else int(word) for word in words]
    model = to_model(op, value_type=value_type, input="maps", output="rows")
    assert model.producer_name == "nbmapops"
    maps = [dict(zip(words, VALUES[value_type], strict=False)), {words[0]: VALUES[value_type][2]}]
    expected = op(maps).tolist()
    evaluator: Any = ReferenceEvaluator(model, new_ops=reference_ops)
    assert [evaluator.run(None, {"maps": one})[0].tolist() for one in maps] == expected
    assert MapSession(model, semantics="strict").run(None, {"maps": maps})[0].tolist() == expected
    if value_type == "float":
        session = onnxruntime.InferenceSession(model.SerializeToString())
        assert [session.run(None, {"maps": one})[0][0].tolist() for one in maps] == expected
        return
    onnxruntime.InferenceSession(model.SerializeToString())  # it loads, but Python cannot feed it
    runner = MapRunner()
    key_type = "string" if isinstance(words[0], str) else "int64"
    attributes = {f"{key_type}_vocabulary": list(op.vocabulary)}
    try:
        for one, row in zip(maps, expected, strict=True):
            keys, values = (key_type, list(one)), (value_type, list(one.values()))
            found = runner.run("DictVectorizer", attributes, keys, values)[2]
            assert [x.decode() if isinstance(x, bytes) else x for x in found.tolist()] == row
    finally:
        runner.close()


@pytest.mark.parametrize("cast_to", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
@pytest.mark.parametrize("form", [{}, {"map_form": "SPARSE", "max_map": 4}], ids=str)
def test_cast_map_runs_in_onnxruntime(cast_to: Any, form: dict[str, Any]) -> None:
    op = CastMap(cast_to=cast_to, **form)
    one = {3: 2.5, 0: -1.25, 2: 0.0, 1: 7.0}
    session = onnxruntime.InferenceSession(to_model(op).SerializeToString())
    assert session.run(None, {"x": one})[0][0].tolist() == op(one).tolist()
    onnxruntime.InferenceSession(to_model(op, value_type="string").SerializeToString())


def test_a_learned_vocabulary_becomes_a_model() -> None:
    maps = [{"b": 1.5, "a": 0.5}, {"c": 2.0}]
    op = DictVectorizer.from_maps(maps)
    session = onnxruntime.InferenceSession(to_model(op).SerializeToString())
    rows = np.concatenate([session.run(None, {"x": one})[0] for one in maps])
    assert rows.tolist() == op(maps).tolist()


@pytest.mark.parametrize(
    ("value_type", "dtype", "value"),
    [("float", "double", 0.1), ("int64", "float", 2**24 + 1), ("double", "double", 0.1)],
)
def test_a_dtype_that_cast_gives_exactly_is_written(
    value_type: Any, dtype: Any, value: Any
) -> None:
    op = DictVectorizer(string_vocabulary=["a", "b"], dtype=dtype)
    model = to_model(op, value_type=value_type)
    given = np.float32(value) if value_type == "float" else value
    expected = op({"a": given})
    evaluator: Any = ReferenceEvaluator(model, new_ops=reference_ops)
    (found,) = evaluator.run(None, {"x": {"a": given}})
    assert found.tolist() == expected.tolist()
    assert found.dtype == expected.dtype
    (rows,) = MapSession(model).run(None, {"x": {"a": given}})
    assert rows[0].tolist() == expected.tolist()
    assert len(model.graph.node) == (1 if value_type == dtype else 2)


WORDS: dict[str, Any] = {"string_vocabulary": ["a"]}
NO_WORD: list[tuple[Any, dict[str, Any], str]] = [
    (DictVectorizer(**WORDS, fill_value=1), {}, "fill_value 1"),
    (DictVectorizer(**WORDS, fill_value=-0.0), {}, "fill_value -0.0"),
    (DictVectorizer(**WORDS, fill_value=float("nan")), {}, "fill_value nan"),
    (CastMap(cast_to="TO_STRING", fill_value=""), {}, 'fill_value ""'),
    (CastMap(cast_to="TO_STRING", fill_value="-"), {}, "fill_value '-'"),
    (DictVectorizer(**WORDS, handle_unknown="error"), {}, 'handle_unknown="error"'),
    (DictVectorizer(**WORDS, dtype="int64"), {}, 'pass value_type="int64"'),
    (DictVectorizer(**WORDS, dtype="float"), {"value_type": "double"}, 'value_type="float"'),
    (DictVectorizer(**WORDS, dtype="double"), {"value_type": "int64"}, 'value_type="double"'),
    (DictVectorizer(**WORDS, dtype="string"), {}, 'pass value_type="string"'),
    (DictVectorizer(**WORDS), {"value_type": "string"}, "one of float, double, int64, not"),
    (IDS, {"value_type": "int64"}, "one of float, double, string, not"),
    (CastMap(), {"value_type": "double"}, "one of float, string, not"),
    (DictVectorizer(**WORDS), {"value_type": "int"}, "not 'int'"),
    (DictVectorizer(string_vocabulary=["a", "\ud800"]), {}, "word 1, .* surrogate"),
    (
        DictVectorizer(**WORDS, int64_vocabulary=[1], semantics="onnxruntime"),
        {},
        "both vocabularies",
    ),
]


@pytest.mark.parametrize(("op", "options", "message"), NO_WORD, ids=str)
def test_what_onnx_has_no_word_for_is_refused(
    op: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^(DictVectorizer|CastMap): .*{message}"):
        to_model(op, **options)
    if not options and "value_type" not in message:
        with pytest.raises(ValueError, match=f"^(DictVectorizer|CastMap): .*{message}"):
            to_node(op)


def test_a_node_has_no_dtype() -> None:
    with pytest.raises(ValueError, match="no attribute for dtype"):
        to_node(DictVectorizer(**WORDS, dtype="double"))


def test_zeros_as_fill_value_are_those_of_onnx() -> None:
    for fill in (0, 0.0):
        assert to_node(DictVectorizer(**WORDS, fill_value=fill)) == to_node(DictVectorizer(**WORDS))


def test_a_node_stands_in_a_larger_model() -> None:
    from onnx import helper

    model = to_model(TEXT)
    nodes = [to_node(TEXT, output="rows"), helper.make_node("Neg", ["rows"], ["y"])]
    larger = model_of(nodes, list(model.graph.input), list(model.graph.output))
    onnx.checker.check_model(larger)
    assert MapSession(larger).run(None, {"x": {"a": 1.5}})[0].tolist() == [[0, 0, 0, -1.5]]
