"""Embeddings from an HTTP endpoint: Ollama's /api/embed or OpenAI's /v1/embeddings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import unquote

from ..domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable, InputTooLong
from .counters import Counters
from .embedder import MAX_BATCH_TEXTS, MAX_BATCH_TOKENS, Vector
from .endpoint_url import Endpoint, endpoints_for, is_azure, parse_url
from .http_errors import BodyRefused, NoSuchEndpoint, TooManyTexts, refusal
from .instructions import Instructions, instructions_for, is_matryoshka
from .transport import Deadline, HttpTransport, Reply
from .wire_formats import Form, TooManyDimensions, request_body, vectors_in

# A question's meaning is in its first page, and a pasted log must not cost more than a question.
MAX_QUERY_CHARS = 8_000
# About 6,000 tokens of English; the store keeps the whole text.
MAX_DOCUMENT_CHARS = 24_000
# English has 4 bytes a token and more, code 3, Chinese 3 to a character of about one token.
_BYTES_PER_TOKEN = 3
# 24,000 characters are down to 94 then, which the smallest models take.
_SHRINK_ROUNDS = 8
# A text of this length is tried again by so much of its head where the endpoint refuses it and we do not see why.
_SUSPICIOUS_CHARS, _SAFE_CHARS = 1_500, 1_000
# Shorter secrets are no secrets, and blotting them out would make messages unreadable.
_MIN_SECRET_CHARS = 4


class HttpEmbedder:
    """Embeds over HTTP; connects and detects the protocol at the first call. Safe to call from several threads.

    `timeout_s` bounds one request; the `timeout_s` of a call bounds the whole call. `dimensions` is `auto` (models
    known to allow it are asked for shorter vectors where theirs are longer), `always` or `never`; `ca_file` holds the
    certificates to trust instead of the usual ones. Raises ConfigurationError for a URL, protocol name or API key
    that cannot be used.
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
        max_batch_texts: int = MAX_BATCH_TEXTS,
        max_batch_tokens: int = MAX_BATCH_TOKENS,
        dimensions: str = "auto",
        ca_file: str = "",
    ) -> None:
        self.model = model
        self.dims = dims
        self.instructions = instructions_for(model) if instructions is None else instructions
        self._timeout_s = timeout_s
        self._candidates = endpoints_for(url, api)
        self._chosen = self._candidates[0] if len(self._candidates) == 1 else None
        self._max_batch_texts = max_batch_texts
        self._max_batch_tokens = max_batch_tokens
        self._may_cut = dimensions == "auto" and is_matryoshka(model)
        self._form = Form(base64=True, dimensions=dimensions == "always")
        self._form_works = False
        self._counters = Counters("embed_requests", "embed_texts", "embed_errors", "embed_ms", "embed_wait_ms")
        parts = parse_url(url)
        user, password, key = unquote(parts.username or ""), unquote(parts.password or ""), _usable_key(api_key)
        self._secrets = [secret for secret in (key, password) if len(secret) >= _MIN_SECRET_CHARS]
        self._transport = HttpTransport(
            headers=_key_header(key, azure=is_azure(parts)),
            auth=(user, password) if user and not key else None,
            ca_file=ca_file,
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
        """Requests sent, texts embedded, calls failed, milliseconds spent in calls and on the way to the answers."""
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
        end, tokens = start, 0
        while end < len(texts) and end - start < self._max_batch_texts:
            tokens += estimated_tokens(texts[end])
            if end > start and tokens > self._max_batch_tokens:
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
            if isinstance(exc, TooManyTexts):
                self._max_batch_texts = max(1, middle)
        except BodyRefused:
            if len(texts) > 1 or len(texts[0]) < _SUSPICIOUS_CHARS:
                raise
            return self._request([prefix + texts[0][:_SAFE_CHARS]], deadline)
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
        """Ask and read, in the fullest form that the endpoint understands: it is found at the first request."""
        while True:
            form = self._form
            reply = self._post(endpoint, request_body(endpoint, self.model, texts, dims=self.dims, form=form), deadline)
            try:
                if not 200 <= reply.status < 300:
                    raise refusal(endpoint, reply.status, reply.headers, reply.body)
                vectors = vectors_in(endpoint, reply.body, count=len(texts), dims=self.dims, cut=form.cut)
            except (BodyRefused, TooManyDimensions) as exc:
                simpler = self._other_form(endpoint, form, exc)
                if simpler is None:
                    raise
                self._form = simpler
            else:
                self._form_works = True
                self._counters.add(embed_texts=len(texts))
                return vectors

    def _other_form(self, endpoint: Endpoint, form: Form, exc: EmbedderError) -> Form | None:
        """What to try after `exc`; None when there is nothing left. Each form leads to another one only once."""
        if isinstance(exc, TooManyDimensions):
            if not self._may_cut or form.cut:
                return None
            # Asked for fewer in vain: this server does not know `dimensions`.
            return replace(form, cut=True) if form.dimensions else replace(form, dimensions=True)
        if form.dimensions and self._may_cut and isinstance(exc, BodyRefused) and exc.names_dimensions():
            return replace(form, dimensions=False, cut=True)
        if form.base64 and endpoint.api == "openai" and not self._form_works:
            return replace(form, base64=False)
        return None

    def _post(self, endpoint: Endpoint, body: bytes, deadline: Deadline) -> Reply:
        request_deadline = min(deadline, Deadline.after(self._timeout_s), key=lambda each: each.at)
        if request_deadline.left_s() <= 0:
            raise EmbedderUnavailable(f"{endpoint.label}: no complete answer within {request_deadline.total_s:.3g} s")
        self._counters.add(embed_requests=1)
        began = time.monotonic()
        reply = self._transport.post(endpoint.url, body, label=endpoint.label, deadline=request_deadline)
        self._counters.add(embed_wait_ms=round((time.monotonic() - began) * 1000))
        return reply


def estimated_tokens(text: str) -> int:
    """About how many tokens a text is, rather too many than too few."""
    return len(text.encode()) // _BYTES_PER_TOKEN + 1


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
