"""The disk cache of compiled code: the stamp of its source, and whether it holds a kernel.

Nothing here imports Numba, so that small work can ask. What is known of Numba's files: an index
``<file>.<function>-<line>.<python>.nbi`` in a folder of its own, which holds the version of Numba,
the stamp, and the processor.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from nbmapops._constants import STAMPED
from nbmapops._load import imported, undisturbed

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_cached", "source_stamp"]


@cache
def source_stamp() -> bytes | None:
    """Return a digest of all files with compiled code, None where there are none to read.

    The disk cache keeps it beside each kernel. Numba by itself would compare the one file in which
    a kernel stands, and miss a change in a kernel of another file that is compiled into it.

    Returns
    -------
    bytes or None
        16 bytes.
    """
    # What a signal handler raises may be an OSError, which is not for the reading to catch.
    return undisturbed(_digest)


def _digest() -> bytes | None:
    # Not imported with the package, for the sake of small work: they take some milliseconds.
    hashlib, pathlib = imported("hashlib"), imported("pathlib")
    digest, found = hashlib.blake2b(digest_size=16), False
    try:
        folder = pathlib.Path(__file__).parent
        for path in sorted(path for pattern in STAMPED for path in folder.glob(pattern)):
            source = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()} {len(source)}\n".encode())
            digest.update(source)
            found = True
    except (OSError, NameError):  # frozen
        return None
    return digest.digest() if found else None  # there are none in a zip archive


@cache
def is_cached(name: str) -> bool:
    """Tell whether a disk cache holds a kernel that Numba would load in this process.

    Parameters
    ----------
    name : str
        Of the function; types of arguments are not asked for, because an index names many.
    """
    # What a signal handler raises may be an OSError, which is not for the search to catch.
    return undisturbed(_is_found, name)


def _is_found(name: str) -> bool:
    Path = imported("pathlib").Path
    folder = os.environ.get("NUMBA_CACHE_DIR")
    try:
        places = [folder] if folder else [Path(__file__).parent, _user_cache()]
    except NameError:  # frozen
        return False
    pattern = f"*.{name}-*.py{sys.version_info.major}{sys.version_info.minor}*.nbi"
    return any(_is_usable(path) for place in places for path in Path(place).rglob(pattern))


def _user_cache() -> str:
    """Return where Numba keeps what it cannot keep beside the package."""
    places = {
        "darwin": "~/Library/Caches/numba",
        "win32": f"{os.environ.get('LOCALAPPDATA', '~')}/numba/Cache",
    }
    other = f"{os.environ.get('XDG_CACHE_HOME', '~/.cache')}/numba"
    # Path.home and Path.expanduser fail for a user without a home, as some containers have one.
    return os.path.expanduser(places.get(sys.platform, other))  # noqa: PTH111


def _is_usable(file: Path) -> bool:
    """Tell whether Numba would load a kernel from a file of its cache."""
    try:
        held = file.read_bytes()
    except OSError:  # another user's, or another process has just removed it
        return False
    stamp = source_stamp()
    if stamp is not None and stamp not in held:  # it is None in a zip archive
        return False
    # Numba uses no folder that it cannot write to, and no code of another version or processor.
    # What tells these is imported with Numba, too, which is what comes next.
    try:
        version: str = imported("importlib.metadata").version("numba")
        processor = os.environ.get("NUMBA_CPU_NAME")
        processor = processor or imported("llvmlite.binding").get_host_cpu_name()
    except ImportError:
        return False
    is_ours = all(mark.encode() in held for mark in (version, processor))
    return is_ours and os.access(file.parent, os.W_OK)
