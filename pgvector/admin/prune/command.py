"""The command prune."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...domain.dates import in_zone
from ...domain.format import format_bytes
from ...domain.theme import ROLES, ThemeRules
from ...store.connection import DeadlineConnection
from ..common.commands import Command, add_login, add_yes, argument, filled, positive, printed, read_or_not
from ..common.console import Column, say, say_line, show_table, warn
from ..common.database import database
from ..common.outcome import ADD_YES, Outcome, changed_by_others, counted, print_outcome
from ..common.row_options import THEME_CHOICE
from ..common.spool_copies import SpoolCopies, of_session
from ..common.stopped import said_if_stopped
from ..common.theme_names import ThemeChoice, require_session
from .pruning import PrunePlan, PruneRequest, Pruning, plan


def _prune(args: argparse.Namespace, home: Path) -> int:
    request = PruneRequest(
        ThemeChoice.of(args),
        older_than=args.older_than or "",
        keep_rows=args.keep_rows,
        max_mb=args.max_mb,
        roles=tuple(args.role),
        session_id=args.session,
        memories=args.memories,
    )
    request.check()
    with database(args, home) as (conn, _, rules):
        planned = plan(conn, request, rules)
        waiting = _not_stored_yet(home, planned, rules)
        _require_known(conn, planned, waiting)
        planned = replace(planned, notes=(*planned.notes, *waiting))
        meant = planned.outcome()
        if not args.yes:
            summary = ADD_YES if planned.parts else ""
            return print_outcome(args, meant, lambda: _show(planned), summary)
        if not args.json:
            with read_or_not():
                print_outcome(args, meant, lambda: _show(planned))
        pruning = Pruning(conn, planned)
        with said_if_stopped(lambda: f"{_deleted(pruning.deleted)} deleted; run it again to go on"):
            done = pruning.run()
    if (gone := sum(meant.counts.values()) - sum(done.counts.values()) - pruning.left.total()) > 0:
        warn(changed_by_others(gone))
    return printed(args, done.as_json(), lambda: _show_deleted(done, pruning.left))


def _require_known(conn: DeadlineConnection, planned: PrunePlan, waiting: Sequence[str]) -> None:
    """Raise InvalidArgument if nothing is known of the session that is named, not even in the spool."""
    session_id = planned.request.session_id
    if session_id and not planned.parts and not waiting:
        with conn.transaction():
            require_session(conn, session_id)


def _not_stored_yet(home: Path, planned: PrunePlan, rules: ThemeRules) -> list[str]:
    """Return notes on turns of the session that are in the spool, which become stored after this."""
    request = planned.request
    if request.session_id is None:
        return []
    themes = {name for given in request.themes.names for name in (given, rules.resolve_name(given))}
    found = [of_session(home, request.session_id, theme) for theme in themes or (None,)]
    copies = SpoolCopies(waiting=sum(each.waiting for each in found), untouched=found[0].untouched)
    return copies.notes_on_waiting("of this session", again="prune")


def _show_deleted(done: Outcome, left: Mapping[str, int]) -> None:
    if done.facts["themes"]:
        say(f"deleted: {_deleted(done.counts)}")
    if left:
        warn(f"{counted(left)} in use not deleted; run it again")
    if any(done.counts.values()):
        say(
            "new rows take the space once autovacuum has been over the tables; their files do not shrink by themselves",
            "dim",
        )


def _show(planned: PrunePlan) -> None:
    columns = [
        Column("theme", flexible=True),
        Column("turns", right=True),
        *([Column("memories", right=True)] if planned.request.memories else []),
        Column("size", right=True),
        Column("oldest_at", "oldest"),
        Column("newest_at", "newest"),
    ]
    rows = [row | {"size": format_bytes(row["bytes"])} for row in (part.row() for part in planned.parts)]
    show_table(columns, rows, empty="there is nothing to delete")
    for each in planned.examples:
        text = " ".join(each["content"].split())
        more = "..." if text[80:] else ""
        said = f"{each['theme']} {each['role']}: {text[:80]}{more}"
        say_line(f"e.g. {in_zone(each['at'], None):%Y-%m-%d} {said}", "dim")


def _deleted(counts: dict[str, int]) -> str:
    return counted(counts, also_none=True).replace(", ", " and ")


PRUNE = Command(
    "hermes-pgvector prune --theme marketing --older-than 180d\n"
    "hermes-pgvector prune --all-themes --older-than 2026-01-01 --keep-rows 1000 --yes\n"
    "hermes-pgvector prune --theme coder --role tool --older-than 30d --json\n"
    "hermes-pgvector prune --theme marketing --older-than 2024 --memories",
    _prune,
    [
        *THEME_CHOICE,
        argument("--older-than WHEN", "said before: 180d, 26w, 2026-01-01, 2026-05", type=filled),
        argument("--keep-rows N", "all but the newest N of each theme", type=positive, default=0),
        argument("--max-mb N", "all but the newest of each theme that fit into N MB", type=positive, default=0),
        argument("--role", "said by these; repeatable", action="append", default=[], choices=ROLES),
        argument("--session ID", "of this session", type=filled),
        argument("--memories", "also durable memories last confirmed before --older-than"),
        add_login,
        add_yes,
    ],
)
