"""Type checkers find what users write wrong, and leave alone what they write right."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import nbmapops

from .conftest import WITHOUT_JIT

if TYPE_CHECKING:
    from collections.abc import Callable

CODE = Path(__file__).with_name("user_code.py")
LINES = CODE.read_text().splitlines()
WRONG = {number for number, line in enumerate(LINES, 1) if line.endswith("# wrong")}
NINE = {number for number in WRONG if number < LINES.index("def more_mistakes() -> None:")}


def checked(command: list[str], folder: Path) -> str:
    """What a checker prints about the file, which knows this package and no other file of it."""
    (folder / "user.py").write_text(CODE.read_text())
    source = Path(nbmapops.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    settings = {
        "extraPaths": [str(source)],
        "typeCheckingMode": "standard",
        "reportMissingImports": False,  # of extras
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [*command, "user.py"],
        capture_output=True,
        check=False,
        cwd=folder,
        env=environment,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr  # there are mistakes
    return done.stdout


def mypy(folder: Path) -> set[int]:
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    quiet = ["--strict", "--ignore-missing-imports", "--no-error-summary", "--no-pretty"]
    printed = checked([sys.executable, "-m", "mypy", *quiet, "--cache-dir=.mypy_cache"], folder)
    errors = re.findall(r"^user\.py:(\d+): error", printed, re.MULTILINE)
    assert len(errors) == printed.count(": error"), printed  # none in the package
    return {int(line) for line in errors}


def pyright(folder: Path) -> set[int]:
    program = shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed")
    command = [program, "--outputjson", "--pythonpath", sys.executable]
    report = json.loads(checked(command, folder))["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in report if each["severity"] == "error"}


@pytest.mark.skipif(
    WITHOUT_JIT or "NUMBA_BOUNDSCHECK" in os.environ,
    reason="checkers run nothing: one run of them is enough",
)
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_checkers_find_mistakes_and_nothing_else(
    checker: Callable[[Path], set[int]], tmp_path: Path
) -> None:
    found = checker(tmp_path)

    assert len(NINE) == 9
    assert len(found & NINE) >= 8
    assert len(found & WRONG) >= len(WRONG) - 1
    assert found <= WRONG
