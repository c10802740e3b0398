"""Postgres as the rest of the package sees it: coming up in the background, up, or down for a known reason."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ..domain.commandline import typed
from ..domain.errors import (
    DimensionMismatch,
    HermesPgvectorError,
    OperationRejected,
    SpaceChanged,
    StoreMisconfigured,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
)
from ..domain.operations import MalformedWrite, Operation
from ..domain.theme import Languages
from ..domain.types import EmbeddingSpace, same_model
from .applying import apply_ahead, apply_operations, claim, cut_at_long_files, lacking, seen
from .connection import DeadlineConnection, answering, translated, writable
from .memories import Embeddings, StoreWriter
from .pipeline import Pipeline
from .pool import Pool, connect, follow_path, pool_for
from .read_routing import ReadSource, Replica
from .replica import identity_of
from .schema import ensure_schema
from .sql import query
from .vectors import (
    Chunk,
    PendingRow,
    ThemedText,
    claim_pending,
    fill,
    hold_space,
    known_vectors,
    postpone,
    record_space,
    recorded_space,
)

logger = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 30.0
NO_ANSWER_YET = "Postgres has not answered yet; try again in a moment"


class Backend:
    """The store of one process. `locate` returns the conninfo, and starts the embedded server where one is used.

    `read_conninfo` leads to a replica that answers questions and may lag by `read_max_lag_s`; empty means none.
    """

    stand_in: Backend | None = None
    server = ""  # identifies the server, this run of it, and its tables
    database = ""  # identifies the database; set once it was reached

    def __init__(
        self,
        locate: Callable[[], str],
        *,
        dims: int,
        pool_max_size: int,
        languages: Languages | None = None,
        pooler: str = "auto",
        history_texts: bool = True,
        read_conninfo: str = "",
        read_max_lag_s: float = 10.0,
    ) -> None:
        self._locate = locate
        self._dims = dims
        self._pool_max_size = pool_max_size
        self._pooler = pooler
        self.languages = languages or Languages()
        self._history_texts = history_texts
        self._pool: Pool | None = None
        self._up = threading.Event()
        self._settled = threading.Event()  # up, or down for a known reason
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._closed = False
        self._incarnation = ""  # of the server, part of `server`
        self._dims_fit = True
        self._space: EmbeddingSpace | None = None  # of the database, as last seen
        self._own: EmbeddingSpace | None = None  # of the vectors that this process makes
        self._warned_models: set[str] = set()
        self.problem: HermesPgvectorError | None = None
        self.on_down: Callable[[], None] = lambda: None  # called for each lost connection
        self.on_outage: Callable[[HermesPgvectorError], None] = lambda reason: None  # called once per outage
        self.on_return: Callable[[], None] = lambda: None  # called after an outage
        self.on_other_server: Callable[[], None] = lambda: None  # called when `server` has changed
        self.replica: Replica | None = None
        if read_conninfo:
            self.replica = Replica(
                read_conninfo, self, max_lag_s=read_max_lag_s, pool_max_size=pool_max_size, pooler=pooler
            )

    def bring_up(self) -> None:
        """Connect, verify the schema and open the pool; do nothing if already up. Raises HermesPgvectorError.

        Do it again even while up if the pool is stale, for instance because the tables were recreated.
        """
        with self._lock:
            if self._closed or (self._up.is_set() and not (self._pool is not None and self._pool.stale)):
                return
            try:
                pool = self._connected()
            except HermesPgvectorError as exc:
                self._report_down(exc)
                raise
            old, self._pool = self._pool, pool
            if old is not None:
                old.close()
            if self.problem is not None:
                self.on_return()
            self.problem = None
            self._up.set()
            self._settled.set()
            if self.replica is not None:
                self.replica.start()

    def _connected(self) -> Pool:
        """Return a pool of connections to a verified server: one that accepts writes, else one that answers."""
        conninfo = self._locate()
        try:
            return self._pool_of(writable(conninfo))
        except StoreReadOnly:
            return self._pool_of(answering(conninfo))

    def _pool_of(self, conninfo: str) -> Pool:
        with translated(), connect(conninfo, as_is=True) as conn, conn.transaction():
            conn.deadline = time.monotonic() + WRITE_TIMEOUT_S
            follow_path(conn)
            self._verify(conn)
            self._space = recorded_space(conn)
            self._note_server(conn)
            pool = pool_for(conn, conninfo, max_size=self._pool_max_size, pooler=self._pooler)
        pool.open()
        return pool

    def _verify(self, conn: DeadlineConnection) -> None:
        """Verify the tables. Raises SchemaNotApplied; if their vectors have another size, recall is lexical only."""
        try:
            ensure_schema(conn, dims=self._dims)
            self._dims_fit = True
        except DimensionMismatch as exc:
            if self._dims_fit:
                logger.warning("hermes-pgvector: recall is lexical only: %s", exc)
            self._dims_fit = False

    def is_up(self) -> bool:
        """Return True while Postgres answers."""
        return self._up.is_set()

    @contextmanager
    def connection(self, timeout_s: float) -> Iterator[DeadlineConnection]:
        """Yield a transaction that ends within `timeout_s`. Raises StoreUnavailable or DeadlineExceeded."""
        with self._up_within(timeout_s) as (pool, left_s), pool.connection(left_s) as conn:
            yield conn

    @contextmanager
    def reading(self, timeout_s: float, pipe: Pipeline) -> Iterator[DeadlineConnection]:
        """Lend `pipe` a connection for `timeout_s` and send its waiting statements; raises as `connection` does."""
        with self._up_within(timeout_s) as (pool, left_s), pool.reading(left_s, pipe) as conn:
            yield conn

    @contextmanager
    def _up_within(self, timeout_s: float) -> Iterator[tuple[Pool, float]]:
        """Yield the pool once it is up, and the rest of `timeout_s`; report an outage if one made the block fail."""
        started = time.monotonic()
        if not self._up.is_set():
            # Only the very first bring-up is worth waiting for; an outage with a known reason is reported at once.
            self._settled.wait(timeout_s)
        pool = self._pool
        if not self._up.is_set() or pool is None:
            raise StoreUnavailable(str(self.problem or NO_ANSWER_YET))
        try:
            yield pool, max(0.01, timeout_s - (time.monotonic() - started))
        except HermesPgvectorError as exc:
            if pool.lost and pool is self._pool:
                self._report_down(exc)
            if pool.lost or pool.stale:
                self.on_down()
            raise

    def sources(self, theme: str | None) -> Iterator[ReadSource]:
        """Yield the servers to query for a theme (None: for all), each one after the previous one has failed.

        The replica comes first while it is fit for the theme, then this server.
        """
        if self.replica is None:
            yield self
        else:
            yield from self.replica.sources(theme)

    def wrote(self, themes: Iterable[str]) -> None:
        """Note that a transaction wrote to these themes: from now on reads must find what it wrote."""
        if self.replica is not None:
            self.replica.wrote(set(themes))

    def _report_down(self, exc: HermesPgvectorError) -> None:
        with self._telling:  # several connections may break at once
            before, self.problem = self.problem, exc
        # A server that was down may turn out to lack the schema, which has to be reported as well.
        news = before is None or (isinstance(exc, StoreMisconfigured) and not isinstance(before, StoreMisconfigured))
        if news:
            self.on_outage(exc)
        self._up.clear()
        self._settled.set()

    # -- what the writer does ------------------------------------------------------------------------------------

    def apply(
        self, ops: Sequence[Operation], embeddings: Embeddings, timeout_s: float = WRITE_TIMEOUT_S, server: str = ""
    ) -> Counter[str]:
        """Apply operations, each at most once ever, in one or a few transactions; return counts of what happened.

        Raises StoreUnavailable or DeadlineExceeded (worth a retry), OperationRejected (not worth one), or StoreReplaced
        before anything is written to a server other than the one last noted, or than `server` if that is given.
        """
        if flawed := next((op for op in ops if isinstance(op, MalformedWrite)), None):
            raise OperationRejected(flawed.flaw)
        counts: Counter[str] = Counter()
        for some in cut_at_long_files(ops):
            more = True
            while more:
                with self.connection(timeout_s) as conn:
                    self._check_server(conn)
                    if server and server != self.server:
                        raise StoreReplaced
                    more = self._apply_part(conn, some, embeddings, counts)
            self.wrote(op.theme for op in some)
        return counts

    def _apply_part(
        self, conn: DeadlineConnection, ops: Sequence[Operation], embeddings: Embeddings, counts: Counter[str]
    ) -> bool:
        """Apply all operations, or a part of the long file that comes first; return whether more are left to apply."""
        if embeddings and not self._holds_own(conn):
            embeddings = {}
        write = StoreWriter(conn, embeddings, self.languages, counts, self._history_texts)
        if apply_ahead(write, ops):
            return True
        fresh = claim(conn, ops)
        apply_operations(write, fresh)
        counts["replayed"] += len({op.op_id for op in ops}) - len(fresh)
        return False

    def known_vectors(self, space: EmbeddingSpace, texts: Sequence[ThemedText]) -> Embeddings:
        """Return, by text, the vectors in `space` of those texts that a row of the same theme holds already."""
        if not texts or self._space is None or not space.comparable(self._space):
            return {}
        with self.connection(WRITE_TIMEOUT_S) as conn:
            found = known_vectors(conn, texts)
            # The model of the tables cannot change before the transaction ends, but may have changed before it began.
            return found if not found or space.comparable(recorded_space(conn)) else {}

    def claim_pending(self, limit: int, lease_s: float) -> list[PendingRow]:
        """Return rows without an embedding; no other process gets them for `lease_s`."""
        with self.connection(WRITE_TIMEOUT_S) as conn:
            return claim_pending(conn, limit, lease_s)

    def postpone(self, rows: Sequence[PendingRow], pause_s: float) -> None:
        """Keep rows that `claim_pending` returned, and that were not embedded, from being claimed for `pause_s`."""
        with self.connection(WRITE_TIMEOUT_S) as conn:
            postpone(conn, rows, pause_s)

    def fill(self, rows: Sequence[PendingRow], chunks: Mapping[str, Sequence[Chunk]]) -> None:
        """Store the embeddings, given by text, of rows that `claim_pending` returned."""
        with self.connection(WRITE_TIMEOUT_S) as conn:
            if self._holds_own(conn):
                fill(conn, rows, chunks)

    # -- whose vectors these are ---------------------------------------------------------------------------------

    def comparable(self, space: EmbeddingSpace) -> bool:
        """Return False if the database holds vectors of another model, which cannot be compared; warn once a model.

        `space` is that of the vectors that this process makes.
        """
        recorded, self._own = self._space, space
        if recorded is None or not recorded.model or recorded.comparable(space):
            return self._dims_fit
        # Of another length, the settings have been told already.
        if space.model not in self._warned_models and (self._dims_fit or not same_model(recorded.model, space.model)):
            self._warned_models.add(space.model)
            logger.warning(
                "hermes-pgvector: the database holds vectors of the model %s, this process uses %s: recall is lexical "
                "only; restart it if the settings name the first by now, else set that, or change the vectors: %s",
                *_told_apart(recorded, space),
                typed("hermes-pgvector reembed --yes"),
            )
        return False

    def claim_space(self, space: EmbeddingSpace) -> bool:
        """Record `space` as that of this database if none is recorded; return False if a different one is."""
        if self._space is None or not self._space.model:
            with self.connection(WRITE_TIMEOUT_S) as conn:
                self._note_space(record_space(conn, space))
        return self.comparable(space)

    def check_space(self, found: EmbeddingSpace, space: EmbeddingSpace) -> None:
        """Raise SpaceChanged unless `found`, the space that a search's transaction read, is that of our vectors."""
        self._note_space(found)
        if not self.comparable(space):
            raise SpaceChanged

    def refresh_space(self) -> None:
        """Check whether the model of the database, or the server, has changed."""
        with self.connection(WRITE_TIMEOUT_S) as conn:
            self._refresh(conn)

    def _refresh(self, conn: DeadlineConnection) -> None:
        self._note_space(recorded_space(conn))
        self._note_server(conn)

    def _note_server(self, conn: DeadlineConnection) -> None:
        identity = identity_of(conn)
        with translated():
            row = conn.execute(query("incarnation")).fetchone()
        incarnation = row.incarnation if row else ""
        # `_incarnation` is set last: a concurrent transaction that finds it finds `server` as well, and compares both.
        before = self.server
        self.database, self.server = str(identity), f"{identity}/{incarnation}"
        self._incarnation = incarnation
        if before not in ("", self.server):
            self.on_other_server()

    def _check_server(self, conn: DeadlineConnection) -> None:
        """Raise StoreReplaced, once, if another server answers or its tables were recreated.

        Raises SchemaNotApplied if it has no tables.
        """
        if conn.incarnation != self._incarnation:
            self._refresh(conn)
            raise StoreReplaced

    def lacking(self, ops: Sequence[Operation]) -> set[uuid.UUID]:
        """Return the ids of those operations that were never applied, as far as this role can see.

        Raises StoreReplaced.
        """
        with self.connection(WRITE_TIMEOUT_S) as conn:
            self._check_server(conn)
            return lacking(conn, seen(conn, ops))

    def _note_space(self, space: EmbeddingSpace) -> None:
        self._space = space
        self._dims_fit = space.dims == self._dims

    def _holds_own(self, conn: DeadlineConnection) -> bool:
        """Return whether vectors that this process makes belong in the database until the transaction ends."""
        space = hold_space(conn)
        self._note_space(space)
        return self._own is not None and space.comparable(self._own)

    def counts(self) -> dict[str, int]:
        """Return how many rows there are in all, and how many still have no embedding."""
        with self.connection(WRITE_TIMEOUT_S) as conn:
            row = conn.execute(query("count_all")).fetchone()
        return {} if row is None else dict(row._asdict())

    def pool_stats(self) -> dict[str, int]:
        """Return the counters of the connection pool, empty while there is none."""
        return {} if self._pool is None else self._pool.stats()

    def close(self) -> None:
        """Close the pool for good."""
        self._closed = True
        if self.replica is not None:
            self.replica.close()
        self._up.clear()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


def _told_apart(recorded: EmbeddingSpace, space: EmbeddingSpace) -> tuple[str, str]:
    """Return both models by their names and, if those are the same, by the prefixes of stored texts."""
    if not same_model(recorded.model, space.model):
        return repr(recorded.model), repr(space.model)
    return (
        f"{recorded.model!r} with the prefix {recorded.document_prefix!r}",
        f"it with {space.document_prefix!r}",
    )
