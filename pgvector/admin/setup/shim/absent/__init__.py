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
_PACKAGE = "hermes_memory_pgvector"
_log = logging.getLogger(__name__)
_told: set[str] = set()


def install_command(error: Exception) -> str:
    """Return the command that makes the package whole in this Python again, from the installer's record."""
    from importlib.util import find_spec
    from shlex import quote

    requirement = "hermes-memory-pgvector"
    try:
        origin = json.loads((Path(__file__).parent.parent / ORIGIN_FILE).read_text(encoding="utf-8"))
        requirement = str(origin["requirement"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    python = quote(sys.executable or "python3")
    pip, again = f"{python} -m pip install", " --force-reinstall"
    if find_spec("pip") is None:
        pip, again = f"uv pip install --python {python}", " --reinstall"
    missing = isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith(f"{_PACKAGE}.")
    # What is there, but damaged, is left as it is unless told otherwise: its version is the right one.
    return f"{pip}{'' if missing else again} {quote(requirement)}"


def cause_of(error: Exception) -> str:
    """Return why the package cannot be imported."""
    if isinstance(error, ImportError):
        return f"{error} in {sys.executable}"
    return f"{_PACKAGE} cannot be imported in {sys.executable} ({type(error).__name__}: {error})"


def explanation(error: Exception) -> str:
    """Return a message with the cause and the command that fixes it."""
    return f"pgvector memory is off: {cause_of(error)}. To bring it back, run: {install_command(error)}"


def register_stand_in(ctx: Any, error: Exception) -> None:
    """Register a provider that is never available; log a warning once for each process and cause."""
    from agent.memory_provider import MemoryProvider

    reason = explanation(error)
    if reason not in _told:
        _told.add(reason)
        _log.warning("%s", reason)

    class AbsentProvider(MemoryProvider):
        """A provider that keeps the plugin listed while its package is missing or damaged."""

        # What doctor prints.
        cause = cause_of(error)
        remedy = install_command(error)

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
