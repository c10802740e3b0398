"""Themes never mix: neither in tools, nor in what is put before a turn, nor in any statement."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled, results, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database

THEMES = ("marketing", "sales", "support")
CHAT = "agent:main:telegram:dm:4915112345678"


def _fill(make_provider: MakeProvider, config: dict[str, object]) -> dict[str, PgvectorMemoryProvider]:
    """A provider a theme; each has stored the same sentences with its own colour in them."""
    fleet = {theme: make_provider(config, gateway_session_key=theme, session_id=f"{theme}-1") for theme in THEMES}
    for theme, provider in fleet.items():
        provider.on_memory_write("add", "memory", f"The Atlas budget is owned by {theme}")
        provider.on_memory_write("add", "user", f"The Atlas user works in {theme}")
        provider.sync_turn(
            f"Who owns the Atlas budget in {theme}, remind me?", f"The Atlas budget is owned by {theme}, as I said."
        )
    for provider in fleet.values():
        landed(provider)
    return fleet


@pytest.mark.parametrize("embedded", [False, True], ids=["by words", "by meaning"])
def test_need_04_themes_never_mix(make_provider: MakeProvider, embedder: ScriptedEmbedder, embedded: bool) -> None:
    fleet = _fill(make_provider, {"embed_url": embedder.url} if embedded else {})
    question = "Who owns the Atlas budget?"
    for theme, provider in fleet.items():
        for tool, count in (("recall_memory", 2), ("recall_conversation", 1)):
            for scope in (None, "current", theme, theme.upper(), f"theme:{theme}"):
                found = recalled(provider, question, tool=tool, scope=scope)
                assert len(found) == count and all(theme in text for text in found), (tool, scope, found)
        block = provider.prefetch(question)
        assert f"owned by {theme}" in block
        assert not any(other in block for other in THEMES if other != theme)
        assert len(recalled(provider, question, target="user")) == 1
    assert recalled(fleet["sales"], question, tool="recall_conversation", scope="session") == recalled(
        fleet["sales"], question, tool="recall_conversation"
    )
    assert make_provider(gateway_session_key="newcomer").prefetch(question) == ""


@pytest.mark.parametrize("embedded", [False, True], ids=["by words", "by meaning"])
def test_need_04_another_theme_is_read_only_by_an_explicit_argument(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, embedded: bool
) -> None:
    fleet = _fill(make_provider, {"embed_url": embedder.url} if embedded else {})
    for tool, each in (("recall_memory", 2), ("recall_conversation", 1)):
        found = recalled(fleet["marketing"], "Who owns the Atlas budget?", tool=tool, scope="sales")
        assert len(found) == each and all("sales" in text for text in found)
        answer = called(fleet["marketing"], tool, {"query": "Who owns the Atlas budget?", "scope": "all", "limit": 50})
        assert answer["scope"] == "all"
        assert sorted(hit["theme"] for hit in results(answer)) == sorted(THEMES * each)
        assert recalled(fleet["marketing"], "Who owns the Atlas budget?", tool=tool, scope="nobody") == []


@pytest.mark.parametrize(
    ("cross_theme", "key", "offered", "not_offered"),
    [
        ("agents", "sales", ["current", "session", "all,", "theme's name"], []),
        (
            "agents",
            "agent:main:telegram:dm:4915112345678",
            ["current", "session"],
            ["all", "theme's name", "name of a theme"],
        ),
        ("none", "sales", ["current", "session"], ["all", "theme's name", "name of a theme"]),
        (["marketing"], "sales", ["current", "session", "theme's name"], ["all"]),
        ("all", "agent:main:telegram:dm:4915112345678", ["current", "session", "all,", "theme's name"], []),
    ],
)
def test_need_04_the_tools_offer_the_scopes_that_the_session_may_use(
    make_provider: MakeProvider, cross_theme: object, key: str, offered: list[str], not_offered: list[str]
) -> None:
    platform = "telegram" if "telegram" in key else "cli"
    provider = make_provider({"cross_theme": cross_theme}, gateway_session_key=key, platform=platform)
    for schema in provider.get_tool_schemas():
        arguments = schema["parameters"]["properties"]
        told = json.dumps(arguments["scope"])
        assert all(word in told for word in offered) and not any(word in told for word in not_offered), told
        for word in arguments["scope"].get("enum", ["current", "session", *(["all"] if "all," in told else [])]):
            assert "error" not in called(provider, schema["name"], {"query": "Atlas", "scope": word})
        empty = called(provider, schema["name"], {"query": "Atlas", "scope": " "})["error"]
        assert not any(word in empty for word in not_offered), empty


def test_need_04_a_theme_called_all_is_a_theme_of_its_own(make_provider: MakeProvider) -> None:
    named_all, sales = make_provider(gateway_session_key="all"), make_provider(gateway_session_key="sales")
    named_all.on_memory_write("add", "memory", "Atlas of everybody")
    sales.on_memory_write("add", "memory", "Atlas of sales")
    landed(named_all)
    landed(sales)
    assert recalled(named_all, "atlas") == ["Atlas of everybody"]
    assert recalled(sales, "atlas", scope="theme:all") == ["Atlas of everybody"]


def test_need_04_a_client_cannot_claim_a_chat_by_sending_its_key(make_provider: MakeProvider, dsn: str) -> None:
    speakers = {
        "chat": {"platform": "telegram"},
        "header": {"platform": "api_server"},
        "other platform": {"platform": "signal"},
        "other profile": {"platform": "telegram", "agent_identity": "writer"},
    }
    config = {"messaging_theme": "chat"}
    for name, kwargs in speakers.items():
        provider = make_provider(config, gateway_session_key=CHAT, **kwargs)
        provider.on_memory_write("add", "memory", f"Atlas, said by the {name}")
        provider.sync_turn(f"Do you know the Atlas, asks the {name} politely?", f"Yes, {name}, I do know it.")
        landed(provider)
    for name, kwargs in speakers.items():
        provider = make_provider(config, gateway_session_key=CHAT, **kwargs)
        assert recalled(provider, "atlas") == [f"Atlas, said by the {name}"]
        said = recalled(provider, "atlas", tool="recall_conversation")
        assert said and all(name in text for text in said)
    themes = Database(dsn).column("SELECT DISTINCT agent_identity FROM conversations")
    assert len(themes) == len(speakers)
    chat = next(theme for theme in themes if theme.startswith("@telegram/default/"))
    assert recalled(make_provider(gateway_session_key=chat), "atlas") == [], "a leading @ is reserved"


def test_trap_07_no_phone_number_of_a_chat_is_stored_or_logged(
    make_provider: MakeProvider, dsn: str, records: Callable[[int], list[str]], home: Path
) -> None:
    known = {"user_id": "4915112345678", "chat_id": "4915112345678@lid", "user_name": "4915112345678"}
    session = {"session_id": "dm-+4915112345678", "parent_session_id": "alice4915112345678@example.com"}
    provider = make_provider(
        {"allowed_themes": ["nobody"]}, gateway_session_key=CHAT, platform="telegram", **known, **session
    )
    said = known | {"from": "+4915112345678", "at": {"chat": CHAT}}
    provider.on_memory_write("add", "memory", "Atlas is brown", said)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.sync_turn("Which colour did we choose for the Atlas project?", "It is blue, as ever since last May.")
    landed(provider)
    rows = Database(dsn).column(
        "SELECT to_jsonb(m)::text FROM memory_entries AS m UNION ALL SELECT to_jsonb(c)::text FROM conversations AS c"
    )
    assert len(rows) == 4 and not any("4915112345678" in row for row in rows)
    assert not any("4915112345678" in line for line in records(logging.DEBUG))
    assert "4915112345678" not in json.dumps(runtime_of(provider).stats())
    digest = hashlib.sha256(b"4915112345678").hexdigest()[:16]
    for table in ("memory_entries", "conversations"):
        query = f"SELECT count(*) FROM {table} WHERE metadata @> jsonb_build_object('user', '{digest}')"
        assert Database(dsn).column(query) == [2], "the same person's rows can be found"


def test_trap_07_no_address_of_a_session_key_is_stored_or_logged(
    make_provider: MakeProvider, dsn: str, records: Callable[[int], list[str]]
) -> None:
    for key in ("alice@example.com", "customer/+491701234567"):
        provider = make_provider({"allowed_themes": ["nobody"]}, gateway_session_key=key)
        provider.on_memory_write("add", "memory", "Atlas is blue")
        provider = make_provider(gateway_session_key=key)
        provider.on_memory_write("add", "memory", "Atlas is blue")
        landed(provider)
        assert recalled(make_provider(gateway_session_key=key.upper()), "atlas") == ["Atlas is blue"]
        assert recalled(make_provider(), "atlas", theme=key) == ["Atlas is blue"]
    rows = Database(dsn).column("SELECT to_jsonb(m)::text FROM memory_entries AS m")
    assert rows and not any("alice" in text or "1701234" in text for text in [*rows, *records(logging.DEBUG)])


def test_need_04_keys_that_differ_in_case_and_blanks_are_one_theme(make_provider: MakeProvider) -> None:
    writer = make_provider(gateway_session_key="  Team\tBlue ")
    writer.on_memory_write("add", "memory", "Atlas is blue")
    landed(writer)
    assert recalled(make_provider(gateway_session_key="team blue"), "atlas") == ["Atlas is blue"]
    assert recalled(make_provider(gateway_session_key="team-blue"), "atlas") == []
