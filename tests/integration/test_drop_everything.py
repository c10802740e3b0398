"""The one script that removes everything of ours from a database, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.admin.common import new_vectors, row_security
from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.admin.migrate import upgrade_tables
from hermes_memory_pgvector.domain.types import EmbeddingSpace
from hermes_memory_pgvector.server.binaries import find_binaries
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS
from tests.support.predecessor import Predecessor
from tests.support.row_security import let_tenants_in

PACKAGE = Path(migrate.__code__.co_filename).resolve().parents[2]
SCRIPT = PACKAGE / "migrations" / "optional" / "drop_everything.sql"
# Everything a database holds that somebody made in it, extensions' own objects aside.
OBJECTS = """
SELECT kind || ' ' || name FROM (
    SELECT 'relation' AS kind, c.oid::regclass::text AS name, 'pg_class'::regclass AS catalog, c.oid FROM pg_class AS c
     WHERE relnamespace = current_schema()::regnamespace
    UNION ALL SELECT 'function', p.oid::regprocedure::text, 'pg_proc'::regclass, p.oid FROM pg_proc AS p
     WHERE pronamespace = current_schema()::regnamespace
    UNION ALL SELECT 'type', t.oid::regtype::text, 'pg_type'::regclass, t.oid FROM pg_type AS t
     WHERE typnamespace = current_schema()::regnamespace
    UNION ALL SELECT 'policy', polname, 'pg_policy'::regclass, oid FROM pg_policy
    UNION ALL SELECT 'trigger', tgname, 'pg_trigger'::regclass, oid FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT 'event trigger', evtname, 'pg_event_trigger'::regclass, oid FROM pg_event_trigger
    UNION ALL SELECT 'schema', nspname, 'pg_namespace'::regclass, oid FROM pg_namespace WHERE nspname !~ '^pg_'
) AS made
 WHERE NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = catalog AND d.objid = made.oid AND d.deptype = 'e')"""


def objects(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as conn:
        return {str(row[0]) for row in conn.execute(OBJECTS.encode())}


def psql(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script as an admin runs it."""
    program = find_binaries()["psql"]
    # libpq's requirepeer names the account that runs the server.
    plain = {key: value for key, value in conninfo_to_dict(dsn).items() if value is not None}
    command = [str(program), "-X", "-d", make_conninfo("", **plain), "-v", "ON_ERROR_STOP=1"]
    return subprocess.run([*command, *(arguments or ("-f", str(SCRIPT)))], capture_output=True, text=True, check=False)


@pytest.fixture
def full(postgres: EmbeddedServer, empty_admin_dsn: str) -> tuple[str, set[str]]:
    """A database with objects of others and all of ours, a begun reembed included; and those of others."""
    with psycopg.connect(empty_admin_dsn, autocommit=True) as conn:
        conn.execute("CREATE EXTENSION vector")
        conn.execute("CREATE TABLE hermes_of_somebody (agent_identity text, note text)")
        conn.execute("CREATE FUNCTION hermes_mine() RETURNS integer LANGUAGE sql RETURN 1")
        conn.execute("CREATE VIEW fine AS SELECT note FROM hermes_of_somebody")
    others = objects(empty_admin_dsn)
    let_tenants_in(postgres)
    migrate(empty_admin_dsn, dims=DIMS, runtime_role="hermes")
    with connect(empty_admin_dsn) as conn:
        conn.execute("INSERT INTO memory_entries (target, content) VALUES ('memory', 'Atlas is blue')")
        conn.execute("ALTER TABLE hermes_of_somebody OWNER TO hermes")
        row_security.enable(conn)
        row_security.grant(conn, "tenant_marketing", ["marketing"])
    with new_vectors.admin_connection(empty_admin_dsn) as conn:
        new_vectors.begin(conn, EmbeddingSpace("another", 768))
    return empty_admin_dsn, others


def test_nothing_of_ours_is_left_and_nothing_of_others_is_gone(full: tuple[str, set[str]]) -> None:
    dsn, others = full
    before = objects(dsn)
    assert "relation memory_chunks_next" in before and "relation hermes_tenants" in before

    looked = psql(dsn, "-c", "BEGIN", "-f", str(SCRIPT), "-c", "ROLLBACK")
    assert looked.returncode == 0, looked.stderr
    assert "table memory_entries" in looked.stderr and objects(dsn) == before

    done = psql(dsn)
    assert done.returncode == 0, done.stderr
    assert "function hermes_lexemes(text,text)" in done.stderr
    assert not re.search(r"NOTICE:  (table|function) \d", done.stderr), "names, not numbers"
    assert "table hermes_tenants (its rows were never counted)" in done.stderr, "not 0: it has one"
    assert objects(dsn) == others
    again = psql(dsn)
    assert again.returncode == 0 and "0 tables and 0 functions" in again.stderr

    migrate(dsn, dims=768, runtime_role="hermes")
    assert psql(dsn).returncode == 0
    assert objects(dsn) == others


def test_pieces_that_are_missing_are_passed_over(admin_dsn: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("DROP TABLE memory_entries CASCADE")
        conn.execute("DROP TABLE hermes_migrations")
    done = psql(admin_dsn)
    assert done.returncode == 0, done.stderr
    assert not [name for name in objects(admin_dsn) if "hermes" in name or "memory" in name]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("CREATE VIEW mine AS SELECT content FROM memory_entries", "view mine depends on table memory_entries"),
        ("DROP TABLE conversation_chunks, conversations; CREATE TABLE conversations (who text)", "is not ours"),
        ("ALTER TABLE memory_entries ADD CHECK (hermes_digest(content) IS NOT NULL); "
         "CREATE TABLE mine (a text CHECK (hermes_digest(a) <> ''))", "depends on function hermes_digest"),
    ],
)  # fmt: skip
def test_what_others_made_stops_it_and_all_stays(admin_dsn: str, made: str, said: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute(made.encode())
    before = objects(admin_dsn)
    refused = psql(admin_dsn)
    assert refused.returncode == 3 and said in refused.stderr
    assert objects(admin_dsn) == before


def test_tables_of_the_other_program_are_not_ours_to_drop(empty_admin_dsn: str) -> None:
    before = Predecessor(empty_admin_dsn, "1.0.0")
    before.memory("marketing", "Atlas is blue")
    refused = psql(empty_admin_dsn)
    assert refused.returncode == 3 and "is not ours" in refused.stderr
    with connect(empty_admin_dsn) as conn:
        upgrade_tables.begin(conn, dims=DIMS, keeps_vectors=False)
    refused = psql(empty_admin_dsn)
    assert refused.returncode == 3 and "hermes-pgvector migrate --undo-upgrade" in refused.stderr
    before.execute("SELECT 1 FROM hermes_before_upgrade.memory_entries")
    before.close()


def test_the_runtime_role_cannot_do_it(dsn: str, admin_dsn: str) -> None:
    before = objects(admin_dsn)
    refused = psql(dsn)
    assert refused.returncode == 3 and "must be owner" in refused.stderr
    assert objects(admin_dsn) == before


def test_every_table_and_function_that_we_make_is_in_the_script() -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    folders = [PACKAGE / "migrations", PACKAGE / "store", PACKAGE / "admin" / "common", PACKAGE / "admin" / "migrate"]
    sources = [path for folder in folders for kind in ("py", "sql") for path in folder.glob(f"**/*.{kind}")]
    made = re.compile(r"CREATE (?:OR REPLACE )?(?:TABLE|FUNCTION|VIEW) (?:IF NOT EXISTS )?([a-z_]+)")
    names = {name for path in sources for name in made.findall(path.read_text(encoding="utf-8"))}
    assert {"memory_entries", "hermes_reembed", "hermes_keep_next", "hermes_themes_of"} <= names
    assert not [name for name in sorted(names) if not re.search(rf"\b{name}\b", script)]
