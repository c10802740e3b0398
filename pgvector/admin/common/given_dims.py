"""The length of a model's vectors, found by asking the model, and the greatest that can be stored."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ...config.settings import Settings
from ...embed.factory import http_embedder
from ...embed.model_folder import is_local, local_folder
from ...embed.onnx import dims_of

MAX_DIMS = 2000  # limit of a vector in an HNSW index


def dims_given(settings: Settings, api_key: str, *, home: Path) -> int:
    """Return how many floats a vector of the settings' model has, whatever `dims` says, by embedding a word.

    0 if `embed_url` is empty. Raises EmbedderError or ConfigurationError.
    """
    if is_local(settings.embed_url):
        return dims_of(local_folder(settings.embed_url, home))
    if not settings.embed_url.strip():
        return 0
    with closing(http_embedder(settings, api_key, dims=0, dimensions="never")) as endpoint:
        return len(endpoint.embed_query("dimensions", timeout_s=settings.embed_timeout_s))
