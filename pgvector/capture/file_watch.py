"""Whether the files of an open spool are still those that were opened."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ..domain.errors import SpoolGone


class WatchedFiles:
    """A spool's file, its log, and what SQLite shares among those who have it open. Not thread safe."""

    def __init__(self, path: Path) -> None:
        """Remember what is there now. Raises SpoolGone or OSError."""
        self._path = path
        # Plain text: a hook waits while it is looked, and paths take longer.
        self._paths = (str(path), f"{path}-wal", f"{path}-shm")
        try:
            self._seen = [os.stat(each) for each in self._paths]
        except FileNotFoundError:
            raise SpoolGone(f"the spool {path} is no longer there") from None
        self._settled_ns = self._seen[0].st_mtime_ns

    def settle(self) -> None:
        """Take the file, which only a checkpoint writes to, as it is now for our own work."""
        with contextlib.suppress(OSError):
            self._settled_ns = os.stat(self._path).st_mtime_ns

    def written(self) -> bool:
        """Whether it was written to since, as of the last look."""
        return self._seen[0].st_mtime_ns != self._settled_ns

    def look(self) -> bool:
        """To be called before SQLite touches the files. True when one has become shorter, as the log does by another
        program's checkpoint. Raises SpoolGone when they are others, or cut."""
        stat, (file, log, shared) = os.stat, self._paths
        try:
            found = [stat(file), stat(log), stat(shared)]
        except (FileNotFoundError, NotADirectoryError):
            raise SpoolGone(f"the spool {self._path} was deleted or moved away") from None
        except OSError:  # we may not look any more; the files are open
            return False
        cut = False
        for old, new in zip(self._seen, found, strict=True):
            if old.st_ino != new.st_ino or old.st_dev != new.st_dev:
                raise SpoolGone(f"the spool {self._path} was deleted or moved away, and another one is in its place")
            cut = cut or new.st_size < old.st_size
        if cut and found[2].st_size < self._seen[2].st_size:
            # SQLite has it mapped into memory: to touch a part that was cut off ends the process.
            os.truncate(shared, self._seen[2].st_size)
            raise SpoolGone(f"the spool {self._path} was cut")
        self._seen = found
        return cut
