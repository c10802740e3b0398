"""Agents for a trial: they write and recall as the home's agents do, in themes of their own."""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...config.loading import Loaded
from ...domain.errors import StoreReadOnly
from ...host.provider import PgvectorMemoryProvider
from ...host.session_context import load_settings
from ...store.connection import WRITABLE, DeadlineConnection
from ..common.commands import EXIT_FAILED, EXIT_OK, print_json
from ..common.database import connection, settings_of
from ..common.row_security import EVERY_THEME, own_themes
from .server_health import look_at

# Settings on what a home stores, and under which names, do not apply to a trial: its rows would be missing, or end up
# among others. The memory files are left to the agents, who know their theme. And of what is removed at the end no file
# keeps a copy for a server that is set back.
_SET_ASIDE: dict[str, Any] = {
    "allowed_themes": (), "theme_aliases": (), "recall_off": (), "write_contexts": ("primary",),
    "sync_turns": True, "turn_min_chars": 1, "bulk_sync_on_init": False, "spool_keep_s": 0.0,
}  # fmt: skip


class TrialProvider(PgvectorMemoryProvider):
    """The provider with the home's settings, except those that choose another theme or prevent storing."""

    @staticmethod
    def _load_settings(config: Mapping[str, Any] | None, home: Path, environ: dict[str, str] | None = None) -> Loaded:
        loaded = load_settings(config, home, environ)
        return loaded._replace(settings=replace(loaded.settings, **_SET_ASIDE))


def granted(conn: DeadlineConnection) -> list[str] | None:
    """Return the themes that row-level security allows this role; None if these are all themes."""
    themes = own_themes(conn)
    return None if themes is None or EVERY_THEME in themes else sorted(themes)


def told(args: argparse.Namespace, home: Path, prepare: Callable[[DeadlineConnection], Callable[[Path], bool]]) -> int:
    """Run what `prepare` returns, and print its output or wrap it in JSON; return the exit code for its result."""
    # If writing is impossible, fail now rather than after a minute with writes left in the spool.
    with connection(settings_of(home)) as conn:
        if look_at(conn, time.time()).read_only:
            raise StoreReadOnly(f"this server takes no writes, so nothing was tried; {WRITABLE}")
        play = prepare(conn)
    if not args.json:
        return EXIT_OK if play(home) else EXIT_FAILED
    with contextlib.redirect_stdout(io.StringIO()) as story:
        well = play(home)
    print_json({"ok": well, "transcript": story.getvalue().splitlines()})
    return EXIT_OK if well else EXIT_FAILED
