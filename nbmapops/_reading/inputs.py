"""Which input is what: one map, a batch, mappings to read, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbmapops._reading.arrays import read_arrays
from nbmapops._reading.batch import MapBatch
from nbmapops._reading.mappings import MapReader, maps_of, refuse_frames

if TYPE_CHECKING:
    from nbmapops._reading.scalars import BadMap


class Input(NamedTuple):
    """What an operator was called with."""

    source: MapBatch | MapReader | Mapping[Any, Any]  # a batch, an iterable of maps, one map
    one: bool  # the result is that of one map
    bad: BadMap | None = None  # a map of the source that cannot be read; the batch ends before it


def read_input(operator: str, maps: Any, values: Any, offsets: Any, expected: str | None) -> Input:
    """Tell what an operator was called with; `expected` is the kind of key it takes."""
    if values is not None:
        if isinstance(maps, (Mapping, MapBatch)):
            raise TypeError(
                f"{operator}: a second argument goes with keys, but the first is "
                f"{type(maps).__name__}; pass one map, one batch, or keys and values"
            )
        entries, bad = read_arrays(maps, values, offsets, operator, expected)
        return Input(MapBatch._of(*entries), offsets is None, bad)
    if offsets is not None:
        raise TypeError(f"{operator}: offsets go with keys and values")
    if isinstance(maps, MapBatch):
        return Input(maps, one=False)
    if type(maps) is dict:
        return Input(maps, one=True)
    kind = type(maps)
    # pyarrow's is a Mapping in some versions
    scalar = kind.__name__ == "MapScalar" and kind.__module__.startswith("pyarrow")
    if isinstance(maps, Mapping) and not scalar:
        return Input(maps, one=True)
    refuse_frames(maps, operator)
    if scalar or _may_be_column(maps):
        from nbmapops._reading import arrow

        if arrow.is_column(maps):
            parts, bad = arrow.read_maps(maps, operator=operator)
            return Input(MapBatch._of(*parts), one=scalar, bad=bad)
    return Input(MapReader(maps_of(maps, operator), operator, expected), one=False)


def _may_be_column(maps: Any) -> bool:
    """Tell whether this may be an Arrow column, without pyarrow."""
    dtype = getattr(maps, "dtype", None)
    if hasattr(maps, "__arrow_c_array__") or hasattr(maps, "__arrow_c_stream__"):
        # pandas exports every Series; one of a NumPy dtype holds Python objects.
        return not isinstance(dtype, np.dtype)
    return hasattr(dtype, "pyarrow_dtype")  # pandas 2.2 exports no Series


def whole(given: Input, operator: str, key_kind: str | None) -> Input:
    """Return the input with its maps read into a batch."""
    source = given.source
    if isinstance(source, MapBatch):
        return given
    if not isinstance(source, MapReader):
        source = MapReader([source], operator, key_kind)
    entries, bad = source.read_all()
    return Input(MapBatch._of(*entries), given.one, bad)
