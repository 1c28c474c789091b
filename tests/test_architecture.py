"""The rules of the code base that a reader relies on, held by reading the code itself."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nbmapops
from nbmapops import MapBatch

from . import fresh
from .conftest import WITHOUT_JIT
from .outcomes import WITH_SCIPY

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(nbmapops.__file__).parent
ROOT = PACKAGE.parent
# Imports point upwards in this list only: the map of the package, in its docstring.
LAYERS = re.findall(r"^``([\w.]+)``", nbmapops.__doc__ or "", re.MULTILINE)


def module_name(path: Path) -> str:
    """The name of a module inside the package; a folder has that of its __init__.py."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_name(path): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
# The modules with compiled code: they import Numba.
COMPILED = {
    name
    for name in MODULES
    if name in ("_jit", "_reading.objects")
    or name.endswith("walk")
    or name.split(".")[0] == "kernels"
}
OPTIONAL = {"scipy", "pandas", "pyarrow", "sklearn", "onnx", "onnxruntime", "dask", "polars"}
ADAPTERS = {name for name in MODULES if name.startswith("_reading.arrow")}
ADAPTERS |= {"_reading.structs", "_reading.toarrow", "sklearn", "dask"}
ADAPTERS |= {name for name in MODULES if name.split(".")[0] == "onnx"}


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.stmt | ast.expr]]:
    """Dotted name of each import; for ``from a import b`` both a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or "", node
            yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "imported":
            (name,) = node.args
            if isinstance(name, ast.Constant):
                yield str(name.value), node


def at_import(tree: ast.Module) -> ast.Module:
    """What runs when the module is imported: no function bodies, nothing for type checkers."""
    body = [
        node
        for node in tree.body
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    return ast.Module(body, [])


def own(name: str) -> str | None:
    """The module of this package that a dotted name means, if it is one."""
    parts = name.split(".")
    if parts[0] != "nbmapops":
        return None
    for end in (3, 2):  # a module of a folder, or one beside it
        found = ".".join(parts[1:end])
        if len(parts) >= end and found in MODULES:
            return found
    return None


def test_every_module_has_its_layer() -> None:
    assert set(MODULES) <= set(LAYERS)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_point_upwards(name: str) -> None:
    # What is named in nbmapops for type checkers only is loaded when it is first used.
    tree = at_import(MODULES[name]) if name == "__init__" else MODULES[name]
    for imported, _ in imports(tree):
        module = own(imported)
        if module is not None and name != "__main__":
            assert LAYERS.index(module) < LAYERS.index(name), f"{name} imports {module}"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_heavy_modules_are_imported_when_needed(name: str) -> None:
    """numba only by the compiled modules, extras only by their adapters, both never eagerly."""
    eager = {imported.split(".")[0] for imported, _ in imports(at_import(MODULES[name]))}
    eager_own = {own(imported) for imported, _ in imports(at_import(MODULES[name]))}
    if name not in COMPILED:
        assert not {"numba", "llvmlite"} & eager
        assert not COMPILED & eager_own
    if name not in ADAPTERS:
        assert not OPTIONAL & eager
        assert not ADAPTERS & (eager_own - {None})


@pytest.mark.parametrize("name", sorted(MODULES))
def test_what_a_batch_holds_is_asked_for_in_reading_and_engine_only(name: str) -> None:
    if name.split(".", maxsplit=1)[0] not in ("_reading", "_engine"):
        for node in ast.walk(MODULES[name]):
            if isinstance(node, ast.Attribute):
                assert node.attr not in MapBatch.__slots__, node.lineno


def test_types_are_said_where_there_are_some() -> None:
    names = [node for tree in MODULES.values() for node in ast.walk(tree)]
    assert sum(isinstance(node, ast.Name) and node.id == "Any" for node in names) < 150


def run(code: str) -> Any:
    """Run code in a fresh interpreter; what it prints is JSON."""
    return json.loads(fresh.run(code))


def test_import_and_small_maps_load_nothing_heavy() -> None:
    heavy = run(
        """
import json, sys
import numpy
own = set(sys.modules)
import nbmapops
heavy = {"numba", "llvmlite", "scipy", "pandas", "pyarrow", "sklearn", "onnx", "dask", "polars"}
# 14 ms, of 45 beside NumPy's own.
heavy |= {"numpy.ma", "hashlib", "html", "logging", "pathlib"} - own
found = [sorted(heavy & set(sys.modules))]
nbmapops.DictVectorizer(string_vocabulary=["a", "b"])({"a": 1.0})
nbmapops.DictVectorizer(int64_vocabulary=[5, 2**40])({5: 1})
nbmapops.CastMap(cast_to="TO_STRING")({1: 2.5})
nbmapops.CastMap(map_form="SPARSE", max_map=4)([1, 2], [2.5, 1.5])
found.append(sorted(heavy & set(sys.modules)))
print(json.dumps(found))
"""
    )

    assert heavy == [[], []]


def test_public_names_are_pinned() -> None:
    assert sorted(nbmapops.__all__) == [
        "CastError",
        "CastMap",
        "DictVectorizer",
        "DuplicateKeyError",
        "MapBatch",
        "UnknownKeyError",
        "precompile",
    ]
    for name in nbmapops.__all__:
        assert getattr(nbmapops, name).__name__ == name
    assert sorted(import_module("nbmapops.errors").__all__) == [
        "CastError",
        "DuplicateKeyError",
        "UnknownKeyError",
    ]
    assert sorted(import_module("nbmapops.kernels").__all__) == [
        "FORMAT",
        "HASH",
        "MISMATCH",
        "NO_FIT",
        "OK",
        "OTHER_FORMAT",
        "RANGE",
        "TABLE",
        "find",
        "lookup",
        "order_dense",
        "sum_rows",
        "vectorize_csr",
        "vectorize_dense",
    ]


def test_modules_are_attributes_that_load_when_named() -> None:
    before, after, kernel, listed = run(
        """
import json, sys
import nbmapops
before = sorted(name for name in sys.modules if name.startswith("nbmapops.kernels"))
kernel = nbmapops.kernels.lookup.__name__
after = "nbmapops.kernels" in sys.modules
print(json.dumps([before, after, kernel, dir(nbmapops)]))
"""
    )

    assert (before, after, kernel) == ([], True, "lookup")
    modules = ["dask", "errors", "kernels", "onnx", "sklearn"]
    assert listed == sorted([*nbmapops.__all__, *modules, "__version__"])
    with pytest.raises(AttributeError, match="module 'nbmapops' has no attribute 'sklaern'"):
        nbmapops.sklaern  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.parametrize("name", ["dask", "kernels", "onnx", "sklearn"])
def test_completion_lists_public_names_only(name: str) -> None:
    module = pytest.importorskip(f"nbmapops.{name}", exc_type=ImportError)

    assert dir(module) == sorted(module.__all__)


def test_a_module_whose_library_is_missing_says_what_to_install() -> None:
    told = run(
        """
import json, sys
import nbmapops
told = {}
for library, name in (("dask", "dask"), ("onnx", "onnx"), ("sklearn", "sklearn")):
    sys.modules[library] = None
    try:
        getattr(nbmapops, name)
    except ImportError as error:
        told[name] = str(error)
print(json.dumps(told))
"""
    )

    assert list(told) == ["dask", "onnx", "sklearn"]
    for name, message in told.items():
        assert message.endswith(f"pip install 'nbmapops[{name}]'")


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_public_methods_are_pinned() -> None:
    shared = {
        "csr", "fill_value", "get_feature_names_out", "n_columns", "replace", "result_type",
        "semantics",
    }  # fmt: skip
    assert public(nbmapops.CastMap) == shared | {"cast_to", "map_form", "max_map", "ragged"}
    assert public(nbmapops.DictVectorizer) == shared | {
        "columns", "dtype", "from_maps", "handle_unknown", "index", "inverse", "unknown",
        "unknown_columns", "vocabulary",
    }  # fmt: skip
    assert public(nbmapops.MapBatch) == {
        "from_arrays", "from_arrow", "from_dicts", "from_lists", "from_rows", "keys", "null_maps",
        "offsets",
        "sum_duplicates", "to_arrow", "to_dicts", "values",
    }  # fmt: skip


def test_version_is_that_of_the_installed_package() -> None:
    try:
        assert version("nbmapops") == nbmapops.__version__
    except PackageNotFoundError:
        pytest.skip("not installed: the package is read from its folder")


# Compiled code.


COMPILES = ("kernel", "partial(kernel", "njit", "inlined", "helper")


def jitted(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Functions that a decorator compiles."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if any(text.startswith(COMPILES) for text in decorators):
                found[node.name] = node
    return found


KERNELS = sorted(name for name in COMPILED if name.split(".")[0] == "kernels")


def test_kernels_are_found() -> None:
    compiled = {name for module in KERNELS for name in jitted(MODULES[module])}

    assert {"lookup", "vectorize_dense", "csr_rows", "ordered_rows", "build_hash"} <= compiled


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_what_compiled_code_reads_is_a_part_of_its_stamp(name: str) -> None:
    """Numba's cache does not notice a change in another file: the stamp of `_jit` does."""
    from nbmapops._constants import STAMPED

    stamped = {module_name(path) for pattern in STAMPED for path in PACKAGE.glob(pattern)}
    assert name in stamped
    # Called by plain functions only: `readonly`, and what loads the kernels.
    for imported, _ in imports(at_import(MODULES[name])):
        module = own(imported)
        plain = {"_reading.entries", "_load", "_cache", "_foreign"}
        assert module is None or module in stamped | plain, imported


def test_only_the_compiled_modules_compile() -> None:
    for name, tree in MODULES.items():
        if name not in COMPILED:
            assert not jitted(tree), name
            assert not any("numba" in imported for imported, _ in imports(tree)), name


def test_kernels_never_raise() -> None:
    functions = [each for name in KERNELS for each in jitted(MODULES[name]).values()]
    for function in functions:
        for node in ast.walk(function):
            assert not isinstance(node, (ast.Raise, ast.Assert, ast.Try)), function.name
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in (
                    "np.argsort", "np.unique", "np.sort", "print", "sorted",
                ), function.name  # fmt: skip


FORBIDDEN = ("parallel", "fastmath", "boundscheck", "error_model")


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_no_options_that_break_results_or_threads(name: str) -> None:
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.keyword):
            assert node.arg not in FORBIDDEN
        if isinstance(node, (ast.Attribute, ast.Name)):
            text = ast.unparse(node)
            assert "jitclass" not in text
            assert "typed.Dict" not in text
            assert "typed.List" not in text
            assert text != "prange"
    for imported, _ in imports(MODULES[name]):
        assert "typed" not in imported.split(".")
        assert "jitclass" not in imported


def test_array_kernels_release_the_gil_and_are_cached() -> None:
    decorator = next(
        node
        for node in MODULES["_jit"].body
        if isinstance(node, ast.FunctionDef) and node.name == "kernel"
    )
    text = ast.unparse(decorator)

    assert "nogil: bool=True" in text
    assert "cache=True" in text
    assert "RuntimeError" in text  # no cache folder can be written
    for name in KERNELS:
        assert "nogil=False" not in ast.unparse(MODULES[name])


@pytest.mark.skipif(WITHOUT_JIT, reason="nothing is compiled in this run")
def test_import_of_the_kernels_compiles_nothing() -> None:
    signatures = run(
        """
import json
from nbmapops import kernels
from nbmapops.kernels import index, order, rows
modules = (kernels, index, order, rows)
compiled = {n: f for m in modules for n, f in vars(m).items() if hasattr(f, "signatures")}
print(json.dumps({n: len(f.signatures) for n, f in compiled.items()}))
"""
    )

    assert len(signatures) >= 5
    assert set(signatures.values()) == {0}


WORKLOAD = """
import json
import numpy as np
from nbmapops import CastMap, DictVectorizer, MapBatch, kernels
from nbmapops._limits import limits
limits.engine = "compiled"
try:
    import scipy
except ImportError:
    scipy = None

rng = np.random.default_rng(0)
words = rng.integers(-2**62, 2**62, 100)
columns = np.concatenate([rng.permutation(100)[:50] for _ in range(6)])
offsets = np.arange(7) * 50

def forms(data):
    yield data
    read_only = data.copy()
    read_only.flags.writeable = False
    yield read_only
    yield np.repeat(data, 2)[::2]
    yield data[::-1][::-1]
    yield data.tolist()
    if data.dtype != object:
        yield data.astype(data.dtype.newbyteorder())

def values_of(dtype):
    small = rng.integers(0, 9, columns.size)
    return np.array([str(v) for v in small], object) if dtype is object else small.astype(dtype)

for vocabulary in (words, np.arange(100) * 3, np.arange(100)):
    for attributes in ({}, {"handle_unknown": "ignore"}, {"semantics": "onnxruntime"}):
        dv = DictVectorizer(int64_vocabulary=vocabulary, **attributes)
        keys = vocabulary[columns]
        for dtype in (np.float32, np.float64, object):
            values = values_of(dtype)
            dv(keys, values, offsets, threads=2)
            dv(keys, values, offsets, out=dv(keys, values, offsets))
            for index_dtype in (np.int32, np.int64):
                if dtype is not object and scipy:
                    dv.csr(keys, values, offsets, index_dtype=index_dtype)
        dv.unknown(keys, values, offsets)
    DictVectorizer.from_maps(keys, np.ones(keys.size), offsets)
dv = DictVectorizer(int64_vocabulary=words)
for dtype in (np.float32, np.float64, np.int64, np.int16, np.float16):
    for values in forms(values_of(dtype)):
        dv(words[columns], values, offsets)
for keys in forms(words[columns]):
    dv(keys, values_of(float), offsets.astype(np.int16))
text = DictVectorizer(string_vocabulary=[str(n) for n in range(100)])
names = np.array([str(n) for n in columns], object)
for dtype in (np.float32, np.float64, np.int64):
    for keys in (names, names.astype("U"), names.tolist()):
        text(keys, values_of(dtype), offsets)
    maps = MapBatch.from_arrays(names, values_of(dtype), offsets).to_dicts()
    text(maps), text(iter(maps)), text(tuple(maps)), DictVectorizer.from_maps(maps)
    if scipy:
        text.csr(iter(maps))
for cast_to in ("TO_FLOAT", "TO_INT64", "TO_STRING"):
    for dtype in (np.float32, np.float64, np.int64, object):
        values = values_of(dtype)
        for form in ({}, {"map_form": "SPARSE", "max_map": 100}):
            for semantics in ("strict", "onnxruntime"):
                op = CastMap(cast_to=cast_to, semantics=semantics, **form)
                op(columns, values, offsets, threads=2)
                op(columns[:50], values[:50])
                if form and cast_to != "TO_STRING" and scipy:
                    op.csr(columns, values, offsets)
compiled = {n: f for n, f in vars(kernels).items() if hasattr(f, "overloads")}
print(json.dumps({n: [str(s) for s in f.overloads] for n, f in compiled.items()}))
"""
# Two widths of value, times two of column numbers for csr.
MOST = {"vectorize_dense": 2, "vectorize_csr": 4, "order_dense": 2, "lookup": 1}


@pytest.mark.skipif(WITHOUT_JIT, reason="nothing is compiled in this run")
def test_number_of_specialisations_stays_small() -> None:
    signatures = run(WORKLOAD)

    for name, most in MOST.items():
        needed = WITH_SCIPY or name != "vectorize_csr"
        assert needed <= len(signatures[name]) <= most, (name, signatures[name])
    entries = sum(len(found) for name, found in signatures.items() if not name.startswith("_"))
    assert entries <= 14


# The dispatch table.


def test_dispatch_table_has_every_cell() -> None:
    from nbmapops._engine.dispatch import TABLE

    values = ("float32", "float64", "int64", "string")
    expected = {("CastMap", form, "int64", v) for form in ("DENSE", "SPARSE") for v in values}
    expected |= {
        ("DictVectorizer", "VOCABULARY", key, v) for key in ("int64", "string") for v in values
    }

    assert set(TABLE) == expected
    assert {cell[2:] for cell, found in TABLE.items() if found.spec and cell[0] == "CastMap"} == {
        ("int64", "float32"),
        ("int64", "string"),
    }


@pytest.mark.skipif(WITHOUT_JIT, reason="nothing is compiled in this run")
@pytest.mark.parametrize("words", [[10, 11, 12], [10, 30, 20], [10, 2**50, -(2**60)]])
def test_users_own_compiled_function_calls_the_kernels(words: list[int]) -> None:
    from numba import njit

    from nbmapops import kernels

    @njit
    def weighed(index: Any, keys: Any, values: Any, offsets: Any, weights: Any) -> Any:
        """Sum of value times the weight of its column, for each map."""
        sums = np.zeros(offsets.size - 1)
        columns = np.empty(keys.size, np.int64)
        status = kernels.lookup(index[0], index[1], index[2], index[3], keys, columns)
        for n in range(sums.size):
            for entry in range(offsets[n], offsets[n + 1]):
                if columns[entry] >= 0:
                    sums[n] += values[entry] * weights[columns[entry]]
        return status, sums

    op = nbmapops.DictVectorizer(int64_vocabulary=words, handle_unknown="ignore")
    keys, values, offsets = np.array([words[2], 7, words[0]]), np.array([2.0, 9, 3]), [0, 2, 3]
    batch = nbmapops.MapBatch.from_arrays(keys, values, offsets)
    weights = np.array([1.0, 10.0, 100.0])
    status, sums = weighed(tuple(op.index), batch.keys, batch.values, batch.offsets, weights)

    assert status == -1
    assert sums.tolist() == (op(batch) @ weights).tolist() == [200.0, 3.0]


def test_the_oldest_versions_are_the_floors() -> None:
    root = Path(__file__).parents[1]
    if not (root / ".ci").exists():
        pytest.skip("a source distribution leaves the checks out")
    lines = (root / ".ci" / "oldest.txt").read_text().splitlines()
    oldest = dict(line.split("==") for line in lines if not line.startswith("#"))
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tested = ("test", "arrow", "onnx", "sklearn", "dask")
    needs = [*project["dependencies"], *(need for extra in tested for need in extras[extra])]
    floors = dict(re.sub(r"\[.*\]", "", need).split(">=") for need in needs)

    def short(versions: dict[str, str]) -> dict[str, str]:
        return {name: re.sub(r"(\.0)+$", "", number) for name, number in versions.items()}

    assert short(oldest) == short(floors)


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    root = Path(__file__).parents[1]
    if not (root / "docs").exists():
        pytest.skip("the documentation is not beside the tests")
    recipe = (root / "docs" / "conda" / "recipe.yaml").read_text()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]

    assert f'version: "{nbmapops.__version__}"' in recipe
    assert f'python_min: "{project["requires-python"].removeprefix(">=")}"' in recipe
    required, constrained = recipe.split("  run:\n")[1].split("  run_constraints:\n")
    for need in project["dependencies"]:
        assert f"- {need.replace('>=', ' >=')}\n" in required
    for extra in ("arrow", "onnx", "sklearn", "dask"):
        for need in project["optional-dependencies"][extra]:
            named = need.replace("dask[array]", "dask-core").replace(">=", " >=")
            assert f"- {named}\n" in constrained
