"""The stand-in that the plugin directory registers if the package it points to cannot be imported.

This is a sub-package because the host executes every top-level file of a plugin directory at each start.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

ORIGIN_FILE = "origin.json"
_log = logging.getLogger(__name__)
_told: set[str] = set()


def install_command() -> str:
    """Return the command that reinstalls the package into this Python, from the installer's record."""
    from importlib.util import find_spec
    from shlex import quote

    requirement = "hermes-memory-pgvector"
    try:
        origin = json.loads((Path(__file__).parent.parent / ORIGIN_FILE).read_text(encoding="utf-8"))
        requirement = str(origin["requirement"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    has_pip = find_spec("pip") is not None
    python = quote(sys.executable or "python3")
    pip = f"{python} -m pip install" if has_pip else f"uv pip install --python {python}"
    return f"{pip} {quote(requirement)}"


def explanation(error: ImportError) -> str:
    """Return a message with the cause and the command that fixes it."""
    return f"pgvector memory is off: {error} in {sys.executable}. To bring it back, run: {install_command()}"


def register_stand_in(ctx: Any, error: ImportError) -> None:
    """Register a provider that is never available; log a warning once for each process and cause."""
    from agent.memory_provider import MemoryProvider

    reason = explanation(error)
    if reason not in _told:
        _told.add(reason)
        _log.warning("%s", reason)

    class AbsentProvider(MemoryProvider):
        """A provider that keeps the plugin listed while its package is missing."""

        @property
        def name(self) -> str:
            """Return the provider's name in the host's configuration."""
            return "pgvector"

        def is_available(self) -> bool:
            """Return False: it is never available."""
            return False

        def unavailable_reason(self) -> str:
            """Return the cause and the command, for hosts that show them."""
            return reason

        def get_status_config(self, config: Any = None) -> dict[str, str]:
            """Return the cause and the command, for `hermes memory status`."""
            return {"problem": reason}

        def initialize(self, session_id: str, **kwargs: Any) -> None:
            """Do nothing: there is nothing to start."""

        def get_tool_schemas(self) -> list[dict[str, Any]]:
            """Return no tools."""
            return []

    ctx.register_memory_provider(AbsentProvider())
