"""ONNX adapter: inputs, outputs and metadata of a model, as onnxruntime describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import onnx

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = {
    getattr(onnx.TensorProto, name.upper()): name
    for name in (
        *("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float", "double", "float16", "bfloat16", "string", "bool", "complex64", "complex128"),
    )
}
# What onnxruntime says of a model without a version.
_NO_VERSION = 2**63 - 1


class NodeArg(NamedTuple):
    """An input or output of a model: what ``onnxruntime.NodeArg`` tells about it.

    Attributes
    ----------
    name : str
    type : str
        For instance ``"map(string,tensor(float))"``.
    shape : list of int, str or None
        A number, a name, or nothing for each dimension that is declared.
    """

    name: str
    type: str
    shape: list[int | str | None]


class ModelMetadata(NamedTuple):
    """What ``onnxruntime.ModelMetadata`` tells about a model.

    Attributes
    ----------
    producer_name, graph_name, domain, description, graph_description : str
    version : int
    custom_metadata_map : dict of str
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


def node_args(values: Iterable[onnx.ValueInfoProto]) -> list[NodeArg]:
    """Describe inputs or outputs of a graph."""
    return [NodeArg(value.name, _type(value.type), _shape(value.type)) for value in values]


def metadata(model: onnx.ModelProto) -> ModelMetadata:
    """Describe a model."""
    return ModelMetadata(
        model.producer_name,
        model.graph.name,
        model.domain,
        model.doc_string,
        model.graph.doc_string,
        model.model_version if model.HasField("model_version") else _NO_VERSION,
        {entry.key: entry.value for entry in model.metadata_props},
    )


def _element(number: int) -> str:
    return _NAMES.get(number) or onnx.TensorProto.DataType.Name(number).lower()


def _type(declared: onnx.TypeProto) -> str:
    kind = declared.WhichOneof("value")
    if kind == "map_type":
        key = _element(declared.map_type.key_type)
        return f"map({key},{_type(declared.map_type.value_type)})"
    if kind == "sequence_type":
        return f"seq({_type(declared.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({_type(declared.optional_type.elem_type)})"
    if kind == "sparse_tensor_type":
        return f"sparse_tensor({_element(declared.sparse_tensor_type.elem_type)})"
    return f"tensor({_element(declared.tensor_type.elem_type)})"


def _shape(declared: onnx.TypeProto) -> list[int | str | None]:
    shape: list[int | str | None] = []
    for dim in declared.tensor_type.shape.dim:
        given = dim.WhichOneof("value")
        shape.append(
            dim.dim_value
            if given == "dim_value"
            else dim.dim_param
            if given == "dim_param"
            else None
        )
    return shape
