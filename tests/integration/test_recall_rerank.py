"""A cross-encoder puts the best results in their last order, where one is set; whatever goes wrong, recall goes on."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from operator import mul
from typing import Any

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.embedding_server import OnnxModel
from tests.support.limits import LATE_S
from tests.support.memory import called, landed, recalled, runtime_of
from tests.support.model_files import model_dir
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.scripted_reranker import FAULTS, Mode, ScriptedReranker
from tests.support.stored import Database
from tests.support.turns import seconds
from tests.support.waiting import until

TOOLS = ("recall_memory", "recall_conversation")
QUERY = "harbour crane greased"
NAMES = ["one", "two", "three", "four", "five", "six"]
BUSY = (
    "SELECT count(*) FROM pg_stat_activity WHERE usename = 'hermes' AND state <> 'idle'"
    " AND datname = current_database() AND pid <> pg_backend_pid()"
)


def said(name: str) -> str:
    return f"The harbour crane {name} is greased" + ", as far as we know today" * NAMES.index(name)


def against_the_grain(question: str, text: str) -> float:
    """The longer, the better: the opposite of what words say."""
    return float(len(text))


@pytest.fixture
def reranker() -> Iterator[ScriptedReranker]:
    """An endpoint that prefers the longest text."""
    with ScriptedReranker(score=against_the_grain) as server:
        yield server


def knowing(provider: PgvectorMemoryProvider) -> PgvectorMemoryProvider:
    for name in NAMES:
        provider.on_memory_write("add", "memory", said(name))
        provider.sync_turn(said(name), None, session_id=f"session-of-{name}")
    landed(provider)
    return provider


@pytest.fixture
def config(reranker: ScriptedReranker) -> dict[str, Any]:
    """Settings with the endpoint."""
    return {"rerank_url": reranker.url, "rerank_model": "cross", "turn_min_chars": 1}


@pytest.mark.parametrize("tool", TOOLS)
def test_need_24_the_endpoint_has_the_last_word_and_explain_shows_its_rank(
    tool: str, make_provider: MakeProvider, config: dict[str, Any], embedder: ScriptedEmbedder
) -> None:
    provider = knowing(make_provider(config | {"embed_url": embedder.url}))
    plain = make_provider({"embed_url": embedder.url})
    best_first = sorted(map(said, NAMES), key=len, reverse=True)
    answer = called(provider, tool, {"query": QUERY, "limit": 3, "explain": True})
    assert [result["content"] for result in answer["results"]] == best_first[:3]
    assert answer["reranked"] is True and answer["mode"] == "hybrid"
    for rank, result in enumerate(answer["results"], 1):
        assert result["explain"]["rerank_rank"] == rank
        assert result["explain"]["rerank_score"] == len(result["content"])
    assert [turn["explain"]["meaning_rank"] for turn in answer["results"]] != [1, 2, 3], "the legs' ranks stay theirs"
    fused = called(plain, tool, {"query": QUERY, "limit": 3, "explain": True})
    assert "reranked" not in fused and "rerank_rank" not in fused["results"][0]["explain"]
    assert [result["content"] for result in fused["results"]] != best_first[:3]


def test_pages_of_what_was_put_in_order_are_the_whole_and_are_asked_for_once(
    make_provider: MakeProvider, config: dict[str, Any], reranker: ScriptedReranker
) -> None:
    provider = knowing(make_provider(config | {"rerank_candidates": 4}))
    whole = recalled(provider, QUERY, limit=6)
    assert len(reranker.bodies) == 1 and len(reranker.bodies[0]["documents"]) == 4
    assert [text for offset in range(6) for text in recalled(provider, QUERY, limit=1, offset=offset)] == whole
    assert len(reranker.bodies) == 1
    assert called(provider, "recall_memory", {"query": QUERY, "offset": 4}).get("reranked") is None


def test_a_hit_keeps_the_turns_around_it(make_provider: MakeProvider, config: dict[str, Any]) -> None:
    provider = make_provider(config)
    for name in NAMES:
        provider.sync_turn(f"What of the harbour crane {name}?", said(name), session_id="session-0")
    landed(provider)
    best = called(provider, "recall_conversation", {"query": QUERY, "role": "assistant"})["results"][0]
    assert best["content"] == said("six")
    assert [turn["content"] for turn in best["around"]] == ["What of the harbour crane six?"]


def test_what_is_put_before_a_turn_is_put_in_order_only_where_that_is_set(
    make_provider: MakeProvider, config: dict[str, Any], reranker: ScriptedReranker
) -> None:
    provider = knowing(make_provider(config))
    assert said("one") in provider.prefetch(QUERY)
    assert reranker.bodies == []
    provider = make_provider(config | {"rerank_prefetch": True, "prefetch_limit": 1}, session_id="session-9")
    assert said("six") in provider.prefetch(QUERY)
    assert len(reranker.bodies) == 1


def test_what_is_put_before_a_turn_of_a_chat_is_in_that_order_as_well(
    make_provider: MakeProvider, config: dict[str, Any]
) -> None:
    """A chat's turns and its memories are in two themes, which are searched one after the other."""
    chat = {"platform": "telegram", "gateway_session_key": "agent:main:telegram:dm:4915112345678"}
    provider = make_provider(config | {"rerank_prefetch": True, "prefetch_limit": 1}, **chat)
    best = "The harbour crane is greased on Mondays, before the ferry leaves the northern quay, by Ingrid or Maren"
    for text in (best, "The harbour crane is greased"):
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    assert best in provider.prefetch(QUERY)


@pytest.mark.parametrize("mode", FAULTS)
def test_when_the_endpoint_is_late_wrong_or_absent_the_order_stands_and_it_is_counted(
    mode: Mode, make_provider: MakeProvider, config: dict[str, Any], reranker: ScriptedReranker
) -> None:
    provider = knowing(make_provider(config | {"rerank_deadline_s": 0.3 if mode == "hanging" else 20}))
    plain = recalled(make_provider(), QUERY)
    reranker.mode = mode
    answer = called(provider, "recall_memory", {"query": QUERY, "limit": 50})
    assert [result["content"] for result in answer["results"]] == plain
    assert "reranked" not in answer
    stats = runtime_of(provider).stats()
    assert stats.get("rerank_failures", 0) + stats.get("rerank_late", 0) == 1


def test_trap_09_the_endpoints_deadline_holds_and_after_failures_it_costs_nothing(
    make_provider: MakeProvider,
    config: dict[str, Any],
    reranker: ScriptedReranker,
    records: Callable[[int], list[str]],
) -> None:
    provider = knowing(make_provider(config | {"rerank_deadline_s": 0.3}))
    reranker.mode = "hanging"
    for number in range(3):
        assert seconds(lambda number=number: recalled(provider, f"{QUERY} {number}")) < 0.3 + LATE_S  # type: ignore[misc]
    until(lambda: runtime_of(provider).stats()["reranker"] == "open", 20, "the breaker")
    asked = len(reranker.bodies)
    assert len(recalled(provider, QUERY)) == len(NAMES)
    assert len(reranker.bodies) == asked
    assert len([line for line in records(logging.WARNING) if "keep the order" in line]) == 1


def test_a_deadline_of_recall_that_is_shorter_counts(
    make_provider: MakeProvider, config: dict[str, Any], reranker: ScriptedReranker
) -> None:
    provider = knowing(make_provider(config | {"rerank_deadline_s": 30, "recall_deadline_s": 1.5}))
    reranker.mode = "hanging"
    started = time.monotonic()
    assert len(recalled(provider, QUERY)) == len(NAMES)
    assert time.monotonic() - started < 1.5 + LATE_S


def test_need_10_no_connection_is_held_while_it_thinks(
    make_provider: MakeProvider, config: dict[str, Any], reranker: ScriptedReranker, admin_dsn: str
) -> None:
    provider = knowing(make_provider(config | {"pool_max_size": 1, "rerank_deadline_s": 30, "recall_deadline_s": 30}))
    reranker.mode = "hanging"
    asking = threading.Thread(target=lambda: recalled(provider, QUERY))
    asking.start()
    assert reranker.arrived.wait(60)
    until(lambda: Database(admin_dsn).column(BUSY) == [0], 20, "the connection to be given back")
    assert said("one") in provider.prefetch(QUERY), "the pool's only connection is free"
    assert asking.is_alive()
    reranker.mode = "ok"
    asking.join(150)


def test_need_22_the_key_comes_from_the_environment_and_is_shown_nowhere(
    make_provider: MakeProvider,
    config: dict[str, Any],
    reranker: ScriptedReranker,
    monkeypatch: pytest.MonkeyPatch,
    records: Callable[[int], list[str]],
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_RERANK_API_KEY", "sk-key-123456")
    provider = knowing(make_provider(config))
    recalled(provider, QUERY)
    assert reranker.headers[0]["Authorization"] == "Bearer sk-key-123456"
    reranker.mode = "unauthorized"
    for number in range(4):
        recalled(provider, f"{QUERY} {number}")
    assert "sk-key-123456" not in json.dumps(runtime_of(provider).stats()) + "".join(records(logging.DEBUG))


def test_need_02_an_endpoint_that_cannot_be_used_is_said_once_and_recall_goes_on(
    make_provider: MakeProvider, records: Callable[[int], list[str]]
) -> None:
    provider = knowing(make_provider({"rerank_url": "localhost:8080"}))
    assert len(recalled(provider, QUERY)) == len(NAMES)
    (warning,) = [line for line in records(logging.WARNING) if "not reranked" in line]
    assert "rerank_url" in warning and "http://" in warning


def test_need_24_stats_tell_how_long_it_takes(make_provider: MakeProvider, config: dict[str, Any]) -> None:
    provider = knowing(make_provider(config))
    recalled(provider, QUERY)
    stats = runtime_of(provider).stats()
    assert 0 < stats["rerank_p50_ms"] <= stats["rerank_p95_ms"] < 60_000
    assert (stats["reranker"], stats["reranked"], stats["rerank_requests"]) == ("closed", 1, 1)


def test_a_real_model_finds_the_answer_that_words_miss(make_provider: MakeProvider) -> None:
    model = OnnxModel(model_dir())

    def similarity(question: str, text: str) -> float:
        return float(sum(map(mul, model.embed(question), model.embed(text))))

    answer = "Our kitten naps on the radiator all afternoon, near the window."
    with ScriptedReranker(apis=["tei"], paths=["/rerank"], score=similarity) as server:
        provider = make_provider({"rerank_url": server.url, "rerank_deadline_s": 30, "recall_deadline_s": 60})
        for text in (
            answer,
            "The radiator of the truck leaks near the pump.",
            "The radiator was painted by the cat club.",
        ):
            provider.on_memory_write("add", "memory", text)
        landed(provider)
        asked = {"query": "Where does the cat sleep? On the radiator?", "explain": True}
        best = called(provider, "recall_memory", asked)["results"][0]
        assert best["content"] == answer and best["explain"]["rerank_rank"] == 1
        assert called(make_provider(), "recall_memory", asked)["results"][0]["content"] != answer
