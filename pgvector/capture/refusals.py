"""Which refused writes to tell of, so that a full disk is heard of and does not fill the log."""

from __future__ import annotations

import threading
import time

_QUIET_S = 60.0  # without a refusal for so long, the next one begins another time of trouble


class Refusals:
    """Counts refused writes of a time of trouble. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._last = 0.0

    def add(self) -> int:
        """Count one more; returns how many there were when this is the 1st, 10th, 100th ..., otherwise 0."""
        with self._lock:
            now = time.monotonic()
            self._count = 1 if now - self._last > _QUIET_S else self._count + 1
            self._last = now
            return self._count if str(self._count).rstrip("0") == "1" else 0
