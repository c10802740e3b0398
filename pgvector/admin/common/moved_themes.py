"""The names that themes have had: which other themes hold the rows of those that were renamed or merged."""

from __future__ import annotations

from ...store.connection import DeadlineConnection
from ...store.sql import query
from .row_security import has_own_themes


def moved_themes(conn: DeadlineConnection) -> dict[str, tuple[str, ...]]:
    """Return the other themes that hold the rows of renamed and merged themes, by the themes' old names.

    They are several where a name was used again and its new rows went elsewhere, the last ones to the last theme. It is
    empty for a role that is limited to some themes, which may not read the log.
    """
    moved: dict[str, list[str]] = {}
    moves = [] if has_own_themes(conn) else conn.execute(query("theme_moves", package=__package__)).fetchall()
    for theme, into in moves:
        moved = {old: [into if place == theme else place for place in places] for old, places in moved.items()}
        moved.setdefault(theme, []).append(into)
    # Its last place stands last, and its own name in no list: a theme may have been renamed there and back.
    elsewhere = {old: [place for place in places if place != old] for old, places in moved.items()}
    return {old: tuple(dict.fromkeys(places[::-1]))[::-1] for old, places in elsewhere.items() if places}
