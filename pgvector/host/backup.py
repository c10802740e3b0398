"""An export of the embedded Postgres for `hermes backup`: a copy of a running server's files is not usable."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..domain.commandline import typed
from ..domain.errors import HermesPgvectorError
from ..domain.files import make_folder, make_marker
from .session_context import Policy, hermes_home, load_settings

logger = logging.getLogger(__name__)

_LONGEST_S = 300.0  # somebody waits for the backup


def backup_path(home: Path) -> Path:
    """Return the path of the export for `hermes backup`."""
    return home / "pgvector" / "backup" / "memory.jsonl.gz"


def hold_place(home: Path) -> None:
    """Create an empty file where the export will be.

    `hermes backup` lists the files before it asks for the export, and reads them afterwards. It accepts further paths
    only from below the user's own home directory, where `home` need not be.
    """
    path = backup_path(home)
    with contextlib.suppress(OSError):
        if not path.exists():
            make_folder(path.parent, mode=0o700)
            make_marker(path)


def write_backup(config: Mapping[str, Any] | None) -> list[str]:
    """Export the embedded database again; return the path, if the host has to be told of it.

    There is none when `dsn` names a server, or no embedded one was ever created, or when the host has found the file
    in a home outside the directory that it accepts further paths from. When the export fails, an earlier one is better
    than none, and the reason is logged.
    """
    from ..admin.common.embedded_server import borrowed_server, embedded_server
    from ..admin.transfer.export import ExportRequest, export
    from ..admin.transfer.outfile import private_output
    from ..store.pool import connect

    home = hermes_home()
    settings = load_settings(config, home).settings
    if settings.dsn or not (embedded_server(settings).root / "data").exists():
        return []
    path = backup_path(home)
    found = path.exists() and not home.resolve().is_relative_to(Path.home().resolve())
    try:
        make_folder(path.parent, mode=0o700)
        _forget_unfinished(path.parent)
        with borrowed_server(settings) as locate, connect(locate()) as conn:
            conn.deadline = time.monotonic() + _LONGEST_S
            with private_output(path, replace=True) as out:
                export(conn, ExportRequest(), Policy.of(settings).rules, lambda: out)
    except (HermesPgvectorError, OSError) as exc:
        logger.warning(
            "hermes-pgvector: this backup has no fresh export of the memory: %s; make one by hand: %s --replace %s",
            exc,
            typed("hermes-pgvector export"),
            path,
        )
    return [str(path)] if not found and path.exists() and path.stat().st_size else []


def _forget_unfinished(folder: Path) -> None:
    """Delete what killed exports left behind: it contains texts that may have been removed since."""
    for part in folder.glob(".*.part"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - part.stat().st_mtime > 2 * _LONGEST_S:
                part.unlink()
