"""ONNX adapter: operators from nodes, and for the reference evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import onnx
from onnx.reference.op_run import OpRun

from nbmapops._castmap import CastMap
from nbmapops._dictvectorizer import DictVectorizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nbmapops._types import Dtype, HandleUnknown, Semantics

DOMAIN = "ai.onnx.ml"
OPERATORS: dict[str, type[CastMap | DictVectorizer]] = {
    "CastMap": CastMap,
    "DictVectorizer": DictVectorizer,
}
_Attribute: TypeAlias = "int | str | list[int] | list[str]"


def from_node(
    node: onnx.NodeProto,
    *,
    semantics: Semantics = "strict",
    fill_value: float | str | None = None,
    handle_unknown: HandleUnknown | None = None,
    dtype: Dtype | None = None,
) -> CastMap | DictVectorizer:
    """Make the operator that a node describes.

    Parameters
    ----------
    node : onnx.NodeProto
        Of type CastMap or DictVectorizer in the domain ``ai.onnx.ml``.
    semantics, fill_value
        As for the class; ONNX has no attribute for them.
    handle_unknown, dtype
        The same, for a DictVectorizer.

    Returns
    -------
    CastMap or DictVectorizer

    Raises
    ------
    ValueError
        Another node, an attribute that the operator does not have, or values it refuses.
    TypeError
        handle_unknown or dtype for a CastMap.

    Examples
    --------
    >>> import onnx.helper as h
    >>> node = h.make_node("CastMap", ["x"], ["y"], domain="ai.onnx.ml", cast_to="TO_INT64")
    >>> from_node(node, semantics="onnxruntime")
    CastMap(cast_to='TO_INT64', semantics='onnxruntime')
    """
    options = {"handle_unknown": handle_unknown, "dtype": dtype}
    if node.op_type != "DictVectorizer":
        options = {name: value for name, value in options.items() if value is not None}
    attributes = attributes_of(node)
    common = {"semantics": semantics, "fill_value": fill_value}
    # The class checks every value, whatever its type.
    make = cast("type[DictVectorizer]", OPERATORS[node.op_type])
    return make(**attributes, **common, **options)  # type: ignore[arg-type]


def is_map_operator(node: onnx.NodeProto) -> bool:
    """Tell whether a node is one of the two map operators."""
    return node.domain == DOMAIN and node.op_type in OPERATORS


def attributes_of(node: onnx.NodeProto) -> dict[str, _Attribute]:
    """Return the attributes of a map operator's node; text is decoded."""
    if not is_map_operator(node):
        raise ValueError(
            f"{node.op_type!r} of domain {node.domain!r} is not a map operator; "
            f"the map operators are CastMap and DictVectorizer of {DOMAIN!r}"
        )
    known = onnx.defs.get_schema(node.op_type, domain=DOMAIN).attributes
    attributes: dict[str, _Attribute] = {}
    for attribute in node.attribute:
        if (
            attribute.name not in known
            # The stubs do not know that this is an enumeration.
            or attribute.type != known[attribute.name].type.value  # type: ignore[attr-defined]
        ):
            raise ValueError(
                f"{node.op_type}: node {node.name!r} has an attribute {attribute.name!r} of type "
                f"{onnx.AttributeProto.AttributeType.Name(attribute.type)}; "
                f"its attributes are {', '.join(sorted(known))}"
            )
        attributes[attribute.name] = _decoded(attribute)
    return attributes


def _decoded(attribute: onnx.AttributeProto) -> _Attribute:
    if attribute.type == onnx.AttributeProto.INT:
        return attribute.i
    if attribute.type == onnx.AttributeProto.STRING:
        return attribute.s.decode()
    if attribute.type == onnx.AttributeProto.INTS:
        return list(attribute.ints)
    return [word.decode() for word in attribute.strings]


class _MapOperator(OpRun):
    op_domain = DOMAIN

    def __init__(
        self, onnx_node: onnx.NodeProto, run_params: dict[str, object], schema: object = None
    ) -> None:
        super().__init__(onnx_node, run_params, schema)
        self._operator = from_node(onnx_node)

    def _run(
        self,
        maps: Mapping[int | str, float | str] | Sequence[Mapping[int | str, float | str]],
        **attributes: object,
    ) -> tuple[NDArray[np.generic]]:
        del attributes  # the operator has them
        return (self._operator(maps),)


# The evaluator finds an implementation by the name of its class.
reference_ops: list[type] = [type(name, (_MapOperator,), {}) for name in OPERATORS]
"""For ``onnx.reference.ReferenceEvaluator(model, new_ops=reference_ops)``: both operators, strict.

One map gives shape (n,), a batch (B, n).
"""
