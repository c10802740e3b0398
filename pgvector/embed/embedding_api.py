"""The two embedding protocols as data: addresses, request bodies, vectors and refusals. No I/O."""

from __future__ import annotations

import binascii
import math
import re
import sys
from array import array
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from ..domain.errors import ConfigurationError, EmbedderError, InputTooLong
from ..domain.gil import yielding_gil
from ..domain.patterns import late_pattern
from .embedder import Vector
from .endpoint import (
    Endpoint,
    NoSuchEndpoint,
    Reply,
    error_in,
    error_text,
    excerpt,
    is_azure,
    json_in,
    misses_model,
    parse_url,
    paths_below,
    refusal,
    refusal_message,
    with_path,
)

# Vectors of 32-bit floats are this near to unit length once normalized.
_UNIT_TOLERANCE = 1e-6
# Models' native sizes are multiples of this; a vector of another length is not one that may be cut.
_SIZE_STEP = 64
_KNOWN_SUFFIX = late_pattern(r"(/api/embed(dings)?|/api|/v\d+/embeddings|/v\d+)$")
# Servers that reject the body of a request use one of these.
_BODY_STATUSES = frozenset({400, 413, 422, 500, 501})
# How Ollama, llama.cpp, vLLM, TEI, OpenAI, Azure and other providers say that a text is too long ...
_TOO_LONG = late_pattern(
    r"\b(input|prompt|text|sequence|content|string)\b.{0,40}\b(too (long|large|big)|larger than)"
    r"|context.{0,8} (length|window|size)|maximum context|too many tokens|(less|fewer) than \d+ tokens"
    r"|max\w* (input|sequence) length|exceed\w*.{0,60}\b(context|tokens?|length)\b"
    r"|tokens (per|in each) (request|submitted batch|batch)",
    re.IGNORECASE | re.DOTALL,
)
# ... and that a request holds too many texts.
_TOO_MANY = late_pattern(
    r"batch.{0,30}\b(size|limit)\b.{0,60}(\d|exceed)|at most \d+ (requests|inputs|texts)|(too many|number of) inputs"
    r"|array too long|number of texts must",
    re.IGNORECASE | re.DOTALL,
)
_PHYSICAL_BATCH = late_pattern(r"physical batch size", re.IGNORECASE)
_DIMENSIONS = late_pattern(r"dimension|matryoshka", re.IGNORECASE)


class TooManyTexts(InputTooLong):
    """The endpoint takes fewer texts in one request."""


class TooManyDimensions(EmbedderError):
    """The vectors are longer than the database's."""


class BodyRefused(EmbedderError):
    """The endpoint takes issue with the request's body, perhaps with a parameter that it does not know."""

    def names_dimensions(self) -> bool:
        """Return whether the message says that `dimensions` is the reason."""
        return _DIMENSIONS.search(str(self)) is not None


class RequestOptions(NamedTuple):
    """How a request is made beyond model and texts, and how its reply is read.

    base64: ask for vectors as the bytes of 32-bit floats, a third of the JSON's size; only OpenAI's protocol has that.
    dimensions: ask for vectors of the database's size.
    cut: take the head of longer vectors, which is what Matryoshka models are trained for.
    """

    base64: bool = False
    dimensions: bool = False
    cut: bool = False


def endpoints_for(url: str, api: str) -> tuple[Endpoint, ...]:
    """Return the endpoints that the URL and `api` leave open, in the order in which to try them.

    Raises ConfigurationError for a URL or an `api` that cannot be used.
    """
    parts = parse_url(url)
    path = parts.path.rstrip("/")
    base = _KNOWN_SUFFIX.sub("", path)
    ollama = Endpoint("ollama", with_path(parts, f"{base}/api/embed"))
    paths = _openai_paths(path, base, azure=is_azure(parts))
    openai = tuple(Endpoint("openai", with_path(parts, each)) for each in paths)
    if api not in ("auto", "", "ollama", "openai"):
        raise ConfigurationError(f"embed_api {api!r} is not known; use auto, ollama or openai")
    if api == "ollama" or (api != "openai" and re.search(r"/api(/embed(dings)?)?$", path)):
        return (ollama,)
    if api == "openai" or re.search(r"(/v\d+|/embeddings)$", path) or is_azure(parts):
        return openai
    return (ollama, *openai)


def _openai_paths(path: str, base: str, *, azure: bool) -> tuple[str, ...]:
    if path.endswith("/embeddings") and not path.endswith("/api/embeddings"):
        return (path,)
    if azure:
        return (f"{path or '/openai/v1'}/embeddings",)
    if re.search(r"/v\d+$", path):
        return (f"{path}/embeddings",)
    return paths_below(base, "/embeddings")


def request_body(
    endpoint: Endpoint, model: str, texts: Sequence[str], *, dims: int, options: RequestOptions
) -> dict[str, object]:
    """Return the JSON object to post."""
    body: dict[str, object] = {"model": model, "input": list(texts)}
    if options.base64 and endpoint.api == "openai":
        body["encoding_format"] = "base64"
    if options.dimensions:
        body["dimensions"] = dims
    return body


def embedding_refusal(endpoint: Endpoint, reply: Reply) -> EmbedderError:
    """Return the error that a reply with another status than 200 to 299 means."""
    said, status = error_text(reply.body), reply.status
    message = refusal_message(endpoint, reply)
    if status in _BODY_STATUSES:
        # llama.cpp's physical batch counts tokens: if it is exceeded, one text is too long.
        if _TOO_MANY.search(said) and not _PHYSICAL_BATCH.search(said):
            return TooManyTexts(message)
        if status == 413 or _TOO_LONG.search(said):
            return InputTooLong(message)
    if status in (400, 422, 501):
        return BodyRefused(message)
    if misses_model(reply):
        return EmbedderError(f"{message}; check embed_model")
    return refusal(endpoint, reply)


def vectors_in(endpoint: Endpoint, body: bytes, *, count: int, dims: int, cut: bool = False) -> list[Vector]:
    """Return the `count` unit vectors of a successful reply, in the request's order; with `dims` 0 of any length.

    Raises EmbedderError that says what was expected and what came, TooManyDimensions if only the length is wrong (not
    with `cut`), NoSuchEndpoint when the reply says so.
    """
    reply = json_in(endpoint, body)
    if not isinstance(reply, dict):
        start = body[:1024].decode("utf-8", "replace")
        raise EmbedderError(f"{endpoint.label}: expected a JSON object, got {excerpt(start)!r}")
    key = "embeddings" if endpoint.api == "ollama" else "data"
    rows = reply.get(key)
    if not isinstance(rows, list):
        raise _without_vectors(endpoint, key, reply)
    if endpoint.api == "openai":
        rows = _rows_by_index(endpoint, rows)
    if len(rows) != count:
        raise EmbedderError(f"{endpoint.label}: expected one vector for each text, {count}, got {len(rows)}")
    return [_vector_in(f"{endpoint.label}: vector {n}", row, dims, cut) for n, row in yielding_gil(enumerate(rows, 1))]


def _without_vectors(endpoint: Endpoint, key: str, reply: Mapping[str, object]) -> EmbedderError:
    said = error_in(reply)
    # LM Studio answers paths it does not have with status 200 and an error.
    if said and "endpoint" in said.lower():
        return NoSuchEndpoint(f"{endpoint.label}: {excerpt(said)}")
    got = said or f"the keys {', '.join(sorted(map(str, reply))) or '(none)'}"
    return EmbedderError(f"{endpoint.label}: expected a list {key!r} in the reply, got {excerpt(got)}")


def _rows_by_index(endpoint: Endpoint, rows: list[Any]) -> list[Any]:
    """Return the vectors in the request's order; a row without an index, as Gemini's first, has its place."""
    try:
        placed = sorted(((int(row.get("index", n)), row["embedding"]) for n, row in enumerate(rows)), key=itemgetter(0))
    except (TypeError, KeyError, ValueError, OverflowError, AttributeError):
        raise EmbedderError(f"{endpoint.label}: expected 'index' and 'embedding' in each item of 'data'") from None
    if [index for index, _ in placed] != list(range(len(placed))):
        raise EmbedderError(f"{endpoint.label}: expected each index from 0 to {len(rows) - 1} once in 'data'")
    return [vector for _, vector in placed]


def _vector_in(where: str, row: object, dims: int, cut: bool) -> Vector:
    if isinstance(row, str):
        row = _floats_in(row, where, dims)
    if not isinstance(row, list):
        raise EmbedderError(f"{where}: expected a list of {dims} numbers, got {type(row).__name__}")
    dims = dims or len(row)
    may_be_cut = len(row) > dims and len(row) % _SIZE_STEP == 0
    if may_be_cut and cut:
        del row[dims:]
    if len(row) != dims:
        kind = TooManyDimensions if may_be_cut else EmbedderError
        raise kind(
            f"{where}: expected {dims} dimensions, got {len(row)}; "
            "the model and the database's dimension must agree: check embed_model"
        )
    return _unit_vector(where, row)


def _unit_vector(where: str, row: Vector) -> Vector:
    try:
        norm = math.hypot(*row)
    except (TypeError, OverflowError):
        raise EmbedderError(f"{where}: expected {len(row)} numbers, got something that is not one") from None
    if not math.isfinite(norm):
        raise EmbedderError(f"{where}: expected finite numbers, got NaN or infinity")
    if norm < 1e-12:
        raise EmbedderError(f"{where}: expected a direction, got a vector of zeros")
    if abs(norm - 1.0) <= _UNIT_TOLERANCE:
        return row
    return [value / norm for value in row]


def _floats_in(text: str, where: str, dims: int) -> Vector:
    """Return the little-endian 32-bit floats that are encoded in base64."""
    values = array("f")
    try:
        values.frombytes(binascii.a2b_base64(text, strict_mode=True))
    except (ValueError, binascii.Error):
        raise EmbedderError(
            f"{where}: expected {dims} numbers or their bytes in base64, got {excerpt(text[:40])!r}"
        ) from None
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()
