"""copy: one database of ours into another, proven, and the switch to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector import cli
from hermes_memory_pgvector.admin.common.embedded_server import embedded_server
from hermes_memory_pgvector.admin.common.file_replacing import changing
from hermes_memory_pgvector.admin.common.migrations import DROP_SCRIPT, migrate
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.host.session_context import load_settings
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled, write_entries
from tests.support.records import all_rows, fill_theme
from tests.support.row_security import tenant_of
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import DIMS

CONFIG = """\
# kept
plugins:
  pgvector:
    dsn: {dsn!r}  # the old one
    dims: 384
"""


@pytest.fixture
def in_use(home: Path, dsn: str) -> Path:
    """The home's configuration, which names the first database."""
    path = home / "config.yaml"
    path.write_text(CONFIG.format(dsn=dsn))
    return path


def copied(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    capsys.readouterr()
    assert cli.main(["copy", *arguments, "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert isinstance(told, dict)
    return told


def test_need_05_what_was_removed_and_written_by_hand_after_a_switch_stays_where_it_was_read(
    in_use: Path, make_provider: MakeProvider, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    old = make_provider(gateway_session_key="sales")
    write_entries(in_use.parent, "Atlas is blue", "Bolt is red")
    old.on_memory_write("add", "memory", "Bolt is red")
    landed(old)
    copied(capsys, "--to", second_dsn, "--switch")
    close_all()
    settings, database = {"dsn": second_dsn, "history_texts": False}, Database(second_dsn)
    new = make_provider(settings, gateway_session_key="sales")
    landed(new)
    new.on_memory_write("remove", "memory", "", {"old_text": "Bolt is red"})
    write_entries(in_use.parent, "Atlas is blue")
    landed(new)
    close_all()
    write_entries(in_use.parent, "Atlas is blue", "Bolt is red", age_s=-2)
    landed(make_provider(settings))
    assert database.themes_of_memory("Bolt is red") == ["default"]
    close_all()
    copied(capsys, "--from", dsn)
    assert database.themes_of_memory("Bolt is red") == ["default"]


def test_need_16_a_target_that_takes_no_writes_is_named_by_its_option(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the source is a replica, which is right for a source; and likewise the login of another command."""
    fill_theme(dsn, "sales", memories=3, turns=9)
    on = {"options": "-c default_transaction_read_only=on"}
    in_use.write_text(CONFIG.format(dsn=make_conninfo(dsn, **on)))
    assert cli.main(["copy", "--to", make_conninfo(second_dsn, **on)]) == 1
    said = capsys.readouterr().err
    assert "let `--to` lead to the primary server" in said and "`dsn`" not in said and "interrupted" not in said
    assert cli.main(["copy", "--to", second_dsn]) == 0, "a source is only read"
    capsys.readouterr()
    assert cli.main(["themes", "rename", "sales", "emea", "--yes", "--admin-dsn", make_conninfo(second_dsn, **on)]) == 1
    assert "let `--admin-dsn` lead to the primary server" in capsys.readouterr().err


def test_need_16_everything_is_copied_once_and_what_came_meanwhile_by_running_it_again(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales", memories=3, turns=9, dims=DIMS, model="test-model")
    fill_theme(dsn, "marketing")
    fill_theme(second_dsn, "sales", memories=1, turns=0, prefix="Bolt")
    told = copied(capsys, "--to", second_dsn)
    assert told["verified"] is True and told["written_meanwhile"] == 0
    assert (told["memories_added"], told["turns_added"], told["vectors"]) == (5, 13, 12)
    assert {row["theme"]: row["result"] for row in told["themes"]} == {  # type: ignore[attr-defined]
        "marketing": "the same", "sales": "all there, and more",
    }  # fmt: skip
    there = [row for row in all_rows(second_dsn, vectors=True) if not row[3].startswith("Bolt")]
    assert there == all_rows(dsn, vectors=True)
    fill_theme(dsn, "support", memories=1, turns=1)
    told = copied(capsys, "--to", second_dsn)
    assert (told["memories_added"], told["turns_added"], told["memories_there"]) == (1, 1, 5)


def test_need_16_a_number_that_was_told_before_a_copy_names_the_same_row_afterwards(
    in_use: Path, make_provider: MakeProvider, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent forgets by the number in an answer of before, which its transcript still has."""
    numbered = "SELECT id || ' ' || agent_identity || ' ' || content FROM {} ORDER BY id"
    tables = ("memory_entries", "conversations")
    for prefix in ("Atlas", "Bolt"):  # of two themes in turn, with gaps
        fill_theme(dsn, "sales", prefix=prefix)
        fill_theme(dsn, "marketing", prefix=prefix)
    with psycopg.connect(dsn) as conn:
        conn.execute("DELETE FROM memory_entries WHERE content LIKE 'Atlas fact 1%'")
    told = int(Database(dsn).column("SELECT max(id) FROM memory_entries WHERE agent_identity = 'sales'")[0])
    text = Database(dsn).column("SELECT content FROM memory_entries WHERE id = %s", told)
    copied(capsys, "--to", second_dsn)
    for table in tables:
        kept = Database(dsn).column(numbered.format(table))
        assert kept and Database(second_dsn).column(numbered.format(table)) == kept

    moved = make_provider({"dsn": second_dsn, "tools": ["forget"]}, gateway_session_key="sales")
    assert [each["content"] for each in called(moved, "forget", {"id": told})["forgotten"]] == text
    moved.on_memory_write("add", "memory", "Cord is green")
    landed(moved)
    fill_theme(dsn, "sales", prefix="Drum")
    again = copied(capsys, "--to", second_dsn)
    assert (again["verified"], again["memories_added"], again["turns_added"]) == (True, 2, 4)
    for table in tables:
        assert Database(second_dsn).column(f"SELECT count(*) - count(DISTINCT id) FROM {table}") == [0]
    assert "Cord is green" in recalled(moved, "cord")


def test_need_16_a_memory_that_was_replaced_between_two_copies_keeps_its_number(
    in_use: Path, make_provider: MakeProvider, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    copied(capsys, "--to", second_dsn)
    provider.on_memory_write("replace", "memory", "Atlas is green", {"old_text": "blue"})
    landed(provider)
    assert copied(capsys, "--to", second_dsn)["removed"] == 1
    numbered = "SELECT id || content FROM memory_entries"
    assert Database(second_dsn).column(numbered) == Database(dsn).column(numbered) == ["1Atlas is green"]


def test_need_16_a_copy_that_was_killed_and_is_run_again_keeps_the_numbers_of_all_rows(
    in_use: Path,
    start_cli: Callable[..., subprocess.Popen[str]],
    admin_dsn: str,
    dsn: str,
    second_dsn: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Otherwise they would have numbers that agents gave to what they wrote between the two runs."""
    fill_theme(dsn, "sales", memories=3, turns=9)
    fill_theme(dsn, "marketing", memories=3, turns=9)
    in_the_way = make_conninfo(admin_dsn, dbname=conninfo_to_dict(second_dsn)["dbname"])
    with psycopg.connect(in_the_way) as holder:
        holder.execute("LOCK TABLE conversations IN SHARE MODE")
        killed = start_cli("copy", "--to", second_dsn)
        until(lambda: "waiting for a lock" in str(killed.stderr and killed.stderr.readline()), 60, "the turns")
        killed.kill()
        killed.communicate()
    with psycopg.connect(second_dsn) as conn:  # as one that a row of there has got meanwhile
        conn.execute("INSERT INTO conversations (id, agent_identity, session_id, role, content, ts)"
                     " VALUES (9, 'sales', 'other', 'user', 'It was said there.', now())")  # fmt: skip
    for prefix in ("Bolt", "Cord"):
        fill_theme(dsn, "sales", prefix=prefix, memories=5, turns=40)
    told = copied(capsys, "--to", second_dsn)
    assert told["verified"] is True and told["written_meanwhile"] == 0

    numbered = "SELECT id, agent_identity || ' ' || content FROM {}"
    for table, others in (("memory_entries", 0), ("conversations", 1)):
        with psycopg.connect(dsn) as here, psycopg.connect(second_dsn) as conn:
            before = dict(here.execute(numbered.format(table)).fetchall())
            now = dict(conn.execute(numbered.format(table)).fetchall())
        assert sum(now.get(number) == row for number, row in before.items()) == len(before) - others
    # After the switch agents write there, until theirs are restarted here.
    with psycopg.connect(second_dsn) as conn:
        conn.execute("INSERT INTO memory_entries (agent_identity, target, content) VALUES ('sales', 'user', 'Mine')")
    fill_theme(dsn, "sales", prefix="Drum", memories=2, turns=0)
    copied(capsys, "--to", second_dsn)
    late = "SELECT id, content FROM memory_entries WHERE content LIKE 'Drum%' ORDER BY id"
    with psycopg.connect(dsn) as here, psycopg.connect(second_dsn) as conn:
        assert here.execute(late).fetchall() == conn.execute(late).fetchall()


def test_trap_05_what_is_removed_between_two_copies_does_not_stay_at_the_other_one(
    in_use: Path, make_provider: MakeProvider, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.on_memory_write("add", "memory", "Bolt is red")
    landed(provider)
    copied(capsys, "--to", second_dsn)
    provider.on_memory_write("remove", "memory", "", {"old_text": "Bolt is red"})
    provider.on_memory_write("add", "memory", "Cord is green")
    landed(provider)
    told = copied(capsys, "--to", second_dsn)
    assert told["removed"] == 1 and told["verified"] is True
    moved = make_provider({"dsn": second_dsn}, gateway_session_key="sales", hermes_home=str(in_use.parent / "other"))
    assert sorted(recalled(moved, "atlas bolt cord")) == ["Atlas is blue", "Cord is green"]
    for table in ("hermes_tombstones", "hermes_operations"):
        rows = f"SELECT t::text FROM {table} AS t ORDER BY 1"
        assert Database(second_dsn).column(rows) == Database(dsn).column(rows)  # type: ignore[arg-type]


def test_need_16_what_somebody_remembered_at_the_other_one_stays_though_a_file_dropped_it_here(
    in_use: Path, make_provider: MakeProvider, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there = make_provider(
        {"dsn": second_dsn, "tools": ["remember"]},
        gateway_session_key="sales", hermes_home=str(in_use.parent / "other"),
    )  # fmt: skip
    called(there, "remember", {"content": "Bolt is red", "sync": True})
    provider = make_provider({"tools": ["forget"]}, gateway_session_key="sales")
    for text in ("Atlas is blue", "Bolt is red"):
        provider.on_memory_write("add", "memory", text)
    provider.on_memory_write("remove", "memory", "", {"old_text": "Bolt is red"})
    landed(provider)
    assert copied(capsys, "--to", second_dsn, "--dry-run")["removed"] == 0
    assert copied(capsys, "--to", second_dsn)["verified"] is True
    assert sorted(recalled(there, "atlas bolt")) == ["Atlas is blue", "Bolt is red"]
    provider.on_memory_write("add", "memory", "Bolt is red")
    landed(provider)
    (number,) = Database(dsn).column("SELECT id FROM memory_entries WHERE content = 'Bolt is red'")
    called(provider, "forget", {"ids": [number]})
    assert copied(capsys, "--to", second_dsn)["removed"] == 1, "what somebody forgets goes, whoever keeps it"
    assert recalled(there, "atlas bolt") == ["Atlas is blue"]


def test_need_16_what_was_removed_at_the_other_one_is_not_brought_back(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    copied(capsys, "--to", second_dsn)
    with psycopg.connect(second_dsn) as conn:
        conn.execute(
            "WITH gone AS (DELETE FROM memory_entries WHERE target = 'user' RETURNING agent_identity, target, digest) "
            "INSERT INTO hermes_tombstones SELECT * FROM gone"
        )
    told = copied(capsys, "--to", second_dsn)
    assert told["verified"] is True and told["memories_added"] == 0
    assert Database(second_dsn).column("SELECT target FROM memory_entries") == ["memory"]


def test_need_16_a_dry_run_says_what_arrives_and_what_the_first_copy_removes_and_changes_nothing(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales", memories=3, turns=5)
    fill_theme(second_dsn, "sales", memories=1, turns=0)
    fill_theme(second_dsn, "sales", memories=1, turns=0, prefix="Bolt")
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "WITH gone AS (DELETE FROM memory_entries WHERE content LIKE '%fact 0%'"
            " RETURNING agent_identity, target, digest) INSERT INTO hermes_tombstones SELECT * FROM gone"
        )
    before = all_rows(second_dsn)
    told = copied(capsys, "--to", second_dsn, "--dry-run")
    assert (told["done"], told["memories_added"], told["turns_added"], told["removed"]) == (False, 2, 5, 1)
    assert told["verified"] is None
    assert cli.main(["copy", "--to", second_dsn, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "would be added" in shown.out
    assert "would be removed there" in shown.err and "1 memory" in shown.err
    assert all_rows(second_dsn) == before
    assert Database(second_dsn).column("SELECT count(*) FROM hermes_tombstones") == [0]
    assert cli.main(["copy", "--to", second_dsn, "--dry-run", "--switch"]) == 2
    assert copied(capsys, "--to", second_dsn)["removed"] == told["removed"]


@pytest.mark.parametrize("change", ["rename", "merge"])
def test_need_16_turns_that_were_renamed_or_merged_at_the_other_one_are_not_doubled(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    fill_theme(dsn, "sales")
    copied(capsys, "--to", second_dsn)
    if change == "merge":
        fill_theme(second_dsn, "emea", prefix="Bolt")
    themes = ["themes", change, "sales", "emea", "--yes", "--admin-dsn", second_dsn]
    assert cli.main(themes) == 0
    before = all_rows(second_dsn)

    assert cli.main(["copy", "--to", second_dsn]) == 0

    said = capsys.readouterr()
    assert "verified" in said.out and "themes merge sales emea" in said.err
    in_use.write_text(CONFIG.format(dsn=second_dsn))
    assert cli.main(["themes", "merge", "sales", "emea", "--yes", "--admin-dsn", second_dsn]) == 0
    assert all_rows(second_dsn) == before, "memories were there once more, and are put together"


def test_need_16_turns_that_the_other_one_put_away_under_several_names_are_not_doubled(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for year, prefix in (("2024", "Atlas"), ("2025", "Bolt")):
        fill_theme(dsn, "sales", prefix=prefix)
        copied(capsys, "--to", second_dsn)
        rename = ["themes", "rename", "sales", f"sales-{year}", "--yes", "--admin-dsn", second_dsn]
        assert cli.main(rename) == 0

    told = copied(capsys, "--to", second_dsn)

    assert (told["verified"], told["turns_added"]) == (True, 0)


@pytest.mark.parametrize("change", ["rename", "merge"])
def test_need_16_what_was_renamed_or_merged_at_the_source_since_is_not_copied_a_second_time(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    """As after a first copy in good time, some tidying, and the copy before the switch."""
    fill_theme(dsn, "sales")
    if change == "merge":
        fill_theme(dsn, "emea", prefix="Bolt")
    copied(capsys, "--to", second_dsn)
    assert cli.main(["themes", change, "sales", "emea", "--yes"]) == 0
    assert cli.main(["forget", "--query", "Atlas", "--theme", "emea", "--limit", "1", "--yes"]) == 0
    fill_theme(second_dsn, "other")
    before = all_rows(second_dsn)

    for arguments in (("--dry-run",), ("--switch",), ("--theme", "emea")):
        refused = str(copied(capsys, "--to", second_dsn, *arguments, code=1)["error"])
        assert f"hermes-pgvector themes {change} sales emea --yes --admin-dsn DSN" in refused
    assert all_rows(second_dsn) == before

    assert cli.main(["themes", change, "sales", "emea", "--yes", "--admin-dsn", second_dsn]) == 0
    told = copied(capsys, "--to", second_dsn)
    assert (told["verified"], told["memories_added"], told["turns_added"], told["removed"]) == (True, 0, 0, 1)


def test_need_16_what_both_a_theme_and_the_one_that_was_put_away_from_it_remember_stops_no_copy(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no earlier copy of the one put away; merging them there, as was advised, would mix the two."""
    fill_theme(dsn, "sales")
    assert cli.main(["themes", "rename", "sales", "sales-2024", "--yes"]) == 0
    fill_theme(dsn, "sales", prefix="Bolt")
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content)"
            " SELECT 'sales', target, content FROM memory_entries WHERE agent_identity = 'sales-2024' LIMIT 1"
        )
    for added in (5, 0):
        told = copied(capsys, "--to", second_dsn)
        assert (told["verified"], told["memories_added"]) == (True, added)


def test_need_16_the_history_of_memories_goes_along_where_an_admin_copies(
    in_use: Path,
    make_provider: MakeProvider,
    dsn: str,
    admin_dsn: str,
    second_dsn: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.on_memory_write("replace", "memory", "Atlas is green", {"old_text": "Atlas is blue"})
    provider.on_memory_write("add", "memory", "Bolt is red")
    provider.on_memory_write("remove", "memory", "", {"old_text": "Bolt is red"})
    landed(provider)
    assert copied(capsys, "--to", second_dsn)["history"] is None
    admin = make_conninfo(admin_dsn, dbname=conninfo_to_dict(second_dsn)["dbname"])
    assert copied(capsys, "--to", second_dsn, "--admin-dsn", admin)["history"] == 4
    assert copied(capsys, "--to", second_dsn, "--admin-dsn", admin)["history"] == 0
    assert cli.main(["copy", "--to", second_dsn, "--admin-dsn", admin_dsn]) == 1
    assert "another database" in capsys.readouterr().err
    said = (
        "SELECT action || ' ' || coalesce(old_content, '') || ' ' || at::text FROM memory_history "
        "WHERE NOT who ? 'verb' ORDER BY at, action"
    )
    assert Database(second_dsn).column(said) == Database(dsn).column(said)


def test_need_31_what_was_removed_before_a_copy_is_restored_by_the_number_that_is_shown(
    in_use: Path,
    make_provider: MakeProvider,
    dsn: str,
    admin_dsn: str,
    second_dsn: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider = make_provider(gateway_session_key="sales")
    for text in ("Atlas is blue", "Bolt is red"):
        provider.on_memory_write("add", "memory", text)
        provider.on_memory_write("remove", "memory", "", {"old_text": text})
    landed(provider)
    fill_theme(second_dsn, "sales", memories=4)
    for _ in range(2):
        admin = make_conninfo(admin_dsn, dbname=conninfo_to_dict(second_dsn)["dbname"])
        copied(capsys, "--to", second_dsn, "--admin-dsn", admin)
    in_use.write_text(CONFIG.format(dsn=second_dsn))
    assert cli.main(["restore", "--dry-run", "--json"]) == 0
    refs = {row["content"]: row["ref"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert cli.main(["restore", refs["Atlas is blue"]]) == 0
    assert cli.main(["forget", refs["Bolt is red"], "--yes"]) == 0
    held = Database(second_dsn).column("SELECT content FROM memory_entries")
    assert len(held) == 5 and "Atlas is blue" in held
    capsys.readouterr()
    assert cli.main(["restore", "--since", "1h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"memories": 0}


def test_need_16_the_switch_writes_the_settings_and_keeps_the_rest(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    with_password = make_conninfo(second_dsn, password="hunter2hunter2")
    capsys.readouterr()
    assert cli.main(["copy", "--to", with_password, "--switch"]) == 0
    told = capsys.readouterr()
    assert "restart" in told.out and "hunter2" not in told.out + told.err
    assert f"OLD_DSN was: {dsn}" in told.out
    config, dotenv = in_use.read_text(), (in_use.parent / ".env").read_text()
    assert "# kept" in config and "hunter2" not in config and dsn not in config
    assert "hunter2hunter2" in dotenv
    assert cli.main(["themes", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["turns"] == 4
    fill_theme(dsn, "late", turns=1, memories=0)
    assert copied(capsys, "--from", dsn, "--to", with_password)["turns_added"] == 1


def test_need_40_what_agents_wrote_during_a_switch_comes_by_the_command_that_is_named(
    in_use: Path,
    start_cli: Callable[..., subprocess.Popen[str]],
    admin_dsn: str,
    dsn: str,
    second_dsn: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill_theme(dsn, "sales")
    with psycopg.connect(make_conninfo(admin_dsn, dbname=conninfo_to_dict(second_dsn)["dbname"])) as holder:
        holder.execute("LOCK TABLE conversations IN SHARE MODE")
        switching = start_cli("copy", "--to", second_dsn, "--switch")
        until(lambda: "waiting for a lock" in str(switching.stderr and switching.stderr.readline()), 60, "the turns")
        fill_theme(dsn, "late", memories=0, turns=1)
    out, err = switching.communicate(timeout=150)
    assert switching.returncode == 0 and "OLD_DSN was" in out
    assert "written here meanwhile: 1 row" in err and "run the same again" not in err
    # Who did not see that, as in a terminal that was lost, runs the same again all the same.
    refused = str(copied(capsys, "--to", second_dsn, "--switch", code=1)["error"])
    assert "the same database" in refused and "hermes-pgvector copy --from OLD_DSN" in refused
    assert copied(capsys, "--from", dsn)["turns_added"] == 1


@pytest.mark.parametrize("theme", ["sales", ""])
def test_need_04_what_an_agent_noted_during_a_switch_stays_in_its_theme_though_a_new_session_has_read_the_file(
    theme: str, in_use: Path, make_provider: MakeProvider, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the theme is the one that the file is read in for, the place where it was said decides who may read it."""
    old = make_provider(gateway_session_key=theme)
    old.on_memory_write("add", "memory", "Atlas is blue")
    landed(old)
    copied(capsys, "--to", second_dsn, "--switch")
    old.on_memory_write("add", "memory", "Bolt is red")
    write_entries(in_use.parent, "Atlas is blue", "Bolt is red", "Cord is green")
    landed(old)
    landed(make_provider({"dsn": second_dsn}))
    assert Database(second_dsn).themes_of_memory("Bolt is red") == ["default"]
    for _ in range(2):
        assert copied(capsys, "--from", dsn)["verified"] is True
        assert Database(second_dsn).themes_of_memory("Bolt is red") == [theme or "default"]
        assert Database(second_dsn).themes_of_memory("Cord is green") == ["default"]
    said = "SELECT metadata FROM memory_entries WHERE content = 'Bolt is red'"
    assert Database(second_dsn).column(said) == Database(dsn).column(said)
    assert cli.main(["restore", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == []


def test_need_16_what_both_the_profile_and_another_theme_have_of_a_file_is_copied_as_it_is(
    in_use: Path, make_provider: MakeProvider, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an earlier version left it after a switch."""
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Bolt is red")
    landed(provider)
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content, metadata) "
            """VALUES ('default', 'memory', 'Bolt is red', '{"source": "file"}')"""
        )
        conn.execute(
            "INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, noted_at) "
            "SELECT 'default', origin, target, digest, false, noted_at + interval '1 s' FROM hermes_mirror"
        )
    for _ in range(2):
        assert copied(capsys, "--to", second_dsn)["verified"] is True
        assert sorted(Database(second_dsn).themes_of_memory("Bolt is red")) == ["default", "sales"]


def test_need_40_profiles_that_go_on_with_the_old_database_are_named(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would fill the old one, and what the new one holds of them would grow old."""
    profiles = in_use.parent / "profiles"
    for name, where in (("coder", dsn), ("writer", second_dsn), ("idle", dsn)):
        (profiles / name).mkdir(parents=True)
        memory = {} if name == "idle" else {"memory": {"provider": "pgvector"}}
        config = {"plugins": {"pgvector": {"dsn": where, "dims": DIMS}}} | memory
        (profiles / name / "config.yaml").write_text(yaml.safe_dump(config))
    fill_theme(dsn, "coder")
    assert copied(capsys, "--to", second_dsn)["note"] == "", "nothing was switched"
    note = str(copied(capsys, "--to", second_dsn, "--switch")["note"])
    assert note.startswith(f"{profiles / 'coder'} goes on with ") and "idle" not in note and "writer" not in note
    assert note.endswith(f"setup --hermes-home {profiles / 'coder'} --dsn DSN")
    assert cli.main(["setup", "--dsn", dsn, "--no-model", "--yes", "--json", "--dry-run"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(each.startswith(f"{profiles / 'writer'} goes on with ") for each in notes), notes


def test_need_03_a_switch_that_is_killed_leaves_no_home_without_a_database(
    in_use: Path, start_cli: Callable[..., subprocess.Popen[str]], dsn: str, second_dsn: str, tmp_path: Path
) -> None:
    """Agents that start then would begin a memory of their own, in the embedded Postgres."""
    fill_theme(dsn, "sales")
    in_use.write_text("plugins:\n  pgvector:\n    dims: 384\n")
    old = make_conninfo(dsn, password="hunter2hunter2")
    (in_use.parent / ".env").write_text(f'HERMES_PGVECTOR_DSN="{old}"\n')
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    in_use.rename(folder / "config.yaml")
    in_use.symlink_to(folder / "config.yaml")

    def is_about_to_write(process: subprocess.Popen[str]) -> bool:
        assert process.poll() is None
        return any(os.path.realpath(each) == str(folder) for each in Path(f"/proc/{process.pid}/fd").iterdir())

    with changing(folder / "config.yaml"):
        switching = start_cli("copy", "--to", second_dsn, "--switch")
        until(lambda: is_about_to_write(switching), 60, "the settings")
        switching.kill()
        switching.communicate()
    assert load_settings(None, in_use.parent).settings.dsn == old

    switching = start_cli("copy", "--to", second_dsn, "--switch")
    assert switching.wait(150) == 0, switching.communicate()
    switching.communicate()
    assert load_settings(None, in_use.parent).settings.dsn == second_dsn


def test_need_40_a_switch_that_cannot_be_written_says_that_everything_is_copied(
    in_use: Path, dsn: str, second_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    shared = f"shared: &shared\n  dsn: {dsn!r}\n  dims: 384\nplugins:\n  pgvector: *shared\n"
    in_use.write_text(shared)
    told = copied(capsys, "--to", second_dsn, "--switch", code=1)
    assert str(told["error"]).startswith(f"every row is there, but {in_use} was left as it is"), told
    assert in_use.read_text() == shared


def test_need_40_an_agent_that_still_writes_to_the_old_database_is_named(
    in_use: Path,
    dsn: str,
    second_dsn: str,
    make_provider: MakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("hermes_memory_pgvector.capture.writer._REPORT_S", 0.0)
    provider = make_provider({"dsn": dsn})
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    names_it = f"process {os.getpid()} writes to"
    assert cli.main(["status"]) == 0 and "not to the database" not in capsys.readouterr().out

    assert cli.main(["copy", "--to", second_dsn, "--switch"]) == 0

    capsys.readouterr()
    assert cli.main(["status"]) == 0
    said = capsys.readouterr().out
    database = conninfo_to_dict(dsn)["dbname"]
    assert f"/{database}, not to the database that the settings name: restart it" in said
    assert cli.main(["status", "--json"]) == 0
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    assert process["elsewhere"].endswith(f"/{database}")
    # As after a change of any setting, which holds for the sessions that begin after it.
    landed(make_provider({"dsn": dsn, "prefetch_limit": 3}))
    cli.main(["doctor"])
    checked = capsys.readouterr().out
    assert checked.count(names_it) == 1 and "hermes-pgvector copy --from DSN" in checked


def test_need_16_from_a_server_back_to_the_embedded_one_and_what_came_meanwhile(
    in_use: Path,
    place: Path,
    dsn: str,
    make_provider: MakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_EMBEDDED_DIR", str(place / "pg"))
    fill_theme(dsn, "sales")
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    server = embedded_server(Settings(embedded_dir=str(place / "pg")))
    try:
        told = copied(capsys, "--to", "embedded", "--switch")
        assert told["verified"] and told["switched"] and told["history"]
        assert yaml.safe_load(in_use.read_text())["plugins"]["pgvector"]["dsn"] == ""
        fill_theme(dsn, "late", memories=0, turns=1)
        assert copied(capsys, "--from", dsn)["turns_added"] == 1
        assert cli.main(["themes", "list", "--json"]) == 0
        rows = {row["theme"]: row["turns"] for row in json.loads(capsys.readouterr().out)}
        assert rows == {"sales": 4, "late": 1}
        assert cli.main(["copy", "--to", "embedded"]) == 1
        assert "same database" in capsys.readouterr().err
    finally:
        server.ensure()
        server.stop()
        server.release()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--to DSN"),
        (("--to", "{dsn}"), "same database"),
        (("--to", "{dsn}", "--switch", "--theme", "sales"), "left behind"),
        (("--to", "{second}", "--theme", "nobody"), "nobody"),
        (("--to", "host=/nowhere dbname=x"), "start Postgres there"),
        (("--to", "{empty}"), "migrate"),
    ],
    ids=["no target", "itself", "some themes", "unknown theme", "nobody there", "not migrated"],
)
def test_need_02_what_cannot_be_copied_is_said(
    in_use: Path,
    dsn: str,
    second_dsn: str,
    empty_admin_dsn: str,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    before = in_use.read_text()
    given = [word.format(dsn=dsn, second=second_dsn, empty=empty_admin_dsn) for word in arguments]
    wrong_usage = said in ("--to DSN", "left behind")
    assert cli.main(["copy", *given]) == (2 if wrong_usage else 1)
    assert said in capsys.readouterr().err
    assert in_use.read_text() == before


def test_need_02_a_copy_of_the_embedded_server_to_itself_starts_none(
    in_use: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_EMBEDDED_DIR", str(place / "pg"))
    assert cli.main(["copy", "--from", "embedded", "--to", "embedded"]) == 1
    assert "same database" in capsys.readouterr().err
    assert not (place / "pg").exists()


def test_need_02_a_target_made_for_vectors_of_another_length_is_told_with_what_makes_it_fit(
    in_use: Path, dsn: str, empty_admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by `migrate --dims` of another machine. The advice to an agent would change this memory, or its settings."""
    fill_theme(dsn, "sales")
    assert cli.main(["migrate", "--admin-dsn", empty_admin_dsn, "--runtime-role", "hermes", "--dims", "768"]) == 0
    said = str(copied(capsys, "--to", make_conninfo(empty_admin_dsn, user="hermes"), "--switch", code=1)["error"])
    assert "768 dimensions, the setting `dims` says 384" in said
    assert str(DROP_SCRIPT) in said and "--runtime-role ROLE --dims 384" in said
    assert "set plugins.pgvector.dims" not in said


def test_need_02_a_target_whose_role_has_other_themes_only_names_those_that_it_lacks(
    postgres: EmbeddedServer, in_use: Path, dsn: str, empty_admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "marketing")
    fill_theme(dsn, "team blue")
    migrate(empty_admin_dsn, dims=DIMS)
    tenant = tenant_of(postgres, empty_admin_dsn, "marketing")
    for arguments in (("--dry-run",), ("--switch",)):
        said = str(copied(capsys, "--to", tenant, *arguments, code=1)["error"])
        assert "tenants grant tenant_marketing 'team blue' --admin-dsn DSN" in said
    assert all_rows(empty_admin_dsn) == []
    assert copied(capsys, "--to", tenant, "--theme", "marketing")["verified"] is True
    as_tenant = make_conninfo(empty_admin_dsn, options="-c role=tenant_marketing")
    said = str(copied(capsys, "--to", as_tenant, code=1)["error"])
    assert "tenants grant tenant_marketing 'team blue'" in said, "whatever its login is called"
    assert copied(capsys, "--to", tenant, "--admin-dsn", empty_admin_dsn)["verified"] is True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_need_03_ended_in_the_middle_and_run_again_it_is_there_exactly_once(
    number: signal.Signals,
    in_use: Path,
    dsn: str,
    second_dsn: str,
    tmp_path: Path,
    start_cli: Callable[..., subprocess.Popen[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill_theme(dsn, "sales", memories=400, turns=3000)
    out = tmp_path / "all.jsonl"
    assert cli.main(["export", str(out)]) == 0
    held = "SELECT count(*) FROM conversations"
    told = "" if number == signal.SIGKILL else "interrupted: what arrived stays; run it again to go on"
    with start_cli("copy", "--to", second_dsn) as process:
        until(lambda: Database(second_dsn).column(held)[0] > 500, 60, "a part of the copy")
        process.send_signal(number)
        assert told in process.communicate(timeout=150)[1]
    assert 500 < Database(second_dsn).column(held)[0] < 3000
    assert copied(capsys, "--to", second_dsn)["verified"] is True
    assert all_rows(second_dsn) == all_rows(dsn)

    with psycopg.connect(second_dsn) as conn:
        conn.execute("DELETE FROM conversations WHERE ts > '2025-03-03'")
    in_use.write_text(CONFIG.format(dsn=second_dsn))
    left = Database(second_dsn).column(held)[0]
    with start_cli("import", str(out)) as process:
        until(lambda: Database(second_dsn).column(held)[0] > left, 60, "a part of the import")
        process.send_signal(number)
        assert told in process.communicate(timeout=150)[1]
    assert cli.main(["import", str(out)]) == 0
    assert all_rows(second_dsn) == all_rows(dsn)


def test_need_16_what_a_memory_once_said_does_not_come_where_it_was_removed(
    in_use: Path,
    make_provider: MakeProvider,
    dsn: str,
    admin_dsn: str,
    second_dsn: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.on_memory_write("replace", "memory", "Atlas is green", {"old_text": "Atlas is blue"})
    landed(provider)
    with psycopg.connect(second_dsn) as conn:
        conn.execute(
            "INSERT INTO hermes_tombstones "
            "VALUES ('sales', 'memory', hermes_digest('Atlas is green'), now() + interval '1 h')"
        )
    admin = make_conninfo(admin_dsn, dbname=conninfo_to_dict(second_dsn)["dbname"])
    told = copied(capsys, "--to", second_dsn, "--admin-dsn", admin)
    assert (told["memories_added"], told["verified"], told["history"]) == (0, True, 2)
    assert Database(second_dsn).column("SELECT old_content FROM memory_history") == [None, None]
