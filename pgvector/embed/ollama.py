"""Looks for an Ollama on this machine that can embed. Only the operator's tool does so, never an agent's turn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..domain.errors import HermesPgvectorError
from ..domain.patterns import late_pattern
from .endpoint import Endpoint, json_in
from .http_client import Deadline, HttpClient

DEFAULT_URL = "http://127.0.0.1:11434"
_LOOK_S = 2.0
# Loading a model from a slow disk can take this long.
_FIRST_EMBEDDING_S = 60.0
_FAMILIES = frozenset({"bert", "nomic-bert", "xlm-roberta"})
_EMBEDS = late_pattern(r"embed|bge-|gte-|(?<![a-z0-9])e5-")
# Small sentence models find less together with words than words find alone.
_TOO_WEAK = late_pattern(r"minilm|granite-embedding:30m|arctic-embed:(22m|33m|xs|s)\b|potion|static")
# In order of preference; others follow by name.
_PREFERRED = ("nomic-embed-text", "mxbai-embed-large", "bge-m3", "snowflake-arctic-embed", "qwen3-embedding")
_MAX_DIMS = 2000


def loopback_url(ollama_host: str) -> str:
    """Return where a local Ollama listens by $OLLAMA_HOST, or by default; empty when that is another machine."""
    given = ollama_host.strip().rstrip("/")
    if not given:
        return DEFAULT_URL
    match = re.fullmatch(r"(?:http://)?(127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\])?(?::(\d{1,5}))?", given)
    if match is None:
        return ""
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(match[1] or "", match[1] or "127.0.0.1")
    return f"http://{host}:{match[2] or 11434}"


def embedding_models(url: str) -> list[str]:
    """Return the embedding models of the Ollama at `url`, the best choice first; empty when none answers there."""
    listed = _answer(url, "/api/tags", _LOOK_S).get("models")
    entries = listed if isinstance(listed, list) else []
    able = [each for each in entries if isinstance(each, Mapping) and each.get("name") and _can_embed(each)]
    return sorted({str(each["name"]) for each in able}, key=_rank)


def dims_at(url: str, model: str) -> int:
    """Return the length of the vectors of this model of the Ollama at `url`; 0 if there are none, or over 2,000."""
    reply = _answer(url, "/api/embed", _FIRST_EMBEDDING_S, {"model": model, "input": ["-"]})
    vectors = reply.get("embeddings")
    if not isinstance(vectors, list) or not vectors or not isinstance(vectors[0], list):
        return 0
    return len(vectors[0]) if len(vectors[0]) <= _MAX_DIMS else 0


def _answer(url: str, path: str, timeout_s: float, body: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return the JSON object of the answer; empty if there is no answer, or it is something else."""
    endpoint = Endpoint("ollama", url + path)
    try:
        # Without the environment's proxy, which is for other machines, not for this one.
        client = HttpClient(url, [endpoint], purpose="embedding", use_environment=False)
        try:
            reply = client.send(endpoint, body, Deadline.after(timeout_s))
        finally:
            client.close()
        found = json_in(endpoint, reply.body) if reply.status == 200 else {}
    except HermesPgvectorError:
        return {}
    return found if isinstance(found, dict) else {}


def _can_embed(entry: Mapping[str, Any]) -> bool:
    name = str(entry.get("name", "")).lower()
    if _TOO_WEAK.search(name):
        return False
    details = entry.get("details")
    family = details.get("family") if isinstance(details, Mapping) else ""
    return family in _FAMILIES or _EMBEDS.search(name) is not None


def _rank(name: str) -> tuple[int, str]:
    preferred = (place for place, each in enumerate(_PREFERRED) if each in name.lower())
    return next(preferred, len(_PREFERRED)), name
