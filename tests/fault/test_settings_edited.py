"""Settings that are edited under a running gateway while writes wait: these are neither stranded nor overtaken."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.limits import LANDED_TIMEOUT_S
from tests.support.memory import runtime_of
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import memories, turn, user_turns
from tests.support.waiting import until

Records = Callable[[int], list[str]]
COUNT = 6
ENTRY = "The crane of pier nine is painted green since spring."


@pytest.mark.parametrize("instances", ["gone", "in a cycle"])
def test_need_03_what_was_said_before_and_after_edits_in_an_outage_arrives_in_that_order(
    instances: str, make_provider: MakeProvider, proxied: str, proxy: TcpProxy, database: Database, records: Records
) -> None:
    def request(number: int, *entry: Any) -> None:
        """A request of the API server: its instance is never shut down."""
        provider = make_provider({"dsn": proxied, "prefetch_max_tokens": 100 + number})
        provider.sync_turn(turn(number), "")
        if entry:
            provider.on_memory_write(*entry)
        if instances == "in a cycle":
            around: list[Any] = [provider]
            around.append(around)

    request(0)
    until(lambda: user_turns(database) == [turn(0)], LANDED_TIMEOUT_S, "the turn before the outage")
    proxy.stop()
    request(1, "add", "memory", ENTRY)
    for number in range(2, COUNT):
        request(number)
    request(COUNT, "remove", "memory", "", {"old_text": "pier nine"})
    proxy.start()
    until(lambda: len(user_turns(database)) == COUNT + 1, LANDED_TIMEOUT_S, "all turns")
    assert user_turns(database) == [turn(number) for number in range(COUNT + 1)]
    until(lambda: "removed" in database.column("SELECT action FROM memory_history"), LANDED_TIMEOUT_S, "the removal")
    assert memories(database) == []
    assert not [line for line in records(logging.WARNING) if "before shutdown" in line], "nothing was shut down"


def test_need_03_what_waits_for_a_mistake_in_the_settings_arrives_once_it_is_corrected(
    make_provider: MakeProvider, dsn: str, database: Database
) -> None:
    for number, mistake in enumerate(({"user": "nobody_by_that_name"}, {"host": "127.0.0.1", "port": "1"})):
        write_in_vain(make_provider({"dsn": make_conninfo(dsn, **mistake)}), number)
    make_provider().sync_turn(turn(2), "")
    gc.collect()
    until(lambda: len(user_turns(database)) == 3, LANDED_TIMEOUT_S, "what waited")
    assert user_turns(database) == [turn(0), turn(1), turn(2)]
    until(lambda: writers() == 1, LANDED_TIMEOUT_S, "the end of the writers of the mistakes")


def test_need_03_an_instance_that_the_host_keeps_holds_nothing_back(
    make_provider: MakeProvider, dsn: str, database: Database, caplog: pytest.LogCaptureFixture, records: Records
) -> None:
    """Each thread of the API server keeps the last agent that ran a tool in it."""
    caplog.set_level(logging.INFO)
    kept = make_provider({"dsn": make_conninfo(dsn, user="nobody_by_that_name")})
    write_in_vain(kept, 0)
    make_provider().sync_turn(turn(1), "")
    until(lambda: len(user_turns(database)) == 2, LANDED_TIMEOUT_S, "what waited")
    until(lambda: writers() == 1, LANDED_TIMEOUT_S, "the end of the writer of the mistake")
    write_in_vain(kept, 2)  # one that is no agent of before, but a session that goes on
    make_provider().sync_turn(turn(3), "")
    until(lambda: len(user_turns(database)) == 4, LANDED_TIMEOUT_S, "what waited in the session that goes on")
    assert user_turns(database) == [turn(number) for number in range(4)]
    kept.shutdown()
    assert sum("Postgres is back" in line for line in records(logging.INFO)) == 2
    assert not [line for line in records(logging.WARNING) if "before shutdown" in line], "all of it has arrived"


def write_in_vain(provider: PgvectorMemoryProvider, number: int) -> None:
    provider.sync_turn(turn(number), "")
    until(lambda: runtime_of(provider).backend.problem, LANDED_TIMEOUT_S, "the trouble with the settings")


def writers() -> int:
    return sum(thread.name == "hermes-pgvector-writer" for thread in threading.enumerate())
