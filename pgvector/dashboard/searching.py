"""Search, by what the operator may see."""

from __future__ import annotations

from .page_route import PageRoute

ROUTES: tuple[PageRoute, ...] = ()
