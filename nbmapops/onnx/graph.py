"""ONNX adapter: a model is cut behind the map operators at its front."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import onnx
import onnx.helper
import onnx.inliner

from nbmapops.errors import show
from nbmapops.onnx.nodes import attributes_of, is_map_operator

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, MutableSequence

Message = TypeVar(
    "Message", onnx.NodeProto, onnx.ValueInfoProto, onnx.TensorProto, onnx.AttributeProto
)
Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto"

_ELEMENTS = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.STRING: "string",
}
_ELEMENT_TYPES = {kind: number for number, kind in _ELEMENTS.items()}
_CAST_TO = {"TO_FLOAT": "float32", "TO_STRING": "string", "TO_INT64": "int64"}


class MapType(NamedTuple):
    """The declared type of a map input: kinds of its keys and values."""

    key_kind: str
    value_kind: str


class Front(NamedTuple):
    """A map operator at the front of a model."""

    node: onnx.NodeProto  # with the vocabulary of the declared keys only
    source: str  # the map input it reads
    rows: str  # what it writes
    kind: str  # of the result
    width: int | None  # columns of the result, where they are fixed


class Cut(NamedTuple):
    """A model in two parts: its map operators, and the rest."""

    maps: dict[str, MapType]
    fronts: list[Front]
    tail: onnx.ModelProto  # the rows are inputs; without outputs where nothing is left to do


def load(model: Source) -> onnx.ModelProto:
    """Return the model of a file, of bytes, or the message itself."""
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, (bytes, bytearray, memoryview)):
        return onnx.load_model_from_string(bytes(model))
    return onnx.load(model)


def cut(model: onnx.ModelProto) -> Cut:
    """Cut a model behind its map operators; the model itself stays as it is."""
    if any(is_map_operator(node) for function in model.functions for node in _walk(function.node)):
        model = onnx.inliner.inline_local_functions(model)
    maps = {
        value.name: _map_type(value)
        for value in model.graph.input
        if value.type.HasField("map_type")
    }
    fronts = [_front(node, maps) for node in _map_nodes(model.graph)]
    return Cut(maps, fronts, _tail(model, maps, fronts))


def required_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that somebody must feed: those without an initializer."""
    initial = initial_names(model.graph)
    return [value for value in model.graph.input if value.name not in initial]


def overridable_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs with an initializer; before IR version 4 every initializer was an input."""
    if model.ir_version < 4:
        return []
    initial = initial_names(model.graph)
    return [value for value in model.graph.input if value.name in initial]


def initial_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the initializers of a graph."""
    sparse = {tensor.values.name for tensor in graph.sparse_initializer}
    return {tensor.name for tensor in graph.initializer} | sparse


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs among the attributes of a node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def names_read(node: onnx.NodeProto) -> set[str]:
    """Return all names that a node reads, by itself or in its subgraphs."""
    names = set(node.input)
    for graph in subgraphs(node):
        names.update(value.name for value in graph.output)
        for inner in graph.node:
            names |= names_read(inner)
    return names


def replace(field: MutableSequence[Message], messages: Iterable[Message]) -> None:
    """Give a repeated field other messages, which may be its own."""
    copies = []
    for message in messages:
        copy = type(message)()
        copy.CopyFrom(message)
        copies.append(copy)
    del field[:]
    field.extend(copies)


def _walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _walk(graph.node)


def _map_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the map operators of the graph, all of which read inputs."""
    nodes = [node for node in graph.node if is_map_operator(node)]
    for node in graph.node:
        for inner in (inner for sub in subgraphs(node) for inner in _walk(sub.node)):
            if is_map_operator(inner):
                raise ValueError(
                    f"MapSession: {_named(inner)} is in a subgraph of {_named(node)}; only map "
                    "operators in the graph of the model itself can be run on a batch"
                )
    if not nodes:
        raise ValueError(
            "MapSession: the model has no CastMap and no DictVectorizer; "
            "onnxruntime runs it as it is"
        )
    inputs = {value.name for value in graph.input}
    for node in nodes:
        if len(node.input) != 1 or not node.input[0] or len(node.output) != 1:
            raise ValueError(
                f"MapSession: {_named(node)} must have one input and one output, "
                f"not {len([name for name in node.input if name])} and {len(node.output)}"
            )
        if node.input[0] not in inputs:
            raise ValueError(
                f"MapSession: {_named(node)} reads {node.input[0]!r}, which is not an "
                "input of the model; only map operators at the front can be run on a batch"
            )
    return nodes


def _named(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name!r}" if node.name else node.op_type


def _map_type(value: onnx.ValueInfoProto) -> MapType:
    declared = value.type.map_type
    key = _ELEMENTS.get(declared.key_type)  # type: ignore[call-overload]
    kind = _ELEMENTS.get(declared.value_type.tensor_type.elem_type)  # type: ignore[call-overload]
    if key not in ("int64", "string") or kind is None:
        raise ValueError(
            f"MapSession: input {show(value.name)} must be declared as a map from int64 or string "
            "to float, double, int64 or string"
        )
    return MapType(key, kind)


def _front(node: onnx.NodeProto, maps: dict[str, MapType]) -> Front:
    """Describe a map operator; of two vocabularies the declared type of the keys picks one."""
    source = node.input[0]
    if source not in maps:
        raise ValueError(
            f"MapSession: {_named(node)} reads {source!r}, which is not declared as a map"
        )
    key_kind, kind = maps[source]
    attributes = attributes_of(node)
    if node.op_type == "CastMap":
        if key_kind != "int64":
            raise ValueError(
                f"MapSession: {_named(node)} takes int64 keys, but input {source!r} is declared "
                "with text keys"
            )
        sparse = attributes.get("map_form", "DENSE") == "SPARSE"
        width = int(str(attributes.get("max_map", 1))) if sparse else None
        kind = _CAST_TO.get(str(attributes.get("cast_to", "TO_FLOAT")), kind)
        return Front(node, source, node.output[0], kind, width)
    name = f"{key_kind}_vocabulary"
    if name not in attributes:
        raise ValueError(
            f"MapSession: {_named(node)} has no {name}, but input {source!r} is declared with "
            f"{key_kind} keys"
        )
    chosen = onnx.NodeProto()
    chosen.CopyFrom(node)
    replace(chosen.attribute, [a for a in node.attribute if a.name == name])
    words = attributes[name]
    assert isinstance(words, list)
    return Front(chosen, source, node.output[0], kind, len(words))


def _tail(model: onnx.ModelProto, maps: dict[str, MapType], fronts: list[Front]) -> onnx.ModelProto:
    """Return the model without its map operators: their results are inputs."""
    tail = onnx.ModelProto()
    tail.CopyFrom(model)
    graph = tail.graph
    rows = {front.rows for front in fronts}
    kept = [node for node in graph.node if not is_map_operator(node)]
    for node in kept:
        for name in maps.keys() & names_read(node):
            raise ValueError(
                f"MapSession: {_named(node)} reads the map {name!r} itself, so "
                "the model cannot be cut behind its map operators"
            )
    inputs = [value for value in graph.input if value.name not in maps]
    initial = initial_names(graph)
    for value in inputs:
        if value.name not in initial:
            _for_a_batch(value)
    inputs += [rows_input(front.rows, front.kind, front.width) for front in fronts]
    outputs = [value for value in graph.output if value.name not in rows]
    for value in outputs:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")  # declared for one map
    replace(graph.node, kept)
    replace(graph.input, inputs)
    replace(graph.output, outputs)
    del graph.value_info[:]  # shapes for one map, of which onnxruntime would warn
    return tail


def rows_input(name: str, kind: str, width: int | None) -> onnx.ValueInfoProto:
    """Declare a tensor with a row for each map."""
    return onnx.helper.make_tensor_value_info(name, _ELEMENT_TYPES[kind], [None, width])


def _for_a_batch(value: onnx.ValueInfoProto) -> None:
    """Let a tensor input that is declared with one row have one for each map."""
    dims = value.type.tensor_type.shape.dim
    if dims and dims[0].HasField("dim_value") and dims[0].dim_value == 1:
        dims[0].ClearField("dim_value")
