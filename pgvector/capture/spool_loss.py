"""What a spool does against the loss of its file: it notices that, and keeps a copy of the last writes in memory."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable
from pathlib import Path

from ..domain.errors import SpoolGone
from ..domain.operations import Operation


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
        """Return whether it was written to since, as of the last look."""
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


COPY_BYTES = 16_000_000


class MemoryCopy:
    """The operations that a process has appended and that wait, or were rejected: at most `COPY_BYTES` of them.

    Not thread safe: the spool's lock is around it.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Operation, int]] = {}
        self._rejected: dict[uuid.UUID, tuple[Operation, str, int]] = {}
        self._bytes = 0

    def add(self, seq: int, op: Operation, size: int) -> None:
        """Hold `op` if there is room."""
        if self._bytes + size <= COPY_BYTES:
            self._bytes += size
            self._waiting[seq] = (op, size)

    def forget(self, seqs: Iterable[int]) -> None:
        """Let go of what no longer waits."""
        for seq in seqs:
            self._bytes -= self._waiting.pop(seq, (None, 0))[1]

    def reject(self, op: Operation, error: str) -> None:
        """Hold on to what waits no longer, and was refused."""
        held = self._waiting.pop(op.seq, None)
        if held is not None:
            self._rejected[op.op_id] = (op, error, held[1])

    def forget_rejected(self) -> None:
        """Let go of all that was rejected: an operator has changed that."""
        self._bytes -= sum(size for _, _, size in self._rejected.values())
        self._rejected.clear()

    def counts(self) -> tuple[int, int]:
        """Return how many operations wait, and how many were rejected."""
        return len(self._waiting), len(self._rejected)

    def holds(self, seq: int) -> bool:
        """Return whether this one waits."""
        return seq in self._waiting

    def waiting(self) -> list[tuple[int, Operation]]:
        """Return what waits, by its number in the file, oldest first."""
        return [(seq, op) for seq, (op, _) in self._waiting.items()]

    def rejected(self) -> list[tuple[Operation, str]]:
        """Return what was rejected, with the reason, oldest first."""
        return [(op, error) for op, error, _ in self._rejected.values()]
