"""Whether people meet who may not know of each other: clients of the API server, and homes of one user."""

from __future__ import annotations

from collections.abc import Iterator

from ...domain.theme import Surface, ThemeRules, place
from ...store.connection import DeadlineConnection
from ..common import theme_rows
from ..common.theme_names import profile_of
from .check import Check, Patient

MANY_KEYS = 3  # one or two may well be a person's own scripts
_NAMED = 3


def examine_strangers(conn: DeadlineConnection, patient: Patient) -> Iterator[Check]:
    """Session keys beside a `cross_theme` that lets each read the others; memory files of several homes in a theme."""
    words = patient.settings.cross_theme
    names = theme_rows.of_clients(conn)
    open_to_all = bool(words) and [word.lower() for word in words] != ["none"]
    if len(names) >= MANY_KEYS and open_to_all:
        some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        yield Check(
            "session keys",
            "note",
            f"{len(names)} keys of X-Hermes-Session-Key have a theme here ({some}), and cross_theme is "
            f"{', '.join(words)}: each reads of the others what that allows, and any client may claim any key",
            "where these are different people: hermes config set plugins.pgvector.cross_theme none, and a home or a "
            "database for each who must not claim another's key",
        )
    elif names:
        yield Check("session keys", "ok", f"{len(names)} in use, cross_theme is {', '.join(words) or 'none'}")
    settings = patient.settings
    if settings.dsn:
        return  # where several hosts or homes are meant to meet
    rules = ThemeRules.of(default=settings.default_theme, aliases=settings.theme_aliases)
    own = place(Surface(profile=profile_of(patient.home)), rules).files.name
    if (count := theme_rows.homes(conn, own)) > 1:
        yield Check(
            "homes",
            "note",
            f"{count} hermes homes share this embedded Postgres, and with it the theme {own!r}",
            "where that is not meant: export --theme what belongs to one, set its plugins.pgvector.embedded_dir to a "
            "directory of its own, and import there",
        )
