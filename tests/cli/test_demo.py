"""The demo: the command without arguments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nbmapops._cli.command import main
from nbmapops._cli.demo import digits
from tests.cli.running import MAPS, write

from ..fresh import run


def test_demo_shows_maps_matrix_error_and_one_ratio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nbmapops._cli.demo._MANY_ENTRIES", 1)
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 25
    assert max(map(len, lines)) <= 130
    assert "  caffeine    8  10   4   2" in lines
    assert any("key 'Xe' is not in string_vocabulary" in line for line in lines)
    assert "500 such maps, 1,577 entries, as one sparse matrix:" in lines
    assert len([line for line in lines if "million entries/s" in line]) == 3
    assert re.fullmatch(r"  the same matrix, [\d.,]+ times as fast at first, .*", lines[-2])
    assert re.fullmatch(r"  [\d.,]+ times once compiled code is loaded; .* s", lines[-1])


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.42, "0.42"),
        (3.14, "3.1"),
        (9.96, "10"),
        (12.4, "12"),
        (1234.5, "1,234"),
        (0.0123, "0.012"),
    ],
)
def test_numbers_have_the_digits_that_count(number: float, shown: str) -> None:
    assert digits(number) == shown


@pytest.mark.parametrize("arguments", [[], ["maps.jsonl"]])
def test_command_needs_no_extra(folder: Path, arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "for name in ('pandas', 'pyarrow', 'sklearn', 'onnx', 'tqdm'):\n"
        "    sys.modules[name] = None\n"
        "from nbmapops._cli import command, demo\n"
        "demo._MANY_ENTRIES = 1\n"
        f"sys.exit(command.main({arguments}))\n"
    )
    write("maps.jsonl", *MAPS)
    run(code)


def test_a_file_is_converted_without_the_compiler(folder: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('numba', 'llvmlite', 'scipy'):\n"
        "    sys.modules[name] = None\n"
        "from nbmapops._cli.command import main\n"
        "sys.exit(main(['maps.jsonl']))\n"
    )
    write("maps.jsonl", *(20_000 * MAPS))
    run(code)
    assert Path("maps.npz").exists()
