"""Several profiles in one process: what a session is was settled when it was initialised."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import DIMS
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
