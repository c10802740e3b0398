"""The parts of a runtime for a command that searches or edits: without the writer and the spool, closed at its end."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...capture.document_embedding import DocumentEmbedder
from ...capture.mirror import Mirror
from ...capture.sanitize import Sanitizer
from ...config.settings import Settings
from ...domain.theme import ThemeRules
from ...embed.embedder import Embedder
from ...host.session_context import Policy
from ...recall.searcher import Searcher
from ...runtime.parts import Models, backend_of
from ...store.backend import Backend
from .database import EndpointKeys, naming, settings_of
from .embedded_server import borrowed_server
from .lock_notice import TellingBackend

_REPLICA_S = 2.0  # longest wait to learn whether a replica can be used
_CONNECTIONS = 2  # a search holds one; the next search may begin before it is returned


@dataclass(frozen=True)
class CommandContext:
    """The parts of a runtime that a command works with. `keep` masks secrets, `documents` embeds new texts."""

    home: Path
    settings: Settings
    backend: Backend
    searcher: Searcher
    keep: Sanitizer
    documents: DocumentEmbedder
    embedder: Embedder | None
    problems: tuple[str, ...]

    def in_files(self) -> tuple[set[tuple[str, str]], str]:
        """Return (target, text) of this home's MEMORY.md and USER.md entries, as stored, and the home's origin."""
        mirror = Mirror(self.home)
        return {(target, self.keep.text(text, Counter())) for target, text in mirror.entries()}, mirror.origin

    def why_by_words(self, before: Mapping[str, int] | None = None) -> str:
        """Return why a question was not compared by meaning; `before`: the searcher's counts when it was asked."""
        if self.embedder is None:
            return "; ".join(self.problems) or "no embedding model is set (setting `embed_url`)"
        counts, former = self.searcher.counts, before or {}
        if any(counts[name] > former.get(name, 0) for name in ("query_embed_failures", "query_embed_late")):
            return "the embedding endpoint did not answer; see: hermes-pgvector doctor"
        if counts["vector_leg_failures"] > former.get("vector_leg_failures", 0):
            return "the search by meaning did not answer in time; see: hermes-pgvector doctor"
        return "the stored vectors and the model that is set do not fit, or nothing has a vector yet"


@contextmanager
def context_for(
    args: argparse.Namespace, home: Path, *, reads: bool = False
) -> Iterator[tuple[CommandContext, ThemeRules]]:
    """Yield a command's context and the rules for theme names; with `reads` it only reads, so a replica may serve it.

    A long wait for a lock is explained on stderr. Raises SchemaNotApplied and StoreUnavailable.
    """
    settings, login = settings_of(home), args.admin_dsn or ""
    opened = opened_context(settings, home, login=login, reads=reads, kind=TellingBackend)
    with naming("--admin-dsn" if login else "dsn"), opened as context:
        yield context, Policy.of(settings).rules


@contextmanager
def opened_context(
    settings: Settings,
    home: Path,
    *,
    login: str = "",
    reads: bool = False,
    connections: int = _CONNECTIONS,
    kind: type[Backend] = Backend,
) -> Iterator[CommandContext]:
    """Yield a command's context, with another login than the settings' if one is given; see `context_for`."""
    models = Models.of(settings, home, *EndpointKeys.of(settings, home))
    with borrowed_server(settings) as locate:
        backend = backend_of(
            settings,
            lambda: login or settings.dsn or locate(),
            connections=connections,
            replica=reads and not login,
            kind=kind,
        )
        try:
            backend.bring_up()
            if backend.replica is not None:
                backend.replica.settle(_REPLICA_S)
            yield CommandContext(
                home,
                settings,
                backend,
                models.searcher(backend),
                Sanitizer(settings),
                models.documents(settings, backend),
                models.embedder,
                tuple(models.problems.values()),
            )
        finally:
            backend.close()
            models.close()
