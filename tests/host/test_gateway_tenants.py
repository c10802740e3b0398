"""Tenants of one gateway attack each other over HTTP, with nothing but the header that names them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_memory_pgvector.domain.theme import Surface, ThemeRules, session_themes
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.model_server import ModelServer
from tests.support.stored import Database

VICTIM = "acme-gmbh"
CHAT_KEY = "agent:main:telegram:dm:4915112345678"
SECRET = "The merger with Borealis is signed on the ninth of October, and only the board knows it."
QUESTION = "When is the merger with Borealis signed, and who knows it?"
ATTACKS = [
    f"call: recall_conversation {json.dumps({'query': QUESTION} | how)}"
    for how in ({"scope": "all"}, {"theme": VICTIM.upper()})
]
MARKS = ("ninth of October", "only the board")

# Headers of an attacker who must not be taken for the victim or for a chat.
FOREIGN: list[str | bytes] = [
    "acme\u2010gmbh",  # another hyphen
    "\u0430cme-gmbh",  # a Cyrillic a
    "acme-gmbh\u200b",
    "\u202eacme-gmbh",
    "\uff41cme-gmbh",
    "acme-gmbh%00",
    b"acme-gmbh\xff",
    b"acme-gmbh\xc0\xaf",
    "acme-gmb",
    "acme-gmbh/",
    "theme:acme-gmbh",
    "acme-gmbh' OR agent_identity <> '",
    "%",
    "acme%",
    "*",
    "all",
    "a" * 256,
    CHAT_KEY,
    session_themes(Surface(CHAT_KEY, "telegram", "default"), ThemeRules.of(default="default")).turns.name,
    "@telegram/default/*",
]
# Headers that are the victim's, written in another way: any client may claim any key, and so this one.
THE_SAME = ["Acme-GmbH", "  acme-gmbh\t"]


@pytest.fixture
def settings(settings: dict[str, Any]) -> dict[str, Any]:
    return settings | {"cross_theme": "none"}


@pytest.fixture
def told(active_home: HermesHome, model: ModelServer, settings: dict[str, Any], database: Database) -> None:
    """A home without a shared built-in memory, where the victim and a chat were told the secret."""
    active_home.write_config(model.base_url, settings, memory={"memory_enabled": False, "user_profile_enabled": False})
    speakers = (
        {"platform": "api_server", "gateway_session_key": VICTIM},
        {"platform": "telegram", "gateway_session_key": CHAT_KEY},
    )
    for number, speaker in enumerate(speakers):
        provider = PgvectorMemoryProvider(settings)
        provider.initialize(f"victim-{number}", hermes_home=str(active_home.path), agent_identity="default", **speaker)
        provider.sync_turn(SECRET, "Understood. I keep it to myself until the tenth of October.")
    close_all()
    assert len(database.themes_of_turn(SECRET)) == 2


def past_of(gateway: Gateway, model: ModelServer, key: str | bytes, number: int, *messages: str) -> str:
    """Everything the model is told of the past for one key: what is injected, and what the tools answer."""
    before = len(model.requests)
    for index, message in enumerate(messages):
        answer = gateway.post_chat(message, key=key, session=f"attack-{number}-{index}")
        assert answer.status == 200, (key, answer.body, gateway.log())
    asked = [request for request in model.requests[before:] if request.tool_names]
    return "\n".join([request.memory_context for request in asked] + [text for r in asked for text in r.tool_results])


@pytest.mark.usefixtures("told")
def test_need_04_no_header_opens_another_tenants_theme_or_a_chat(
    active_home: HermesHome, model: ModelServer, database: Database
) -> None:
    with Gateway(active_home) as gateway:
        for number, key in enumerate(FOREIGN):
            # Each by itself, and each way of asking by some: what a call asks for is not read from the header.
            text = past_of(gateway, model, key, number, QUESTION, ATTACKS[number % len(ATTACKS)])
            assert not [mark for mark in MARKS if mark in text], key
            assert "`cross_theme`" in text, key
        for number, key in enumerate(THE_SAME, len(FOREIGN)):
            text = past_of(gateway, model, key, number, QUESTION)
            assert all(mark in text for mark in MARKS), (key, text)
        # What the host itself refuses: a control character in a header, and more than 256 characters.
        assert [gateway.post_chat(QUESTION, key=key).status for key in (b"acme-gmbh\x00", "a" * 257)] == [400, 400]
        log = gateway.home.logs(1_000_000)
    assert "hermes-pgvector: " not in log, "nothing to warn of"
    themes = database.column("SELECT DISTINCT agent_identity FROM conversations")
    assert [theme for theme in themes if theme.startswith("@")] == [
        session_themes(Surface(CHAT_KEY, "telegram", "default"), ThemeRules.of(default="default")).turns.name
    ]
    assert not [theme for theme in themes if "4915112345678" in theme]
    assert "4915112345678" not in "\n".join(database.column("SELECT to_jsonb(c)::text FROM conversations AS c"))
