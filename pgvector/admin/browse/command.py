"""The commands list, show, history and sessions."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...domain.errors import WrongUsage
from ...domain.format import local_minute, plural
from ...host.session_context import load_settings
from ...store.vectors import STORES
from ..common.commands import (
    EXIT_OK,
    Command,
    action,
    argument,
    indented,
    not_negative,
    positive,
    print_json,
    printed,
)
from ..common.console import Column, say, say_line, show_pairs, show_table, used
from ..common.operators import clock
from ..common.refs import WAYS, parse_refs
from ..common.row_options import (
    PIPED_CHARS,
    WHOLE,
    add_page,
    add_theme,
    page,
    reading,
    reading_theme,
    theme_option,
)
from ..common.stored_rows import has_expired
from ..common.theme_names import theme_of_session
from . import browsing

_ROWS = (
    Column("ref", "id", style="bold"),
    Column("who", "kind"),
    Column("date", style="dim"),
    Column("session_id", "session", style="dim"),
    Column("about", style="dim"),
    Column("note", "", style="yellow"),
    Column("content", "text", flexible=True),
)
_EVENTS = (
    Column("date", "when", style="dim"),
    Column("action"),
    Column("ref", "id", style="bold"),
    Column("by"),
    Column("session", style="dim"),
    Column("what", flexible=True),
)
_SESSIONS = (
    Column("session_id", "session", style="bold"),
    Column("first", style="dim"),
    Column("last", style="dim"),
    Column("turns", right=True),
    Column("parent_session_id", "after", style="dim"),
    Column("title", flexible=True),
)


# -- list


def _list_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--store", choices=STORES, default="memories", help="what to list (default: memories)")
    command.add_argument("--target", choices=("memory", "user"), help="memories: only notes, or only facts of the user")
    command.add_argument("--role", choices=("user", "assistant", "tool"), help="turns: only what that side said")
    command.add_argument("--session", metavar="ID", help="only what was written in this session")
    command.add_argument("--pending", action="store_true", help="only what waits for its vector")
    add_page(command, limit=20, what="what was last written or said")
    add_theme(command)


def _list(args: argparse.Namespace, home: Path) -> int:
    if args.target and args.store == "turns":
        raise WrongUsage("--target is for memories; turns have a --role")
    if args.role and args.store == "memories":
        raise WrongUsage("--role is for turns: add --store turns")
    wanted = browsing.RowFilter(args.target or args.role, args.session, args.pending)
    bounds, chars = page(args), WHOLE if args.json else PIPED_CHARS + 1
    with reading_theme(args, home, args.store) as (conn, theme):
        rows = [_flat(row) for row in browsing.listed(conn, args.store, theme, bounds, wanted, chars=chars)]
    empty = f"the theme {theme!r} has no {'memory' if args.store == 'memories' else 'turn'} to show"
    # If recall uses words only, no row waits for a vector.
    waits = bool(load_settings(None, home).settings.embed_url.strip())
    return printed(args, rows, lambda: _show_rows(rows, empty=empty, waits=waits))


def _show_rows(rows: list[dict[str, Any]], *, empty: str, waits: bool) -> None:
    for row in rows:
        notes = ["no vector yet"] if row["pending"] and waits else []
        notes += [row["state"]] if row.get("state", "active") != "active" else []
        notes += ["expired"] if has_expired(row) else []
        about = " ".join(str(row[name]) for name in ("kind", "subject", "scope") if name in row)
        who = row.get("target") or row.get("role")
        row |= {"who": who, "date": local_minute(row["at"]), "about": about, "note": ", ".join(notes)}
    show_table(used(_ROWS, rows), rows, empty=empty)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with what a memory says of itself beside its other values, as searches and `facts list` have it."""
    return {name: value for name, value in row.items() if name != "structure"} | dict(row.get("structure", {}))


# -- show


def _show(args: argparse.Namespace, home: Path) -> int:
    refs = parse_refs(args.id)
    if len(refs) != 1:
        raise WrongUsage("show takes one row at a time")
    with reading(args, home) as (conn, rules):
        row = browsing.shown(conn, refs[0], args.theme, rules)
    return printed(args, _flat(row), lambda: _show_row(row))


def _show_row(row: dict[str, Any]) -> None:
    past, content = row.pop("history", []), row.pop("content", None)
    metadata, said = row.pop("metadata", {}), row.pop("structure", {})
    if "pending" in row:
        row["state"] = "waits for its vector" if row.pop("pending") else "embedded"
    for name in ("id", "store"):
        row.pop(name, None)
    known = {name: value for name, value in row.items() if value not in (None, "", 0)}
    show_pairs((name.replace("_", " "), _told(name, value)) for name, value in known.items())
    show_pairs((f"says {name.replace('_', ' ')}", value) for name, value in _says(said).items())
    show_pairs((f"metadata {name}", _plain(value)) for name, value in metadata.items())
    if content is not None:
        say()
        say(content)
    if past:
        say()
        _show_events(past)


def _says(said: Mapping[str, Any]) -> dict[str, str]:
    """Return what a memory says of itself as text."""
    says = {name: _plain(_told(name, value)) for name, value in said.items()}
    return says | ({"expires_at": says["expires_at"] + ", so it is not recalled"} if has_expired(said) else {})


def _told(name: str, value: Any) -> Any:
    if name == "owners" and not value:
        return "none: it goes with its entry in a memory file"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return local_minute(value) if name in ("at", "created_at", "expires_at") else value


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- history


def _history_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("id", nargs="*", metavar="ID", help="only this memory, also one that is gone: m123")
    command.add_argument("--action", choices=browsing.ACTIONS, help="only what was done so")
    command.add_argument("--target", choices=("memory", "user"), help="only notes, or only facts about the user")
    command.add_argument("--session", metavar="ID", help="only what was done in this session")
    add_page(command, limit=20, what="what was done")
    add_theme(command)


def _history(args: argparse.Namespace, home: Path) -> int:
    refs = parse_refs(args.id)
    if len(refs) > 1:
        raise WrongUsage("history takes one memory at a time, or none")
    if refs and any((args.action, args.target, args.session, args.since, args.until, args.theme)):
        raise WrongUsage("of one memory the whole history is shown: leave the filters out")
    if refs:
        with reading(args, home) as (conn, _):
            events = browsing.happened_to(conn, refs[0], page(args))
    else:
        only = {"action": args.action, "target": args.target, "session": args.session}
        with reading_theme(args, home, "history") as (conn, theme):
            bounds = page(args, clock(conn)[0])  # the server dates what is done
            events = browsing.happened(conn, theme, bounds, **only)
    return printed(args, events, lambda: _show_events(events))


def _show_events(events: list[dict[str, Any]]) -> None:
    for row in events:
        row |= {
            "date": local_minute(row["at"]),
            "session": str(row["who"].get("session_id") or ""),
            "what": _happening(row),
        }
    show_table(used(_EVENTS, events), events, empty="nothing has happened")


def _happening(row: Mapping[str, Any]) -> str:
    size = f"{row['chars']:,} characters, sha256 {row['digest']}..."
    if row["action"] == "removed" and "old_content" in row:
        return "was: " + str(row["old_content"])
    if row["action"] == "moved":
        return f"from the theme {row['old_theme']!r}"
    if row["action"] != "replaced":
        return size
    if "old_content" in row:
        return "was: " + str(row["old_content"])
    return f"was {row['old_chars']:,} characters, sha256 {row['old_digest']}..., no longer kept"


# -- sessions


def _sessions(args: argparse.Namespace, home: Path) -> int:
    bounds = page(args)
    with reading_theme(args, home) as (conn, theme):
        rows = browsing.sessions(conn, theme, bounds)
    shown = [row | {"first": local_minute(row["first_at"]), "last": local_minute(row["last_at"])} for row in rows]
    empty = f"the theme {theme!r} has no session to show"
    return printed(
        args,
        [{"theme": theme} | row for row in rows],
        lambda: show_table(used(_SESSIONS, shown), shown, empty=empty),
    )


def _session(args: argparse.Namespace, home: Path) -> int:
    with reading(args, home) as (conn, rules):
        theme = theme_of_session(conn, args.session, args.theme, rules)
        whole = browsing.session(conn, theme, args.session)
        turns = browsing.transcript(conn, theme, args.session, limit=args.limit, offset=args.offset)
        if args.json:
            said = {name: whole[name] for name in ("title", "first_at", "last_at")}
            print_json({"session_id": args.session, "theme": theme} | said | {"turns": list(turns)})
            return EXIT_OK
        say(whole["title"], "bold")
        first, last = local_minute(whole["first_at"]), local_minute(whole["last_at"])
        say(f"{first} to {last}, {plural(whole['turns'], 'turn')}", "dim")
        for number, turn in enumerate(turns):
            if not number and (parent := turn["metadata"].get("parent_session_id")):
                say_line(f"after the session {parent}", "dim")
            say_line(f"{turn['ref']}  {turn['role']}  {local_minute(turn['at'])}", "bold")
            say(indented(turn["content"]))  # no line of which looks like the head of another turn
            say()
    return EXIT_OK


LIST = Command(
    "hermes-pgvector list\nhermes-pgvector list --theme marketing --target user --since 2026-05\n"
    "hermes-pgvector list --store turns --role assistant --limit 50 --json",
    _list,
    [_list_arguments],
)
SHOW = Command(
    "hermes-pgvector show m12\nhermes-pgvector show t345 --json",
    _show,
    [
        argument("id ID", WAYS, nargs="+"),
        theme_option("the theme it stands in (default: any)"),
    ],
)
HISTORY = Command(
    "hermes-pgvector history\nhermes-pgvector history m12\n"
    "hermes-pgvector history --theme marketing --action removed --since 30d --json",
    _history,
    [_history_arguments],
)
SESSIONS = Command(
    "hermes-pgvector sessions list\nhermes-pgvector sessions show 20260503_140211_a1b2c3",
    actions=[
        action(
            "list",
            "list the sessions of a theme, the most recent first",
            "hermes-pgvector sessions list\nhermes-pgvector sessions list --theme marketing --since 7d --json",
            _sessions,
            [partial(add_page, limit=20, what="sessions with a turn"), add_theme],
        ),
        action(
            "show",
            "show what was said in a session, in order",
            "hermes-pgvector sessions show 20260503_140211_a1b2c3\n"
            "hermes-pgvector sessions show telegram-17 --theme marketing --json",
            _session,
            [
                argument("session SESSION", "its id, as `sessions list` shows it"),
                argument("--limit N", "how many turns (default: all)", type=positive),
                argument("--offset N", "how many turns to leave out first", type=not_negative, default=0),
                theme_option("the theme (default: the one that has this session)"),
            ],
        ),
    ],
)
