"""What the page changes, and how that is undone."""

from __future__ import annotations

from .page_route import PageRoute

ROUTES: tuple[PageRoute, ...] = ()
