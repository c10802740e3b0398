"""Postgres as the rest of the package sees it: brought up in the background, in use, or down with a reason."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pgvector import Vector

from ..domain.errors import DimensionMismatch, HermesPgvectorError, OperationRejected, StoreUnavailable
from ..domain.models import Operation
from .connection import DeadlineConnection, translated
from .conversations import insert_turns
from .memories import MEMORY_KINDS, Embeddings, apply_memory, lock_theme
from .pool import Pool, connect
from .schema import ensure_schema
from .sql import query

logger = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 30.0


class Backend:
    """The store of one process. `locate` gives the conninfo, starting the embedded server where there is none."""

    def __init__(self, locate: Callable[[], str], *, dims: int, pool_max_size: int) -> None:
        self._locate = locate
        self._dims = dims
        self._pool_max_size = pool_max_size
        self._pool: Pool | None = None
        self._up = threading.Event()
        self._settled = threading.Event()  # up, or down for a known reason
        self._lock = threading.Lock()
        self._closed = False
        self._dims_fit = True
        self._model: str | None = None
        self._warned_models: set[str] = set()
        self.problem: HermesPgvectorError | None = None
        self.on_down: Callable[[], None] = lambda: None

    def bring_up(self, *, quietly: bool = False) -> None:
        """Connect, verify the schema and open the pool; does nothing when up. Raises HermesPgvectorError.

        A failure is logged, once an outage, unless `quietly`.
        """
        with self._lock:
            if self._up.is_set() or self._closed:
                return
            try:
                conninfo = self._locate()
                with translated(), connect(conninfo) as conn:
                    conn.deadline = time.monotonic() + WRITE_TIMEOUT_S
                    self._verify(conn)
                    self._model = _recorded_model(conn)
                pool = Pool(conninfo, max_size=self._pool_max_size)
                pool.open()
            except HermesPgvectorError as exc:
                self._report_down(exc, quietly=quietly)
                raise
            old, self._pool = self._pool, pool
            if old is not None:
                old.close()
            if self.problem is not None:
                logger.info("hermes-pgvector: Postgres is back; what was written meanwhile follows now")
            self.problem = None
            self._up.set()
            self._settled.set()

    def _verify(self, conn: DeadlineConnection) -> None:
        """Raises SchemaNotApplied; with vectors of another size recall goes on by words."""
        try:
            ensure_schema(conn, dims=self._dims)
            self._dims_fit = True
        except DimensionMismatch as exc:
            if self._dims_fit:
                logger.warning("hermes-pgvector: recall goes on by words only: %s", exc)
            self._dims_fit = False

    def is_up(self) -> bool:
        """True while Postgres answers."""
        return self._up.is_set()

    @contextmanager
    def connection(self, timeout_s: float) -> Iterator[DeadlineConnection]:
        """One transaction, done within `timeout_s`. Raises StoreUnavailable or DeadlineExceeded."""
        started = time.monotonic()
        if not self._up.is_set():
            # Only the very first bring-up is worth waiting for; an outage with a known reason is told at once.
            self._settled.wait(timeout_s)
        pool = self._pool
        if not self._up.is_set() or pool is None:
            raise StoreUnavailable(str(self.problem or "Postgres is still starting; try again in a moment"))
        try:
            with pool.connection(max(0.01, timeout_s - (time.monotonic() - started))) as conn:
                yield conn
        except HermesPgvectorError as exc:
            if pool.lost and pool is self._pool:
                self._report_down(exc)
                self.on_down()
            raise

    def _report_down(self, exc: HermesPgvectorError, *, quietly: bool = False) -> None:
        if self.problem is None and not quietly:
            logger.warning("hermes-pgvector: memory is out of reach, writes are kept on disk until it is back: %s", exc)
        self.problem = exc
        self._up.clear()
        self._settled.set()

    # -- what the writer does ------------------------------------------------------------------------------------

    def apply(self, ops: Sequence[Operation], embeddings: Embeddings) -> Counter[str]:
        """Apply operations in one transaction, each at most once ever; returns what happened, counted.

        Raises StoreUnavailable or DeadlineExceeded (worth another try) or OperationRejected (never will be).
        """
        counts: Counter[str] = Counter()
        if unknown := {op.kind for op in ops} - MEMORY_KINDS - {"turn"}:
            raise OperationRejected(f"nobody knows how to apply {', '.join(sorted(unknown))}")
        with self.connection(WRITE_TIMEOUT_S) as conn:
            ids = {"themes": [op.theme for op in ops], "op_ids": [op.op_id for op in ops]}
            fresh = {row.op_id for row in conn.execute(query("claim_operations"), ids)}
            counts["replayed"] = len({op.op_id for op in ops}) - len(fresh)
            todo = list({op.op_id: op for op in ops if op.op_id in fresh}.values())
            # In one order everywhere, so that two writers never wait for each other in a ring.
            for theme in sorted({op.theme for op in todo if op.kind in MEMORY_KINDS}):
                lock_theme(conn, theme)
            counts["turn_rows"] = insert_turns(conn, [op for op in todo if op.kind == "turn"], embeddings)
            with conn.pipeline():
                for op in todo:
                    if op.kind in MEMORY_KINDS:
                        apply_memory(conn, op, embeddings, counts)
        return counts

    def claim_pending(self, limit: int, lease_s: float) -> list[tuple[str, int, str]]:
        """Rows without an embedding: (fill statement, id, text) each. No other process gets them for `lease_s`."""
        claimed: list[tuple[str, int, str]] = []
        with self.connection(WRITE_TIMEOUT_S) as conn:
            for claim, fill in (("claim_pending_memories", "fill_memory"), ("claim_pending_turns", "fill_turn")):
                rows = conn.execute(query(claim), {"limit": limit - len(claimed), "lease_s": lease_s})
                claimed += [(fill, row.id, row.content) for row in rows]
        return claimed

    def postpone(self, rows: Sequence[tuple[str, int, str]], pause_s: float) -> None:
        """Leave rows that `claim_pending` gave, and that were not embedded, alone for `pause_s`."""
        with self.connection(WRITE_TIMEOUT_S) as conn:
            for fill, postpone in (("fill_memory", "postpone_memories"), ("fill_turn", "postpone_turns")):
                ids = [row_id for statement, row_id, _ in rows if statement == fill]
                if ids:
                    conn.execute(query(postpone), {"ids": ids, "pause_s": pause_s})

    def fill(self, rows: Sequence[tuple[str, int, str]], embeddings: Embeddings) -> None:
        """Store the embeddings of rows that `claim_pending` gave."""
        with self.connection(WRITE_TIMEOUT_S) as conn, conn.pipeline():
            for statement, row_id, content in rows:
                row = {"id": row_id, "content": content, "embedding": Vector(embeddings[content])}
                conn.execute(query(statement), row)

    def comparable(self, model: str) -> bool:
        """False when the database holds vectors of another model than `model`: the two would mean nothing together."""
        if not self._dims_fit:
            return False
        if self._model in (None, model):
            return True
        if model not in self._warned_models:
            self._warned_models.add(model)
            logger.warning(
                "hermes-pgvector: the database holds vectors of the model %r, `embed_model` is %r: recall goes on "
                "by words only; set embed_model back to %r",
                self._model,
                model,
                self._model,
            )
        return False

    def claim_model(self, model: str) -> bool:
        """Make `model` the one of this database unless another one is; False when another one is."""
        if self._model is None:
            with self.connection(WRITE_TIMEOUT_S) as conn:
                conn.execute(query("record_model"), {"model": model})
                self._model = _recorded_model(conn)
        return self.comparable(model)

    def forget_operations(self, days: int) -> None:
        """Drop the ids of operations applied more than `days` ago."""
        with self.connection(WRITE_TIMEOUT_S) as conn:
            conn.execute(query("forget_operations"), {"days": days})

    def forget_session(self, theme: str, session_id: str) -> None:
        """Delete the turns of one session of a theme."""
        with self.connection(WRITE_TIMEOUT_S) as conn:
            conn.execute(query("forget_session"), {"theme": theme, "session_id": session_id})

    def counts(self) -> dict[str, int]:
        """How many rows there are in all, and how many still have no embedding."""
        with self.connection(WRITE_TIMEOUT_S) as conn:
            row = conn.execute(query("count_all")).fetchone()
        return {} if row is None else dict(row._asdict())

    def pool_stats(self) -> dict[str, int]:
        """The counters of the connection pool, empty while there is none."""
        return {} if self._pool is None else self._pool.stats()

    def close(self) -> None:
        """Close the pool for good."""
        self._closed = True
        self._up.clear()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


def _recorded_model(conn: DeadlineConnection) -> str | None:
    row = conn.execute(query("read_model")).fetchone()
    return None if row is None else row.model
