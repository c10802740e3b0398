"""Reads: the vector leg of a search, and the rows behind the candidates of both legs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pgvector import Vector

from ..domain.periods import Period
from ..domain.types import Candidate, Filters, Hit, Scope, Store
from .connection import DeadlineConnection
from .pipelining import Ask, LookUp
from .sql import query

Beside = tuple[list[int], list[int]]  # turns before and turns after a turn, nearest first
Candidates = Callable[[], list[Candidate]]  # to be called once
SentVector = Vector

# Signatures taken into the exact rerank. Of real sentences 400 find all of the true top 10 among 1,500, but .988 among
# 15,000, where 1,200 find .999 for a quarter more of CPU.
RERANK_DEPTH = 400
DEEP_RERANK = 1200
LARGE_THEME = 3000  # rows, from which DEEP_RERANK is used; across all themes it always is

# At a million rows the graph finds .978 of the true top 10 in half the time in which all signatures find the whole.
GRAPH_ROWS = 1_500_000  # of a table, from which a question across all themes walks the HNSW graph
BREADTH = 1000  # hnsw.ef_search
WALK_DEPTH = 2000  # rows the graph gives; sorted again, for it gives them nearly in order only
MAX_WALK = 40_000  # rows looked at for those that pass a filter
MIN_SHARE = 0.01  # of all rows; where fewer pass a filter, a walk finds too few of them
# Of scripts without spaces any two characters say as much.
_LONG_WORD = re.compile(r"\w{4,}|[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_MOST_WORDS = 3  # of a question, that are looked for in a very long text
_TABLES: dict[Store, str] = {"memories": "memory_entries", "turns": "conversations"}


def vector_candidates(
    conn: DeadlineConnection,
    store: Store,
    scope: Scope,
    filters: Filters,
    vector: Sequence[float],
    *,
    limit: int,
    graph_rows: int = GRAPH_ROWS,
) -> list[Candidate]:
    """The nearest rows by cosine similarity, nearest first.

    The signatures of a theme, a session, or all themes are read whole. Across all themes of a table of `graph_rows` or
    more the HNSW graph is walked instead; what it does not give, as under a narrow filter, the signatures do. Old turns
    that have only their signature left are in no graph: theirs are read besides.
    """
    return ask_vectors(conn, store, scope, filters, as_sent(vector), limit=limit, graph_rows=graph_rows)()


def as_sent(vector: Sequence[float]) -> SentVector:
    """The vector as the statements take it, to be made once for all of them."""
    return Vector(list(vector))


def ask_vectors(
    conn: DeadlineConnection,
    store: Store,
    scope: Scope,
    filters: Filters,
    vector: SentVector,
    *,
    limit: int,
    graph_rows: int = GRAPH_ROWS,
) -> Candidates:
    """Send what `vector_candidates` asks; the rows are had by a call, before which others may send as well."""
    row = where(scope, filters) | {"vector": vector, "limit": limit}
    rows_of = _by_rows(conn, store, scope, filters, row, graph_rows)
    parts_of = _by_parts(conn, store, scope, filters, row)

    def answer() -> list[Candidate]:
        rows, parts = rows_of(), parts_of()
        if not parts:
            return rows
        best = {each.id: each.score for each in rows}
        for each in parts:
            best[each.id] = max(each.score, best.get(each.id, each.score))
        nearest = sorted(best, key=lambda row_id: (-best[row_id], -row_id))[:limit]
        return [Candidate(row_id, best[row_id]) for row_id in nearest]

    return answer


def _by_parts(
    conn: DeadlineConnection, store: Store, scope: Scope, filters: Filters, row: dict[str, Any]
) -> Candidates:
    restricted = filters.restrict() or scope.kind == "session"
    name = f"chunk_search_{store}{'_all' if scope.kind == 'all' else ''}"
    given = row | {"restricted": restricted, "depth": max(RERANK_DEPTH, row["limit"])}
    if scope.kind != "all" or restricted:
        return _nearest(conn, name, given)
    return _unless_thin(conn, name, given, lambda: _nearest(conn, name, given | {"restricted": True}))


def _by_rows(
    conn: DeadlineConnection, store: Store, scope: Scope, filters: Filters, row: dict[str, Any], graph_rows: int
) -> Candidates:
    limit = row["limit"]
    if scope.kind == "all" and _worth_walking(conn, store, scope, filters, graph_rows):
        conn.execute(query("walk_vectors"), {"breadth": BREADTH, "most": MAX_WALK})
        found = _nearest(conn, f"vector_search_{store}_walk", row | {"depth": max(WALK_DEPTH, limit)})()
        if store == "turns":
            found += _nearest(conn, "vector_search_turns_cold", row | {"depth": max(WALK_DEPTH, limit)})()
        if len(found) >= limit:
            return lambda: sorted(found, key=lambda each: (-each.score, -each.id))[:limit]
    depth = DEEP_RERANK if scope.kind == "all" else RERANK_DEPTH
    row = row | {"depth": max(depth, limit), "deep": max(DEEP_RERANK, limit), "large": LARGE_THEME}
    if scope.kind != "all":
        narrowed = filters.restrict() or scope.kind == "session" or not scope.own
        suffix = variant(store, scope) or ("_filtered" if narrowed else "")
        return _nearest(conn, f"vector_search_{store}{suffix}", row)

    def filtered() -> Candidates:
        conn.execute(query("plan_for_values"))
        return _nearest(conn, f"vector_search_{store}_all_filtered", row)

    if filters.restrict():
        return filtered()
    return _unless_thin(conn, f"vector_search_{store}_all", row, filtered)


def begin_vectors(conn: DeadlineConnection, *, timeout_s: float | None) -> None:
    """Get a transaction ready for vectors: each statement from now on takes `timeout_s`, where that is given."""
    statement_ms = None if timeout_s is None else str(max(1, int(timeout_s * 1000)))
    conn.execute(query("begin_vectors"), {"statement_ms": statement_ms})


def _nearest(conn: DeadlineConnection, name: str, row: dict[str, Any]) -> Candidates:
    sent = conn.execute(query(name), row)
    return lambda: [Candidate(found.id, found.similarity) for found in sent]


def _unless_thin(
    conn: DeadlineConnection, name: str, row: dict[str, Any], exactly: Callable[[], Candidates]
) -> Candidates:
    """What a statement finds among what is near; `exactly` where too little of that was readable."""
    sent = conn.execute(query(name), row)

    def answer() -> list[Candidate]:
        rows = sent.fetchall()
        if not rows or rows[0].thin:
            return exactly()()
        return [Candidate(found.id, found.similarity) for found in rows]

    return answer


def _worth_walking(conn: DeadlineConnection, store: Store, scope: Scope, filters: Filters, graph_rows: int) -> bool:
    """Whether there is a graph, more rows than it takes to read all signatures, and a filter that lets enough pass."""
    rows = estimated_rows(conn, store, scope)
    graph = rows >= graph_rows and conn.execute(query("has_graph"), {"table": _TABLES[store]}).fetchone()
    if not graph or not graph.found:
        return False
    if not filters.restrict():
        return True
    return _plan_rows(conn, f"estimate_matches_{store}", where(scope, filters)) >= rows * MIN_SHARE


def estimated_rows(conn: DeadlineConnection, store: Store, scope: Scope) -> float:
    """How many rows the planner takes the theme, or the table, to have."""
    return _plan_rows(conn, *ask_estimate(store, scope))


def ask_estimate(store: Store, scope: Scope) -> Ask:
    """What to ask for `planned_rows` of the theme, or the table."""
    return f"estimate_rows_{store}", {"theme": scope.theme, "any_theme": scope.kind == "all"}


def _plan_rows(conn: DeadlineConnection, name: str, row: dict[str, Any]) -> float:
    return planned_rows(conn.execute(query(name, own_themes=conn.own_themes), row))


def planned_rows(explained: Iterable[Any]) -> float:
    """How many rows the planner expects, by what an EXPLAIN has found."""
    (plan,) = next(iter(explained), ([],))
    return float(plan[0]["Plan"]["Plan Rows"])


def neighbours(scope: Scope, ids: Sequence[int], *, reach: int) -> LookUp[dict[int, Beside]]:
    """For each of the turns `ids` up to `reach` turns before and after it in its session."""
    row = {"ids": list(ids), "reach": reach} | themes_of(scope)
    (rows,) = yield [("neighbours", row)]
    return {found.id: (found.before, found.after) for found in rows}


def dated(store: Store, scope: Scope, ids: Sequence[int], periods: Sequence[Period]) -> LookUp[set[int]]:
    """Those of the rows `ids` that were written in one of `periods`."""
    row = {
        "ids": list(ids),
        "starts": [period.start for period in periods],
        "ends": [period.end for period in periods],
    } | themes_of(scope)
    (rows,) = yield [(f"dated_{store}", row)]
    return {found.id for found in rows}


def fetch(
    store: Store, scope: Scope, ids: Sequence[int], vector: SentVector | None, text: str
) -> LookUp[dict[int, Hit]]:
    """The rows `ids`, each with its similarity to `vector` where both exist.

    Rows of other themes, and what is private of them, are left out. Of a very long one the part around what is nearest
    to the question, or around one of the longest words of `text`.
    """
    row = {
        "ids": list(ids),
        "vector": vector,
        "words": sorted(set(_LONG_WORD.findall(text)), key=lambda word: (-len(word), word))[:_MOST_WORDS],
    } | themes_of(scope)
    (rows,) = yield [(f"fetch_{store}", row)]
    return {found.id: Hit(store, *found) for found in rows}


def turns_before(
    conn: DeadlineConnection, theme: str, session_id: str, parent_session_id: str, *, limit: int
) -> list[Hit]:
    """The last turns of the session before `session_id`, oldest first; none when that one has turns already.

    The session before is the parent, or where none is named the one of the theme that spoke last.
    """
    row = {"theme": theme, "session_id": session_id, "parent": parent_session_id or None, "limit": limit}
    return [Hit("turns", *found) for found in conn.execute(query("turns_before"), row)][::-1]


def variant(store: Store, scope: Scope) -> str:
    """What the name of a statement for this scope ends with."""
    if scope.kind == "all":
        return "_all"
    return "_session" if store == "turns" and scope.kind == "session" else ""


def themes_of(scope: Scope) -> dict[str, Any]:
    """The parameters that say of which themes rows count, and what of them may be read."""
    return {
        "theme": scope.theme,
        "any_theme": scope.kind == "all",
        "own": scope.theme if scope.own else None,
        "shared": list(scope.shared),
    }


def where(scope: Scope, filters: Filters) -> dict[str, Any]:
    """The parameters that say which rows count."""
    return themes_of(scope) | {
        "session_id": scope.session_id if scope.kind == "session" else None,
        "target": filters.target,
        "role": filters.role,
        "since": filters.since.isoformat() if filters.since else "-infinity",
        "until": filters.until.isoformat() if filters.until else "infinity",
    }
