"""Compares stored vectors with those that their texts get now: another model may have come by the same name."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial

from ...domain.errors import HermesPgvectorError
from ...domain.format import plural
from ...embed.embedder import Embedder, space_of
from ...store.connection import translated
from ...store.pool import connect
from ...store.sql import query
from ...store.vectors import recorded_space
from .check import DoctorContext

_query = partial(query, package=__package__)
_SAME = 0.9  # a model that is only computed in another way, as in fewer bits, gives nearer ones
_BYTES = 120  # a longer text may have been embedded in parts, which have 64 tokens or letters outside ASCII at least
_DEADLINE_S = 10.0


def made_otherwise(context: DoctorContext, embedder: Embedder) -> str:
    """Return in words how many stored texts would get another vector now; "" if none, or none can be compared.

    One alone may be a text that somebody's SQL has changed. What fails here is told by other checks.
    """
    try:
        rows = _samples(context, embedder)
        vectors = embedder.embed_documents([row[0] for row in rows], timeout_s=context.settings.embed_timeout_s)
    except HermesPgvectorError:
        return ""
    near = [_cosine(row[1], list(vector)) for row, vector in zip(rows, vectors, strict=True)]
    other = [each for each in near if each < _SAME]
    if not other or (len(other) == 1 and len(near) > 1):
        return ""
    texts = plural(len(near), "stored text")
    return f"{len(other)} of {texts} would get another vector now (similarity {min(other):.2f})"


def _samples(context: DoctorContext, embedder: Embedder) -> Sequence[tuple[str, list[float]]]:
    """Return the oldest and the newest texts with their vectors, if these are of the embedder's model."""
    conninfo = context.settings.dsn or (context.locate() if context.locate is not None else "")
    if not conninfo:
        return []
    with connect(conninfo) as conn, translated():
        conn.deadline = time.monotonic() + _DEADLINE_S
        if not space_of(embedder).comparable(recorded_space(conn)):
            return []
        return [(row.content, row.vector) for row in conn.execute(_query("texts_with_vectors"), {"bytes": _BYTES})]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    size = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / size if size else 0.0
