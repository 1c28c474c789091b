"""Reading, Arrow: pyarrow itself, or what to install, and names for its types."""

from __future__ import annotations

from typing import Any, TypeAlias

# nanoarrow and arro3 are lighter, but look up no text and validate no offsets of it: columns of
# polars and DuckDB would need a second reader for them.
try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise ImportError("Arrow columns need pyarrow: pip install 'nbmapops[arrow]'") from error

if int(pa.__version__.partition(".")[0]) < 18:
    raise ImportError(
        f"Arrow columns need pyarrow 18 or later, this is {pa.__version__}: "
        "pip install -U 'nbmapops[arrow]'"
    )

__all__ = ["ArrowArray", "ArrowChunks", "ArrowType", "pa", "pc"]

# pyarrow ships no annotations: what these names stand for is for readers.
ArrowArray: TypeAlias = Any  # pyarrow.Array
ArrowChunks: TypeAlias = Any  # pyarrow.ChunkedArray
ArrowType: TypeAlias = Any  # pyarrow.DataType
