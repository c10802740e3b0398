"""Parsing, printing and connecting, as every verb does it."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ...domain.commandline import typed

if TYPE_CHECKING:
    from ...config.settings import Settings
    from ...store.connection import DeadlineConnection

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130

EXITS = (
    f"Exit codes: {EXIT_OK} all is well, {EXIT_FAILED} something failed or was found (what to do is printed), "
    f"{EXIT_USAGE} wrong usage, {EXIT_INTERRUPTED} interrupted."
)

Run = Callable[[argparse.Namespace, Path], int]
_UNKNOWN = re.compile(r"argument (COMMAND|ACTION): invalid choice: '(.*?)' \(choose from (.*)\)", re.DOTALL)


def _no_arguments(command: argparse.ArgumentParser) -> None:
    pass


class Parser(argparse.ArgumentParser):
    """Says which verb was probably meant, rather than list all of them, and refuses itself what it does not know.

    Left to the parser above, an unknown option of ours would be answered with the usage of the whole host.
    """

    _as_json = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, and exit where an argument is not known."""
        from ...domain.redaction import mask_dsn

        given = sys.argv[1:] if args is None else list(args)
        self._as_json = "--json" in given
        known, left = super().parse_known_args(given, namespace)
        if left:
            self.error(f"unknown arguments: {mask_dsn(' '.join(left))}")
        return known, left

    def error(self, message: str) -> NoReturn:
        """Print it and exit."""
        if found := _UNKNOWN.fullmatch(message):
            kind, given, names = found.groups()
            known = re.findall(r"[\w-]+", names)
            near = [name for name in known if name.startswith(given)] or difflib.get_close_matches(given, known)
            meant = f"; did you mean: {', '.join(near)}?" if given and near else f", only {', '.join(known)}"
            message = f"there is no {kind.lower()} {given!r}{meant}"
        if self._as_json:
            print_error(message, "WrongUsage")
        super().error(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Exit; that nobody reads the help to its end is no error."""
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            abandon_stdout()
        super().exit(status, message)


class GroupedHelp(argparse.RawDescriptionHelpFormatter):
    """Puts a heading above the first command of each group; `headings` are by that command's name."""

    def __init__(self, prog: str, headings: Mapping[str, str]) -> None:
        super().__init__(prog)
        self._headings = headings

    def _format_action(self, action: argparse.Action) -> str:
        heading = "" if action.option_strings else self._headings.get(action.dest, "")
        text = super()._format_action(action)
        return f"\n{' ' * (self._current_indent - 2)}{heading}:\n{text}" if heading else text


def abandon_stdout() -> None:
    """Have what is still printed go nowhere: its reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@dataclass(frozen=True, slots=True)
class Command:
    """One verb. `run` gets the parsed arguments and the hermes home and returns an exit code.

    A verb with `actions` is only their common name: each of them is a verb behind it.
    """

    name: str
    summary: str
    examples: str
    run: Run | None = None
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    actions: tuple[Command, ...] = ()


def add_groups(parser: argparse.ArgumentParser, groups: Mapping[str, Sequence[Command]]) -> None:
    """Add all verbs to the parser of the tool; its help shows them under the names of their groups."""
    headings = {commands[0].name: heading for heading, commands in groups.items()}
    parser.formatter_class = partial(GroupedHelp, headings=headings)
    add_commands(parser, [command for commands in groups.values() for command in commands])


def add_commands(parser: argparse.ArgumentParser, commands: Sequence[Command], *, depth: int = 0) -> None:
    """Add verbs to a parser, and their actions to theirs; what is parsed carries the `run` that was meant."""
    parsers = parser.add_subparsers(
        dest=f"pgvector_command_{depth}" if depth else "pgvector_command",
        metavar="ACTION" if depth else "COMMAND",
        required=depth > 0,
        parser_class=Parser,
    )
    for command in commands:
        own = parsers.add_parser(
            command.name,
            help=command.summary,
            description=command.summary[0].upper() + command.summary[1:] + ".",
            epilog=f"Examples:\n{_indented(typed(command.examples))}\n\n{EXITS}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command.actions:
            add_commands(own, command.actions, depth=depth + 1)
            continue
        own.add_argument(
            "--hermes-home", type=Path, metavar="DIR", help="the hermes home (default: $HERMES_HOME or ~/.hermes)"
        )
        command.add_arguments(own)
        own.set_defaults(pgvector_run=command.run)


def add_json(command: argparse.ArgumentParser) -> None:
    """Add --json."""
    command.add_argument("--json", action="store_true", help="print JSON")


def add_yes(command: argparse.ArgumentParser) -> None:
    """Add --yes, without which a verb only shows what it would do."""
    command.add_argument("--yes", action="store_true", help="do it; without this only what would be done is shown")


def add_admin_dsn(command: argparse.ArgumentParser) -> None:
    """Add --admin-dsn; `given_admin_dsn` reads it."""
    command.add_argument(
        "--admin-dsn", metavar="DSN", help="how to log in as an admin; may also stand in $HERMES_PGVECTOR_ADMIN_DSN"
    )


def add_login(command: argparse.ArgumentParser) -> None:
    """Add --admin-dsn where the agents' own login does as well, and a variable left set must not widen what is seen."""
    command.add_argument(
        "--admin-dsn", metavar="DSN", help="log in so, rather than as the agents do (no variable stands in for this)"
    )


def given_admin_dsn(args: argparse.Namespace) -> str:
    """Return the admin's DSN of the command line or the environment; empty without one."""
    return args.admin_dsn or os.environ.get("HERMES_PGVECTOR_ADMIN_DSN", "")


def print_json(value: Any) -> None:
    """Print `value` for a machine."""
    print(json.dumps(value, indent=2, default=str))


def print_error(message: str, kind: str) -> None:
    """Print an error for a machine, on a line of its own."""
    print(json.dumps({"error": message, "type": kind}))


def settings_of(home: Path) -> Settings:
    """Return the settings of a hermes home; what is wrong with them goes to stderr."""
    from ...host.session_context import load_settings
    from .console import warn

    loaded = load_settings(None, home)
    for warning in loaded.warnings:
        warn(warning)
    return loaded.settings


def known_settings(home: Path) -> dict[str, Any]:
    """Return the settings that somebody set, and where Ollama is."""
    from ...host.session_context import environment
    from .saving import given_settings

    return given_settings(home) | {"OLLAMA_HOST": environment(home).get("OLLAMA_HOST", "")}


class ShowVersion(argparse.Action):
    """Print the version in the plugin's manifest."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it and exit."""
        from .installation import package_version

        print(f"{parser.prog} {package_version()}")
        parser.exit()


@contextmanager
def connection(settings: Settings, login: str | None = None, *, named: str = "") -> Iterator[DeadlineConnection]:
    """Open a connection to the database of the settings, embedded or not, or by another login; its tables are there.

    `named`: the option that named it, where that was not the setting `dsn`. Raises SchemaNotApplied and
    StoreUnavailable; in the block, errors of the database are ours.
    """
    from ...domain.errors import StoreUnavailable
    from ...store.connection import translated
    from ...store.pool import connect
    from ...store.schema import ensure_schema
    from .embedded_server import borrowed_server

    option = named or ("--admin-dsn" if login else "dsn")
    with borrowed_server(settings) as locate, ExitStack() as stack:
        try:
            conn = stack.enter_context(connect(login or settings.dsn or locate()))
            ensure_schema(conn, dims=settings.dims)
        except StoreUnavailable as exc:
            raise type(exc)(str(exc).replace("`dsn`", f"`{option}`")) from exc
        with translated():
            yield conn


def positive(text: str) -> int:
    """Return the number of an option that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("write a whole number, 1 or more")
    return int(text)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())
