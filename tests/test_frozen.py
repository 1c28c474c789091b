"""Modules without files or source, as programs that freeze a package make them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nbmapops

from .conftest import WITHOUT_JIT

CODE = """
import importlib.abc, importlib.util, sys
from pathlib import Path

root, kind, engine = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

class Loader(importlib.abc.Loader):  # it has no get_source
    def __init__(self, path):
        self.path = path

    def exec_module(self, module):
        name = f"<frozen {module.__name__}>"
        if kind == "a file that is not there":
            name = module.__file__ = str(Path("nowhere", *self.path.parts[1:]))
        exec(compile(self.path.read_text(), name, "exec"), module.__dict__)

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "nbmapops":
            return None
        file = root.joinpath(*name.split("."))
        package = file / "__init__.py"
        file = package if package.exists() else file.with_suffix(".py")
        if not file.exists():
            return None
        return importlib.util.spec_from_loader(name, Loader(file), is_package=file == package)

sys.meta_path.insert(0, Finder())
from nbmapops import CastMap, DictVectorizer
from nbmapops._limits import limits

limits.engine = None if engine == "as shipped" else engine
op = DictVectorizer(int64_vocabulary=[10**12, 5, 7])
print(op([{5: 1.0}, {7: 2.0}]).tolist(), op([5, 7], [1.0, 2.0], [0, 1, 2]).tolist())
print(DictVectorizer.from_maps([{5: 1.0, 7: 2.0}, {6: 1.0}]).vocabulary.tolist())
# So much work that it matters whether a cache holds the kernels.
print(op(iter([{5: 1.0, 7: 2.0}] * 200_000)).sum(), CastMap()([{7: 2.0, 5: 1.0}] * 3).tolist())
"""
ROWS = [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]]


@pytest.mark.parametrize("kind", ["no file", "a file that is not there"])
@pytest.mark.parametrize(
    "engine", ["as shipped", pytest.param("compiled", marks=pytest.mark.thorough)]
)
def test_a_loader_without_source(kind: str, engine: str, tmp_path: Path) -> None:
    if WITHOUT_JIT and engine == "compiled":
        pytest.skip("there is nothing to compile")
    root = Path(nbmapops.__file__).parents[1]
    result = subprocess.run(
        [sys.executable, "-c", CODE, str(root), kind, engine],
        env=os.environ | {"HOME": str(tmp_path), "NUMBA_CACHE_DIR": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"{ROWS} {ROWS}", "[5, 6, 7]", "600000.0 [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]"
    ]  # fmt: skip
