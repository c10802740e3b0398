"""What the dashboard's page adds, edits, replaces and forgets, as the command line shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.mcp_client import mcp_home

TABLES = (
    "memory_entries",
    "conversations",
    "memory_history",
    "hermes_tombstones",
    "hermes_mirror",
    "hermes_maintenance",
)


@pytest.fixture
def api(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)
    with dashboard_api(home.path, monkeypatch) as client:
        yield client


def rows(dsn: str, table: str = "memory_entries") -> list[dict[str, Any]]:
    """Every row of a table, as it stands."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as conn:
        return conn.execute(f"SELECT * FROM {table} ORDER BY 1, 2".encode()).fetchall()


def everything(dsn: str) -> dict[str, list[dict[str, Any]]]:
    return {table: rows(dsn, table) for table in TABLES}


def test_a_memory_is_added_and_the_history_says_that_it_was_on_the_page(api: DashboardApi, dsn: str) -> None:
    done = api.post("/add", theme="sales", content="The office moved to Nantes")
    assert done["done"] and done["says"] == f"added {done['rows'][0]['ref']} to the theme 'sales'"
    (row,) = rows(dsn)
    assert (row["content"], row["target"], row["owners"]) == ("The office moved to Nantes", "memory", ["add"])
    (event,) = rows(dsn, "memory_history")
    assert event["who"]["verb"] == "dashboard add"
    undone = api.post("/undo", token=done["undo"]["token"])
    assert undone["done"] and rows(dsn) == []


def test_a_memory_is_edited_and_put_back(api: DashboardApi, dsn: str) -> None:
    ref = api.post("/add", theme="sales", content="The office is in Paris")["rows"][0]["ref"]
    (before,) = rows(dsn)
    done = api.post("/edit", ref=ref, content="The office is in Nantes")
    (row,) = rows(dsn)
    assert row["content"] == "The office is in Nantes" and row["created_at"] == before["created_at"]
    api.post("/undo", token=done["undo"]["token"])
    assert rows(dsn) == [before]
    assert rows(dsn, "hermes_tombstones") == []


def test_a_memory_is_forgotten_and_brought_back(api: DashboardApi, dsn: str) -> None:
    ref = api.post("/add", theme="sales", content="The office is in Paris")["rows"][0]["ref"]
    api.post("/edit", ref=ref, content="The office is in Nantes")
    before = everything(dsn)
    dry = api.post("/forget", refs=[ref], dry_run=True)
    assert not dry["done"] and dry["undo"] is None and dry["says"] == "would forget: 1 memory"
    assert any("1 text in the history" in note for note in dry["notes"])
    assert everything(dsn) == before
    done = api.post("/forget", refs=[ref])
    assert rows(dsn) == [] and done["says"] == "forgotten: 1 memory"
    api.post("/undo", token=done["undo"]["token"])
    assert rows(dsn) == before["memory_entries"]
    assert rows(dsn, "hermes_tombstones") == before["hermes_tombstones"]
    kept = {event["old_content"] for event in rows(dsn, "memory_history")}
    assert kept == {None, "The office is in Paris"}
