"""Postgres is up and has nothing to give: no connection slot, no lock, no free connection of ours."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.capture import batches
from hermes_memory_pgvector.domain.errors import ConfigurationError, StoreUnavailable
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.store.connection import translated
from tests.conftest import DIMS, MakeProvider
from tests.support.limits import LATE_S
from tests.support.memory import landed, rejected_writes, runtime_of
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import STORED_TIMEOUT_S, Database, lock_both_tables
from tests.support.traffic import Log, Traffic, assert_all_landed, report
from tests.support.turns import ask as recall
from tests.support.turns import finds, question, seconds, turn, user_turns
from tests.support.waiting import until

MAX_CONNECTIONS = 12

DEADLINES: dict[str, Any] = {"prefetch_deadline_s": 0.5, "recall_deadline_s": 2.0}


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


@contextmanager
def tables_locked(admin_dsn: str) -> Iterator[None]:
    """What ALTER TABLE or VACUUM FULL does to everybody else."""
    with psycopg.connect(admin_dsn) as connection:
        lock_both_tables(connection, "ACCESS EXCLUSIVE")
        yield


def assert_recall_is_bounded(provider: PgvectorMemoryProvider) -> None:
    assert seconds(lambda: provider.prefetch(question(1))) < DEADLINES["prefetch_deadline_s"] + LATE_S
    assert seconds(lambda: recall(provider, question(1))) < DEADLINES["recall_deadline_s"] + LATE_S


def test_trap_09_locked_tables_hold_up_neither_hooks_nor_recall(
    dsn: str,
    admin_dsn: str,
    database: Database,
    endpoint: ScriptedEmbedder,
    make_provider: MakeProvider,
    log: Log,
) -> None:
    provider = make_provider({"dsn": dsn, "embed_url": endpoint.url, **DEADLINES})
    report(provider, 1)
    landed(provider)
    with Traffic(provider, first=2) as traffic:
        with tables_locked(admin_dsn):
            traffic.wait_for(20)
            assert_recall_is_bounded(provider)
            assert provider.prefetch(question(1)) == ""
            assert recall(provider, question(1))["error"]
        traffic.wait_for(20)

    assert_all_landed(provider, database, [1, *traffic.numbers])
    until(lambda: finds(provider, "number0002", turn(2)), STORED_TIMEOUT_S, "recall")
    traffic.assert_never_waited()
    assert log.warnings() == []


@pytest.mark.parametrize("given", [{"query": "the budget"}, {"id": 1}])
def test_need_01_forget_has_one_deadline_for_its_waiting_and_its_looking(
    dsn: str, admin_dsn: str, endpoint: ScriptedEmbedder, make_provider: MakeProvider, given: dict[str, Any]
) -> None:
    provider = make_provider({"dsn": dsn, "embed_url": endpoint.url, "tools": ["forget"], **DEADLINES})
    report(provider, 1)
    landed(provider)
    with tables_locked(admin_dsn):
        report(provider, 2)  # which `forget` waits for first, for a second
        answers: list[str] = []
        took = [seconds(lambda: answers.append(provider.handle_tool_call("forget", given))) for _ in range(3)]
    assert all("error" in json.loads(answer) for answer in answers)
    # The least of three: what else this machine does lengthens some of them.
    assert 0.9 < min(took) < DEADLINES["recall_deadline_s"] + 0.8


def test_need_01_an_exhausted_pool_holds_up_neither_hooks_nor_recall(
    dsn: str,
    admin_dsn: str,
    database: Database,
    endpoint: ScriptedEmbedder,
    make_provider: MakeProvider,
    log: Log,
) -> None:
    provider = make_provider({"dsn": dsn, "embed_url": endpoint.url, "pool_max_size": 2, **DEADLINES})
    report(provider, 1)
    landed(provider)
    answers: list[dict[str, Any]] = []
    askers = [threading.Thread(target=lambda: answers.append(recall(provider, question(1)))) for _ in range(6)]
    with Traffic(provider, first=2) as traffic:
        with tables_locked(admin_dsn):
            for asker in askers:
                asker.start()
            until(
                lambda: runtime_of(provider).backend.pool_stats().get("requests_waiting"),
                STORED_TIMEOUT_S,
                "a full pool",
            )
            assert_recall_is_bounded(provider)
        for asker in askers:
            asker.join()
        traffic.wait_for(20)

    assert len(answers) == len(askers)
    assert_all_landed(provider, database, [1, *traffic.numbers])
    until(lambda: finds(provider, "number0002", turn(2)), STORED_TIMEOUT_S, "recall")
    assert runtime_of(provider).backend.pool_stats()["pool_max"] == 2
    traffic.assert_never_waited()
    assert log.warnings() == []


@pytest.fixture(scope="module")
def small_server() -> Iterator[OwnPostgres]:
    with own_postgres(DIMS, max_connections=str(MAX_CONNECTIONS)) as server:
        yield server


def test_need_03_a_server_without_a_free_slot_loses_nothing(
    small_server: OwnPostgres, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    database = small_server.database()
    admin_dsn = small_server.admin_of(database)
    provider = make_provider({"dsn": database.dsn, "embed_url": endpoint.url, **DEADLINES})
    report(provider, 1)
    landed(provider)
    runtime = runtime_of(provider)
    with Traffic(provider, first=2) as traffic, ExitStack() as others:
        take_every_slot(admin_dsn, others)
        done = runtime.writer.counts["operations"]
        until(
            lambda: runtime.writer.counts["operations"] > done + 20,
            STORED_TIMEOUT_S,
            "writes over the connections there are",
        )
        assert log.warnings() == []

        take_ours_as_well(admin_dsn, others)
        until(lambda: "max_connections" in runtime.stats()["last_error"], STORED_TIMEOUT_S, "the cause and the remedy")
        traffic.wait_for(20)
        assert_recall_is_bounded(provider)
        others.close()
        traffic.wait_for(20)

    assert_all_landed(provider, database, [1, *traffic.numbers])
    until(lambda: finds(provider, "number0002", turn(2)), STORED_TIMEOUT_S, "recall")
    traffic.assert_never_waited()
    log.assert_outages(1)


def take_every_slot(admin_dsn: str, others: ExitStack) -> None:
    """Open connections until Postgres has no slot left."""
    while True:
        try:
            others.enter_context(psycopg.connect(admin_dsn, autocommit=True))
        except psycopg.OperationalError:
            return


def take_ours_as_well(admin_dsn: str, others: ExitStack) -> None:
    """Throw the provider's connections out and take their slots, until it has none."""
    ours = "FROM pg_stat_activity WHERE usename = 'hermes' AND datname = current_database()"
    others.close()
    guard = others.enter_context(psycopg.connect(admin_dsn, autocommit=True))

    def has_none() -> bool:
        (thrown_out,) = guard.execute(f"SELECT count(pg_terminate_backend(pid)) {ours}".encode()).fetchone() or (1,)
        take_every_slot(admin_dsn, others)
        return not thrown_out

    until(has_none, STORED_TIMEOUT_S, "the provider without a connection")


def test_need_03_a_batch_that_takes_too_long_is_written_in_smaller_ones(
    direct_dsn: str, admin_dsn: str, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    monkeypatch.setattr(batches, "_SIZES", ((64, 1.0), (8, 1.0), (1, 1.0), (1, 30.0)))
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(
            """CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 PERFORM pg_sleep(CASE WHEN NEW.content LIKE '%number0030%' THEN 2 ELSE 0.03 END); RETURN NEW; END $$"""
        )
        connection.execute("CREATE TRIGGER slow BEFORE INSERT ON conversations FOR EACH ROW EXECUTE FUNCTION slow()")
    database = Database(direct_dsn)
    with database.writes_blocked():
        provider = make_provider({"dsn": direct_dsn})
        for number in range(1, 61):
            report(provider, number)
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(1, 61)]
    assert runtime_of(provider).writer.rejected_count() == 0


def test_need_03_a_write_that_takes_postgres_a_minute_arrives_and_so_do_those_after_it(
    direct_dsn: str, admin_dsn: str, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_SIZES", tuple((ops, timeout_s / 20) for ops, timeout_s in batches._SIZES))
    slow_for(admin_dsn, "number0001", "pg_sleep(3)")
    provider = make_provider({"dsn": direct_dsn})
    for number in (1, 2, 3):
        report(provider, number)
    landed(provider)
    assert user_turns(Database(direct_dsn)) == [turn(number) for number in (1, 2, 3)]


def test_need_03_a_write_that_postgres_never_finishes_is_set_aside_for_those_after_it(
    direct_dsn: str, admin_dsn: str, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_SIZES", ((64, 1.0), (1, 1.0)))
    slow_for(admin_dsn, "number0002", "pg_sleep(600)")
    provider = make_provider({"dsn": direct_dsn})
    for number in (1, 2, 3, 4):
        report(provider, number)
    landed(provider)
    (left,) = rejected_writes(provider)
    assert turn(2) in str(left)
    assert "took longer than the deadline" in str(left)
    assert user_turns(Database(direct_dsn)) == [turn(1), turn(3), turn(4)]


def test_need_03_a_write_that_waits_for_a_lock_is_not_to_blame(
    direct_dsn: str, admin_dsn: str, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_SIZES", ((64, 1.0), (1, 1.0)))
    slow_for(admin_dsn, "number0002", "pg_advisory_xact_lock(4711)")
    provider = make_provider({"dsn": direct_dsn})
    with psycopg.connect(admin_dsn, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(4711)")
        for number in (1, 2, 3, 4):
            report(provider, number)
        writer = runtime_of(provider).writer
        until(lambda: writer.counts["retries"] > 6, STORED_TIMEOUT_S, "more attempts than one write gets")
    landed(provider)
    assert user_turns(Database(direct_dsn)) == [turn(number) for number in (1, 2, 3, 4)]
    assert writer.rejected_count() == 0


def slow_for(admin_dsn: str, part: str, does: str) -> None:
    """Have Postgres do something whenever a turn with this part is stored."""
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF NEW.content LIKE '%{part}%' THEN PERFORM {does}; END IF; RETURN NEW; END $$".encode()
        )
        connection.execute("CREATE TRIGGER slow BEFORE INSERT ON conversations FOR EACH ROW EXECUTE FUNCTION slow()")


def test_need_02_a_server_without_room_for_locks_says_which_setting_to_raise(small_server: OwnPostgres) -> None:
    empty = make_conninfo(small_server.admin_dsn, dbname="without_locks")
    with psycopg.connect(small_server.admin_dsn, autocommit=True) as holder:
        holder.execute("CREATE DATABASE without_locks")
        with pytest.raises(StoreUnavailable, match="raise max_locks_per_transaction"), translated():
            for number in itertools.count():
                holder.execute("SELECT pg_advisory_lock(%s)", (number,))
        for number in range(40):  # enough to connect
            holder.execute("SELECT pg_advisory_unlock(%s)", (number,))
        with pytest.raises(ConfigurationError, match=r"out of shared memory.*max_locks_per_transaction"):
            migrate(empty, dims=DIMS)
