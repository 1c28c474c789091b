"""The page of docs about ONNX runs as it stands."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside skl2onnx
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_page_runs() -> None:
    if not PAGE.exists():
        pytest.skip("a source distribution leaves the docs out")
    for library in ("onnxruntime", "sklearn", "skl2onnx"):
        pytest.importorskip(library)
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0
