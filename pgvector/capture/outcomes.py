"""What became of writes: for those who wait for it, and for the log."""

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
        """Have all who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def note(self, ops: Sequence[Operation], end: Delivery) -> None:
        """Note what became of writes, and have all who wait look again."""
        with self._changed:
            self._awaited.update((op.op_id, end) for op in ops if op.op_id in self._awaited)
            self._changed.notify_all()

    def wait_for(self, done: Callable[[], object], timeout_s: float) -> bool:
        """Wait until `done` gives something true; False when time runs out first."""
        with self._changed:
            return bool(self._changed.wait_for(done, timeout_s))

    def deliver(
        self, op: Operation, submit: Callable[[Operation], None], done: Callable[[], bool], wait_s: float
    ) -> Delivery:
        """Submit a write and return what became of it; "waiting" once `done` holds or time runs out."""
        self._awaited[op.op_id] = "waiting"
        try:
            submit(op)
            self.wait_for(lambda: self._awaited[op.op_id] != "waiting" or done(), wait_s)
        finally:
            with self._changed:
                end = self._awaited.pop(op.op_id)
        return end


TOLD_EACH = 10  # writes that Postgres refuses, and from then on the 100th, 1,000th ...
_QUIET_S = 60.0  # without a refusal for so long, the next one begins another time of trouble


class RejectionLog:
    """Counts rejected writes of a time of trouble; each of the first `each` is to be told of. Thread safe."""

    def __init__(self, each: int = 1) -> None:
        self._each = each
        self._lock = threading.Lock()
        self._count = 0
        self._last = 0.0

    def add(self) -> int:
        """Count one more; return how many there were when this one is to be told of, as the 1st, 10th, 100th ... are,
        otherwise 0."""
        with self._lock:
            now = time.monotonic()
            self._count = 1 if now - self._last > _QUIET_S else self._count + 1
            self._last = now
            return self._count if self._count <= self._each or str(self._count).rstrip("0") == "1" else 0


def log_rejected(refusals: RejectionLog, op: Operation, why: Exception) -> None:
    """Log that a write was rejected, or count it only."""
    if count := refusals.add():
        so_far = "" if count <= TOLD_EACH else f" ({count} so far)"
        logger.error(
            "hermes-pgvector: Postgres rejects a write (%s, theme %s), it waits for an operator%s: %s",
            op.kind,
            op.theme,
            so_far,
            why,
        )


class RetryLog:
    """Tells that writes wait and are tried again, once, and that they go on. Used by the drain thread only."""

    def __init__(self) -> None:
        self._met_trouble = False
        self._told = False

    def failed(self, exc: HermesPgvectorError, *, lost_connection: bool) -> None:
        """Note a batch that has to be tried again; the store has told of a lost connection."""
        if isinstance(exc, (StoreConflict, StoreReplaced, StoreUnsettled, DeadlineExceeded)) and not self._met_trouble:
            self._met_trouble = True  # mostly it works the next time
        elif not lost_connection and not self._told:  # the words of other errors may change with each attempt
            self._told = True
            logger.warning("hermes-pgvector: writes wait in the spool and are tried again: %s", exc)

    def over(self) -> None:
        """Note that nothing of a batch has to be tried again."""
        self._met_trouble = False
        if self._told:
            self._told = False
            logger.info("hermes-pgvector: writes go on; what waited follows now")
