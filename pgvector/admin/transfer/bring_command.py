"""The command `bring`."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path

from ...capture.sanitize import session_name
from ...domain.commandline import typed
from ...domain.dates import parse_when
from ...domain.errors import ConfigurationError, WrongUsage
from ...domain.format import plural
from ...domain.text import clean
from ...domain.theme import ThemeRules
from ...host.session_context import Policy, SessionContext
from ...store.connection import DeadlineConnection
from ..common.commands import (
    EXIT_FAILED,
    EXIT_OK,
    Argument,
    Command,
    Verb,
    action,
    add_login,
    add_yes,
    argument,
    printed,
)
from ..common.console import Column, say, show_table, warn
from ..common.database import connection, settings_of
from ..common.stopped import said_if_stopped
from ..common.stored_rows import themes_of_session
from .bring import NEAR_S, Report, SourceReport, bring
from .command import if_stopped, warn_of_moved
from .import_rows import noted_entries, said_in_session
from .ingest import IngestOptions
from .sources.fact_notes import FactNotes
from .sources.hindsight import HindsightTables
from .sources.holographic import FactStore
from .sources.mem0 import COLLECTION, Mem0Settings, Mem0Store, configured
from .sources.memory_md import MemoryFiles
from .sources.predecessor import PredecessorTables
from .sources.source import Home, ImportDestination, ImportTarget, Source, homes
from .sources.state_db import SessionDatabase

_SOURCE_DSN = "HERMES_PGVECTOR_SOURCE_DSN"
_EXAMPLES_SHOWN = 5
Sources = Callable[[argparse.Namespace, Path, "ImportDestination"], Sequence["Source"]]


# -- the sources


def _of_profiles(
    kind: type[SessionDatabase | MemoryFiles | FactStore | FactNotes],
    args: argparse.Namespace,
    home: Path,
    destination: ImportDestination,
) -> Sequence[Source]:
    """Return the given file, or the file of each profile that has one."""
    if getattr(args, "path", None) is not None:
        return [kind(_home_of(args, home), destination, args.path)]
    found = [each for each in _homes(args, home) if (each.path / kind.NAME).exists()]
    return [kind(each, destination) for each in _some(found, home, kind.NAME, kind.EXPECTED)]


def _mem0(args: argparse.Namespace, home: Path, destination: ImportDestination) -> Sequence[Source]:
    collection = args.collection or COLLECTION
    dsn = _given_dsn(args)
    if args.path is not None or dsn:
        return [Mem0Store(_home_of(args, home), destination, args.path, dsn, args.schema, collection)]
    known: dict[Mem0Settings, Home] = {}
    for each in _homes(args, home):
        if (settings := configured(each)) is not None:
            known.setdefault(settings, each)  # a store that profiles share belongs to the first one
    _some(list(known.values()), home, "mem0.json", "the settings of hermes-agent's provider mem0, or --path or --dsn")
    return [Mem0Store(each, destination, at.path, at.dsn, args.schema, at.collection) for at, each in known.items()]


def _hindsight(args: argparse.Namespace, home: Path, destination: ImportDestination) -> Sequence[Source]:
    databases = [SessionDatabase(each, destination) for each in _homes(args, home)]
    databases = [each for each in databases if each.path.exists()]

    def elsewhere(session: str) -> ImportTarget | str | None:
        return next((found for each in databases if (found := each.target(session)) is not None), None)

    profile = args.profile or "default"
    return [HindsightTables(_demanded_dsn(args), args.schema, profile, destination, args.bank, elsewhere)]


def _predecessor(args: argparse.Namespace, home: Path, destination: ImportDestination) -> Sequence[Source]:
    return [PredecessorTables(_demanded_dsn(args), args.schema, args.profile or "default", destination)]


def _homes(args: argparse.Namespace, home: Path) -> list[Home]:
    known = homes(home)
    if args.profile is None:
        return known
    if chosen := [each for each in known if each.profile == args.profile]:
        return chosen
    raise ConfigurationError(f"no profile {args.profile!r}; there are: {', '.join(each.profile for each in known)}")


def _home_of(args: argparse.Namespace, home: Path) -> Home:
    """Return the profile that the file given by --path belongs to."""
    return Home(args.profile or "default", home)


def _some(found: list[Home], home: Path, name: str, expected: str) -> list[Home]:
    if not found:
        raise ConfigurationError(f"no {name} in {home} nor in the home of another profile; expected {expected}")
    return found


def _given_dsn(args: argparse.Namespace) -> str:
    return args.dsn or os.environ.get(_SOURCE_DSN, "")


def _demanded_dsn(args: argparse.Namespace) -> str:
    if dsn := _given_dsn(args):
        return dsn
    raise WrongUsage(f"where is the database? --dsn DSN, or ${_SOURCE_DSN}")


# -- the verb


def _bring(sources: Sources, name: str, args: argparse.Namespace, home: Path) -> int:
    since = parse_when(args.since, "--since", zone=None)
    until = parse_when(args.until, "--until", end=True, zone=None)
    settings = settings_of(home)
    policy = Policy.of(settings)
    with connection(settings, args.admin_dsn) as conn:
        destination = _destination(args, conn, policy, settings.turn_min_chars)
        intake = IngestOptions(settings, policy.rules, near_s=NEAR_S, really=args.yes)
        with said_if_stopped(if_stopped(really=args.yes)):
            report = bring(conn, name, sources(args, home, destination), intake, since, until)
    if report.failed and not report.brought:
        raise ConfigurationError("; ".join(report.failed.values()))
    printed(args, report.as_json(), lambda: _show(report))
    return EXIT_FAILED if report.failed or report.refused else EXIT_OK


def _destination(
    args: argparse.Namespace, conn: DeadlineConnection, policy: Policy, min_chars: int
) -> ImportDestination:
    rules = policy.rules

    @lru_cache(maxsize=4096)
    def captured(session: str) -> tuple[str, ...]:
        return tuple(themes_of_session(conn, session_name(session, rules.identity_key)))

    return ImportDestination(
        locate=partial(SessionContext.from_host, rules=rules),
        writes=policy.write_contexts.__contains__,
        captured=captured,
        said_in=lambda theme, session: said_in_session(conn, theme, session_name(session, rules.identity_key)),
        noted_entries=partial(noted_entries, conn),
        stored_text=lambda text: policy.keep.text(clean(text), Counter()).strip(),
        rules=rules,
        min_chars=min_chars,
        theme=_theme(args.theme, rules, "--theme"),
        api_theme=_theme(getattr(args, "api_theme", None), rules, "--api-theme"),
    )


def _theme(given: str | None, rules: ThemeRules, option: str) -> str:
    if given is None:
        return ""
    if theme := rules.resolve_name(given):
        return theme
    raise WrongUsage(f"{option}: the name is blank")


def _show(report: Report) -> None:
    for each in report.brought:
        _show_source(each, really=report.really)
    for where, why in report.failed.items():
        warn(why if where in why else f"{where}: {why}")
    added = sum(each.arrivals.added for each in report.brought)
    if not added:
        say("nothing new to bring")
    elif not report.really:
        say(f"nothing was changed: add --yes to bring {added:,}")
    else:
        say(typed("texts without a vector are embedded by the agents, or now: hermes-pgvector backfill"))


def _show_source(each: SourceReport, *, really: bool) -> None:
    say(f"{each.where}: {each.tally.read:,} read", "bold")
    columns = (
        Column("theme", flexible=True),
        Column("memories", right=True),
        Column("turns", right=True),
        Column("new", "added" if really else "new", right=True),
        Column("first", "from"),
        Column("last", "to"),
    )
    shares = sorted(each.shares.items())
    rows = [asdict(share) | {"theme": theme, "new": each.arrivals.themes[theme]} for theme, share in shares]
    if rows:
        show_table(columns, rows)
    for reason, count in each.skipped().items():
        say(f"{count:,} left out: {reason}", "yellow")
    for example in [*each.tally.examples, *each.arrivals.examples][:_EXAMPLES_SHOWN]:
        say(f"  {example}", "dim")
    if each.arrivals.masked:
        say(f"{plural(each.arrivals.masked, 'secret')} masked")
    for name in sorted(each.arrivals.unreachable):
        warn(f"allowed_themes does not name {name!r}: until it does, no session has this theme")
    warn_of_moved(each.arrivals, really=really)


# -- the actions


_THEME = argument("--theme THEME", "take everything into this theme, whatever the rules say")
_API_THEME = argument(
    "--api-theme THEME", "take API sessions whose session key is not recorded into this theme (default: leave them out)"
)
_COMMON = (
    argument("--since WHEN", "what was said or noted from then on: 2026-05-03, 7d, yesterday"),
    argument("--until WHEN", "... before then; of a day, month or year, to its end"),
    add_login,
    add_yes,
)
_PROFILE = argument("--profile NAME", "only this profile; of a --path, the profile it belongs to")


def _path(what: str) -> Argument:
    return argument("--path PATH", f"{what} (default: those of every profile)", type=Path)


def _of_database(*, default: str = "") -> list[Argument]:
    return [
        argument("--dsn DSN", f"the database to read{default}; without this option ${_SOURCE_DSN} is used"),
        argument("--schema NAME", "its schema there (default: public)", default="public"),
    ]


def _action(name: str, summary: str, examples: str, sources: Sources, *arguments: Argument) -> Verb:
    return action(name, summary, examples, partial(_bring, sources, name), [*arguments, _THEME, *_COMMON])


BRING = Command(
    "hermes-pgvector bring sessions\nhermes-pgvector bring sessions --yes\n"
    "hermes-pgvector bring mem0 --path ~/.hermes/mem0_qdrant",
    actions=[
        _action(
            "sessions",
            "import the conversations in the host's state.db",
            "hermes-pgvector bring sessions\nhermes-pgvector bring sessions --profile work --since 2026-01 --yes\n"
            "hermes-pgvector bring sessions --api-theme assistant --yes",
            partial(_of_profiles, SessionDatabase),
            _path("another state.db"),
            _PROFILE,
            _API_THEME,
        ),
        _action(
            "files",
            "import the entries of MEMORY.md and USER.md of every profile",
            "hermes-pgvector bring files\nhermes-pgvector bring files --profile work --yes",
            partial(_of_profiles, MemoryFiles),
            argument("--profile NAME", "only this profile"),
        ),
        _action(
            "holographic",
            "import the facts of the bundled provider holographic",
            "hermes-pgvector bring holographic\nhermes-pgvector bring holographic --path /backup/memory_store.db --yes",
            partial(_of_profiles, FactStore),
            _path("another memory_store.db"),
            _PROFILE,
        ),
        _action(
            "hermes-memory",
            "import the facts of hermes-memory, the MCP server, with their kinds, scopes and states",
            "hermes-pgvector bring hermes-memory\n"
            "hermes-pgvector bring hermes-memory --path ~/project/memory.db --theme project --yes",
            partial(_of_profiles, FactNotes),
            _path("another memory.db"),
            _PROFILE,
        ),
        _action(
            "mem0",
            "import the facts that Mem0 keeps on this host or in Postgres",
            "hermes-pgvector bring mem0\nhermes-pgvector bring mem0 --path ~/.mem0/history.db --theme assistant --yes\n"
            'hermes-pgvector bring mem0 --dsn "dbname=mem0 user=postgres" --collection mem0',
            _mem0,
            _path("a local folder of qdrant, or a history.db of Mem0"),
            _PROFILE,
            *_of_database(default=", where Mem0 keeps its facts in pgvector"),
            argument("--collection NAME", "the collection, or table (default: mem0)"),
            _API_THEME,
        ),
        _action(
            "hindsight",
            "import the conversations and facts in a Postgres of Hindsight",
            "hermes-pgvector bring hindsight --dsn postgresql://hindsight@localhost:5432/hindsight\n"
            "hermes-pgvector bring hindsight --dsn DSN --bank hermes --yes",
            _hindsight,
            *_of_database(),
            argument("--bank NAME", "only this bank (default: all)"),
            argument("--profile NAME", "the profile where a row names none (default: default)"),
            _API_THEME,
        ),
        _action(
            "predecessor",
            "import the tables of the other hermes-memory-pgvector, 0.3 to 1.0",
            'hermes-pgvector bring predecessor --dsn "dbname=hermes_old user=hermes"\n'
            'hermes-pgvector bring predecessor --dsn "dbname=shared" --schema memory --yes',
            _predecessor,
            *_of_database(),
            argument("--profile NAME", "the profile of chats and of sessions that named no theme (default: default)"),
        ),
    ],
)
