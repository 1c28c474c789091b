"""What a signal handler raises comes out of the call, whatever its class and at every line."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import types
from collections import UserDict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nbmapops
from nbmapops import CastMap, DictVectorizer, MapBatch
from nbmapops._foreign import is_foreign, is_interruption
from nbmapops._limits import limits

from .conftest import WITHOUT_JIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(WITHOUT_JIT, reason="coverage measures by the same hook")

HOME = str(Path(nbmapops.__file__).parent)
SIGNAL = signal.SIGINT  # the one that every system lets a process send to itself


class Several(
    ValueError, TypeError, KeyError, IndexError, OverflowError, NotImplementedError, MemoryError
):
    """What most handlers of exceptions wait for."""


class Late(TimeoutError):
    """An OSError."""


class Missing(ImportError):
    pass


@pytest.fixture(autouse=True)
def _no_handler_is_left() -> Iterator[None]:
    before = signal.getsignal(SIGNAL)
    yield
    sys.settrace(None)
    signal.signal(SIGNAL, before)


def interrupted(call: Callable[[], object], line: int, error: Exception) -> tuple[str, object]:
    """Raise an error from a signal handler at a line of the package; where, and what came out."""

    def handler(*_: object) -> None:
        raise error

    signal.signal(SIGNAL, handler)
    seen, where = 0, ""

    def trace_lines(frame: types.FrameType, event: str, _: object) -> Any:
        nonlocal seen, where
        seen += event == "line"
        if seen == line and event == "line":
            sys.settrace(None)
            where = f"{os.path.relpath(frame.f_code.co_filename, HOME)}:{frame.f_lineno}"
            signal.raise_signal(SIGNAL)
        return trace_lines

    def trace(frame: types.FrameType, *_: object) -> Any:
        return trace_lines if frame.f_code.co_filename.startswith(HOME) else None

    def run() -> Iterator[object]:
        # A generator: one that is broken off on the line of an `except` takes along the exception
        # that Python would go on to call the current one.
        yield call()

    sys.settrace(trace)
    try:
        next(run())
    except BaseException as caught:  # noqa: BLE001 (what comes out is what is asked for)
        return where, caught
    finally:
        sys.settrace(None)
    return where, None


def calls() -> dict[str, Callable[[], object]]:
    keys, values, offsets = np.array([1, 2, 3]), np.array([1.0, 2, 3]), np.array([0, 1, 3])
    texts = np.array(["a", "b", "a"], object)
    digits, signs = np.array(["1", "2", "3"], object), np.array(["1.5", "inf", "-3"], object)
    ints, strs = (
        DictVectorizer(int64_vocabulary=[1, 2, 3]),
        DictVectorizer(string_vocabulary=["a", "b"]),
    )
    ignoring = DictVectorizer(int64_vocabulary=[1, 2, 3], handle_unknown="ignore")
    cast, sparse = CastMap(), CastMap(map_form="SPARSE", max_map=5)
    to_text, to_int = CastMap(cast_to="TO_STRING"), CastMap(cast_to="TO_INT64")
    as_ort = CastMap(semantics="onnxruntime")
    ints_as_ort = CastMap(cast_to="TO_INT64", semantics="onnxruntime")
    maps: list[Any] = [{1: 1.5}, {2: 2.5, 3: 1}]
    named: list[Any] = [{"a": 1.5}, {"b": 2.5, "a": 1}]
    others: list[Any] = [types.MappingProxyType({1: 1.0}), UserDict({2: 2.0})]
    return {
        "dict": lambda: ints({1: 1.5}),
        "dicts": lambda: ints(maps),
        "dicts of text": lambda: strs(named),
        "dicts, unknown keys": lambda: ignoring([{1: 1.0, 9: 2.0}]),
        "an iterator": lambda: strs(iter(named)),
        "other mappings": lambda: ints(others),
        "pairs": lambda: ints([[(1, 1.5)], [(2, 2.5)]]),
        "arrays": lambda: ints(keys, values, offsets),
        "threads": lambda: ints(keys, values, offsets, threads=2),
        "lists": lambda: ints([1, 2, 3], [1, 2**62, 3], [0, 1, 3]),
        "arrays of text": lambda: strs(texts, values, offsets),
        "to floats": lambda: cast(keys, signs, offsets),
        "to float": lambda: cast({1: "1.5"}),
        "to ints": lambda: to_int(keys, digits, offsets),
        "to floats, as onnxruntime": lambda: as_ort([{1: "1.5"}, {1: "2x"}]),
        "to ints, as onnxruntime": lambda: ints_as_ort([{1: "1x"}, {1: "2"}]),
        "to text": lambda: to_text(keys, values, offsets),
        "ragged": lambda: cast.ragged(maps),
        "SPARSE": lambda: sparse(maps),
        "unknown": lambda: ignoring.unknown([{1: 1.0, 9: 2.0}]),
        "columns": lambda: strs.columns(texts),
        "inverse": lambda: ints.inverse(np.array([[1.0, 0, 2]])),
        "inverse of lists": lambda: ints.inverse([[1.0, 0, 2]]),
        "from_maps": lambda: DictVectorizer.from_maps(named).vocabulary,
        "words": lambda: DictVectorizer(int64_vocabulary=[3, 5, 2**40]).vocabulary,
        "from_dicts": lambda: MapBatch.from_dicts(maps),
        "from_rows": lambda: MapBatch.from_rows([0, 1, 0], [1, 2, 3], [1.0, 2, 3]),
        "from_rows of text": lambda: MapBatch.from_rows(["x", "y", "x"], [1, 2, 3], [1.0, 2, 3]),
        "from_lists": lambda: MapBatch.from_lists([["a"], ["b", "a"]]),
        "sums": lambda: MapBatch.from_arrays([1, 1, 2], values, [0, 2, 3]).sum_duplicates(),
        "to_dicts": lambda: MapBatch.from_dicts(named).to_dicts(),
        "a Decimal": lambda: ints({1: Decimal("1.5")}),
        "fill_value": lambda: DictVectorizer(int64_vocabulary=[1], fill_value=7)([{1: 1}]),
        "a bad key": lambda: ints({1.5: 1.0}),
        "an unknown key": lambda: ints([{9: 1.0}]),
        "a bad value": lambda: to_int([{1: float("nan")}]),
    }


def calls_of_extras() -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {}
    maps: list[Any] = [{1: 1.5}, {2: 2.5, 3: 1}]
    named: list[Any] = [{"a": 1.5}, {"b": 2.5, "a": 1}]
    ints, strs = (
        DictVectorizer(int64_vocabulary=[1, 2, 3]),
        DictVectorizer(string_vocabulary=["a", "b"]),
    )
    try:
        import scipy.sparse  # noqa: F401 (csr needs it)
    except ImportError:
        return found
    csr = ints.csr(maps)
    found |= {
        "csr": lambda: ints.csr(maps),
        "csr of an iterator": lambda: ints.csr(iter(maps)),
        "csr of text": lambda: strs.csr(np.array(["a", "b"], object), [1.0, 2.0], [0, 1, 2]),
        "inverse of csr": lambda: ints.inverse(csr),
    }
    try:
        import pyarrow as pa
    except ImportError:
        pass
    else:
        column = pa.array([list(each.items()) for each in named], pa.map_("str", "double"))
        found |= {
            "Arrow": lambda: strs(column),
            "Arrow to csr": lambda: strs.csr(column),
            "scalars of Arrow": lambda: strs(list(column)),
            "to Arrow": lambda: MapBatch.from_dicts(named).to_arrow(),
        }
    try:
        from nbmapops.sklearn import DictVectorizer as Estimator
    except ImportError:
        return found
    records: list[Any] = [{"a": "x", "b": 2.0, "c": ["p", "q"]}, {"a": None, "b": 1}]
    return found | {
        "fit_transform": lambda: Estimator().fit_transform(records),
        "transform": lambda: Estimator(sparse=False).fit(records).transform(iter(records)),
    }


@pytest.mark.parametrize(
    ("engine", "error"),
    [
        ("plain", Several),
        *(
            pytest.param(engine, error, marks=pytest.mark.slow)
            for engine in ("plain", "compiled")
            for error in (Several, Late, Missing)
            if (engine, error) != ("plain", Several)
        ),
    ],
)
def test_what_a_handler_raises_comes_out(
    monkeypatch: pytest.MonkeyPatch, engine: Any, error: type[Exception]
) -> None:
    monkeypatch.setattr(limits, "engine", engine)
    monkeypatch.setattr(limits, "thread_entries", 1)
    lost: list[str] = []
    for name, call in (calls() | calls_of_extras()).items():
        for shortcuts in (True, False):
            monkeypatch.setattr(limits, "shortcuts", shortcuts)
            interrupted(call, 0, error())  # what is made once is made
            for line in range(1, 5000):
                raised = error("time is up")
                where, caught = interrupted(call, line, raised)
                if not where:
                    break
                if caught is not raised:
                    lost.append(f"{name}, {where}: {caught!r}")
            assert line > 10
    assert lost == []


def test_a_handler_within_a_repr_comes_out_and_a_failing_repr_does_not() -> None:
    class Slow:
        def __repr__(self) -> str:
            signal.raise_signal(SIGNAL)
            raise ValueError("a repr that fails")

    class Timer:
        error = Several("time is up")

        def ring(self, *_: object) -> None:
            raise self.error

        def __call__(self, *_: object) -> None:
            self.ring()

    def ring(error: Exception, *_: object) -> None:
        raise error

    for handler in (Timer().ring, Timer(), functools.partial(ring, Timer.error)):
        signal.signal(SIGNAL, handler)
        with pytest.raises(Several) as caught:
            DictVectorizer(int64_vocabulary=[1])({1: Slow()})
        assert caught.value is Timer.error
    signal.signal(SIGNAL, lambda *_: None)
    with pytest.raises(TypeError, match="<Slow object>"):
        DictVectorizer(int64_vocabulary=[1])({1: Slow()})


def test_ctrl_c_in_the_start_of_a_thread_is_not_a_machine_that_refuses_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leaving a lock that the handler has broken off raises a RuntimeError in its place."""
    monkeypatch.setattr(limits, "engine", "compiled")
    monkeypatch.setattr(limits, "shortcuts", False)
    monkeypatch.setattr(limits, "thread_entries", 1)

    def handler() -> None:
        raise Several("time is up")

    machine: dict[str, Any] = {"__name__": "threading", "handler": handler}
    exec(
        "def start(thread):\n"
        "    try:\n"
        "        handler()\n"
        "    finally:\n"
        "        raise RuntimeError('release unlocked lock')\n",
        machine,
    )
    monkeypatch.setattr(threading.Thread, "start", machine["start"])
    with pytest.raises(RuntimeError, match="release unlocked lock") as caught:
        DictVectorizer(int64_vocabulary=[1, 2])([1, 2], [1.0, 2.0], [0, 1, 2], threads=2)
    assert isinstance(caught.value.__context__, Several)


def test_an_error_that_was_caught_before_the_call_is_not_of_it() -> None:
    ours: dict[str, Any] = {"__name__": "threading"}
    exec("def fail(): raise RuntimeError('no thread')", ours)

    def caught(call: Callable[[], object]) -> BaseException:
        namespace: dict[str, Any] = {"__name__": "nbmapops.example", "call": call}
        exec(
            "def catch():\n"
            "    try:\n"
            "        call()\n"
            "    except BaseException as error:\n"
            "        return error\n",
            namespace,
        )
        found: BaseException = namespace["catch"]()
        return found

    def foreign() -> None:
        raise ValueError

    assert is_foreign(caught(foreign))
    assert not is_interruption(caught(foreign))
    assert not is_foreign(caught(ours["fail"]))
    try:
        foreign()
    except ValueError:
        assert not is_foreign(caught(ours["fail"]))
