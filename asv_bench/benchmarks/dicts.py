"""Batches of Python dicts: to CSR, through the scikit-learn estimator, through a whole model."""

from __future__ import annotations

from typing import ClassVar

from . import works


class Csr:
    """S1, S2, S3, S4: a list of dicts to CSR."""

    maps = 20_000
    params: ClassVar = [[works.OURS, "scikit-learn", "fromiter"], ["int", "str", "json"]]
    param_names: ClassVar = ["impl", "keys"]

    def setup(self, impl: str, keys: str) -> None:
        self.run = works.prepared(works.csr_from_dicts(keys, 1000, self.maps), impl)

    def time_csr(self, impl: str, keys: str) -> None:
        self.run()


class Shuffled:
    """S37: the same, the list shuffled."""

    maps = 20_000
    params: ClassVar = [[works.OURS, "scikit-learn"], ["int"]]
    param_names: ClassVar = ["impl", "keys"]

    def setup(self, impl: str, keys: str) -> None:
        work = works.csr_from_dicts(keys, 1000, self.maps, shuffled=True)
        self.run = works.prepared(work, impl)

    def time_csr(self, impl: str, keys: str) -> None:
        self.run()


class FromGenerator:
    """S1 from a generator: of new dicts, and of dicts that a list holds."""

    maps = 20_000
    params: ClassVar = [[works.OURS_GENERATOR, works.OURS_HELD]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.csr_from_dicts("int", 1000, self.maps), impl)

    def time_csr(self, impl: str) -> None:
        self.run()


class OtherMappings:
    """S41: mappings that are not exactly dicts."""

    maps = 5000
    params: ClassVar = [[works.OURS, "scikit-learn"], ["OrderedDict"]]
    param_names: ClassVar = ["impl", "kind"]

    def setup(self, impl: str, kind: str) -> None:
        self.run = works.prepared(works.csr_from_mappings(kind, 1000, self.maps), impl)

    def time_csr(self, impl: str, kind: str) -> None:
        self.run()


class ToDicts:
    """S38: a batch back to dicts."""

    maps = 20_000
    params: ClassVar = [[works.OURS, "python"], ["str"]]
    param_names: ClassVar = ["impl", "keys"]

    def setup(self, impl: str, keys: str) -> None:
        self.run = works.prepared(works.to_dicts(keys, self.maps), impl)

    def time_call(self, impl: str, keys: str) -> None:
        self.run()


class GeneratorMemory:
    """M2: peak memory of a generator of dicts to CSR."""

    maps = 100_000
    params: ClassVar = [[works.OURS, "scikit-learn"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.csr_from_generator(1000, self.maps), impl)

    def peakmem_csr(self, impl: str) -> None:
        self.run()


class Estimator:
    """S24: the scikit-learn estimator."""

    maps = 20_000
    params: ClassVar = [[works.OURS, "scikit-learn"], ["transform", "fit_transform"]]
    param_names: ClassVar = ["impl", "method"]

    def setup(self, impl: str, method: str) -> None:
        self.run = works.prepared(works.estimator(method, 1000, self.maps), impl)

    def time_call(self, impl: str, method: str) -> None:
        self.run()


class Records:
    """S28: the scikit-learn estimator on records with text."""

    maps = 20_000
    params: ClassVar = [[works.OURS, "scikit-learn"], ["3 texts, 4 numbers"]]
    param_names: ClassVar = ["impl", "records"]

    def setup(self, impl: str, records: str) -> None:
        self.run = works.prepared(works.records("fit_transform", records, self.maps), impl)

    def time_call(self, impl: str, records: str) -> None:
        self.run()


class Model:
    """S23: an ONNX model with a DictVectorizer in front."""

    maps = 10_000
    params: ClassVar = [[works.OURS, "onnxruntime"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.model(1000, self.maps), impl)

    def time_run(self, impl: str) -> None:
        self.run()


class FewMaps:
    """S29: the same for one request of a few maps."""

    maps = 8
    params: ClassVar = [[works.OURS, "onnxruntime"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.model(100, self.maps), impl)

    def time_run(self, impl: str) -> None:
        self.run()


class WideModel:
    """S30: the same with a wide vocabulary."""

    maps = 5000
    words = 10_000
    params: ClassVar = [[works.OURS, "scikit-learn"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.model(self.words, self.maps), impl)

    def time_run(self, impl: str) -> None:
        self.run()
