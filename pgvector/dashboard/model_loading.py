"""Loading of a home's models in the background, while the first questions are answered without them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ..admin.common.command_context import CommandContext
from ..domain.errors import EmbedderError
from ..domain.measures import Latencies
from ..embed.embedder import Embedder
from ..embed.model_folder import is_local
from ..recall.background import Background
from ..recall.searcher import Searcher

BEING_LOADED = "the embedding model is being loaded"
_QUESTION = "Is it ready?"
_LOAD_S = 60.0
_NOTHING_S = 0.02  # a model that is not there is loaded in less
_PATIENCE_S = 0.25  # a model that was read just now is loaded again in less


class Ready(NamedTuple):
    """The searcher that can answer now. `loading`: it lacks something being loaded, so asking again may find more."""

    searcher: Searcher
    loading: bool
    before: dict[str, int]
    context: CommandContext

    def why_by_words(self, mode: str | None) -> str | None:
        """Return why an answer in this mode is by words only; None if it is not."""
        if mode != "lexical":
            return None
        return BEING_LOADED if self.searcher is not self.context.searcher else self.context.why_by_words(self.before)


class ModelLoading:
    """Loads what answers need at the first question: the embedding model, its similarity bars, and the cross-encoder.

    Safe to call from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = Background("hermes-pgvector-page-models")
        self._begun = False
        self._embeds: Future[None] | None = None
        self._others: list[Future[None] | None] = []

    def ready(self, context: CommandContext) -> Ready:
        """Return what can answer now: while the embedding model is being loaded, a search by words alone."""
        self._begin(context)
        before = dict(context.searcher.counts)
        if _is_late(self._embeds, _PATIENCE_S):
            return Ready(
                Searcher(context.backend, None, Latencies(), zone=context.searcher.zone), True, before, context
            )
        return Ready(context.searcher, any(_is_late(each, _NOTHING_S) for each in self._others), before, context)

    def _begin(self, context: CommandContext) -> None:
        """Start loading, once; for an endpoint there is nothing to load, but its bars are measured."""
        with self._lock:
            if self._begun:
                return
            self._begun = True
            context.searcher.begin_bars()
            self._others.append(self._threads.submit(context.searcher.load_reranker))
            if context.embedder is not None and is_local(context.settings.embed_url):
                self._embeds = self._threads.submit(partial(_embed, context.embedder))
                self._others.append(self._threads.submit(partial(_measure, context.embedder, context.searcher)))


def _embed(embedder: Embedder) -> None:
    embedder.embed_query(_QUESTION, timeout_s=_LOAD_S)


def _measure(embedder: Embedder, searcher: Searcher) -> None:
    _embed(embedder)
    searcher.bars(_QUESTION, time.monotonic() + _LOAD_S)


def _is_late(loading: Future[None] | None, patience_s: float) -> bool:
    """Return whether something is still being loaded; a load that failed is not."""
    if loading is not None:
        with suppress(EmbedderError):
            try:
                loading.result(patience_s)
            except TimeoutError:
                return True
    return False
