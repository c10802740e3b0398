"""Vectors for rows that were written without one, because the endpoint was away or has refused them."""

from __future__ import annotations

from collections import Counter

from ..store.backend import Backend
from ..store.vectors import PendingRow
from .document_embedding import DocumentEmbedder

_MOST = 32  # rows of one request
_LEASE_S = 120.0  # how long a process may take to embed the rows it claimed before another one tries
# How long a row that the endpoint refused on its own is left alone, doubled with each refusal.
_PAUSE_FIRST_S, _PAUSE_MAX_S = 5.0, 600.0
_REMEMBERED = 10_000  # refused rows


class PendingRows:
    """Embeds such rows, a share of them: other processes do the same. Used by the drain thread only.

    Who failed, the endpoint or a row, shows when rows are tried one by one. A refused row goes to the back, so that it
    keeps no other waiting, and is not what asks a dead endpoint for ever whether it is back. `cold`: rows whose vector
    `compact` has dropped instead.
    """

    def __init__(self, backend: Backend, embedder: DocumentEmbedder, *, cold: bool = False) -> None:
        self._backend = backend
        self._embedder = embedder
        self._cold = cold
        self._size = _MOST
        self._begun: list[PendingRow] = []  # claimed, and long: they take several calls
        self._refusals: Counter[tuple[str, int]] = Counter()

    def possible(self) -> bool:
        """False when there is nothing to embed with."""
        return self._embedder.is_there()

    def fill(self) -> tuple[int, bool]:
        """Embed some rows; returns how many, and whether to go on at once. Raises HermesPgvectorError."""
        if not self._embedder.is_there():
            return 0, False
        rows, self._begun = self._begun or self._claimed(), []
        if not rows:
            return 0, False
        asked_before = self._embedder.requests()
        chunks = self._embedder.embed_chunks([(row.theme, row.text) for row in rows])
        filled = [row for row in rows if row.text in chunks]
        if filled:
            self._backend.fill(filled, chunks)
        rest = [row for row in rows if row.text not in chunks]
        if not rest:
            self._size = min(2 * self._size, _MOST)
            return len(filled), True
        if not self._embedder.fails and self._embedder.is_there():
            self._begun = rest
            self._backend.postpone(rest, _LEASE_S)  # which goes on being ours
            return len(filled), True
        asked = self._embedder.fails and self._embedder.requests() > asked_before
        pause_s = 0.0
        if asked and len(rest) == 1:
            pause_s = self._pause_s((rest[0].store, rest[0].id))
        self._backend.postpone(rest, pause_s)
        self._size = 1
        return len(filled), asked

    def _claimed(self) -> list[PendingRow]:
        return self._backend.claim_pending(self._size, _LEASE_S, cold=self._cold)

    def _pause_s(self, row: tuple[str, int]) -> float:
        if len(self._refusals) >= _REMEMBERED:
            self._refusals.clear()
        self._refusals[row] += 1
        return float(min(_PAUSE_FIRST_S * 2.0 ** min(self._refusals[row] - 1, 30), _PAUSE_MAX_S))
