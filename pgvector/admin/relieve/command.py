"""The command `relieve`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from ...domain.commandline import typed
from ...domain.dates import parse_when
from ...domain.errors import ConfigurationError, InvalidArgument, WrongUsage
from ...domain.format import local_minute
from ...domain.types import MEMORY_FILES
from ..common.command_context import CommandContext, context_for
from ..common.commands import Command, add_login, add_yes, argument, positive
from ..common.console import Column, say, show_table
from ..common.file_fill import fill_of
from ..common.outcome import ADD_YES, Outcome, counted, print_outcome
from ..common.row_options import one_line
from .file_entries import MemoryFile, read_file
from .judging import JudgedEntry, Kind, find_duplicates, find_unused, look
from .relief import is_untold, note_told, one_run_at_a_time, relieve
from .undoing import undo

_UNTOLD = "the last run ended before it could say what it took out"
_UNUSED_FOR = "90d"  # the default if no entries are chosen and all are shown

_FILES = (
    Column("file"),
    Column("entries", right=True),
    Column("chars", "characters", right=True),
    Column("limit", right=True),
    Column("share", right=True),
)
_ENTRIES = (
    Column("number", "entry", right=True, style="bold"),
    Column("file"),
    Column("chars", right=True),
    Column("said", "last said", style="dim"),
    Column("why", flexible=True),
    Column("content", "text", flexible=True),
)
_BACK = (Column("file"), Column("content", "text", flexible=True))


def _relieve(args: argparse.Namespace, home: Path) -> int:
    chooses = _chooses(args)
    if not args.yes:
        return _undo(args, home) if args.undo else _look(args, home, chooses=chooses)
    with one_run_at_a_time(home):
        if args.undo:
            return _undo(args, home)
        if is_untold(home):
            raise InvalidArgument(
                f"{_UNTOLD}: entries may have other numbers now, and --undo would no longer put back what it took out; "
                "look first: hermes-pgvector relieve. Nothing was changed"
            )
        code = _move(args, home, chooses=chooses)
        note_told(home)
    return code


def _look(args: argparse.Namespace, home: Path, *, chooses: bool) -> int:
    with _stopped_run(home) as stopped:
        code = _move(args, home, chooses=chooses, stopped=stopped)
        if stopped and not chooses and not args.target:  # every entry was shown
            note_told(home)
    return code


@contextmanager
def _stopped_run(home: Path) -> Iterator[bool]:
    """Yield whether a run was stopped before it could say what it did; then none begins in the block."""
    stopped = is_untold(home)
    with ExitStack() as held:
        if stopped:
            try:
                held.enter_context(one_run_at_a_time(home))
                stopped = is_untold(home)
            except ConfigurationError:  # it is under way
                stopped = False
        yield stopped


def _move(args: argparse.Namespace, home: Path, *, chooses: bool, stopped: bool = False) -> int:
    before = parse_when(args.unused_for or _UNUSED_FOR, "--unused-for", zone=None)
    assert before is not None, "a text is given"
    files, before_them = _files(home, args.target)
    with context_for(args, home) as (context, rules):
        entries = look(context, rules, files, after=before_them)
        notes = _judge(context, entries, args, before, every=not chooses)
        if chooses:
            done = relieve(context, files, _chosen(entries, args), really=args.yes)
            done.hints += _vectors_follow(done, context)
        else:
            done = _report(home, files, entries)
    done.notes += notes
    if stopped:
        done.notes.append(f"{_UNTOLD}; to put that back: {typed('hermes-pgvector relieve --undo --yes')}")
    summary = _summary(done) if chooses else _hint(entries)
    return print_outcome(args, done, lambda: _show(done), summary)


def _files(home: Path, target: str | None) -> tuple[list[MemoryFile], int]:
    """Return the wanted files and the number of entries in earlier files: entries are numbered over all files."""
    files: list[MemoryFile] = []
    before = 0
    for each in MEMORY_FILES:
        file = read_file(home, each)
        if target in (None, each):
            files.append(file)
        elif files:
            break
        else:
            before += len(file.entries)
    return files, before


def _report(home: Path, files: Sequence[MemoryFile], entries: Sequence[JudgedEntry]) -> Outcome:
    facts = {"files": [fill_of(home, file.target, file.entries).row() for file in files]}
    return Outcome("relieve", False, {"entries": len(entries)}, [entry.row() for entry in entries], facts)


def _chooses(args: argparse.Namespace) -> bool:
    """Return whether the options choose entries. Raises WrongUsage for options that do not go together."""
    chooses = bool(args.duplicates or args.superseded or args.unused_for or args.entry)
    if args.undo and (chooses or args.target):
        raise WrongUsage("--undo puts back what the last run took out, and takes no choice")
    if args.yes and not (chooses or args.undo):
        raise WrongUsage("say which entries: --duplicates, --superseded, --unused-for 90d, --entry N")
    return chooses


def _judge(
    context: CommandContext, entries: Sequence[JudgedEntry], args: argparse.Namespace, before: datetime, *, every: bool
) -> list[str]:
    """Look for the reasons that the options name, or for every one; return notes for the operator."""
    if every or args.duplicates:
        find_duplicates(context, entries)
    return find_unused(context, entries, before) if every or args.unused_for else []


def _chosen(entries: Sequence[JudgedEntry], args: argparse.Namespace) -> list[JudgedEntry]:
    """Return the entries that the options choose. Raises InvalidArgument for a number that does not exist."""
    if missing := sorted(set(args.entry) - {entry.number for entry in entries}):
        raise InvalidArgument(
            f"there is no entry {', '.join(map(str, missing))}; hermes-pgvector relieve shows their numbers, which "
            "change with the files"
        )
    kinds: dict[Kind, bool] = {
        "duplicate": args.duplicates,
        "superseded": args.superseded,
        "unused": bool(args.unused_for),
    }
    wanted = [kind for kind, meant in kinds.items() if meant]
    return [entry for entry in entries if entry.number in args.entry or (entry.is_a(*wanted) and not entry.secret)]


def _summary(done: Outcome) -> str:
    told = counted(done.counts)
    if done.done and done.counts["entries"]:
        return typed(f"moved into the database: {told}; to put them back into the file: hermes-pgvector relieve --undo")
    return f"would move {told} into the database; {ADD_YES}" if done.counts["entries"] else ""


def _vectors_follow(done: Outcome, context: CommandContext) -> list[str]:
    if context.embedder is None or not done.done or all(row["memories"] for row in done.rows):
        return []
    return [typed("what no session had read yet gets its vector with the next agent, or hermes-pgvector backfill")]


def _hint(entries: Sequence[JudgedEntry]) -> str:
    if not entries:
        return ""
    return typed(
        "to move some of them into the database, where recall finds them: hermes-pgvector relieve --duplicates "
        "--superseded --unused-for 90d --entry N"
    )


def _undo(args: argparse.Namespace, home: Path) -> int:
    with context_for(args, home) as (context, _):
        done = undo(context, really=args.yes)
    told = counted(done.counts, also_none=True)
    summary = f"put back: {told}; the memories stay" if done.done else f"would put back {told}; {ADD_YES}"
    return print_outcome(args, done, lambda: _show_undone(done), summary)


def _show(done: Outcome) -> None:
    show_table(_ENTRIES, [_shown(row) for row in done.rows], empty="no entry to move")
    _show_files(done)


def _show_undone(done: Outcome) -> None:
    show_table(_BACK, [row | {"content": one_line(row["content"])} for row in done.rows], empty="no entry to put back")
    _show_files(done)


def _show_files(done: Outcome) -> None:
    say()
    show_table(_FILES, [row | {"share": f"{row['share']:.0%}"} for row in done.facts["files"]])


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    secret = ["holds a secret, stays"] if row.get("secret") else []
    why = "; ".join([*secret, *(f"{each['kind']}: {each['said']}" for each in row.get("reasons", []))])
    said = local_minute(row["said_at"])[:10] if row.get("said_at") else ""
    return row | {"said": said, "why": why, "content": one_line(row["content"])}


RELIEVE = Command(
    "hermes-pgvector relieve\nhermes-pgvector relieve --duplicates --superseded\n"
    "hermes-pgvector relieve --unused-for 180d --target memory --yes\n"
    "hermes-pgvector relieve --entry 3 --entry 7 --yes\nhermes-pgvector relieve --undo --yes",
    _relieve,
    [
        argument("--duplicates", "entries that another entry or memory says as well"),
        argument("--superseded", "entries that were replaced or closed, or have expired"),
        argument(
            "--unused-for WHEN", "entries that were last said before, and that no turn since is about: 90d, 2026-01-01"
        ),
        argument("--entry N", "this entry, by number; repeatable", type=positive, action="append", default=[]),
        argument("--target", "only MEMORY.md, or only USER.md", choices=("memory", "user")),
        argument("--undo", "put back into the files what the last run took out"),
        add_yes,
        add_login,
    ],
)
