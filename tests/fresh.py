"""Code in a process of its own: whatever could crash, or needs another environment or import."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def run(code: str, *arguments: str, timeout: float = 300, **environment: str) -> str:
    """Run code in a fresh process that must end well; what it printed."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
