"""Permanent deletion of memories that were superseded or archived, or have expired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from ...domain.dates import parse_when
from ...domain.errors import HermesPgvectorError, InvalidArgument, WrongUsage
from ...domain.theme import ThemeRules
from ...store.backend import WRITE_TIMEOUT_S
from ...store.connection import DeadlineConnection
from ...store.memories import Entry, forget, lock_theme
from ...store.sql import query
from ..common.command_context import CommandContext
from ..common.operators import clock, operator, record_where_allowed
from ..common.outcome import Outcome
from ..common.refs import Ref
from ..common.repeat import held_back
from ..common.spool_copies import drop_copies
from ..common.theme_names import ThemeChoice

_query = partial(query, package=__package__)
_SLICE = 200
_SHOWN = 20  # of the rows to delete


@dataclass
class Purging:
    """Deletes superseded, archived and expired memories with their texts in the history; can be resumed by another run.

    `older_than`: only memories hidden before that date, or for so long ("90d"). A deleted text is not read in again
    from a MEMORY.md or USER.md that still holds it. `done` tells the progress.
    """

    context: CommandContext
    choice: ThemeChoice
    older_than: str
    rules: ThemeRules
    really: bool
    done: Outcome = field(init=False)
    _before: datetime | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.done = Outcome("purge", self.really, {"memories": 0}, facts={"themes": {}})

    def run(self) -> Outcome:
        """Delete the memories if `really`, and log what was deleted, even if interrupted. Raises InvalidArgument."""
        with self.context.backend.connection(WRITE_TIMEOUT_S) as conn:
            self._before = _cutoff(conn, self.older_than)
            themes = self.choice.held(conn, self.rules)
        if not self.really:
            self._purge_all(themes)
            return self.done
        meant = replace(self, really=False).run()
        if not meant.counts["memories"]:
            return self.done
        try:
            self._record("begun", meant)
            self._purge_all(themes)
        except (KeyboardInterrupt, HermesPgvectorError):
            with suppress(HermesPgvectorError):  # the first error is the one to report
                self._record("interrupted", self.done)
            raise
        self._record("done", self.done)
        return self.done

    def _purge_all(self, themes: Iterable[str]) -> None:
        for theme in themes:
            slices = _slices(self.context, theme, self._before, really=self.really)
            while self._next_purged(theme, slices):
                pass

    def _next_purged(self, theme: str, slices: Iterator[Sequence[Any]]) -> bool:
        """Take and count the next of the slices; return False if there is none."""
        done = self.done
        with held_back():
            rows = next(slices, ())
            for row in rows:
                counts = done.facts["themes"].setdefault(theme, {})
                counts[row.state] = counts.get(row.state, 0) + 1
            done.counts["memories"] += len(rows)
            done.rows += [_shown(theme, row) for row in rows[: _SHOWN - len(done.rows)]]
            if self.really:
                copies = drop_copies(self.context.home, [(theme, row.content) for row in rows])
                notes = copies.notes_on_untouched("of the same texts")
                done.notes += [note for note in notes if note not in done.notes]
        return bool(rows)

    def _record(self, state: str, what: Outcome) -> None:
        asked = {
            "theme": ", ".join(what.facts["themes"]),
            "before": self._before and self._before.isoformat(),
            "state": state,
        }
        with held_back(), self.context.backend.connection(WRITE_TIMEOUT_S) as conn:
            record_where_allowed(conn, "purge", asked, what.counts)


def _cutoff(conn: DeadlineConnection, older_than: str) -> datetime | None:
    """Return the time that `older_than` stands for by the server's clock, which says since when memories are hidden."""
    now, _ = clock(conn)
    before = parse_when(older_than, "--older-than", zone=None, now=now)
    if before is not None and before > now:
        raise WrongUsage(f"--older-than {older_than} lies in the future; leave it out for all of them")
    return before


def _slices(context: CommandContext, theme: str, before: datetime | None, *, really: bool) -> Iterator[Sequence[Any]]:
    """Yield the memories of a theme, a slice at a time; if `really`, each is deleted before it is yielded."""
    after = 0
    in_files, origin = context.in_files()
    while True:
        with context.backend.connection(WRITE_TIMEOUT_S) as conn:
            if really:
                lock_theme(conn, theme)  # so that nobody restores one of them meanwhile
            asked = {"theme": theme, "before": before, "after": after, "limit": _SLICE}
            rows = conn.execute(_query("purgeable_memories"), asked).fetchall()
            entries = [Entry(row.id, row.target, row.content, row.at, len(row.content)) for row in rows]
            if really and rows and not forget(conn, theme, entries, in_files, origin, operator("purge")):
                raise InvalidArgument("a memory was changed by somebody else just now: run it again to go on")
        if not rows:
            return
        yield rows
        after = rows[-1].id


def _shown(theme: str, row: Any) -> dict[str, Any]:
    said = {"state": row.state, "kind": row.kind, "subject": row.subject}
    return {
        "ref": str(Ref("memories", row.id)),
        "id": row.id,
        "theme": theme,
        "target": row.target,
        **{name: value for name, value in said.items() if value is not None},
        "hidden_at": row.hidden_at.isoformat(),
        "content": row.content,
    }
