"""What a command that searches or corrects needs of a runtime: no drain, no spool, nothing that outlives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...capture.sanitize import Keeper
from ...config.settings import Settings
from ...embed.embedder import Embedder
from ...recall.searcher import Searcher
from ...runtime.parts import Models, backend_of
from ...store.backend import Backend
from ..edit.corrections import Hand
from .embedded_server import borrowed_server

_REPLICA_S = 2.0  # longest wait to learn whether a replica can be used
_CONNECTIONS = 2  # a search holds one; the one after it may begin before that is back


@dataclass(frozen=True)
class Bench:
    """The parts of a runtime that a command works with."""

    backend: Backend
    searcher: Searcher
    hand: Hand
    embedder: Embedder | None
    problems: tuple[str, ...]

    def why_by_words(self) -> str:
        """Why a question was not compared by meaning."""
        if self.embedder is None:
            return "; ".join(self.problems) or "no embedding model is set (setting `embed_url`)"
        counts = self.searcher.counts
        if counts["query_embed_failures"] or counts["query_embed_late"]:
            return "the embedding endpoint did not answer; see: hermes-pgvector doctor"
        return "the stored vectors and the model that is set do not fit, or nothing has a vector yet"


@contextmanager
def bench(
    settings: Settings, home: Path, environ: Mapping[str, str], login: str | None = None, *, reads: bool = False
) -> Iterator[Bench]:
    """The bench on the database of the settings, embedded or not, or by another login.

    With `reads` nothing is to be corrected, and a replica that the settings name answers.

    Raises SchemaNotApplied and StoreUnavailable.
    """
    models = Models.of(
        settings, home, environ.get(settings.embed_api_key_env, ""), environ.get(settings.rerank_api_key_env, "")
    )
    with borrowed_server(settings) as locate:
        backend = backend_of(
            settings,
            lambda: login or settings.dsn or locate(),
            connections=_CONNECTIONS,
            replica=reads and not login,
        )
        try:
            backend.bring_up(quietly=True)
            if backend.replica is not None:
                backend.replica.settle(_REPLICA_S)
            documents = models.documents(settings, backend)
            hand = Hand(backend, Keeper(settings), home, documents, settings.history_texts)
            yield Bench(backend, models.searcher(backend), hand, models.embedder, tuple(models.problems.values()))
        finally:
            backend.close()
            models.close()
