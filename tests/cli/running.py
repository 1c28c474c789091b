"""What the tests of the command share: files to convert, and runs of it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from nbmapops._cli.command import main

MAPS: list[dict[str, float]] = [{"b": 1, "a": 2}, {}, {"c": 0, "a": -3}]
DENSE = [[2, 1, 0], [0, 0, 0], [-3, 0, 0]]


def write(path: str, *lines: object) -> str:
    """Write lines, each a JSON text or what becomes one."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    Path(path).write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def names() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def pipe(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text))))


def load(path: str) -> Any:
    return pytest.importorskip("scipy.sparse").load_npz(path)


def fails(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 2) -> str:
    """Run the command, which must leave no file behind, and return its complaint."""
    before = names()
    assert main(arguments) == status
    assert names() == before
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("nbmapops: error: ")
    return printed.err.removeprefix("nbmapops: error: ").rstrip("\n")
