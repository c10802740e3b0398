"""The additions of `status --verbose`: episodes, facts and vectors, counted one by one, in total and by theme."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...domain.format import local_minute, plural
from ...domain.text import harmless
from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from ..common.outcome import counted
from ..common.row_security import has_own_themes

_query = partial(query, package=__package__)
_COUNTS = (
    "episodes", "compacted", "turns", "facts", "procedures", "reflections", "superseded", "archived", "expired",
    "vectors",
)  # fmt: skip


def detail(conn: DeadlineConnection) -> dict[str, Any]:
    """Return the counts in total and by theme, and the times of the last vacuum and compaction (None: not known)."""
    with translated():
        themes: dict[str, dict[str, int]] = {}
        for statement in ("count_facts", "count_episodes"):
            for row in conn.execute(_query(statement)):
                known = themes.setdefault(row.theme, dict.fromkeys(_COUNTS, 0))
                for name, count in row._asdict().items():
                    if name != "theme":
                        known[name] += count
        vacuumed = conn.execute(_query("last_vacuum")).fetchone()
        # A role confined to some themes may not read the log.
        compacted = None if has_own_themes(conn) else conn.execute(_query("last_compression")).fetchone()
    totals = {name: sum(each[name] for each in themes.values()) for name in _COUNTS}
    return totals | {
        "last_vacuum": _iso(vacuumed),
        "last_compression": _iso(compacted),
        "themes": [{"theme": name} | themes[name] for name in sorted(themes)],
    }


def detail_lines(known: Mapping[str, Any]) -> list[str]:
    """Return the result of `detail` as lines for people."""
    lines = [
        f"episodes   {_episodes(known)}",
        f"facts      {_facts(known)}",
        f"vectors    {known['vectors']:,} whole ones; last vacuum {_moment(known['last_vacuum'])}, last compact "
        f"{_moment(known['last_compression'])}",
    ]
    of_themes = (f"theme      {each['theme']}: {_episodes(each)}; {_facts(each)}" for each in known["themes"])
    return lines + list(map(harmless, of_themes))


def _episodes(known: Mapping[str, Any]) -> str:
    kept = f"{known['episodes'] - known['compacted']:,} raw, {known['compacted']:,} compacted"
    return f"{plural(known['episodes'], 'episode')} ({kept}) of {plural(known['turns'], 'turn')}"


def _facts(known: Mapping[str, Any]) -> str:
    told = counted({name: known[name] for name in ("facts", "procedures", "reflections")}, also_none=True)
    hidden = [f"{known[name]:,} {name}" for name in ("superseded", "archived", "expired") if known[name]]
    return "; ".join([told, *([", ".join(hidden)] if hidden else [])])


def _moment(at: str | None) -> str:
    return "unknown" if at is None else local_minute(at)


def _iso(row: Any) -> str | None:
    return None if row is None or row.at is None else str(row.at.isoformat(timespec="seconds"))
