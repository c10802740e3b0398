"""Operations in memory: copies of those in a spool file, and queues of those that are in no file or kept in one too."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from ..domain.errors import SpoolFull
from ..domain.operations import Operation, encode
from .spool_format import RejectedWrite

_OVERHEAD_BYTES = 1024  # of the objects that one operation consists of


class HeldOperations:
    """Copies of a file's waiting and rejected operations, up to `max_bytes`. Not thread safe: hold the file's lock."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._waiting: dict[int, tuple[Operation, int]] = {}
        self._rejected: dict[uuid.UUID, tuple[RejectedWrite, int]] = {}
        self._bytes = 0

    def add(self, seq: int, op: Operation, size: int) -> None:
        """Hold `op`, which has the number `seq` in its file, if there is room."""
        if self._bytes + size <= self._max_bytes:
            self._bytes += size
            self._waiting[seq] = (replace(op, seq=seq), size)

    def forget(self, seqs: Iterable[int]) -> int:
        """Drop operations that no longer wait; return how many of them were held."""
        found = [self._waiting.pop(seq) for seq in seqs if seq in self._waiting]
        self._bytes -= sum(size for _, size in found)
        return len(found)

    def reject(self, op: Operation, error: str) -> None:
        """Hold an operation as rejected rather than waiting."""
        held = self._waiting.pop(op.seq, None)
        if held is not None:
            self._rejected[op.op_id] = (RejectedWrite(op, error), held[1])

    def forget_rejected(self) -> None:
        """Drop the rejected operations."""
        self._bytes -= sum(size for _, size in self._rejected.values())
        self._rejected.clear()

    def counts(self) -> tuple[int, int]:
        """Return how many operations wait, and how many were rejected."""
        return len(self._waiting), len(self._rejected)

    def holds(self, seq: int) -> bool:
        """Return whether the waiting operation `seq` is held."""
        return seq in self._waiting

    def waiting(self, most: int | None = None) -> list[Operation]:
        """Return the waiting operations, oldest first: all, or `most` of them."""
        return [op for op, _ in islice(self._waiting.values(), most)]

    def rejected(self) -> list[RejectedWrite]:
        """Return the rejected operations, oldest first."""
        return [item for item, _ in self._rejected.values()]


class MemoryQueue:
    """Operations that wait or were rejected, each once. Safe to use from several threads."""

    size_bytes = 0  # on disk

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[uuid.UUID, Operation] = {}
        self._rejected: dict[uuid.UUID, RejectedWrite] = {}

    @property
    def depth(self) -> int:
        """Return how many operations wait."""
        return len(self._waiting)

    @property
    def rejected_count(self) -> int:
        """Return how many operations were rejected."""
        return len(self._rejected)

    def empty(self) -> bool:
        """Return True when nothing waits and nothing is rejected."""
        return not self.depth and not self.rejected_count

    def take(self, limit: int) -> list[Operation]:
        """Return the oldest operations; they stay until `ack`."""
        with self._lock:
            return list(islice(self._waiting.values(), limit))

    def ack(self, ops: Sequence[Operation]) -> None:
        """Forget operations that are in Postgres, or in a file."""
        with self._lock:
            for op in ops:
                self._waiting.pop(op.op_id, None)
                self._rejected.pop(op.op_id, None)

    def reject(self, op: Operation, error: str) -> None:
        """Set `op` aside, so that it does not hold up the rest."""
        with self._lock:
            self._waiting.pop(op.op_id, None)
            self._rejected[op.op_id] = RejectedWrite(op, error)

    def rejected(self) -> list[RejectedWrite]:
        """Return the rejected operations."""
        with self._lock:
            return list(self._rejected.values())

    def checkpoint(self) -> None:
        """Do nothing: there is no log."""


class StandIn(MemoryQueue):
    """The stand-in for the spool while no disk can be written: at most `max_bytes`, lost with the process."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._left_bytes = max_bytes
        self._sizes: dict[uuid.UUID, int] = {}

    def append(self, op: Operation) -> None:
        """Keep `op`. Raises SpoolFull."""
        size = len(encode(op).encode()) + _OVERHEAD_BYTES
        with self._lock:
            if size > self._left_bytes:
                raise SpoolFull(
                    f"{self.depth} writes wait in memory, as many as `write_queue_max_mb` allows, and no disk "
                    "can be written; make $HERMES_HOME/pgvector/spool writable, or free space there"
                )
            if op.op_id not in self._waiting:  # the host may report one write twice
                self._waiting[op.op_id], self._sizes[op.op_id] = op, size
                self._left_bytes -= size

    def ack(self, ops: Sequence[Operation]) -> None:
        """Forget operations that are in Postgres, or in a file."""
        super().ack(ops)
        with self._lock:
            self._left_bytes += sum(self._sizes.pop(op.op_id, 0) for op in ops)
