"""How often a caller may ask: a bucket of calls each, which fills at a steady rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..domain.lru import LruDict

_CALLERS: Final = 1024  # of whom a count is kept; whoever has not called for longest begins anew


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class RequestRates:
    """Counts the calls of each caller: `per_s` on average, up to `burst` at once. Not thread-safe."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._buckets: LruDict[str, _Bucket] = LruDict(_CALLERS)

    def wait_s(self, caller: str, now: float) -> float:
        """Count a call at the monotonic time `now` and return 0, or count none and return when it may come again."""
        bucket = self._buckets.use(caller)
        if bucket is None:
            bucket = self._buckets[caller] = _Bucket(self._burst, now)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._per_s)
        bucket.at = now
        if bucket.left < 1:
            return (1 - bucket.left) / self._per_s
        bucket.left -= 1
        return 0.0
