"""themes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import (
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
from .console import Column, show_pairs, show_table

if TYPE_CHECKING:
    from ..domain.theme import ThemeRules
    from ..store.connection import DeadlineConnection

_COLUMNS = (
    Column("theme", flexible=True),
    Column("memories", right=True),
    Column("user_facts", "user", right=True),
    Column("turns", right=True),
    Column("pending", right=True),
    Column("last", style="dim"),
    Column("note", "", style="yellow"),
)


def _login(command: argparse.ArgumentParser) -> None:
    add_login(command)
    add_json(command)


def _one(command: argparse.ArgumentParser) -> None:
    command.add_argument("theme", metavar="THEME", help="its name")
    _login(command)


def _two(first: str, second: str) -> Callable[[argparse.ArgumentParser], None]:
    def arguments(command: argparse.ArgumentParser) -> None:
        command.add_argument("theme", metavar=first, help="the theme to change")
        command.add_argument("into", metavar=second, help="its new name" if second == "NEW" else "the theme that stays")
        add_yes(command)
        _login(command)

    return arguments


def _delete_arguments(command: argparse.ArgumentParser) -> None:
    _one(command)
    add_yes(command)


def _log_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--limit", type=positive, default=50, metavar="N", help="the last N entries (default: 50)")
    _login(command)


@contextmanager
def _opened(args: argparse.Namespace, home: Path) -> Iterator[tuple[DeadlineConnection, ThemeRules]]:
    from ..host.context import Policy

    settings = settings_of(home)
    with connection(settings, args.admin_dsn) as conn:
        yield conn, Policy.of(settings).rules


def _list(args: argparse.Namespace, home: Path) -> int:
    from ..operate import themes

    with _opened(args, home) as (conn, rules):
        rows = [themes.fit_for_json(row) for row in themes.listed(conn, rules)]
    if args.json:
        print_json(rows)
        return EXIT_OK
    for row in rows:
        row |= {
            "last": row["last_at"][:10],
            "note": "" if row["reachable"] else "no session can name it: rename it",
        }
    show_table(_COLUMNS, rows, empty="no theme holds anything yet")
    return EXIT_OK


def _show(args: argparse.Namespace, home: Path) -> int:
    from ..operate import themes

    with _opened(args, home) as (conn, rules):
        row = themes.fit_for_json(themes.shown(conn, args.theme, rules))
    if args.json:
        print_json(row)
    else:
        show_pairs(row)
    return EXIT_OK


def _change(args: argparse.Namespace, home: Path) -> int:
    from ..operate import themes
    from ..operate.spools import drop_kept

    with _opened(args, home) as (conn, rules):
        match args.pgvector_command_1:
            case "rename":
                change = themes.rename(conn, args.theme, args.into, rules, really=args.yes)
            case "merge":
                change = themes.merge(conn, args.theme, args.into, rules, really=args.yes)
            case _:
                change = themes.delete(conn, args.theme, rules, really=args.yes)
    if change.verb == "delete" and change.done:
        drop_kept(home, change.theme, lambda _: None)
    if args.json:
        print_json(change.as_json())
    else:
        print(change.render())
    return EXIT_OK


def _log(args: argparse.Namespace, home: Path) -> int:
    from ..operate import themes

    with _opened(args, home) as (conn, _):
        _print_log(themes.log(conn, args.limit), as_json=args.json)
    return EXIT_OK


def _export_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="a new file, compressed when it ends in .gz (default: stdout)"
    )
    command.add_argument("--vectors", action="store_true", help="with the embeddings")
    _one(command)


def _export_theme(args: argparse.Namespace, home: Path) -> int:
    from .moving import run_export

    return run_export(args, home, args.output, [args.theme])


def _print_log(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    for row in rows:
        given = row["arguments"]
        named = [given["theme"]] if "theme" in given else given.get("themes") or []
        into = f" -> {given['into']!r}" if "into" in given else ""
        arguments = (", ".join(map(repr, named)) or "every theme") + into
        counts = ", ".join(f"{count} {name}" for name, count in sorted(row["counts"].items()))
        state = given.get("state", given.get("summaries", "done"))
        counts += "" if state == "done" else f" ({state})"
        who = f"{row['db_role']} ({row['os_user']}@{row['host']})"
        print(f"{row['done_at'][:19]}  {who}  {row['verb']} {arguments}: {counts}")
    if not rows:
        print("nothing was done to a theme yet")


_THEMES = "hermes-pgvector themes "

THEMES = Command(
    "themes",
    "show, rename, merge, delete and export themes",
    "hermes-pgvector themes list\nhermes-pgvector themes rename sales emea-sales --yes\n"
    "hermes-pgvector themes merge old-sales sales\nhermes-pgvector themes export sales --output sales.jsonl",
    actions=(
        Command("list", "every theme that holds something", _THEMES + "list --json", _list, _login),
        Command("show", "what one theme holds", _THEMES + "show sales", _show, _one),
        Command(
            "rename",
            "give a theme another name",
            _THEMES + "rename sales emea-sales\n" + _THEMES + "rename sales emea-sales --yes",
            _change,
            _two("OLD", "NEW"),
        ),
        Command(
            "merge",
            "move everything of one theme into another",
            _THEMES + "merge old-sales sales\n" + _THEMES + "merge old-sales sales --yes",
            _change,
            _two("FROM", "INTO"),
        ),
        Command(
            "delete",
            "delete a theme and what it holds",
            _THEMES + "delete old-sales\n" + _THEMES + "delete old-sales --yes",
            _change,
            _delete_arguments,
        ),
        Command(
            "export",
            "write a theme as JSON Lines",
            _THEMES + "export sales --output sales.jsonl\n" + _THEMES + "export sales | gzip > sales.jsonl.gz",
            _export_theme,
            _export_arguments,
        ),
        Command("log", "what was done to themes, by whom, when", _THEMES + "log --limit 10", _log, _log_arguments),
    ),
)
