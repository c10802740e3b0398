"""status, stats and spool."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..common.commands import EXIT_FAILED, EXIT_OK, Command, add_json, add_yes, settings_of
from ..common.console import say
from ..common.outcome import ADD_YES, counted
from ..common.repeat import repeatedly, seconds, until_ended

if TYPE_CHECKING:
    from .report import Status


_EVERY_S = 2.0
_CLEAR = "\x1b[H\x1b[J"  # the cursor to the top, everything below it empty


def _watch_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--watch",
        nargs="?",
        type=seconds,
        const=_EVERY_S,
        metavar="SECONDS",
        help=f"again every so often (default: {_EVERY_S:g}), until interrupted; with --json one line each",
    )
    add_json(command)


def _status(args: argparse.Namespace, home: Path) -> int:
    from .report import agreed, render_status

    last: Status = {"database": {}}
    for last in _looks(args, home):
        _show(args, agreed(last), render_status)
    return EXIT_FAILED if "problem" in last["database"] else EXIT_OK


def _stats(args: argparse.Namespace, home: Path) -> int:
    from .report import flat

    def lines(numbers: Mapping[str, float]) -> str:
        return "\n".join(f"{key} {numbers[key]}" for key in sorted(numbers))

    for status in _looks(args, home):
        _show(args, flat(status), lines)
    return EXIT_OK


def _looks(args: argparse.Namespace, home: Path) -> Iterator[Status]:
    """Look once, or with --watch one after the other."""
    from ..common.embedded_server import borrowed_server
    from .report import Watcher

    settings = settings_of(home)
    with until_ended(), borrowed_server(settings) as locate, Watcher(settings, home, locate) as watcher:
        if args.watch is None:
            yield watcher.look()
            return
        for _ in repeatedly(args.watch):
            yield watcher.look()


def _show(args: argparse.Namespace, known: Any, render: Callable[[Any], str]) -> None:
    if args.json:
        print(json.dumps(known) if args.watch is not None else json.dumps(known, indent=2), flush=True)
        return
    if args.watch is None:
        say(render(known))
        return
    at = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if sys.stdout.isatty():
        sys.stdout.write(_CLEAR)
        say(f"every {args.watch:g} s, {at}; Ctrl-C ends it\n\n{render(known)}")
    else:
        say(f"# {at}\n{render(known)}\n")
    sys.stdout.flush()


def _change_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("ids", nargs="*", metavar="ID", help="the first digits of a write's id, as `list` shows it")
    command.add_argument("--all", action="store_true", help="every rejected write")
    add_yes(command)
    add_json(command)


def _list_rejected(args: argparse.Namespace, home: Path) -> int:
    from ..common.spool_views import change_rejected, render_rejected

    print(render_rejected(change_rejected(home, "retry", [], everything=True, really=False), as_json=args.json))
    return EXIT_OK


def _retry(args: argparse.Namespace, home: Path) -> int:
    return _change_rejected(args, home, "retry", "put back; the next agent process writes them")


def _drop(args: argparse.Namespace, home: Path) -> int:
    return _change_rejected(args, home, "drop", "deleted")


def _send(args: argparse.Namespace, home: Path) -> int:
    from ..common.spool_views import send

    meant = send(settings_of(home), home, really=args.yes)
    if args.json:
        print(json.dumps([{"spool": str(each.path), "writes": each.waiting, "for": each.place} for each in meant]))
        return EXIT_OK
    for each in meant:
        print(f"{_writes(each.waiting)} accepted for {each.place}, in {each.path}")
    if not meant:
        print("no write waits for another database")
    else:
        done = "sent to the database of this home; the next agent process writes them"
        _print_changed(sum(each.waiting for each in meant), done if args.yes else "")
    return EXIT_OK


def _send_arguments(command: argparse.ArgumentParser) -> None:
    add_yes(command)
    add_json(command)


def _change_rejected(args: argparse.Namespace, home: Path, action: Literal["retry", "drop"], done: str) -> int:
    from ...domain.errors import WrongUsage
    from ..common.spool_views import change_rejected, render_rejected

    if not args.ids and not args.all:
        raise WrongUsage(f"name the writes to {action}, or --all; see: hermes-pgvector spool list")
    meant = change_rejected(home, action, args.ids, everything=args.all, really=args.yes)
    print(render_rejected(meant, as_json=args.json))
    if meant and not args.json:
        _print_changed(len(meant), done if args.yes else "")
    return EXIT_OK


def _print_changed(count: int, done: str) -> None:
    print(f"{_writes(count)} {done}" if done else f"{_writes(count)} meant; {ADD_YES}")


def _writes(count: int) -> str:
    return counted({"writes": count}, also_none=True)


STATUS = Command(
    "status",
    "show what is stored, what waits, and how every agent process of this home goes",
    "hermes-pgvector status\nhermes-pgvector status --watch 5\nhermes-pgvector status --json",
    _status,
    _watch_arguments,
)
STATS = Command(
    "stats",
    "print the counters, one a line, for scripts",
    "hermes-pgvector stats\nhermes-pgvector stats --watch 60 --json",
    _stats,
    _watch_arguments,
)
SPOOL = Command(
    "spool",
    "look at writes that Postgres rejected for what they hold, try them again, or drop them",
    "hermes-pgvector spool list\nhermes-pgvector spool retry --all --yes\nhermes-pgvector spool drop 3f2a9c01 --yes",
    actions=(
        Command("list", "the rejected writes, and why", "hermes-pgvector spool list", _list_rejected, add_json),
        Command(
            "retry",
            "put writes back, for the next agent process",
            "hermes-pgvector spool retry --all --yes",
            _retry,
            _change_arguments,
        ),
        Command(
            "send",
            "send writes that were accepted for another database to the one that this home names now",
            "hermes-pgvector spool send --yes",
            _send,
            _send_arguments,
        ),
        Command("drop", "delete writes", "hermes-pgvector spool drop 3f2a9c01 --yes", _drop, _change_arguments),
    ),
)
