"""install."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.commands import EXIT_OK, Command, add_json, known_settings, print_json, settings_of

if TYPE_CHECKING:
    from ...config.settings import Settings


def _install_arguments(command: argparse.ArgumentParser) -> None:
    mode = command.add_mutually_exclusive_group()
    mode.add_argument("--shim", action="store_true", help="a few lines that import the installed package (the default)")
    mode.add_argument("--copy", action="store_true", help="a copy of the whole package")
    command.add_argument("--force", action="store_true", help="replace a plugin directory that is not ours")
    command.add_argument("--no-activate", action="store_true", help="leave memory.provider as it is")
    add_json(command)


def _install(args: argparse.Namespace, home: Path) -> int:
    from ..common.activation import activate, enable, find_hermes
    from ..common.embedded_server import account_notice
    from ..common.installation import install_plugin

    report = install_plugin(home, mode="copy" if args.copy else "shim", force=args.force)
    done: dict[str, Any] = {
        "action": report.action,
        "path": report.path,
        "mode": report.mode,
        "version": report.version,
    }
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
    if args.json:
        print_json(done)
    else:
        print("\n".join(line for line in lines if line))
    return EXIT_OK


def _fitted(home: Path, settings: Settings, done: dict[str, Any]) -> list[str]:
    """Have a further home take the model of the database that is there already; what to tell of it."""
    from ...domain.commandline import typed
    from ..common.choose import adopt, existing_database

    with existing_database(settings) as existing:
        choice = adopt(home, settings, known_settings(home), existing)
    if choice is None:
        return []
    done["recall"] = {"mode": choice.mode, "said": choice.said, "advice": choice.advice}
    return [f"recall goes {choice.said}"] + ([typed(f"  for more: {choice.advice}")] if choice.advice else [])


INSTALL = Command(
    "install",
    "put the plugin into a hermes home and activate it",
    "hermes-pgvector install\nhermes-pgvector install --hermes-home ~/.hermes/profiles/coder --copy",
    _install,
    _install_arguments,
)
