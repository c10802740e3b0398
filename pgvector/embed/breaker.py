"""Leaves a failing endpoint alone for a while, so that a dead one costs a turn nothing."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from ..domain.errors import EmbedderError, EmbedderUnavailable, InputTooLong
from .embedder import Counters

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")
State = Literal["closed", "open", "half-open"]
# A jittered pause is at least this part of the full one: many processes must not probe in step.
_JITTER_FLOOR = 0.75


class CircuitBreaker:
    """Decides whether to call something that may be down. Every method may be called from any thread.

    closed: all calls go through; `failures` failures in a row, or one that names a retry_after_s, open it.
    open: none goes through for a pause that doubles with each failed probe, from `cooldown_s` to `max_cooldown_s`,
    and is never shorter than the retry_after_s asked for.
    half-open: one call, the probe, goes through; it closes the breaker or opens it again.
    """

    def __init__(
        self,
        failures: int = 3,
        cooldown_s: float = 5.0,
        max_cooldown_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures = failures
        self._cooldown_s = cooldown_s
        self._max_cooldown_s = max_cooldown_s
        self._clock = clock
        self._lock = threading.Lock()
        self._state: State = "closed"
        self._failures_in_row = 0
        self._openings_in_row = 0
        self._until = 0.0

    @property
    def state(self) -> State:
        """Return the state; an open breaker whose pause is over is still open until a call asks."""
        with self._lock:
            return self._state

    def allow(self) -> bool:
        """Decide whether to call now. After True, report the outcome with success() or failure()."""
        with self._lock:
            if self._state == "closed":
                return True
            if self._clock() < self._until:
                return False
            self._state = "half-open"
            # A probe whose outcome is never reported must not keep the breaker half-open for ever.
            self._until = self._clock() + self._max_cooldown_s
            return True

    def remaining_s(self) -> float:
        """Return the seconds until an open breaker lets a probe through; 0 when it is due, under way or not needed."""
        with self._lock:
            return max(0.0, self._until - self._clock()) if self._state == "open" else 0.0

    def success(self) -> bool:
        """Record that a call worked; True when that closed the breaker."""
        with self._lock:
            # While open, this is a late call from before: the failures since then are more recent.
            if self._state == "open":
                return False
            closed_now = self._state == "half-open"
            self._state = "closed"
            self._failures_in_row = self._openings_in_row = 0
            return closed_now

    def failure(self, retry_after_s: float | None = None) -> bool:
        """Record that a call failed; True when that opened a closed breaker (not when a probe failed)."""
        with self._lock:
            asked_s = max(0.0, retry_after_s or 0.0)
            if self._state == "open":
                self._until = max(self._until, self._clock() + asked_s)
                return False
            self._failures_in_row += 1
            was_closed = self._state == "closed"
            if was_closed and self._failures_in_row < self._failures and not asked_s:
                return False
            self._state = "open"
            self._until = self._clock() + max(asked_s, self._pause_s())
            self._openings_in_row += 1
            return was_closed

    def _pause_s(self) -> float:
        # The exponent is bounded, since 2.0 ** 1024 overflows after a week of failed probes.
        full_s = min(self._cooldown_s * 2.0 ** min(self._openings_in_row, 30), self._max_cooldown_s)
        return full_s * random.uniform(_JITTER_FLOOR, 1.0)


class EndpointBreaker:
    """Makes calls to one endpoint through a breaker: while that is open, they raise EmbedderUnavailable at once.

    `name` stands for the endpoint in messages and logs and must hold no secret; `meanwhile` says what happens without
    it; `prefix` begins the names of the counters. Unusable answers count as failures like missing ones; a text that is
    too long does not, since the endpoint works.
    """

    def __init__(self, breaker: CircuitBreaker, *, name: str, meanwhile: str, prefix: str) -> None:
        self.breaker = breaker
        self._name = name
        self._meanwhile = meanwhile
        self._openings, self._refusals = f"{prefix}_breaker_openings", f"{prefix}_breaker_refusals"
        self._counters = Counters(self._openings, self._refusals)
        self._last_error = ""

    def run(self, call: Callable[[], _Answer]) -> _Answer:
        """Return what `call` returns. Raises what it raises, and EmbedderUnavailable while the breaker is open."""
        if not self.breaker.allow():
            self._counters.add(**{self._refusals: 1})
            wait_s = self.breaker.remaining_s()
            until = f"is paused for {wait_s:.1f} s more" if wait_s else "is being tried by another call"
            raise EmbedderUnavailable(
                f"{self._name} {until} after failing: {self._last_error}", retry_after_s=wait_s or None
            )
        try:
            answer = call()
        except InputTooLong:
            self._worked()
            raise
        except EmbedderError as exc:
            self._failed(exc)
            raise
        self._worked()
        return answer

    def stats(self) -> dict[str, int]:
        """Return how often the breaker opened, and how many calls it refused."""
        return self._counters.snapshot()

    def _worked(self) -> None:
        if self.breaker.success():
            logger.info("%s answers again", self._name)

    def _failed(self, exc: EmbedderError) -> None:
        self._last_error = str(exc)
        if self.breaker.failure(exc.retry_after_s if isinstance(exc, EmbedderUnavailable) else None):
            self._counters.add(**{self._openings: 1})
            logger.warning(
                "%s failed repeatedly and is paused for %.0f s; until then %s: %s",
                self._name,
                self.breaker.remaining_s(),
                self._meanwhile,
                self._last_error,
            )
