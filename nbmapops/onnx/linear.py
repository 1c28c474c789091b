"""ONNX adapter: where the rest of a model begins with a linear node, it is given products.

A linear node reads the whole row of a map, which is nearly all zeros where the vocabulary is wide.
Here the product is made from the entries alone: what the node would read is computed as onnxruntime
computes it, bit for bit; the sum is made in float64 and rounded once. The node stays in the model
with the identity matrix as its coefficients, so that labels, intercepts and post-transforms are
those of onnxruntime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from nbmapops.onnx.graph import Front, names_read, replace, rows_input
from nbmapops.onnx.nodes import DOMAIN

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

FloatType: TypeAlias = "type[np.floating]"  # float32 or float64
Floats: TypeAlias = "NDArray[np.floating]"
_TYPES: dict[str, FloatType] = {"float32": np.float32, "float64": np.float64}
_FLOATS: dict[int, FloatType] = {
    onnx.TensorProto.FLOAT: np.float32,
    onnx.TensorProto.DOUBLE: np.float64,
}
# Multiplying by the identity costs the square of its size a row.
_MOST_SCORES = 1024


class Cast(NamedTuple):
    """Values in another type of float."""

    dtype: FloatType

    def apply(self, values: Floats, columns: NDArray[np.integer]) -> Floats:
        """Return the values of these columns as the node writes them."""
        del columns
        return values.astype(self.dtype, copy=False)


class Scaler(NamedTuple):
    """The operator Scaler: works in the type of its input and gives float32."""

    offset: NDArray[np.float32]
    scale: NDArray[np.float32]

    def apply(self, values: Floats, columns: NDArray[np.integer]) -> Floats:
        """Return the values of these columns as the node writes them."""
        scaled: Floats = (values - self.offset[columns]) * self.scale[columns]
        return scaled.astype(np.float32, copy=False)


Steps: TypeAlias = tuple[Cast | Scaler, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A linear node, whose input is the product of rows and coefficients.

    Attributes
    ----------
    rows : str
        The rows that the model reads.
    scores : str
        The input that takes the place of the rows.
    steps : tuple of Cast and Scaler
        What the model does to the rows before the node reads them.
    base : ndarray of float64, shape (V,)
        What the steps make of a missing entry.
    constant : ndarray of float64, shape (E,)
        The product of a row without entries.
    coefficients : ndarray of float64, shape (V, E)
    dtype : float32 or float64
        Of the scores.
    """

    rows: str
    scores: str
    steps: Steps
    base: NDArray[np.float64]
    constant: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    dtype: FloatType

    def of(self, matrix: csr_array) -> Floats | None:
        """Return the scores, shape (B, E); None where one of them is not finite."""
        values = matrix.data
        with np.errstate(all="ignore"):
            for step in self.steps:
                values = step.apply(values, matrix.indices)
            values = values.astype(np.float64, copy=False)
            if self.base.any():
                values = values - self.base[matrix.indices]
            entries = type(matrix)((values, matrix.indices, matrix.indptr), matrix.shape)
            scores: NDArray[np.float64] = entries @ self.coefficients
            scores += self.constant
            rounded: Floats = scores.astype(self.dtype, copy=False)
        # The identity would turn one infinity into NaN in every column.
        return rounded if np.isfinite(rounded).all() else None


class _Use(NamedTuple):
    """A linear node that reads the rows, and the nodes between both."""

    node: onnx.NodeProto
    coefficients: NDArray[np.float64]
    steps: Steps
    dtype: FloatType


def with_products(
    tail: onnx.ModelProto, fronts: list[Front]
) -> tuple[onnx.ModelProto, list[Product]]:
    """Return the rest of a model with products as inputs, where linear nodes alone read the rows.

    Parameters
    ----------
    tail : onnx.ModelProto
        The rest of the model; it stays as it is.
    fronts : list of Front
        Whose rows are wide enough to try.

    Returns
    -------
    model : onnx.ModelProto
    products : list of Product
        Empty where nothing could be done; then the model is the tail.
    """
    model = onnx.ModelProto()
    model.CopyFrom(tail)
    products: list[Product] = []
    for front in fronts:
        found = _uses(model, front)
        if found is None:
            continue
        uses, between = found
        made = [_product(front, use, number) for number, use in enumerate(uses)]
        if all(product is not None for product in made):
            _rewrite(model, front, uses, between)
            products += [product for product in made if product is not None]
    return (model, products) if products else (tail, [])


def _uses(model: onnx.ModelProto, front: Front) -> tuple[list[_Use], list[onnx.NodeProto]] | None:
    """Return the linear nodes that read the rows of a front, or None where others do, too."""
    dtype = _TYPES.get(front.kind)
    if dtype is None or front.width is None:
        return None
    graph = model.graph
    uses: list[_Use] = []
    between: list[onnx.NodeProto] = []
    waiting: list[tuple[str, Steps, FloatType]] = [(front.rows, (), dtype)]
    while waiting:
        name, steps, dtype = waiting.pop()
        if any(value.name == name for value in graph.output):
            return None
        for node in graph.node:
            if name not in names_read(node):
                continue
            step = _step(node, front.width, dtype)
            if step is not None:
                between.append(node)
                waiting.append((node.output[0], (*steps, *step[0]), step[1]))
                continue
            use = _linear(model, node, name, front.width, steps, dtype)
            if use is None:
                return None
            uses.append(use)
    return (uses, between) if uses else None


def _attributes(node: onnx.NodeProto) -> dict[str, onnx.AttributeProto]:
    return {attribute.name: attribute for attribute in node.attribute}


def _is(node: onnx.NodeProto, domain: str, *kinds: str) -> bool:
    own = "" if node.domain == "ai.onnx" else node.domain
    return own == domain and node.op_type in kinds


def _step(node: onnx.NodeProto, width: int, dtype: FloatType) -> tuple[Steps, FloatType] | None:
    """Return what a node between rows and linear node does, and the type it gives."""
    attributes = _attributes(node)
    if _is(node, "", "Identity"):
        return (), dtype
    if _is(node, "", "Cast"):
        to = _FLOATS.get(attributes["to"].i)
        return None if to is None else ((Cast(to),), to)
    if _is(node, DOMAIN, "Scaler") and {"offset", "scale"} <= attributes.keys():
        offset, scale = (
            np.array(attributes[name].floats, np.float32) for name in ("offset", "scale")
        )
        if all(len(numbers) in (1, width) for numbers in (offset, scale)):
            step = Scaler(np.broadcast_to(offset, width), np.broadcast_to(scale, width))
            return (step,), np.float32
    return None


def _linear(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    name: str,
    width: int,
    steps: Steps,
    dtype: FloatType,
) -> _Use | None:
    """Return the use of the rows by a linear node; None for another node."""
    if not node.input or node.input[0] != name or name in node.input[1:]:
        return None
    attributes = _attributes(node)
    if _is(node, DOMAIN, "LinearClassifier", "LinearRegressor"):
        listed = np.array(attributes["coefficients"].floats, np.float64)
        scores, rest = divmod(len(listed), width)
        if rest or not 0 < scores <= _MOST_SCORES:
            return None
        # Both work in float32.
        steps = steps if dtype is np.float32 else (*steps, Cast(np.float32))
        return _Use(node, listed.reshape(scores, width).T, steps, np.float32)
    if _is(node, "", "MatMul", "Gemm") and len(node.input) > 1:
        matrix = _constant(model, node.input[1])
        if _is(node, "", "Gemm"):
            numbers = {key: attribute.f for key, attribute in attributes.items()}
            bias = len(node.input) > 2 and bool(node.input[2])
            plain = numbers.get("alpha", 1.0) == 1 and (not bias or numbers.get("beta", 1.0) == 1)
            if not plain or ("transA" in attributes and attributes["transA"].i):
                return None
            if matrix is not None and "transB" in attributes and attributes["transB"].i:
                matrix = matrix.T
        if matrix is None or matrix.ndim != 2 or len(matrix) != width:
            return None
        return _Use(node, matrix.astype(np.float64), steps, dtype)
    return None


def _constant(model: onnx.ModelProto, name: str) -> NDArray[np.generic] | None:
    """Return the numbers of an initializer that nobody can override."""
    graph = model.graph
    if model.ir_version >= 4 and any(value.name == name for value in graph.input):
        return None
    for tensor in graph.initializer:
        if tensor.name == name and tensor.data_type in _FLOATS:
            return onnx.numpy_helper.to_array(tensor)
    return None


def _product(front: Front, use: _Use, number: int) -> Product | None:
    """Return the product for a linear node; None where it would not be the node's."""
    assert front.width is not None
    zeros: Floats = np.zeros(front.width, np.float64 if front.kind == "float64" else np.float32)
    columns = np.arange(front.width)
    with np.errstate(all="ignore"):
        for step in use.steps:
            zeros = step.apply(zeros, columns)
        base = zeros.astype(np.float64)
        constant = base @ use.coefficients
    if not (np.isfinite(use.coefficients).all() and np.isfinite(constant).all()):
        return None  # a missing entry would count: 0 times infinity is NaN
    coefficients = np.ascontiguousarray(use.coefficients)
    name = f"{front.rows}:{number}"
    return Product(front.rows, name, use.steps, base, constant, coefficients, use.dtype)


def _rewrite(
    model: onnx.ModelProto, front: Front, uses: list[_Use], between: list[onnx.NodeProto]
) -> None:
    """Give the linear nodes their scores as inputs, and the identity as coefficients."""
    graph = model.graph
    gone = {node.output[0] for node in between}
    given = {use.node.output[0]: (use, f"{front.rows}:{number}") for number, use in enumerate(uses)}
    nodes = []
    for node in graph.node:
        if node.output[0] in given:
            use, scores = given[node.output[0]]
            nodes.append(_on_scores(node, scores, use.coefficients.shape[1]))
        elif node.output[0] not in gone:
            nodes.append(node)
    inputs = [value for value in graph.input if value.name != front.rows]
    kinds = {np.float32: "float32", np.float64: "float64"}
    inputs += [
        rows_input(name, kinds[use.dtype], use.coefficients.shape[1])
        for use, name in given.values()
    ]
    replace(graph.node, nodes)
    replace(graph.input, inputs)
    read = set().union(*(names_read(node) for node in graph.node))
    read |= {value.name for value in graph.output} | {value.name for value in graph.input}
    replace(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in read])


def _on_scores(node: onnx.NodeProto, scores: str, size: int) -> onnx.NodeProto:
    """Return a linear node that reads scores instead of rows."""
    if _is(node, "", "MatMul", "Gemm"):
        bias = [name for name in node.input[2:] if name]
        kind = "Add" if bias else "Identity"
        return onnx.helper.make_node(kind, [scores, *bias], list(node.output), node.name)
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    changed.input[0] = scores
    for attribute in changed.attribute:
        if attribute.name == "coefficients":
            del attribute.floats[:]
            attribute.floats.extend(np.eye(size, dtype=np.float32).ravel().tolist())
    return changed
