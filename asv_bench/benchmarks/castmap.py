"""CastMap: values by ascending key (DENSE), values placed by key (SPARSE)."""

from __future__ import annotations

from typing import ClassVar

from . import works


class DenseOneMap:
    """S10, S11, S12: one map as two arrays."""

    entries = 1_000_000
    params: ClassVar = [
        [works.OURS, "numpy"],
        ["narrow", "wide", "ascending"],
    ]
    param_names: ClassVar = ["impl", "keys"]

    def setup(self, impl: str, keys: str) -> None:
        self.run = works.prepared(works.order_arrays(keys, self.entries), impl)

    def time_call(self, impl: str, keys: str) -> None:
        self.run()


class DenseDict:
    """S13: one large dict."""

    entries = 65_536
    params: ClassVar = [[works.OURS, "onnxruntime"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.order_dict(self.entries), impl)

    def time_call(self, impl: str) -> None:
        self.run()


class OneDict:
    """One small dict."""

    params: ClassVar = [[works.OURS]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.order_dict(8), impl)

    def time_call(self, impl: str) -> None:
        self.run()


class ReadTexts:
    """S39: text values become numbers."""

    entries = 100_000
    params: ClassVar = [[works.OURS, "python"], ["TO_FLOAT"]]
    param_names: ClassVar = ["impl", "cast_to"]

    def setup(self, impl: str, cast_to: str) -> None:
        self.run = works.prepared(works.read_texts(cast_to, self.entries), impl)

    def time_call(self, impl: str, cast_to: str) -> None:
        self.run()


class WriteTexts:
    """S40: numbers become text."""

    entries = 100_000
    params: ClassVar = [[works.OURS, "python"], ["all"]]
    param_names: ClassVar = ["impl", "digits"]

    def setup(self, impl: str, digits: str) -> None:
        self.run = works.prepared(works.write_texts(digits, self.entries), impl)

    def time_call(self, impl: str, digits: str) -> None:
        self.run()


class Sparse:
    """S14: many maps, max_map=128."""

    maps = 100_000
    params: ClassVar = [[works.OURS, "numpy"]]
    param_names: ClassVar = ["impl"]

    def setup(self, impl: str) -> None:
        self.run = works.prepared(works.scatter(128, self.maps), impl)

    def time_call(self, impl: str) -> None:
        self.run()
