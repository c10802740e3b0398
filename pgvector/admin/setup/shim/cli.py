"""`hermes pgvector ...`: forwards to the installed package, which is imported only when asked."""

from __future__ import annotations

import argparse
from typing import Any


def register_cli(subparser: Any) -> None:
    """Add the package's subcommands; if it cannot be imported, what makes `pgvector_command` say so."""
    try:
        from hermes_memory_pgvector.cli import register_cli as register_installed

        register_installed(subparser)
    except Exception as error:  # of a damaged package any; hermes itself must still start
        subparser.add_argument("rest", nargs=argparse.REMAINDER, help="the package cannot be imported here")
        subparser.set_defaults(pgvector_absent=error)


def pgvector_command(args: Any) -> Any:
    """Run the command in `args`. Raises SystemExit with the cause if the package cannot be imported."""
    if hasattr(args, "pgvector_absent"):
        from .absent import explanation

        raise SystemExit(explanation(args.pgvector_absent))
    from hermes_memory_pgvector.cli import pgvector_command as command_installed

    return command_installed(args)
