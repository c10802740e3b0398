"""The command `migrate`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from ...config.settings import Settings
from ...domain.errors import DimensionMismatch, SchemaNotApplied, UpgradeNeeded, WrongUsage
from ...server.connecting import RUNTIME
from ...store.pool import connect
from ...store.schema import MIGRATE_COMMAND, applied_versions, ensure_schema, missing_migrations, shipped_migrations
from ..common.admin_login import admin_conninfo
from ..common.commands import (
    EXIT_FAILED,
    EXIT_OK,
    Command,
    add_admin_dsn,
    given_admin_dsn,
    printed,
    read_or_not,
)
from ..common.console import say
from ..common.database import naming, settings_of
from ..common.embedded_server import embedded_server, existing_database, started_server
from ..common.given_dims import MAX_DIMS
from ..common.migrations import MigrationReport, migrate
from ..common.outcome import counted
from ..common.progress import building
from ..common.upgrade_progress import SCHEMA
from .distribute import Distribution, distribute, plan_distribution
from .upgrade import Upgraded, as_json, confirm_upgrade, plan_upgrade, run_upgrade, undo_upgrade


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
    end.add_argument(
        "--distribute",
        action="store_true",
        help="spread the tables by theme, where the database has Citus",
    )
    command.add_argument("--dry-run", action="store_true", help="show what would be done, change nothing")
    command.add_argument(
        "--yes", action="store_true", help="with --undo-upgrade: also where something was written since, which is lost"
    )


def _run(args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    with naming("--admin-dsn" if given_admin_dsn(args) else "dsn"):
        if args.dims is None:
            return _chosen(args, settings)
        try:
            # An embedded database that has yet to be created gets this vector length as well.
            return _chosen(args, replace(settings, dims=_checked(args.dims)))
        except DimensionMismatch as exc:
            raise DimensionMismatch(str(exc).replace("the setting `dims` says", "--dims says")) from exc


def _chosen(args: argparse.Namespace, settings: Settings) -> int:
    if args.confirm_upgrade:
        return _confirm(args, settings)
    if args.undo_upgrade:
        return _undo(args, settings)
    if args.distribute:
        return _distribute(args, settings)
    return _plan(args, settings) if args.dry_run else _migrate(args, settings)


def _migrate(args: argparse.Namespace, settings: Settings) -> int:
    role = args.runtime_role
    tell = (lambda line: None) if args.json else _say_or_not
    upgraded: Upgraded | None = None
    with _admin_login(settings, given_admin_dsn(args), role) as admin:
        if admin is None:
            report = _verified(settings)
        else:
            conninfo, owner = admin
            upgraded = run_upgrade(conninfo, settings, dims=settings.dims, role=role, say=tell)
            report = upgraded.migration if upgraded is not None else _migrated(conninfo, role or owner, settings.dims)
    lines = [_report(report), *(upgraded.lines() if upgraded is not None else ())]
    if not (given_admin_dsn(args) or settings.dsn):
        lines.append(f"embedded Postgres in {embedded_server(settings).root}")
    return printed(args, as_json(report, upgraded), lambda: say("\n".join(lines)))


def _say_or_not(line: str) -> None:
    """Print a line before the work is done, which goes on if nobody reads it."""
    with read_or_not():
        say(line)


def _checked(dims: int) -> int:
    """Return the given vector length. Raises WrongUsage if our vectors cannot have it."""
    if not 1 <= dims <= MAX_DIMS:
        raise WrongUsage(f"--dims must be 1 to {MAX_DIMS}, not {dims}")
    return dims


def _plan(args: argparse.Namespace, settings: Settings) -> int:
    admin_dsn = given_admin_dsn(args)
    with existing_database(settings) as existing:
        conninfo = admin_dsn or existing()
        plan = None
        if conninfo:
            with connect(conninfo) as conn:
                plan = plan_upgrade(conn, settings, dims=settings.dims, role=args.runtime_role)
        missing = _missing("" if plan else conninfo)
    lines = [*(plan.lines() if plan else ()), *(f"would apply {name}" for name in missing)]
    lines.append("Nothing was changed." if lines else "Nothing to do.")
    told = {"done": False, "missing": missing, "upgrade": {"done": False} | asdict(plan) if plan else None}
    return printed(args, told, lambda: say("\n".join(lines)))


def _confirm(args: argparse.Namespace, settings: Settings) -> int:
    with admin_conninfo(settings, given_admin_dsn(args)) as conninfo:
        confirm_upgrade(conninfo, really=not args.dry_run)
    said = "the tables of before are dropped; the upgrade is complete"
    if args.dry_run:
        said = f"would drop the tables of before, in the schema {SCHEMA}; nothing was changed"
    return printed(args, {"done": not args.dry_run}, lambda: say(said))


def _distribute(args: argparse.Namespace, settings: Settings) -> int:
    with admin_conninfo(settings, given_admin_dsn(args)) as conninfo:
        plan = plan_distribution(conninfo) if args.dry_run else distribute(conninfo)
    told = {"done": not args.dry_run} | asdict(plan)
    return printed(args, told, lambda: _show_distribution(plan, done=not args.dry_run))


def _show_distribution(plan: Distribution, *, done: bool) -> None:
    for statement in plan.statements:
        print(f"{statement};")
    if not plan.statements:
        say("The tables are spread by theme already.")
    elif done:
        say("The tables are spread by theme.")
    else:
        say(plan.why_not or "Nothing was changed.")


def _undo(args: argparse.Namespace, settings: Settings) -> int:
    with admin_conninfo(settings, given_admin_dsn(args)) as conninfo:
        done, since = undo_upgrade(conninfo, really=not args.dry_run, yes=args.yes)
    printed(args, {"done": done, "written_since": since}, lambda: _show_undone(done, since))
    return EXIT_OK if done or args.dry_run else EXIT_FAILED


def _show_undone(done: bool, since: dict[str, int]) -> None:
    lost = any(since.values())
    if lost:
        rows = counted({"memories": since["memories"], "turns": since["turns"]}, also_none=True)
        say(
            f"written since the upgrade, {'and lost' if done else 'lost with an undo'}: {rows}; "
            f"changes and removals of older memories: {since['changes']:,}"
        )
    if done:
        say("the tables of before are back, as they were; agents of this version keep their writes in the spool")
    elif lost:
        say("Nothing was changed. Keep it first with: hermes-pgvector export; then add --yes.")
    else:
        say("would put the tables of before back; nothing was changed")


@contextmanager
def _admin_login(settings: Settings, admin_dsn: str, role: str) -> Iterator[tuple[str, str] | None]:
    """Yield an admin's conninfo, and the role that agents certainly have there; None if only `dsn` is known.

    The embedded server is brought up for it, its tables as they are. Raises WrongUsage.
    """
    if admin_dsn:
        yield admin_dsn, ""
    elif role:
        raise WrongUsage("--runtime-role needs --admin-dsn: only an admin of the database can grant rights")
    elif settings.dsn:
        yield None
    else:
        with started_server(settings) as conninfo:
            yield conninfo.admin, RUNTIME


def _migrated(admin: str, role: str, dims: int) -> MigrationReport:
    """Apply the missing migrations. Raises ConfigurationError, StoreUnavailable, DimensionMismatch."""
    with building() as tell:
        return migrate(admin, dims=dims, runtime_role=role, tell=tell)


def _verified(settings: Settings) -> MigrationReport:
    """Return the migrations of the database of `dsn`. Raises SchemaNotApplied if some are missing."""
    with connect(settings.dsn) as conn:
        try:
            ensure_schema(conn, dims=settings.dims)
        except UpgradeNeeded:
            raise
        except SchemaNotApplied as exc:
            raise SchemaNotApplied(f"the schema is missing and `dsn` names no admin; run: {MIGRATE_COMMAND}") from exc
    return MigrationReport((), tuple(shipped_migrations().values()), ())


def _missing(conninfo: str) -> list[str]:
    """Return the migrations that `migrate` would apply: all of them if `conninfo` is empty."""
    if not conninfo:
        return missing_migrations(())
    with connect(conninfo) as conn:
        return missing_migrations(applied_versions(conn))


def _report(report: MigrationReport) -> str:
    """Return the report as text."""
    lines = [f"applied {name}" for name in report.applied]
    if report.already:
        lines.append(f"in place: {report.already[0]} to {report.already[-1]}")
    lines += [f"built {index}" for index in report.built]
    lines += [f"note: {notice}" for notice in report.notices]
    return "\n".join(lines)


MIGRATE = Command(
    'hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" --runtime-role hermes\n'
    'hermes-pgvector migrate --admin-dsn "postgresql://postgres@db/hermes_memory" --dims 1024\n'
    "hermes-pgvector migrate          # embedded Postgres: starts and migrates it\n"
    'hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" --dry-run\n'
    'hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" --confirm-upgrade\n'
    'hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" --distribute --dry-run',
    _run,
    [_arguments],
)
