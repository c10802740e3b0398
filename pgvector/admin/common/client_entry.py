"""The entry by which an MCP client starts our server, and the places where the clients keep such entries."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ...config.sources import CONFIG_NAME
from ...domain.commandline import command_of
from ...domain.errors import WrongUsage

Form = Literal["json", "toml", "yaml"]
CLIENTS: Final = ("claude-code", "cursor", "codex", "hermes")
ENTRY_NAME: Final = "pgvector"
_PROGRAM: Final = "hermes-pgvector"
_SIGNS: Final = (_PROGRAM, "hermes_memory_pgvector")  # one of which stands in every entry of ours


@dataclass(frozen=True)
class ClientFile:
    """Where a client keeps its servers: a table of this name in a file of this form."""

    path: Path
    form: Form
    table: str


def file_of(client: str, home: Path, project: Path | None) -> ClientFile:
    """Return the file of a client, or with `project` that of a folder. Raises WrongUsage where folders have none."""
    user = Path.home()
    if client == "claude-code":
        return ClientFile(project / ".mcp.json" if project else user / ".claude.json", "json", "mcpServers")
    if client == "cursor":
        return ClientFile((project or user) / ".cursor" / "mcp.json", "json", "mcpServers")
    if project is not None:
        raise WrongUsage(f"{client} has no file for a single folder; leave --project out")
    if client == "codex":
        codex = Path(os.environ.get("CODEX_HOME") or user / ".codex")
        return ClientFile(codex / "config.toml", "toml", "mcp_servers")
    return ClientFile(home / CONFIG_NAME, "yaml", "mcp_servers")


def entry_of(client: str, home: Path, *options: str) -> dict[str, Any]:
    """Return the entry: this very program, in this home, whatever the client's own PATH and environment are.

    `options` are those of the server.
    """
    program = Path(sys.executable).parent / _PROGRAM
    command = [str(program)] if program.is_file() else command_of("cli")
    command += ["mcp", *options]
    kind = {"type": "stdio"} if client == "claude-code" else {}
    environment = {"HERMES_HOME": str(home.expanduser().absolute())}
    return kind | {"command": command[0], "args": command[1:], "env": environment}


def is_ours(entry: object) -> bool:
    """Return whether an entry starts our server."""
    text = json.dumps(entry, default=str)
    return isinstance(entry, Mapping) and any(sign in text for sign in _SIGNS)


def renewed(found: object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry to be written where one of ours stands: what else a person put into it stays."""
    if not isinstance(found, Mapping):
        return dict(wanted)
    environment = found.get("env")
    kept = environment if isinstance(environment, Mapping) else {}
    return {**found, **wanted, "env": {**kept, **wanted["env"]}}
