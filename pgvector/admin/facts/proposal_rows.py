"""Queries of the turns that no model has read, and of the memories that a model proposed.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from psycopg.types.json import Jsonb

from ...domain.text import as_object
from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme
from ...store.sql import query
from ..common.fetching import one
from .model_answers import Proposal

_query = partial(query, package=__package__)


@dataclass(frozen=True, slots=True)
class UnreadSession:
    """A session of a theme, with the number of its turns that no model has read."""

    theme: str
    session_id: str
    turns: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class StoredProposal:
    """A proposed memory as stored.

    `rival` is the active memory with the same subject; `outdated`: the rival was said later than the proposal.
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
        """Return the proposal's name in commands."""
        return f"p{self.id}"


def unread_sessions(conn: DeadlineConnection, theme: str, since: datetime) -> list[UnreadSession]:
    """Return the sessions of a theme with turns from `since` on that no model has read, oldest first."""
    rows = conn.execute(_query("unread_sessions"), {"theme": theme, "since": since})
    return [UnreadSession(theme, *row) for row in rows]


def unread_turns(conn: DeadlineConnection, session: UnreadSession, since: datetime, chars: int) -> list[Any]:
    """Return these turns in order, each cut to `chars`: id, at, role, content, and where it was said."""
    asked = {"theme": session.theme, "session_id": session.session_id, "since": since, "chars": chars}
    return conn.execute(_query("unread_turns"), asked).fetchall()


def note_read(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> set[int]:
    """Record that turns were read; return those that still exist and that no other run has read meanwhile."""
    there = [row.id for row in conn.execute(_query("hold_turns"), {"theme": theme, "ids": list(ids)})]
    noted = conn.execute(_query("note_read"), {"theme": theme, "ids": there})
    return {row.turn_id for row in noted}


def said_already(conn: DeadlineConnection, theme: str, texts: Sequence[str]) -> set[int]:
    """Return the positions, from 0, of the texts that a memory or proposal of the theme already has."""
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
    """Return proposals that wait for a decision, or the rejected ones; with `ids`, both kinds."""
    asked = {"theme": theme, "ids": None if ids is None else list(ids), "least": least, "rejected": rejected}
    rows = conn.execute(_query("proposals"), asked)
    return [StoredProposal(**row._asdict() | {"metadata": as_object(row.metadata)}) for row in rows]


def hold(conn: DeadlineConnection, proposal: StoredProposal) -> bool:
    """Lock a proposal until the transaction ends; return False if it is not as it was shown."""
    lock_theme(conn, proposal.theme)
    row = {name: getattr(proposal, name) for name in ("theme", "id", "content", "kind", "subject", "scope")}
    row["rejected"] = proposal.rejected_at is not None
    return conn.execute(_query("hold_proposal"), row).fetchone() is not None


def edit(conn: DeadlineConnection, proposal: StoredProposal, changed: Mapping[str, str | None]) -> bool:
    """Change a proposal's content, kind, subject or scope; return False if it is not as it was shown."""
    if not hold(conn, proposal):
        return False
    row = {name: getattr(proposal, name) for name in ("theme", "id", "content", "kind", "subject", "scope")}
    return bool(conn.execute(_query("edit_proposal"), {**row, **changed}).rowcount)


def reject(conn: DeadlineConnection, proposal: StoredProposal) -> bool:
    """Mark a proposal as rejected; return False if it is gone, or was rejected before."""
    return bool(conn.execute(_query("reject_proposal"), {"theme": proposal.theme, "id": proposal.id}).rowcount)


def remove(conn: DeadlineConnection, proposal: StoredProposal) -> None:
    """Remove a proposal that has become a memory."""
    conn.execute(_query("remove_proposal"), {"theme": proposal.theme, "id": proposal.id})
