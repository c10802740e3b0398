"""A Python environment from which packages were lost, as after an upgrade of the host."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import hermes_memory_pgvector


class PoorEnvironment:
    """All that is installed here but what begins with one of `missing`, in a folder of links."""

    def __init__(self, folder: Path, missing: Iterable[str]) -> None:
        self._folder = folder
        folder.mkdir()
        lost = tuple(missing)
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if entry.suffix != ".pth" and not entry.name.startswith(lost):
                (folder / entry.name).symlink_to(entry)
        package = folder / "hermes_memory_pgvector"
        if not package.exists():
            package.symlink_to(Path(hermes_memory_pgvector.__file__).parent)

    def run(self, program: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
        """Run a program there, to its end."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PYTHON"))}
        return subprocess.run(
            # -S leaves out the real site-packages, -P the working directory.
            [sys.executable, "-S", "-P", "-c", program, *arguments],
            env={**kept, "PYTHONPATH": str(self._folder), "HERMES_HOME": str(home)},
            cwd=self._folder.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
