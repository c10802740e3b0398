"""The vector leg of a search, the rows behind the candidates of both legs, and the themes that hold rows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from pgvector import Vector

from ..domain.patterns import late_pattern
from ..domain.types import Candidate, Filters, HeldTurns, Hit, Scope, Store
from .connection import DeadlineConnection, translated
from .pipeline import Pipeline, Rows
from .sql import query

SentVector = Vector

RERANK_DEPTH = 120  # at least; see rerank_depth
PARTS_DEPTH = 200  # of the parts of long texts
USUAL_ROWS = 10_000  # of a theme whose size nobody has asked for
DEPTH_EVERYWHERE = 400  # across all themes
SIGNED_DEPTH = 1200  # of the rows nearest by signature, which is less precise

# On the themes' own topics the graph finds .988 of the true top 10, on others .79; the codes find 1.000 and .95, and
# take as long at 200,000 rows.
GRAPH_ROWS = 500_000  # of a table; from there a question across all themes walks the HNSW graph
BREADTH = 1000  # hnsw.ef_search
WALK_DEPTH = 2000  # rows the graph gives; sorted again, because they come only nearly in order
MAX_WALK = 40_000  # rows visited to find those that pass a filter
MIN_SHARE = 0.01  # of all rows; if fewer pass a filter, a walk finds too few of them
# Size of a theme from which walking a graph of its codes is faster than reading them. With 50,000 real sentences the
# graph finds .998 of the true top 10, and .972 on topics they never spoke of; the codes, 200 of them compared by their
# vectors, find .997 and .963.
OWN_GRAPH_ROWS = 75_000
OWN_BREADTH = 400  # hnsw.ef_search
# Lexemes at which a text's score is halved, because a long text holds many words by chance. An absolute number,
# because among short texts the longer ones are no worse; only a theme of long texts has a larger one.
LENGTH_PIVOT = 45
MOST_PROCEDURES = 100  # the newest of a theme, compared with a session's first message
MOST_HELD = 2000  # turns of a session, more than a model has before it
# In scripts without spaces, two characters say as much as four letters.
_LONG_WORD = late_pattern(r"\w{4,}|[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_MOST_WORDS = 3  # words of a question that are looked for in a very long text
_TABLES: dict[Store, str] = {"memories": "memory_entries", "turns": "conversations"}


def rerank_depth(rows: float) -> int:
    """Return how many of the rows nearest by code are compared by their vectors in a theme of `rows`.

    So many hold the true top 10 on what the theme is about, and .96 of it on topics that it never spoke of, where more
    rows are about as near the larger the theme is (benchmarks/scale/codes.py).
    """
    return max(RERANK_DEPTH, round(20 * math.pow(rows, 0.25)))


def as_sent(vector: Sequence[float]) -> SentVector:
    """Return the vector in the form that statements take, to be built once for all of them."""
    return Vector(list(vector))


class Beside(NamedTuple):
    """The turns before and after a turn, nearest first; `brevity` scales the score that it lends them."""

    before: Sequence[int]
    after: Sequence[int]
    brevity: float = 1.0


class Lookup(NamedTuple):
    """The candidates of the vector leg whose adjacent turns are looked up: the `first` nearest, and `others`.

    Those of `known` are left out, because their adjacent turns are looked up elsewhere. `reach` is the most turns
    before, and after, each of them.
    """

    first: int
    others: Collection[int]
    known: Collection[int]
    reach: int


class VectorSearch:
    """The vector leg in one store: queued when it is constructed, read by `candidates`.

    All codes of a theme, a session, or all themes are read. Across all themes of a table of `graph_rows` or more the
    HNSW graph is walked instead; if it gives too few rows, as under a narrow filter, the codes are read after all. Old
    turns without a vector are in no graph of vectors, and are searched in addition. A long text counts by one part.

    With `own_graph`, see `ask_own_graph`, an unfiltered question in a theme walks the graph of that theme. `rows` is
    about how many the theme or, for the scope `all`, the table has. `parts` is False if no text is so long that it has
    any.

    For the scope `all`, `pipe` must have begun: the method depends on the number of rows. Once the candidates were
    read, `beside` holds the turns adjacent to those of `lookup`, unless the graph of all themes was walked.
    """

    def __init__(
        self,
        pipe: Pipeline,
        store: Store,
        scope: Scope,
        filters: Filters,
        vector: SentVector,
        *,
        limit: int,
        graph_rows: int = GRAPH_ROWS,
        lookup: Lookup | None = None,
        own_graph: bool = False,
        rows: float | None = None,
        parts: bool = True,
    ) -> None:
        self.beside: dict[int, Beside] = {}
        self._pipe = pipe
        self._store = store
        self._scope = scope
        self._filters = filters
        self._limit = limit
        self._row = where(scope, filters) | {"vector": vector, "limit": limit, "signed": max(SIGNED_DEPTH, limit)}
        first, others, known, reach = lookup or Lookup(0, (), (), 0)
        self._row |= {"lookup": first, "lookups": list(others), "known": list(known), "reach": reach}
        self._row |= {"pivot": LENGTH_PIVOT}
        self._each_theme = asks_each_theme(pipe, scope)
        # Where each theme is asked by itself, what may not be read is filtered out beforehand.
        narrowed = any((filters.restrict(), scope.kind == "session", self._each_theme))
        # Rows that may not be read are removed from the nearest ones, of which too few may be left.
        self._may_be_thin = scope.kind == "all" and not narrowed
        graph = self._graph_worth_walking(graph_rows, rows)
        self._walked = self._walk(graph) if graph else []
        self._own_graph = own_graph
        self._depth = {"all": DEPTH_EVERYWHERE, "session": RERANK_DEPTH}.get(scope.kind) or rerank_depth(
            rows or USUAL_ROWS
        )
        self._rows = self._ask_rows(narrowed=narrowed) if len(self._walked) < limit else None
        self._parts = self._ask_parts(narrowed=narrowed) if parts else None

    def candidates(self) -> list[Candidate]:
        """Return the nearest rows by cosine similarity, nearest first."""
        rows = self._walked
        if self._rows is not None:
            rows = self._rows.all()
            if self._is_thin(rows):
                rows = self._ask_rows(narrowed=True).all()
        parts = [] if self._parts is None else self._parts.all()
        if self._parts is not None and self._is_thin(parts):
            parts = self._ask_parts(narrowed=True).all()
        if self._store == "turns":
            self.beside = _beside(parts) if self._rows is None else _beside([*rows, *parts])
        in_order = not parts and not self._each_theme
        nearest = _directed(rows) if in_order else _best(self._limit, [*rows, *parts])
        return [Candidate(row.id, row.similarity) for row in nearest]

    def _is_thin(self, found: Sequence[Any]) -> bool:
        return self._may_be_thin and (not found or found[0].thin)

    def _ask_rows(self, *, narrowed: bool) -> Rows:
        suffix, depth = variant(self._store, self._scope), self._depth
        if suffix != "_session" and (narrowed or not (self._scope.kind == "all" or self._scope.own)):
            suffix += "_filtered"
        if suffix == "_all_filtered":
            self._pipe.ask("plan_for_values")
        by_graph = self._own_graph and suffix == ""
        if by_graph:
            self._pipe.ask("walk_vectors", {"breadth": OWN_BREADTH, "most": MAX_WALK})
            self._pipe.ask("plan_for_values")
            depth = min(depth, OWN_BREADTH)
        row = self._row | {"depth": max(depth, self._limit)}
        rows = self._pipe.ask(f"vector_search_{self._store}{suffix}", row)
        if by_graph:
            self._pipe.ask("plan_as_before")
        return rows

    def _ask_parts(self, *, narrowed: bool) -> Rows:
        suffix = "_all" if self._scope.kind == "all" else ""
        row = self._row | {"restricted": narrowed, "depth": max(PARTS_DEPTH, self._limit)}
        return self._pipe.ask(f"chunk_search_{self._store}{suffix}", row)

    def _walk(self, graph: str) -> list[Any]:
        walked = max(WALK_DEPTH, self._limit)
        # Whole vectors need no second comparison.
        depth = max(DEPTH_EVERYWHERE, self._limit) if graph == "sig" else walked
        row = self._row | {"walked": walked, "depth": depth}
        self._pipe.ask("walk_vectors", {"breadth": BREADTH, "most": MAX_WALK})
        found = [self._pipe.ask(f"vector_search_{self._store}_walk_{graph}", row)]
        if self._store == "turns" and graph == "embedding":
            found.append(self._pipe.ask("vector_search_turns_cold", row))
        return _best(self._limit, chain.from_iterable(found))

    def _graph_worth_walking(self, graph_rows: int, rows: float | None) -> str:
        """Return the column whose graph is walked; "" without one, with few rows, or if few pass a filter."""
        if self._scope.kind != "all" or self._each_theme:
            return ""
        if rows is None:
            rows = planned_rows(ask_estimate(self._pipe, self._store, self._scope))
        if rows < graph_rows:
            return ""
        graph = self._pipe.ask("has_graph", {"table": _TABLES[self._store]}).one().found or ""
        if graph and self._filters.restrict():
            matches = planned_rows(self._pipe.ask(f"estimate_matches_{self._store}", self._row))
            return graph if matches >= rows * MIN_SHARE else ""
        return str(graph)


def asks_each_theme(pipe: Pipeline, scope: Scope) -> bool:
    """Return whether all themes are searched, each by itself, see fan_out; to be asked once the pipeline has begun."""
    return scope.kind == "all" and pipe.spread


def _beside(found: Iterable[Any]) -> dict[int, Beside]:
    return {row.id: Beside(row.before, row.after, row.brevity) for row in found if row.before is not None}


def _directed(found: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows without those near to nothing, as SQL of others may store them.

    Their vector is of zeros, or they have a code and no vector.
    """
    return (row for row in found if row.similarity is not None and not math.isnan(row.similarity))


def _best(limit: int, found: Iterable[Any]) -> list[Any]:
    """Return the nearest rows; of several with the same id, only the nearest."""
    best: dict[int, Any] = {}
    for row in _directed(found):
        if row.id not in best or row.similarity > best[row.id].similarity:
            best[row.id] = row
    return sorted(best.values(), key=lambda row: (-row.similarity, -row.id))[:limit]


def own_graph_name(store: Store, theme: str) -> str:
    """Return the name of the HNSW index over the rows of one theme, which `index build --theme` builds."""
    return f"{_TABLES[store]}_theme_{hashlib.sha256(theme.encode()).hexdigest()[:16]}_idx"


def ask_own_graph(pipe: Pipeline, store: Store, theme: str) -> Rows:
    """Ask whether the theme has a valid graph of its own that is faster to search than its codes."""
    return pipe.ask("has_own_graph", {"index": own_graph_name(store, theme), "rows": OWN_GRAPH_ROWS})


def ask_estimate(pipe: Pipeline, store: Store, scope: Scope) -> Rows:
    """Ask for the planner's estimate of rows in the theme, or the table; read by `planned_rows`."""
    return pipe.ask(f"estimate_rows_{store}", themes_of(scope))


def planned_rows(explained: Iterable[Any]) -> float:
    """Return how many rows the planner expects, from the result of an EXPLAIN."""
    return sum(float(plan[0]["Plan"]["Plan Rows"]) for (plan,) in explained)


def ask_neighbours(pipe: Pipeline, scope: Scope, ids: Sequence[int], *, reach: int) -> Rows:
    """Ask for up to `reach` turns `before` and `after` each of the turns `ids` in its session, nearest first."""
    return pipe.ask("neighbours", {"ids": list(ids), "reach": reach, "pivot": LENGTH_PIVOT} | themes_of(scope))


def ask_surroundings(pipe: Pipeline, scope: Scope, ids: Sequence[int]) -> Rows:
    """Ask for the turns right before and after each of the turns `ids`, named in `beside`; read by `around`."""
    return pipe.ask("surroundings", {"ids": list(ids)} | themes_of(scope))


def around(surroundings: Iterable[Any]) -> dict[int, tuple[Hit, ...]]:
    """Return the turns that `ask_surroundings` has found, earliest first, by the turn they are adjacent to."""
    found: dict[int, list[Hit]] = {}
    for beside, *columns in surroundings:
        found.setdefault(beside, []).append(Hit("turns", *columns))
    return {turn: tuple(sorted(hits, key=lambda hit: (hit.at, hit.id))) for turn, hits in found.items()}


def ask_held(pipe: Pipeline, scope: Scope, held: HeldTurns) -> Rows:
    """Ask for the ids of the turns `held`: the newest MOST_HELD of each session."""
    sessions, starts, ends = zip(*held, strict=True)
    row = {"sessions": list(sessions), "from_s": list(starts), "to_s": list(ends), "most": MOST_HELD}
    return pipe.ask("held_turns", row | themes_of(scope))


def ask_hits(
    pipe: Pipeline, store: Store, scope: Scope, ids: Sequence[int], vector: SentVector | None, text: str
) -> Rows:
    """Ask for the rows `ids` in the form of Hit's fields after `store`, with the similarity to `vector` if both exist.

    Rows outside the scope, and private rows of other themes, are left out. Of a very long text comes the part nearest
    to the question, or else the part around one of the longest words of `text`.
    """
    words = sorted(set(_LONG_WORD.findall(text)), key=lambda word: (-len(word), word))[:_MOST_WORDS]
    return pipe.ask(f"fetch_{store}", {"ids": list(ids), "vector": vector, "words": words} | themes_of(scope))


def ask_procedures(pipe: Pipeline, scope: Scope) -> Rows:
    """Ask for the newest procedures of the theme that say when they apply; read by `procedures_in`."""
    return pipe.ask("procedures", {"limit": MOST_PROCEDURES} | themes_of(scope))


def procedures_in(rows: Rows, terms: Collection[str]) -> tuple[Hit, ...]:
    """Return the result of `ask_procedures`, each with the share of its situation's words that are among `terms`."""
    found = ((Hit("memories", *columns), frozenset(when)) for *columns, when in rows)
    return tuple(hit._replace(coverage=len(when.intersection(terms)) / max(1, len(when))) for hit, when in found)


def turns_before(
    pipe: Pipeline, theme: str, session_id: str, parent_session_id: str, *, limit: int, sessions: int
) -> list[Hit]:
    """Return the last `limit` turns of each of the sessions before `session_id`; none if that one has turns already.

    The oldest come first and the nearest session last: that is the parent or, if none is named, the session of the
    theme with the latest turn.
    """
    row = {
        "theme": theme,
        "session_id": session_id,
        "parent": parent_session_id or None,
        "limit": limit,
        "sessions": sessions,
    }
    return [Hit("turns", *found) for found in pipe.ask("turns_before", row)][::-1]


def variant(store: Store, scope: Scope) -> str:
    """Return the suffix of a statement's name for this scope."""
    if scope.kind == "all":
        return "_all"
    return "_session" if store == "turns" and scope.kind == "session" else ""


def themes_of(scope: Scope) -> dict[str, Any]:
    """Return the parameters that say which themes are searched, and what may be read in them."""
    return {
        "theme": scope.theme,
        "any_theme": scope.kind == "all",
        "own": scope.theme if scope.own else None,
        "shared": list(scope.shared),
    }


def where(scope: Scope, filters: Filters) -> dict[str, Any]:
    """Return the parameters that say which rows are searched."""
    return themes_of(scope) | {
        "session_id": scope.session_id if scope.kind == "session" else None,
        "target": filters.target,
        "kinds": None if filters.kinds is None else list(filters.kinds),
        "role": filters.role,
        "since": filters.since.isoformat() if filters.since else "-infinity",
        "until": filters.until.isoformat() if filters.until else "infinity",
    }


def theme_holds(conn: DeadlineConnection, scope: Scope) -> bool:
    """Return whether the theme of `scope` holds anything that may be read there."""
    with translated():
        row = conn.execute(query("theme_holds"), themes_of(scope)).fetchone()
    return bool(row and row.found)


def theme_names(conn: DeadlineConnection) -> list[str]:
    """Return the themes that hold rows, including those of chats; a session is shown only those it may read."""
    with translated():
        return [row.theme for row in conn.execute(query("theme_names_spread" if conn.spread else "theme_names"))]
