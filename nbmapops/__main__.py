"""The command ``python -m nbmapops``: a demo on real maps, and the conversion of a file of maps."""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbmapops import CastMap, DictVectorizer, MapBatch, UnknownKeyError, __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nbmapops._cli.convert import Report

_ATOMIC_NUMBER = {
    "H": 1, "B": 5, "C": 6, "N": 7, "O": 8, "F": 9, "Na": 11, "Mg": 12, "Al": 13, "Si": 14, "P": 15,
    "S": 16, "Cl": 17, "K": 19, "Ca": 20, "Zn": 30, "Se": 34, "Br": 35, "Kr": 36, "I": 53, "Pb": 82,
}  # fmt: skip
_SHOWN = {962: "water", 702: "ethanol", 2519: "caffeine"}  # by their number in PubChem
_MANY_ENTRIES = 1_000_000


# ------------------------------------------------------------------------------------- demo
def demo() -> None:
    """Run both operators on the compounds that come with the package, and print what they do."""
    compounds = _compounds()
    by_symbol = list(compounds.values())
    by_number = [
        {_ATOMIC_NUMBER[symbol]: count for symbol, count in atoms.items()} for atoms in by_symbol
    ]
    entries = sum(map(len, by_symbol))
    print(f"nbmapops {__version__}: maps in, tensors out")
    print(f"\nIn: {len(compounds)} compounds of PubChem, {entries:,} entries; three of these maps:")
    for number, name in _SHOWN.items():
        print(f"  {name:<10}{compounds[number]}")
    _show_columns([compounds[number] for number in _SHOWN])
    _show_forms(by_symbol, by_number)
    _show_cast_map({8: 1, 1: 2})
    _show_error()
    _show_speed(by_symbol, by_number)


def _compounds() -> dict[int, dict[str, int]]:
    text = resources.files("nbmapops").joinpath("data", "compounds.jsonl").read_text("utf-8")
    rows = map(json.loads, text.splitlines())
    return {row["cid"]: row["atoms"] for row in rows}


def _show_columns(maps: list[dict[str, int]]) -> None:
    words = ["C", "H", "N", "O"]
    print(f"\nDictVectorizer(string_vocabulary={words}) gives each word a column:")
    print(" " * 12 + "".join(f"{word:>4}" for word in words))
    matrix = DictVectorizer(string_vocabulary=words)(maps)
    for name, row in zip(_SHOWN.values(), matrix, strict=True):
        print(f"  {name:<10}" + "".join(f"{count:>4}" for count in row))


def _show_forms(by_symbol: list[dict[str, int]], by_number: list[dict[int, int]]) -> None:
    print("\nAll compounds, op = DictVectorizer.from_maps(maps), in every form:")
    table = [dict(_forms(maps)) for maps in (by_symbol, by_number)]
    print(f"  {'':<27}{'keys H, O, ...':<30}keys 1, 8, ...")
    for form, left in table[0].items():
        print(f"  {form:<27}{left:<30}{table[1][form]}")


def _forms(maps: list[Any]) -> Iterator[tuple[str, str]]:
    op = DictVectorizer.from_maps(maps)
    batch = MapBatch.from_dicts(maps)
    shares = [{key: n / sum(atoms.values()) for key, n in atoms.items()} for atoms in maps]
    texts = [{key: str(n) for key, n in atoms.items()} for atoms in maps]
    yield "vocabulary", f"{len(op)} words"
    yield "op(maps[0])", _type(op(maps[0]))
    yield "op(keys, values)", _type(op(list(maps[0]), list(maps[0].values())))
    yield "op(keys, values, offsets)", _type(op(batch.keys, batch.values, batch.offsets))
    yield "op(MapBatch)", _type(op(batch))
    yield "op(maps)", _type(op(maps))
    yield "op(maps), shares of atoms", _type(op(shares))
    yield "op(maps), counts as text", _type(op(texts))
    try:
        matrix = op.csr(maps)
    except ImportError:
        yield "op.csr(maps)", "needs nbmapops[sparse]"
    else:
        yield "op.csr(maps)", f"{_type(matrix)}, {matrix.nnz} stored"
    back = op.inverse(op(maps)).to_dicts()
    yield "op.inverse(matrix)", "the same maps" if back == maps else "other maps"


def _type(array: Any) -> str:
    return f"{array.dtype} {array.shape}"


def _show_cast_map(water: dict[int, int]) -> None:
    print("\nCastMap drops the keys: DENSE by ascending key, SPARSE the value of key k at place k")
    print(f"  {'map':<19}{'cast_to':<12}{'DENSE':<13}SPARSE, max_map=9")
    for mapping in (water, {key: str(value) for key, value in water.items()}):
        for cast_to in ("TO_FLOAT", "TO_INT64", "TO_STRING"):
            dense = CastMap(cast_to=cast_to)(mapping).tolist()
            sparse = CastMap(cast_to=cast_to, map_form="SPARSE", max_map=9)(mapping).tolist()
            print(f"  {mapping!s:<19}{cast_to:<12}{dense!s:<13}{sparse}")


def _show_error() -> None:
    print("\nNothing is lost silently: DictVectorizer(string_vocabulary=['C', 'H'])({'Xe': 1})")
    try:
        DictVectorizer(string_vocabulary=["C", "H"])({"Xe": 1})
    except UnknownKeyError as error:
        print(f"  {error}")


def _show_speed(by_symbol: list[dict[str, int]], by_number: list[dict[int, int]]) -> None:
    copies = -(-_MANY_ENTRIES // sum(map(len, by_symbol)))
    batch = MapBatch.from_dicts(by_number * copies)
    entries = len(batch.values)
    print(f"\nSpeed, dense results: {len(batch):,} maps, {entries:,} entries; million entries/s")
    rates: dict[str, tuple[Callable[[Any], object], Any]] = {
        "DictVectorizer, dicts, str keys": (
            DictVectorizer.from_maps(by_symbol),
            by_symbol * copies,
        ),
        "DictVectorizer, dicts, int keys": (
            DictVectorizer.from_maps(by_number),
            by_number * copies,
        ),
        "DictVectorizer, MapBatch, int64 keys": (DictVectorizer.from_maps(by_number), batch),
        "CastMap DENSE, MapBatch": (CastMap().ragged, batch),
    }
    for name, (call, maps) in rates.items():
        call(maps)  # compiles, or loads what an earlier run compiled
        start = time.perf_counter()
        call(maps)
        print(f"  {name:<38}{entries / (time.perf_counter() - start) / 1e6:>5,.0f}")


# ------------------------------------------------------------------------------- conversion
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nbmapops",
        description="Turn a file of maps into a matrix, one row a map. Without FILE: a demo.",
        epilog="JSON Lines: one object a line, so map i is line i + 1; values are numbers, and "
        "NaN, Infinity and -Infinity are taken as Python writes them. A learned vocabulary is "
        "sorted and written beside OUT as a JSON array, which --vocabulary takes.",
    )
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="JSON Lines, Parquet, or - for standard input")
    add("-o", dest="out", type=Path, metavar="OUT", help="by default FILE with .npz or .npy")
    add("--dense", action="store_true", help="write .npy; else .npz for scipy.sparse.load_npz")
    add("--vocabulary", type=Path, metavar="WORDS", help="JSON array of the words (columns)")
    add("--key-type", choices=["string", "int64"], default="string", help="of the JSON keys")
    add("--handle-unknown", choices=["error", "ignore"], default="error")
    add("--column", metavar="NAME", help="the map column of a Parquet file")
    add("--version", action="version", version=f"nbmapops {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        The exit status: 0, or 2 where an option, a file or a map is wrong.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    options = parser.parse_args(arguments)
    if not arguments:
        demo()
        return 0
    if options.file is None:
        parser.error("these options need a FILE")
    from nbmapops._cli import convert

    try:
        target = _target(options)
        report = convert.convert(
            options.file,
            target,
            dense=options.dense,
            vocabulary=options.vocabulary,
            key_type=options.key_type,
            handle_unknown=options.handle_unknown,
            column=options.column,
        )
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else error
        return _fail(reason)
    except (convert.InputError, MemoryError) as error:
        return _fail(error)
    except KeyboardInterrupt:
        return _fail("interrupted; nothing was written")
    _show_report(options, target, report)
    return 0


def _fail(reason: object) -> int:
    print(f"nbmapops: error: {reason}", file=sys.stderr)
    return 2


def _target(options: argparse.Namespace) -> Path:
    """Return the output file once the options are seen to fit together."""
    from nbmapops._cli.convert import InputError, learned_path

    source, suffix = Path(options.file), ".npy" if options.dense else ".npz"
    if source.is_dir():
        raise InputError(f"{source} is a folder, not a file of maps")
    target: Path = options.out or source.with_suffix(suffix)
    if options.vocabulary is None and (options.file == "-" or source.is_fifo()):
        raise InputError(f"{options.file} can be read only once, so it needs --vocabulary")
    if options.file == "-" and options.out is None:
        raise InputError("standard input needs -o OUT")
    if options.file == "-" and options.column is not None:
        raise InputError("--column needs a Parquet file, not standard input")
    if source.suffix == ".parquet" and options.column is None:
        raise InputError(f"{source} needs --column NAME")
    if target.suffix != suffix:
        raise InputError(f"{target} must end in {suffix} (--dense writes .npy)")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is not a folder")
    inputs, outputs = [source], [target]
    if options.vocabulary is None:
        outputs.append(learned_path(target))
    else:
        inputs.append(options.vocabulary)
    read = {path.resolve() for path in inputs}
    for path in outputs:
        if path.resolve() in read:
            raise InputError(f"{path} would be overwritten")
        if path.is_dir():
            raise InputError(f"{path} is a folder")
    return target


def _show_report(options: argparse.Namespace, target: Path, report: Report) -> None:
    print(
        f"{options.file}: {report.maps:,} maps, {report.entries:,} entries, "
        f"{report.words:,} words, {report.unknown:,} entries with unknown keys"
    )
    kind = "dense" if options.dense else "CSR"
    print(f"{target}: {kind} matrix {report.maps} x {report.words}, {report.dtype}")
    if report.learned:
        print(f"{report.learned}: the words in column order")


if __name__ == "__main__":
    sys.exit(main())
