"""From settings to an embedder."""

from __future__ import annotations

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
