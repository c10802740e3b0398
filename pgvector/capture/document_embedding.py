"""Vectors for stored texts: made with the write if possible, otherwise later."""

from __future__ import annotations

import queue
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence

from ..domain.chunks import chunk_spans, estimate_tokens
from ..domain.errors import EmbedderError, HermesPgvectorError
from ..domain.lru import LruDict
from ..domain.measures import LastError, Latencies
from ..domain.text import digest
from ..embed.embedder import Embedder, space_of
from ..store.backend import Backend
from ..store.memories import Embeddings
from ..store.vectors import Chunk, PendingRow, ThemedText

# As 32-bit floats, which is what the database keeps, 1,024 vectors of 768 are 3 MB.
MAX_TEXTS = 1024


class RecentVectors:
    """Remembers a bounded number of vectors by the digest of their text. Used by one thread at a time."""

    def __init__(self, max_texts: int = MAX_TEXTS) -> None:
        self._vectors: LruDict[bytes, array[float]] = LruDict(max_texts)

    def get(self, text: str) -> list[float] | None:
        """Return the vector of `text`, a new list each time."""
        vector = self._vectors.use(digest(text))
        return None if vector is None else vector.tolist()

    def add(self, text: str, vector: list[float]) -> None:
        """Remember the vector of `text`, and forget the least recently used one if there are too many."""
        self._vectors[digest(text)] = array("f", vector)


_TIMEOUT_S = 30.0  # of one batch; the endpoint's own timeout and its breaker are shorter
_PARTS_A_CALL = 32  # chunks of long texts that one call embeds: writes wait meanwhile
# Below this, a second thread gains little, and hooks have to wait for two busy threads instead of one.
_SLOW_MS = 15

_Outcome = Embeddings | HermesPgvectorError


class DocumentEmbedder:
    """Embeds texts for the store; what cannot be embedded now is left for later. Used by the drain thread only."""

    def __init__(self, embedder: Embedder | None, backend: Backend, latencies: Latencies, *, chunk_tokens: int) -> None:
        self._embedder = embedder
        self._backend = backend
        self._latencies = latencies
        self._chunk_tokens = chunk_tokens
        self._ahead: tuple[tuple[ThemedText, ...], queue.SimpleQueue[_Outcome]] | None = None
        # Vectors that are on their way to the database cannot be found there yet.
        self._recent = RecentVectors()
        self._begun: tuple[str, list[Chunk]] = ("", [])  # a long text of which some chunks are done
        self._waited_ms = 0
        self.fails = False
        self.failures = 0
        self.reused = 0
        self.trouble = LastError()

    def is_there(self) -> bool:
        """Return False if there is no embedder, or its vectors do not belong in this database."""
        return self._embedder is not None and self._backend.comparable(space_of(self._embedder))

    def requests(self) -> int:
        """Return how many requests were sent so far, including those for questions."""
        return self._stat("embed_requests")

    def is_slow(self) -> bool:
        """Return whether the endpoint took so long for the last batch that `prepare` is worthwhile."""
        return self._waited_ms >= _SLOW_MS

    def _stat(self, name: str) -> int:
        return 0 if self._embedder is None else self._embedder.stats().get(name, 0)

    def embed(self, texts: Sequence[ThemedText]) -> Embeddings:
        """Return vectors by text, without texts that cannot be embedded now. Holds no database connection meanwhile.

        A text is not embedded again if its theme holds it with a vector, if this process embedded it recently, or if it
        was passed to `prepare`. Texts of several chunks are left out: `embed_chunks` is for their rows.
        Raises HermesPgvectorError when the database does not answer.
        """
        unique = self._short(texts)
        if not unique or not self.is_there():
            return {}
        vectors = self._from_ahead(unique)
        return self._vectors(unique) if vectors is None else vectors

    def embed_chunks(self, texts: Sequence[ThemedText]) -> dict[str, list[Chunk]]:
        """Return the chunks of each text with their vectors, without the texts that cannot be embedded now.

        Each call embeds a part of the long texts. One that is missing although nothing `fails` comes with a later call.
        """
        vectors = self.embed(texts)
        chunks = {text: [Chunk(0, vector)] for text, vector in vectors.items()}
        if any(text not in vectors for _, text in self._short(texts)):
            return chunks
        left = _PARTS_A_CALL
        for text in self._long(texts):
            if left <= 0 or not self.is_there():
                break
            done, whole = self._embed_long(text, left)
            if not done:
                break
            left -= done
            if whole:
                chunks[text] = whole
        return chunks

    def _embed_long(self, text: str, most: int) -> tuple[int, list[Chunk]]:
        """Embed at most `most` more chunks of a text; return how many, and all its chunks once they are complete."""
        begun = self._begun[1] if self._begun[0] == text else []
        spans = chunk_spans(text, self._chunk_tokens)
        some = spans[len(begun) : len(begun) + most]
        parts = self._embed(tuple(dict.fromkeys(text[first:end] for first, end in some)))
        if not parts:
            return 0, []
        begun = begun + [Chunk(first, parts[text[first:end]]) for first, end in some]
        complete = len(begun) == len(spans)
        self._begun = ("", []) if complete else (text, begun)
        return len(some), begun if complete else []

    def has_long(self, texts: Sequence[ThemedText]) -> bool:
        """Return whether `embed` leaves some of `texts` out."""
        return bool(self._long(texts))

    def _long(self, texts: Sequence[ThemedText]) -> list[str]:
        return list(dict.fromkeys(text for _, text in texts if self._is_long(text)))

    def _short(self, texts: Sequence[ThemedText]) -> tuple[ThemedText, ...]:
        return tuple(themed for themed in dict.fromkeys(texts) if not self._is_long(themed[1]))

    def _is_long(self, text: str) -> bool:
        # Most texts are short by their number of characters alone.
        return len(text) > self._chunk_tokens and estimate_tokens(text) > self._chunk_tokens

    def prepare(self, texts: Sequence[ThemedText]) -> None:
        """Embed the texts of the next `embed` call on a background thread, while Postgres applies the current batch."""
        unique = self._short(texts)
        if not unique or self._ahead is not None or self.fails or not self.is_there():
            return
        box: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self._ahead = (unique, box)

        def run() -> None:
            outcome: _Outcome = {}
            try:
                outcome = self._vectors(unique)
            except HermesPgvectorError as exc:
                outcome = exc
            finally:
                box.put(outcome)

        try:
            threading.Thread(target=run, name="hermes-pgvector-ahead", daemon=True).start()
        except RuntimeError:  # an interpreter that is ending starts no thread
            self._ahead = None

    def _from_ahead(self, unique: tuple[ThemedText, ...]) -> Embeddings | None:
        if self._ahead is None:
            return None
        (announced, box), self._ahead = self._ahead, None
        outcome = box.get()  # even if it was for other texts: one request at a time
        if announced != unique:
            return None
        if isinstance(outcome, HermesPgvectorError):
            raise outcome
        return outcome

    def _vectors(self, unique: tuple[ThemedText, ...]) -> Embeddings:
        known = self._known(unique)
        missing = tuple(dict.fromkeys(text for _, text in unique if text not in known))
        self.reused += len(known)
        return known | self._embed(missing) if missing else known

    def _known(self, unique: tuple[ThemedText, ...]) -> Embeddings:
        if self._embedder is None:
            return {}
        known = {text: vector for _, text in unique if (vector := self._recent.get(text)) is not None}
        return known | self._backend.known_vectors(
            space_of(self._embedder), [(theme, text) for theme, text in unique if text not in known]
        )

    def _embed(self, unique: tuple[str, ...]) -> Embeddings:
        embedder = self._embedder
        if embedder is None:
            return {}
        started, waited_ms = time.monotonic(), self._stat("embed_wait_ms")
        try:
            vectors = embedder.embed_documents(unique, timeout_s=_TIMEOUT_S)
        except EmbedderError as exc:
            self.fails = True
            self.failures += 1
            self.trouble.note(exc)
            return {}
        self._latencies.add("embed", time.monotonic() - started)
        self._waited_ms = self._stat("embed_wait_ms") - waited_ms
        self.fails = False
        self.trouble.over()
        if not self._backend.claim_space(space_of(embedder)):
            return {}
        made = dict(zip(unique, vectors, strict=True))
        for text, vector in made.items():
            self._recent.add(text, vector)
        return made


_MOST = 32  # rows of one request
_LEASE_S = 120.0  # how long a process may take to embed the rows it claimed before another one tries
# How long to leave a row alone that the endpoint refused when it was the only one, doubled with each refusal.
_PAUSE_FIRST_S, _PAUSE_MAX_S = 5.0, 600.0
_REMEMBERED = 10_000  # refused rows


class PendingRows:
    """Embeds rows that have no vector, sharing them with other processes. Used by the drain thread only.

    Trying rows one by one shows whether the endpoint or a row is at fault. A refused row goes to the back, so that it
    does not hold up others, and a dead endpoint is not probed with the same row forever. `claim` returns the rows to
    embed, as `Backend.claim_pending` does, if it is not these.
    """

    def __init__(
        self,
        backend: Backend,
        embedder: DocumentEmbedder,
        claim: Callable[[int, float], list[PendingRow]] | None = None,
    ) -> None:
        self._backend = backend
        self._embedder = embedder
        self._claim = claim or backend.claim_pending
        self._size = _MOST
        self._begun: list[PendingRow] = []  # claimed rows with long texts, which take several calls
        self._claimed: list[PendingRow] = []  # those that are being embedded
        self._refusals: Counter[tuple[str, int]] = Counter()

    def fill(self) -> tuple[int, bool]:
        """Embed some rows; return how many, and whether to go on at once. Raises HermesPgvectorError."""
        if not self._embedder.is_there():
            return 0, False
        self._claimed = self._begun or self._claim(self._size, _LEASE_S)
        self._begun = []
        done = self._fill(self._claimed) if self._claimed else (0, False)
        self._claimed = []
        return done

    def give_back(self) -> None:
        """Let others have the rows that are claimed, as by an interrupted `fill`. Raises HermesPgvectorError."""
        self._backend.postpone(self._claimed or self._begun, 0.0)
        self._claimed, self._begun = [], []

    def _fill(self, rows: Sequence[PendingRow]) -> tuple[int, bool]:
        asked_before = self._embedder.requests()
        chunks = self._embedder.embed_chunks([(row.theme, row.text) for row in rows])
        filled = [row for row in rows if row.text in chunks]
        if filled:
            self._backend.fill(filled, chunks)
        rest = [row for row in rows if row.text not in chunks]
        if rest:
            return len(filled), self._put_back(rest, asked=self._embedder.requests() > asked_before)
        self._size = min(2 * self._size, _MOST)
        return len(filled), True

    def _put_back(self, rest: list[PendingRow], *, asked: bool) -> bool:
        """Leave rows that got no vector for later; return True if there may be more to do at once."""
        if not self._embedder.fails and self._embedder.is_there():
            self._begun = rest
            self._backend.postpone(rest, _LEASE_S)  # renews our lease on them
            return True
        refused = asked and self._embedder.fails
        alone = refused and len(rest) == 1
        self._backend.postpone(rest, self._pause_s((rest[0].store, rest[0].id)) if alone else 0.0)
        self._size = 1
        return refused

    def _pause_s(self, row: tuple[str, int]) -> float:
        if len(self._refusals) >= _REMEMBERED:
            self._refusals.clear()
        self._refusals[row] += 1
        return float(min(_PAUSE_FIRST_S * 2.0 ** min(self._refusals[row] - 1, 30), _PAUSE_MAX_S))
