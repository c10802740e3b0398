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


def command_groups() -> dict[str, tuple[Command, ...]]:
    """Return every verb, in the groups and the order of the help."""
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
    from .admin.setup import server_command as server
    from .admin.status import command as status
    from .admin.status import metrics_command as metrics
    from .admin.tenants import command as tenants
    from .admin.themes import command as themes
    from .admin.transfer import bring_command as bring
    from .admin.transfer import command as transfer
    from .admin.transfer import copy_command as copy

    return {
        "set up": (
            lifecycle.SETUP,
            setup.INSTALL,
            migrate.MIGRATE,
            models.MODEL,
            server.SERVER,
            tenants.TENANTS,
            doctor.DEMO,
            completion.completion(command_line),
            lifecycle.DEACTIVATE,
            lifecycle.UNINSTALL,
        ),
        "watch": (status.STATUS, status.STATS, metrics.METRICS),
        "see and correct": (
            search.SEARCH,
            browse.LIST,
            browse.SHOW,
            browse.HISTORY,
            browse.SESSIONS,
            themes.themes(transfer.EXPORT_THEME),
            edit.ADD,
            edit.EDIT,
            edit.FORGET,
            removals.RESTORE,
            removals.REMOVALS,
        ),
        "keep": (prune.PRUNE, compact.COMPACT),
        "move": (transfer.EXPORT, transfer.IMPORT, bring.BRING, copy.COPY),
        "fix": (doctor.DOCTOR, doctor.PROVE, status.SPOOL, reembed.BACKFILL, reembed.REEMBED, index.INDEX),
    }


def register_cli(subparser: argparse.ArgumentParser) -> None:
    """Add our commands to a parser of the host."""
    from .admin.common.commands import add_groups

    add_groups(subparser, command_groups())


def pgvector_command(args: argparse.Namespace) -> int:
    """Run the command that the host's parser found; exits with its code when that is not 0."""
    code = _run(args)
    if code:
        raise SystemExit(code)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hermes-pgvector` and return its exit code."""
    from .admin.common.commands import EXIT_INTERRUPTED, EXIT_USAGE

    try:
        parser = command_line()
        args = parser.parse_args(argv)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    if not args.pgvector_command:
        parser.print_help()
        return EXIT_USAGE
    return _run(args)


def command_line() -> argparse.ArgumentParser:
    """Return the parser of `hermes-pgvector`."""
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
        names = ", ".join(command.name for commands in command_groups().values() for command in commands)
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
        return _explain(exc, as_json=getattr(args, "json", False))


def _explain(exc: Exception, *, as_json: bool) -> int:
    from .admin.common.commands import EXIT_FAILED, EXIT_USAGE, print_error
    from .domain.errors import HermesPgvectorError, WrongUsage
    from .domain.redaction import mask_dsn

    unexpected = False
    if isinstance(exc, HermesPgvectorError):
        message = str(exc)
    elif isinstance(exc, ImportError):
        from .host.availability import lacking

        message = f"{lacking() or exc} ({sys.executable})"
    else:
        unexpected = True
        message = f"unexpected {type(exc).__name__}: {mask_dsn(str(exc))}"
    print(f"error: {message}", file=sys.stderr)
    if as_json:
        print_error(message, type(exc).__name__)
    if unexpected:
        _tell_where(exc)
    return EXIT_USAGE if isinstance(exc, WrongUsage) else EXIT_FAILED


def _tell_where(exc: Exception) -> None:
    from .domain.redaction import mask_dsn

    if os.environ.get("HERMES_PGVECTOR_DEBUG"):
        import traceback

        print(mask_dsn("".join(traceback.format_exception(exc))), file=sys.stderr)
    else:
        print("to see where it happened, for a report: HERMES_PGVECTOR_DEBUG=1", file=sys.stderr)


def _home(args: argparse.Namespace) -> Path:
    from .host.session_context import hermes_home

    home = hermes_home(args.hermes_home)
    # What we start from here, the host's own command among it, means the same home.
    os.environ["HERMES_HOME"] = str(home)
    return home


if __name__ == "__main__":
    sys.exit(main())
