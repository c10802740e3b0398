"""Lists the facts of a theme: its memories that say what they are about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .connection import DeadlineConnection
from .sql import query

CURRENT = ("active", "closed")
_CHARS = 2000  # of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class FactFilter:
    """Conditions on a fact: a `subject` includes those below it, and the fact was last said before `before`."""

    states: tuple[str, ...] = CURRENT
    kind: str | None = None
    scope: str | None = None
    subject: str | None = None
    before: datetime | None = None


def facts(
    conn: DeadlineConnection, theme: str, wanted: FactFilter, *, limit: int, offset: int = 0
) -> list[dict[str, Any]]:
    """Return the facts of a theme, most recently said first; works in the caller's transaction."""
    asked = {
        "theme": theme,
        "states": list(wanted.states),
        "kind": wanted.kind,
        "scope": wanted.scope,
        "subject": wanted.subject,
        "before": wanted.before.isoformat() if wanted.before else None,
        "chars": _CHARS,
        "limit": limit,
        "offset": offset,
    }
    return [row._asdict() for row in conn.execute(query("list_facts"), asked)]
