"""What the drain empties; and what stands in for the spool while that cannot be written: bounded, in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ..domain.errors import SpoolFull
from ..domain.operations import Operation, encode
from .spool_format import RejectedWrite

_OVERHEAD_BYTES = 1024  # of the objects that one operation consists of


class Queue(Protocol):
    """A queue of operations: the spool on disk, or its stand-in."""

    def append(self, op: Operation) -> None: ...
    def take(self, limit: int) -> list[Operation]: ...
    def ack(self, ops: Sequence[Operation]) -> None: ...
    def reject(self, op: Operation, error: str) -> None: ...
    def rejected(self) -> list[RejectedWrite]: ...
    def rejected_count(self) -> int: ...
    def depth(self) -> int: ...
    def size_bytes(self) -> int: ...
    def checkpoint(self) -> None: ...
    def empty(self) -> bool: ...


class MemoryQueue:
    """Operations of at most `max_bytes`, lost with the process."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[Operation, int]] = {}
        self._rejected: dict[int, tuple[RejectedWrite, int]] = {}
        self._bytes = 0
        self._next = 1

    def append(self, op: Operation) -> None:
        """Keep `op`. Raises SpoolFull."""
        size = len(encode(op).encode()) + _OVERHEAD_BYTES
        with self._lock:
            if self._bytes + size > self._max_bytes:
                raise SpoolFull(
                    f"{len(self._waiting)} writes wait in memory, as many as `write_queue_max_mb` allows, and no disk "
                    "can be written; make $HERMES_HOME/pgvector/spool writable, or free space there"
                )
            self._bytes += size
            self._waiting[self._next] = (replace(op, seq=self._next), size)
            self._next += 1

    def take(self, limit: int) -> list[Operation]:
        """Return the oldest operations; they stay until `ack`."""
        with self._lock:
            return [self._waiting[seq][0] for seq in sorted(self._waiting)[:limit]]

    def ack(self, ops: Sequence[Operation]) -> None:
        """Forget operations that are in Postgres, or on disk."""
        with self._lock:
            for op in ops:
                held = self._waiting.pop(op.seq, None) or self._rejected.pop(op.seq, None)
                self._bytes -= held[1] if held else 0

    def reject(self, op: Operation, error: str) -> None:
        """Keep `op` out of the way of the rest."""
        with self._lock:
            if (held := self._waiting.pop(op.seq, None)) is not None:
                self._rejected[op.seq] = (RejectedWrite(op, error), held[1])

    def rejected(self) -> list[RejectedWrite]:
        """Return the operations that were rejected."""
        with self._lock:
            return [item for item, _ in self._rejected.values()]

    def rejected_count(self) -> int:
        """Return how many operations were rejected."""
        return len(self._rejected)

    def depth(self) -> int:
        """Return how many operations wait."""
        return len(self._waiting)

    def size_bytes(self) -> int:
        """Return 0: nothing is on disk."""
        return 0

    def checkpoint(self) -> None:
        """Do nothing: there is no log."""

    def empty(self) -> bool:
        """Return True when nothing waits and nothing is rejected."""
        return not self._waiting and not self._rejected
