"""The turns that a model has not read, and the memories that it proposed.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from psycopg.types.json import Jsonb

from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme
from ...store.sql import query
from ..common.fetching import one
from .model_answers import Proposal

_query = partial(query, package=__package__)


@dataclass(frozen=True, slots=True)
class UnreadSession:
    """A session of a theme, and how many of its turns no model has read."""

    theme: str
    session_id: str
    turns: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class StoredProposal:
    """A proposed memory as it stands in the table.

    `rival` is the memory that is active under its subject; `outdated`: which was said later.
    """

    id: int
    theme: str
    target: str
    content: str
    kind: str
    subject: str | None
    scope: str | None
    confidence: float
    sources: list[int]
    said_at: datetime
    proposed_at: datetime
    rejected_at: datetime | None
    metadata: Mapping[str, Any]
    rival: int | None
    rival_content: str | None
    outdated: bool | None

    @property
    def ref(self) -> str:
        """Return its name in commands."""
        return f"p{self.id}"


def unread_sessions(conn: DeadlineConnection, theme: str, since: datetime) -> list[UnreadSession]:
    """Return the sessions of a theme with turns from `since` on that no model has read, oldest first."""
    rows = conn.execute(_query("unread_sessions"), {"theme": theme, "since": since})
    return [UnreadSession(theme, *row) for row in rows]


def unread_turns(conn: DeadlineConnection, session: UnreadSession, since: datetime, chars: int) -> list[Any]:
    """Return these turns in their order, of each so many characters: id, at, role, content, and where it was said."""
    asked = {"theme": session.theme, "session_id": session.session_id, "since": since, "chars": chars}
    return conn.execute(_query("unread_turns"), asked).fetchall()


def note_read(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> set[int]:
    """Note that turns were read; return those that are still there and that nobody else has read meanwhile."""
    there = [row.id for row in conn.execute(_query("hold_turns"), {"theme": theme, "ids": list(ids)})]
    noted = conn.execute(_query("note_read"), {"theme": theme, "ids": there})
    return {row.turn_id for row in noted}


def said_already(conn: DeadlineConnection, theme: str, texts: Sequence[str]) -> set[int]:
    """Return the places, from 0, of the texts that a memory or a proposal of the theme says already."""
    found = conn.execute(_query("said_already"), {"theme": theme, "texts": list(texts)})
    return {row.place - 1 for row in found}


def propose(
    conn: DeadlineConnection, theme: str, proposal: Proposal, turns: Sequence[Any], metadata: Mapping[str, Any]
) -> None:
    """Store a proposal that was taken from these turns."""
    row = {
        "theme": theme, "target": proposal.target, "content": proposal.content, "kind": proposal.kind,
        "subject": proposal.subject, "scope": proposal.scope, "confidence": proposal.confidence,
        "sources": [turn.id for turn in turns], "said_at": max(turn.at for turn in turns),
        "metadata": Jsonb(dict(metadata)),
    }  # fmt: skip
    made = one(conn, _query("propose"), row)
    conn.execute(_query("note_proposed"), row | {"id": made.id})


def proposals(
    conn: DeadlineConnection,
    *,
    theme: str | None = None,
    ids: Sequence[int] | None = None,
    least: float = 0.0,
    rejected: bool = False,
) -> list[StoredProposal]:
    """Return proposals that wait for a decision, or those that were rejected; by their numbers both."""
    asked = {"theme": theme, "ids": None if ids is None else list(ids), "least": least, "rejected": rejected}
    return [StoredProposal(**row._asdict()) for row in conn.execute(_query("proposals"), asked)]


def hold(conn: DeadlineConnection, proposal: StoredProposal) -> bool:
    """Have nobody else decide on a proposal until the transaction ends; False where it is not as it was shown."""
    lock_theme(conn, proposal.theme)
    row = {name: getattr(proposal, name) for name in ("theme", "id", "content", "kind", "subject", "scope")}
    row["rejected"] = proposal.rejected_at is not None
    return conn.execute(_query("hold_proposal"), row).fetchone() is not None


def edit(conn: DeadlineConnection, proposal: StoredProposal, changed: Mapping[str, str | None]) -> bool:
    """Change a proposal's content, kind, subject or scope; False where it is not as it was shown."""
    if not hold(conn, proposal):
        return False
    row = {name: getattr(proposal, name) for name in ("theme", "id", "content", "kind", "subject", "scope")}
    return bool(conn.execute(_query("edit_proposal"), {**row, **changed}).rowcount)


def reject(conn: DeadlineConnection, proposal: StoredProposal) -> bool:
    """Note that a proposal is rejected; False where it is gone, or was rejected before."""
    return bool(conn.execute(_query("reject_proposal"), {"theme": proposal.theme, "id": proposal.id}).rowcount)


def remove(conn: DeadlineConnection, proposal: StoredProposal) -> None:
    """Remove a proposal that has become a memory."""
    conn.execute(_query("remove_proposal"), {"theme": proposal.theme, "id": proposal.id})
