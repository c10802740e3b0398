"""Keys that hold the theme, and rows that are written anew where they change it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from importlib.resources import as_file, files
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from hermes_memory_pgvector.admin.common import migrations, new_vectors, retrying
from hermes_memory_pgvector.domain.errors import ConfigurationError
from hermes_memory_pgvector.domain.types import EmbeddingSpace
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS
from tests.support.row_security import session, tenant_of
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run
from .test_themes_command import configure

Start = Callable[..., "subprocess.Popen[str]"]
KEYED = ("conversations", "memory_entries", "memory_history")
KEYS = """
SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
 WHERE contype = 'p' AND conrelid = ANY ('{conversations,memory_entries,memory_history}'::regclass[]) ORDER BY 1"""
NEW_KEYS = [f"{table} {table}_pkey PRIMARY KEY (id, agent_identity)" for table in KEYED]
SHAPE = """
SELECT concat_ws(' ', table_name, column_name, udt_name, is_nullable, column_default, generation_expression)
  FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
           WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname ^@ 'hermes'
UNION ALL SELECT concat_ws(' ', relname, relkind, relacl) FROM pg_class WHERE relnamespace = 'public'::regnamespace
ORDER BY 1"""
FILL = f"""
INSERT INTO memory_entries (agent_identity, target, content, embedding)
SELECT 'sales', 'memory', 'Fact ' || n, array_fill(n::float4, ARRAY[{DIMS}])::vector
  FROM generate_series(1, 3) AS n;
INSERT INTO memory_entries (agent_identity, target, content, created_at, updated_at, metadata)
VALUES ('sales', 'user', 'Waits for a vector', '2020-01-01', '2021-01-01', '{{"source": "memory_tool"}}');
INSERT INTO conversations (agent_identity, session_id, role, content, embedding)
SELECT 'sales', 's-1', 'user', 'Turn ' || n, array_fill(n::float4, ARRAY[{DIMS}])::vector
  FROM generate_series(1, 3) AS n;
SET hermes_pgvector.keep_sig = 'on';
UPDATE conversations SET embedding = NULL WHERE content = 'Turn 2';
RESET hermes_pgvector.keep_sig;
INSERT INTO memory_chunks SELECT id, 1, agent_identity, 5, embedding, sig
  FROM memory_entries WHERE content = 'Fact 1';
INSERT INTO conversation_chunks SELECT id, 1, agent_identity, 5, embedding, sig
  FROM conversations WHERE content = 'Turn 1';
UPDATE memory_entries SET content = 'Fact one' WHERE content = 'Fact 1';
UPDATE memory_entries SET embedding = array_fill(1::float4, ARRAY[{DIMS}])::vector WHERE content = 'Fact one';
INSERT INTO memory_chunks SELECT id, 1, agent_identity, 5, embedding, sig
  FROM memory_entries WHERE content = 'Fact one';
"""
# All that a row holds but its theme, and what is computed from that.
CONTENTS = """
SELECT to_jsonb(m) - '{agent_identity,tsv}'::text[] FROM memory_entries AS m
UNION ALL SELECT to_jsonb(c) - '{agent_identity,tsv}'::text[] FROM conversations AS c
UNION ALL SELECT to_jsonb(k) - 'agent_identity' FROM memory_chunks AS k
UNION ALL SELECT to_jsonb(k) - 'agent_identity' FROM conversation_chunks AS k
ORDER BY 1"""
HISTORY = "SELECT to_jsonb(h) - 'agent_identity' FROM memory_history AS h WHERE action <> 'moved' ORDER BY id"
MOVED = (
    "SELECT concat_ws(' ', memory_id, agent_identity, old_theme) FROM memory_history WHERE action = 'moved' ORDER BY 1"
)
THEMES = " UNION ".join(
    f"SELECT agent_identity FROM {table}" for table in (*KEYED, "memory_chunks", "conversation_chunks")
)


@pytest.fixture
def earlier(empty_admin_dsn: str, program: Run) -> str:
    """An admin's conninfo of a filled database that has no later migration than 003."""
    with as_file(files("hermes_memory_pgvector").joinpath("migrations")) as folder:
        options = f"-c hermes_pgvector.dims={DIMS} -c hermes_pgvector.runtime_role=hermes"
        for path in sorted(folder.glob("00[1-3]_*.sql")):
            done = program(
                "psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", empty_admin_dsn, "-f", str(path), options=options
            )
            assert done.returncode == 0, done.stderr
    execute(empty_admin_dsn, FILL)
    return empty_admin_dsn


def execute(dsn: str, statements: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(statements.encode())


def without_code(dsn: str) -> list[dict[str, Any]]:
    """Return the rows without their codes, and without what is empty, as columns are that came later."""
    rows: list[dict[str, Any]] = Database(dsn).column(CONTENTS)
    return [{name: value for name, value in row.items() if name != "code" and value is not None} for row in rows]


def test_an_earlier_database_gets_the_schema_of_a_new_one_and_keeps_its_rows(
    earlier: str, admin_dsn: str, cli: Run
) -> None:
    rows, history = without_code(earlier), Database(earlier).column(HISTORY)
    assert Database(earlier).column(KEYS) != NEW_KEYS
    done = cli("migrate", "--admin-dsn", earlier, "--dims", str(DIMS), "--runtime-role", "hermes")
    assert done.returncode == 0 and "applied 005_keys" in done.stdout, done.stderr
    assert Database(earlier).column(KEYS) == NEW_KEYS
    assert Database(earlier).column(SHAPE) == Database(admin_dsn).column(SHAPE)
    assert (without_code(earlier), Database(earlier).column(HISTORY)) == (rows, history)


@pytest.mark.parametrize(
    ("table", "chunks"), [("memory_entries", "memory_chunks"), ("conversations", "conversation_chunks")]
)
@pytest.mark.parametrize("change", ["content = 'Edited'", "agent_identity = 'finance'", "embedding = NULL"])
def test_need_44_a_changed_row_leaves_that_of_another_theme_with_its_number(
    admin_dsn: str, table: str, chunks: str, change: str
) -> None:
    """As servers that number their own rows may come to have it: a trigger has to name the theme of its row."""
    columns, values = ("target", "'memory'") if table == "memory_entries" else ("session_id, role", "'s-1', 'user'")
    vector = f"array_fill(1::float4, ARRAY[{DIMS}])::vector"
    for theme in ("marketing", "sales"):
        execute(
            admin_dsn,
            f"INSERT INTO {table} (id, agent_identity, {columns}, content, embedding) OVERRIDING SYSTEM VALUE"
            f" VALUES (1, '{theme}', {values}, 'Told', {vector});"
            f"INSERT INTO {chunks} (row_id, part, agent_identity, first_char, embedding)"
            f" VALUES (1, 1, '{theme}', 5, {vector})",
        )
    execute(
        admin_dsn,
        f"SET hermes_pgvector.keep_sig = on; UPDATE {table} SET embedding = NULL WHERE agent_identity = 'sales'",
    )
    of_sales = (
        f"SELECT to_jsonb(t) FROM {table} AS t WHERE agent_identity = 'sales'"
        f" UNION ALL SELECT to_jsonb(k) FROM {chunks} AS k WHERE agent_identity = 'sales'"
    )
    before = Database(admin_dsn).column(of_sales)
    execute(admin_dsn, f"UPDATE {table} SET {change} WHERE agent_identity = 'marketing'")
    assert len(before) == 2 and Database(admin_dsn).column(of_sales) == before


def test_the_keys_are_built_anew_where_a_build_was_stopped(earlier: str, cli: Run) -> None:
    execute(
        earlier,
        "CREATE UNIQUE INDEX conversations_theme_key ON conversations (id, agent_identity);"
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'conversations_theme_key'::regclass",
    )
    done = cli("migrate", "--admin-dsn", earlier, "--dims", str(DIMS))
    assert done.returncode == 0, done.stderr
    assert Database(earlier).column(KEYS) == NEW_KEYS
    assert Database(earlier).column("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == [0]


def test_agents_write_on_while_the_new_keys_wait_for_a_long_transaction(earlier: str, start_cli: Start) -> None:
    """Nobody queues behind the migration for as long as that transaction takes."""
    tried = "SELECT count(*) FROM pg_stat_database WHERE datname = current_database() AND xact_rollback > %s"
    before = Database(earlier).column("SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()")
    with psycopg.connect(earlier) as long, psycopg.connect(earlier, autocommit=True) as agent:
        long.execute("SELECT FROM memory_entries")
        process = start_cli("migrate", "--admin-dsn", earlier, "--dims", str(DIMS))
        agent.execute("SET lock_timeout = '5s'")
        written = 0

        def write() -> bool:
            nonlocal written
            agent.execute(
                "INSERT INTO memory_entries (target, content) VALUES ('memory', 'Meanwhile ' || %s)", (written,)
            )
            written += 1
            # Twice at least, the migration gave way.
            return Database(earlier).column(tried, before[0] + 1) == [1]

        until(write, 60, "a migration that tries again")
        assert process.poll() is None
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, out + err
    assert Database(earlier).column(KEYS) == NEW_KEYS
    assert Database(earlier).column("SELECT count(*) FROM memory_entries WHERE content ^@ 'Mean'") == [written]


def test_a_migration_that_never_gets_its_tables_says_what_to_do(earlier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_TRIES", 2)
    with psycopg.connect(earlier) as long:
        long.execute("SELECT FROM memory_entries")
        with pytest.raises(ConfigurationError, match=r"004 was not applied: .*pg_stat_activity"):
            migrations.migrate(earlier, dims=DIMS)
    assert Database(earlier).column("SELECT max(version) FROM hermes_migrations") == [3]
    migrations.migrate(earlier, dims=DIMS)
    assert Database(earlier).column(KEYS) == NEW_KEYS


@pytest.mark.parametrize("verb", ["rename", "merge"])
def test_need_16_a_theme_that_moves_keeps_all_that_its_rows_hold(
    cli: Run, home: Any, admin_dsn: str, dsn: str, verb: str
) -> None:
    execute(admin_dsn, FILL)
    configure(home, dsn)
    database = Database(admin_dsn)
    rows, history = database.column(CONTENTS), database.column(HISTORY)
    ids = database.column("SELECT id FROM memory_entries ORDER BY id")
    if verb == "merge":  # a theme to move into
        execute(
            admin_dsn,
            "INSERT INTO conversations (agent_identity, session_id, role, content) VALUES ('emea', 's', 'user', 'x')",
        )
    assert cli("themes", verb, "sales", "emea", "--yes").returncode == 0
    execute(admin_dsn, "DELETE FROM conversations WHERE content = 'x'")
    assert database.column(THEMES) == ["emea"]
    assert (database.column(CONTENTS), database.column(HISTORY)) == (rows, history)
    assert database.column(MOVED) == sorted(f"{number} emea sales" for number in ids), "each of them once"
    assert database.column("SELECT count(*) FROM hermes_tombstones") == [0]


def test_need_16_a_theme_that_moves_takes_the_vectors_of_the_next_model_along(
    cli: Run, home: Any, admin_dsn: str, dsn: str
) -> None:
    execute(admin_dsn, FILL)
    with connect(admin_dsn) as conn:
        new_vectors.begin(conn, EmbeddingSpace("next", 4))
    execute(
        admin_dsn,
        "UPDATE conversations SET embedding_next = '[1,2,3,4]', sig_next = B'1111';"
        "INSERT INTO conversation_chunks_next SELECT id, 1, agent_identity, 5, '[1,2,3,4]', B'1111' FROM conversations",
    )
    configure(home, dsn)
    assert cli("themes", "rename", "sales", "emea", "--yes").returncode == 0
    database = Database(admin_dsn)
    assert database.column("SELECT count(embedding_next) FROM conversations WHERE agent_identity = 'emea'") == [3]
    assert database.column("SELECT agent_identity FROM conversation_chunks_next") == ["emea"] * 3


def test_need_04_only_who_may_change_both_themes_can_move_a_history(postgres: EmbeddedServer, admin_dsn: str) -> None:
    tenant_of(postgres, admin_dsn, "marketing", "ads")
    execute(admin_dsn, FILL)
    with session(admin_dsn, "tenant_marketing") as tenant:
        for source, destination, caller in (
            ("sales", "marketing", "tenant_marketing"),
            ("marketing", "sales", "tenant_marketing"),
            ("sales", "marketing", "hermes"),
            ("sales", "marketing", "postgres"),
        ):
            with pytest.raises(pg.InsufficientPrivilege):
                tenant.execute("SELECT hermes_move_history(%s, %s, %s)", (source, destination, caller))
        assert tenant.execute("SELECT hermes_move_history('marketing', 'ads', current_user)").fetchone() == (0,)
    with session(admin_dsn, "tenant_nobody") as stranger, pytest.raises(pg.InsufficientPrivilege):
        stranger.execute("SELECT hermes_move_history('sales', 'ads', current_user)")
