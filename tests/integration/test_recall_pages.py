"""Pages of results: what stands on one does not depend on how long it is, or how far the next one reaches."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed
from tests.support.scripted_embedder import ScriptedEmbedder, hash_vector

ROWS = 260  # each leg proposes 100 at first
QUERY = "Who greased the harbour crane?"
INSERT = {
    "recall_memory": "INSERT INTO memory_entries (target, agent_identity, content, embedding, updated_at)"
    " VALUES ('memory', 'marketing', %s, %s, now() - make_interval(days => %s))",
    "recall_conversation": "INSERT INTO conversations (session_id, role, agent_identity, content, embedding, ts)"
    " VALUES ('session-0', 'user', 'marketing', %s, %s, now() - make_interval(days => %s))",
}


@pytest.fixture(params=["words", "meaning"])
def provider(
    request: pytest.FixtureRequest, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> PgvectorMemoryProvider:
    """A provider with and without an embedding endpoint."""
    made = make_provider({"embed_url": embedder.url} if request.param == "meaning" else {})
    landed(made)
    return made


def fill(dsn: str, tool: str) -> None:
    """Rows that fit ever less, some of them twice in the same words, of many ages."""
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        texts = [
            f"Crane number{number - number % 11 % 2} of the harbour was greased" + " and painted" * (number % 9)
            for number in range(ROWS)
        ]
        rows = [(text, str(hash_vector(text, DIMS)), number * 7 % 90) for number, text in enumerate(texts)]
        if tool == "recall_memory":
            rows = list({text: (text, vector, days) for text, vector, days in rows}.values())
        cursor.executemany(INSERT[tool].encode(), rows)


def pages(provider: PgvectorMemoryProvider, tool: str, size: int, end: int) -> list[Any]:
    """What pages of `size` show, put together, down to `end`."""
    found: list[Any] = []
    for offset in range(0, end, size):
        answer = called(provider, tool, {"query": QUERY, "limit": min(size, end - offset), "offset": offset})
        assert "error" not in answer, answer
        found += [result["id"] for result in answer["results"]]
    return found


@pytest.mark.parametrize("tool", sorted(INSERT))
def test_pages_of_any_size_show_the_same_order_and_nothing_twice(
    tool: str, provider: PgvectorMemoryProvider, dsn: str
) -> None:
    fill(dsn, tool)
    whole = pages(provider, tool, 50, 350)
    assert len(set(whole)) == len(whole)
    assert len(whole) >= 180, "rows below the first hundred of each leg are reached"
    assert pages(provider, tool, 7, 140) == whole[:140]
    assert pages(provider, tool, 5, 20) == whole[:20]
    assert pages(provider, tool, 40, 120) == whole[:120]


@pytest.mark.parametrize("tool", sorted(INSERT))
def test_the_deepest_page_is_named_and_beyond_it_an_error_says_what_to_do(
    tool: str, provider: PgvectorMemoryProvider
) -> None:
    assert called(provider, tool, {"query": QUERY, "offset": 500, "limit": 50})["results"] == []
    error = called(provider, tool, {"query": QUERY, "offset": 501})["error"]
    assert "from 0 to 500" in error and "`since`" in error
