"""The new vectors while the embedding model is changed, stored beside the old ones until all are there.

All of this is done by an administrator of the database: it adds columns, builds indexes, and in one short transaction
gives the new columns the names of the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pgvector.psycopg import register_vector
from psycopg import errors as pg

from ...config.settings import Settings
from ...domain.errors import ConfigurationError, DeadlineExceeded, HermesPgvectorError, SchemaNotApplied
from ...domain.types import EmbeddingSpace, Store
from ...embed.embedder import space_of
from ...embed.factory import embedder_for
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.sql import query
from ...store.vectors import STORES, Chunk, PendingRow, recorded_space, values_of
from . import session_locks
from .fetching import one
from .hnsw import (
    CHUNKS,
    ROWS,
    build_with,
    for_store,
    is_indexed,
    one_at_a_time,
    over_whole_vectors,
    present,
    restore,
    usual,
)
from .pooler import require_session
from .retrying import go_before_autovacuum, retry_while_busy
from .stopped import said_if_stopped

_query = partial(query, package=__package__)
_INDEXES = {
    "{rows}_theme_sig_next_idx": "index_theme_sig_next",
    "{rows}_theme_code_next_idx": "index_theme_code_next",
    "{rows}_pending_next_idx": "index_pending_next",
    "{chunks}_theme_sig_next_idx": "index_chunks_sig_next",
    "{chunks}_theme_code_next_idx": "index_chunks_code_next",
}
_HNSW_INDEX = {"{rows}_embedding_next_idx": "index_hnsw"}
_INDEXES_OF_TURNS = {"{rows}_cold_next_idx": "index_cold_next"}
_BLOCK = 512  # ids that one worker takes at a time
_LOCK_WORK = 731057948  # key of the lock by which one worker takes a block: (this, store and block)
_LOCK_SPACE = 731057947  # the lock of the statement hold_space, which writers of vectors share
# The longest that our waiting for the tables may hold others up. It is less than the agents' deadlock_timeout, so that
# in a deadlock it is this side that gives up.
_LOCK_WAIT_MS = 800


class VectorProgress(NamedTuple):
    """How many rows have their new vector, and how many rows there are."""

    done: int
    total: int


@contextmanager
def admin_connection(conninfo: str) -> Iterator[DeadlineConnection]:
    """Yield a connection in autocommit mode for changing vectors.

    Raises StoreUnavailable, and ConfigurationError behind a pooler in transaction mode or without an administrator's
    login.
    """
    with translated(), connect(conninfo, prepares=True) as conn:
        require_session(conn, conninfo)
        register_vector(conn)
        go_before_autovacuum(conn)
        try:
            yield conn
        except pg.InsufficientPrivilege as exc:
            raise ConfigurationError(
                f"{exc.diag.message_primary}; the admin's DSN must name a superuser, or the owner of the tables"
            ) from exc


def own_space(settings: Settings, home: Path) -> EmbeddingSpace | None:
    """Return the embedding space of the settings' model; None without a model, or if it cannot be used."""
    try:
        embedder = embedder_for(settings, "", home=home)
        if embedder is None:
            return None
        with closing(embedder):
            return space_of(embedder)
    except HermesPgvectorError:
        return None


def running(conn: DeadlineConnection) -> EmbeddingSpace | None:
    """Return the space that a change in progress moves to; None if no change is in progress."""
    if conn.execute("SELECT to_regclass('hermes_reembed')").fetchone() == (None,):
        return None
    row = conn.execute("SELECT model, dims, document_prefix, query_prefix FROM hermes_reembed").fetchone()
    return None if row is None else EmbeddingSpace(*row)


def hnsw_before(conn: DeadlineConnection) -> list[str]:
    """Return the names of the HNSW indexes of the old vectors; while a change is in progress, of those it dropped."""
    return present(conn) if running(conn) is None else _hnsw_dropped(conn)


def _hnsw_dropped(conn: DeadlineConnection) -> list[str]:
    """Return the names of the indexes that the change in progress dropped."""
    names = one(conn, _query("hnsw_before")).names
    return usual() if names is None else list(names)


def running_to(conn: DeadlineConnection, space: EmbeddingSpace) -> EmbeddingSpace | None:
    """Return `space` if a change to it is in progress, None if none is. Raises ConfigurationError for any other one."""
    under_way = running(conn)
    if under_way is not None and under_way != space:
        raise ConfigurationError(
            f"a change to {under_way.model} ({under_way.dims} dimensions) is under way; finish it by the command that "
            "began it, or give it up: hermes-pgvector reembed --abort --yes"
        )
    return under_way


@contextmanager
def until_switched(conn: DeadlineConnection, space: EmbeddingSpace) -> Iterator[None]:
    """Work on a change in the block; ignore errors that arise because another worker has completed it."""
    try:
        yield
    except (pg.UndefinedColumn, pg.UndefinedTable) as exc:
        if conn.closed or running(conn) == space:
            raise
        if recorded_space(conn) != space:
            raise _given_up(space) from exc
    except ConfigurationError:
        if conn.closed or running(conn) == space or recorded_space(conn) != space:
            raise


def begin(conn: DeadlineConnection, space: EmbeddingSpace, *, again: bool = False) -> None:
    """Add room for the new vectors, unless it is there; do nothing if the database already has `space`, unless `again`.

    Raises ConfigurationError if another change is in progress, or if objects of the operator depend on the old columns;
    DeadlineExceeded if the tables are in use all the time.
    """
    with one_at_a_time(conn):
        if conn.execute("SELECT to_regclass('hermes_embedding')").fetchone() == (None,):
            raise SchemaNotApplied(SchemaNotApplied.__doc__ or "")
        if running_to(conn, space) is not None:
            conn.execute(_query("define_keep_next"))  # an older version may have begun this change
            return
        if not again and recorded_space(conn) == space:
            return
        if hanging := [row.name for row in conn.execute(_query("dependents_of_vectors"))]:
            raise _in_the_way(", ".join(hanging))

        def make() -> None:
            conn.execute(_query("begin_reembed"))
            conn.execute(_query("note_reembed"), asdict(space) | {"hnsw": present(conn)})
            conn.execute(_query("define_keep_next"))
            for store in STORES:
                conn.execute(for_store("make_room_for_vectors", store, dims=space.dims))

        _insist(conn, make)


def last_id(conn: DeadlineConnection, store: Store) -> int:
    """Return the id of the newest row; 0 if there is none."""
    return int(one(conn, for_store("last_id_of", store)).id or 0)


def missing(conn: DeadlineConnection, store: Store, after_id: int, last: int) -> int | None:
    """Return the id of the first row after `after_id`, up to `last`, without a new vector; None if there is none."""
    row = conn.execute(for_store("row_without_next", store), {"after": after_id, "last": last}).fetchone()
    return None if row is None else int(row[0])


def count(conn: DeadlineConnection) -> int:
    """Return the number of all memories and turns."""
    row = one(conn, query("count_all"))
    return int(row.memories + row.turns)


def sample(conn: DeadlineConnection, limit: int) -> list[str]:
    """Return the texts of at most `limit` of the newest turns and memories."""
    return [row.content for row in conn.execute(_query("sample_texts"), {"limit": limit})]


def progress(conn: DeadlineConnection) -> VectorProgress:
    """Return how many rows have their new vector, and how many there are. Reads both tables in full."""
    done = total = 0
    for store in STORES:
        row = one(conn, for_store("count_next", store))
        done, total = done + row.done, total + row.total
    return VectorProgress(done, total)


@contextmanager
def block_of(conn: DeadlineConnection, store: Store, row_id: int) -> Iterator[list[PendingRow] | None]:
    """Yield the rows of the block around `row_id` that have no new vector; None if another worker has the block.

    The lock belongs to the database session, so it is released if the worker dies.
    """
    block = row_id // _BLOCK
    key = _key_of_block(store, row_id)
    if conn.execute("SELECT pg_try_advisory_lock(%s, %s)", key).fetchone() != (True,):
        yield None
        return
    try:
        bounds = {"first": block * _BLOCK, "end": (block + 1) * _BLOCK}
        rows = conn.execute(for_store("rows_without_next", store), bounds)
        yield [PendingRow(store, row.id, row.theme, row.content) for row in rows]
    finally:
        if not conn.closed:
            conn.execute("SELECT pg_advisory_unlock(%s, %s)", key)


def _key_of_block(store: Store, row_id: int) -> tuple[int, int]:
    return _LOCK_WORK, (STORES.index(store) << 30) | (row_id // _BLOCK & 0x3FFFFFFF)


def worker_of_block(conn: DeadlineConnection, store: Store, row_id: int) -> str:
    """Return which session has the block around `row_id`, and how to end that; "" if none has."""
    work, block = _key_of_block(store, row_id)
    return session_locks.by(conn, work << 32 | block)


def end_of_block(row_id: int) -> int:
    """Return the last id of the block that `row_id` is in."""
    return (row_id // _BLOCK + 1) * _BLOCK - 1


def fill_next(
    conn: DeadlineConnection, space: EmbeddingSpace, rows: Sequence[PendingRow], chunks: Mapping[str, Sequence[Chunk]]
) -> None:
    """Store new vectors; a row whose text has changed meanwhile is left for the next pass.

    Raises ConfigurationError if the change to `space` is no longer in progress, for example because another one is.
    """
    with conn.transaction():
        conn.execute(query("hold_space"))
        if running(conn) != space:
            raise _given_up(space)
        with conn.pipeline():
            _fill(conn, rows, chunks)


def _fill(conn: DeadlineConnection, rows: Sequence[PendingRow], chunks: Mapping[str, Sequence[Chunk]]) -> None:
    for row in rows:
        values = values_of(row, chunks[row.text])
        conn.execute(for_store("clear_next_chunks", row.store), values)
        conn.execute(for_store("fill_next", row.store), values)


def require_switched(conn: DeadlineConnection, space: EmbeddingSpace) -> None:
    """Raise ConfigurationError if the change to `space` ended without the switch."""
    if recorded_space(conn) != space:
        raise _given_up(space)


def build_indexes(conn: DeadlineConnection, space: EmbeddingSpace, say: Callable[[str], None]) -> None:
    """Build the indexes of the new vectors while others keep reading and writing; skip those that exist already.

    Like `switch`, does nothing if another worker has completed the change.
    """
    with one_at_a_time(conn):
        if running(conn) != space:
            return
        conn.execute(for_store("hide_next", "memories"))
        before = hnsw_before(conn)
        for store in STORES:
            hnsw = _HNSW_INDEX if is_indexed(store, before) else {}  # an operator may have dropped it to do without
            for name, statement in (_INDEXES | hnsw | (_INDEXES_OF_TURNS if store == "turns" else {})).items():
                index = name.format(rows=ROWS[store], chunks=CHUNKS[store])
                build_with(conn, index, for_store(statement, store, index=index), say)


def switch(conn: DeadlineConnection, space: EmbeddingSpace) -> None:
    """Replace the old vectors with the new ones, in one transaction of milliseconds.

    Raises DeadlineExceeded if readers did not release the tables in time: try again. Raises ConfigurationError if
    objects of the operator depend on the old columns, or if `space` names no model but the database has vectors by
    then.
    """
    with one_at_a_time(conn):
        if running(conn) != space:
            return
        try:
            with _alone(conn):
                if not space.model and not is_without_vectors(conn):
                    raise ConfigurationError("there are vectors by now; run hermes-pgvector reembed")
                conn.execute(for_store("hide_next", "memories"))
                for store in STORES:
                    conn.execute(for_store("switch_to_next", store))
                conn.execute(_query("record_switch"), asdict(space))
                conn.execute(_query("end_reembed"))
        except pg.DependentObjectsStillExist as exc:
            raise _in_the_way(exc.diag.message_detail or str(exc)) from exc


def switch_soon(conn: DeadlineConnection, space: EmbeddingSpace) -> None:
    """Repeat `switch` until the tables are free. Raises as that does, DeadlineExceeded only after many tries."""
    retry_while_busy(lambda: switch(conn, space), DeadlineExceeded)


def vacuum(conn: DeadlineConnection) -> None:
    """Vacuum after every row was rewritten; otherwise the covering indexes cannot answer without the tables."""
    conn.execute("VACUUM (ANALYZE) memory_entries, conversations, memory_chunks, conversation_chunks")


def abort(conn: DeadlineConnection) -> bool:
    """Drop the new vectors and keep the old ones; return False if no change was in progress."""
    with one_at_a_time(conn):
        if running(conn) is None:
            return False
        before = _hnsw_dropped(conn)

        def drop() -> None:
            for store in STORES:
                conn.execute(for_store("drop_next", store))
            conn.execute(_query("end_reembed"))

        again = "hermes-pgvector index build" + (" --full" if over_whole_vectors(before) else "")
        with said_if_stopped(f"once the new vectors are dropped, to have the HNSW indexes of before again: {again}"):
            _insist(conn, drop)
            restore(conn, before)
        return True


def is_without_vectors(conn: DeadlineConnection) -> bool:
    """Return whether no row has a vector, so that changing the vectors' length loses nothing."""
    return bool(one(conn, _query("no_vectors")).empty)


def _given_up(space: EmbeddingSpace) -> ConfigurationError:
    return ConfigurationError(
        f"the change to {space.model} was given up meanwhile, with its vectors; to begin it again, run this again"
    )


def _in_the_way(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"the old vectors cannot be dropped: they are used by {what}; drop that, and run this again"
    )


def _insist(conn: DeadlineConnection, action: Callable[[], None]) -> None:
    """Run `action` with exclusive access to the tables, once they are free for a moment. Raises DeadlineExceeded."""

    def alone() -> None:
        with _alone(conn):
            action()

    retry_while_busy(alone, DeadlineExceeded)


@contextmanager
def _alone(conn: DeadlineConnection) -> Iterator[None]:
    """Run the block in a transaction with exclusive access to the tables. Raises DeadlineExceeded."""
    try:
        with conn.transaction():
            conn.execute("SELECT set_config('lock_timeout', %s, true)", (str(_LOCK_WAIT_MS),))
            conn.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_SPACE,))
            conn.execute(_query("lock_stored_tables"))
            yield
    except (pg.LockNotAvailable, pg.DeadlockDetected) as exc:
        raise DeadlineExceeded("the tables were in use; try again") from exc
