"""Files of migrations that are run again, alone or beside agents, and those that find the tables in use."""

from __future__ import annotations

from threading import Thread

import psycopg
import pytest

from hermes_memory_pgvector.admin.common.migrations import Migration, migrations
from hermes_memory_pgvector.domain.errors import SchemaNotApplied
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.schema import ensure_schema
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed
from tests.support.stored import Database
from tests.support.waiting import until

_FUNCTIONS = """
SELECT concat_ws(' ', oid::regprocedure, prosrc, pg_get_function_sqlbody(oid), proconfig, proacl) FROM pg_proc
 WHERE pronamespace = 'public'::regnamespace AND proname ^@ 'hermes_'
UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname ^@ 'hermes_'
ORDER BY 1"""


@pytest.mark.parametrize("migration", migrations(), ids=lambda each: each.name)
def test_need_28_a_single_file_run_again_leaves_what_later_ones_made_of_it(
    migration: Migration, admin_dsn: str
) -> None:
    """As for the rights of one more role: functions and triggers of a later form stay."""
    made = Database(admin_dsn).column(_FUNCTIONS)
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(migration.sql.encode())
    assert Database(admin_dsn).column(_FUNCTIONS) == made


def test_need_20_what_is_written_after_001_was_run_again_is_found_by_all_its_words(
    admin_dsn: str, make_provider: MakeProvider
) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(migrations()[0].sql.encode())
    provider = make_provider()
    provider.on_memory_write("add", "memory", "系统报错ERR_CONN_77错误")
    landed(provider)
    found = "SELECT content FROM memory_entries WHERE tsv @@ 'err_conn_77'::tsquery"
    assert Database(admin_dsn).column(found) == ["系统报错ERR_CONN_77错误"]


def is_let_in(dsn: str, migration: Migration) -> bool:
    """Apply one file by itself; False where it ended because the tables were in use."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"SET hermes_pgvector.dims = {DIMS}; SET statement_timeout = '60s'".encode())
        try:
            admin.execute(migration.sql.encode())
        except psycopg.errors.LockNotAvailable:
            return False
    return True


def test_need_03_no_file_waits_long_for_tables_that_are_in_use(empty_admin_dsn: str) -> None:
    """Neither the first time nor again: whoever comes later would wait behind it, agents above all."""
    begun = 0
    for _ in range(2):
        for migration in migrations():
            with psycopg.connect(empty_admin_dsn) as long:
                if begun:
                    long.execute("INSERT INTO memory_entries (target, content) VALUES ('memory', clock_timestamp())")
                    long.execute("SELECT FROM conversations, memory_chunks, hermes_mirror, memory_history")
                held_up = not is_let_in(empty_admin_dsn, migration)
                assert begun or not held_up
                begun += 1
            assert is_let_in(empty_admin_dsn, migration)
    assert Database(empty_admin_dsn).column("SELECT count(*) FROM hermes_migrations") == [len(migrations())]


def test_need_03_memories_are_read_and_written_while_002_names_their_owners(empty_admin_dsn: str) -> None:
    """As long as that takes: here, until another transaction lets go of a table that it reads for that."""
    first, second, *_ = migrations()
    is_let_in(empty_admin_dsn, first)
    database = Database(empty_admin_dsn)
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'hermes_mirror'::regclass"
    with psycopg.connect(empty_admin_dsn, autocommit=True) as agent, psycopg.connect(empty_admin_dsn) as other:
        agent.execute("INSERT INTO memory_entries (target, content) VALUES ('memory', 'Atlas'), ('memory', 'Bolt')")
        other.execute("LOCK TABLE hermes_mirror")
        migrating = Thread(target=is_let_in, args=(empty_admin_dsn, second))
        migrating.start()
        until(lambda: database.column(waiting) == [1], what="the migration at that table")
        agent.execute("SET statement_timeout = '30s'")
        agent.execute("INSERT INTO memory_entries (target, content) VALUES ('memory', 'Cord')")
        assert agent.execute("SELECT count(*) FROM memory_entries").fetchone() == (3,)
        other.commit()
        migrating.join()
    owners = "SELECT owners FROM memory_entries WHERE content IN ('Atlas', 'Bolt')"
    assert database.column(owners) == [["import"], ["import"]]
    assert database.column("SELECT max(version) FROM hermes_migrations") == [2]


def test_need_28_where_a_main_table_was_dropped_agents_wait_for_the_last_file(admin_dsn: str) -> None:
    made = Database(admin_dsn).column(_FUNCTIONS)
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("DROP TABLE conversations")
    with connect(admin_dsn) as agent:
        for migration in migrations():
            with pytest.raises(SchemaNotApplied):
                ensure_schema(agent, dims=DIMS)
            assert is_let_in(admin_dsn, migration)
        ensure_schema(agent, dims=DIMS)
    assert Database(admin_dsn).column(_FUNCTIONS) == made


def test_need_13_what_psql_goes_on_to_after_an_error_is_not_recorded(empty_admin_dsn: str) -> None:
    first, second = migrations()[:2]
    with psycopg.connect(empty_admin_dsn, autocommit=True) as admin:
        admin.execute(f"SET hermes_pgvector.dims = {DIMS}".encode())
        admin.execute(first.sql.encode())
        *_, last, nothing = second.sql.split("COMMIT;")
        assert not nothing.strip()
        with pytest.raises(psycopg.errors.RaiseException, match=r"002_durable\.sql did not get through; run it again"):
            admin.execute(f"{last}COMMIT;".encode())
        admin.execute("ROLLBACK")
        assert admin.execute("SELECT max(version) FROM hermes_migrations").fetchone() == (1,)
        admin.execute(second.sql.encode())
        assert admin.execute("SELECT max(version) FROM hermes_migrations").fetchone() == (2,)
