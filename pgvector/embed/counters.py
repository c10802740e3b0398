"""Counters that threads share."""

from __future__ import annotations

import threading


class Counters:
    """Named integers that only grow; every method may be called from any thread."""

    def __init__(self, *names: str) -> None:
        self._lock = threading.Lock()
        self._values = dict.fromkeys(names, 0)

    def add(self, **amounts: int) -> None:
        """Raise each named counter by its amount."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] += amount

    def snapshot(self) -> dict[str, int]:
        """All counters at one moment, as a copy."""
        with self._lock:
            return dict(self._values)
