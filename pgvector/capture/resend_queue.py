"""Acknowledged writes that a server lacks, waiting to be sent again before all others."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from uuid import UUID

from ..domain.errors import SpoolError
from ..domain.operations import Operation
from .spool import Spool
from .spool_format import RejectedWrite


class ResendQueue:
    """A queue in memory, in the order in which they were acknowledged first.

    A full disk does not hold it up, and nothing is lost with it: what waits here is kept in a spool file as well, and
    whoever reads that next asks the server anew.
    """

    size_bytes = 0  # on disk

    def __init__(self, current: Callable[[], Spool | None]) -> None:
        """`current` returns the file that takes what Postgres refuses this time."""
        self._current = current
        self._lock = threading.Lock()
        self._waiting: dict[UUID, Operation] = {}
        self._rejected: dict[UUID, RejectedWrite] = {}  # those that no disk took

    def put(self, ops: Sequence[Operation]) -> int:
        """Add those that are not here yet; return how many."""
        with self._lock:
            fresh = [op for op in ops if op.op_id not in self._waiting and op.op_id not in self._rejected]
            again = [*self._waiting.values(), *(replace(op, again=True) for op in fresh)]
            self._waiting = {op.op_id: op for op in sorted(again, key=lambda op: op.seq)}
        return len(fresh)

    def oldest(self) -> int | None:
        """Return the number of the first one, None where there is none. For the thread that empties it."""
        return next((op.seq for op in self._waiting.values()), None)

    def __contains__(self, op: Operation) -> bool:
        return op.op_id in self._waiting

    @property
    def depth(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    @property
    def rejected_count(self) -> int:
        """Return how many were rejected, and are in no file."""
        return len(self._rejected)

    def take(self, limit: int) -> list[Operation]:
        """Return the first ones; they stay until `ack`."""
        with self._lock:
            return list(islice(self._waiting.values(), limit))

    def ack(self, ops: Sequence[Operation]) -> None:
        """Forget operations that Postgres has committed."""
        with self._lock:
            for op in ops:
                self._waiting.pop(op.op_id, None)

    def reject(self, op: Operation, error: str) -> None:
        """Put `op` aside in the file of this process; while the disk takes nothing, only for its life."""
        with self._lock:
            self._waiting.pop(op.op_id, None)
            self._rejected[op.op_id] = RejectedWrite(op, error)
        self.move_rejected()

    def move_rejected(self) -> None:
        """Put aside in the file what was rejected and no disk took before."""
        with self._lock, contextlib.suppress(SpoolError):
            while self._rejected and (spool := self._current()) is not None:
                op_id, item = next(iter(self._rejected.items()))
                spool.take_in([(item.operation, item.error)], 1)
                del self._rejected[op_id]

    def rejected(self) -> list[RejectedWrite]:
        """Return what was rejected, and is in no file."""
        with self._lock:
            return list(self._rejected.values())

    def checkpoint(self) -> None:
        """Do nothing: there is no log."""
