"""What other memory providers have stored comes along: read from what their own code wrote."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from plugins.memory.holographic.store import MemoryStore
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, MakeProvider
from tests.support.host_history import CHAT_KEY, session_db
from tests.support.memory import landed, recalled, write_entries
from tests.support.recorded import FIXTURES, Bring, load_tables
from tests.support.stored import Database

API_UNKNOWN = "an API session: the host does not record its X-Hermes-Session-Key (--api-theme NAME takes them in)"
CHAT_UNKNOWN = "a chat whose session key is not recorded (--theme NAME takes them in)"


@pytest.fixture
def bring(home: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> Bring:
    return Bring(home, dsn, DIMS, capsys)


@pytest.fixture
def other_dsn(empty_admin_dsn: str) -> str:
    """An admin's conninfo of a database of another program."""
    return empty_admin_dsn


def _memories(dsn: str) -> list[tuple[str, str, str]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "SELECT agent_identity, target, content FROM memory_entries ORDER BY agent_identity, target, content"
        ).fetchall()


def _turns(dsn: str) -> list[tuple[str, str, str, str]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "SELECT agent_identity, session_id, role, left(content, 40) FROM conversations ORDER BY ts, role DESC"
        ).fetchall()


def test_need_29_the_memory_files_of_every_profile_come(bring: Bring, home: Path, dsn: str) -> None:
    written = datetime(2025, 3, 1, tzinfo=UTC)
    for folder, memory, user in (
        (home, "The build server is called hal.\n§\nReleases happen on Thursdays.", ""),
        (home / "profiles" / "work", "Invoices go to Bert.\n§\nInvoices go to Bert.", "Prefers short answers."),
    ):
        (folder / "memories").mkdir(parents=True)
        for name, text in (("MEMORY.md", memory), ("USER.md", user)):
            (folder / "memories" / name).write_text(text, encoding="utf-8")
            os.utime(folder / "memories" / name, (written.timestamp(), written.timestamp()))
    assert _memories(dsn) == [] == [source for source in bring.report("files")["sources"] if not source["themes"]]
    for added in (2, 0):
        assert [source["memories_added"] for source in bring.report("files", "--yes")["sources"]] == [added, added]
    assert _memories(dsn) == [
        ("default", "memory", "Releases happen on Thursdays."),
        ("default", "memory", "The build server is called hal."),
        ("work", "memory", "Invoices go to Bert."),
        ("work", "user", "Prefers short answers."),
    ]
    assert Database(dsn).column("SELECT DISTINCT created_at FROM memory_entries") == [written]


def test_need_29_a_memory_file_that_cannot_be_read_is_told_and_nothing_is_left_in_a_home(
    bring: Bring, home: Path, dsn: str
) -> None:
    file = home / "profiles" / "work" / "memories" / "MEMORY.md"
    file.parent.mkdir(parents=True)
    file.write_text("Invoices go to Bert.", encoding="utf-16")
    (file.parent / "USER.md").write_text("Prefers short answers.", encoding="utf-8")
    report = bring.report("files", "--yes", code=1)
    assert report["failed"].keys() == {str(file)} and "UTF-16" in report["failed"][str(file)]
    assert _memories(dsn) == [("work", "user", "Prefers short answers.")]
    assert bring.text("files", code=1).count("UTF-16") == 1
    assert not (home / "profiles" / "work" / "pgvector").exists(), "the source is not changed"


def test_need_29_what_was_removed_since_is_not_brought_back(
    bring: Bring, home: Path, dsn: str, make_provider: MakeProvider
) -> None:
    file = home / "memories" / "MEMORY.md"
    file.parent.mkdir()
    file.write_text("The build server is called hal.", encoding="utf-8")
    live = make_provider(platform="cli", gateway_session_key="", agent_identity="default")
    landed(live)
    live.on_memory_write("remove", "memory", "", {"old_text": "The build server is called hal."})
    landed(live)
    assert bring.only("files", "--yes")["skipped"] == {"removed since it was written": 1}
    assert _memories(dsn) == []


@pytest.mark.parametrize("text", ["Hal builds.", "Hal wants password: hunter2hunter2"], ids=["plain", "masked"])
@pytest.mark.parametrize("change", [("forget",), ("edit", "Hal sleeps.")], ids=["forgotten", "edited"])
def test_need_29_what_was_removed_since_stays_so_although_the_file_changed_later(
    bring: Bring, home: Path, dsn: str, make_provider: MakeProvider, change: tuple[str, ...], text: str
) -> None:
    write_entries(home, text, age_s=60)
    landed(make_provider(platform="cli", gateway_session_key="", agent_identity="default"))
    verb, *to = change
    (number,) = Database(dsn).column("SELECT id FROM memory_entries")
    assert main([verb, f"m{number}", *to, "--yes", "--hermes-home", str(home)]) == 0
    left = _memories(dsn)
    write_entries(home, text, "Invoices go to Bert.", age_s=-60)

    done = bring.only("files", "--yes")

    assert (done["memories_added"], done["skipped"]) == (1, {"removed since it was written": 1})
    assert _memories(dsn) == sorted([*left, ("default", "memory", "Invoices go to Bert.")])


@pytest.mark.parametrize("first", ["brought", "read in"])
def test_need_29_what_was_brought_from_a_file_goes_with_its_entry(
    bring: Bring, home: Path, dsn: str, make_provider: MakeProvider, first: str
) -> None:
    def read_in() -> None:
        live = make_provider(platform="cli", gateway_session_key="", agent_identity="default")
        landed(live)
        live.shutdown()

    file = home / "memories" / "MEMORY.md"
    file.parent.mkdir()
    file.write_text("Releases happen on Thursdays.\n§\nHal builds.\n§\nInvoices go to Bert.", encoding="utf-8")
    if first == "read in":
        read_in()
    bring.only("files", "--yes")
    bring.only("files", "--theme", "archive", "--yes")
    read_in()
    file.write_text("Hal builds.\n§\nInvoices go to Bert.", encoding="utf-8")
    read_in()
    file.write_text("Hal builds.", encoding="utf-8")
    live = make_provider(platform="cli", gateway_session_key="", agent_identity="default")
    live.on_memory_write("remove", "memory", "", {"old_text": "Invoices go to Bert."})
    landed(live)
    assert [content for theme, _, content in _memories(dsn) if theme == "default"] == ["Hal builds."]
    assert len(_memories(dsn)) == 4, "what went into another theme is of no file"


def test_need_29_a_memory_of_the_other_hermes_memory_pgvector_goes_with_its_entry_of_the_file(
    bring: Bring, home: Path, dsn: str, other_dsn: str, make_provider: MakeProvider
) -> None:
    load_tables(other_dsn, "predecessor.json")
    bring.only("predecessor", "--dsn", other_dsn, "--yes")
    file = home / "memories" / "MEMORY.md"
    file.parent.mkdir()
    for more in ("\n§\nReleases happen on Thursdays.", ""):
        file.write_text(f"The build server is called hal.{more}", encoding="utf-8")
        landed(make_provider(platform="cli", gateway_session_key="", agent_identity="default"))
    assert _memories(dsn) == [
        ("default", "memory", "The build server is called hal."),
        ("default", "user", "Prefers short answers."),
        ("marketing", "memory", "The newsletter goes out on the first Monday."),
        ("marketing", "user", "Ana decides on budgets."),
    ]


def test_need_29_an_entry_of_a_file_that_another_session_wrote_stays_in_its_theme(
    bring: Bring, home: Path, dsn: str, make_provider: MakeProvider
) -> None:
    (home / "memories").mkdir()
    client = make_provider(gateway_session_key="team blue")
    client.on_memory_write("add", "memory", "Atlas is blue.")
    (home / "memories" / "MEMORY.md").write_text("Atlas is blue.\n§\nThe build server is called hal.", encoding="utf-8")
    landed(client)
    client.shutdown()

    done = bring.only("files", "--yes")

    assert done["memories_added"] == 1 and list(done["skipped"].values()) == [1]
    assert ("default", "memory", "Atlas is blue.") not in _memories(dsn)
    assert bring.only("files", "--theme", "archive")["themes"]["archive"]["memories"] == 2


@pytest.fixture
def facts(home: Path) -> Iterator[MemoryStore]:
    """The fact store of the bundled provider, open as the host has it."""
    store = MemoryStore(db_path=home / "memory_store.db")
    yield store
    store.close()


def test_need_29_the_facts_of_holographic_come(bring: Bring, home: Path, dsn: str, facts: MemoryStore) -> None:
    changed = facts.add_fact("The build server is called hal.", category="project", tags="build,server")
    facts.add_fact("Prefers short answers.", category="user_pref")
    facts.add_fact("ok")
    facts.update_fact(changed, content="The build server is called eva.", trust_delta=0.2)
    with sqlite3.connect(home / "memory_store.db") as file:
        file.execute("UPDATE facts SET created_at = '2025-03-01 10:00:00'")
    file.close()
    source = bring.only("holographic", "--yes")
    assert (source["memories_added"], source["skipped"]) == (2, {"acknowledgement": 1})
    assert bring.only("holographic", "--yes")["memories_added"] == 0
    assert _memories(dsn) == [
        ("default", "memory", "The build server is called eva."),
        ("default", "user", "Prefers short answers."),
    ]
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT created_at, updated_at > created_at, metadata FROM memory_entries WHERE target = 'memory'"
        ).fetchone()
    kept = {"tags": "build,server", "trust": 0.7, "category": "project", "profile": "default"}
    assert row == (datetime(2025, 3, 1, 10, tzinfo=UTC), True, {"source": "import:holographic"} | kept)


def test_need_29_a_large_store_comes_whole(bring: Bring, home: Path, dsn: str, facts: MemoryStore) -> None:
    facts.add_fact("Fact 0 of the build server.")
    with sqlite3.connect(home / "memory_store.db") as file:
        file.executemany(
            "INSERT INTO facts (content) VALUES (?)", [(f"Fact {n} of the build server.",) for n in range(1, 4501)]
        )
    file.close()
    source = bring.only("holographic", "--yes")
    assert (source["read"], source["memories_added"]) == (4501, 4501)


MEM0 = [
    ("default", "memory", "Ana wants the reports on Mondays."),
    ("default", "memory", "The reports go out on Mondays at nine."),
    ("default", "memory", "The staging cluster runs Postgres 16."),
]
MEM0_SKIPPED = {"acknowledgement": 1, API_UNKNOWN: 1}


def test_need_29_the_facts_of_mem0_come_from_its_local_qdrant(bring: Bring, home: Path, dsn: str) -> None:
    place = home / "mem0_qdrant"
    shutil.copytree(FIXTURES / "mem0" / "qdrant", place)
    store = {"provider": "qdrant", "config": {"path": str(place)}}
    _configure_mem0(home, store)
    source = bring.only("mem0", "--yes")
    assert (source["memories_added"], source["skipped"], source["where"]) == (3, MEM0_SKIPPED, str(place))
    assert _memories(dsn) == MEM0
    metadata = Database(dsn).column("SELECT metadata FROM memory_entries WHERE content LIKE 'Ana%%'")[0]
    assert metadata["channel"] == "telegram" and metadata["agent_id"] == "hermes"
    assert "4915112345678" not in str(metadata)
    assert source["themes"]["default"]["first"][:4] == "2026", "the time Mem0 noted"
    assert bring.only("mem0", "--yes")["memories_added"] == 0

    # The same facts from the other places in which Mem0 keeps them.
    history = bring.only("mem0", "--path", FIXTURES / "mem0" / "history.db")
    assert (history["memories_added"], history["memories_there"]) == (1, 3), "a history knows no channels"
    assert history["skipped"] == {"acknowledgement": 1, "deleted there": 1}


def test_need_29_the_facts_of_mem0_come_from_its_postgres(bring: Bring, home: Path, dsn: str, other_dsn: str) -> None:
    load_tables(other_dsn, "mem0_pgvector.json")
    source = bring.only("mem0", "--dsn", other_dsn, "--yes")
    assert (source["memories_added"], source["skipped"]) == (3, MEM0_SKIPPED)
    assert _memories(dsn) == MEM0
    # With a chat's memories kept in the chat, nobody knows where these belong.
    bring.configure(messaging_theme="chat")
    assert bring.only("mem0", "--dsn", other_dsn)["skipped"][CHAT_UNKNOWN] == 2
    assert bring.only("mem0", "--dsn", other_dsn, "--theme", "old")["memories_added"] == 4
    assert "no table notes" in bring.text("mem0", "--dsn", other_dsn, "--collection", "notes", code=1)
    known = conninfo_to_dict(other_dsn)
    _configure_mem0(home, {"provider": "pgvector", "config": {key: known[key] for key in ("host", "user", "dbname")}})
    assert bring.only("mem0", "--theme", "old")["memories_added"] == 4


@pytest.mark.parametrize("program", ["mem0", "predecessor"])
def test_need_04_what_was_said_in_a_chat_is_private_to_the_theme_it_is_brought_into(
    bring: Bring, dsn: str, other_dsn: str, make_provider: MakeProvider, program: str
) -> None:
    load_tables(other_dsn, "mem0_pgvector.json" if program == "mem0" else "predecessor.json")
    if program == "predecessor":
        key = "agent:main:telegram:dm:4915112345678"
        row = ("Ana wants the reports on Mondays.", json.dumps({"raw_identity": key}))
        with psycopg.connect(other_dsn) as connection:
            connection.execute(
                "INSERT INTO memory_entries (id, agent_identity, target, content, created_at, updated_at, metadata) "
                "VALUES (99, 'x', 'memory', %s, now(), now(), %s)",
                row,
            )
    own = make_provider(platform="cli", gateway_session_key="", agent_identity="default")
    for _ in range(2):
        bring.only(program, "--dsn", other_dsn, "--yes")
        assert ("default", "memory", "Ana wants the reports on Mondays.") in _memories(dsn)
        assert "Ana wants the reports on Mondays." in recalled(own, "reports on Mondays")
        for scope in ("default", "all"):
            found = recalled(make_provider(), "reports on Mondays", scope=scope)
            assert not [text for text in found if "Mondays" in text]
        with psycopg.connect(dsn) as connection:  # as earlier versions left it
            connection.execute("UPDATE memory_entries SET metadata = metadata - 'platform'")


def test_need_29_a_pickle_that_names_code_is_not_run(bring: Bring, tmp_path: Path) -> None:
    place, marker = tmp_path / "qdrant", tmp_path / "ran"
    shutil.copytree(FIXTURES / "mem0" / "qdrant", place)

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(marker),)

    trap = io.BytesIO()
    pickle.dump(Trap(), trap)
    with closing(sqlite3.connect(place / "collection" / "mem0" / "storage.sqlite")) as file, file:
        file.execute("INSERT INTO points VALUES ('trap', ?)", (trap.getvalue(),))
    source = bring.only("mem0", "--path", place)
    assert source["skipped"] == MEM0_SKIPPED | {"cannot be read": 1}
    assert not marker.exists()


def test_need_29_a_store_of_mem0_elsewhere_is_named(bring: Bring, home: Path, tmp_path: Path) -> None:
    assert f"no mem0.json in {home}" in bring.text("mem0", code=1)
    _configure_mem0(home, {"provider": "qdrant", "config": {"url": "http://127.0.0.1:6333"}})
    assert "names no store that can be read here" in bring.text("mem0", code=1)
    (tmp_path / "nothing").mkdir()
    assert "is no folder of qdrant-client" in bring.text("mem0", "--path", tmp_path / "nothing", code=1)
    said = bring.text("mem0", "--path", FIXTURES / "mem0" / "qdrant", "--collection", "notes", code=1)
    assert "has no collection notes; it has mem0" in said


def _configure_mem0(home: Path, store: dict[str, Any]) -> None:
    (home / "mem0.json").write_text(json.dumps({"mode": "oss", "oss": {"vector_store": store}}), encoding="utf-8")


def test_need_29_conversations_and_facts_of_hindsight_come(bring: Bring, home: Path, dsn: str, other_dsn: str) -> None:
    load_tables(other_dsn, "hindsight.json")
    with psycopg.connect(other_dsn) as connection:  # a text may hold what Python takes for the end of a line
        connection.execute(
            "UPDATE documents SET original_text = replace(original_text, ', behind the', E',\u2028behind the')"
        )
    source = bring.only("hindsight", "--dsn", other_dsn, "--yes")
    assert source["skipped"] == {
        "a part of a document that is taken whole": 3,
        "acknowledgement": 2,
        CHAT_UNKNOWN: 2,
    }
    assert _turns(dsn) == [
        ("default", "20261101_120000_aaaa01", "user", "Which port does the staging Postgres liste"[:40]),
        ("default", "20261101_120000_aaaa01", "assistant", "The staging Postgres listens on port 5433"[:40]),
        ("default", "20261101_120000_aaaa01", "user", "And who may log in there?"),
        ("default", "20261101_120000_aaaa01", "assistant", "Only the deploy role may log in there; p"),
    ]
    assert _memories(dsn) == [
        ("default", "memory", "Ana prefers reports on Monday mornings."),
        ("default", "memory", "The log-in rules of staging were explained | Involving: the deploy role"),
        ("default", "memory", "The staging Postgres listens on port 5433"),
    ]
    assert bring.only("hindsight", "--dsn", other_dsn, "--yes")["turns_added"] == 0

    # The host's own database knows the key of the chat, and so the theme that its live sessions have.
    with session_db(home) as db:
        db.create_session("20261102_120000_bbbb02", "telegram")
        db.record_gateway_session_peer(
            "20261102_120000_bbbb02", source="telegram", session_key=CHAT_KEY, chat_id="99", chat_type="dm"
        )
    source = bring.only("hindsight", "--dsn", other_dsn, "--yes")
    assert source["turns_added"] == 2 and CHAT_UNKNOWN not in source["skipped"]
    (chat,) = {theme for theme, *_ in _turns(dsn)} - {"default"}
    assert chat.startswith("@telegram/default/")
    parents = Database(dsn).column(
        "SELECT DISTINCT metadata ->> 'parent_session_id' FROM conversations WHERE agent_identity = %s", chat
    )
    assert parents == ["20261101_120000_aaaa01"]
    assert "no table documents" in bring.text("hindsight", "--dsn", other_dsn, "--schema", "nowhere", code=1)
    assert bring.only("hindsight", "--dsn", other_dsn, "--bank", "nobody")["read"] == 0


def test_need_29_the_tables_of_the_other_hermes_memory_pgvector_come(
    bring: Bring, dsn: str, other_dsn: str, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_tables(other_dsn, "predecessor.json")
    monkeypatch.setenv("HERMES_PGVECTOR_SOURCE_DSN", other_dsn)
    source = bring.only("predecessor", "--yes")
    assert source["skipped"] == {"said before in this session": 2}
    turns = _turns(dsn)
    (chat,) = {theme for theme, *_ in turns} - {"default", "marketing"}
    assert turns == [
        ("marketing", "s-1", "user", "Which database does the marketing site u"),
        ("marketing", "s-1", "assistant", "The marketing site uses Postgres 16 on d"),
        ("marketing", "s-1", "assistant", "Always at your service, just ask me what"),
        (chat, "s-2", "user", "Please summarise what we know about the "),
        (chat, "s-2", "assistant", "The invoice run takes place on the third"),
        (chat, "s-2", "tool", "[delegation] task: Find the price list\nr"[:40]),
        ("default", "s-3", "user", "What did the health check of the cluster"),
        ("default", "s-3", "assistant", "Node seven has a failing disk and is dra"),
    ]
    assert _memories(dsn) == [
        ("default", "memory", "Releases happen on Thursdays."),
        ("default", "memory", "The build server is called hal."),
        ("default", "user", "Prefers short answers."),
        ("marketing", "memory", "The newsletter goes out on the first Monday."),
        ("marketing", "user", "Ana decides on budgets."),
    ]
    assert not any("4915112345678" in text for text in Database(dsn).column("SELECT c::text FROM conversations AS c"))
    edges = Database(dsn).column("SELECT metadata -> 'delegation' FROM conversations WHERE role = 'tool'")
    assert edges == [{"parent": "s-2", "child": "child-1"}]
    again = bring.only("predecessor", "--yes")
    assert again["memories_added"] == again["turns_added"] == 0
    # The chat is the very theme that the chat's live sessions have.
    key = "agent:main:telegram:dm:4915112345678"
    live = make_provider(platform="telegram", gateway_session_key=key, agent_identity="default", session_id="live")
    live.sync_turn("Which month do we speak of when we say this month, please?", "November, of course, it is November.")
    landed(live)
    assert Database(dsn).column("SELECT agent_identity FROM conversations WHERE session_id = 'live' LIMIT 1") == [chat]


def test_need_29_our_own_tables_are_not_brought_into_themselves(
    bring: Bring, dsn: str, admin_dsn: str, postgres: EmbeddedServer
) -> None:
    assert "are of this program itself" in bring.text("predecessor", "--dsn", dsn, code=1)
    # Beside ours, in a schema of their own, the other's tables are read.
    load_tables(admin_dsn, "predecessor.json", schema="old")
    assert bring.only("predecessor", "--dsn", admin_dsn, "--schema", "old")["turns_added"] == 8
    assert "where is the database? --dsn DSN" in bring.text("predecessor", code=2)
    nowhere = make_conninfo(dsn, dbname="nowhere", password="hushhush")
    said = bring.text("predecessor", "--dsn", nowhere, code=1)
    assert "the source cannot be read" in said and "hushhush" not in said
    assert "no table memory_entries" in bring.text("predecessor", "--dsn", postgres.ensure().admin, code=1)
