"""How full the hot blocks are, and what was left out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ...config.settings import Settings
from ...domain.theme import Languages
from ...recall.hot import HotLimits, ask_facts, read_hot
from ...store.connection import DeadlineConnection, translated
from ...store.pipeline import Pipeline
from ...store.sql import query
from ..common.fetching import where_spread
from ..common.outcome import counted

_query = partial(query, package=__package__)
_THEMES_MOST = 100  # to examine, in the order of their names
_THEMES_SHOWN = 5  # the fullest ones


def hot_themes(conn: DeadlineConnection, settings: Settings) -> list[dict[str, Any]]:
    """Return the hot block that a new session would get now, for each theme with pinned or structured memories."""
    limits = HotLimits.of(settings)
    if not limits.tokens:
        return []
    languages = Languages(settings.text_language, settings.text_languages)
    with translated():
        found = conn.execute(_query(where_spread(conn, "hot_themes")), {"limit": _THEMES_MOST})
        names = [row.theme for row in found]
        pipe = Pipeline(conn)
        asked = {name: ask_facts(pipe, name) for name in names}
        blocks = {name: read_hot(pipe, rows, name, languages.of(name), limits) for name, rows in asked.items()}
    return [
        {
            "theme": name,
            "tokens": block.tokens,
            "of_tokens": limits.tokens,
            "lines": len(block.lines),
            "pressure": round(block.pressure, 2),
            "merged": block.merged,
            "cooled": list(block.cooled),
            "cold": list(block.cold),
        }
        for name, block in blocks.items()
        if block.pressure
    ]


def hot_lines(themes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fullest blocks as lines for people."""
    fullest = sorted(themes, key=lambda each: (-each["pressure"], each["theme"]))
    lines = [f"hot        {_told(each)}" for each in fullest[:_THEMES_SHOWN]]
    if left := len(fullest) - len(lines):
        lines.append(f"           and {counted({'themes': left})} more with less: status --json")
    return lines


def _told(hot: Mapping[str, Any]) -> str:
    became = {"merged": hot["merged"], "left with cooled scopes": len(hot["cooled"]), "went cold": len(hot["cold"])}
    left_out = ", ".join(f"{count} {what}" for what, count in became.items() if count)
    size = f"{hot['tokens']} of {hot['of_tokens']} tokens in {counted({'lines': hot['lines']}, also_none=True)}"
    return f"{hot['theme']}: {size}, pressure {hot['pressure']:.0%}" + (f"; {left_out}" if left_out else "")
