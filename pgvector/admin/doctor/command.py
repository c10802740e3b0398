"""The command doctor."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.errors import ConfigurationError
from ...host.session_context import environment, load_settings
from ..common.admin_login import agents_admin
from ..common.commands import (
    EXIT_FAILED,
    EXIT_OK,
    Command,
    add_admin_dsn,
    argument,
    given_admin_dsn,
    print_json,
    read_or_not,
)
from ..common.console import say
from ..common.embedded_server import borrowed_server
from .check import Check
from .checklist import as_json, examine, examine_without_settings, healthy, render_text
from .repair import Repair, RepairContext, repair_all


def _doctor(args: argparse.Namespace, home: Path) -> int:
    try:
        # Problems with the settings are a line of the checklist.
        settings, environ = load_settings(None, home).settings, environment(home)
    except ConfigurationError as exc:
        checks = examine_without_settings(home, exc)
        _report(args, checks, checks, [])
        return EXIT_FAILED
    repairs: list[Repair] = []
    with borrowed_server(settings) as locate:
        before = checks = examine(settings, home, locate=locate)
        if args.fix and any(check.repair for check in checks):
            repairs = _repaired(args, checks, settings, home, environ)
            checks = examine(settings, home, locate=locate)
    _report(args, checks, before, repairs)
    return EXIT_OK if healthy(checks) else EXIT_FAILED


def _report(
    args: argparse.Namespace, checks: Sequence[Check], before: Sequence[Check], repairs: Sequence[Repair]
) -> None:
    """Print the checklist; with --json and --fix also the repairs, and the checks before them."""
    if args.json:
        fixed = {"before": as_json(before)["checks"], "repairs": [asdict(each) for each in repairs]}
        print_json(as_json(checks) | (fixed if args.fix else {}))
        return
    _show(checks)
    if not args.fix and any(check.repair for check in checks):
        print(typed("\n  hermes-pgvector doctor --fix mends some of this"))


def _show(checks: Sequence[Check]) -> None:
    for check in checks:
        say(render_text([check]), {"ok": "", "note": "yellow", "fail": "red"}[check.state])


def _repaired(
    args: argparse.Namespace, checks: Sequence[Check], settings: Settings, home: Path, environ: Mapping[str, str]
) -> list[Repair]:
    """Repair what can be repaired; for people, show the findings and each repair as it is made."""
    from .delivery import deliver_left  # it imports all that an agent runs, which no check needs

    login = given_admin_dsn(args)
    context = RepairContext(
        settings,
        home,
        admin=(lambda: agents_admin(settings, login)) if login or not settings.dsn else None,
        deliver=lambda: deliver_left(settings, home, environ),
    )
    if args.json:
        return list(repair_all(checks, context))
    with read_or_not():
        _show(checks)
        print()
    repairs = []
    for repair in repair_all(checks, context):
        repairs.append(repair)
        with read_or_not():
            say(repair.render())
    print()
    return repairs


DOCTOR = Command(
    "hermes-pgvector doctor\nhermes-pgvector doctor --fix\nhermes-pgvector doctor --json",
    _doctor,
    [
        argument("--fix", "mend what can be mended without losing anything, and say what was done"),
        add_admin_dsn,
    ],
)
