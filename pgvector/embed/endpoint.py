"""Endpoints: where the URL of a setting leads, the JSON of a reply, and the meaning of a refusal. No I/O."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ..domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable
from ..domain.gil import GilYield
from ..domain.patterns import late_pattern
from ..domain.text import on_one_line

# A day-long Retry-After is a wrong clock more often than a request; past this we ask again.
MAX_RETRY_AFTER_S = 900.0
_EXCERPT_CHARS = 200
ESCAPES = "in a user or password write / ? # and @ as %2F %3F %23 and %40"
# Gateways answer with these while the model behind them is busy, loading or gone.
_BUSY_STATUSES = frozenset({408, 424, 425, 429})
_UNKNOWN_MODEL = late_pattern(r"model.{0,120}(not found|not exist|not loaded|unknown)", re.IGNORECASE | re.DOTALL)
_SMALL_BYTES = 32_768  # decoded at once: half a millisecond
_ARRAY_BYTES = 64  # a shorter array is not worth a step of its own
_BEGINS_WITH_NUMBER = late_pattern(rb"\[\s*-?[0-9]")
_MARK = "\0numbers"  # a key that no reply has: JSON can spell it, but nobody does


class Endpoint(NamedTuple):
    """Where to post, in which protocol, and the setting that names it. `url` holds no user or password."""

    api: str
    url: str
    setting: str = "embed_url"

    @property
    def label(self) -> str:
        """Return the address as messages and logs name it: without query and fragment."""
        return re.split(r"[?#]", self.url, maxsplit=1)[0]


def parse_url(url: str, setting: str = "embed_url") -> SplitResult:
    """Split the http(s) URL of a setting. Raises ConfigurationError that names both, without the URL's secrets."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises ValueError
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(
            f"{setting} {redacted(url)!r} is not an http:// or https:// URL with a host; "
            f"write it like http://127.0.0.1:11434{f', and {ESCAPES}' if '@' in url else ''}"
        )
    return parts


def redacted(url: str) -> str:
    """Return a URL, valid or not, without user, password, query and fragment."""
    scheme, separator, rest = url.strip().rpartition("://")
    # The last @ of all, since in a mistyped URL the password may hold a slash or a question mark.
    return scheme + separator + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def is_azure(parts: SplitResult) -> bool:
    """Return whether a URL has Azure's form: its path names deployments, and the key has a header of its own."""
    return "api-version=" in parts.query or (parts.hostname or "").endswith(
        (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
    )


def with_path(parts: SplitResult, path: str) -> str:
    """Return the URL with another path, without user and password."""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, parts.query, ""))


def paths_below(base: str, call: str) -> tuple[str, ...]:
    """Return where a call of OpenAI's API may be below a path without a version at its end, in the order to try them.

    The version may stand further up, as in DeepInfra's /v1/openai and Gemini's /v1beta/openai, or nowhere.
    """
    return (f"{base}/v1{call}", *([f"{base}{call}"] if base else []))


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete HTTP reply; header names are lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def ok(self) -> bool:
        """Return True for a status of 200 to 299."""
        return 200 <= self.status < 300


class NoSuchEndpoint(EmbedderError):
    """The server has nothing at this path: perhaps it speaks another protocol."""


def refusal(endpoint: Endpoint, reply: Reply) -> EmbedderError:
    """Return the error that a reply with another status than 200 to 299 means, whatever was asked."""
    message, status = refusal_message(endpoint, reply), reply.status
    if status in _BUSY_STATUSES or status >= 500:
        return EmbedderUnavailable(message, retry_after_s=retry_after_s(reply.headers.get("retry-after", "")))
    if status in (401, 403):
        return EmbedderError(f"{message}; check the API key")
    if status in (404, 405):
        return NoSuchEndpoint(f"{message}; check {endpoint.setting}")
    if 300 <= status < 400:
        location = redacted(reply.headers.get("location", ""))
        return EmbedderError(f"{message}, a redirect to {location!r}; set {endpoint.setting} to it")
    return EmbedderError(message)


def misses_model(reply: Reply) -> bool:
    """Return whether a server says with 404 or 405 that it has no such model, and not that it has no such path."""
    return reply.status in (404, 405) and _UNKNOWN_MODEL.search(error_text(reply.body)) is not None


def refusal_message(endpoint: Endpoint, reply: Reply) -> str:
    """Return the status of a reply and the beginning of its error text, in one line."""
    said = error_text(reply.body)
    return f"{endpoint.label} answered HTTP {reply.status}" + (f": {excerpt(said)}" if said else "")


def error_text(body: bytes) -> str:
    """Return the text of an error reply, be it JSON of some shape or plain text."""
    text = body[:100_000].decode("utf-8", "replace").strip()
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return error_in(reply) or text


def error_in(reply: object, depth: int = 3) -> str:
    """Return the message somewhere in a decoded error reply; empty when there is none."""
    if isinstance(reply, str):
        return reply
    if isinstance(reply, list) and reply and depth:
        return error_in(reply[0], depth - 1)
    if isinstance(reply, Mapping) and depth:
        for key in ("error", "message", "detail", "msg"):
            if text := error_in(reply.get(key), depth - 1):
                return text
    return ""


def excerpt(text: str) -> str:
    """Return the head of a text on one line, fit for a log and a terminal."""
    flat = on_one_line(text[: 100 * _EXCERPT_CHARS])
    return flat if len(flat) <= _EXCERPT_CHARS else flat[:_EXCERPT_CHARS] + "..."


def retry_after_s(value: str, *, now: float | None = None) -> float | None:
    """Return the seconds that a Retry-After header (seconds or an HTTP date) asks for, 0 to 900; None without any.

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


def json_in(endpoint: Endpoint, body: bytes) -> Any:
    """Decode the body of a reply. Raises EmbedderError that says what came instead of JSON."""
    try:
        return loads(body)
    except (ValueError, RecursionError) as exc:
        start = body[:1024].decode("utf-8", "replace").strip()
        if start.startswith(("{", "[")):
            raise EmbedderError(f"{endpoint.label} sent broken or cut-off JSON ({len(body)} bytes): {exc}") from None
        raise EmbedderError(f"{endpoint.label}: expected JSON, got {excerpt(start) or 'an empty reply'!r}") from None


def loads(body: bytes) -> Any:
    """Decode JSON as `json.loads` does, yielding the GIL between arrays of numbers. Raises ValueError.

    A reply of 128 vectors takes `json` 25 ms in a single step, and no hook of the agent runs meanwhile.
    """
    if len(body) <= _SMALL_BYTES:
        return json.loads(body)
    gil = GilYield()
    arrays: list[bytes] = []
    rest: list[bytes] = []
    position = kept = 0
    while found := _BEGINS_WITH_NUMBER.search(body, position):
        start, position = found.start(), found.end()
        # No further than the next array, so that each byte is looked at only a few times, whatever the reply is.
        following = body.find(b"[", position)
        end = body.find(b"]", position, following if following >= 0 else len(body)) + 1
        if end - start < _ARRAY_BYTES or body.find(b'"', position, end) >= 0 or body.find(b"{", position, end) >= 0:
            continue
        rest += (body[kept:start], json.dumps({_MARK: len(arrays)}).encode())
        arrays.append(body[start:end])
        position = kept = end
        gil.step()
    rest.append(body[kept:])

    def put_back(decoded: dict[str, Any]) -> Any:
        number = decoded.get(_MARK)
        if number is None:
            return decoded
        gil.step()
        return json.loads(arrays[number])

    try:
        return json.loads(b"".join(rest), object_hook=put_back)
    except ValueError:
        return json.loads(body)  # what looked like an array of numbers may have stood in a string
