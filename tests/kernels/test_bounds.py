"""Nothing outside an array is read or written, whatever keys, offsets and other threads do."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from nbmapops import CastMap, DictVectorizer, MapBatch, kernels
from nbmapops._vocabulary import range_index
from nbmapops.kernels.group import group

from ..conftest import WITHOUT_JIT
from ..fresh import run
from ..reference import INT64_MAX, INT64_MIN
from ..ways import WAYS, way

DOCUMENTED = (TypeError, ValueError, KeyError, OverflowError, MemoryError)
EXTREMES = [INT64_MIN, INT64_MIN + 1, -1, 0, 1, 2, 2**31, 2**62, INT64_MAX - 1, INT64_MAX]
OPS: dict[str, Any] = {
    "range": DictVectorizer(int64_vocabulary=[0, 1, 2], handle_unknown="ignore"),
    "range at the start": DictVectorizer(
        int64_vocabulary=range(INT64_MIN, INT64_MIN + 3), handle_unknown="ignore"
    ),
    "range at the end": DictVectorizer(
        int64_vocabulary=[INT64_MAX - 2, INT64_MAX - 1, INT64_MAX], handle_unknown="ignore"
    ),
    "table": DictVectorizer(int64_vocabulary=[2, 0, 1], semantics="onnxruntime"),
    "hash": DictVectorizer(int64_vocabulary=[INT64_MIN, 0, INT64_MAX], semantics="onnxruntime"),
    "strict hash": DictVectorizer(int64_vocabulary=[2**40, 1, -(2**50)]),
    "SPARSE": CastMap(map_form="SPARSE", max_map=3),
    "SPARSE of onnxruntime": CastMap(map_form="SPARSE", max_map=3, semantics="onnxruntime"),
    "DENSE": CastMap(semantics="onnxruntime"),
}


def guarded(shape: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
    """An array for ``out=``, and the longer one that it is a part of."""
    size = int(np.prod(shape))
    around = np.full(size + 2000, -77, dtype)
    return around[1000 : 1000 + size].reshape(shape), around


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_results_stay_inside_their_array(op: Any, name: str) -> None:
    rng = np.random.default_rng(5)
    for n in (0, 1, 3, 70, 400):
        keys = rng.choice(np.array(EXTREMES), n)
        for offsets in (None, [0, n], [0, n // 3, n // 3, n]):
            batch = keys, rng.random(n).astype(np.float32), offsets
            rows = [3] if offsets is None else [len(offsets) - 1, 3]
            for shape in (rows, [*rows[:-1], 2], [*rows[:-1], 4], [*rows, 1], [len(rows), 3], [n]):
                for threads in (1, 2):
                    out, around = guarded(tuple(shape), np.float32)
                    with way(name), suppress(*DOCUMENTED):
                        assert op(*batch, out=out, threads=threads) is out
                    edges = np.concatenate([around[:1000], around[1000 + out.size :]])
                    assert (edges == -77).all()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks for memory as Linux gives it")
@pytest.mark.skipif(WITHOUT_JIT, reason="the integers of plain Python have no limit")
def test_csr_around_2_to_the_31_entries() -> None:
    """Arrays of that size of which but a page is ever touched."""
    middle = 2**31

    def large(dtype: Any) -> Any:
        size = (middle + 100) * np.dtype(dtype).itemsize
        no_reserve = 0x4000  # mmap has the name since Python 3.13
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
        return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype)

    try:
        indices, data = large(np.int64), large(np.float32)
    except OSError:
        pytest.skip("no address space left")
    keys, values = np.array([5, 1, 2, 7]), np.array([1.5, 2.5, 3.5, 4.5], np.float32)
    indptr, offsets = np.zeros(3, np.int64), np.array([0, 2, 4])
    status = kernels.vectorize_csr(
        *range_index(8),
        keys,
        values,
        offsets,
        0,
        2,
        False,
        False,
        middle - 3,
        indptr,
        indices,
        data,
    )

    assert status == (kernels.OK, middle + 1)
    assert indptr.tolist() == [0, middle - 1, middle + 1]
    assert indices[middle - 4 : middle + 2].tolist() == [0, 1, 5, 2, 7, 0]
    assert data[middle - 4 : middle + 2].tolist() == [0.0, 2.5, 1.5, 3.5, 4.5, 0.0]

    # int32 cannot say where a row ends beyond it: such a row has no room.
    short, bounds = large(np.int32), np.zeros(3, np.int32)
    call: Any = kernels.vectorize_csr
    arrays = (keys, values, offsets, 0, 2, False, False)
    for base, bad in ((middle - 6, kernels.OK), (middle - 4, 1), (middle - 2, 0), (middle + 9, 0)):
        status = call(*range_index(8), *arrays, base, bounds, short, data)
        assert status[0] == bad


SCRIBBLE = """
import sys, threading, time
import numpy as np
from nbmapops import CastMap, DictVectorizer, MapBatch
sys.setswitchinterval(1e-5)
rng = np.random.default_rng(3)
n = 5_000
low, high = -(2**63), 2**63 - 1
keys, values = rng.integers(0, 40, n), rng.random(n)
texts = np.array([f"w{k}" for k in keys], object)
offsets = np.arange(0, n + 1, 10)
noise = [keys.copy(), rng.integers(low, high, n), rng.integers(-9, 60, n)]
bounds = [offsets.copy(), rng.integers(low, high, len(offsets)), rng.permutation(offsets)]
words = np.concatenate([np.arange(30), rng.integers(low, high, 10)])
found, done = {}, threading.Event()

def scribble():
    turn = 0
    while not done.is_set():
        turn += 1
        keys[:] = noise[turn % 3]
        offsets[:] = bounds[turn % 3]
        values[turn % n] = np.nan if turn % 2 else 1e300
        texts[turn % n] = (None, 5, "w3", "\\0")[turn % 4]

ops = [
    DictVectorizer(int64_vocabulary=words, handle_unknown="ignore"),
    DictVectorizer(int64_vocabulary=words, semantics="onnxruntime"),
    DictVectorizer(int64_vocabulary=range(40), dtype="int64"),
    DictVectorizer(string_vocabulary=[f"w{i}" for i in range(30)], semantics="onnxruntime"),
    CastMap(map_form="SPARSE", max_map=40, semantics="onnxruntime", cast_to="TO_INT64"),
    CastMap(semantics="onnxruntime"),
    CastMap(),
]
def into(*given, **options):
    return ops[0](*given, out=out, **options)

def whole(*given, threads=1):
    given = given[0] if len(given) == 1 else MapBatch.from_arrays(*given)
    return given.sum_duplicates(), given.to_dicts()

batch = MapBatch.from_arrays(keys, values, offsets)
out = np.empty((len(batch), 40))
calls = [op.csr for op in ops[:5]] + ops[:5] + [op.ragged for op in ops[5:]]
calls += [op.unknown for op in ops[:4]] + [DictVectorizer.from_maps, into, whole]
thread = threading.Thread(target=scribble, daemon=True)
thread.start()
ends = time.monotonic() + SECONDS
turn = 0
while time.monotonic() < ends or turn < 2 * len(calls):
    turn += 1
    call = calls[turn % len(calls)]
    pairs = (keys, values), (texts, values), (keys, texts)
    for given in ((batch,), *((*pair, offsets) for pair in pairs)):
        for options in ({}, {"threads": 2}):
            try:
                call(*given, **options)
                answer = "a result"
            except (TypeError, ValueError, KeyError, OverflowError, MemoryError) as error:
                answer = type(error).__name__
            except RuntimeError as error:
                assert "changed" in str(error), error
                answer = "changed"
            found[answer] = found.get(answer, 0) + 1
done.set()
thread.join()
assert found["a result"], found
print("right", turn, found)
"""


@pytest.mark.slow
@pytest.mark.skipif(WITHOUT_JIT, reason="without a compiler NumPy checks every index")
@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.thorough)])
def test_arrays_that_their_owner_changes_meanwhile(seconds: int) -> None:
    """In another thread, after they were checked: an error or a value of its own, no crash."""
    pytest.importorskip("scipy")
    assert run(SCRIBBLE.replace("SECONDS", str(seconds))).startswith("right")


def test_keys_at_the_ends_of_int64() -> None:
    values = np.arange(len(EXTREMES), dtype=float)
    batch = MapBatch.from_arrays(EXTREMES, values)
    for name, row in {
        "range": [3.0, 4.0, 5.0],
        "range at the start": [0.0, 1.0, 0.0],
        "range at the end": [0.0, 8.0, 9.0],
        "table": [5.0, 3.0, 4.0],
        "hash": [0.0, 3.0, 9.0],
    }.items():
        assert OPS[name](batch).tolist() == [row], name


def test_maps_about_as_long_as_the_room_of_a_group_are_looked_up() -> None:
    """As plain Python, where NumPy checks each index."""
    code = """
    import numpy as np
    import nbmapops.kernels as kernels
    from nbmapops._vocabulary import range_index

    index = range_index(3000)
    for lengths in ([1023, 1024, 1025, 1026, 2, 2051], [1025], [600, 425], [600, 424, 1]):
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        keys = np.concatenate([np.arange(n)[::-1] for n in lengths])
        values = np.arange(float(len(keys)))
        right = np.zeros((len(lengths), 3000))
        maps = np.repeat(np.arange(len(lengths)), lengths)
        right[maps, keys] = values
        batch = (*index, keys, values, offsets, 0, len(lengths))
        dense = np.zeros_like(right)
        assert kernels.vectorize_dense(*batch, 0.0, False, False, False, dense) == -1
        assert (dense == right).all()
        ends, columns, data = np.zeros_like(offsets), np.zeros_like(keys), np.zeros_like(values)
        out = ends, columns, data
        assert kernels.vectorize_csr(*batch, False, False, 0, *out) == (-1, len(keys))
        assert (ends == offsets).all()
        found = np.zeros_like(right)
        found[maps, columns] = data
        assert (found == right).all()
    print("right")
    """
    assert run(code, NUMBA_DISABLE_JIT="1") == "right\n"


@pytest.mark.parametrize(
    ("rows", "ends", "bad"),
    [
        ([1, 0, 1], [0, 1], -1),
        ([1, 0, 2], [0, 1], 2),
        ([1, -1, 0], [0, 1], 1),
        ([INT64_MAX, 0, 1], [0, 1], 0),
        ([1, 1, 1], [0, 1], 2),  # longer than was counted
        ([0, 1, 0], [-1, 1], 0),
        ([0, 1, 0], [0, 3], 1),
    ],
)
def test_rows_of_a_table_that_are_none_are_refused(rows: Any, ends: Any, bad: int) -> None:
    wholes = [np.full(20, 1), *np.full((2, 20), 77)]
    own, keys, values = wholes[0][9 : 9 + len(ends)], wholes[1][9:12], wholes[2][9:12]
    own[:] = ends
    read = np.array(rows), np.arange(3), np.arange(3) + 5
    assert group(*read, own, keys, values) == bad
    for whole, part in zip(wholes, (own, keys, values), strict=True):
        assert len(set(np.delete(whole, np.s_[9 : 9 + len(part)]).tolist())) == 1
    if bad < 0:
        assert (own.tolist(), keys.tolist(), values.tolist()) == ([1, 3], [1, 0, 2], [6, 5, 7])
