"""export and import."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.commands import EXIT_FAILED, EXIT_OK, Command, add_json, add_login, connection, print_json, settings_of
from ..common.console import Column, say, show_table, warn

if TYPE_CHECKING:
    from ...config.settings import Settings
    from ...domain.types import EmbeddingSpace
    from ...host.session_context import Policy
    from .ingest import IngestResult
    from .outfile import ByteSink


def add_period(command: argparse.ArgumentParser) -> None:
    """Add --since and --until."""
    command.add_argument(
        "--since", metavar="WHEN", help="turns said and memories last confirmed from then on: 2026-05-03, 7d, yesterday"
    )
    command.add_argument("--until", metavar="WHEN", help="... before then; of a day, month or year, to its end")


def add_themes(command: argparse.ArgumentParser) -> None:
    """Add --theme, which may be given several times."""
    command.add_argument(
        "--theme", dest="themes", action="append", default=[], metavar="THEME",
        help="this theme only; may be given several times (default: all)",
    )  # fmt: skip


def _login(command: argparse.ArgumentParser) -> None:
    add_login(command)
    add_json(command)


def _export_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "file", nargs="?", type=Path, metavar="FILE",
        help="a new file, compressed when it ends in .gz (default: stdout)",
    )  # fmt: skip
    add_themes(command)
    add_period(command)
    command.add_argument(
        "--vectors", action="store_true", help="with the embeddings, which need not be made again then"
    )
    command.add_argument("--replace", action="store_true", help="replace FILE, in one step, when the new one is whole")
    _login(command)


def _export(args: argparse.Namespace, home: Path) -> int:
    return _run_export(args, home, args.file, args.themes)


def _export_theme_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="a new file, compressed when it ends in .gz (default: stdout)"
    )
    command.add_argument("--vectors", action="store_true", help="with the embeddings")
    command.add_argument("theme", metavar="THEME", help="its name")
    _login(command)


def _export_theme(args: argparse.Namespace, home: Path) -> int:
    return _run_export(args, home, args.output, [args.theme])


def _run_export(args: argparse.Namespace, home: Path, file: Path | None, themes: list[str]) -> int:
    """Write the themes to a new file, or to stdout; what was written is told on stderr where stdout holds the rows."""
    from ...domain.dates import parse_when
    from ...domain.errors import WrongUsage
    from ...host.session_context import Policy
    from .export import ExportRequest, export
    from .export_rows import TimeRange

    period = TimeRange(
        parse_when(getattr(args, "since", None), "--since"),
        parse_when(getattr(args, "until", None), "--until", end=True),
    )
    if period.since and period.until and period.since >= period.until:
        raise WrongUsage("--since is not before --until: nothing can lie between them")
    args.json = args.json and file is not None  # else stdout holds the rows, and no error is to stand among them
    replace = getattr(args, "replace", False)
    wanted = ExportRequest(themes, period, args.vectors)
    settings = settings_of(home)
    with connection(settings, args.admin_dsn) as conn, contextlib.ExitStack() as files:
        done = export(
            conn, wanted, Policy.of(settings).rules, lambda: files.enter_context(_output(file, replace=replace))
        )
    if args.json:
        print_json(done.as_json() | {"file": str(file)})
    else:
        removed = f", and {done.removed:,} digests of removed memories," if done.removed else ""
        print(
            f"{done.memories:,} memories and {done.turns:,} turns{removed} written to {file or 'stdout'}",
            file=sys.stderr,
        )
    return EXIT_OK


@contextlib.contextmanager
def _output(file: Path | None, *, replace: bool) -> Iterator[ByteSink]:
    from .outfile import private_output

    if file is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
    else:
        with private_output(file, replace=replace) as out:
            yield out


def _import_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", metavar="FILE", help="what `export` wrote, compressed or not; - is stdin")
    add_themes(command)
    command.add_argument(
        "--rename", action="append", default=[], metavar="OLD=NEW",
        help="take theme OLD of the file in as NEW; may be given several times",
    )  # fmt: skip
    command.add_argument(
        "--restore", action="store_true", help="bring back memories that were removed here after they were written"
    )
    command.add_argument("--salvage", action="store_true", help="take what can be read of a damaged file")
    command.add_argument("--dry-run", action="store_true", help="only count")
    _login(command)


def _import(args: argparse.Namespace, home: Path) -> int:
    from .import_file import Bringing, import_file

    policy, settings = _policy(home)
    bringing = Bringing(
        settings,
        policy.rules,
        themes=args.themes,
        renamed=_renamed(args.rename),
        own=_own_space(settings, home),
        restore=args.restore,
        salvage=args.salvage,
        really=not args.dry_run,
    )
    with connection(settings, args.admin_dsn) as conn:
        done = import_file(conn, None if args.file == "-" else Path(args.file), bringing)
    if args.json:
        print_json(done.as_json() | {"dry_run": args.dry_run})
    else:
        show_arrivals(done.arrivals, dry_run=args.dry_run)
        if done.header.vectors and not done.vectors_fit:
            warn(
                f"the vectors of the file are of {done.header.space.model!r}, which is not the model in use here: "
                "the texts wait for new ones, which the agents make, or now: hermes-pgvector backfill"
            )
    if done.absent:
        names = ", ".join(map(repr, done.absent))
        warn(f"the file holds no theme {names}; it holds: {', '.join(map(repr, done.held)) or 'none'}")
    if done.damage:
        warn(f"the file is damaged: {done.damage}")
    if done.malformed:
        warn(f"{done.malformed:,} lines could not be read")
    return EXIT_OK if done.complete else EXIT_FAILED


def show_arrivals(arrivals: IngestResult, *, dry_run: bool) -> None:
    """Show what became of records."""
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
        say(f"{arrivals.masked:,} secrets masked in them")
    for reason, count in arrivals.skipped.most_common():
        say(f"{count:,} left out: {reason}", "yellow")
    for example in arrivals.examples:
        say(f"  {example}", "dim")
    if arrivals.unreachable:
        names = ", ".join(sorted(arrivals.unreachable))
        warn(f"allowed_themes does not name {names}: until it does, no session has these themes")


def _renamed(pairs: list[str]) -> dict[str, str]:
    from ...domain.errors import WrongUsage

    split = [pair.rpartition("=") for pair in pairs]
    for pair, (old, _, new) in zip(pairs, split, strict=True):
        if not old or not new.strip():
            raise WrongUsage(f"--rename {pair}: write OLD=NEW")
    return {old: new for old, _, new in split}


def _policy(home: Path) -> tuple[Policy, Settings]:
    from ...host.session_context import Policy

    settings = settings_of(home)
    return Policy.of(settings), settings


def _own_space(settings: Settings, home: Path) -> EmbeddingSpace | None:
    """Return what the settings' model makes vectors in; None without one."""
    from ...domain.errors import HermesPgvectorError
    from ...embed.embedder import space_of
    from ...embed.factory import embedder_for

    try:
        embedder = embedder_for(settings, "", home=home)
        if embedder is None:
            return None
        with contextlib.closing(embedder):
            return space_of(embedder)
    except HermesPgvectorError:  # whose model cannot be used has none
        return None


EXPORT = Command(
    "export",
    "write memories and turns to a file",
    "hermes-pgvector export hermes.jsonl.gz\nhermes-pgvector export sales.jsonl --theme sales --since 2026-01\n"
    "hermes-pgvector export --vectors | ssh there hermes-pgvector import -",
    _export,
    _export_arguments,
)

EXPORT_THEME = Command(
    "export",
    "write a theme as JSON Lines",
    "hermes-pgvector themes export sales --output sales.jsonl\n"
    "hermes-pgvector themes export sales | gzip > sales.jsonl.gz",
    _export_theme,
    _export_theme_arguments,
)

IMPORT = Command(
    "import",
    "take in what export wrote, each row once",
    "hermes-pgvector import hermes.jsonl.gz --dry-run\nhermes-pgvector import hermes.jsonl.gz\n"
    "hermes-pgvector import sales.jsonl --rename sales=emea-sales",
    _import,
    _import_arguments,
)
