"""The parts that an agent's process and a command are both made of, built from the settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..capture.document_embedding import DocumentEmbedder
from ..config.settings import Settings
from ..domain.dates import Zone, zone_named
from ..domain.errors import ConfigurationError
from ..domain.measures import Latencies
from ..domain.session_turns import SessionTurns
from ..domain.theme import Languages
from ..embed.cache import CachedEmbedder
from ..embed.factory import embedder_for
from ..recall.reranking import Reorderer, reorderer_for
from ..recall.searcher import Searcher
from ..store.backend import Backend


class Models(NamedTuple):
    """The embedder and the reranker; None if the settings name none, or one that cannot be used.

    `problems` maps each consequence to its reason. The file `measured` keeps what was measured of the embedding model.
    """

    embedder: CachedEmbedder | None
    reorderer: Reorderer | None
    latencies: Latencies
    problems: dict[str, str]
    zone: Zone
    measured: Path

    @classmethod
    def of(cls, settings: Settings, home: Path, embed_key: str, rerank_key: str) -> Models:
        """Return the models that the settings name; uses no network."""
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
        return cls(
            embedder, reorderer, latencies, problems, zone_named(settings.timezone), home / "pgvector" / "measured.json"
        )

    def documents(self, settings: Settings, backend: Backend) -> DocumentEmbedder:
        """Return the embedder for the texts of rows."""
        return DocumentEmbedder(self.embedder, backend, self.latencies, chunk_tokens=settings.chunk_tokens)

    def searcher(self, backend: Backend, said: SessionTurns | None = None) -> Searcher:
        """Return the searcher that answers questions; `said` knows what the current sessions contain."""
        return Searcher(backend, self.embedder, self.latencies, self.reorderer, said, self.zone, self.measured)

    def close(self) -> None:
        """Close the models."""
        for model in (self.embedder, self.reorderer):
            if model is not None:
                model.close()


def backend_of(
    settings: Settings,
    locate: Callable[[], str],
    *,
    connections: int = 0,
    replica: bool = True,
    kind: type[Backend] = Backend,
) -> Backend:
    """Return the store at the conninfo that `locate` returns, with at most `connections` (0: as in the settings).

    Without `replica` the primary answers all questions.
    """
    return kind(
        locate,
        dims=settings.dims,
        pool_max_size=connections or settings.pool_max_size,
        languages=Languages(settings.text_language, settings.text_languages),
        history_texts=settings.history_texts,
        pooler=settings.pooler,
        read_conninfo=settings.read_dsn if replica else "",
        read_max_lag_s=settings.read_max_lag_s,
    )
