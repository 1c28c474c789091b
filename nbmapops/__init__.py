"""Maps into tensors: the ONNX-ML operators CastMap and DictVectorizer for numeric Python.

Importing this package imports NumPy and nothing heavier: the compiled kernels and the adapters
are loaded when they are first needed.
"""

from __future__ import annotations

from nbmapops._batch import MapBatch
from nbmapops._castmap import CastMap
from nbmapops._dictvectorizer import DictVectorizer
from nbmapops.errors import CastError, DuplicateKeyError, UnknownKeyError

__all__ = [
    "CastError",
    "CastMap",
    "DictVectorizer",
    "DuplicateKeyError",
    "MapBatch",
    "UnknownKeyError",
]

__version__ = "0.1.0"
