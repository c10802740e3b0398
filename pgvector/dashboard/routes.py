"""Every question and every change that the page can send."""

from __future__ import annotations

from . import (
    agent_view,
    changing,
    forgetting,
    overview,
    profile_homes,
    removals_view,
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
    *removals_view.ROUTES,
    *settings_view.ROUTES,
    *profile_homes.ROUTES,
)
