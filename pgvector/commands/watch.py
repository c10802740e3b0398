"""status, stats and spool."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Literal

from .base import EXIT_FAILED, EXIT_OK, Command, add_json, add_yes, print_json, settings_of


def _status(args: argparse.Namespace, home: Path) -> int:
    from ..operate.status import render_status

    status = _collected(home)
    if args.json:
        print_json(status)
    else:
        print(render_status(status))
    return EXIT_FAILED if "problem" in status["database"] else EXIT_OK


def _stats(args: argparse.Namespace, home: Path) -> int:
    from ..operate.status import flat

    numbers = flat(_collected(home))
    print(json.dumps(numbers) if args.json else "\n".join(f"{key} {numbers[key]}" for key in sorted(numbers)))
    return EXIT_OK


def _collected(home: Path) -> dict[str, Any]:
    from ..operate.status import collect
    from ..runtime.embedded import borrowed_server

    settings = settings_of(home)
    with borrowed_server(settings) as locate:
        return collect(settings, home, locate)


def _change_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("ids", nargs="*", metavar="ID", help="the first digits of a write's id, as `list` shows it")
    command.add_argument("--all", action="store_true", help="every write that was set aside")
    add_yes(command)
    add_json(command)


def _list_aside(args: argparse.Namespace, home: Path) -> int:
    from ..operate.spools import change_aside, render_aside

    print(render_aside(change_aside(home, "retry", [], everything=True, really=False), as_json=args.json))
    return EXIT_OK


def _retry(args: argparse.Namespace, home: Path) -> int:
    return _change_aside(args, home, "retry", "put back; the next agent process writes them")


def _drop(args: argparse.Namespace, home: Path) -> int:
    return _change_aside(args, home, "drop", "deleted")


def _change_aside(args: argparse.Namespace, home: Path, action: Literal["retry", "drop"], done: str) -> int:
    from ..domain.errors import InvalidArgument
    from ..operate.spools import change_aside, render_aside

    if not args.ids and not args.all:
        raise InvalidArgument(f"name the writes to {action}, or --all; see: hermes-pgvector spool list")
    meant = change_aside(home, action, args.ids, everything=args.all, really=args.yes)
    print(render_aside(meant, as_json=args.json))
    if not args.json:
        print(
            f"{len(meant)} writes {done}" if args.yes else f"{len(meant)} writes meant; nothing was changed: add --yes"
        )
    return EXIT_OK


STATUS = Command(
    "status",
    "show what waits, what was written, and how every agent process of this home goes",
    "hermes-pgvector status\nhermes-pgvector status --json",
    _status,
    add_json,
)
STATS = Command(
    "stats",
    "print the counters, one a line, for scripts",
    "hermes-pgvector stats\nhermes-pgvector stats --json",
    _stats,
    add_json,
)
SPOOL = Command(
    "spool",
    "look at writes that Postgres refused for what they hold, try them again, or drop them",
    "hermes-pgvector spool list\nhermes-pgvector spool retry --all --yes\nhermes-pgvector spool drop 3f2a9c01 --yes",
    actions=(
        Command("list", "the writes that were set aside, and why", "hermes-pgvector spool list", _list_aside, add_json),
        Command(
            "retry",
            "put writes back, for the next agent process",
            "hermes-pgvector spool retry --all --yes",
            _retry,
            _change_arguments,
        ),
        Command("drop", "delete writes", "hermes-pgvector spool drop 3f2a9c01 --yes", _drop, _change_arguments),
    ),
)
