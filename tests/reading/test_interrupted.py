"""A time limit comes out of a call that reads dicts, at any moment, and breaks nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.usefixtures("walking"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]

# Numba is loaded by the parent: tests/kernels/test_load.py interrupts its import. Each child makes
# a first call, which imports SciPy, loads or compiles the kernels and tests the walk, and is
# interrupted; one that hangs says where. (Where a handler raises just after Python has taken its
# import lock, Python never gives it back, and the next import in another thread waits for ever.)
CODE = """
import faulthandler, os, signal, sys, tempfile, time
import numba, numpy as np
from nbmapops import DictVectorizer
from nbmapops._load import load_kernels

load_kernels()
textual, cold, moments = sys.argv[1] == "string", sys.argv[2] == "cold", int(sys.argv[3])
columns = np.random.default_rng(0).integers(0, 50, (30_000, 4)) + 50 * np.arange(4)
names = [f"w{i}" for i in range(200)] if textual else list(range(200))
maps = [{names[j]: j / 2 for j in row} for row in columns.tolist()]
expected = np.sort(columns)

class TooLong(Exception):
    pass

def ring(*_):
    raise TooLong

signal.signal(signal.SIGALRM, ring)

def call():
    kinds = {"string_vocabulary" if textual else "int64_vocabulary": names}
    return DictVectorizer(**kinds).csr(maps)

def interrupted(seconds):
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except TooLong:
        return True
    return False

def in_a_child(work):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(200, exit=True)
        if cold:
            numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()
        try:
            os.write(write, work().encode())
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    os.close(write)
    with os.fdopen(read) as pipe:
        return pipe.read()

def time_of_a_call():
    start = time.perf_counter()
    call()
    return str(time.perf_counter() - start)

def one_moment():
    came_out = interrupted(moment)
    for share in (None, 0.2, 0.7):  # later calls are as short as a call is
        if share is not None:
            interrupted(share * warm)
        matrix = call()
        assert (matrix.indices.reshape(expected.shape) == expected).all()
        assert (matrix.data.reshape(expected.shape) == expected / 2).all()
    from nbmapops._reading import dictwalk
    assert dictwalk.available()
    assert dictwalk._holds(sys.argv[1])
    assert (dictwalk._walk_string if textual else dictwalk._walk_int64).signatures
    return str(int(came_out))

def two_calls():
    call()
    return time_of_a_call()

in_a_child(time_of_a_call)  # a cache that is to be warm is so afterwards
span = min(float(in_a_child(time_of_a_call)) for _ in range(3))  # one may be held up
warm = float(in_a_child(two_calls))
found = []
for n in range(moments):
    moment = span * (n + 0.5) / moments
    found.append(int(in_a_child(one_moment)))
print(sum(found))
"""


@pytest.mark.parametrize("cache", ["warm", pytest.param("cold", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", ["int64", pytest.param("string", marks=pytest.mark.thorough)])
def test_a_time_limit_comes_out_of_a_call_and_the_next_one_walks(kind: str, cache: str) -> None:
    moments = 30
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CODE, kind, cache, str(moments)],
        capture_output=True,
        check=False,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "ignored" not in done.stderr, done.stderr
    # A call that is faster than the one that was measured ends before the last moments.
    assert int(done.stdout) >= moments // 4
