"""tenants."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from ...domain.errors import WrongUsage
from ...host.session_context import Policy
from ...store.pool import connect
from ...store.schema import ensure_schema
from ..common.commands import Command, action, add_admin_dsn, add_yes, argument, given_admin_dsn
from ..common.console import say
from ..common.database import settings_of
from ..common.outcome import print_outcome
from . import grants


def _tenants(args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    rules = Policy.of(settings).rules
    admin_dsn = given_admin_dsn(args)
    if not admin_dsn:
        raise WrongUsage(
            "this needs an admin of a database server of yours: add --admin-dsn DSN, or set HERMES_PGVECTOR_ADMIN_DSN"
        )
    with connect(admin_dsn) as conn:
        ensure_schema(conn, dims=settings.dims)
        match args.pgvector_command_1:
            case "list":
                change = grants.listed(conn)
            case "enable":
                change = grants.enable(conn)
            case "disable":
                change = grants.disable(conn, really=args.yes)
            case "grant":
                change = grants.grant(conn, args.role, args.themes, rules)
            case _:
                change = grants.revoke(conn, args.role, args.themes, rules, really=args.yes)
    return print_outcome(
        change, as_json=args.json, before=lambda: _show_roles(change.facts["roles"]), summary=change.facts["said"]
    )


def _show_roles(roles: Mapping[str, list[str]]) -> None:
    for role, themes in roles.items():
        say(f"{role}: {', '.join('every theme' if theme == '*' else theme for theme in themes)}")


_TENANTS = "hermes-pgvector tenants "
_ADMIN = ' --admin-dsn "dbname=hermes_memory user=postgres"'

_ROLE = argument("role", metavar="ROLE", help="the role an agent logs in as")
TENANTS = Command(
    f"{_TENANTS}enable{_ADMIN}\n{_TENANTS}grant tenant_marketing marketing ads{_ADMIN}\n"
    f"{_TENANTS}revoke tenant_marketing ads --yes{_ADMIN}",
    actions=[
        action("list", "every role and its themes", f"{_TENANTS}list{_ADMIN}", _tenants, [add_admin_dsn]),
        action(
            "enable",
            "have Postgres hold each role to its themes",
            f"{_TENANTS}enable{_ADMIN}",
            _tenants,
            [add_admin_dsn],
        ),
        action(
            "disable",
            "let every role see every theme again",
            f"{_TENANTS}disable --yes{_ADMIN}",
            _tenants,
            [add_yes, add_admin_dsn],
        ),
        action(
            "grant",
            "give a role themes",
            f"{_TENANTS}grant tenant_marketing marketing ads{_ADMIN}",
            _tenants,
            [
                _ROLE,
                argument("themes", nargs="+", metavar="THEME", help="its themes; '*' is every theme"),
                add_admin_dsn,
            ],
        ),
        action(
            "revoke",
            "take themes from a role",
            f"{_TENANTS}revoke tenant_marketing ads --yes{_ADMIN}",
            _tenants,
            [
                _ROLE,
                argument(
                    "themes", nargs="*", metavar="THEME", help="the themes to take from it (default: all of them)"
                ),
                add_yes,
                add_admin_dsn,
            ],
        ),
    ],
)
