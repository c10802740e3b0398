"""The commands `export`, `themes export` and `import`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from shlex import quote

from ...domain.commandline import typed
from ...domain.dates import parse_when
from ...domain.errors import WrongUsage
from ...domain.format import plural
from ..common.commands import EXIT_FAILED, EXIT_OK, Command, add_login, argument, printed
from ..common.console import Column, remark, say, show_table, warn
from ..common.database import database
from ..common.new_vectors import own_space
from ..common.outcome import counted
from ..common.stopped import said_if_stopped
from .export import ExportRequest, export
from .export_rows import TimeRange
from .import_file import Import, ImportOptions, absent_themes, import_file
from .ingest import REMOVED, IngestResult
from .outfile import ByteSink, private_output

add_themes = argument(
    "--theme THEME",
    "this theme only; may be given several times (default: all)",
    dest="themes",
    action="append",
    default=[],
)

add_replace = argument("--replace", "replace FILE, in one step, when the new one is whole")


def _export_theme(args: argparse.Namespace, home: Path) -> int:
    args.themes, args.since, args.until = [args.theme], None, None
    return _export(args, home)


def _export(args: argparse.Namespace, home: Path) -> int:
    """Write the themes to a new file or to stdout, and the summary to stderr because stdout may hold the rows."""
    file = None if args.file == Path("-") else args.file
    if file is None and sys.__stdout__ is None:  # closed when this process began
        raise WrongUsage("stdout is closed, and the rows would be nowhere: name a FILE to write them to")
    until = parse_when(args.until, "--until", end=True, zone=None)
    period = TimeRange(parse_when(args.since, "--since", zone=None), until)
    if period.since and period.until and period.since >= period.until:
        raise WrongUsage("--since is not before --until: nothing can lie between them")
    args.json = args.json and file is not None  # otherwise stdout holds the rows, and no error may appear among them
    wanted = ExportRequest(args.themes, period, args.vectors)
    with database(args, home) as (conn, _, rules), contextlib.ExitStack() as files:
        done = export(conn, wanted, rules, lambda: files.enter_context(_output(file, replace=args.replace)))
    rows = counted({"memories": done.memories, "turns": done.turns}, also_none=True).replace(", ", " and ")
    removed = f", and {plural(done.removed, 'digest')} of removed memories," if done.removed else ""
    said = f"{rows}{removed} written to {file or 'stdout'}"
    return printed(args, asdict(done) | {"file": str(file)}, lambda: remark(said))


@contextlib.contextmanager
def _output(file: Path | None, *, replace: bool) -> Iterator[ByteSink]:
    if file is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
    else:
        with private_output(file, replace=replace) as out:
            yield out


def if_stopped(*, really: bool) -> str:
    """Return what to say when a command that takes rows in is stopped before its end."""
    return "what arrived stays; run it again to go on" if really else "nothing was changed"


def _import(args: argparse.Namespace, home: Path) -> int:
    renamed = _renamed(args.rename)
    with database(args, home, any_dims=False) as (conn, settings, rules):
        options = ImportOptions(
            settings,
            rules,
            themes=args.themes,
            renamed=renamed,
            own=own_space(settings, home),
            restore=args.restore,
            salvage=args.salvage,
            really=not args.dry_run,
        )
        with said_if_stopped(if_stopped(really=not args.dry_run)):
            done = import_file(conn, None if args.file == "-" else Path(args.file), options)
    printed(args, {"done": not args.dry_run} | done.as_json(), lambda: _show_imported(done, dry_run=args.dry_run))
    if done.absent:
        warn(absent_themes(done.absent, done.held))
    if done.damage:
        warn(f"the file is damaged: {done.damage}")
    if done.malformed:
        warn(f"{plural(done.malformed, 'line')} could not be read")
    return EXIT_OK if done.complete and not done.absent and not done.arrivals.refused else EXIT_FAILED


def _show_imported(done: Import, *, dry_run: bool) -> None:
    show_arrivals(done.arrivals, dry_run=dry_run)
    if done.arrivals.skipped[REMOVED]:
        say("what was removed here stays removed; import it again with --restore if it shall come back")
    warn_of_moved(done.arrivals, really=not dry_run)
    if done.header.vectors and not done.vectors_fit:
        warn(
            f"the vectors of the file are of {done.header.space.model!r}, which is not the model in use here: "
            "the texts wait for new ones, which the agents make, or now: hermes-pgvector backfill"
        )


def show_arrivals(arrivals: IngestResult, *, dry_run: bool) -> None:
    """Print the counts of an import."""
    added = Column("added", "would be added" if dry_run else "added", right=True)
    show_table(
        (Column("what", " "), added, Column("there", "there already", right=True)),
        (
            {"what": "memories", "added": arrivals.memories_added, "there": arrivals.memories_there},
            {"what": "turns", "added": arrivals.turns_added, "there": arrivals.turns_there},
        ),
    )
    if arrivals.vectors:
        say(f"{arrivals.vectors:,} of them with their vectors")
    if arrivals.masked:
        say(f"{plural(arrivals.masked, 'secret')} masked in them")
    if arrivals.without_replaced:
        say(f"{plural(arrivals.without_replaced, 'memory', 'memories')} took the place of one that is not here")
    if arrivals.without_sources:
        say(f"{plural(arrivals.without_sources, 'memory', 'memories')} came from turns that are not here")
    for reason, count in arrivals.skipped.most_common():
        say(f"{count:,} left out: {reason}", "yellow")
    for example in arrivals.examples:
        say(f"  {example}", "dim")
    if arrivals.unreachable:
        names = ", ".join(sorted(arrivals.unreachable))
        warn(f"allowed_themes does not name {names}: until it does, no session has these themes")


def warn_of_moved(arrivals: IngestResult, *, really: bool) -> None:
    """Name the themes that were renamed or merged here and to which rows came under their old name."""
    for theme, now in sorted(arrivals.moved.items()):
        together = typed(f"hermes-pgvector themes merge {quote(theme)} {quote(now)}")
        again = (
            "holds rows again: to put them together" if really else "would hold rows again; to put them together then"
        )
        warn(f"{theme!r} was renamed to {now!r} here, or merged into it, and {again}: {together}")


def _renamed(pairs: list[str]) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for pair in pairs:
        old, _, new = pair.rpartition("=")
        if not old or not new.strip():
            raise WrongUsage(f"--rename {pair}: write OLD=NEW")
        if renamed.setdefault(old, new) != new:
            raise WrongUsage(f"--rename gives {old!r} two names, {renamed[old]!r} and {new!r}: take one out")
    return renamed


EXPORT = Command(
    "hermes-pgvector export hermes.jsonl.gz\nhermes-pgvector export sales.jsonl --theme sales --since 2026-01\n"
    "hermes-pgvector export --vectors | ssh there hermes-pgvector import -",
    _export,
    [
        argument(
            "file FILE", "a new file, compressed when it ends in .gz; - is stdout (the default)", nargs="?", type=Path
        ),
        add_themes,
        argument("--since WHEN", "turns said and memories last confirmed from then on: 2026-05-03, 7d, yesterday"),
        argument("--until WHEN", "... before then; of a day, month or year, to its end"),
        argument("--vectors", "with the embeddings, which need not be made again then"),
        add_replace,
        add_login,
    ],
)

EXPORT_THEME = Command(
    "hermes-pgvector themes export sales --output sales.jsonl\n"
    "hermes-pgvector themes export sales | gzip > sales.jsonl.gz",
    _export_theme,
    [
        argument(
            "--output FILE",
            "a new file, compressed when it ends in .gz; - is stdout (the default)",
            dest="file",
            type=Path,
        ),
        argument("--vectors", "with the embeddings"),
        add_replace,
        argument("theme THEME", "its name"),
        add_login,
    ],
)

IMPORT = Command(
    "hermes-pgvector import hermes.jsonl.gz --dry-run\nhermes-pgvector import hermes.jsonl.gz\n"
    "hermes-pgvector import sales.jsonl --rename sales=emea-sales",
    _import,
    [
        argument("file FILE", "what `export` wrote, compressed or not; - is stdin"),
        add_themes,
        argument(
            "--rename OLD=NEW",
            "take theme OLD of the file in as NEW; may be given several times",
            action="append",
            default=[],
        ),
        argument("--restore", "bring back memories that were removed here after they were written"),
        argument("--salvage", "take what can be read of a damaged file"),
        argument("--dry-run", "only count"),
        add_login,
    ],
)
