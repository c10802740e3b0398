"""The final ranking of the best results, by a cross-encoder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..config.settings import Settings
from ..domain.errors import EmbedderError
from ..domain.measures import Latencies
from ..domain.types import Hit
from ..embed.factory import reranker_for
from .background import Background, result_by
from .excerpt import excerpt

if TYPE_CHECKING:
    from ..embed.reranker import Reranker, Scores

TEXT_MAX_CHARS = 2000  # of a text that is put in order; of a longer one the part that answers
_MIN_S = 0.01  # less is not worth a request


class Reorderer:
    """Puts the first `candidates` hits into the order of an endpoint's scores. Safe to call from several threads."""

    def __init__(self, reranker: Reranker, latencies: Latencies, *, candidates: int, deadline_s: float) -> None:
        self.candidates = candidates
        self._reranker = reranker
        self._latencies = latencies
        self._deadline_s = deadline_s
        self._background = Background("hermes-pgvector-rerank")
        self.counts: Counter[str] = Counter()

    def reorder(self, question: str, hits: Sequence[Hit], end: float) -> tuple[list[Hit], bool]:
        """Return the hits, best first, by the moment `end` (monotonic), and whether the endpoint's order is theirs.

        An answer that is late, wrong or absent is counted, and the hits stay as they are.
        """
        first, rest = list(hits[: self.candidates]), list(hits[self.candidates :])
        if len(first) < 2:
            return first + rest, False
        try:
            scores = self._scores(question, [excerpt(hit.content, question, TEXT_MAX_CHARS) for hit in first], end)
        except TimeoutError:
            self.counts["rerank_late"] += 1
            return first + rest, False
        except EmbedderError:
            self.counts["rerank_failures"] += 1
            return first + rest, False
        self.counts["reranked"] += 1
        # sorted() is stable: of equals the one that words and meaning put first stays first.
        best = sorted(zip(first, scores, strict=True), key=lambda each: -each[1])
        return [
            replace(hit, rerank_rank=rank, rerank_score=score) for rank, (hit, score) in enumerate(best, 1)
        ] + rest, True

    def _scores(self, question: str, texts: Sequence[str], end: float) -> Scores:
        started = time.monotonic()
        wait_s = min(self._deadline_s, end - started)
        if wait_s < _MIN_S:
            raise TimeoutError
        # On a thread of its own: to resolve a name can take longer than any deadline.
        call = partial(self._reranker.scores, question, texts, timeout_s=wait_s)
        future = self._background.submit(call)
        if future is None:
            raise TimeoutError
        scores = result_by(future, started + wait_s)
        self._latencies.add("rerank", time.monotonic() - started)
        return scores

    def stats(self) -> dict[str, int]:
        """Return how many results were reranked, how many answers were late or failed, and the endpoint's counters."""
        return dict(self.counts) | self._reranker.stats()

    def state(self) -> str:
        """Return the breaker's state: `closed` while the endpoint is asked, `open` while it is left alone."""
        return self._reranker.state()

    def close(self) -> None:
        """Close the connections to the endpoint."""
        self._reranker.close()


def reorderer_for(settings: Settings, api_key: str, latencies: Latencies) -> Reorderer | None:
    """Return the cross-encoder that the settings name, None where they name none. Raises ConfigurationError."""
    if not settings.rerank_url:
        return None
    reranker = reranker_for(settings, api_key)
    return Reorderer(reranker, latencies, candidates=settings.rerank_candidates, deadline_s=settings.rerank_deadline_s)
