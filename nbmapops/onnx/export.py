"""ONNX adapter: operators written as nodes and models."""

from __future__ import annotations

from math import copysign
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import onnx
import onnx.helper

from nbmapops._castmap import CastMap
from nbmapops._dictvectorizer import DictVectorizer
from nbmapops.errors import show
from nbmapops.onnx.nodes import DOMAIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

ValueType: TypeAlias = Literal["float", "double", "int64", "string"]

_ELEMENTS = {
    "float": onnx.TensorProto.FLOAT,
    "double": onnx.TensorProto.DOUBLE,
    "int64": onnx.TensorProto.INT64,
    "string": onnx.TensorProto.STRING,
}
_NAMES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.int64): "int64",
    np.dtype(object): "string",
}
# The map types of the ONNX-ML text.
_TYPES = {
    ("CastMap", "int64"): ("float", "string"),
    ("DictVectorizer", "int64"): ("float", "double", "string"),
    ("DictVectorizer", "string"): ("float", "double", "int64"),
}
# Conversions that ONNX's Cast makes of every value as `dtype` does.
_SAME_BY_CAST = {("float", "double"), ("int64", "float")}
# Old enough for every runtime that knows the two operators, new enough for Cast.
_IR_VERSION, _OPSET = 8, 13


def to_node(
    op: CastMap | DictVectorizer, *, input: str = "x", output: str = "y", name: str = ""
) -> onnx.NodeProto:
    """Write an operator as an ONNX node.

    Parameters
    ----------
    op : CastMap or DictVectorizer
        What to write.
    input, output : str
        Names of the map and of the tensor.
    name : str
        Of the node.

    Returns
    -------
    onnx.NodeProto
        In the domain ``ai.onnx.ml``; `from_node` makes an equal operator of it, if `op` is strict
        and leaves out fill_value and handle_unknown.

    Raises
    ------
    ValueError
        An option that ONNX cannot express: a fill_value other than 0, a dtype,
        ``handle_unknown="error"``, unknown_columns.

    Notes
    -----
    The ONNX-ML text demands that every key is in the vocabulary; what a runtime does with others
    is its own: onnxruntime leaves them out.

    Examples
    --------
    >>> from nbmapops import DictVectorizer
    >>> node = to_node(DictVectorizer(string_vocabulary=["a", "b"]), output="rows")
    >>> node.op_type, list(node.output)
    ('DictVectorizer', ['rows'])
    """
    _refuse_options(op)
    if isinstance(op, DictVectorizer) and op.dtype is not None:
        raise ValueError(
            "DictVectorizer: ONNX has no attribute for dtype; leave it out, and give the values "
            "this type (or see to_model, which can add a Cast)"
        )
    return _node(op, input, output, name)


def to_model(
    op: CastMap | DictVectorizer,
    *,
    value_type: ValueType = "float",
    input: str = "x",
    output: str = "y",
    name: str = "nbmapops",
    producer_name: str = "nbmapops",
    producer_version: str = "",
) -> onnx.ModelProto:
    """Write an operator as an ONNX model.

    Parameters
    ----------
    op : CastMap or DictVectorizer
        What to write.
    value_type : {"float", "double", "int64", "string"}
        Of the maps. From Python onnxruntime takes maps of float only.
    input, output : str
        Names of the map and of the tensor.
    name : str
        Of the graph.
    producer_name, producer_version : str
        As in the model.

    Returns
    -------
    onnx.ModelProto
        Checked by ``onnx.checker``.

    Raises
    ------
    ValueError
        A type of value that the ONNX-ML text does not allow for the operator; an option that ONNX
        has no words for. A dtype is written as a Cast where that gives the same for every value:
        float to double, int64 to float.

    Examples
    --------
    >>> from nbmapops import DictVectorizer
    >>> op = DictVectorizer.from_maps([{"b": 1.0}, {"a": 2.0}])
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(to_model(op).SerializeToString())
    >>> session.run(None, {"x": {"b": 4.0}})
    [array([[0., 4.]], dtype=float32)]
    """
    _refuse_options(op)
    key_type = _key_type(op, value_type)
    wanted = _NAMES[op.result_type(value_type)]
    result = wanted if isinstance(op, CastMap) else value_type
    rows = output if wanted == result else f"{output}_rows"
    nodes = [_node(op, input, rows, "")]
    opsets = [onnx.helper.make_opsetid(DOMAIN, 1), onnx.helper.make_opsetid("", _OPSET)]
    if wanted != result:
        if (result, wanted) not in _SAME_BY_CAST:
            raise ValueError(
                f"DictVectorizer: ONNX has no operator that turns {result} into {wanted} as dtype "
                f"does, with an error where it cannot; leave dtype out, or pass "
                f'value_type="{wanted}"'
            )
        nodes.append(onnx.helper.make_node("Cast", [rows], [output], to=_ELEMENTS[wanted]))
    maps = onnx.helper.make_map_type_proto(
        _ELEMENTS[key_type], onnx.helper.make_tensor_type_proto(_ELEMENTS[value_type], [])
    )
    graph = onnx.helper.make_graph(
        nodes,
        name,
        [onnx.helper.make_value_info(input, maps)],
        # As onnxruntime gives it; the text says (n,) in one place and (1, n) in another.
        [onnx.helper.make_tensor_value_info(output, _ELEMENTS[wanted], [None, op.n_columns])],
    )
    model = onnx.helper.make_model(
        graph,
        opset_imports=opsets,
        ir_version=_IR_VERSION,
        producer_name=producer_name,
        producer_version=producer_version,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def _key_type(op: CastMap | DictVectorizer, value_type: str) -> str:
    """Return the type of the keys; raise where their maps cannot have such values."""
    operator = type(op).__name__
    key_type = "int64"
    if isinstance(op, DictVectorizer) and isinstance(op.vocabulary, tuple):
        key_type = "string"
    allowed = _TYPES[operator, key_type]
    if value_type not in allowed:
        raise ValueError(
            f"{operator}: in ONNX the values of maps with {key_type} keys must be one of "
            f"{', '.join(allowed)}, not {show(value_type)}"
        )
    return key_type


def _refuse_options(op: CastMap | DictVectorizer) -> None:
    """Raise for what ONNX has no word for."""
    operator = type(op).__name__
    fill = op.fill_value
    zero = isinstance(fill, (int, float)) and fill == 0 and copysign(1.0, fill) > 0
    if fill is not None and not zero and fill != "":
        raise ValueError(
            f"{operator}: ONNX has no attribute for fill_value {show(fill)}; "
            "missing positions are 0 there"
        )
    if fill == "" and isinstance(op, CastMap):
        raise ValueError(
            'CastMap: ONNX has no attribute for fill_value ""; '
            "the text at missing positions is the runtime's own"
        )
    if isinstance(op, CastMap):
        return
    # Where it is left out, the attribute is the semantics' own: the text demands known keys, too.
    if op._attributes["handle_unknown"] == "error":
        raise ValueError(
            'DictVectorizer: ONNX has no attribute for handle_unknown="error"; leave it out, and '
            "check maps with unknown() before they are fed"
        )
    if op.n_columns > len(op):
        raise ValueError(
            "DictVectorizer: ONNX has no attribute for unknown_columns, and no operator that "
            "hashes keys"
        )


def _node(op: CastMap | DictVectorizer, source: str, output: str, name: str) -> onnx.NodeProto:
    operator = type(op).__name__
    attributes: dict[str, int | str | list[int] | list[str]]
    if isinstance(op, CastMap):
        attributes = {"cast_to": op.cast_to, "map_form": op.map_form, "max_map": op.max_map}
    else:
        words: NDArray[np.int64] | tuple[str, ...] = op.vocabulary
        if isinstance(words, tuple):
            attributes = {"string_vocabulary": _texts(words)}
        else:
            attributes = {"int64_vocabulary": words.tolist()}
    node = onnx.NodeProto(op_type=operator, domain=DOMAIN, name=name)
    node.input.append(source)
    node.output.append(output)
    node.attribute.extend(_written(key, value) for key, value in attributes.items())
    return node


def _texts(words: tuple[str, ...]) -> list[str]:
    for number, word in enumerate(words):
        if not word.isascii() and any("\ud800" <= sign <= "\udfff" for sign in word):
            raise ValueError(
                f"DictVectorizer: string_vocabulary: word {number}, {show(word)}, must be UTF-8 "
                "text in ONNX; it holds half of a surrogate pair"
            )
    return list(words)


def _written(key: str, value: int | str | list[int] | list[str]) -> onnx.AttributeProto:
    """Return an attribute; onnx.helper cannot tell the type of an empty list."""
    kinds = onnx.AttributeProto
    attribute = kinds(name=key)
    if isinstance(value, int):
        attribute.type, attribute.i = kinds.INT, value
    elif isinstance(value, str):
        attribute.type, attribute.s = kinds.STRING, value.encode()
    elif key == "string_vocabulary":
        attribute.type = kinds.STRINGS
        attribute.strings.extend(str(word).encode() for word in value)
    else:
        attribute.type = kinds.INTS
        attribute.ints.extend(int(word) for word in value)
    return attribute
