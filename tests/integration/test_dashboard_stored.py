"""The dashboard's rows: memories, turns and sessions as they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.mcp_client import mcp_home


@pytest.fixture
def api(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)
    with dashboard_api(home.path, monkeypatch) as client:
        yield client


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
    assert replaced["diff"] == [["=", "one "], ["-", "two "], ["+", "four "], ["=", "three"]]
    assert (added["action"], added["diff"]) == ("added", None)
    assert api.get("/history", theme="sales")["rows"] == row["history"]
