"""Several profiles in one process: what a session is was settled when it was initialised."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hermes_constants import reset_hermes_home_override, set_hermes_home_override

from hermes_memory_pgvector.admin.common.saving import Changes, save
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.host.session_context import load_settings
from tests.conftest import DIMS
from tests.integration.conftest import Run
from tests.support.memory import landed, recalled, runtime_of, write_entries
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database


def _home(path: Path, section: str = "", dotenv: str = "") -> Path:
    """A hermes home with a section plugins.pgvector and a .env."""
    path.mkdir()
    (path / "config.yaml").write_text(f"plugins:\n  pgvector:\n    dims: {DIMS}\n{section}", encoding="utf-8")
    (path / ".env").write_text(dotenv, encoding="utf-8")
    return path


def _session(home: Path, profile: str, **kwargs: object) -> PgvectorMemoryProvider:
    provider = PgvectorMemoryProvider()
    provider.initialize(f"{profile}-1", hermes_home=str(home), agent_identity=profile, platform="cli", **kwargs)
    return provider


def test_need_27_each_profile_keeps_its_own_settings_and_secrets(tmp_path: Path, dsn: str, second_dsn: str) -> None:
    with ScriptedEmbedder(dims=DIMS) as first_model, ScriptedEmbedder(dims=DIMS) as second_model:
        coder = _home(
            tmp_path / "coder",
            f"    embed_url: {first_model.url}\n    turn_min_chars: 5\n",
            f"HERMES_PGVECTOR_DSN={dsn}\nHERMES_PGVECTOR_EMBED_API_KEY=key-of-coder\n",
        )
        writer = _home(
            tmp_path / "writer",
            f"    dsn: '{second_dsn}'\n    embed_url: {second_model.url}\n    turn_min_chars: 500\n",
            "HERMES_PGVECTOR_EMBED_API_KEY=key-of-writer\n",
        )
        sessions = [_session(coder, "coder"), _session(writer, "writer")]
        for session in sessions:
            session.on_memory_write("add", "memory", "Atlas is blue")
            session.sync_turn("Shall we?", "Then let us go.")
        for session in sessions:
            landed(session)
        for where, theme, turns in ((dsn, "coder", 2), (second_dsn, "writer", 0)):
            assert Database(where).column("SELECT agent_identity FROM memory_entries") == [theme]
            assert Database(where).column("SELECT count(*) FROM conversations") == [turns]
        for model, key in ((first_model, "key-of-coder"), (second_model, "key-of-writer")):
            assert {headers["Authorization"] for headers in model.headers} == {f"Bearer {key}"}
            assert "Atlas is blue" in "".join(model.texts)


def test_need_27_background_work_reads_neither_environment_nor_home_again(
    tmp_path: Path, dsn: str, second_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _home(tmp_path / "other", f"    dsn: '{second_dsn}'\n")
    home = _home(tmp_path / "coder", dotenv="HERMES_PGVECTOR_EMBED_API_KEY=key-of-coder\n")
    write_entries(other, "Borealis is green")
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    with ScriptedEmbedder(dims=DIMS) as model:
        monkeypatch.setenv("HERMES_PGVECTOR_EMBED_URL", model.url)
        with Database(dsn).writes_blocked():
            session = _session(home, "coder")
            session.on_memory_write("add", "memory", "Atlas is blue")
            monkeypatch.setenv("HERMES_PGVECTOR_DSN", second_dsn)
            monkeypatch.setenv("HERMES_PGVECTOR_EMBED_URL", "http://127.0.0.1:1")
            monkeypatch.setenv("HERMES_PGVECTOR_EMBED_API_KEY", "key-of-somebody")
            monkeypatch.setenv("HERMES_HOME", str(other))
            (home / ".env").write_text("HERMES_PGVECTOR_EMBED_API_KEY=key-of-somebody\n")
            (home / "config.yaml").write_text("plugins: {pgvector: {sync_turns: false}}\n")
            session.sync_turn("What have we decided about the Atlas release?", "It waits until the autumn.")
        landed(session)
        assert recalled(session, "what was decided about the atlas release", tool="recall_conversation")
        assert {headers["Authorization"] for headers in model.headers} == {"Bearer key-of-coder"}
    assert Database(dsn).column("SELECT content FROM conversations WHERE embedding IS NULL") == []
    assert Database(dsn).column("SELECT count(*) FROM conversations") == [2]
    assert Database(dsn).themes_of_memory("Atlas is blue") == ["coder"]
    for table in ("memory_entries", "conversations"):
        assert Database(second_dsn).column(f"SELECT count(*) FROM {table}") == [0]
    assert not (other / "pgvector").exists()


def test_need_27_profiles_in_many_threads_stay_apart(tmp_path: Path, dsn: str) -> None:
    """The host calls one provider from several threads, and several providers at once."""
    profiles = [f"profile-{number}" for number in range(6)]
    homes = {name: _home(tmp_path / name, f"    dsn: '{dsn}'\n") for name in profiles}
    for name, home in homes.items():
        write_entries(home, f"Motto of {name}")
    together = threading.Barrier(len(profiles) * 2)
    sessions = {name: PgvectorMemoryProvider() for name in profiles}

    def work(name: str, starts: bool) -> None:
        together.wait(60)
        if starts:
            sessions[name].initialize(f"{name}-1", hermes_home=str(homes[name]), agent_identity=name, platform="cli")
        for number in range(10):
            sessions[name].on_memory_write("add", "memory", f"Fact {number} of {name}")
            sessions[name].sync_turn(
                f"What is fact {number} of {name} about, if I may ask?", f"It is about {name}.", session_id=f"{name}-1"
            )

    with ThreadPoolExecutor(len(profiles) * 2) as pool:
        for done in [pool.submit(work, name, starts) for name in profiles for starts in (True, False)]:
            done.result(150)
    for session in sessions.values():
        landed(session)
    for name, session in sessions.items():
        found = recalled(session, "fact motto of profile")
        assert len(found) == 11 and all(text.endswith(name) for text in found), name
    assert len({id(runtime_of(session)) for session in sessions.values()}) == len(profiles)
    rows = Database(dsn).column("SELECT agent_identity || ' ' || session_id FROM conversations")
    assert set(rows) == {f"{name} {name}-1" for name in profiles}


def test_need_27_a_profile_of_a_gateway_takes_nothing_from_the_env_file_of_another(
    tmp_path: Path, dsn: str, second_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host has put one profile's .env into the environment, and works for another one now."""
    first = _home(tmp_path / "first", dotenv=f"HERMES_PGVECTOR_DSN={dsn}\n")
    other = _home(tmp_path / "other", f"    dsn: '{second_dsn}'\n")
    monkeypatch.setenv("HERMES_HOME", str(first))
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    assert load_settings(None, first).settings.dsn == dsn
    for changed in ("HERMES_PGVECTOR_DSN=postgresql://moved.invalid/hermes\n", ""):
        token = set_hermes_home_override(other)
        try:
            session = _session(other, "other")
            assert load_settings(None, other).settings.dsn == second_dsn
        finally:
            reset_hermes_home_override(token)
        session.on_memory_write("add", "memory", "Atlas is blue")
        landed(session)
        (first / ".env").write_text(changed, encoding="utf-8")
    assert Database(second_dsn).themes_of_memory("Atlas is blue") == ["other"]
    assert Database(dsn).column("SELECT count(*) FROM memory_entries") == [0]


def test_need_27_a_profile_of_a_gateway_sends_no_key_of_another(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedEmbedder(dims=DIMS) as model:
        section = f"    dsn: '{dsn}'\n    embed_url: {model.url}\n    embed_api_key_env: MODEL_KEY\n"
        first = _home(tmp_path / "first", dotenv="MODEL_KEY=key-of-the-first\n")
        homes = [_home(tmp_path / "with", section, "MODEL_KEY=key-of-its-own\n"), _home(tmp_path / "without", section)]
        monkeypatch.setenv("HERMES_HOME", str(first))
        monkeypatch.setenv("MODEL_KEY", "key-of-the-first")
        for home in homes:
            token = set_hermes_home_override(home)
            try:
                session = _session(home, home.name)
            finally:
                reset_hermes_home_override(token)
            session.on_memory_write("add", "memory", f"Atlas is blue, says {home.name}")
            landed(session)
        assert {headers.get("Authorization") for headers in model.headers} == {"Bearer key-of-its-own", None}


def test_need_22_a_command_of_ours_finds_the_key_in_the_env_file_as_agents_do(
    home: Path, dsn: str, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host puts the whole file into the environment of its agents; nobody does that for `hermes-pgvector`."""
    with ScriptedEmbedder(dims=DIMS) as model:
        settings = {"dsn": dsn, "dims": DIMS, "embed_url": model.url, "embed_api_key_env": "MODEL_KEY"}
        (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": settings}}), encoding="utf-8")
        (home / ".env").write_text("MODEL_KEY=key-of-the-file\n", encoding="utf-8")
        assert cli("add", "Atlas is blue").returncode == 0
        assert {headers.get("Authorization") for headers in model.headers} == {"Bearer key-of-the-file"}
        model.headers.clear()
        monkeypatch.setenv("MODEL_KEY", "key-of-the-shell")
        assert cli("add", "Borealis is green").returncode == 0
        assert {headers.get("Authorization") for headers in model.headers} == {"Bearer key-of-the-shell"}


def test_what_is_saved_for_a_profile_is_not_put_into_the_environment_of_another(
    tmp_path: Path, dsn: str, second_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = _home(tmp_path / "first"), _home(tmp_path / "other", dotenv=f"HERMES_PGVECTOR_DSN={dsn}\n")
    monkeypatch.setenv("HERMES_HOME", str(first))
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    for value in (second_dsn, None):
        save(other, Changes(variables={"HERMES_PGVECTOR_DSN": value}))
        assert load_settings(None, first).settings.dsn == dsn
    assert "HERMES_PGVECTOR_DSN" not in (other / ".env").read_text(encoding="utf-8")


def test_what_is_saved_for_the_own_profile_is_followed_where_the_host_had_it_from_there(
    tmp_path: Path, dsn: str, second_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _home(tmp_path / "home", dotenv=f"HERMES_PGVECTOR_DSN={dsn}\n")
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    assert load_settings(None, home).settings.dsn == dsn
    save(home, Changes(variables={"HERMES_PGVECTOR_DSN": second_dsn}))
    assert load_settings(None, home).settings.dsn == os.environ["HERMES_PGVECTOR_DSN"] == second_dsn
    save(home, Changes(variables={"HERMES_PGVECTOR_DSN": None}))
    assert "HERMES_PGVECTOR_DSN" not in os.environ and load_settings(None, home).settings.dsn == ""
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", "postgresql://service.invalid/hermes")
    save(home, Changes(variables={"HERMES_PGVECTOR_DSN": None}))
    assert load_settings(None, home).settings.dsn == "postgresql://service.invalid/hermes", "who started it said so"


def test_need_27_a_profile_takes_in_what_its_own_env_file_names(
    tmp_path: Path, dsn: str, second_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host has put the values of its own home's file into the environment, with what they name taken in."""
    own = _home(tmp_path / "own", dotenv=f"DATABASE={dsn}\nHERMES_PGVECTOR_DSN=${{DATABASE}}\n")
    other = _home(tmp_path / "other", dotenv=f"BASE={second_dsn}\nHERMES_PGVECTOR_DSN=${{BASE}}\n")
    bare = _home(tmp_path / "bare", "    dsn: host=${DATABASE}\n")
    monkeypatch.setenv("HERMES_HOME", str(own))
    monkeypatch.setenv("DATABASE", dsn)
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    assert load_settings(None, own).settings.dsn == dsn
    assert load_settings(None, other).settings.dsn == second_dsn
    assert load_settings(None, bare).settings.dsn == "host=${DATABASE}"


def test_a_configuration_that_is_gone_for_a_moment_does_not_mean_another_database(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Editors empty a file before they write it, and a gateway reads it for each request."""
    home = _home(tmp_path / "home", f"    dsn: '{dsn}'\n")
    config = home / "config.yaml"
    written = config.read_text(encoding="utf-8")
    monkeypatch.setenv("HERMES_HOME", str(home))
    assert load_settings(None, home).settings.dsn == dsn
    for harm in (lambda: config.write_text(""), config.unlink):
        harm()
        session = _session(home, "coder")
        session.on_memory_write("add", "memory", "Atlas is blue")
        landed(session)
    assert Database(dsn).themes_of_memory("Atlas is blue") == ["coder"]
    config.write_text(written.replace(dsn, ""), encoding="utf-8")
    assert load_settings(None, home).settings.dsn == ""


def test_an_env_file_that_is_gone_for_a_moment_does_not_mean_another_database(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _home(tmp_path / "home", dotenv=f"HERMES_PGVECTOR_DSN={dsn}\n")
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    assert load_settings(None, home).settings.dsn == dsn
    (home / ".env").unlink()
    assert load_settings(None, home).settings.dsn == dsn


def test_need_40_a_profile_that_was_renamed_is_told_where_its_memory_is(
    tmp_path: Path, dsn: str, cli: Run, records: Callable[[int], list[str]]
) -> None:
    def said() -> list[str]:
        return [each for each in records(logging.WARNING) if "themes merge" in each]

    def use(name: str) -> PgvectorMemoryProvider:
        session = _session(tmp_path / "profiles" / name, name)
        session.sync_turn(f"Please note that the harbour crane of {name} was greased.", "Noted, the crane was greased.")
        landed(session)
        session.shutdown()
        return session

    (tmp_path / "profiles").mkdir()
    coder = _home(tmp_path / "profiles" / "coder", f"    dsn: '{dsn}'\n")
    use("coder")
    shutil.copytree(coder, coder.with_name("tester"))
    use("tester")
    assert said() == [], "a copy is a profile of its own"

    dev = coder.rename(coder.with_name("dev"))
    use("dev")
    (warning,) = said()
    assert "what it stored in 'coder' is not recalled" in warning and "themes merge coder dev --yes" in warning
    use("dev")
    assert len(said()) == 1
    doctor = cli("doctor", "--hermes-home", str(dev))
    assert "2 rows that it stored in the theme 'coder' are not recalled in 'dev'" in doctor.stdout
    assert "themes merge coder dev --yes" in doctor.stdout
    assert "coder" not in cli("doctor", "--hermes-home", str(dev.with_name("tester"))).stdout

    assert cli("themes", "merge", "coder", "dev", "--yes", "--hermes-home", str(dev)).returncode == 0
    assert Database(dsn).column("SELECT count(*) FROM conversations WHERE agent_identity = 'dev'") == [4]
    assert "not recalled" not in cli("doctor", "--hermes-home", str(dev)).stdout
