"""An embedding endpoint that fails in every way: rows arrive without it, and get their vectors when it works."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.memory import landed, runtime_of
from tests.support.scripted_embedder import Mode, ScriptedEmbedder
from tests.support.stored import Database
from tests.support.turns import finds, turn, user_turns
from tests.support.waiting import until

FAULTS: tuple[Mode, ...] = (
    "down",
    "http_500",
    "rate_limited",
    "hanging",
    "wrong_dims",
    "nan",
    "truncated_json",
    "wrong_count",
)
# The breaker leaves an endpoint alone for 5 s at first, an idle drain looks for work every 5 s, the machine is busy.
RECOVERY_TIMEOUT_S = 60.0
# Nothing but rows is embedded: with `auto` the model is measured as soon as a session starts.
UNMEASURED = {"min_similarity": 0.5}
PENDING = "SELECT id FROM conversations WHERE embedding IS NULL"


@dataclass
class Case:
    """One provider with a database and a failing endpoint of its own."""

    provider: PgvectorMemoryProvider
    database: Database
    endpoint: ScriptedEmbedder

    def write(self, number: int) -> None:
        """One turn, as a batch of its own."""
        self.provider.sync_turn(turn(number), "")
        landed(self.provider)


@pytest.fixture
def cases(postgres: EmbeddedServer, migrated_template: str, make_provider: MakeProvider) -> Iterator[dict[str, Case]]:
    """A case for each fault, so that all of them take the time of one."""
    admin = postgres.ensure().admin
    made: dict[str, Case] = {}
    with psycopg.connect(admin, autocommit=True) as connection, ExitStack() as stack:
        for fault in FAULTS:
            name = sql.Identifier(f"endpoint_{fault}")
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
                    name, sql.Identifier(migrated_template)
                )
            )
            stack.callback(connection.execute, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
            endpoint = stack.enter_context(ScriptedEmbedder(dims=DIMS, mode=fault, retry_after="1"))
            dsn = make_conninfo(admin, dbname=f"endpoint_{fault}", user="hermes")
            provider = make_provider({"dsn": dsn, "embed_url": endpoint.url, **UNMEASURED, "embed_timeout_s": 0.5})
            made[fault] = Case(provider, Database(dsn), endpoint)
        yield made
        for case in made.values():
            runtime_of(case.provider).close(1.0)


def lines(records: Callable[[int], list[str]], case: Case, level: int) -> list[str]:
    """What was logged about the endpoint of a case."""
    return [line for line in records(level) if f":{case.endpoint.port}" in line]


def test_need_03_whatever_an_endpoint_does_rows_arrive_at_once_and_their_vectors_when_it_works(
    cases: dict[str, Case], records: Callable[[int], list[str]]
) -> None:
    for number in range(5):
        for case in cases.values():
            case.write(number)
    opened = {fault: case.endpoint.requests for fault, case in cases.items()}
    for number in range(5, 25):
        for case in cases.values():
            case.write(number)

    said = [turn(number) for number in range(25)]
    assert {fault: user_turns(case.database) for fault, case in cases.items()} == dict.fromkeys(FAULTS, said)
    assert {fault: len(case.database.column(PENDING)) for fault, case in cases.items()} == dict.fromkeys(FAULTS, 25)
    assert {fault for fault, case in cases.items() if not finds(case.provider, "number0017", turn(17))} == set()
    # An endpoint that fails is asked now and then, not with each batch.
    asked = {fault: case.endpoint.requests - opened[fault] for fault, case in cases.items()}
    assert max(asked.values()) <= 4, asked
    states = {fault: runtime_of(case.provider).stats()["endpoint"] for fault, case in cases.items()}
    assert set(states.values()) <= {"open", "half-open"}, states

    for case in cases.values():
        case.endpoint.mode = "ok"
    until(lambda: not any(case.database.column(PENDING) for case in cases.values()), RECOVERY_TIMEOUT_S, "the vectors")

    assert {fault: user_turns(case.database) for fault, case in cases.items()} == dict.fromkeys(FAULTS, said)
    assert {runtime_of(case.provider).stats()["endpoint"] for case in cases.values()} == {"closed"}
    for fault, case in cases.items():
        (opening,) = lines(records, case, logging.WARNING)
        assert "is paused for" in opening, fault
        (closing,) = [line for line in lines(records, case, logging.INFO) if line != opening]
        assert "answers again" in closing, fault
    assert len(records(logging.WARNING)) == len(FAULTS), "nothing but the promised lines"


def test_need_03_an_endpoint_that_names_a_pause_is_left_alone_for_so_long(
    make_provider: MakeProvider, endpoint: ScriptedEmbedder, database: Database
) -> None:
    pause_s = 8.0
    endpoint.retry_after = f"{pause_s:.0f}"
    endpoint.mode = "rate_limited"
    provider = make_provider({"embed_url": endpoint.url, **UNMEASURED})
    asked_at = time.monotonic()
    provider.sync_turn(turn(0), "")
    assert endpoint.arrived.wait(60)
    endpoint.mode = "ok"
    numbers = iter(range(1, 10_000))

    def asked_again() -> bool:
        provider.sync_turn(turn(next(numbers)), "")
        landed(provider)
        return endpoint.requests > 1

    until(asked_again, RECOVERY_TIMEOUT_S, "the next request")
    assert time.monotonic() - asked_at > pause_s
    until(lambda: not database.column(PENDING), RECOVERY_TIMEOUT_S, "the vectors")
    said = user_turns(database)
    assert said == [turn(number) for number in range(len(said))]


def test_need_03_processes_share_what_waits_for_a_vector_and_none_is_embedded_twice(
    make_provider: MakeProvider, endpoint: ScriptedEmbedder, database: Database, dsn: str, home: Path
) -> None:
    writer = make_provider()
    for number in range(200):
        writer.sync_turn(turn(number), "")
    landed(writer)
    assert len(database.column(PENDING)) == 200

    endpoint.latency_ms = 60_000  # both have to have taken their share before either is done
    config = {"dsn": dsn, "dims": DIMS, "embed_url": endpoint.url, **UNMEASURED, "embed_timeout_s": 60}
    with AgentProcess(config, home), AgentProcess(config, home):
        until(lambda: endpoint.requests == 2, 30, "both processes' first batch")
        first, second = (set(body["input"]) for body in endpoint.bodies)
        assert first and second and not first & second
        endpoint.latency_ms = 20
        endpoint.mode = "ok"
        until(lambda: not database.column(PENDING), RECOVERY_TIMEOUT_S, "the vectors")
    assert max(Counter(endpoint.texts).values()) == 1
    assert len(endpoint.texts) == 200


def test_need_03_a_text_that_the_endpoint_never_takes_keeps_no_other_waiting(
    make_provider: MakeProvider, endpoint: ScriptedEmbedder, database: Database
) -> None:
    writer = make_provider()
    for number in range(40):
        writer.sync_turn(f"{turn(number)} Unspeakable." if number in (0, 3) else turn(number), "")
    landed(writer)

    endpoint.refused_word = "Unspeakable"
    make_provider({"embed_url": endpoint.url})
    refused = [f"{turn(number)} Unspeakable." for number in (0, 3)]
    pending = "SELECT content FROM conversations WHERE embedding IS NULL ORDER BY id"
    until(lambda: database.column(pending) == refused, RECOVERY_TIMEOUT_S, "the vectors of the others")
    assert finds(writer, "number0003", refused[1])
