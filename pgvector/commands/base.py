"""What every verb is made of."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..domain.settings import Settings

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


def _no_arguments(command: argparse.ArgumentParser) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Command:
    """One verb. `run` gets the parsed arguments and the hermes home and returns an exit code."""

    name: str
    summary: str
    examples: str
    run: Callable[[argparse.Namespace, Path], int]
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments


def add_json(command: argparse.ArgumentParser) -> None:
    """Add --json."""
    command.add_argument("--json", action="store_true", help="print JSON")


def add_yes(command: argparse.ArgumentParser) -> None:
    """Add --yes, without which a verb only shows what it would do."""
    command.add_argument("--yes", action="store_true", help="do it; without this only what would be done is shown")


def print_json(value: Any) -> None:
    """Print `value` for a machine."""
    print(json.dumps(value, indent=2))


def settings_of(home: Path) -> Settings:
    """The settings of a hermes home; what is wrong with them goes to stderr."""
    from ..host.context import load_settings

    loaded = load_settings(None, home)
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return loaded.settings
