"""How much goes into one transaction, and how long that may take."""

from __future__ import annotations

from ..domain.errors import DeadlineExceeded

# Operations, and seconds. Others wait for the theme's lock as long as that, should this process be stopped in between.
_STRIDES = ((64, 8.0), (8, 8.0), (1, 8.0), (1, 30.0))
_AMPLE = 8  # a batch that took less than this part of its time leaves room for longer ones
BATCH_SIZE = _STRIDES[0][0]


class Stride:
    """Shorter batches after one that Postgres did not take in time, longer ones when there is time to spare."""

    def __init__(self) -> None:
        self._level = 0

    @property
    def ops(self) -> int:
        """Most operations of a batch."""
        return _STRIDES[self._level][0]

    @property
    def timeout_s(self) -> float:
        """Longest time of a transaction, in seconds."""
        return _STRIDES[self._level][1]

    def note(self, took_s: float) -> None:
        """Note that a batch was written in that time."""
        if took_s < self.timeout_s / _AMPLE:
            self._level = max(0, self._level - 1)

    def failed(self, exc: Exception) -> None:
        """Note that one was not written."""
        if isinstance(exc, DeadlineExceeded):
            self._level = min(len(_STRIDES) - 1, self._level + 1)
