"""Reads: the two legs of a search and the rows behind their candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgvector import Vector

from ..domain.models import Candidate, Filters, Hit, Scope, Store
from .connection import DeadlineConnection
from .sql import query
from .words import Choice, Word, choose, exactly, widened

RERANK_DEPTH = 400  # signatures taken into the exact rerank; finds .994 to .999 of the true top 10
MAX_TERMS = 32  # words of a question that are looked up; the longest ones when there are more
EXACT_ROWS = 5000  # of a theme; the statements query_terms_* count no further than the next one
MIN_ROWS = 50  # in a nearly empty theme, words that no row holds would outweigh all that match


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
    """The rows that hold the question's words, best coverage first.

    Up to EXACT_ROWS rows of a theme every row with any of the words is scored. Above, the rarer words and combinations
    propose rows, and so do the newest rows; when that is too little, as a narrow filter makes it, all words do.
    """
    conn.execute(query("walk_indexes"))
    where = _where(scope, filters)
    row = where | {"text": text, "limit": MAX_TERMS}
    terms = list(conn.execute(query(f"query_terms_{store}{'_all' if scope.kind == 'all' else ''}"), row))
    if not terms:
        return []
    rows = float(terms[0].rows)
    if rows <= EXACT_ROWS:
        choice = exactly([term.matcher for term in terms])
    else:
        rows = max(rows, _estimated_rows(conn, store, scope))
        # Half a row more: what no row of the sample holds, others may.
        words = [Word(term.matcher, (term.holding + 0.5) / (term.sampled + 1) * rows) for term in terms]
        choice = choose(words, rows)
    name = f"lexical_search_{store}{_variant(store, scope)}"
    found = _coverage(conn, name, where, choice, rows, limit)
    if choice.partial and len(found) < limit and (wider := widened(choice)) is not None:
        found = _coverage(conn, name, where, wider, rows, limit) | found
    best = sorted(found.items(), key=lambda item: (-item[1], -item[0]))[:limit]
    return [Candidate(row_id, coverage) for row_id, coverage in best]


def _coverage(
    conn: DeadlineConnection, name: str, where: dict[str, Any], choice: Choice, rows: float, limit: int
) -> dict[int, float]:
    row = where | {
        "matchers": [word.matcher for word in choice.words],
        "holding": [word.holding for word in choice.words],
        "match": choice.match,
        "recent": choice.partial,
        "rows": max(rows, MIN_ROWS),
        "limit": limit,
    }
    return {found.id: found.coverage for found in conn.execute(query(name), row)}


def _estimated_rows(conn: DeadlineConnection, store: Store, scope: Scope) -> float:
    row = {"theme": scope.theme, "any_theme": scope.kind == "all"}
    plan = next(iter(conn.execute(query(f"estimate_rows_{store}"), row)))[0]
    return float(plan[0]["Plan"]["Plan Rows"])


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
