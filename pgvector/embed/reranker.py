"""How well texts answer a question, from a cross-encoder over HTTP: Cohere's and Jina's /rerank, or TEI's."""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlunsplit

from ..domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable
from .breaker import CircuitBreaker, Guard
from .counters import Counters
from .endpoint_url import parse_url
from .http_errors import excerpt, retry_after_s
from .transport import Deadline, HttpTransport, Reply

Api = Literal["cohere", "tei"]
Scores = tuple[float, ...]

MAX_TEXT_CHARS = 4000  # of a question or a text: about 1,000 tokens of English, which a cross-encoder reads
_MAX_REMEMBERED = 256  # questions; their pages must not be put in order twice, and perhaps differently
_MIN_SECRET_CHARS = 4  # shorter secrets are no secrets, and blotting them out would make messages unreadable
# What servers say of a path, or of a body in the other protocol's shape.
_NOT_HERE = frozenset({400, 404, 405, 415, 422, 501})
_BUSY = frozenset({408, 424, 425, 429})


class _NotHere(EmbedderError):
    """The server has nothing at this path, or speaks the other protocol."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """Where to post, and in which protocol."""

    api: Api
    url: str

    @property
    def label(self) -> str:
        """How messages and logs name it: without query and fragment."""
        return re.split(r"[?#]", self.url, maxsplit=1)[0]

    def body(self, model: str, question: str, texts: Sequence[str]) -> bytes:
        """The request."""
        asked: dict[str, Any]
        if self.api == "tei":
            asked = {"query": question, "texts": list(texts), "truncate": True}
        else:
            asked = {"query": question, "documents": list(texts), "top_n": len(texts)}
            if model:
                asked["model"] = model
        return json.dumps(asked, ensure_ascii=False).encode()


class Reranker:
    """Asks one endpoint; finds out the protocol at the first call. Safe to call from several threads.

    After three failures in a row the endpoint is left alone for a while. Raises ConfigurationError for a URL, a
    protocol name or an API key that cannot be used.
    """

    def __init__(self, *, url: str, model: str = "", api: str = "auto", api_key: str = "", ca_file: str = "") -> None:
        parts = parse_url(url, "rerank_url")
        key = api_key.strip()
        if not (key.isascii() and key.isprintable()):
            raise ConfigurationError("the rerank endpoint's API key holds characters that no HTTP header can; check it")
        self._model = model
        self._candidates = _endpoints(url, api)
        self._chosen = self._candidates[0] if len(self._candidates) == 1 else None
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        self._secrets = [secret for secret in (key, password) if len(secret) >= _MIN_SECRET_CHARS]
        self._transport = HttpTransport(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            auth=(user, password) if user and not key else None,
            ca_file=ca_file,
        )
        self._guard = Guard(
            CircuitBreaker(),
            name=self._candidates[0].label,
            meanwhile="results keep the order that words and meaning gave them",
            prefix="rerank",
        )
        self._counters = Counters("rerank_requests", "rerank_errors", "rerank_cache_hits")
        self._lock = threading.Lock()
        self._remembered: OrderedDict[bytes, Scores] = OrderedDict()

    def scores(self, question: str, texts: Sequence[str], *, timeout_s: float) -> Scores:
        """One number a text, in their order; higher answers better, on a scale of the model's own.

        Raises EmbedderUnavailable when there is no answer within `timeout_s` or the endpoint is left alone, and
        EmbedderError when the answer is not one number for each text.
        """
        if not texts:
            return ()
        question, texts = _sendable(question), [_sendable(text) for text in texts]
        key = _key(question, texts)
        with self._lock:
            known = self._remembered.get(key)
        if known is not None:
            self._counters.add(rerank_cache_hits=1)
            return known
        deadline = Deadline.after(timeout_s)
        try:
            scores = self._guard.run(lambda: self._ask(question, texts, deadline))
        except EmbedderError:
            self._counters.add(rerank_errors=1)
            raise
        with self._lock:
            self._remembered[key] = scores
            if len(self._remembered) > _MAX_REMEMBERED:
                self._remembered.popitem(last=False)
        return scores

    def stats(self) -> dict[str, int]:
        """Requests sent, calls failed, calls answered from memory; openings and refusals of the breaker."""
        return self._counters.snapshot() | self._guard.stats()

    def state(self) -> str:
        """The breaker's."""
        return self._guard.breaker.state

    def close(self) -> None:
        """Close the connections; calls in progress and later ones raise EmbedderUnavailable."""
        self._transport.close()

    def _ask(self, question: str, texts: Sequence[str], deadline: Deadline) -> Scores:
        try:
            return self._from_endpoint(question, texts, deadline)
        except EmbedderError as exc:  # the breaker logs it, so what an endpoint echoes is taken out before
            exc.args = tuple(self._without_secrets(str(arg)) for arg in exc.args)
            raise

    def _from_endpoint(self, question: str, texts: Sequence[str], deadline: Deadline) -> Scores:
        if self._chosen is not None:
            return self._exchange(self._chosen, question, texts, deadline)
        refused: list[str] = []
        for endpoint in self._candidates:
            try:
                scores = self._exchange(endpoint, question, texts, deadline)
            except _NotHere as exc:
                refused.append(str(exc))
                continue
            self._chosen = endpoint
            return scores
        raise EmbedderError(f"rerank_url leads to no rerank endpoint: {'; '.join(refused)}")

    def _exchange(self, endpoint: _Endpoint, question: str, texts: Sequence[str], deadline: Deadline) -> Scores:
        self._counters.add(rerank_requests=1)
        body = endpoint.body(self._model, question, texts)
        reply = self._transport.post(endpoint.url, body, label=endpoint.label, deadline=deadline)
        if not 200 <= reply.status < 300:
            raise _refusal(endpoint, reply)
        return _scores_in(endpoint, reply.body, count=len(texts))

    def _without_secrets(self, message: str) -> str:
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message


def _endpoints(url: str, api: str) -> tuple[_Endpoint, ...]:
    """What to post to: one endpoint where URL and `api` decide, else all that may be meant, in order."""
    if api not in ("auto", "cohere", "tei"):
        raise ConfigurationError(f"rerank_api {api!r} is not known; use auto, cohere or tei")
    parts = parse_url(url, "rerank_url")
    path = parts.path.rstrip("/")

    def at(path: str) -> str:
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, parts.query, ""))

    cohere = [_Endpoint("cohere", at(f"{path}/v1/rerank")), _Endpoint("cohere", at(f"{path}/rerank"))]
    tei = [_Endpoint("tei", at(f"{path}/rerank"))]
    if path.endswith("/rerank"):
        cohere, tei = [_Endpoint("cohere", at(path))], [_Endpoint("tei", at(path))]
    elif re.search(r"/v\d+$", path):
        cohere = cohere[1:]
    return tuple((cohere if api != "tei" else []) + (tei if api != "cohere" else []))


def _refusal(endpoint: _Endpoint, reply: Reply) -> EmbedderError:
    said = excerpt(reply.body[:2000].decode("utf-8", "replace"))
    message = f"{endpoint.label} answered HTTP {reply.status}" + (f": {said}" if said else "")
    if reply.status in _NOT_HERE:
        return _NotHere(f"{message}; check rerank_url and rerank_model")
    if reply.status in _BUSY or reply.status >= 500:
        return EmbedderUnavailable(message, retry_after_s=retry_after_s(reply.headers.get("retry-after", "")))
    if reply.status in (401, 403):
        return EmbedderError(f"{message}; check the API key")
    return EmbedderError(f"{message}; check rerank_url")


def _scores_in(endpoint: _Endpoint, body: bytes, *, count: int) -> Scores:
    """The `count` scores of a successful reply, in the order of the request."""
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        start = excerpt(body[:200].decode("utf-8", "replace"))
        raise EmbedderError(f"{endpoint.label}: expected JSON, got {start or 'an empty reply'!r}") from None
    rows, name = (reply, "score") if endpoint.api == "tei" else (_results(reply), "relevance_score")
    if not isinstance(rows, list):
        shape = "a list" if endpoint.api == "tei" else "an object with a list 'results'"
        raise _NotHere(f"{endpoint.label}: expected {shape}, got {excerpt(str(reply))!r}")
    scores: dict[int, float] = {}
    for row in rows:
        index, score = (row.get("index"), _finite(row.get(name))) if isinstance(row, dict) else (None, None)
        if not isinstance(index, int) or isinstance(index, bool) or score is None:
            raise EmbedderError(f"{endpoint.label}: expected 'index' and a finite {name!r} in each result")
        scores[index] = score
    if len(rows) != count or set(scores) != set(range(count)):
        raise EmbedderError(f"{endpoint.label} scored {len(rows)} of {count} texts; expected each index once")
    return tuple(scores[index] for index in range(count))


def _results(reply: object) -> object:
    return reply.get("results") if isinstance(reply, dict) else None


def _finite(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # more than a float can hold
        return None


def _sendable(text: str) -> str:
    """The head of a text, as an endpoint takes it: valid Unicode, no NUL, not blank."""
    head = text[:MAX_TEXT_CHARS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    return head if head.strip() else "-"


def _key(question: str, texts: Sequence[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for text in (question, *texts):
        data = text.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
