"""Who wrote, replaced, moved and removed memories; and that of what was removed no text is left anywhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.backend import Backend
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.upkeep import delete_expired
from tests.conftest import DIMS, MakeProvider
from tests.support.leftovers import places_of
from tests.support.memory import called, landed, write_entries
from tests.support.row_security import session, tenant_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database

Ask = Callable[..., Any]


def actions(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["action"], event["who"].get("source", "")) for event in events]


def test_need_16_the_history_says_who_did_what_when_from_which_session(
    make_provider: MakeProvider, ask: Ask, dsn: str
) -> None:
    config = {"tools": ["remember", "forget"]}
    first = make_provider(config, session_id="monday", agent_identity="writer")
    first.on_memory_write("add", "memory", "Atlas costs 900")
    landed(first)
    first.on_memory_write("replace", "memory", "Atlas costs 950", {"old_text": "costs 900"})
    landed(first)
    second = make_provider(config, session_id="tuesday")
    second.on_memory_write("remove", "memory", "", {"old_text": "Atlas costs 950"})
    landed(second)
    told = called(second, "remember", {"content": "Bolt is red", "target": "user", "sync": True})
    assert called(second, "forget", {"id": told["id"]})["count"] == 1

    events = ask("history", "--theme", "marketing")
    assert actions(events) == [
        ("removed", "forget"), ("added", "remember"), ("removed", "memory_tool"), ("replaced", "memory_tool"),
        ("added", "memory_tool"),
    ]  # fmt: skip
    assert [event["who"]["session_id"] for event in events] == ["tuesday"] * 3 + ["monday"] * 2
    assert events[-1]["who"]["profile"] == "writer" and events[-1]["chars"] == len("Atlas costs 900")
    assert {event["db_role"] for event in events} == {"hermes"} and events[0]["at"]
    assert [event["action"] for event in ask("history", "--theme", "marketing", "--session", "monday")] == [
        "replaced", "added",
    ]  # fmt: skip
    assert len(ask("history", "--theme", "marketing", "--action", "removed")) == 2
    assert len(ask("history", "--theme", "marketing", "--target", "user", "--since", "today")) == 2
    assert ask("history", "--theme", "marketing", "--until", "yesterday") == []
    assert ask("history", events[-1]["ref"])[0]["action"] == "removed", "a memory that is gone is known by its number"


def test_need_16_confirming_a_memory_is_no_event(make_provider: MakeProvider, ask: Ask) -> None:
    for _ in range(3):
        provider = make_provider()
        provider.on_memory_write("add", "memory", "Atlas is blue")
        landed(provider)
    assert actions(ask("history", "--theme", "marketing")) == [("added", "memory_tool")]


def test_need_16_a_file_of_the_host_is_an_author_as_well(make_provider: MakeProvider, ask: Ask, home: Path) -> None:
    whose = {"gateway_session_key": "", "agent_identity": "marketing"}
    write_entries(home, "Atlas is blue", "Bolt is red")
    landed(make_provider(**whose))
    write_entries(home, "Bolt is red")
    landed(make_provider(**whose))
    assert actions(ask("history", "--theme", "marketing")) == [
        ("removed", "file"),
        ("added", "file"),
        ("added", "file"),
    ]


def test_need_16_no_way_to_the_table_goes_past_the_history(make_provider: MakeProvider, ask: Ask, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content) VALUES ('raw', 'memory', 'Atlas one')"
        )
        conn.execute("UPDATE memory_entries SET content = 'Atlas two'")
        conn.execute("UPDATE memory_entries SET agent_identity = 'cooked'")
        conn.execute("DELETE FROM memory_entries")
    events = ask("history", "--theme", "cooked")
    assert [event["action"] for event in events] == ["removed", "moved", "replaced", "added"]
    assert events[1]["old_theme"] == "raw" and {event["by"] for event in events} == {"database role hermes"}
    assert all("old_content" not in event for event in events)


def test_need_16_what_a_memory_said_is_kept_until_it_is_forgotten(make_provider: MakeProvider, ask: Ask) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas costs 900")
    landed(provider)
    provider.on_memory_write("replace", "memory", "Atlas costs 950", {"old_text": "Atlas costs 900"})
    landed(provider)
    replaced = ask("history", "--theme", "marketing")[0]
    assert replaced["old_content"] == "Atlas costs 900" and replaced["old_chars"] == 15
    assert ask("show", replaced["ref"])["history"][0]["old_content"] == "Atlas costs 900"
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas costs 950"})
    landed(provider)
    kept = [event["old_content"] for event in ask("history", replaced["ref"]) if "old_content" in event]
    assert kept == ["Atlas costs 950", "Atlas costs 900"]
    forgotten = ask("forget", replaced["ref"], "--yes")
    assert forgotten["counts"]["texts"] == 1 and "restored" in forgotten["notes"][0]
    assert not any("old_content" in event for event in ask("history", replaced["ref"]))


def test_need_16_with_history_texts_off_no_replaced_text_is_kept(make_provider: MakeProvider, admin_dsn: str) -> None:
    provider = make_provider({"history_texts": False})
    provider.on_memory_write("add", "memory", "Zanzibar costs 900")
    landed(provider)
    provider.on_memory_write("replace", "memory", "Atlas costs 950", {"old_text": "Zanzibar costs 900"})
    landed(provider)
    assert places_of(admin_dsn, "zanzibar") == []
    assert Database(admin_dsn).column("SELECT action FROM memory_history ORDER BY id") == ["added", "replaced"]


SECRET = "zanzibar"


def _replaced_then_removed(make_provider: MakeProvider, ask: Ask, dsn: str) -> None:
    provider = make_provider()
    provider.on_memory_write("replace", "memory", "The island is closed", {"old_text": SECRET})
    landed(provider)
    provider.on_memory_write("remove", "memory", "", {"old_text": "The island is closed"})
    landed(provider)
    _forget_what_was_removed(ask)


def _forget_what_was_removed(ask: Ask) -> None:
    (removed,) = ask("history", "--theme", "marketing", "--action", "removed")
    assert ask("forget", removed["ref"], "--yes")["done"]


def _by_the_tool(make_provider: MakeProvider, ask: Ask, dsn: str) -> None:
    provider = make_provider({"tools": ["forget"]})
    (found,) = Database(dsn).column("SELECT id FROM memory_entries WHERE content ILIKE %s", f"%{SECRET}%")
    assert called(provider, "forget", {"id": found})["count"] == 1


def _by_the_command(make_provider: MakeProvider, ask: Ask, dsn: str) -> None:
    (found,) = Database(dsn).column("SELECT id FROM memory_entries WHERE content ILIKE %s", f"%{SECRET}%")
    ask("edit", str(found), f"Another word on {SECRET}", "--yes")
    assert ask("forget", f"m{found}", "--yes")["done"]


def _by_what_another_once_said(make_provider: MakeProvider, ask: Ask, dsn: str) -> None:
    """The same words were replaced in one memory, and are then removed as another one."""
    provider = make_provider()
    (text,) = Database(dsn).column("SELECT content FROM memory_entries WHERE content ILIKE %s", f"%{SECRET}%")
    provider.on_memory_write("replace", "memory", "The island is closed", {"old_text": text})
    provider.on_memory_write("add", "memory", text)
    provider.on_memory_write("remove", "memory", "", {"old_text": text})
    landed(provider)
    _forget_what_was_removed(ask)


def _by_the_earlier_texts(make_provider: MakeProvider, ask: Ask, dsn: str) -> None:
    (found,) = Database(dsn).column("SELECT id FROM memory_entries WHERE content ILIKE %s", f"%{SECRET}%")
    ask("edit", str(found), "The island is closed", "--yes")
    assert ask("forget", f"m{found}", "--versions")["counts"] == {"texts": 1}
    assert ask("forget", f"m{found}", "--versions", "--yes")["done"]


def _by_the_theme(make_provider: MakeProvider, ask: Ask, dsn: str) -> None:
    ask("themes", "delete", "marketing", "--yes")
    assert Database(dsn).column("SELECT count(*) FROM memory_history") == [0]


def _by_sql(make_provider: MakeProvider, ask: Ask, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE memory_entries SET content = content || ' once more'")
        conn.execute("DELETE FROM memory_entries WHERE content ILIKE '%zanzibar%'")


@pytest.mark.parametrize(
    "remove",
    [
        _replaced_then_removed, _by_the_tool, _by_the_command, _by_what_another_once_said, _by_the_earlier_texts,
        _by_the_theme, _by_sql,
    ],
    ids=lambda remove: remove.__name__.strip("_"),
)  # fmt: skip
def test_need_16_of_a_removed_memory_no_text_is_left_anywhere(
    make_provider: MakeProvider,
    ask: Ask,
    dsn: str,
    admin_dsn: str,
    embedder: ScriptedEmbedder,
    remove: Callable[..., None],
) -> None:
    provider = make_provider({"embed_url": embedder.url, "chunk_tokens": 64})
    # Long enough for parts of its own, and other rows for the statistics.
    provider.on_memory_write("add", "memory", f"The island {SECRET} " + "lies far away in the south of the sea " * 40)
    for number in range(12):
        provider.on_memory_write("add", "memory", f"Crane number {number} is blue")
    landed(provider)
    assert "memory_entries" in places_of(admin_dsn, SECRET)
    remove(make_provider, ask, dsn)
    assert places_of(admin_dsn, SECRET) == []


def test_need_16_truncating_the_table_takes_the_earlier_texts_with_it(admin_dsn: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("INSERT INTO memory_entries (target, content) VALUES ('memory', 'Zanzibar')")
        conn.execute("UPDATE memory_entries SET content = 'Atlas'")
        conn.execute("TRUNCATE memory_entries CASCADE")
    assert places_of(admin_dsn, SECRET) == []


def test_need_16_renaming_and_merging_themes_take_the_history_along(
    make_provider: MakeProvider, ask: Ask, dsn: str
) -> None:
    for theme, texts in (("old", ("Atlas is blue", "Bolt is red")), ("new", ("Atlas is blue",))):
        provider = make_provider(gateway_session_key=theme)
        for text in texts:
            provider.on_memory_write("add", "memory", text)
        landed(provider)
    ask("themes", "merge", "old", "new", "--yes")
    assert Database(dsn).column("SELECT DISTINCT agent_identity FROM memory_history") == ["new"]
    events = ask("history", "--theme", "new")
    assert sorted(event["action"] for event in events) == ["added", "added", "added", "moved", "removed"]
    moved = next(event for event in events if event["action"] == "moved")
    assert moved["old_theme"] == "old" and moved["who"]["verb"] == "merge" and moved["who"]["os_user"]
    ask("themes", "rename", "new", "newer", "--yes")
    assert Database(dsn).column("SELECT DISTINCT agent_identity FROM memory_history") == ["newer"]


def test_need_16_a_memory_that_is_merged_hands_its_earlier_texts_over(
    make_provider: MakeProvider, ask: Ask, dsn: str
) -> None:
    for theme, texts in (("old", ("Atlas is red", "Bolt is grey")), ("new", ("Atlas is blue",))):
        provider = make_provider(gateway_session_key=theme)
        for text in texts:
            provider.on_memory_write("add", "memory", text)
        landed(provider)
    with psycopg.connect(dsn) as conn:
        for id, text in ((2, "Atlas is blue"), (2, "Bolt is red"), (1, "Atlas is blue")):
            conn.execute("UPDATE memory_entries SET content = %s WHERE id = %s", (text, id))
        conn.execute("UPDATE memory_entries SET replaces = 1 WHERE id = 2")
    ask("themes", "merge", "old", "new", "--yes")
    said = {name: [each.get("old_content") for each in ask("history", name)] for name in ("m2", "m3")}
    assert "Atlas is red" in said["m3"], "of the merged one"
    assert {"Atlas is blue", "Bolt is grey"} < set(said["m2"]), "of another one that said once what was merged"
    assert Database(dsn).column("SELECT replaces FROM memory_entries WHERE id = 2") == [3]
    ask("forget", "m3", "--yes")
    assert "Atlas is red" not in str(Database(dsn).column("SELECT old_content FROM memory_history"))


def test_need_31_what_a_merged_memory_said_before_hides_no_removal(
    make_provider: MakeProvider, ask: Ask, dsn: str
) -> None:
    old, new = (make_provider(gateway_session_key=theme) for theme in ("old", "new"))
    for provider, texts in ((old, ["Atlas is red"]), (new, ["Atlas is red", "Atlas is blue"])):
        for text in texts:
            provider.on_memory_write("add", "memory", text)
        landed(provider)
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE memory_entries SET content = 'Atlas is blue' WHERE id = 1")
    new.on_memory_write("remove", "memory", "", {"old_text": "Atlas is red"})
    landed(new)
    ask("themes", "merge", "old", "new", "--yes")
    assert [row["content"] for row in ask("restore", "--theme", "new")["rows"]] == ["Atlas is red"]
    assert Database(dsn).column("SELECT content FROM memory_entries ORDER BY id") == ["Atlas is red", "Atlas is blue"]


def test_trap_13_the_agents_role_cannot_rewrite_what_happened(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in (
            "UPDATE memory_history SET action = 'removed'",
            "UPDATE memory_history SET at = '2020-01-01'",
            "UPDATE memory_history SET who = '{}'",
            "TRUNCATE memory_history",
            "INSERT INTO memory_history (agent_identity, memory_id, target, action, db_role, who, chars, digest) "
            "VALUES ('marketing', 1, 'memory', 'added', 'somebody', '{}', 1, '')",
            "INSERT INTO memory_history (agent_identity, memory_id, target, action, at, who, chars, digest) "
            "VALUES ('marketing', 1, 'memory', 'added', '2020-01-01', '{}', 1, '')",
        ):
            with pytest.raises(pg.InsufficientPrivilege):
                conn.execute(statement.encode())
                pytest.fail(f"the runtime role may: {statement}")


def test_need_04_a_tenant_sees_and_writes_the_history_of_its_own_themes_only(
    postgres: EmbeddedServer, admin_dsn: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    login = tenant_of(postgres, admin_dsn, "marketing")
    with connect(admin_dsn) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content) VALUES "
            "('marketing', 'memory', 'Atlas is blue'), ('sales', 'memory', 'Atlas costs 900')"
        )
        conn.execute("UPDATE memory_entries SET content = content || ', they say'")
    with session(admin_dsn, "tenant_marketing") as tenant:
        assert tenant.execute("SELECT DISTINCT agent_identity FROM memory_history").fetchall() == [("marketing",)]
        assert (
            tenant.execute("UPDATE memory_history SET old_content = 'x' WHERE agent_identity = 'sales'").rowcount == 0
        )
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": login, "dims": DIMS}}}))
    for arguments in (
        ("list",), ("history",), ("show", "m1"), ("search", "atlas"), ("add", "Bolt is red", "--theme", "marketing"),
        ("edit", "m1", "Atlas is green", "--yes"), ("forget", "m1", "--yes"), ("sessions", "list"),
    ):  # fmt: skip
        code = main([*arguments, "--hermes-home", str(home)])
        said = capsys.readouterr()
        assert code == 0, said.err
        assert "900" not in said.out + said.err, arguments
    for arguments in (("show", "m2"), ("edit", "m2", "mine", "--yes"), ("forget", "m2", "--yes"), ("history", "m2")):
        assert main([*arguments, "--hermes-home", str(home)]) == 1
        assert "there is no" in capsys.readouterr().err
    with connect(admin_dsn) as conn:
        left = conn.execute("SELECT content FROM memory_entries ORDER BY id").fetchall()
    assert [row.content for row in left] == ["Atlas costs 900, they say", "Bolt is red"]


@pytest.mark.parametrize("server_is_ahead", [False, True])
def test_the_history_is_kept_for_a_bounded_time(
    server_is_ahead: bool, dsn: str, admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the clock of Postgres is wrong, and the agent's is not, nothing goes before its time."""
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("INSERT INTO memory_entries (target, content) VALUES ('memory', 'old'), ('memory', 'new')")
        conn.execute("UPDATE memory_history SET at = now() - interval '800 days' WHERE memory_id = 1")
        conn.execute("INSERT INTO hermes_operations SELECT 'sales', gen_random_uuid(), now() - interval '40 days'")
    if server_is_ahead:
        today = time.time()
        monkeypatch.setattr("time.time", lambda: today - 799 * 86400)
    backend = Backend(lambda: dsn, dims=DIMS, pool_max_size=1)
    backend.bring_up()
    try:
        with backend.connection(30.0) as conn:
            delete_expired(conn, hold_days=30)
    finally:
        backend.close()
    database = Database(dsn)
    assert database.column("SELECT memory_id FROM memory_history ORDER BY id") == ([1, 2] if server_is_ahead else [2])
    assert database.column("SELECT count(*) FROM hermes_operations") == [1 if server_is_ahead else 0]


def test_wrong_metadata_of_a_row_keeps_nobody_from_writing_it(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("INSERT INTO memory_entries (target, content, metadata) VALUES ('memory', 'odd', '[1, \"a\"]')")
    assert Database(dsn).column("SELECT who FROM memory_history") == [{}]
