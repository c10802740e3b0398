"""What is said under one session key is recalled under it, through the real gateway, and under no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.model_server import ChatRequest, ModelServer
from tests.support.stored import Database

FACT = "The codename of the autumn launch is Bluefox, and Dana signs it off."
FIRST_TURN = "Our newsletter leaves every second Thursday at nine, and Yusuf proofreads it the evening before."
SECOND_TURN = "The agency in Lisbon invoices us quarterly and wants purchase order Quokka-77 on every bill."
QUESTION = "Which codename does the autumn launch have?"

# One word of each statement that stands nowhere else, so that finding it means finding the statement.
MARKS = ("Bluefox", "Yusuf", "Quokka-77")


@pytest.fixture
def told_marketing(gateway: Gateway, database: Database) -> Gateway:
    """A gateway to which one memory and two turns were told under the key `marketing`."""
    for message in (f"remember: {FACT}", FIRST_TURN, SECOND_TURN):
        answer = gateway.post_chat(message, key="marketing")
        assert answer.status == 200, gateway.log()
    database.wait_for_memory(FACT)
    database.wait_for_turn(FIRST_TURN)
    database.wait_for_turn(SECOND_TURN)
    return gateway


def ask(gateway: Gateway, model: ModelServer, message: str, key: str, session: str = "") -> ChatRequest:
    """Sends `message` in a session, a new one by default; returns the last request that the model got for it."""
    before = len(model.requests)
    answer = gateway.post_chat(message, key=key, session=session or f"session-{before}")
    assert answer.status == 200, gateway.log()
    return [request for request in model.requests[before:] if request.tool_names][-1]


def call_tool(gateway: Gateway, model: ModelServer, name: str, arguments: dict[str, Any], key: str) -> str:
    """Has the model call a tool; returns the tool's result."""
    (result,) = ask(gateway, model, f"call: {name} {json.dumps(arguments)}", key).tool_results
    return result


def marks_in(text: str) -> set[str]:
    return {mark for mark in MARKS if mark in text}


def test_what_was_told_is_injected_and_found_by_the_tools_in_a_later_session(
    told_marketing: Gateway, model: ModelServer
) -> None:
    assert "Bluefox" in ask(told_marketing, model, QUESTION, "marketing").memory_context

    memory = call_tool(told_marketing, model, "recall_memory", {"query": "codename of the launch"}, "marketing")
    newsletter = call_tool(told_marketing, model, "recall_conversation", {"query": "newsletter Thursday"}, "marketing")
    invoices = call_tool(told_marketing, model, "recall_conversation", {"query": "agency invoices"}, "marketing")

    assert "Bluefox" in memory
    assert "Yusuf" in newsletter
    assert "Quokka-77" in invoices


def test_need_37_a_client_that_keeps_the_conversation_itself_is_told_whatever_the_transcript_lacks(
    told_marketing: Gateway, model: ModelServer
) -> None:
    history: list[dict[str, str]] = []
    for number in range(3):
        question = f"{QUESTION} I ask for number {number}."
        answer = told_marketing.post_chat(question, key="marketing", history=history)
        (request,) = model.requests_saying(question)
        assert "Bluefox" in request.memory_context and str(request.messages).count("<memory-context>") == 1
        history += [{"role": "user", "content": question}, {"role": "assistant", "content": answer.text}]
    asked = [ask(told_marketing, model, f"{QUESTION} I ask for number {n}.", "marketing", "kept") for n in (3, 4)]
    assert ["Bluefox" in each.memory_context for each in asked] == [True, False]
    assert str(asked[1].messages).count("<memory-context>") == 1, "the host keeps what stood before the first"


def test_need_04_another_key_neither_gets_nor_finds_it_unless_it_asks_for_all_themes(
    told_marketing: Gateway, model: ModelServer, database: Database
) -> None:
    # First, because these questions are stored as turns and would crowd the answers of a later search in all themes.
    everywhere = {"scope": "all"}
    memory = call_tool(told_marketing, model, "recall_memory", {"query": "launch codename", **everywhere}, "sales")
    turns = call_tool(told_marketing, model, "recall_conversation", {"query": "agency invoices", **everywhere}, "sales")

    injected = ask(told_marketing, model, QUESTION, "sales").memory_context
    results = [
        call_tool(told_marketing, model, tool, {"query": query, **scope}, "sales")
        for tool in ("recall_memory", "recall_conversation")
        for query in ("codename of the launch", "newsletter Thursday", "agency invoices")
        for scope in ({}, {"scope": "current"}, {"scope": "session"})
    ]

    assert "Bluefox" in memory
    assert "Quokka-77" in turns
    assert not marks_in(injected)
    assert not marks_in("".join(results))
    # The host's MEMORY.md is one file for all keys: reading it in again must not hand it to whoever asks next.
    assert "sales" not in database.themes_of_memory(FACT)
    assert database.themes_of_turn(FIRST_TURN) == ["marketing"]


def test_need_04_with_the_builtin_memory_off_no_request_carries_another_keys_words(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any], database: Database
) -> None:
    active_home.write_config(model.base_url, settings, memory={"memory_enabled": False, "user_profile_enabled": False})
    with Gateway(active_home) as gateway:
        assert gateway.post_chat(FIRST_TURN, key="marketing").status == 200
        database.wait_for_turn(FIRST_TURN)
        ask(gateway, model, "When does the newsletter leave, and who proofreads it?", "sales")
        result = call_tool(gateway, model, "recall_conversation", {"query": "newsletter"}, "marketing")

    requests_of_sales = model.requests_saying("When does the newsletter leave")
    assert requests_of_sales
    assert not marks_in(json.dumps([dict(request.body) for request in requests_of_sales]))
    assert "Yusuf" in result
