"""Themes as an operator handles them: looked at, renamed, merged, deleted, exported, and logged."""

from __future__ import annotations

import base64
import json
import re
import stat
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from hermes_memory_pgvector.admin.common.hnsw import CHUNKS, ROWS
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed, recalled, write_entries
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run

Themes = Callable[..., Any]


@pytest.fixture
def themes(cli: Run, home: Path, dsn: str) -> Themes:
    """Runs `hermes-pgvector themes ARGUMENTS --json` and returns what it printed."""
    configure(home, dsn)

    def run(*arguments: str) -> Any:
        done = cli("themes", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def configure(home: Path, dsn: str, **settings: object) -> None:
    section = {"dsn": dsn, "dims": DIMS} | settings
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}))


def fill(make_provider: MakeProvider, theme: str, *texts: str) -> None:
    """A memory and a turn for each text, in a theme."""
    provider = make_provider(gateway_session_key=theme, session_id=f"{theme}-1")
    for text in texts:
        provider.on_memory_write("add", "memory", text)
        provider.sync_turn(f"Please tell me what you know of this: {text}?", f"As you said some time ago: {text}.")
    landed(provider)


def themes_in(dsn: str, table: str) -> list[str]:
    return Database(dsn).column(f"SELECT DISTINCT agent_identity FROM {table} ORDER BY 1")  # type: ignore[arg-type]


def test_need_16_list_and_show_tell_what_there_is(make_provider: MakeProvider, themes: Themes, cli: Run) -> None:
    fill(make_provider, "marketing", "Atlas is blue", "Bolt is red")
    fill(make_provider, "sales", "Atlas costs 900")
    listed = {row["theme"]: row for row in themes("list")}
    assert set(listed) == {"marketing", "sales"}
    assert (listed["marketing"]["memories"], listed["marketing"]["turns"]) == (2, 4)
    assert listed["sales"]["reachable"] is True and listed["sales"]["last_at"]
    shown = themes("show", " Marketing ")
    assert shown["theme"] == "marketing" and shown["sessions"] == 1 and shown["in_files"] == 2
    assert "marketing" in cli("themes", "list").stdout and "sessions" in cli("themes", "show", "sales").stdout


@pytest.mark.parametrize("verb", [("rename", "sales", "emea"), ("merge", "sales", "marketing"), ("delete", "sales")])
def test_need_16_without_yes_nothing_changes(
    make_provider: MakeProvider, themes: Themes, dsn: str, verb: tuple[str, ...]
) -> None:
    fill(make_provider, "marketing", "Atlas is blue")
    fill(make_provider, "sales", "Atlas is blue", "Atlas costs 900")
    before = themes("list"), themes_in(dsn, "hermes_mirror")
    meant = themes(*verb)
    assert meant["done"] is False and meant["counts"]["turns"] == 4
    assert (themes("list"), themes_in(dsn, "hermes_mirror")) == before and themes("log") == []
    assert themes(*verb, "--yes")["counts"] == meant["counts"]


def test_need_16_a_renamed_theme_has_everything_under_its_new_name(
    make_provider: MakeProvider, themes: Themes, dsn: str, embedder: ScriptedEmbedder
) -> None:
    provider = make_provider({"embed_url": embedder.url}, gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas costs 900")
    provider.on_memory_write("add", "memory", "Atlas is sold out")
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas is sold out"})
    provider.sync_turn(
        "What does the Atlas cost us these days, all in all?", "It costs 900 without tax, as it did in the spring."
    )
    landed(provider)
    change = themes("rename", "Sales", "emea", "--yes")
    assert change["done"] and change["counts"] == {"memories": 1, "merged": 0, "turns": 2}
    assert any("theme_aliases" in note for note in change["notes"])
    tables = ("memory_entries", "conversations", "hermes_tombstones", "hermes_mirror")
    assert [themes_in(dsn, table) for table in tables] == [["emea"]] * len(tables)
    assert themes_in(dsn, "hermes_operations") == ["emea", "sales"]  # a spool may hold a write under the old name
    renamed = make_provider({"embed_url": embedder.url}, gateway_session_key="emea")
    assert recalled(renamed, "atlas") == ["Atlas costs 900"]
    assert recalled(renamed, "what about the price", tool="recall_conversation")
    assert "900" in renamed.prefetch("What does the Atlas cost?")
    assert recalled(make_provider(gateway_session_key="sales"), "atlas") == []


def test_need_04_no_table_with_themes_is_forgotten_by_rename_and_merge(dsn: str) -> None:
    tables = Database(dsn).column(
        "SELECT table_name::text FROM information_schema.columns WHERE column_name = 'agent_identity'"
        " AND table_schema = current_schema()"
    )
    statements = files("hermes_memory_pgvector.admin.themes").joinpath("themes.sql").read_text(encoding="utf-8")
    known = set(re.findall(r" FROM (\w+) WHERE agent_identity = %\(theme\)s", statements))
    assert "hermes_mirror" in tables
    assert not set(tables) - known - {*ROWS.values(), *CHUNKS.values()}


def test_trap_13_a_rename_to_an_upper_case_name_stays_reachable(make_provider: MakeProvider, themes: Themes) -> None:
    fill(make_provider, "sales", "Atlas costs 900")
    change = themes("rename", "sales", "  Sales\tEMEA ", "--yes")
    assert change["into"] == "sales emea"
    assert any("stored as 'sales emea'" in note for note in change["notes"])
    for name in ("Sales EMEA", "sales emea"):
        assert recalled(make_provider(gateway_session_key=name), "atlas") == ["Atlas costs 900"]
    assert [row["reachable"] for row in themes("list")] == [True]


def test_trap_13_rows_that_no_session_can_name_are_shown_and_can_be_renamed(
    make_provider: MakeProvider, themes: Themes, cli: Run, dsn: str
) -> None:
    fill(make_provider, "sales", "Atlas costs 900")
    with psycopg.connect(dsn) as connection:
        for table in ("memory_entries", "conversations"):
            connection.execute(f"UPDATE {table} SET agent_identity = 'SALES'")  # type: ignore[arg-type]
    assert recalled(make_provider(gateway_session_key="SALES"), "atlas") == []
    (row,) = themes("list")
    assert row["theme"] == "SALES" and row["reachable"] is False
    assert "rename it" in cli("themes", "list").stdout
    assert themes("rename", "SALES", "SALES", "--yes")["into"] == "sales"
    assert recalled(make_provider(gateway_session_key="SALES"), "atlas") == ["Atlas costs 900"]


def test_need_16_every_part_of_a_long_text_follows_and_goes_with_it(
    make_provider: MakeProvider, themes: Themes, dsn: str, embedder: ScriptedEmbedder
) -> None:
    config = {"embed_url": embedder.url, "chunk_tokens": 100, "tools": ["remember", "forget"]}
    provider = make_provider(config, gateway_session_key="sales")
    told = called(provider, "remember", {"content": "The crane was greased on Monday. " * 60, "sync": True})
    provider.sync_turn("Tell me of the crane. " * 60, "It was greased on Monday. " * 60, session_id="s-1")
    landed(provider)
    parts = (
        "SELECT agent_identity || ' ' || least(count(*), 2) FROM memory_chunks GROUP BY agent_identity "
        "UNION ALL SELECT agent_identity || ' ' || least(count(*), 2) FROM conversation_chunks GROUP BY agent_identity"
    )
    until(lambda: Database(dsn).column(parts) == ["sales 2"] * 2, 20, "the parts' vectors")
    themes("rename", "sales", "emea", "--yes")
    assert Database(dsn).column(parts) == ["emea 2"] * 2
    assert called(make_provider(config, gateway_session_key="emea"), "forget", {"id": told["id"]})["count"] == 1
    assert Database(dsn).column(parts) == ["emea 2"], "the turn's"
    themes("delete", "emea", "--yes")
    assert Database(dsn).column(parts) == []


REFUSED = [
    (("rename", "sales", "marketing"), "themes merge"),
    (("rename", "sales", "MARKETING"), "stored as that"),
    (("rename", "sales", "SALES"), "is called 'sales' already"),
    (("rename", "sales", " "), "blank"),
    (("rename", "sales", "@telegram/default/x"), "begins with @"),
    (("rename", "sales", "mktg"), "theme_aliases"),
    (("rename", "nobody", "emea"), "no theme 'nobody'"),
    (("merge", "sales", "nobody"), "no theme 'nobody'"),
    (("merge", "sales", "Sales"), "both names mean"),
    (("delete", "nobody"), "themes list"),
    (("delete", "Sales"), "have the theme 'sales'"),
    (("delete", "mktg"), "have the theme 'marketing'"),
    (("export", "nobody"), "themes list"),
    (("show", "nobody"), "themes list"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED, ids=lambda value: " ".join(value)[:30])
def test_trap_13_what_cannot_be_meant_is_refused_with_the_reason(
    make_provider: MakeProvider, cli: Run, home: Path, dsn: str, arguments: tuple[str, ...], why: str
) -> None:
    configure(home, dsn, theme_aliases={"mktg": "marketing"})
    fill(make_provider, "marketing", "Atlas is blue")
    fill(make_provider, "sales", "Atlas costs 900")
    yes = () if arguments[0] in ("show", "export") else ("--yes",)
    done = cli("themes", *arguments, *yes)
    assert done.returncode == 1 and why in done.stderr, done.stderr
    assert themes_in(dsn, "memory_entries") == ["marketing", "sales"]
    assert Database(dsn).column("SELECT count(*) FROM hermes_maintenance") == [0]


def test_wrong_usage_is_exit_code_2(cli: Run, home: Path, dsn: str) -> None:
    configure(home, dsn)
    done = cli("themes", "rename", "sales")
    assert done.returncode == 2 and "required: NEW" in done.stderr


def test_a_name_that_allowed_themes_leaves_out_is_remarked(
    make_provider: MakeProvider, themes: Themes, home: Path, dsn: str
) -> None:
    fill(make_provider, "sales", "Atlas costs 900")
    configure(home, dsn, allowed_themes=["sales"])
    assert any("allowed_themes" in note for note in themes("rename", "sales", "emea")["notes"])


@pytest.mark.parametrize("verb", ["rename", "merge"])
def test_need_04_sessions_that_still_name_the_old_theme_are_told_of_unless_an_alias_leads_them(
    make_provider: MakeProvider, themes: Themes, home: Path, dsn: str, verb: str
) -> None:
    fill(make_provider, "sales", "Atlas costs 900")
    if verb == "merge":
        fill(make_provider, "emea", "Bolt is red")
    told = "sessions that still name 'sales' go on writing there"

    assert any(told in note for note in themes(verb, "sales", "emea")["notes"])

    configure(home, dsn, theme_aliases={"sales": "emea"})
    assert not any(told in note for note in themes(verb, "sales", "emea")["notes"])


def test_what_settings_say_otherwise_of_the_new_name_is_remarked(
    make_provider: MakeProvider, themes: Themes, home: Path, dsn: str
) -> None:
    fill(make_provider, "audit", "Atlas costs 900")
    fill(make_provider, "support", "Bolt is red")
    configure(home, dsn, retention={"*": 30, "audit": "forever"}, recall_off=["support"])
    kept = "the setting `retention` keeps turns of 'audit' for ever, and of 'audits' for 30 days"
    assert kept in themes("rename", "audit", "audits")["notes"]
    notes = themes("merge", "audit", "support")["notes"]
    assert notes[-1] == "the setting `recall_off` means 'support', and not 'audit'" and len(notes) == 3
    configure(home, dsn)
    assert not any("setting" in note for note in themes("rename", "audit", "audits", "--yes")["notes"])


def test_need_16_a_merge_keeps_what_both_hold_once(make_provider: MakeProvider, themes: Themes, dsn: str) -> None:
    fill(make_provider, "old", "Atlas is blue", "Bolt is red")
    fill(make_provider, "new", "Atlas is blue", "Cord is green")
    gone = make_provider({"tools": ["remember", "forget"]}, gateway_session_key="old")
    told = called(gone, "remember", {"content": "Cord is green", "sync": True})
    assert called(gone, "forget", {"id": told["id"]})["count"] == 1
    with psycopg.connect(dsn) as connection:
        for theme, created, updated in (("old", "2020-01-01", "2025-01-01"), ("new", "2021-01-01", "2024-01-01")):
            connection.execute(
                "UPDATE memory_entries SET created_at = %s, updated_at = %s WHERE agent_identity = %s",
                (created, updated, theme),
            )
    change = themes("merge", "old", "new", "--yes")
    assert change["counts"] == {"memories": 1, "merged": 1, "turns": 4}
    assert sorted(recalled(make_provider(gateway_session_key="new"), "atlas bolt cord")) == [
        "Atlas is blue", "Bolt is red", "Cord is green",
    ]  # fmt: skip
    times = "SELECT created_at::date || ' ' || updated_at::date FROM memory_entries WHERE content = 'Atlas is blue'"
    assert Database(dsn).column(times) == ["2020-01-01 2025-01-01"]
    for table in ("memory_entries", "conversations", "hermes_mirror"):
        assert themes_in(dsn, table) == ["new"], table
    assert themes_in(dsn, "hermes_operations") == ["new", "old"]  # a spool may hold a write under the old name
    assert themes_in(dsn, "hermes_tombstones") == [], "what one theme holds is not buried by the other"


def test_need_16_a_theme_of_which_only_removed_texts_are_left_can_be_deleted(
    make_provider: MakeProvider, themes: Themes, cli: Run, dsn: str
) -> None:
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas costs 900")
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas"})
    landed(provider)
    assert "Atlas costs 900" in cli("restore", "--dry-run").stdout
    assert "1 earlier or removed text in its history goes as well" in themes("delete", "sales")["notes"]
    assert themes("delete", "sales", "--yes")["counts"] == {"memories": 0, "turns": 0}
    assert Database(dsn).column("SELECT old_content FROM memory_history WHERE old_content IS NOT NULL") == []
    assert "nothing that was removed can be brought back" in cli("restore", "--dry-run").stdout


def test_need_16_a_deleted_theme_is_gone_and_no_file_brings_it_back(
    make_provider: MakeProvider, themes: Themes, dsn: str, home: Path
) -> None:
    write_entries(home, "Zebulon is blue")
    whose = {"gateway_session_key": "", "agent_identity": "sales"}
    landed(make_provider(**whose))
    keeper = make_provider({"tools": ["remember"]})
    assert called(keeper, "remember", {"content": "Bolt is red", "sync": True})["state"] == "stored"
    fill(make_provider, "sales", "Zebulon costs 900")
    change = themes("delete", "sales", "--yes")
    assert change["counts"] == {"memories": 2, "turns": 2}
    assert any("MEMORY.md" in note for note in change["notes"])
    rows = (
        "SELECT to_jsonb(m)::text FROM memory_entries AS m UNION ALL SELECT to_jsonb(c)::text FROM conversations AS c"
    )
    assert not any("ebulon" in row for row in Database(dsn).column(rows))
    write_entries(home, "Zebulon is blue", "Cord is green")
    landed(make_provider(**whose))
    assert Database(dsn).column("SELECT content FROM memory_entries WHERE agent_identity = 'sales'") == [
        "Cord is green"
    ]
    assert recalled(make_provider(gateway_session_key="marketing"), "bolt") == ["Bolt is red"]


def test_need_16_an_export_holds_every_row_with_all_that_is_known_of_it(
    make_provider: MakeProvider, cli: Run, home: Path, dsn: str, embedder: ScriptedEmbedder, tmp_path: Path
) -> None:
    configure(home, dsn)
    provider = make_provider({"embed_url": embedder.url}, gateway_session_key="sales", session_id="s-1")
    provider.on_memory_write("add", "user", "Ada likes\nAtlas — 日本")
    provider.sync_turn(
        "What does the Atlas cost us these days, all in all?", "It costs 900 without tax, as it did in the spring."
    )
    landed(provider)
    fill(make_provider, "marketing", "Secret of marketing")
    done = cli("themes", "export", "sales")
    header, *lines, trailer = (json.loads(line) for line in done.stdout.splitlines())
    assert header["themes"] == ["sales"] and (trailer["memories"], trailer["turns"]) == (1, 2)
    assert [(line["store"], line.get("target") or line["role"]) for line in lines] == [
        ("memories", "user"), ("turns", "user"), ("turns", "assistant"),
    ]  # fmt: skip
    assert lines[0]["content"] == "Ada likes\nAtlas — 日本"
    for line in lines:
        assert line["theme"] == "sales" and line["metadata"]["platform"] == "api_server"
        assert line.get("session_id", line["metadata"]["session_id"]) == "s-1"
        assert line.get("ts") or (line["created_at"] and line["updated_at"])
        assert "embedding" not in line
    assert "Secret" not in done.stdout and "1 memory and 2 turns" in done.stderr

    out = tmp_path / "sales.jsonl"
    assert cli("themes", "export", "sales", "--vectors", "--output", str(out)).returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    vectors = [base64.b64decode(json.loads(line)["embedding"]) for line in out.read_text().splitlines()[1:-1]]
    assert {len(vector) for vector in vectors} == {4 * DIMS}
    again = cli("themes", "export", "sales", "--output", str(out))
    assert again.returncode == 1 and "exists" in again.stderr
    assert len(out.read_text().splitlines()) == 5


def test_trap_13_what_was_done_is_logged_and_the_agents_role_cannot_unlog_it(
    make_provider: MakeProvider, themes: Themes, cli: Run, dsn: str
) -> None:
    fill(make_provider, "sales", "Atlas costs 900")
    themes("rename", "sales", "emea", "--yes")
    assert cli("themes", "export", "emea").returncode == 0
    themes("delete", "emea", "--yes")
    log = themes("log")
    assert [entry["verb"] for entry in log] == ["delete", "export", "rename"]
    assert log[2]["arguments"] == {"theme": "sales", "into": "emea"} and log[2]["counts"]["turns"] == 2
    assert all(entry["db_role"] == "hermes" and entry["os_user"] and entry["at"] for entry in log)
    assert "900" not in json.dumps(log)
    assert "rename 'sales' -> 'emea': " in cli("themes", "log").stdout
    with psycopg.connect(dsn, autocommit=True) as runtime:
        for statement in (
            "DELETE FROM hermes_maintenance",
            "UPDATE hermes_maintenance SET verb = 'nothing'",
            "TRUNCATE hermes_maintenance",
            "DROP TABLE hermes_maintenance",
            "INSERT INTO hermes_maintenance (db_role, os_user, host, verb, arguments, counts) "
            "VALUES ('somebody', 'else', 'h', 'delete', '{}', '{}')",
            "INSERT INTO hermes_maintenance (done_at, os_user, host, verb, arguments, counts) "
            "VALUES ('2020-01-01', 'else', 'h', 'delete', '{}', '{}')",
        ):
            with pytest.raises(pg.InsufficientPrivilege):
                runtime.execute(statement.encode())
                pytest.fail(f"the runtime role may: {statement}")
    assert len(themes("log", "--limit", "2")) == 2


def test_need_16_a_change_that_fails_half_way_changes_nothing(
    make_provider: MakeProvider, themes: Themes, cli: Run, dsn: str, admin_dsn: str
) -> None:
    fill(make_provider, "sales", "Atlas costs 900")
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("ALTER TABLE memory_entries ADD CONSTRAINT no_emea CHECK (agent_identity <> 'emea')")
    done = cli("themes", "rename", "sales", "emea", "--yes")
    assert done.returncode == 1 and "no_emea" in done.stderr
    assert themes_in(dsn, "conversations") == ["sales"] and themes("log") == []


def test_a_big_theme_is_moved_whole_and_says_how_far_it_is(
    themes: Themes, cli: Run, dsn: str, make_provider: MakeProvider
) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "INSERT INTO conversations (session_id, agent_identity, role, content) "
            "SELECT 's', 'big', 'user', 'crane number' || n FROM generate_series(1, 6500) AS n"
        )
    done = cli("themes", "rename", "big", "huge", "--yes")
    assert done.returncode == 0 and "6,500 of 6,500" in done.stderr
    assert Database(dsn).column("SELECT agent_identity || count(*) FROM conversations GROUP BY agent_identity") == [
        "huge6500"
    ]
    hits = recalled(make_provider(gateway_session_key="huge"), "number4711", tool="recall_conversation")
    assert hits[0] == "crane number4711"


def test_another_login_may_be_named(
    make_provider: MakeProvider, cli: Run, home: Path, admin_dsn: str, dsn: str
) -> None:
    fill(make_provider, "sales", "Atlas costs 900")
    configure(home, dsn)
    done: subprocess.CompletedProcess[str] = cli("themes", "delete", "sales", "--admin-dsn", admin_dsn, "--yes")
    assert done.returncode == 0, done.stderr
    assert Database(dsn).column("SELECT db_role FROM hermes_maintenance") == ["postgres"]


# -- what doctor says of it


@pytest.mark.parametrize(
    ("memory", "warned"),
    [
        ({}, "MEMORY.md and USER.md"),
        ({"memory_enabled": False}, "USER.md"),
        ({"memory_enabled": False, "user_profile_enabled": False}, ""),
    ],
)
def test_need_04_doctor_notes_themes_that_share_the_hosts_memory(
    make_provider: MakeProvider, cli: Run, home: Path, dsn: str, memory: dict[str, bool], warned: str
) -> None:
    section = {"dsn": dsn, "dims": DIMS}
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}, "memory": memory}))

    def notes() -> list[dict[str, str]]:
        checks = json.loads(cli("doctor", "--json").stdout)["checks"]
        return [check for check in checks if check["name"] == "built-in memory"]

    fill(make_provider, "marketing", "Atlas is blue")
    assert notes() == []
    provider = make_provider(gateway_session_key="sales", agent_identity="default")
    provider.sync_turn(
        "What does the Atlas cost us these days, all in all?", "It costs 900 without tax, as it did in the spring."
    )
    landed(provider)
    found = notes()
    assert len(found) == bool(warned)
    for note in found:
        assert note["state"] == "note" and note["said"].startswith(f"{warned} of this profile")
        assert "marketing, sales" in note["said"] and "memory_enabled: false" in note["fix"]


def test_need_04_doctor_of_a_home_without_agents_tells_nothing_of_anothers_themes(
    make_provider: MakeProvider, cli: Run, tmp_path: Path, dsn: str
) -> None:
    for theme in ("marketing", "sales"):
        fill(make_provider, theme, f"Atlas is blue, says {theme}")
    other = tmp_path / "other"
    other.mkdir()
    configure(other, dsn)

    checks = json.loads(cli("doctor", "--json", "--hermes-home", str(other)).stdout)["checks"]

    assert [check["said"] for check in checks if check["name"] == "built-in memory"] == []


def test_need_16_of_two_who_rename_into_one_name_at_once_the_second_is_refused(
    make_provider: MakeProvider, home: Path, dsn: str, start_cli: Callable[..., subprocess.Popen[str]]
) -> None:
    configure(home, dsn)
    fill(make_provider, "sales", "Atlas is blue")
    fill(make_provider, "support", "Bolt is red")
    with psycopg.connect(dsn) as holding:
        holding.execute("LOCK TABLE memory_entries IN EXCLUSIVE MODE")
        both = [start_cli("themes", "rename", old, "emea", "--yes") for old in ("sales", "support")]
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE "
        waiting += "datname = current_database())"
        until(lambda: Database(dsn).column(waiting) == [2], 60, "both to wait")
    said = [process.communicate(timeout=120)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1], said
    assert "there is a theme 'emea' already" in "".join(said)
    assert len(themes_in(dsn, "memory_entries")) == 2
