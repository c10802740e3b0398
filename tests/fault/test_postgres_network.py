"""The network between an agent and Postgres fails at the worst moments: nothing is lost, doubled or out of order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hermes_memory_pgvector.domain.errors import StoreUnavailable
from hermes_memory_pgvector.store.memories import lock_theme
from tests.conftest import MakeProvider
from tests.support.commit_proxy import CommitProxy, Moment
from tests.support.memory import called, landed, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.traffic import Log, Traffic, assert_all_landed, fact, report
from tests.support.turns import finds, turn
from tests.support.waiting import until

# Long enough for several attempts of the drain to fail; a longer outage only repeats the last of them.
OUTAGE_S = 3.0


@pytest.fixture
def cutter(dsn: str) -> Iterator[CommitProxy]:
    with CommitProxy.before(dsn) as proxy:
        yield proxy


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def settings(dsn: str, endpoint: ScriptedEmbedder) -> dict[str, Any]:
    return {"dsn": dsn, "embed_url": endpoint.url}


@pytest.mark.parametrize("moment", ["mid_transaction", "commit_unacknowledged"])
def test_need_03_a_cut_in_a_transaction_neither_loses_nor_doubles(
    moment: Moment,
    dsn: str,
    cutter: CommitProxy,
    database: Database,
    endpoint: ScriptedEmbedder,
    make_provider: MakeProvider,
    log: Log,
) -> None:
    cuts = 4
    provider = make_provider(settings(cutter.conninfo(dsn), endpoint))
    report(provider, 1)
    landed(provider)
    with Traffic(provider, first=2) as traffic:
        cutter.arm(moment, cuts)
        until(lambda: cutter.done == cuts, 30, "all cuts")
        traffic.wait_for(20)

    assert_all_landed(provider, database, [1, *traffic.numbers])
    # A transaction whose commit was not acknowledged was done again, and found done.
    assert (runtime_of(provider).writer.counts["replayed"] > 0) == (moment == "commit_unacknowledged")
    traffic.assert_never_waited()
    log.assert_some_outages(cuts + 1)


def test_need_03_connections_cut_at_random_moments_neither_lose_nor_double(
    dsn: str, cutter: CommitProxy, database: Database, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    cuts = 8
    provider = make_provider(settings(cutter.conninfo(dsn), endpoint))
    with Traffic(provider) as traffic:
        until(lambda: database.themes_of_turn(turn(1)), 30, "the first turn")
        for _ in range(cuts):
            traffic.wait_for(7)
            cutter.cut()

    assert_all_landed(provider, database, traffic.numbers)
    traffic.assert_never_waited()
    log.assert_some_outages(cuts)


def test_need_03_writes_survive_a_port_that_is_open_but_deaf(
    dsn: str, cutter: CommitProxy, database: Database, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    provider = make_provider(settings(cutter.conninfo(dsn), endpoint))
    with Traffic(provider) as traffic:
        until(lambda: database.themes_of_turn(turn(1)), 30, "the first turn")
        cutter.deaf()
        traffic.go_on_for(OUTAGE_S)
        # What was under way is lost with its connections; nothing of it reaches Postgres late.
        cutter.stop()
        cutter.start()
        traffic.wait_for(20)

    assert_all_landed(provider, database, traffic.numbers)
    until(lambda: finds(provider, "number0001", turn(1)), 30, "recall")
    traffic.assert_never_waited()
    log.assert_some_outages(2)


def test_need_40_a_server_that_says_nothing_is_not_said_to_start(
    dsn: str, cutter: CommitProxy, make_provider: MakeProvider
) -> None:
    cutter.deaf()
    provider = make_provider({"dsn": cutter.conninfo(dsn), "recall_deadline_s": 0.2})
    error = called(provider, "recall_memory", {"query": "atlas"})["error"]
    assert error == "Postgres has not answered yet; try again in a moment"


def test_need_03_a_client_that_vanishes_in_a_transaction_does_not_hold_its_locks_for_ever(
    dsn: str, database: Database, endpoint: ScriptedEmbedder, make_provider: MakeProvider
) -> None:
    """Without a packet that says so, a server does not notice for hours that a client is gone; the same writes, sent
    again, would wait for what the first attempt locked."""
    provider = make_provider(settings(dsn, endpoint))
    report(provider, 1)
    landed(provider)

    with pytest.raises(StoreUnavailable), runtime_of(provider).backend.connection(1.0) as connection:
        lock_theme(connection, "marketing")
        # From here on nothing is heard of this client. The drain needs the same lock on another connection.
        provider.on_memory_write("add", "memory", fact(2))
        database.wait_for_memory(fact(2))
