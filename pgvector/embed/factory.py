"""Makes the embedder and the cross-encoder that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..config.settings import Settings
from .cache import CachedEmbedder
from .cross_encoder import MODEL, CrossEncoder
from .instructions import instructions_for
from .model_folder import is_local, local_folder, models_folder

# Imported only if the settings need it: the HTTP client takes longer to import than all else in a short command.
if TYPE_CHECKING:
    from .http_embedder import HttpEmbedder
    from .reranker import Reranker


def embedder_for(settings: Settings, api_key: str, *, home: Path) -> CachedEmbedder | None:
    """Return the embedder that the settings name, with a breaker and a cache of questions; None without `embed_url`.

    Does no I/O: a local model, which lies in the hermes home, is read with the first text. Raises ConfigurationError
    for a URL, an `embed_api` or an API key that cannot be used.
    """
    if is_local(settings.embed_url):
        from .onnx import OnnxEmbedder

        local = OnnxEmbedder(
            folder=local_folder(settings.embed_url, home),
            dims=settings.dims,
            threads=settings.embed_threads,
            document_prefix=settings.embed_document_prefix,
            query_prefix=settings.embed_query_prefix,
        )
        return CachedEmbedder(local, name=f"the local model {local.model}")
    if not settings.embed_url.strip():
        return None
    http = http_embedder(settings, api_key, dims=settings.dims, dimensions=settings.embed_dimensions)
    return CachedEmbedder(http, name=http.endpoint)


def reranker_for(settings: Settings, api_key: str) -> Reranker:
    """Return the cross-encoder that `rerank_url` names. Raises ConfigurationError."""
    from .reranker import Reranker

    return Reranker(
        url=settings.rerank_url,
        model=settings.rerank_model,
        api=settings.rerank_api,
        api_key=api_key,
        ca_file=settings.embed_ca_file,
    )


def cross_encoder_for(settings: Settings, home: Path) -> CrossEncoder:
    """Return the bundled cross-encoder of the hermes home; does no I/O, and it need not be installed."""
    return CrossEncoder(models_folder(home) / MODEL, threads=settings.embed_threads)


def http_embedder(settings: Settings, api_key: str, *, dims: int, dimensions: str) -> HttpEmbedder:
    """Return the client of the endpoint that the settings name, for vectors of `dims`. Raises ConfigurationError."""
    from .http_embedder import HttpEmbedder

    return HttpEmbedder(
        url=settings.embed_url,
        model=settings.embed_model,
        dims=dims,
        api=settings.embed_api,
        api_key=api_key,
        timeout_s=settings.embed_timeout_s,
        instructions=instructions_for(
            settings.embed_model, document=settings.embed_document_prefix, query=settings.embed_query_prefix
        ),
        max_batch_texts=settings.embed_batch_size,
        max_batch_tokens=settings.embed_batch_tokens,
        dimensions=dimensions,
        ca_file=settings.embed_ca_file,
    )
