"""tenants."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .base import EXIT_OK, EXIT_USAGE, Command, add_json, add_yes, print_json, settings_of


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=("list", "enable", "disable", "grant", "revoke"))
    command.add_argument("role", nargs="?", metavar="ROLE", help="grant, revoke: the role an agent logs in as")
    command.add_argument("themes", nargs="*", metavar="THEME", help="its themes; '*' is every theme")
    command.add_argument(
        "--admin-dsn", metavar="DSN", help="how to log in as an admin; may also stand in $HERMES_PGVECTOR_ADMIN_DSN"
    )
    add_yes(command)
    add_json(command)


def _tenants(args: argparse.Namespace, home: Path) -> int:
    from ..domain.errors import ConfigurationError
    from ..host.context import Policy
    from ..operate import tenants
    from ..store.pool import connect
    from ..store.schema import ensure_schema

    if not _is_complete(args):
        print("usage: hermes-pgvector tenants list | enable | disable | grant ROLE THEME... | revoke ROLE [THEME...]",
              file=sys.stderr)  # fmt: skip
        return EXIT_USAGE
    settings = settings_of(home)
    rules = Policy.of(settings).rules
    admin_dsn = args.admin_dsn or os.environ.get("HERMES_PGVECTOR_ADMIN_DSN", "")
    if not admin_dsn:
        raise ConfigurationError(
            "this needs an admin of a database server of yours: add --admin-dsn DSN, or set HERMES_PGVECTOR_ADMIN_DSN"
        )
    with connect(admin_dsn) as conn:
        ensure_schema(conn, dims=settings.dims)
        match args.action:
            case "list":
                change = tenants.listed(conn)
            case "enable":
                change = tenants.enable(conn)
            case "disable":
                change = tenants.disable(conn, really=args.yes)
            case "grant":
                change = tenants.grant(conn, args.role, args.themes, rules)
            case _:
                change = tenants.revoke(conn, args.role, args.themes, rules, really=args.yes)
    if args.json:
        print_json(change.as_json())
    else:
        print(change.render())
    return EXIT_OK


def _is_complete(args: argparse.Namespace) -> bool:
    if args.action == "grant":
        return bool(args.role and args.themes)
    named: str | None = args.role
    needed: bool = args.action == "revoke"
    return (named is not None) == needed


TENANTS = Command(
    "tenants",
    "say which database role may read and write which themes",
    'hermes-pgvector tenants enable --admin-dsn "dbname=hermes_memory user=postgres"\n'
    'hermes-pgvector tenants grant tenant_marketing marketing ads --admin-dsn "dbname=hermes_memory user=postgres"\n'
    'hermes-pgvector tenants revoke tenant_marketing ads --yes --admin-dsn "dbname=hermes_memory user=postgres"',
    _tenants,
    _arguments,
)
