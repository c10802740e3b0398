"""Another server than a moment ago, which lacks the last of what was acknowledged: it is sent again, once."""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from hermes_memory_pgvector.capture import queues
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.errors import StoreUnavailable
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.store import backend as store_backend
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.memory import called, landed, runtime_of
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
        self.stop()
        self.lead_new_ones_to(conninfo)
        self.start()

    def lead_new_ones_to(self, conninfo: str) -> None:
        """Leave the connections that there are as they are."""
        parts = conninfo_to_dict(conninfo)
        self._target = Path(str(parts["host"])) / f".s.PGSQL.{parts['port']}"


def leave_behind(standby: Standby) -> None:
    """What is written from now on never reaches the standby."""
    with psycopg.connect(standby.admin_dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
        connection.execute("SELECT pg_reload_conf()")
    until(lambda: standby.tell("SELECT count(*) = 0 FROM pg_stat_wal_receiver"), 20, "the end of streaming")


def take_over(servers: tuple[OwnPostgres, Standby], old: Database) -> Database:
    """The standby takes over, with what it has; returns the database there."""
    primary, standby = servers
    primary.stop("immediate")
    standby.tell("SELECT pg_promote()")
    return Database(standby.conninfo(old.dsn))


def fail_over(servers: tuple[OwnPostgres, Standby], switch: Switch, old: Database) -> Database:
    """The same, and the name leads to it."""
    new = take_over(servers, old)
    switch.lead_to(new.dsn)
    return new


def kept_texts(home: Path) -> str:
    """What the spool files of a home keep of acknowledged writes."""
    found = []
    for path in (home / "pgvector" / "spool").glob("*.db"):
        with closing(sqlite3.connect(path)) as file:
            found += [row[0] for row in file.execute("SELECT payload FROM kept")]
    return "\n".join(found)


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

        leave_behind(standby)
        for number in range(200, 500):
            provider.sync_turn(turn(number), "")
            provider.on_memory_write("add", "memory", f"Fact {number}")
        landed(provider)
        assert len(user_turns(old)) == 500

        switch.stop()
        for number in range(500, 520):
            provider.sync_turn(turn(number), "")
        new = fail_over(servers, switch, old)
        until(lambda: len(user_turns(new)) >= 520, 60, "everything on the server that took over")
        landed(provider)
        assert user_turns(new) == [turn(number) for number in range(520)]
        assert memories(new) == [f"Fact {number}" for number in range(200, 500)]
        assert any("600 acknowledged writes; they are sent again" in line for line in records(logging.WARNING))
        provider.shutdown()
        primary.start()  # for whoever ends it


def test_need_03_a_connection_that_a_pool_makes_to_another_server_writes_nothing_before_what_that_lacks(
    servers: tuple[OwnPostgres, Standby], make_provider: MakeProvider
) -> None:
    primary, standby = servers
    old = primary.database()
    standby.caught_up(primary)
    with Switch.before(old.dsn) as switch, contextlib.ExitStack() as lent:
        provider = make_provider({"dsn": switch.conninfo(old.dsn), "pooler": "none"})
        provider.sync_turn(turn(0), "")
        landed(provider)
        standby.caught_up(primary)
        leave_behind(standby)
        for number in range(1, 20):
            provider.sync_turn(turn(number), "")
        landed(provider)

        backend = runtime_of(provider).backend
        while backend.pool_stats()["pool_available"]:
            lent.enter_context(backend.connection(30))
        standby.tell("SELECT pg_promote()")
        switch.lead_new_ones_to(standby.conninfo(old.dsn))
        provider.sync_turn(turn(20), "")
        new = Database(standby.conninfo(old.dsn))
        until(lambda: turn(20) in user_turns(new), 60, "the turn on the server that took over")
        primary.stop("immediate")
        with contextlib.suppress(StoreUnavailable):
            lent.close()
        provider.sync_turn(turn(21), "")
        until(lambda: len(user_turns(new)) >= 22, 60, "everything on the server that took over")
        landed(provider)
        assert user_turns(new) == [turn(number) for number in range(22)]
        provider.shutdown()


@contextlib.contextmanager
def left_behind(servers: tuple[OwnPostgres, Standby]) -> Iterator[tuple[Database, Switch]]:
    """A database, a name that leads to it, and a standby that lacks all that is written."""
    primary, standby = servers
    old = primary.database()
    standby.caught_up(primary)
    with Switch.before(old.dsn) as switch:
        leave_behind(standby)
        yield old, switch


@contextlib.contextmanager
def agent_left_behind(
    servers: tuple[OwnPostgres, Standby], home: Path
) -> Iterator[tuple[Database, Switch, AgentProcess]]:
    """The same, with an agent in a process of its own."""
    with contextlib.ExitStack() as stack:
        old, switch = stack.enter_context(left_behind(servers))
        config = {"dsn": switch.conninfo(old.dsn), "pooler": "none", "dims": DIMS}
        yield old, switch, stack.enter_context(AgentProcess(config, home))


def spool_files(home: Path) -> set[Path]:
    return set((home / "pgvector" / "spool").glob("*.db"))


def delete_it(home: Path, provider: PgvectorMemoryProvider) -> Iterator[None]:
    """Somebody deletes the file under the agent, which begins another one."""
    (deleted,) = spool_files(home)
    for path in deleted.parent.iterdir():
        path.unlink()
    yield
    until(lambda: spool_files(home) - {deleted}, what="another file")


def lock_it(home: Path, provider: PgvectorMemoryProvider) -> Iterator[None]:
    """A shell of sqlite3 has the file to itself for a while, so that the agent begins another one."""
    (locked,) = spool_files(home)
    with closing(sqlite3.connect(locked, isolation_level=None)) as shell:
        shell.execute("BEGIN EXCLUSIVE")
        yield
    until(lambda: not locked.exists(), what="the end of the file that was locked")


def fill_its_disk(home: Path, provider: PgvectorMemoryProvider) -> Iterator[None]:
    """The disk takes nothing for a while, so that the agent writes to a file elsewhere, and comes back from there."""
    folder = home / "pgvector" / "spool"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.touch()
    yield
    own = runtime_of(provider).writer._own
    elsewhere = own.spools()[-1].path
    assert elsewhere.parent != folder
    folder.unlink()
    until(lambda: spool_files(home) and not elsewhere.exists(), what="the end of the file elsewhere")


@pytest.mark.parametrize("trouble", [delete_it, lock_it, fill_its_disk])
def test_need_03_what_was_acknowledged_is_sent_again_whatever_became_of_the_file_that_kept_it(
    trouble: Callable[[Path, PgvectorMemoryProvider], Iterator[None]],
    servers: tuple[OwnPostgres, Standby],
    home: Path,
    make_provider: MakeProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(queues, "_SPARED_S", 0.1)
    primary, standby = servers
    old = primary.database()
    standby.caught_up(primary)
    with Switch.before(old.dsn) as switch:
        provider = make_provider({"dsn": switch.conninfo(old.dsn), "pooler": "none"})
        provider.sync_turn(turn(0), "")
        landed(provider)
        standby.caught_up(primary)
        leave_behind(standby)
        write = iter(range(1, 100))
        for _ in range(20):
            provider.sync_turn(turn(next(write)), "")
        landed(provider)
        course = trouble(home, provider)
        next(course)
        for _ in range(20):
            provider.sync_turn(turn(next(write)), "")
        landed(provider)
        with contextlib.suppress(StopIteration):
            next(course)

        new = fail_over(servers, switch, old)
        provider.sync_turn(turn(next(write)), "")
        until(lambda: turn(41) in user_turns(new), 60, "the turn after it")
        landed(provider)
        assert user_turns(new) == [turn(number) for number in range(42)]
        provider.shutdown()


@pytest.mark.parametrize("end", ["exit", "kill"])
@pytest.mark.parametrize("beside", ["another process", "none"])
def test_need_03_what_was_acknowledged_to_a_process_that_is_gone_is_sent_again_by_another_one(
    end: str,
    beside: str,
    servers: tuple[OwnPostgres, Standby],
    home: Path,
    make_provider: MakeProvider,
) -> None:
    with left_behind(servers) as (old, switch):
        config = {"dsn": switch.conninfo(old.dsn), "pooler": "none", "dims": DIMS}
        if beside != "none":
            landed(make_provider(config))
        before = spool_files(home)
        with AgentProcess(config, home) as agent:
            for number in range(20):
                agent.call("sync_turn", turn(number), "")
            until(lambda: turn(19) in kept_texts(home), 30, "the turns of the process")
            getattr(agent, end)()
        if beside != "none":
            until(lambda: spool_files(home) == before, 30, "the end of its file")

        new = fail_over(servers, switch, old)
        provider = make_provider(config)
        until(lambda: len(user_turns(new)) == 20, 60, "what the server that took over lacked")
        assert user_turns(new) == [turn(number) for number in range(20)]
        provider.shutdown()


def test_need_03_what_waits_in_the_file_of_a_dead_process_follows_what_was_acknowledged_to_it(
    servers: tuple[OwnPostgres, Standby],
    home: Path,
    make_provider: MakeProvider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_backend, "WRITE_TIMEOUT_S", 2.0)
    _, standby = servers
    with left_behind(servers) as (old, switch):
        config = {"dsn": switch.conninfo(old.dsn), "pooler": "none", "dims": DIMS}
        with AgentProcess(config, home) as agent:
            for number in range(10):
                agent.call("sync_turn", turn(number), "")
            until(lambda: turn(9) in kept_texts(home), 30, "the turns of the process")
            switch.stop()
            for number in range(10, 20):
                agent.call("sync_turn", turn(number), "")
            agent.kill()
        new = take_over(servers, old)
        with psycopg.connect(standby.admin_dsn, dbname=conninfo_to_dict(old.dsn)["dbname"]) as held:
            held.execute("LOCK TABLE hermes_operations")
            switch.lead_to(new.dsn)
            provider = make_provider(config)
            until(lambda: runtime_of(provider).writer.counts["retries"], 30, "an answer that does not come in time")
        until(lambda: len(user_turns(new)) == 20, 60, "what the server that took over lacked")
        assert user_turns(new) == [turn(number) for number in range(20)]
        provider.shutdown()


def test_need_03_what_a_server_lacks_goes_first_though_no_disk_takes_a_byte(
    servers: tuple[OwnPostgres, Standby], home: Path
) -> None:
    with agent_left_behind(servers, home) as (old, switch, agent):
        for number in range(20):
            agent.call("sync_turn", turn(number), "")
        until(lambda: turn(19) in kept_texts(home), 30, "what is kept on disk")
        agent.fill_disk(True)
        for number in range(20, 40):
            agent.call("sync_turn", turn(number), "")
        until(lambda: len(user_turns(old)) == 40, 30, "what is kept in memory")
        switch.stop()
        for number in range(40, 60):
            agent.call("sync_turn", turn(number), "")

        new = fail_over(servers, switch, old)
        until(lambda: len(user_turns(new)) >= 60, 60, "everything on the server that took over")
        assert user_turns(new) == [turn(number) for number in range(60)]
        agent.fill_disk(False)
        until(lambda: turn(59) in kept_texts(home), 30, "what was in memory")
        assert agent.exit() == 0


def test_need_03_what_a_deleted_file_kept_is_sent_again_though_the_disk_has_no_room_for_it(
    servers: tuple[OwnPostgres, Standby], home: Path
) -> None:
    long = " and so on" * 1_000
    with agent_left_behind(servers, home) as (old, switch, agent):
        for number in range(40):
            agent.call("sync_turn", turn(number) + long, "")
        until(lambda: turn(39) in kept_texts(home), 30, "what is kept on disk")
        agent.limit_files(300_000)
        (first,) = spool_files(home)
        for path in first.parent.iterdir():
            path.unlink()
        agent.call("sync_turn", turn(40), "")
        until(lambda: len(user_turns(old)) == 41, 30, "the turn after it")
        until(lambda: spool_files(home) - {first}, 30, "another file")

        new = fail_over(servers, switch, old)
        agent.call("sync_turn", turn(41), "")
        until(lambda: len(user_turns(new)) == 42, 60, "everything on the server that took over")
        assert [text.removesuffix(long) for text in user_turns(new)] == [turn(number) for number in range(42)]
        agent.fill_disk(False)
        assert agent.exit() == 0


def test_need_03_a_file_deleted_while_the_agent_meets_another_server_hides_nothing_of_what_that_lacks(
    servers: tuple[OwnPostgres, Standby], home: Path, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with left_behind(servers) as (old, switch):
        provider = make_provider({"dsn": switch.conninfo(old.dsn), "pooler": "none"})
        for number in range(20):
            provider.sync_turn(turn(number), "")
        landed(provider)

        switch.stop()
        new = take_over(servers, old)
        met, go_on = threading.Event(), threading.Event()
        backend = runtime_of(provider).backend
        bring_up = backend.bring_up

        def meet() -> None:
            bring_up()
            met.set()
            go_on.wait(60)

        monkeypatch.setattr(backend, "bring_up", meet)
        switch.lead_to(new.dsn)
        assert met.wait(60)
        for path in (home / "pgvector" / "spool").iterdir():
            path.unlink()
        provider.sync_turn(turn(20), "")  # finds the file gone, and begins another one
        go_on.set()
        until(lambda: turn(20) in user_turns(new), 60, "the turn after it")
        landed(provider)
        assert user_turns(new) == [turn(number) for number in range(21)]
        provider.shutdown()


def test_need_03_what_is_to_be_sent_again_outlives_the_process_and_its_time(
    servers: tuple[OwnPostgres, Standby], make_provider: MakeProvider, records: Records
) -> None:
    _, standby = servers
    with left_behind(servers) as (old, switch):
        config = {"dsn": switch.conninfo(old.dsn), "pooler": "none"}
        provider = make_provider(config)
        for number in range(20):
            provider.sync_turn(turn(number), "")
        landed(provider)

        new = take_over(servers, old)
        with psycopg.connect(standby.admin_dsn, dbname=conninfo_to_dict(old.dsn)["dbname"]) as held:
            held.execute("LOCK TABLE conversations")
            switch.lead_to(new.dsn)
            until(lambda: any("20 acknowledged writes" in line for line in records(logging.WARNING)), 30, "the look")
            writer = runtime_of(provider).writer
            assert writer.depth() == 20
            writer._acknowledged._keep_us = 0  # its time is over
            provider.shutdown()
        other = make_provider(config)
        until(lambda: len(user_turns(new)) == 20, 60, "what the server that took over lacked")
        landed(other)
        assert user_turns(new) == [turn(number) for number in range(20)]
        other.shutdown()


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


def test_need_22_what_was_forgotten_stays_so_on_a_server_that_was_set_back(
    servers: tuple[OwnPostgres, Standby], home: Path, make_provider: MakeProvider
) -> None:
    primary, standby = servers
    old = primary.database()
    standby.caught_up(primary)
    with Switch.before(old.dsn) as switch:
        config = {"dsn": switch.conninfo(old.dsn), "pooler": "none", "tools": ["remember", "forget"]}
        provider = make_provider(config)
        other = make_provider(config | {"pool_max_size": 3})  # a process of its own, as far as the spool goes
        early, late = "The safe opens with the date of the fair.", "The spare key lies below the third stone."
        before, after = "The gate is painted green.", "The gate is painted red."
        theirs, kept = "The cellar is never locked on Mondays.", "The harbour office closes at five."
        called(provider, "remember", {"content": early, "sync": True})
        provider.on_memory_write("add", "memory", before)
        landed(provider)
        standby.caught_up(primary)
        leave_behind(standby)

        called(provider, "remember", {"content": late, "sync": True})
        provider.on_memory_write("replace", "memory", after, metadata={"old_text": before})
        called(provider, "remember", {"content": kept, "sync": True})
        called(other, "remember", {"content": theirs, "sync": True})
        landed(other)
        assert late in kept_texts(home) and theirs in kept_texts(home)
        ids = old.column("SELECT id FROM memory_entries WHERE content <> %s ORDER BY id", kept)
        assert called(provider, "forget", {"ids": ids})["count"] == 4
        landed(provider)
        until(lambda: not any(text in kept_texts(home) for text in (early, late, after)), 20, "the end of what is kept")
        assert kept in kept_texts(home)

        switch.stop()
        new = fail_over(servers, switch, old)
        until(lambda: memories(new) == [kept], 60, "what was not forgotten, and nothing else")
        landed(provider)
        landed(other)
        provider.sync_turn(turn(1), "")
        other.sync_turn(turn(2), "")
        until(lambda: len(user_turns(new)) == 2, 60, "the turns after it")
        assert memories(new) == [kept]
        assert all(
            text not in json.dumps(new.column("SELECT old_content FROM memory_history")) for text in (early, late)
        )
        provider.shutdown()
        other.shutdown()
        primary.start()


@pytest.mark.parametrize("verb", ["forget", "forget --session", "themes delete"])
def test_need_22_what_an_operator_removed_is_not_kept_to_be_sent_again(
    verb: str, dsn: str, home: Path, database: Database, make_provider: MakeProvider
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    provider = make_provider({"dsn": dsn})
    provider.sync_turn(turn(1), turn(2), session_id="s1")
    provider.sync_turn(turn(3), "", session_id="s2")
    provider.on_memory_write("add", "memory", "Fact 4")
    landed(provider)
    until(lambda: "Fact 4" in kept_texts(home), 20, "what is kept")
    (theme,) = set(database.themes_of_turn(turn(1)))
    if verb == "forget":
        turns = database.column("SELECT id FROM conversations WHERE content = %s", turn(1))
        facts = database.column("SELECT id FROM memory_entries")
        arguments = ["forget", f"t{turns[0]}", f"m{facts[0]}", "--yes"]
        gone, left = [turn(1), "Fact 4"], [turn(2), turn(3)]
    elif verb == "forget --session":
        arguments = ["forget", "--session", "s1", "--theme", theme, "--yes"]
        gone, left = [turn(1), turn(2)], [turn(3), "Fact 4"]
    else:
        arguments = ["themes", "delete", theme, "--yes"]
        gone, left = [turn(1), turn(2), turn(3), "Fact 4"], []
    assert main([*arguments, "--hermes-home", str(home)]) == 0
    assert [text for text in (turn(1), turn(2), turn(3), "Fact 4") if text in kept_texts(home)] == left
    assert not [text for text in gone if text in kept_texts(home)]
