"""Measurements in a process of their own: ``python asv_bench/fresh.py NAME`` prints JSON."""

from __future__ import annotations

import ctypes
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks import works
from measure import interleaved, timed

if TYPE_CHECKING:
    from collections.abc import Callable


def one_dict() -> dict[str, dict[str, float] | dict[str, str]]:
    """Time one small map while numba is not imported (S15)."""
    result = timed(works.one_dict(1000), [works.OURS, "onnxruntime", "scikit-learn"])
    if "numba" in sys.modules:
        raise RuntimeError("one small map has imported numba")
    return result._asdict()


def command() -> tuple[float, float]:
    """Measure the CPU seconds of the command on JSON Lines, and of `json.loads` alone (S31)."""
    rng = np.random.default_rng(0)
    reads = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "maps.jsonl")
        with path.open("w") as file:
            for words, values in zip(
                rng.integers(10_000, size=(300_000, 10)).tolist(),
                rng.random((300_000, 10)).round(3).tolist(),
                strict=True,
            ):
                pairs = {f"w{word}": value for word, value in zip(words, values, strict=True)}
                file.write(json.dumps(pairs) + "\n")
        turns = [
            (_cpu("-m", "nbmapops", str(path)), _cpu("-c", reads, str(path))) for _ in range(3)
        ]
    ours, lines = zip(*turns, strict=True)
    return min(ours), min(lines)


def _cpu(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def csr_memory() -> tuple[int, int]:
    """Measure the extra memory of arrays to CSR (M1)."""
    return _extra_memory(works.csr_from_arrays, 500_000)


def generator_memory() -> tuple[int, int]:
    """Measure the extra memory of a generator of dicts to CSR (M2)."""
    return _extra_memory(works.csr_from_generator, 300_000)


def records_memory() -> tuple[int, int]:
    """Measure the extra memory of a generator of records through the estimator (M4)."""
    return _extra_memory(works.records_from_generator, 600_000)


def model_memory() -> tuple[int, int]:
    """Measure the extra memory of a model behind a wide vocabulary, and its outputs (S30)."""
    return _extra_memory(works.model, 5000, width=10_000)


def long_batch() -> tuple[dict[str, float], tuple[int, int]]:
    """Measure seconds an entry of 10**6 and of 10**8 entries, and the memory of those (S36)."""
    works.load_kernels()
    runs = {
        str(10**n): works.csr_from_long_arrays(10_000, 10**n).impls[works.OURS]() for n in (6, 8)
    }
    seconds = interleaved(runs)
    memory = _peak(runs[str(10**8)])
    return {entries: seconds[entries] / int(entries) for entries in runs}, memory


def _extra_memory(
    make: Callable[[int, int], works.Work], maps: int, width: int = 1000
) -> tuple[int, int]:
    """Give the peak of resident bytes above those before the call, and the bytes of the result.

    The call has run before on a small batch: compiled code and libraries are loaded. With a fixed
    threshold (mallopt -3) glibc returns large arrays to the system when they are freed, so that the
    result cannot use, unseen, memory that making the inputs has left behind.
    """
    works.load_kernels()
    ctypes.CDLL(None).mallopt(-3, 65_536)
    make(width, 1000).impls[works.OURS]()()
    return _peak(make(width, maps).impls[works.OURS]())


def _peak(run: Callable[[], Any]) -> tuple[int, int]:
    """Give the rise of the peak of resident bytes by a call, and the bytes of its result."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    before = _resident("VmRSS")
    result = run()
    extra = _resident("VmHWM") - before
    if isinstance(result, np.ndarray):
        return extra, result.nbytes
    return extra, sum(part.nbytes for part in (result.data, result.indices, result.indptr))


def _resident(field: str) -> int:
    """Read resident bytes: now (VmRSS) or at the peak (VmHWM).

    Not ``ru_maxrss``: a child starts with the peak of the process that made it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition(f"{field}:")[2].split()[0])


MEASUREMENTS: dict[str, Callable[[], Any]] = {
    "one_dict": one_dict,
    "command": command,
    "csr_memory": csr_memory,
    "generator_memory": generator_memory,
    "records_memory": records_memory,
    "model_memory": model_memory,
    "long_batch": long_batch,
}

if __name__ == "__main__":
    print(json.dumps(MEASUREMENTS[sys.argv[1]]()))
