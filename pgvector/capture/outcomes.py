"""The outcomes of writes, for threads that wait for them and for the log."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Literal

from ..domain.errors import DeadlineExceeded, HermesPgvectorError, StoreConflict, StoreReplaced, StoreUnsettled
from ..domain.operations import Operation

logger = logging.getLogger(__name__)

Delivery = Literal["stored", "waiting", "rejected"]


class Outcomes:
    """Tells waiting threads what the drain thread did."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._awaited: dict[uuid.UUID, Delivery] = {}

    def tell(self) -> None:
        """Wake all waiting threads, so that they check again."""
        with self._changed:
            self._changed.notify_all()

    def note(self, ops: Sequence[Operation], end: Delivery) -> None:
        """Record the outcome of writes, and wake all waiting threads."""
        with self._changed:
            self._awaited.update((op.op_id, end) for op in ops if op.op_id in self._awaited)
            self._changed.notify_all()

    def wait_for(self, done: Callable[[], object], timeout_s: float) -> bool:
        """Wait until `done` returns something true; return False if time runs out first."""
        with self._changed:
            return bool(self._changed.wait_for(done, timeout_s))

    def deliver(
        self, op: Operation, submit: Callable[[Operation], None], done: Callable[[], bool], wait_s: float
    ) -> Delivery:
        """Submit a write and return its outcome: "waiting" if `done` becomes true or time runs out first."""
        self._awaited[op.op_id] = "waiting"
        try:
            submit(op)
            self.wait_for(lambda: self._awaited[op.op_id] != "waiting" or done(), wait_s)
        finally:
            with self._changed:
                end = self._awaited.pop(op.op_id)
        return end


TOLD_EACH = 10  # rejected writes that are logged one by one; after them, the 100th, 1,000th ...
_QUIET_S = 60.0  # after so long without a rejection, the next one starts another period of trouble


class RejectionLog:
    """Counts the rejected writes of one period of trouble; each of the first `each` is to be logged. Thread safe."""

    def __init__(self, each: int = 1) -> None:
        self._each = each
        self._lock = threading.Lock()
        self._count = 0
        self._last = 0.0

    def add(self) -> int:
        """Count one more; return the count if it is to be logged, as the 1st, 10th, 100th ... are, otherwise 0."""
        with self._lock:
            now = time.monotonic()
            self._count = 1 if now - self._last > _QUIET_S else self._count + 1
            self._last = now
            return self._count if self._count <= self._each or str(self._count).rstrip("0") == "1" else 0


def log_rejected(rejections: RejectionLog, op: Operation, why: Exception) -> None:
    """Log that a write was rejected, or only count it."""
    if count := rejections.add():
        so_far = "" if count <= TOLD_EACH else f" ({count} so far)"
        logger.error(
            "hermes-pgvector: Postgres rejects a write (%s, theme %s), it waits for an operator%s: %s",
            op.kind,
            op.theme,
            so_far,
            why,
        )


class RetryLog:
    """Logs that writes wait and are retried, once for each cause, and once that they go on. For the drain thread."""

    def __init__(self) -> None:
        self._met_trouble = False
        self._told: set[type[BaseException]] = set()

    def failed(self, exc: HermesPgvectorError, *, lost_connection: bool) -> None:
        """Note a batch that has to be retried; the store itself logs a lost connection."""
        if isinstance(exc, (StoreConflict, StoreReplaced, StoreUnsettled, DeadlineExceeded)) and not self._met_trouble:
            self._met_trouble = True  # usually the next attempt works
            return
        cause = type(exc.__cause__ or exc)  # not the message, which may change with each attempt
        if not lost_connection and cause not in self._told:
            self._told.add(cause)
            logger.warning("hermes-pgvector: writes wait in the spool and are tried again: %s", exc)

    def over(self) -> None:
        """Note that no part of a batch has to be retried."""
        self._met_trouble = False
        if self._told:
            self._told.clear()
            logger.info("hermes-pgvector: writes go on; what waited follows now")
