"""An admin's login that leads elsewhere than the agents': a variable that was left set for another home."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.cli import main
from tests.conftest import DIMS
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database

from .conftest import Run


@pytest.fixture
def config(home: Path, second_dsn: str, embedder: ScriptedEmbedder) -> Path:
    """The configuration of a home that has another database than the admin's."""
    path = home / "config.yaml"
    section = {"dsn": second_dsn, "dims": DIMS, "embed_url": embedder.url, "embed_model": "older"}
    path.write_text(yaml.safe_dump({"plugins": {"pgvector": section}}), encoding="utf-8")
    return path


def half_migrated(dsn: str) -> None:
    """Leave a database in need of an admin."""
    Database(make_conninfo(dsn, user="postgres")).column("DELETE FROM hermes_migrations WHERE version > 1 RETURNING 1")


@pytest.mark.parametrize(
    "command",
    [
        ("reembed", "--model", "newer", "--yes"),
        ("index", "drop", "--yes"),
        ("index", "build"),
        ("compact", "--all-themes", "--yes", "--vacuum"),
    ],
)
def test_what_an_admin_changes_is_the_database_of_the_agents(
    config: Path, home: Path, admin_dsn: str, command: tuple[str, ...], cli: Run
) -> None:
    before = config.read_text(encoding="utf-8")

    said = cli(*command, "--admin-dsn", admin_dsn)

    assert said.returncode == 1
    assert "leads to another database than `dsn`; nothing was changed" in said.stderr
    assert config.read_text(encoding="utf-8") == before
    theirs = Database(admin_dsn)
    assert theirs.column("SELECT to_regclass('conversations_embedding_idx') IS NOT NULL") == [True]
    assert theirs.column("SELECT model FROM hermes_embedding") == [None]


def test_what_is_brought_goes_where_the_agents_look(
    config: Path, home: Path, admin_dsn: str, second_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "memories").mkdir()
    (home / "memories" / "MEMORY.md").write_text("Atlas is blue", encoding="utf-8")
    monkeypatch.setenv("HERMES_PGVECTOR_ADMIN_DSN", admin_dsn)
    bring = ["bring", "files", "--yes", "--hermes-home", str(home)]
    assert main(bring) == 0
    assert Database(second_dsn).themes_of_memory("Atlas is blue") == ["default"]
    assert Database(admin_dsn).themes_of_memory("Atlas is blue") == []
    assert main([*bring, "--admin-dsn", admin_dsn]) == 0
    assert Database(admin_dsn).themes_of_memory("Atlas is blue") == ["default"], "the option is obeyed"


def test_doctor_mends_no_other_database(
    config: Path, home: Path, second_dsn: str, empty_admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    half_migrated(second_dsn)

    main(["doctor", "--fix", "--admin-dsn", empty_admin_dsn, "--hermes-home", str(home)])

    out = capsys.readouterr().out
    assert "NOT fixed  schema: --admin-dsn, or HERMES_PGVECTOR_ADMIN_DSN in the environment, leads to another" in out
    assert Database(empty_admin_dsn).column("SELECT to_regclass('conversations')") == [None]


def test_setup_makes_the_tables_where_agents_look_for_them(
    home: Path, admin_dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    half_migrated(second_dsn)
    options = ["--dsn", second_dsn, "--admin-dsn", admin_dsn, "--no-model", "--yes", "--hermes-home", str(home)]

    assert main(["setup", *options]) == 1

    assert "leads to another database than `dsn`" in capsys.readouterr().out
    assert not (home / "config.yaml").exists()


@pytest.mark.parametrize(
    "command", [("tenants", "list"), ("reembed", "--abort"), ("index", "build"), ("forget", "m1"), ("search", "cat")]
)
def test_what_is_wrong_with_an_admins_login_is_said_of_that_login(
    config: Path, home: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for dsn, wrong in (("nonsense", "cannot be read"), ("host=127.0.0.1 port=1", "correct host and port in")):
        assert main([*command, "--admin-dsn", dsn, "--hermes-home", str(home)]) == 1
        said = capsys.readouterr().err
        assert wrong in said and "`--admin-dsn`" in said and "`dsn`" not in said
