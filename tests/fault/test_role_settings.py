"""The agents' role is set to something else (ALTER ROLE ... SET): memory goes on as if it were not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, recalled, runtime_of
from tests.support.pooler import pgbouncer
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.traffic import Log
from tests.support.turns import ANSWER, question, turn
from tests.support.waiting import until

IDLE_MS = 1500  # more than this process is held up between two statements

SETTINGS: dict[str, dict[str, str]] = {
    "formats": {
        "DateStyle": "German",
        "IntervalStyle": "iso_8601",
        "TimeZone": "<+0530>-05:30",
        "bytea_output": "escape",
        "standard_conforming_strings": "off",
        "backslash_quote": "off",
        "extra_float_digits": "-15",
        "array_nulls": "off",
    },
    "ascii": {"client_encoding": "SQL_ASCII"},
    "latin": {"client_encoding": "LATIN1"},
    "transactions": {
        "default_transaction_isolation": "serializable",
        "default_transaction_deferrable": "on",
        "row_security": "off",
        "lock_timeout": "1",
        "idle_in_transaction_session_timeout": "400",
        "idle_session_timeout": str(IDLE_MS),
        "synchronous_commit": "off",
    },
    "bounds": {"transaction_timeout": "250"},
    "plans": {
        "enable_seqscan": "off",
        "enable_indexscan": "off",
        "enable_indexonlyscan": "off",
        "enable_bitmapscan": "off",
        "enable_nestloop": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "enable_hashagg": "off",
        "enable_material": "off",
        "gin_fuzzy_search_limit": "1",
        "plan_cache_mode": "force_generic_plan",
        "work_mem": "64kB",
        "jit": "on",
        "jit_above_cost": "0",
        "join_collapse_limit": "1",
    },
    "path": {"search_path": '"$user"'},
}

Led = Callable[[str], str]


@pytest.fixture(scope="module")
def pooled(postgres: EmbeddedServer) -> Iterator[Led]:
    with pgbouncer(postgres.ensure().admin) as running:
        yield running.conninfo


@pytest.fixture(params=["directly", "through PgBouncer"])
def led(request: pytest.FixtureRequest, pooled: Led) -> Led:
    return str if request.param == "directly" else pooled


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def set_role(admin_dsn: str, **settings: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(
                sql.SQL("ALTER ROLE hermes IN DATABASE {} SET {} = {}").format(
                    sql.Identifier(str(conninfo_to_dict(admin_dsn)["dbname"])),
                    sql.Identifier(name),
                    sql.Identifier(value.strip('"')) if name == "search_path" else sql.Literal(value),
                )
            )


def use_and_check(
    make_provider: MakeProvider,
    dsn: str,
    admin_dsn: str,
    endpoint: ScriptedEmbedder,
    log: Log,
    admin_path: str = "",
    idle_ms: int = 0,
) -> None:
    provider = make_provider({"dsn": dsn, "embed_url": endpoint.url})
    for number in range(8):
        provider.sync_turn(f"{turn(number)} 🏗 日本", ANSWER, session_id="earlier")
        provider.on_memory_write("add", "memory", f"Crane {number} is blue 🟦 and stands at C:\\quay.")
        landed(provider)
    provider.on_memory_write("replace", "memory", "Crane 3 is red.", {"old_text": "Crane 3 is blue"})
    landed(provider)
    idle_since = time.monotonic()
    until(lambda: time.monotonic() >= idle_since + 2 * idle_ms / 1000, what="connections that were idle for too long")
    for attempt in range(3):
        provider.on_session_switch(f"another-{attempt}")  # a session is shown a thing once
        assert turn(5) in provider.prefetch(question(5))
        assert f"{turn(5)} 🏗 日本" in recalled(provider, turn(5), tool="recall_conversation")
        assert "Crane 3 is red." in recalled(provider, "Which colour has crane 3?")
        assert "Crane 3 is red." in recalled(provider, "crane 3", since="2020-01-01", target="memory")
    assert runtime_of(provider).writer.rejected_count() == 0
    admin = Database(make_conninfo(admin_dsn, options=admin_path) if admin_path else admin_dsn)
    assert admin.column("SELECT count(*) FROM conversations WHERE sig IS NULL") == [0]
    assert admin.column("SELECT count(*) FROM memory_entries") == [8]
    assert log.warnings() == []


@pytest.mark.parametrize("which", SETTINGS)
def test_need_03_whatever_the_role_is_set_to_memory_works(
    which: str,
    led: Led,
    direct_dsn: str,
    admin_dsn: str,
    endpoint: ScriptedEmbedder,
    make_provider: MakeProvider,
    log: Log,
) -> None:
    settings = SETTINGS[which]
    with psycopg.connect(admin_dsn) as connection:
        if "transaction_timeout" in settings and connection.info.server_version < 170000:
            settings = {"statement_timeout": "250"}
    set_role(admin_dsn, **settings)
    idle_ms = int(settings.get("idle_session_timeout", "0"))
    use_and_check(make_provider, led(direct_dsn), admin_dsn, endpoint, log, idle_ms=idle_ms)


def test_need_03_a_limit_of_a_millisecond_on_statements_is_for_others(
    direct_dsn: str, admin_dsn: str, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    set_role(admin_dsn, statement_timeout="1")
    use_and_check(make_provider, direct_dsn, admin_dsn, endpoint, log)


def test_need_10_a_server_looks_after_minutes_whether_the_machine_of_a_session_is_still_there(dsn: str) -> None:
    """That is asked of a connection over a network; one on this machine shows only who has set it."""
    with closing(connect(dsn, timeout_s=10.0, prepares=True)) as connection:
        found = connection.execute("SELECT source FROM pg_settings WHERE name LIKE 'tcp\\_keepalives\\_i%'").fetchall()
    assert [row.source for row in found] == ["session", "session"]


def test_need_03_tables_in_a_schema_that_is_not_on_the_roles_path(
    led: Led, empty_admin_dsn: str, endpoint: ScriptedEmbedder, make_provider: MakeProvider, log: Log
) -> None:
    path = "-c search_path=memory,vectors"
    with psycopg.connect(empty_admin_dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA memory; CREATE SCHEMA vectors; CREATE EXTENSION vector SCHEMA vectors")
        connection.execute("GRANT USAGE ON SCHEMA vectors TO hermes")
    migrate(make_conninfo(empty_admin_dsn, options=path), dims=DIMS, runtime_role="hermes")
    use_and_check(
        make_provider, led(make_conninfo(empty_admin_dsn, user="hermes")), empty_admin_dsn, endpoint, log, path
    )


def test_need_04_tables_of_somebody_else_are_not_taken_for_ours(
    empty_admin_dsn: str, make_provider: MakeProvider
) -> None:
    with psycopg.connect(empty_admin_dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA theirs")
        connection.execute("CREATE TABLE theirs.hermes_migrations (version integer)")
        connection.execute("ALTER TABLE theirs.hermes_migrations OWNER TO pg_monitor")
        connection.execute("GRANT USAGE ON SCHEMA theirs TO hermes")
    provider = make_provider({"dsn": make_conninfo(empty_admin_dsn, user="hermes")})
    backend = runtime_of(provider).backend
    until(lambda: backend.problem is not None, 30, "the verdict")
    assert "is not applied" in str(backend.problem)


def test_need_02_doctor_names_a_setting_that_only_an_admin_can_change(
    direct_dsn: str, admin_dsn: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_role(admin_dsn, session_replication_role="replica")
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": direct_dsn, "dims": DIMS}}}))
    assert main(["doctor", "--json", "--hermes-home", str(home)]) == 1
    (check,) = [each for each in json.loads(capsys.readouterr().out)["checks"] if each["name"] == "triggers"]
    assert "session_replication_role" in check["said"] and "RESET session_replication_role" in check["fix"]
