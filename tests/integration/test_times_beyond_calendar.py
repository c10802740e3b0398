"""Times that Postgres holds and Python does not: whoever may write can store one, and it is in nobody else's way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.sessions import transcript
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import knowing, recalled
from tests.support.row_security import session, tenant_of

from .conftest import Run

TIMES = ("infinity", "-infinity", "20000-01-01", "4000-01-01 BC", "9999-12-31 23:59:59", "0001-01-01")
SALES = "The walrus port of sales is 5432, since the third of May."
MEMORY = (
    "INSERT INTO memory_entries (agent_identity, target, content, created_at, updated_at)"
    " VALUES (%s, 'memory', %s, %s, %s)"
)
HELD = (
    "INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, held_at, held_why)"
    " SELECT agent_identity, %s, target, digest, true, %s, 'made up' FROM memory_entries WHERE updated_at = %s"
)
TURN = "INSERT INTO conversations (agent_identity, session_id, role, content, ts) VALUES (%s, 'late', 'user', %s, %s)"


@pytest.fixture
def tenant(postgres: EmbeddedServer, admin_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of marketing's role, which has stored a memory and a turn of each of the times."""
    tenant_of(postgres, admin_dsn, "marketing")
    with session(admin_dsn, "tenant_marketing") as conn:
        for at in TIMES:
            conn.execute(MEMORY, ("marketing", f"The walrus memory of {at}.", at, at))
            conn.execute(TURN, ("marketing", f"The walrus turn of {at}.", at))
            conn.execute(HELD, (f"a home of {at}", at, at))
        yield conn


@pytest.mark.usefixtures("tenant")
def test_need_04_a_time_that_a_tenant_made_up_ends_no_recall_across_themes(make_provider: MakeProvider) -> None:
    provider = make_provider({"cross_theme": "all"}, gateway_session_key="sales")
    knowing(provider, SALES, said=("Where is the walrus port of sales?", SALES))
    for tool in ("recall_memory", "recall_conversation"):
        found = recalled(provider, "walrus", tool=tool, scope="all")
        assert SALES in found and len(found) >= len(TIMES)


@pytest.fixture
def configured(home: Path, dsn: str) -> None:
    """The home's config.yaml names the test's database."""
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))


@pytest.mark.usefixtures("tenant", "configured")
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Lima"])
def test_need_16_an_operator_sees_such_rows_as_any_other(
    cli: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    for words in (
        ("list", "--theme", "marketing"),
        ("list", "--theme", "marketing", "--store", "turns"),
        ("search", "walrus", "--scope", "all"),
        ("sessions", "list", "--theme", "marketing"),
        ("sessions", "show", "late", "--theme", "marketing"),
        ("removals", "list"),
        ("themes", "list"),
        ("export", str(tmp_path / "all.jsonl")),
        ("themes", "show", "marketing"),
        ("facts", "list", "--theme", "marketing"),
        ("prune", "--all-themes", "--older-than", "180d"),
        ("compact", "--all-themes"),
        ("purge", "--theme", "marketing"),
    ):
        done = cli(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    examined = cli("doctor")
    assert "another home" in examined.stdout and "unexpected" not in examined.stderr, examined


def test_need_16_a_transcript_at_one_such_time_ends(tenant: psycopg.Connection[Any], admin_dsn: str) -> None:
    for at in ("infinity", "-infinity"):
        tenant.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content, ts) "
            "SELECT 'marketing', %(at)s::text, 'user', n::text, %(at)s::text::timestamptz"
            "  FROM generate_series(1, 1200) AS n",
            {"at": at},
        )
        with connect(admin_dsn) as conn:
            turns = [row["content"] for row in transcript(conn, "marketing", at, limit=5000, offset=0)]
        assert turns == [str(n) for n in range(1, 1201)]


def test_need_06_a_fact_that_took_the_place_of_such_a_row_comes_before_a_message(
    make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider()
    fact = (
        "INSERT INTO memory_entries (agent_identity, target, content, updated_at, kind, subject, state, replaces)"
        " VALUES ('marketing', 'memory', %s, %s, 'fact', 'srv', %s, %s) RETURNING id"
    )
    with psycopg.connect(dsn, autocommit=True) as conn:
        old = conn.execute(fact, ("The walrus port is 5431.", "-infinity", "superseded", None)).fetchone()
        assert old is not None
        conn.execute(fact, ("The walrus port is 5432.", "2026-05-03", "active", old[0]))
    assert "The walrus port is 5432." in provider.prefetch("What is the walrus port?")
