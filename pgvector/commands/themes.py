"""themes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .base import EXIT_OK, EXIT_USAGE, Command, add_json, add_yes, print_json, settings_of

if TYPE_CHECKING:
    from ..domain.settings import Settings
    from ..store.connection import DeadlineConnection

_NAMES = {
    "list": "", "log": "", "show": "THEME", "delete": "THEME", "export": "THEME", "rename": "OLD NEW",
    "merge": "FROM INTO",
}  # fmt: skip


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=("list", "show", "rename", "merge", "delete", "export", "log"))
    command.add_argument(
        "names", nargs="*", metavar="THEME", help="show, delete, export: THEME; rename: OLD NEW; merge: FROM INTO"
    )
    command.add_argument("--output", type=Path, metavar="FILE", help="export: write to a new file (default: stdout)")
    command.add_argument("--vectors", action="store_true", help="export: with the embeddings")
    command.add_argument("--limit", type=int, default=50, metavar="N", help="log: the last N entries (default: 50)")
    command.add_argument("--admin-dsn", metavar="DSN", help="log in so, rather than as the agents do")
    add_yes(command)
    add_json(command)


def _themes(args: argparse.Namespace, home: Path) -> int:
    from ..host.context import Policy
    from ..operate import themes

    if len(args.names) != len(_NAMES[args.action].split()):
        print(f"usage: hermes-pgvector themes {args.action} {_NAMES[args.action]}".rstrip(), file=sys.stderr)
        return EXIT_USAGE
    settings = settings_of(home)
    rules = Policy.of(settings).rules
    with _connection(settings, args.admin_dsn) as conn:
        match args.action:
            case "list":
                _print_list([themes.fit_for_json(row) for row in themes.listed(conn, rules)], as_json=args.json)
            case "show":
                _print_one(themes.fit_for_json(themes.shown(conn, args.names[0], rules)), as_json=args.json)
            case "log":
                _print_log(themes.log(conn, max(1, args.limit)), as_json=args.json)
            case "export":
                _export(args, conn, rules)
            case verb:
                change = getattr(themes, verb)(conn, *args.names, rules, really=args.yes)
                if args.json:
                    print_json(change.as_json())
                else:
                    print(change.render())
    return EXIT_OK


@contextmanager
def _connection(settings: Settings, admin_dsn: str | None) -> Iterator[DeadlineConnection]:
    from ..runtime.embedded import borrowed_server
    from ..store.connection import translated
    from ..store.pool import connect
    from ..store.schema import ensure_schema

    with borrowed_server(settings) as locate, connect(admin_dsn or settings.dsn or locate()) as conn:
        ensure_schema(conn, dims=settings.dims)
        with translated():
            yield conn


def _export(args: argparse.Namespace, conn: DeadlineConnection, rules: Any) -> None:
    from ..operate import themes

    files: list[TextIO] = []

    def stream() -> TextIO:
        if args.output is None:
            return sys.stdout
        files.append(themes.private_file(args.output))
        return files[0]

    try:
        change = themes.export(conn, args.names[0], rules, stream, vectors=args.vectors)
        for file in files:
            file.close()
    except BaseException:
        if files:  # half a theme looks like a whole one
            args.output.unlink()
        raise
    where = args.output or "stdout"
    print(
        f"{change.counts['memories']} memories and {change.counts['turns']} turns written to {where}", file=sys.stderr
    )


def _print_list(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    width = max([len("theme"), *(len(row["theme"]) for row in rows)])
    print(f"{'theme':<{width}} {'memories':>9} {'user':>6} {'turns':>9} {'pending':>8}  last")
    for row in rows:
        mark = "" if row["reachable"] else "  no session can name it: rename it"
        print(
            f"{row['theme']:<{width}} {row['memories']:>9} {row['user_facts']:>6} {row['turns']:>9} "
            f"{row['pending']:>8}  {row['last_at'][:10]}{mark}"
        )


def _print_one(row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(row)
        return
    for key, value in row.items():
        print(f"{key:<11} {value}")


def _print_log(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    for row in rows:
        given = row["arguments"]
        arguments = repr(given["theme"]) + (f" -> {given['into']!r}" if "into" in given else "")
        counts = ", ".join(f"{count} {name}" for name, count in sorted(row["counts"].items()))
        who = f"{row['db_role']} ({row['os_user']}@{row['host']})"
        print(f"{row['done_at'][:19]}  {who}  {row['verb']} {arguments}: {counts}")
    if not rows:
        print("nothing was done to a theme yet")


THEMES = Command(
    "themes",
    "show, rename, merge, delete and export themes",
    "hermes-pgvector themes list\nhermes-pgvector themes rename sales emea-sales --yes\n"
    "hermes-pgvector themes merge old-sales sales\nhermes-pgvector themes export sales --output sales.jsonl",
    _themes,
    _arguments,
)
