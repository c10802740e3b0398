"""The commands removals and restore."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from ...domain.commandline import typed
from ...domain.dates import parse_when
from ...domain.errors import WrongUsage
from ...domain.format import local_minute
from ..common.commands import Command, action, add_login, add_yes, argument, filled, printed
from ..common.console import Column, say, show_table
from ..common.database import database
from ..common.operators import clock
from ..common.outcome import ADD_YES, Outcome, counted, print_outcome
from ..common.refs import Ref, parse_refs
from ..common.theme_names import theme_to_read
from . import removals
from .removals import Decision

_HELD = (
    Column("ref", "id", style="bold"),
    Column("theme"),
    Column("file"),
    Column("why"),
    Column("until", "asked until", style="dim"),
    Column("content", "text", flexible=True),
)
_REMOVED = (
    Column("ref", "id", style="bold"),
    Column("theme"),
    Column("target"),
    Column("removed", style="dim"),
    Column("content", "text", flexible=True),
)


# -- removals


def _list(args: argparse.Namespace, home: Path) -> int:
    with database(args, home) as (conn, settings, _):
        rows = removals.held(conn, home, settings.removal_hold_days)
    return printed(args, rows, lambda: _show_waiting(rows))


def _show_waiting(rows: list[dict[str, Any]]) -> None:
    _show_held(rows)
    if rows:
        advice = "they stay unless you say otherwise: hermes-pgvector removals confirm ID... | removals dismiss ID..."
        say(typed(advice), "dim")


def _decide(decision: Decision, args: argparse.Namespace, home: Path) -> int:
    if bool(args.id) == args.all:
        raise WrongUsage("say which: ids as `removals list` shows them, or --all")
    refs = None if args.all else parse_refs(args.id)
    with database(args, home) as (conn, settings, _):
        done = removals.decide(
            conn, home, settings.removal_hold_days, decision, refs, really=decision == "dismiss" or args.yes
        )
    return print_outcome(args, done, lambda: _show_meant(done), _decided(done, decision))


def _decided(done: Outcome, decision: Decision) -> str:
    if not done.rows:
        return ""
    if decision == "dismiss":
        return f"kept: {_memories(done)}, whatever the file holds"
    if done.done:
        back = typed("; to bring them back: hermes-pgvector restore --since 1h") if done.counts["memories"] else ""
        return f"removed: {_memories(done)}{back}"
    return f"would remove {_memories(done)}; {ADD_YES}"


def _memories(done: Outcome) -> str:
    return counted(done.counts, also_none=True)


def _show_meant(done: Outcome) -> None:
    if done.rows or not done.notes:
        _show_held(done.rows)


def _show_held(rows: list[dict[str, Any]]) -> None:
    shown = [row | {"until": local_minute(row["stays_from"])} for row in rows]
    show_table(_HELD, shown, empty="no removal waits for a decision")


# -- restore


def _restore(args: argparse.Namespace, home: Path) -> int:
    refs = _restored_refs(args)
    with database(args, home) as (conn, _, rules):
        since = parse_when(args.since, "--since", zone=None, now=clock(conn)[0])  # which dated the removals
        theme = theme_to_read(conn, args.theme, rules, home) if args.theme else None
        done = removals.restore(conn, refs=refs, theme=theme, since=since, really=not args.dry_run)
    summary = ""
    if done.counts["memories"] and done.done:
        summary = f"restored: {_memories(done)}"
        if not done.notes:
            summary += "; found by words now, by meaning once an agent has embedded them"
    elif done.counts["memories"]:
        summary = f"would restore {_memories(done)}; nothing was changed"
    return print_outcome(args, done, lambda: _show_restored(done), summary)


def _restored_refs(args: argparse.Namespace) -> list[Ref] | None:
    """Return the memories that are named; None if the other options choose them. Raises WrongUsage."""
    if not any((args.id, args.theme, args.since, args.dry_run)):
        raise WrongUsage(
            "say what to bring back: ids (m123), --theme THEME or --since 1h; --dry-run shows all there is"
        )
    if args.id and (args.theme or args.since):
        raise WrongUsage("give ids, or --theme and --since, not both")
    refs = parse_refs(args.id)
    turns = ", ".join(str(ref) for ref in refs if ref.store == "turns")
    if turns:
        raise WrongUsage(f"{turns}: only memories can be brought back, turns are gone for good")
    return refs if args.id else None


def _show_restored(done: Outcome) -> None:
    rows = [row | {"removed": local_minute(row["removed_at"])} for row in done.rows]
    show_table(_REMOVED, rows, empty="nothing that was removed can be brought back")


_ID = argument("id ID", "the memory: m123, or 123", nargs="*", type=filled)
REMOVALS = Command(
    "hermes-pgvector removals list\nhermes-pgvector removals confirm m12 --yes\nhermes-pgvector removals dismiss --all",
    actions=[
        action(
            "list",
            "list the memories whose removal waits for a decision",
            "hermes-pgvector removals list\nhermes-pgvector removals list --json",
            _list,
            [add_login],
        ),
        action(
            "confirm",
            "remove memories that their memory file no longer holds",
            "hermes-pgvector removals confirm m12 m17\nhermes-pgvector removals confirm --all --yes",
            partial(_decide, "confirm"),
            [_ID, argument("--all", "all that this home's files lack, instead of ids"), add_login, add_yes],
        ),
        action(
            "dismiss",
            "keep memories although their memory file no longer holds them",
            "hermes-pgvector removals dismiss m12\nhermes-pgvector removals dismiss --all",
            partial(_decide, "dismiss"),
            [_ID, argument("--all", "every removal that waits, instead of ids"), add_login],
        ),
    ],
)
RESTORE = Command(
    "hermes-pgvector restore --dry-run\nhermes-pgvector restore m12\n"
    "hermes-pgvector restore --theme marketing\nhermes-pgvector restore --since 1h",
    _restore,
    [
        argument("id ID", "the memory, by the number it had: m123, or 123", nargs="*", type=filled),
        argument("--theme THEME", "only what this theme lost", type=filled),
        argument("--since WHEN", "only what went from then on: 1h, 7d, today, 2026-05-03", type=filled),
        argument("--dry-run", "only show what would come back"),
        add_login,
    ],
)
