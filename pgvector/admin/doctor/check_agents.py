"""Whether the agents that run use the database that the settings name now."""

from __future__ import annotations

from collections.abc import Iterator

from ...capture.spool_directory import destination_of
from ..common.spool_views import SpoolView, inspect_spools
from .check import Check, DoctorContext, note

_FRESH_S = 60.0  # a living process tells its counters every five seconds
_RESTART = "restart that agent: a session keeps the settings of its beginning; what waits is on disk, and follows then"


def check_agents(context: DoctorContext, *, reached: bool) -> Iterator[Check]:
    """Yield a note for each process with sessions that began by another `dsn`, or by a password of before.

    `reached`: this command has found Postgres in order.
    """
    here = destination_of(context.settings, context.home)
    for view in inspect_spools(context.home):
        if view.living and view.place not in ("", here.place):
            said = f"process {view.pid} has sessions that use {view.place}; the settings name {here.place} now"
            yield note("agents", said, _RESTART)
        elif reached and _is_without(view):
            said = f"process {view.pid} does not reach Postgres, and this command does: {view.report['last_error']}"
            yield note("agents", said, f"where `dsn` or the environment was changed since, {_RESTART}")


def _is_without(view: SpoolView) -> bool:
    """Return whether a process that runs has told just now that it does not reach Postgres, and why."""
    told = view.report_age_s is not None and view.report_age_s < _FRESH_S
    report = view.report
    failed = report.get("last_error") and not report.get("last_error_over_at")
    return bool(view.living and told and report.get("postgres") == "down" and failed)
