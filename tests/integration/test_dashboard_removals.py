"""Removals by a lost MEMORY.md that the dashboard's page confirms or dismisses, and what it brings back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import MakeProvider
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.memory import landed, write_entries
from tests.support.table_rows import everything, rows, standing

COLOURS = ("Crane a is red", "Crane b is blue", "Crane c is grey", "Crane d is pink")


@pytest.fixture
def api(home: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    home.mkdir(exist_ok=True)
    section = {"plugins": {"pgvector": {"dsn": dsn, "dims": 384}}}
    (home / "config.yaml").write_text(yaml.safe_dump(section), encoding="utf-8")
    with dashboard_api(home, monkeypatch) as client:
        yield client


@pytest.fixture
def lost(make_provider: MakeProvider, home: Path, api: DashboardApi) -> dict[str, str]:
    """A home that lost its MEMORY.md of four entries, the first of which somebody added as well: numbers by text."""
    write_entries(home, *COLOURS, age_s=60)
    session(make_provider)
    api.post("/add", theme="default", content=COLOURS[0])
    (home / "memories" / "MEMORY.md").unlink()
    session(make_provider)
    return {row["content"]: f"m{row['id']}" for row in rows_of_held(api)}


def session(make_provider: MakeProvider) -> None:
    provider = make_provider()
    landed(provider)
    provider.shutdown()


def rows_of_held(api: DashboardApi) -> list[dict[str, Any]]:
    return list(api.get("/removals")["rows"])


def texts(dsn: str) -> set[str]:
    return {row["content"] for row in rows(dsn)}


def undo(api: DashboardApi, done: dict[str, Any]) -> None:
    assert api.post("/undo", token=done["undo"]["token"])["done"]


def test_what_waits_is_listed(api: DashboardApi, dsn: str, lost: dict[str, str]) -> None:
    before = everything(dsn)
    answer = api.get("/removals", limit=3)
    assert len(answer["rows"]) == 3 and answer["more"]
    (row, *_) = answer["rows"]
    assert (row["theme"], row["file"], row["why"], row["cut"]) == ("default", "MEMORY.md", "missing", False)
    assert row["held_at"] < row["stays_from"]
    assert [len(api.get("/removals", theme=theme)["rows"]) for theme in ("default", "sales")] == [4, 0]
    assert len(api.get("/removals", limit=3, offset=3)["rows"]) == 1
    assert everything(dsn) == before


def test_a_removal_is_confirmed_and_taken_back(
    make_provider: MakeProvider, api: DashboardApi, dsn: str, lost: dict[str, str]
) -> None:
    before = standing(dsn)
    refs = [lost[COLOURS[1]], lost[COLOURS[2]]]
    dry = api.post("/removals", decision="confirm", refs=refs, dry_run=True)
    assert dry["says"] == "would remove 2 memories, which can be restored for a while" and standing(dsn) == before
    done = api.post("/removals", decision="confirm", refs=refs)
    assert (done["verb"], done["says"]) == (
        "removals confirm", "removed 2 memories, which can be restored for a while",
    )  # fmt: skip
    assert texts(dsn) == {COLOURS[0], COLOURS[3]} and len(rows_of_held(api)) == 2
    removed = api.get("/removed")["rows"]
    assert {row["content"] for row in removed} == {COLOURS[1], COLOURS[2]}
    assert all("(dashboard removals confirm)" in row["by"] for row in removed)
    undo(api, done)
    assert standing(dsn) == before and len(rows_of_held(api)) == 4 and api.get("/removed")["rows"] == []
    session(make_provider)
    assert texts(dsn) == set(COLOURS)


def test_one_that_somebody_keeps_stays_when_its_removal_is_confirmed(
    api: DashboardApi, dsn: str, lost: dict[str, str]
) -> None:
    before = standing(dsn)
    done = api.post("/removals", decision="confirm", refs=list(lost.values()))
    assert texts(dsn) == {COLOURS[0]} and rows_of_held(api) == []
    undo(api, done)
    assert standing(dsn) == before


def test_a_removal_is_dismissed_and_held_again(
    make_provider: MakeProvider, api: DashboardApi, dsn: str, lost: dict[str, str]
) -> None:
    before = standing(dsn)
    dry = api.post("/removals", decision="dismiss", refs=[lost[COLOURS[1]]], dry_run=True)
    assert dry["says"] == "would keep 1 memory, whatever the file holds" and standing(dsn) == before
    done = api.post("/removals", decision="dismiss", refs=[lost[COLOURS[1]]])
    assert len(rows_of_held(api)) == 3
    session(make_provider)
    assert texts(dsn) == set(COLOURS)
    undo(api, done)
    assert standing(dsn) == before and len(rows_of_held(api)) == 4


def test_what_a_file_let_go_of_is_restored_and_taken_out_again(
    make_provider: MakeProvider, home: Path, api: DashboardApi, dsn: str
) -> None:
    write_entries(home, *COLOURS, age_s=60)
    session(make_provider)
    before = rows(dsn)
    write_entries(home, *COLOURS[1:], age_s=30)
    session(make_provider)
    (row,) = api.get("/removed")["rows"]
    assert (row["content"], row["theme"], row["cut"]) == (COLOURS[0], "default", False) and row["by"]
    assert api.get("/removed", theme="sales")["rows"] == [] == api.get("/removed", since="2099-01-01")["rows"]
    gone = everything(dsn)
    dry = api.post("/restore", refs=[row["ref"]], dry_run=True)
    assert dry["says"] == "would restore: 1 memory" and everything(dsn) == gone
    done = api.post("/restore", refs=[row["ref"]])
    assert done["says"] == "restored: 1 memory" and done["rows"][0]["ref"] == row["ref"]
    assert [each | {"owners": []} for each in rows(dsn)] == before
    assert api.get("/removed")["rows"] == []
    assert rows(dsn, "memory_history")[-1]["who"]["verb"] == "dashboard restore"
    undo(api, done)
    assert standing(dsn) == {name: kept for name, kept in gone.items() if name in standing(dsn)}
    (again,) = api.get("/removed")["rows"]
    assert again == row, "it can be restored again"
    assert api.post("/restore", refs=[row["ref"]])["done"] and texts(dsn) == set(COLOURS)


def test_what_can_be_restored_can_be_forgotten_and_that_undone(
    make_provider: MakeProvider, home: Path, api: DashboardApi
) -> None:
    write_entries(home, *COLOURS, age_s=60)
    session(make_provider)
    write_entries(home, *COLOURS[1:], age_s=30)
    session(make_provider)
    (row,) = before = api.get("/removed")["rows"]
    done = api.post("/forget", refs=[row["ref"]])
    assert any("can no longer be restored" in note for note in done["notes"]) and api.get("/removed")["rows"] == []
    undo(api, done)
    assert api.get("/removed")["rows"] == before


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/removals", {"decision": "confirm", "refs": ["m999"]}, "no removal of m999 waits"),
        ("/removals", {"decision": "perhaps", "refs": ["m1"]}, "decision must be one of: confirm, dismiss"),
        ("/removals", {"refs": ["m1"]}, "decision is missing"),
        ("/removals", {"decision": "confirm"}, "refs must be a list of rows"),
        ("/restore", {"refs": ["m999"]}, "nothing of m999 is kept"),
        ("/restore", {"refs": ["t1"]}, "only memories can be brought back"),
    ],
)
def test_what_cannot_be_decided_is_said(
    api: DashboardApi, dsn: str, lost: dict[str, str], path: str, body: dict[str, Any], says: str
) -> None:
    before = everything(dsn)
    status, error = api.refused(path, body)
    assert status == 400 and says in error and everything(dsn) == before


def test_what_the_file_holds_again_meanwhile_is_not_held_again(
    make_provider: MakeProvider, home: Path, api: DashboardApi, dsn: str, lost: dict[str, str]
) -> None:
    done = api.post("/removals", decision="dismiss", refs=list(lost.values()))
    write_entries(home, *COLOURS)
    session(make_provider)
    before = everything(dsn)
    status, error = api.refused("/undo", {"token": done["undo"]["token"]})
    assert status == 400 and error.startswith("changed since")
    assert everything(dsn) == before and rows_of_held(api) == []
