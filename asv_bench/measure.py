"""Measuring for ``compare.py``: interleaved runs in one process, and fresh processes."""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import works

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.startup import Snippet

SECONDS = 3.0
"""How long the runs of one comparison go on, once every run has had its least number of turns."""
SAMPLE = 0.002
"""Shorter runs are repeated until a sample takes this long."""


class Timed(NamedTuple):
    """The best seconds of each implementation, and why the others have none."""

    seconds: dict[str, float]
    problems: dict[str, str]


def timed(work: works.Work, impls: Sequence[str], witness: str | None = None) -> Timed:
    """Prepare implementations, check that their results agree, and time them in turn.

    All are compared with the last of `impls`; with a `witness`, the first is compared with that and
    the others, which do less than the whole work, with nothing.
    """
    runs, problems = {}, {}
    for impl in (*impls, *([witness] if witness else [])):
        try:
            runs[impl] = work.impls[impl]()
            runs[impl]()
        except Exception as error:  # noqa: BLE001 - a part that is missing is a line of the table
            problems[impl] = f"{type(error).__name__}: {error}".splitlines()[0]
    pairs = [(impls[0], witness)] if witness else [(impl, impls[-1]) for impl in impls[:-1]]
    for impl, other in pairs:
        if impl in runs and other in runs:
            left, right = (work.view(runs[name]()) for name in (impl, other))
            if not works.same(left, right, work.tolerance):
                problems[impl] = f"its result is not that of {other}"
                del runs[impl]
    return Timed(interleaved({impl: runs[impl] for impl in impls if impl in runs}), problems)


def interleaved(runs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Time runs in turn, again and again, and keep the best time of each.

    Garbage collection is off, as in `timeit`: a pass over a million dicts would fall on whoever
    happens to allocate. The turn goes back and forth, so that nobody always follows the same
    neighbour.
    """
    numbers = {name: math.ceil(SAMPLE / _sample(run, 1)) for name, run in runs.items()}
    best = dict.fromkeys(runs, math.inf)
    order = list(runs)
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    try:
        for turns in range(40):
            if turns >= 3 and time.perf_counter() - start > SECONDS:
                break
            for name in order:
                best[name] = min(best[name], _sample(runs[name], numbers[name]))
            order.reverse()
    finally:
        gc.enable()
    return best


def _sample(run: Callable[[], Any], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        run()
    return (time.perf_counter() - start) / number


def fresh(measurement: str) -> Any:
    """Run a measurement of ``fresh.py`` in a process of its own."""
    script = str(Path(__file__).with_name("fresh.py"))
    return json.loads(_python(script, measurement))


class Started(NamedTuple):
    """The least CPU seconds of each snippet, and the snippets that have imported numba."""

    seconds: dict[str, float]
    numba: set[str]


def started(snippets: Mapping[str, Snippet], turns: int, *, cold: bool = False) -> Started:
    """Time snippets in fresh processes in turn; `cold`: each with an empty cache of kernels.

    CPU seconds are counted while the code runs, not during its setup; then the result is checked.
    """
    samples = [
        {name: _start(snippet, cold) for name, snippet in snippets.items()} for _ in range(turns)
    ]
    best = {name: min(sample[name][0] for sample in samples) for name in snippets}
    return Started(best, {name for name in snippets if samples[0][name][1]})


def _start(snippet: Snippet, cold: bool) -> tuple[float, bool]:
    program = f"""
import time
{snippet.setup}
began = time.process_time()
{snippet.code}
seconds = time.process_time() - began
import json, sys
print(json.dumps([seconds, "numba" in sys.modules]))
if not ({snippet.check}):
    sys.exit("its result is wrong")
"""
    with TemporaryDirectory() as empty:
        caches = {"NUMBA_CACHE_DIR": empty} if cold else {}
        seconds, numba = json.loads(_python("-c", program, **caches))
    return seconds, numba


def _python(*arguments: str, **variables: str) -> str:
    """Run Python and return the last line that it prints."""
    command, environment = [sys.executable, *arguments], {**os.environ, **variables}
    # An installed package has been parsed once.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout.splitlines()[-1]
