"""Reads MEMORY.md and USER.md from disk, and rewrites them under the host's own lock."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...domain.errors import ConfigurationError
from ...domain.files import how_to_let_read, memory_file_paths, read_memory_file
from ...domain.text import ENTRY_DELIMITER
from ..common.file_replacing import locked, write_file

_LOCK_S = 10.0  # the host holds its lock for as long as one write takes


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One memory file, split at the host's delimiter; parts keep the whitespace around entries.

    `written_at`: seconds since the epoch, 0 if the file is missing.
    """

    target: str
    parts: tuple[str, ...]
    written_at: float

    @property
    def entries(self) -> tuple[str, ...]:
        """Return the entries as the host reads them: in order, each once."""
        return _entries(self.parts)

    def entries_without(self, gone: Collection[str]) -> tuple[str, ...]:
        """Return the entries that are left when those in `gone` are removed."""
        return _entries(self.without(gone))

    def entries_with_again(self, back: Sequence[tuple[int, str]]) -> tuple[str, ...]:
        """Return the entries after those in `back` are restored."""
        return _entries(self.with_again(back))

    def without(self, gone: Collection[str]) -> tuple[str, ...]:
        """Return the parts that are left when the entries in `gone` are removed; these are unchanged to the letter."""
        return tuple(part for part in self.parts if part.strip() not in gone)

    def with_again(self, back: Sequence[tuple[int, str]]) -> tuple[str, ...]:
        """Return the parts with the entries in `back` restored, each at its former position, or at the end."""
        there, parts = set(self.entries), [part for part in self.parts if part.strip()]
        for place, entry in sorted(back):
            if entry not in there:
                parts.insert(place, entry)
        return tuple(parts)


def _entries(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (part.strip() for part in parts))))


def read_file(home: Path, target: str) -> MemoryFile:
    """Read the file of a target; a missing file counts as empty.

    Raises ConfigurationError if the file cannot be read, or is not text.
    """
    path = memory_file_paths(home)[target]
    try:
        written_at, data = path.stat().st_mtime, read_memory_file(path)
    except (FileNotFoundError, NotADirectoryError):
        written_at, data = 0.0, b""
    except OSError as exc:
        raise ConfigurationError(f"{path} cannot be read: {exc.strerror or exc}; {how_to_let_read(exc)}") from exc
    try:
        text = io.StringIO(data.decode("utf-8"), newline=None).read()
    except UnicodeDecodeError as exc:
        raise _damaged(path, data[: exc.start]) from exc
    if "\0" in text:
        raise _damaged(path, data[: data.index(b"\0")])
    return MemoryFile(target, tuple(text.split(ENTRY_DELIMITER)) if text else (), written_at)


def _damaged(path: Path, before: bytes) -> ConfigurationError:
    line = before.count(b"\n") + 1
    return ConfigurationError(
        f"{path} is damaged: bytes that are no text stand in line {line}, and nothing was touched; put the file back "
        "from a copy, or remove them by hand"
    )


def rewrite(home: Path, target: str, change: Callable[[MemoryFile], Sequence[str]]) -> MemoryFile:
    """Replace the file of a target with the parts that `change` returns, under the host's lock and in one step.

    Return the file as it was before. Raises ConfigurationError if it cannot be written; it is unchanged then.
    """
    path = memory_file_paths(home)[target]
    busy = f"{path} is being written by another program; look how far this came (hermes-pgvector relieve), then go on"
    with locked(path.with_suffix(f"{path.suffix}.lock"), busy, wait_s=_LOCK_S):  # the host's own lock file
        now = read_file(home, target)
        parts = tuple(change(now))
        if parts != now.parts:
            write_file(path.resolve(), ENTRY_DELIMITER.join(parts).encode(), "it was left as it is")
    return now
