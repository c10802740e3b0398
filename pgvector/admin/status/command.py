"""The commands status, stats and spool."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ...capture.spool_directory import destination_of
from ...capture.spool_format import RejectedWrite
from ...domain.errors import WrongUsage
from ..common.commands import EXIT_FAILED, EXIT_OK, Command, action, add_yes, argument, filled, printed
from ..common.console import say, warn
from ..common.database import settings_of
from ..common.embedded_server import borrowed_server
from ..common.outcome import ADD_YES, Outcome
from ..common.repeat import repeatedly, seconds, until_ended
from ..common.spool_views import SpoolView, change_rejected, inspect_spools, rejected_as_dict, render_rejected, send
from .detail import detail_lines
from .report import Status, Watcher, agreed, counted_writes, flat, render_status

_EVERY_S = 2.0
_CLEAR = "\x1b[H\x1b[J"  # move the cursor to the top and clear everything below it


def _status(args: argparse.Namespace, home: Path) -> int:
    last: Status = {"database": {}}
    for last in _looks(args, home):
        _show(args, agreed(last), _rendered)
    return _exit_code(last)


def _exit_code(last: Status) -> int:
    return EXIT_FAILED if "problem" in last["database"] else EXIT_OK


def _rendered(status: Status) -> str:
    more = status["database"].get("detail")
    return "\n".join([render_status(status), *([] if more is None else detail_lines(more))])


def _stats(args: argparse.Namespace, home: Path) -> int:
    def lines(numbers: Mapping[str, float]) -> str:
        return "\n".join(f"{key} {numbers[key]}" for key in sorted(numbers))

    last: Status = {"database": {}}
    for last in _looks(args, home):
        if problem := last["database"].get("problem"):
            warn(problem)  # the numbers cannot say it
        _show(args, flat(last), lines)
    return _exit_code(last)


def _looks(args: argparse.Namespace, home: Path) -> Iterator[Status]:
    """Yield one status or, with --watch, one after another."""
    settings = settings_of(home)
    with (
        until_ended(),
        borrowed_server(settings) as locate,
        closing(Watcher(settings, home, locate, verbose=getattr(args, "verbose", False))) as watcher,
    ):
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


def _list_rejected(args: argparse.Namespace, home: Path) -> int:
    views = inspect_spools(home)
    found = change_rejected(views, "retry", [], everything=True, really=False)
    _tell(args, list(map(rejected_as_dict, found)), _unread(views), found, lambda: say(render_rejected(found)))
    return EXIT_FAILED if _unread(views) else EXIT_OK


def _send(args: argparse.Namespace, home: Path) -> int:
    views = inspect_spools(home)
    meant = send(views, destination_of(settings_of(home), home), really=args.yes)
    rows = [{"spool": str(each.path), "writes": each.waiting, "for": each.place} for each in meant]
    told = Outcome("send", args.yes, {"writes": sum(each.waiting for each in meant)}, rows, notes=_unread(views))
    _tell(args, told.as_json(), told.notes, meant, lambda: _show_sent(meant, done=args.yes))
    return EXIT_FAILED if told.notes else EXIT_OK


def _show_sent(meant: Sequence[SpoolView], *, done: bool) -> None:
    for each in meant:
        say(f"{counted_writes(each.waiting)} accepted for {each.place}, in {each.path}")
    if not meant:
        print("no write waits for another database")
    else:
        said = "sent to the database of this home; the next agent process writes them"
        _print_changed(sum(each.waiting for each in meant), said if done else "")


def _change_rejected(action: Literal["retry", "drop"], done: str, args: argparse.Namespace, home: Path) -> int:
    if not args.ids and not args.all:
        raise WrongUsage(f"name the writes to {action}, or --all; see: hermes-pgvector spool list")
    views = inspect_spools(home)
    meant = change_rejected(views, action, args.ids, everything=args.all, really=args.yes)
    rows = list(map(rejected_as_dict, meant))
    told = Outcome(action, args.yes, {"writes": len(meant)}, rows, notes=_unread(views))
    _tell(args, told.as_json(), told.notes, meant, lambda: _show_changed(meant, done=done if args.yes else ""))
    return EXIT_FAILED if args.all and told.notes else EXIT_OK  # those that were named were found


def _unread(views: Sequence[SpoolView]) -> list[str]:
    """Return what is to be said of spool files that could not be read."""
    return [f"{view.problem}; what it holds is not counted here" for view in views if view.problem]


def _tell(
    args: argparse.Namespace, value: Any, unread: Sequence[str], found: Sequence[Any], show: Callable[[], None]
) -> None:
    """Print what was found in the spools, and name the files that could not be read."""
    printed(args, value, show if found or not unread else lambda: None)
    for problem in unread:
        warn(problem)


def _show_changed(meant: list[RejectedWrite], *, done: str) -> None:
    say(render_rejected(meant))
    if meant:
        _print_changed(len(meant), done)


def _print_changed(count: int, done: str) -> None:
    print(f"{counted_writes(count)} {done or f'meant; {ADD_YES}'}")


_WATCH = argument(
    "--watch SECONDS",
    f"again every so often (default: {_EVERY_S:g}), until interrupted; with --json one line each",
    nargs="?",
    type=seconds,
    const=_EVERY_S,
)
_REJECTED = (
    argument("ids ID", "the first digits of a write's id, as `list` shows it", nargs="*", type=filled),
    argument("--all", "every rejected write"),
    add_yes,
)
STATUS = Command(
    "hermes-pgvector status\nhermes-pgvector status --watch 5\nhermes-pgvector status --verbose --json",
    _status,
    [
        _WATCH,
        argument("--verbose", "count episodes, facts and vectors too; reads every row"),
    ],
)
STATS = Command("hermes-pgvector stats\nhermes-pgvector stats --watch 60 --json", _stats, [_WATCH])
SPOOL = Command(
    "hermes-pgvector spool list\nhermes-pgvector spool retry --all --yes\nhermes-pgvector spool drop 3f2a9c01 --yes",
    actions=[
        action(
            "list", "list the rejected writes, and why they were rejected", "hermes-pgvector spool list", _list_rejected
        ),
        action(
            "retry",
            "put writes back, for the next agent process",
            "hermes-pgvector spool retry --all --yes",
            partial(_change_rejected, "retry", "put back; the next agent process writes them"),
            _REJECTED,
        ),
        action(
            "send",
            "send writes that were accepted for another database to the one that this home names now",
            "hermes-pgvector spool send --yes",
            _send,
            [add_yes],
        ),
        action(
            "drop",
            "delete writes",
            "hermes-pgvector spool drop 3f2a9c01 --yes",
            partial(_change_rejected, "drop", "deleted"),
            _REJECTED,
        ),
    ],
)
