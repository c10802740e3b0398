"""Routing of reads: to a replica while it is fit for the question, else to the primary."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from ..domain.errors import DeadlineExceeded, HermesPgvectorError, SpaceChanged, StoreConflict, StoreUnavailable
from ..domain.types import EmbeddingSpace
from .connection import DeadlineConnection
from .pipeline import Pipeline
from .pool import Pool, connect, pool_for
from .replica import (
    PrimaryPosition,
    ReplicaBehind,
    ReplicaProgress,
    about_replica,
    check_position,
    check_replica,
    look_at_primary,
)

if TYPE_CHECKING:
    from .backend import Backend

logger = logging.getLogger(__name__)

# The replica's share of a deadline; if it does not answer, the rest is left for the primary.
_SHARE = 0.4
_FAIR_S = 0.2  # a replica that had less time than this is not blamed for a timeout
_LOOK_S = 2.0  # longest wait for a server that is checked in the background
_LOOK_FIRST_S, _LOOK_MAX_S = 5.0, 60.0  # how long a failed replica is not used; longer if it fails again
_SAMPLE_PAUSE_S = 0.02  # between two checks of the primary, however fast this process writes


# A server that can be queried; its `stand_in`, if any, is the server that answers when it fails.
ReadSource: TypeAlias = "Backend | ReplicaSource"


class Replica:
    """A replica, monitored by a background thread, so that no question waits to learn that it is down.

    `conninfo` leads to it, and `max_lag_s` is how far it may lag. `counts` tells which server answered how often.
    """

    def __init__(self, conninfo: str, primary: Backend, *, max_lag_s: float, pool_max_size: int, pooler: str) -> None:
        self._conninfo = conninfo
        self._primary = primary
        self._max_lag_s = max_lag_s
        self._pool_max_size = pool_max_size
        self._pooler = pooler
        self._every_s = min(2.0, max_lag_s / 4)
        self._progress = ReplicaProgress(max_lag_s)
        self._place: PrimaryPosition | None = None
        self._pool: Pool | None = None
        self._fit = False
        self._told = False
        self._rest_s = _LOOK_FIRST_S
        self._look_at = 0.0
        self._wake = threading.Event()
        self._looked = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._lag_s = 0.0
        self.problem = ""
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        """Start monitoring, now that the primary is up; it may be a different one than before."""
        self._progress.restart()
        self._look_at = 0.0
        self._wake.set()
        if self._thread is None and not self._closed.is_set():
            thread = threading.Thread(target=self._run, name="hermes-pgvector-replica", daemon=True)
            with contextlib.suppress(RuntimeError):  # an interpreter at shutdown starts no threads, and asks nothing
                thread.start()
                self._thread = thread

    def settle(self, timeout_s: float) -> None:
        """Wait until the replica was checked once."""
        self._looked.wait(timeout_s)

    def wrote(self, themes: set[str]) -> None:
        """Note that this process wrote to these themes: questions about them must find what it wrote."""
        self._progress.wrote(themes)
        self._wake.set()

    def sources(self, theme: str | None) -> Iterator[ReadSource]:
        """Yield the replica, if it can be used for a theme (None: for all of them) now, and then the primary.

        A caller asks for the second one only if the first did not answer.
        """
        source = self._source(theme)
        if source is not None:
            yield source
            if source.stand_in is None:
                return
        self.counts["reads_primary"] += 1
        yield self._primary

    def _source(self, theme: str | None) -> ReadSource | None:
        pool = self._pool
        if not self._fit or pool is None:
            return None
        if self._primary.is_up():
            needed = self._progress.needed(theme, time.monotonic())
            if needed is None:
                return None
            return ReplicaSource(self, pool, needed, self._primary)
        # While the primary is down, what the replica has is all there is, and nothing new reaches it.
        return ReplicaSource(self, pool, 0, None)

    def answered(self) -> None:
        """Note that the replica answered a question."""
        self.counts["reads_replica"] += 1
        self._rest_s = _LOOK_FIRST_S
        if self._told:
            self._told = False
            logger.info("hermes-pgvector: the replica answers again")

    def failed(self, exc: HermesPgvectorError, given_s: float) -> None:
        """Note that the replica did not answer within `given_s`; disable it for a while if that was its fault."""
        if isinstance(exc, ReplicaBehind):
            self.counts["replica_behind"] += 1
        elif isinstance(exc, StoreConflict):  # with changes it replays; the next question may well be answered
            self.counts["replica_conflicts"] += 1
        elif isinstance(exc, (StoreUnavailable, DeadlineExceeded)) and given_s >= _FAIR_S:
            self.counts["replica_failures"] += 1
            self._leave(exc, self._rest_s)
            self._rest_s = min(2 * self._rest_s, _LOOK_MAX_S)
            self._wake.set()

    def stats(self) -> dict[str, int | float | str]:
        """Return which server answered how often, why the replica is not used, and how far it lags."""
        state = "up" if self._fit else "away" if self._looked.is_set() else "starting"
        names = ("reads_replica", "reads_primary", "replica_behind", "replica_conflicts", "replica_failures")
        return {
            "replica": state,
            "replica_problem": self.problem,
            "replica_lag_s": round(self._lag_s, 1),
            **{name: self.counts[name] for name in names},
        }

    def close(self) -> None:
        """Close its connections for good."""
        self._closed.set()
        self._wake.set()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    # -- the thread that watches ---------------------------------------------------------------------------------

    def _run(self) -> None:
        sample_at = 0.0
        while not self._closed.is_set():
            now = time.monotonic()
            if now >= sample_at or self._progress.unplaced():
                self._sample()
                sample_at = now + self._every_s
            if now >= self._look_at and self._place is not None:
                self._look_at = now + self._every_s
                self._look(self._place)
            self._closed.wait(_SAMPLE_PAUSE_S)
            self._wake.wait(max(0.0, min(sample_at, self._look_at) - time.monotonic()))
            self._wake.clear()

    def _sample(self) -> None:
        """Read the current position of the primary."""
        if not self._primary.is_up():
            return  # the writer brings it up, and reports the outage
        at, writes = time.monotonic(), self._progress.writes()
        try:
            with self._primary.connection(_LOOK_S) as conn:
                place = look_at_primary(conn)
        except HermesPgvectorError:
            return  # questions go to the primary, and run into the same problem
        if self._place is not None and self._place.timeline != place.timeline:
            self._progress.restart()
        self._place = place
        self._progress.saw(place.position, at=at, writes=writes)

    def _look(self, primary: PrimaryPosition) -> None:
        """Check the replica, and decide whether it can be used from now on."""
        try:
            position = self._examined(primary)
        except HermesPgvectorError as exc:
            self._leave(exc, _LOOK_FIRST_S)
            return
        finally:
            self._looked.set()
        self._lag_s = self._progress.lag_s(position, time.monotonic())
        # To alternate between fit and unfit around the limit would cost each question a moment.
        if self._lag_s > (self._max_lag_s if self._fit else self._max_lag_s / 2):
            behind = f"it is {self._lag_s:.0f} s behind the primary (read_max_lag_s is {self._max_lag_s:g})"
            self._leave(StoreUnavailable(behind), self._every_s)
            return
        self._fit, self.problem = True, ""

    def _examined(self, primary: PrimaryPosition) -> int:
        if self._pool is None or self._pool.lost or self._pool.stale:
            with connect(self._conninfo, as_is=True) as conn:
                conn.deadline = time.monotonic() + _LOOK_S
                position = check_replica(conn, primary)
                pool = pool_for(conn, self._conninfo, max_size=self._pool_max_size, pooler=self._pooler)
            old, self._pool = self._pool, pool
            pool.open()
            if old is not None:
                old.close()
            if self._closed.is_set():
                self.close()
            return position
        with self._pool.connection(_LOOK_S) as conn:
            return check_replica(conn, primary)

    def _leave(self, exc: HermesPgvectorError, pause_s: float) -> None:
        self._fit = False
        self._look_at = time.monotonic() + pause_s
        self.problem = about_replica(exc)
        if not self._told and not self._closed.is_set():
            self._told = True
            logger.warning("hermes-pgvector: the replica is disabled, the primary answers instead: %s", self.problem)


class ReplicaSource:
    """The replica as the source for one question, which requires that it has replayed up to a position."""

    def __init__(self, replica: Replica, pool: Pool, needed: int, stand_in: Backend | None) -> None:
        self._replica = replica
        self._pool = pool
        self._needed = needed
        self._has_answered = False
        self.stand_in = stand_in

    @contextmanager
    def reading(self, timeout_s: float, pipe: Pipeline) -> Iterator[DeadlineConnection]:
        """Lend `pipe` a connection to the replica. Raises ReplicaBehind if it lacks what the question must find."""
        given_s = timeout_s if self.stand_in is None else timeout_s * _SHARE
        replayed = pipe.ask_ahead("replica_position")
        try:
            with self._pool.reading(given_s, pipe) as conn:
                row = replayed.one()
                if check_position(row.follows, row.position) < self._needed:
                    raise ReplicaBehind
                yield conn
        except HermesPgvectorError as exc:
            self._replica.failed(exc, given_s)
            raise
        if not self._has_answered:
            self._has_answered = True
            self._replica.answered()

    def check_space(self, found: EmbeddingSpace, space: EmbeddingSpace) -> None:
        """Raise SpaceChanged if the replica names another model; record nothing, as only the primary is up to date."""
        if found.model and not found.comparable(space):
            raise SpaceChanged
