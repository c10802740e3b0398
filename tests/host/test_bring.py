"""What the real host has written before and beside us comes along, and nothing twice."""

from __future__ import annotations

import json
from typing import Any

from tests.support.hermes import HermesHome, describe
from tests.support.model_server import PLAIN_ANSWER, ModelServer
from tests.support.stored import Database

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
