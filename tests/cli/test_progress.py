"""What a terminal shows while a run takes long."""

from __future__ import annotations

import functools
import io
import logging
import sys
from typing import TYPE_CHECKING

import pytest

from nbmapops._cli import jsonlines
from nbmapops._cli.command import main
from nbmapops._cli.progress import compiling_is_shown
from tests.cli.running import MAPS, pipe, write

if TYPE_CHECKING:
    from pathlib import Path


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show progress at once, and after each line."""
    tqdm = pytest.importorskip("tqdm")
    now = functools.partial(tqdm.tqdm, mininterval=0)
    monkeypatch.setattr("tqdm.tqdm", lambda **options: now(**{**options, "delay": 0}))
    monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", 1)


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.usefixtures("impatient")
def test_progress_is_shown_on_a_terminal_and_wiped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, piped: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    write("maps.jsonl", {"a": 1}, {"a": 1})
    if piped:
        write("words.json", '["a"]')
        pipe(monkeypatch, b'{"a": 1}\n{"a": 1}\n')
        assert main(["-", "--vocabulary", "words.json", "-o", "x.npz"]) == 0
        assert "\rreading: 18.0B" in terminal.getvalue()
    else:
        assert main(["maps.jsonl"]) == 0
        assert "\rreading:  50%" in terminal.getvalue()
        assert "\rreading: 100%" in terminal.getvalue()
    assert terminal.getvalue().rpartition("\r")[0].endswith(" ")


def test_no_progress_in_a_short_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    main([write("maps.jsonl", *MAPS)])
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("impatient")
def test_no_progress_in_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([write("maps.jsonl", *MAPS)])
    assert capsys.readouterr().err == ""


def test_no_progress_without_tqdm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    assert main([write("maps.jsonl", *MAPS)]) == 0
    assert terminal.getvalue() == ""


def test_one_line_says_on_a_terminal_that_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    logger = logging.getLogger("nbmapops")
    before = (logger.level, list(logger.handlers))
    with compiling_is_shown():
        logger.info("compiling %s, which no cache holds", "vectorize_csr")
        logger.info("compiling %s, which no cache holds", "lookup")
        logger.info("something else")
    assert terminal.getvalue() == "nbmapops: compiling vectorize_csr, which no cache holds\n"
    assert (logger.level, list(logger.handlers)) == before
    monkeypatch.setattr(sys, "stderr", other := io.StringIO())
    with compiling_is_shown():
        logger.info("compiling %s, which no cache holds", "lookup")
    assert other.getvalue() == ""
