"""The proof that ends an installation."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.admin.doctor.prove import THEME, prove
from tests.conftest import DIMS


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
