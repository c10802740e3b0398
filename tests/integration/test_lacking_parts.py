"""Tables that lack keys, indexes or triggers, as after half a restore: doctor names each, with what mends it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import yaml

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.admin.doctor.check import Check, DoctorContext
from hermes_memory_pgvector.admin.doctor.check_database import check_database
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.settings import Settings
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, recalled
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database

# HNSW indexes are an operator's to drop.
_PARTS = """
SELECT 'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT ' || conname AS drop, conrelid::regclass::text AS name
  FROM pg_constraint WHERE contype = 'p' AND connamespace = 'public'::regnamespace
   AND conrelid IS DISTINCT FROM to_regclass('hermes_tenants')
UNION ALL
SELECT 'DROP INDEX ' || i.indexrelid::regclass, i.indexrelid::regclass::text
  FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS m ON m.oid = c.relam
 WHERE c.relnamespace = 'public'::regnamespace AND NOT i.indisprimary AND m.amname <> 'hnsw'
UNION ALL
SELECT 'DROP TRIGGER ' || tgname || ' ON ' || tgrelid::regclass, tgname
  FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
 WHERE c.relnamespace = 'public'::regnamespace AND NOT tgisinternal
 ORDER BY 1"""


_VECTOR_COLUMNS = """
SELECT attrelid::regclass || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull FROM pg_attribute
 WHERE attname = 'embedding' AND NOT attisdropped AND attrelid::regclass::text ~ '^(memory|conv)' ORDER BY 1"""


def parts(admin_dsn: str) -> dict[str, str]:
    """The statement that drops each key, index and trigger, and the name by which it is missed."""
    with psycopg.connect(admin_dsn) as admin:
        return dict(admin.execute(_PARTS.encode()).fetchall())


def failed(dsn: str, home: Path) -> list[Check]:
    checks = check_database(DoctorContext(Settings(dsn=dsn, dims=DIMS), home))
    return [check for check in checks if check.state == "fail"]


def run(admin_dsn: str, *statements: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        for each in statements:
            admin.execute(each.encode())


def test_need_02_each_part_that_is_missing_is_named_and_comes_back(
    admin_dsn: str, direct_dsn: str, home: Path, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    whole = parts(admin_dsn)
    assert len(whole) > 60 and failed(direct_dsn, home) == []
    run(admin_dsn, *whole)
    checks = failed(direct_dsn, home)
    said = " ".join(check.said for check in checks)
    assert [name for name in whole.values() if name not in said] == []
    by_hand = [check.fix.removeprefix("as an admin: ") for check in checks if not check.repair]
    assert {check.repair for check in checks if check.repair} == {"migrate"}

    run(admin_dsn, *by_hand)
    migrate(admin_dsn, dims=DIMS, runtime_role="hermes")
    assert parts(admin_dsn) == whole and failed(direct_dsn, home) == []
    provider = make_provider({"dsn": direct_dsn, "embed_url": embedder.url})
    provider.on_memory_write("add", "memory", "Crane 3 is blue.")
    landed(provider)
    assert recalled(provider, "crane 3") == ["Crane 3 is blue."]


def test_need_02_a_library_that_the_server_lost_is_named_and_writes_follow_once_it_is_back(
    admin_dsn: str, direct_dsn: str, home: Path, make_provider: MakeProvider
) -> None:
    """As after an upgrade of the server's packages that left pgvector out."""
    renamed = "UPDATE pg_proc SET probin = '{}' WHERE probin LIKE '{}'"
    (library,) = Database(admin_dsn).column("SELECT DISTINCT probin FROM pg_proc WHERE probin ~ 'vector$'")
    run(admin_dsn, renamed.format("$libdir/vector_of_before", library))
    provider = make_provider({"dsn": direct_dsn})
    provider.on_memory_write("add", "memory", "Crane 3 is blue.")
    (check,) = failed(direct_dsn, home)
    assert "vector_of_before" in check.said and "install that library on the server" in check.said
    run(admin_dsn, renamed.format(library, "%vector_of_before"))
    landed(provider)
    assert recalled(provider, "crane 3") == ["Crane 3 is blue."]


def test_need_03_what_went_with_the_extension_comes_back_and_texts_stay(
    admin_dsn: str, direct_dsn: str, home: Path, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    """As by an upgrade of pgvector that began with DROP EXTENSION."""
    config = {"dsn": direct_dsn, "embed_url": embedder.url, "dims": DIMS}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": config}}))
    provider = make_provider(config)
    provider.on_memory_write("add", "memory", "Crane 3 is blue.")
    provider.sync_turn("Where does the crane stand that we painted?", "It stands at the northern quay.")
    landed(provider)
    whole, columns = parts(admin_dsn), Database(admin_dsn).column(_VECTOR_COLUMNS)
    run(admin_dsn, "DROP EXTENSION vector CASCADE")
    provider.on_memory_write("add", "memory", "Crane 4 is red.")
    (check,) = failed(direct_dsn, home)
    assert check.repair == "migrate"
    run(admin_dsn, "CREATE EXTENSION vector")
    (check,) = failed(direct_dsn, home)
    assert "DROP EXTENSION" in check.said and check.repair == "migrate"

    report = migrate(admin_dsn, dims=DIMS)
    assert any("backfill --cold" in notice for notice in report.notices)
    landed(provider)
    assert parts(admin_dsn) == whole and failed(direct_dsn, home) == []
    assert Database(admin_dsn).column(_VECTOR_COLUMNS) == columns
    for cold in ([], ["--cold"]):
        assert main(["backfill", *cold, "--hermes-home", str(home)]) == 0
    for table in ("memory_entries", "conversations"):
        lacking = f"SELECT count(*) FROM {table} WHERE embedding IS NULL OR sig IS NULL OR code IS NULL"
        assert Database(admin_dsn).column(lacking) == [0]
    assert sorted(recalled(provider, "crane")) == ["Crane 3 is blue.", "Crane 4 is red."]


def test_need_03_what_was_stored_without_triggers_is_found_by_meaning_after_the_remedy(
    admin_dsn: str, direct_dsn: str, home: Path, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    tables = ("memory_entries", "conversations")
    run(admin_dsn, *(f"ALTER TABLE {name} DISABLE TRIGGER USER" for name in tables))
    provider = make_provider({"dsn": direct_dsn, "embed_url": embedder.url})
    provider.on_memory_write("add", "memory", "Crane 3 is blue.")
    provider.sync_turn("Where does the crane stand that we painted?", "It stands at the northern quay.")
    landed(provider)
    unsigned = "SELECT count(*) FROM {} WHERE sig IS NULL OR code IS NULL"
    assert Database(admin_dsn).column(unsigned.format("conversations")) == [2]  # type: ignore[arg-type]

    (check,) = failed(direct_dsn, home)
    assert "conversations, memory_entries" in check.said
    run(admin_dsn, *check.fix.removeprefix("as an admin: ").split("; "))
    assert failed(direct_dsn, home) == []
    for name in tables:
        assert Database(admin_dsn).column(unsigned.format(name)) == [0]  # type: ignore[arg-type]
