"""index: the HNSW indexes, which a bulk load is better off without."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...domain.commandline import typed
from ..common.commands import (
    EXIT_OK,
    Command,
    add_admin_dsn,
    add_json,
    add_login,
    add_yes,
    connection,
    given_admin_dsn,
    print_json,
    settings_of,
)
from ..common.console import Column, say, show_table

if TYPE_CHECKING:
    from ...store.connection import DeadlineConnection
    from ..common.hnsw import HnswIndex


def _show_arguments(command: argparse.ArgumentParser) -> None:
    add_login(command)
    add_json(command)


def _show(args: argparse.Namespace, home: Path) -> int:
    from ..common.hnsw import indexes

    with connection(settings_of(home), args.admin_dsn) as conn:
        found = indexes(conn)
    if args.json:
        print_json([index._asdict() for index in found])
    else:
        _table(found)
    return EXIT_OK


def _drop_arguments(command: argparse.ArgumentParser) -> None:
    add_admin_dsn(command)
    add_yes(command)
    add_json(command)


def _drop(args: argparse.Namespace, home: Path) -> int:
    from ..common.hnsw import drop, indexes

    with _admin(args, home) as (conn, _):
        dropped = drop(conn) if args.yes else []
        left = indexes(conn)
    if args.json:
        print_json({"dropped": dropped, "left": [index._asdict() for index in left]})
        return EXIT_OK
    _table(left)
    if args.yes:
        say(f"dropped: {', '.join(dropped)}" if dropped else "there was none to drop")
        say(typed("To have them back: hermes-pgvector index build"), "dim")
    else:
        say("nothing was changed: add --yes")
    return EXIT_OK


def _build_arguments(command: argparse.ArgumentParser) -> None:
    add_admin_dsn(command)
    command.add_argument(
        "--memory",
        metavar="SIZE",
        default="",
        help="maintenance_work_mem for it, as 4GB (default: with the embedded server what it wants, up to half of what "
        "the machine has free; else the server's own)",
    )
    add_json(command)


def _build(args: argparse.Namespace, home: Path) -> int:
    from ..common.hnsw import build, indexes
    from ..common.progress import building

    with _admin(args, home) as (conn, conninfo):
        ours = not (settings_of(home).dsn or given_admin_dsn(args))
        todo = [index for index in indexes(conn) if index.is_to_build()]
        memory = args.memory or _memory_for(todo, ours=ours)
        with building() as tell:
            built = build(conn, conninfo, tell, memory=memory)
        left = indexes(conn)
    if args.json:
        print_json({"built": built, "memory": memory, "indexes": [index._asdict() for index in left]})
        return EXIT_OK
    _table(left)
    say(f"built: {', '.join(built)}" if built else "nothing to build")
    return EXIT_OK


def _memory_for(todo: Sequence[HnswIndex], *, ours: bool) -> str:
    """Return the maintenance_work_mem for a build; where the server is not `ours`, say when it gives too little."""
    from .build_memory import build_memory, size

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
    from ...store.schema import ensure_schema
    from ..common.admin_login import admin_conninfo
    from ..common.new_vectors import admin_connection

    settings = settings_of(home)
    with admin_conninfo(settings, given_admin_dsn(args)) as conninfo, admin_connection(conninfo) as conn:
        ensure_schema(conn, dims=settings.dims)
        yield conn, conninfo


def _table(found: Sequence[HnswIndex]) -> None:
    from .build_memory import size

    columns = [Column("index"), Column("state"), *(Column(key, right=True) for key in ("rows", "size", "wants"))]
    show_table(
        columns,
        [
            {
                "index": index.name,
                "state": index.state,
                "rows": f"{index.rows:,}",
                "size": size(index.index_bytes),
                "wants": size(index.wants_bytes),
            }
            for index in found
        ],
    )


INDEX = Command(
    "index",
    "the HNSW indexes: how they stand, drop them before a bulk load, build them after it",
    "hermes-pgvector index show\nhermes-pgvector index drop --yes\nhermes-pgvector index build",
    actions=(
        Command(
            "show",
            "whether they are whole, how large, and how much memory a build wants",
            "hermes-pgvector index show\nhermes-pgvector index show --json",
            _show,
            _show_arguments,
        ),
        Command(
            "drop",
            "drop them while agents go on: writing gets cheaper, recall across all themes of a very large table dearer",
            "hermes-pgvector index drop          # what is there\nhermes-pgvector index drop --yes",
            _drop,
            _drop_arguments,
        ),
        Command(
            "build",
            "build those that are missing or were not built to their end, while agents go on",
            'hermes-pgvector index build\nhermes-pgvector index build --memory 4GB --admin-dsn "dbname=hermes_memory '
            'user=postgres"',
            _build,
            _build_arguments,
        ),
    ),
)
