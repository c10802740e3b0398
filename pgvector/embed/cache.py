"""The embedder of a process: caches the vectors of recent questions, and leaves a failing endpoint alone."""

from __future__ import annotations

import copy
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future

from ..domain.errors import EmbedderError, EmbedderUnavailable
from ..domain.lru import LruDict
from ..domain.text import digest
from .breaker import CircuitBreaker, EndpointBreaker
from .embedder import Counters, Embedder, Vector
from .instructions import Instructions

# 512 vectors of 768 doubles are 3 MB.
MAX_QUERIES = 512


class CachedEmbedder:
    """Caches the vectors of the last `max_queries` questions, and calls the inner embedder through a breaker.

    While the breaker is open, whatever is not cached raises EmbedderUnavailable at once. `name` stands for the endpoint
    in messages and logs and must hold no secret. `on_query` is called with the seconds that each uncached question
    took. Threads that ask the same new question at the same time share one call and its outcome.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        name: str,
        breaker: CircuitBreaker | None = None,
        max_queries: int = MAX_QUERIES,
    ) -> None:
        self.model = inner.model
        self.dims = inner.dims
        self._inner = inner
        self._breaker = EndpointBreaker(
            breaker or CircuitBreaker(),
            name=name,
            meanwhile="recall is lexical and new rows wait for their embedding",
            prefix="embed",
        )
        self._lock = threading.Lock()
        # By digest, since a question can be a pasted file of megabytes.
        self._vectors: LruDict[bytes, array[float]] = LruDict(max_queries)
        self._calls: dict[bytes, Future[array[float]]] = {}
        self._counters = Counters("embed_cache_hits", "embed_cache_misses")
        self.on_query: Callable[[float], None] = lambda seconds: None

    @property
    def instructions(self) -> Instructions:
        """Return the prefixes of documents and questions."""
        return self._inner.instructions

    def embed_documents(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """Return one vector a text. Raises EmbedderError."""
        return self._breaker.run(lambda: self._inner.embed_documents(texts, timeout_s=timeout_s))

    def embed_queries(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """Return the vectors of questions that no user asked; they are not cached. Raises EmbedderError."""
        return self._breaker.run(lambda: self._inner.embed_queries(texts, timeout_s=timeout_s))

    def rank_of_word(self, word: str) -> int | None:
        """Return how common a word is, None if the model does not tell."""
        return self._inner.rank_of_word(word)

    def known_query(self, text: str) -> Vector | None:
        """Return the cached vector of a recent question, a new list each time; None if it is not cached."""
        with self._lock:
            return self._known(digest(text))

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:
        """Return the vector of a question, a new list each time. Raises EmbedderError; errors are not cached."""
        key = digest(text)
        with self._lock:
            vector = self._known(key)
            if vector is not None:
                return vector
            call = self._calls.get(key)
            leads = call is None
            if call is None:
                call = self._calls[key] = Future()
            self._counters.add(embed_cache_misses=int(leads), embed_cache_hits=int(not leads))
        return self._lead(key, call, text, timeout_s) if leads else _answer_of(call, timeout_s)

    def stats(self) -> dict[str, int]:
        """Return the inner counters, the breaker's, and how many questions did and did not need a call."""
        return self._inner.stats() | self._breaker.stats() | self._counters.snapshot()

    def state(self) -> str:
        """Return `closed` while calls go through, `open` while paused after failures, `half-open` during a probe."""
        return self._breaker.breaker.state

    def close(self) -> None:
        """Close the inner embedder."""
        self._inner.close()

    def _known(self, key: bytes) -> Vector | None:
        vector = self._vectors.use(key)
        if vector is None:
            return None
        self._counters.add(embed_cache_hits=1)
        return vector.tolist()

    def _lead(self, key: bytes, call: Future[array[float]], text: str, timeout_s: float) -> Vector:
        """Make the call that other threads may wait for."""
        began = time.monotonic()
        try:
            vector = self._breaker.run(lambda: self._inner.embed_query(text, timeout_s=timeout_s))
            self.on_query(time.monotonic() - began)
            call.set_result(array("d", vector))
            return vector
        except EmbedderError as exc:
            call.set_exception(exc)
            raise
        finally:
            call.cancel()  # takes effect only if this thread was interrupted
            with self._lock:
                del self._calls[key]
                if not call.cancelled() and call.exception() is None:
                    self._vectors[key] = call.result()


def _answer_of(call: Future[array[float]], timeout_s: float) -> Vector:
    """Wait for the answer to another thread's call. Raises EmbedderError."""
    try:
        error = call.exception(max(0.0, timeout_s))
    except TimeoutError:
        raise EmbedderUnavailable(
            f"the same question, asked by another thread, had no answer in {timeout_s:.3g} s"
        ) from None
    except CancelledError:
        raise EmbedderUnavailable("the same question, asked by another thread, was cancelled") from None
    if error is not None:
        # A copy: an exception raised in two threads mixes their tracebacks.
        raise copy.copy(error)
    return call.result().tolist()
