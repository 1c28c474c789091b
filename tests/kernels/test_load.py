"""What breaks in on the import of Numba and on compilation comes out, and breaks nothing."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ..conftest import WITHOUT_JIT
from ..fresh import run

if TYPE_CHECKING:
    from pathlib import Path

compiled_only = pytest.mark.skipif(WITHOUT_JIT, reason="nothing is compiled in this run")
long = pytest.mark.thorough


BROKEN_OFF = """
import importlib.abc, sys

class Bell(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt

sys.meta_path.insert(0, Bell())
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", end=" ")
from nbmapops._load import load_kernels
import numpy as np
kernels = load_kernels()
assert load_kernels() is kernels
print(kernels.distinct(np.array([7, 5, 7]), 1).tolist())
"""


@compiled_only
@pytest.mark.parametrize(
    "module",
    [
        "numba.core.typing",
        pytest.param("llvmlite.binding", marks=long),
        pytest.param("numba.core.registry", marks=long),
        pytest.param("numba.np.ufunc", marks=long),
    ],
)
@pytest.mark.parametrize("call", ["import numba", "import nbmapops.kernels"])
def test_an_import_of_numba_that_was_broken_off_is_made_again(module: str, call: str) -> None:
    assert run(BROKEN_OFF.format(module=module, call=call)).strip() == "interrupted [7, 5]"


TIME_LIMIT = """
import signal, sys, time
import numpy as np
import nbmapops

class TooLong(TimeoutError):  # an OSError, as reading files may raise
    pass

def ring(*_):
    raise TooLong

from nbmapops._load import load_kernels
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, {seconds})
try:
    kernels = load_kernels()
    keys = np.arange(5)
    kernels.distinct(keys, 1)
    time.sleep(20)
except TooLong:
    print("interrupted", end=" ")
kernels = load_kernels()
found = kernels.distinct(np.array([7, 5, 7]), 1).tolist()
compiled = len(kernels.distinct.signatures)
print(found, compiled)
"""


@compiled_only
@pytest.mark.parametrize(
    "seconds",
    [0.07, 0.33, 1.02, *(pytest.param(n / 20, marks=long) for n in range(1, 40))],
)
def test_a_time_limit_comes_out_of_the_first_call(seconds: float, tmp_path: Path) -> None:
    """While Numba is imported, while the kernel is compiled, and after that."""
    pytest.importorskip("resource")  # SIGALRM
    for _ in ("cold", "warm"):
        found = run(TIME_LIMIT.format(seconds=seconds), NUMBA_CACHE_DIR=str(tmp_path)).strip()
        assert found == "interrupted [7, 5] 1"


@compiled_only
def test_errors_of_a_cache_are_told_from_those_of_a_signal_handler() -> None:
    from nbmapops import _jit

    def handler() -> None:
        raise TimeoutError

    seen: list[str] = []
    assert _jit._try(pickle.loads, b"garbage", otherwise=lambda: seen.append("flushed")) is None
    assert seen == ["flushed"]
    with pytest.raises(TimeoutError):
        _jit._try(handler, otherwise=lambda: seen.append("flushed"))
    assert seen == ["flushed"]


@compiled_only
def test_a_cache_that_gives_the_code_of_another_signature_is_not_believed() -> None:
    from nbmapops import _jit

    def cache_of(signature: tuple[str, ...]) -> Any:
        loaded = SimpleNamespace(signature=SimpleNamespace(args=signature))
        kept = SimpleNamespace(
            _cache_file=SimpleNamespace(),
            load_overload=lambda *_: loaded,
            save_overload=None,
            flush=None,
        )
        _jit._mend(SimpleNamespace(_cache=kept))
        return kept, loaded

    kept, loaded = cache_of(("int64",))
    assert kept.load_overload(("int64",), None) is loaded
    assert kept.load_overload(("float64",), None) is None


def test_what_is_undisturbed_raises_in_the_thread_that_waits() -> None:
    from nbmapops._load import undisturbed

    def fail(message: str) -> None:
        raise SystemExit(message)

    assert undisturbed(divmod, 7, 3) == (2, 1)
    with pytest.raises(SystemExit, match="out"):
        undisturbed(fail, "out")


def test_a_process_that_is_interrupted_ends_after_what_is_undisturbed() -> None:
    """A thread that a process does not wait for is broken off where it may do harm."""
    pytest.importorskip("resource")  # SIGALRM
    code = """
import signal, time
from nbmapops._load import undisturbed

def ring(*_):
    raise TimeoutError

def slow():
    time.sleep(1)
    print("ended")

signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    undisturbed(slow)
except TimeoutError:
    print("interrupted", end=" ")
"""
    assert run(code).strip() == "interrupted ended"


def test_without_a_thread_to_be_had_the_kernels_are_loaded_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import threading

    from nbmapops import _load

    def handler(*_: Any) -> None:
        raise RuntimeError("time is over")

    refuse: dict[str, Any] = {"__name__": "threading"}
    exec('def start(*_): raise RuntimeError("can\'t start new thread")', refuse)
    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", refuse["start"])
        assert _load.undisturbed(divmod, 7, 3) == (2, 1)
    monkeypatch.setattr(_load, "start_new_thread", refuse["start"])
    assert _load.undisturbed(divmod, 7, 3) == (2, 1)
    monkeypatch.setattr(_load, "start_new_thread", handler)
    with pytest.raises(RuntimeError, match="time is over"):
        _load.undisturbed(divmod, 7, 3)


def test_a_thread_runs_although_its_start_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a signal handler raises just after the system has started it."""
    import threading
    from _thread import start_new_thread

    from nbmapops import _load

    ran = threading.Event()

    def broken_off(*arguments: Any) -> None:
        start_new_thread(*arguments)
        raise TimeoutError

    monkeypatch.setattr(_load, "start_new_thread", broken_off)
    with pytest.raises(TimeoutError):
        _load.undisturbed(ran.set)
    assert ran.wait(60)


LOCK_OF_LLVM = """
import gc, threading, traceback
from nbmapops._load import load_kernels
load_kernels()
from llvmlite.binding import ffi
gc.disable()  # what it ends of LLVM takes the lock, in whatever thread it runs

taken, main = [], threading.main_thread()

def take():
    taken.append("".join(traceback.format_stack()) if threading.current_thread() is main else "")

ffi.register_lock_callback(take, lambda: None)
from nbmapops import CastMap, DictVectorizer
from nbmapops._limits import limits
from nbmapops._reading import recordwalk
limits.engine = "compiled"
CastMap()([{0: 1.5}, {1: 2.5}])
DictVectorizer(int64_vocabulary=[3, 5]).csr([{3: 1.5}, {5: 2.5}])
DictVectorizer(string_vocabulary=["a", "b"]).csr([{"a": 1.5}, {"b": 2.5}])
assert recordwalk.available()
print(len(taken) > 100, *filter(None, taken))
"""


@compiled_only
def test_the_main_thread_never_takes_the_lock_of_llvm() -> None:
    """A signal handler that raises there leaves it locked, and other threads wait for ever."""
    assert run(LOCK_OF_LLVM).strip() == "True"


IMPORTS = """
import importlib.abc, sys, threading
import nbmapops.sklearn, numpy as np, pyarrow as pa
from nbmapops import CastMap, DictVectorizer, MapBatch
from nbmapops import _cache
from nbmapops._limits import limits

found = []

class Note(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        own = name.startswith("pyarrow.")  # what pyarrow imports for itself
        if threading.current_thread() is threading.main_thread() and not own:
            found.append(name)

sys.meta_path.insert(0, Note())
_cache.is_cached("x")
limits.engine = "compiled"
CastMap()([{0: 1.5}, {1: 2.5}])
CastMap()({0: "1.000000059604644775390625"})
DictVectorizer(int64_vocabulary=[3, 2**60]).csr([{3: 1.5}, {2**60: 2.5}])
words = DictVectorizer(string_vocabulary=["a", "b"])
words.csr([{"a": 1.5}, {"b": 2.5}])
words.csr(["a", "b"], [1.5, 2.5], [0, 1, 2])
nbmapops.sklearn.DictVectorizer().fit_transform([{"a": "b"}, {"a": 1.5}])
MapBatch.from_dicts([{1: 0.5}])._repr_html_()
maps = pa.array([[("a", 1.5)], [("b", 2.5)]], pa.map_(pa.string(), pa.float64()))
words.csr(maps)
words.csr(MapBatch.from_arrow(maps).to_arrow())
words.columns(pa.array(["a", "q"]).dictionary_encode())
MapBatch.from_lists(pa.array([["a"], ["b"]]))
print(*found)
"""


@compiled_only
def test_the_main_thread_imports_nothing_in_a_call() -> None:
    """A signal handler that raises in an import leaves Python's import lock taken."""
    pytest.importorskip("sklearn")
    pytest.importorskip("pyarrow")
    assert run(IMPORTS).split() == []


WARM = """
import sys
import numpy as np
from nbmapops import _jit
from nbmapops._load import load_kernels
kernels = load_kernels()
header = np.array([kernels.FORMAT, kernels.RANGE, 3, 10, 0, 0, 0, 0])
none = [np.empty(0, dtype) for dtype in (np.uint16, np.int64, np.int32)]
columns = np.empty(2, np.int64)
assert kernels.lookup(header, *none, np.array([12, 9]), columns) == kernels.OK
assert columns.tolist() == [2, -1]
tested = _jit.numba.__version__.startswith(_jit._LOADS_ALONE)
print(tested, "scipy.linalg" in sys.modules or "numba.np.linalg" in sys.modules)
"""


@compiled_only
def test_a_kernel_from_the_cache_needs_nothing_of_the_compiler(tmp_path: Path) -> None:
    """Its registries bring SciPy's linear algebra, and take longer than all kernels."""
    assert run(WARM, NUMBA_CACHE_DIR=str(tmp_path)).split()[1] == "True"
    tested, brought = run(WARM, NUMBA_CACHE_DIR=str(tmp_path)).split()
    assert tested == "False" or brought == "False"


@compiled_only
def test_functions_without_a_module_are_compiled() -> None:
    """The log looks at every function that Numba compiles, whoever made it."""
    import numba

    from nbmapops import kernels

    assert callable(kernels.lookup)
    names: dict[str, Any] = {}
    exec("def double(n):\n    return 2 * n", names)
    names["double"].__module__ = None

    assert numba.njit(names["double"])(4) == 8
