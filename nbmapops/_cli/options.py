"""Command: its options, and which of them fit together."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from nbmapops import __version__
from nbmapops._cli.source import InputError, Reading


class Options(NamedTuple):
    """What is to be converted, how, and into which files."""

    file: str  # "-" is standard input
    reading: Reading
    vocabulary: Path | None
    handle_unknown: Literal["error", "ignore"]
    dense: bool
    out: Path
    learned: Path | None  # where a learned vocabulary is written
    ids: Path | None  # where the ids are written


_EPILOG = """\
JSON Lines: one object a line, so map i is line i + 1. Values are numbers; NaN,
Infinity and -Infinity are taken as Python writes them. FILE may be compressed
with gzip or zstd. Standard input needs -o OUT.

A learned vocabulary is sorted and written to OUT with .vocabulary.json in the
place of .npz or .npy, as a JSON array, which --vocabulary takes; ids are
written to OUT with .ids.json.

exit status:
  0        done
  1        done, but what was to be printed could not be printed
  2        an option, a file, a line or a map is wrong; nothing was written
  128 + n  ended by signal n (130: Ctrl-C, 143: SIGTERM); nothing was written
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m nbmapops" if Path(sys.argv[0]).name == "__main__.py" else "nbmapops",
        description="Turn a file of maps into a matrix, one row a map. Without FILE: a demo.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("file", nargs="?", metavar="FILE", help="JSON Lines, Parquet, or - for standard input")
    add("-o", dest="out", type=Path, metavar="OUT", help="by default FILE with .npz or .npy")
    add("--dense", action="store_true", help="write .npy; else .npz for scipy.sparse.load_npz")
    add("--vocabulary", type=Path, metavar="WORDS", help="JSON array of the words (columns)")
    add("--key-type", choices=["string", "int64"], default="string", help="of the JSON keys")
    add("--handle-unknown", choices=["error", "ignore"], default="error")
    add(
        "--column",
        metavar="PATH",
        help="where the map stands: the column of a Parquet file, or the key in each JSON line "
        "(a.b is key b of the object at key a)",
    )
    add("--id", metavar="PATH", help="where the id of a map stands; text or an integer")
    add(
        "--null",
        choices=["error", "skip"],
        default="error",
        help="skip: leave null values out, and take a null map as empty",
    )
    add(
        "--one-hot",
        action="store_true",
        help="a text value counts as 1 in the column key=value",
    )
    add(
        "--compile",
        action="store_true",
        help="compile all kernels now, so that no later call of the library has to wait; no FILE",
    )
    add("--version", action="version", version=f"nbmapops {__version__}")
    return made


def checked(given: argparse.Namespace) -> Options:
    """Return the options of a conversion once they are seen to fit together."""
    suffix = ".npy" if given.dense else ".npz"
    if given.file == "-" and given.out is None:
        raise InputError("standard input needs -o OUT")
    if Path(given.file).is_dir():
        raise InputError(f"{Path(given.file)} is a folder, not a file of maps")
    out = _default_out(Path(given.file), suffix) if given.out is None else given.out
    if out.suffix != suffix:
        raise InputError(f"{out} must end in {suffix} (--dense writes .npy)")
    if given.one_hot and given.key_type == "int64":
        raise InputError("--one-hot needs text keys, not --key-type int64")
    options = Options(
        given.file,
        Reading(given.key_type, given.column, given.id, given.null == "skip", given.one_hot),
        given.vocabulary,
        given.handle_unknown,
        given.dense,
        out,
        out.with_suffix(".vocabulary.json") if given.vocabulary is None else None,
        out.with_suffix(".ids.json") if given.id is not None else None,
    )
    _check_files(options)
    return options


def _default_out(file: Path, suffix: str) -> Path:
    compressed = file.suffix in (".gz", ".zst")
    return (file.with_suffix("") if compressed else file).with_suffix(suffix)


def _check_files(options: Options) -> None:
    inputs = [Path(options.file), options.vocabulary]
    read = {os.path.realpath(path) for path in inputs if path is not None}
    for path in (options.out, options.learned, options.ids):
        if path is None:
            continue
        final = Path(os.path.realpath(path))
        if not final.parent.is_dir():
            raise InputError(
                f"{path.parent if not path.is_symlink() else final.parent} is not a folder"
            )
        if str(final) in read:
            raise InputError(f"{path} would be overwritten")
        if final.is_dir():
            raise InputError(f"{path} is a folder")
        if final.is_symlink() or (final.exists() and not final.is_file()):
            raise InputError(f"{path} is not a file that can be replaced")
