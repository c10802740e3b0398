"""Change of a database's embedding model while agents work, and embedding of rows that have no vector yet."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from ...capture.document_embedding import DocumentEmbedder, PendingRows
from ...domain.chunks import chunk_spans
from ...domain.errors import EmbedderError, EmbedderUnavailable
from ...domain.format import format_duration
from ...domain.gil import in_slices
from ...domain.types import EmbeddingSpace, Store
from ...embed.embedder import Embedder, space_of
from ...store.backend import WRITE_TIMEOUT_S, Backend
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ...store.vectors import STORES, Chunk, PendingRow, claim_by_theme, recorded_space
from ..common import new_vectors as store
from ..common.fetching import one
from ..common.progress import ProgressLine, describe

_query = partial(query, package=__package__)
_AT_ONCE = 64  # texts a request
_TIMEOUT_S = 120.0  # of one request: bulk work may take longer than an agent's request
_SAMPLE = 64  # rows that the plan embeds to measure the speed
_PAUSE_FIRST_S, _PAUSE_MAX_S = 1.0, 30.0  # before an unavailable endpoint is retried
_OTHERS_S = 0.5  # interval of checks whether another worker has finished its block
_WAITS_TOLD = 10  # after so many for the same rows it is said which worker has them
_TRIES = 3  # of the same rows, each after an outage: then they are what the endpoint calls one
_REFUSALS = 50  # consecutive rows: then the endpoint is at fault, not the rows
_HARMLESS = "a first text"
_never = threading.Event()


@dataclass(frozen=True)
class ReembedPlan:
    """The plan of a change of the model: old and new space, rows in total and done, and the measured speed."""

    current: EmbeddingSpace
    wanted: EmbeddingSpace
    total: int
    embedded: int
    rows_per_s: float
    under_way: bool

    @property
    def needed(self) -> bool:
        """Return False if the database already has vectors of this model."""
        as_it_is = self.current.query_prefix == self.wanted.query_prefix and self.current.comparable(self.wanted)
        return self.under_way or not as_it_is

    @property
    def left_s(self) -> float:
        """Return how long one worker takes for the remaining rows, without the indexes; 0 if that is unknown."""
        return (self.total - self.embedded) / self.rows_per_s if self.rows_per_s else 0.0

    def render(self, *, again: bool = False) -> str:
        """Return the plan as text; `again`: vectors of the same model are to be made anew."""
        now = f"{self.current.model or 'no model yet'}, {self.current.dims} dimensions"
        if not (self.needed or again):
            return f"nothing to do: the vectors are of {now}; --again makes every vector anew"
        lines = [
            f"from  {now}",
            f"to    {self.wanted.model}, {self.wanted.dims} dimensions",
            f"rows  {describe(self.embedded, self.total, 0)} have their new vector" if self.total else "rows  none yet",
        ]
        if self.rows_per_s and self.total > self.embedded:
            lines.append(
                f"time  about {format_duration(self.left_s)} at {self.rows_per_s:,.0f} rows/s, measured on "
                f"{min(_SAMPLE, self.total):,} rows; then the indexes"
            )
        return "\n".join(lines)


def plan(conn: DeadlineConnection, embedder: Embedder, chunk_tokens: int) -> ReembedPlan:
    """Return the plan, with the speed measured on a sample; nothing is changed.

    Raises EmbedderError, and ConfigurationError if a change to another model is in progress.
    """
    wanted = space_of(embedder)
    under_way = store.running_to(conn, wanted)
    total = store.count(conn)
    done = store.progress(conn).done if under_way is not None else 0
    sample = store.sample(conn, _SAMPLE)
    embedder.embed_documents([_HARMLESS], timeout_s=_TIMEOUT_S)
    began = time.monotonic()
    try:
        _embed(embedder, sample, chunk_tokens)
    except EmbedderError:
        sample = []  # the endpoint answers but rejects one of these texts: the speed stays unknown for the plan
    rows_per_s = len(sample) / max(time.monotonic() - began, 1e-6)
    return ReembedPlan(recorded_space(conn), wanted, total, done, rows_per_s, under_way is not None)


class Reembedding:
    """One worker of a change of the model. Several may work on one database, from several hosts.

    If it is killed, another run resumes from what it has done.
    """

    def __init__(
        self,
        conn: DeadlineConnection,
        embedder: Embedder,
        *,
        chunk_tokens: int,
        rows_per_s: float = 0.0,
        again: bool = False,
    ) -> None:
        self._conn = conn
        self._again = again
        self._embedder = embedder
        self._chunk_tokens = chunk_tokens
        self._slowest_s = 1.0 / rows_per_s if rows_per_s else 0.0
        self._space = space_of(embedder)
        self._refused: set[tuple[str, int]] = set()
        self._refused_in_a_row = 0
        self._waits: Counter[tuple[Store, int]] = Counter()  # for other workers, by store and the end of their block
        self._line = ProgressLine("embedded anew", 0)
        self.begun = False  # the database has room for the new vectors
        self.switched = False  # this worker has put the new vectors in the place of the old ones

    def run(self) -> int:
        """Embed every row with the new model, build the indexes and switch; return how many rows the endpoint rejected.

        Rejected rows stay without a vector and are found by words. Raises HermesPgvectorError.
        """
        store.begin(self._conn, self._space, again=self._again)
        self.begun = True
        with store.until_switched(self._conn, self._space):
            at_first = store.progress(self._conn) if self._under_way() else store.VectorProgress(0, 0)
            self._line = ProgressLine("embedded anew", at_first.total, done=at_first.done)
            try:
                self._pass()
                self._line.finish()
                store.build_indexes(self._conn, self._space, self._line.say)
                self._pass()
            finally:
                self._line.clear()
        if self._under_way():
            store.switch_soon(self._conn, self._space)
            self.switched = True
            store.vacuum(self._conn)
        store.require_switched(self._conn, self._space)
        return len(self._refused)

    def _under_way(self) -> bool:
        return store.running(self._conn) == self._space

    def _pass(self) -> None:
        """Embed all rows that exist at the start, except those the endpoint rejects.

        Rows that agents add meanwhile are left out: agents may write faster than this worker embeds.
        """
        last = {name: store.last_id(self._conn, name) for name in STORES}
        while self._under_way() and self._sweep(last):
            pass

    def _sweep(self, last: Mapping[Store, int]) -> bool:
        """Go through both tables once; return True if rows were embedded or other workers hold some."""
        busy = False
        for name in STORES:
            row_id = store.missing(self._conn, name, 0, last[name])
            while row_id is not None:
                with store.block_of(self._conn, name, row_id) as rows:
                    if rows is None:
                        busy = True
                        self._wait_for_others(name, row_id)
                    else:
                        todo = [row for row in rows if row.id <= last[name] and (name, row.id) not in self._refused]
                        busy |= bool(todo)
                        for slice_ in in_slices(todo, _AT_ONCE):
                            self._embed_rows(slice_)
                row_id = store.missing(self._conn, name, store.end_of_block(row_id), last[name])
        return busy

    def _wait_for_others(self, name: Store, row_id: int) -> None:
        """Wait a moment for the worker that has the block of a row, whose machine may be cut off."""
        block = name, store.end_of_block(row_id)
        self._waits[block] += 1
        if self._waits[block] == _WAITS_TOLD:
            self._line.say(f"waits for rows of another worker{store.worker_of_block(self._conn, name, row_id)}")
        _never.wait(_OTHERS_S)

    def _wait_while_away(self) -> bool:
        """Wait until the endpoint embeds a harmless text; return whether it was away, else rows are at fault.

        Some endpoints report a text that they cannot embed as an outage. Raises EmbedderError for any other answer.
        """
        pause_s = _PAUSE_FIRST_S
        while True:
            try:
                self._embedder.embed_documents([_HARMLESS], timeout_s=_TIMEOUT_S)
            except EmbedderUnavailable as exc:
                self._line.say(f"the endpoint is away, trying again: {exc}")
                _never.wait(pause_s)
                pause_s = min(pause_s * 2, _PAUSE_MAX_S)
            else:
                return pause_s > _PAUSE_FIRST_S

    def _leave_out(self, row: PendingRow, refusal: EmbedderError) -> None:
        """Note a row that stays without a vector. Raises EmbedderError after so many that the endpoint is at fault."""
        self._refused.add((row.store, row.id))
        self._refused_in_a_row += 1
        if self._refused_in_a_row >= _REFUSALS:
            raise EmbedderError(f"{_REFUSALS} rows one after the other were refused: {refusal}") from refusal
        self._line.say(f"row {row.id} of {row.store} stays without a vector: {refusal}")

    def _embed_rows(self, rows: Sequence[PendingRow]) -> None:
        began = time.monotonic()
        for tries in count(1):
            try:
                chunks = _embed(self._embedder, [row.text for row in rows], self._chunk_tokens)
                break
            except EmbedderError as exc:
                if self._wait_while_away() and isinstance(exc, EmbedderUnavailable) and tries < _TRIES:
                    continue
                if len(rows) > 1:
                    for row in rows:
                        self._embed_rows([row])
                    return
                self._leave_out(rows[0], exc)
                return
        self._refused_in_a_row = 0
        store.fill_next(self._conn, self._space, rows, chunks)
        self._line.advance(len(rows))
        if (spare_s := self._slowest_s * len(rows) - (time.monotonic() - began)) > 0:
            _never.wait(spare_s)


def backfill(
    backend: Backend, documents: DocumentEmbedder, *, rows_per_s: float = 0.0, cold: bool = False
) -> tuple[int, int]:
    """Embed the rows that have no vector yet, showing progress; return how many were embedded, and how many are left.

    `cold`: embed instead the turns of which `compact` kept only the signature; they must be `possible`.
    """
    pending = PendingRows(backend, documents, partial(_claim_cold, backend) if cold else None)
    line = ProgressLine("embedded", _waiting(backend, cold=cold))
    _fill(pending, line, rows_per_s)
    return line.done, _waiting(backend, cold=cold)


def _fill(pending: PendingRows, line: ProgressLine, rows_per_s: float) -> None:
    try:
        more = True
        while more:
            began = time.monotonic()
            filled, more = pending.fill()
            line.advance(filled)
            if more and rows_per_s and (spare_s := filled / rows_per_s - (time.monotonic() - began)) > 0:
                _never.wait(spare_s)
        line.finish()
    except KeyboardInterrupt:
        pending.give_back()
        raise


def _embed(embedder: Embedder, texts: Sequence[str], chunk_tokens: int) -> dict[str, list[Chunk]]:
    spans = {text: chunk_spans(text, chunk_tokens) for text in texts}
    parts = list(dict.fromkeys(text[first:end] for text in spans for first, end in spans[text]))
    vectors: dict[str, list[float]] = {}
    for some in in_slices(parts, _AT_ONCE):
        vectors |= zip(some, embedder.embed_documents(some, timeout_s=_TIMEOUT_S), strict=True)
    return {text: [Chunk(first, vectors[text[first:end]]) for first, end in spans[text]] for text in spans}


def _waiting(backend: Backend, *, cold: bool) -> int:
    """Return how many rows have no vector yet, or how many turns are `cold`."""
    if cold:
        with backend.connection(WRITE_TIMEOUT_S) as conn:
            return int(one(conn, _query("count_cold")).count)
    counts = backend.counts()
    return counts["pending_memories"] + counts["pending_turns"]


def _claim_cold(backend: Backend, limit: int, lease_s: float) -> list[PendingRow]:
    """Return cold turns, as `Backend.claim_pending` does rows that never had a vector."""
    themes, claim = _query("cold_themes_turns"), _query("claim_cold_turns")
    with backend.connection(WRITE_TIMEOUT_S) as conn:
        return claim_by_theme(conn, "turns", themes, claim, limit, lease_s)
