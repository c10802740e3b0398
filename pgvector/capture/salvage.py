"""What a spool file held that was deleted, cut or overwritten, on its way into another one."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence

from ..domain.errors import SpoolGone
from ..domain.operations import Operation
from .spool import Spool
from .spool_format import RejectedWrite

_AT_ONCE, _BYTES_AT_ONCE = 256, 1_000_000  # some milliseconds


class Salvage:
    """From the file `source`, of which `why` tells, into another one; and the queue of what is not there yet.

    What is written to Postgres while it is moved is written once all the same.
    """

    size_bytes = 0  # on disk

    def __init__(self, source: Spool, into: Spool, why: SpoolGone) -> None:
        self.source = source
        self.into = into
        self.why = why
        self.lost = 0  # operations that cannot be had any more
        self.saved = 0
        self._lock = threading.Lock()  # around what is left
        self._left: list[tuple[Operation, str]] | None = None

    def go_on(self, for_s: float, *, may_read: bool) -> bool:
        """Move for about so long; True when nothing is left to be moved. Raises SpoolError.

        Without `may_read` only what is in memory: a large file takes long to be read.
        """
        deadline = time.monotonic() + for_s
        if not self._lock.acquire(blocking=may_read):  # it is being read
            return False
        try:
            if not may_read and self._left is None and not self.source.remembers_all():
                return False
            left = self._found()
            while left:
                if time.monotonic() >= deadline:
                    return False
                del left[: self.into.take_in(left[:_AT_ONCE], _BYTES_AT_ONCE)]
            return True
        finally:
            self._lock.release()

    def _found(self) -> list[tuple[Operation, str]]:
        """Return what is left to be moved, read first where nobody did. For whoever holds the lock."""
        if self._left is None:
            self._left, self.lost = self.source.salvage()
            self.saved = len(self._left)
        return self._left

    def left(self) -> int:
        """Return how much is left to be moved; -1 while that is not known."""
        return -1 if self._left is None else len(self._left)

    @property
    def depth(self) -> int:
        """Return how many of them wait for Postgres."""
        return self.source.depth if self._left is None else sum(not error for _, error in list(self._left))

    @property
    def rejected_count(self) -> int:
        """Return how many of them were rejected."""
        return self.source.rejected_count if self._left is None else self.left() - self.depth

    def take(self, limit: int) -> list[Operation]:
        """Return the oldest operations that wait; they stay until `ack`, or until they are moved."""
        with self._lock:
            return list(itertools.islice((op for op, error in self._found() if not error), limit))

    def ack(self, ops: Sequence[Operation]) -> None:
        """Forget operations that Postgres has committed."""
        stored = {op.op_id for op in ops}
        with self._lock:
            self._left = [item for item in self._found() if item[0].op_id not in stored]

    def reject(self, op: Operation, error: str) -> None:
        """Have `op` be rejected in the new file as well."""
        with self._lock:
            self._left = [(each, error if each.op_id == op.op_id else had) for each, had in self._found()]

    def rejected(self) -> list[RejectedWrite]:
        """Return the operations that were rejected."""
        return [RejectedWrite(op, error) for op, error in list(self._left or ()) if error]

    def checkpoint(self) -> None:
        """Do nothing: there is no log."""
