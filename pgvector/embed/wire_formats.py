"""The two embedding protocols as data: request bodies and replies. No I/O."""

from __future__ import annotations

import binascii
import json
import math
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..domain.errors import EmbedderError
from ..domain.gil import paced
from . import json_decoding
from .embedder import Vector
from .endpoint_url import Endpoint
from .http_errors import excerpt, without_vectors

# Vectors of 32-bit floats are this near to unit length when they were brought to it.
_UNIT_TOLERANCE = 1e-6
# Models' own sizes are multiples of this; other lengths are no vectors of a model that may be cut.
_SIZE_STEP = 64


class TooManyDimensions(EmbedderError):
    """The vectors are longer than the database's."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a request is made beyond model and texts, and how its reply is read.

    base64: ask for vectors as the bytes of 32-bit floats, a third of the JSON's size; only OpenAI's protocol has that.
    dimensions: ask for vectors of the database's size.
    cut: take the head of longer vectors, which is what Matryoshka models are trained for.
    """

    base64: bool = False
    dimensions: bool = False
    cut: bool = False


def request_body(endpoint: Endpoint, model: str, texts: Sequence[str], *, dims: int, form: Form) -> bytes:
    """The JSON to post."""
    body: dict[str, Any] = {"model": model, "input": list(texts)}
    if form.base64 and endpoint.api == "openai":
        body["encoding_format"] = "base64"
    if form.dimensions:
        body["dimensions"] = dims
    return json.dumps(body, ensure_ascii=False).encode()


def vectors_in(endpoint: Endpoint, body: bytes, *, count: int, dims: int, cut: bool = False) -> list[Vector]:
    """The `count` unit vectors of a successful reply, in the order of the request; with `dims` 0 of any length.

    Raises EmbedderError that says what was expected and what came, TooManyDimensions when it is only that (and not
    `cut`), NoSuchEndpoint when the reply says so.
    """
    reply = _json_object(endpoint, body)
    key = "embeddings" if endpoint.api == "ollama" else "data"
    rows = reply.get(key)
    if not isinstance(rows, list):
        raise without_vectors(endpoint, key, reply)
    if endpoint.api == "openai":
        rows = _rows_by_index(endpoint, rows)
    if len(rows) != count:
        raise EmbedderError(f"{endpoint.label} answered {count} texts with {len(rows)} vectors; expected {count}")
    return [_unit_vector(endpoint, row, dims, number, cut) for number, row in paced(enumerate(rows, 1))]


def _json_object(endpoint: Endpoint, body: bytes) -> dict[str, Any]:
    start = body[:1024].decode("utf-8", "replace").strip()
    try:
        reply = json_decoding.loads(body)
    except (ValueError, RecursionError) as exc:
        if start.startswith(("{", "[")):
            raise EmbedderError(f"{endpoint.label} sent broken or cut-off JSON ({len(body)} bytes): {exc}") from None
        raise EmbedderError(f"{endpoint.label}: expected JSON, got {excerpt(start) or 'an empty reply'!r}") from None
    if not isinstance(reply, dict):
        raise EmbedderError(f"{endpoint.label}: expected a JSON object, got {excerpt(start)!r}")
    return reply


def _rows_by_index(endpoint: Endpoint, rows: list[Any]) -> list[Any]:
    try:
        ordered = sorted(rows, key=lambda row: int(row["index"]))
        if [int(row["index"]) for row in ordered] != list(range(len(ordered))):
            raise EmbedderError(f"{endpoint.label}: expected each index from 0 to {len(rows) - 1} once in 'data'")
        return [row["embedding"] for row in ordered]
    except (TypeError, KeyError, ValueError, OverflowError, AttributeError):
        raise EmbedderError(f"{endpoint.label}: expected 'index' and 'embedding' in each item of 'data'") from None


def _unit_vector(endpoint: Endpoint, row: object, dims: int, number: int, cut: bool) -> Vector:
    where = f"{endpoint.label}: vector {number}"
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
    try:
        norm = math.hypot(*row)
    except (TypeError, OverflowError):
        raise EmbedderError(f"{where}: expected {dims} numbers, got something that is not one") from None
    if not math.isfinite(norm):
        raise EmbedderError(f"{where}: expected finite numbers, got NaN or infinity")
    if norm < 1e-12:
        raise EmbedderError(f"{where}: expected a direction, got a vector of zeros")
    if abs(norm - 1.0) <= _UNIT_TOLERANCE:
        return row
    return [value / norm for value in row]


def _floats_in(text: str, where: str, dims: int) -> Vector:
    """The little-endian 32-bit floats in base64."""
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
