"""doctor, prove and demo."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Callable
from pathlib import Path

from .base import EXIT_FAILED, EXIT_OK, Command, add_json, print_json, settings_of


def _doctor(args: argparse.Namespace, home: Path) -> int:
    from ..host.context import environment
    from ..operate.doctor import as_json, examine, healthy, render_text
    from ..runtime.embedded import borrowed_server

    settings = settings_of(home)
    api_key = environment(home).get(settings.embed_api_key_env, "")
    with borrowed_server(settings) as locate:
        checks = examine(settings, home, locate=locate, api_key=api_key)
    if args.json:
        print_json(as_json(checks))
    else:
        print(render_text(checks))
    return EXIT_OK if healthy(checks) else EXIT_FAILED


def _prove_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--recall", metavar="WORD", help=argparse.SUPPRESS)  # the second process of the proof
    add_json(command)


def _prove(args: argparse.Namespace, home: Path) -> int:
    from ..host.prove import prove, recall_in_this_process

    if args.recall:
        return EXIT_OK if recall_in_this_process(home, args.recall) else EXIT_FAILED
    return _told(args, lambda: prove(home))


def _demo(args: argparse.Namespace, home: Path) -> int:
    from ..host.demo import run_demo

    return _told(args, lambda: run_demo(home))


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
    "hermes-pgvector doctor\nhermes-pgvector doctor --json",
    _doctor,
    add_json,
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
