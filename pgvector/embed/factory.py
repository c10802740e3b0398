"""From settings to an embedder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..config.settings import Settings
from .breaker import CircuitBreaker, GuardedEmbedder
from .cache import CachedEmbedder
from .embedder import MAX_BATCH_TEXTS, MAX_BATCH_TOKENS, CountedEmbedder
from .instructions import Instructions, instructions_for
from .model_folder import is_local, local_folder
from .onnx import OnnxEmbedder, dims_of

# The HTTP client takes longer to import than all else that a short command needs: only where an endpoint is named.
if TYPE_CHECKING:
    from .reranker import Reranker


def make_embedder(
    *,
    url: str,
    model: str,
    api: str,
    api_key: str,
    dims: int,
    timeout_s: float,
    instructions: Instructions | None = None,
    max_batch_texts: int = MAX_BATCH_TEXTS,
    max_batch_tokens: int = MAX_BATCH_TOKENS,
    dimensions: str = "auto",
    ca_file: str = "",
) -> CountedEmbedder | None:
    """The embedder of an HTTP endpoint, with a breaker and a cache of questions; None when `url` is empty.

    Does no I/O. The arguments are those of HttpEmbedder. Raises ConfigurationError for a URL, an `api` or an API key
    that cannot be used.
    """
    if not url.strip():
        return None
    from .http import HttpEmbedder

    http = HttpEmbedder(
        url=url,
        model=model,
        dims=dims,
        api=api,
        api_key=api_key,
        timeout_s=timeout_s,
        instructions=instructions,
        max_batch_texts=max_batch_texts,
        max_batch_tokens=max_batch_tokens,
        dimensions=dimensions,
        ca_file=ca_file,
    )
    return CachedEmbedder(GuardedEmbedder(http, CircuitBreaker(), name=http.endpoint))


def embedder_for(settings: Settings, api_key: str, *, home: Path) -> CountedEmbedder | None:
    """The embedder that the settings name, as `make_embedder`; local models lie in the hermes home."""
    if is_local(settings.embed_url):
        return _local_embedder(settings, home)
    return make_embedder(
        url=settings.embed_url,
        model=settings.embed_model,
        api=settings.embed_api,
        api_key=api_key,
        dims=settings.dims,
        timeout_s=settings.embed_timeout_s,
        instructions=instructions_for(
            settings.embed_model, document=settings.embed_document_prefix, query=settings.embed_query_prefix
        ),
        max_batch_texts=settings.embed_batch_size,
        max_batch_tokens=settings.embed_batch_tokens,
        dimensions=settings.embed_dimensions,
        ca_file=settings.embed_ca_file,
    )


def reranker_for(settings: Settings, api_key: str) -> Reranker:
    """The cross-encoder that `rerank_url` names. Raises ConfigurationError."""
    from .reranker import Reranker

    return Reranker(
        url=settings.rerank_url,
        model=settings.rerank_model,
        api=settings.rerank_api,
        api_key=api_key,
        ca_file=settings.embed_ca_file,
    )


def dims_given(settings: Settings, api_key: str, *, home: Path) -> int:
    """How many floats the model that the settings name gives, whatever `dims` says, found by embedding a word.

    0 when `embed_url` is empty. Raises EmbedderError or ConfigurationError.
    """
    if is_local(settings.embed_url):
        return dims_of(local_folder(settings.embed_url, home))
    if not settings.embed_url.strip():
        return 0
    from .http import HttpEmbedder

    endpoint = HttpEmbedder(
        url=settings.embed_url,
        model=settings.embed_model,
        dims=0,
        api=settings.embed_api,
        api_key=api_key,
        timeout_s=settings.embed_timeout_s,
        dimensions="never",
        ca_file=settings.embed_ca_file,
    )
    try:
        return len(endpoint.embed_query("dimensions", timeout_s=settings.embed_timeout_s))
    finally:
        endpoint.close()


def _local_embedder(settings: Settings, home: Path) -> CountedEmbedder:
    """An installed model; it is read with the first text, and what is wrong with it is said then."""
    model = OnnxEmbedder(
        folder=local_folder(settings.embed_url, home),
        dims=settings.dims,
        threads=settings.embed_threads,
        document_prefix=settings.embed_document_prefix,
        query_prefix=settings.embed_query_prefix,
    )
    return CachedEmbedder(GuardedEmbedder(model, CircuitBreaker(), name=f"the local model {model.model}"))
