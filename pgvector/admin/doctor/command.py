"""doctor, prove and demo."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.commands import (
    EXIT_FAILED,
    EXIT_OK,
    Command,
    add_admin_dsn,
    add_json,
    connection,
    given_admin_dsn,
    print_json,
    settings_of,
)
from ..common.console import say

if TYPE_CHECKING:
    from ...config.settings import Settings
    from .check import Check
    from .repair import Repair


def _doctor_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--fix", action="store_true", help="mend what can be mended without losing anything, and say what was done"
    )
    add_admin_dsn(command)
    add_json(command)


def _doctor(args: argparse.Namespace, home: Path) -> int:
    from ...domain.errors import ConfigurationError
    from ...host.session_context import environment
    from ..common.embedded_server import borrowed_server
    from .checklist import examine, examine_without_settings, healthy

    try:
        settings, environ = settings_of(home), environment(home)
    except ConfigurationError as exc:
        checks = examine_without_settings(home, exc)
        _report(args, checks, checks, [])
        return EXIT_FAILED
    keys = {
        "api_key": environ.get(settings.embed_api_key_env, ""),
        "rerank_key": environ.get(settings.rerank_api_key_env, ""),
    }
    repairs: list[Repair] = []
    with borrowed_server(settings) as locate:
        before = checks = examine(settings, home, locate=locate, **keys)
        if args.fix and any(check.repair for check in checks):
            repairs = _repaired(args, checks, settings, home, environ)
            checks = examine(settings, home, locate=locate, **keys)
    _report(args, checks, before, repairs)
    return EXIT_OK if healthy(checks) else EXIT_FAILED


def _report(
    args: argparse.Namespace, checks: Sequence[Check], before: Sequence[Check], repairs: Sequence[Repair]
) -> None:
    """Print the checklist; as JSON with the repairs and what was found before them, where --fix was given."""
    from ...domain.commandline import typed
    from .checklist import as_json

    if args.json:
        fixed = {"before": as_json(before)["checks"], "repairs": [each.as_json() for each in repairs]}
        print_json(as_json(checks) | (fixed if args.fix else {}))
        return
    _show(checks)
    if not args.fix and any(check.repair for check in checks):
        print(typed("\n  hermes-pgvector doctor --fix mends some of this"))


def _show(checks: Sequence[Check]) -> None:
    from .checklist import render_text

    for check in checks:
        say(render_text([check]), {"ok": "", "note": "yellow", "fail": "red"}[check.state])


def _repaired(
    args: argparse.Namespace, checks: Sequence[Check], settings: Settings, home: Path, environ: Mapping[str, str]
) -> list[Repair]:
    """Repair what can be repaired; for people, what was found and each repair are shown as they come."""
    from ..common.admin_login import admin_conninfo
    from .delivery import deliver_left
    from .repair import RepairContext, mend

    login = given_admin_dsn(args)
    context = RepairContext(
        settings,
        home,
        admin=(lambda: admin_conninfo(settings, login)) if login or not settings.dsn else None,
        deliver=lambda: deliver_left(settings, home, environ),
    )
    if args.json:
        return list(mend(checks, context))
    _show(checks)
    print()
    repairs = []
    for repair in mend(checks, context):
        print(repair.render(), flush=True)
        repairs.append(repair)
    print()
    return repairs


def _prove_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--recall", metavar="WORD", help=argparse.SUPPRESS)  # the second process of the proof
    add_json(command)


def _prove(args: argparse.Namespace, home: Path) -> int:
    from .prove import prove, recall_in_this_process

    if args.recall:
        return EXIT_OK if recall_in_this_process(home, args.recall) else EXIT_FAILED
    _require_database(home)
    return _told(args, lambda: prove(home))


def _demo(args: argparse.Namespace, home: Path) -> int:
    from .demo import run_demo

    _require_database(home)
    return _told(args, lambda: run_demo(home))


def _require_database(home: Path) -> None:
    """Fail at once where nothing could be written, rather than after a minute, with writes left in the spool."""
    with connection(settings_of(home)):
        pass


def _told(args: argparse.Namespace, play: Callable[[], bool]) -> int:
    """Let something tell its story on stdout, or inside of JSON; it returns whether all was well."""
    if not args.json:
        return EXIT_OK if play() else EXIT_FAILED
    with contextlib.redirect_stdout(io.StringIO()) as told:
        well = play()
    print_json({"ok": well, "transcript": told.getvalue().splitlines()})
    return EXIT_OK if well else EXIT_FAILED


DOCTOR = Command(
    "doctor",
    "check everything and say what to do",
    "hermes-pgvector doctor\nhermes-pgvector doctor --fix\nhermes-pgvector doctor --json",
    _doctor,
    _doctor_arguments,
)
PROVE = Command(
    "prove",
    "write a memory and a turn, recall both in a new process",
    "hermes-pgvector prove",
    _prove,
    _prove_arguments,
)
DEMO = Command(
    "demo",
    "let three agents with themes of their own write and recall, and show what each sees",
    "hermes-pgvector demo",
    _demo,
    add_json,
)
