"""What our functions do with rights that their caller does not have: nothing that a session of raw SQL could turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.admin.common import new_vectors, row_security
from hermes_memory_pgvector.domain.errors import ConfigurationError
from hermes_memory_pgvector.domain.types import EmbeddingSpace
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.vectors import Chunk, PendingRow
from tests.conftest import DIMS
from tests.support.row_security import session, tenant_of
from tests.support.stored import Database

NEWER = EmbeddingSpace("newer", 8)
VECTOR = "'[1,1,1,1,1,1,1,1]', B'11111111'"
PARTS = "SELECT agent_identity || ' ' || row_id FROM memory_chunks_next ORDER BY 1"
FILL = (
    "INSERT INTO memory_entries (id, agent_identity, target, content)"
    " VALUES (1, 'marketing', 'memory', 'a'), (1, 'sales', 'memory', 'b'), (2, 'sales', 'memory', 'c')"
)


@pytest.fixture
def changing(postgres: EmbeddedServer, admin_dsn: str) -> str:
    """An admin's conninfo while the model changes: each row has its new vectors, and both themes have a row 1."""
    tenant_of(postgres, admin_dsn, "marketing")
    with new_vectors.admin_connection(admin_dsn) as admin:
        admin.execute(FILL)
        new_vectors.begin(admin, NEWER)
        admin.execute(f"UPDATE memory_entries SET (embedding_next, sig_next) = ({VECTOR})".encode())
        admin.execute(
            f"INSERT INTO memory_chunks_next SELECT id, 1, agent_identity, 0, {VECTOR} FROM memory_entries".encode()
        )
    return admin_dsn


@pytest.fixture
def tenant(changing: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of marketing's role."""
    with session(changing, "tenant_marketing") as conn:
        yield conn


def test_need_04_what_runs_with_its_owners_rights_finds_our_tables_and_is_no_trigger_of_others(changing: str) -> None:
    with connect(changing) as conn:
        functions = conn.execute(
            "SELECT proname AS name, prorettype = 'trigger'::regtype AS fires, proconfig AS settings,"
            " has_function_privilege('tenant_marketing', oid, 'EXECUTE') AS open"
            "  FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace"
        ).fetchall()
    assert {each.name for each in functions} >= {"hermes_keep_next", "hermes_drop_chunks", "hermes_turns_with"}
    for each in functions:
        assert "search_path=pg_catalog, public, pg_temp" in each.settings, each.name
        assert not (each.fires and each.open), f"{each.name} could be made a trigger of a temporary table"


def test_need_04_a_temporary_table_of_a_tenants_gives_it_nobodys_rights(tenant: psycopg.Connection[Any]) -> None:
    seen: list[str] = []
    tenant.add_notice_handler(lambda notice: seen.append(notice.message_primary or ""))
    tenant.execute("CREATE TEMP TABLE memory_chunks_next (row_id bigint, agent_identity text)")
    tenant.execute("INSERT INTO memory_chunks_next VALUES (1, 'marketing')")
    tenant.execute("GRANT ALL ON memory_chunks_next TO PUBLIC")
    tenant.execute(
        "CREATE FUNCTION pg_temp.spy() RETURNS trigger LANGUAGE plpgsql"
        " AS $$BEGIN RAISE NOTICE '%', current_user; RETURN OLD; END$$"
    )
    tenant.execute("CREATE TRIGGER spy BEFORE DELETE ON memory_chunks_next EXECUTE FUNCTION pg_temp.spy()")
    tenant.execute(
        "CREATE TRIGGER spies BEFORE DELETE ON memory_chunks_next FOR EACH ROW EXECUTE FUNCTION pg_temp.spy()"
    )
    assert tenant.execute("DELETE FROM memory_entries").rowcount == 1
    assert seen == [], "as whom its own function ran"


def test_need_04_nobody_who_could_put_an_operator_beside_ours_becomes_a_tenant(
    postgres: EmbeddedServer, admin_dsn: str, home: Path, cli: Callable[..., Any]
) -> None:
    dsn = tenant_of(postgres, admin_dsn, "marketing")
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))

    def refusal(role: str) -> str:
        with connect(admin_dsn) as admin, pytest.raises(ConfigurationError) as refused:
            row_security.grant(admin, role, ["sales"])
        return str(refused.value)

    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("GRANT tenant_group TO tenant_nobody")
        for place, to, role in (
            ("SCHEMA public", "PUBLIC", "tenant_sales"),
            ("SCHEMA public", "tenant_sales", "tenant_sales"),
            ("SCHEMA public", "tenant_group", "tenant_nobody"),
            (f"DATABASE {admin.info.dbname}", "tenant_sales", "tenant_sales"),
        ):
            admin.execute(f"GRANT CREATE ON {place} TO {to}".encode())
            revoke = f"REVOKE CREATE ON {place} FROM {to}"
            assert f'the role "{role}" may create objects in the ' in refusal(role)
            assert refusal(role).endswith(revoke)
            assert revoke in cli("doctor").stdout
            admin.execute(revoke.encode())
        admin.execute("REVOKE tenant_group FROM tenant_nobody")
        admin.execute("ALTER SCHEMA public OWNER TO tenant_sales")
        assert refusal("tenant_sales").endswith("use another role")
    assert "in the place of ours" not in cli("doctor").stdout


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("UPDATE memory_entries SET content = 'd'", ["sales 1", "sales 2"]),
        ("DELETE FROM memory_entries", ["sales 1", "sales 2"]),
        ("UPDATE memory_entries SET agent_identity = 'ads'", ["ads 1", "sales 1", "sales 2"]),
    ],
)
def test_need_04_a_tenants_row_changes_no_new_vectors_of_another_theme(
    tenant: psycopg.Connection[Any], changing: str, postgres: EmbeddedServer, change: str, left: list[str]
) -> None:
    tenant_of(postgres, changing, "marketing", "ads")
    assert tenant.execute(change.encode()).rowcount == 1
    admin = Database(changing)
    assert admin.column(PARTS) == left
    assert admin.column("SELECT count(embedding_next) FROM memory_entries WHERE agent_identity = 'sales'") == [2]


def test_need_04_no_setting_of_a_tenants_moves_parts_into_another_theme(
    tenant: psycopg.Connection[Any], changing: str
) -> None:
    admin = Database(changing)
    admin.column("DELETE FROM memory_chunks_next WHERE agent_identity = 'sales' RETURNING row_id")
    tenant.execute("SET hermes_pgvector.moved_from = 'marketing'")
    tenant.execute("SET hermes_pgvector.moved_to = 'sales'")
    tenant.execute("DELETE FROM memory_entries")
    assert admin.column(PARTS) == []


def test_need_18_rows_of_two_themes_with_one_number_keep_their_parts(changing: str) -> None:
    parts = {text: [Chunk(0, [1.0] * 8), Chunk(4, [1.0] * 8)] for text in "ab"}
    rows = [PendingRow("memories", 1, theme, text) for theme, text in (("marketing", "a"), ("sales", "b"))]
    with new_vectors.admin_connection(changing) as admin:
        new_vectors.fill_next(admin, NEWER, rows, parts)
    assert Database(changing).column(PARTS) == ["marketing 1", "sales 1", "sales 2"]
