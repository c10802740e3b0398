"""How the memory is doing, at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..store.vector_search import theme_names
from .desk import Desk
from .page_route import PageRoute
from .params import Params


def overview(desk: Desk, params: Params) -> Mapping[str, Any]:
    """Return how many themes there are."""
    with desk.reading() as conn:
        return {"themes": len(theme_names(conn))}


ROUTES = (PageRoute("/overview", overview),)
