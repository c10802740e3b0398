"""Several statements in one round trip."""

from __future__ import annotations

import gc
import sys
import time
from contextlib import suppress
from typing import Any

import pytest
from psycopg.errors import DataError, DivisionByZero

from hermes_memory_pgvector.domain.errors import DeadlineExceeded, OperationRejected, SchemaNotApplied
from hermes_memory_pgvector.store.connection import DeadlineConnection, translated
from hermes_memory_pgvector.store.pipeline import Pipeline
from hermes_memory_pgvector.store.pool import Pool, connect
from hermes_memory_pgvector.store.round_trip import make_round_trip


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Each wait of a connection for its server."""
    waits: list[object] = []
    wait = DeadlineConnection.wait

    def noted(self: DeadlineConnection, gen: Any, *args: Any, **kwargs: Any) -> Any:
        # To open a pipeline, and to put something into it, waits for nothing.
        if gen.__name__ == "_exit_gen" or not (self.info.pipeline_status or gen.__name__ == "_enter_gen"):
            waits.append(gen)
        return wait(self, gen, *args, **kwargs)

    monkeypatch.setattr(DeadlineConnection, "wait", noted)
    return waits


def test_what_was_asked_for_until_an_answer_is_read_travels_together(dsn: str, trips: list[object]) -> None:
    with connect(dsn) as conn:
        trips.clear()
        pipe = Pipeline(conn)
        asked = [pipe.ask("read_space") for _ in range(3)]
        assert not trips
        assert [len(rows.all()) for rows in reversed(asked)] == [1, 1, 1]
        assert len(trips) == 1
        assert [row.model for row in pipe.ask("read_space")] == [None]
        assert pipe.ask("read_space").one().model is None
        assert len(trips) == 3


def test_what_is_read_takes_no_round_trips_besides(dsn: str, trips: list[object]) -> None:
    """None to begin a transaction, to set its limits or to end it."""
    pool = Pool(dsn, max_size=1)
    pool.open()
    try:
        with pool.reading(20, Pipeline()):
            pass  # the first connection has more to ask
        trips.clear()
        pipe = Pipeline()
        later = pipe.ask("read_space")
        pid = pipe.ask_ahead("incarnation")
        with pool.reading(20, pipe):
            assert len(trips) == 1
            assert later.one() is not None and pid.one() is not None
            assert len(trips) == 1
            asked = [pipe.ask("read_space") for _ in range(3)]
            assert [len(rows.all()) for rows in asked] == [1, 1, 1]
        assert len(trips) == 2
    finally:
        pool.close()


def test_what_fails_in_one_is_told_and_leaves_the_connection_usable(dsn: str, admin_dsn: str) -> None:
    with connect(admin_dsn) as owner:
        owner.execute(b"ALTER TABLE hermes_embedding RENAME TO hermes_embedding_away")
    with connect(dsn) as conn:
        pipe = Pipeline(conn)
        asked = [pipe.ask("read_space") for _ in range(2)]
        with pytest.raises(SchemaNotApplied), translated():
            asked[1].all()
        assert conn.execute(b"SELECT 1 AS one").fetchone() == (1,)


def test_what_failed_in_a_round_trip_of_its_own_leaves_the_connection_usable(dsn: str) -> None:
    """What came behind it was not prepared, though it had been sent to be."""
    pool = Pool(dsn, max_size=1)
    pool.open()
    try:
        for broken in [False] * 3 + [True] * 3 + [False] * 3:
            pipe = Pipeline()
            with suppress(OperationRejected), pool.reading(20, pipe):
                if broken:
                    pipe.ask(
                        "turns_before", {"theme": "t", "session_id": "s", "parent": None, "limit": -1, "sessions": 1}
                    )
                found = [pipe.ask(name) for name in ("read_space", "incarnation")]
                assert [len(rows.all()) for rows in found] == [1, 1] and not broken
    finally:
        pool.close()


def test_a_pipeline_that_ends_too_late_is_told_once(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its error: Python prints what a collected generator raises, among what a command says."""
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_value))
    for statements in range(2, 40):  # with some number, what ends the pipeline is the first that cannot be sent
        with connect(dsn) as conn:
            conn.deadline = time.monotonic() + 0.05
            with pytest.raises(DeadlineExceeded), conn.pipeline():
                conn.execute(b"SELECT pg_sleep(3)")
                for _ in range(statements):
                    conn.execute(b"SELECT %s::text", ["x" * 1000])
    gc.collect()
    assert told == []


def test_a_server_that_has_forgotten_what_was_prepared_is_told_again(dsn: str) -> None:
    """As after a rollback, when psycopg has it forget everything."""
    pool = Pool(dsn, max_size=1)
    pool.open()
    try:
        for _ in range(3):
            pipe = Pipeline()
            asked = [pipe.ask(name) for name in ("read_space", "incarnation")]
            with pool.reading(20, pipe) as conn:
                assert [len(rows.all()) for rows in asked] == [1, 1]
                conn.execute(b"DEALLOCATE ALL")
                assert len(pipe.ask("read_space").all()) == 1
    finally:
        pool.close()


def test_what_always_fails_is_prepared_once(dsn: str) -> None:
    """A question that takes too long each time must not fill the server's memory."""
    asked = [
        (b"SELECT $1::int AS whole", [7]),
        (b"SELECT 1 / $1::int AS part", [0]),
        (b"SELECT $1::int + 1 AS next", [7]),
    ]
    with connect(dsn, prepares=True) as conn:
        for _ in range(5):
            with pytest.raises(DivisionByZero):
                make_round_trip(conn, asked)
        with pytest.raises(DataError):
            make_round_trip(conn, [(b"SELECT $1::text AS sent", ["\0"])])
        assert make_round_trip(conn, [asked[2], asked[0]]) == [[(8,)], [(7,)]]
        texts = conn.execute(b"SELECT statement FROM pg_prepared_statements ORDER BY prepare_time").fetchall()
    assert [text for (text,) in texts] == [text.decode() for text, _ in asked]


@pytest.mark.parametrize("prepares", [True, False])
def test_lists_arrive_as_they_were_given(dsn: str, prepares: bool) -> None:
    texts = ["", "NULL", "null", " a ", 'he said "no"', "C:\\quay\\", "{1,2}", "a,b", "\t\n", "日本 🏗", "it's", None]
    numbers = [0.1, -1e300, 5e-324, float("inf"), None]
    ids = [1, 40_000, 2**62, -5]
    text = b"SELECT $1::text[] AS texts, $2::float8[] AS numbers, $3::bigint[] AS ids, 7 = ANY($4::bigint[]) AS found"
    with connect(dsn, prepares=prepares) as conn:
        for given in (ids, [], [3]):
            ((row,),) = make_round_trip(conn, [(text, [texts, numbers, given, []])])
            assert (row.texts, row.numbers, row.ids, row.found) == (texts, numbers, given, False)
