"""The dashboard's overview: how the memory is doing, at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.mcp_client import mcp_home
from tests.support.waiting import until


@pytest.fixture
def api(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)
    with dashboard_api(home.path, monkeypatch) as client:
        yield client


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
