"""The two embedding protocols as data: addresses, request bodies, replies, refusals. No I/O."""

from __future__ import annotations

import json
import math
import re
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ..domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable, InputTooLong
from ..domain.pace import paced
from . import paced_json
from .base import Vector

Api = Literal["ollama", "openai"]

# A day-long Retry-After is a wrong clock more often than a wish; past this we ask again.
MAX_RETRY_AFTER_S = 900.0
_EXCERPT_CHARS = 200
_PACE = 8  # vectors brought to unit length between two breaths: half a millisecond
# Gateways answer with these while the model behind them is busy, loading or gone.
_BUSY_STATUSES = frozenset({408, 424, 425, 429})
_KNOWN_SUFFIX = re.compile(r"(/api/embed(dings)?|/api|/v\d+/embeddings|/v\d+)$")
_TOO_LONG = re.compile(
    r"\b(input|prompt|text|sequence|content|string)\b.{0,40}\btoo (long|large)"
    r"|context (length|window|size)|maximum context|too many tokens|(less|fewer) than \d+ tokens"
    r"|max\w* (input|sequence) length|exceed\w*.{0,60}\b(context|tokens|length)"
    r"|maximum allowed batch size",
    re.IGNORECASE | re.DOTALL,
)
_BATCH_LIMIT = re.compile(r"maximum allowed batch size", re.IGNORECASE)
_UNKNOWN_MODEL = re.compile(r"model.{0,120}(not found|not exist|not loaded|unknown)", re.IGNORECASE | re.DOTALL)


class NoSuchEndpoint(EmbedderError):
    """The server has nothing at this path: perhaps it speaks the other protocol."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to post, and in which protocol. `url` holds no user or password; `label` no query either."""

    api: Api
    url: str

    @property
    def label(self) -> str:
        """How messages and logs name it."""
        return re.split(r"[?#]", self.url, maxsplit=1)[0]


def parse_url(url: str) -> SplitResult:
    """Split an http(s) URL. Raises ConfigurationError that names the URL without its secrets."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises ValueError
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(
            f"embed_url {redacted(url)!r} is not an http:// or https:// URL with a host; "
            "write it like http://127.0.0.1:11434"
        )
    return parts


def redacted(url: str) -> str:
    """A URL, valid or not, without user, password, query and fragment."""
    scheme, separator, rest = url.strip().rpartition("://")
    # The last @ of all, since in a mistyped URL the password may hold a slash or a question mark.
    return scheme + separator + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def endpoints_for(url: str, api: str) -> tuple[Endpoint, ...]:
    """What to post to: one endpoint where the URL or `api` decides, else both, in the order to try them.

    Raises ConfigurationError for a URL or an `api` that cannot be used.
    """
    parts = parse_url(url)
    path = parts.path.rstrip("/")
    base = _KNOWN_SUFFIX.sub("", path)

    def ollama() -> Endpoint:
        return Endpoint("ollama", _with_path(parts, f"{base}/api/embed"))

    def openai() -> Endpoint:
        if path.endswith("/embeddings") and not path.endswith("/api/embeddings"):
            return Endpoint("openai", _with_path(parts, path))
        if re.search(r"/v\d+$", path):
            return Endpoint("openai", _with_path(parts, f"{path}/embeddings"))
        return Endpoint("openai", _with_path(parts, f"{base}/v1/embeddings"))

    if api == "ollama":
        return (ollama(),)
    if api == "openai":
        return (openai(),)
    if api not in ("auto", ""):
        raise ConfigurationError(f"embed_api {api!r} is not known; use auto, ollama or openai")
    if re.search(r"/api(/embed(dings)?)?$", path):
        return (ollama(),)
    if re.search(r"(/v\d+|/embeddings)$", path):
        return (openai(),)
    return (ollama(), openai())


def _with_path(parts: SplitResult, path: str) -> str:
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, path, parts.query, ""))


def request_body(model: str, texts: Sequence[str]) -> bytes:
    """The same JSON in both protocols."""
    return json.dumps({"model": model, "input": list(texts)}, ensure_ascii=False).encode()


def vectors_in(endpoint: Endpoint, body: bytes, *, count: int, dims: int) -> list[Vector]:
    """The `count` unit vectors of a successful reply, in the order of the request.

    Raises EmbedderError that says what was expected and what came, NoSuchEndpoint when the reply says so.
    """
    reply = _json_object(endpoint, body)
    key = "embeddings" if endpoint.api == "ollama" else "data"
    rows = reply.get(key)
    if not isinstance(rows, list):
        raise _without_vectors(endpoint, key, reply)
    if endpoint.api == "openai":
        rows = _rows_by_index(endpoint, rows)
    if len(rows) != count:
        raise EmbedderError(f"{endpoint.label} answered {count} texts with {len(rows)} vectors; expected {count}")
    return [_unit_vector(endpoint, row, dims=dims, number=number) for number, row in paced(enumerate(rows, 1), _PACE)]


def _json_object(endpoint: Endpoint, body: bytes) -> dict[str, Any]:
    start = body[:1024].decode("utf-8", "replace").strip()
    try:
        reply = paced_json.loads(body)
    except (ValueError, RecursionError) as exc:
        if start.startswith(("{", "[")):
            raise EmbedderError(f"{endpoint.label} sent broken or cut-off JSON ({len(body)} bytes): {exc}") from None
        raise EmbedderError(f"{endpoint.label}: expected JSON, got {_excerpt(start) or 'an empty reply'!r}") from None
    if not isinstance(reply, dict):
        raise EmbedderError(f"{endpoint.label}: expected a JSON object, got {_excerpt(start)!r}")
    return reply


def _without_vectors(endpoint: Endpoint, key: str, reply: Mapping[str, Any]) -> EmbedderError:
    said = _error_text(reply)
    # LM Studio answers paths it does not have with status 200 and an error.
    if said and "endpoint" in said.lower():
        return NoSuchEndpoint(f"{endpoint.label}: {said}")
    got = said or f"the keys {', '.join(sorted(map(str, reply))) or '(none)'}"
    return EmbedderError(f"{endpoint.label}: expected a list {key!r} in the reply, got {_excerpt(got)}")


def _rows_by_index(endpoint: Endpoint, rows: list[Any]) -> list[Any]:
    try:
        ordered = sorted(rows, key=lambda row: int(row["index"]))
        if [int(row["index"]) for row in ordered] != list(range(len(ordered))):
            raise EmbedderError(f"{endpoint.label}: expected each index from 0 to {len(rows) - 1} once in 'data'")
        return [row["embedding"] for row in ordered]
    except (TypeError, KeyError, ValueError):
        raise EmbedderError(f"{endpoint.label}: expected 'index' and 'embedding' in each item of 'data'") from None


def _unit_vector(endpoint: Endpoint, row: object, *, dims: int, number: int) -> Vector:
    where = f"{endpoint.label}: vector {number}"
    if not isinstance(row, list):
        raise EmbedderError(f"{where}: expected a list of {dims} numbers, got {type(row).__name__}")
    if len(row) != dims:
        raise EmbedderError(
            f"{where}: expected {dims} dimensions, got {len(row)}; "
            "the model and the database's dimension must agree: check embed_model"
        )
    try:
        values = array("d", row)
    except (TypeError, OverflowError):
        raise EmbedderError(f"{where}: expected {dims} numbers, got something that is not one") from None
    norm = math.hypot(*values)
    if not math.isfinite(norm):
        raise EmbedderError(f"{where}: expected finite numbers, got NaN or infinity")
    if norm < 1e-12:
        raise EmbedderError(f"{where}: expected a direction, got a vector of zeros")
    return [value / norm for value in values]


def refusal(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> EmbedderError:
    """The error that a reply with a status other than 200 means."""
    said = _said(body)
    message = f"{endpoint.label} answered HTTP {status}" + (f": {_excerpt(said)}" if said else "")
    if status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(said)):
        return InputTooLong(message)
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


def limits_batches(error: InputTooLong) -> bool:
    """Whether the endpoint refused the number of texts rather than the length of one."""
    return _BATCH_LIMIT.search(str(error)) is not None


def retry_after_s(value: str, *, now: float | None = None) -> float | None:
    """Seconds that a Retry-After header (seconds or an HTTP date) asks for, 0 to 900; None when it says nothing.

    `now` is in seconds since the epoch; the system's clock when not given.
    """
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
        except (ValueError, OverflowError):
            return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def _said(body: bytes) -> str:
    """What an error reply says, be it JSON of some shape or plain text."""
    text = body[:100_000].decode("utf-8", "replace").strip()
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _error_text(reply) or text


def _error_text(reply: object) -> str:
    if isinstance(reply, str):
        return reply
    if isinstance(reply, Mapping):
        for key in ("error", "message", "detail"):
            if text := _error_text(reply.get(key)):
                return text
    return ""


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _EXCERPT_CHARS else flat[:_EXCERPT_CHARS] + "..."
