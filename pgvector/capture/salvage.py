"""The move of operations from a spool file that was deleted, cut or overwritten into another one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from ..domain.errors import SpoolGone
from ..domain.operations import Operation
from .memory_queue import MemoryQueue
from .spool import Spool
from .spool_format import RejectedWrite

_AT_ONCE, _BYTES_AT_ONCE = 256, 1_000_000  # some milliseconds


class Salvage(MemoryQueue):
    """The move from the lost file `source` into another one, and the queue of the operations not moved yet.

    `why` says how the file was lost. What is written to Postgres while it is moved is still written only once.
    """

    def __init__(self, source: Spool, into: Spool, why: SpoolGone) -> None:
        super().__init__()
        self.source = source
        self.into = into
        self.why = why
        self.lost = 0  # operations that cannot be recovered
        self.saved = 0
        self._is_read = False

    def go_on(self, for_s: float, *, may_read: bool) -> bool:
        """Move operations for about `for_s` seconds; return True if none are left to be moved. Raises SpoolError.

        Without `may_read`, move only those in memory: reading a large file takes long.
        """
        deadline = time.monotonic() + for_s
        if not self._lock.acquire(blocking=may_read):  # another thread is reading it
            return False
        try:
            if not (may_read or self._is_read or self.source.remembers_all()):
                return False
            self._read()
            while part := list(islice(self._items(), _AT_ONCE)):
                if time.monotonic() >= deadline:
                    return False
                for op, error in part[: self.into.take_in(part, _BYTES_AT_ONCE)]:
                    (self._rejected if error else self._waiting).pop(op.op_id)
            return True
        finally:
            self._lock.release()

    def _items(self) -> Iterator[tuple[Operation, str]]:
        yield from ((item.operation, item.error) for item in self._rejected.values())
        yield from ((op, "") for op in self._waiting.values())

    def _read(self) -> None:
        """Read the operations to be moved, unless that was done. The caller holds the lock."""
        if not self._is_read:
            found, self.lost = self.source.salvage()
            self.saved = len(found)
            self._waiting = {op.op_id: op for op, error in found if not error}
            self._rejected = {op.op_id: RejectedWrite(op, error) for op, error in found if error}
            self._is_read = True

    def left(self) -> int:
        """Return how many operations are left to be moved; -1 while that is unknown."""
        return self.depth + self.rejected_count if self._is_read else -1

    @property
    def depth(self) -> int:
        """Return how many of them wait for Postgres."""
        return super().depth if self._is_read else self.source.depth

    @property
    def rejected_count(self) -> int:
        """Return how many of them were rejected."""
        return super().rejected_count if self._is_read else self.source.rejected_count

    def take(self, limit: int) -> list[Operation]:
        """Return the oldest operations that wait; they stay until `ack`, or until they are moved."""
        with self._lock:
            self._read()
        return super().take(limit)
