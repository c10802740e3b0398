"""Scores of how well texts answer a question, from a cross-encoder over HTTP: Cohere's and Jina's /rerank, or TEI's."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence

from ..domain.errors import ConfigurationError, EmbedderError
from ..domain.lru import LruDict
from ..domain.text import digest
from .breaker import CircuitBreaker, EndpointBreaker
from .embedder import Counters, readable
from .endpoint import Endpoint, NoSuchEndpoint, Reply, excerpt, json_in, parse_url, refusal, refusal_message, with_path
from .http_client import Deadline, HttpClient

Scores = tuple[float, ...]

MAX_TEXT_CHARS = 4000  # of a question or a text: about 1,000 tokens of English, which a cross-encoder reads
_MAX_REMEMBERED = 256  # questions: the pages of one must not be ranked twice, and perhaps differently
# How servers answer for an unknown path, or for a body in the other protocol's shape.
_NOT_HERE = frozenset({400, 404, 405, 415, 422, 501})


class Reranker:
    """Asks one endpoint; finds out the protocol at the first call. Safe to call from several threads.

    After three failures in a row the endpoint is left alone for a while. Raises ConfigurationError for a URL, a
    protocol name or an API key that cannot be used.
    """

    def __init__(self, *, url: str, model: str = "", api: str = "auto", api_key: str = "", ca_file: str = "") -> None:
        endpoints = _endpoints(url, api)
        self._model = model
        self._client = HttpClient(url, endpoints, purpose="rerank", api_key=api_key, ca_file=ca_file)
        self._breaker = EndpointBreaker(
            CircuitBreaker(),
            name=endpoints[0].label,
            meanwhile="results keep the order that words and meaning gave them",
            prefix="rerank",
        )
        self._counters = Counters("rerank_requests", "rerank_errors", "rerank_cache_hits")
        self._lock = threading.Lock()
        self._remembered: LruDict[bytes, Scores] = LruDict(_MAX_REMEMBERED)

    def scores(self, question: str, texts: Sequence[str], *, timeout_s: float) -> Scores:
        """Return one score for each text, in their order; a higher one answers better, on the model's own scale.

        Raises EmbedderUnavailable when there is no answer within `timeout_s` or the endpoint is left alone, and
        EmbedderError when the answer is not one number for each text.
        """
        if not texts:
            return ()
        question, *texts = (readable(text, MAX_TEXT_CHARS) for text in (question, *texts))
        key = digest("\0".join((question, *texts)))
        with self._lock:
            known = self._remembered.use(key)
        if known is not None:
            self._counters.add(rerank_cache_hits=1)
            return known
        deadline = Deadline.after(timeout_s)
        try:
            scores = self._breaker.run(
                lambda: self._client.ask(lambda endpoint: self._exchange(endpoint, question, texts, deadline))
            )
        except EmbedderError:
            self._counters.add(rerank_errors=1)
            raise
        with self._lock:
            self._remembered[key] = scores
        return scores

    def stats(self) -> dict[str, int]:
        """Return requests sent, calls failed, calls answered from the cache; openings and refusals of the breaker."""
        return self._counters.snapshot() | self._breaker.stats()

    def state(self) -> str:
        """Return the breaker's state."""
        return self._breaker.breaker.state

    def close(self) -> None:
        """Close the connections; calls in progress and later ones raise EmbedderUnavailable."""
        self._client.close()

    def _exchange(self, endpoint: Endpoint, question: str, texts: Sequence[str], deadline: Deadline) -> Scores:
        self._counters.add(rerank_requests=1)
        reply = self._client.send(endpoint, _request_body(endpoint, self._model, question, texts), deadline)
        if not reply.ok:
            raise _rerank_refusal(endpoint, reply)
        return _scores_in(endpoint, reply.body, count=len(texts))


def _endpoints(url: str, api: str) -> tuple[Endpoint, ...]:
    """Return the endpoint to post to if URL and `api` decide, else all possible ones, in the order to try them."""
    if api not in ("auto", "cohere", "tei"):
        raise ConfigurationError(f"rerank_api {api!r} is not known; use auto, cohere or tei")
    parts = parse_url(url, "rerank_url")
    path = parts.path.rstrip("/")
    plain = path if path.endswith("/rerank") else f"{path}/rerank"
    versioned = [] if re.search(r"/(rerank|v\d+)$", path) else [f"{path}/v1/rerank"]
    paths = {"cohere": [*versioned, plain], "tei": [plain]}
    return tuple(
        Endpoint(name, with_path(parts, each), "rerank_url")
        for name in (paths if api == "auto" else [api])
        for each in paths[name]
    )


def _request_body(endpoint: Endpoint, model: str, question: str, texts: Sequence[str]) -> dict[str, object]:
    if endpoint.api == "tei":
        return {"query": question, "texts": list(texts), "truncate": True}
    body: dict[str, object] = {"query": question, "documents": list(texts), "top_n": len(texts)}
    return body | ({"model": model} if model else {})


def _rerank_refusal(endpoint: Endpoint, reply: Reply) -> EmbedderError:
    if reply.status in _NOT_HERE:
        return NoSuchEndpoint(f"{refusal_message(endpoint, reply)}; check rerank_url and rerank_model")
    return refusal(endpoint, reply)


def _scores_in(endpoint: Endpoint, body: bytes, *, count: int) -> Scores:
    """Return the `count` scores of a successful reply, in the order of the request."""
    reply = json_in(endpoint, body)
    if endpoint.api == "tei":
        rows, name, shape = reply, "score", "a list"
    else:
        rows = reply.get("results") if isinstance(reply, dict) else None
        name, shape = "relevance_score", "an object with a list 'results'"
    if not isinstance(rows, list):
        raise NoSuchEndpoint(f"{endpoint.label}: expected {shape}, got {excerpt(str(reply))!r}")
    scores = dict(_score_in(endpoint, row, name) for row in rows)
    if len(rows) != count or set(scores) != set(range(count)):
        raise EmbedderError(f"{endpoint.label}: expected one score for each text, {count}, got {len(rows)}")
    return tuple(scores[index] for index in range(count))


def _score_in(endpoint: Endpoint, row: object, name: str) -> tuple[int, float]:
    index, score = (row.get("index"), _finite(row.get(name))) if isinstance(row, dict) else (None, None)
    if not isinstance(index, int) or isinstance(index, bool) or score is None:
        raise EmbedderError(f"{endpoint.label}: expected 'index' and a finite {name!r} in each result")
    return index, score


def _finite(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # more than a float can hold
        return None
