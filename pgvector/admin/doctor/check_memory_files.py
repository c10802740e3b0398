"""Whether the host's own memory files have room for what an agent learns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..common.file_fill import fills
from .check import Check


def check_memory_files(home: Path) -> Iterator[Check]:
    """Yield a note for each file that is nearly full: the agent soon drops entries to keep new ones."""
    for each in fills(home):
        if each.nearly_full:
            yield Check(
                "memory files",
                "note",
                f"{each}; when it is full, the agent has to drop entries to keep new ones",
                "hermes-pgvector relieve shows which of them can go into the database",
            )
