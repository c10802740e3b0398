"""Waiting as long as there is progress: on a busy machine a healthy server takes a multiple of its usual time."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOKS = 8  # at the signs, while nothing moves
LONGEST = 20  # times the wait without progress: something may move for ever and get nowhere


class Patience:
    """Is over once `signs` has given the same for `still_s` seconds, or after LONGEST times that."""

    def __init__(self, signs: Callable[[], object], still_s: float) -> None:
        self._signs = signs
        self._still_s = max(still_s, 0.1)
        self._began = self._moved = self._looked = time.monotonic()
        self._seen = signs()

    def over(self) -> bool:
        """Whether it makes no sense to wait on. Cheap enough to be asked at every turn of a loop."""
        now = time.monotonic()
        if now - self._looked >= self._still_s / LOOKS:
            self._looked = now
            if (seen := self._signs()) != self._seen:
                self._seen, self._moved = seen, now
        return now - self._moved >= self._still_s or now - self._began >= LONGEST * self._still_s


def lasting(seconds: float) -> Patience:
    """Patience for what shows no progress."""
    return Patience(lambda: None, seconds)
