"""Procedures and reflections: at the first message of a session, the one whose situation the message speaks of."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.domain.chunks import estimate_tokens
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.hostile import HOSTILE, plain_lines
from tests.support.local_models import link_model
from tests.support.memory import called, landed, runtime_of
from tests.support.model_files import MODEL_NAME
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.slow_proxy import SlowProxy

STRUCTURED: dict[str, Any] = {"tools": ["remember", "forget"], "structure": True, "prefetch_deadline_s": 8.0}
BUNDLED = STRUCTURED | {"embed_url": f"local:{MODEL_NAME}", "embed_model": MODEL_NAME, "dims": 384}
MIGRATE = "Run the migrations first, then restart two workers at a time."
DEPLOY = "Please deploy the API to staging."
GENERAL = ("Good morning, what can you do for me?", "What is the capital of Mongolia?", "Give me a short summary.")
_sessions = itertools.count()


def learn(provider: PgvectorMemoryProvider, content: str, when: str | None = "deploying the API", **said: str) -> int:
    given = {"content": content, "kind": "procedure", "sync": True} | ({"when": when} if when else {}) | said
    answer = called(provider, "remember", given)
    assert answer.get("state") == "stored", answer
    return int(answer["id"])


def begun(provider: PgvectorMemoryProvider, message: str) -> list[str]:
    """The lines that a new session begins with."""
    provider.on_session_switch(f"task-{next(_sessions)}", reset=True)
    return shown(provider, message)


def shown(provider: PgvectorMemoryProvider, message: str) -> list[str]:
    block = provider.prefetch(message)
    return plain_lines(block) if block else []


@pytest.fixture(params=["words", "meaning"])
def provider(request: pytest.FixtureRequest, home: Path, make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider with and without the bundled model."""
    if request.param == "meaning":
        link_model(home)
    return make_provider(BUNDLED if request.param == "meaning" else STRUCTURED)


def test_the_first_message_of_a_session_gets_the_procedure_for_its_situation(provider: PgvectorMemoryProvider) -> None:
    learn(provider, MIGRATE)
    learn(provider, "Ask how long it may be, and for whom it is.", "writing a blog post")
    learn(provider, "The first attempt was far too long for a phone.", "writing a blog post", kind="reflection")
    (line,) = begun(provider, DEPLOY)
    assert line.endswith(f', procedure, when deploying the API] "{MIGRATE}"')
    assert shown(provider, "Deploy the API to production as well, please.") == [], "it was shown"
    (line,) = begun(provider, "Write a blog post on sleep.")
    assert ", reflection, when writing a blog post]" in line, "one at most, of equals the newest"


def test_a_message_of_another_kind_gets_none(provider: PgvectorMemoryProvider) -> None:
    learn(provider, MIGRATE)
    for message in GENERAL:
        assert begun(provider, message) == [], message


def test_later_messages_find_it_as_any_other_memory(provider: PgvectorMemoryProvider) -> None:
    learn(provider, MIGRATE)
    assert begun(provider, GENERAL[0]) == []
    assert shown(provider, DEPLOY) == [], "the situation counts at the first message only"
    (line,) = shown(provider, "Restart the workers: run the migrations first, or how many at a time?")
    assert MIGRATE in line and "when deploying the API" in line
    (result,) = called(provider, "recall_memory", {"query": "restart workers migrations"})["results"]
    assert (result["kind"], result["when"]) == ("procedure", "deploying the API")


def test_without_a_situation_it_is_a_memory_like_others(provider: PgvectorMemoryProvider) -> None:
    learn(provider, MIGRATE, None)
    assert begun(provider, DEPLOY) == []
    (line,) = begun(provider, "Restart the workers: run the migrations first, or how many at a time?")
    assert ", memory]" in line and MIGRATE in line


def test_meaning_finds_a_situation_in_other_words(home: Path, make_provider: MakeProvider) -> None:
    link_model(home)
    provider = make_provider(BUNDLED)
    learn(provider, "Offer a refund before anything else.", "answering a customer's complaint")
    learn(provider, "Use the dump of the night.", "restoring a database backup")
    (line,) = begun(provider, "A client complains about the invoice, what do I write?")
    assert "Offer a refund" in line


def test_it_stands_behind_what_answers_and_within_the_budget(make_provider: MakeProvider) -> None:
    provider = make_provider(STRUCTURED | {"prefetch_passes": "several", "prefetch_limit": 2, "turn_min_chars": 1})
    provider.sync_turn("Let us speak about clocks for a while.", "Clocks: gladly.")
    learn(provider, MIGRATE)
    for text in ("The staging API runs in Bergen", "Whoever deploys to staging tells Ingrid before the API is down"):
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    lines = begun(provider, DEPLOY)
    assert ["staging" in line for line in lines] == [True, True, False, False]
    assert MIGRATE in lines[2] and "clocks" in lines[3]
    small = make_provider(STRUCTURED | {"prefetch_max_tokens": 80}, session_id="session-small").prefetch(DEPLOY)
    assert small and estimate_tokens(small) <= 80


def test_what_is_found_anyway_stands_once(provider: PgvectorMemoryProvider) -> None:
    learn(provider, "To deploy the API to staging, run the migrations first.")
    (line,) = begun(provider, DEPLOY)
    assert "when deploying the API" in line


@pytest.mark.parametrize("column", ["state = 'archived'", "state = 'superseded'", "expires_at = now()"])
def test_what_is_not_current_is_not_shown(column: str, make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    learn(provider, MIGRATE)
    with psycopg.connect(dsn) as connection:
        connection.execute(f"UPDATE memory_entries SET {column}".encode())
    assert begun(provider, DEPLOY) == []


def test_need_04_another_theme_has_procedures_of_its_own(make_provider: MakeProvider) -> None:
    learn(make_provider(STRUCTURED, gateway_session_key="atlas"), MIGRATE)
    assert begun(make_provider(STRUCTURED, gateway_session_key="borealis"), DEPLOY) == []


def test_a_chat_gets_those_of_the_theme_that_its_memories_have(make_provider: MakeProvider) -> None:
    chat = make_provider(STRUCTURED, platform="telegram", chat_id="17", user_id="u1", chat_type="private")
    learn(chat, MIGRATE)
    (line,) = begun(chat, DEPLOY)
    assert MIGRATE in line


@pytest.mark.parametrize("text", HOSTILE)
def test_a_situation_is_quoted_as_any_text(text: str, make_provider: MakeProvider) -> None:
    provider = make_provider(STRUCTURED)
    learn(provider, MIGRATE, f"deploying API [x] {text}"[:900])
    shown(provider, "Please deploy the API [x] " + text)


def test_an_endpoint_that_is_late_leaves_it_to_the_words(
    make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    provider = make_provider(STRUCTURED | {"embed_url": embedder.url})
    learn(provider, MIGRATE)
    assert runtime_of(provider).writer.flush(10)
    embedder.mode = "down"
    (line,) = begun(provider, DEPLOY)
    assert MIGRATE in line


def test_a_theme_asks_for_them_in_a_round_trip_that_it_takes_anyway(
    make_provider: MakeProvider, direct_dsn: str
) -> None:
    with SlowProxy.before(direct_dsn) as way:
        provider = make_provider(STRUCTURED | {"dsn": way.conninfo(direct_dsn)})
        learn(provider, MIGRATE)
        provider.on_memory_write("add", "memory", "The harbour crane is greased on Mondays by Ingrid")
        landed(provider)

        def trips(message: str, *, first: bool) -> int:
            counted = []
            for _ in range(4):
                if first:
                    provider.on_session_switch(f"task-{next(_sessions)}", reset=True)
                before = way.trips
                provider.prefetch(message)
                counted.append(way.trips - before)
            return min(counted)

        asked = "Deploy the API, and when is the harbour crane greased?"
        assert trips(asked, first=True) == trips(asked, first=False)
