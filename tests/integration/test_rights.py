"""What the runtime role may do: read and write rows, nothing more."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo

from tests.conftest import DIMS, MakeProvider
from tests.support.embedded import BIN_DIR
from tests.support.memory import landed
from tests.support.stored import Database
from tests.support.turns import turn, user_turns
from tests.support.waiting import until

from .conftest import Run

_FORBIDDEN = [
    "CREATE TABLE extra (id int)",
    "CREATE SCHEMA extra",
    "CREATE FUNCTION extra() RETURNS int LANGUAGE sql RETURN 1",
    "CREATE OR REPLACE FUNCTION hermes_digest(body text) RETURNS bytea LANGUAGE sql IMMUTABLE RETURN ''::bytea",
    "CREATE EXTENSION pg_trgm",
    "CREATE ROLE extra",
    "CREATE INDEX extra ON memory_entries (id)",
    "CREATE TRIGGER t BEFORE INSERT ON conversations EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "ALTER TABLE memory_entries ADD COLUMN extra int",
    "ALTER TABLE conversations DISABLE TRIGGER ALL",
    "ALTER TABLE memory_entries ENABLE ROW LEVEL SECURITY",
    "ALTER FUNCTION hermes_digest(text) RENAME TO extra",
    "DROP TABLE memory_entries",
    "DROP TABLE hermes_migrations",
    "DROP INDEX conversations_embedding_idx",
    "DROP FUNCTION hermes_lexemes(text, text) CASCADE",
    "DROP EXTENSION vector CASCADE",
    "TRUNCATE conversations",
    "INSERT INTO hermes_migrations (version, name, checksum) VALUES (99, 'x', 'y')",
    "UPDATE hermes_migrations SET checksum = 'y'",
    "DELETE FROM hermes_migrations",
    "INSERT INTO hermes_embedding (only_row, model) VALUES (true, 'm') ON CONFLICT DO NOTHING",
    "DELETE FROM hermes_embedding",
]


def test_trap_13_the_runtime_role_can_neither_create_alter_nor_drop(dsn: str, admin_dsn: str) -> None:
    refused = pg.InsufficientPrivilege
    # Another Postgres than the package's may have no pg_trgm to begin with.
    for_lack = (refused, pg.FeatureNotSupported) if BIN_DIR else refused
    with psycopg.connect(dsn, autocommit=True) as runtime:
        for statement in _FORBIDDEN:
            with pytest.raises(for_lack if "pg_trgm" in statement else refused):
                runtime.execute(statement.encode())
                pytest.fail(f"the runtime role may: {statement}")
    database = Database(admin_dsn)
    assert database.column("SELECT count(*) FROM hermes_migrations") != [0]
    attributes = (
        "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls FROM pg_roles WHERE rolname = 'hermes'"
    )
    assert database.column(attributes) == [False]


def test_trap_13_a_runtime_role_that_does_not_exist_is_an_error_with_its_remedy(cli: Run, empty_admin_dsn: str) -> None:
    done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--dims", str(DIMS), "--runtime-role", "nosuchrole")
    assert done.returncode == 1
    assert 'the runtime role "nosuchrole" does not exist' in done.stderr
    assert "CREATE ROLE nosuchrole LOGIN PASSWORD" in done.stderr
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert Database(empty_admin_dsn).column(tables) == [0], "nothing is left half done"


def test_trap_13_neither_is_it_overlooked_where_the_tables_stand_already(cli: Run, admin_dsn: str) -> None:
    done = cli("migrate", "--admin-dsn", admin_dsn, "--dims", str(DIMS), "--runtime-role", "nosuchrole")
    assert done.returncode == 1
    assert "CREATE ROLE nosuchrole" in done.stderr


def test_trap_13_a_second_role_gets_the_same_rights(cli: Run, admin_dsn: str, dsn: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute('CREATE ROLE "Second Fleet" LOGIN')
        try:
            done = cli("migrate", "--admin-dsn", admin_dsn, "--dims", str(DIMS), "--runtime-role", "Second Fleet")
            assert done.returncode == 0, done.stderr
            rights = "SELECT table_name || privilege_type FROM information_schema.role_table_grants WHERE grantee = %s"
            database = Database(admin_dsn)
            assert sorted(database.column(rights, "Second Fleet")) == sorted(database.column(rights, "hermes"))
        finally:
            admin.execute('DROP OWNED BY "Second Fleet"; DROP ROLE "Second Fleet"')


def test_need_30_vectors_in_a_schema_of_their_own_are_let_to_the_role_and_missed_by_name(
    cli: Run, home: Path, empty_admin_dsn: str, make_provider: MakeProvider, records: Callable[[int], list[str]]
) -> None:
    with psycopg.connect(empty_admin_dsn, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA extensions; CREATE EXTENSION vector SCHEMA extensions")
        login = make_conninfo(empty_admin_dsn, options="-c search_path=public,extensions")
        done = cli("migrate", "--admin-dsn", login, "--dims", str(DIMS), "--runtime-role", "hermes")
        assert done.returncode == 0, done.stderr
        dsn = make_conninfo(empty_admin_dsn, user="hermes")
        provider = make_provider({"dsn": dsn})
        provider.sync_turn(turn(1), "")
        landed(provider)
        provider.shutdown()

        admin.execute("REVOKE USAGE ON SCHEMA extensions FROM hermes")
        provider = make_provider({"dsn": dsn})
        provider.sync_turn(turn(2), "")
        until(lambda: records(logging.WARNING), 20, "what is wrong")
        (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dsn: '{dsn}', dims: {DIMS}}}}}\n")
        doctor = cli("doctor")
        grant = 'GRANT USAGE ON SCHEMA "extensions" TO "hermes"'
        assert grant in doctor.stdout and grant in records(logging.WARNING)[0]
        admin.execute(grant)
        landed(provider)
        assert len(records(logging.WARNING)) == 1, "once"
    assert user_turns(Database(dsn)) == [turn(1), turn(2)]


def test_trap_13_an_agent_that_logs_in_as_owner_is_told_so(cli: Run, home: Path, admin_dsn: str, dsn: str) -> None:
    said = {}
    for who in (admin_dsn, dsn):
        (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dsn: '{who}', dims: {DIMS}}}}}\n")
        checks = json.loads(cli("doctor", "--json").stdout)["checks"]
        (said[who],) = [check for check in checks if check["name"] == "rights"]
    assert said[admin_dsn]["state"] == "note" and "superuser" in said[admin_dsn]["said"]
    assert said[dsn]["state"] == "ok"


@pytest.mark.parametrize("dims", ["0", "2001", "-5"])
def test_trap_13_dimensions_that_cannot_be_are_refused(cli: Run, empty_admin_dsn: str, dims: str) -> None:
    done = cli("migrate", "--admin-dsn", empty_admin_dsn, "--dims", dims)
    assert done.returncode == 2 and "1 to 2000" in done.stderr


def test_trap_13_an_admin_dsn_that_does_not_connect_says_why(cli: Run) -> None:
    done = cli("migrate", "--admin-dsn", "postgresql://u:s3cr3t@127.0.0.1:1/db")
    assert done.returncode == 1
    assert "start Postgres there" in done.stderr and "s3cr3t" not in done.stderr
