"""How full the host's own memory files are, by the host's own limits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...capture.mirror import DELIMITER, Mirror
from ...config.sources import at, host_config
from ...domain.types import MEMORY_FILES

NEARLY_FULL = 0.8  # of the limit, from which an agent soon has to drop entries to keep new ones
_LIMITS = {"memory": ("memory_char_limit", 2200), "user": ("user_char_limit", 1375)}  # the host's settings and defaults


@dataclass(frozen=True, slots=True)
class FileFill:
    """One file: the characters that the host counts in it, and how many it may have."""

    file: str
    entries: int
    chars: int
    limit: int

    @property
    def share(self) -> float:
        """Return the part of the limit that is taken; 0 without a limit."""
        return self.chars / self.limit if self.limit > 0 else 0.0

    def row(self) -> dict[str, Any]:
        """Return it for machines, and for a table."""
        return asdict(self) | {"share": round(self.share, 3)}

    def __str__(self) -> str:
        return f"{self.file} {self.chars:,} of {self.limit:,} characters ({self.share:.0%})"


def fill_of(home: Path, target: str, entries: Collection[str]) -> FileFill:
    """Return how full the file of a target is with these entries."""
    chars = sum(map(len, entries)) + len(DELIMITER) * max(0, len(entries) - 1)
    return FileFill(MEMORY_FILES[target], len(entries), chars, limit_of(home, target))


def fills(home: Path) -> list[FileFill]:
    """Return how full the files are now; one that is missing or cannot be read counts as empty."""
    entries = Mirror(home).entries()
    return [fill_of(home, target, [text for of, text in entries if of == target]) for target in MEMORY_FILES]


def limit_of(home: Path, target: str) -> int:
    """Return how many characters the host lets the file of a target have."""
    name, usual = _LIMITS[target]
    try:
        return int(str(at(host_config(home), "memory", name)))
    except ValueError:
        return usual
