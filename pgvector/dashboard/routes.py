"""Every question and every change that the page can send."""

from __future__ import annotations

from . import (
    agent_view,
    changing,
    forgetting,
    held,
    overview,
    profile_homes,
    searching,
    settings_view,
    stored,
    themes_view,
)
from .page_route import PageRoute

ROUTES: tuple[PageRoute, ...] = (
    *overview.ROUTES,
    *searching.ROUTES,
    *agent_view.ROUTES,
    *themes_view.ROUTES,
    *stored.ROUTES,
    *changing.ROUTES,
    *forgetting.ROUTES,
    *held.ROUTES,
    *settings_view.ROUTES,
    *profile_homes.ROUTES,
)
