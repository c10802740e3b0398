"""Whether other agents can still start our MCP server by what stands in their files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from ..common.client_files import entries_for
from .check import Check


def check_clients(home: Path) -> Iterator[Check]:
    """Yield a note for each entry of this home by which a client starts nothing."""
    for found in entries_for(home):
        command = found.entry.get("command")
        if isinstance(command, str) and shutil.which(command) is None:
            yield Check(
                "mcp",
                "note",
                f"{found.client} cannot start the MCP server {found.name!r} of {found.path}: there is no {command}",
                f"hermes-pgvector mcp install --client {found.client} --name {found.name}",
            )
