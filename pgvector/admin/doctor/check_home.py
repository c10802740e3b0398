"""The files of a home: clients of our MCP server, the desktop's form, the host's own memory files."""

from __future__ import annotations

import itertools
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from ...config.settings import FIELDS
from ...config.sources import form_path, read_form, read_section
from ...domain.errors import ConfigurationError
from ...host.session_context import load_settings, unused_variables
from ..common.client_files import entries_for, options_in
from ..common.file_fill import fills
from .check import Check, fail, note


def check_clients(home: Path) -> Iterator[Check]:
    """Yield a note for each entry for this home with which a client cannot start our server."""
    for found in entries_for(home):
        command = found.entry.get("command")
        if isinstance(command, str) and shutil.which(command) is None:
            again = ["--client", found.client, "--name", found.name]
            again += itertools.chain.from_iterable(options_in(found.entry).items())
            yield note(
                "mcp",
                f"{found.client} cannot start the MCP server {found.name!r} of {found.path}: there is no {command}",
                f"hermes-pgvector mcp install {shlex.join(again)}",
            )


def check_settings(home: Path) -> Iterator[Check]:
    """Yield a note for each setting that has no effect, or another one than its author meant."""
    try:
        warnings = load_settings(None, home).warnings
    except ConfigurationError as exc:  # the file has changed since it was read a moment ago
        yield fail("settings", str(exc))
        return
    for warning in (*warnings, *unused_variables(home)):
        yield note("settings", warning)


def check_forms(home: Path) -> Iterator[Check]:
    """Yield a note if the desktop's form overrules config.yaml, so that editing that file changes nothing."""
    section, _ = read_section(home)
    said = section if isinstance(section, dict) else {}
    form = read_form(home)
    overruled = [
        field.key
        for field in FIELDS
        if form.get(field.key) not in (None, "")
        and said.get(field.key) is not None
        and str(said[field.key]).lower() != str(form[field.key]).lower()
    ]
    if overruled:
        yield note(
            "form",
            f"the desktop's form says otherwise than config.yaml, and counts: {', '.join(overruled)}",
            f"empty these fields there, or delete {form_path(home)}",
        )


def check_memory_files(home: Path) -> Iterator[Check]:
    """Yield a note for each nearly full file, because the agent will soon drop entries to keep new ones."""
    for each in fills(home):
        if each.nearly_full:
            yield note(
                "memory files",
                f"{each}; when it is full, the agent has to drop entries to keep new ones",
                "hermes-pgvector relieve shows which of them can go into the database",
            )
