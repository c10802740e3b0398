"""How the setting `retention` goes, told to an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...capture.housekeeping import GRACE_S
from ...config.settings import Settings
from ...domain.dates import local_minute
from ...domain.retention_policy import RetentionPolicy
from ...store.connection import DeadlineConnection
from . import old_rows


def retention_state(conn: DeadlineConnection, settings: Settings) -> dict[str, Any]:
    """Whether this home's setting deletes anything, and what the agents of all homes have done; times as ISO text."""
    state = old_rows.state(conn, GRACE_S)
    told = {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in state.items()}
    return {"on": bool(policy_of(settings))} | told


def policy_of(settings: Settings) -> RetentionPolicy:
    """What the settings say."""
    return RetentionPolicy(settings.retention, settings.identity_key)


def described(state: Mapping[str, Any]) -> str:
    """The state for people, on one line."""
    parts = []
    if not state["on"]:
        parts.append("off: this home's agents keep all turns")
    if state["last_at"]:
        last = local_minute(state["last_at"])
        parts.append(f"last run {last}, {state['deleted_in_24h']:,} turns in the last 24 hours")
    elif state["on"]:
        parts.append("on, nothing was deleted yet")
    if state["at_work"]:
        parts.append("at work now")
    if state["announced"]:
        first = local_minute(state["first_at"])
        parts.append(f"new to {state['announced']:,} themes, deletes there from {first} on")
    return "; ".join(parts)


def empty_themes(conn: DeadlineConnection, settings: Settings) -> list[str]:
    """Themes that the setting names and that hold no turns: misspelt ones among them."""
    return [name for name in policy_of(settings).names() if not old_rows.has_turns(conn, name)]
