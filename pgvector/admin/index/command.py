"""The command `index`: HNSW indexes, which can be dropped for a bulk load and built again."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from ...domain.commandline import typed
from ...domain.errors import DimensionMismatch, InvalidArgument, WrongUsage
from ...domain.format import format_bytes
from ...domain.theme import ThemeRules
from ...host.session_context import Policy
from ...store.connection import DeadlineConnection
from ...store.schema import ensure_schema
from ..common.admin_login import agents_admin
from ..common.commands import (
    Command,
    action,
    add_admin_dsn,
    add_login,
    add_yes,
    argument,
    given_admin_dsn,
    printed,
)
from ..common.console import Column, remark, say, show_table, warn
from ..common.database import database, settings_of
from ..common.hnsw import HnswIndex, build, drop, indexes, present, to_build
from ..common.new_vectors import admin_connection
from ..common.outcome import ADD_YES
from ..common.progress import building
from ..common.stopped import said_if_stopped
from ..common.theme_indexes import build_for, drop_for, found_share, theme_indexes, to_build_for
from ..common.theme_names import existing
from .build_memory import build_memory, size

_UNFINISHED = "the index that was being built may be unfinished, see index show; run it again to go on"
_ENOUGH = 0.97  # share of the nearest rows that an index of a theme must find to be worth having


def _memory(text: str) -> str:
    if not re.fullmatch(r"\d+ ?(kB|MB|GB|TB)", text):
        raise argparse.ArgumentTypeError("write a size with its unit, as 4GB or 512MB")
    return text


def _show(args: argparse.Namespace, home: Path) -> int:
    with database(args, home) as (conn, _, _):
        found = _all(conn)
    return printed(args, _as_json(found), lambda: _table(found))


def _as_json(found: Sequence[HnswIndex]) -> list[dict[str, Any]]:
    return [index._asdict() for index in found]


def _all(conn: DeadlineConnection) -> list[HnswIndex]:
    return [*indexes(conn), *theme_indexes(conn)]


def _drop(args: argparse.Namespace, home: Path) -> int:
    with _admin(args, home) as (conn, _, rules):
        names = _dropped(conn, args.theme, rules, really=args.yes)
        left = _all(conn)
    told = {"done": args.yes} | ({"dropped": names} if args.yes else {"dropped": [], "to_drop": names})
    return printed(args, told | {"left": _as_json(left)}, lambda: _show_dropped(left, names, args.theme, done=args.yes))


def _dropped(conn: DeadlineConnection, given: str | None, rules: ThemeRules, *, really: bool) -> list[str]:
    """Drop the indexes of the whole tables, or of a theme, which may be empty by now; return their names."""
    if given is None:
        return drop(conn) if really else present(conn)
    known = {index.theme for index in theme_indexes(conn)}
    theme = next((name for name in (given, rules.resolve_name(given)) if name in known), None)
    if theme is None:
        raise InvalidArgument(f"no theme {given!r} has indexes of its own; see: hermes-pgvector index show")
    return drop_for(conn, theme) if really else [index.name for index in theme_indexes(conn, theme)]


def _show_dropped(left: Sequence[HnswIndex], names: Sequence[str], theme: str | None, *, done: bool) -> None:
    _table(left)
    if not names:
        say("there is none to drop")
    elif done:
        again = "hermes-pgvector index build" + (f" --theme {quote(theme)}" if theme else "")
        say(f"dropped: {', '.join(names)}")
        say(typed(f"To have them back: {again}"), "dim")
    else:
        say(f"would drop: {', '.join(names)}; {ADD_YES}")


def _build(args: argparse.Namespace, home: Path) -> int:
    if args.full and args.theme is not None:
        raise WrongUsage("--full and --theme do not go together: a theme's own indexes are over codes")
    with _admin(args, home) as (conn, conninfo, rules):
        ours = not (settings_of(home).dsn or given_admin_dsn(args))
        todo = to_build(conn, full=args.full) if args.theme is None else _of_theme(conn, args.theme, rules)
        memory = args.memory or _memory_for(todo, ours=ours)
        told: dict[str, Any] = {"done": not args.dry_run, "memory": memory}
        if args.dry_run:
            told |= {"built": [], "to_build": [index.name for index in todo]}
        else:
            told |= _built(args, conn, conninfo, todo, memory)
        left = _all(conn)
    told["indexes"] = _as_json(left)
    return printed(args, told, lambda: _show_built(todo or left if args.dry_run else left, _described(told)))


def _built(
    args: argparse.Namespace, conn: DeadlineConnection, conninfo: str, todo: Sequence[HnswIndex], memory: str
) -> dict[str, Any]:
    """Build the indexes; return their names and, for those of a theme, the share of the nearest rows they find."""
    with building() as tell, said_if_stopped(_UNFINISHED):
        if args.theme is None:
            return {"built": build(conn, conninfo, tell, memory=memory, full=args.full)}
        build_for(conn, conninfo, tell, todo, memory=memory)
    shares = {index.name: found_share(conn, index) for index in todo}
    return {
        "built": [index.name for index in todo],
        "found_share": {name: round(share, 3) for name, share in shares.items() if share is not None},
    }


def _of_theme(conn: DeadlineConnection, given: str, rules: ThemeRules) -> list[HnswIndex]:
    """Return the indexes of its own that a theme lacks. Raises InvalidArgument if there is no such theme."""
    theme, held = existing(conn, given, rules)
    return to_build_for(conn, theme, {"memories": held["memories"] + held["user_facts"], "turns": held["turns"]})


def _described(told: Mapping[str, Any]) -> Iterator[str]:
    names = told.get("to_build", told["built"])
    if not names:
        yield "nothing to build"
        return
    yield ("would build: " if "to_build" in told else "built: ") + ", ".join(names)
    for name, share in told.get("found_share", {}).items():
        less = "" if share >= _ENOUGH else "; that is too little: drop it again"
        yield f"{name} finds {share:.0%} of the nearest rows that reading all codes finds{less}"


def _show_built(left: Sequence[HnswIndex], lines: Iterable[str]) -> None:
    _table(left)
    for line in lines:
        say(line)


def _memory_for(todo: Sequence[HnswIndex], *, ours: bool) -> str:
    """Return the maintenance_work_mem for a build; if the server is not `ours`, print a note when it is too small."""
    wants = max((index.wants_bytes for index in todo), default=0)
    given = max((index.given_bytes for index in todo), default=0)
    if not ours and wants > given:
        remark(
            f"maintenance_work_mem is {size(given)}, and about {size(wants)} would be used: with less it takes "
            "several times as long; --memory SIZE gives it more"
        )
    return build_memory(wants, given, on_this_machine=ours)


@contextmanager
def _admin(args: argparse.Namespace, home: Path) -> Iterator[tuple[DeadlineConnection, str, ThemeRules]]:
    """Yield an admin's connection, its connection string, and the rules for theme names."""
    settings = settings_of(home)
    with agents_admin(settings, given_admin_dsn(args)) as conninfo, admin_connection(conninfo) as conn:
        try:
            ensure_schema(conn, dims=settings.dims)
        except DimensionMismatch as exc:  # the indexes are of the vectors that there are
            warn(str(exc))
        yield conn, conninfo, Policy.of(settings).rules


def _table(found: Sequence[HnswIndex]) -> None:
    of_theme = [Column("theme", flexible=True)] if any(index.theme for index in found) else []
    columns = [
        Column("name", "index"),
        *of_theme,
        Column("state"),
        Column("rows", right=True),
        Column("size", right=True),
        Column("wants", "build memory", right=True),
    ]
    rows = [
        index._asdict() | {"size": format_bytes(index.index_bytes), "wants": size(index.wants_bytes)} for index in found
    ]
    show_table(columns, rows)


INDEX = Command(
    "hermes-pgvector index show\nhermes-pgvector index drop --yes\nhermes-pgvector index build",
    actions=[
        action(
            "show",
            "show whether they are valid, how large they are, and how much memory a build needs",
            "hermes-pgvector index show\nhermes-pgvector index show --json",
            _show,
            [add_login],
        ),
        action(
            "drop",
            "drop them while agents go on: writing gets cheaper, recall across all themes of a very large table dearer",
            "hermes-pgvector index drop          # what is there\nhermes-pgvector index drop --yes",
            _drop,
            [add_admin_dsn, argument("--theme NAME", "those over this theme instead"), add_yes],
        ),
        action(
            "build",
            "build those that are missing or were not built to their end, while agents go on",
            "hermes-pgvector index build\n"
            'hermes-pgvector index build --memory 4GB --admin-dsn "dbname=hermes_memory user=postgres"\n'
            "hermes-pgvector index build --theme sales --dry-run",
            _build,
            [
                add_admin_dsn,
                argument(
                    "--memory SIZE",
                    "maintenance_work_mem for it, as 4GB (default: with the embedded server what it wants, "
                    "up to half of what the machine has free; else the server's own)",
                    type=_memory,
                ),
                argument(
                    "--full",
                    "of whole vectors instead of signatures, for your own queries: ten times the size, and over "
                    "twice the work for each row",
                ),
                argument(
                    "--theme NAME",
                    "those over the rows of this theme instead: recall of it then takes a fraction of the work",
                ),
                argument("--dry-run", "only show what would be built"),
            ],
        ),
    ],
)
