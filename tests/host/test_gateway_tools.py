"""With the host's own memory off and our tools on, each session key has a durable memory of its own."""

from __future__ import annotations

import json
from typing import Any

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.model_server import ChatRequest, ModelServer
from tests.support.stored import Database

FACT = "The codename of the autumn launch is Bluefox, and Dana signs it off."


def ask(gateway: Gateway, model: ModelServer, message: str, key: str) -> ChatRequest:
    """Sends `message` in a new session; returns the last request that the model got for it."""
    before = len(model.requests)
    answer = gateway.post_chat(message, key=key, session=f"session-{before}")
    assert answer.status == 200, gateway.log()
    return [request for request in model.requests[before:] if request.tool_names][-1]


def call(gateway: Gateway, model: ModelServer, name: str, arguments: dict[str, Any], key: str) -> dict[str, Any]:
    """Has the model call a tool; returns the tool's answer."""
    (result,) = ask(gateway, model, f"call: {name} {json.dumps(arguments)}", key).tool_results
    answer = json.loads(result)
    assert isinstance(answer, dict)
    return answer


def test_need_04_each_key_remembers_forgets_and_profiles_its_own(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any], database: Database
) -> None:
    more = {"tools": ["remember", "forget", "memory_profile"], "cross_theme": "none"}
    off = {"memory_enabled": False, "user_profile_enabled": False}
    active_home.write_config(model.base_url, settings | more, memory=off)
    with Gateway(active_home) as gateway:
        told = call(gateway, model, "remember", {"content": FACT, "sync": True}, "marketing")
        assert told["state"] == "stored", told
        assert database.themes_of_memory(FACT) == ["marketing"]

        request = ask(gateway, model, "Which codename does the autumn launch have?", "marketing")
        assert {"recall_memory", "remember", "forget", "memory_profile"} <= request.tool_names
        assert "Bluefox" in request.memory_context
        (known,) = call(gateway, model, "memory_profile", {}, "marketing")["memory"]
        assert known["content"] == FACT

        other = ask(gateway, model, "Which codename does the autumn launch have?", "sales")
        assert "Bluefox" not in json.dumps(other.messages)
        assert call(gateway, model, "memory_profile", {}, "sales")["memory"] == []
        assert "error" in call(gateway, model, "forget", {"id": told["id"]}, "sales")

        shown = call(gateway, model, "forget", {"query": "codename of the launch"}, "marketing")
        gone = call(gateway, model, "forget", {"confirm": shown["confirm"]}, "marketing")
        assert gone["count"] == 1 and database.themes_of_memory(FACT) == []
        assert call(gateway, model, "recall_memory", {"query": "codename"}, "marketing")["count"] == 0
