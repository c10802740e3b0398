"""The command `tenants`: which role may read and write which themes, enforced by Postgres."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ...domain.errors import ConfigurationError, WrongUsage
from ...domain.theme import ThemeRules
from ...host.session_context import Policy
from ...store.connection import DeadlineConnection
from ...store.pool import connect
from ...store.schema import ensure_schema
from ..common import row_security
from ..common.commands import Command, action, add_admin_dsn, add_yes, argument, given_admin_dsn
from ..common.console import say
from ..common.database import naming, settings_of
from ..common.outcome import Outcome, print_outcome

# Runs an action with the themes' stored names; returns the message for the operator and whether anything was changed.
Change = Callable[[DeadlineConnection, argparse.Namespace, list[str]], tuple[str, bool]]


def _run(verb: str, change: Change, args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    admin_dsn = given_admin_dsn(args)
    if not admin_dsn:
        raise WrongUsage(
            "this needs an admin of a database server of yours: add --admin-dsn DSN, or set HERMES_PGVECTOR_ADMIN_DSN"
        )
    with naming("--admin-dsn"), connect(admin_dsn) as conn:
        ensure_schema(conn, dims=settings.dims)
        said, done = change(conn, args, _names(getattr(args, "themes", ()), Policy.of(settings).rules))
        roles = row_security.granted(conn)
        facts = {"enabled": row_security.is_enabled(conn), "roles": roles, "said": said}
    outcome = Outcome(f"tenants {verb}", done, {"roles": len(roles)}, facts=facts)
    return print_outcome(args, outcome, lambda: _show_roles(roles), said)


def _names(themes: Sequence[str], rules: ThemeRules) -> list[str]:
    return [theme if theme == row_security.EVERY_THEME else rules.resolve_name(theme) for theme in themes]


def _show_roles(roles: dict[str, list[str]]) -> None:
    for role, themes in roles.items():
        say(f"{role}: {', '.join('every theme' if theme == '*' else theme for theme in themes)}")


def _list(conn: DeadlineConnection, args: argparse.Namespace, names: list[str]) -> tuple[str, bool]:
    return f"row-level security is {'on' if row_security.is_enabled(conn) else 'off'}", False


def _enable(conn: DeadlineConnection, args: argparse.Namespace, names: list[str]) -> tuple[str, bool]:
    row_security.enable(conn)
    return "row-level security is on; a role that is not named here sees nothing", True


def _disable(conn: DeadlineConnection, args: argparse.Namespace, names: list[str]) -> tuple[str, bool]:
    confined = [role for role, themes in row_security.granted(conn).items() if row_security.EVERY_THEME not in themes]
    without = f" and the rights of {', '.join(confined)} on the tables" if confined else ""
    if not args.yes:
        return f"this would take away the policies{without}; add --yes to do it", False
    row_security.disable(conn)
    return f"row-level security is off; gone are the policies{without}", True


def _grant(conn: DeadlineConnection, args: argparse.Namespace, names: list[str]) -> tuple[str, bool]:
    row_security.grant(conn, args.role, names)
    return f"{args.role} was granted {', '.join(names)}", True


def _to_revoke(args: argparse.Namespace, names: Sequence[str], had: Sequence[str]) -> list[str]:
    """Return the named themes, or all if none is named, of those the role `had`. Raises ConfigurationError."""
    # A name that was granted with psql, or before it got an alias, is taken literally.
    meant = [given if given in had else name for given, name in zip(args.themes, names, strict=True)]
    if lacking := [theme for theme in meant if theme not in had]:
        raise ConfigurationError(
            f"the role {args.role} does not have {', '.join(lacking)}, and nothing was taken from it; it has: "
            f"{', '.join(had) or 'no theme'}"
        )
    if not had:
        raise ConfigurationError(f"the role {args.role} has no theme; see: hermes-pgvector tenants list")
    return [theme for theme in had if not meant or theme in meant]


def _revoke(conn: DeadlineConnection, args: argparse.Namespace, names: list[str]) -> tuple[str, bool]:
    row_security.require_enabled(conn)
    had = row_security.granted(conn).get(args.role, [])
    gone = _to_revoke(args, names, had)
    rights = ", and with it the rights on the tables" if len(gone) == len(had) else ""
    if not args.yes:
        return f"{args.role} would lose {', '.join(gone)}{rights}; add --yes to do it", False
    row_security.revoke(conn, args.role, gone)
    return f"{args.role} lost {', '.join(gone)}{rights}", True


_TENANTS = "hermes-pgvector tenants "
_ADMIN = ' --admin-dsn "dbname=hermes_memory user=postgres"'

_ROLE = argument("role ROLE", "the role an agent logs in as")
TENANTS = Command(
    f"{_TENANTS}enable{_ADMIN}\n{_TENANTS}grant tenant_marketing marketing ads{_ADMIN}\n"
    f"{_TENANTS}revoke tenant_marketing ads --yes{_ADMIN}",
    actions=[
        action(
            "list",
            "list every role with its themes",
            f"{_TENANTS}list{_ADMIN}",
            partial(_run, "list", _list),
            [add_admin_dsn],
        ),
        action(
            "enable",
            "have Postgres hold each role to its themes",
            f"{_TENANTS}enable{_ADMIN}",
            partial(_run, "enable", _enable),
            [add_admin_dsn],
        ),
        action(
            "disable",
            "drop the policies; roles of some themes lose their rights",
            f"{_TENANTS}disable --yes{_ADMIN}",
            partial(_run, "disable", _disable),
            [add_yes, add_admin_dsn],
        ),
        action(
            "grant",
            "give a role themes",
            f"{_TENANTS}grant tenant_marketing marketing ads{_ADMIN}",
            partial(_run, "grant", _grant),
            [
                _ROLE,
                argument("themes THEME", "its themes; '*' is every theme", nargs="+"),
                add_admin_dsn,
            ],
        ),
        action(
            "revoke",
            "take themes from a role",
            f"{_TENANTS}revoke tenant_marketing ads --yes{_ADMIN}",
            partial(_run, "revoke", _revoke),
            [
                _ROLE,
                argument("themes THEME", "the themes to take from it (default: all of them)", nargs="*"),
                add_yes,
                add_admin_dsn,
            ],
        ),
    ],
)
