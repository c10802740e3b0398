"""Deletion of old turns by an operator: previewed, done in short transactions, and logged."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ...capture.sanitize import session_name
from ...domain.dates import parse_when
from ...domain.errors import WrongUsage
from ...domain.theme import ROLES, ThemeRules
from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme, note_actor
from ...store.sql import query
from ..common import theme_rows
from ..common.fetching import one
from ..common.operators import clock, logged, operator
from ..common.outcome import Outcome, fit_for_json
from ..common.progress import progress
from ..common.repeat import held_back
from ..common.theme_names import ThemeChoice
from . import old_turns
from .old_turns import FIRST, Old

_query = partial(query, package=__package__)
_SLICE = 1000  # turns in one transaction
_MEMORIES = 200  # memories in one transaction, for which the agents' writes of memories wait
_EXAMPLES = 3
_ROUNDS = 10  # after which a turn that is always in use is left for the next run
_pause = threading.Event()


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """Which turns to delete: those of the themes that meet every given condition.

    `older_than` is a date or "180d"; `keep_rows` and `max_mb` spare the newest turns of each theme. With `memories`,
    those last confirmed before `older_than` are deleted too.
    """

    themes: ThemeChoice
    older_than: str = ""
    keep_rows: int = 0
    max_mb: int = 0
    roles: tuple[str, ...] = ()
    session_id: str | None = None
    memories: bool = False

    def check(self) -> None:
        """Raise WrongUsage if no condition is given by which turns would be chosen."""
        if not (self.older_than or self._narrower()):
            raise WrongUsage(
                "say which turns are to go: --older-than, --keep-rows, --max-mb, --role or --session; "
                "everything of a theme: hermes-pgvector themes delete THEME"
            )
        if self.memories and not self._by_age_alone():
            raise WrongUsage("--memories goes with --older-than alone: memories have neither roles nor sessions")

    def _narrower(self) -> bool:
        return bool(self.keep_rows or self.max_mb or self.roles or self.session_id)

    def _by_age_alone(self) -> bool:
        return bool(self.older_than) and not self._narrower()

    def arguments(self) -> dict[str, Any]:
        """Return the request as it is written to the log."""
        given = asdict(self) | {"roles": list(self.roles)}
        del given["themes"]
        return {"theme": str(self.themes)} | {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class ThemePart:
    """The rows to delete in one theme. `memories` is None if they were not asked for."""

    old: old_turns.Old
    turns: PrunableRows
    memories: PrunableRows | None = None

    def row(self) -> dict[str, Any]:
        """Return the numbers by name; the times are not yet fit for JSON."""
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
class PrunePlan:
    """A request resolved for now. `before` is the time that `older_than` stands for."""

    request: PruneRequest
    before: datetime | None
    parts: tuple[ThemePart, ...]
    examples: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]

    def totals(self) -> dict[str, int]:
        """Return the numbers of rows and bytes over all themes."""
        rows = [part.row() for part in self.parts]
        names = ("turns", "memories", "bytes") if self.request.memories else ("turns", "bytes")
        return {name: sum(row[name] for row in rows) for name in names}

    def outcome(self, deleted: dict[str, int] | None = None, left: int = 0) -> Outcome:
        """Return the plan for printing; `deleted` counts deleted rows, `left` those that were in use and stay."""
        totals = self.totals()
        facts = {
            "before": None if self.before is None else self.before.isoformat(),
            "themes": [fit_for_json(part.row()) for part in self.parts],
            **totals,
            "examples": [fit_for_json(each) for each in self.examples],
        }
        meant = {name: count for name, count in totals.items() if name != "bytes"}
        if deleted is None:
            return Outcome("prune", False, meant, facts=facts, notes=list(self.notes))
        return Outcome("prune", True, deleted, facts=facts | {"deleted": deleted, "left": left}, notes=list(self.notes))


def plan(conn: DeadlineConnection, request: PruneRequest, rules: ThemeRules) -> PrunePlan:
    """Determine what a request would delete; change nothing. Raises InvalidArgument for an impossible request."""
    request.check()
    if request.session_id:
        request = replace(request, session_id=session_name(request.session_id, rules.identity_key))
    with conn.transaction():
        theme_rows.begin_reading(conn)
        now, may_record = clock(conn)
        before = _moment(request, now)
        parts, in_files = [], 0
        for theme in request.themes.held(conn, rules):
            part, held = _part(conn, request, theme, before)
            in_files += held
            if part.turns.rows or (part.memories is not None and part.memories.rows):
                parts.append(part)
        examples = [each for part in parts for each in _examples(conn, part, before)]
    return PrunePlan(request, before, tuple(parts), tuple(examples[:_EXAMPLES]), tuple(_notes(in_files, may_record)))


def _moment(request: PruneRequest, now: datetime) -> datetime | None:
    before = parse_when(request.older_than, "--older-than", zone=None, now=now)
    if before is not None and before > now:
        raise WrongUsage(
            f"--older-than {request.older_than} lies in the future; everything of a theme: "
            "hermes-pgvector themes delete THEME"
        )
    return before


def _notes(in_files: int, may_record: bool) -> Iterator[str]:
    if in_files:
        yield theme_rows.note_of_files(in_files)
    if not may_record:
        yield "this role may not write to the log of what was done"


def _part(
    conn: DeadlineConnection, request: PruneRequest, theme: str, before: datetime | None
) -> tuple[ThemePart, int]:
    """Return what to delete in a theme, and how many of its memories are in memory files."""
    every = old_turns.Old(theme, roles=request.roles or ROLES, session_id=request.session_id)
    # The newest turns are determined among all turns, not only among the old ones.
    old = without_newest(conn, every, rows=request.keep_rows, bytes=request.max_mb * 1_000_000)
    if before is not None:
        old = replace(old, before=min(old.before, (before, 0)))
    turns = count_turns(conn, old)
    if not request.memories or before is None:
        return ThemePart(old, turns), 0
    memories, in_files = count_memories(conn, theme, before)
    return ThemePart(old, turns, memories), in_files


def _examples(conn: DeadlineConnection, part: ThemePart, before: datetime | None) -> Iterator[dict[str, Any]]:
    yield from oldest_turns(conn, part.old, _EXAMPLES)
    if part.memories is not None and before is not None:
        yield from oldest_memories(conn, part.old.theme, before, _EXAMPLES)


@dataclass
class Pruning:
    """A plan being carried out. A killed or interrupted run leaves complete transactions, and can be repeated."""

    conn: DeadlineConnection
    plan: PrunePlan
    deleted: dict[str, int] = field(default_factory=lambda: {"turns": 0})
    left: Counter[str] = field(default_factory=Counter)  # rows that somebody else was using all the time

    def run(self) -> Outcome:
        """Delete the planned rows, and nothing that was stored since."""
        plan = self.plan
        if plan.request.memories:
            self.deleted["memories"] = 0
        meant = plan.outcome().counts
        if any(meant.values()):
            self._delete_all(meant)
        return plan.outcome(self.deleted, self.left.total())

    def _delete_all(self, meant: dict[str, int]) -> None:
        with (
            logged(self.conn, "prune", self.plan.request.arguments(), self.deleted, meant),
            progress("deleted", sum(meant.values())) as advance,
        ):
            for part in self.plan.parts:
                self._delete_turns(part, advance)
                self._delete_memories(part, advance)

    def _delete_turns(self, part: ThemePart, advance: Callable[[int], None]) -> None:
        """Delete a theme's turns, and count what each transaction has deleted. Turns in use are tried again."""
        for number in range(_ROUNDS):
            at, left, seen = old_turns.FIRST, 0, _SLICE
            while seen == _SLICE:
                with held_back():
                    with self.conn.transaction():
                        theme_rows.begin(self.conn)
                        walk_timeline(self.conn)
                        some = old_turns.prune_turns(self.conn, part.old, at, _SLICE)
                    self.deleted["turns"] += some.deleted
                at, seen, left = some.last, some.seen, left + some.meant - some.deleted
                advance(some.deleted)
            if not left:
                return
            if number == _ROUNDS - 1:
                self.left["turns"] += left
            _pause.wait(0.1 * number)

    def _delete_memories(self, part: ThemePart, advance: Callable[[int], None]) -> None:
        """Delete a theme's memories in the way of `_delete_turns`."""
        before = self.plan.before
        if part.memories is None or before is None:
            return
        for number in range(_ROUNDS):
            count = left = 1
            while count:
                with held_back():
                    with self.conn.transaction():
                        theme_rows.begin(self.conn)
                        note_actor(self.conn, operator("prune"))
                        count = prune_memories(self.conn, part.old.theme, before, _MEMORIES)
                        left = 0 if count else count_memories(self.conn, part.old.theme, before)[0].rows
                    self.deleted["memories"] += count
                advance(count)
            if not left:
                return
            if number == _ROUNDS - 1:
                self.left["memories"] += left
            _pause.wait(0.1 * number)


@dataclass(frozen=True, slots=True)
class PrunableRows:
    """The number of rows, their bytes in the table, and when the oldest and the newest of them were written."""

    rows: int
    bytes: int
    oldest_at: datetime | None
    newest_at: datetime | None


def count_turns(conn: DeadlineConnection, old: Old) -> PrunableRows:
    """Return the rows that `prune_turns` would delete."""
    row = one(conn, _query("prunable_turns"), old.row(), anew=True)
    return PrunableRows(row.turns, row.bytes, row.oldest_at, row.newest_at)


def oldest_turns(conn: DeadlineConnection, old: Old, limit: int) -> list[dict[str, Any]]:
    """Return the first turns that would be deleted: theme, at, role, and the beginning of their content."""
    rows = conn.execute(_query("oldest_prunable_turns"), old.row() | {"limit": limit}, prepare=False)
    return [row._asdict() for row in rows]


def without_newest(conn: DeadlineConnection, old: Old, *, rows: int = 0, bytes: int = 0) -> Old:
    """Return `old` without the newest `rows` turns, and without the newest turns that fit into `bytes`."""
    for statement, most in (("newest_turns_by_number", rows), ("newest_turns_by_bytes", bytes)):
        if most:
            first = conn.execute(_query(statement), old.row() | {"most": most}, prepare=False).fetchone()
            old = replace(old, before=min(old.before, (first.ts, first.id) if first is not None else FIRST))
    return old


def walk_timeline(conn: DeadlineConnection) -> None:
    """Make `prune_turns` use the index on a theme's timeline until the transaction ends, as a pool's connections do."""
    conn.execute(_query("walk_timeline"))


def count_memories(conn: DeadlineConnection, theme: str, before: datetime) -> tuple[PrunableRows, int]:
    """Return the rows that `prune_memories` would delete, and how many of these a memory file held when last read."""
    row = one(conn, _query("prunable_memories"), {"theme": theme, "before_at": before}, anew=True)
    return PrunableRows(row.memories, row.bytes, row.oldest_at, row.newest_at), row.in_files


def oldest_memories(conn: DeadlineConnection, theme: str, before: datetime, limit: int) -> list[dict[str, Any]]:
    """Return the first memories that would be deleted, as `oldest_turns` does; their role is their target."""
    asked = {"theme": theme, "before_at": before, "limit": limit}
    return [row._asdict() for row in conn.execute(_query("oldest_prunable_memories"), asked)]


def prune_memories(conn: DeadlineConnection, theme: str, before: datetime, limit: int) -> int:
    """Forget at most `limit` memories of a theme that were last confirmed before `before`; return how many."""
    lock_theme(conn, theme)
    asked = {"theme": theme, "before_at": before, "limit": limit}
    ids = [row.id for row in conn.execute(_query("prunable_memory_ids"), asked)]
    if ids:
        gone = {"theme": theme, "ids": ids, "at": datetime.now(UTC)}
        conn.execute(query("forget_memories"), gone)
    return len(ids)
