"""hermes-agent as a client of our MCP server: a home with another memory shares what a home with the plugin knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.mcp_client import SERVER
from tests.support.model_server import ModelServer
from tests.support.waiting import until

OURS = "The red folder in the archive holds the contracts of the shipyard."
THEIRS = "The blue folder in the archive holds the invoices of the lighthouse."
PREFIX = "mcp__pgvector__"


def client_home(root: Path, model: ModelServer, server: HermesHome) -> HermesHome:
    """A home without our plugin, whose agents have our server of another home among their tools."""
    home = HermesHome(root)
    home.write_config(model.base_url, {}, memory={"provider": ""}, enabled=())
    config = home.read_config()
    command, *arguments = SERVER
    entry = {"command": command, "args": [*arguments, "--theme", "marketing"], "env": server.environment()}
    config["mcp_servers"] = {"pgvector": entry}
    home.config_path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return home


def call(gateway: Gateway, model: ModelServer, tool: str, **arguments: Any) -> str:
    """What a tool of our server answers, called by the model of a gateway."""
    before = len(model.requests)
    answer = gateway.post_chat(f"call: {PREFIX}{tool} {json.dumps(arguments)}", session=f"session-{before}")
    assert answer.status == 200, gateway.log()
    results = [result for request in model.requests[before:] for result in request.tool_results]
    assert results, gateway.log()
    return results[-1]


def test_agents_with_the_plugin_and_with_the_server_recall_each_other(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any], tmp_path: Path
) -> None:
    active_home.write_config(model.base_url, settings | {"tools": ["remember", "recall_memory"]})
    other_home = client_home(tmp_path / "other", model, active_home)
    with Gateway(active_home) as plugin, Gateway(other_home) as client:
        say = json.dumps({"content": OURS, "sync": True})
        assert plugin.post_chat(f"call: remember {say}", key="marketing", session="one").status == 200

        until(
            lambda: "shipyard" in call(client, model, "recall", query="contracts of the shipyard"), 60, "what was said"
        )
        assert "stored" in call(client, model, "remember", content=THEIRS, sync=True)

        answer = plugin.post_chat("Which folder holds the invoices of the lighthouse?", key="marketing", session="two")
        assert answer.status == 200, plugin.log()
        (asked,) = model.requests_saying("Which folder holds the invoices")
        assert "blue folder" in asked.memory_context
