"""Themes, what is in them, and who wrote it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..admin.browse import theme_sizes
from ..admin.common.theme_names import theme_to_read
from ..domain.errors import HermesPgvectorError, StoreUnavailable
from ..store.vector_search import theme_names
from .page_route import PageRoute
from .params import Params
from .served_homes import READ_S, ServedHome

_WAIT_S = 0.7  # of the second that the page waits
_NAMES_WAIT_S = 0.6
_PATIENCE_S = 8.0  # for what is made in the background
_FRESH_S = 3.0


def themes(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return a page of the themes whose names contain the given text, sorted by name."""
    wanted, page = params.text("search").casefold().strip(), params.page()
    began = time.monotonic()
    found = [name for name in _names(served, began) if wanted in name.casefold()]
    shown = found[page.offset : page.offset + page.limit]
    with served.reading(READ_S - (time.monotonic() - began)) as conn:
        rows = theme_sizes.theme_sizes(conn, shown)
    return {
        "rows": [row | {"private": not served.chats.opens(row["theme"])} for row in rows],
        "total": len(found),
        "more": page.offset + len(shown) < len(found),
    }


def _names(served: ServedHome, began: float) -> list[str]:
    """Return the names of all themes; if there are many, as of a moment ago."""
    served.answers.refresh("names", lambda: _read_names(served), 0.0)
    names = served.answers.get("names", began + _NAMES_WAIT_S)
    if names is None:
        raise StoreUnavailable("the themes are being looked up; ask again in a moment")
    return list(names.answer)


def _read_names(served: ServedHome) -> list[str]:
    with served.reading(_PATIENCE_S) as conn:
        return theme_names(conn)


def theme(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return what a theme holds, when that was written, and by whom.

    Figures for which every row is read are made in the background, and are null (`counting`) until then.
    """
    began, given = time.monotonic(), params.needed("theme")
    with served.reading() as conn:
        name = theme_to_read(conn, given, served.rules, served.home)
        sizes = theme_sizes.described(conn, name)
    served.answers.refresh(f"theme {name}", lambda: _read_through(served, name), _FRESH_S)
    read = served.answers.get(f"theme {name}", began + _WAIT_S)
    more = read.answer if read else None
    answer = {"theme": name, "private": not served.chats.opens(name), "counting": more is None} | sizes
    return answer | (more or {"sessions": None, "writers": [], "timeline": []})


def _read_through(served: ServedHome, name: str) -> dict[str, Any] | None:
    try:
        with served.reading(_PATIENCE_S) as conn:
            return {
                "sessions": theme_sizes.sessions(conn, name),
                "writers": theme_sizes.writers(conn, name),
                "timeline": theme_sizes.timeline(conn, name),
            }
    except HermesPgvectorError:
        return None  # the counts are shown without them


ROUTES = (PageRoute("/themes", themes), PageRoute("/theme", theme))
