"""Vectors that the database holds already of a text, so that no text is embedded twice."""

from __future__ import annotations

from collections.abc import Collection

from ..domain.text import digest
from .connection import DeadlineConnection
from .sql import query

ThemedText = tuple[str, str]  # theme, text


def known_vectors(conn: DeadlineConnection, texts: Collection[ThemedText]) -> dict[str, list[float]]:
    """Return the vectors of those texts that a memory or a turn of the same theme holds letter for letter, by text."""
    wanted = list(dict.fromkeys(texts))
    row = {"themes": [theme for theme, _ in wanted], "digests": [digest(text) for _, text in wanted]}
    found = conn.execute(query("known_vectors", own_themes=conn.own_themes), row, binary=True)
    return {wanted[known.number - 1][1]: known.embedding.to_list() for known in found}
