"""Reading, inputs: which input is what: one map, a batch, mappings to read, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbmapops._load import imported
from nbmapops._reading.arrays import read_arrays
from nbmapops._reading.batch import MapBatch
from nbmapops._reading.mappings import MapReader, maps_of, refuse_frames
from nbmapops._reading.scalars import is_arrow_map

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from nbmapops._engine.choose import Part
    from nbmapops._reading.entries import Entries
    from nbmapops._reading.scalars import BadMap


class Input(NamedTuple):
    """What an operator was called with."""

    source: Entries | MapReader  # entries, or maps to read
    one: bool  # the result is that of one map
    bad: BadMap | None = None  # a map that cannot be read; the entries end before it

    def read_all(self) -> tuple[Entries, BadMap | None]:
        """Return all entries; where a map cannot be read, those of the maps before it."""
        if isinstance(self.source, MapReader):
            return self.source.read_all()
        return self.source, self.bad


def read_input(
    operator: str,
    maps: object,
    values: object,
    offsets: object,
    key_kind: str | None,
    parts: tuple[Part, ...] = (),
    *,
    skip_large: bool = False,
) -> Input:
    """Tell what an operator was called with.

    Parameters
    ----------
    operator : str
        Name at the front of messages.
    maps, values, offsets
        The arguments of the call.
    key_kind : {"int64", "string"} or None
        The kind of key that the operator takes, where there is only one.
    parts : tuple of Part
        The kernels that will take what is read.
    skip_large : bool
        Whether entries whose key is an integer beyond int64 are left out.

    Returns
    -------
    Input

    Raises
    ------
    TypeError
        For anything that is not a map, a batch of maps, or keys and values.
    """
    if values is not None:
        if isinstance(maps, (Mapping, MapBatch)):
            raise TypeError(
                f"{operator}: a second argument goes with keys, but the first is "
                f"{type(maps).__name__}; pass one map, one batch, or keys and values"
            )
        entries, bad = read_arrays(maps, values, offsets, operator, key_kind, skip_large=skip_large)
        return Input(entries, offsets is None, bad)
    if offsets is not None:
        raise TypeError(f"{operator}: offsets go with keys and values")
    if isinstance(maps, MapBatch):
        return Input(maps._entries, one=False)

    def reader(listed: Iterable[object], *, one: bool) -> Input:
        return Input(MapReader(listed, operator, key_kind, parts, skip_large=skip_large), one)

    if type(maps) is dict:
        return reader([maps], one=True)
    if type(maps) is list or type(maps) is tuple:
        return reader(maps, one=False)
    scalar = is_arrow_map(maps)
    if isinstance(maps, Mapping) and not scalar:
        return reader([maps], one=True)
    refuse_frames(maps, operator)
    if scalar or _may_be_column(maps):
        arrow = _arrow()
        if arrow.is_arrow(maps):
            entries, _, bad = arrow.read_maps(maps, operator=operator, skip_large=skip_large)
            return Input(entries, one=scalar, bad=bad)
    return reader(maps_of(maps, operator), one=False)


@cache
def _arrow() -> ModuleType:
    return imported("nbmapops._reading.arrow")


def _may_be_column(maps: object) -> bool:
    """Tell whether this may be an Arrow column, without pyarrow."""
    dtype = getattr(maps, "dtype", None)
    if hasattr(maps, "__arrow_c_array__") or hasattr(maps, "__arrow_c_stream__"):
        # pandas exports every Series; one of a NumPy dtype holds Python objects.
        return not isinstance(dtype, np.dtype)
    return hasattr(dtype, "pyarrow_dtype")  # pandas 2.2 exports no Series
