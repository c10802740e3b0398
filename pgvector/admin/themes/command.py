"""themes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from ..common.console import Column, say, show_pairs, show_table
from ..common.outcome import ADD_YES, Outcome, counted, print_outcome

if TYPE_CHECKING:
    from ...domain.theme import ThemeRules
    from ...store.connection import DeadlineConnection

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
    from ...host.session_context import Policy

    settings = settings_of(home)
    with connection(settings, args.admin_dsn) as conn:
        yield conn, Policy.of(settings).rules


def _list(args: argparse.Namespace, home: Path) -> int:
    from . import theme_changes

    with _opened(args, home) as (conn, rules):
        rows = theme_changes.listed(conn, rules)
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
    from . import theme_changes

    with _opened(args, home) as (conn, rules):
        row = theme_changes.shown(conn, args.theme, rules)
    if args.json:
        print_json(row)
    else:
        show_pairs(row)
    return EXIT_OK


def _change(args: argparse.Namespace, home: Path) -> int:
    from ..common.spool_views import drop_kept
    from . import theme_changes

    with _opened(args, home) as (conn, rules):
        match args.pgvector_command_1:
            case "rename":
                change = theme_changes.rename(conn, args.theme, args.into, rules, really=args.yes)
            case "merge":
                change = theme_changes.merge(conn, args.theme, args.into, rules, really=args.yes)
            case _:
                change = theme_changes.delete(conn, args.theme, rules, really=args.yes)
    if change.verb == "delete" and change.done:
        drop_kept(home, change.facts["theme"])
    return print_outcome(
        change, as_json=args.json, before=lambda: _show_change(change), summary="done" if change.done else ADD_YES
    )


def _show_change(change: Outcome) -> None:
    into = f" -> {change.facts['into']!r}" if change.facts["into"] else ""
    say(f"{change.verb} {change.facts['theme']!r}{into}: {counted(change.counts, also_none=True)}")


def _log(args: argparse.Namespace, home: Path) -> int:
    from . import theme_changes

    with _opened(args, home) as (conn, _):
        _print_log(theme_changes.log(conn, args.limit), as_json=args.json)
    return EXIT_OK


def _print_log(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    for row in rows:
        state = row["arguments"].get("state", row["arguments"].get("summaries", "done"))
        counts = counted(dict(sorted(row["counts"].items())), also_none=True)
        unfinished = "" if state == "done" else f" ({state})"
        who = f"{row['db_role']} ({row['os_user']}@{row['host']})"
        print(f"{row['done_at'][:19]}  {who}  {row['verb']} {_named(row['arguments'])}: {counts}{unfinished}")
    if not rows:
        print("nothing was done to a theme yet")


def _named(given: Mapping[str, Any]) -> str:
    """Return the themes that an entry of the log is about."""
    names = [given["theme"]] if "theme" in given else given.get("themes") or []
    into = f" -> {given['into']!r}" if "into" in given else ""
    return (", ".join(map(repr, names)) or "every theme") + into


_THEMES = "hermes-pgvector themes "


def themes(export: Command) -> Command:
    """Return the verb; its action `export` is of the feature that writes files."""
    return Command(
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
            export,
            Command("log", "what was done to themes, by whom, when", _THEMES + "log --limit 10", _log, _log_arguments),
        ),
    )
