"""Durations of late, by kind."""

from __future__ import annotations

import threading
from collections import deque

_KEPT = 512  # enough for a 95th percentile, few enough to be of late


class Latencies:
    """The last durations of each kind of work. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_kind: dict[str, deque[float]] = {}

    def add(self, kind: str, seconds: float) -> None:
        """Note that one piece of work took `seconds`."""
        with self._lock:
            self._by_kind.setdefault(kind, deque(maxlen=_KEPT)).append(seconds)

    def snapshot(self) -> dict[str, float]:
        """Return `<kind>_p50_ms` and `<kind>_p95_ms` of each kind that has occurred."""
        with self._lock:
            ordered = {kind: sorted(durations) for kind, durations in self._by_kind.items()}
        return {
            f"{kind}_p{percent}_ms": round(durations[(len(durations) - 1) * percent // 100] * 1000, 2)
            for kind, durations in ordered.items()
            for percent in (50, 95)
        }
