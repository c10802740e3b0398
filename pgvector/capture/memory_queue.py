"""What the drain empties; and operations in memory: a copy of a file's last ones, and the stand-in for the spool."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

from ..domain.errors import SpoolFull
from ..domain.operations import Operation, encode
from .spool_format import RejectedWrite

_OVERHEAD_BYTES = 1024  # of the objects that one operation consists of


class Queue(Protocol):
    """A queue of operations: the spool on disk, or its stand-in."""

    @property
    def depth(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def rejected_count(self) -> int: ...
    def take(self, limit: int) -> list[Operation]: ...
    def ack(self, ops: Sequence[Operation]) -> None: ...
    def reject(self, op: Operation, error: str) -> None: ...
    def rejected(self) -> list[RejectedWrite]: ...
    def checkpoint(self) -> None: ...


class HeldOperations:
    """Operations that wait or were rejected, of at most `max_bytes`. Not thread safe: a queue's lock is around it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._waiting: dict[int, tuple[Operation, int]] = {}
        self._rejected: dict[uuid.UUID, tuple[RejectedWrite, int]] = {}
        self._bytes = 0

    def add(self, seq: int, op: Operation, size: int) -> bool:
        """Hold `op`, which has the number `seq` in its queue; False when there is no room."""
        if self._bytes + size > self._max_bytes:
            return False
        self._bytes += size
        self._waiting[seq] = (replace(op, seq=seq), size)
        return True

    def forget(self, seqs: Iterable[int]) -> None:
        """Let go of what no longer waits."""
        for seq in seqs:
            self._bytes -= self._waiting.pop(seq, (None, 0))[1]

    def reject(self, op: Operation, error: str) -> None:
        """Hold on to what waits no longer, and was refused."""
        held = self._waiting.pop(op.seq, None)
        if held is not None:
            self._rejected[op.op_id] = (RejectedWrite(op, error), held[1])

    def forget_rejected(self, ids: Iterable[uuid.UUID]) -> None:
        """Let go of what was rejected."""
        for each in ids:
            self._bytes -= self._rejected.pop(each, (None, 0))[1]

    def counts(self) -> tuple[int, int]:
        """Return how many operations wait, and how many were rejected."""
        return len(self._waiting), len(self._rejected)

    def holds(self, seq: int) -> bool:
        """Return whether this one waits."""
        return seq in self._waiting

    def waiting(self, limit: int | None = None) -> list[Operation]:
        """Return what waits, oldest first."""
        return [op for op, _ in islice(self._waiting.values(), limit)]

    def rejected(self) -> list[RejectedWrite]:
        """Return what was rejected, oldest first."""
        return [item for item, _ in self._rejected.values()]


class MemoryQueue:
    """A queue of at most `max_bytes`, lost with the process."""

    size_bytes = 0  # on disk

    def __init__(self, max_bytes: int) -> None:
        self._lock = threading.Lock()
        self._held = HeldOperations(max_bytes)
        self._last = 0

    def append(self, op: Operation) -> None:
        """Keep `op`. Raises SpoolFull."""
        size = len(encode(op).encode()) + _OVERHEAD_BYTES
        with self._lock:
            if not self._held.add(self._last + 1, op, size):
                raise SpoolFull(
                    f"{self.depth} writes wait in memory, as many as `write_queue_max_mb` allows, and no disk "
                    "can be written; make $HERMES_HOME/pgvector/spool writable, or free space there"
                )
            self._last += 1

    def take(self, limit: int) -> list[Operation]:
        """Return the oldest operations; they stay until `ack`."""
        with self._lock:
            return self._held.waiting(limit)

    def ack(self, ops: Sequence[Operation]) -> None:
        """Forget operations that are in Postgres, or on disk."""
        with self._lock:
            self._held.forget(op.seq for op in ops)
            self._held.forget_rejected(op.op_id for op in ops)

    def reject(self, op: Operation, error: str) -> None:
        """Keep `op` out of the way of the rest."""
        with self._lock:
            self._held.reject(op, error)

    def rejected(self) -> list[RejectedWrite]:
        """Return the operations that were rejected."""
        with self._lock:
            return self._held.rejected()

    @property
    def depth(self) -> int:
        """Return how many operations wait."""
        return self._held.counts()[0]

    @property
    def rejected_count(self) -> int:
        """Return how many operations were rejected."""
        return self._held.counts()[1]

    def checkpoint(self) -> None:
        """Do nothing: there is no log."""

    def empty(self) -> bool:
        """Return True when nothing waits and nothing is rejected."""
        return self._held.counts() == (0, 0)
