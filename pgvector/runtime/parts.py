"""The parts that a process and a command are both made of, from the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..capture.document_embedding import DocumentEmbedder
from ..config.settings import Settings
from ..domain.errors import ConfigurationError
from ..domain.measures import Latencies
from ..domain.session_turns import SessionTurns
from ..domain.theme import Languages
from ..embed.cache import CachedEmbedder
from ..embed.factory import embedder_for
from ..recall.reranking import Reorderer, reorderer_for
from ..recall.searcher import Searcher
from ..store.backend import Backend


@dataclass(frozen=True)
class Models:
    """What embeds and what reranks; None where the settings name nothing, or what they name cannot be used.

    `problems` has the reason of each consequence.
    """

    embedder: CachedEmbedder | None
    reorderer: Reorderer | None
    latencies: Latencies
    problems: dict[str, str]

    @classmethod
    def of(cls, settings: Settings, home: Path, embed_key: str, rerank_key: str) -> Models:
        """Return the models of the settings; does no network."""
        latencies = Latencies()
        problems = {}
        embedder = reorderer = None
        try:
            embedder = embedder_for(settings, embed_key, home=home)
        except ConfigurationError as exc:
            problems["recall is lexical only"] = str(exc)
        try:
            reorderer = reorderer_for(settings, rerank_key, latencies, home)
        except ConfigurationError as exc:
            problems["results are not reranked"] = str(exc)
        return cls(embedder, reorderer, latencies, problems)

    def documents(self, settings: Settings, backend: Backend) -> DocumentEmbedder:
        """Return what embeds the texts of rows."""
        return DocumentEmbedder(self.embedder, backend, self.latencies, chunk_tokens=settings.chunk_tokens)

    def searcher(self, backend: Backend, said: SessionTurns | None = None) -> Searcher:
        """Return what answers questions; `said` knows what the sessions at hand contain."""
        return Searcher(backend, self.embedder, self.latencies, self.reorderer, said)

    def close(self) -> None:
        """Let go of what is open."""
        for model in (self.embedder, self.reorderer):
            if model is not None:
                model.close()


def backend_of(settings: Settings, locate: Callable[[], str], *, connections: int = 0, replica: bool = True) -> Backend:
    """Return the store that `locate` leads to, with at most `connections` (0: what the settings say).

    Without `replica` the primary answers all questions.
    """
    return Backend(
        locate,
        dims=settings.dims,
        pool_max_size=connections or settings.pool_max_size,
        languages=Languages(settings.text_language, settings.text_languages),
        history_texts=settings.history_texts,
        pooler=settings.pooler,
        read_conninfo=settings.read_dsn if replica else "",
        read_max_lag_s=settings.read_max_lag_s,
    )
