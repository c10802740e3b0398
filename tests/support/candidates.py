"""The candidates of one leg of a search, without the rest of it."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_memory_pgvector.domain.types import Candidate, Filters, Scope, Store
from hermes_memory_pgvector.store.connection import DeadlineConnection
from hermes_memory_pgvector.store.lexical import LexicalSearch, QuestionReader, ask_size, search_words, size_of
from hermes_memory_pgvector.store.pipeline import Pipeline
from hermes_memory_pgvector.store.vector_search import GRAPH_ROWS, VectorSearch, as_sent


def vector_candidates(
    conn: DeadlineConnection,
    store: Store,
    scope: Scope,
    filters: Filters,
    vector: Sequence[float],
    *,
    limit: int,
    graph_rows: int = GRAPH_ROWS,
    rows: float | None = None,
) -> list[Candidate]:
    """Return what a single VectorSearch finds."""
    pipe, sent = Pipeline(conn), as_sent(vector)
    return VectorSearch(pipe, store, scope, filters, sent, limit=limit, graph_rows=graph_rows, rows=rows).candidates()


def lexical_candidates(
    conn: DeadlineConnection,
    store: Store,
    scope: Scope,
    filters: Filters,
    text: str,
    *,
    limit: int,
    languages: Sequence[str] = ("english",),
) -> list[Candidate]:
    """Return what a single LexicalSearch finds."""
    pipe = Pipeline(conn)
    size = ask_size(pipe, store, scope)
    question = QuestionReader(pipe, text, languages)
    (found,) = search_words([LexicalSearch(pipe, store, scope, filters, question, size_of(size).rows, limit=limit)])
    return found
