"""Which themes there are, as far as a session may know.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from ..domain.types import Scope
from .connection import DeadlineConnection, translated
from .sql import query
from .vector_search import themes_of


def theme_holds(conn: DeadlineConnection, scope: Scope) -> bool:
    """Return whether the theme of `scope` holds anything that may be read there."""
    with translated():
        row = conn.execute(query("theme_holds"), themes_of(scope)).fetchone()
    return bool(row and row.found)


def theme_names(conn: DeadlineConnection) -> list[str]:
    """Return the themes that hold rows, chats' among them: a session is told those that it may read."""
    with translated():
        return [row.theme for row in conn.execute(query("theme_names"))]
