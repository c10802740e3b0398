"""From settings to an embedder."""

from __future__ import annotations

from ..domain.settings import Settings
from .base import CountedEmbedder
from .breaker import CircuitBreaker, GuardedEmbedder
from .cache import CachedEmbedder
from .http import HttpEmbedder


def make_embedder(
    *, url: str, model: str, api: str, api_key: str, dims: int, timeout_s: float
) -> CountedEmbedder | None:
    """The embedder of an HTTP endpoint, with a breaker and a cache of questions; None when `url` is empty.

    Does no I/O. `api` is auto, ollama or openai; `timeout_s` bounds one request, within the timeout of a call.
    Raises ConfigurationError for a URL, an `api` or an API key that cannot be used.
    """
    if not url.strip():
        return None
    http = HttpEmbedder(url=url, model=model, dims=dims, api=api, api_key=api_key, timeout_s=timeout_s)
    return CachedEmbedder(GuardedEmbedder(http, CircuitBreaker(), name=http.endpoint))


def embedder_for(settings: Settings, api_key: str) -> CountedEmbedder | None:
    """The embedder that the settings name; as `make_embedder`."""
    return make_embedder(
        url=settings.embed_url,
        model=settings.embed_model,
        api=settings.embed_api,
        api_key=api_key,
        dims=settings.dims,
        timeout_s=settings.embed_timeout_s,
    )
