"""Embeddings from an HTTP endpoint: Ollama's /api/embed or OpenAI's /v1/embeddings."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..domain.errors import EmbedderUnavailable, InputTooLong
from .embedder import Counters, Vector, readable
from .embedding_api import (
    BodyRefused,
    RequestOptions,
    TooManyDimensions,
    TooManyTexts,
    embedding_refusal,
    endpoints_for,
    request_body,
    vectors_in,
)
from .endpoint import Endpoint, Reply
from .http_client import Deadline, HttpClient
from .instructions import Instructions, instructions_for, is_matryoshka

# A question's meaning is in its first page, and a pasted log must not cost more than a question.
MAX_QUERY_CHARS = 8_000
# About 6,000 tokens of English; the store keeps the whole text.
MAX_DOCUMENT_CHARS = 24_000
# English has 4 bytes a token and more, code 3, Chinese 3 to a character of about one token.
_BYTES_PER_TOKEN = 3
# They bring 24,000 characters down to 94, which the smallest models take.
_SHRINK_ROUNDS = 8
# A text of this length that the endpoint refuses for a reason we do not recognize is retried with so much of its head.
_SUSPICIOUS_CHARS, _SAFE_CHARS = 1_500, 1_000


class HttpEmbedder:
    """Embeds over HTTP; connects and detects the protocol at the first call. Safe to call from several threads.

    `timeout_s` bounds one request; the `timeout_s` of a call bounds the whole call. A batch of `max_batch_tokens` must
    finish within its timeout on a CPU. `dimensions` is `auto` (models known to allow it are asked for shorter
    vectors where theirs are longer), `always` or `never`; `ca_file` holds the certificates to trust instead of the
    usual ones. Raises ConfigurationError for a URL, protocol name or API key that cannot be used.
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
        max_batch_texts: int = 64,
        max_batch_tokens: int = 8_192,
        dimensions: str = "auto",
        ca_file: str = "",
    ) -> None:
        self.model = model
        self.dims = dims
        self.instructions = instructions_for(model) if instructions is None else instructions
        self._timeout_s = timeout_s
        self._max_batch_texts = max_batch_texts
        self._max_batch_tokens = max_batch_tokens
        self._may_cut = dimensions == "auto" and is_matryoshka(model)
        self._options = RequestOptions(base64=True, dimensions=dimensions == "always")
        self._options_work = False
        self._counters = Counters("embed_requests", "embed_texts", "embed_errors", "embed_ms", "embed_wait_ms")
        self._client = HttpClient(url, endpoints_for(url, api), purpose="embedding", api_key=api_key, ca_file=ca_file)

    @property
    def endpoint(self) -> str:
        """Return the address as messages name it, without secrets."""
        return self._client.endpoint.label

    def embed_documents(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """Return one unit vector a text, in order; a text over the model's context is embedded by its head.

        Raises EmbedderUnavailable when the endpoint does not answer within `timeout_s`, EmbedderError when it
        answers with something else than the vectors asked for.
        """
        return self._vectors(
            [readable(text, MAX_DOCUMENT_CHARS) for text in texts], self.instructions.document, timeout_s
        )

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:
        """Return the unit vector of a question, from its first 8,000 characters. Raises as embed_documents."""
        return self.embed_queries([text], timeout_s=timeout_s)[0]

    def embed_queries(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """Return the unit vectors of several questions. Raises as embed_documents."""
        return self._vectors([readable(text, MAX_QUERY_CHARS) for text in texts], self.instructions.query, timeout_s)

    def rank_of_word(self, word: str) -> int | None:
        """Return None: an endpoint does not tell which words its model knows."""
        return None

    def stats(self) -> dict[str, int]:
        """Return requests sent, texts embedded, calls failed, milliseconds in calls and waiting for answers."""
        return self._counters.snapshot()

    def close(self) -> None:
        """Close the connections; calls in progress and later ones raise EmbedderUnavailable."""
        self._client.close()

    def _vectors(self, texts: Sequence[str], prefix: str, timeout_s: float) -> list[Vector]:
        with self._counters.timed():
            deadline = Deadline.after(timeout_s)
            vectors: list[Vector] = []
            while len(vectors) < len(texts):
                vectors += self._embed(self._next_batch(texts, len(vectors)), prefix, deadline)
            return vectors

    def _next_batch(self, texts: Sequence[str], start: int) -> Sequence[str]:
        end, tokens = start, 0
        while end < len(texts) and end - start < self._max_batch_texts:
            tokens += len(texts[end].encode()) // _BYTES_PER_TOKEN + 1  # too many rather than too few
            if end > start and tokens > self._max_batch_tokens:
                break
            end += 1
        return texts[start:end]

    def _embed(self, texts: Sequence[str], prefix: str, deadline: Deadline) -> list[Vector]:
        """Embed one batch; if it is refused as too long, embed its halves, or the head of a single text."""
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
        return self._client.ask(lambda endpoint: self._exchange(endpoint, texts, deadline))

    def _exchange(self, endpoint: Endpoint, texts: Sequence[str], deadline: Deadline) -> list[Vector]:
        """Request vectors with as many options as the endpoint understands, which is found out at the first request."""
        while True:
            options = self._options
            reply = self._post(endpoint, texts, options, deadline)
            try:
                if not reply.ok:
                    raise embedding_refusal(endpoint, reply)
                vectors = vectors_in(endpoint, reply.body, count=len(texts), dims=self.dims, cut=options.cut)
            except (TooManyDimensions, BodyRefused) as exc:
                simpler = self._other_options(endpoint, options, exc)
                if simpler is None:
                    raise
                self._options = simpler
            else:
                self._options_work = True
                self._counters.add(embed_texts=len(texts))
                return vectors

    def _other_options(
        self, endpoint: Endpoint, options: RequestOptions, exc: TooManyDimensions | BodyRefused
    ) -> RequestOptions | None:
        """Return the options to try after `exc`, or None when none are left. No options are tried twice."""
        if isinstance(exc, TooManyDimensions):
            return self._for_shorter_vectors(options)
        if options.dimensions and self._may_cut and exc.names_dimensions():
            return options._replace(dimensions=False, cut=True)
        if options.base64 and endpoint.api == "openai" and not self._options_work:
            return options._replace(base64=False)
        return None

    def _for_shorter_vectors(self, options: RequestOptions) -> RequestOptions | None:
        if not self._may_cut or options.cut:
            return None
        # Fewer dimensions were asked for in vain: this server does not know `dimensions`.
        return options._replace(cut=True) if options.dimensions else options._replace(dimensions=True)

    def _post(self, endpoint: Endpoint, texts: Sequence[str], options: RequestOptions, deadline: Deadline) -> Reply:
        request_deadline = min(deadline, Deadline.after(self._timeout_s), key=lambda each: each.at)
        if request_deadline.left_s() <= 0:
            raise EmbedderUnavailable(f"{endpoint.label}: no complete answer within {request_deadline.total_s:.3g} s")
        body = request_body(endpoint, self.model, texts, dims=self.dims, options=options)
        self._counters.add(embed_requests=1)
        began = time.monotonic()
        reply = self._client.send(endpoint, body, request_deadline)
        self._counters.add(embed_wait_ms=round((time.monotonic() - began) * 1000))
        return reply
