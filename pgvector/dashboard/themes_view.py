"""Themes, what is in them, and who wrote it."""

from __future__ import annotations

from .page_route import PageRoute

ROUTES: tuple[PageRoute, ...] = ()
