"""Agents that still run with settings, or with code, from before a change."""

from __future__ import annotations

from collections.abc import Iterator

from ...capture.spool_directory import destination_of
from ...server.home_record import EMBEDDED_PLACE
from ..common.new_vectors import own_space
from ..common.spool_views import SpoolView, inspect_spools
from .check import Check, DoctorContext, note


def check_agents(context: DoctorContext, *, reached: bool) -> Iterator[Check]:
    """Yield the running processes of the home that have to be restarted for its settings, or an upgrade, to hold.

    `reached`: the settings lead to a database that can be used.
    """
    # A process has a spool for each state of the settings that it has seen.
    yield from dict.fromkeys(_checks(context, reached=reached))


def _checks(context: DoctorContext, *, reached: bool) -> Iterator[Check]:
    here = destination_of(context.settings, context.home)
    for view in inspect_spools(context.home):
        if not view.living:
            continue
        if differs := view.other_version():
            yield note("agents", f"process {view.pid} {differs}", "restart it")
        if not view.leads_to(here):
            yield note(
                "agents",
                f"process {view.pid} writes to {view.place}, not to the database that the settings name",
                "restart it; what it stored there until then: hermes-pgvector copy --from " + _source(view),
            )
        elif reached and view.is_outdated(context.home):
            yield note(
                "agents",
                f"process {view.pid} reaches no database, and began before the settings were changed",
                "restart it, unless it connects within seconds",
            )
        elif view.report.get("vectors") == "incomparable" and _has_another_model(view, context):
            yield note(
                "agents",
                f"process {view.pid} recalls by words only: it still uses the model {view.report['embed_model']}",
                "restart it",
            )


def _source(view: SpoolView) -> str:
    return "embedded" if view.place == EMBEDDED_PLACE else "DSN, with --theme if others store there as well"


def _has_another_model(view: SpoolView, context: DoctorContext) -> bool:
    """Return whether a process uses another model than the settings name; if it does not, they are what is wrong."""
    named = own_space(context.settings, context.home)
    return named is None or view.report.get("embed_model") != named.model
