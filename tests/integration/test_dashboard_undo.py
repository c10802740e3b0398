"""Undoing what the dashboard's page changed: exactly what stood there comes back, or nothing changes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.admin.common.refs import Ref
from hermes_memory_pgvector.admin.edit.putting_back import RowChange
from hermes_memory_pgvector.admin.edit.row_images import RowImages, RowKey
from hermes_memory_pgvector.dashboard import journal as journals
from hermes_memory_pgvector.dashboard.journal import Journal, UndoableChange
from hermes_memory_pgvector.domain.errors import InvalidArgument
from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, added, dashboard_api
from tests.support.hermes import HermesHome
from tests.support.mcp_client import mcp_home
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.table_rows import everything, kept_texts, rows, standing
from tests.support.waiting import until

from .conftest import cli_of

INSERT = "INSERT INTO memory_entries (agent_identity, target, content)"
# A memory and a turn with all that a row can say.
MEMORY = """
INSERT INTO memory_entries (
    agent_identity, target, content, created_at, updated_at, metadata, owners, kind, subject, scope, state, expires_at,
    confidence, sources, replaces, applies_when, pinned, text_language)
VALUES ('sales', 'user', E'Line one\\n\\t"quoted" \\u2028 \\U0001f980 <script>', '2001-02-03 04:05:06.123456+00',
        '2020-01-01 00:00:00.654321+02', '{"ticket": "OPS-12", "big": 12345678901234567890.123, "a": {"b": [1, null]}}',
        '{add,remember,import}', 'value', 'srv.prod', 'api', 'active', '2099-12-24 00:00:00.5+00', 0.333, '{1,2}', 77,
        'asked', true, 'french')
"""
TURN = """
INSERT INTO conversations (session_id, agent_identity, role, content, ts, metadata, text_language)
VALUES ('monday', 'sales', 'assistant', E'said \\U0001f980', '2001-02-03 04:05:06.123456+00',
        '{"platform": "cli", "big": 12345678901234567890.123}', 'german')
"""


def undo(api: DashboardApi, done: dict[str, Any]) -> dict[str, Any]:
    return api.post("/undo", token=done["undo"]["token"])


def run(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def test_all_that_a_row_says_comes_back_with_it(api: DashboardApi, dsn: str) -> None:
    run(dsn, MEMORY, TURN)
    before = standing(dsn)
    done = api.post("/forget", refs=["m1", "t1"])
    assert rows(dsn) == rows(dsn, "conversations") == [] and done["undo"]["says"] == "bring back what was forgotten"
    dry = api.post("/undo", token=done["undo"]["token"], dry_run=True)
    assert not dry["done"] and rows(dsn) == []
    answer = undo(api, done)
    assert answer["done"] and {row["ref"] for row in answer["rows"]} == {"m1", "t1"}
    assert standing(dsn) == before
    assert rows(dsn, "memory_history")[-1]["who"]["verb"] == "dashboard undo of forget"


@pytest.mark.parametrize(
    "changes",
    [
        {"content": "Another text"},
        {"content": "D[srv.prod]: a line of notation"},
        {"state": "archived"},
        {"state": "closed", "pinned": False, "expires_at": None},
        {"kind": None, "subject": None, "scope": None, "applies_when": None, "pinned": None},
        {"content": "Another text", "subject": "srv.test", "kind": "decision", "expires_at": "2099-01-01"},
    ],
)
def test_an_edit_is_undone_to_the_last_detail(api: DashboardApi, dsn: str, changes: dict[str, Any]) -> None:
    run(dsn, MEMORY)
    before = standing(dsn)
    done = api.post("/edit", ref="m1", **changes)
    assert standing(dsn) != before
    undo(api, done)
    assert standing(dsn) == before
    if "content" in changes:
        texts = [row["old_content"] for row in rows(dsn, "memory_history") if row["action"] == "replaced"]
        assert texts == [before["memory_entries"][0]["content"], changes["content"]], "the history says both"


def test_a_token_works_once(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    done = api.post("/forget", refs=[ref])
    undo(api, done)
    before = everything(dsn)
    status, error = api.refused("/undo", {"token": done["undo"]["token"]})
    assert status == 400 and "was undone already" in error
    assert api.refused("/undo", {"token": "x" * 32})[0] == api.refused("/undo", {})[0] == 400
    assert everything(dsn) == before


def test_a_token_is_of_one_home(api: DashboardApi, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = api.post("/forget", refs=[added(api, "The office is in Paris")])
    other = mcp_home(tmp_path / "other", dsn=dsn, dims=DIMS)
    monkeypatch.setenv("HERMES_HOME", str(other.path))
    assert api.refused("/undo", {"token": done["undo"]["token"]})[0] == 400
    assert rows(dsn) == []


def test_what_was_changed_since_is_not_undone(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    first = api.post("/edit", ref=ref, content="The office is in Lyon")
    second = api.post("/edit", ref=ref, content="The office is in Nantes")
    before = everything(dsn)
    status, error = api.refused("/undo", {"token": first["undo"]["token"]})
    assert status == 400 and error.startswith("changed since") and ref in error and everything(dsn) == before
    undo(api, second)
    assert rows(dsn)[0]["content"] == "The office is in Lyon"
    undo(api, first)
    assert rows(dsn)[0]["content"] == "The office is in Paris", "what was refused is not lost"


def test_changes_are_undone_one_after_the_other(api: DashboardApi, dsn: str) -> None:
    added(api, "The API listens on 3005", kind="value", subject="srv.prod")
    states, changes = [standing(dsn)], []
    for path, body in (
        ("/edit", {"ref": "m1", "content": "The API listens on port 3005"}),
        ("/replace", {"ref": "m1", "content": "The API listens on 4000"}),
        ("/forget", {"refs": ["m1"]}),
        ("/add", {"theme": "sales", "content": "The API listens on port 3005"}),
        ("/forget", {"refs": ["m2"]}),
    ):
        changes.append(api.post(path, **body))
        states.append(standing(dsn))
    for done in reversed(changes):
        assert standing(dsn) == states.pop()
        undo(api, done)
    assert standing(dsn) == states.pop()


def test_what_another_memory_says_now_is_not_brought_back(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    gone = api.post("/forget", refs=[ref])
    again = added(api, "The office is in Paris")
    before = everything(dsn)
    status, error = api.refused("/undo", {"token": gone["undo"]["token"]})
    assert status == 400 and f"{again} says that already" in error and everything(dsn) == before


def test_what_was_forgotten_again_since_is_not_brought_back(api: DashboardApi, agent: HermesHome, dsn: str) -> None:
    changed = [api.post("/forget", refs=[added(api, "The office is in Paris")])]
    changed.append(api.post("/edit", ref=added(api, "The office is in Paris"), content="The office is in Lyon"))
    again = added(api, "The office is in Paris")
    forgotten = cli_of(agent, "forget", again, "--yes")
    assert forgotten.returncode == 0, forgotten.stderr
    before = everything(dsn)
    for done in changed:
        status, error = api.refused("/undo", {"token": done["undo"]["token"]})
        assert status == 400 and "forgotten again" in error
    assert everything(dsn) == before


def test_what_something_newer_took_the_place_of_is_not_brought_back(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The API listens on 3005", kind="value", subject="srv.prod")
    gone = api.post("/forget", refs=[ref])
    added(api, "The API listens on 4000", kind="value", subject="srv.prod")
    before = everything(dsn)
    status, error = api.refused("/undo", {"token": gone["undo"]["token"]})
    assert status == 400 and "taken the place" in error and everything(dsn) == before


def test_what_belonged_to_a_theme_that_was_renamed_since_does_not_bring_it_back(
    api: DashboardApi, agent: HermesHome, dsn: str
) -> None:
    added(api, "The office is in Paris")
    gone = api.post("/forget", refs=[added(api, "The office is in Lyon")])
    renamed = cli_of(agent, "themes", "rename", "sales", "trade", "--yes")
    assert renamed.returncode == 0, renamed.stderr
    before = everything(dsn)
    status, error = api.refused("/undo", {"token": gone["undo"]["token"]})
    assert status == 400 and "the theme 'sales' is gone since" in error and everything(dsn) == before


def test_a_turn_of_a_session_that_was_forgotten_since_does_not_come_back(
    api: DashboardApi, agent: HermesHome, dsn: str
) -> None:
    run(dsn, TURN, TURN.replace("said", "and heard"), TURN.replace("'monday'", "'tuesday'"))
    gone = [api.post("/forget", refs=[ref]) for ref in ("t1", "t3")]
    whole = api.post("/forget-session", session="monday")
    status, error = api.refused("/undo", {"token": gone[0]["undo"]["token"]})
    assert status == 400 and "the session 'monday' was forgotten since" in error and rows(dsn, "conversations") == []
    undo(api, whole)
    undo(api, gone[1])
    assert len(rows(dsn, "conversations")) == 2, "what was done to other sessions, or was undone, is no hindrance"
    forgotten = cli_of(agent, "forget", "--session", "monday", "--yes")
    assert forgotten.returncode == 0, forgotten.stderr
    left = standing(dsn)
    assert api.refused("/undo", {"token": whole["undo"]["token"]})[0] == 400
    assert standing(dsn) == left


@pytest.mark.parametrize("themes", [("--all-themes",), ("--theme", "sales")])
def test_a_turn_of_a_session_that_was_pruned_since_does_not_come_back(
    themes: tuple[str, ...], api: DashboardApi, agent: HermesHome, dsn: str
) -> None:
    run(dsn, TURN, TURN.replace("said", "and heard"))
    gone = api.post("/forget", refs=["t1"])
    pruned = cli_of(agent, "prune", "--session", "monday", "--yes", *themes)
    assert pruned.returncode == 0, pruned.stderr
    status, error = api.refused("/undo", {"token": gone["undo"]["token"]})
    assert status == 400 and "the session 'monday' was forgotten since" in error and rows(dsn, "conversations") == []


def test_what_was_proposed_of_a_turn_stays_gone_when_the_turn_comes_back(api: DashboardApi, dsn: str) -> None:
    run(
        dsn,
        TURN,
        "INSERT INTO hermes_proposals (id, agent_identity, target, content, kind, confidence, sources, said_at)"
        " SELECT 1, agent_identity, 'memory', content, 'fact', 1, ARRAY[id], ts FROM conversations",
        "INSERT INTO hermes_read_turns (turn_id, agent_identity, proposals)"
        " SELECT id, agent_identity, '{1}' FROM conversations",
    )
    undo(api, api.post("/forget", refs=["t1"]))
    assert len(rows(dsn, "conversations")) == 1
    assert rows(dsn, "hermes_proposals") == rows(dsn, "hermes_read_turns") == [], "it is read and proposed anew"


def test_one_undo_after_another_brings_a_session_and_its_turn_back(api: DashboardApi, dsn: str) -> None:
    run(dsn, TURN, TURN.replace("said", "and heard"))
    before = standing(dsn)
    turn = api.post("/forget", refs=["t1"])
    session = api.post("/forget-session", session="monday")
    undo(api, session)
    undo(api, turn)
    assert standing(dsn) == before


def test_an_earlier_text_that_was_forgotten_since_does_not_come_back(
    api: DashboardApi, agent: HermesHome, dsn: str
) -> None:
    ref = added(api, "The office is in Paris")
    done = api.post("/edit", ref=ref, content="The office is in Lyon")
    forgotten = cli_of(agent, "forget", ref, "--versions", "--yes")
    assert forgotten.returncode == 0, forgotten.stderr
    status, error = api.refused("/undo", {"token": done["undo"]["token"]})
    assert status == 400 and "what it said before was forgotten since" in error
    assert rows(dsn)[0]["content"] == "The office is in Lyon"


def test_earlier_texts_come_back_with_what_was_forgotten(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    api.post("/edit", ref=ref, content="The office is in Lyon")
    api.post("/edit", ref=ref, content="The office is in Nantes")
    done = api.post("/forget", refs=[ref])
    assert kept_texts(dsn) == []
    undo(api, done)
    assert kept_texts(dsn) == ["The office is in Lyon", "The office is in Paris"]


def test_where_no_earlier_texts_are_kept_undoing_keeps_none(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = mcp_home(tmp_path / "forgetful", dsn=dsn, dims=DIMS, history_texts=False)
    with dashboard_api(home.path, monkeypatch) as api:
        undo(api, api.post("/edit", ref=added(api, "The office is in Paris"), content="The office is in Lyon"))
    assert kept_texts(dsn) == [] and rows(dsn)[0]["content"] == "The office is in Paris"


def test_a_text_of_five_megabytes_is_forgotten_and_comes_back(api: DashboardApi, dsn: str) -> None:
    text = "Zanzibar \U0001f980 " * 450_000
    assert len(text.encode()) > 5_000_000
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content) VALUES ('sales', 'memory', %s)", (text,)
        )
    before = standing(dsn)
    done = api.post("/forget", refs=["m1"])
    assert done["rows"][0]["chars"] == len(text) and done["rows"][0]["cut"] and len(str(done)) < 5_000
    assert rows(dsn) == []
    undo(api, done)
    assert standing(dsn) == before


def test_what_is_too_large_says_before_that_it_cannot_be_undone(
    api: DashboardApi, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(
        dsn,
        f"{INSERT} VALUES ('sales', 'memory', repeat('x ', 60000))",
    )
    monkeypatch.setattr(journals, "MOST_CHARS", 100_000)
    assert "it is too large to be undone here" in api.post("/forget", refs=["m1"], dry_run=True)["notes"]
    done = api.post("/forget", refs=["m1"])
    assert done["done"] and done["undo"] is None and "it is too large to be undone here" in done["notes"]


def test_what_comes_back_gets_its_vector(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch, embedder: ScriptedEmbedder
) -> None:
    home = mcp_home(tmp_path / "embedding", dsn=dsn, dims=DIMS, embed_url=embedder.url)
    lacking = "SELECT count(*) FROM memory_entries WHERE embedding IS NULL"
    with dashboard_api(home.path, monkeypatch) as api, psycopg.connect(dsn, autocommit=True) as conn:
        ref = added(api, "The office is in Paris")
        done = api.post("/forget", refs=[ref])
        assert undo(api, done)["notes"] == [] and conn.execute(lacking).fetchone() == (0,)
        done = api.post("/edit", ref=ref, content="The office is in Nantes")
        undo(api, done)
        assert conn.execute(lacking).fetchone() == (0,)
        run(dsn, TURN)
        undo(api, api.post("/forget", refs=["t1"]))
        assert conn.execute(lacking.replace("memory_entries", "conversations")).fetchone() == (0,)


# -- the journal


def where(home: Path) -> tuple[Path, str]:
    return home, "localhost:5432/hermes"


def change_of(home: Path, text: str = "x") -> UndoableChange:
    rows = {RowKey("sales", Ref("memories", 1)): text}
    return UndoableChange(where(home), "forget", "bring it back", RowChange(RowImages(rows), {}, {}, datetime.now(UTC)))


def test_the_journal_keeps_a_hundred_changes_and_so_much_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Journal()
    tokens = [kept.add(change_of(tmp_path))["token"] for _ in range(101)]
    with pytest.raises(InvalidArgument):
        kept.look(tokens[0], where(tmp_path))
    assert kept.look(tokens[1], where(tmp_path))
    monkeypatch.setattr(journals, "MOST_CHARS", 1_000)
    last = kept.add(change_of(tmp_path, "x" * 950))["token"]
    assert kept.look(tokens[-1], where(tmp_path)) and kept.look(last, where(tmp_path))
    with pytest.raises(InvalidArgument):
        kept.look(tokens[1], where(tmp_path))
    assert kept.add(change_of(tmp_path, "x" * 1_001)) is None


def test_the_journal_lets_go_of_what_is_too_old_though_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "KEPT_S", 0.2)
    kept = Journal()
    token = kept.add(change_of(tmp_path))["token"]
    until(lambda: not kept, what="the journal to let go of it")
    with pytest.raises(InvalidArgument):
        kept.take(token, where(tmp_path))
