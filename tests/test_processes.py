"""Operators in other processes and interpreters: forked, spawned, with threads and signals."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from .conftest import WITHOUT_JIT

INTERPRETERS = ("_interpreters", "_xxsubinterpreters")  # since Python 3.13, before
# What every process is asked: small maps and large batches, dicts and arrays, results and errors.
HEAD = """
import os, sys, threading
import numpy as np
from nbmapops import CastMap, DictVectorizer, MapBatch

WORDS = [5, 2**40, -9, 77]
by_int = DictVectorizer(int64_vocabulary=WORDS)
by_text = DictVectorizer(string_vocabulary=["a", "b"], handle_unknown="ignore")
maps = [{word: float(n)} for n in range(500) for word in WORDS[: 1 + n % 4]]
texts = [{"a": float(n), f"w{n}": 1.0} for n in range(2000)]

def answers(threads=2):
    batch = MapBatch.from_dicts(maps)
    found = [by_int({5: 1.5}), by_int(maps), by_int(batch, threads=threads), by_text(texts)]
    found += [CastMap(cast_to="TO_STRING")(maps), CastMap()([3, 1, 2], [1.0, 2.0, 3.0])]
    found += [DictVectorizer.from_maps(texts, order="first_seen")(texts[:3])[:, :3]]
    try:
        by_int([*maps, {6: 1.0}])
    except KeyError as error:
        found.append(str(error))
    return [each if isinstance(each, str) else each.tolist() for each in found]
"""


def run(body: str, *, head: str = HEAD, folder: Any = None, timeout: float = 240) -> str:
    """Run a script in a fresh process that must end well; what it printed."""
    code = head + textwrap.dedent(body)
    arguments = ["-c", code]
    if folder is not None:  # processes are spawned from a file only
        path = folder / "script.py"
        path.write_text(code)
        arguments = [str(path)]
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", *arguments],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("used", [False, True])
def test_a_forked_child_answers(used: bool) -> None:
    """Forked before the kernels are loaded, or after they ran on threads."""
    body = f"""
    expected = answers() if {used} else None
    child = os.fork()
    if child == 0:
        found = answers()
        os._exit(0 if expected in (None, found) and found == answers(threads=1) else 1)
    expected = answers()
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
    assert answers() == expected
    print("right")
    """
    assert run(body) == "right"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_forked_while_another_thread_works() -> None:
    body = """
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # of fork, where there are threads
    # All is loaded before: who forks while another thread imports a module has a child that waits
    # for that import for ever.
    from nbmapops._limits import limits
    limits.engine = "compiled"
    expected = answers(threads=1)
    running = True
    def work():
        while running:
            assert answers() == expected
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    for _ in range(10):
        child = os.fork()
        if child == 0:
            os._exit(0 if answers() == expected else 1)
        status = os.waitpid(child, 0)[1]
        assert status == 0, status
    running = False
    thread.join()
    print("right")
    """
    assert run(body) == "right"


# Python's own: where joblib is imported, it has added some that a fresh process does not have.
METHODS = sorted({"fork", "forkserver", "spawn"} & set(multiprocessing.get_all_start_methods()))


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_pool_answer(method: str, tmp_path: Any) -> None:
    """Operators and batches are sent to them, and results back."""
    body = f"""
    import multiprocessing

    def work(pair):
        op, batch = pair
        return op(batch).tolist()

    if __name__ == "__main__":
        expected = answers()
        batch = MapBatch.from_dicts(maps)
        pairs = [(by_int, batch[n : n + 50]) for n in range(0, len(batch), 50)]
        pairs += [(by_text, texts[n : n + 50]) for n in range(0, len(texts), 50)]
        with multiprocessing.get_context("{method}").Pool(2) as pool:
            assert pool.map(work, pairs) == [work(pair) for pair in pairs]
            assert pool.apply(answers) == expected
        print("right")
    """
    assert run(body, folder=tmp_path) == "right"


# NumPy loads in one interpreter only, or in none but the main one: what it says is clear enough.
SUBINTERPRETER = """
import os
try:
    import numpy
except ImportError:
    pass
else:
    exec({code!r})
os.write(1, b"right")
"""

SMALL = """
from nbmapops import CastMap, DictVectorizer
assert DictVectorizer(string_vocabulary=["a", "b"])({"b": 1.5}).tolist() == [0.0, 1.5]
assert DictVectorizer(int64_vocabulary=[5, 7])({7: 1.5}).tolist() == [0.0, 1.5]
assert CastMap(cast_to="TO_STRING")({3: 1.5, 1: 2.0}).tolist() == ["2.000000", "1.500000"]
"""
BATCH = """
from nbmapops import DictVectorizer
dv = DictVectorizer(int64_vocabulary=[5, 2**40, -9])
try:
    rows = dv([{5: 1.5}, {-9: 2.5}] * 500)
except (ImportError, RuntimeError) as error:
    assert "main interpreter" in str(error), error
else:
    assert rows[:2].tolist() == [[1.5, 0.0, 0.0], [0.0, 0.0, 2.5]]
"""


@pytest.mark.parametrize("code", [SMALL, BATCH], ids=["one small map", "a batch"])
@pytest.mark.parametrize("loaded", [False, True])
def test_a_subinterpreter_is_served_or_refused(code: str, loaded: bool) -> None:
    module = next((name for name in INTERPRETERS if importlib.util.find_spec(name)), None)
    if module is None:
        pytest.skip("this Python has no subinterpreters")
    inner = SUBINTERPRETER.format(code=code)
    script = f"import {module} as made\nmade.run_string(made.create(), {inner!r})\n"
    assert run(script, head=HEAD if loaded else "", timeout=60) == "right"


@pytest.mark.skipif(WITHOUT_JIT, reason="nothing is compiled without the JIT")
def test_signal_handlers_run_between_chunks_of_maps() -> None:
    """A handler that uses the same operator, and now and then raises."""
    body = """
    import signal
    if not hasattr(signal, "setitimer"):
        print("right"); sys.exit()
    class Interrupt(Exception): pass
    expected = answers(threads=1)
    ticks = raised = rounds = 0
    armed = False
    def tick(number, frame):
        global ticks, raised, armed
        ticks += 1
        assert by_int({5: 1.5}).tolist() == expected[0]
        if armed and ticks % 20 == 0:
            armed = False
            raised += 1
            raise Interrupt
    # By the time that the process works: on a busy machine no round would end.
    signal.signal(signal.SIGVTALRM, tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.002, 0.002)
    while rounds < 20 or raised < 5:
        try:
            armed = True
            found = answers(threads=1 + rounds % 2)
            armed = False
            assert found == expected
            rounds += 1
        except Interrupt:
            pass
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    assert answers() == expected
    print("right")
    """
    assert run(body) == "right"
