"""The command line: `hermes-pgvector ...` and `hermes pgvector ...`, one parser for both doors.

The host imports this file alone, so everything but the standard library is imported inside the functions.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .admin.common.commands import Command


def _commands() -> tuple[Command, ...]:
    """Return every verb, in the order of the help."""
    from .admin.browse import command as browse
    from .admin.browse import search_command as search
    from .admin.common import completion
    from .admin.compact import command as compact
    from .admin.doctor import command as doctor
    from .admin.edit import command as edit
    from .admin.edit import removals_command as removals
    from .admin.index import command as index
    from .admin.migrate import command as migrate
    from .admin.models import command as models
    from .admin.prune import command as prune
    from .admin.reembed import command as reembed
    from .admin.setup import command as setup
    from .admin.setup import lifecycle_command as lifecycle
    from .admin.status import command as status
    from .admin.status import metrics_command as metrics
    from .admin.tenants import command as tenants
    from .admin.themes import command as themes
    from .admin.transfer import bring_command as bring
    from .admin.transfer import command as transfer
    from .admin.transfer import copy_command as copy

    return (
        lifecycle.SETUP,
        doctor.DOCTOR,
        migrate.MIGRATE,
        setup.INSTALL,
        doctor.PROVE,
        doctor.DEMO,
        status.STATUS,
        status.STATS,
        metrics.METRICS,
        status.SPOOL,
        search.SEARCH,
        browse.LIST,
        browse.SHOW,
        edit.ADD,
        edit.EDIT,
        edit.FORGET,
        browse.HISTORY,
        removals.RESTORE,
        removals.REMOVALS,
        browse.SESSIONS,
        themes.themes(transfer.EXPORT_THEME),
        prune.PRUNE,
        compact.COMPACT,
        transfer.EXPORT,
        transfer.IMPORT,
        bring.BRING,
        copy.COPY,
        tenants.TENANTS,
        models.MODEL,
        reembed.BACKFILL,
        reembed.REEMBED,
        index.INDEX,
        setup.SERVER,
        lifecycle.DEACTIVATE,
        lifecycle.UNINSTALL,
        completion.completion(command_line),
    )


def register_cli(subparser: argparse.ArgumentParser) -> None:
    """Add our commands to a parser of the host."""
    from .admin.common.commands import add_commands

    add_commands(subparser, _commands())


def pgvector_command(args: argparse.Namespace) -> int:
    """Run the command that the host's parser found; exits with its code when that is not 0."""
    code = _run(args)
    if code:
        raise SystemExit(code)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point of `hermes-pgvector`."""
    from .admin.common.commands import EXIT_INTERRUPTED, EXIT_USAGE
    from .domain.dsn import mask_dsn

    try:
        parser = command_line()
        args, left = parser.parse_known_args(argv)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    if left:
        getattr(args, "pgvector_error", parser.error)(f"unknown arguments: {mask_dsn(' '.join(left))}")
    if not args.pgvector_command:
        parser.print_help()
        return EXIT_USAGE
    return _run(args)


def command_line() -> argparse.ArgumentParser:
    """The parser of `hermes-pgvector`."""
    from .admin.common.commands import EXITS, Parser, ShowVersion

    parser = Parser(
        prog="hermes-pgvector", description="Memory for hermes-agent on Postgres and pgvector.", epilog=EXITS
    )
    parser.add_argument("--version", action=ShowVersion, help="print the version")
    register_cli(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    from .admin.common.commands import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, abandon_stdout

    if not getattr(args, "pgvector_command", None):
        names = ", ".join(command.name for command in _commands())
        print(f"hermes pgvector: name a command: {names}; see: hermes pgvector --help", file=sys.stderr)
        return EXIT_USAGE
    try:
        code: int = args.pgvector_run(args, _home(args))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        abandon_stdout()
        return EXIT_OK
    except Exception as exc:
        return _explain(exc)


def _explain(exc: Exception) -> int:
    from .admin.common.commands import EXIT_FAILED, EXIT_USAGE
    from .domain.dsn import mask_dsn
    from .domain.errors import HermesPgvectorError, WrongUsage

    if isinstance(exc, HermesPgvectorError):
        print(f"error: {exc}", file=sys.stderr)
    elif isinstance(exc, ImportError):
        from .host.availability import lacking

        print(f"error: {lacking() or exc} ({sys.executable})", file=sys.stderr)
    else:
        print(f"error: unexpected {type(exc).__name__}: {mask_dsn(str(exc))}", file=sys.stderr)
        if os.environ.get("HERMES_PGVECTOR_DEBUG"):
            import traceback

            print(mask_dsn("".join(traceback.format_exception(exc))), file=sys.stderr)
        else:
            print("to see where it happened, for a report: HERMES_PGVECTOR_DEBUG=1", file=sys.stderr)
    return EXIT_USAGE if isinstance(exc, WrongUsage) else EXIT_FAILED


def _home(args: argparse.Namespace) -> Path:
    from .host.session_context import hermes_home

    home = hermes_home(args.hermes_home)
    # What we start from here, the host's own command among it, means the same home.
    os.environ["HERMES_HOME"] = str(home)
    return home


if __name__ == "__main__":
    sys.exit(main())
