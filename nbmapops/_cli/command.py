"""Command: ``nbmapops`` and ``python -m nbmapops``; a demo, or the conversion of a file."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING, TextIO

import nbmapops
from nbmapops._cli import options
from nbmapops._cli.progress import compiling_is_shown
from nbmapops._cli.signals import Stopped, stoppable
from nbmapops._cli.source import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        The exit status; `nbmapops --help` lists them.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = options.parser()
    shown = io.StringIO()
    try:
        with redirect_stdout(shown):
            given = parser.parse_args(arguments)
        if not given.compile and given.file is None and arguments:
            parser.error("these options need a FILE")
        if given.compile and arguments != ["--compile"]:
            parser.error("--compile goes with no other option and no FILE")
    except SystemExit as stop:  # --help, --version, or a wrong option
        raise SystemExit(stop.code or _printed(shown.getvalue().splitlines())) from None
    return _run(given)


def _run(given: argparse.Namespace) -> int:
    written = ""
    try:
        with stoppable(), compiling_is_shown():
            lines: Iterable[str] = _compile() if given.compile else ()
            if given.file is not None:
                written = "; nothing was written"
                lines = _convert(given)
                written = "; all was written"
            elif not given.compile:
                from nbmapops._cli.demo import demo

                lines = demo()
            return _printed(lines)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else error)
    except (InputError, MemoryError) as error:
        return _fail(error)
    except (Stopped, KeyboardInterrupt) as error:
        status = error.status if isinstance(error, Stopped) else 130
        return _fail(f"interrupted{written}", status)


def _convert(given: argparse.Namespace) -> list[str]:
    from nbmapops._cli.convert import convert

    chosen = options.checked(given)
    try:
        report = convert(chosen)
    except OSError as error:
        if error.filename is not None:
            raise
        raise InputError(f"{chosen.out}: {error.strerror or error}") from error  # a full disk
    kind = "dense" if chosen.dense else "CSR"
    counts = f"{report.maps:,} maps, {report.entries:,} entries, {report.words:,} words"
    lines = [
        f"{chosen.file}: {counts}, {report.unknown:,} entries with unknown keys",
        f"{chosen.out}: {kind} matrix {report.maps} x {report.words}, {report.dtype}",
    ]
    if chosen.learned is not None:
        lines.append(f"{chosen.learned}: the words in column order")
    if chosen.ids is not None:
        lines.append(f"{chosen.ids}: the ids in row order")
    return lines


def _compile() -> Iterator[str]:
    yield str(nbmapops.precompile())


# ---------------------------------------------------------------------------------- printing
def _printed(lines: Iterable[str]) -> int:
    """Print lines; 0, or 1 where that is impossible: a full disk, a pipe that nobody reads."""
    stream = sys.stdout
    for line in lines:
        if stream is None:
            continue  # it was closed: nothing is to be shown
        status = _written(stream, line + "\n")
        if status:
            return status
    return 0 if stream is None else _written(stream, "")


def _written(stream: TextIO, text: str) -> int:
    encoding = stream.encoding or "utf-8"
    try:
        # characters that the terminal's encoding does not have are escaped
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        _silence(stream)
        return 1  # `| head` has what it wants
    except (OSError, ValueError) as error:
        _silence(stream)
        return _fail(f"standard output: {getattr(error, 'strerror', None) or error}", 1)
    return 0


def _silence(stream: TextIO) -> None:
    """Let Python's own flush at exit find nothing to complain about."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _fail(reason: object, status: int = 2) -> int:
    stream = sys.stderr
    if stream is not None:
        try:
            stream.write(f"nbmapops: error: {reason}\n")
            stream.flush()
        except (OSError, ValueError):
            _silence(stream)
    return status
