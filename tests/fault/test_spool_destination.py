"""Writes that wait when the settings begin to name another database: they go there only when somebody says so."""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.capture.kept import keep
from hermes_memory_pgvector.capture.spool import Spool
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.operations import Operation
from tests.conftest import DIMS, MakeProvider
from tests.support.left_spool import leave_spool, operation
from tests.support.limits import LANDED_TIMEOUT_S
from tests.support.memory import landed
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import turn, user_turns
from tests.support.waiting import until
from tests.support.writing_process import WritingProcess

Records = Callable[[int], list[str]]
Leave = Callable[[str, range], None]


@pytest.fixture
def other(admin_dsn: str, migrated_template: str) -> Iterator[str]:
    """The runtime role's conninfo of another database of ours, on the same server."""
    name = str(conninfo_to_dict(admin_dsn)["dbname"]) + "_other"
    with psycopg.connect(make_conninfo(admin_dsn, dbname="postgres"), autocommit=True) as connection:
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        connection.execute(made.format(sql.Identifier(name), sql.Identifier(migrated_template)))
        yield make_conninfo(admin_dsn, dbname=name, user="hermes")
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def leave(home: Path, tmp_path: Path) -> Leave:
    """Leaves turns in the spool of a process that was killed."""

    def left(dsn: str, numbers: range) -> None:
        log = tmp_path / f"left-{numbers.start}.log"
        process = WritingProcess({"dsn": dsn, "dims": DIMS}, home, log, "orders", turns=0)
        try:
            process.order(f"write {numbers.start} {numbers.stop}", "written")
        finally:
            process.close()

    return left


def reach(make_provider: MakeProvider, dsn: str) -> None:
    """An agent of this home has written turn 900 there, and is gone."""
    provider = make_provider({"dsn": dsn})
    provider.sync_turn(turn(900), "")
    landed(provider)
    provider.shutdown()


def test_need_03_writes_for_a_database_that_was_down_wait_for_it_or_for_a_word(
    leave: Leave,
    other: str,
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    home: Path,
    records: Records,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reach(make_provider, proxied)
    proxy.stop()
    leave(proxied, range(50))
    proxy.start()

    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": other, "dims": DIMS}}}))
    provider = make_provider({"dsn": other})
    provider.sync_turn(turn(100), "")
    until(lambda: user_turns(Database(other)) == [turn(100)], 30, "its own turn")
    until(lambda: any("accepted for another database" in line for line in records(logging.WARNING)), 30, "a word")
    assert user_turns(Database(other)) == [turn(100)]
    capsys.readouterr()
    main(["status", "--json", "--hermes-home", str(home)])
    assert json.loads(capsys.readouterr().out)["waiting_for_another"] == 50
    main(["doctor", "--hermes-home", str(home)])
    assert "hermes-pgvector spool send --yes" in capsys.readouterr().out
    assert main(["spool", "send", "--hermes-home", str(home)]) == 0
    assert "50 writes meant; nothing was changed: add --yes" in capsys.readouterr().out
    assert main(["spool", "send", "--yes", "--hermes-home", str(home)]) == 0
    until(lambda: len(user_turns(Database(other))) == 51, 30, "what was sent")
    assert len([line for line in records(logging.WARNING) if "accepted for another database" in line]) == 1
    assert user_turns(database) == [turn(900)]


def test_need_03_what_is_sent_elsewhere_is_what_waits_and_not_what_its_own_database_has(
    make_provider: MakeProvider, dsn: str, database: Database, home: Path
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    reach(make_provider, dsn)
    spool = Spool(leave_spool(home, [said(2)]), max_bytes=1 << 30)
    spool.label("memory on another.example", "another database")
    keep(spool, [replace(said(1), seq=int(time.time() * 1e6))])
    spool.close()
    assert main(["spool", "send", "--yes", "--hermes-home", str(home)]) == 0
    landed(make_provider({"dsn": dsn}))
    until(lambda: not spool.path.exists(), 30, "the end of the file")
    assert user_turns(database) == [turn(900), turn(2)]


def said(number: int) -> Operation:
    payload = {"session_id": "s", "messages": [{"role": "user", "content": turn(number)}], "metadata": {}}
    return operation("turn", "marketing", payload, time.time())


def test_need_03_writes_for_a_database_that_was_never_reached_go_where_the_mistake_is_put_right(
    leave: Leave, make_provider: MakeProvider, dsn: str, database: Database
) -> None:
    leave("host=127.0.0.1 port=1 dbname=memory user=hermes", range(50))
    landed(make_provider({"dsn": dsn}))
    until(lambda: len(user_turns(database)) == 50, 30, "the turns that waited")


def test_need_03_writes_that_wait_arrive_when_their_database_is_named_again(
    leave: Leave, other: str, make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database
) -> None:
    reach(make_provider, proxied)
    proxy.stop()
    leave(proxied, range(50))
    proxy.start()
    provider = make_provider({"dsn": other})
    provider.sync_turn(turn(100), "")
    landed(provider)
    provider.shutdown()
    landed(make_provider({"dsn": proxied}))
    until(lambda: len(user_turns(database)) == 51, 30, "the turns that waited")
    assert user_turns(Database(other)) == [turn(100)]


def test_need_03_the_same_database_in_another_way_gets_what_waits_for_it(
    leave: Leave, make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, direct_dsn: str
) -> None:
    """Another host, port, user or password, or a pooler in front, strands nothing."""
    reach(make_provider, proxied)
    proxy.stop()
    leave(proxied, range(50))
    landed(make_provider({"dsn": direct_dsn}))
    until(lambda: len(user_turns(database)) == 51, 30, "the turns that waited")


def test_need_03_an_agent_that_is_sent_to_another_database_delivers_what_waits_for_the_one_before(
    other: str, make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database
) -> None:
    reach(make_provider, proxied)
    proxy.stop()
    make_provider({"dsn": proxied}).sync_turn(turn(1), "")
    gc.collect()
    make_provider({"dsn": other}).sync_turn(turn(2), "")
    until(lambda: user_turns(Database(other)) == [turn(2)], LANDED_TIMEOUT_S, "what is for the other one")
    proxy.start()
    until(lambda: user_turns(database) == [turn(900), turn(1)], LANDED_TIMEOUT_S, "what waited")
    assert user_turns(Database(other)) == [turn(2)]
