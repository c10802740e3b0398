"""Migrations: by the command and by plain psql, by many at once, and what the agent does without them."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common.migrations import MIGRATION_LOCK, checksum, migrate, migrations
from hermes_memory_pgvector.admin.doctor.check import DoctorContext
from hermes_memory_pgvector.admin.doctor.check_database import check_database
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import DimensionMismatch, SchemaNotApplied, StoreUnavailable
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.schema import ensure_schema
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed, recalled, runtime_of
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run

Start = Callable[..., "subprocess.Popen[str]"]
REPOSITORY = Path(__file__).resolve().parents[2]
LABELS = [migration.name for migration in migrations()]
_RECORDED = "SELECT version || ' ' || name || ' ' || checksum FROM hermes_migrations ORDER BY version"
_SHAPE = """
SELECT concat_ws(' ', table_name, column_name, udt_name, is_nullable, column_default, generation_expression)
  FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT concat_ws(' ', table_name, grantee, string_agg(privilege_type, ',' ORDER BY privilege_type))
  FROM information_schema.role_table_grants WHERE table_schema = 'public' GROUP BY table_name, grantee
ORDER BY 1
"""


@pytest.fixture
def psql_files(program: Run) -> Callable[..., None]:
    """Runs every migration with plain `psql -f`, as an admin without our package would."""

    def run(dsn: str, options: str) -> None:
        with as_file(files("hermes_memory_pgvector").joinpath("migrations")) as folder:
            for path in sorted(folder.glob("[0-9]*.sql")):
                done = program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", str(path), options=options)
                assert done.returncode == 0, done.stderr

    return run


def test_need_28_ten_simultaneous_migrations_apply_once(start_cli: Start, empty_admin_dsn: str) -> None:
    command = ("migrate", "--admin-dsn", empty_admin_dsn, "--dims", str(DIMS), "--runtime-role", "hermes", "--json")
    reports = []
    processes = [start_cli(*command) for _ in range(10)]
    for process in processes:
        with process:
            stdout, stderr = process.communicate(timeout=200)
        assert process.returncode == 0, stderr
        reports.append(json.loads(stdout))
    assert sorted(len(report["applied"]) for report in reports) == [0] * 9 + [len(LABELS)]
    assert all(sorted(report["applied"] + report["already"]) == LABELS for report in reports)
    assert len(Database(empty_admin_dsn).column(_RECORDED)) == len(LABELS)
    with connect(make_conninfo(empty_admin_dsn, user="hermes")) as conn:
        ensure_schema(conn, dims=DIMS)


def test_a_database_that_is_missing_is_told_by_the_option_that_named_it(cli: Run, empty_admin_dsn: str) -> None:
    done = cli("migrate", "--admin-dsn", make_conninfo(empty_admin_dsn, dbname="nosuchbase"))
    assert done.returncode == 1
    assert "create it, or correct `--admin-dsn`" in done.stderr


def test_trap_13_three_plain_psql_migrations_at_once_all_succeed(empty_admin_dsn: str, program: Run) -> None:
    """Two of three failed elsewhere: each saw that the tables were missing, and then they were not."""
    with as_file(files("hermes_memory_pgvector").joinpath("migrations")) as folder, ThreadPoolExecutor(3) as pool:
        arguments = [part for path in sorted(folder.glob("[0-9]*.sql")) for part in ("-f", str(path))]
        runs = [
            pool.submit(program, "psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", empty_admin_dsn, *arguments)
            for _ in range(3)
        ]
        results = [run.result(150) for run in runs]
    assert [done.returncode for done in results] == [0, 0, 0], results


def test_need_28_plain_psql_and_the_command_make_the_same_schema(
    empty_admin_dsn: str, cli: Run, psql_files: Callable[..., None]
) -> None:
    database = Database(empty_admin_dsn)
    psql_files(empty_admin_dsn, f"-c hermes_pgvector.dims={DIMS} -c hermes_pgvector.runtime_role=hermes")
    by_psql = database.column(_RECORDED), database.column(_SHAPE)
    with psycopg.connect(empty_admin_dsn) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--dims", str(DIMS), "--runtime-role", "hermes")
    assert done.returncode == 0, done.stderr
    assert (database.column(_RECORDED), database.column(_SHAPE)) == by_psql


def test_need_28_repeating_a_migration_changes_nothing(
    make_provider: MakeProvider, cli: Run, admin_dsn: str, psql_files: Callable[..., None]
) -> None:
    provider, database = make_provider(), Database(admin_dsn)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    recorded = "SELECT to_jsonb(m) FROM hermes_migrations AS m"
    before = database.column(_SHAPE), database.column(recorded)
    psql_files(admin_dsn, f"-c hermes_pgvector.dims={DIMS}")
    done = cli("migrate", "--admin-dsn", admin_dsn, "--dims", str(DIMS), "--runtime-role", "hermes", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["applied"], report["already"]) == ([], LABELS)
    assert (database.column(_SHAPE), database.column(recorded)) == before
    assert recalled(provider, "atlas") == ["Atlas is blue"]


@pytest.mark.parametrize("dims", [8, 1536])
def test_need_28_the_dimension_is_chosen_at_migration(empty_admin_dsn: str, cli: Run, dims: int) -> None:
    done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--dims", str(dims))
    assert done.returncode == 0, done.stderr
    with connect(empty_admin_dsn) as conn:
        ensure_schema(conn, dims=dims)
        with pytest.raises(DimensionMismatch, match=f"set plugins.pgvector.dims to {dims}"):
            ensure_schema(conn, dims=dims + 1)
    again = cli("migrate", "--admin-dsn", empty_admin_dsn, "--dims", str(dims + 1))
    assert again.returncode == 1 and f"vectors of {dims} dimensions" in again.stderr


def test_need_02_a_database_of_another_encoding_is_named_with_the_command_that_makes_one(
    empty_admin_dsn: str, cli: Run, tmp_path: Path
) -> None:
    name = "of_another_encoding"
    with psycopg.connect(empty_admin_dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0")
        try:
            dsn = make_conninfo(empty_admin_dsn, dbname=name)
            done = cli("migrate", "--admin-dsn", dsn)
            checks = list(check_database(DoctorContext(Settings(dsn=dsn), tmp_path)))
        finally:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert done.returncode == 1
    assert "this one has LATIN1" in done.stderr and "CREATE DATABASE hermes_memory ENCODING 'UTF8'" in done.stderr
    (failed,) = [check for check in checks if check.state == "fail"]
    assert "LATIN1" in failed.said and "CREATE DATABASE hermes_memory ENCODING 'UTF8'" in failed.fix


def test_need_28_without_a_setting_vectors_have_768_dimensions(
    empty_admin_dsn: str, psql_files: Callable[..., None]
) -> None:
    psql_files(empty_admin_dsn, "")
    with connect(empty_admin_dsn) as conn:
        ensure_schema(conn, dims=768)


def test_need_28_the_runtime_only_verifies_and_names_the_command(
    make_provider: MakeProvider, empty_admin_dsn: str, cli: Run
) -> None:
    with connect(empty_admin_dsn) as conn, pytest.raises(SchemaNotApplied) as caught:
        ensure_schema(conn, dims=DIMS)
    assert "hermes-pgvector migrate --admin-dsn" in str(caught.value)
    assert LABELS[0] in str(caught.value)
    config = {"dsn": empty_admin_dsn, "dims": DIMS}
    assert PgvectorMemoryProvider(config).is_available()
    provider = make_provider(config)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    assert "hermes-pgvector migrate" in called(provider, "recall_memory", {"query": "atlas"})["error"]
    assert Database(empty_admin_dsn).column("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [0]
    done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--dims", str(DIMS))
    assert done.returncode == 0, done.stderr
    assert runtime_of(provider).writer.flush(60), "what was written meanwhile follows by itself"
    assert recalled(provider, "atlas") == ["Atlas is blue"]


def test_need_28_an_invalid_index_is_reported(cli: Run, home: Path, admin_dsn: str) -> None:
    Database(admin_dsn).column(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'conversations_embedding_idx'::regclass RETURNING 1"
    )
    (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dsn: '{admin_dsn}', dims: {DIMS}}}}}\n")
    done = cli("doctor", "--json")
    assert done.returncode == 1
    (check,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "index"]
    assert check["state"] == "fail" and "conversations_embedding_idx is invalid" in check["said"]
    assert check["fix"] == "REINDEX INDEX CONCURRENTLY conversations_embedding_idx"
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("REINDEX INDEX CONCURRENTLY conversations_embedding_idx")
    assert "index" not in [check["name"] for check in json.loads(cli("doctor", "--json").stdout)["checks"]]


def test_need_28_the_leftover_of_an_interrupted_rebuild_is_to_be_dropped(cli: Run, home: Path, admin_dsn: str) -> None:
    """As of one for which the disk had no room: rebuilt, it would be a second index that every write pays for."""
    (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dsn: '{admin_dsn}', dims: {DIMS}}}}}\n")
    with psycopg.connect(admin_dsn) as reading, psycopg.connect(admin_dsn, autocommit=True) as admin:
        reading.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reading.execute("SELECT FROM conversations")  # a rebuild has to wait for its end
        admin.execute("SET statement_timeout = '1s'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            admin.execute("REINDEX INDEX CONCURRENTLY conversations_embedding_idx")
    (check,) = [check for check in json.loads(cli("doctor", "--json").stdout)["checks"] if check["name"] == "index"]
    assert check["said"] == "conversations_embedding_idx_ccnew is invalid"
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(check["fix"])
    left = Database(admin_dsn).column("SELECT relname FROM pg_class WHERE relname LIKE 'conversations_embedding%%'")
    assert left == ["conversations_embedding_idx"]


def test_need_28_every_migration_is_sealed_with_its_own_checksum(admin_dsn: str) -> None:
    for migration in migrations():
        (digits,) = re.findall(r"'([0-9a-f]{64})'", migration.sql)
        blank = migration.sql.replace(digits, "0" * 64)
        assert digits == migration.checksum == checksum(migration.sql) == hashlib.sha256(blank.encode()).hexdigest(), (
            f"{migration.name} is not sealed; run scripts/seal_migrations.py"
        )
        assert f"{migration.version} {migration.name.partition('_')[2]} {digits}" in Database(admin_dsn).column(
            _RECORDED
        )
    script = REPOSITORY / "scripts" / "seal_migrations.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert "scripts/seal_migrations.py" in (REPOSITORY / "CONTRIBUTING.md").read_text()


def test_need_28_dump_and_restore_keep_every_row_findable(
    make_provider: MakeProvider, admin_dsn: str, empty_admin_dsn: str, program: Run, tmp_path: Path
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is blue, code ERR_CONN_42, 东京的天气很好")
    provider.sync_turn("Which colour did we choose for the Atlas project?", "It is blue, as ever since last May.")
    landed(provider)
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("UPDATE memory_entries SET embedding = array_fill(0.5, ARRAY[%s])::vector", (DIMS,))
    kept = """SELECT to_jsonb(m) FROM memory_entries AS m UNION ALL SELECT to_jsonb(c) FROM conversations AS c
        UNION ALL SELECT to_jsonb(o) FROM hermes_operations AS o UNION ALL SELECT to_jsonb(f) FROM hermes_mirror AS f"""
    dump = tmp_path / "dump.sql"
    done = program("pg_dump", "-d", admin_dsn, "-f", str(dump))
    assert done.returncode == 0, done.stderr
    done = program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", empty_admin_dsn, "-f", str(dump))
    assert done.returncode == 0, done.stderr
    assert Database(empty_admin_dsn).column(kept) == Database(admin_dsn).column(kept)
    restored = make_provider({"dsn": make_conninfo(empty_admin_dsn, user="hermes")})
    for words in ("atlas blue", "err_conn_42", "天气"):
        assert len(recalled(restored, words)) == 1, words
    restored.on_memory_write("add", "memory", "Borealis is green")
    landed(restored)
    assert recalled(restored, "borealis") == ["Borealis is green"]


def test_need_28_a_database_of_the_first_version_gets_owners_and_keeps_its_agents_working(
    empty_admin_dsn: str, program: Run, cli: Run, make_provider: MakeProvider
) -> None:
    with as_file(files("hermes_memory_pgvector").joinpath("migrations/001_schema.sql")) as first:
        options = f"-c hermes_pgvector.dims={DIMS} -c hermes_pgvector.runtime_role=hermes"
        done = program("psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", empty_admin_dsn, "-f", str(first), options=options)
    assert done.returncode == 0, done.stderr
    sources = {"Atlas": "memory_tool", "Bolt": "remember", "Cord": "operator", "Dome": "import:mem0", "Elm": "file"}
    with psycopg.connect(make_conninfo(empty_admin_dsn, user="hermes"), autocommit=True) as agent:
        for name, source in sources.items():
            agent.execute(
                "INSERT INTO memory_entries (target, content, metadata) "
                "VALUES ('memory', %s, jsonb_build_object('source', %s::text))",
                (f"{name} is blue", source),
            )
        agent.execute(
            "INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced) "
            "SELECT 'default', 'here', 'memory', digest, true FROM memory_entries WHERE content LIKE 'Atlas%'"
        )
        done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--dims", str(DIMS))
        assert done.returncode == 0 and "applied 002" in done.stdout, done.stderr
        owners = dict(agent.execute("SELECT split_part(content, ' ', 1), owners FROM memory_entries").fetchall())
        assert owners == {"Atlas": [], "Bolt": ["remember"], "Cord": ["add"], "Dome": ["import"], "Elm": ["import"]}
        agent.execute("DELETE FROM memory_entries WHERE content LIKE 'Elm%'")  # as agents of the first version do
    provider = make_provider({"dsn": make_conninfo(empty_admin_dsn, user="hermes")}, gateway_session_key="default")
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas"})
    landed(provider)
    kept = "SELECT old_content FROM memory_history WHERE old_row IS NOT NULL"
    assert Database(empty_admin_dsn).column(kept) == ["Atlas is blue"]


def test_need_28_a_migration_and_an_agent_that_wait_for_each_other_both_finish(
    admin_dsn: str, start_cli: Start
) -> None:
    waiting = "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND relation = 'conversations'::regclass"
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    database = Database(admin_dsn)
    before = database.column(deadlocks)
    with psycopg.connect(admin_dsn) as agent:
        agent.execute("SET deadlock_timeout = '1h'")  # so the migration is the one that Postgres ends
        agent.execute("LOCK TABLE conversations IN ROW EXCLUSIVE MODE")
        process = start_cli("migrate", "--admin-dsn", admin_dsn, "--dims", str(DIMS), "--runtime-role", "hermes")
        until(lambda: database.column(waiting) == [True], what="the migration at the agent's table")
        agent.execute("LOCK TABLE memory_entries IN ROW EXCLUSIVE MODE")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, out + err
    until(lambda: database.column(deadlocks) != before, what="a deadlock in the statistics")


def test_need_44_spreading_the_tables_needs_citus_and_shows_what_it_would_run(cli: Run, admin_dsn: str) -> None:
    """The suite has no Citus: docs/scaling.md says what was tried with one."""
    shown = cli("migrate", "--admin-dsn", admin_dsn, "--distribute", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert (
        "create_distributed_table('conversations', 'agent_identity', colocate_with => 'memory_entries')" in shown.stdout
    )
    assert "CREATE EXTENSION citus" in shown.stdout
    themed = Database(admin_dsn).column(
        "SELECT attrelid::regclass::text FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid "
        "WHERE attname = 'agent_identity' AND c.relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    spread = set(re.findall(r"create_distributed_table\('(\w+)'", shown.stdout))
    copied = set(re.findall(r"create_reference_table\('(\w+)'", shown.stdout))
    assert spread == set(themed)
    every = Database(admin_dsn).column(
        "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    assert spread | copied == set(every) - {"hermes_tenants"}
    # In a shard the role of the agents needs what it has not, and shall not have, in the table: to say when and who.
    assert "GRANT INSERT (id, at, db_role) ON memory_history TO hermes" in shown.stdout
    assert shown.stdout.index("REVOKE INSERT (id, at, db_role) ON memory_history FROM hermes") > shown.stdout.index(
        "SET LOCAL citus.enable_ddl_propagation = off"
    )
    refused = cli("migrate", "--admin-dsn", admin_dsn, "--distribute")
    assert refused.returncode == 1 and "shared_preload_libraries" in refused.stderr


def test_need_44_a_new_role_of_tables_that_are_spread_is_told_how_it_gets_rights(cli: Run, admin_dsn: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        name = sql.Identifier(admin.info.dbname)
        admin.execute(sql.SQL("ALTER DATABASE {} SET hermes_pgvector.spread = on").format(name))
    refused = cli("migrate", "--admin-dsn", admin_dsn, "--runtime-role", "newcomer")
    assert refused.returncode == 1 and 'GRANT hermes TO "newcomer"' in refused.stderr


def test_need_44_every_unique_key_of_a_table_with_themes_holds_the_theme(admin_dsn: str) -> None:
    without = Database(admin_dsn).column(
        "SELECT indexrelid::regclass::text FROM pg_index AS i JOIN pg_attribute AS theme ON attrelid = indrelid "
        "WHERE i.indisunique AND theme.attname = 'agent_identity' AND i.indrelid::regclass::text !~ '^pg_' "
        "AND theme.attnum <> ALL (i.indkey::smallint[])"
    )
    assert without == []


def test_need_03_who_waits_for_a_migration_that_hangs_says_for_whom(
    empty_admin_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a process that was stopped, or of a machine that sleeps."""
    with psycopg.connect(empty_admin_dsn, autocommit=True) as stopped, ThreadPoolExecutor(1) as pool:
        stopped.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        with pytest.raises(StoreUnavailable, match=rf"role postgres on .*\({stopped.info.backend_pid}\).*run it again"):
            migrate(empty_admin_dsn, dims=DIMS, timeout_s=0.5)
        waiting = pool.submit(migrate, empty_admin_dsn, dims=DIMS)
        until(lambda: f"pg_terminate_backend({stopped.info.backend_pid})" in caplog.text, 30, "for whom it waits")
        with connect(empty_admin_dsn) as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", (stopped.info.backend_pid,))
        assert len(waiting.result(timeout=60).applied) == len(LABELS)
