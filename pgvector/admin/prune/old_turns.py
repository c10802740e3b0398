"""Deletion of old turns, a limited number at a time, and the state of the setting `retention`.

Every function works inside the caller's transaction, on the server's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from ...domain.theme import ROLES
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ..common.fetching import one, where_spread
from ..common.operators import clock

_query = partial(query, package=__package__)

FIRST = (datetime(1, 1, 1, tzinfo=UTC), 0)
LAST = (datetime(9999, 12, 31, tzinfo=UTC), 0)
_CLOCK_STEP_S = 60.0  # the largest correction of a well-kept clock
Mark = tuple[datetime, int]  # a position in the order of turns: time and id


@dataclass(frozen=True, slots=True)
class Old:
    """Turns of a theme before a mark; with `session_id`, of that session only."""

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
    """The result for some turns: how many were examined, matched and deleted; and where the next ones begin."""

    seen: int
    meant: int
    deleted: int
    last: Mark


@dataclass(frozen=True, slots=True)
class Aged:
    """The oldest turn of a theme, and the state of its retention.

    `policy` is the announced one; `ripe`: it has waited long enough; `recent`: it was carried out lately; `held`:
    another process is working on it; `stood_s`: time since something was last recorded for it (None: nothing ever was).
    """

    theme: str
    age_s: float
    policy: str | None
    held: bool
    ripe: bool
    recent: bool
    stood_s: float | None

    def is_steady(self, most_s: float) -> bool:
        """Return False if the last record is more than `most_s` old, or the server's clock may have been set since."""
        return self.stood_s is not None and -_CLOCK_STEP_S <= self.stood_s <= most_s

    @property
    def due(self) -> bool:
        """Return True if the announced policy is to be carried out now."""
        return self.ripe and not self.recent


def prune_turns(conn: DeadlineConnection, old: Old, after: Mark, limit: int) -> Slice:
    """Delete the old ones among the next `limit` turns after a mark, with everything derived from them."""
    asked = old.row() | {"after_at": after[0], "after_id": after[1], "limit": limit}
    row = one(conn, _query("prune_turns"), asked, anew=True)  # a session needs another plan than a theme
    return Slice(row.seen, row.meant, row.deleted, (row.last_at, row.last_id) if row.seen else after)


# -- the setting `retention`


def try_lock(conn: DeadlineConnection) -> bool:
    """Keep other processes from the upkeep until the transaction ends; return False if one is working on it."""
    return bool(one(conn, _query("try_upkeep")).got)


def aged(conn: DeadlineConnection, me: UUID, *, lease_s: float, grace_s: float, every_s: float) -> list[Aged]:
    """Return every theme with turns that this role can see. `me` is the process that asks.

    A theme that is held for longer than `lease_s` was held while the server's clock was ahead, and counts as free.
    """
    statement = _query("oldest_turns_own" if conn.own_themes else where_spread(conn, "oldest_turns"))
    rows = conn.execute(statement, {"me": me, "lease_s": lease_s, "grace_s": grace_s, "every_s": every_s})
    return [Aged(**row._asdict()) for row in rows]


def announce(conn: DeadlineConnection, policies: Mapping[str, str]) -> None:
    """Record each theme's policy, by theme, as announced now."""
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
    """Keep other processes from a theme for `lease_s`; return the time from which its turns are kept.

    Return None if there is nothing to do: another policy was announced, another process is working on it or was lately,
    or none has for `most_s`.
    """
    asked = {"me": me, "theme": theme, "policy": policy, "days": days, "lease_s": lease_s, "now": clock(conn)[0]}
    waits = {"grace_s": grace_s, "every_s": every_s, "most_s": most_s}
    row = conn.execute(_query("claim_retention"), asked | waits).fetchone()
    return None if row is None else row.before_at


def note(conn: DeadlineConnection, theme: str, deleted: int, *, ended: bool) -> int:
    """Add to the number of turns that the run has deleted in a theme; return the total."""
    row = {"theme": theme, "deleted": deleted, "ended": ended, "now": clock(conn)[0]}
    return int(one(conn, _query("note_retention"), row, anew=True).deleted)
