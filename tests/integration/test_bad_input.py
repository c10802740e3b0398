"""Servers, passwords, names and directories that are wrong: a clear message each, nothing raised, nothing lost."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed, recalled, runtime_of
from tests.support.password_role import password_role
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run

Records = Callable[[int], list[str]]
ANSWER = "That is a long enough answer to be worth storing, about the Atlas project."


@pytest.fixture
def password_dsn(postgres: EmbeddedServer, direct_dsn: str) -> Iterator[str]:
    """A conninfo for a role that Postgres asks for a password, which it does not hold."""
    with password_role(postgres, direct_dsn) as conninfo:
        yield conninfo


def _refused(provider: PgvectorMemoryProvider) -> str:
    """What a session says that cannot reach its store; its writes are kept."""
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.sync_turn("Which colour did we choose for the Atlas project?", ANSWER)
    assert provider.prefetch("Is Atlas blue?") == ""
    answer = called(provider, "recall_memory", {"query": "atlas"})
    assert set(answer) == {"error"}
    assert runtime_of(provider).stats()["queue_depth"] == 2
    return str(answer["error"])


def test_need_02_a_missing_server_is_said_once_and_writes_are_kept(
    make_provider: MakeProvider, dsn: str, records: Records, cli: Run, home: Path
) -> None:
    nowhere = "host=127.0.0.1 port=1 user=hermes dbname=memory password=s3cr3t"
    provider = make_provider({"dsn": nowhere})
    assert provider.is_available(), "a server that is down comes back"
    assert "start Postgres there, or correct host and port in `dsn`" in _refused(provider)
    (said,) = records(logging.WARNING)
    assert "writes are kept on disk until it is back" in said
    provider.shutdown()
    (said,) = [line for line in records(logging.WARNING) if "before shutdown" in line]
    assert "2 writes" in said and "stay in the spool" in said
    assert "s3cr3t" not in "\n".join(records(logging.DEBUG))
    close_all()  # the end of the process
    (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dsn: '{nowhere}', dims: {DIMS}}}}}\n")
    done = cli("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1 and checks["postgres"]["state"] == "fail"
    assert "2 writes" in checks["spool"]["said"]
    provider = make_provider()
    until(lambda: recalled(provider, "atlas"), what="what the stopped process left")
    assert Database(dsn).column("SELECT count(*) FROM conversations") == [2]


def test_need_02_a_wrong_password_is_named_without_it(
    make_provider: MakeProvider, password_dsn: str, tmp_path: Path, records: Records
) -> None:
    for password, remedy in (("wr0ng", "check the user and password in `dsn`"), ("", "put the password into `dsn`")):
        config = {"dsn": make_conninfo(password_dsn, **({"password": password} if password else {})), "dims": DIMS}
        assert PgvectorMemoryProvider(config).is_available(), "what is said meanwhile is kept"
        assert remedy in _refused(make_provider(config, hermes_home=str(tmp_path / f"home-{password}")))
    said = "\n".join(records(logging.DEBUG))
    assert said.count("memory is out of reach") == 2
    assert "wr0ng" not in said
    right = make_provider({"dsn": make_conninfo(password_dsn, password="right")})
    assert "migrate --admin-dsn DSN --runtime-role ROLE" in _refused(right)


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"user": "nosuchrole"}, "allow this host and role in the server's pg_hba.conf"),
        ({"dbname": "nosuchbase"}, 'database "nosuchbase" does not exist; create it, or correct `dsn`'),
        ({"host": "/no/such/directory", "requirepeer": None}, "correct the socket directory in `dsn`"),
        ({"host": "no-such-host.invalid", "requirepeer": None}, "correct the host in `dsn`"),
    ],
)
def test_need_02_a_wrong_dsn_says_which_part(
    make_provider: MakeProvider, direct_dsn: str, change: dict[str, str | None], remedy: str
) -> None:
    assert remedy in _refused(make_provider({"dsn": make_conninfo(direct_dsn, **change)}))


def test_need_02_a_dsn_that_cannot_be_read_is_said_without_its_password(
    make_provider: MakeProvider, tmp_path: Path, records: Records
) -> None:
    for text in (
        "postgresql://u:s3cr3t@[::1/db",
        "host=x password='s3cr3t",
        "password=a s3cr3t host=x",
        "hots=x password=s3cr3t",
    ):
        assert PgvectorMemoryProvider({"dsn": text}).is_available()
        said = _refused(make_provider({"dsn": text}, hermes_home=str(tmp_path / str(len(text)))))
        assert "`dsn` cannot be read" in said and "s3cr3t" not in said
    assert "s3cr3t" not in "\n".join(records(logging.DEBUG))


def test_need_02_another_dimension_leaves_recall_by_words(
    make_provider: MakeProvider, records: Records, dsn: str
) -> None:
    provider = make_provider({"dims": 512, "embed_url": "http://127.0.0.1:1"})
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert recalled(provider, "atlas") == ["Atlas is blue"]
    (said,) = records(logging.WARNING)
    assert "recall is lexical only" in said and f"set plugins.pgvector.dims to {DIMS}" in said


@pytest.mark.parametrize("listed_first", [True, False])
def test_need_18_a_model_is_the_same_with_the_tag_that_ollama_lists_it_with(
    make_provider: MakeProvider, records: Records, embedder: ScriptedEmbedder, dsn: str, listed_first: bool
) -> None:
    names = ["nomic-embed-text", "nomic-embed-text:latest"]
    for number, name in enumerate(sorted(names, reverse=listed_first)):
        provider = make_provider({"embed_url": embedder.url, "embed_model": name})
        provider.on_memory_write("add", "memory", f"Atlas is blue {number}")
        landed(provider)
        assert called(provider, "recall_memory", {"query": "Atlas is blue 0"})["mode"] == "hybrid"
    assert Database(dsn).column("SELECT count(embedding) FROM memory_entries") == [2]
    other = make_provider({"embed_url": embedder.url, "embed_model": "nomic-embed-text:v1"})
    assert called(other, "recall_memory", {"query": "Atlas is blue 0"})["mode"] == "lexical"
    (said,) = [line for line in records(logging.WARNING) if "recall is lexical only" in line]
    assert "'nomic-embed-text:v1'" in said


def test_need_40_the_same_model_with_another_prefix_is_told_by_the_prefix(
    make_provider: MakeProvider, records: Records, embedder: ScriptedEmbedder
) -> None:
    provider = make_provider({"embed_url": embedder.url})
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    other = make_provider({"embed_url": embedder.url, "embed_document_prefix": "passage: "})
    assert recalled(other, "atlas") == ["Atlas is blue"]
    (said,) = [line for line in records(logging.WARNING) if "recall is lexical only" in line]
    assert "with the prefix 'search_document: '" in said and "this process uses it with 'passage: '" in said


@pytest.mark.parametrize(
    "key",
    [
        "k" * 257,
        "ключ" * 65,
        "\udcff\udcfe" * 20,
        "a/b\\c'd\"e;--\t",
        "x" * 256,
        "🙂" * 256,
        "%",
        "theme:x",
        "\u200bzero",
    ],
)
def test_need_04_any_session_key_makes_a_theme_of_its_own(make_provider: MakeProvider, dsn: str, key: str) -> None:
    for name in (key, key[:-1] + "_"):
        provider = make_provider(gateway_session_key=name)
        provider.on_memory_write("add", "memory", f"Atlas of {name!a}")
        provider.sync_turn("Which colour did we choose for the Atlas project?", ANSWER)
        landed(provider)
        assert recalled(provider, "atlas of") == [f"Atlas of {name!a}"]
    themes = Database(dsn).column("SELECT DISTINCT agent_identity FROM memory_entries")
    assert len(themes) == 2 and all(len(theme) <= 256 for theme in themes)


def test_need_26_session_ids_with_nul_and_without_text(make_provider: MakeProvider, dsn: str) -> None:
    sessions: list[Any] = ["\0", "", None, 7, "a\0b", ["x"], "\udcff"]
    for session in sessions:
        provider = make_provider(session_id=session)
        provider.sync_turn(f"Which colour did we choose in {session!r}, do you remember?", ANSWER, session_id=session)
        provider.on_session_switch(session)
        assert "error" not in called(provider, "recall_conversation", {"query": "colour", "scope": "session"})
        landed(provider)
    assert Database(dsn).column("SELECT count(*) FROM conversations") == [14]
    assert set(Database(dsn).column("SELECT session_id FROM conversations")) == {"unknown", "7", "ab", "x", "\ufffd"}


def test_need_03_an_unwritable_home_is_said_once_and_writes_still_land(
    make_provider: MakeProvider, tmp_path: Path, records: Records, dsn: str
) -> None:
    obstacle = tmp_path / "a-file"
    obstacle.write_text("not a directory")
    place = str(obstacle / "hermes")  # no permission would keep root from writing
    for number in range(3):
        provider = make_provider(hermes_home=place, session_id=f"session-{number}")
        provider.on_memory_write("add", "memory", f"Atlas has part {number}")
        provider.sync_turn(f"Which colour did we choose for part {number} of Atlas?", ANSWER)
    landed(provider)
    assert len(recalled(provider, "atlas part")) == 3
    assert Database(dsn).column("SELECT count(*) FROM conversations") == [6]
    (said,) = records(logging.WARNING)
    assert "are kept in" in said and str(tmp_path / "state") in said and place in said
    provider.shutdown()


def test_need_03_where_nothing_can_be_written_and_the_server_is_dead_nothing_is_lost_silently(
    make_provider: MakeProvider, tmp_path: Path, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    obstacle = tmp_path / "a-file"
    obstacle.write_text("not a directory")
    for place in ("XDG_STATE_HOME", "TMPDIR"):
        monkeypatch.setenv(place, str(obstacle))
    config = {"dsn": "host=127.0.0.1 port=1", "write_queue_max_mb": 1, "shutdown_timeout_s": 0}
    provider = make_provider(config, hermes_home=str(obstacle / "hermes"))
    for number in range(4):
        provider.on_memory_write("add", "memory", f"Atlas has part {number}" + "!" * 400_000)
    assert runtime_of(provider).stats()["refused"] == 2
    assert any("refused and is lost" in line for line in records(logging.ERROR))
    provider.shutdown()
    (said,) = [line for line in records(logging.WARNING) if "before shutdown" in line]
    assert "2 writes" in said and "are lost" in said
