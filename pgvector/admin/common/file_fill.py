"""How full the host's own memory files are, by the host's limits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...capture.mirror import Mirror
from ...config.sources import at, host_config
from ...domain.text import ENTRY_DELIMITER
from ...domain.types import MEMORY_FILES

_NEARLY_FULL = 0.8  # of the limit
_LIMITS = {"memory": ("memory_char_limit", 2200), "user": ("user_char_limit", 1375)}  # the host's settings and defaults


@dataclass(frozen=True, slots=True)
class FileFill:
    """One memory file: the characters that the host counts in it, and their limit."""

    file: str
    entries: int
    chars: int
    limit: int

    @property
    def share(self) -> float:
        """Return the used share of the limit; 0 without a limit."""
        return self.chars / self.limit if self.limit > 0 else 0.0

    @property
    def nearly_full(self) -> bool:
        """Return whether an agent will soon have to drop entries to keep new ones."""
        return self.share >= _NEARLY_FULL

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table, and for JSON."""
        return asdict(self) | {"share": round(self.share, 3)}

    def __str__(self) -> str:
        return f"{self.file} {self.chars:,} of {self.limit:,} characters ({self.share:.0%})"


def fill_of(home: Path, target: str, entries: Collection[str]) -> FileFill:
    """Return how full a target's file is with these entries."""
    return _fill(host_config(home), target, entries)


def _fill(config: object, target: str, entries: Collection[str]) -> FileFill:
    chars = sum(map(len, entries)) + len(ENTRY_DELIMITER) * max(0, len(entries) - 1)
    return FileFill(MEMORY_FILES[target], len(entries), chars, _limit(config, target))


def _limit(config: object, target: str) -> int:
    name, usual = _LIMITS[target]
    try:
        return int(str(at(config, "memory", name)))
    except ValueError:
        return usual


def fills(home: Path) -> list[FileFill]:
    """Return how full the files are that this home's prompts include; a missing one counts as empty."""
    config, entries = host_config(home), Mirror(home).entries()
    in_prompts = _in_prompts(config)
    every = (_fill(config, target, [text for of, text in entries if of == target]) for target in MEMORY_FILES)
    return [each for each in every if each.file in in_prompts]


def files_in_prompts(home: Path) -> list[str]:
    """Return which of the host's memory files its prompts include: MEMORY.md, USER.md, both or none."""
    return _in_prompts(host_config(home))


def _in_prompts(config: object) -> list[str]:
    switches = {"MEMORY.md": "memory_enabled", "USER.md": "user_profile_enabled"}
    # The default is on.
    return [name for name, switch in switches.items() if at(config, "memory", switch) not in (False, "false", 0)]
