"""The dashboard's overview: how the memory is doing, at a glance."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.admin.browse import theme_sizes
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.left_spool import leave_spool, operation
from tests.support.mcp_client import mcp_home
from tests.support.waiting import until


def test_it_says_how_much_there_is_and_how_that_grew(api: DashboardApi, dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content, ts) SELECT 'sales', 's', 'user',"
            " 'turn ' || n, now() - n * interval '1 day' FROM generate_series(0, 2) AS n"
        )
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content) VALUES ('@slack/default/1', 'user', 'x')"
        )
    seen = until(lambda: (found := api.get("/overview"))["themes"] and found, 10, "the sizes")
    assert seen["totals"]["turns"] == 3
    assert [(each["theme"], each["private"], each["memories"], each["turns"]) for each in seen["themes"]] == [
        ("sales", False, 0, 3),
        ("@slack/default/1", True, 1, 0),
    ]
    assert len(seen["growth"]) == 30
    assert [each["turns"] for each in seen["growth"][-4:]] == [0, 1, 1, 1]
    assert seen["growth"][-1]["memories"] == 1
    assert seen["model"]["mode"] == "lexical"
    assert seen["waiting"]["writes"] == 0


def test_it_says_what_waits_and_what_was_rejected(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)
    turn = {"session_id": "s", "role": "user", "content": "left behind", "metadata": {}}
    leave_spool(home.path, [operation("turn", "sales", turn, time.time() - 60)])
    with dashboard_api(home.path, monkeypatch) as api:
        seen = api.get("/overview")
    assert (seen["waiting"]["writes"], seen["waiting"]["rejected"]) == (1, 0)
    (process,) = seen["processes"]
    assert (process["pid"], process["living"], process["waiting"]) == ("4000000", False, 1)
    assert seen["recall"] == {"asked": 0, "found": 0, "hit_rate": None, "p50_ms": None, "p95_ms": None}


def test_its_health_is_what_doctor_finds(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS + 1)
    with dashboard_api(home.path, monkeypatch) as api:
        health = until(lambda: (told := api.get("/overview")["health"])["checked_at"] and told, what="the checks")
    assert not health["ok"]
    said = {each["name"]: each for each in health["problems"]}
    assert said["vectors"]["fix"] == f"set plugins.pgvector.dims to {DIMS}"


def test_the_largest_themes_are_told_by_statistics_where_the_tables_are_large(admin_dsn: str) -> None:
    with connect(admin_dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content) SELECT CASE WHEN n % 10 < 6 THEN 'a'"
            " WHEN n % 10 < 9 THEN 'b' ELSE 'c' END, 's', 'user', 'hi' FROM generate_series(1, 1000) AS n"
        )
        conn.execute("ANALYZE conversations")
        assert theme_sizes.largest_themes(conn, 2) == ["a", "b"]
        assert theme_sizes.largest_themes(conn, 2, counted_rows=100) == ["a", "b"]
        conn.execute("DELETE FROM conversations WHERE agent_identity = 'a'")
        assert theme_sizes.largest_themes(conn, 2, counted_rows=100) == ["a", "b"], "of when it was analyzed"


def test_it_answers_in_time_whatever_the_database_does(api: DashboardApi, admin_dsn: str) -> None:
    api.get("/overview")
    with psycopg.connect(admin_dsn) as conn:
        conn.execute("LOCK TABLE conversations IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        assert api.http.get("/api/plugins/pgvector/overview").status_code == 200
        status, said = api.refused("/turns", theme="sales")
        assert status == 503
        assert time.monotonic() - began < 4, said
