"""What agents ask of tables that are spread by theme: the same of each theme, and nothing of all at once.

Without Citus: these tables stand in one place. docs/scaling.md says what was tried with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg

from hermes_memory_pgvector.admin.browse import theme_sizes
from hermes_memory_pgvector.admin.common import theme_rows
from hermes_memory_pgvector.admin.common.holdings import COUNTED_ROWS
from hermes_memory_pgvector.admin.prune.old_turns import aged, announce
from hermes_memory_pgvector.admin.status.hot_report import hot_themes
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.store.connection import DeadlineConnection
from hermes_memory_pgvector.store.fan_out import MOST_THEMES
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.vector_search import theme_names
from tests.conftest import MakeProvider
from tests.support.memory import called, landed
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.spread import spread
from tests.support.statements import every_statement
from tests.support.stored import Database

QUESTION = "Who owns the Atlas budget?"
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("recall_memory", {"query": QUESTION}),
    ("recall_memory", {"query": '"Atlas budget"', "target": "memory", "since": "2020-01-01"}),
    ("recall_memory", {"query": "the Atlsa bugdet of yesterday"}),
    ("recall_conversation", {"query": QUESTION}),
    ("recall_conversation", {"query": QUESTION, "role": "user"}),
    ("recall_conversation", {"query": QUESTION, "scope": "session"}),
    ("recall_conversation", {"query": QUESTION, "scope": "sales"}),
    ("memory_profile", {}),
]


def fill(make: Callable[[str], Any], *themes: str) -> None:
    """Each theme gets four memories and as many exchanges, one of them long."""
    for theme in themes:
        provider = make(theme)
        for number in range(4):
            provider.on_memory_write("add", "memory", f"The Atlas budget {number} is owned by {theme}")
            long = "and more than that I could tell. " * (40 if number == 2 else 1)
            provider.sync_turn(f"Who owns the Atlas budget {number}?", f"It is owned by {theme}, as I said, {long}")
        landed(provider)


def answers(make: Callable[[str], Any]) -> list[object]:
    """What the marketing theme is told."""
    provider = make("marketing")
    return [*(called(provider, tool, dict(row)) for tool, row in ASKED), provider.prefetch(QUESTION)]


def test_need_44_each_theme_is_told_the_same_where_the_tables_are_spread(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, admin_dsn: str
) -> None:
    def make(theme: str) -> Any:
        config = {"embed_url": embedder.url, "chunk_tokens": 100, "tools": ["remember", "memory_profile"]}
        return make_provider(config, gateway_session_key=theme, session_id=f"{theme}-1")

    fill(make, "marketing", "sales")
    before = answers(make)
    assert "owned by marketing" in str(before[-1])
    close_all()
    spread(admin_dsn)
    assert answers(make) == before
    writer = make("marketing")
    writer.on_memory_write("replace", "memory", "Atlas was sold", {"old_text": "budget 1 is owned by marketing"})
    writer.on_memory_write("remove", "memory", "", {"old_text": "budget 2 is owned by marketing"})
    landed(writer)
    held = [entry["content"] for entry in called(writer, "memory_profile", {})["memory"]]
    assert sorted(held) == ["Atlas was sold", *(f"The Atlas budget {n} is owned by marketing" for n in (0, 3))]
    noted = "SELECT concat_ws(' ', action, who ->> 'source', old_row IS NOT NULL) FROM memory_history ORDER BY id"
    assert Database(admin_dsn).column(noted)[-2:] == ["replaced memory_tool f", "removed memory_tool t"]


def test_need_44_all_themes_are_asked_where_the_tables_are_spread(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, admin_dsn: str
) -> None:
    def make(theme: str, **more: Any) -> Any:
        config = {"embed_url": embedder.url, "chunk_tokens": 100, "cross_theme": "all"}
        return make_provider(config, gateway_session_key=theme, session_id=f"{theme}-1", **more)

    fill(make, "marketing", "sales", "crew")
    # Of two words of a question, one is rare in one theme and missing in another.
    for number in range(6):
        make("sales").on_memory_write("add", "memory", f"A timeout on line {number} was ignored")
    make("crew").on_memory_write("add", "memory", "ERR_43 is what the printer says without paper in its tray")
    landed(make("sales"))
    landed(make("crew"))
    chat = make("agent:main:slack:dm:D1", platform="slack", chat_type="dm")
    chat.sync_turn("Who owns the Atlas budget in private?", "It is owned by nobody whom others should know")
    landed(chat)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("recall_memory", {"query": QUESTION}),
        ("recall_memory", {"query": '"Atlas budget 3"'}),
        ("recall_memory", {"query": "the Atlsa bugdet"}),
        ("recall_conversation", {"query": QUESTION}),
        ("recall_conversation", {"query": QUESTION, "role": "assistant", "since": "2020-01-01"}),
        ("recall_conversation", {"query": "owned by sales"}),
        ("recall_memory", {"query": "ERR_43 timeout"}),
    ]

    def found() -> list[list[str]]:
        provider = make("marketing")
        told = []
        for tool, row in asked:
            results = called(provider, tool, {**row, "scope": "all", "limit": 20})["results"]
            texts = [f"{each.get('theme')} {each['content']}" for each in results]
            # How much a turn's length counts depends on the texts of its theme, so long turns may stand elsewhere.
            told.append(sorted(texts) if tool == "recall_conversation" else texts)
        return told

    before = found()
    assert all(before)
    close_all()
    spread(admin_dsn)
    assert found() == before
    assert "nobody" not in str(before) and "crew" in str(before[0]) and "sales" in str(before[3])
    with psycopg.connect(admin_dsn) as connection:
        connection.execute(
            "INSERT INTO memory_entries (agent_identity, target, content)"
            " SELECT 'theme ' || n, 'memory', 'One more' FROM generate_series(1, %s) AS n",
            [MOST_THEMES - 2],
        )
    answer = called(make("marketing"), "recall_memory", {"query": QUESTION, "scope": "all"})
    assert f"more than {MOST_THEMES} themes" in answer["error"] and "name one" in answer["error"]


def test_need_44_what_is_counted_of_all_themes_is_the_same_where_the_tables_are_spread(admin_dsn: str) -> None:
    """By statements without recursion, which a database that is spread has no way to do."""
    with connect(admin_dsn) as conn:
        for theme, days in (("marketing", 0), ("marketing", 3), ("sales", 0), ("sales", 30)):
            ago = f"now() - interval '{days} days'"
            conn.execute(
                "INSERT INTO conversations (session_id, agent_identity, role, content, ts)"
                f" SELECT 's', %(theme)s, 'user', 'Turn ' || n, {ago} FROM generate_series(1, 5) AS n".encode(),
                {"theme": theme},
            )
            conn.execute(
                "INSERT INTO memory_entries (agent_identity, target, content, created_at)"
                f" VALUES (%(theme)s || ' alone', 'memory', %(theme)s || {days}, {ago})".encode(),
                {"theme": theme},
            )
        most = {"themes": 100, "most": COUNTED_ROWS}
        growth = conn.execute(every_statement()["recent_growth"].encode(), most).fetchone()
        assert conn.execute(every_statement()["recent_growth_spread"].encode()).fetchone() == growth
        assert growth is not None and growth.themes == 4 and growth.turns_last_week == 15
        names, sizes = theme_names(conn), _sizes(conn)
        conn.spread = True
        assert _sizes(conn) == sizes
        assert theme_names(conn) == names == ["marketing", "marketing alone", "sales", "sales alone"]


def test_need_44_the_same_themes_are_cleaned_and_told_where_the_tables_are_spread(admin_dsn: str) -> None:
    """By statements without recursion and LATERAL."""
    with connect(admin_dsn) as conn:
        conn.execute(
            b"INSERT INTO conversations (session_id, agent_identity, role, content, ts, metadata) VALUES"
            b" ('s', 'marketing', 'user', 'Old', now() - interval '9 days', '{\"platform\": \"api_server\"}'),"
            b" ('s', 'marketing', 'user', 'New', now(), '{\"profile\": \"work\"}'),"
            b" ('s', 'sales', 'user', 'Ahead', now() + interval '9 days', '{\"platform\": \"api_server\"}'),"
            b" ('s', 'crew', 'user', 'Early', '-infinity', '{}')"
        )
        announce(conn, {"marketing": "9d"})
        conn.execute(
            b"INSERT INTO memory_entries (agent_identity, target, content, pinned) VALUES"
            b" ('sales', 'memory', 'Pinned', true), ('sales', 'memory', 'Both', true), ('crew', 'memory', 'Not', false)"
        )
        found = []
        for conn.spread in (False, True):
            (old,) = aged(conn, uuid4(), lease_s=60, grace_s=60, every_s=60)
            hot = [each["theme"] for each in hot_themes(conn, Settings())]
            of_home = theme_rows.of_home(conn, "work", "no host")
            found.append((old.theme, old.policy, round(old.age_s / 86_400), hot, theme_rows.of_clients(conn), of_home))
        assert found == [("marketing", "9d", 9, ["sales"], ["sales"], ["marketing"])] * 2


def _sizes(conn: DeadlineConnection) -> tuple[list[dict[str, Any]], ...]:
    """What the dashboard shows of them."""
    names = theme_sizes.largest_themes(conn, 10)
    sizes = [
        {name: each[name] for name in ("theme", "memories", "turns", "last_at")}
        for each in theme_sizes.theme_sizes(conn, names)
    ]
    return sizes, theme_sizes.growth(conn, 40), [{"names": names}]
