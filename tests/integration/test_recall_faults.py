"""Recall while something is slow, locked or absent, and right after it; what it says of itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import DIMS, MakeProvider
from tests.support.limits import LATE_S
from tests.support.memory import called, landed, runtime_of
from tests.support.ollama import FakeOllama
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.turns import seconds
from tests.support.waiting import until

CRANE = "The harbour crane is greased on Mondays by Ingrid"
ASK_CRANE = "When is the harbour crane greased?"
TOOLS = ("recall_memory", "recall_conversation")
_OURS = "FROM pg_stat_activity WHERE usename = 'hermes' AND state = 'active' AND datname = current_database()"


@contextmanager
def tables_locked(admin_dsn: str) -> Iterator[None]:
    """What ALTER TABLE or VACUUM FULL does to everybody else."""
    with psycopg.connect(admin_dsn) as connection:
        connection.execute("LOCK TABLE conversations, memory_entries IN ACCESS EXCLUSIVE MODE")
        yield


def knowing(provider: PgvectorMemoryProvider) -> PgvectorMemoryProvider:
    """The provider, knowing of the crane."""
    provider.on_memory_write("add", "memory", CRANE)
    provider.sync_turn(f"{CRANE}, remember that for me please.", "Noted.", session_id="session-0")
    landed(provider)
    return provider


def test_trap_08_an_empty_block_of_an_outage_does_not_suppress_recall_after_it(
    make_provider: MakeProvider, admin_dsn: str
) -> None:
    provider = knowing(make_provider({"prefetch_deadline_s": 1.0}))
    with tables_locked(admin_dsn):
        assert provider.prefetch(ASK_CRANE) == ""
        provider.queue_prefetch(ASK_CRANE)
    assert CRANE in provider.prefetch(ASK_CRANE)
    assert runtime_of(provider).counts["prefetch_failures"] == 1


def test_trap_08_nor_does_an_outage_of_the_endpoint(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> None:
    provider = knowing(make_provider({"embed_url": embedder.url, "prefetch_deadline_s": 2.0}))
    embedder.mode = "http_500"
    meant = "Ingrid, Mondays: crane?"
    assert CRANE in provider.prefetch(meant), "by words"
    embedder.mode = "ok"
    provider.on_session_switch("session-2", reset=True)
    assert CRANE in provider.prefetch(meant)


def test_need_09_an_endpoint_that_gives_every_text_the_same_vector_leaves_recall_to_the_words(
    make_provider: MakeProvider, caplog: pytest.LogCaptureFixture
) -> None:
    broken = FakeOllama({"broken": DIMS})
    try:
        provider = knowing(make_provider({"embed_url": f"http://{broken.host}", "embed_model": "broken"}))
        assert CRANE in provider.prefetch(ASK_CRANE)
        assert provider.prefetch("Which colour has the new tram to Gothenburg?") == "", "as near to that as to all"
        assert not [line for line in caplog.messages if "goes on without it" in line]
    finally:
        broken.close()


def test_trap_08_a_block_is_never_the_one_of_the_message_before(make_provider: MakeProvider) -> None:
    provider = knowing(make_provider())
    provider.on_memory_write("add", "memory", "Violet invoices go to the cellar archive in Bremen")
    landed(provider)
    for number in range(3):
        provider.on_session_switch(f"session-{number}", reset=True)
        provider.queue_prefetch(ASK_CRANE)
        block = provider.prefetch("Where do violet invoices go?")
        assert "cellar archive" in block and "crane" not in block
        assert CRANE in provider.prefetch(ASK_CRANE)


def test_trap_09_a_locked_table_bounds_recall_and_leaves_nothing_running(
    make_provider: MakeProvider, admin_dsn: str, dsn: str
) -> None:
    provider = knowing(make_provider({"prefetch_deadline_s": 1.0, "recall_deadline_s": 1.0}))
    with tables_locked(admin_dsn):
        assert seconds(lambda: provider.prefetch(ASK_CRANE)) < 1.0 + LATE_S
        for tool in TOOLS:
            assert seconds(lambda tool=tool: called(provider, tool, {"query": ASK_CRANE})) < 1.0 + LATE_S  # type: ignore[misc]
            assert "deadline" in called(provider, tool, {"query": ASK_CRANE})["error"]
        until(
            lambda: Database(dsn).column(f"SELECT count(*) {_OURS} AND pid <> pg_backend_pid()") == [0], 20, "the end"
        )
    for tool in TOOLS:
        assert called(provider, tool, {"query": ASK_CRANE})["count"] == 1
    assert CRANE in provider.prefetch(ASK_CRANE)


@pytest.mark.parametrize("tool", TOOLS)
def test_trap_09_a_query_of_megabytes_is_answered_in_time(tool: str, make_provider: MakeProvider) -> None:
    provider = knowing(make_provider())
    for query in (
        ASK_CRANE + " " + " ".join(f"word{number}" for number in range(140_000)),
        ASK_CRANE + " ha" * 470_000,
        ASK_CRANE + "\n" + "船" * 1_400_000,
    ):
        assert len(query) > 1_390_000
        started = time.monotonic()
        assert called(provider, tool, {"query": query})["count"] == 1
        assert time.monotonic() - started < 2 + LATE_S
        assert seconds(lambda query=query: provider.prefetch(query)) < 1.5 + LATE_S  # type: ignore[misc]


# -- need 24 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_need_24_explain_says_which_leg_found_a_hit_at_which_rank(
    tool: str, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    provider = knowing(make_provider({"embed_url": embedder.url, "turn_min_chars": 1}))
    other = "Violet invoices go to the cellar archive in Bremen"
    provider.on_memory_write("add", "memory", other)
    provider.sync_turn(other, None, session_id="session-3")
    landed(provider)
    answer = called(provider, tool, {"query": CRANE, "explain": True})
    assert answer["mode"] == "hybrid"
    first, last = answer["results"][0], answer["results"][-1]
    assert first["explain"] | {"score": 0, "words_coverage": 0} == {
        "score": 0, "meaning_rank": 1, "words_rank": 1, "words_coverage": 0, "beside_a_match": False
    }  # fmt: skip
    assert first["explain"]["words_coverage"] == pytest.approx(1, abs=0.01)
    assert last["content"] == other
    assert last["explain"]["meaning_rank"] >= 2 and last["explain"]["words_rank"] is None
    assert last["explain"]["score"] < first["explain"]["score"]
    for no in (False, None, "no", 0):
        assert "explain" not in called(provider, tool, {"query": CRANE, "explain": no})["results"][0]


def test_need_24_explain_tells_a_turn_that_stands_beside_a_match(make_provider: MakeProvider) -> None:
    provider = make_provider({"turn_min_chars": 1})
    provider.sync_turn("Who greases the harbour crane on Mondays?", "That would be Ingrid.", session_id="session-0")
    landed(provider)
    answer = called(provider, "recall_conversation", {"query": "greases harbour crane Mondays", "explain": True})
    assert answer["mode"] == "lexical"
    (replied,) = answer["results"]
    assert replied["content"] == "That would be Ingrid."
    assert [turn["role"] for turn in replied["around"]] == ["user"]
    assert replied["explain"] | {"score": 0} == {
        "score": 0, "meaning_rank": None, "words_rank": None, "words_coverage": 0.0, "beside_a_match": True
    }  # fmt: skip


def test_need_24_no_error_is_empty(make_provider: MakeProvider, admin_dsn: str) -> None:
    provider = knowing(make_provider({"recall_deadline_s": 0.3}))
    errors = [
        called(provider, tool, args)["error"]
        for tool in (*TOOLS, "recall_everything")
        for args in ({}, {"query": "a", "limit": 0}, {"query": "a", "since": "?"}, {"query": "a", "offset": -1})
    ]
    with tables_locked(admin_dsn):
        errors += [called(provider, tool, {"query": "crane"})["error"] for tool in TOOLS]
    provider.shutdown()
    errors += [called(provider, tool, {"query": "crane"})["error"] for tool in TOOLS]
    errors += [called(PgvectorMemoryProvider(), tool, {"query": "crane"})["error"] for tool in TOOLS]
    for error in errors:
        assert len(error.split()) > 4, error


def test_need_24_stats_tell_how_long_embedding_searching_and_writing_take(
    make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    provider = knowing(make_provider({"embed_url": embedder.url}))
    for _ in range(5):
        called(provider, "recall_memory", {"query": ASK_CRANE})
    stats = runtime_of(provider).stats()
    for kind in ("embed", "search", "write"):
        assert 0 < stats[f"{kind}_p50_ms"] <= stats[f"{kind}_p95_ms"] < 60_000
    assert stats["searches"] == 5
    assert stats["embed_cache_hits"] == 4, "the same question is embedded once"
