"""Figures that a part of a process keeps of itself: its last error, and recent durations."""

from __future__ import annotations

import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import NamedTuple


class _Noted(NamedTuple):
    """One error. `at` and `over_at` are seconds since the epoch; `over_at` is None while it persists."""

    text: str
    at: float
    over_at: float | None = None


class LastError:
    """The last error and when it ended. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.last: _Noted | None = None

    def note(self, error: Exception) -> None:
        """Record an error that occurred just now."""
        with self._lock:
            self.last = _Noted(str(error), time.time())

    def over(self) -> None:
        """Record that what failed, if anything did, works again."""
        if self.last is None or self.last.over_at is not None:  # nearly always
            return
        with self._lock:
            self.last = self.last._replace(over_at=time.time())


def latest(*errors: LastError) -> dict[str, str]:
    """Return, for the counters, the error that persists, else the one that ended last; empty texts if none occurred.

    While an error persists, its `last_error_over_at` is empty.
    """
    noted = [each.last for each in errors if each.last is not None]
    last = max(noted, key=lambda each: (each.over_at is None, each.over_at or each.at), default=_Noted("", 0.0))
    return {"last_error": last.text, "last_error_at": _iso(last.at), "last_error_over_at": _iso(last.over_at)}


def _iso(at: float | None) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else ""


_KEPT = 512  # enough for a 95th percentile, few enough to be recent


class Latencies:
    """The last durations of each kind of work. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_kind: dict[str, deque[float]] = {}

    def add(self, kind: str, seconds: float) -> None:
        """Record that one piece of work took `seconds`."""
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
