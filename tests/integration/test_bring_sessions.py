"""The conversations in the host's own session database come along."""

from __future__ import annotations

import hashlib
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.admin.transfer.sources import sqlite_file
from tests.conftest import DIMS, MakeProvider
from tests.support import host_history as said
from tests.support.host_history import BEGAN, session_db, write_history
from tests.support.memory import landed, recalled
from tests.support.recorded import Bring
from tests.support.stored import Database


@pytest.fixture
def bring(home: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> Bring:
    return Bring(home, dsn, DIMS, capsys)


def _turns(dsn: str) -> list[tuple[str, str, str, str, datetime]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "SELECT agent_identity, session_id, role, content, ts FROM conversations ORDER BY ts, role DESC"
        ).fetchall()


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(BEGAN, UTC) + timedelta(seconds=seconds)


def test_need_29_sessions_come_with_their_times_sides_and_parents(
    bring: Bring, home: Path, dsn: str, make_provider: MakeProvider
) -> None:
    write_history(home)
    dry = bring.only("sessions")
    assert _turns(dsn) == []
    assert bring.only("sessions", "--yes")["turns_added"] == dry["turns_added"] == 11
    turns = _turns(dsn)
    (chat,) = {theme for theme, *_ in turns} - {"default"}
    assert turns == [
        ("default", "cli-1", "user", said.PORT, _at(10)),
        ("default", "cli-1", "assistant", said.PORT_IS, _at(40)),
        ("default", "cli-1", "assistant", "The price list is at /srv/prices.csv, the sub-agent says.", _at(80)),
        ("default", "cli-1", "user", said.PICTURE, _at(90)),
        ("default", "cli-1", "assistant", said.PICTURE_IS, _at(100)),
        ("default", "cli-1", "user", said.COLOUR, _at(1000)),
        ("default", "cli-1", "assistant", said.COLOUR_IS, _at(1010)),
        (chat, "chat-1", "user", said.INVOICES, _at(2000)),
        (chat, "chat-1", "assistant", said.INVOICES_ARE, _at(2010)),
        (chat, "chat-2", "user", said.SIGNED, _at(3000)),
        (chat, "chat-2", "assistant", said.SIGNED_BY, _at(3010)),
    ]
    assert dry["themes"]["default"] | {"added": 0} == {
        "memories": 0, "turns": 7, "added": 0, "first": _at(10).isoformat(), "last": _at(1010).isoformat(),
    }  # fmt: skip
    parent = "SELECT DISTINCT metadata ->> 'parent_session_id' FROM conversations WHERE session_id = 'chat-2'"
    assert Database(dsn).column(parent) == ["chat-1"]
    rows = Database(dsn).column("SELECT to_jsonb(c)::text FROM conversations AS c")
    assert not any("4915112345678" in row for row in rows)

    # The agent remembers, in the chat the chat's own.
    agent = make_provider(platform="cli", gateway_session_key="", agent_identity="default", session_id="new")
    assert said.PORT_IS in recalled(agent, "staging Postgres port", tool="recall_conversation")
    assert not recalled(agent, "invoice run signed", tool="recall_conversation")
    ana = make_provider(
        platform="telegram", gateway_session_key=said.CHAT_KEY, agent_identity="default", session_id="n"
    )
    assert said.SIGNED_BY in recalled(ana, "who signs invoices", tool="recall_conversation")


def test_need_29_what_is_left_out_is_told_with_the_reason(bring: Bring, home: Path) -> None:
    write_history(home)
    source = bring.only("sessions")
    assert source["read"] == source["turns_added"] + sum(source["skipped"].values()) == 28
    assert source["skipped"] == {
        "said before in this session": 3,
        "acknowledgement": 2,
        "a run of kind cron": 2,
        "a run of kind subagent": 2,
        "an API session: the host does not record its X-Hermes-Session-Key (--api-theme NAME takes them in)": 2,
        "system text": 1,
        "a call of tools": 1,
        "tool output": 1,
        "synthetic": 1,
        "a message without an answer": 1,
        "a summary of a compression": 1,
    }
    assert "message 6: acknowledgement" in source["examples"]
    assert bring.only("sessions", "--since", "2026")["skipped"]["outside the period"] == 11
    assert bring.only("sessions", "--until", "2025-10-08")["turns_added"] == 0
    shown = bring.text("sessions")
    assert "2 left out: acknowledgement" in shown and "nothing was changed: add --yes to bring 11" in shown


def test_need_29_a_second_run_and_one_after_live_capture_add_nothing_twice(
    bring: Bring, home: Path, dsn: str, make_provider: MakeProvider
) -> None:
    live = make_provider(platform="cli", gateway_session_key="", agent_identity="default", session_id="cli-7")
    live.sync_turn(said.PORT, said.PORT_IS, session_id="cli-7")
    landed(live)
    with session_db(home) as db:
        db.create_session("cli-7", "cli")
        now = datetime.now(UTC).timestamp()
        said.say(db, "cli-7", ("user", said.PORT), ("assistant", said.PORT_IS), at=now - 600)
        said.say(db, "cli-7", ("user", said.COLOUR), ("assistant", said.COLOUR_IS), at=now - 300)
    first = bring.only("sessions", "--yes")
    assert (first["turns_added"], first["turns_there"]) == (2, 2)
    again = bring.only("sessions", "--yes")
    assert (again["turns_added"], again["turns_there"]) == (0, 4)
    assert [content for *_, content, _ in _turns(dsn)].count(said.PORT) == 1


def test_need_04_what_was_said_on_the_command_line_in_a_chats_session_does_not_go_to_the_chat(
    bring: Bring, home: Path, dsn: str, make_provider: MakeProvider
) -> None:
    write_history(home)
    with session_db(home) as db:
        now = datetime.now(UTC).timestamp()
        said.say(db, "chat-1", ("user", said.COLOUR), ("assistant", said.COLOUR_IS), at=now)
    live = make_provider(platform="cli", gateway_session_key="", agent_identity="default", session_id="chat-1")
    live.sync_turn(said.COLOUR, said.COLOUR_IS, session_id="chat-1")
    live.sync_turn("Tell me about the invoice run of this month, please.", said.INVOICES_ARE, session_id="chat-1")
    landed(live)
    left_out = bring.only("sessions", "--yes")["skipped"]
    assert left_out["stored in another theme, in which it was said"] == 2
    of_chat = [(theme, content) for theme, session, _, content, _ in _turns(dsn) if session == "chat-1"]
    assert len(of_chat) == 6 and {theme for theme, content in of_chat if content == said.COLOUR} == {"default"}
    bring.only("sessions", "--yes", "--theme", "everything")
    assert ("everything", "chat-1", "user", said.COLOUR) in [turn[:4] for turn in _turns(dsn)], "unless it is asked for"


def test_need_29_what_the_host_writes_before_an_answer_does_not_take_it_away(
    bring: Bring, home: Path, dsn: str
) -> None:
    tasks = "[Your active task list was preserved across context compression]\n- [>] 1. paint the boat (in_progress)"
    cron = "[Cron delivery: tides]\nHigh tide in Leer is at four in the afternoon, low tide at ten in the evening."
    with session_db(home) as db:
        db.create_session("cli-7", "cli")
        first = ("user", said.PORT), ("user", tasks), ("assistant", said.PORT_IS)
        second = ("user", cron), ("user", said.COLOUR), ("user", cron), ("assistant", said.COLOUR_IS)
        said.say(db, "cli-7", *first, *second, at=BEGAN)
    assert bring.only("sessions", "--yes")["turns_added"] == 4
    assert [content for *_, content, _ in _turns(dsn)] == [said.PORT, said.PORT_IS, said.COLOUR, said.COLOUR_IS]


def test_need_29_an_api_session_goes_to_no_theme_that_is_guessed(
    bring: Bring, home: Path, dsn: str, make_provider: MakeProvider
) -> None:
    for theme, session in (("marketing", "one"), ("marketing", "two"), ("sales", "two")):
        live = make_provider(gateway_session_key=theme, session_id=session)
        live.sync_turn(f"What do we know of {theme} in session {session}, please?", said.COLOUR_IS, session_id=session)
        landed(live)
    with session_db(home) as db:
        for session in ("one", "two", "three"):
            db.create_session(session, "api_server")
            said.say(db, session, ("user", said.PORT), ("assistant", said.PORT_IS), at=BEGAN)
    source = bring.only("sessions", "--yes")
    assert {theme: share["added"] for theme, share in source["themes"].items()} == {"marketing": 2}
    assert source["skipped"]["an API session that several themes hold turns of"] == 2
    source = bring.only("sessions", "--yes", "--api-theme", "Assistant")
    assert {theme: share["added"] for theme, share in source["themes"].items()} == {"assistant": 2, "marketing": 0}


def test_need_29_every_profile_has_its_theme_and_a_named_theme_takes_everything(
    bring: Bring, home: Path, dsn: str
) -> None:
    for profile in (home, home / "profiles" / "work"):
        with session_db(profile) as db:
            db.create_session("s", "cli")
            said.say(db, "s", ("user", f"{said.PORT} ({profile.name})"), ("assistant", said.PORT_IS), at=BEGAN)
    assert len(bring.report("sessions", "--profile", "work")["sources"]) == 1
    bring.report("sessions", "--yes")
    assert [(theme, content) for theme, _, role, content, _ in _turns(dsn) if role == "user"] == [
        ("default", f"{said.PORT} ({home.name})"),
        ("work", f"{said.PORT} (work)"),
    ]
    assert set(bring.only("sessions", "--theme", "Old Times", "--profile", "work")["themes"]) == {"old times"}
    assert "no profile 'play'; there are: default, work" in bring.text("sessions", "--profile", "play", code=1)


def test_need_22_secrets_of_old_conversations_are_masked(bring: Bring, home: Path, dsn: str) -> None:
    key = "sk-proj-" + "a1B2c3D4e5F6" * 4
    with session_db(home) as db:
        db.create_session("s", "cli")
        said.say(db, "s", ("user", f"{said.PORT} The key is {key}."), ("assistant", said.PORT_IS), at=BEGAN)
    assert bring.only("sessions", "--yes")["masked"] == 1
    assert not any(key in content for _, _, _, content, _ in _turns(dsn))


def test_need_29_the_host_may_go_on_writing_and_its_file_is_not_changed(bring: Bring, home: Path) -> None:
    write_history(home)
    file = home / "state.db"
    before = hashlib.sha256(file.read_bytes()).digest()
    assert bring.only("sessions", "--yes")["turns_added"] == 11
    assert hashlib.sha256(file.read_bytes()).digest() == before

    with session_db(home) as db:  # in write-ahead mode, with what is not in the file yet
        db.create_session("now", "cli")
        said.say(db, "now", ("user", said.SIGNED), ("assistant", said.SIGNED_BY), at=BEGAN + 5000)
        assert bring.only("sessions", "--yes")["turns_added"] == 2
        said.say(db, "now", ("user", said.INVOICES), ("assistant", said.INVOICES_ARE), at=BEGAN + 6000)
        assert bring.only("sessions", "--yes")["turns_added"] == 2


def test_need_29_a_locked_database_is_read_from_a_copy(
    bring: Bring, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    write_history(home)
    monkeypatch.setattr(sqlite_file, "_BUSY_S", 0.05)
    lock = sqlite3.connect(home / "state.db", isolation_level=None)
    try:
        lock.execute("PRAGMA journal_mode = DELETE")
        lock.execute("BEGIN EXCLUSIVE")
        assert bring.only("sessions")["turns_added"] == 11
    finally:
        lock.close()


def test_need_29_an_older_database_lacks_columns_and_is_read(bring: Bring, home: Path) -> None:
    write_history(home)
    with sqlite3.connect(home / "state.db") as file:
        file.executescript(
            "CREATE TABLE old AS SELECT id, source, started_at, parent_session_id FROM sessions WHERE source = 'cli';"
            "CREATE TABLE said AS SELECT id, session_id, role, content, timestamp, tool_calls FROM messages;"
            "DROP TABLE messages; DROP TABLE sessions;"
            "ALTER TABLE old RENAME TO sessions; ALTER TABLE said RENAME TO messages;"
        )
    file.close()
    assert bring.only("sessions")["themes"]["default"]["turns"] == 9


def test_need_29_what_cannot_be_read_is_named_and_keeps_nothing_else_out(bring: Bring, home: Path) -> None:
    assert f"no state.db in {home} nor in the home of another profile" in bring.text("sessions", code=1)
    other = home / "other.db"
    assert f"there is no {other}; expected the session database" in bring.text("sessions", "--path", other, code=1)
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE notes (id)")
    file.close()
    assert "has no table sessions" in bring.text("sessions", "--path", other, code=1)
    other.write_bytes(b"no database at all, only words that fill a page" * 100)
    assert "is not the session database of hermes-agent" in bring.text("sessions", "--path", other, code=1)

    write_history(home)
    broken = home / "profiles" / "work" / "state.db"
    broken.parent.mkdir(parents=True)
    broken.write_bytes((home / "state.db").read_bytes()[:8192] + b"\xff" * 65536)
    report = bring.report("sessions", "--yes", code=1)
    assert [source["turns_added"] for source in report["sources"]] == [11]
    assert list(report["failed"]) == [str(broken)]
