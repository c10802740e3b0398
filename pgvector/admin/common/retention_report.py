"""The state of the setting `retention`, for an operator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...config.settings import Settings
from ...domain.format import local_minute, plural
from ...store.connection import DeadlineConnection
from ...store.sql import query
from .fetching import one
from .outcome import fit_for_json
from .retention_policy import GRACE_S, RetentionPolicy

_query = partial(query, package=__package__)


def retention_state(conn: DeadlineConnection, settings: Settings) -> dict[str, Any]:
    """Return whether this home's setting deletes anything, and what the agents of all homes have done.

    Times are ISO text: when turns were last deleted because of it, how many in the last day, and what is announced.
    """
    state = one(conn, _query("retention_state"), {"grace_s": GRACE_S}, anew=True)
    return {"on": bool(_policy(settings))} | fit_for_json(state._asdict())


def _policy(settings: Settings) -> RetentionPolicy:
    return RetentionPolicy(settings.retention, settings.identity_key)


def described(state: Mapping[str, Any]) -> str:
    """Return the state for people, on one line."""
    parts = []
    if not state["on"]:
        parts.append("off: this home's agents keep all turns")
    if state["last_at"]:
        last = local_minute(state["last_at"])
        parts.append(f"last run {last}, {plural(state['deleted_in_24h'], 'turn')} in the last 24 hours")
    elif state["on"]:
        parts.append("on, nothing was deleted yet")
    if state["at_work"]:
        parts.append("at work now")
    if state["announced"]:
        first = local_minute(state["first_at"])
        parts.append(f"new to {plural(state['announced'], 'theme')}, deletes there from {first} on")
    return "; ".join(parts)


def empty_themes(conn: DeadlineConnection, settings: Settings) -> list[str]:
    """Return the themes that the setting names and that hold no turns, which includes misspelt ones."""
    return [
        name
        for name in _policy(settings).names()
        if not one(conn, _query("theme_has_turns"), {"theme": name}, anew=True).found
    ]
