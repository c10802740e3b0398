"""Themes, what is in them, and who wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..admin.browse import theme_sizes
from ..admin.common.theme_names import theme_to_read
from ..admin.common.theme_rows import counts
from ..store.vector_search import theme_names
from .desk import Desk
from .page_route import PageRoute
from .params import Params


def themes(desk: Desk, params: Params) -> Mapping[str, Any]:
    """Return a page of the themes whose name has the text that was given in it, by their names."""
    wanted, page = params.text("search").casefold().strip(), params.page()
    with desk.reading() as conn:
        found = [name for name in theme_names(conn) if wanted in name.casefold()]
        shown = found[page.offset : page.offset + page.limit]
        rows = theme_sizes.theme_sizes(conn, shown)
    return {
        "rows": [row | {"private": not desk.chats.opens(row["theme"])} for row in rows],
        "total": len(found),
        "more": page.offset + len(shown) < len(found),
    }


def theme(desk: Desk, params: Params) -> Mapping[str, Any]:
    """Return what a theme holds, when that was written, and by whom."""
    with desk.reading() as conn:
        name = theme_to_read(conn, params.needed("theme"), desk.rules, desk.home)
        held = counts(conn, name)
        first, last = held["first_at"], held["last_at"]
        return {
            "theme": name,
            "private": not desk.chats.opens(name),
            "memories": held["memories"] + held["user_facts"],
            "turns": held["turns"],
            "sessions": held["sessions"],
            "first_at": first and first.isoformat(),
            "last_at": last and last.isoformat(),
            "writers": theme_sizes.writers(conn, name),
            "timeline": theme_sizes.timeline(conn, name, first, last) if first and last else [],
            "facts": theme_sizes.has_facts(conn, name),
        }


ROUTES = (PageRoute("/themes", themes), PageRoute("/theme", theme))
