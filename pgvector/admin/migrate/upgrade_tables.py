"""Takes over another program's tables: moves them aside, copies them into ours, and puts them back or drops them.

Each step is a transaction that records its progress in `hermes_upgrade`, so an interrupted upgrade resumes there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg
from psycopg import sql

from ...domain.errors import ConfigurationError, DeadlineExceeded
from ...domain.types import EmbeddingSpace, Store
from ...store.connection import DeadlineConnection, translated
from ...store.memories import note_actor
from ...store.schema import check_upgradable, has_foreign_tables
from ...store.sql import query
from ...store.vectors import STORES, record_space
from ..common import session_locks
from ..common.fetching import one
from ..common.hnsw import ROWS
from ..common.migrations import DROP_SCRIPT, MIGRATION_LOCK
from ..common.operators import operator, record_where_allowed
from ..common.upgrade_progress import SCHEMA, UpgradeProgress, under_way

_LOCK = 7310579463  # held through all steps, so that one upgrade runs at a time
_LOCK_WAIT = "10s"
_BATCH = 1000  # rows a transaction: takes a second or two, and little is repeated after an interruption
_query = partial(query, package=__package__)
# The other program's tables, each with a column that identifies it: the name alone could be anybody's.
THEIRS = {
    "memory_entries": "content",
    "conversations": "content",
    "memory_agents": "agent_identity",
    "memory_agent_edges": "parent_identity",
    "memory_maintenance_log": "operation",
    "v_agent_memory": "agent_identity",
}
_VECTOR = (
    "CASE WHEN vector_norm(o.embedding) = 0 THEN NULL WHEN abs(vector_norm(o.embedding) - 1) < 0.001 THEN o.embedding "
    "ELSE l2_normalize(o.embedding) END"
)


class _ForeignTable(NamedTuple):
    """One of the other program's two tables; `dims` is 0 without vectors."""

    store: Store
    rows: int
    vectors: int
    dims: int
    bytes: int
    writers: set[str]
    themes: set[tuple[str | None, str | None]]


@dataclass(frozen=True, slots=True)
class ForeignTables:
    """The other program's tables. `vectors` rows have a vector of `dims` floats; 0 if none has one, or lengths differ.

    `writers`: the roles that may write to the tables. `themes`: each with the session key it was made from, or None.
    """

    rows: dict[Store, int]
    vectors: int
    dims: int
    bytes: int
    writers: tuple[str, ...]
    themes: frozenset[tuple[str | None, str | None]]

    @classmethod
    def of(cls, tables: Sequence[_ForeignTable]) -> ForeignTables:
        """Return the sum of these tables."""
        sizes = {table.dims for table in tables}
        return cls(
            rows=dict.fromkeys(STORES, 0) | {table.store: table.rows for table in tables},
            vectors=sum(table.vectors for table in tables),
            dims=sizes.pop() if len(sizes) == 1 else 0,
            bytes=sum(table.bytes for table in tables),
            writers=tuple(sorted(set().union(*(table.writers for table in tables)))),
            themes=frozenset().union(*(table.themes for table in tables)),
        )


class OldRow(NamedTuple):
    """What decides where a row goes: its theme, the key the theme was made from, its session and the parent session."""

    theme: str | None
    key: str | None
    session: str | None = None
    parent: str | None = None


class RowDestination(NamedTuple):
    """The theme, text language and session that a row is stored under."""

    theme: str
    language: str
    session: str = ""
    parent: str | None = None


DestinationOf = Callable[[Store, OldRow], RowDestination]
Advance = Callable[[int], None]


def look(conn: DeadlineConnection) -> ForeignTables | None:
    """Return the other program's tables, wherever they are: in the place of ours, or moved aside by a running upgrade.

    None if there are none. Raises StrangeTables if tables of these names are not that program's either.
    """
    with translated():
        if (begun := under_way(conn)) is None and not has_foreign_tables(conn):
            return None
        schema = SCHEMA if begun else _home(conn)
        stores = {table: store for store, table in ROWS.items()}
        found = [row for row in _relations(conn, schema) if row.name in stores]
        for row in found:
            check_upgradable(row.name, row.columns)
        return ForeignTables.of([_examine(conn, schema, stores[row.name], row) for row in found])


def _examine(conn: DeadlineConnection, schema: str, store: Store, table: Any) -> _ForeignTable:
    counted = one(conn, _of_rows("count_old_rows", schema, store, vectors="embedding" in table.columns))
    return _ForeignTable(
        store,
        counted.rows,
        counted.vectors,
        table.dims or 0,
        table.bytes,
        writers={row.name for row in conn.execute(_query("old_writers"), {"table": f'"{schema}".{table.name}'})},
        themes={(row.theme, row.key) for row in conn.execute(_of_rows("old_themes", schema, store))},
    )


@contextmanager
def alone(conn: DeadlineConnection) -> Iterator[None]:
    """Hold the lock on upgrades of this database; whoever waited for it finds the upgrade done."""
    with translated():
        conn.execute("SELECT set_config('statement_timeout', '0', false)")
        session_locks.take(conn, _LOCK, "the upgrade of this database")
    try:
        yield
    finally:
        session_locks.release(conn, _LOCK)


def begin(conn: DeadlineConnection, *, dims: int, keeps_vectors: bool) -> None:
    """Move the other program's tables aside with their indexes, rights and sequences. Raises DeadlineExceeded."""
    with _step(conn):
        home = _home(conn)
        last: dict[str, Any] = {store: _last_id(conn, home, store) for store in STORES}
        try:
            conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
        except pg.DuplicateSchema as exc:
            raise ConfigurationError(
                f"there is a schema {SCHEMA} already, and no upgrade that it belongs to; rename it and run this again"
            ) from exc
        conn.execute(_query("begin_upgrade"))
        conn.execute(_query("note_upgrade"), last | {"home": home, "dims": dims, "keeps_vectors": keeps_vectors})
        for row in _relations(conn, home):
            if THEIRS[row.name] in row.columns:
                _move(conn, row, home, SCHEMA)


def make_ready(conn: DeadlineConnection, progress: UpgradeProgress, space: EmbeddingSpace | None) -> None:
    """Prepare our tables for the copy: ids continue after the old ones, and HNSW indexes are dropped.

    The indexes are built faster after the copy. `space` is that of the old vectors, if it is known.
    """
    if progress.opened_at is not None:
        return
    with _step(conn):
        conn.execute(_query("go_on_with_ids"), {"memories": progress.last_memory_id, "turns": progress.last_turn_id})
        conn.execute(_query("drop_hnsw_indexes"))
        if space is not None and progress.keeps_vectors:
            record_space(conn, space)


def copy_memories(conn: DeadlineConnection, destination_of: DestinationOf, advance: Advance) -> None:
    """Copy the remaining memories; after the last one agents may start."""
    columns = _columns_aside(conn, "memories")
    vectors = "embedding" in columns
    while (progress := _progress(conn)).opened_at is None:
        with _step(conn):
            rows = []
            if columns:
                values = {"done": progress.memories_done, "limit": _BATCH}
                rows = conn.execute(_filled_in("next_old_memories"), values).fetchall()
            if not rows:
                conn.execute("UPDATE hermes_upgrade SET opened_at = now()")
                continue
            note_actor(conn, operator("migrate"))
            places = [destination_of("memories", OldRow(row.theme, row.key)) for row in rows]
            statement = _filled_in("copy_old_memories", vectors=vectors and progress.keeps_vectors)
            done = one(conn, statement, _given(rows, places))
            counts = {"merged": done.given - done.added, "left_out": len(rows) - done.given}
            conn.execute(_query("note_old_memories"), counts | {"last": rows[-1].id})
        advance(len(rows))


def copy_turns(conn: DeadlineConnection, destination_of: DestinationOf, advance: Advance) -> None:
    """Copy the remaining turns, newest first, while agents work."""
    columns = _columns_aside(conn, "turns")
    vectors = "embedding" in columns
    following = _filled_in("next_old_turns", parents="parent_session_id" in columns)
    while (progress := _progress(conn)).finished_at is None:
        with _step(conn):
            rows = []
            if columns:
                values = {"left": progress.turns_left, "limit": _BATCH}
                rows = conn.execute(following, values).fetchall()
            if not rows:
                conn.execute("UPDATE hermes_upgrade SET finished_at = now()")
                counts = {"merged": progress.merged, "left_out": progress.left_out}
                record_where_allowed(conn, "upgrade", {"from": "hermes-memory-pgvector"}, counts)
                continue
            places = [destination_of("turns", OldRow(row.theme, row.key, row.session, row.parent)) for row in rows]
            statement = _filled_in("copy_old_turns", vectors=vectors and progress.keeps_vectors)
            given = _given(rows, places) | {
                "sessions": [place.session for place in places],
                "parents": [place.parent for place in places],
            }
            done = one(conn, statement, given)
            conn.execute(_query("note_old_turns"), {"last": rows[-1].id, "left_out": len(rows) - done.given})
        advance(len(rows))


def written_since(conn: DeadlineConnection) -> dict[str, int]:
    """Return the counts of what an undo would lose: newer rows, and changes and removals of older memories."""
    with translated():
        progress = _progress(conn)
        if progress.opened_at is None:
            return {"memories": 0, "turns": 0, "changes": 0}
        return dict(one(conn, _query("written_since_upgrade"))._asdict())


def undo(conn: DeadlineConnection, since: Mapping[str, int]) -> None:
    """Drop all tables and functions of ours and put the other program's back, as they were.

    Raises ConfigurationError if more was written than `since` says, or if objects of the operator depend on ours;
    DeadlineExceeded while the tables are in use.
    """
    progress = _progress(conn)
    with _step(conn):
        if progress.opened_at is not None:
            # The lock waits for running writes.
            conn.execute("LOCK TABLE memory_entries, conversations")
            if written_since(conn) != since:
                raise ConfigurationError(
                    "nothing was undone, for agents wrote meanwhile: stop them, then run this again"
                )
        conn.execute("SELECT set_config('hermes_pgvector.undo_upgrade', 'on', true)")
        conn.execute(DROP_SCRIPT.read_bytes())
        for row in _relations(conn, SCHEMA):
            _move(conn, row, SCHEMA, progress.home)
        conn.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(SCHEMA)))


def confirm(conn: DeadlineConnection) -> None:
    """Drop the other program's tables. Raises ConfigurationError if objects of the operator depend on them."""
    with _step(conn):
        there = sorted(_relations(conn, SCHEMA), key=lambda row: row.kind != "v")
        for row in there:
            kind = sql.SQL("VIEW" if row.kind == "v" else "TABLE")
            conn.execute(sql.SQL("DROP {} {}").format(kind, sql.Identifier(SCHEMA, row.name)))
        conn.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(SCHEMA)))
        conn.execute("DROP TABLE hermes_upgrade")


@contextmanager
def _step(conn: DeadlineConnection) -> Iterator[None]:
    """Run the block in one transaction, never beside a migration.

    Raises ConfigurationError and DeadlineExceeded, which say what to do.
    """
    try:
        with conn.transaction():
            conn.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            conn.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_WAIT,))
            yield
    except (pg.LockNotAvailable, pg.DeadlockDetected) as exc:
        raise DeadlineExceeded("the tables are in use: stop the agents, then run this again") from exc
    except pg.DependentObjectsStillExist as exc:
        raise ConfigurationError(
            f"{exc.diag.message_primary}: {exc.diag.message_detail}; drop what you made there, and run this again"
        ) from exc
    except pg.InsufficientPrivilege as exc:
        raise ConfigurationError(
            f"{exc.diag.message_primary}; the admin's DSN must name a superuser, or a role that owns the tables "
            "and may create schemas in the database"
        ) from exc
    except pg.RaiseException as exc:
        hint = exc.diag.message_hint
        raise ConfigurationError(f"{exc.diag.message_primary}" + (f"; {hint}" if hint else "")) from exc
    except psycopg.Error:
        with translated():
            raise


def _progress(conn: DeadlineConnection) -> UpgradeProgress:
    progress = under_way(conn)
    if progress is None:
        raise ConfigurationError("no upgrade is under way here, and none awaits confirmation")
    return progress


def _home(conn: DeadlineConnection) -> str:
    return str(one(conn, "SELECT current_schema() AS name").name)


def _relations(conn: DeadlineConnection, schema: str) -> list[Any]:
    return conn.execute(_query("old_relations"), {"schema": schema, "names": list(THEIRS)}).fetchall()


def _columns_aside(conn: DeadlineConnection, store: Store) -> set[str]:
    with translated():
        there = {row.name: set(row.columns) for row in _relations(conn, SCHEMA)}
    return there.get(ROWS[store], set())


def _last_id(conn: DeadlineConnection, schema: str, store: Store) -> int:
    if not any(row.name == ROWS[store] for row in _relations(conn, schema)):
        return 0
    return int(one(conn, _of_rows("last_old_id", schema, store)).last)


def _move(conn: DeadlineConnection, row: Any, source: str, target: str) -> None:
    statement = "ALTER {} {} SET SCHEMA {}"
    kind = sql.SQL("VIEW" if row.kind == "v" else "TABLE")
    conn.execute(sql.SQL(statement).format(kind, sql.Identifier(source, row.name), sql.Identifier(target)))


def _given(rows: Sequence[Any], places: Sequence[RowDestination]) -> dict[str, Any]:
    return {
        "ids": [row.id for row in rows],
        "themes": [place.theme for place in places],
        "languages": [place.language for place in places],
    }


def _filled_in(name: str, *, vectors: bool = False, parents: bool = False) -> sql.Composed:
    """Return the named statement, filled in with the optional columns that the old tables have."""
    return sql.SQL(_query(name).decode()).format(
        vector=sql.SQL(_VECTOR if vectors else "NULL::vector"),
        parent=sql.SQL("parent_session_id" if parents else "NULL::text"),
    )


def _of_rows(name: str, schema: str, store: Store, *, vectors: bool = False) -> sql.Composed:
    """Return the named statement, filled in for one of the old tables in `schema`."""
    return sql.SQL(_query(name).decode()).format(
        rows=sql.Identifier(schema, ROWS[store]),
        name=sql.Literal(f'"{schema}".{ROWS[store]}'),
        vectors=sql.SQL("count(embedding)" if vectors else "0"),
    )
