"""The HNSW indexes: how they stand, without them for a while, and built while agents go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import psycopg
from psycopg import sql

from ...domain.errors import ConfigurationError, HermesPgvectorError
from ...domain.types import Store
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.sql import query
from ...store.vectors import STORES
from .fetching import one

Tell = Callable[[str, int, int], None]  # what is built, and how much of the table is in it, of how much

_LOCK_STEER = 731057949  # one process at a time begins a change of the model, builds indexes or switches
_STEER_POLL_S = 0.2
_TELL_EVERY_S = 1.0
_NEIGHBOURS_BYTES = 750  # 710 are what a row takes beside its vector while an index with m = 16 is built
ROWS: dict[Store, str] = {"memories": "memory_entries", "turns": "conversations"}
CHUNKS: dict[Store, str] = {"memories": "memory_chunks", "turns": "conversation_chunks"}
_INDEX_NAMES = {"sig": "theme_sig", "code": "theme_code"}
_never = threading.Event()


class HnswIndex(NamedTuple):
    """One HNSW index. `state` is whole, missing, unfinished or being built; `rows` are estimated.

    `theme` is the one whose rows it holds, empty for that of a whole table.
    `wants_bytes` is the maintenance_work_mem in which it is built in one go, `given_bytes` what the server gives.
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
        """Return True when it is not there, or not whole, and nobody is building it."""
        return self.state in ("missing", "unfinished")


def for_store(
    name: str, store: Store, *, dims: int = 0, index: str = "", column: str = "sig_next", package: str = ""
) -> sql.Composed:
    """Return a statement, of this folder or of `package`, with the names of the tables and indexes of `store` in it."""
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
        # `compact` drops vectors of turns only.
        always=sql.SQL("NOT NULL" if store == "memories" else ""),
        **indexes,
    )


def indexes(conn: DeadlineConnection) -> list[HnswIndex]:
    """Return how the HNSW indexes stand: of each table that of whole vectors where there is one, else of signatures."""
    found = []
    for store in STORES:
        full = index_of(conn, store, _full_name(store))
        found.append(index_of(conn, store, _name(store)) if full.state == "missing" else full)
    return found


def index_of(
    conn: DeadlineConnection, store: Store, name: str, *, theme: str = "", rows: int | None = None
) -> HnswIndex:
    """Return how the index of that name stands, of a theme of so many `rows` or of the whole table."""
    with translated():
        names = {"table": ROWS[store], "index": name}
        row = one(conn, query("hnsw_index_state", package=__package__), names)
    rows = int(row.rows) if rows is None else rows
    bits = 3 * row.dims if theme else 32 * row.dims if name == _full_name(store) else row.dims
    wants = rows * (bits // 8 + _NEIGHBOURS_BYTES)
    return HnswIndex(store, name, row.state, rows, row.index_bytes, wants, row.given_bytes, theme)


def is_changing(conn: DeadlineConnection) -> bool:
    """Return True while a change of the model is under way, when the tables have no HNSW index of the old vectors."""
    return conn.execute("SELECT to_regclass('hermes_reembed') IS NOT NULL").fetchone() == (True,)


def drop(conn: DeadlineConnection) -> list[str]:
    """Drop the HNSW indexes while agents go on; the names of those that were there."""
    dropped = []
    with translated(), one_at_a_time(conn):
        for index in (index_of(conn, store, name(store)) for store in STORES for name in (_name, _full_name)):
            if index.state != "missing":
                drop_index(conn, index.name)
                dropped.append(index.name)
    return dropped


def drop_former(conn: DeadlineConnection) -> None:
    """Drop the indexes of whole vectors that versions before 1.1 made, under `one_at_a_time`."""
    for store in STORES:
        if _is_former(conn, _name(store)):
            drop_index(conn, _name(store))


def build(conn: DeadlineConnection, conninfo: str, tell: Tell, *, memory: str = "", full: bool = False) -> list[str]:
    """Build the HNSW indexes that are not whole while agents go on, however long it takes; their names.

    One that somebody else is building is left to them. With `full` those of whole vectors take the place of the others.

    `memory` is the maintenance_work_mem for it, as Postgres writes sizes; empty is the server's own. `conninfo` leads
    to the same database: how far a build is can only be asked on another connection. Raises ConfigurationError while
    the model is being changed.
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
    """Give builds their memory. Raises ConfigurationError while the model is being changed."""
    if is_changing(conn):
        raise ConfigurationError("a change of the model is under way, and builds its own; see: hermes-pgvector doctor")
    if memory:
        conn.execute("SELECT set_config('maintenance_work_mem', %s, false)", (memory,))


def to_build(conn: DeadlineConnection, *, full: bool = False) -> list[HnswIndex]:
    """Return what `build` builds."""
    wanted = [index_of(conn, store, _full_name(store)) for store in STORES] if full else indexes(conn)
    former = [_name(store) for store in STORES if _is_former(conn, _name(store))]
    return [index for index in wanted if index.is_to_build() or index.name in former]


def restore(conn: DeadlineConnection) -> None:
    """Build those that a change of the model has dropped, under `one_at_a_time`."""
    for store in STORES:
        build_with(conn, _name(store), for_store("index_hnsw", store, index=_name(store), column="sig"))


def build_with(
    conn: DeadlineConnection, index: str, statement: sql.Composed, say: Callable[[str], None] = lambda line: None
) -> bool:
    """Build `index` by `statement` where it is not there and whole; False where it is. Under `one_at_a_time`."""
    state = conn.execute(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (f'"{index}"',)
    ).fetchone()
    if state == (True,):
        return False
    # It takes as long as it takes, and what a time limit stopped would be there, but invalid.
    conn.execute(
        "SELECT set_config('statement_timeout', '0', false) AS work, set_config('lock_timeout', '0', false) AS lock"
    )
    if state is not None:  # what a build that was killed has left
        conn.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.Identifier(index)))
    say(f"building {index}")
    conn.execute(statement)
    return True


@contextmanager
def one_at_a_time(conn: DeadlineConnection) -> Iterator[None]:
    """Yield one process at a time; the others wait."""
    # By asking again: a concurrent build of an index waits for every statement that runs, a waiting one among them.
    while conn.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK_STEER,)).fetchone() != (True,):
        _never.wait(_STEER_POLL_S)
    try:
        yield
    finally:
        if not conn.closed and conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            conn.execute("SELECT pg_advisory_unlock(%s)", (_LOCK_STEER,))


@contextmanager
def told(conninfo: str, backend: int, index: str, tell: Tell) -> Iterator[None]:
    """Tell how far the build that `backend` does in the block is."""
    ended = threading.Event()

    def watch() -> None:
        with suppress(HermesPgvectorError), connect(conninfo) as other, translated():
            while not ended.wait(_TELL_EVERY_S):
                row = other.execute(query("build_progress", package=__package__), {"backend": backend}).fetchone()
                if row is not None:
                    tell(index, row.done, row.total)

    tell(index, 0, 0)
    watcher = threading.Thread(target=watch, name="hermes-pgvector-build", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def drop_index(conn: DeadlineConnection, index: str) -> None:
    """Drop an index while agents go on, under `one_at_a_time`."""
    conn.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(index)))


def _is_former(conn: DeadlineConnection, index: str) -> bool:
    return conn.execute(query("is_former_index", package=__package__), {"index": index}).fetchone() == (True,)


def _name(store: Store) -> str:
    return f"{ROWS[store]}_embedding_idx"


def _full_name(store: Store) -> str:
    return f"{ROWS[store]}_embedding_full_idx"
