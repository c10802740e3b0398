"""The dashboard's rows: memories, turns and sessions as they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.dashboard.routes import ROUTES
from hermes_memory_pgvector.dashboard.served_homes import served_homes
from hermes_memory_pgvector.domain.errors import StoreReadOnly, StoreUnavailable
from hermes_memory_pgvector.host.session_context import hermes_home
from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.hostile import HOSTILE
from tests.support.mcp_client import mcp_home
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

HUGE = "große und kleine Wörter " * 210_000  # 5 million characters


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def _remember(conn: psycopg.Connection[Any], theme: str, content: str) -> str:
    found = conn.execute(
        "INSERT INTO memory_entries (agent_identity, target, content) VALUES (%s, 'user', %s) RETURNING 'm' || id",
        (theme, content),
    ).fetchone()
    assert found is not None
    return str(found[0])


def _say(conn: psycopg.Connection[Any], theme: str, count: int, session: str = "s") -> None:
    conn.execute(
        "INSERT INTO conversations (agent_identity, session_id, role, content, ts)"
        " SELECT %s, %s, 'user', 'turn ' || n, now() - n * interval '1 hour' FROM generate_series(1, %s::integer) AS n",
        (theme, session, count),
    )


def test_turns_come_a_page_at_a_time(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    _say(conn, "sales", 3)
    first = api.get("/turns", theme="sales", limit=2)
    last = api.get("/turns", theme="sales", limit=2, offset=2)
    assert [row["content"] for row in first["rows"] + last["rows"]] == ["turn 1", "turn 2", "turn 3"]
    assert (first["more"], last["more"]) == (True, False)


def test_a_session_is_told_from_its_beginning(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    _say(conn, "sales", 3)
    (row,) = api.get("/sessions", theme="sales")["rows"]
    assert (row["session_id"], row["turns"], row["title"]) == ("s", 3, "Turn 3")
    whole = api.get("/session", theme="sales", session="s", limit=2)
    assert [turn["content"] for turn in whole["rows"]] == ["turn 3", "turn 2"]
    assert whole["more"]


def test_the_history_of_a_memory_says_what_changed(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    ref = _remember(conn, "sales", "one two three")
    conn.execute("UPDATE memory_entries SET content = 'one four three'")
    row = api.get("/row", ref=ref)
    assert (row["content"], row["kind"], row["private"], row["cut"]) == ("one four three", "user", False, False)
    replaced, added = row["history"]
    assert replaced["diff"] == [["=", "one "], ["-", "two"], ["+", "four"], ["=", " three"]]
    assert (added["action"], added["diff"], added["content"]) == ("added", None, "one two three")
    assert api.get("/history", theme="sales")["rows"] == row["history"]


def test_a_memory_that_is_gone_has_a_history_still(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    ref = _remember(conn, "@slack/default/0123456789abcdef", "one two")
    conn.execute("DELETE FROM memory_entries")
    row = api.get("/row", ref=ref)
    assert (row["state"], row["content"], row["private"]) == ("removed", "", True)
    assert [(event["action"], event["diff"]) for event in row["history"]] == [("removed", None), ("added", None)]


def test_memories_are_chosen_by_what_they_say_of_themselves(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    plain, decided, closed = (_remember(conn, "sales", text) for text in ("plain", "decided", "closed"))
    conn.execute(
        "UPDATE memory_entries SET kind = 'decision', subject = content, state = CASE content WHEN 'closed' THEN"
        " 'closed' ELSE 'active' END WHERE content <> 'plain'"
    )

    def refs(**wanted: str) -> set[str]:
        return {row["ref"] for row in api.get("/memories", theme="sales", **wanted)["rows"]}

    assert refs() == refs(target="user") == {plain, decided, closed}
    assert refs(kind="decision") == {decided, closed}
    assert refs(kind="fact") == {plain}
    assert refs(state="closed") == {closed}
    assert refs(state="active", pending="1") == {plain, decided}
    assert refs(target="memory") == refs(session="s") == refs(since="2099-01-01") == set()
    (row,) = api.get("/memories", theme="sales", state="closed")["rows"]
    assert row["structure"] == {"kind": "decision", "subject": "closed", "state": "closed"}


def test_sessions_far_down_follow_those_before(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "INSERT INTO conversations (agent_identity, session_id, role, content, ts, metadata)"
        " SELECT 'sales', 's' || n, 'user', 'about ' || n, now() - n * interval '1 minute',"
        " jsonb_build_object('parent_session_id', 's' || n + 1) FROM generate_series(0, 309) AS n"
    )
    near = api.get("/sessions", theme="sales", limit=200, offset=110)
    far = api.get("/sessions", theme="sales", limit=200, offset=301)
    assert far["rows"] == near["rows"][-9:]
    assert far["rows"][-1]["session_id"] == "s309"
    assert far["rows"][-1]["parent_session_id"] == "s310"


def test_hostile_texts_are_given_as_they_are(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    said = [text.replace("\x00", "") for text in HOSTILE]
    said += ["<script>alert(1)</script>", "[x](javascript:alert(1))", "a\u202eb\u2066c", "<img src=x onerror=alert(1)>"]
    for text in said:
        _remember(conn, "sales", text)
    answer = api.http.get("/api/plugins/pgvector/memories", params={"theme": "sales", "limit": 100})
    assert answer.headers["content-type"] == "application/json"
    assert {row["content"] for row in answer.json()["rows"]} == set(said)


def test_a_huge_text_is_cut_and_compared_in_time(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    ref = _remember(conn, "sales", HUGE)
    conn.execute("UPDATE memory_entries SET content = overlay(content PLACING 'oder' FROM 31 FOR 3)")
    (listed,) = api.get("/memories", theme="sales")["rows"]
    assert (len(listed["content"]), listed["chars"], listed["cut"]) == (2_000, len(HUGE) + 1, True)
    row = api.get("/row", ref=ref)
    assert (len(row["content"]), row["chars"], row["cut"]) == (200_000, len(HUGE) + 1, True)
    events = api.get("/history", theme="sales")["rows"]
    assert events == row["history"]
    same, *changed, left_out = events[0]["diff"]
    assert (same, changed) == (["=", "große und kleine Wörter große "], [["-", "und"], ["+", "oder"]])
    assert (left_out[0], len(left_out[1]) < 1_000) == ("=", True)


def test_what_cannot_be_is_refused(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    _say(conn, "sales", 1)
    for path, wrong, said in (
        ("/turns", {"theme": "sales", "limit": "0"}, "limit must be a whole number from 1 to 200"),
        ("/turns", {"theme": "sales", "limit": "1e9"}, "limit must be"),
        ("/turns", {"theme": "sales", "offset": "-1"}, "offset must be"),
        ("/turns", {"theme": "sales", "role": "nobody"}, "role must be one of"),
        ("/turns", {"theme": "sales", "since": "soon"}, "since"),
        ("/turns", {"theme": "' OR true --"}, "no theme"),
        ("/memories", {}, "theme is missing"),
        ("/row", {"ref": "m1; DELETE"}, "names no row"),
        ("/row", {"ref": "m99"}, "there is no memory m99"),
        ("/row", {"ref": "m1,m2"}, "one row"),
        ("/session", {"theme": "sales", "session": "nowhere"}, "no session 'nowhere' has turns"),
        ("/history", {"theme": "sales", "action": "stolen"}, "action must be one of"),
    ):
        status, told = api.refused(path, **wrong)
        assert (status, said in told) == (400, True), (path, wrong, status, told)


def test_what_reads_cannot_be_made_to_write(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    _say(conn, "sales", 1)
    with served_homes.at(hermes_home()) as served, pytest.raises(StoreReadOnly), served.reading() as reading:
        reading.execute("DELETE FROM conversations")
    with served_homes.at(hermes_home()) as served, pytest.raises(StoreUnavailable), served.reading() as reading:
        reading.execute("SELECT 1")
        reading.execute("SET TRANSACTION READ WRITE")
        reading.execute("DELETE FROM conversations")
    for route in ROUTES:
        if not route.changes and route.path not in {each.path for each in ROUTES if each.changes}:
            assert api.http.post(f"/api/plugins/pgvector{route.path}", json={}).status_code == 405
    assert len(api.get("/turns", theme="sales")["rows"]) == 1


def test_an_outage_is_said_and_passes(tmp_path: Path, direct_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with TcpProxy.before(direct_dsn) as proxy:
        home = mcp_home(tmp_path / "agent", dsn=proxy.conninfo(direct_dsn), dims=DIMS)
        with dashboard_api(home.path, monkeypatch) as api:
            until(lambda: _status(api) == 200, what="the first answer")
            proxy.stop()
            until(lambda: _status(api) == 503, what="the outage")
            assert "start Postgres there" in api.refused("/themes")[1]
            seen = until(lambda: (told := api.get("/overview"))["health"]["ok"] is False and told, what="the problem")
            assert seen["health"]["problems"][0]["name"] == "postgres"
            assert set(seen["totals"].values()) == {None}
            proxy.start()
            until(lambda: _status(api) == 200, what="the database again")
            until(lambda: api.get("/overview")["totals"]["themes"] == 0, what="the overview again")
            proxy.deaf()
            until(lambda: _status(api) == 503, what="the silence to be told")
            proxy.start()
            until(lambda: _status(api) == 200, what="the database again")


def _status(api: DashboardApi) -> int:
    return api.http.get("/api/plugins/pgvector/themes").status_code


def test_a_list_of_one_theme_holds_to_it_where_numbers_are_there_twice(api: DashboardApi, dsn: str) -> None:
    """A restore of the data alone leaves sequences behind: new rows get numbers that other themes have."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for theme in ("sales", "research"):
            conn.execute(
                "INSERT INTO memory_entries (id, agent_identity, target, content) VALUES (9000, %s, 'memory', %s)",
                (theme, f"A memory of {theme}"),
            )
            conn.execute(
                "INSERT INTO conversations (id, session_id, agent_identity, role, content) "
                "VALUES (9000, 'one', %s, 'user', %s)",
                (theme, f"A turn of {theme}"),
            )
    assert [row["content"] for row in api.get("/memories", theme="sales")["rows"]] == ["A memory of sales"]
    assert [row["content"] for row in api.get("/turns", theme="sales")["rows"]] == ["A turn of sales"]
    session = api.get("/session", session="one", theme="sales")
    assert "A turn of sales" in str(session) and "research" not in str(session)
    status, error = api.refused("/edit", {"ref": "m9000", "content": "Another text"})
    assert status == 400 and "several themes (" in error and "doctor" in error
    for ref in ("m9000", "t9000"):
        status, error = api.refused("/forget", {"refs": [ref]})
        assert status == 400 and "several themes (" in error
        status, error = api.refused("/row", ref=ref)
        assert status == 400 and "several themes (" in error
        one = api.get("/row", ref=ref, theme="sales")
        assert one["theme"] == "sales" and "research" not in str(one)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DELETE FROM memory_entries WHERE agent_identity = 'research'")
        assert "research" not in str(api.get("/row", ref="m9000"))
        conn.execute("DELETE FROM memory_entries WHERE agent_identity = 'sales'")
    status, error = api.refused("/row", ref="m9000")
    assert status == 400 and "several themes (" in error
    assert "research" not in str(api.get("/row", ref="m9000", theme="sales"))
