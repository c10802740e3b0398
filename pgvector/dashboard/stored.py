"""Memories, turns and sessions as they are stored."""

from __future__ import annotations

from .page_route import PageRoute

ROUTES: tuple[PageRoute, ...] = ()
