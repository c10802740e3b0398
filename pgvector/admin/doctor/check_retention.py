"""What becomes of old turns."""

from __future__ import annotations

from ...config.settings import Settings
from ...store.connection import DeadlineConnection
from ..common.retention_report import described, empty_themes, retention_state
from .check import Check


def check_retention(conn: DeadlineConnection, settings: Settings) -> Check:
    """Return whether old turns are deleted by a policy, and whether it names themes that there are."""
    state = retention_state(conn, settings)
    if unknown := empty_themes(conn, settings):
        return Check(
            "retention",
            "note",
            f"the setting names {', '.join(map(repr, unknown[:5]))}, where there are no turns; {described(state)}",
            "compare with: hermes-pgvector themes list",
        )
    return Check("retention", "ok", described(state))
