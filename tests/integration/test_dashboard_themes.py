"""The dashboard's themes: which there are, how much is in them, and who wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.mcp_client import mcp_home
from tests.support.row_security import tenant_of
from tests.support.waiting import until

MANY = 10_000
CHAT = "@slack/default/0123456789abcdef"


@pytest.fixture
def conn(admin_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        yield connection


def _say(conn: psycopg.Connection[Any], theme: str, *, days_ago: int = 0, session: str = "s", **metadata: str) -> None:
    conn.execute(
        "INSERT INTO conversations (agent_identity, session_id, role, content, ts, metadata)"
        " VALUES (%s, %s, 'user', 'hello', now() - %s * interval '1 day', %s)",
        (theme, session, days_ago, psycopg.types.json.Jsonb(metadata)),
    )


def _remember(conn: psycopg.Connection[Any], theme: str, content: str = "a note", **metadata: str) -> None:
    conn.execute(
        "INSERT INTO memory_entries (agent_identity, target, content, metadata) VALUES (%s, 'user', %s, %s)",
        (theme, content, psycopg.types.json.Jsonb(metadata)),
    )


def _read(api: DashboardApi, theme: str) -> dict[str, Any]:
    return until(lambda: (seen := api.get("/theme", theme=theme))["counting"] is False and seen, what="the whole theme")


def test_themes_are_listed_with_what_they_hold(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    _say(conn, "sales")
    _say(conn, "sales")
    _remember(conn, "marketing")
    _say(conn, CHAT)
    listed = api.get("/themes")
    told = [(row["theme"], row["private"], row["memories"], row["turns"]) for row in listed["rows"]]
    assert sorted(told) == [(CHAT, True, 0, 1), ("marketing", False, 1, 0), ("sales", False, 0, 2)]
    assert (listed["total"], listed["more"]) == (3, False)


def test_a_theme_says_who_wrote_to_it_and_when(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    _say(conn, "sales", days_ago=2, profile="coder", platform="cli")
    _say(conn, "sales", session="t", profile="coder", platform="slack", chat_type="group")
    _remember(conn, "sales", profile="coder", platform="cli", source="tool", host="anvil")
    seen = _read(api, "sales")
    assert (seen["memories"], seen["turns"], seen["sessions"], seen["facts"]) == (1, 2, 2, False)
    writers = {
        tuple(each[name] for name in ("profile", "platform", "host", "source", "memories", "turns"))
        for each in seen["writers"]
    }
    assert writers == {
        ("coder", "cli", None, None, 0, 1),
        ("coder", "slack", None, None, 0, 1),
        ("coder", "cli", "anvil", "tool", 1, 0),
    }
    assert [(each["memories"], each["turns"]) for each in seen["timeline"]] == [(0, 1), (1, 1)]
    assert {len(each["day"]) for each in seen["timeline"]} == {len("2026-11-23")}
    assert seen["first_at"] < seen["last_at"]


def test_a_long_timeline_goes_by_months(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    for days_ago in (0, 200, 200):
        _say(conn, "sales", days_ago=days_ago)
    timeline = _read(api, "sales")["timeline"]
    assert [each["turns"] for each in timeline] == [2, 1]
    assert {len(each["month"]) for each in timeline} == {len("2026-11")}


def test_what_is_said_in_a_chat_is_private_unless_it_is_shared(
    tmp_path: Path, dsn: str, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _say(conn, CHAT, platform="slack", chat_type="group")
    _remember(conn, "sales", "said to a colleague", platform="slack", chat_type="direct")
    _remember(conn, "sales", "said in a channel", platform="slack", chat_type="channel")
    _remember(conn, "sales", "said at home", platform="cli")

    def private(path: str, theme: str) -> dict[str, bool]:
        return {row["content"]: row["private"] for row in api.get(path, theme=theme)["rows"]}

    home = mcp_home(tmp_path / "apart", dsn=dsn, dims=DIMS)
    with dashboard_api(home.path, monkeypatch) as api:
        assert api.get("/theme", theme=CHAT)["private"]
        assert api.get("/session", theme=CHAT, session="s")["private"]
        assert private("/turns", CHAT) == {"hello": True}
        assert private("/memories", "sales") == {
            "said to a colleague": True, "said in a channel": True, "said at home": False,
        }  # fmt: skip
    home = mcp_home(tmp_path / "sharing", dsn=dsn, dims=DIMS, shared_chats=["slack"])
    with dashboard_api(home.path, monkeypatch) as api:
        assert not api.get("/theme", theme=CHAT)["private"]
        assert not api.get("/session", theme=CHAT, session="s")["private"]
        assert private("/turns", CHAT) == {"hello": False}
        assert private("/memories", "sales") == {
            "said to a colleague": True, "said in a channel": False, "said at home": False,
        }  # fmt: skip


def test_ten_thousand_themes_are_paged_and_searched(api: DashboardApi, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "INSERT INTO conversations (agent_identity, session_id, role, content)"
        " SELECT 'theme ' || to_char(n, 'FM00000'), 's', 'user', 'hello' FROM generate_series(1, %s) AS n",
        (MANY,),
    )
    conn.execute("VACUUM ANALYZE conversations")
    first = api.get("/themes", limit=100)
    assert (first["total"], first["more"], len(first["rows"])) == (MANY, True, 100)
    last = api.get("/themes", limit=100, offset=MANY - 1)
    assert ([row["theme"] for row in last["rows"]], last["more"]) == ([f"theme {MANY:05}"], False)
    found = api.get("/themes", search="THEME 0123")
    assert [row["theme"] for row in found["rows"]] == [f"theme 0123{digit}" for digit in range(10)]
    seen = until(lambda: (told := api.get("/overview"))["totals"]["themes"] and told, what="the overview")
    assert seen["totals"]["themes"] == MANY
    assert until(lambda: api.get("/overview")["growth"], what="the growth")[-1]["turns"] == MANY


def test_a_role_with_some_themes_sees_only_these(
    tmp_path: Path,
    postgres: EmbeddedServer,
    admin_dsn: str,
    conn: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for theme in ("marketing", "sales"):
        _say(conn, theme)
        _remember(conn, theme, f"of {theme}")
    (hidden,) = conn.execute("SELECT 'm' || id FROM memory_entries WHERE agent_identity = 'sales'").fetchone() or ("",)
    home = mcp_home(tmp_path / "tenant", dsn=tenant_of(postgres, admin_dsn, "marketing"), dims=DIMS)
    with dashboard_api(home.path, monkeypatch) as api:
        assert [row["theme"] for row in api.get("/themes")["rows"]] == ["marketing"]
        assert _read(api, "marketing")["memories"] == 1
        for path in ("/theme", "/memories", "/turns", "/sessions", "/history"):
            status, said = api.refused(path, theme="sales")
            assert (status, "no theme 'sales'" in said) == (400, True)
        assert api.refused("/row", ref=hidden)[0] == 400
        assert api.refused("/session", theme="sales", session="s")[0] == 400
        assert {event["theme"] for event in api.get("/history")["rows"]} == {"marketing"}
        seen = until(lambda: (told := api.get("/overview"))["themes"] and told, what="the overview")
        assert [each["theme"] for each in seen["themes"]] == ["marketing"]
        assert (seen["totals"]["themes"], seen["totals"]["memories"]) == (1, 1)
        assert sum(each["turns"] for each in seen["growth"]) == 1


def test_a_theme_that_holds_nothing_is_said(api: DashboardApi) -> None:
    status, said = api.refused("/theme", theme="nowhere")
    assert (status, said) == (400, "no theme 'nowhere' holds anything; see: hermes-pgvector themes list")
    assert api.refused("/theme") == (400, "theme is missing")
    assert api.get("/themes") == {"rows": [], "total": 0, "more": False}
