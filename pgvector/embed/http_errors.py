"""What an endpoint means when it does not answer with vectors. No I/O."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from ..domain.errors import EmbedderError, EmbedderUnavailable, InputTooLong
from .endpoint_url import Endpoint, redacted

# A day-long Retry-After is a wrong clock more often than a wish; past this we ask again.
MAX_RETRY_AFTER_S = 900.0
_EXCERPT_CHARS = 200
# Gateways answer with these while the model behind them is busy, loading or gone.
_BUSY_STATUSES = frozenset({408, 424, 425, 429})
# Servers that take issue with the body of a request use one of these.
_BODY_STATUSES = frozenset({400, 413, 422, 500, 501})
# As Ollama, llama.cpp, vLLM, TEI, OpenAI, Azure and other providers say it.
_TOO_LONG = re.compile(
    r"\b(input|prompt|text|sequence|content|string)\b.{0,40}\b(too (long|large|big)|larger than)"
    r"|context.{0,8} (length|window|size)|maximum context|too many tokens|(less|fewer) than \d+ tokens"
    r"|max\w* (input|sequence) length|exceed\w*.{0,60}\b(context|tokens?|length)\b"
    r"|tokens (per|in each) (request|submitted batch|batch)",
    re.IGNORECASE | re.DOTALL,
)
# ... and that a request holds too many texts.
_TOO_MANY = re.compile(
    r"batch.{0,30}\b(size|limit)\b.{0,60}(\d|exceed)|at most \d+ (requests|inputs|texts)|(too many|number of) inputs"
    r"|array too long|number of texts must",
    re.IGNORECASE | re.DOTALL,
)
_PHYSICAL_BATCH = re.compile(r"physical batch size", re.IGNORECASE)
_UNKNOWN_MODEL = re.compile(r"model.{0,120}(not found|not exist|not loaded|unknown)", re.IGNORECASE | re.DOTALL)
_DIMENSIONS = re.compile(r"dimension|matryoshka", re.IGNORECASE)


class NoSuchEndpoint(EmbedderError):
    """The server has nothing at this path: perhaps it speaks the other protocol."""


class TooManyTexts(InputTooLong):
    """The endpoint takes fewer texts in one request."""


class BodyRefused(EmbedderError):
    """The endpoint takes issue with the request's body, perhaps with a parameter that it does not know."""

    def names_dimensions(self) -> bool:
        """Whether it says that it is the `dimensions`."""
        return _DIMENSIONS.search(str(self)) is not None


def refusal(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> EmbedderError:
    """The error that a reply with a status other than 200 means."""
    said = _said(body)
    message = f"{endpoint.label} answered HTTP {status}" + (f": {excerpt(said)}" if said else "")
    if status in _BODY_STATUSES:
        # llama.cpp's physical batch is of tokens: there, one text is too long.
        if _TOO_MANY.search(said) and not _PHYSICAL_BATCH.search(said):
            return TooManyTexts(message)
        if status == 413 or _TOO_LONG.search(said):
            return InputTooLong(message)
    if status in (400, 422, 501):
        return BodyRefused(message)
    if status in _BUSY_STATUSES or status >= 500:
        return EmbedderUnavailable(message, retry_after_s=retry_after_s(headers.get("retry-after", "")))
    if status in (401, 403):
        return EmbedderError(f"{message}; check the API key")
    if status in (404, 405):
        if _UNKNOWN_MODEL.search(said):
            return EmbedderError(f"{message}; check embed_model")
        return NoSuchEndpoint(f"{message}; check embed_url")
    if 300 <= status < 400:
        return EmbedderError(f"{message}, a redirect to {redacted(headers.get('location', ''))!r}; set embed_url to it")
    return EmbedderError(message)


def without_vectors(endpoint: Endpoint, key: str, reply: Mapping[str, object]) -> EmbedderError:
    """The error that a reply with status 200 means that has no list `key`."""
    said = _error_text(reply)
    # LM Studio answers paths it does not have with status 200 and an error.
    if said and "endpoint" in said.lower():
        return NoSuchEndpoint(f"{endpoint.label}: {excerpt(said)}")
    got = said or f"the keys {', '.join(sorted(map(str, reply))) or '(none)'}"
    return EmbedderError(f"{endpoint.label}: expected a list {key!r} in the reply, got {excerpt(got)}")


def retry_after_s(value: str, *, now: float | None = None) -> float | None:
    """Seconds that a Retry-After header (seconds or an HTTP date) asks for, 0 to 900; None when it says nothing.

    `now` is in seconds since the epoch; the system's clock when not given.
    """
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
        except (ValueError, OverflowError, TypeError, IndexError):
            return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def excerpt(text: str) -> str:
    """The head of a text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _EXCERPT_CHARS else flat[:_EXCERPT_CHARS] + "..."


def _said(body: bytes) -> str:
    """What an error reply says, be it JSON of some shape or plain text."""
    text = body[:100_000].decode("utf-8", "replace").strip()
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _error_text(reply) or text


def _error_text(reply: object, depth: int = 3) -> str:
    if isinstance(reply, str):
        return reply
    if isinstance(reply, list) and reply and depth:
        return _error_text(reply[0], depth - 1)
    if isinstance(reply, Mapping) and depth:
        for key in ("error", "message", "detail", "msg"):
            if text := _error_text(reply.get(key), depth - 1):
                return text
    return ""
