"""Checks whether a server is a replica of the primary, and whether it has replayed enough for a question."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ..domain.errors import HermesPgvectorError, StoreMisconfigured, StoreUnavailable
from .connection import DeadlineConnection, translated
from .sql import query

_KEPT = 1024  # samples of the primary's position: half an hour and more
# At the beginning of a WAL page that is still empty, Postgres reports the position behind the page's header.
_PAGE_BYTES, _HEADER_BYTES = 8192, 40


class ReplicaBehind(StoreUnavailable):
    """The replica has not replayed yet what the answer must know."""


class DatabaseIdentity(NamedTuple):
    """The identity of a database and its copies on replicas. `system` is 0 if this role may not read it."""

    system: int
    database: int
    tables: int
    migrations: str

    def __str__(self) -> str:
        """Return what stays the same when a replica takes over, or the database is reached by another way."""
        return f"{self.system}/{self.database}" + ("" if self.system else f"/{self.migrations.partition(',')[0]}")


class PrimaryPosition(NamedTuple):
    """A primary: its database, its timeline (0: unknown), and the position up to which it has written."""

    identity: DatabaseIdentity
    timeline: int
    position: int


def look_at_primary(conn: DeadlineConnection) -> PrimaryPosition:
    """Return the position of a primary. Raises StoreUnavailable if the server is none."""
    with translated():
        row = conn.execute(query("primary_position")).fetchone()
        who = identity_of(conn)
    assert row is not None
    return PrimaryPosition(who, row.timeline if who.system else 0, _page_start(row.position))


def identity_of(conn: DeadlineConnection) -> DatabaseIdentity:
    """Return which database this is. Raises StoreMisconfigured when it holds none of our tables."""
    with translated():
        row = conn.execute(query("server_identity")).fetchone()
        assert row is not None
        if not row.tables:
            raise StoreMisconfigured("its database holds no memory tables; set `read_dsn` to a replica of the primary")
        with conn.pipeline():
            migrations = conn.execute(query("server_migrations"))
            systems = conn.execute(query("server_system")) if row.tells_system else None
        applied, told = migrations.fetchone(), systems and systems.fetchone()
    return DatabaseIdentity(told.system if told else 0, row.database, row.tables, (applied and applied.applied) or "")


def replayed(conn: DeadlineConnection) -> int:
    """Return the position that a replica has replayed. Raises StoreMisconfigured if the server is none."""
    with translated():
        row = conn.execute(query("replica_position")).fetchone()
    return check_position(row.follows, row.position) if row is not None else 0


def check_position(follows: bool, position: int | None) -> int:
    """Return the position in a result of `replica_position`. Raises StoreMisconfigured if the server is no replica."""
    if not follows:
        raise StoreMisconfigured(
            "it is not a replica, it accepts writes; if it was promoted, set plugins.pgvector.dsn to it"
        )
    if position is None:
        raise StoreMisconfigured("it does not report its position; only a streaming replica of Postgres can be used")
    return position


def check_replica(conn: DeadlineConnection, primary: PrimaryPosition) -> int:
    """Check that `conn` leads to a replica of `primary`; return the position it has replayed.

    Raises StoreMisconfigured, which says what the server is instead.
    """
    position = replayed(conn)
    who = identity_of(conn)
    if (who.system, who.database, who.tables) != (
        primary.identity.system,
        primary.identity.database,
        primary.identity.tables,
    ):
        raise StoreMisconfigured(
            "it holds another database than the primary; set `read_dsn` to a replica of the primary"
        )
    if who.migrations != primary.identity.migrations:
        raise StoreMisconfigured("its tables differ from those of the primary, or a migration has not reached it yet")
    if primary.timeline:
        with translated():
            row = conn.execute(query("replica_timeline")).fetchone()
        if row is not None and row.timeline != primary.timeline:
            raise StoreMisconfigured("it follows another primary, or has not noticed yet that this one took over")
    return position


def about_replica(exc: HermesPgvectorError) -> str:
    """Return the message of a replica's error, with the name of its own setting."""
    return str(exc).replace("`dsn`", "`read_dsn`")


class ReplicaProgress:
    """What a replica must have replayed to answer. Positions are bytes of WAL, times are monotonic seconds.

    It must have whatever others wrote `max_lag_s` ago, and everything that this process wrote. Thread-safe.
    """

    def __init__(self, max_lag_s: float) -> None:
        self._max_lag_s = max_lag_s
        self._lock = threading.Lock()
        self._seen: deque[tuple[float, int]] = deque(maxlen=_KEPT)
        self._writes = 0
        self._own: dict[str, tuple[int, int | None]] = {}  # by theme, number and position of the last write

    def wrote(self, themes: Iterable[str]) -> None:
        """Note that this process wrote to these themes: answers must contain that from now on."""
        with self._lock:
            self._writes += 1
            self._own.update((theme, (self._writes, None)) for theme in themes)

    def writes(self) -> int:
        """Return the number of the last write; to be read before the primary's position, for `saw`."""
        return self._writes

    def unplaced(self) -> bool:
        """Return whether the position of some write of this process is not known yet."""
        with self._lock:
            return any(position is None for _, position in self._own.values())

    def saw(self, position: int, *, at: float, writes: int) -> None:
        """Note the position of the primary, read at the time `at`, when write number `writes` was the last."""
        with self._lock:
            self._seen.append((at, position))
            told = self._floor(at)
            for theme, (number, place) in list(self._own.items()):
                if place is None and number <= writes:
                    place = position
                    self._own[theme] = (number, place)
                # A write that is old enough is required of the replica for every theme anyway.
                if place is not None and told is not None and place <= told:
                    del self._own[theme]

    def needed(self, theme: str | None, now: float) -> int | None:
        """Return the position that an answer about a theme (None: about all) requires now; None if it is not known."""
        with self._lock:
            floor = self._floor(now)
            if floor is None:
                return None
            own = self._own.values() if theme is None else [self._own[theme]] if theme in self._own else []
            for _, position in own:
                if position is None:
                    return None
                floor = max(floor, position)
            return floor

    def _floor(self, now: float) -> int | None:
        floor = None
        for at, position in reversed(self._seen):
            if at < now - self._max_lag_s:
                break
            floor = position
        return floor

    def lag_s(self, position: int, now: float) -> float:
        """Return for how long, at least, a replica at `position` has lacked something; 0 when nothing is missing."""
        with self._lock:
            missing_since = 0.0
            for at, seen in reversed(self._seen):
                if seen <= position:
                    break
                missing_since = at
        return max(0.0, now - missing_since) if missing_since else 0.0

    def restart(self) -> None:
        """Forget all positions: they do not hold for another primary."""
        with self._lock:
            self._seen.clear()
            self._own.clear()


def _page_start(position: int) -> int:
    inside = position % _PAGE_BYTES
    return position - inside if inside <= _HEADER_BYTES else position
