"""ONNX: operators from nodes, for the reference evaluator, and in front of onnxruntime.

onnxruntime takes one map per run, and from Python only maps of float values. `MapSession` runs
the map operators at the front of a model here, on a whole batch, and leaves the rest of the model
to onnxruntime.

Examples
--------
>>> import onnx.helper as h
>>> node = h.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a"])
>>> from_node(node)({"a": 2.5})
array([2.5])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import onnx
    from onnx.reference.op_run import OpRun
except ImportError as error:
    raise ImportError("ONNX models need onnx: pip install 'nbmapops[onnx]'") from error

from nbmapops._castmap import CastMap
from nbmapops._dictvectorizer import DictVectorizer
from nbmapops._reading.batch import MapBatch, converted, value_kind
from nbmapops._reading.inputs import read_input, whole
from nbmapops.errors import show

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from nbmapops._constants import Array

__all__ = ["MapSession", "from_node", "reference_ops"]

_DOMAIN = "ai.onnx.ml"
_OPERATORS: dict[str, Any] = {"CastMap": CastMap, "DictVectorizer": DictVectorizer}
_KINDS: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.STRING: "string",
}


def from_node(node: onnx.NodeProto, **options: Any) -> CastMap | DictVectorizer:
    """Make the operator that a node describes.

    Parameters
    ----------
    node : onnx.NodeProto
        Of type CastMap or DictVectorizer in the domain ``ai.onnx.ml``.
    **options
        Parameters of the class that are no ONNX attributes: semantics, fill_value, and for
        DictVectorizer handle_unknown and dtype.

    Returns
    -------
    CastMap or DictVectorizer

    Raises
    ------
    ValueError
        Another node, an attribute that the operator does not have, or values it refuses.

    Examples
    --------
    >>> import onnx.helper as h
    >>> node = h.make_node("CastMap", ["x"], ["y"], domain="ai.onnx.ml", cast_to="TO_INT64")
    >>> from_node(node, semantics="onnxruntime")
    CastMap(cast_to='TO_INT64', semantics='onnxruntime')
    """
    if node.domain != _DOMAIN or node.op_type not in _OPERATORS:
        raise ValueError(
            f"{node.op_type!r} of domain {node.domain!r} is no map operator; "
            f"the map operators are CastMap and DictVectorizer of {_DOMAIN!r}"
        )
    known: Any = onnx.defs.get_schema(node.op_type, domain=_DOMAIN).attributes
    attributes = {}
    for attribute in node.attribute:
        if attribute.name not in known or attribute.type != known[attribute.name].type.value:
            raise ValueError(
                f"{node.op_type}: node {node.name!r} has an attribute {attribute.name!r} of type "
                f"{onnx.AttributeProto.AttributeType.Name(attribute.type)}; "
                f"its attributes are {', '.join(sorted(known))}"
            )
        value = onnx.helper.get_attribute_value(attribute)
        attributes[attribute.name] = _decoded(value)
    operator: CastMap | DictVectorizer = _OPERATORS[node.op_type](**attributes, **options)
    return operator


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int):
        return value
    return [word.decode() if isinstance(word, bytes) else word for word in value]


class _MapOperator(OpRun):
    op_domain = _DOMAIN

    def __init__(self, onnx_node: Any, run_params: Any, schema: Any = None) -> None:
        super().__init__(onnx_node, run_params, schema)
        self._operator = from_node(onnx_node)

    def _run(self, maps: Any, **attributes: Any) -> tuple[Array]:
        del attributes  # the operator has them
        return (self._operator(maps),)


# The evaluator finds an implementation by the name of its class.
reference_ops: list[type] = [type(name, (_MapOperator,), {}) for name in _OPERATORS]
"""For ``onnx.reference.ReferenceEvaluator(model, new_ops=reference_ops)``: both operators, strict.

One map gives shape (n,), a batch (B, n).
"""


class MapSession:
    """Run a model whose front end is map operators, on a batch of maps.

    Stands in for ``onnxruntime.InferenceSession``: the same numbers as feeding it map by map,
    for every map type of the ONNX-ML text, also those that its Python interface cannot take.

    Parameters
    ----------
    model : str, path, bytes or onnx.ModelProto
        Every CastMap and DictVectorizer reads an input of the graph.
    semantics : {"onnxruntime", "strict"}
        Of the map operators.
    handle_unknown : {"error", "ignore"}, optional
        Of the DictVectorizers; by default that of the semantics.
    **session_options
        Passed to ``onnxruntime.InferenceSession`` for the rest of the model, for instance
        ``providers``.

    Attributes
    ----------
    input_names, output_names : list of str
        Of the whole model.

    Raises
    ------
    ValueError
        No map operator in the model, or one in the middle of the graph.

    Notes
    -----
    The rest of the model is given rows, one for each map, and must treat them one by one, as
    models made by skl2onnx do.

    Examples
    --------
    >>> import onnx.helper as h
    >>> from onnx import TensorProto as T
    >>> node = h.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml",
    ...                    string_vocabulary=["a", "b"])
    >>> x = h.make_value_info("x", h.make_map_type_proto(
    ...     T.STRING, h.make_tensor_type_proto(T.FLOAT, [])))
    >>> graph = h.make_graph([node], "g", [x], [h.make_tensor_value_info("y", T.FLOAT, None)])
    >>> model = h.make_model(graph, opset_imports=[h.make_opsetid("ai.onnx.ml", 1)])
    >>> MapSession(model).run(None, {"x": [{"a": 1.0}, {"b": 2.0, "c": 3.0}]})
    [array([[1., 0.],
           [0., 2.]], dtype=float32)]
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | onnx.ModelProto,
        *,
        semantics: str = "onnxruntime",
        handle_unknown: str | None = None,
        **session_options: Any,
    ) -> None:
        model = _loaded(model)
        graph = model.graph
        self.input_names = [value.name for value in _true_inputs(graph)]
        self.output_names = [value.name for value in graph.output]
        self._semantics = semantics
        self._nodes = _map_nodes(graph)
        self._kinds = {
            name: _map_kinds(value)
            for value in graph.input
            for name in [value.name]
            if any(node.input[0] == name for node in self._nodes)
        }
        self._operators = [
            from_node(node, semantics=semantics, **_unknown_option(node, handle_unknown))
            for node in self._nodes
        ]
        tail = _without_front(model, self._nodes, self._operators, self._kinds)
        self._tail: Any = None
        if tail.graph.output:
            try:
                import onnxruntime
            except ImportError as error:
                raise ImportError(
                    "the rest of the model needs onnxruntime: pip install 'nbmapops[onnx]'"
                ) from error
            session_options.setdefault("providers", onnxruntime.get_available_providers())
            self._tail = onnxruntime.InferenceSession(tail.SerializeToString(), **session_options)

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model.

        Parameters
        ----------
        output_names : sequence of str or None
            Which outputs; None: all.
        feeds : mapping
            For each input of the model that is a map: a batch in any form that the operators
            take, or one mapping, which is a batch of one. Tensors as for onnxruntime, with a
            row for each map.

        Returns
        -------
        list
            As onnxruntime returns it: arrays with a row for each map, lists of dicts for a ZipMap.

        Raises
        ------
        ValueError
            Names that the model does not have or that are missing; batches of different size.
        TypeError, CastError, UnknownKeyError, ...
            As by the operators.

        Examples
        --------
        See the class.
        """
        names = self.output_names if output_names is None else list(output_names)
        _check_names("output", [name for name in names if name not in self.output_names])
        _check_names("input", [name for name in feeds if name not in self.input_names])
        missing = [name for name in self.input_names if name not in feeds]
        if missing:
            raise ValueError(f"MapSession: input {show(missing[0])} is missing from the feeds")
        batches = {name: self._batch(name, feeds[name]) for name in self._kinds}
        sizes = {name: len(batch) for name, batch in batches.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"MapSession: the inputs are batches of different size: {sizes}")
        rows = {
            node.output[0]: operator(batches[node.input[0]])
            for node, operator in zip(self._nodes, self._operators, strict=True)
        }
        from_tail = [name for name in names if name not in rows]
        found = dict(rows)
        if from_tail:
            inputs = {value.name for value in self._tail.get_inputs()}
            tail_feeds = {
                name: value for name, value in {**feeds, **rows}.items() if name in inputs
            }
            found.update(zip(from_tail, self._tail.run(from_tail, tail_feeds), strict=True))
        return [found[name] for name in names]

    def _batch(self, name: str, maps: Any) -> MapBatch:
        """Return the maps of an input with the types that the model declares."""
        key_kind, kind = self._kinds[name]
        where = f"MapSession: input {name!r}"
        given = whole(read_input(where, maps, None, None, key_kind), where, key_kind)
        if given.bad is not None:
            raise given.bad.error
        batch = given.source
        assert isinstance(batch, MapBatch)
        own = value_kind(batch)
        # onnxruntime narrows what it is fed to float32 without a look.
        squeeze = kind == "float32" and own != "string" and self._semantics == "onnxruntime"
        rules = "onnxruntime" if squeeze else "exact"
        if len(batch.values) and (own == "string") != (kind == "string"):
            found = "text" if own == "string" else "numbers"
            raise TypeError(f"{where} is declared as a map to {kind}, but the values are {found}")
        return converted(batch, kind, rules, where)


def _check_names(what: str, wrong: list[str]) -> None:
    if wrong:
        raise ValueError(f"MapSession: the model has no {what} {show(wrong[0])}")


def _unknown_option(node: onnx.NodeProto, handle_unknown: str | None) -> dict[str, Any]:
    return {"handle_unknown": handle_unknown} if node.op_type == "DictVectorizer" else {}


def _loaded(model: Any) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, (bytes, bytearray)):
        return onnx.load_model_from_string(bytes(model))
    return onnx.load(model)


def _true_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that somebody must feed: before IR version 4 initializers were inputs."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def _map_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the map operators of the graph, all of which read inputs."""
    nodes = [node for node in graph.node if node.domain == _DOMAIN and node.op_type in _OPERATORS]
    if not nodes:
        raise ValueError(
            "MapSession: the model has no CastMap and no DictVectorizer; "
            "onnxruntime runs it as it is"
        )
    inputs = {value.name for value in graph.input}
    for node in nodes:
        if node.input[0] not in inputs:
            raise ValueError(
                f"MapSession: {node.op_type} {node.name!r} reads {node.input[0]!r}, which is no "
                "input of the model; only map operators at the front can be run on a batch"
            )
    return nodes


def _map_kinds(value: onnx.ValueInfoProto) -> tuple[str, str]:
    """Return the kinds of keys and values of a map input."""
    declared = value.type.map_type
    key = _KINDS.get(declared.key_type)
    found = _KINDS.get(declared.value_type.tensor_type.elem_type)
    if key not in ("int64", "string") or found is None:
        raise ValueError(f"MapSession: input {value.name!r} is not declared as a map that is taken")
    return key, found


def _without_front(
    model: onnx.ModelProto,
    nodes: list[onnx.NodeProto],
    operators: list[Any],
    kinds: dict[str, tuple[str, str]],
) -> onnx.ModelProto:
    """Return the model without its map operators: their results are inputs."""
    tail = onnx.ModelProto()
    tail.CopyFrom(model)
    graph = tail.graph
    rows = {node.output[0] for node in nodes}
    kept = [node for node in graph.node if not rows.intersection(node.output)]
    for node in kept:
        for name in kinds:
            if name in node.input:
                raise ValueError(
                    f"MapSession: {node.op_type} {node.name!r} reads the map {name!r} itself, so "
                    "the model cannot be cut behind its map operators"
                )
    types = {name: number for number, name in _KINDS.items()}
    new_inputs = [value for value in graph.input if value.name not in kinds]
    for node, operator in zip(nodes, operators, strict=True):
        plan = operator._plan
        kind = plan.result_kind(kinds[node.input[0]][1])
        shape = [None, plan.width or None]
        new_inputs.append(onnx.helper.make_tensor_value_info(node.output[0], types[kind], shape))
    outputs = [value for value in graph.output if value.name not in rows]
    for value in outputs:
        if value.type.HasField("tensor_type"):
            # Declared for one map; a batch has more rows.
            value.type.tensor_type.ClearField("shape")
    infos = [value for value in graph.value_info if value.name not in rows]
    _replace(graph.node, kept)
    _replace(graph.input, new_inputs)
    _replace(graph.output, outputs)
    _replace(graph.value_info, infos)
    return tail


def _replace(field: Any, messages: list[Any]) -> None:
    """Give a repeated field other messages, which may be its own."""
    copies = [type(message).FromString(message.SerializeToString()) for message in messages]
    del field[:]
    field.extend(copies)
