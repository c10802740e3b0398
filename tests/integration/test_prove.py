"""The proof that ends an installation."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.doctor.prove import THEME, prove
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed
from tests.support.row_security import tenant_of
from tests.support.stored import Database
from tests.support.waiting import until

_SETTINGS = {
    "allowed_themes": ["marketing", "sales"], "theme_aliases": {THEME: "sales", "demo-sales": "marketing"},
    "recall_off": ["*"], "write_contexts": ["cron"], "sync_turns": False, "turn_min_chars": 4000,
}  # fmt: skip
_EVERYTHING = """SELECT agent_identity, content FROM memory_entries
                 UNION ALL SELECT agent_identity, content FROM conversations
                 UNION ALL SELECT agent_identity, old_content FROM memory_history WHERE old_content IS NOT NULL"""

_CONTENTS = "SELECT content FROM memory_entries UNION ALL SELECT content FROM conversations"


def configure(home: Path, dsn: str, **settings: object) -> None:
    section = {"dsn": dsn, "dims": DIMS} | settings
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}), encoding="utf-8")


def test_the_proof_holds_in_a_home_with_memory_files_and_leaves_nothing(
    dsn: str, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # MEMORY.md does not hold what the proof writes, so a session that compares the two would remove it.
    (home / "memories").mkdir()
    (home / "memories" / "MEMORY.md").write_text("The office is in Lisbon.", encoding="utf-8")
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    monkeypatch.setenv("HERMES_PGVECTOR_DIMS", str(DIMS))

    assert prove(home), capfd.readouterr().out

    steps = [line.split()[0] for line in capfd.readouterr().out.splitlines()]
    assert steps == ["wrote", "recalled", "recalled"]
    with psycopg.connect(dsn) as connection:
        left = connection.execute(
            "SELECT content FROM memory_entries WHERE agent_identity = %s "
            "UNION ALL SELECT content FROM conversations WHERE agent_identity = %s "
            "UNION ALL SELECT old_content FROM memory_history WHERE agent_identity = %s AND old_content IS NOT NULL",
            [THEME, THEME, THEME],
        ).fetchall()
    assert left == []


def test_need_40_the_proof_asks_nobody_about_what_it_wrote_itself(
    dsn: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The host leaves an empty file where the last entry was removed.
    (home / "memories").mkdir()
    (home / "memories" / "MEMORY.md").touch()
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    monkeypatch.setenv("HERMES_PGVECTOR_DIMS", str(DIMS))

    assert prove(home), capfd.readouterr().out

    assert "is empty" not in caplog.text
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT content FROM memory_entries").fetchall() == []


@pytest.mark.parametrize("verb", ["prove", "demo"])
def test_need_04_a_trial_leaves_nothing_whatever_themes_and_turns_the_home_keeps(
    dsn: str, home: Path, capfd: pytest.CaptureFixture[str], verb: str
) -> None:
    configure(home, dsn, **_SETTINGS)

    assert main([verb, "--hermes-home", str(home)]) == 0, capfd.readouterr().out

    with psycopg.connect(dsn) as connection:
        assert connection.execute(_EVERYTHING).fetchall() == []


@pytest.mark.parametrize("verb", ["prove", "demo"])
def test_need_03_no_file_keeps_what_a_trial_wrote_for_a_server_that_is_set_back(
    dsn: str, home: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    configure(home, dsn)

    assert main([verb, "--hermes-home", str(home)]) == 0, capsys.readouterr()

    files = [path for path in (home / "pgvector" / "spool").glob("*.db") if path.is_file()]
    with_text = [path for path in files if sqlite3.connect(path).execute("SELECT count(*) FROM kept").fetchone()[0]]
    assert not with_text


def test_need_44_a_tenants_installation_is_proved_in_a_theme_of_its_own(
    postgres: EmbeddedServer, admin_dsn: str, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    configure(home, tenant_of(postgres, admin_dsn, "@slack/default/fad1a5551154f605", "marketing", "ads"))

    assert main(["prove", "--hermes-home", str(home)]) == 0, capfd.readouterr().out
    assert "theme ads" in capfd.readouterr().out
    assert main(["demo", "--hermes-home", str(home)]) == 1
    assert "tenants grant ROLE demo-marketing demo-sales demo-intraday-sre" in capfd.readouterr().err
    assert main(["spool", "list", "--hermes-home", str(home)]) == 0
    assert "no write was rejected" in capfd.readouterr().out
    with psycopg.connect(admin_dsn) as connection:
        assert connection.execute(_EVERYTHING).fetchall() == []


@pytest.mark.parametrize("verb", ["prove", "demo"])
def test_need_30_a_trial_on_a_server_that_takes_no_writes_leaves_none_behind(
    dsn: str, home: Path, capfd: pytest.CaptureFixture[str], verb: str
) -> None:
    configure(home, make_conninfo(dsn, options="-c default_transaction_read_only=on"))

    assert main([verb, "--hermes-home", str(home)]) == 1

    assert "let `dsn` lead to the primary server" in capfd.readouterr().err
    assert not (home / "pgvector" / "spool").exists()


def test_the_next_proof_removes_what_one_that_was_killed_has_left_and_nothing_else(
    dsn: str,
    home: Path,
    start_cli: Callable[..., subprocess.Popen[str]],
    make_provider: MakeProvider,
    capfd: pytest.CaptureFixture[str],
) -> None:
    configure(home, dsn)
    everything = Database(dsn)
    provider = make_provider(gateway_session_key=THEME, session_id="quokka-12345678")
    provider.on_memory_write("add", "memory", "The installation check left the code behind the door.")
    provider.sync_turn("Please keep in mind that the door is green.", "Noted: the door is green.")
    landed(provider)
    kept = sorted(everything.column(_CONTENTS))
    with start_cli("prove") as process:
        until(lambda: len(everything.column(_CONTENTS)) == len(kept) + 4, 120, "what the proof writes")
        process.kill()
    assert len(everything.column(_CONTENTS)) == len(kept) + 4
    _make_older(dsn)

    assert main(["prove", "--hermes-home", str(home)]) == 0, capfd.readouterr().out

    assert sorted(everything.column(_CONTENTS)) == kept
    assert everything.column("SELECT count(*) FROM hermes_mirror") == [1]


def _make_older(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE memory_entries SET updated_at = updated_at - interval '1 hour'")
        connection.execute("UPDATE conversations SET ts = ts - interval '1 hour'")
