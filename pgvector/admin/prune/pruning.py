"""Old turns deleted by an operator: looked at before, done in short transactions, logged."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ...domain.dates import parse_when
from ...domain.errors import WrongUsage
from ...domain.retention_policy import ROLES
from ...domain.theme import ThemeRules
from ...store import old_turns as store
from ...store.audit_log import operator, record
from ...store.connection import DeadlineConnection
from ...store.history import note_actor
from ..common import old_rows
from ..common import theme_rows as all_themes
from ..common.progress import progress
from ..themes.theme_changes import existing, fit_for_json

_SLICE = 1000  # turns of one transaction
_MEMORIES = 200  # memories of one transaction: the agents' writes of memories wait for it
_EXAMPLES = 3
_ROUNDS = 10  # after which a turn that is always in use is left for the next time
_pause = threading.Event()


@dataclass(frozen=True, slots=True)
class Wish:
    """Which turns are to go: of the themes, those for which everything holds that is given.

    `older_than` is a date or "180d"; `keep_rows` and `max_mb` leave the newest ones of each theme. With `memories`
    those that were last confirmed before `older_than` go as well.
    """

    themes: tuple[str, ...] = ()
    every_theme: bool = False
    older_than: str = ""
    keep_rows: int = 0
    max_mb: int = 0
    roles: tuple[str, ...] = ()
    session_id: str | None = None
    memories: bool = False

    def check(self) -> None:
        """Raises WrongUsage for a wish that names no theme, or nothing by which turns would be chosen."""
        if self.every_theme == bool(self.themes):
            raise WrongUsage("name the themes with --theme, or all of them with --all-themes, not both")
        if not (self.older_than or self.keep_rows or self.max_mb or self.roles or self.session_id):
            raise WrongUsage(
                "say which turns are to go: --older-than, --keep-rows, --max-mb, --role or --session; "
                "everything of a theme: hermes-pgvector themes delete THEME"
            )
        if self.memories and (not self.older_than or self.keep_rows or self.max_mb or self.roles or self.session_id):
            raise WrongUsage("--memories goes with --older-than alone: memories have neither roles nor sessions")

    def arguments(self) -> dict[str, Any]:
        """The wish as it stands in the log."""
        given = {
            "theme": "*" if self.every_theme else ", ".join(self.themes),
            "older_than": self.older_than,
            "keep_rows": self.keep_rows,
            "max_mb": self.max_mb,
            "roles": list(self.roles),
            "session_id": self.session_id,
            "memories": self.memories,
        }
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class Share:
    """What goes of one theme. `memories` is None where they are not asked for."""

    old: store.Old
    turns: old_rows.Count
    memories: old_rows.Count | None = None

    def row(self) -> dict[str, Any]:
        """The share by names; its times are not yet fit for JSON."""
        counts = [self.turns, *([self.memories] if self.memories is not None else [])]
        times = [at for count in counts for at in (count.oldest_at, count.newest_at) if at is not None]
        return {
            "theme": self.old.theme,
            "turns": self.turns.rows,
            **({} if self.memories is None else {"memories": self.memories.rows}),
            "bytes": sum(count.bytes for count in counts),
            "oldest_at": min(times, default=None),
            "newest_at": max(times, default=None),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What a wish means now. `before` is the moment that `older_than` means."""

    wish: Wish
    before: datetime | None
    shares: tuple[Share, ...]
    examples: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    logged: bool

    def totals(self) -> dict[str, int]:
        """Rows and bytes over all themes."""
        rows = [share.row() for share in self.shares]
        names = ("turns", "memories", "bytes") if self.wish.memories else ("turns", "bytes")
        return {name: sum(row[name] for row in rows) for name in names}

    def as_json(self, done: dict[str, int] | None = None) -> dict[str, Any]:
        """The plan for machines; `done` counts what was deleted."""
        return {
            "done": done is not None,
            "before": None if self.before is None else self.before.isoformat(),
            "themes": [fit_for_json(share.row()) for share in self.shares],
            **self.totals(),
            **({} if done is None else {"deleted": done}),
            "examples": [fit_for_json(each) for each in self.examples],
            "notes": list(self.notes),
        }


def plan(conn: DeadlineConnection, wish: Wish, rules: ThemeRules) -> Plan:
    """Find out what a wish means; changes nothing. Raises InvalidArgument for what cannot be meant."""
    wish.check()
    with conn.transaction():
        all_themes.begin_reading(conn)
        now, may_record = store.clock(conn)
        before = parse_when(wish.older_than, "--older-than", now=now)
        if before is not None and before > now:
            raise WrongUsage(
                f"--older-than {wish.older_than} lies in the future; everything of a theme: "
                "hermes-pgvector themes delete THEME"
            )
        names = _every_theme(conn) if wish.every_theme else [existing(conn, name, rules)[0] for name in wish.themes]
        shares, in_files = [], 0
        for theme in dict.fromkeys(names):
            share, held = _share(conn, wish, theme, before)
            in_files += held
            if share.turns.rows or (share.memories is not None and share.memories.rows):
                shares.append(share)
        examples = [each for share in shares for each in _examples(conn, share, before)]
    notes = []
    if in_files:
        notes.append(
            f"{in_files} of the memories also stood in a MEMORY.md or USER.md when it was last read; they are not read "
            "in again, and stay in the prompts of that profile until they are removed there"
        )
    if not may_record:
        notes.append("this role may not write to the log of what was done")
    return Plan(wish, before, tuple(shares), tuple(examples[:_EXAMPLES]), tuple(notes), may_record)


def _share(conn: DeadlineConnection, wish: Wish, theme: str, before: datetime | None) -> tuple[Share, int]:
    """What goes of a theme, and how many memories of that stand in files."""
    old = store.Old(theme, roles=wish.roles or ROLES, session_id=wish.session_id)
    if before is not None:
        old = replace(old, before=(before, 0))
    # The newest are chosen among all turns, not only among the old ones.
    spared = old_rows.newest(
        conn, replace(old, before=store.LAST), rows=wish.keep_rows, bytes=wish.max_mb * 1_000_000
    ).before
    old = replace(old, before=min(old.before, spared))
    turns = old_rows.count_turns(conn, old)
    if not wish.memories or before is None:
        return Share(old, turns), 0
    memories, in_files = old_rows.count_memories(conn, theme, before)
    return Share(old, turns, memories), in_files


def _examples(conn: DeadlineConnection, share: Share, before: datetime | None) -> Iterator[dict[str, Any]]:
    yield from old_rows.oldest_turns(conn, share.old, _EXAMPLES)
    if share.memories is not None and before is not None:
        yield from old_rows.oldest_memories(conn, share.old.theme, before, _EXAMPLES)


def _every_theme(conn: DeadlineConnection) -> list[str]:
    return [str(row["theme"]) for row in all_themes.every_theme(conn)]


@dataclass
class Pruning:
    """A plan that is being carried out. Killed or interrupted it leaves whole transactions, and can be run again."""

    conn: DeadlineConnection
    plan: Plan
    deleted: dict[str, int] = field(default_factory=lambda: {"turns": 0})
    left: int = 0  # turns that somebody else was using all the time

    def run(self) -> dict[str, int]:
        """Delete what the plan means, and nothing that has come since; returns the counts."""
        plan = self.plan
        if plan.wish.memories:
            self.deleted["memories"] = 0
        meant = {name: count for name, count in plan.totals().items() if name != "bytes"}
        if not any(meant.values()):
            return self.deleted
        state = "interrupted"
        self._record("begun", meant)
        try:
            with progress("deleted", sum(meant.values())) as advance:
                for share in plan.shares:
                    for name, count in self._delete(share):
                        self.deleted[name] += count
                        advance(count)
            state = "done"
        finally:
            if not self.conn.closed:
                self._record(state, self.deleted)
        return self.deleted

    def _delete(self, share: Share) -> Iterator[tuple[str, int]]:
        """Delete a theme's share, each transaction of at most so many rows; yields what each has deleted."""
        for number in range(_ROUNDS):
            at, left, seen = store.FIRST, 0, _SLICE
            while seen == _SLICE:
                with self.conn.transaction():
                    all_themes.begin(self.conn)
                    old_rows.walk_timeline(self.conn)
                    some = store.prune_turns(self.conn, share.old, at, _SLICE)
                at, seen, left = some.last, some.seen, left + some.meant - some.deleted
                yield "turns", some.deleted
            if not left:
                break
            if number == _ROUNDS - 1:
                self.left += left
            _pause.wait(0.1 * number)
        before = self.plan.before
        while share.memories is not None and before is not None:
            with self.conn.transaction():
                all_themes.begin(self.conn)
                note_actor(self.conn, operator("prune"))
                count = old_rows.prune_memories(self.conn, share.old.theme, before, _MEMORIES)
            if not count:
                return
            yield "memories", count

    def _record(self, state: str, counts: dict[str, int]) -> None:
        if self.plan.logged:
            with self.conn.transaction():
                record(self.conn, "prune", self.plan.wish.arguments() | {"state": state}, counts)


def advice(deleted: int) -> Sequence[str]:
    """What there is to know of the space that so many deleted rows took."""
    if not deleted:
        return ()
    return (
        "new rows take the space once autovacuum has been over the tables; their files do not shrink by themselves",
    )
