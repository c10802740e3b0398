"""`hermes pgvector ...`: forwards to the installed package, which is imported only when asked."""

from __future__ import annotations

import argparse
from typing import Any


def register_cli(subparser: Any) -> None:
    """Add the package's subcommands, or none if the package cannot be imported."""
    try:
        from hermes_memory_pgvector.cli import register_cli as register_installed
    except ImportError:
        # `pgvector_command` then says so; hermes itself must still start.
        subparser.add_argument("rest", nargs=argparse.REMAINDER, help="the package is not installed here")
        return
    register_installed(subparser)


def pgvector_command(args: Any) -> Any:
    """Run the command in `args`. Raises SystemExit with the cause if the package cannot be imported."""
    try:
        from hermes_memory_pgvector.cli import pgvector_command as command_installed
    except ImportError as error:
        from .absent import explanation

        raise SystemExit(explanation(error)) from error
    return command_installed(args)
