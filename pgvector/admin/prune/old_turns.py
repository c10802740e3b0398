"""Old turns, deleted a bounded piece at a time, and the state of the setting `retention`.

Every function works inside the caller's transaction, on the server's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from ...domain.theme import ROLES
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ..common.operators import clock

_query = partial(query, package=__package__)

FIRST = (datetime(1, 1, 1, tzinfo=UTC), 0)
LAST = (datetime(9999, 12, 31, tzinfo=UTC), 0)
_CLOCK_STEP_S = 60.0  # of a clock that is kept right
Mark = tuple[datetime, int]  # a place in the order of turns: time and id


@dataclass(frozen=True, slots=True)
class Old:
    """Turns of a theme before a mark; with `session_id` of that session only."""

    theme: str
    before: Mark = LAST
    roles: tuple[str, ...] = ROLES
    session_id: str | None = None

    def row(self) -> dict[str, object]:
        """Return the parameters that the statements share."""
        return {
            "theme": self.theme,
            "before_at": self.before[0],
            "before_id": self.before[1],
            "roles": list(self.roles),
            "session_id": self.session_id,
        }


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
    `held` that another process is at it, `stood_s` for how long nothing was noted of it (None: nothing ever was).
    """

    theme: str
    age_s: float
    policy: str | None
    held: bool
    ripe: bool
    recent: bool
    stood_s: float | None

    def is_steady(self, most_s: float) -> bool:
        """Return False when the server's clock may have been set since something was noted, more than `most_s` ago."""
        return self.stood_s is not None and -_CLOCK_STEP_S <= self.stood_s <= most_s

    @property
    def due(self) -> bool:
        """Return True when the announced policy is to be carried out."""
        return self.ripe and not self.recent


def prune_turns(conn: DeadlineConnection, old: Old, after: Mark, limit: int) -> Slice:
    """Delete what is old of the next `limit` turns after a mark, with what was derived of them."""
    row = one_row(conn, "prune_turns", old.row() | {"after_at": after[0], "after_id": after[1], "limit": limit})
    return Slice(row.seen, row.meant, row.deleted, (row.last_at, row.last_id) if row.seen else after)


def one_row(conn: DeadlineConnection, statement: str, row: Mapping[str, Any]) -> Any:
    """Return the one row of a statement, planned for these parameters: with a session the plan is another."""
    found = conn.execute(_query(statement), row, prepare=False).fetchone()
    assert found is not None
    return found


# -- the setting `retention`


def try_lock(conn: DeadlineConnection) -> bool:
    """Keep every other process from the upkeep until the transaction ends; False when one is at it."""
    found = conn.execute(_query("try_upkeep")).fetchone()
    return bool(found and found.got)


def aged(conn: DeadlineConnection, me: UUID, *, grace_s: float, every_s: float) -> list[Aged]:
    """Return every theme that has turns and that this role sees. `me` is the process that asks."""
    statement = "oldest_turns_own" if conn.own_themes else "oldest_turns"
    rows = conn.execute(_query(statement), {"me": me, "grace_s": grace_s, "every_s": every_s})
    return [Aged(**row._asdict()) for row in rows]


def announce(conn: DeadlineConnection, policies: Mapping[str, str]) -> None:
    """Note that each theme's policy, by its theme, is known from now on."""
    row = {"themes": list(policies), "policies": list(policies.values()), "now": clock(conn)[0]}
    conn.execute(_query("announce_retention"), row)


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
    most_s: float,
) -> datetime | None:
    """Keep other processes from a theme for `lease_s`; return from when its turns are kept.

    None when there is nothing to do: another policy was announced, another process is at it, or was lately; or nobody
    was for `most_s`.
    """
    asked = {"me": me, "theme": theme, "policy": policy, "days": days, "lease_s": lease_s, "now": clock(conn)[0]}
    waits = {"grace_s": grace_s, "every_s": every_s, "most_s": most_s}
    row = conn.execute(_query("claim_retention"), asked | waits).fetchone()
    return None if row is None else row.before_at


def note(conn: DeadlineConnection, theme: str, deleted: int, *, ended: bool) -> int:
    """Add to what the run has deleted in a theme; return how many it is in all."""
    row = {"theme": theme, "deleted": deleted, "ended": ended, "now": clock(conn)[0]}
    return int(one_row(conn, "note_retention", row).deleted)
