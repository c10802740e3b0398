"""Postgres has no room for another row: writes wait, recall goes on, and everything lands once there is room."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import yaml

from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, runtime_of
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.traffic import Log, Traffic, assert_all_landed, report
from tests.support.turns import finds, turn
from tests.support.waiting import until

# A full disk as any user can make one: no file of this server may grow past the size of a piece of its own journal.
# The journal still fits, a table does not, which is what running out of space for tables looks like.
FILE_MAX_BYTES = 17 * 1024 * 1024  # a megabyte more than such a piece, which `cp` could not copy otherwise

# Rows of this size go four to a page and leave no room there for a turn.
FILL = """
INSERT INTO conversations (session_id, agent_identity, role, content, metadata, embed_after)
SELECT 'filler', 'filler', 'tool', 'filler', jsonb_build_object('filler', repeat('x', 1800)), 'infinity'
  FROM generate_series(1, %s)
"""


@contextmanager
def small_files() -> Iterator[None]:
    """What is started in this block, and what that starts, cannot make a file larger than FILE_MAX_BYTES."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MAX_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def server() -> Iterator[OwnPostgres]:
    with small_files():
        # Nothing but the test makes room.
        context = own_postgres(DIMS, autovacuum="off")
        made = context.__enter__()
    yield made
    context.__exit__(None, None, None)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def fill(admin_dsn: str) -> None:
    """Write to the table of turns until Postgres cannot make it any larger."""
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        for rows in (500, 20, 1):
            with pytest.raises(psycopg.Error, match="could not extend file"):
                while True:
                    connection.execute(FILL, [rows])


def make_room(admin_dsn: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM conversations WHERE agent_identity = 'filler'")
        # Parallel workers would share a file that is larger than this server may write.
        connection.execute("SET max_parallel_maintenance_workers = 0")
        connection.execute("VACUUM FULL conversations")


def test_need_40_why_the_writes_of_an_agent_that_ended_wait_is_told(
    server: OwnPostgres, home: Path, make_provider: MakeProvider, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    """Agents that are started for a message each are gone whenever somebody looks."""
    database = server.database()
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": database.dsn}}}))
    fill(server.admin_of(database))
    report(make_provider({"dsn": database.dsn}), 1)
    until(log.warnings, 30, "the line")
    close_all()
    for command in ("status", "doctor"):
        main([command, "--hermes-home", str(home)])
        said = " ".join(capsys.readouterr().out.split())
        assert re.search(r"last error at 20\d\d-\S+ \S+: could not extend file .*; make room on the disk", said), said


def test_need_03_writes_wait_for_room_on_the_disk_of_postgres(
    server: OwnPostgres, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    database = server.database()
    admin_dsn = server.admin_of(database)
    provider = make_provider({"dsn": database.dsn, "embed_url": endpoint.url})
    report(provider, 1)
    landed(provider)
    fill(admin_dsn)
    with Traffic(provider, first=2) as traffic:
        until(log.warnings, 30, "the line")
        retries = runtime_of(provider).writer.counts["retries"]
        until(lambda: runtime_of(provider).writer.counts["retries"] >= retries + 2, 30, "more attempts")
        assert finds(provider, "number0001", turn(1))
        make_room(admin_dsn)
        traffic.wait_for(20)

    assert_all_landed(provider, database, [1, *traffic.numbers])
    until(lambda: finds(provider, "number0002", turn(2)), 30, "recall")
    traffic.assert_never_waited()
    (line,) = log.warnings()
    assert "could not extend file" in line
    assert "make room" in line
    assert len([line for line in log.ours() if "writes go on" in line]) == 1
