"""Postgres stopped in every way, away for a while, restarted again and again: nothing lost, doubled or out of order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import DIMS, MakeProvider
from tests.support.embedded import ask
from tests.support.own_postgres import OwnPostgres, Stop, own_postgres
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.traffic import Log, Traffic, assert_all_landed
from tests.support.turns import finds, turn
from tests.support.waiting import until

# Long enough for several attempts of the drain to fail; a longer outage only repeats the last of them.
OUTAGE_S = 3.0


@pytest.fixture(scope="module")
def postgres_of_our_own() -> Iterator[OwnPostgres]:
    with own_postgres(DIMS) as server:
        yield server


@pytest.fixture
def server(postgres_of_our_own: OwnPostgres) -> OwnPostgres:
    """Running, whatever the test before left behind."""
    postgres_of_our_own.start()
    return postgres_of_our_own


@pytest.fixture
def database(server: OwnPostgres) -> Database:
    return server.database()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def settings(database: Database, endpoint: ScriptedEmbedder) -> dict[str, Any]:
    return {"dsn": database.dsn, "embed_url": endpoint.url}


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_need_03_writes_survive_an_outage(
    how: Stop,
    server: OwnPostgres,
    database: Database,
    endpoint: ScriptedEmbedder,
    make_provider: MakeProvider,
    log: Log,
) -> None:
    provider = make_provider(settings(database, endpoint))
    with Traffic(provider) as traffic:
        until(lambda: database.themes_of_turn(turn(1)), 30, "the first turn")
        server.stop(how)
        traffic.go_on_for(OUTAGE_S)
        server.start()
        traffic.wait_for(20)

    assert_all_landed(provider, database, traffic.numbers)
    until(lambda: finds(provider, "number0001", turn(1)), 30, "recall")
    traffic.assert_never_waited()
    log.assert_outages(1)


def test_need_03_writes_survive_restarts_under_load(
    server: OwnPostgres, database: Database, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    stops: tuple[Stop, ...] = ("fast", "kill", "immediate", "fast")
    provider = make_provider(settings(database, endpoint))
    with Traffic(provider) as traffic:
        for how in stops:
            wait_for_another_write(database)
            server.stop(how)
            server.start()

    assert_all_landed(provider, database, traffic.numbers)
    traffic.assert_never_waited()
    log.assert_outages(len(stops))


def wait_for_another_write(database: Database) -> None:
    (stored,) = database.column("SELECT count(*) FROM conversations")
    until(lambda: database.column("SELECT count(*) FROM conversations") > [stored], 60, "a write")


def test_need_03_writes_survive_the_crash_of_a_backend(
    server: OwnPostgres, database: Database, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    provider = make_provider(settings(database, endpoint))
    with Traffic(provider) as traffic:
        until(lambda: database.themes_of_turn(turn(1)), 30, "the first turn")
        # Postgres takes all other connections down with it, ours among them, and recovers.
        os.kill(int(str(ask(server.admin_dsn, backend_of(database)))), signal.SIGKILL)
        traffic.wait_for(50)

    assert_all_landed(provider, database, traffic.numbers)
    log.assert_outages(1)


def backend_of(database: Database) -> str:
    name = database.dsn.partition("dbname=")[2].split()[0]
    return (
        f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}' AND usename = 'hermes'"
        " AND backend_type = 'client backend' LIMIT 1"
    )


def test_need_03_writes_wait_for_a_postgres_that_is_down_at_initialise(
    server: OwnPostgres, database: Database, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    server.stop("fast")
    provider = make_provider(settings(database, endpoint))
    with Traffic(provider) as traffic:
        traffic.go_on_for(OUTAGE_S)
        server.start()
        traffic.wait_for(20)

    assert_all_landed(provider, database, traffic.numbers)
    until(lambda: finds(provider, "number0001", turn(1)), 30, "recall")
    traffic.assert_never_waited()
    log.assert_outages(1)
