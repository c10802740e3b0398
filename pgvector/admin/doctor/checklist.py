"""The checklist an operator runs: one line for each check, with its cause and its fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...config.settings import Settings
from ...domain.errors import ConfigurationError
from ...domain.text import harmless
from ..common.embedded_server import LocateDatabase
from .check import Check, DoctorContext, State, fail
from .check_agents import check_agents
from .check_database import check_database
from .check_disk import check_disk
from .check_endpoints import check_endpoints
from .check_home import check_clients, check_forms, check_memory_files, check_settings
from .check_installation import check_installation
from .check_replica import check_read_replica

_MARKS: dict[State, str] = {"ok": "ok  ", "note": "note", "fail": "FAIL"}


def examine(settings: Settings, home: Path, *, locate: LocateDatabase | None = None) -> list[Check]:
    """Run every check. Without a `dsn`, `locate` starts the embedded server and returns the conninfo."""
    context = DoctorContext(settings, home, locate)
    # Before the embedded server is started: then its data is there, and that memory begins anew is not said any more.
    of_settings = [*check_settings(home)]
    database = [*check_database(context)]
    return [
        *check_installation(home),
        *of_settings,
        *check_forms(home),
        *check_clients(home),
        *database,
        *check_read_replica(context),
        *check_endpoints(context),
        *check_agents(context, reached=healthy(database)),
        *check_memory_files(home),
        *check_disk(context),
    ]


def examine_without_settings(home: Path, problem: ConfigurationError) -> list[Check]:
    """Return what can be checked if the settings cannot be read; everything else would be guesswork."""
    return [
        *check_installation(home),
        fail("settings", str(problem), "mend that, then run doctor again; until then agents have no memory"),
    ]


def healthy(checks: Iterable[Check]) -> bool:
    """Return True if no check failed."""
    return not any(check.state == "fail" for check in checks)


def render_text(checks: Iterable[Check]) -> str:
    """Return the checklist as text for people."""
    lines = []
    for check in checks:
        lines.append(f"  {_MARKS[check.state]}  {check.name}: {harmless(check.said)}")
        if check.fix:
            lines.append(f"        -> {check.fix}")
    return "\n".join(lines)


def as_json(checks: Iterable[Check]) -> dict[str, Any]:
    """Return the checklist as data for JSON."""
    known = list(checks)
    return {"healthy": healthy(known), "checks": [asdict(check) for check in known]}
