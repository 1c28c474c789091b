"""Maps into tensors: the ONNX-ML operators CastMap and DictVectorizer for numeric Python.

Importing this package imports NumPy and nothing heavier: the compiled kernels and the adapters
are loaded when they are first needed.

The map of the package, in reading order; a module imports only modules above it.

``_foreign``            whose an exception is; what a signal handler raises comes out
``errors``              exceptions and how values are shown in messages
``_constants``          what modules with and without Numba share
``_types``              types of arguments, for type checkers
``_limits``             sizes at which work is cut, and the engine that tests may force
``_load``               how the kernels are imported, whatever breaks in
``_cache``              the stamp of compiled code, and whether the disk cache holds a kernel
``_jit``                how functions are compiled and cached
``kernels.arguments``   compiled: which dtypes the public kernels take
``kernels.index``       compiled: the index of a vocabulary, built and looked up
``kernels.order``       compiled: entries in order by rank, bitmap or radix
``kernels.rows``        compiled: dense and CSR rows, values by ascending key
``kernels.distinct``    compiled: the distinct keys of a batch
``kernels.group``       compiled: a long table's entries by row
``kernels``             the public kernels: arrays in, arrays out, a status returned (provisional)
``_engine``             entries become a result; the choice comes first, the rest stands below:
``_engine.choose``      plain or compiled: one cost model
``_reading.columns``    columns of other libraries as plain arrays; what marks a missing value
``_vocabulary``         words, their columns, and the index that the kernels take
``_values``             conversion of values from type to type
``_reading``            anything a user passes becomes a MapBatch, or blocks of one:
``_reading.scalars``    which scalars are keys and values, and of what kind
``_reading.entries``    keys, values and offsets of many maps; what a column of keys is
``_reading.arrowlib``   pyarrow, or what to install
``_reading.arrowdata``  Arrow arrays as NumPy arrays and as text keys
``_reading.structs``    Arrow structs as maps
``_reading.arrow``      Arrow columns of maps
``_reading.objects``    compiled: Python objects through CPython's C API and by their layout
``_reading.dictwalk``   compiled: the maps of a list or an iterator of dicts
``_reading.textwalk``   compiled: the words among an array of str
``_reading.objecttext`` keys that are str objects, looked up where they lie
``_reading.arrays``     keys, values and offsets as arrays: the only place that validates them
``_reading.tables``     long tables and columns of lists
``_reading.lookup``     keys of any shape to columns
``_reading.mappings``   mappings in blocks
``_reading.duplicates`` the values of repeated keys are added up
``_reading.toarrow``    a batch as an Arrow map column
``_reading.shown``      the first maps of a batch as a table
``_reading.batch``      MapBatch
``_reading.recordwalk`` compiled: records, which hold text too, are read through the same API
``_reading.records``    records in rows, as scikit-learn understands them
``_reading.inputs``     which input is what
``_engine.dispatch``    the table by dtype
``_options``            attributes, checked once and resolved into a plan and a policy
``_semantics``          one_map: what the operators mean, and the author of messages
``_engine.blocks``      memory for results; rows in blocks, shared by threads
``_engine.expand``      keys with several columns, unknown keys with one
``_engine.plain``       the plain engine: one_map over the maps
``_engine.rows``        the compiled engine: dense, ordered and CSR rows
``_engine.fewdicts``    small plain dicts
``_engine.shortcuts``   every fast way that repeats the meaning of the general one
``_engine.stream``      mappings to CSR, block by block
``_engine.run``         read, choose an engine, run, or tell the first error
``_engine.learn``       the distinct keys of maps
``_operator``           what both operators share
``_castmap``            the operator CastMap
``_dictvectorizer``     the operator DictVectorizer
``_precompile``         every kernel compiled ahead of time
``__init__``            the public names
``onnx.nodes``          ONNX adapter: operators from nodes, and for the reference evaluator
``onnx.export``         operators as nodes and models
``onnx.graph``          a model is cut behind its map operators
``onnx.describe``       what a model tells about itself
``onnx.linear``         products for linear nodes
``onnx.rows``           what is fed to a map input becomes rows
``onnx.tail``           the rest of a model, on blocks of rows
``onnx.session``        MapSession
``onnx``                its public names
``sklearn``             adapter
``dask``                adapter
``_cli``                the command:
``_cli.source``         the file of maps, compressed or not, and errors with their place in it
``_cli.progress``       what a terminal shows while a run takes long
``_cli.signals``        a signal ends a run and leaves nothing behind
``_cli.jsonlines``      maps of JSON Lines
``_cli.parquet``        maps of a Parquet column
``_cli.words``          the column of each key, given or learned
``_cli.options``        which options there are and which fit together
``_cli.spool``          rows wait on disk, and become a file
``_cli.convert``        a file of maps into a file with a matrix, in one pass
``_cli.demo``           one task on real maps, beside a loop
``_cli.command``        ``nbmapops`` and ``python -m nbmapops``
``__main__``            ``python -m nbmapops``
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nbmapops._castmap import CastMap
from nbmapops._dictvectorizer import DictVectorizer
from nbmapops._precompile import precompile
from nbmapops._reading.batch import MapBatch
from nbmapops.errors import CastError, DuplicateKeyError, UnknownKeyError

if TYPE_CHECKING:
    from types import ModuleType

    from nbmapops import dask as dask
    from nbmapops import kernels as kernels
    from nbmapops import onnx as onnx
    from nbmapops import sklearn as sklearn

__all__ = [
    "CastError",
    "CastMap",
    "DictVectorizer",
    "DuplicateKeyError",
    "MapBatch",
    "UnknownKeyError",
    "precompile",
]

__version__ = "0.2.0"

# ``nbmapops.sklearn`` works without an import of its own: the module is imported when it is named.
_MODULES = ("dask", "errors", "kernels", "onnx", "sklearn")


if not TYPE_CHECKING:  # a type checker is to see that other names do not exist

    def __getattr__(name: str) -> ModuleType:
        if name in _MODULES:
            return import_module(f"nbmapops.{name}")
        raise AttributeError(f"module 'nbmapops' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
