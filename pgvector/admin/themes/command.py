"""The command `themes`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...domain.errors import InvalidArgument
from ...domain.format import local_minute
from ...domain.theme import ThemeRules
from ...store.connection import DeadlineConnection
from ..common.commands import Argument, Command, action, add_login, add_yes, argument, positive, printed
from ..common.console import Column, say, say_line, show_pairs, show_table
from ..common.database import database
from ..common.outcome import ADD_YES, Outcome, counted, fit_for_json, print_outcome
from ..common.spool_copies import drop_of
from ..common.stopped import said_if_stopped
from . import theme_changes, theme_moves

_COLUMNS = (
    Column("theme", flexible=True),
    Column("memories", right=True),
    Column("user_facts", "user", right=True),
    Column("turns", right=True),
    Column("pending", right=True),
    Column("last", style="dim"),
    Column("note", "", style="yellow"),
)
_WHOLE = "a theme is changed as a whole or not at all; to see which: hermes-pgvector themes list"
_NOTHING = "nothing was changed"


def _list(args: argparse.Namespace, home: Path) -> int:
    with database(args, home) as (conn, _, rules):
        rows = theme_changes.listed(conn, rules)
    return printed(args, rows, lambda: _show_themes(rows))


def _show_themes(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        note = "" if row["reachable"] else "no session can name it: rename it"
        row |= {"last": _local(row["last_at"])[:10], "note": note}
    show_table(_COLUMNS, rows, empty="no theme holds anything yet")


def _show(args: argparse.Namespace, home: Path) -> int:
    with database(args, home) as (conn, _, rules):
        row = theme_changes.shown(conn, args.theme, rules)
    return printed(args, row, lambda: _show_theme(row))


def _show_theme(row: dict[str, Any]) -> None:
    row |= {name: _local(row[name]) for name in ("first_at", "last_at")}
    show_pairs({name.replace("_", " "): value for name, value in row.items()})


def _local(moment: str) -> str:
    return local_minute(moment) if moment else ""


def _change(args: argparse.Namespace, home: Path) -> int:
    with database(args, home) as (conn, settings, rules), said_if_stopped(_WHOLE if args.yes else _NOTHING):
        change = _changed(args, home, conn, rules)
        if change.verb != "delete":
            change.notes += theme_changes.other_in_settings(settings, change.facts["theme"], change.facts["into"])
        else:
            copies = drop_of(home, change.facts["theme"], really=change.done)
            change.notes += copies.notes("of this theme", really=change.done, again="delete")
    return print_outcome(args, change, lambda: _show_change(change), "done" if change.done else ADD_YES)


def _changed(args: argparse.Namespace, home: Path, conn: DeadlineConnection, rules: ThemeRules) -> Outcome:
    match args.pgvector_command_1:
        case "rename":
            return theme_changes.rename(conn, args.theme, args.into, rules, really=args.yes)
        case "merge":
            return theme_changes.merge(conn, args.theme, args.into, rules, really=args.yes)
    try:
        return theme_changes.delete(conn, args.theme, rules, really=args.yes)
    except InvalidArgument:
        drop_of(home, args.theme, really=False).require_none(f"the theme {args.theme!r}", again="delete")
        raise


def _show_change(change: Outcome) -> None:
    into = f" -> {change.facts['into']!r}" if change.facts["into"] else ""
    say(f"{change.verb} {change.facts['theme']!r}{into}: {counted(change.counts, also_none=True)}")


def _log(args: argparse.Namespace, home: Path) -> int:
    with database(args, home) as (conn, _, _):
        rows = [fit_for_json(row) for row in theme_moves.log(conn, args.limit)]
    return printed(args, rows, lambda: _show_log(rows))


def _show_log(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        state = row["arguments"].get("state", row["arguments"].get("summaries", "done"))
        counts = counted(dict(sorted(row["counts"].items())))
        unfinished = "" if state == "done" else f" ({state})"
        who = f"{row['db_role']} ({row['os_user']}@{row['host']})"
        did = f"{row['verb']} {_named(row['arguments'])}: {counts}{unfinished}"
        say_line(f"{local_minute(row['at'])}  {who}  {did}")
    if not rows:
        print("nothing was done to a theme yet")


def _named(given: Mapping[str, Any]) -> str:
    """Return the themes that a log entry is about."""
    names = [given["theme"]] if "theme" in given else given.get("themes")
    names = names if isinstance(names, list) else []
    into = f" -> {given['into']!r}" if "into" in given else ""
    return (", ".join(map(repr, names)) or "every theme") + into


_THEMES = "hermes-pgvector themes "
_THEME = argument("theme THEME", "its name")


def _two(first: str, second: str, into: str) -> list[Argument]:
    return [
        argument(f"theme {first}", "the theme to change"),
        argument(f"into {second}", into),
        add_yes,
        add_login,
    ]


THEMES = Command(
    "hermes-pgvector themes list\nhermes-pgvector themes rename sales emea-sales --yes\n"
    "hermes-pgvector themes merge old-sales sales\nhermes-pgvector themes export sales --output sales.jsonl",
    actions=[
        action("list", "list every theme that holds something", _THEMES + "list --json", _list, [add_login]),
        action("show", "show what one theme holds", _THEMES + "show sales", _show, [_THEME, add_login]),
        action(
            "rename",
            "give a theme another name",
            _THEMES + "rename sales emea-sales\n" + _THEMES + "rename sales emea-sales --yes",
            _change,
            _two("OLD", "NEW", "its new name"),
        ),
        action(
            "merge",
            "move everything of one theme into another",
            _THEMES + "merge old-sales sales\n" + _THEMES + "merge old-sales sales --yes",
            _change,
            _two("FROM", "INTO", "the theme that stays"),
        ),
        action(
            "delete",
            "delete a theme and what it holds",
            _THEMES + "delete old-sales\n" + _THEMES + "delete old-sales --yes",
            _change,
            [_THEME, add_login, add_yes],
        ),
        action(
            "log",
            "show what was done to themes, by whom and when",
            _THEMES + "log --limit 10",
            _log,
            [
                argument("--limit N", "the last N entries (default: 50)", type=positive, default=50),
                add_login,
            ],
        ),
    ],
)
