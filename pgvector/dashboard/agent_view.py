"""What an agent would have put before a message."""

from __future__ import annotations

from .page_route import PageRoute

ROUTES: tuple[PageRoute, ...] = ()
