"""A theme of one percent of the table gets what an exact scan gives, at every limit and on every call."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.types.numeric import Int8

from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed
from tests.support.scripted_embedder import ScriptedEmbedder, hash_vector

QUERY = "walrus otter heron egret"
OWN, OTHERS = 30, 3000
WORDS = QUERY.split()


def near(number: int, foreign: int) -> str:
    """A vector that is the nearer to the question the more of its words went into it."""
    words = WORDS[: 1 + number % len(WORDS)] + [f"filler{number}x{index}" for index in range(foreign)]
    return str(hash_vector(" ".join(words), DIMS))


@pytest.mark.parametrize("tool", ["recall_memory", "recall_conversation"])
def test_trap_01_a_small_theme_gets_all_that_is_asked_for_however_often_and_however_many(
    tool: str, make_provider: MakeProvider, embedder: ScriptedEmbedder, dsn: str
) -> None:
    table, columns, values = (
        ("memory_entries", "target", "'memory'")
        if tool == "recall_memory"
        else ("conversations", "session_id, role", "gen_random_uuid()::text, 'user'")
    )
    insert = f"INSERT INTO {table} (agent_identity, content, embedding, {columns}) VALUES (%s, %s, %s, {values})"
    rows = [("marketing", f"Entry {number}", near(number, 6 + number)) for number in range(OWN)]
    rows += [("sales", f"Entry {number}", near(3, number % 5)) for number in range(OTHERS)]  # all nearer than ours
    with psycopg.connect(dsn) as connection:
        connection.cursor().executemany(insert.encode(), rows)
    provider = make_provider({"embed_url": embedder.url, "pool_max_size": 1, "recall_deadline_s": 60})
    landed(provider)
    exact = f"SELECT id FROM {table} WHERE agent_identity = 'marketing' ORDER BY (embedding <=> %s) + 0 LIMIT %s"
    with psycopg.connect(dsn) as connection:
        found = connection.execute(exact.encode(), (str(hash_vector(QUERY, DIMS)), Int8(OWN))).fetchall()
    nearest = [row[0] for row in found]
    for limit in (5, 1, 10, 50, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 30, 2):  # past the call at which plans become generic
        answer = called(provider, tool, {"query": QUERY, "limit": limit})
        assert answer["mode"] == "hybrid"
        assert [result["id"] for result in answer["results"]] == nearest[:limit], limit


@pytest.mark.parametrize("tool", ["recall_memory", "recall_conversation"])
@pytest.mark.parametrize("scope", ["current", "all"])
def test_a_number_that_another_theme_has_too_changes_nothing_of_what_is_near(
    tool: str, scope: str, make_provider: MakeProvider, embedder: ScriptedEmbedder, dsn: str
) -> None:
    """A restore of the data alone leaves sequences behind: new rows get numbers that other themes have."""
    table, columns, values = (
        ("memory_entries", "target", "'memory'")
        if tool == "recall_memory"
        else ("conversations", "session_id, role", "gen_random_uuid()::text, 'user'")
    )
    insert = (
        f"INSERT INTO {table} (agent_identity, id, content, embedding, {columns}) VALUES (%s, %s, %s, %s, {values})"
    )
    rows = [("marketing", number, f"Entry {number}", near(number, 2)) for number in range(1, 4)]
    rows += [
        ("sales", 1, "Waits for its vector", None),
        ("sales", 2, "Is nearest", near(3, 0)),
        ("sales", 3, "Is far", near(0, 9)),
    ]
    with psycopg.connect(dsn) as connection:
        connection.cursor().executemany(insert.encode(), rows)
        pause = f"UPDATE {table} SET embed_after = now() + interval '1 hour' WHERE embedding IS NULL"
        connection.execute(pause.encode())
    provider = make_provider({"embed_url": embedder.url, "recall_deadline_s": 60})
    answer = called(provider, tool, {"query": QUERY, "limit": 20, "scope": scope})
    assert answer["mode"] == "hybrid"
    found = [(result["id"], result["content"]) for result in answer["results"]]
    if scope == "current":
        assert found == [(number, f"Entry {number}") for number in (3, 2, 1)]
    else:
        assert found[0] == (2, "Is nearest")
