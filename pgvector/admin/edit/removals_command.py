"""removals, restore."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.commands import EXIT_OK, Command, add_json, add_login, add_yes, connection, print_json, settings_of
from ..common.console import Column, say, show_table
from ..common.outcome import ADD_YES, Outcome, counted, print_outcome
from ..common.row_options import minute

if TYPE_CHECKING:
    from ..common.refs import Ref
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
    from . import removals

    settings = settings_of(home)
    with connection(settings, args.admin_dsn) as conn:
        rows = removals.held(conn, home, settings.removal_hold_days)
    if args.json:
        print_json(rows)
        return EXIT_OK
    _show_held(rows)
    if rows:
        say(
            "they stay unless you say otherwise: hermes-pgvector removals confirm ID... | removals dismiss ID...", "dim"
        )
    return EXIT_OK


def _list_arguments(command: argparse.ArgumentParser) -> None:
    add_login(command)
    add_json(command)


def _decision_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("id", nargs="*", metavar="ID", help="the memory: m123, or 123")
    command.add_argument("--all", action="store_true", help="every removal that waits, instead of ids")
    add_login(command)
    add_json(command)


def _confirm_arguments(command: argparse.ArgumentParser) -> None:
    _decision_arguments(command)
    add_yes(command)


def _decide(args: argparse.Namespace, home: Path, decision: Decision, *, really: bool) -> int:
    from ...domain.errors import WrongUsage
    from ..common.refs import parse_refs
    from . import removals

    if bool(args.id) == args.all:
        raise WrongUsage("say which: ids as `removals list` shows them, or --all")
    refs = None if args.all else parse_refs(args.id)
    settings = settings_of(home)
    with connection(settings, args.admin_dsn) as conn:
        done = removals.decide(conn, home, settings.removal_hold_days, decision, refs, really=really)
    return print_outcome(
        done, as_json=args.json, before=lambda: _show_held(done.rows), summary=_decided(done, decision)
    )


def _decided(done: Outcome, decision: Decision) -> str:
    if decision == "dismiss":
        return f"kept: {_memories(done)}, whatever the file holds"
    if done.done:
        return f"removed: {_memories(done)}; to bring them back: hermes-pgvector restore --since 1h"
    return f"would remove {_memories(done)}; {ADD_YES}" if done.counts["memories"] else ""


def _memories(done: Outcome) -> str:
    return counted(done.counts, also_none=True)


def _confirm(args: argparse.Namespace, home: Path) -> int:
    return _decide(args, home, "confirm", really=args.yes)


def _dismiss(args: argparse.Namespace, home: Path) -> int:
    return _decide(args, home, "dismiss", really=True)


def _show_held(rows: list[dict[str, Any]]) -> None:
    shown = [row | {"until": minute(row["stays_from"])} for row in rows]
    show_table(_HELD, shown, empty="no removal waits for a decision")


# -- restore


def _restore_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("id", nargs="*", metavar="ID", help="the memory, by the number it had: m123, or 123")
    command.add_argument("--theme", metavar="THEME", help="only what this theme lost")
    command.add_argument("--since", metavar="WHEN", help="only what went from then on: 1h, 7d, today, 2026-05-03")
    command.add_argument("--dry-run", action="store_true", help="only show what would come back")
    add_login(command)
    add_json(command)


def _restore(args: argparse.Namespace, home: Path) -> int:
    from ...domain.dates import parse_when
    from ...host.session_context import Policy
    from ..common.theme_names import theme_to_read
    from . import removals

    refs = _restored_refs(args)
    since = parse_when(args.since, "--since")
    settings = settings_of(home)
    with connection(settings, args.admin_dsn) as conn:
        theme = theme_to_read(conn, args.theme, Policy.of(settings).rules, home) if args.theme else None
        done = removals.restore(conn, refs=refs, theme=theme, since=since, really=not args.dry_run)
    summary = ""
    if done.counts["memories"] and done.done:
        summary = f"restored: {_memories(done)}; found by words at once, by meaning with the next agent"
    elif done.counts["memories"]:
        summary = f"would restore {_memories(done)}; nothing was changed"
    return print_outcome(done, as_json=args.json, before=lambda: _show_restored(done), summary=summary)


def _restored_refs(args: argparse.Namespace) -> list[Ref] | None:
    """Return the memories that are named; None where it is all that the other options mean. Raises WrongUsage."""
    from ...domain.errors import WrongUsage
    from ..common.refs import parse_refs

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
    return refs or None


def _show_restored(done: Outcome) -> None:
    rows = [row | {"removed": minute(row["removed_at"])} for row in done.rows]
    show_table(_REMOVED, rows, empty="nothing that was removed can be brought back")


REMOVALS = Command(
    "removals",
    "decide what becomes of memories that a lost, emptied or shortened memory file held",
    "hermes-pgvector removals list\nhermes-pgvector removals confirm m12 --yes\nhermes-pgvector removals dismiss --all",
    actions=(
        Command(
            "list",
            "list the memories whose removal waits for a decision",
            "hermes-pgvector removals list\nhermes-pgvector removals list --json",
            _list,
            _list_arguments,
        ),
        Command(
            "confirm",
            "remove memories that their memory file no longer holds",
            "hermes-pgvector removals confirm m12 m17\nhermes-pgvector removals confirm --all --yes",
            _confirm,
            _confirm_arguments,
        ),
        Command(
            "dismiss",
            "keep memories although their memory file no longer holds them",
            "hermes-pgvector removals dismiss m12\nhermes-pgvector removals dismiss --all",
            _dismiss,
            _decision_arguments,
        ),
    ),
)
RESTORE = Command(
    "restore",
    "bring back memories that a memory file let go of, with their theme, times and origin",
    "hermes-pgvector restore --dry-run\nhermes-pgvector restore m12\n"
    "hermes-pgvector restore --theme marketing\nhermes-pgvector restore --since 1h",
    _restore,
    _restore_arguments,
)
