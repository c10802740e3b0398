"""HNSW indexes over the codes of a single huge theme, used for recall in that theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from statistics import fmean

from psycopg import sql

from ...domain.types import Filters, Scope, Store
from ...store.connection import DeadlineConnection, translated
from ...store.pipeline import Pipeline
from ...store.sql import query
from ...store.vector_search import SentVector, VectorSearch, own_graph_name
from ...store.vectors import STORES
from .hnsw import ROWS, HnswIndex, Tell, build_with, drop_index, index_of, make_ready, one_at_a_time, told

_QUESTIONS, _NEAREST = 20, 10  # used to measure what an index finds


def theme_indexes(conn: DeadlineConnection, theme: str | None = None) -> list[HnswIndex]:
    """Return the existing theme indexes, of every theme or of one."""
    found = []
    for store in STORES:
        with translated():
            rows = conn.execute(query("theme_indexes", package=__package__), {"table": ROWS[store]}).fetchall()
        found += [
            index_of(conn, store, row.name, theme=row.theme, rows=row.rows)
            for row in rows
            if theme is None or row.theme == theme
        ]
    return found


def to_build_for(conn: DeadlineConnection, theme: str, rows: Mapping[Store, int]) -> list[HnswIndex]:
    """Return the indexes that `build_for` builds for a theme of so many `rows`."""
    wanted = [
        index_of(conn, store, own_graph_name(store, theme), theme=theme, rows=count) for store, count in rows.items()
    ]
    return [index for index in wanted if index.is_to_build()]


def build_for(conn: DeadlineConnection, conninfo: str, tell: Tell, todo: Sequence[HnswIndex], *, memory: str) -> None:
    """Build `todo` while agents work, however long it takes; otherwise as `build` of hnsw.py."""
    statement = sql.SQL(query("index_hnsw_theme", package=__package__).decode())
    with translated(), one_at_a_time(conn):
        make_ready(conn, memory)
        for index in todo:
            names = {"index": sql.Identifier(index.name), "rows": sql.Identifier(ROWS[index.store])}
            with told(conninfo, conn.info.backend_pid, index.name, tell):
                build_with(conn, index.name, statement.format(**names, theme=sql.Literal(index.theme)))


def found_share(conn: DeadlineConnection, index: HnswIndex) -> float | None:
    """Return the recall of a theme's index: the share of the rows nearest by all codes that it finds, over sample rows.

    Return None if the theme has too few rows with vectors to tell.
    """
    with translated(), conn.transaction():
        some = sql.SQL(query("some_vectors", package=__package__).decode())
        asked = some.format(table=sql.Identifier(ROWS[index.store]))
        vectors = [row.embedding for row in conn.execute(asked, {"theme": index.theme, "most": _QUESTIONS})]
        if len(vectors) < _QUESTIONS:
            return None
        conn.execute(query("plan_as_recall", package=__package__))
        codes, graph = ([_nearest(conn, index, each, own_graph=own) for each in vectors] for own in (False, True))
        return fmean(len(one & other) / len(one) for one, other in zip(codes, graph, strict=True))


def _nearest(conn: DeadlineConnection, index: HnswIndex, vector: SentVector, *, own_graph: bool) -> set[int]:
    scope = Scope("theme", index.theme)
    search = VectorSearch(Pipeline(conn), index.store, scope, Filters(), vector, limit=_NEAREST, own_graph=own_graph)
    return {each.id for each in search.candidates()}


def drop_for(conn: DeadlineConnection, theme: str) -> list[str]:
    """Drop the indexes of a theme while agents work; return their names."""
    with translated(), one_at_a_time(conn):
        names = [index.name for index in theme_indexes(conn, theme)]
        for name in names:
            drop_index(conn, name)
    return names


def with_indexes(conn: DeadlineConnection) -> list[str]:
    """Return the themes that have indexes of their own."""
    return sorted({index.theme for index in theme_indexes(conn)})


def to_have_again(theme: str) -> str:
    """Return how a theme whose indexes are gone gets them again."""
    return f"to have them again: hermes-pgvector index build --theme {quote(theme)}"


def left_behind(conn: DeadlineConnection, theme: str, into: str = "") -> list[str]:
    """Return notes on the indexes of a theme whose rows are deleted, or moved `into` another theme."""
    if not theme_indexes(conn, theme):
        return []
    note = f"its indexes stay behind without rows: hermes-pgvector index drop --theme {quote(theme)} --yes"
    return [f"{note}; {to_have_again(into)}" if into else note]
