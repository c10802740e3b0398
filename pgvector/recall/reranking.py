"""The final ranking of the best results, by a cross-encoder: an endpoint's, or the bundled one in this process."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.settings import Settings
from ..domain.errors import EmbedderError
from ..domain.measures import Latencies
from ..domain.named_times import without_times
from ..domain.text import is_of_other_script
from ..domain.types import Hit
from ..embed.cross_encoder import LANGUAGE, QUESTION_MAX_CHARS, CrossEncoder
from ..embed.factory import cross_encoder_for, reranker_for
from ..store.question_words import phrases
from .background import Background, result_by
from .excerpt import excerpt, part_found
from .fuse import stretched

if TYPE_CHECKING:
    from ..embed.reranker import Reranker

ENDPOINT_S, BUNDLED_S = 1.0, 0.1  # longest time that reranking may take, unless a setting says otherwise
TEXT_MAX_CHARS = 2000  # of a text sent to an endpoint; of a longer one, the part that answers
MAX_CANDIDATES = 40  # that the bundled cross-encoder scores
MODEL_WEIGHT = 0.4  # of the model beside the search; .3 to .5 do equally well, and the model alone is worse than none
PIECE_MAX_CHARS = 240  # of a text that is scored; 400 find no more and take a third more time
_MIN_S = 0.01  # less is not worth a request


class Reorderer(ABC):
    """Puts the first `candidates` hits into their final order. Safe to call from several threads.

    `prefetch`: rows that nobody asked for are reranked, too.
    """

    def __init__(
        self,
        model: Reranker | CrossEncoder,
        latencies: Latencies,
        *,
        candidates: int,
        deadline_s: float,
        prefetch: bool,
    ) -> None:
        self.candidates = candidates
        self.prefetch = prefetch
        self.counts: Counter[str] = Counter()
        self._latencies = latencies
        self._deadline_s = deadline_s
        self._model = model

    @abstractmethod
    def reads(self, question: str, languages: Collection[str]) -> bool:
        """Return whether the model can score texts in `languages` for this question."""

    def reorder(self, question: str, hits: Sequence[Hit], end: float) -> tuple[list[Hit], bool]:
        """Return the hits, best first, by the moment `end` (monotonic), and whether the order is a cross-encoder's.

        If the scores are late, wrong or missing, that is counted and the hits keep their order. So do those behind the
        ones that were scored.
        """
        first, began = hits[: self.candidates], time.monotonic()
        scores: Sequence[float] = ()
        try:
            scores = self._scores(question, first, min(end, began + self._deadline_s))
        except TimeoutError:
            self.counts["rerank_late"] += 1
        except EmbedderError:
            self.counts["rerank_failures"] += 1
        if not scores:
            return list(hits), False
        self.counts["reranked"] += 1
        self._latencies.add("rerank", time.monotonic() - began)
        return [*self._ordered(first[: len(scores)], scores), *hits[len(scores) :]], True

    @abstractmethod
    def _scores(self, question: str, hits: Sequence[Hit], until: float) -> Sequence[float]:
        """Return the scores of the first hits, higher for a better answer; none if there is nothing to score.

        Raises TimeoutError if they are not there at the moment `until` (monotonic), or EmbedderError.
        """

    @abstractmethod
    def _ordered(self, hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
        """Return the hits, best first, with their scores."""

    @abstractmethod
    def load(self) -> None:
        """Load now what the first question would otherwise load in the background. Raises EmbedderError."""

    def stats(self) -> dict[str, int]:
        """Return how many results were reranked, how many answers were late or failed, and the model's own counters."""
        return dict(self.counts) | self._model.stats()

    def state(self) -> str:
        """Return `closed` while the cross-encoder works, `open` while it cannot; the bundled one has further states."""
        return self._model.state()

    def close(self) -> None:
        """Release connections or the model."""
        self._model.close()


class EndpointReorderer(Reorderer):
    """Takes the order of an endpoint's scores."""

    def __init__(
        self, reranker: Reranker, latencies: Latencies, *, candidates: int, deadline_s: float, prefetch: bool
    ) -> None:
        super().__init__(reranker, latencies, candidates=candidates, deadline_s=deadline_s, prefetch=prefetch)
        self._reranker = reranker
        self._background = Background("hermes-pgvector-rerank")

    def reads(self, question: str, languages: Collection[str]) -> bool:
        """Return True: which languages the model reads is up to the operator who chose it."""
        return True

    def _scores(self, question: str, hits: Sequence[Hit], until: float) -> Sequence[float]:
        if len(hits) < 2:
            return ()
        texts = [excerpt(hit.content, question, TEXT_MAX_CHARS) for hit in hits]
        wait_s = until - time.monotonic()
        if wait_s < _MIN_S:
            raise TimeoutError
        # On a thread of its own: resolving a host name can take longer than any deadline.
        future = self._background.submit(partial(self._reranker.scores, question, texts, timeout_s=wait_s))
        if future is None:
            raise TimeoutError
        return result_by(future, until)

    def _ordered(self, hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
        # sorted() is stable: hits with equal scores keep the order of the search.
        best = sorted(zip(hits, scores, strict=True), key=lambda each: -each[1])
        return [hit._replace(rerank_rank=rank, rerank_score=score) for rank, (hit, score) in enumerate(best, 1)]

    def load(self) -> None:
        """Do nothing: the model is elsewhere."""


class BundledReorderer(Reorderer):
    """Blends the order of the search with the bundled cross-encoder's scores, of as many hits as it scores in time.

    These have a `relevance`.
    """

    def __init__(self, encoder: CrossEncoder, latencies: Latencies, *, candidates: int, deadline_s: float) -> None:
        few = min(candidates, MAX_CANDIDATES)
        super().__init__(encoder, latencies, candidates=few, deadline_s=deadline_s, prefetch=True)
        self._encoder = encoder

    def reads(self, question: str, languages: Collection[str]) -> bool:
        """Return whether there is a model, the question is short and, by settings and script, all is in its language.

        A question with a quoted phrase is not for a model to judge: the rows that hold the phrase come first.
        """
        if not self._is_usable():  # no rows are fetched and cut for a model that is not there
            return False
        if len(question) > QUESTION_MAX_CHARS or set(languages) != {LANGUAGE} or phrases(question):
            return False
        return not is_of_other_script(question)

    def _is_usable(self) -> bool:
        return self._encoder.state() not in ("none", "open")

    def _scores(self, question: str, hits: Sequence[Hit], until: float) -> Sequence[float]:
        # The time that a question names is met by when a row was told, and rarely by its words.
        untimed = without_times(question, datetime.now(UTC)) if any(hit.told_then for hit in hits) else question
        # Of a long text the part that words locate if they decide, else the one that the vector leg found.
        pieces = [excerpt(hit.content, question, PIECE_MAX_CHARS, near=part_found(hit)) for hit in hits]
        asked = [untimed if hit.told_then else question for hit in hits]
        logits = self._encoder.logits_of(list(zip(asked, pieces, strict=True)), until=until)
        if hits and not logits and self._is_usable():
            raise TimeoutError
        self.counts["rerank_cut_short"] += 0 < len(logits) < len(hits)
        return logits

    def _ordered(self, hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
        """Return the hits by the weighted mean of their score and the model's, both scaled to 0..1."""
        found, judged = stretched([hit.score for hit in hits]), stretched(scores)
        blend = [(1 - MODEL_WEIGHT) * one + MODEL_WEIGHT * other for one, other in zip(found, judged, strict=True)]
        # sorted() is stable: hits with equal scores keep the order of the search.
        order = sorted(range(len(hits)), key=lambda place: -blend[place])
        chances = [1 / (1 + math.exp(-score)) for score in scores]
        return [
            hits[place]._replace(rerank_rank=rank, rerank_score=chances[place], relevance=chances[place])
            for rank, place in enumerate(order, 1)
        ]

    def load(self) -> None:
        """Load the model now, if it is installed. Raises EmbedderError."""
        if self._encoder.state() == "idle":
            self._encoder.load()


def reorderer_for(settings: Settings, api_key: str, latencies: Latencies, home: Path) -> Reorderer | None:
    """Return the cross-encoder that the settings name, or None if reranking is off. Raises ConfigurationError."""
    if settings.rerank == "off":
        return None
    deadline_s, candidates = rerank_deadline_s(settings), settings.rerank_candidates
    if settings.rerank_url:
        reranker = reranker_for(settings, api_key)
        prefetch = settings.rerank_prefetch
        return EndpointReorderer(reranker, latencies, candidates=candidates, deadline_s=deadline_s, prefetch=prefetch)
    encoder = cross_encoder_for(settings, home)
    return BundledReorderer(encoder, latencies, candidates=candidates, deadline_s=deadline_s)


def rerank_deadline_s(settings: Settings) -> float:
    """Return how long reranking may take."""
    if settings.rerank_deadline_s != "auto":
        return settings.rerank_deadline_s
    return ENDPOINT_S if settings.rerank_url else BUNDLED_S
