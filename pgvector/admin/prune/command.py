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
    print_json,
    settings_of,
)
from ..common.console import Column, say, show_table, warn

if TYPE_CHECKING:
    from .pruning import Plan

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
    from .pruning import Pruning, Wish, advice, plan

    settings = settings_of(home)
    wish = Wish(
        themes=tuple(args.theme),
        every_theme=args.all_themes,
        older_than=args.older_than,
        keep_rows=args.keep_rows,
        max_mb=args.max_mb,
        roles=tuple(args.role),
        session_id=session_name(args.session, settings.identity_key) if args.session else None,
        memories=args.memories,
    )
    wish.check()
    with connection(settings, args.admin_dsn) as conn:
        planned = plan(conn, wish, Policy.of(settings).rules)
        if not args.json:
            _show(planned)
        if not args.yes:
            if args.json:
                print_json(planned.as_json())
            elif planned.shares:
                say("nothing was changed: add --yes")
            return EXIT_OK
        pruning = Pruning(conn, planned)
        try:
            done = pruning.run()
        except KeyboardInterrupt:
            warn(f"interrupted: {_counted(pruning.deleted)} deleted; run it again to go on")
            raise
    if args.json:
        print_json(planned.as_json(done) | {"left": pruning.left})
        return EXIT_OK
    if planned.shares:
        say(f"deleted: {_counted(done)}")
    if pruning.left:
        warn(f"{pruning.left:,} turns were in use and stay; run it again")
    for line in advice(sum(done.values())):
        say(line, "dim")
    return EXIT_OK


def _show(planned: Plan) -> None:
    from ..status.report import size

    columns = [
        Column("theme", flexible=True),
        Column("turns", right=True),
        *([Column("memories", right=True)] if planned.wish.memories else []),
        Column("size", right=True),
        Column("oldest_at", "oldest"),
        Column("newest_at", "newest"),
    ]
    rows = [share.row() for share in planned.shares]
    show_table(columns, [row | {"size": size(row["bytes"])} for row in rows], empty="there is nothing to delete")
    for each in planned.examples:
        text = " ".join(each["content"].split())
        more = "..." if text[80:] else ""
        say(f"e.g. {each['at'].astimezone():%Y-%m-%d} {each['theme']} {each['role']}: {text[:80]}{more}", "dim")
    for note in planned.notes:
        say(f"note: {note}")


def _counted(counts: dict[str, int]) -> str:
    return " and ".join(f"{count:,} {name}" for name, count in counts.items())


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
