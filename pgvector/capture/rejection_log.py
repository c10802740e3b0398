"""Which refused writes to tell of, so that trouble is heard of and does not fill the log."""

from __future__ import annotations

import logging
import threading
import time

from ..domain.operations import Operation

logger = logging.getLogger(__name__)

TOLD_EACH = 10  # writes that Postgres refuses, and from then on the 100th, 1,000th ...
_QUIET_S = 60.0  # without a refusal for so long, the next one begins another time of trouble


class Refusals:
    """Counts refused writes of a time of trouble; each of the first `each` is to be told of. Thread safe."""

    def __init__(self, each: int = 1) -> None:
        self._each = each
        self._lock = threading.Lock()
        self._count = 0
        self._last = 0.0

    def add(self) -> int:
        """Count one more; returns how many there were when this one is to be told of, as the 1st, 10th, 100th ... are,
        otherwise 0."""
        with self._lock:
            now = time.monotonic()
            self._count = 1 if now - self._last > _QUIET_S else self._count + 1
            self._last = now
            return self._count if self._count <= self._each or str(self._count).rstrip("0") == "1" else 0


def tell_set_aside(refusals: Refusals, op: Operation, why: Exception) -> None:
    """Log that a write was set aside, or count it only."""
    if count := refusals.add():
        so_far = "" if count <= TOLD_EACH else f" as {count} by now are"
        logger.error(
            "hermes-pgvector: Postgres refuses a write (%s, theme %s), it is set aside%s: %s",
            op.kind,
            op.theme,
            so_far,
            why,
        )
