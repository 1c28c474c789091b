"""After `precompile` nothing is compiled, whatever the public API is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import nbmapops

from ..conftest import WITHOUT_JIT
from ..fresh import run
from ..test_architecture import WORKLOAD

if TYPE_CHECKING:
    from pathlib import Path


COMPILE = "import nbmapops\ndone = nbmapops.precompile()\nprint(*done[:2], str(done))\n"
HEAD = """
from numba.core import event

compiled = []

class Recorder(event.Listener):
    def on_start(self, happened):
        compiled.append((happened.data["dispatcher"].py_func.__qualname__, happened.data["args"]))

    def on_end(self, happened):
        pass

event.register("numba:compile", Recorder())
from nbmapops._limits import limits
limits.engine = "compiled"
"""
# What the workload of the count of specialisations leaves out.
MORE = """
long = np.concatenate([rng.permutation(100) for _ in range(3)])
for dtype in (np.float32, np.float64):
    for index_dtype in (np.int32, np.int64):
        dv.csr(words[long], np.ones(300, dtype), [0, 100, 200, 300], index_dtype=index_dtype)
    CastMap().ragged(long, np.ones(300, dtype), [0, 100, 200, 300])
for value in (1, 1.5, np.float32(1.5)):
    many = [{5: value, 7: value}] * 30_000
    small = DictVectorizer(int64_vocabulary=[5, 7])
    small(many), small.csr(many), small(many[0]), small.csr(many[0]), small.unknown(many)
    CastMap()(many), DictVectorizer.from_maps(many)
batch = MapBatch.from_arrays([5, 7, 5], [1, 2, 3])
for dtype in (np.int64, np.float32, np.float64, object):
    values = np.array([1, 2, 3], dtype)
    MapBatch.from_arrays([5, 7, 5], values).sum_duplicates() if dtype is not object else None
    if dtype is object:
        values = values.astype(str).astype(object)
    for keys in ([5, 7, 5], ["a", "b", "a"]):
        MapBatch.from_rows([1, 0, 1], keys, values)
dv.columns(words), text.columns(np.array(["1", "x"], object)), text.columns(["1", "x"])
try:
    import pyarrow as pa
except ImportError:
    pass
else:  # the columns of its text are keys of 4 bytes
    for column in (pa.array(["a", "b"] * 40), pa.array(["a", "b"] * 40).dictionary_encode()):
        for dtype in (np.float32, np.float64):
            given = column, np.ones(80, dtype), np.arange(0, 81, 2)
            named = DictVectorizer(string_vocabulary=["a", "b"])
            named(*given), named.csr(*given), named.csr(*given, index_dtype=np.int64)
        named.columns(column)
try:
    from nbmapops.sklearn import DictVectorizer as Estimator
except ImportError:
    pass
else:
    records = [{"a": 1.0, "b": "x", "c": ["u", "v"], "d": None, "e": np.float32(2)}] * 5_000
    for dtype in (np.float64, np.float32, np.int64):
        for sparse in (True, False):
            some = [{"a": 1, "b": "x"}] * 5_000 if dtype is np.int64 else records
            estimator = Estimator(dtype=dtype, sparse=sparse).fit(some)
            estimator.transform(some), estimator.fit_transform(some)
print(compiled)
"""


@pytest.mark.skipif(WITHOUT_JIT, reason="nothing is compiled in this run")
@pytest.mark.thorough  # 40 s
def test_after_it_nothing_is_compiled(tmp_path: Path) -> None:
    (line,) = run(COMPILE, timeout=900, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    count, found, text = line.split(" ", 2)
    assert int(count) > 30
    assert found == "0"
    assert text.startswith(f"{count} kernels compiled in ")
    assert str(tmp_path) in text
    (again,) = run(COMPILE, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    assert again.startswith("0 ")

    workload = WORKLOAD[: WORKLOAD.index("compiled = {")]
    assert run(HEAD + workload + MORE, timeout=900, NUMBA_CACHE_DIR=str(tmp_path)) == "[]\n"


def test_without_the_compiler_there_is_nothing_to_do() -> None:
    (line,) = run(COMPILE, NUMBA_DISABLE_JIT="1").splitlines()
    assert line == "0 0 nothing is compiled here: NUMBA_DISABLE_JIT is set"


def test_it_is_a_public_name_that_loads_nothing() -> None:
    code = "import sys, nbmapops\nprint('numba' in sys.modules, nbmapops.precompile.__name__)"
    assert run(code) == "False precompile\n"
    assert "precompile" in nbmapops.__all__
