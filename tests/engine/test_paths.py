"""Which way through the kernels an input takes: each has inputs that are sure to take it.

Which answers are right is the matter of test_agreement.py; here the same answers are looked at only
so that the inputs are known to have run. Kernels that are not compiled are Python functions, so a
profile says which of them were called.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..fresh import run

pytest.importorskip("scipy")

HEAD = """
import json, os, random, sys
import numpy as np
from nbmapops import CastMap, DictVectorizer, kernels
from nbmapops._limits import limits


limits.engine = "compiled"

FOLDER = os.path.dirname(kernels.__file__)
KINDS = {kernels.RANGE: "range", kernels.TABLE: "table", kernels.HASH: "hash"}
found = {}


def ran(name, call):
    names = set()

    def note(frame, event, argument):
        if event == "call" and os.path.dirname(frame.f_code.co_filename) == FOLDER:
            names.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    found[name] = sorted(names)
    return result


def csr(name, words, keys):
    dv = DictVectorizer(int64_vocabulary=words)
    values = np.arange(len(keys), dtype=float)
    matrix = ran(name, lambda: dv.csr(np.array(keys), values, np.array([0, len(keys)])))
    expected = np.zeros(len(words))
    expected[[words.index(key) for key in keys]] = values
    assert (matrix.toarray()[0] == expected).all()
    assert matrix.has_canonical_format
    index = next(iter(dv._plans.values())).vocabulary.index
    found[name].append(KINDS[int(index.header[1])])


def order(name, keys):
    values = np.arange(len(keys), dtype=np.float32)
    result = ran(name, lambda: CastMap()(np.array(keys), values))
    assert (result == values[np.argsort(keys)]).all()


rng = random.Random(3)
close = rng.sample(range(500), 300)
wide = [rng.getrandbits(62) for _ in range(300)]
csr("range, short ascending row", list(range(300)), list(range(9)))
csr("range, short row", list(range(300)), rng.sample(range(300), 64))
csr("table, short row", close, close[29::-1])
csr("hash, short row", wide, wide[29::-1])
csr("range, long ascending row", list(range(300)), list(range(65)))
csr("table, long row", close, close[64::-1])
csr("hash, sparse long row", list(range(0, 200_000, 2)), rng.sample(range(0, 200_000, 2), 65))
order("ascending map", sorted(wide))
order("short map", wide[:64])
order("narrow map", close[:65])
order("wide map", wide)
powers = [2**n for n in range(10, 62)]
order("keys too close for two digits", powers + [3 * n % 1009 for n in range(1009)])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ways() -> dict[str, set[str]]:
    printed = run(HEAD, NUMBA_DISABLE_JIT="1")
    return {name: set(names) for name, names in json.loads(printed).items()}


LONG = {"write_ordered", "bit_vector", "order_entries", "rank"}


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("range, short ascending row", {"range"}),
        ("range, short row", {"range", "rank"}),
        ("table, short row", {"table", "rank"}),
        ("hash, short row", {"hash", "rank"}),
        ("range, long ascending row", {"range"}),
        ("table, long row", {"table", "write_ordered", "bit_vector"}),
        ("hash, sparse long row", {"table", "write_ordered", "order_entries"}),
        ("ascending map", set()),
        ("short map", {"rank"}),
        ("narrow map", {"write_ordered", "bit_vector"}),
        ("wide map", {"write_ordered", "order_entries"}),
    ],
)
def test_each_row_is_ordered_by_the_kernels_made_for_it(
    ways: dict[str, set[str]], name: str, taken: set[str]
) -> None:
    indices = {"range", "table", "hash"}
    assert ways[name] & (LONG | indices) == taken


def test_keys_that_two_digits_do_not_order_are_radix_sorted(ways: dict[str, set[str]]) -> None:
    assert "_radix_sort" not in ways["wide map"]
    assert "_radix_sort" in ways["keys too close for two digits"]


def test_every_kernel_that_orders_is_run(ways: dict[str, set[str]]) -> None:
    taken: set[Any] = set().union(*ways.values())
    assert taken >= {*LONG, "range", "table", "hash", "ascends", "_radix_sort", "_insertion_sort"}
