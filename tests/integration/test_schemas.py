"""Databases in which the tables, the extension or somebody else's tables are in other schemas than usual."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.admin.common.migrations import migrate, migrations
from hermes_memory_pgvector.admin.doctor.check import DoctorContext
from hermes_memory_pgvector.admin.doctor.check_database import check_database
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import ConfigurationError, StoreMisconfigured, StrangeTables
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.schema import MIGRATIONS_FOLDER, ensure_schema
from tests.conftest import DIMS, MakeProvider
from tests.integration.conftest import Run
from tests.support.memory import landed, recalled, runtime_of
from tests.support.row_security import let_tenants_in, tenant_of
from tests.support.stored import Database
from tests.support.turns import ANSWER, turn
from tests.support.waiting import until

Records = Callable[[int], list[str]]
ODD = 'Mem "50%" x'
_WHERE = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename IN ('memory_entries', 'hermes_migrations')"


@pytest.fixture(scope="module", autouse=True)
def logins(postgres: EmbeddedServer) -> None:
    """The roles that the tests here make may log in."""
    let_tenants_in(postgres, "test_owner", "stranger")


@pytest.fixture
def owner(empty_admin_dsn: str) -> Iterator[str]:
    """The login of a role that owns the empty database and is nothing else."""
    database = quoted(str(conninfo_to_dict(empty_admin_dsn)["dbname"]))
    run(empty_admin_dsn, "CREATE ROLE test_owner LOGIN", f"ALTER DATABASE {database} OWNER TO test_owner")
    try:
        yield make_conninfo(empty_admin_dsn, user="test_owner")
    finally:
        run(empty_admin_dsn, "REASSIGN OWNED BY test_owner TO CURRENT_USER")
        run(empty_admin_dsn, "DROP OWNED BY test_owner", "DROP ROLE test_owner")


def run(admin_dsn: str, *statements: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        for each in statements:
            admin.execute(each.encode())


def quoted(name: str) -> str:
    return sql.Identifier(name).as_string()


def looking_in(dsn: str, path: str) -> str:
    """The conninfo with this search path."""
    return make_conninfo(dsn, options="-c search_path=" + path.replace(" ", "\\ "))


def works(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider({"dsn": dsn})
    provider.on_memory_write("add", "memory", "Crane 3 is blue.")
    provider.on_memory_write("replace", "memory", "Crane 3 is red.", {"old_text": "Crane 3 is blue"})
    provider.sync_turn(turn(1), ANSWER)
    landed(provider)
    assert runtime_of(provider).writer.rejected_count() == 0
    assert recalled(provider, "crane 3") == ["Crane 3 is red."]
    assert turn(1) in recalled(provider, turn(1), tool="recall_conversation")


# -- where the tables are made


@pytest.mark.parametrize("by_owner", [True, False])
def test_need_30_tables_are_not_made_in_the_schema_of_the_extension(
    by_owner: bool, empty_admin_dsn: str, owner: str, make_provider: MakeProvider
) -> None:
    run(
        empty_admin_dsn,
        "CREATE SCHEMA extensions",
        "CREATE EXTENSION vector SCHEMA extensions",
        "GRANT USAGE ON SCHEMA extensions TO PUBLIC",
    )
    migrate(owner if by_owner else empty_admin_dsn, dims=DIMS, runtime_role="hermes")
    assert Database(empty_admin_dsn).column(_WHERE) == ["public"]
    works(make_provider, make_conninfo(empty_admin_dsn, user="hermes"))


def test_need_30_a_role_that_nobody_named_keeps_no_owner_from_migrating(empty_admin_dsn: str, owner: str) -> None:
    run(
        empty_admin_dsn,
        "CREATE SCHEMA extensions",
        "CREATE EXTENSION vector SCHEMA extensions",
        "GRANT USAGE ON SCHEMA extensions TO test_owner",
    )
    told = "the role hermes may not use the schema extensions"
    assert any(told in notice for notice in migrate(owner, dims=DIMS).notices)
    with pytest.raises(ConfigurationError, match=told):
        migrate(owner, dims=DIMS, runtime_role="hermes")


@pytest.mark.parametrize("schema", ["memory", ODD])
def test_need_30_tables_are_made_in_the_schema_that_the_admin_names(
    schema: str, empty_admin_dsn: str, make_provider: MakeProvider
) -> None:
    run(empty_admin_dsn, "CREATE EXTENSION vector", f"CREATE SCHEMA {quoted(schema)}")
    migrate(looking_in(empty_admin_dsn, quoted(schema)), dims=DIMS, runtime_role="hermes")
    assert Database(empty_admin_dsn).column(_WHERE) == [schema]
    works(make_provider, make_conninfo(empty_admin_dsn, user="hermes"))


def test_need_30_an_admin_whose_path_leads_nowhere_is_told(empty_admin_dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="search_path leads to no schema"):
        migrate(looking_in(empty_admin_dsn, '"$user"'), dims=DIMS)
    migrate(looking_in(empty_admin_dsn, "public"), dims=DIMS)
    assert Database(empty_admin_dsn).column(_WHERE) == ["public"]


def test_need_30_a_schema_made_later_for_the_admin_gets_no_second_tables(
    empty_admin_dsn: str, owner: str, make_provider: MakeProvider
) -> None:
    run(empty_admin_dsn, "CREATE EXTENSION vector")
    migrate(owner, dims=DIMS, runtime_role="hermes")
    run(owner, "CREATE SCHEMA test_owner")
    migrate(owner, dims=DIMS, runtime_role="hermes")
    assert Database(empty_admin_dsn).column(_WHERE) == ["public"]
    works(make_provider, make_conninfo(empty_admin_dsn, user="hermes"))


# -- where triggers look


@pytest.mark.parametrize("by_hand", [True, False])
def test_need_03_an_admin_with_a_schema_of_its_own_name_makes_tables_that_take_writes(
    by_hand: bool, empty_admin_dsn: str, owner: str, home: Path, make_provider: MakeProvider
) -> None:
    run(empty_admin_dsn, "CREATE EXTENSION vector", "CREATE SCHEMA AUTHORIZATION test_owner")
    if by_hand:  # as psql would
        run(owner, f"SET hermes_pgvector.dims = {DIMS}", *(migration.sql for migration in migrations()))
        assert failed(make_conninfo(empty_admin_dsn, user="hermes"), home) == []
    else:
        migrate(owner, dims=DIMS, runtime_role="hermes")
    assert Database(empty_admin_dsn).column(_WHERE) == ["test_owner"]
    works(make_provider, make_conninfo(empty_admin_dsn, user="hermes"))


def test_need_40_a_schema_that_was_renamed_is_told_and_mended_by_migrate(
    admin_dsn: str, direct_dsn: str, home: Path, make_provider: MakeProvider
) -> None:
    run(admin_dsn, f"ALTER SCHEMA public RENAME TO {quoted(ODD)}", "CREATE SCHEMA public")
    provider = make_provider({"dsn": direct_dsn})
    provider.on_memory_write("add", "memory", "Crane 4 is green.")
    until(lambda: "does not exist" in str(runtime_of(provider).stats()["last_error"]), what="the error")
    (told,) = failed(direct_dsn, home)
    assert ODD.replace('"', '""') in told and "hermes_note_memory()" in told and "hermes-pgvector migrate" in told
    migrate(admin_dsn, dims=DIMS)
    landed(provider)
    assert recalled(provider, "crane 4") == ["Crane 4 is green."]
    assert failed(direct_dsn, home) == []


def test_need_40_an_extension_that_was_moved_is_found_by_triggers_after_migrate(
    admin_dsn: str, direct_dsn: str, home: Path
) -> None:
    run(admin_dsn, "CREATE SCHEMA ext", "ALTER EXTENSION vector SET SCHEMA ext", "GRANT USAGE ON SCHEMA ext TO hermes")
    (told,) = failed(direct_dsn, home)
    assert "hermes_keep_facts()" in told and "hermes_note_memory()" not in told
    migrate(admin_dsn, dims=DIMS)
    assert failed(direct_dsn, home) == []


def failed(dsn: str, home: Path) -> list[str]:
    """What doctor says that triggers lack, each with its remedy."""
    checks = check_database(DoctorContext(Settings(dsn=dsn, dims=DIMS), home))
    return [f"{check.said} -> {check.fix}" for check in checks if (check.name, check.state) == ("triggers", "fail")]


# -- tables that a role does not see


@pytest.mark.parametrize("login", [{"user": "hermes"}, {"options": "-c role=hermes"}], ids=["login", "role"])
@pytest.mark.parametrize("sees", [True, False])
def test_need_40_tables_out_of_a_roles_sight_are_named_with_what_shows_them(
    sees: bool, login: dict[str, str], empty_admin_dsn: str, make_provider: MakeProvider, records: Records
) -> None:
    run(
        empty_admin_dsn, "CREATE EXTENSION vector", "CREATE ROLE stranger LOGIN", "CREATE SCHEMA AUTHORIZATION stranger"
    )
    try:
        migrate(make_conninfo(empty_admin_dsn, user="stranger"), dims=DIMS, runtime_role="hermes")
        if not sees:
            run(empty_admin_dsn, "REVOKE USAGE ON SCHEMA stranger FROM hermes")
        provider = make_provider({"dsn": make_conninfo(empty_admin_dsn, **login)})
        provider.on_memory_write("add", "memory", "Crane 5 is grey.")
        until(lambda: records(logging.WARNING), what="what is wrong")
        (said,) = records(logging.WARNING)
        assert "is not applied where the role hermes looks" in said and "stranger (of stranger)" in said
        remedy = said.partition("as an admin: ")[2].partition("; if not")[0]
        run(empty_admin_dsn, remedy)
        landed(provider)
        assert recalled(provider, "crane 5") == ["Crane 5 is grey."]
    finally:
        run(empty_admin_dsn, "DROP OWNED BY stranger CASCADE", "DROP ROLE stranger")


def test_need_04_a_tenant_may_use_the_schema_that_the_tables_are_in(
    postgres: EmbeddedServer, empty_admin_dsn: str, make_provider: MakeProvider
) -> None:
    run(empty_admin_dsn, "CREATE EXTENSION vector", f"CREATE SCHEMA {quoted(ODD)}")
    migrate(looking_in(empty_admin_dsn, quoted(ODD)), dims=DIMS)
    works(make_provider, tenant_of(postgres, empty_admin_dsn, "marketing"))


@pytest.mark.parametrize("named", ["memory_entries", "conversations", "hermes_migrations"])
def test_need_40_row_security_that_was_turned_on_without_policies_is_told_with_what_ends_it(
    named: str, admin_dsn: str, direct_dsn: str, home: Path, make_provider: MakeProvider, records: Records
) -> None:
    provider = make_provider({"dsn": direct_dsn})
    provider.on_memory_write("add", "memory", "Crane 6 is white.")
    landed(provider)
    run(admin_dsn, f"ALTER TABLE {named} ENABLE ROW LEVEL SECURITY")
    later = make_provider({"dsn": direct_dsn}, hermes_home=str(home.parent / "other"))
    later.on_memory_write("add", "memory", "Crane 7 is black.")
    until(lambda: records(logging.WARNING), what="what is wrong")
    remedy = f"ALTER TABLE {named} DISABLE ROW LEVEL SECURITY"
    assert "turned on for the tables without a policy" in records(logging.WARNING)[0]
    assert remedy in records(logging.WARNING)[0]
    checks = check_database(DoctorContext(Settings(dsn=direct_dsn, dims=DIMS), home))
    assert any(check.state == "fail" and remedy in check.said for check in checks)
    run(admin_dsn, remedy)
    landed(later)
    assert sorted(recalled(provider, "crane")) == ["Crane 6 is white.", "Crane 7 is black."]


# -- tables of somebody else


@pytest.mark.parametrize("name", ["memory_history", "memory_chunks", "conversation_chunks"])
def test_trap_13_a_table_of_somebody_else_is_refused_and_not_dropped(
    name: str, empty_admin_dsn: str, program: Run
) -> None:
    run(empty_admin_dsn, f"CREATE TABLE {name} AS SELECT 'theirs' AS note")
    with pytest.raises(StrangeTables, match=f"the table {name} here is neither ours nor of the other"):
        migrate(empty_admin_dsn, dims=DIMS, runtime_role="hermes")
    with (
        connect(make_conninfo(empty_admin_dsn, user="hermes")) as conn,
        pytest.raises(StoreMisconfigured, match="rename"),
    ):
        ensure_schema(conn, dims=DIMS)
    by_hand = program(
        "psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", empty_admin_dsn, "-f", str(MIGRATIONS_FOLDER / "001_schema.sql")
    )
    assert by_hand.returncode != 0 and f"the table {name} of this database is another program's" in by_hand.stderr
    assert Database(empty_admin_dsn).column(f"SELECT note FROM {name}") == ["theirs"]  # type: ignore[arg-type]


def test_trap_13_tables_of_somebody_else_stay_beside_ours_in_another_schema(
    empty_admin_dsn: str, make_provider: MakeProvider
) -> None:
    names = ("memory_history", "memory_chunks", "conversation_chunks", "conversations", "memory_entries")
    run(empty_admin_dsn, *(f"CREATE TABLE {name} AS SELECT 'theirs' AS note" for name in names))
    run(empty_admin_dsn, "CREATE EXTENSION vector", "CREATE SCHEMA memory")
    migrate(looking_in(empty_admin_dsn, "memory"), dims=DIMS, runtime_role="hermes")
    works(make_provider, make_conninfo(empty_admin_dsn, user="hermes"))
    for name in names:
        assert Database(empty_admin_dsn).column(f"SELECT note FROM public.{name}") == ["theirs"]  # type: ignore[arg-type]
