"""What holds in a theme stands in the prompt that the real host sends, the same for a whole session."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.recall.hot import HEADING
from tests.support.gateway import Gateway
from tests.support.model_server import ModelServer
from tests.support.stored import Database

MESSAGE = "Please tell me whatever comes to your mind about the weather in Lisbon."


@pytest.fixture
def settings(dsn: str) -> dict[str, Any]:
    return {"dsn": dsn, "dims": 384, "hot_deadline_s": 5.0}


def decide(dsn: str, content: str) -> None:
    """Store a decision of the theme `marketing` on the subject auth."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content, kind, subject, state) "
            "VALUES ('marketing', 'memory', %s, 'decision', 'auth', 'active')",
            (content,),
        )


def hot_part(gateway: Gateway, model: ModelServer, *, session: str, key: str = "marketing") -> str:
    """What stands from the heading on in the system prompt of the next request that the model gets."""
    before = len(model.requests)
    assert gateway.post_chat(MESSAGE, key=key, session=session).status == 200, gateway.log()
    request = [request for request in model.requests[before:] if request.tool_names][-1]
    prompt = "".join(str(message["content"]) for message in request.messages if message["role"] == "system")
    assert "# Long-term memory (pgvector)" in prompt
    return "\n".join(prompt.partition(HEADING)[2].splitlines()[:2])


def test_the_hosts_prompt_holds_the_block_and_keeps_it_for_the_session(
    gateway: Gateway, model: ModelServer, database: Database
) -> None:
    assert hot_part(gateway, model, session="plain") == ""  # and Postgres is up
    decide(database.dsn, "D[auth]: JWT for 7 days")
    assert hot_part(gateway, model, session="first") == "\nD[auth]: JWT for 7 days"
    assert hot_part(gateway, model, session="other", key="sales") == ""
    decide(database.dsn, "D[auth]: opaque tokens for 6 hours")
    assert hot_part(gateway, model, session="first") == "\nD[auth]: JWT for 7 days"
    assert hot_part(gateway, model, session="second") == "\nD[auth]: opaque tokens for 6 hours"
