"""Migrating as an operator asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from ..domain.errors import ConfigurationError, SchemaNotApplied
from ..domain.settings import Settings
from ..store.pool import connect
from ..store.schema import MIGRATE_COMMAND, MigrationReport, ensure_schema, migrate, migrations
from .progress import building


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
        except SchemaNotApplied as exc:
            raise SchemaNotApplied(f"the schema is missing and `dsn` names no admin; run: {MIGRATE_COMMAND}") from exc
    names = tuple(f"{migration.version:03d}_{migration.name}" for migration in migrations())
    return MigrationReport((), names, ())


def render_report(report: MigrationReport, *, as_json: bool) -> str:
    """The report for people, or for machines."""
    if as_json:
        return json.dumps(asdict(report))
    lines = [f"applied {name}" for name in report.applied]
    lines += [f"in place: {name}" for name in report.already]
    lines += [f"built {index}" for index in report.built]
    lines += [f"note: {notice}" for notice in report.notices]
    return "\n".join(lines)
