"""install and server."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..common.commands import EXIT_FAILED, EXIT_OK, Command, add_json, known_settings, print_json, settings_of

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
    from ...config.activation import activate, enable, find_hermes
    from ...runtime.embedded_server import account_notice
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


def _start(args: argparse.Namespace, home: Path) -> int:
    return _server(args, home, "start")


def _stop(args: argparse.Namespace, home: Path) -> int:
    return _server(args, home, "stop")


def _server_status(args: argparse.Namespace, home: Path) -> int:
    return _server(args, home, "status")


def _server(args: argparse.Namespace, home: Path, action: Literal["start", "stop", "status"]) -> int:
    from ...runtime.embedded_server import serve

    state = serve(settings_of(home), action)
    if args.json:
        print_json(state.as_json())
    else:
        print(state.render())
    return EXIT_OK if state.up or action == "stop" else EXIT_FAILED


INSTALL = Command(
    "install",
    "put the plugin into a hermes home and activate it",
    "hermes-pgvector install\nhermes-pgvector install --hermes-home ~/.hermes/profiles/coder --copy",
    _install,
    _install_arguments,
)
_SERVER = "hermes-pgvector server "

SERVER = Command(
    "server",
    "start, stop or look at the embedded Postgres",
    "hermes-pgvector server status\nhermes-pgvector server stop",
    actions=(
        Command("start", "start it, until the next command that uses it is done", f"{_SERVER}start", _start, add_json),
        Command("stop", "stop it; agents start it again", f"{_SERVER}stop", _stop, add_json),
        Command("status", "whether it is up, and where its data lie", f"{_SERVER}status", _server_status, add_json),
    ),
)
