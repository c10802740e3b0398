"""Whether other agents can still start our MCP server by what stands in their files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...domain.errors import ConfigurationError
from ..common.client_entry import CLIENTS, file_of
from ..common.client_files import own_entries
from .check import Check


def check_clients(home: Path) -> Iterator[Check]:
    """Yield a note for each entry of this home by which a client starts nothing; those of other homes are theirs."""
    for client in CLIENTS:
        place = file_of(client, home, None)
        with suppress(ConfigurationError):  # a file that is broken is for its client to say
            for name, entry in own_entries(place).items():
                command = entry.get("command")
                if isinstance(command, str) and _is_for(home, entry) and shutil.which(command) is None:
                    yield Check(
                        "mcp",
                        "note",
                        f"{client} cannot start the MCP server {name!r} of {place.path}: there is no program {command}",
                        f"hermes-pgvector mcp install --client {client} --name {name}",
                    )


def _is_for(home: Path, entry: Mapping[str, Any]) -> bool:
    environment = entry.get("env")
    named = environment.get("HERMES_HOME") if isinstance(environment, Mapping) else None
    return isinstance(named, str) and os.path.realpath(named) == os.path.realpath(home)
