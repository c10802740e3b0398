"""The HNSW indexes: their state, dropping them, and building them while agents work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from typing import NamedTuple

from psycopg import sql

from ...domain.errors import ConfigurationError, HermesPgvectorError
from ...domain.types import Store
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.sql import query
from ...store.vectors import STORES
from . import session_locks
from .console import watched_by
from .fetching import one
from .holdings import counts
from .lock_notice import lock_waits_told

Tell = Callable[[str, int, int], None]  # index being built, blocks done, blocks in all

_LOCK_STEER = 731057949  # held by the one process that begins a change of the model, builds indexes or switches
_TELL_EVERY_S = 1.0
_NEIGHBOURS_BYTES = 750  # building an index with m = 16 takes 710 for a row beside its vector
ROWS: dict[Store, str] = {"memories": "memory_entries", "turns": "conversations"}
CHUNKS: dict[Store, str] = {"memories": "memory_chunks", "turns": "conversation_chunks"}
_INDEX_NAMES = {"sig": "theme_sig", "code": "theme_code"}


class HnswIndex(NamedTuple):
    """One HNSW index. `state` is valid, missing, unfinished or being built; `rows` is an estimate above 50,000.

    `theme` is the theme whose rows it holds; empty for an index of a whole table.
    `wants_bytes` is the maintenance_work_mem that a build in memory needs, `given_bytes` what the server allows.
    """

    store: Store
    name: str
    state: str
    rows: int
    index_bytes: int
    wants_bytes: int
    given_bytes: int
    theme: str = ""

    def is_to_build(self) -> bool:
        """Return True if the index is missing or incomplete and nobody is building it."""
        return self.state in ("missing", "unfinished")


def for_store(
    name: str, store: Store, *, dims: int = 0, index: str = "", column: str = "sig_next", package: str = ""
) -> sql.Composed:
    """Return a statement, of this folder or of `package`, with the names of `store`'s tables and indexes filled in."""
    rows, chunks = ROWS[store], CHUNKS[store]
    indexes = {
        f"{what}{kind}_index": sql.Identifier(f"{rows}_{_INDEX_NAMES.get(what, what)}{kind}_idx")
        for what in ("embedding", "sig", "code", "pending", "cold")
        for kind in ("", "_next")
    }
    return sql.SQL(query(name, package=package or str(__package__)).decode()).format(
        rows=sql.Identifier(rows),
        rows_name=sql.Literal(rows),
        chunks=sql.Identifier(chunks),
        chunks_name=sql.Literal(chunks),
        chunks_next=sql.Identifier(f"{chunks}_next"),
        chunks_next_name=sql.Literal(f"{chunks}_next"),
        chunks_next_key=sql.Identifier(f"{chunks}_next_pkey"),
        chunks_next_reference=sql.Identifier(f"{chunks}_next_row_id_fkey"),
        full_index=sql.Identifier(_full_name(store)),
        chunks_sig_index=sql.Identifier(f"{chunks}_theme_sig_idx"),
        chunks_sig_next_index=sql.Identifier(f"{chunks}_theme_sig_next_idx"),
        chunks_code_index=sql.Identifier(f"{chunks}_theme_code_idx"),
        chunks_code_next_index=sql.Identifier(f"{chunks}_theme_code_next_idx"),
        dims=sql.Literal(dims),
        code_bits=sql.Literal(3 * dims),
        index=sql.Identifier(index or "none"),
        column=sql.Identifier(column),
        # `compact` drops vectors, but only those of turns.
        always=sql.SQL("NOT NULL" if store == "memories" else ""),
        **indexes,
    )


def indexes(conn: DeadlineConnection) -> list[HnswIndex]:
    """Return each table's HNSW index: the one over whole vectors if it exists, otherwise the one over signatures."""
    found = []
    for store in STORES:
        full = index_of(conn, store, _full_name(store))
        found.append(index_of(conn, store, _name(store)) if full.state == "missing" else full)
    return found


def index_of(
    conn: DeadlineConnection, store: Store, name: str, *, theme: str = "", rows: int | None = None
) -> HnswIndex:
    """Return the state of the index of that name, which covers a theme of so many `rows` or the whole table."""
    with translated():
        names = {"table": ROWS[store], "index": name}
        row = one(conn, query("hnsw_index_state", package=__package__), names)
        # Not from the catalogue, which knows nothing of rows that were just loaded.
        rows = counts(conn)[0][store] if rows is None else rows
    bits = 3 * row.dims if theme else 32 * row.dims if name == _full_name(store) else row.dims
    wants = rows * (bits // 8 + _NEIGHBOURS_BYTES)
    return HnswIndex(store, name, row.state, rows, row.index_bytes, wants, row.given_bytes, theme)


def is_changing(conn: DeadlineConnection) -> bool:
    """Return True while a change of the model is in progress, when the tables have no HNSW index of the old vectors."""
    return conn.execute("SELECT to_regclass('hermes_reembed') IS NOT NULL").fetchone() == (True,)


def present(conn: DeadlineConnection) -> list[str]:
    """Return the names of the HNSW indexes that exist."""
    names = [name(store) for store in STORES for name in (_name, _full_name)]
    return list(one(conn, query("existing_indexes", package=__package__), {"names": names}).names)


def over_whole_vectors(names: Collection[str]) -> list[str]:
    """Return those of these HNSW indexes that are over whole vectors."""
    return [name for store in STORES if (name := _full_name(store)) in names]


def is_indexed(store: Store, names: Collection[str]) -> bool:
    """Return whether one of these HNSW indexes is of the store's table."""
    return not {_name(store), _full_name(store)}.isdisjoint(names)


def usual() -> list[str]:
    """Return the names of the HNSW indexes that a new database has."""
    return list(map(_name, STORES))


def drop(conn: DeadlineConnection) -> list[str]:
    """Drop the HNSW indexes while agents work; return the names of those that existed."""
    with translated(), one_at_a_time(conn):
        names = present(conn)
        for name in names:
            drop_index(conn, name)
    return names


def drop_former(conn: DeadlineConnection) -> None:
    """Drop the indexes over whole vectors made by versions before 1.1. Call under `one_at_a_time`."""
    for store in STORES:
        if _is_former(conn, _name(store)):
            drop_index(conn, _name(store))


def build(conn: DeadlineConnection, conninfo: str, tell: Tell, *, memory: str = "", full: bool = False) -> list[str]:
    """Build the HNSW indexes that are missing or incomplete, while agents work and however long it takes; return names.

    An index that somebody else is building is left to them. With `full`, indexes over whole vectors replace the others.

    `memory` is the maintenance_work_mem to use, as Postgres writes sizes; empty means the server's own. `conninfo`
    leads to the same database: the progress of a build can only be read on another connection. Raises
    ConfigurationError while the model is being changed.
    """
    with translated(), one_at_a_time(conn):
        make_ready(conn, memory)
        drop_former(conn)
        todo = to_build(conn, full=full)
        for index in todo:
            statement = "index_hnsw" if index.name == _name(index.store) else "index_hnsw_full"
            with told(conninfo, conn.info.backend_pid, index.name, tell):
                build_with(conn, index.name, for_store(statement, index.store, index=index.name, column="sig"))
            if index.name != _name(index.store):
                drop_index(conn, _name(index.store))
    return [index.name for index in todo]


def make_ready(conn: DeadlineConnection, memory: str) -> None:
    """Set the memory for builds. Raises ConfigurationError while the model is being changed."""
    if is_changing(conn):
        raise ConfigurationError("a change of the model is under way, and builds its own; see: hermes-pgvector doctor")
    if memory:
        conn.execute("SELECT set_config('maintenance_work_mem', %s, false)", (memory,))


def to_build(conn: DeadlineConnection, *, full: bool = False) -> list[HnswIndex]:
    """Return the indexes that `build` would build."""
    wanted = [index_of(conn, store, _full_name(store)) for store in STORES] if full else indexes(conn)
    former = [_name(store) for store in STORES if _is_former(conn, _name(store))]
    return [index for index in wanted if index.is_to_build() or index.name in former]


def restore(conn: DeadlineConnection, names: Collection[str]) -> None:
    """Rebuild those of these indexes that a change of the model has dropped. Call under `one_at_a_time`."""
    kinds = ((_name, "index_hnsw"), (_full_name, "index_hnsw_full"))
    for store, (name_of, statement) in product(STORES, kinds):
        if (name := name_of(store)) in names:
            build_with(conn, name, for_store(statement, store, index=name, column="sig"))


def build_with(
    conn: DeadlineConnection, index: str, statement: sql.Composed, say: Callable[[str], None] = lambda line: None
) -> bool:
    """Build `index` with `statement`; return False if it exists and is valid. Call under `one_at_a_time`."""
    state = conn.execute(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (f'"{index}"',)
    ).fetchone()
    if state == (True,):
        return False
    # A build has no time limit: one that was stopped would leave an invalid index behind.
    conn.execute(
        "SELECT set_config('statement_timeout', '0', false) AS work, set_config('lock_timeout', '0', false) AS lock"
    )
    if state is not None:  # left by a build that was killed
        conn.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.Identifier(index)))
    say(f"building {index}")
    conn.execute(statement)
    return True


@contextmanager
def one_at_a_time(conn: DeadlineConnection) -> Iterator[None]:
    """Run the block in one process at a time; say which session this one, or a build in the block, waits for."""
    session_locks.take(conn, _LOCK_STEER, "the vectors of this database, or their indexes")
    try:
        with lock_waits_told(conn):
            yield
    finally:
        session_locks.release(conn, _LOCK_STEER)


@contextmanager
def told(conninfo: str, backend: int, index: str, tell: Tell) -> Iterator[None]:
    """Report the progress of the build that `backend` runs in the block."""

    def watch(ended: threading.Event) -> None:
        with suppress(HermesPgvectorError), connect(conninfo) as other, translated():
            while not ended.wait(_TELL_EVERY_S):
                row = other.execute(query("build_progress", package=__package__), {"backend": backend}).fetchone()
                if row is not None:
                    tell(index, row.done, row.total)

    tell(index, 0, 0)
    with watched_by(watch, "build"):
        yield


def drop_index(conn: DeadlineConnection, index: str) -> None:
    """Drop an index while agents work. Call under `one_at_a_time`."""
    conn.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(index)))


def _is_former(conn: DeadlineConnection, index: str) -> bool:
    return conn.execute(query("is_former_index", package=__package__), {"index": index}).fetchone() == (True,)


def _name(store: Store) -> str:
    return f"{ROWS[store]}_embedding_idx"


def _full_name(store: Store) -> str:
    return f"{ROWS[store]}_embedding_full_idx"
