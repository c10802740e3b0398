"""Whether themes are as people expect: which are shared unknowingly, and what a profile has left in another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...capture.mirror import Mirror
from ...capture.spool_directory import spool_folder
from ...config.settings import Settings
from ...domain.format import plural
from ...domain.theme import Surface, session_themes
from ...host.profile_theme import how_to_bring, themes_before
from ...host.session_context import Policy, profile_of
from ...store.connection import DeadlineConnection
from ..common import theme_rows
from ..common.file_fill import files_in_prompts
from ..common.outcome import first_of
from .check import Check, DoctorContext, note, ok

MANY_KEYS = 3  # one or two may well be one person's scripts
_NAMED = 3
_REMEDY = (
    "to keep them apart, in config.yaml: memory.memory_enabled: false and memory.user_profile_enabled: false, and "
    "plugins.pgvector.tools: [remember, forget, memory_profile]"
)


def check_sharing(conn: DeadlineConnection, context: DoctorContext) -> Iterator[Check]:
    """Yield notes on possible strangers in one memory, and on what a renamed profile has left under its old name.

    Strangers are session keys while `cross_theme` lets each read the others; several homes in one theme; and themes
    that are separate in Postgres but share the host's own memory files.
    """
    yield from _session_keys(conn, context.settings)
    yield from _homes(conn, context)
    yield from _left_behind(conn, context)
    if found := _shared_files(conn, context.home):
        yield note("built-in memory", found, _REMEDY)


def _session_keys(conn: DeadlineConnection, settings: Settings) -> Iterator[Check]:
    words = settings.cross_theme
    names = theme_rows.of_clients(conn)
    open_to_all = bool(words) and [word.lower() for word in words] != ["none"]
    if len(names) >= MANY_KEYS and open_to_all:
        yield note(
            "session keys",
            f"{len(names)} keys of X-Hermes-Session-Key have a theme here ({first_of(names, _NAMED)}), and cross_theme "
            f"is {', '.join(words)}: each reads of the others what that allows, and any client may claim any key",
            "where these are different people: hermes config set plugins.pgvector.cross_theme none, and a home or a "
            "database for each who must not claim another's key",
        )
    elif names:
        yield ok("session keys", f"{len(names)} in use, cross_theme is {', '.join(words) or 'none'}")


def _homes(conn: DeadlineConnection, context: DoctorContext) -> Iterator[Check]:
    settings = context.settings
    if settings.dsn:
        return  # there several hosts or homes are meant to share
    own = _own_theme(context)
    if (count := theme_rows.homes(conn, own)) > 1:
        yield note(
            "homes",
            f"{count} hermes homes share this embedded Postgres, and with it the theme {own!r}",
            "where that is not meant: export --theme what belongs to one, set its plugins.pgvector.embedded_dir to a "
            "directory of its own, and import there",
        )


def _left_behind(conn: DeadlineConnection, context: DoctorContext) -> Iterator[Check]:
    own = _own_theme(context)
    for theme in themes_before(context.home):
        held = theme_rows.counts(conn, theme)
        if theme != own and (rows := theme_rows.rows_in(held)):
            yield note(
                "theme",
                f"this profile was renamed, and {plural(rows, 'row')} that it stored in the theme {theme!r} are not "
                f"recalled in {own!r}",
                how_to_bring(theme, own),
            )


def _own_theme(context: DoctorContext) -> str:
    return session_themes(Surface(profile=profile_of(context.home)), Policy.of(context.settings).rules).files.name


def _shared_files(conn: DeadlineConnection, home: Path) -> str:
    """Return a sentence on what the themes of a home share; empty if they share nothing."""
    files = files_in_prompts(home)
    # Turns record their profile but not their home: if no agent has run here, they are from another home.
    if not files or not spool_folder(home).is_dir():
        return ""
    origin = Mirror(home).origin if (home / "pgvector" / "origin").is_file() else ""
    names = theme_rows.of_home(conn, profile_of(home), origin)
    if len(names) < 2:
        return ""
    shared = f"{len(names)} themes ({first_of(names, _NAMED)})"
    return f"{' and '.join(files)} of this profile are in the prompts of {shared}"
