"""Rows that were stored before migration 008 are found by the words it reads, once `migrate` has read them anew."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.admin.common import words
from hermes_memory_pgvector.admin.common.migrations import migrations
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS, MakeProvider
from tests.support.mcp_client import mcp_home
from tests.support.memory import recalled
from tests.support.stored import Database

from .conftest import Run
from .test_migrate import _SHAPE

MIXED = "系统报错ERR_CONN_77错误，需要重启nginx服务器"
NAMED = "Rates come from src/pricing/discount_policies.py"
PLAIN = "The harbour office opens at nine"
HISTORY = "SELECT count(*) FROM memory_history"
_INSERT = "INSERT INTO memory_entries (agent_identity, target, content) VALUES (%s, 'memory', %s)"


@pytest.fixture
def of_version_007(empty_admin_dsn: str) -> str:
    """A database with rows, as 007 left it."""
    with psycopg.connect(empty_admin_dsn, autocommit=True) as admin:
        admin.execute(f"SET hermes_pgvector.dims = {DIMS}".encode())
        admin.execute("SET hermes_pgvector.runtime_role = 'hermes'")
        for migration in migrations()[:7]:
            admin.execute(migration.sql.encode())
        for content in (MIXED, NAMED, PLAIN):
            admin.execute(_INSERT, ("marketing", content))
    return empty_admin_dsn


def built(cli: Run, dsn: str) -> list[str]:
    """Migrate by the command; what it has made for stored rows."""
    done = cli("migrate", "--admin-dsn", dsn, "--dims", str(DIMS), "--runtime-role", "hermes", "--json")
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)["built"]
    return found


def test_need_20_stored_rows_are_found_by_words_without_blanks_after_migrate(
    of_version_007: str, cli: Run, admin_dsn: str, make_provider: MakeProvider
) -> None:
    database = Database(of_version_007)
    places, history = database.column("SELECT ctid::text FROM memory_entries"), database.column(HISTORY)
    assert "words of stored rows" in built(cli, of_version_007)
    assert built(cli, of_version_007) == [], "it is done once"
    moved = set(places) - set(database.column("SELECT ctid::text FROM memory_entries"))
    assert len(moved) == 2, "only what is read otherwise is written again"
    assert database.column(HISTORY) == history, "nobody has changed a memory"
    assert database.column(_SHAPE) == Database(admin_dsn).column(_SHAPE)
    provider = make_provider({"dsn": psycopg.conninfo.make_conninfo(of_version_007, user="hermes")})
    assert recalled(provider, "ERR_CONN_77")[0] == MIXED
    assert recalled(provider, "policies")[0] == NAMED
    assert recalled(provider, "harbour")[0] == PLAIN


def by_plain_sql(dsn: str) -> bool:
    """Apply 008 as psql does; whether the server says that something remains to be done."""
    said: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.add_notice_handler(lambda diag: said.append(diag.message_primary or ""))
        admin.execute(migrations()[7].sql.encode())
    return any("hermes-pgvector migrate --admin-dsn" in line for line in said)


def test_need_28_plain_sql_and_doctor_say_what_remains(of_version_007: str, cli: Run, tmp_path: Path) -> None:
    dsn = of_version_007
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)

    def complains() -> bool:
        return "Latin words" in cli("doctor", "--hermes-home", str(home.path)).stdout

    assert [by_plain_sql(dsn), by_plain_sql(dsn)] == [True, True]
    assert complains()
    assert built(cli, dsn) == ["words of stored rows"]
    assert not by_plain_sql(dsn)
    assert not complains()


def test_need_20_rows_that_are_written_meanwhile_get_their_words_as_well(of_version_007: str) -> None:
    """As each row is while the model is changed: what is written anew stands elsewhere in the table."""
    many = "INSERT INTO memory_entries (target, content) SELECT 'memory', %s || i || repeat(' word', 150)"
    with psycopg.connect(of_version_007, autocommit=True) as agent, connect(of_version_007) as admin:
        agent.execute(many.encode() + b" FROM generate_series(1, 2400) AS i", (MIXED,))
        admin.execute(migrations()[7].sql.encode())
        meanwhile = iter((b"UPDATE memory_entries SET embed_after = now()",))

        def tell(what: str, done: int, total: int) -> None:
            if (statement := next(meanwhile, None)) is not None:
                agent.execute(statement)

        words.complete(admin, tell)
    found = "SELECT count(*) FROM memory_entries WHERE tsv @@ 'nginx'::tsquery"
    assert Database(of_version_007).column(found) == [2401]


def test_need_20_a_new_database_has_nothing_to_read_anew(empty_admin_dsn: str, cli: Run) -> None:
    assert built(cli, empty_admin_dsn) == []
    completed = "SELECT completed_at IS NOT NULL FROM hermes_migrations WHERE version = 8"
    assert Database(empty_admin_dsn).column(completed) == [True]
