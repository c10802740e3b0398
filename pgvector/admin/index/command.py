"""index: the HNSW indexes, which a bulk load is better off without."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...domain.commandline import typed
from ...store.connection import DeadlineConnection
from ...store.schema import ensure_schema
from ..common.admin_login import admin_conninfo
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
from ..common.console import Column, say, show_table
from ..common.database import database, settings_of
from ..common.hnsw import HnswIndex, build, drop, indexes, to_build
from ..common.new_vectors import admin_connection
from ..common.outcome import ADD_YES
from ..common.progress import building
from .build_memory import build_memory, size


def _show(args: argparse.Namespace, home: Path) -> int:
    with database(args, home) as (conn, _, _):
        found = indexes(conn)
    return printed(args, [index._asdict() for index in found], lambda: _table(found))


def _drop(args: argparse.Namespace, home: Path) -> int:
    with _admin(args, home) as (conn, _):
        dropped = drop(conn) if args.yes else []
        left = indexes(conn)
    told = {"dropped": dropped, "left": [index._asdict() for index in left]}
    return printed(args, told, lambda: _show_dropped(left, dropped, done=args.yes))


def _show_dropped(left: Sequence[HnswIndex], dropped: Sequence[str], *, done: bool) -> None:
    _table(left)
    if done:
        say(f"dropped: {', '.join(dropped)}" if dropped else "there was none to drop")
        say(typed("To have them back: hermes-pgvector index build"), "dim")
    else:
        say(ADD_YES)


def _build(args: argparse.Namespace, home: Path) -> int:
    with _admin(args, home) as (conn, conninfo):
        ours = not (settings_of(home).dsn or given_admin_dsn(args))
        memory = args.memory or _memory_for(to_build(conn, full=args.full), ours=ours)
        with building() as tell:
            built = build(conn, conninfo, tell, memory=memory, full=args.full)
        left = indexes(conn)
    said = f"built: {', '.join(built)}" if built else "nothing to build"
    told = {"built": built, "memory": memory, "indexes": [index._asdict() for index in left]}
    return printed(args, told, lambda: _show_built(left, said))


def _show_built(left: Sequence[HnswIndex], said: str) -> None:
    _table(left)
    say(said)


def _memory_for(todo: Sequence[HnswIndex], *, ours: bool) -> str:
    """Return the maintenance_work_mem for a build; where the server is not `ours`, say when it gives too little."""
    wants = max((index.wants_bytes for index in todo), default=0)
    given = max((index.given_bytes for index in todo), default=0)
    if not ours and wants > given:
        say(
            f"maintenance_work_mem is {size(given)}, and about {size(wants)} would be used: with less it takes "
            "several times as long; --memory SIZE gives it more",
            "dim",
        )
    return build_memory(wants, given, on_this_machine=ours)


@contextmanager
def _admin(args: argparse.Namespace, home: Path) -> Iterator[tuple[DeadlineConnection, str]]:
    """Yield an admin's connection, and how it logged in."""
    settings = settings_of(home)
    with admin_conninfo(settings, given_admin_dsn(args)) as conninfo, admin_connection(conninfo) as conn:
        ensure_schema(conn, dims=settings.dims)
        yield conn, conninfo


def _table(found: Sequence[HnswIndex]) -> None:
    columns = [Column("index"), Column("state"), *(Column(key, right=True) for key in ("rows", "size", "wants"))]
    rows = [
        {
            "index": index.name,
            "state": index.state,
            "rows": index.rows,
            "size": size(index.index_bytes),
            "wants": size(index.wants_bytes),
        }
        for index in found
    ]
    show_table(columns, rows)


INDEX = Command(
    "hermes-pgvector index show\nhermes-pgvector index drop --yes\nhermes-pgvector index build",
    actions=[
        action(
            "show",
            "whether they are whole, how large, and how much memory a build wants",
            "hermes-pgvector index show\nhermes-pgvector index show --json",
            _show,
            [add_login],
        ),
        action(
            "drop",
            "drop them while agents go on: writing gets cheaper, recall across all themes of a very large table dearer",
            "hermes-pgvector index drop          # what is there\nhermes-pgvector index drop --yes",
            _drop,
            [add_admin_dsn, add_yes],
        ),
        action(
            "build",
            "build those that are missing or were not built to their end, while agents go on",
            "hermes-pgvector index build\n"
            'hermes-pgvector index build --memory 4GB --admin-dsn "dbname=hermes_memory user=postgres"',
            _build,
            [
                add_admin_dsn,
                argument(
                    "--memory",
                    metavar="SIZE",
                    default="",
                    help="maintenance_work_mem for it, as 4GB (default: with the embedded server what it wants, "
                    "up to half of what the machine has free; else the server's own)",
                ),
                argument(
                    "--full",
                    action="store_true",
                    help="of whole vectors instead of signatures, for your own queries: ten times the size, and over "
                    "twice the work for each row",
                ),
            ],
        ),
    ],
)
