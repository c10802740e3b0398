"""Removals that wait for a decision, and what can be brought back."""

from __future__ import annotations

from .page_route import PageRoute

ROUTES: tuple[PageRoute, ...] = ()
