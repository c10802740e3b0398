"""Profiles that stay with a database when the home that they belong to, or another of its profiles, leaves it."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

from ...config.settings import Settings
from ...config.sources import is_active
from ...domain.errors import HermesPgvectorError
from ...domain.redaction import mask_dsn
from ...host.session_context import load_settings
from ...server.layout import whole_home
from ...store.connection import place_of
from .embedded_server import embedded_server


def profiles_left(home: Path, before: Settings, wanted: Settings) -> str:
    """Return a note on those that use the database of `before`, as `home` did, with the command that takes them along.

    Empty if `wanted` names the same database, or nobody else uses that one.
    """
    place = _place(before)
    left = [] if _place(wanted) == place else [str(each) for each in _others(home) if _is_at(each, place)]
    if not left:
        return ""
    verb, where = "goes" if len(left) == 1 else "go", mask_dsn(before.dsn) if before.dsn else "the embedded Postgres"
    folder = shlex.quote(left[0]) if len(left) == 1 else "DIR"
    return f"{', '.join(left)} {verb} on with {where}; to take along: hermes-pgvector setup --hermes-home {folder} " + (
        "--dsn DSN" if wanted.dsn else "--embedded"
    )


def _others(home: Path) -> list[Path]:
    main = whole_home(home)
    found = [main, *sorted((main / "profiles").glob("*"))]
    return [each for each in found if each.is_dir() and not (home.is_dir() and each.samefile(home)) and is_active(each)]


def _is_at(home: Path, place: str) -> bool:
    with suppress(HermesPgvectorError):
        return _place(load_settings(None, home).settings) == place
    return False


def _place(settings: Settings) -> str:
    return place_of(settings.dsn) if settings.dsn else str(embedded_server(settings).root)
