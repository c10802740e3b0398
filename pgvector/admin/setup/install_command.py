"""The commands `install` and `deactivate`."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import Any

from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.redaction import mask_dsn
from ...host.session_context import load_settings
from ...server.layout import whole_home
from ..common.activation import activate, deactivate, enable, find_hermes
from ..common.choose import adopt
from ..common.commands import Command, printed
from ..common.console import say
from ..common.database import known_settings, settings_of
from ..common.embedded_server import account_notice, existing_database
from ..common.installation import install_plugin


def _install_arguments(command: argparse.ArgumentParser) -> None:
    mode = command.add_mutually_exclusive_group()
    mode.add_argument("--shim", action="store_true", help="a few lines that import the installed package (the default)")
    mode.add_argument("--copy", action="store_true", help="a copy of the whole package")
    command.add_argument("--force", action="store_true", help="replace a plugin directory that is not ours")
    command.add_argument("--no-activate", action="store_true", help="leave memory.provider as it is")


def _install(args: argparse.Namespace, home: Path) -> int:
    report = install_plugin(home, mode="copy" if args.copy else "shim", force=args.force)
    done: dict[str, Any] = {name: getattr(report, name) for name in ("action", "path", "mode", "version")}
    lines = [f"plugin {report.action}: {report.path} ({report.mode}, version {report.version})", report.note]
    hermes = find_hermes()
    if not args.no_activate:
        done["activated"] = activate(home, hermes)
        lines.append(f"memory.provider is pgvector: {done['activated']}")
    done["enabled"] = enable(home, hermes)
    if not done["enabled"]:
        lines.append("to load it before the first requests, run: hermes plugins enable pgvector")
    settings = settings_of(home)
    lines += [account_notice(settings), *_fitted(home, settings, done)]
    if note := _apart(home, settings):
        done["note"] = note
        lines.append(note)
    return printed(args, done, lambda: print("\n".join(filter(None, lines))))


def _apart(home: Path, settings: Settings) -> str:
    """Return a note if a profile has no `dsn` while its main home keeps memory on a server."""
    main = whole_home(home)
    if settings.dsn or os.path.realpath(home) == str(main):
        return ""
    server = load_settings(None, main).settings.dsn
    if not server:
        return ""
    return typed(
        f"note: this profile's memory is in the embedded Postgres; that of {main} is on {mask_dsn(server)}. "
        f"To keep both there: hermes-pgvector setup --hermes-home {shlex.quote(str(home))} --dsn DSN"
    )


def _fitted(home: Path, settings: Settings, done: dict[str, Any]) -> list[str]:
    """Configure a further home for the model of the existing database; return the lines to print about it."""
    with existing_database(settings) as existing:
        choice = adopt(home, settings, known_settings(home), existing)
    if choice is None:
        return []
    done["recall"] = {"mode": choice.mode, "said": choice.said, "advice": choice.advice}
    return [f"recall goes {choice.said}"] + ([typed(f"  for more: {choice.advice}")] if choice.advice else [])


def _deactivate(args: argparse.Namespace, home: Path) -> int:
    provider = deactivate(home)
    said = (
        f"memory.provider is {provider or 'the built-in memory alone'}; nothing was deleted\n"
        "To have it back: hermes config set memory.provider pgvector, and hermes plugins enable pgvector.\n"
        "Restart a running gateway."
    )
    return printed(args, {"memory.provider": provider}, lambda: say(said))


INSTALL = Command(
    "hermes-pgvector install\nhermes-pgvector install --hermes-home ~/.hermes/profiles/coder --copy",
    _install,
    [_install_arguments],
)
DEACTIVATE = Command("hermes-pgvector deactivate\nhermes-pgvector install       # has it back", _deactivate)
