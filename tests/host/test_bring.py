"""What the real host has written before and beside us comes along, and nothing twice."""

from __future__ import annotations

import json
from typing import Any

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome, describe
from tests.support.model_server import PLAIN_ANSWER, ModelServer
from tests.support.stored import STORED_TIMEOUT_S, Database
from tests.support.waiting import until

BEFORE = "The spare key to the greenhouse hangs behind the third flower pot."
LIVE = "The greenhouse door was painted green in the second week of May."


def test_need_29_what_the_agent_heard_before_we_were_there_comes_along(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any], database: Database
) -> None:
    patient = settings | {"shutdown_timeout_s": 30}
    active_home.write_config(model.base_url, patient, memory={"provider": ""})
    told = active_home.hermes("-z", BEFORE)
    assert told.returncode == 0, describe(told)
    active_home.write_config(model.base_url, patient)
    told = active_home.hermes("-z", LIVE)
    assert told.returncode == 0, describe(told)
    database.wait_for_turn(LIVE)
    assert database.themes_of_turn(BEFORE) == []

    brought = active_home.hermes("pgvector", "bring", "sessions", "--yes", "--json")
    assert brought.returncode == 0, describe(brought)
    (source,) = json.loads(brought.stdout)["sources"]
    assert (source["turns_added"], source["turns_there"]) == (2, 2), source
    assert database.themes_of_turn(BEFORE) == database.themes_of_turn(LIVE) == ["default"]
    said = database.column("SELECT content FROM conversations ORDER BY ts, role DESC")
    assert said[:2] == [BEFORE, PLAIN_ANSWER] and said.count(LIVE) == 1


def test_need_29_a_message_with_images_is_stored_once_and_an_image_alone_not(
    gateway: Gateway, active_home: HermesHome, database: Database
) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}"}}
    for session, parts in (("one", [{"type": "text", "text": LIVE}, image]), ("two", [image, image])):
        assert gateway.post_chat(parts, session=session).status == 200
    database.wait_for_turn(LIVE)
    until(lambda: len(_said(database)) == 3, STORED_TIMEOUT_S, "both answers")

    brought = active_home.hermes("pgvector", "bring", "sessions", "--yes", "--json")
    assert brought.returncode == 0, describe(brought)
    assert sorted(_said(database)) == sorted([LIVE, PLAIN_ANSWER, PLAIN_ANSWER])


def _said(database: Database) -> list[str]:
    return database.column("SELECT content FROM conversations")
