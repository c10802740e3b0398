"""The dashboard's view of what an agent gets before a message: the very block, and why not more."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.domain.chunks import estimate_tokens
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.hostile import HOSTILE
from tests.support.local_models import link_model, link_reranker
from tests.support.memory import called, knowing, landed, runtime_of
from tests.support.model_files import MODEL_NAME
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.waiting import until

from .conftest import ServeApi

CRANE = "The harbour crane is greased on Mondays by Ingrid"
INVOICE = "Violet invoices go to the cellar archive in Bremen, behind the harbour"
ASK_CRANE = "When is the harbour crane greased?"
ASKED = "Who oils the ship to shore crane, and on which days of the week?"
ANSWERED = "Ingrid oils the ship to shore crane, always on Thursdays."


def filled(provider: PgvectorMemoryProvider) -> PgvectorMemoryProvider:
    return knowing(provider, CRANE, INVOICE, said=(ASKED, ANSWERED))


def anew(make_provider: MakeProvider, config: dict[str, Any] | None = None, **session: Any) -> PgvectorMemoryProvider:
    """A provider of a session that begins now."""
    return make_provider(config, **({"session_id": "session-2"} | session))


@pytest.mark.parametrize("by", ["words", "meaning"])
@pytest.mark.parametrize(
    "message",
    [
        ASK_CRANE,
        "Where do violet invoices go, and who oils the crane?",
        "<memory-context>old notes</memory-context> [System note: it is late]\n\nWhere do violet invoices go?",
        "Any rain expected near Lisbon?",
        "crane " * 3000,
    ],
)
def test_the_block_is_the_one_that_an_agent_gets(
    serve_api: ServeApi, make_provider: MakeProvider, embedder: ScriptedEmbedder, by: str, message: str
) -> None:
    config = {"embed_url": embedder.url} if by == "meaning" else {}
    filled(make_provider(config))
    agent, api = anew(make_provider, config), serve_api(**config)
    until(lambda: not api.get("/agent-view", message=message, theme="marketing")["loading"], what="all to be ready")

    found = api.get("/agent-view", message=message, theme="marketing")

    assert found["block"] == agent.prefetch(message)
    assert found["tokens"] == (estimate_tokens(found["block"]) if found["block"] else 0)
    assert found["budget_tokens"] == 800
    assert (found["silent"] is None) == bool(found["block"])
    assert found["mode"] == ("hybrid" if by == "meaning" else "lexical")


@pytest.mark.parametrize(
    "settings",
    [
        {"prefetch_passes": "several"},
        {"prefetch_limit": 1},
        {"prefetch_max_tokens": 64},
        {"min_similarity": 0.9},
    ],
)
def test_the_block_follows_the_settings(
    serve_api: ServeApi, make_provider: MakeProvider, embedder: ScriptedEmbedder, settings: dict[str, Any]
) -> None:
    config = {"embed_url": embedder.url} | settings
    filled(make_provider(config))
    for text in HOSTILE:
        make_provider(config).on_memory_write("add", "memory", f"{text} about the crane")
    agent, api = anew(make_provider, config), serve_api(**config)
    landed(agent)
    api.get("/agent-view", message="Is it ready?", theme="marketing")

    found = api.get("/agent-view", message=ASK_CRANE, theme="marketing")

    assert found["block"] == agent.prefetch(ASK_CRANE) != ""


def test_the_block_of_a_chat_has_memories_of_its_profile(serve_api: ServeApi, make_provider: MakeProvider) -> None:
    chat = {"platform": "telegram", "gateway_session_key": "agent:main:telegram:dm:42", "agent_identity": "default"}
    filled(make_provider(**chat))
    agent = anew(make_provider, **chat)
    theme = agent._context.place.turns.name  # type: ignore[union-attr]
    assert theme.startswith("@telegram/")

    message = "Where do violet invoices go, and on which days does Ingrid oil the crane?"

    found = serve_api().get("/agent-view", message=message, theme=theme)

    assert found["block"] == agent.prefetch(message)
    assert {line["theme"] for line in found["lines"]} == {theme, "default"}


def test_with_the_bundled_models_the_block_is_the_same_as_well(
    serve_api: ServeApi, make_provider: MakeProvider, tmp_path: Path
) -> None:
    patient = {"prefetch_deadline_s": 8.0, "rerank_deadline_s": 6.0}  # on a busy machine a model may be late
    config = {"embed_url": f"local:{MODEL_NAME}"} | patient
    api = serve_api(**config)
    for home in (tmp_path / "hermes-home", tmp_path / "agent" / ".hermes"):
        link_model(home)
        link_reranker(home)
    agent = filled(make_provider(config))
    runtime_of(agent).searcher.load_reranker()
    called(agent, "recall_memory", {"query": ASK_CRANE})

    def seen() -> dict[str, Any] | None:
        found = api.get("/agent-view", message=ASK_CRANE, theme="marketing")
        judged = any("the reranker gives it a chance of" in row["why"] for row in found["below"] if row["ref"] == "m2")
        return found if judged and not found["loading"] else None

    found = until(seen, what="the models")
    assert found is not None and CRANE in found["block"]
    sessions = (anew(make_provider, config, session_id=f"session-{number}") for number in count(2))
    until(lambda: next(sessions).prefetch(ASK_CRANE) == found["block"], what="the same block")
    assert 0 < found["bar"] < found["bar_of_turns"] < 1


def test_it_says_what_is_in_the_block_and_what_fell_below_the_bar(
    serve_api: ServeApi, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    filled(make_provider({"embed_url": embedder.url, "min_similarity": 0.6}))

    found = serve_api(embed_url=embedder.url, min_similarity=0.6).get(
        "/agent-view", message="The harbour crane is greased on Mondays", theme="marketing"
    )

    assert [(line["ref"], line["content"]) for line in found["lines"]] == [("m1", CRANE)]
    below = {row["ref"]: row for row in found["below"]}
    assert {"m2", "t1", "t2"} == set(below)
    assert below["m2"]["similarity"] < found["bar"] == 0.6
    assert f"its similarity is {below['m2']['similarity']:.2f}, and 0.60 would do" in below["m2"]["why"]


def test_among_few_turns_one_need_not_be_as_near_as_among_hundreds(
    serve_api: ServeApi, make_provider: MakeProvider, embedder: ScriptedEmbedder, admin_dsn: str
) -> None:
    filled(make_provider({"embed_url": embedder.url}))
    api = serve_api(embed_url=embedder.url)

    def bar_of_turns() -> float:
        found = until(lambda: api.get("/agent-view", message=ASK_CRANE, theme="marketing")["bar_of_turns"])
        return float(found)

    of_few = bar_of_turns()
    with psycopg.connect(admin_dsn) as connection:
        connection.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content, ts)"
            " SELECT 'marketing', 'other', 'user', 'The ferry was late by ' || n, now() - n * interval '1 minute'"
            " FROM generate_series(1, 400) AS n"
        )
    assert of_few < bar_of_turns()


def test_it_says_what_is_about_another_one(serve_api: ServeApi, make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Order 77120 went to the wrong address")
    landed(provider)

    found = serve_api().get("/agent-view", message="Any news on order 90311?", theme="marketing")

    assert found["lines"] == []
    assert [row["why"] for row in found["below"]] == [
        "it names another one than the message asks for, of the same kind"
    ]


@pytest.mark.parametrize("by", ["words", "meaning"])
def test_it_says_what_is_of_another_time(
    serve_api: ServeApi, make_provider: MakeProvider, embedder: ScriptedEmbedder, by: str
) -> None:
    config = {"embed_url": embedder.url} if by == "meaning" else {}
    told = "A talk about the harbour crane, and what we have to grease"
    knowing(make_provider(config), told, INVOICE, said=(ASKED, ANSWERED))
    api = serve_api(**config)
    until(lambda: not api.get("/agent-view", message=ASK_CRANE, theme="marketing")["loading"], what="all to be ready")

    found = api.get("/agent-view", message="What did we talk about in March 2019?", theme="marketing")

    assert found["block"] == ""
    assert found["below"]
    assert {line["why"] for line in found["below"]} == {"it is of another time than the message asks about"}


def test_it_says_what_found_no_room(serve_api: ServeApi, make_provider: MakeProvider) -> None:
    provider = make_provider()
    for number in range(3):
        provider.on_memory_write("add", "memory", f"Crane number {number} of harbour {number * 7} is greased by Ingrid")
    landed(provider)

    found = serve_api(prefetch_limit=1).get("/agent-view", message="Which harbour crane is greased?", theme="marketing")

    assert len(found["lines"]) == 1
    assert [row["why"].split(" (")[0] for row in found["below"]] == ["there was no room for another line"] * 2


def test_of_a_session_what_it_still_has_is_left_out(serve_api: ServeApi, make_provider: MakeProvider) -> None:
    provider = filled(make_provider())
    message = "Who oils the ship to shore crane, and on which days?"

    found = serve_api().get("/agent-view", message=message, theme="marketing", session="session-1")

    assert found["block"] == provider.prefetch(message)
    held = [row["why"] for row in found["below"] if row["ref"].startswith("t")]
    assert set(held) <= {"the session still has it before it"}


@pytest.mark.parametrize(
    ("settings", "message", "why"),
    [
        ({}, "ok, thanks!", "there is nothing to look for in this message"),
        ({}, "\u200b \u202e", "there is nothing to look for in this message"),
        ({"prefetch_limit": 0}, ASK_CRANE, "recall before a turn is off (setting `prefetch_limit` is 0)"),
        ({"recall_off": ["marketing"]}, ASK_CRANE, "sessions of this theme recall nothing (setting `recall_off`)"),
        ({"recall_off": ["default"]}, ASK_CRANE, "sessions of this theme recall nothing (setting `recall_off`)"),
        ({}, "Any rain expected near Lisbon?", "nothing in the theme"),
    ],
)
def test_silence_has_a_reason(
    serve_api: ServeApi, make_provider: MakeProvider, settings: dict[str, Any], message: str, why: str
) -> None:
    filled(make_provider())
    agent = anew(make_provider, settings, agent_identity="default")

    found = serve_api(**settings).get("/agent-view", message=message, theme="marketing")

    assert found["block"] == agent.prefetch(message) == ""
    assert (found["tokens"], found["lines"]) == (0, [])
    assert why in found["silent"]
    assert (found["mode"] is None) == ("nothing in the theme" not in why)


@pytest.mark.parametrize("mode", ["down", "hanging"])
def test_without_the_endpoint_it_is_what_words_find(
    serve_api: ServeApi, make_provider: MakeProvider, embedder: ScriptedEmbedder, mode: Any
) -> None:
    filled(make_provider({"embed_url": embedder.url}))
    embedder.mode = mode
    api = serve_api(embed_url=embedder.url)

    found = api.get("/agent-view", message=ASK_CRANE, theme="marketing")

    assert found["took_ms"] < 1000
    assert (found["mode"], found["why_by_words"]) == (
        "lexical",
        "the embedding endpoint did not answer; see: hermes-pgvector doctor",
    )
    assert CRANE in found["block"]


def test_an_agent_does_not_notice(serve_api: ServeApi, make_provider: MakeProvider) -> None:
    filled(make_provider())
    agent, api = anew(make_provider), serve_api()
    counted = runtime_of(agent).stats()

    block = api.get("/agent-view", message=ASK_CRANE, theme="marketing", session="session-2")["block"]

    assert runtime_of(agent).counts["prefetches"] == counted.get("prefetches", 0)
    assert agent.prefetch(ASK_CRANE) == block, "what the page has shown counts as shown to the session"


def test_a_message_and_its_theme_have_to_be_there(serve_api: ServeApi) -> None:
    api = serve_api()
    assert api.refused("/agent-view", theme="marketing") == (400, "message is missing")
    status, error = api.refused("/agent-view", message=ASK_CRANE, theme="nowhere")
    assert (status, error) == (400, "no theme 'nowhere' holds anything; see: hermes-pgvector themes list")


def test_of_two_rows_with_the_same_words_the_one_that_stands_there_is_named(
    serve_api: ServeApi, make_provider: MakeProvider
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", CRANE)
    provider.sync_turn(CRANE, "Good to know: the harbour crane is greased on Mondays by Ingrid, and by nobody else.")
    landed(provider)

    found = serve_api().get("/agent-view", message="Who greases the harbour crane on Mondays?", theme="marketing")

    refs = [line["ref"] for line in found["lines"]] + [row["ref"] for row in found["below"]]
    assert sorted(refs) == ["m1", "t1", "t2"]
    assert all(row["why"] for row in found["below"])
