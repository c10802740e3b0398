"""Reads: the two legs of a search and the rows behind their candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgvector import Vector

from ..domain.models import Candidate, Filters, Hit, Scope, Store
from .connection import DeadlineConnection
from .sql import query

RERANK_DEPTH = 400  # signatures taken into the exact rerank; finds .994 to .999 of the true top 10
MAX_TERMS = 32  # words of a question that are looked up; the longest ones when there are more


def vector_candidates(
    conn: DeadlineConnection, store: Store, scope: Scope, filters: Filters, vector: Sequence[float], *, limit: int
) -> list[Candidate]:
    """The nearest rows by cosine similarity, nearest first."""
    variant = _variant(store, scope)
    if not variant and (filters.restrict() or scope.kind == "session"):
        variant = "_filtered"
    row = _where(scope, filters) | {
        "vector": Vector(list(vector)),
        "depth": max(RERANK_DEPTH, limit),
        "limit": limit,
    }
    return [
        Candidate(found.id, found.similarity) for found in conn.execute(query(f"vector_search_{store}{variant}"), row)
    ]


def lexical_candidates(
    conn: DeadlineConnection, store: Store, scope: Scope, filters: Filters, text: str, *, limit: int
) -> list[Candidate]:
    """The rows that hold the question's words, best coverage first."""
    terms = [row.term for row in conn.execute(query("query_terms"), {"text": text, "limit": MAX_TERMS})]
    if not terms:
        return []
    matchers = [_quoted(term) for term in terms]
    row = _where(scope, filters) | {"terms": matchers, "match": " | ".join(matchers), "limit": limit}
    name = f"lexical_search_{store}{_variant(store, scope)}"
    return [Candidate(found.id, found.coverage) for found in conn.execute(query(name), row)]


def neighbours(conn: DeadlineConnection, scope: Scope, ids: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The turns right before and after each of the turns `ids`, where there are such."""
    row = {"ids": list(ids), "theme": scope.theme, "any_theme": scope.kind == "all"}
    return {
        found.id: tuple(beside for beside in (found.before, found.after) if beside is not None)
        for found in conn.execute(query("neighbours"), row)
    }


def fetch(
    conn: DeadlineConnection, store: Store, scope: Scope, ids: Sequence[int], vector: Sequence[float] | None
) -> dict[int, Hit]:
    """The rows `ids`, each with its similarity to `vector` where both exist; rows of other themes are left out."""
    row = {
        "ids": list(ids),
        "theme": scope.theme,
        "any_theme": scope.kind == "all",
        "vector": None if vector is None else Vector(list(vector)),
    }
    return {found.id: Hit(store, *found) for found in conn.execute(query(f"fetch_{store}"), row)}


def _variant(store: Store, scope: Scope) -> str:
    if scope.kind == "all":
        return "_all"
    return "_session" if store == "turns" and scope.kind == "session" else ""


def _where(scope: Scope, filters: Filters) -> dict[str, Any]:
    return {
        "theme": scope.theme,
        "session_id": scope.session_id if scope.kind == "session" else None,
        "target": filters.target,
        "role": filters.role,
        "since": filters.since.isoformat() if filters.since else "-infinity",
        "until": filters.until.isoformat() if filters.until else "infinity",
    }


def _quoted(term: str) -> str:
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"
