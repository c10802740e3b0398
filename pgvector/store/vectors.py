"""Stored vectors: which model made them, those that can be reused, and the rows that still wait for theirs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from pgvector import Vector

from ..domain.text import digest
from ..domain.types import EmbeddingSpace, Store
from .connection import DeadlineConnection, pipelined
from .pipeline import Pipeline, Rows
from .sql import query

ThemedText = tuple[str, str]  # theme, text

STORES: tuple[Store, ...] = ("memories", "turns")
_LOOK_AHEAD = 4


class PendingRow(NamedTuple):
    """A row without an embedding."""

    store: Store
    id: int
    theme: str
    text: str


class Chunk(NamedTuple):
    """The embedding of a part of a text that begins at character `first_char`."""

    first_char: int
    vector: list[float]


def recorded_space(conn: DeadlineConnection) -> EmbeddingSpace:
    """Return the space of the vectors in the database; `model` is empty while it holds none."""
    return space_in(ask_space(Pipeline(conn)))


def ask_space(pipe: Pipeline) -> Rows:
    """Ask for the space of the vectors in the database; read by `space_in`."""
    return pipe.ask("read_space")


def space_in(rows: Rows) -> EmbeddingSpace:
    """Return the space in the result of `ask_space`."""
    row = rows.one()
    return EmbeddingSpace(row.model or "", row.dims, row.document_prefix, row.query_prefix)


def hold_space(conn: DeadlineConnection) -> EmbeddingSpace:
    """Return the recorded space, and keep it from changing until the transaction ends."""
    conn.execute(query("hold_space"))
    return recorded_space(conn)


def record_space(conn: DeadlineConnection, space: EmbeddingSpace) -> EmbeddingSpace:
    """Record `space` as that of this database if none is recorded; return the recorded one."""
    row = {"model": space.model, "document_prefix": space.document_prefix, "query_prefix": space.query_prefix}
    conn.execute(query("record_space"), row)
    return recorded_space(conn)


def claim_pending(conn: DeadlineConnection, limit: int, lease_s: float) -> list[PendingRow]:
    """Return at most `limit` rows that never had an embedding; nobody else gets them for `lease_s`."""
    claimed: list[PendingRow] = []
    for store in STORES:
        themes, claim = query(f"due_themes_{store}"), query(f"claim_due_{store}")
        claimed += claim_by_theme(conn, store, themes, claim, limit - len(claimed), lease_s)
    return claimed


def claim_by_theme(
    conn: DeadlineConnection, store: Store, themes: bytes, claim: bytes, limit: int, lease_s: float
) -> list[PendingRow]:
    """Return at most `limit` rows that the statement `claim` finds in the themes that the statement `themes` does."""
    claimed: list[PendingRow] = []
    # One theme at a time. Other processes may be claiming the oldest rows, so a few more themes are looked up.
    for one in conn.execute(themes, {"limit": _LOOK_AHEAD * limit}).fetchall():
        if len(claimed) >= limit:
            break
        row = {"theme": one.theme, "limit": limit - len(claimed), "lease_s": lease_s}
        claimed += [PendingRow(store, each.id, one.theme, each.content) for each in conn.execute(claim, row)]
    return claimed


def postpone(conn: DeadlineConnection, rows: Sequence[PendingRow], pause_s: float) -> None:
    """Keep claimed rows that were not embedded from being claimed again for `pause_s`."""
    for (store, theme), ids in _by_theme(rows).items():
        conn.execute(query(f"postpone_{store}"), {"theme": theme, "ids": ids, "pause_s": pause_s})


def fill(conn: DeadlineConnection, rows: Sequence[PendingRow], chunks: Mapping[str, Sequence[Chunk]]) -> None:
    """Store the embeddings of rows, given by text: the first chunk in the row, the others in the table beside it."""
    with pipelined(conn):
        for (store, theme), ids in _by_theme([row for row in rows if len(chunks[row.text]) > 1]).items():
            conn.execute(query(f"clear_chunks_{store}"), {"theme": theme, "ids": ids})
        for row in rows:
            conn.execute(query(f"fill_{row.store}"), values_of(row, chunks[row.text]))


def _by_theme(rows: Sequence[PendingRow]) -> dict[tuple[Store, str], list[int]]:
    """Return the ids of the rows by store and theme, in the order in which all processes lock them."""
    ids: dict[tuple[Store, str], list[int]] = {}
    for row in sorted(rows):
        ids.setdefault((row.store, row.theme), []).append(row.id)
    return ids


def values_of(row: PendingRow, chunks: Sequence[Chunk]) -> dict[str, object]:
    """Return the parameters of a statement that fills the row: the first chunk becomes its own embedding."""
    first, *others = chunks
    return {
        "theme": row.theme,
        "id": row.id,
        "content": row.text,
        "embedding": Vector(first.vector),
        "first_chars": [chunk.first_char for chunk in others],
        "embeddings": [Vector(chunk.vector) for chunk in others],
    }


def known_vectors(conn: DeadlineConnection, texts: Collection[ThemedText]) -> dict[str, list[float]]:
    """Return, by text, the vectors of those texts that a memory or a turn of the same theme holds verbatim."""
    wanted: dict[str, list[str]] = {}
    for theme, text in dict.fromkeys(texts):
        wanted.setdefault(theme, []).append(text)
    statement = query("known_vectors", own_themes=conn.own_themes, one_theme=conn.spread)
    with conn.pipeline() if len(wanted) > 1 else nullcontext():
        found = [
            (of_theme, conn.execute(statement, {"theme": theme, "digests": list(map(digest, of_theme))}, binary=True))
            for theme, of_theme in wanted.items()
        ]
    return {texts[known.number - 1]: known.embedding.to_list() for texts, rows in found for known in rows}
