"""What operators of the other hermes-memory-pgvector do to the two main tables by hand: drop them, give them away."""

from __future__ import annotations

from importlib.resources import as_file, files

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common import new_vectors, row_security
from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.admin.common.schema_checks import missing_rights
from hermes_memory_pgvector.domain.errors import StoreMisconfigured
from hermes_memory_pgvector.domain.types import EmbeddingSpace
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.schema import ensure_schema
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed, recalled
from tests.support.row_security import let_tenants_in
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run

FACT = "Atlas ships from the northern harbour"
LONG = " ".join(f"Paragraph {n} of the handbook about the harbour and its pilots." for n in range(400))
DROP = "DROP TABLE IF EXISTS conversations; DROP TABLE IF EXISTS memory_entries;"
ORPHANS = (
    "SELECT count(*) FROM memory_chunks WHERE row_id NOT IN (SELECT id FROM memory_entries) UNION ALL "
    "SELECT count(*) FROM conversation_chunks WHERE row_id NOT IN (SELECT id FROM conversations)"
)


@pytest.fixture(params=["tenant_bot", 'tenant_"odd" Röle; --'])
def role(postgres: EmbeddedServer, request: pytest.FixtureRequest) -> str:
    """A login of any name, which no migration has heard of."""
    name: str = request.param
    let_tenants_in(postgres, name)
    with psycopg.connect(postgres.ensure().admin, autocommit=True) as admin:
        if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is None:
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    return name


def give_away(dsn: str, role: str) -> None:
    """What the other program's instructions say, with a role of any name."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        for statement in (
            "ALTER TABLE memory_entries OWNER TO {}",
            "ALTER SEQUENCE memory_entries_id_seq OWNER TO {}",
            "ALTER TABLE conversations OWNER TO {}",
            "ALTER SEQUENCE conversations_id_seq OWNER TO {}",
        ):
            admin.execute(sql.SQL(statement).format(sql.Identifier(role)))


def test_need_36_the_documented_rollback_works_as_written_and_a_new_start_is_clean(
    make_provider: MakeProvider, admin_dsn: str, dsn: str, program: Run, embedder: ScriptedEmbedder, cli: Run
) -> None:
    provider = make_provider({"embed_url": embedder.url, "chunk_tokens": 100})
    provider.on_memory_write("add", "memory", LONG)
    provider.on_memory_write("add", "memory", FACT)
    provider.on_memory_write("replace", "memory", FACT + ", again", {"old_text": FACT})
    landed(provider)
    database = Database(admin_dsn)
    until(lambda: database.column("SELECT count(*) FROM memory_chunks") != [0], what="the parts of the long memory")
    close_all()

    done = program("psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", admin_dsn, "-c", DROP)

    assert done.returncode == 0, done.stderr
    said = called(make_provider(), "recall_memory", {"query": "harbour"})["error"]
    assert "hermes-pgvector migrate" in said
    again = cli("migrate", "--admin-dsn", admin_dsn, "--dims", str(DIMS), "--runtime-role", "hermes")
    assert again.returncode == 0, again.stderr
    counts = ("memory_entries", "conversations", "memory_chunks", "memory_history", "hermes_mirror")
    assert [database.column(f"SELECT count(*) FROM {table}") for table in counts] == [[0]] * 5
    close_all()
    fresh = make_provider({"embed_url": embedder.url})
    fresh.on_memory_write("add", "memory", FACT)
    landed(fresh)
    assert recalled(fresh, "northern harbour") == [FACT]


def test_need_36_the_rollback_works_with_row_security_and_during_a_change_of_the_model(
    empty_admin_dsn: str, program: Run
) -> None:
    migrate(empty_admin_dsn, dims=DIMS, runtime_role="hermes")
    with connect(empty_admin_dsn) as conn:
        conn.execute("INSERT INTO memory_entries (target, content) VALUES ('memory', 'x')")
        row_security.enable(conn)
    with new_vectors.admin_connection(empty_admin_dsn) as conn:
        new_vectors.begin(conn, EmbeddingSpace("another", 768))
    done = program("psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", empty_admin_dsn, "-c", DROP)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", ["DELETE FROM {}", "TRUNCATE {}"])
def test_parts_go_with_their_row_whoever_deletes_it(
    make_provider: MakeProvider, admin_dsn: str, embedder: ScriptedEmbedder, way: str
) -> None:
    provider = make_provider({"embed_url": embedder.url, "chunk_tokens": 100})
    provider.on_memory_write("add", "memory", LONG)
    provider.sync_turn(LONG, LONG + " And so on.")
    landed(provider)
    database = Database(admin_dsn)
    for table in ("memory_chunks", "conversation_chunks"):
        until(lambda table=table: database.column(f"SELECT count(*) FROM {table}") != [0], what="the parts")
    close_all()
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        # Who may delete rows need know nothing of their parts.
        admin.execute(
            "CREATE ROLE cleaner BYPASSRLS; GRANT SELECT, DELETE, TRUNCATE ON memory_entries, conversations TO cleaner"
        )
        admin.execute("GRANT SELECT, UPDATE, INSERT ON memory_history TO cleaner")
        try:
            for table in ("memory_entries", "conversations"):
                assert database.column(f"SELECT count(*) > 0 FROM {table}") == [True]
                admin.execute("SET ROLE cleaner")
                admin.execute(way.format(table).encode())
                admin.execute("RESET ROLE")
        finally:
            admin.execute("DROP OWNED BY cleaner; DROP ROLE cleaner")
    assert database.column("SELECT count(*) FROM memory_chunks") == [0]
    assert database.column("SELECT count(*) FROM conversation_chunks") == [0]


def test_parts_of_a_change_of_the_model_go_with_their_row(empty_admin_dsn: str) -> None:
    migrate(empty_admin_dsn, dims=DIMS, runtime_role="hermes")
    with connect(empty_admin_dsn) as conn:
        conn.execute("INSERT INTO memory_entries (target, content) VALUES ('memory', 'x'), ('memory', 'y')")
    space = EmbeddingSpace("another", 8)
    with new_vectors.admin_connection(empty_admin_dsn) as conn:
        new_vectors.begin(conn, space)
        conn.execute(
            "INSERT INTO memory_chunks_next (row_id, part, agent_identity, first_char, embedding, sig) "
            "SELECT id, 1, 'default', 1, '[1,1,1,1,1,1,1,1]', B'11111111' FROM memory_entries"
        )
        with psycopg.connect(make_conninfo(empty_admin_dsn, user="hermes"), autocommit=True) as agent:
            agent.execute("DELETE FROM memory_entries WHERE content = 'x'")
        new_vectors.build_indexes(conn, space, lambda line: None)
        new_vectors.switch(conn, space)
        assert conn.execute("SELECT count(*) AS n FROM memory_chunks").fetchone() == (1,)
        conn.execute("DELETE FROM memory_entries")
        assert conn.execute("SELECT count(*) AS n FROM memory_chunks").fetchone() == (0,)


def test_need_36_the_new_owner_of_the_tables_is_an_agent_at_once(
    make_provider: MakeProvider, empty_admin_dsn: str, embedder: ScriptedEmbedder, program: Run, role: str
) -> None:
    with as_file(files("hermes_memory_pgvector").joinpath("migrations")) as folder:
        arguments = [part for path in sorted(folder.glob("[0-9]*.sql")) for part in ("-f", str(path))]
        options = f"-c hermes_pgvector.dims={DIMS}"
        done = program("psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", empty_admin_dsn, *arguments, options=options)
        assert done.returncode == 0, done.stderr
    own = make_conninfo(empty_admin_dsn, user=role)
    with connect(own) as conn, pytest.raises(StoreMisconfigured):
        ensure_schema(conn, dims=DIMS)  # not yet the owner

    give_away(empty_admin_dsn, role)

    provider = make_provider({"dsn": own, "embed_url": embedder.url, "chunk_tokens": 100})
    provider.on_memory_write("add", "memory", FACT)
    provider.on_memory_write("add", "memory", LONG)
    provider.on_memory_write("replace", "memory", FACT + ", again", {"old_text": FACT})
    provider.sync_turn(LONG, LONG + " And so on.")
    landed(provider)
    for table in ("memory_chunks", "conversation_chunks"):
        until(lambda table=table: Database(own).column(f"SELECT count(*) FROM {table}") != [0], what="the parts")
    provider.on_memory_write("remove", "memory", "", {"old_text": "Paragraph 399"})
    landed(provider)
    assert recalled(provider, "northern harbour again") == [FACT + ", again"]
    assert Database(empty_admin_dsn).column(ORPHANS) == [0, 0]
    with connect(own) as conn:
        assert missing_rights(conn) == []
    migrate(empty_admin_dsn, dims=DIMS)
    migrate(empty_admin_dsn, dims=DIMS, runtime_role=role)
    with new_vectors.admin_connection(empty_admin_dsn) as conn:
        space = EmbeddingSpace("another", 8)
        new_vectors.begin(conn, space)
        new_vectors.build_indexes(conn, space, lambda line: None)
        new_vectors.switch(conn, space)


def test_row_security_holds_on_every_table_after_the_main_ones_were_given_away(empty_admin_dsn: str, role: str) -> None:
    migrate(empty_admin_dsn, dims=DIMS, runtime_role="hermes")
    give_away(empty_admin_dsn, role)
    with connect(empty_admin_dsn) as conn:
        row_security.enable(conn)
    without = (
        "SELECT relname::text FROM pg_class WHERE relname = ANY (ARRAY['memory_entries', 'conversations', "
        "'memory_chunks', 'conversation_chunks', 'memory_history', 'hermes_mirror', 'hermes_operations']) "
        "AND NOT relrowsecurity"
    )
    assert Database(empty_admin_dsn).column(without) == []


def test_who_owns_a_temporary_table_of_that_name_gets_no_rights(empty_admin_dsn: str, role: str) -> None:
    migrate(empty_admin_dsn, dims=DIMS, runtime_role="hermes")
    with psycopg.connect(make_conninfo(empty_admin_dsn, user=role), autocommit=True) as stranger:
        stranger.execute("CREATE TEMP TABLE memory_entries (id bigint)")
        stranger.execute("SELECT hermes_admit_owners()")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stranger.execute("SELECT count(*) FROM conversations")
