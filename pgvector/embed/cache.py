"""Remembering the vectors of recent questions."""

from __future__ import annotations

import copy
import hashlib
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence

from ..domain.errors import EmbedderError, EmbedderUnavailable
from .counters import Counters
from .embedder import CountedEmbedder, Vector
from .instructions import Instructions

# 512 vectors of 768 doubles are 3 MB.
MAX_QUERIES = 512


class CachedEmbedder:
    """Keeps the vectors of the `max_queries` questions asked last; documents pass through.

    `on_query` is told how many seconds each question took that was not known.

    Threads that ask the same new question at the same time share one call and its outcome.
    """

    def __init__(self, inner: CountedEmbedder, *, max_queries: int = MAX_QUERIES) -> None:
        self.model = inner.model
        self.dims = inner.dims
        self._inner = inner
        self._max_queries = max_queries
        self._lock = threading.Lock()
        self._vectors: OrderedDict[bytes, array[float]] = OrderedDict()
        self._calls: dict[bytes, _Call] = {}
        self._counters = Counters("embed_cache_hits", "embed_cache_misses")
        self.on_query: Callable[[float], None] = lambda seconds: None

    @property
    def instructions(self) -> Instructions:
        """What is put before a text."""
        return self._inner.instructions

    def embed_documents(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """As the embedder behind it."""
        return self._inner.embed_documents(texts, timeout_s=timeout_s)

    def known_query(self, text: str) -> Vector | None:
        """The vector of a question that was asked lately, a new list each time; None where it takes a call."""
        key = _key(text)
        with self._lock:
            return self._known(key)

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:
        """The vector of a question, a new list each time. Raises as the embedder behind it; errors are not kept."""
        key = _key(text)
        with self._lock:
            vector = self._known(key)
            if vector is not None:
                return vector
            call = self._calls.get(key)
            leads = call is None
            if call is None:
                call = self._calls[key] = _Call()
            self._counters.add(embed_cache_misses=int(leads), embed_cache_hits=int(not leads))
        return self._lead(key, call, text, timeout_s) if leads else call.wait(timeout_s)

    def stats(self) -> dict[str, int]:
        """The counters of the embedder behind it, and how many questions did and did not need it."""
        return self._inner.stats() | self._counters.snapshot()

    def state(self) -> str:
        """That of the embedder behind it."""
        return self._inner.state()

    def close(self) -> None:
        """Close the embedder behind it."""
        self._inner.close()

    def _known(self, key: bytes) -> Vector | None:
        vector = self._vectors.get(key)
        if vector is None:
            return None
        self._vectors.move_to_end(key)
        self._counters.add(embed_cache_hits=1)
        return vector.tolist()

    def _lead(self, key: bytes, call: _Call, text: str, timeout_s: float) -> Vector:
        started = time.monotonic()
        try:
            vector = self._inner.embed_query(text, timeout_s=timeout_s)
            self.on_query(time.monotonic() - started)
            call.vector = array("d", vector)
            return vector
        except EmbedderError as exc:
            call.error = exc
            raise
        finally:
            with self._lock:
                del self._calls[key]
                if call.vector is not None:
                    self._vectors[key] = call.vector
                    if len(self._vectors) > self._max_queries:
                        self._vectors.popitem(last=False)
            call.done.set()


def _key(text: str) -> bytes:
    # A digest, since a question can be a pasted file of megabytes.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Call:
    """A question under way: the thread that asks it fills this in, the others wait."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.vector: array[float] | None = None
        self.error: EmbedderError | None = None

    def wait(self, timeout_s: float) -> Vector:
        if not self.done.wait(max(0.0, timeout_s)):
            raise EmbedderUnavailable(f"the same question, asked by another thread, had no answer in {timeout_s:.3g} s")
        if self.vector is not None:
            return self.vector.tolist()
        if self.error is not None:
            # A copy: an exception raised in two threads mixes their tracebacks.
            raise copy.copy(self.error)
        raise EmbedderUnavailable("the same question, asked by another thread, was broken off")
