"""Themes that are kept apart in Postgres, and meet in the host's own memory."""

from __future__ import annotations

from pathlib import Path

from ...capture.mirror import Mirror
from ...config.sources import at, host_config
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
    files = _built_in_memory(home)
    if not files:
        return ""
    origin = Mirror(home).origin if (home / "pgvector" / "origin").is_file() else ""
    names = theme_rows.of_home(conn, profile_of(home), origin)
    if len(names) < 2:
        return ""
    some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"{' and '.join(files)} of this profile stand in the prompts of {len(names)} themes ({some})"


def _built_in_memory(hermes_home: Path) -> list[str]:
    """Return the files of the host's own memory that stand in its prompts: MEMORY.md, USER.md, both or none."""
    config = host_config(hermes_home)
    switches = {"MEMORY.md": "memory_enabled", "USER.md": "user_profile_enabled"}
    # On where nothing is said.
    return [name for name, switch in switches.items() if at(config, "memory", switch) not in (False, "false", 0)]
