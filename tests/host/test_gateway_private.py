"""A direct message, and what the clients of the real gateway's API server learn of it: nothing, by no argument."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.model_server import ModelServer
from tests.support.stored import Database

SAID = "The PIN of my bicycle lock is Wq4711 and nobody at work should know that, please."
REMEMBERED = "The spare key of the bicycle cellar is with Wq4712 on the third floor"
TOLD_SALES = "The cellar of the sales office holds forty folding bicycles for the Wq4713 campaign."
DM = {
    "platform": "telegram", "gateway_session_key": "agent:main:telegram:dm:4915112345678", "chat_type": "dm",
    "chat_id": "4915112345678", "user_id": "4915112345678", "user_name": "Ada", "agent_identity": "default",
}  # fmt: skip


@pytest.fixture
def settings(settings: dict[str, Any]) -> dict[str, Any]:
    return settings | {"tools": ["remember"]}


@pytest.mark.parametrize("shared", [[], ["@telegram/*"]], ids=["private", "shared"])
def test_need_35_no_client_of_the_api_server_reads_a_direct_message(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any], database: Database, shared: list[str]
) -> None:
    settings |= {"shared_chats": shared}
    active_home.write_config(model.base_url, settings, memory={"memory_enabled": False, "user_profile_enabled": False})
    chat = PgvectorMemoryProvider(settings)
    chat.initialize("dm-1", hermes_home=str(active_home.path), **DM)
    chat.sync_turn(SAID, "Your bicycle lock, noted. I keep it between the two of us.", session_id="dm-1")
    chat.handle_tool_call("remember", {"content": REMEMBERED, "sync": True})
    close_all()
    database.wait_for_turn(SAID)
    database.wait_for_memory(REMEMBERED)
    (theme,) = database.themes_of_turn(SAID)

    with Gateway(active_home) as gateway:
        assert gateway.post_chat(TOLD_SALES, key="sales").status == 200
        database.wait_for_turn(TOLD_SALES)
        answers = []
        clients = ("marketing", "sales", theme, DM["gateway_session_key"])
        tools = ("recall_conversation", "recall_memory")
        places: tuple[dict[str, str], ...] = ({"scope": "all"}, {"theme": theme}, {})
        alike = ({"scope": theme}, {"scope": f"theme:{theme}"})  # for one of them: they are read by the same rule
        for client, key in enumerate(clients[:1] if shared else clients):
            for number, (tool, where) in enumerate(product(tools, (*places, *alike) if client == 0 else places)):
                before = len(model.requests)
                asked = {"query": "bicycle lock PIN, key of the cellar", "limit": 50} | where
                reply = gateway.post_chat(
                    f"call: {tool} {json.dumps(asked)}", key=key, session=f"client-{client}-{number}"
                )
                assert reply.status == 200, gateway.log()
                answers += [text for request in model.requests[before:] for text in request.tool_results]
                answers += [request.memory_context for request in model.requests[before:]]
    told = "\n".join(answers)
    assert "Wq4713" in told, "reading across themes on demand stays"
    assert ("Wq4711" in told, "Wq4712" in told) == (bool(shared), bool(shared))
