"""Small models with a map operator in front."""

from __future__ import annotations

from typing import Any

import onnx.helper as h
from onnx import TensorProto as T

TYPES = {"float": T.FLOAT, "double": T.DOUBLE, "int64": T.INT64, "string": T.STRING}
DOMAIN = "ai.onnx.ml"


def map_input(name: str, key: str, value: str) -> Any:
    return h.make_value_info(
        name, h.make_map_type_proto(TYPES[key], h.make_tensor_type_proto(TYPES[value], []))
    )


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    return h.make_model(
        h.make_graph(nodes, "graph", inputs, outputs),
        opset_imports=[h.make_opsetid("", 18), h.make_opsetid(DOMAIN, 1)],
        ir_version=9,
    )


def tensor(name: str, kind: str, shape: Any = None) -> Any:
    return h.make_tensor_value_info(name, TYPES[kind], shape)


def operator_model(op: str, key: str, value: str, result: str, **attributes: Any) -> Any:
    node = h.make_node(op, ["x"], ["y"], domain=DOMAIN, **attributes)
    return model_of([node], [map_input("x", key, value)], [tensor("y", result)])
