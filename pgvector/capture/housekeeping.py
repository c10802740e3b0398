"""The drain thread's work besides writes: it deletes expired records, has old turns deleted, and compares clocks."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Protocol

from ..domain.gil import quiet_for_s
from ..store.backend import WRITE_TIMEOUT_S, Backend
from ..store.upkeep import clock_behind_s, delete_expired

logger = logging.getLogger(__name__)

QUIET_S = 15.0  # how long no hook must have run before old turns are deleted
_HOUSEKEEPING_S = 3600.0
_CLOCKS_APART_S = 60.0  # from which on it is told


@dataclass
class Due:
    """When (monotonic seconds) each periodic task of the drain thread is due next."""

    adopt: float = 0.0
    report: float = 0.0
    pending: float = 0.0
    housekeeping: float = 0.0


class RetentionSteps(Protocol):
    """Carries out the setting `retention` while it is `on`; see `step` of Housekeeping."""

    on: bool

    def step(self) -> float: ...


class Housekeeping:
    """Deletes expired records, and has old turns deleted. Used by the drain thread only."""

    def __init__(self, backend: Backend, retention: RetentionSteps, removal_hold_days: float) -> None:
        self._backend = backend
        self._removal_hold_days = removal_hold_days
        self._retention = retention
        self._housekeeping = self._look = 0.0  # when (monotonic seconds) each of the two is next due
        self._clock_is_told = False

    def step(self) -> float:
        """Do a bounded part of the work that is due; return for how many seconds there is nothing to do.

        Raises HermesPgvectorError.
        """
        now = time.monotonic()
        if now >= self._housekeeping:
            with self._backend.connection(WRITE_TIMEOUT_S) as conn:
                behind_s = clock_behind_s(conn)
                delete_expired(conn, hold_days=self._removal_hold_days)
            self._tell_clock(behind_s)
            self._housekeeping = now + _HOUSEKEEPING_S
        if self._retention.on and now >= self._look:
            if (quiet_s := quiet_for_s()) < QUIET_S:
                return QUIET_S - quiet_s
            wait_s = self._retention.step()
            self._look = time.monotonic() + wait_s
        due = min(self._housekeeping, self._look) if self._retention.on else self._housekeeping
        return max(0.01, due - time.monotonic())

    def _tell_clock(self, behind_s: float) -> None:
        """Warn, once until it is right again, of a clock by which others' facts count as said later or earlier."""
        apart = abs(behind_s) >= _CLOCKS_APART_S
        if apart and not self._clock_is_told:
            logger.warning(
                "hermes-pgvector: this machine's clock is %.0f s %s the server's: what is stored here gets wrong "
                "dates, and of two facts of a subject the wrong one may count as said later: let NTP set both",
                abs(behind_s),
                "behind" if behind_s > 0 else "ahead of",
            )
        self._clock_is_told = apart
