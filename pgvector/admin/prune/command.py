"""prune."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.commands import (
    EXIT_OK,
    Command,
    add_json,
    add_login,
    add_yes,
    connection,
    positive,
    settings_of,
)
from ..common.console import Column, say, show_table, warn
from ..common.outcome import ADD_YES, Outcome, counted, print_outcome

if TYPE_CHECKING:
    from .pruning import PrunePlan

_ROLES = ("user", "assistant", "system", "tool")


def _prune_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--theme", action="append", default=[], metavar="THEME", help="of this theme; repeatable")
    command.add_argument("--all-themes", action="store_true", help="of every theme")
    command.add_argument("--older-than", default="", metavar="WHEN", help="said before: 180d, 26w, 2026-01-01, 2026-05")
    command.add_argument(
        "--keep-rows", type=positive, default=0, metavar="N", help="all but the newest N of each theme"
    )
    command.add_argument(
        "--max-mb", type=positive, default=0, metavar="N", help="all but the newest of each theme that fit into N MB"
    )
    command.add_argument("--role", action="append", default=[], choices=_ROLES, help="said by these; repeatable")
    command.add_argument("--session", metavar="ID", help="of this session")
    command.add_argument(
        "--memories", action="store_true", help="also durable memories last confirmed before --older-than"
    )
    add_login(command)
    add_yes(command)
    add_json(command)


def _prune(args: argparse.Namespace, home: Path) -> int:
    from ...capture.sanitize import session_name
    from ...host.session_context import Policy
    from .pruning import PruneRequest, Pruning, plan

    settings = settings_of(home)
    request = PruneRequest(
        themes=tuple(args.theme),
        every_theme=args.all_themes,
        older_than=args.older_than,
        keep_rows=args.keep_rows,
        max_mb=args.max_mb,
        roles=tuple(args.role),
        session_id=session_name(args.session, settings.identity_key) if args.session else None,
        memories=args.memories,
    )
    request.check()
    with connection(settings, args.admin_dsn) as conn:
        planned = plan(conn, request, Policy.of(settings).rules)
        meant = planned.outcome()
        if not args.yes:
            return print_outcome(
                meant,
                as_json=args.json,
                before=lambda: _show(planned),
                summary=ADD_YES if planned.parts else "",
            )
        if not args.json:
            print_outcome(meant, as_json=False, before=lambda: _show(planned))
        pruning = Pruning(conn, planned)
        try:
            done = pruning.run()
        except KeyboardInterrupt:
            warn(f"interrupted: {_deleted(pruning.deleted)} deleted; run it again to go on")
            raise
    if args.json:
        return print_outcome(done, as_json=True)
    _show_deleted(done, pruning.left)
    return EXIT_OK


def _show_deleted(done: Outcome, left: int) -> None:
    if done.facts["themes"]:
        say(f"deleted: {_deleted(done.counts)}")
    if left:
        warn(f"{counted({'turns': left})} in use not deleted; run it again")
    if any(done.counts.values()):
        say(
            "new rows take the space once autovacuum has been over the tables; their files do not shrink by themselves",
            "dim",
        )


def _show(planned: PrunePlan) -> None:
    from ...domain.format import format_bytes

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
        say(f"e.g. {each['at'].astimezone():%Y-%m-%d} {each['theme']} {each['role']}: {text[:80]}{more}", "dim")


def _deleted(counts: dict[str, int]) -> str:
    return counted(counts, also_none=True).replace(", ", " and ")


PRUNE = Command(
    "prune",
    "delete old turns, by age, theme, role, number or size",
    "hermes-pgvector prune --theme marketing --older-than 180d\n"
    "hermes-pgvector prune --all-themes --older-than 2026-01-01 --keep-rows 1000 --yes\n"
    "hermes-pgvector prune --theme coder --role tool --older-than 30d --json\n"
    "hermes-pgvector prune --theme marketing --older-than 2024 --memories",
    _prune,
    _prune_arguments,
)
