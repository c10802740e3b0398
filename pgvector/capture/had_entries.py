"""Remembers in the home which entries its memory files have held, for a copy of the home that has the same name.

Two copies whose hosts and paths have the same names, as of a cloned machine, are one home to Postgres. What only the
file of the other one held was not taken out of this one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Set
from pathlib import Path

from ..domain.files import make_marker, read_regular_file, replace_text
from ..domain.text import digest
from ..domain.types import MEMORY_FILES

_HEX_CHARS = 16  # of each digest: as much as the history keeps of a removed text
_MOST = 4000  # of those that the file holds no more; then the oldest half goes


class HadEntries:
    """The digests of the entries that the memory files of one home have held.

    What cannot be noted stays in memory when it is taken out of the file; nothing is lost.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def begin(self, target: str) -> None:
        """Note that the home has had this file. Raises OSError."""
        make_marker(self._path(target))

    def has_begun(self, target: str) -> bool:
        """Return whether the home has ever had this file."""
        return self._path(target).exists()

    def of(self, target: str) -> tuple[str, ...]:
        """Return the digests, oldest first; none if the file was not read yet since they are noted."""
        with contextlib.suppress(OSError):
            lines = read_regular_file(self._path(target)).decode("ascii", errors="replace").split("\n")
            return tuple(line for line in lines if len(line) == _HEX_CHARS)
        return ()

    def note_read(self, target: str, texts: Iterable[str]) -> None:
        """Note what the file holds."""
        known, now = self.of(target), dict.fromkeys(map(_head, texts))
        before = [each for each in known if each not in now]
        with contextlib.suppress(OSError):
            if len(before) > _MOST:
                replace_text(self._path(target), _lines([*before[-_MOST // 2 :], *now]))
            else:
                self._append(target, now.keys() - set(known))

    def note_written(self, target: str, texts: Iterable[str]) -> None:
        """Note what the host has added to the file, unless what it held before is not known yet.

        What had not begun before this write was missing, so that it held nothing.
        """
        if (known := self.of(target)) or not self.has_begun(target):
            with contextlib.suppress(OSError):
                self._append(target, set(map(_head, texts)).difference(known))

    def forget(self, target: str, texts: Iterable[str]) -> None:
        """Note that what left the file as a memory of its own was never the file's, also by a backup of the database.

        Such a backup says so of it, and the next reading would remove it.
        """
        gone = set(map(_head, texts))
        if known := self.of(target):
            left = [each for each in known if each not in gone]
            with contextlib.suppress(OSError):
                replace_text(self._path(target), _lines(left or [_head("")]))  # with none, it would not be known yet

    def _append(self, target: str, digests: Set[str]) -> None:
        if digests:
            self.begin(target)
            with os.fdopen(os.open(self._path(target), os.O_WRONLY | os.O_APPEND), "w") as file:
                file.write(_lines(digests))

    def _path(self, target: str) -> Path:
        return self._home / "pgvector" / f"had-{MEMORY_FILES[target]}"


def _head(text: str) -> str:
    return digest(text).hex()[:_HEX_CHARS]


def _lines(digests: Iterable[str]) -> str:
    return "".join(f"{each}\n" for each in digests)
