"""Another server than a moment ago, which lacks the last of what was acknowledged: it is sent again, once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed
from tests.support.own_postgres import OwnPostgres
from tests.support.stored import Database
from tests.support.streaming import Standby, replicated_postgres
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import memories, turn, user_turns
from tests.support.waiting import until

Records = Callable[[int], list[str]]


@pytest.fixture
def servers() -> Iterator[tuple[OwnPostgres, Standby]]:
    with replicated_postgres(DIMS) as both:
        yield both


class Switch(TcpProxy):
    """A name that leads to one server, and then to another one."""

    def lead_to(self, conninfo: str) -> None:
        parts = conninfo_to_dict(conninfo)
        self.stop()
        self._target = Path(str(parts["host"])) / f".s.PGSQL.{parts['port']}"
        self.start()


def test_need_03_what_an_asynchronous_standby_lacks_when_it_takes_over_is_sent_again_once(
    servers: tuple[OwnPostgres, Standby], make_provider: MakeProvider, records: Records
) -> None:
    primary, standby = servers
    old = primary.database()
    standby.caught_up(primary)
    with Switch.before(old.dsn) as switch:
        provider = make_provider({"dsn": switch.conninfo(old.dsn), "pooler": "none"})
        for number in range(200):
            provider.sync_turn(turn(number), "")
        landed(provider)
        standby.caught_up(primary)

        # What is written from now on never reaches the standby.
        with psycopg.connect(standby.admin_dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
        until(lambda: standby.tell("SELECT count(*) = 0 FROM pg_stat_wal_receiver"), 20, "the end of streaming")
        for number in range(200, 500):
            provider.sync_turn(turn(number), "")
            provider.on_memory_write("add", "memory", f"Fact {number}")
        landed(provider)
        assert len(user_turns(old)) == 500

        switch.stop()
        for number in range(500, 520):
            provider.sync_turn(turn(number), "")
        primary.stop("immediate")
        standby.tell("SELECT pg_promote()")
        switch.lead_to(standby.conninfo(old.dsn))
        new = Database(standby.conninfo(old.dsn))
        until(lambda: len(user_turns(new)) >= 520, 60, "everything on the server that took over")
        landed(provider)
        assert user_turns(new) == [turn(number) for number in range(520)]
        assert memories(new) == [f"Fact {number}" for number in range(200, 500)]
        assert any("600 acknowledged writes; they are sent again" in line for line in records(logging.WARNING))
        provider.shutdown()
        primary.start()  # for whoever ends it


def test_need_03_a_restart_of_the_same_server_sends_nothing_again(
    servers: tuple[OwnPostgres, Standby], make_provider: MakeProvider, records: Records
) -> None:
    primary, _ = servers
    database = primary.database()
    provider = make_provider({"dsn": database.dsn})
    for number in range(300):
        provider.sync_turn(turn(number), "")
    landed(provider)
    primary.stop("immediate")
    primary.start()
    provider.sync_turn(turn(300), "")
    until(lambda: len(user_turns(database)) >= 301, 60, "the turn after it")
    landed(provider)
    assert max(Counter(user_turns(database)).values()) == 1
    assert not any("sent again" in line for line in records(logging.WARNING))
    provider.shutdown()
