"""What hosts show to users of a recall before their message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecallStatus:
    """How much was put before a message, in the form in which hosts show it to users."""

    provider_label: str
    count: int
    glyph: str = "🧠"
