"""What the drain empties; and what stands in for the spool while that cannot be written: bounded, in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ..domain.errors import SpoolFull
from ..domain.models import Operation
from .spool import SetAside


class Queue(Protocol):
    """A queue of operations: the spool on disk, or its stand-in."""

    def append(self, op: Operation) -> None: ...
    def take(self, limit: int) -> list[Operation]: ...
    def ack(self, ops: Sequence[Operation]) -> None: ...
    def set_aside(self, op: Operation, error: str) -> None: ...
    def aside(self) -> list[SetAside]: ...
    def depth(self) -> int: ...
    def size_bytes(self) -> int: ...
    def checkpoint(self) -> None: ...
    def empty(self) -> bool: ...


class MemoryQueue:
    """At most `max_items` operations, lost with the process."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._lock = threading.Lock()
        self._waiting: dict[int, Operation] = {}
        self._aside: dict[int, SetAside] = {}
        self._next = 1

    def append(self, op: Operation) -> None:
        """Keep `op`. Raises SpoolFull."""
        with self._lock:
            if len(self._waiting) >= self._max_items:
                raise SpoolFull(
                    f"{self._max_items} writes wait in memory (`write_queue_maxsize`) and the spool takes "
                    "nothing; make $HERMES_HOME/pgvector/spool writable, or raise `spool_max_mb`"
                )
            self._waiting[self._next] = replace(op, seq=self._next)
            self._next += 1

    def take(self, limit: int) -> list[Operation]:
        """The oldest operations; they stay until `ack`."""
        with self._lock:
            return [self._waiting[seq] for seq in sorted(self._waiting)[:limit]]

    def ack(self, ops: Sequence[Operation]) -> None:
        """Forget operations that are in Postgres, or on disk."""
        with self._lock:
            for op in ops:
                self._waiting.pop(op.seq, None)
                self._aside.pop(op.seq, None)

    def set_aside(self, op: Operation, error: str) -> None:
        """Keep `op` out of the way of the rest."""
        with self._lock:
            if self._waiting.pop(op.seq, None) is not None:
                self._aside[op.seq] = SetAside(op, error)

    def aside(self) -> list[SetAside]:
        """The operations that were set aside."""
        with self._lock:
            return list(self._aside.values())

    def depth(self) -> int:
        """How many operations wait."""
        return len(self._waiting)

    def size_bytes(self) -> int:
        """Nothing is on disk."""
        return 0

    def checkpoint(self) -> None:
        """Nothing to do in memory."""

    def empty(self) -> bool:
        """True when nothing waits and nothing is set aside."""
        return not self._waiting and not self._aside
