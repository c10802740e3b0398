"""An operator's maintenance under agents at work: VACUUM FULL again and again, a synchronous standby that hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.conftest import DIMS, MakeProvider
from tests.support.limits import LATE_S
from tests.support.memory import landed, runtime_of
from tests.support.own_postgres import own_postgres
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.streaming import SETTINGS
from tests.support.traffic import Log, Traffic, assert_all_landed, report
from tests.support.turns import ask, finds, question, seconds, turn
from tests.support.waiting import until

DEADLINES: dict[str, Any] = {"prefetch_deadline_s": 1.0, "recall_deadline_s": 2.0}


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


@contextmanager
def vacuumed_in_a_loop(admin_dsn: str) -> Iterator[list[int]]:
    """Both tables written anew without pause; the list grows by one for each time."""
    enough, rounds = threading.Event(), list[int]()

    def run() -> None:
        with psycopg.connect(admin_dsn, autocommit=True) as connection:
            while not enough.is_set():
                connection.execute("VACUUM FULL conversations")
                connection.execute("VACUUM FULL memory_entries")
                rounds.append(len(rounds))

    thread = threading.Thread(target=run, name="vacuum", daemon=True)
    thread.start()
    try:
        yield rounds
    finally:
        enough.set()
        thread.join()


def test_need_01_vacuum_full_in_a_loop_costs_no_deadline_and_no_write(
    direct_dsn: str, admin_dsn: str, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    provider = make_provider({"dsn": direct_dsn, "embed_url": endpoint.url, **DEADLINES})
    report(provider, 1)
    landed(provider)
    took: list[float] = []
    with Traffic(provider, first=2) as traffic:
        with vacuumed_in_a_loop(admin_dsn) as rounds:
            while len(rounds) < 10 or len(took) < 10:
                took.append(seconds(lambda: provider.prefetch(question(1))))
                assert seconds(lambda: ask(provider, question(1))) < DEADLINES["recall_deadline_s"] + LATE_S
        traffic.wait_for(20)

    # The worst one may be the machine's.
    assert sorted(took)[-2] < DEADLINES["prefetch_deadline_s"] + LATE_S
    assert_all_landed(provider, Database(direct_dsn), [1, *traffic.numbers])
    until(lambda: finds(provider, "number0002", turn(2)), 30, "recall")
    traffic.assert_never_waited()
    assert not [line for line in log.warnings() if "aside" in line or "lost" in line]


def test_need_03_a_synchronous_standby_that_hangs_loses_and_doubles_nothing(
    endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    with own_postgres(DIMS, **SETTINGS) as server:
        database = server.database()
        provider = make_provider({"dsn": database.dsn, "embed_url": endpoint.url, **DEADLINES})
        report(provider, 1)
        landed(provider)
        with Traffic(provider, first=2) as traffic:
            # One that nobody has ever seen: every commit waits for it, and is done all the same.
            tell(server.admin_dsn, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
            until(lambda: waits_for_a_standby(server.admin_dsn), 30, "a commit that waits")
            traffic.go_on_for(3.0)
            assert seconds(lambda: provider.prefetch(question(1))) < DEADLINES["prefetch_deadline_s"] + LATE_S
            assert finds(provider, "number0001", turn(1))
            until(lambda: runtime_of(provider).writer.counts["retries"] >= 1, 60, "a commit that is given up")
            tell(server.admin_dsn, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
            traffic.wait_for(20)
            until(lambda: not waits_for_a_standby(server.admin_dsn), 30, "commits that go on")

        assert_all_landed(provider, database, [1, *traffic.numbers])
        traffic.assert_never_waited()
        assert not [line for line in log.warnings() if "aside" in line or "lost" in line]
        provider.shutdown()


def tell(admin_dsn: str, *statements: str) -> None:
    with psycopg.connect(admin_dsn, dbname="postgres", autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def waits_for_a_standby(admin_dsn: str) -> bool:
    return bool(Database(admin_dsn).column("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
