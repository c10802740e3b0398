"""The vector leg is late or broken: what the words found is the answer, in time, and Postgres is left in peace."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall.background import Background
from hermes_memory_pgvector.store.connection import DeadlineConnection
from tests.conftest import MakeProvider
from tests.support.limits import LATE_S
from tests.support.memory import called, landed, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.turns import seconds
from tests.support.waiting import until

CRANE = "The harbour crane is greased on Mondays by Ingrid"
ASK_CRANE = "When is the harbour crane greased?"
TOOLS = ("recall_memory", "recall_conversation")
DEADLINE_S = 2.0
SLOW = "LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$"
BROKEN = "LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RAISE 'no such luck'; END $$"
WORKING = "LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS '$libdir/vector', 'binary_quantize'"
BUSY = (
    "SELECT count(*) FROM pg_stat_activity WHERE usename = 'hermes' AND state <> 'idle'"
    " AND datname = current_database() AND pid <> pg_backend_pid()"
)


@contextmanager
def vectors(admin_dsn: str, body: str) -> Iterator[None]:
    """The function that each search by vectors calls does something else."""
    create = "CREATE OR REPLACE FUNCTION binary_quantize(vector) RETURNS bit "
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute((create + body).encode())
        yield
        connection.execute((create + WORKING).encode())


@pytest.fixture
def provider(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> PgvectorMemoryProvider:
    """A provider that knows of the crane, in both stores, with an embedding endpoint."""
    made = make_provider(
        {"embed_url": embedder.url, "recall_deadline_s": DEADLINE_S, "prefetch_deadline_s": DEADLINE_S}
    )
    made.on_memory_write("add", "memory", CRANE)
    made.sync_turn(f"{CRANE}, remember that for me please.", "Noted.", session_id="session-0")
    landed(made)
    return made


@pytest.mark.parametrize("body", [SLOW, BROKEN], ids=["slow", "broken"])
@pytest.mark.parametrize("known", [True, False], ids=["vector known", "vector awaited"])
def test_trap_09_a_vector_leg_that_fails_leaves_the_answer_by_words(
    known: bool, body: str, provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder, admin_dsn: str
) -> None:
    if known:
        assert called(provider, "recall_memory", {"query": ASK_CRANE})["mode"] == "hybrid"
    else:
        embedder.latency_ms = 100
    with vectors(admin_dsn, body):
        for tool in TOOLS:
            started = time.monotonic()
            answer = called(provider, tool, {"query": ASK_CRANE})
            assert time.monotonic() - started < DEADLINE_S + LATE_S
            assert answer["mode"] == "lexical"
            assert CRANE in answer["results"][0]["content"]
        started = time.monotonic()
        assert CRANE in provider.prefetch(ASK_CRANE)
        assert time.monotonic() - started < DEADLINE_S + LATE_S
        until(lambda: Database(admin_dsn).column(BUSY) == [0], 20, "the statements on the server to end")
    assert runtime_of(provider).searcher.counts["vector_leg_failures"] == 3
    assert called(provider, "recall_memory", {"query": ASK_CRANE})["mode"] == "hybrid"


def test_trap_09_a_leg_by_words_that_fails_is_told_though_the_vector_is_known(
    provider: PgvectorMemoryProvider, admin_dsn: str
) -> None:
    assert called(provider, "recall_memory", {"query": ASK_CRANE})["mode"] == "hybrid"
    with psycopg.connect(admin_dsn) as locker:
        locker.execute("LOCK TABLE memory_entries IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        answer = called(provider, "recall_memory", {"query": ASK_CRANE})
        assert time.monotonic() - started < DEADLINE_S + LATE_S
    assert "deadline" in answer["error"] or "in time" in answer["error"]
    assert not runtime_of(provider).searcher.counts["vector_leg_failures"]


def test_need_24_a_known_question_takes_few_trips_and_no_thread(
    provider: PgvectorMemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = called(provider, "recall_memory", {"query": ASK_CRANE})
    trips: list[object] = []
    wait, asker = DeadlineConnection.wait, threading.get_ident()

    def noted(self: DeadlineConnection, gen: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != asker:  # the drain looks after something
            return wait(self, gen, *args, **kwargs)
        # What is only put into a pipeline waits for nothing.
        if not self.info.pipeline_status or getattr(gen, "__name__", "") == "_exit_gen":
            trips.append(gen)
        return wait(self, gen, *args, **kwargs)

    def refused(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a thread for a vector that is there")

    monkeypatch.setattr(DeadlineConnection, "wait", noted)
    monkeypatch.setattr(Background, "submit", refused)
    assert called(provider, "recall_memory", {"query": ASK_CRANE}) == first
    assert len(trips) <= 9, trips


def test_trap_09_a_table_locked_while_the_endpoint_thinks_costs_the_vectors_only(
    provider: PgvectorMemoryProvider, embedder: ScriptedEmbedder, admin_dsn: str, records: Callable[[int], list[str]]
) -> None:
    embedder.latency_ms = 60_000
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(
        target=lambda: answers.append(called(provider, "recall_conversation", {"query": ASK_CRANE}))
    )
    with psycopg.connect(admin_dsn) as locker:
        before = searched_by_words(admin_dsn)
        asking.start()
        until(lambda: searched_by_words(admin_dsn) > before, 20, "the words' leg")
        locker.execute("LOCK TABLE conversations, memory_entries IN ACCESS EXCLUSIVE MODE")
        embedder.latency_ms = 0
        embedder.mode = "ok"  # the vector comes now
        took_s = seconds(asking.join)
    assert took_s < DEADLINE_S + LATE_S
    (answer,) = answers
    assert answer["mode"] == "lexical" and CRANE in answer["results"][0]["content"]
    assert called(provider, "recall_conversation", {"query": ASK_CRANE})["mode"] == "hybrid"
    assert not records(logging.WARNING), "a slow moment is no outage"


def searched_by_words(admin_dsn: str) -> int:
    """When the runtime role last had what is around its results, in microseconds: a number that only grows."""
    (count,) = Database(admin_dsn).column(
        "SELECT coalesce(max(extract(epoch FROM state_change) * 1e6), 0)::bigint FROM pg_stat_activity"
        " WHERE usename = 'hermes' AND state = 'idle' AND query LIKE %s AND datname = current_database()",
        "%AS beside, near.*%",
    )
    return int(count)


def test_need_06_no_connection_is_held_while_the_endpoint_thinks(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, admin_dsn: str
) -> None:
    provider = make_provider({"embed_url": embedder.url, "pool_max_size": 1, "recall_deadline_s": 20})
    provider.on_memory_write("add", "memory", CRANE)
    landed(provider)
    embedder.mode = "hanging"
    embedder.arrived.clear()
    asking = threading.Thread(target=lambda: called(provider, "recall_memory", {"query": ASK_CRANE}))
    asking.start()
    assert embedder.arrived.wait(60)
    until(lambda: Database(admin_dsn).column(BUSY) == [0], 20, "the connection to be given back")
    assert asking.is_alive()
    embedder.mode = "ok"
    asking.join(150)
