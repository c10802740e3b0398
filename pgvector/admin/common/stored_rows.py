"""Single rows by their numbers, and the sessions that they are of.

Functions that are given a connection work inside the caller's transaction, with its errors translated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...domain.types import Store
from ...store.backend import WRITE_TIMEOUT_S, Backend
from ...store.connection import DeadlineConnection
from ...store.sql import query

_query = partial(query, package=__package__)


def rows(conn: DeadlineConnection, store: Store, ids: Sequence[int]) -> list[Any]:
    """Return those of the rows that are there: id, theme, kind, at, content."""
    return conn.execute(_query(f"rows_of_{store}"), {"ids": list(ids)}).fetchall()


def themes_of_session(conn: DeadlineConnection, session_id: str) -> dict[str, int]:
    """Return the themes in which a session of that name has turns, and how many."""
    return {row.theme: row.turns for row in conn.execute(_query("session_themes"), {"session_id": session_id})}


def forget_session(backend: Backend, theme: str, session_id: str) -> None:
    """Delete the turns of one session of a theme, in a transaction of its own."""
    with backend.connection(WRITE_TIMEOUT_S) as conn:
        conn.execute(query("forget_session"), {"theme": theme, "session_id": session_id})
    backend.wrote([theme])
