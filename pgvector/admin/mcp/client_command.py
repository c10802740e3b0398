"""The command `mcp install`."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ...config.settings import ENV_PREFIX
from ...config.sources import read_dotenv
from ...domain.commandline import pip_install
from ...domain.errors import WrongUsage
from ...host.session_context import Policy, load_settings
from ...mcp.serving import COMPATIBLE, check_theme
from ..common.client_files import (
    CLIENTS,
    ENTRY_NAME,
    ClientFile,
    Installed,
    entry_of,
    file_of,
    install,
    options_in,
    shown_entry,
    without_secrets,
)
from ..common.commands import Argument, Command, argument, filled, printed
from ..common.console import say, warn

_PACKAGE = "mcp>=1.26,<3"
_RESTART = "Start {} anew, or reload its servers, for it to see the memory."


def _install(args: argparse.Namespace, home: Path) -> int:
    if args.theme:
        check_theme(args.theme, Policy.of(load_settings(None, home).settings).rules)
    if args.client == "print":
        return _print(args, home)
    place = file_of(args.client, home, args.project)
    done = install(place, args.name, entry_of(args.client, home, *_options(args)), really=not args.dry_run)
    given, before = options_in(done.entry), options_in(done.before)
    known = {*read_dotenv(home), *done.entry["env"]}
    told = {
        "action": done.action,
        "done": not args.dry_run,
        "changed": done.action != "unchanged" and not args.dry_run,
        "file": str(done.path),
        "name": args.name,
        "entry": without_secrets(done.entry),
        "backup": str(done.backup) if done.backup else None,
        "dropped": [shlex.join(each) for each in before.items() if each[0] not in given],
        "left_out": sorted(name for name in os.environ if name.startswith(ENV_PREFIX) and name not in known),
    }
    return printed(args, told, lambda: _show(args, place, done, told["dropped"], told["left_out"]))


def _show(
    args: argparse.Namespace, place: ClientFile, done: Installed, dropped: list[str], left_out: list[str]
) -> None:
    if done.action == "unchanged":
        say(f"{done.path} has the entry {args.name!r} already; nothing was changed")
    elif args.dry_run:
        say(f"{done.path} would have this entry {'added' if done.action == 'added' else 'renewed'}:")
        print(shown_entry(place, args.name, done.entry), end="")
    else:
        say(f"{done.action}: {args.name!r} in {done.path}")
        say(f"what it was before: {done.backup}" if done.backup else "the file is new")
        say(_RESTART.format(args.client))
        say(f"To try it: hermes-pgvector mcp check {client_named(args)}")
    if dropped:
        again = "give it again" if len(dropped) == 1 else "give them again"
        warn(f"the entry that stood there had {' '.join(dropped)}, and this one has not: {again} to keep what it means")
    if find_spec("mcp") is None:
        warn(f"the server cannot start yet: {sdk_lacks()}")
    if left_out:
        warn(
            f"set here, and not for the server that a client starts: {', '.join(left_out)}; "
            "what it needs belongs into the .env of the home"
        )


def _print(args: argparse.Namespace, home: Path) -> int:
    if args.project is not None or args.dry_run:
        raise WrongUsage("print only prints: --project and --dry-run go with a client")
    entries = {client: entry_of(client, home, *_options(args)) for client in CLIENTS}
    places = {client: file_of(client, home, None) for client in CLIENTS}

    def show() -> None:
        for client, place in places.items():
            say(f"{client}: into {place.path}", "bold")
            print(shown_entry(place, args.name, entries[client]))
        entry = entries["claude-code"]
        say("as a command:", "bold")
        print(
            f"HERMES_HOME={shlex.quote(entry['env']['HERMES_HOME'])} {shlex.join([entry['command'], *entry['args']])}"
        )

    told = {client: {"file": str(places[client].path), "entry": entry} for client, entry in entries.items()}
    return printed(args, told, show)


def _options(args: argparse.Namespace) -> Iterator[str]:
    for option, value in (("--theme", args.theme), ("--compat", args.compat)):
        if value:
            yield from (option, value)


def client_named(args: argparse.Namespace) -> str:
    """Return the options that name the client's entry, to be given to another command."""
    given = ["--client", args.client]
    if args.project is not None:
        given += ["--project", str(args.project)]
    if args.name != ENTRY_NAME:
        given += ["--name", args.name]
    return shlex.join(given)


def sdk_lacks() -> str:
    """Return the message for a Python without the MCP SDK."""
    return f"this Python lacks the MCP SDK; run: {pip_install(_PACKAGE)}"


def _project(text: str) -> Path:
    """Return an existing folder: a file for one that a slip of the pen names would never be read."""
    if not Path(filled(text)).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text!r}")
    return Path(text)


add_client_options: tuple[Argument, ...] = (
    argument("--name NAME", f"what the client calls it (default: {ENTRY_NAME})", default=ENTRY_NAME),
    argument(
        "--project DIR",
        "for this folder alone, in its .mcp.json or .cursor/mcp.json (claude-code and cursor)",
        type=_project,
    ),
)
INSTALL = Command(
    "hermes-pgvector mcp install --client claude-code\n"
    "hermes-pgvector mcp install --client codex --theme work --dry-run\n"
    "hermes-pgvector mcp install --client cursor --project .\n"
    "hermes-pgvector mcp install --client print",
    _install,
    [
        argument("--client", "whose file; print shows all of them", choices=(*CLIENTS, "print"), required=True),
        *add_client_options,
        argument("--theme THEME", "the theme for this client (default: the project folder)"),
        argument("--compat", "have the server offer these tools instead of ours", choices=COMPATIBLE),
        argument("--dry-run", "only show what would be written"),
    ],
)
