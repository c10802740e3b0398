"""The backup of docs/operations.md: pg_dump while agents go on, pg_restore into an empty database, and recall there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector import cli
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import landed, recalled
from tests.support.records import all_rows, fill_theme
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database

from .conftest import DIMS, Run


def test_need_16_a_dump_restored_into_an_empty_database_is_recalled(
    make_provider: MakeProvider,
    embedder: ScriptedEmbedder,
    program: Run,
    dsn: str,
    admin_dsn: str,
    empty_admin_dsn: str,
    home: Path,
    tmp_path: Path,
) -> None:
    config = {"embed_url": embedder.url}
    provider = make_provider(config, gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.on_memory_write("add", "memory", "Bolt is red")
    provider.on_memory_write("remove", "memory", "", {"old_text": "Bolt is red"})
    provider.sync_turn("What is the price of the Atlas these days, all in all?", "The Atlas costs 900 without tax.")
    landed(provider)
    fill_theme(dsn, "marketing", memories=3, turns=20, dims=DIMS)
    dump = str(tmp_path / "memory.dump")
    made = program("pg_dump", "-Fc", "-f", dump, admin_dsn)
    assert made.returncode == 0, made.stderr
    restored = program("pg_restore", "--exit-on-error", "-d", empty_admin_dsn, dump)
    assert restored.returncode == 0, restored.stderr

    there = make_conninfo(empty_admin_dsn, user="hermes")
    assert all_rows(there, vectors=True) == all_rows(dsn, vectors=True)
    for table in ("hermes_tombstones", "hermes_mirror", "hermes_operations", "memory_history", "hermes_migrations"):
        rows = f"SELECT t::text FROM {table} AS t ORDER BY 1"
        assert Database(there).column(rows) == Database(dsn).column(rows)  # type: ignore[arg-type]
    moved = make_provider(
        config | {"dsn": there},
        session_id="a later one",
        gateway_session_key="sales",
        hermes_home=str(tmp_path / "other"),
    )
    assert recalled(moved, "atlas bolt") == ["Atlas is blue"]
    assert "900" in moved.prefetch("What does the Atlas cost?")
    moved.on_memory_write("add", "memory", "Cord is green")
    landed(moved)
    assert "Cord is green" in recalled(moved, "cord")

    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": there, "dims": DIMS}}}))
    assert cli.main(["migrate", "--admin-dsn", empty_admin_dsn, "--runtime-role", "hermes"]) == 0


def test_need_02_a_backup_without_a_fresh_export_says_so(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "server" / "data").mkdir(parents=True)
    (home / "pgvector").mkdir()
    (home / "pgvector" / "backup").write_text("in the way")
    provider = PgvectorMemoryProvider({"embedded_dir": str(tmp_path / "server"), "dims": DIMS})
    assert provider.backup_paths() == []
    assert "no fresh export" in caplog.text and "hermes-pgvector export --replace" in caplog.text
