"""Embeddings from an HTTP endpoint: Ollama's /api/embed or OpenAI's /v1/embeddings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from ..domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable, InputTooLong
from .base import Vector
from .counters import Counters
from .instructions import Instructions, instructions_for
from .transport import Deadline, HttpTransport
from .wire import Endpoint, NoSuchEndpoint, endpoints_for, limits_batches, parse_url, refusal, request_body, vectors_in

MAX_BATCH_TEXTS = 64
# A batch of long texts must be through before the timeout on a CPU; about 24,000 tokens of English.
MAX_BATCH_CHARS = 96_000
# A question's meaning is in its first page, and a pasted log must not cost more than a question.
MAX_QUERY_CHARS = 8_000
# About 6,000 tokens of English; the store keeps the whole text.
MAX_DOCUMENT_CHARS = 24_000
# 24,000 characters are down to 94 then, which the smallest models take.
_SHRINK_ROUNDS = 8
# Shorter secrets are no secrets, and blotting them out would make messages unreadable.
_MIN_SECRET_CHARS = 4


class HttpEmbedder:
    """Embeds over HTTP; connects and detects the protocol at the first call. Safe to call from several threads.

    `timeout_s` bounds one request; the `timeout_s` of a call bounds the whole call. Raises ConfigurationError for
    a URL, protocol name or API key that cannot be used.
    """

    def __init__(
        self,
        *,
        url: str,
        model: str,
        dims: int,
        api: str = "auto",
        api_key: str = "",
        timeout_s: float = 30.0,
        instructions: Instructions | None = None,
    ) -> None:
        self.model = model
        self.dims = dims
        self.instructions = instructions_for(model) if instructions is None else instructions
        self._timeout_s = timeout_s
        self._candidates = endpoints_for(url, api)
        self._chosen = self._candidates[0] if len(self._candidates) == 1 else None
        self._max_batch_texts = MAX_BATCH_TEXTS
        self._counters = Counters("embed_requests", "embed_texts", "embed_errors", "embed_ms")
        parts = parse_url(url)
        user, password, key = unquote(parts.username or ""), unquote(parts.password or ""), _usable_key(api_key)
        self._secrets = [secret for secret in (key, password) if len(secret) >= _MIN_SECRET_CHARS]
        self._transport = HttpTransport(
            headers=_key_header(key, azure="api-version=" in parts.query),
            auth=(user, password) if user and not key else None,
        )

    @property
    def endpoint(self) -> str:
        """The address as messages name it, without secrets."""
        return (self._chosen or self._candidates[0]).label

    def embed_documents(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """One unit vector a text, in order; a text over the model's context is embedded by its head.

        Raises EmbedderUnavailable when the endpoint does not answer within `timeout_s`, EmbedderError when it
        answers with something else than the vectors asked for.
        """
        cleaned = [_sendable(text, MAX_DOCUMENT_CHARS) for text in texts]
        with self._accounted():
            deadline = Deadline.after(timeout_s)
            vectors: list[Vector] = []
            while len(vectors) < len(cleaned):
                batch = self._next_batch(cleaned, len(vectors))
                vectors += self._embed(batch, self.instructions.document, deadline)
            return vectors

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:
        """The unit vector of a question, of which the first 8,000 characters count. Raises as embed_documents."""
        with self._accounted():
            cleaned = _sendable(text, MAX_QUERY_CHARS)
            return self._embed([cleaned], self.instructions.query, Deadline.after(timeout_s))[0]

    def stats(self) -> dict[str, int]:
        """Requests sent, texts embedded, calls failed, and milliseconds spent in calls."""
        return self._counters.snapshot()

    def state(self) -> str:
        """Always closed: there is no breaker here."""
        return "closed"

    def close(self) -> None:
        """Close the connections; calls in progress and later ones raise EmbedderUnavailable."""
        self._transport.close()

    @contextmanager
    def _accounted(self) -> Iterator[None]:
        """Count and time the call, and keep secrets that an endpoint echoes out of its error."""
        began = time.monotonic()
        try:
            yield
        except EmbedderError as exc:
            self._counters.add(embed_errors=1)
            exc.args = tuple(self._without_secrets(str(arg)) for arg in exc.args)
            raise
        finally:
            self._counters.add(embed_ms=round((time.monotonic() - began) * 1000))

    def _without_secrets(self, message: str) -> str:
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message

    def _next_batch(self, texts: Sequence[str], start: int) -> Sequence[str]:
        end, chars = start, 0
        while end < len(texts) and end - start < self._max_batch_texts:
            chars += len(texts[end])
            if end > start and chars > MAX_BATCH_CHARS:
                break
            end += 1
        return texts[start:end]

    def _embed(self, texts: Sequence[str], prefix: str, deadline: Deadline) -> list[Vector]:
        """Embed one batch; refused as too long, try its halves, and of a single text its head."""
        try:
            return self._request([prefix + text for text in texts], deadline)
        except InputTooLong as exc:
            if len(texts) == 1:
                return [self._embed_head(texts[0], prefix, deadline)]
            middle = len(texts) // 2
            if limits_batches(exc):
                self._max_batch_texts = max(1, middle)
        return self._embed(texts[:middle], prefix, deadline) + self._embed(texts[middle:], prefix, deadline)

    def _embed_head(self, text: str, prefix: str, deadline: Deadline) -> Vector:
        for _ in range(_SHRINK_ROUNDS):
            text = text[: max(1, len(text) // 2)]
            try:
                return self._request([prefix + text], deadline)[0]
            except InputTooLong as exc:
                refused = exc
        raise refused

    def _request(self, texts: Sequence[str], deadline: Deadline) -> list[Vector]:
        if self._chosen is not None:
            return self._exchange(self._chosen, texts, deadline)
        refused: list[str] = []
        for endpoint in self._candidates:
            try:
                vectors = self._exchange(endpoint, texts, deadline)
            except NoSuchEndpoint as exc:
                refused.append(str(exc))
                continue
            except InputTooLong:
                self._chosen = endpoint
                raise
            self._chosen = endpoint
            return vectors
        raise EmbedderError(f"embed_url leads to no embedding endpoint: {'; '.join(refused)}")

    def _exchange(self, endpoint: Endpoint, texts: Sequence[str], deadline: Deadline) -> list[Vector]:
        request_deadline = min(deadline, Deadline.after(self._timeout_s), key=lambda each: each.at)
        if request_deadline.left_s() <= 0:
            raise EmbedderUnavailable(f"{endpoint.label}: no complete answer within {request_deadline.total_s:.3g} s")
        self._counters.add(embed_requests=1)
        body = request_body(self.model, texts)
        reply = self._transport.post(endpoint.url, body, label=endpoint.label, deadline=request_deadline)
        if not 200 <= reply.status < 300:
            raise refusal(endpoint, reply.status, reply.headers, reply.body)
        vectors = vectors_in(endpoint, reply.body, count=len(texts), dims=self.dims)
        self._counters.add(embed_texts=len(texts))
        return vectors


def _sendable(text: str, max_chars: int) -> str:
    """The head of a text, as an endpoint takes it: valid Unicode, no NUL, not blank."""
    head = text[:max_chars].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    # Endpoints refuse or drop a blank input, and one blank row must not fail its batch.
    return head if head.strip() else "-"


def _usable_key(api_key: str) -> str:
    key = api_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError("the embedding endpoint's API key holds characters that no HTTP header can; check it")
    return key


def _key_header(key: str, *, azure: bool) -> dict[str, str]:
    if not key:
        return {}
    return {"api-key": key} if azure else {"Authorization": f"Bearer {key}"}
