"""Old turns, and memories where they are asked for: counted and deleted, a bounded piece at a time.

Every function works inside the caller's transaction, on the server's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ..domain.retention_policy import ROLES
from .connection import DeadlineConnection
from .memories import lock_theme
from .sql import query

FIRST = (datetime(1, 1, 1, tzinfo=UTC), 0)
LAST = (datetime(9999, 12, 31, tzinfo=UTC), 0)
Mark = tuple[datetime, int]  # a place in the order of turns: time and id


@dataclass(frozen=True, slots=True)
class Old:
    """Turns of a theme before a mark; with `session_id` of that session only."""

    theme: str
    before: Mark = LAST
    roles: tuple[str, ...] = ROLES
    session_id: str | None = None

    def row(self) -> dict[str, Any]:
        """The parameters that the statements share."""
        return {
            "theme": self.theme,
            "before_at": self.before[0],
            "before_id": self.before[1],
            "roles": list(self.roles),
            "session_id": self.session_id,
        }


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows, their bytes in the table, and when the oldest and the newest of them were written."""

    rows: int
    bytes: int
    oldest_at: datetime | None
    newest_at: datetime | None


@dataclass(frozen=True, slots=True)
class Slice:
    """What became of some turns: looked at, meant, deleted; and where the next ones begin."""

    seen: int
    meant: int
    deleted: int
    last: Mark


@dataclass(frozen=True, slots=True)
class Aged:
    """The oldest turn of a theme, and how its retention stands.

    `policy` is the announced one, `ripe` says that it waited long enough, `recent` that it was carried out lately,
    `held` that another process is at it.
    """

    theme: str
    age_s: float
    policy: str | None
    held: bool
    ripe: bool
    recent: bool


def clock(conn: DeadlineConnection) -> tuple[datetime, bool]:
    """The server's time, and whether this role may write to the log."""
    row = conn.execute(query("read_clock")).fetchone()
    assert row is not None
    return row.now, row.may_record


def count_turns(conn: DeadlineConnection, old: Old) -> Count:
    """What `prune_turns` would delete."""
    row = _one(conn, "prunable_turns", old.row())
    return Count(row.turns, row.bytes, row.oldest_at, row.newest_at)


def oldest_turns(conn: DeadlineConnection, old: Old, limit: int) -> list[dict[str, Any]]:
    """The first turns that `prune_turns` would delete: theme, at, role, and the beginning of their content."""
    rows = conn.execute(query("oldest_prunable_turns"), old.row() | {"limit": limit}, prepare=False)
    return [row._asdict() for row in rows]


def newest(conn: DeadlineConnection, old: Old, *, rows: int = 0, bytes: int = 0) -> Old:
    """`old` without the newest so many turns, and without the newest that so many bytes hold."""
    for statement, most in (("newest_turns_by_number", rows), ("newest_turns_by_bytes", bytes)):
        if most:
            first = conn.execute(query(statement), old.row() | {"most": most}, prepare=False).fetchone()
            old = replace(old, before=min(old.before, (first.ts, first.id) if first is not None else FIRST))
    return old


def walk_timeline(conn: DeadlineConnection) -> None:
    """Have `prune_turns` go along a theme's timeline until the transaction ends; a pool's connections do so anyway."""
    conn.execute(query("walk_timeline"))


def prune_turns(conn: DeadlineConnection, old: Old, after: Mark, limit: int) -> Slice:
    """Delete what is old of the next `limit` turns after a mark, with what was derived of them."""
    row = _one(conn, "prune_turns", old.row() | {"after_at": after[0], "after_id": after[1], "limit": limit})
    return Slice(row.seen, row.meant, row.deleted, (row.last_at, row.last_id) if row.seen else after)


def count_memories(conn: DeadlineConnection, theme: str, before: datetime) -> tuple[Count, int]:
    """What `prune_memories` would delete, and how many of these a MEMORY.md or USER.md held when it was last read."""
    row = _one(conn, "prunable_memories", {"theme": theme, "before_at": before})
    return Count(row.memories, row.bytes, row.oldest_at, row.newest_at), row.in_files


def oldest_memories(conn: DeadlineConnection, theme: str, before: datetime, limit: int) -> list[dict[str, Any]]:
    """The first memories that `prune_memories` would delete, as `oldest_turns`; their role is their target."""
    asked = {"theme": theme, "before_at": before, "limit": limit}
    return [row._asdict() for row in conn.execute(query("oldest_prunable_memories"), asked)]


def prune_memories(conn: DeadlineConnection, theme: str, before: datetime, limit: int) -> int:
    """Forget at most `limit` memories of a theme that were last confirmed before; returns how many."""
    lock_theme(conn, theme)
    asked = {"theme": theme, "before_at": before, "limit": limit}
    ids = [row.id for row in conn.execute(query("prunable_memory_ids"), asked)]
    if ids:
        conn.execute(query("forget_memories"), {"theme": theme, "ids": ids, "at": datetime.now(UTC)})
    return len(ids)


def _one(conn: DeadlineConnection, statement: str, row: Mapping[str, Any]) -> Any:
    """The one row of a statement, planned for these parameters: with a session it takes another way than without."""
    found = conn.execute(query(statement), row, prepare=False).fetchone()
    assert found is not None
    return found


# -- the setting `retention`


def try_lock(conn: DeadlineConnection) -> bool:
    """Keep every other process from the upkeep until the transaction ends; False when one is at it."""
    found = conn.execute(query("try_upkeep")).fetchone()
    return bool(found and found.got)


def aged(conn: DeadlineConnection, me: UUID, *, grace_s: float, every_s: float) -> list[Aged]:
    """Every theme that has turns and that this role sees. `me` is the process that asks."""
    statement = "oldest_turns_own" if conn.own_themes else "oldest_turns"
    rows = conn.execute(query(statement), {"me": me, "grace_s": grace_s, "every_s": every_s})
    return [Aged(**row._asdict()) for row in rows]


def announce(conn: DeadlineConnection, policies: Mapping[str, str]) -> None:
    """Note from when on a theme's policy, by its theme, is known; one that is noted already is left alone."""
    conn.execute(query("announce_retention"), {"themes": list(policies), "policies": list(policies.values())})


def claim(
    conn: DeadlineConnection,
    me: UUID,
    theme: str,
    policy: str,
    *,
    days: int,
    lease_s: float,
    grace_s: float,
    every_s: float,
) -> datetime | None:
    """Keep other processes from a theme for `lease_s`; returns from when its turns are kept.

    None when there is nothing to do: another policy was announced, another process is at it, or was lately.
    """
    asked = {"me": me, "theme": theme, "policy": policy, "days": days, "lease_s": lease_s}
    row = conn.execute(query("claim_retention"), asked | {"grace_s": grace_s, "every_s": every_s}).fetchone()
    return None if row is None else row.before_at


def note(conn: DeadlineConnection, theme: str, deleted: int, *, ended: bool) -> int:
    """Add to what the run has deleted in a theme; returns how many it is in all."""
    return int(_one(conn, "note_retention", {"theme": theme, "deleted": deleted, "ended": ended}).deleted)


def has_turns(conn: DeadlineConnection, theme: str) -> bool:
    """Whether a theme holds any turn that this role sees."""
    return bool(_one(conn, "theme_has_turns", {"theme": theme}).found)


def state(conn: DeadlineConnection, grace_s: float) -> dict[str, Any]:
    """When turns were last deleted by the setting, how many in the last day, and what is announced."""
    return dict(_one(conn, "retention_state", {"grace_s": grace_s})._asdict())
