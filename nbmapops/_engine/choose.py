"""Engine, choice: plain Python or compiled code, by what a piece of work costs either way.

The plain engine needs no compiler, but an entry costs it up to a microsecond. The compiled engine
takes a few nanoseconds, once its kernels are loaded: that takes as long as some hundred thousand
entries in plain Python where the disk cache holds them, and as millions where it does not.

A process rents until renting has cost as much as buying: work runs in plain Python until what was
spent there on work of this kind, and what this call would cost there, exceeds what loading costs.
Like any such rule it is never worse than twice the better of both engines, known afterwards.
Costs are estimates from the constants here, not measurements, so that the choice is repeatable.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Literal

from nbmapops._cache import is_cached
from nbmapops._foreign import is_interruption
from nbmapops._limits import limits
from nbmapops._load import imported, load_kernels

__all__ = ["Part", "compiled", "is_loaded", "plain_cost"]

Part = Literal[
    "dense",
    "csr",
    "order",
    "lookup",
    "distinct",
    "sums",
    "rows",
    "texts",
    "int64 dicts",
    "text dicts",
    "taken dicts",
    "one dict",
    "records",
]
# What the plain engine takes for each part of the work, in CPU seconds: reading dicts and placing
# values take 0.35 us an entry each (asv: startup.Plain).
ENTRY, MAP = 0.35e-6, 1.5e-6
# What a call of loaded kernels takes beside its entries (asv: dictvectorizer.SmallArrays).
CALL = 30e-6
# Importing Numba, and loading a kernel from the disk cache (asv: startup.Warm).
NUMBA, KERNEL = 0.2, 0.03


class _Kernel:
    """A kernel of the compiled engine: where it is, and the CPU seconds that compiling it takes.

    `cached` is the name of what the disk cache holds, where that is a kernel under this one.
    """

    __slots__ = ("cached", "module", "name", "seconds")

    def __init__(self, module: str, name: str, seconds: float, cached: str = "") -> None:
        self.module, self.name, self.seconds = module, name, seconds
        self.cached = cached or name


# asv: startup.Cold shows the sums.
_KERNELS: dict[Part, _Kernel] = {
    "dense": _Kernel("nbmapops.kernels", "vectorize_dense", 1.3),
    "csr": _Kernel("nbmapops.kernels", "vectorize_csr", 2.0, "csr_rows"),
    "order": _Kernel("nbmapops.kernels", "order_dense", 0.7, "ordered_rows"),
    "lookup": _Kernel("nbmapops.kernels", "lookup", 0.6),
    "distinct": _Kernel("nbmapops.kernels", "distinct", 2.0),
    "sums": _Kernel("nbmapops.kernels", "sum_rows", 1.5),
    "rows": _Kernel("nbmapops.kernels", "group", 0.5),
    "texts": _Kernel("nbmapops._reading.textwalk", "_find", 1.5),
    "int64 dicts": _Kernel("nbmapops._reading.dictwalk", "_walk_int64", 0.9),
    "text dicts": _Kernel("nbmapops._reading.dictwalk", "_walk_string", 1.0),
    "taken dicts": _Kernel("nbmapops._reading.dictwalk", "_take_int64", 0.5),
    "one dict": _Kernel("nbmapops._reading.dictwalk", "_fill", 0.6),
    "records": _Kernel("nbmapops._reading.recordwalk", "_walk_records", 5.0),
}
_loaded: set[Part] = set()
_spent: dict[Part, float] = defaultdict(float)
_broken: list[str] = []


def plain_cost(entries: int, maps: int = 1, parts: int = 1) -> float:
    """Return the seconds that the plain engine takes for so many parts of the work."""
    return (entries * ENTRY + maps * MAP) * parts


def compiled(entries: int, maps: int, *parts: Part) -> bool:
    """Tell whether to run a piece of work compiled.

    Parameters
    ----------
    entries, maps : int
        The size of the work.
    *parts : Part
        The kernels that it would use.

    Returns
    -------
    bool
        False: it is to run in plain Python, and is counted as spent there.
    """
    if limits.engine is not None:
        return limits.engine == "compiled" and _importable()
    cost = plain_cost(entries, maps, len(parts))
    missing = [part for part in parts if part not in _loaded and not is_loaded(part)]
    if not missing:
        return cost > CALL * len(parts)
    total = cost + max(_spent[part] for part in missing)
    # A look at the disk cache takes some milliseconds: not before it can matter.
    if total > _loading(missing, cached=True) and total > _loading(missing) and _importable():
        return True
    for part in missing:
        _spent[part] += cost
    return False


def is_loaded(part: Part) -> bool:
    """Tell whether a kernel has been compiled, or loaded from the cache, in this process."""
    if part in _loaded:
        return True
    kernel = _KERNELS[part]
    module = sys.modules.get(kernel.module)
    if getattr(getattr(module, kernel.name, None), "overloads", None):
        _loaded.add(part)
        return True
    return False


def _loading(parts: list[Part], *, cached: bool = False) -> float:
    """Return the seconds until these kernels can run; `cached`: were they in the disk cache."""
    seconds = 0.0 if "numba" in sys.modules else NUMBA
    for part in parts:
        kernel = _KERNELS[part]
        seconds += KERNEL if cached or is_cached(kernel.cached) else kernel.seconds
    return seconds


def _importable() -> bool:
    """Tell whether the kernels can be imported; where they cannot, the plain engine serves."""
    if "nbmapops.kernels" in sys.modules:
        return True
    if _broken:
        return False
    try:
        load_kernels()
    except ImportError as error:  # a subinterpreter, or a Numba that does not fit its NumPy
        if is_interruption(error):
            raise
        _broken.append(str(error))
        logging = imported("logging")  # 3 ms, which small work does not need
        logging.getLogger("nbmapops").warning("all work runs in plain Python: %s", error)
        return False
    return True
