"""Memories that something has taken the place of, that were put away or have expired, deleted for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from ...domain.errors import InvalidArgument
from ...domain.theme import ThemeRules
from ...store.backend import WRITE_TIMEOUT_S
from ...store.memories import Entry, forget, lock_theme
from ...store.sql import query
from ..common.command_context import CommandContext
from ..common.operators import operator, record_where_allowed
from ..common.outcome import Outcome
from ..common.refs import Ref
from ..common.spool_views import drop_copies
from ..common.theme_names import ThemeChoice

_query = partial(query, package=__package__)
_SLICE = 200
_SHOWN = 20  # of what goes


def purge(
    context: CommandContext, choice: ThemeChoice, before: datetime | None, rules: ThemeRules, *, really: bool
) -> Outcome:
    """Delete superseded, archived and expired memories with their history's texts; interrupted, run it again.

    `before`: only what was hidden before then. What is deleted is not read in again from a MEMORY.md or USER.md that
    still holds it.
    """
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        themes = choice.held(conn, rules)
    done = Outcome("purge", really, {"memories": 0}, facts={"themes": {}})
    for theme in themes:
        counts: Counter[str] = Counter()
        for rows in _slices(context, theme, before, really=really):
            counts.update(row.state for row in rows)
            done.rows += [_shown(theme, row) for row in rows[: _SHOWN - len(done.rows)]]
        if counts:
            done.facts["themes"][theme] = dict(counts)
            done.counts["memories"] += counts.total()
    if really and done.counts["memories"]:
        asked = {
            "theme": ", ".join(done.facts["themes"]),
            "before": before and before.isoformat(),
        }
        with context.backend.connection(WRITE_TIMEOUT_S) as conn:
            record_where_allowed(conn, "purge", asked, done.counts)
    return done


def _slices(context: CommandContext, theme: str, before: datetime | None, *, really: bool) -> Iterator[Sequence[Any]]:
    """Yield what is meant of a theme, a slice at a time, deleted by then if `really`."""
    after = 0
    in_files, origin = context.in_files()
    while True:
        with context.backend.connection(WRITE_TIMEOUT_S) as conn:
            if really:
                lock_theme(conn, theme)  # nobody brings one of them back meanwhile
            asked = {"theme": theme, "before": before, "after": after, "limit": _SLICE}
            rows = conn.execute(_query("purgeable_memories"), asked).fetchall()
            entries = [Entry(row.id, row.target, row.content, row.at, len(row.content)) for row in rows]
            if really and rows and not forget(conn, theme, entries, in_files, origin, operator("purge")):
                raise InvalidArgument("a memory was changed by somebody else just now: run it again to go on")
        if not rows:
            return
        if really:
            drop_copies(context.home, [(theme, row.content) for row in rows])
        yield rows
        after = rows[-1].id


def _shown(theme: str, row: Any) -> dict[str, Any]:
    said = {"state": row.state, "kind": row.kind, "subject": row.subject}
    return {
        "ref": str(Ref("memories", row.id)),
        "theme": theme,
        **{name: value for name, value in said.items() if value is not None},
        "hidden_at": row.hidden_at.isoformat(timespec="seconds"),
        "content": row.content,
    }
