"""Memory files that are lost, and lines moved to long-term memory, in the real gateway."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome, describe
from tests.support.model_server import ModelServer
from tests.support.stored import STORED_TIMEOUT_S, Database
from tests.support.waiting import until

FACTS = (
    "The codename of the autumn launch is Bluefox.",
    "The staging database is rebuilt every Sunday night.",
    "Invoices of the agency need purchase order Quokka-77.",
)


@pytest.fixture
def settings(dsn: str) -> dict[str, Any]:
    return {"dsn": dsn, "dims": 384, "tools": ["remember", "forget"]}


def say(gateway: Gateway, message: str, key: str = "marketing") -> None:
    answer = gateway.post_chat(message, key=key)
    assert answer.status == 200, gateway.log()


def operate(home: HermesHome, *arguments: str) -> Any:
    """What a verb prints with --json."""
    done = home.python("-m", "hermes_memory_pgvector.cli", *arguments, "--json")
    assert done.returncode == 0, describe(done)
    return json.loads(done.stdout)


def test_need_31_a_lost_memory_file_deletes_nothing_and_can_be_put_back(
    gateway: Gateway, active_home: HermesHome, database: Database, tmp_path: Path
) -> None:
    for fact in FACTS:
        say(gateway, f"remember: {fact}")
        database.wait_for_memory(fact)
    path = active_home.path / "memories" / "MEMORY.md"
    copy = shutil.copy2(path, tmp_path / "backup")
    path.unlink()
    say(gateway, "What do we know about the staging database, and when is it rebuilt?", key="other")
    held = until(lambda: operate(active_home, "removals", "list"), STORED_TIMEOUT_S, "a removal that waits")
    assert {row["content"] for row in held} == set(FACTS) and {row["theme"] for row in held} == {"marketing"}
    assert {row["file"] for row in held} == {"MEMORY.md"} and {row["why"] for row in held} == {"missing"}
    doctor = active_home.python("-m", "hermes_memory_pgvector.cli", "doctor")
    assert "MEMORY.md is missing: 3 memories it held stay" in doctor.stdout and doctor.returncode == 1
    assert "removals list" in active_home.logs() + gateway.log()
    shutil.copy2(copy, path)
    say(gateway, "And who signs the invoices of the agency, do you know that?", key="other")
    until(lambda: not operate(active_home, "removals", "list"), STORED_TIMEOUT_S, "the end of the question")
    for fact in FACTS:
        assert database.themes_of_memory(fact) == ["marketing"]


def test_need_32_a_line_moved_to_long_term_memory_stays(
    gateway: Gateway, model: ModelServer, database: Database
) -> None:
    fact = FACTS[0]
    say(gateway, f"remember: {fact}")
    database.wait_for_memory(fact)
    say(gateway, f"call: remember {json.dumps({'content': fact, 'sync': True})}")
    assert "stored" in model.requests[-1].tool_results[-1]
    say(gateway, f"call: memory {json.dumps({'action': 'remove', 'target': 'memory', 'old_text': fact})}")
    mirrored = "SELECT count(*) FROM hermes_mirror WHERE kept_at IS NULL"
    until(lambda: database.column(mirrored) == [0], STORED_TIMEOUT_S, "the end of the file's line")
    assert database.themes_of_memory(fact) == ["marketing"]
