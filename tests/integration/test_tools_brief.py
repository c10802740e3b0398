"""Recall tools answer briefly: an exchange once, within a size, and what all results share said once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import Tokenizer

from hermes_memory_pgvector.domain.chunks import estimate_tokens
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.host.tool_registry import schemas
from tests.conftest import MakeProvider
from tests.support.memory import called, landed
from tests.support.model_files import model_dir

TURNS = "recall_conversation"
ASK, ANSWER = "Where do violet invoices go to?", "Violet invoices go to the cellar archive in Bremen."
DEFAULT = {"recall_max_tokens": 2000}


def test_the_model_is_told_of_all_tools_in_500_tokens() -> None:
    every = schemas(("remember", "forget", "memory_profile"))
    assert len(every) == 5
    assert len(json.dumps(every, separators=(",", ":"))) / 4 <= 500
    tokenizer = Tokenizer.from_file(str(model_dir() / "tokenizer.json"))
    tokenizer.no_truncation()
    told = json.dumps(schemas(()), separators=(",", ":"))
    assert len(tokenizer.encode(told, add_special_tokens=False).ids) <= 500
    for schema in schemas(()):
        properties = schema["parameters"]["properties"]
        assert properties["limit"]["default"] == 5
        assert "scope" in properties and "theme" not in properties
        assert "Use it " in schema["description"]


def test_an_exchange_is_one_result_with_its_answer(make_provider: MakeProvider) -> None:
    provider = make_provider(DEFAULT)
    provider.sync_turn(ASK, ANSWER, session_id="earlier-1")
    provider.sync_turn(
        "The harbour crane is greased on Mondays.", "Noted, the crane: on Mondays.", session_id="earlier-2"
    )
    landed(provider)
    answer = called(provider, TURNS, {"query": ASK})
    (result,) = answer["results"]
    assert result["content"] == ANSWER and [turn["content"] for turn in result["around"]] == [ASK]
    assert answer["theme"] == "marketing" and answer["session_id"] == "earlier-1"
    assert not {"theme", "session_id"} & result.keys()

    both = called(provider, TURNS, {"query": "violet invoices or the harbour crane"})
    assert both["theme"] == "marketing" and "session_id" not in both
    assert {result["session_id"] for result in both["results"]} == {"earlier-1", "earlier-2"}


@pytest.fixture
def talkative(make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider that knows many long texts."""
    made = make_provider(DEFAULT)
    for number in range(30):
        filler = f"Nothing of note was said about depot {number}. " * 40
        made.on_memory_write(
            "add", "memory", f"{filler}The vault code of depot {number} is QUARTZ-{7000 + number}. {filler}"
        )
        made.sync_turn(
            f"Depot {number} again. {filler}", f"Its vault code is QUARTZ-{7000 + number}. {filler}", session_id="s"
        )
    landed(made)
    return made


@pytest.mark.parametrize("tool", ["recall_memory", TURNS])
def test_an_answer_keeps_to_its_size_and_says_how_to_get_the_rest(tool: str, talkative: PgvectorMemoryProvider) -> None:
    asked: dict[str, Any] = {"query": "vault code of a depot"}
    five = called(talkative, tool, asked)
    assert five["count"] == len(five["results"]) == 5 and "note" not in five
    assert all("QUARTZ" in json.dumps(result) for result in five["results"]), "the part that answers"

    seen: list[int] = []
    offset, limit = 0, 25
    while limit:
        answer = called(talkative, tool, asked | {"limit": limit, "offset": offset})
        assert estimate_tokens(json.dumps(answer, ensure_ascii=False)) <= 2000
        seen += [result["id"] for result in answer["results"]]
        offset, limit = offset + answer["count"], limit - answer["count"]
        if limit:
            assert f"{limit} more did not fit: call again with `offset` {offset}" in answer["note"]
    assert len(seen) == len(set(seen)) == 25
    assert seen[:5] == [result["id"] for result in five["results"]]
    (one,) = called(talkative, tool, asked | {"limit": 1})["results"]
    assert len(one["content"]) > 1500


def test_nothing_found_says_where_to_look_on(make_provider: MakeProvider) -> None:
    provider = make_provider(DEFAULT)
    landed(provider)
    assert called(provider, "recall_memory", {"query": "violet"})["note"].endswith(
        "recall_conversation searches what was said"
    )
    assert "note" not in called(provider, TURNS, {"query": "violet"})


def test_an_unknown_theme_is_told_with_names_like_it(make_provider: MakeProvider) -> None:
    make_provider(gateway_session_key="marketing").on_memory_write("add", "memory", "Violet invoices go to Bremen.")
    provider = make_provider(gateway_session_key="sales")
    landed(provider)
    for argument in ("scope", "theme"):
        note = called(provider, "recall_memory", {"query": "violet", argument: "marketin"})["note"]
        assert note.startswith("no theme of the name 'marketin'") and note.endswith("did you mean 'marketing'?")
