"""Where compiled code cannot read dicts, plain Python does, and the log says so once."""

from __future__ import annotations

import sys
import sysconfig
from typing import Any

import pytest

from ..conftest import WITHOUT_JIT
from ..fresh import run

CODE = """
import logging, sys, sysconfig
logging.basicConfig(level="INFO", format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
surprise = sys.argv[1]
get = sysconfig.get_config_var
if surprise == "no GIL":
    sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else get(name)
from nbmapops import CastMap, DictVectorizer
from nbmapops._reading.dictwalk import available
maps = [{i % 70: i / 2, 70: 0.5} for i in range(70_000 if surprise == "no GIL" else 140)]
texts = [{str(key): value for key, value in each.items()} for each in maps]
by_key = DictVectorizer(int64_vocabulary=range(71))
by_text = DictVectorizer(string_vocabulary=[str(i) for i in range(71)])
for op, batch in ((by_key, maps), (by_text, texts)):
    assert op.csr(batch).sum() == sum(sum(each.values()) for each in batch)
    assert op(batch[:5]).tolist() == op.csr(batch[:5]).toarray().tolist()
assert list(DictVectorizer.from_maps(texts).vocabulary) == sorted(map(str, range(71)))
assert not available()
"""


def test_it_is_available_on_every_python_with_a_gil() -> None:
    from nbmapops._reading.dictwalk import available

    without_gil = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    cpython = sys.implementation.name == "cpython"
    assert available() == (cpython and not without_gil and not WITHOUT_JIT)


@pytest.mark.parametrize("surprise", ["no GIL", "no compiler"])
def test_dicts_are_read_by_plain_python_which_is_said_once(surprise: str) -> None:
    environment: dict[str, Any] = {"NUMBA_DISABLE_JIT": "1"} if surprise == "no compiler" else {}
    printed = run(CODE, surprise, **environment)
    assert printed.count("nbmapops INFO dicts are read by plain Python") == 1


@pytest.mark.skipif(
    WITHOUT_JIT
    or sys.implementation.name != "cpython"
    or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="without Numba's compiler, or a GIL",
)
def test_compiled_code_reads_objects_of_this_python() -> None:
    """Where it finds that it cannot, its tests are skipped or plain Python gives the answers."""
    from nbmapops._reading import dictwalk, recordwalk

    assert recordwalk.available()
    assert dictwalk._holds("int64")
    assert dictwalk._holds("string")
