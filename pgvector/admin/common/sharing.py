"""Themes that are kept apart in Postgres, and meet in the host's own memory."""

from __future__ import annotations

from pathlib import Path

from ...capture.mirror import Mirror
from ...config.plugin_state import built_in_memory
from ...store.connection import DeadlineConnection
from . import theme_rows
from .theme_names import profile_of

REMEDY = (
    "to keep them apart, in config.yaml: memory.memory_enabled: false and memory.user_profile_enabled: false, and "
    "plugins.pgvector.tools: [remember, forget, memory_profile]"
)
_NAMED = 3


def shared_files(conn: DeadlineConnection, home: Path) -> str:
    """Return a sentence on what the themes of a home share; empty where they share nothing."""
    files = built_in_memory(home)
    if not files:
        return ""
    origin = Mirror(home).origin if (home / "pgvector" / "origin").is_file() else ""
    names = theme_rows.of_home(conn, profile_of(home), origin)
    if len(names) < 2:
        return ""
    some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"{' and '.join(files)} of this profile stand in the prompts of {len(names)} themes ({some})"
