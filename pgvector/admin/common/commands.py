"""Parsing and printing shared by all verbs; a verb's module is imported only when the verb is used."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib import import_module
from math import nan
from pathlib import Path
from typing import Any, NoReturn

from ...domain.commandline import typed
from .console import abandon

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130

EXITS = (
    f"Exit codes: {EXIT_OK} all is well, {EXIT_FAILED} something failed or was found (what to do is printed), "
    f"{EXIT_USAGE} wrong usage, {EXIT_INTERRUPTED} interrupted."
)

Run = Callable[[argparse.Namespace, Path], int]
Argument = Callable[[argparse.ArgumentParser], object]
_DIGITS_MOST = 18  # of a whole number: Postgres takes it as a bigint
_UNKNOWN = re.compile(r"argument (COMMAND|ACTION): invalid choice: '(.*?)' \(choose from (.*)\)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Suggests the verb that was probably meant instead of listing them all, and rejects unknown arguments itself.

    If that were left to the parent parser, an unknown option of ours would print the usage of the whole host.
    """

    _as_json = False
    _told = False
    verb: Verb | None = None  # the verb that this parser is for, until its arguments are added
    taken: frozenset[str] = frozenset()  # options that the parent verb accepts too: a value given there holds here

    def fill(self) -> None:
        """Import the verb's module and add its arguments. Raises ImportError if a package is missing."""
        if self.verb is not None:
            _add_command(self, self.verb.load())
            self.verb = None
        for each in self._actions:
            if each.dest in self.taken:
                each.default = argparse.SUPPRESS

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments, and exit if one is unknown."""
        from ...domain.redaction import mask_dsn

        given = sys.argv[1:] if args is None else list(args)
        self._as_json = "--json" in given
        try:
            self.fill()
        except ImportError as exc:
            message = missing_package(exc)
            self._tell(message, type(exc).__name__)
            self.exit(EXIT_FAILED, f"error: {message}\n")
        known, left = super().parse_known_args(given, namespace)
        if left:
            self.error(f"unknown arguments: {mask_dsn(' '.join(left))}")
        return known, left

    def error(self, message: str) -> NoReturn:
        """Print the message and exit."""
        if found := _UNKNOWN.fullmatch(message):
            message = _nearest(*found.groups())
        elif message.endswith("required: ACTION") and self._subparsers is not None:
            message = f"say what to do: {', '.join(self._subparsers._group_actions[0].choices or ())}"
        self._tell(message, "WrongUsage")
        super().error(message)

    def _tell(self, message: str, kind: str) -> None:
        """Print an error as JSON, once: the host parses a command line that was refused a second time."""
        if self._as_json and not self._told:
            print_error(message, kind)
            self._told = True

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Exit; a reader that closes the pipe before the end of the help is not an error."""
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            abandon(sys.stdout)
        super().exit(status, message)


def _nearest(kind: str, given: str, names: str) -> str:
    """Return an error for a word that is not one of `names`, with the names that may have been meant."""
    known = re.findall(r"[\w-]+", names)
    near = [name for name in known if name.startswith(given)] or difflib.get_close_matches(given, known)
    meant = f"; did you mean: {', '.join(near)}?" if given and near else f", only {', '.join(known)}"
    return f"there is no {kind.lower()} {given!r}{meant}"


class GroupedHelp(argparse.RawDescriptionHelpFormatter):
    """Prints a heading above the first command of each group; `headings` is keyed by that command's name."""

    def __init__(self, prog: str, headings: Mapping[str, str]) -> None:
        super().__init__(prog)
        self._headings = headings

    def _format_action(self, action: argparse.Action) -> str:
        heading = "" if action.option_strings else self._headings.get(action.dest, "")
        text = super()._format_action(action)
        return f"\n{' ' * (self._current_indent - 2)}{heading}:\n{text}" if heading else text


@contextmanager
def read_or_not() -> Iterator[None]:
    """Ignore a pipe closed by the reader, as with `| head`, so that the code after the block still runs."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        abandon(sys.stdout)


@dataclass(frozen=True, slots=True)
class Command:
    """The arguments and action of a verb. `run` takes the parsed arguments and the hermes home, returns an exit code.

    A verb with `actions` and no `run` only groups them. Every command that runs takes --hermes-home and --json beside
    its own arguments.
    """

    examples: str
    run: Run | None = None
    arguments: Sequence[Argument] = ()
    actions: Sequence[Verb] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, or an action of one, as the help lists it.

    `command` may name a module below admin/ (with a leading dot: beside admin/) that defines the Command under the
    verb's name in capitals, or under the name after a colon. `more` are actions that another feature provides.
    """

    name: str
    summary: str
    command: Command | str
    more: Sequence[Verb] = ()

    def load(self) -> Command:
        """Return the command, importing its module if needed."""
        if isinstance(self.command, Command):
            return self.command
        module, _, name = self.command.partition(":")
        found: Command = getattr(import_module(f"..{module}", __package__), name or self.name.upper())
        return replace(found, actions=(*found.actions, *self.more))


def add_groups(parser: argparse.ArgumentParser, groups: Mapping[str, Sequence[Verb]]) -> None:
    """Add all verbs to the tool's parser; its help shows them under their groups' headings."""
    headings = {verbs[0].name: heading for heading, verbs in groups.items()}
    parser.formatter_class = partial(GroupedHelp, headings=headings)
    _add_verbs(parser, [verb for verbs in groups.values() for verb in verbs], depth=0)


def fill_all(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every verb below a parser, as shell completion or a page about all verbs needs them."""
    if isinstance(parser, Parser):
        parser.fill()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                fill_all(below)


def _add_verbs(
    parser: argparse.ArgumentParser,
    verbs: Sequence[Verb],
    *,
    depth: int,
    required: bool = False,
    taken: frozenset[str] = frozenset(),
) -> None:
    parsers = parser.add_subparsers(
        dest=f"pgvector_command_{depth}" if depth else "pgvector_command",
        metavar="ACTION" if depth else "COMMAND",
        required=required,
        parser_class=Parser,
    )
    for verb in verbs:
        own = parsers.add_parser(
            verb.name,
            help=verb.summary,
            description=verb.summary[0].upper() + verb.summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        own.verb = verb
        own.taken = taken


def _add_command(parser: Parser, command: Command) -> None:
    """Add a verb's arguments and actions to its parser; the parsed result carries the `run` to call."""
    parser.epilog = f"Examples:\n{indented(typed(command.examples))}\n\n{EXITS}"
    if command.run is not None:
        parser.add_argument(
            "--hermes-home", type=_folder, metavar="DIR", help="the hermes home (default: $HERMES_HOME or ~/.hermes)"
        )
        for add in command.arguments:
            add(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(pgvector_run=command.run)
    if command.actions:
        given = {each.dest for each in parser._actions if each.option_strings and each.dest != "help"}
        taken = parser.taken | frozenset(given)
        _add_verbs(parser, command.actions, depth=1, required=command.run is None, taken=taken)


def action(name: str, summary: str, examples: str, run: Run, arguments: Sequence[Argument] = ()) -> Verb:
    """Return an action of a verb."""
    return Verb(name, summary, Command(examples, run, arguments))


def argument(name: str, about: str, **settings: Any) -> Argument:
    """Return a function that adds an argument or an option with argparse's `settings`.

    The name may be followed by the metavar, as in "--since WHEN"; an option with neither metavar nor settings is a
    flag.
    """
    name, _, metavar = name.partition(" ")
    if metavar:
        settings["metavar"] = metavar
    elif name.startswith("-") and not settings:
        settings["action"] = "store_true"
    return lambda parser: parser.add_argument(name, help=about, **settings)


add_yes = argument("--yes", "do it; without this only what would be done is shown")
add_admin_dsn = argument("--admin-dsn DSN", "an admin's DSN; $HERMES_PGVECTOR_ADMIN_DSN is used without this option")
# For commands that the agents' own login can run as well: a variable left set must not widen what is seen.
add_login = argument("--admin-dsn DSN", "connect with this DSN, not as the agents do (no variable is used for this)")


def given_admin_dsn(args: argparse.Namespace) -> str:
    """Return the admin's DSN from the command line or the environment; empty if neither has one."""
    return args.admin_dsn or os.environ.get("HERMES_PGVECTOR_ADMIN_DSN", "")


def printed(args: argparse.Namespace, value: Any, show: Callable[[], object]) -> int:
    """Print `value` as JSON with --json, otherwise have `show` print it for people; return the exit code."""
    if args.json:
        print_json(value)
    else:
        show()
    return EXIT_OK


def print_json(value: Any) -> None:
    """Print `value` as JSON."""
    print(json.dumps(value, indent=2, default=_as_text))


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def print_error(message: str, kind: str) -> None:
    """Print an error as JSON, on a line of its own."""
    print(json.dumps({"error": message, "type": kind}))


class ShowVersion(argparse.Action):
    """Print the version in the plugin's manifest."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it and exit."""
        from .installation import package_version

        print(f"{parser.prog} {package_version()}")
        parser.exit()


def missing_package(exc: ImportError) -> str:
    """Return a message that names the missing package, or the missing part of ours, and says how to get it."""
    from ...domain.commandline import lacking
    from .own_package import damage

    return damage(exc) or f"{lacking() or exc} ({sys.executable})"


def positive(text: str) -> int:
    """Return the value of an option that must be a whole number, 1 or more."""
    return _whole(text, 1)


def not_negative(text: str) -> int:
    """Return the value of an option that must be a whole number, 0 or more."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not text.isdecimal() or len(text) > _DIGITS_MOST or int(text) < least:
        most = f", of at most {_DIGITS_MOST} digits" if len(text) > _DIGITS_MOST else ""
        raise argparse.ArgumentTypeError(f"write a whole number, {least} or more{most}")
    return int(text)


def between(least: float, most: float) -> Callable[[str], float]:
    """Return a function that reads the number of an option, which must lie from `least` to `most`."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = nan
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"write a number from {least:g} to {most:g}")
        return number

    return read


def filled(text: str) -> str:
    """Return an argument that is not blank: an unset shell variable must not select everything."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; leave it out, or check the variable it came from")
    return text


def whole_path(text: str) -> Path:
    """Return the path of an option, which is not blank, as a message can name it: `.` says little."""
    return Path(os.path.abspath(filled(text)))


def _folder(text: str) -> Path:
    return Path(filled(text))


def indented(text: str) -> str:
    """Return a text with each of its lines indented."""
    return "\n".join("  " + line for line in text.splitlines())
