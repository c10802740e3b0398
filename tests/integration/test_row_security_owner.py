"""A managed Postgres: its administrator makes roles and owns the tables, but passes no policy and is no superuser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.admin.common import new_vectors, row_security
from hermes_memory_pgvector.admin.common.retention_policy import RetentionPolicy
from hermes_memory_pgvector.admin.prune.retention import Retention
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.types import EmbeddingSpace
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.backend import Backend
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, recalled
from tests.support.row_security import let_tenants_in, session
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

from .test_prune import DAYS, configure, fill, turns
from .test_reembed import LONG, NEW_DIMS, WITHOUT_VECTOR
from .test_retention import FAST, run

Verb = Callable[..., Any]


@pytest.fixture
def owner(postgres: EmbeddedServer, empty_admin_dsn: str) -> Iterator[str]:
    """The administrator's conninfo of an empty database; the provider of the cloud has made the extension."""
    let_tenants_in(postgres)
    name = conninfo_to_dict(empty_admin_dsn)["dbname"]
    with psycopg.connect(empty_admin_dsn, autocommit=True) as conn:
        conn.execute("CREATE EXTENSION vector")
        conn.execute("ALTER ROLE tenant_owner CREATEROLE")
        conn.execute(sql.SQL("ALTER DATABASE {} OWNER TO tenant_owner").format(sql.Identifier(str(name))))
        yield make_conninfo(empty_admin_dsn, user="tenant_owner")
        conn.execute("DROP OWNED BY tenant_hired CASCADE")
        conn.execute("DROP ROLE tenant_hired")


@pytest.fixture
def verb(home: Path, owner: str, capsys: pytest.CaptureFixture[str]) -> Verb:
    """Runs `hermes-pgvector ARGUMENTS --admin-dsn OWNER`, to its good end, and returns what it printed."""

    def do(*arguments: str) -> str:
        code = main([*arguments, "--admin-dsn", owner])
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    configure(home, make_conninfo(owner, user="hermes"))
    return do


@pytest.fixture
def confined(owner: str, verb: Verb) -> str:
    """How a tenant's agents log in, once the administrator has migrated, turned it on, and let them in."""
    verb("migrate", "--dims", str(DIMS), "--runtime-role", "hermes")
    assert "row-level security is on" in verb("tenants", "enable")
    with connect(owner) as conn:
        conn.execute("CREATE ROLE tenant_hired LOGIN")
    assert "tenant_hired: marketing" in verb("tenants", "grant", "tenant_hired", "marketing")
    return make_conninfo(owner, user="tenant_hired")


def test_need_30_an_owner_who_is_no_superuser_confines_tenants(
    make_provider: MakeProvider, owner: str, confined: str, verb: Verb
) -> None:
    gateway = make_provider({"dsn": make_conninfo(owner, user="hermes")}, gateway_session_key="sales")
    tenant = make_provider({"dsn": confined})
    for provider, team in ((gateway, "sales"), (tenant, "marketing")):
        provider.on_memory_write("add", "memory", f"The Atlas budget is owned by {team}")
        provider.sync_turn("Who owns the Atlas budget, remind me please?", f"It is owned by {team}, as I said.")
        landed(provider)
    assert recalled(tenant, "Atlas budget") == ["The Atlas budget is owned by marketing"]
    assert recalled(gateway, "Atlas budget") == ["The Atlas budget is owned by sales"]
    with session(owner, "tenant_hired") as conn:
        assert conn.execute("SELECT DISTINCT agent_identity FROM memory_history").fetchall() == [("marketing",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("SELECT hermes_grant_themes('tenant_hired', '{sales}')")
    assert Database(owner).column("SELECT count(*) FROM conversations") == [4], "the owner keeps every theme"
    assert "tenant_hired lost marketing" in verb("tenants", "revoke", "tenant_hired", "--yes")
    assert "tenant_hired" in verb("tenants", "grant", "tenant_hired", "sales")
    assert "row-level security is off" in verb("tenants", "disable", "--yes")
    with session(owner, "tenant_hired") as conn:
        for function in ("hermes_turns_with", "hermes_memories_with"):
            found = conn.execute(f"SELECT FROM {function}(NULL, 'atlas', current_user)".encode()).fetchall()
            assert found == [], "its rights are gone, and so is this way round them"
        told = (
            "SELECT FROM hermes_turns_like(hermes_digest('Who owns the Atlas budget, remind me please?'), current_user)"
        )
        assert conn.execute(told.encode()).fetchall() == []
        (plan,) = conn.execute("SELECT hermes_expected_rows('conversations', 'sales', current_user)").fetchone() or ()
        assert "sales" not in str(plan), "no theme is estimated"


def test_need_30_such_an_owner_changes_the_model_prunes_and_retains(
    make_provider: MakeProvider, owner: str, confined: str, verb: Verb, embedder: ScriptedEmbedder
) -> None:
    tenant = make_provider({"dsn": confined, "embed_url": embedder.url, "embed_model": "older"})
    tenant.on_memory_write("add", "memory", LONG)
    landed(tenant)
    until(lambda: Database(owner).column(WITHOUT_VECTOR) == [0], 30, "the vectors")
    with ScriptedEmbedder(dims=NEW_DIMS) as newer:
        verb("reembed", "--url", newer.url, "--model", "newer", "--dims", str(NEW_DIMS), "--yes")
    assert Database(owner).column("SELECT model FROM hermes_embedding") == ["newer"]
    with session(owner, "tenant_hired") as conn:
        assert conn.execute("SELECT count(*) > 1 FROM memory_chunks").fetchone() == (True,), "it has its parts again"
        conn.execute("DELETE FROM memory_chunks WHERE part = 2")
    for theme in ("marketing", "sales"):
        fill(owner, theme)
    pruned = json.loads(verb("prune", "--theme", "sales", "--older-than", "180d", "--yes", "--json"))
    assert pruned["deleted"] == {"turns": DAYS - 180} and turns(owner, "marketing") == DAYS
    backend = Backend(lambda: owner, dims=NEW_DIMS, pool_max_size=2)
    try:
        backend.bring_up()
        retention = Retention(backend, RetentionPolicy(("*=90",)), FAST)
        run(retention)
        assert run(retention) == DAYS - 90 + 180 - 90
    finally:
        backend.close()


def test_need_18_themes_are_granted_while_the_model_changes(owner: str, confined: str) -> None:
    """What the new role gets are the tables that are there at the end."""
    with connect(owner) as conn:
        conn.execute("INSERT INTO memory_entries (agent_identity, target, content) VALUES ('sales', 'memory', 'ours')")
    space = EmbeddingSpace("newer", NEW_DIMS)
    with new_vectors.admin_connection(owner) as worker, connect(owner) as admin:
        new_vectors.begin(worker, space)
        row_security.grant(admin, "tenant_hired", ["ads"])
        row_security.grant(admin, "tenant_sales", ["sales"])
        with session(owner, "tenant_sales") as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("SELECT FROM memory_chunks_next")
        new_vectors.build_indexes(worker, space, lambda line: None)
        new_vectors.switch_soon(worker, space)
        policies = admin.execute(
            "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AS forced,"
            " (SELECT array_agg(p.with_check ORDER BY 1) FROM pg_policies AS p WHERE p.tablename = c.relname) AS checks"
            "  FROM pg_class AS c WHERE c.relname IN ('memory_chunks', 'conversation_chunks')"
        ).fetchall()
    assert len(policies) == 2 and all(row.forced and "hermes_is_own_row" in str(row.checks) for row in policies)
    part = "INSERT INTO memory_chunks SELECT id, 1, 'sales', 9, v, binary_quantize(v) FROM memory_entries," \
           f" (SELECT array_fill(0.5::real, ARRAY[{NEW_DIMS}])::vector AS v) AS made"  # fmt: skip
    with session(owner, "tenant_sales") as conn:
        assert conn.execute(part.encode()).rowcount == 1
    with session(owner, "tenant_hired") as conn:
        assert conn.execute("SELECT count(*) FROM memory_chunks").fetchone() == (0,)


def test_need_04_a_tenants_turn_takes_along_what_was_proposed_of_it(owner: str, confined: str) -> None:
    proposed = (
        "INSERT INTO hermes_proposals (id, agent_identity, target, content, kind, confidence, sources, said_at)"
        " VALUES (1, %s, 'memory', 'x', 'fact', 1, '{1}', now())"
    )
    with connect(owner) as conn:
        for theme in ("marketing", "sales"):
            conn.execute(
                "INSERT INTO conversations (id, agent_identity, session_id, role, content)"
                " VALUES (1, %s, 's', 'user', 'x')", (theme,)
            )  # fmt: skip
            conn.execute(proposed.encode(), (theme,))
            conn.execute("INSERT INTO hermes_read_turns VALUES (1, %s, now(), '{1}')", (theme,))
    with psycopg.connect(confined, autocommit=True) as conn:
        assert conn.execute("DELETE FROM conversations").rowcount == 1
        for table in ("hermes_proposals", "hermes_read_turns"):
            assert conn.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,)
    for table in ("hermes_proposals", "hermes_read_turns"):
        assert Database(owner).column(f"SELECT agent_identity FROM {table}") == ["sales"]


def test_need_30_a_server_that_takes_no_writes_is_named_with_the_one_that_is_meant(
    admin_dsn: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_DIMS", str(DIMS))
    standby = make_conninfo(admin_dsn, options="-c default_transaction_read_only=on")
    assert main(["tenants", "enable", "--admin-dsn", standby, "--hermes-home", str(home)]) == 1
    said = capsys.readouterr().err
    assert "read-only" in said
    assert "lead to the primary server" in said
