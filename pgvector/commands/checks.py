"""doctor and prove."""

from __future__ import annotations

import argparse
from pathlib import Path

from .base import EXIT_FAILED, EXIT_OK, Command, print_json, settings_of


def _doctor_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print the checklist as JSON")


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


def _prove(args: argparse.Namespace, home: Path) -> int:
    from ..host.prove import prove, recall_in_this_process

    if args.recall:
        return EXIT_OK if recall_in_this_process(home, args.recall) else EXIT_FAILED
    return EXIT_OK if prove(home) else EXIT_FAILED


def _demo(args: argparse.Namespace, home: Path) -> int:
    from ..host.demo import run_demo

    return EXIT_OK if run_demo(home) else EXIT_FAILED


DOCTOR = Command(
    "doctor",
    "check everything and say what to do",
    "hermes-pgvector doctor\nhermes-pgvector doctor --json",
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
)
