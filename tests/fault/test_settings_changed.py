"""A running agent whose settings are changed: what it accepted by those of before goes by those of now."""

from __future__ import annotations

import gc
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.cli import main
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.memory import landed, runtime_of
from tests.support.stored import Database
from tests.support.turns import turn, user_turns
from tests.support.waiting import until

Records = Callable[[int], list[str]]


def refused(make_provider: MakeProvider, dsn: str, number: int) -> None:
    """A session of an agent that is refused by the server, has said something and is over."""
    provider = make_provider({"dsn": dsn})
    provider.sync_turn(turn(number), "")
    until(lambda: runtime_of(provider).backend.problem is not None, 20, "the refusal")


def writers() -> int:
    return sum(thread.name == "hermes-pgvector-writer" for thread in threading.enumerate())


def test_need_03_what_waits_by_a_wrong_dsn_follows_once_a_session_begins_by_the_right_one(
    make_provider: MakeProvider, direct_dsn: str, records: Records
) -> None:
    refused(make_provider, make_conninfo(direct_dsn, dbname="nowhere_to_be_found"), 1)
    (told,) = records(logging.WARNING)
    assert "a changed `dsn` counts for sessions that begin then" in told
    gc.collect()  # the host has let go of that session
    provider = make_provider({"dsn": direct_dsn})
    provider.sync_turn(turn(2), "")
    database = Database(direct_dsn)
    until(lambda: len(user_turns(database)) == 2, 30, "what was said before the correction")
    landed(provider)
    assert sorted(user_turns(database)) == [turn(1), turn(2)]
    until(lambda: writers() == 1, 20, "the end of the writer of before")


def test_need_10_settings_that_are_changed_between_requests_leave_one_pool_behind(
    make_provider: MakeProvider, direct_dsn: str, admin_dsn: str
) -> None:
    for number in range(6):
        provider = make_provider({"dsn": direct_dsn, "prefetch_limit": 3 + number})
        provider.sync_turn(turn(number), "")
        landed(provider)
    gc.collect()
    make_provider({"dsn": direct_dsn, "prefetch_limit": 8})  # one more request
    until(lambda: writers() == 1, 20, "the end of the other writers")
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hermes-pgvector' AND usename = 'hermes'"
    until(lambda: Database(admin_dsn).column(ours)[0] <= runtime_of(provider).settings.pool_max_size, 20, "one pool")
    assert user_turns(Database(direct_dsn)) == [turn(number) for number in range(6)]


def test_need_03_a_session_that_goes_on_keeps_its_settings(make_provider: MakeProvider, direct_dsn: str) -> None:
    earlier = make_provider({"dsn": direct_dsn, "prefetch_limit": 3})
    later = make_provider({"dsn": direct_dsn, "prefetch_limit": 4})
    for number, provider in enumerate((earlier, later, earlier, later)):
        provider.sync_turn(turn(number), "")
        landed(provider)
    assert user_turns(Database(direct_dsn)) == [turn(number) for number in range(4)]


@pytest.mark.parametrize("wrong", ["user", "place"])
def test_need_40_doctor_names_an_agent_that_still_uses_the_dsn_of_before(
    wrong: str, home: Path, direct_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at_fault = {"user": "nobody_of_that_name"} if wrong == "user" else {"host": "127.0.0.1", "port": "1"}

    def told() -> list[dict[str, str]]:
        main(["doctor", "--json", "--hermes-home", str(home)])
        checks = json.loads(capsys.readouterr().out)["checks"]
        return [each for each in checks if each["name"] == "agents"]

    with AgentProcess({"dsn": make_conninfo(direct_dsn, **at_fault), "dims": DIMS}, home) as agent:
        agent.call("sync_turn", turn(1), "")
        (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": direct_dsn, "dims": DIMS}}}))
        until(told, 30, "a line about that agent")
        (found,) = told()
    assert found["state"] == "note" and "restart that agent" in found["fix"]
    assert ("nobody_of_that_name" if wrong == "user" else "127.0.0.1:1/") in found["said"], found
    with AgentProcess({"dsn": direct_dsn, "dims": DIMS}, home) as agent:
        agent.call("sync_turn", turn(2), "")
        until(lambda: len(user_turns(Database(direct_dsn))) == 2, 30, "both turns")
        until(lambda: not told(), 30, "no such line any more")
