"""Adapter, ONNX: operators as nodes and models, in the reference evaluator, before onnxruntime.

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

try:
    import onnx.reference as _onnx  # noqa: F401  (all modules below need it)
except ImportError as error:
    raise ImportError("ONNX models need onnx: pip install 'nbmapops[onnx]'") from error

from nbmapops.onnx.export import to_model, to_node
from nbmapops.onnx.nodes import from_node, reference_ops
from nbmapops.onnx.session import MapSession

__all__ = ["MapSession", "from_node", "reference_ops", "to_model", "to_node"]


def __dir__() -> list[str]:
    return list(__all__)
