"""Reading, shown: the first maps of a batch as a table, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmapops._load import imported
from nbmapops.errors import show

if TYPE_CHECKING:
    from nbmapops._constants import Array
    from nbmapops._reading.entries import Entries

__all__ = ["as_table"]

_MAPS, _ENTRIES = 8, 6


def as_table(entries: Entries, null_maps: Array | None, title: str) -> str:
    """Return HTML of the first maps and their first entries; keys and values are escaped."""
    escape = imported("html").escape  # 1 ms, which only notebooks need
    total = len(entries.offsets) - 1
    rows = []
    for number in range(min(total, _MAPS)):
        start, stop = (int(bound) for bound in entries.offsets[number : number + 2])
        part = slice(start, min(stop, start + _ENTRIES))
        keys, values = entries.keys[part].to_array(), entries.values[part]
        pairs = zip(keys.tolist(), values.tolist(), strict=True)
        shown = [f"{show(key)}: {show(value)}" for key, value in pairs]
        if stop > part.stop:
            shown.append(f"and {stop - part.stop:,} more")
        if null_maps is not None and null_maps[number]:
            shown = ["null"]
        rows.append(_row(str(number), escape(", ".join(shown))))
    if total > _MAPS:
        rows.append(_row("", f"{total - _MAPS:,} more maps"))
    return f"<table><caption>{escape(title)}</caption><tbody>{''.join(rows)}</tbody></table>"


def _row(number: str, text: str) -> str:
    return f'<tr><th>{number}</th><td style="text-align: left">{text}</td></tr>'
