"""Migrating as an operator asks for it."""

from __future__ import annotations

from collections.abc import Callable

from ...config.settings import Settings
from ...domain.errors import ConfigurationError, SchemaNotApplied, UpgradeNeeded
from ...store.pool import connect
from ...store.schema import MIGRATE_COMMAND, applied_versions, ensure_schema, shipped_migrations
from ..common.migrations import MigrationReport, migrate
from ..common.progress import building


def migrate_database(
    settings: Settings, *, admin_dsn: str, runtime_role: str, dims: int, locate: Callable[[], str]
) -> MigrationReport:
    """Apply what is missing: with `admin_dsn` there, without one on the embedded server, where that is in use.

    Raises ConfigurationError, StoreUnavailable, DimensionMismatch, and SchemaNotApplied when an admin is needed.
    """
    if not 1 <= dims <= 2000:
        raise ConfigurationError(f"--dims must be 1 to 2000, not {dims}")
    if admin_dsn:
        with building() as tell:
            return migrate(admin_dsn, dims=dims, runtime_role=runtime_role, tell=tell)
    if runtime_role:
        raise ConfigurationError("--runtime-role needs --admin-dsn: only an admin of the database can grant rights")
    with connect(settings.dsn or locate()) as conn:
        try:
            ensure_schema(conn, dims=dims)
        except UpgradeNeeded:
            raise
        except SchemaNotApplied as exc:
            raise SchemaNotApplied(f"the schema is missing and `dsn` names no admin; run: {MIGRATE_COMMAND}") from exc
    return MigrationReport((), tuple(shipped_migrations().values()), ())


def missing_migrations(conninfo: str) -> list[str]:
    """Return the migrations that `migrate_database` would apply; all of them where `conninfo` is empty."""
    applied: set[int] = set()
    if conninfo:
        with connect(conninfo) as conn:
            applied = applied_versions(conn)
    return [name for version, name in shipped_migrations().items() if version not in applied]


def render_report(report: MigrationReport) -> str:
    """Return the report for people."""
    lines = [f"applied {name}" for name in report.applied]
    lines += [f"in place: {name}" for name in report.already]
    lines += [f"built {index}" for index in report.built]
    lines += [f"note: {notice}" for notice in report.notices]
    return "\n".join(lines)
