"""DictVectorizer on arrays, and on one map."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from . import works


class Csr:
    """S5, S6: arrays to a canonical CSR matrix."""

    maps = 100_000
    params: ClassVar = [[works.OURS, "pandas"], [1000, 1_000_000]]
    param_names: ClassVar = ["impl", "words"]

    def setup(self, impl: str, words: int) -> None:
        self.run = works.prepared(works.csr_from_arrays(words, self.maps), impl)

    def time_csr(self, impl: str, words: int) -> None:
        self.run()


class SmallArrays:
    """S35: arrays so small that a call costs more than its entries; two threads must not harm."""

    params: ClassVar = [[works.OURS, works.OURS_TWICE], [5, 500]]
    param_names: ClassVar = ["impl", "maps"]

    def setup(self, impl: str, maps: int) -> None:
        self.run = works.prepared(works.csr_from_arrays(1000, maps), impl)

    def time_csr(self, impl: str, maps: int) -> None:
        self.run()


class TextKeys:
    """S42: arrays with text keys to a canonical CSR matrix."""

    maps = 20_000
    params: ClassVar = [[works.OURS, "pyarrow"], ["object"]]
    param_names: ClassVar = ["impl", "kind"]

    def setup(self, impl: str, kind: str) -> None:
        self.run = works.prepared(works.csr_from_texts(kind, 1000, self.maps), impl)

    def time_csr(self, impl: str, kind: str) -> None:
        self.run()


class SumDuplicates:
    """S43: values of repeated keys are added up."""

    maps = 50_000
    params: ClassVar = [[works.OURS, "scipy"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.sum_duplicates(1000, self.maps), impl)

    def time_call(self, impl: str) -> None:
        self.run()


class LongTable:
    """S33: a shuffled table of row, key and value to a CSR matrix."""

    maps = 250_000
    params: ClassVar = [[works.OURS, "pandas"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.csr_from_rows(100_000, self.maps), impl)

    def time_csr(self, impl: str) -> None:
        self.run()


class CsrMemory:
    """M1: peak memory of arrays to CSR, inputs included."""

    maps = 100_000
    params: ClassVar = [[works.OURS, "pandas"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.csr_from_arrays(1000, self.maps), impl)

    def peakmem_csr(self, impl: str) -> None:
        self.run()


class Dense:
    """S7: arrays to a dense matrix; "fill" writes an array of that size twice and nothing else."""

    maps = 20_000
    params: ClassVar = [[works.OURS, "fill"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.dense_from_arrays(1000, self.maps), impl)

    def time_call(self, impl: str) -> None:
        self.run()


class Threads:
    """S21: the array stage on one thread and on two."""

    maps = 100_000
    params: ClassVar = [[works.OURS, works.OURS_TWICE]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.csr_from_arrays(100_000, self.maps), impl)

    def time_csr(self, impl: str) -> None:
        self.run()


class OneDict:
    """S15, S16: one dict of 20 entries, one call."""

    params: ClassVar = [
        [works.OURS, works.OURS_OUT, "onnxruntime", "scikit-learn"],
        [1000, 100_000],
    ]
    param_names: ClassVar = ["impl", "words"]

    def setup(self, impl: str, words: int) -> None:
        self.run = works.prepared(works.one_dict(words, np.float32), impl)

    def time_call(self, impl: str, words: int) -> None:
        self.run()


class FewDicts:
    """S34: three dicts in one call; `OneDict` has one."""

    maps = 3
    params: ClassVar = [[works.OURS], ["dense", "csr"]]
    param_names: ClassVar = ["impl", "method"]

    def setup(self, impl: str, method: str) -> None:
        self.run = works.prepared(works.few_dicts(method, self.maps), impl)

    def time_call(self, impl: str, method: str) -> None:
        self.run()
