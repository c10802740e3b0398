"""migrate."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.commands import (
    EXIT_FAILED,
    EXIT_OK,
    Command,
    add_admin_dsn,
    add_json,
    given_admin_dsn,
    print_json,
    settings_of,
)
from ..common.console import say

if TYPE_CHECKING:
    from ...config.settings import Settings
    from .upgrade import Upgraded


def _arguments(command: argparse.ArgumentParser) -> None:
    add_admin_dsn(command)
    command.add_argument(
        "--runtime-role", metavar="ROLE", default="", help="the role agents log in as; gets its rights"
    )
    command.add_argument("--dims", type=int, metavar="N", help="floats in an embedding (default: the setting `dims`)")
    end = command.add_mutually_exclusive_group()
    end.add_argument(
        "--confirm-upgrade",
        action="store_true",
        help="after an upgrade from the other hermes-memory-pgvector: drop the tables of before",
    )
    end.add_argument(
        "--undo-upgrade", action="store_true", help="put the tables of before back in their place, as they were"
    )
    command.add_argument("--dry-run", action="store_true", help="show what would be done, change nothing")
    command.add_argument(
        "--yes", action="store_true", help="with --undo-upgrade: also where something was written since, which is lost"
    )
    add_json(command)


def _run(args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    if args.confirm_upgrade:
        return _confirm(args, settings)
    if args.undo_upgrade:
        return _undo(args, settings)
    return _plan(args, settings) if args.dry_run else _migrate(args, settings)


def _migrate(args: argparse.Namespace, settings: Settings) -> int:
    from ..common.embedded_server import borrowed_server, embedded_server
    from .migrate import migrate_database, render_report
    from .upgrade import as_json, run_upgrade

    admin_dsn, role, dims = given_admin_dsn(args), args.runtime_role, _dims(args, settings)
    tell = (lambda line: None) if args.json else say
    with ExitStack() as stack:
        upgraded: Upgraded | None = None
        if admin_dsn or not (settings.dsn or role):
            conninfo = stack.enter_context(_admin(settings, admin_dsn))
            upgraded = run_upgrade(conninfo, settings, dims=dims, role=role, say=tell)
        if upgraded is not None:
            report = upgraded.migration
        else:
            locate = stack.enter_context(borrowed_server(settings))
            report = migrate_database(settings, admin_dsn=admin_dsn, runtime_role=role, dims=dims, locate=locate)
    if args.json:
        print_json(as_json(report, upgraded))
        return EXIT_OK
    print(render_report(report))
    if upgraded is not None:
        say("\n".join(upgraded.lines()))
    if not (admin_dsn or settings.dsn):
        print(f"embedded Postgres in {embedded_server(settings).root}")
    return EXIT_OK


def _dims(args: argparse.Namespace, settings: Settings) -> int:
    return settings.dims if args.dims is None else int(args.dims)


def _plan(args: argparse.Namespace, settings: Settings) -> int:
    from dataclasses import asdict

    from ...store.pool import connect
    from ..common.choose import existing_database
    from .migrate import missing_migrations
    from .upgrade import plan_upgrade

    admin_dsn = given_admin_dsn(args)
    with existing_database(settings) as existing:
        conninfo = admin_dsn or existing()
        plan = None
        if conninfo:
            with connect(conninfo) as conn:
                plan = plan_upgrade(conn, settings, dims=_dims(args, settings), role=args.runtime_role)
        missing = missing_migrations("" if plan else conninfo)
    if args.json:
        print_json({"done": False, "missing": missing, "upgrade": {"done": False} | asdict(plan) if plan else None})
        return EXIT_OK
    for line in plan.lines() if plan else ():
        say(line)
    for name in missing:
        say(f"would apply {name}")
    say("Nothing was changed." if plan or missing else "Nothing is to be done.")
    return EXIT_OK


def _confirm(args: argparse.Namespace, settings: Settings) -> int:
    from ..common.upgrade_progress import SCHEMA
    from .upgrade import confirm_upgrade

    with _admin(settings, given_admin_dsn(args)) as conninfo:
        confirm_upgrade(conninfo, really=not args.dry_run)
    if args.json:
        print_json({"confirmed": not args.dry_run})
    elif args.dry_run:
        say(f"would drop the tables of before, in the schema {SCHEMA}; nothing was changed")
    else:
        say("the tables of before are dropped; the upgrade is complete")
    return EXIT_OK


def _undo(args: argparse.Namespace, settings: Settings) -> int:
    from .upgrade import undo_upgrade

    with _admin(settings, given_admin_dsn(args)) as conninfo:
        done, since = undo_upgrade(conninfo, really=not args.dry_run, yes=args.yes)
    if args.json:
        print_json({"undone": done, "written_since": since})
        return EXIT_OK if done or args.dry_run else EXIT_FAILED
    lost = any(since.values())
    if lost:
        say(
            f"written since the upgrade, {'and lost' if done else 'lost with an undo'}: {since['memories']:,} memories"
            f", {since['turns']:,} turns; changes and removals of older memories: {since['changes']:,}"
        )
    if done:
        say("the tables of before are back, as they were; agents of this version keep their writes in the spool")
    elif lost:
        say("Nothing was changed. Keep it first with: hermes-pgvector export; then add --yes.")
    else:
        say("would put the tables of before back; nothing was changed")
    return EXIT_OK if done or args.dry_run else EXIT_FAILED


def _admin(settings: Settings, admin_dsn: str) -> AbstractContextManager[str]:
    from ..common.admin_login import admin_conninfo

    return admin_conninfo(settings, admin_dsn)


MIGRATE = Command(
    "migrate",
    "create or upgrade the tables, as an admin of the database",
    'hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" --runtime-role hermes\n'
    'hermes-pgvector migrate --admin-dsn "postgresql://postgres@db/hermes_memory" --dims 1024\n'
    "hermes-pgvector migrate          # embedded Postgres: starts and migrates it\n"
    'hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" --dry-run\n'
    'hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" --confirm-upgrade',
    _run,
    _arguments,
)
