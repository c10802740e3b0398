"""The drain thread's work besides writes: it deletes expired records, and has old turns deleted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from ..domain.gil import quiet_for_s
from ..store.backend import Backend
from ..store.replays import OPERATIONS_KEPT_DAYS

TOMBSTONES_KEPT_DAYS = 730
HISTORY_KEPT_DAYS = 730
REMOVED_TEXTS_KEPT_DAYS = 90  # how long a memory that was removed from a file can be restored
QUIET_S = 15.0  # how long no hook must have run before old turns are deleted
_HOUSEKEEPING_S = 3600.0


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

    def step(self) -> float:
        """Do a bounded part of the work that is due; return for how many seconds there is nothing to do.

        Raises HermesPgvectorError.
        """
        now = time.monotonic()
        if now >= self._housekeeping:
            self._backend.housekeep(
                operations_days=OPERATIONS_KEPT_DAYS,
                tombstones_days=TOMBSTONES_KEPT_DAYS,
                history_days=HISTORY_KEPT_DAYS,
                texts_days=REMOVED_TEXTS_KEPT_DAYS,
                hold_days=self._removal_hold_days,
            )
            self._housekeeping = now + _HOUSEKEEPING_S
        if self._retention.on and now >= self._look:
            if (quiet_s := quiet_for_s()) < QUIET_S:
                return QUIET_S - quiet_s
            wait_s = self._retention.step()
            self._look = time.monotonic() + wait_s
        due = min(self._housekeeping, self._look) if self._retention.on else self._housekeeping
        return max(0.01, due - time.monotonic())
