"""Faults around the library: caches, memory limits, interrupts, and load, each in a process."""

from __future__ import annotations

import compileall
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbmapops
from nbmapops import CastMap, DictVectorizer, MapBatch, kernels
from nbmapops._engine.blocks import row_blocks
from nbmapops._limits import limits
from nbmapops._reading import dictwalk

compiled = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="nothing is compiled without the JIT"
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
# Of the kernels only `lookup`, which takes the least time to compile.
BATCH = """
import nbmapops
from nbmapops._limits import limits
limits.engine = "compiled"
dv = nbmapops.DictVectorizer(int64_vocabulary=[5, 6, 9])
numbers, keys = dv.unknown([5, 9, 7, 6, 8], [0.5] * 5, [0, 3, 5])
assert (numbers.tolist(), keys.tolist()) == ([0, 1], [7, 8]), (numbers, keys)
print("right")
"""


def run(code: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **{k: v for k, v in environment.items() if v is not None}}
    for name, value in environment.items():
        if value is None:
            env.pop(name, None)
    return subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def right(result: subprocess.CompletedProcess[str]) -> bool:
    return result.returncode == 0 and result.stdout.strip().endswith("right")


# ------------------------------------------------------------------------------- caches
@compiled
@pytest.mark.parametrize("home", [True, False])
def test_a_package_in_a_folder_that_cannot_be_written(tmp_path: Path, *, home: bool) -> None:
    site = tmp_path / "site"
    package = copy_of_the_package(site)
    # A file of that name keeps even root from making the folder.
    (package / "__pycache__").touch()
    result = run(
        BATCH,
        PYTHONPATH=str(site),
        PYTHONDONTWRITEBYTECODE="1",
        NUMBA_CACHE_DIR=None,
        HOME=str(tmp_path) if home else os.devnull,
        XDG_CACHE_HOME=None if home else os.devnull,
    )
    assert right(result), result.stderr


@compiled
@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        (".nbi", "garbage"),
        (".nbc", "half"),
        pytest.param(".nbi", "empty", marks=pytest.mark.thorough),
        pytest.param(".nbi", "half", marks=pytest.mark.thorough),
        pytest.param(".nbc", "empty", marks=pytest.mark.thorough),
        pytest.param(".nbc", "garbage", marks=pytest.mark.thorough),
    ],
)
def test_a_damaged_cache_is_compiled_anew(
    warm_cache: Path, tmp_path: Path, suffix: str, damage: str
) -> None:
    folder = shutil.copytree(warm_cache, tmp_path / "cache")
    files = [path for path in folder.rglob("*") if path.suffix == suffix]
    assert files
    for path in files:
        content = path.read_bytes()
        path.write_bytes(
            {"empty": b"", "garbage": b"garbage" * 9, "half": content[: len(content) // 2]}[damage]
        )
    result = run(BATCH, NUMBA_CACHE_DIR=str(folder))
    assert right(result), result.stderr


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    assert right(run(BATCH, NUMBA_CACHE_DIR=str(folder)))
    return folder


@compiled
def test_a_cache_folder_that_goes_away(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    code = f"import shutil\nimport nbmapops.kernels\nshutil.rmtree({str(folder)!r})\n" + BATCH
    result = run(code, NUMBA_CACHE_DIR=str(folder))
    assert right(result), result.stderr


@compiled
@pytest.mark.parametrize(
    "room",
    [2_000, *(pytest.param(n, marks=pytest.mark.thorough) for n in (0, 20_000))],  # 9 s each
)
def test_a_cache_folder_that_is_full(tmp_path: Path, room: int) -> None:
    """A file that grows beyond `room` bytes is an OSError, as on a full disk."""
    pytest.importorskip("resource")
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))\n"
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for code in (limit + BATCH, BATCH):
        result = run(code, **environment)
        assert right(result), result.stderr


@compiled
def test_two_processes_compile_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: run(BATCH, NUMBA_CACHE_DIR=str(tmp_path)), range(2)))
    assert all(map(right, results)), [result.stderr for result in results]
    assert right(run(BATCH, NUMBA_CACHE_DIR=str(tmp_path)))


@compiled
@pytest.mark.thorough  # compiles three times: 10 s
def test_two_processes_save_other_signatures_at_once(tmp_path: Path) -> None:
    """Numba then may name the same file in the index for both: each finds the other's code."""
    code = """
import numpy as np
from nbmapops.kernels.index import hash_key
assert hash_key(np.{0}(0), np.uint64(3)) == 0
print("right")
"""
    folders = {dtype: tmp_path / dtype for dtype in ("int64", "int32")}
    for dtype, folder in folders.items():
        assert right(run(code.format(dtype), NUMBA_CACHE_DIR=str(folder)))
    (mine,) = folders["int64"].rglob("*hash_key*.nbc")
    (other,) = folders["int32"].rglob("*hash_key*.nbc")
    shutil.copy(other, mine)
    for _ in range(2):
        result = run(code.format("int64"), NUMBA_CACHE_DIR=str(folders["int64"]))
        assert right(result), result.stderr


@compiled
def test_an_upgrade_over_an_old_cache(tmp_path: Path) -> None:
    site = tmp_path / "site"
    package = copy_of_the_package(site)
    environment = {"PYTHONPATH": str(site), "NUMBA_CACHE_DIR": None}
    assert right(run(BATCH, **environment))
    # As a release would: other code under the same names, in the same place.
    path = package / "_constants.py"
    text = path.read_text()
    assert "TABLE, HASH = 0, 1, 2" in text
    path.write_text(text.replace("HASH = 0, 1, 2", "HASH = 0, 2, 1"))
    result = run(BATCH, **environment)
    assert right(result), result.stderr


LEARN = """
from nbmapops import kernels
import numpy as np
assert kernels.distinct(np.array([7, 5, 7]), 1).tolist() == [7, 5]
stats = kernels.distinct.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def copy_of_the_package(folder: Path) -> Path:
    return shutil.copytree(
        Path(nbmapops.__file__).parent,
        folder / "nbmapops",
        ignore=shutil.ignore_patterns("__pycache__"),
    )


@pytest.mark.slow
@compiled
def test_an_edit_in_one_file_compiles_its_callers_in_another(tmp_path: Path) -> None:
    """And the next process finds them in the cache, as it does what no edit has touched."""
    package = copy_of_the_package(tmp_path)

    def found() -> str:
        done = run(LEARN, PYTHONPATH=str(tmp_path), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        return done.stdout.strip() or done.stderr

    assert found() == "0 1"
    assert found() == "1 0"
    with (package / "kernels" / "index.py").open("a") as file:  # what `distinct` calls is here
        file.write("# another release\n")
    assert found() == "0 1"
    assert found() == "1 0"
    with (package / "_castmap.py").open("a") as file:  # nothing in it is compiled
        file.write("# another release\n")
    assert found() == "1 0"


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("kind", ["zip", "pyc"])
def test_a_package_without_source_files(tmp_path: Path, kind: str) -> None:
    package = copy_of_the_package(tmp_path / "site")
    if kind == "zip":
        shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path / "site")
    else:
        compileall.compile_dir(package, quiet=1, legacy=True)
        for path in package.rglob("*.py"):
            path.unlink()
    site = tmp_path / ("all.zip" if kind == "zip" else "site")
    result = run(LEARN + BATCH, PYTHONPATH=str(site), HOME=str(tmp_path), NUMBA_CACHE_DIR=None)
    assert right(result), result.stderr


LOGGED = (
    "import logging\nlogging.basicConfig(level=logging.INFO, format='%(levelname)s %(message)s')\n"
)


@pytest.mark.slow
@compiled
def test_the_log_says_what_is_compiled_and_what_cannot_be_kept(tmp_path: Path) -> None:
    cold, warm = (run(LOGGED + LEARN, NUMBA_CACHE_DIR=str(tmp_path)).stderr for _ in range(2))
    began, ended = cold.splitlines()  # not a line for each of the kernels that it calls
    assert began == "INFO compiling kernels.distinct.distinct, which no cache holds"
    assert re.fullmatch(r"INFO compiled kernels.distinct.distinct in \d+\.\d s", ended)
    assert warm == ""

    nowhere = "import numba.core.caching\nnumba.core.caching.CacheImpl._locator_classes = []\n"
    lines = run(LOGGED + nowhere + LEARN.replace("stats = ", "raise SystemExit\n")).stderr
    assert [line for line in lines.splitlines() if "WARNING" in line] == [
        next(line for line in lines.splitlines() if "cannot be kept" in line)
    ]
    assert "NUMBA_CACHE_DIR can name a folder for it" in lines

    pytest.importorskip("resource")
    (tmp_path / "full").mkdir()
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n" + LEARN
    quiet = run(code, NUMBA_CACHE_DIR=str(tmp_path / "full")).stderr  # no logging set up
    assert len(quiet.splitlines()) == 1
    assert "compiled code cannot be kept" in quiet


# ------------------------------------------------------------------------------- limits
@linux
def test_a_memory_limit_is_an_error_that_says_the_size() -> None:
    code = """
import numpy as np, resource, nbmapops
import nbmapops.kernels
dv = nbmapops.DictVectorizer(int64_vocabulary=np.arange(100_000))
batch = nbmapops.MapBatch.from_arrays(np.zeros(20_000, int), np.ones(20_000), np.arange(20_001))
dv(batch[:2])
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
huge = nbmapops.CastMap(map_form="SPARSE", max_map=10**10)
for call in (lambda: dv(batch), lambda: huge({1: 2.0})):
    try:
        call()
    except MemoryError as error:
        assert "GiB" in str(error) and "csr()" in str(error), error
    else:
        raise AssertionError("no error")
assert dv(batch[:2]).shape == (2, 100_000)
print("right")
"""
    result = run(code)
    assert right(result), result.stderr


def test_sizes_beyond_the_address_space_are_memory_errors() -> None:
    huge = CastMap(map_form="SPARSE", max_map=2**62)
    with pytest.raises(MemoryError, match=r"shape \(4611686018427387904,\).*TiB; csr\(\)"):
        huge({1: 2.0})
    with pytest.raises(MemoryError, match=r"shape \(2, 4611686018427387904\)"):
        huge([{1: 2.0}, {}])


long = pytest.mark.thorough
INTERRUPTED = [
    pytest.param("dv.csr(batch)", id="arrays"),
    pytest.param("dv.csr(batch, threads=2)", id="arrays on threads"),
    pytest.param("narrow(batch)", id="arrays to dense rows", marks=long),
    pytest.param("narrow(maps)", id="dicts"),
    pytest.param("dv.csr(m for m in maps)", id="a generator of dicts", marks=long),
    pytest.param("nbmapops.DictVectorizer.from_maps(maps)", id="learning", marks=long),
]


@compiled
@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
@pytest.mark.parametrize("call", INTERRUPTED)
def test_an_interrupt_is_honoured_between_blocks(call: str) -> None:
    code = f"""
import numpy as np, signal, nbmapops
rng = np.random.default_rng(0)
words = np.unique(rng.integers(0, 2**62, 100_000))
places = np.arange(12) * 8_000 + rng.integers(0, 8_000, (15_000, 12))
keys = words[places].ravel()
dv = nbmapops.DictVectorizer(int64_vocabulary=words)
narrow = nbmapops.DictVectorizer(int64_vocabulary=words[:50], handle_unknown="ignore")
batch = nbmapops.MapBatch.from_arrays(keys, np.ones(keys.size), np.arange(0, keys.size + 1, 12))
maps = batch.to_dicts()
expected = dv.csr(batch[:1000])
{call}
# What a shell starts with "&" ignores the signal, and so would this process.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
try:
    while True:
        {call}
except KeyboardInterrupt:
    print("interrupted")
for again in (dv.csr(batch[:1000]), dv.csr(batch[:1000], threads=2), dv.csr(maps[:1000])):
    assert (again != expected).nnz == 0
{call}
print("right", flush=True)
"""
    pytest.importorskip("scipy")
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert out.split() == ["interrupted", "right"], err
    finally:
        process.kill()
        process.communicate()


def test_blocks_between_which_interrupts_are_honoured_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No kernel gets more entries at once, or more bytes of rows, than a block and a map have."""
    monkeypatch.setattr(limits, "engine", "compiled")
    monkeypatch.setattr(limits, "block_entries", 100)
    monkeypatch.setattr(limits, "block_bytes", 1000)
    lengths = np.random.default_rng(0).integers(0, 12, 500)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for threads in (1, 3):
        for row_bytes in (0, 8, 400):
            blocks = row_blocks(offsets, row_bytes, threads)
            assert [start for start, _ in blocks] == [0, *(stop for _, stop in blocks[:-1])]
            assert blocks[-1][1] == len(lengths)
            for start, stop in blocks:
                entries, height = offsets[stop] - offsets[start], stop - start
                assert 16 * entries + height * row_bytes <= 16 * (100 + 12) + 1000 + row_bytes
                assert row_bytes or entries <= 100 + 12
    seen = []
    keys, values = np.concatenate([np.arange(n) for n in lengths]), np.ones(offsets[-1])
    real = kernels.vectorize_csr

    def counted(*arguments: Any) -> Any:
        start, stop = arguments[7:9]
        seen.append(int(offsets[stop] - offsets[start]))
        return real(*arguments)

    monkeypatch.setattr(kernels, "vectorize_csr", counted)
    pytest.importorskip("scipy")
    DictVectorizer(int64_vocabulary=range(12)).csr(keys, values, offsets)
    assert sum(seen) == len(keys)
    assert max(seen) <= 100 + 12


@pytest.mark.parametrize("sparse", [False, True])
def test_chunks_of_dicts_are_bounded(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk over dicts holds the GIL, for so many maps and entries at most."""
    if not dictwalk.available():
        pytest.skip("dicts are read by plain Python, which honours interrupts anywhere")
    if sparse:
        pytest.importorskip("scipy")
    seen = []
    real = dictwalk.walk

    def counted(*arguments: Any) -> Any:
        read, reason = real(*arguments)
        offsets = arguments[7]
        seen.append((read, int(offsets[read])))
        return read, reason

    monkeypatch.setattr(dictwalk, "walk", counted)
    monkeypatch.setattr(limits, "engine", "compiled")
    maps = [dict.fromkeys(range(n % 7), 1.0) for n in range(40_000)]
    dv = DictVectorizer(int64_vocabulary=range(7))
    dv.csr(maps) if sparse else dv(maps)
    assert sum(read for read, _ in seen) == len(maps)
    assert max(read for read, _ in seen) <= limits.chunk_maps
    assert max(entries for _, entries in seen) <= limits.chunk_entries


def test_one_long_map_of_many_asks_for_no_memory_of_many_long_ones() -> None:
    pytest.importorskip("scipy")
    long = dict.fromkeys(range(200_000), 1.0)
    for key in (int, str):
        first = {key(each): 1.0 for each in long}
        words: Any = {f"{'string' if key is str else 'int64'}_vocabulary": list(first)}
        dv = DictVectorizer(**words)
        assert dv.csr([first, *[{}] * 3_000_000]).nnz == 200_000


# ------------------------------------------------------------------------------- load
@pytest.mark.parametrize("batches", [300, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_one_operator_for_eight_threads_under_load(batches: int) -> None:
    rng = np.random.default_rng(11)
    words = np.unique(rng.integers(-(2**62), 2**62, 300))
    by_int = DictVectorizer(int64_vocabulary=words, handle_unknown="ignore")
    by_text = DictVectorizer(
        string_vocabulary=[f"w{i}" for i in range(300)], handle_unknown="ignore"
    )
    ordered = CastMap(cast_to="TO_STRING")

    def work(number: int) -> list[Any]:
        local = np.random.default_rng(number)
        places = [local.choice(300, local.integers(1, 9), replace=False) for _ in range(6)]
        ints = [
            dict(zip(words[place].tolist(), local.random(9).tolist(), strict=False))
            for place in places
        ]
        texts = [{f"w{p}": float(p) for p in place} for place in places]
        return [
            by_int(ints).tolist(), by_text(texts).tolist(), by_text(texts[0]).tolist(),
            ordered.ragged(ints)[0].tolist(), by_int(MapBatch.from_dicts(ints)).tolist(),
            by_text.unknown([*texts, {"q": 1.0}])[1].tolist(),
        ]  # fmt: skip

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(work, range(batches)))
    serial = [work(number) for number in range(batches)]
    assert together == serial
