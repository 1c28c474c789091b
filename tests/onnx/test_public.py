"""What nbmapops.onnx shows: docstrings follow numpydoc, and onnx is enough for most of it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")

import nbmapops.onnx

from ..fresh import run
from ..test_docs import IGNORED


def public() -> dict[str, Any]:
    found = {}
    for name in nbmapops.onnx.__all__:
        thing = getattr(nbmapops.onnx, name)
        if isinstance(thing, list):
            continue
        found[name] = thing
        if isinstance(thing, type):
            methods = {member: value for member, value in vars(thing).items() if callable(value)}
            found |= {f"{name}.{m}": value for m, value in methods.items() if m[0] != "_"}
    return found


@pytest.mark.parametrize("name", public())
def test_docstring(name: str) -> None:
    pytest.importorskip("numpydoc")
    from numpydoc.docscrape import get_doc_object
    from numpydoc.validate import validate

    errors = validate(get_doc_object(public()[name]))["errors"]
    assert [error for error in errors if error[0] not in IGNORED] == []


def test_only_the_rest_of_a_model_needs_onnxruntime() -> None:
    code = """
import sys
sys.modules["onnxruntime"] = None
import onnx.helper as h
from nbmapops import DictVectorizer
from nbmapops.onnx import MapSession, from_node, to_model, to_node
op = DictVectorizer(string_vocabulary=["a"])
assert from_node(to_node(op)) == op
model = to_model(op)
session = MapSession(model)
assert session.run(None, {"x": {"a": 2.0}})[0].tolist() == [[2.0]]
assert session.get_providers() == ["CPUExecutionProvider"]
model.graph.node[0].output[0] = "r"
model.graph.node.append(h.make_node("Neg", ["r"], ["y"]))
try:
    MapSession(model)
except ImportError as error:
    print(error)
"""
    assert run(code).strip().endswith("needs onnxruntime: pip install 'nbmapops[onnx]'")
