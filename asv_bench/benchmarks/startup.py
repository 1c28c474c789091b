"""What a fresh process pays: small work (S19, S25), the first batch (S20, S26), any work (S27)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple


class Snippet(NamedTuple):
    """What is timed in a process of its own: texts of code.

    `check` is an expression about `result`, looked at when the clock has stopped.
    """

    code: str
    setup: str = ""
    check: str = "True"


IMPORTS = {
    "import numpy": Snippet("import numpy"),
    "import scipy": Snippet("import numpy, scipy.sparse"),
    "import sklearn": Snippet("from sklearn.feature_extraction import DictVectorizer"),
    "import numba": Snippet("import numba", "import numpy"),
}
SMALL_MAP = "first small map"
_ONE = "import nbmapops; result = nbmapops.DictVectorizer(int64_vocabulary=[7, 3])({3: 0.5})"
FRESH = {**IMPORTS, SMALL_MAP: Snippet(_ONE, check="result.tolist() == [0, 0.5]")}

# --- small work -----------------------------------------------------------------------------------

_MAPS = """
words = [{word} for number in range(1000)]
value = {value}
maps = [{{words[(20 * row + i) % 1000]: value for i in range(20)}} for row in range({maps})]
entries = 20 * len(maps)
"""
_WORDS = {"int64": "7919 * number", "string": "f'word{number}'"}
_VALUES = {"numbers": "0.5", "text": "'x'"}
_ARRAYS = """import numpy as np, nbmapops
keys, offsets = np.arange(entries) % 1000 * 7919, np.arange(len(maps) + 1) * 20
op = nbmapops.DictVectorizer(int64_vocabulary=words)
result = op(keys, np.full(entries, 0.5), offsets)"""
_OPERATOR = "nbmapops.DictVectorizer({keys}_vocabulary=words)"
_SUM, _TEXTS = "result.sum() == entries / 2", "(result == 'x').sum() == entries"
_SIZE = "len(result.vocabulary) == min(entries, 1000)"
_NUMPY, _SCIPY, _SKLEARN, _ = IMPORTS

# What is called: kinds of keys and values, the code, what is right, the import to compare with.
_CALLS = [
    ("op(maps)", "int64 string", "numbers", f"{_OPERATOR}(maps)", _SUM, _NUMPY),
    ("op(maps)", "int64 string", "text", f"{_OPERATOR}(maps)", _TEXTS, _NUMPY),
    ("op.csr(maps)", "int64 string", "numbers", f"{_OPERATOR}.csr(maps)", _SUM, _SCIPY),
    ("from_maps", "int64 string", "numbers text",
     "nbmapops.DictVectorizer.from_maps(maps)", _SIZE, _NUMPY),
    ("CastMap()(maps)", "int64", "numbers", "nbmapops.CastMap()(maps)", _SUM, _NUMPY),
    ("op(keys, values, offsets)", "int64", "numbers", _ARRAYS, _SUM, _NUMPY),
    ("MapBatch", "int64 string", "numbers text",
     "nbmapops.MapBatch.from_dicts(maps)", "len(result.values) == entries", _NUMPY),
    ("the estimator", "string", "numbers",
     "nbmapops.sklearn.DictVectorizer().fit_transform(maps)", _SUM, _SKLEARN),
    ("the estimator", "string", "text", "nbmapops.sklearn.DictVectorizer().fit_transform(maps)",
     "result.sum() == entries", _SKLEARN),
]  # fmt: skip


def small_work(maps: int) -> dict[str, tuple[str, dict[str, Snippet]]]:
    """Give for each call the import to compare it with, and its variants."""
    calls: dict[str, tuple[str, dict[str, Snippet]]] = {}
    for call, all_keys, all_values, code, check, peer in _CALLS:
        for keys in all_keys.split():
            for values in all_values.split():
                setup = _MAPS.format(word=_WORDS[keys], value=_VALUES[values], maps=maps)
                expression = code.format(keys=keys)
                if "import" not in expression:
                    expression = f"import nbmapops; result = {expression}"
                variants = calls.setdefault(call, (peer, {}))[1]
                variants[f"{keys}, {values}"] = Snippet(expression, setup, check)
    return calls


# --- batches --------------------------------------------------------------------------------------

_BATCH = """
import numpy as np, scipy.sparse, nbmapops
entries = {entries}
columns = np.arange(entries) * 7 % {width}
words = [{word} for number in range({width})]
values, offsets = np.full(entries, 0.5), np.arange(entries // 20 + 1) * 20
"""
_KEYS = "keys = np.array(words)[columns]\n"
_DICTS = """
each = iter([words[column] for column in columns.tolist()])
maps = [{next(each): 0.5 for _ in range(20)} for _ in range(entries // 20)]
"""
_INT, _STR = (_OPERATOR.format(keys=keys) for keys in ("int64", "string"))

# The number of words, the kind of keys, more setup, the code.
BATCHES = {
    "arrays -> csr": (1000, "int64", _KEYS, f"result = {_INT}.csr(keys, values, offsets)"),
    "arrays -> dense": (100, "int64", _KEYS, f"result = {_INT}(keys, values, offsets)"),
    "int dicts -> csr": (1000, "int64", _DICTS, f"result = {_INT}.csr(maps)"),
    "str dicts -> csr": (1000, "string", _DICTS, f"result = {_STR}.csr(maps)"),
    "CastMap DENSE": (1000, "int64", _KEYS, "result = nbmapops.CastMap()(keys, values, offsets)"),
}


def first_batch(batch: str, entries: int) -> Snippet:
    """Make a batch outside the clock, and call the operator once."""
    width, keys, more, code = BATCHES[batch]
    setup = _BATCH.format(entries=entries, width=width, word=_WORDS[keys])
    return Snippet(code, setup + more, _SUM)


def repeated(calls: int, entries: int, engine: str | None) -> Snippet:
    """Make so many calls of arrays -> csr by one engine, or by that which the package chooses."""
    chosen = f"from nbmapops._limits import limits\nlimits.engine = {engine!r}\nop = {_INT}\n"
    batch = first_batch("arrays -> csr", entries)
    code = f"for _ in range({calls}):\n    result = op.csr(keys, values, offsets)"
    return Snippet(code, batch.setup + chosen, _SUM)


# --- asv ------------------------------------------------------------------------------------------


class FreshProcess:
    """S19: imports, and the first small map."""

    params: ClassVar = [["import numpy", "import numba", SMALL_MAP]]
    param_names: ClassVar = ["snippet"]
    number = 1

    def timeraw_run(self, snippet: str) -> tuple[str, str]:
        return FRESH[snippet][:2]


class Plain:
    """S25: small work in a fresh process, which needs no compiler."""

    maps = 1000
    params: ClassVar = [["op(maps)", "op.csr(maps)", "the estimator"]]
    param_names: ClassVar = ["call"]
    number = 1

    def timeraw_run(self, call: str) -> tuple[str, str]:
        _, variants = small_work(self.maps)[call]
        return next(iter(variants.values()))[:2]


class Warm:
    """S20: the first batch in a fresh process, kernels compiled before and on disk."""

    entries = 1_000_000
    params: ClassVar = [["arrays -> csr", "int dicts -> csr"]]
    param_names: ClassVar = ["batch"]
    number = 1

    def timeraw_run(self, batch: str) -> tuple[str, str]:
        return first_batch(batch, self.entries)[:2]


class Cold:
    """S26: the first batch where no kernel was ever compiled."""

    entries = 1_000_000
    params: ClassVar = [list(BATCHES)]
    param_names: ClassVar = ["batch"]
    number = repeat = 1
    timeout = 300

    def timeraw_run(self, batch: str) -> tuple[str, str]:
        code, setup, _ = first_batch(batch, self.entries)
        empty = "import os, tempfile\nfolder = tempfile.TemporaryDirectory()\n"
        return code, f"{empty}os.environ['NUMBA_CACHE_DIR'] = folder.name\n{setup}"
