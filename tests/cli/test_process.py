"""The command as a process: what it prints to, what it reads from, and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

import nbmapops
from nbmapops._cli.command import main
from tests.cli.running import DENSE, MAPS, fails, load, names, write

COMMAND = [sys.executable, "-m", "nbmapops"]
DONE = ["maps.jsonl", "maps.npz", "maps.vocabulary.json"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX")
full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, of Linux")


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([*COMMAND, *arguments], check=False, timeout=120, **options)


# ----------------------------------------------------------------------------------- printing
@full
@pytest.mark.parametrize("arguments", [["maps.jsonl"], ["--help"], ["--version"], []])
def test_a_full_disk_for_what_is_printed(folder: Path, arguments: list[str]) -> None:
    write("maps.jsonl", *MAPS)
    with Path("/dev/full").open("w") as out:
        done = run(*arguments, stdout=out)
    assert done.returncode == 1
    assert done.stderr == b"nbmapops: error: standard output: No space left on device\n"
    assert names() == (DONE if arguments == ["maps.jsonl"] else ["maps.jsonl"])


@full
def test_a_full_disk_for_what_is_complained(folder: Path) -> None:
    with Path("/dev/full").open("w") as err:
        done = run("none.jsonl", stderr=err)
    assert (done.returncode, done.stdout) == (2, b"")


@posix
@pytest.mark.parametrize("arguments", [["maps.jsonl"], ["--help"]])
def test_a_pipe_that_nobody_reads(folder: Path, arguments: list[str]) -> None:
    write("maps.jsonl", *MAPS)
    reading, writing = os.pipe()
    os.close(reading)
    done = run(*arguments, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
    assert names() == (DONE if arguments == ["maps.jsonl"] else ["maps.jsonl"])


def test_characters_that_the_terminal_does_not_have_are_escaped(folder: Path) -> None:
    write("é.jsonl", *MAPS)
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    done = run("é.jsonl", env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"\\xe9.jsonl: 3 maps")
    Path("é.jsonl").write_text("x")
    done = run("é.jsonl", env=ascii_only)
    assert done.returncode == 2
    assert done.stderr.startswith(b"nbmapops: error: \\xe9.jsonl:1: ")


@posix
def test_closed_streams_end_a_run_in_one_line(folder: Path) -> None:
    write("maps.jsonl", *MAPS)

    def shell(line: str) -> subprocess.CompletedProcess[bytes]:
        line = f"'{sys.executable}' -m nbmapops {line}"
        return subprocess.run(["sh", "-c", line], check=False, capture_output=True, timeout=120)

    done = shell("- -o x.npz <&-")
    assert done.returncode == 2
    assert done.stderr == b"nbmapops: error: standard input is closed\n"
    done = shell("- -o x.npz 0>/dev/null")
    assert done.returncode == 2
    assert done.stderr == b"nbmapops: error: standard input: Bad file descriptor\n"
    done = shell("maps.jsonl >&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert load("maps.npz").toarray().tolist() == DENSE
    done = shell("none.jsonl 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


# ------------------------------------------------------------------------------ the new files
@posix
def test_a_full_disk_for_the_matrix(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nbmapops._cli.spool.Spool.append", full_disk)
    write("maps.jsonl", *MAPS)
    assert fails(capsys, "maps.jsonl") == "maps.npz: No space left on device"


@posix
def test_symbolic_links_are_written_through(folder: Path) -> None:
    write("maps.jsonl", *MAPS)
    for name in ("there", "words"):
        Path(name).mkdir()
    Path("there/real.npz").write_text("old")
    Path("x.npz").symlink_to("there/real.npz")
    Path("x.vocabulary.json").symlink_to("words/new.json")
    assert main(["maps.jsonl", "-o", "x.npz"]) == 0
    assert Path("x.npz").is_symlink()
    assert Path("x.vocabulary.json").is_symlink()
    assert load("there/real.npz").toarray().tolist() == DENSE
    assert json.loads(Path("words/new.json").read_text()) == ["a", "b", "c"]
    assert os.listdir("there") == ["real.npz"]  # noqa: PTH208
    assert os.listdir("words") == ["new.json"]  # noqa: PTH208


@posix
def test_files_that_cannot_be_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("maps.jsonl", *MAPS)
    Path("loop.npz").symlink_to("loop.npz")
    assert fails(capsys, "maps.jsonl", "-o", "loop.npz") == (
        "loop.npz is not a file that can be replaced"
    )
    Path("lost.npz").symlink_to("none/x.npz")
    assert fails(capsys, "maps.jsonl", "-o", "lost.npz").endswith("none is not a folder")
    os.mkfifo("pipe.npz")
    assert fails(capsys, "maps.jsonl", "-o", "pipe.npz") == (
        "pipe.npz is not a file that can be replaced"
    )
    Path("self.npz").symlink_to("maps.jsonl")
    assert fails(capsys, "maps.jsonl", "-o", "self.npz") == "self.npz would be overwritten"


@pytest.mark.parametrize("refused", ["words", "ids", "matrix"])
def test_a_file_that_cannot_be_replaced_leaves_all_as_they_were(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refused: str,
) -> None:
    replace = Path.replace

    def refuses(path: Path, target: Path) -> Path:
        if path.name == refused:
            raise PermissionError(13, "Permission denied", str(target))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refuses)
    write("maps.jsonl", {"id": 1, "m": {"a": 1}})
    write("maps.npz", "old matrix")
    write("maps.vocabulary.json", "old words")
    message = fails(capsys, "maps.jsonl", "--column", "m", "--id", "id")
    assert message.endswith(": Permission denied")
    assert Path("maps.npz").read_text() == "old matrix\n"
    assert Path("maps.vocabulary.json").read_text() == "old words\n"


# ------------------------------------------------------------------------------------ signals
def started(folder: Path, **options: Any) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start the command, and wait until it holds what it reads in a folder of its own."""
    line = [*COMMAND, "-", "-o", "x.npz"]
    process = subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )
    assert process.stdin is not None
    process.stdin.write(b'{"a": 1}\n')
    process.stdin.flush()
    end = time.monotonic() + 60
    while not any(path.is_dir() and any(path.iterdir()) for path in folder.iterdir()):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    return process, process.stdin


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing_behind(folder: Path, name: str) -> None:
    number = getattr(signal, name)
    # What a shell starts with "&", or nohup does, ignores some of them, and so would this process.
    heed = lambda: signal.signal(number, signal.SIG_DFL)  # noqa: E731
    process, _ = started(folder, preexec_fn=heed)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + number, b"")
    assert err == b"nbmapops: error: interrupted; nothing was written\n"
    assert names() == []


@posix
def test_a_signal_that_is_ignored_stays_so(folder: Path) -> None:
    """As `nohup` has it."""
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    process, _ = started(folder, preexec_fn=ignore)
    process.send_signal(signal.SIGHUP)
    process.communicate(b'{"a": 2}\n', timeout=60)
    assert process.returncode == 0
    assert load("x.npz").toarray().tolist() == [[1], [2]]


def test_signal_handlers_are_put_back(folder: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    main([write("maps.jsonl", *MAPS)])
    assert {number: signal.getsignal(number) for number in before} == before


# ------------------------------------------------------------------------------ the front door
def test_exit_statuses_are_documented() -> None:
    text = run("--help").stdout.decode()
    for line in ("  0        done", "  1        done, but", "  2        an option,", "  128 + n  "):
        assert line in text


def test_compile_says_what_was_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nbmapops, "precompile", lambda: "9 kernels compiled", raising=False)
    assert main(["--compile"]) == 0
    assert capsys.readouterr().out == "9 kernels compiled\n"
    with pytest.raises(SystemExit) as stop:
        main(["--compile", "maps.jsonl"])
    assert stop.value.code == 2
    assert "--compile goes with no other option and no FILE" in capsys.readouterr().err


def test_console_script_is_the_same_command() -> None:
    import tomllib

    project = Path(__file__).parents[2] / "pyproject.toml"
    scripts = tomllib.loads(project.read_text())["project"]["scripts"]
    assert scripts == {"nbmapops": "nbmapops._cli.command:main"}
