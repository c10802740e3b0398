"""The mirror of the built-in memory, as its files stand when a session starts."""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.capture.mirror import Mirror
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.store.memory_files import LONG
from hermes_memory_pgvector.store.sql import query
from tests.conftest import DIMS, MakeProvider
from tests.integration.conftest import Run
from tests.support.memory import called, landed, recalled, runtime_of, write_entries
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy


def test_need_15_the_files_are_imported_into_the_theme_of_the_profile(make_provider: MakeProvider, home: Path) -> None:
    write_entries(home, "Atlas is blue", "Atlas has\ntwo lines § and a sign", "")
    write_entries(home, "Prefers short answers", file="USER.md")
    provider = make_provider(agent_identity="Coder")
    landed(provider)
    assert recalled(provider, "is atlas blue", scope="coder") == ["Atlas is blue", "Atlas has\ntwo lines § and a sign"]
    assert recalled(provider, "short answers", scope="coder", target="user") == ["Prefers short answers"]
    assert recalled(provider, "atlas") == [], "the files belong to the profile, not to the session key's theme"


def test_need_15_repeating_the_import_is_a_no_op(make_provider: MakeProvider, home: Path, dsn: str) -> None:
    database = Database(dsn)
    write_entries(home, "Atlas is blue", "Borealis is green", age_s=60)
    landed(make_provider())
    before = database.column("SELECT to_jsonb(m) FROM memory_entries AS m ORDER BY id")
    assert len(before) == 2
    for _ in range(3):
        provider = make_provider()
        landed(provider)
        provider.shutdown()  # what a new process starts with
    write_entries(home, "Atlas is blue", "Borealis is green", age_s=30)
    landed(make_provider())
    assert database.column("SELECT to_jsonb(m) FROM memory_entries AS m ORDER BY id") == before


def test_need_15_a_hand_edited_line_replaces_the_old_one(make_provider: MakeProvider, home: Path) -> None:
    write_entries(home, "Atlas is blue", "Borealis is green", age_s=60)
    provider = make_provider()
    landed(provider)
    write_entries(home, "Atlas is red", "Borealis is green", age_s=30)
    provider = make_provider()
    landed(provider)
    assert set(recalled(provider, "atlas borealis", scope="default")) == {"Atlas is red", "Borealis is green"}


def test_need_15_a_removed_line_disappears_from_recall_and_the_log_says_so(
    make_provider: MakeProvider, home: Path, records: Callable[[int], list[str]]
) -> None:
    write_entries(home, "Atlas is blue", "Borealis is green", age_s=60)
    landed(make_provider())
    write_entries(home, "Borealis is green", age_s=30)
    provider = make_provider()
    landed(provider)
    assert recalled(provider, "atlas borealis", scope="default") == ["Borealis is green"]
    (said,) = [each for each in records(logging.INFO) if "MEMORY.md" in each]
    assert "MEMORY.md lacks 1 entry that it held, removed from memory as well" in said


def test_need_32_the_log_names_no_removal_of_what_somebody_else_keeps(
    make_provider: MakeProvider, home: Path, records: Callable[[int], list[str]]
) -> None:
    provider = make_provider({"tools": ["remember"]}, gateway_session_key="default")
    assert "error" not in called(provider, "remember", {"content": "Atlas is blue"})
    landed(provider)  # it has other settings than the next ones, so they do not wait for its writes
    write_entries(home, "Atlas is blue", "Borealis is green", age_s=60)
    landed(make_provider())
    write_entries(home, "Borealis is green", age_s=30)
    landed(make_provider())
    assert "Atlas is blue" in recalled(provider, "atlas", scope="default")
    assert not [each for each in records(logging.INFO) if "removed from memory" in each]


def test_need_15_a_line_taken_out_and_put_back_is_recalled_again(make_provider: MakeProvider, home: Path) -> None:
    atlas, borealis = "Atlas is blue", "Borealis is green"
    for age_s, entries in ((60, [atlas, borealis]), (30, [borealis]), (-1, [atlas, borealis])):
        write_entries(home, *entries, age_s=age_s)
        provider = make_provider()
        landed(provider)
        assert sorted(recalled(provider, "atlas borealis", scope="default")) == entries


def test_need_15_an_announced_memory_is_not_imported_again(make_provider: MakeProvider, home: Path, dsn: str) -> None:
    database = Database(dsn)
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    write_entries(home, "Atlas is blue", "Borealis is green")
    landed(make_provider())
    assert database.themes_of_memory("Atlas is blue") == ["marketing"]
    write_entries(home, "Borealis is green")
    provider = make_provider()
    landed(provider)
    assert recalled(provider, "atlas", scope="all") == [], "who deletes the line by hand means the memory"


def test_need_15_an_import_before_the_announcement_moves_to_the_writers_theme(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    """Another session may start between the host's write to the file and the hook that announces it."""
    database = Database(dsn)
    provider = make_provider()
    write_entries(home, "Atlas is blue")
    landed(make_provider())
    assert database.themes_of_memory("Atlas is blue") == ["default"]
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert database.themes_of_memory("Atlas is blue") == ["marketing"]


def test_need_15_a_line_that_a_session_adds_once_more_stays_the_profile_s_as_well(
    make_provider: MakeProvider, home: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host writes no line twice, and announces it all the same."""
    write_entries(home, "Atlas is blue", age_s=60)
    provider = make_provider()
    landed(provider)
    mirror, later = runtime_of(provider).mirror, runtime_of(provider).mirror.now() + 3600
    monkeypatch.setattr(mirror, "now", lambda: later)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert sorted(Database(dsn).themes_of_memory("Atlas is blue")) == ["default", "marketing"]
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas"})
    landed(provider)
    assert recalled(provider, "atlas", scope="all") == []


def test_need_15_a_file_that_was_read_early_and_applied_late_removes_nothing_new(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    """Two processes on one home: the reading of the first waits in its spool while the second announces a memory."""
    write_entries(home, "Atlas is blue", age_s=60)
    landed(make_provider())
    with psycopg.connect(dsn) as held:
        held.execute(query("lock_theme"), {"theme": "default"})
        write_entries(home, "Atlas is red", age_s=30)
        late = make_provider()
        other = make_provider({"bulk_sync_on_init": False})
        other.on_memory_write("add", "memory", "Borealis is green")
        write_entries(home, "Atlas is red", "Borealis is green", age_s=20)
        landed(other)
        assert runtime_of(late).stats()["queue_depth"] == 1
    landed(late)
    assert set(recalled(other, "atlas borealis", scope="all")) == {"Atlas is red", "Borealis is green"}
    provider = make_provider()
    landed(provider)
    assert Database(dsn).themes_of_memory("Borealis is green") == ["marketing"]
    write_entries(home, "Atlas is red", age_s=10)
    provider = make_provider()
    landed(provider)
    assert recalled(provider, "atlas borealis", scope="all") == ["Atlas is red"]


@pytest.mark.parametrize("begun", ["before", "after"])
@pytest.mark.parametrize("rest", [(), ("Borealis is green",)])
@pytest.mark.parametrize(("action", "old"), [("add", ()), ("replace", ("Atlas is grey",))])
def test_need_15_what_one_process_removes_stays_away_when_another_ones_write_of_it_arrives_later(
    action: str,
    old: tuple[str, ...],
    rest: tuple[str, ...],
    begun: str,
    make_provider: MakeProvider,
    home: Path,
    dsn: str,
) -> None:
    """As after an outage: each process writes what has waited there, and the host wrote the file in one order."""
    late = make_provider({"bulk_sync_on_init": False})
    for text in (*old, *rest):
        late.on_memory_write("add", "memory", text)
    write_entries(home, *old, *rest, age_s=60)
    landed(late)
    with psycopg.connect(dsn) as held:
        other = make_provider(gateway_session_key="sales") if begun == "before" else None
        held.execute(query("lock_theme"), {"theme": "marketing"})
        late.on_memory_write(action, "memory", "Atlas is blue", {"old_text": old[0]} if old else {})
        write_entries(home, "Atlas is blue", *rest, age_s=40)
        other = other or make_provider(gateway_session_key="sales")
        landed(other)
        other.on_memory_write("remove", "memory", "", {"old_text": "Atlas is blue"})
        write_entries(home, *rest, age_s=20)
        landed(other)
        assert runtime_of(late).stats()["queue_depth"] == 1
    landed(late)
    assert recalled(other, "atlas borealis", scope="all") == [*rest]
    again = make_provider({"prefetch_limit": 4})
    landed(again)
    assert recalled(again, "atlas borealis", scope="all") == [*rest]
    assert not Database(dsn).column("SELECT digest FROM hermes_mirror WHERE held_at IS NOT NULL")


@pytest.mark.parametrize("theme", ["marketing", "sales"])
@pytest.mark.parametrize(("action", "new"), [("remove", ""), ("replace", "Atlas is red")])
def test_need_15_what_one_process_adds_again_stays_when_another_ones_removal_of_it_arrives_later(
    action: str, new: str, theme: str, make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    late = make_provider({"bulk_sync_on_init": False}, gateway_session_key="support")
    late.on_memory_write("add", "memory", "Atlas is blue")
    write_entries(home, "Atlas is blue", age_s=60)
    landed(late)
    with psycopg.connect(dsn) as held:
        other = make_provider(gateway_session_key=theme)
        landed(other)
        held.execute(query("lock_theme"), {"theme": "support"})
        late.on_memory_write(action, "memory", new, {"old_text": "Atlas is blue"})
        other.on_memory_write("add", "memory", "Atlas is blue")
        write_entries(home, *filter(None, [new]), "Atlas is blue", age_s=40)
        landed(other)
        assert runtime_of(late).stats()["queue_depth"] == 1
    landed(late)
    assert set(recalled(other, "atlas", scope="all")) == {*filter(None, [new]), "Atlas is blue"}
    assert Database(dsn).themes_of_memory("Atlas is blue") == [theme]


@pytest.mark.parametrize(("action", "new"), [("remove", ""), ("replace", "Atlas is red")])
def test_need_15_so_does_what_had_been_replaced_and_put_back_before(
    action: str, new: str, make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    """What a text has become since is not meant where that is the text itself, added again."""
    with TcpProxy.before(dsn) as proxy:
        late = make_provider({"bulk_sync_on_init": False, "dsn": proxy.conninfo(dsn)})
        late.on_memory_write("add", "memory", "Atlas is blue")
        late.on_memory_write("replace", "memory", "Atlas is grey", {"old_text": "Atlas is blue"})
        late.on_memory_write("replace", "memory", "Atlas is blue", {"old_text": "Atlas is grey"})
        write_entries(home, "Atlas is blue", age_s=60)
        landed(late)
        proxy.stop()
        late.on_memory_write(action, "memory", new, {"old_text": "Atlas is blue"})
        other = make_provider({"bulk_sync_on_init": False})
        other.on_memory_write("add", "memory", "Atlas is blue")
        write_entries(home, *filter(None, [new]), "Atlas is blue", age_s=40)
        landed(other)
        assert runtime_of(late).stats()["queue_depth"] == 1
        proxy.start()
        landed(late)
    assert set(recalled(other, "atlas")) == {*filter(None, [new]), "Atlas is blue"}
    write_entries(home, *filter(None, [new]), "Borealis is green")
    again = make_provider({"prefetch_limit": 4})
    landed(again)
    assert set(recalled(again, "atlas borealis", scope="all")) == {*filter(None, [new]), "Borealis is green"}


def test_need_15_a_file_that_was_read_early_and_applied_late_brings_nothing_back(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    other = make_provider({"bulk_sync_on_init": False}, gateway_session_key="sales")
    other.on_memory_write("add", "memory", "Atlas is blue")
    landed(other)
    with psycopg.connect(dsn) as held:
        held.execute(query("lock_theme"), {"theme": "default"})
        write_entries(home, "Atlas is blue", age_s=60)
        late = make_provider()
        other.on_memory_write("remove", "memory", "", {"old_text": "Atlas"})
        write_entries(home, age_s=30)
        landed(other)
        assert runtime_of(late).stats()["queue_depth"] == 1
    landed(late)
    assert recalled(other, "atlas", scope="all") == []
    write_entries(home, "Atlas is blue")
    again = make_provider({"prefetch_limit": 4})
    landed(again)
    assert recalled(again, "atlas", scope="all") == ["Atlas is blue"], "who puts the line back means it"


def test_need_15_a_replacement_that_another_session_read_before_it_was_stored_is_the_writers_alone(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    late = make_provider({"bulk_sync_on_init": False})
    with psycopg.connect(dsn) as held:
        held.execute(query("lock_theme"), {"theme": "marketing"})
        late.on_memory_write("add", "memory", "Atlas is blue")
        late.on_memory_write("replace", "memory", "Atlas is red", {"old_text": "Atlas is blue"})
        write_entries(home, "Atlas is red")
        landed(make_provider())
    landed(late)
    assert Database(dsn).themes_of_memory("Atlas is red") == ["marketing"]
    assert recalled(late, "atlas", scope="all") == ["Atlas is red"]


def test_need_15_a_home_that_lost_its_clock_after_a_wrong_time_is_followed_as_before(
    make_provider: MakeProvider, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's clock was a year ahead, and the file that keeps the home's own did not come back with a backup."""
    wrong = make_provider({"bulk_sync_on_init": False})
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time_ns", lambda real=time.time_ns: real() + 365 * 86_400 * 10**9)
        for text in ("Atlas is blue", "Borealis is green", "Cygnus is red"):
            wrong.on_memory_write("add", "memory", text)
        wrong.on_memory_write("remove", "memory", "", {"old_text": "Atlas is blue"})
        write_entries(home, "Borealis is green", "Cygnus is red", age_s=60)
        landed(wrong)
    close_all()
    (home / "pgvector" / "clock").unlink()
    right = make_provider()
    landed(right)
    right.on_memory_write("add", "memory", "Atlas is blue")
    right.on_memory_write("remove", "memory", "", {"old_text": "Borealis is green"})
    write_entries(home, "Cygnus is red", "Atlas is blue", age_s=40)
    landed(right)
    assert set(recalled(right, "atlas borealis cygnus")) == {"Atlas is blue", "Cygnus is red"}
    write_entries(home, "Atlas is blue", age_s=20)
    landed(make_provider({"prefetch_limit": 4}))
    assert recalled(right, "atlas borealis cygnus") == ["Atlas is blue"]


def test_need_15_two_processes_that_start_at_once_in_a_new_home_are_one_host(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two hosts, each would leave in memory what the other one's session wrote and somebody takes out by hand."""
    real, others = uuid.uuid4, list[str]()

    def as_another_is_faster() -> uuid.UUID:
        monkeypatch.setattr(uuid, "uuid4", real)
        others.append(Mirror(home).origin)
        return real()

    monkeypatch.setattr(uuid, "uuid4", as_another_is_faster)
    assert [Mirror(home).origin] == others == [Mirror(home).origin]
    assert sorted(path.name for path in (home / "pgvector").iterdir()) == ["last_origin", "origin"]


def test_need_15_a_fresh_home_removes_nothing(make_provider: MakeProvider, home: Path, tmp_path: Path) -> None:
    """A container that lost its home starts with an empty one, under the same path."""
    write_entries(home, "Atlas is blue")
    provider = make_provider()
    landed(provider)
    provider.shutdown()
    home.rename(tmp_path / "lost-home")
    (home / "memories").mkdir(parents=True)
    provider = make_provider()
    landed(provider)
    assert recalled(provider, "atlas", scope="default") == ["Atlas is blue"]
    write_entries(home, "Borealis is green")
    provider = make_provider()
    landed(provider)
    assert set(recalled(provider, "atlas borealis", scope="default")) == {"Atlas is blue", "Borealis is green"}


def test_need_15_a_missing_directory_means_nothing(make_provider: MakeProvider, home: Path) -> None:
    write_entries(home, "Atlas is blue")
    provider = make_provider()
    landed(provider)
    (home / "memories").rename(home / "memories-elsewhere")
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Borealis is green")
    landed(provider)
    assert recalled(provider, "atlas", scope="default") == ["Atlas is blue"]
    assert recalled(provider, "borealis") == ["Borealis is green"]


@pytest.mark.parametrize("instead", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_need_15_an_unreadable_file_is_named_once_and_removes_nothing(
    make_provider: MakeProvider,
    home: Path,
    records: Callable[[int], list[str]],
    cli: Run,
    dsn: str,
    instead: Callable[[Path], None],
) -> None:
    """No pipe or device keeps the agent waiting, either."""
    path = write_entries(home, "Atlas is blue", age_s=60)
    write_entries(home, "Prefers short answers", file="USER.md", age_s=60)
    landed(make_provider())
    path.unlink()
    instead(path)  # no permission would keep root from reading a file
    write_entries(home, "Prefers long answers", file="USER.md", age_s=30)
    for _ in range(3):
        provider = make_provider()
    landed(provider)
    assert recalled(provider, "atlas", scope="default") == ["Atlas is blue"]
    assert recalled(provider, "answers", scope="default") == ["Prefers long answers"]
    (said,) = records(logging.WARNING)
    assert str(path) in said
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    assert f"{path} cannot be read" in cli("doctor").stdout


def test_need_15_odd_bytes_in_a_file_are_cleaned(make_provider: MakeProvider, home: Path) -> None:
    path = write_entries(home, "Atlas is blue")
    path.write_bytes(
        b"Atlas \xff is \x00blue\r\nand round\n\xc2\xa7\n\n\xc2\xa7\nBorealis is green\n\xc2\xa7\nBorealis is green"
    )
    provider = make_provider()
    landed(provider)
    found = recalled(provider, "atlas borealis", scope="default")
    assert sorted(found) == ["Atlas \ufffd is blue\nand round", "Borealis is green"]


def test_need_15_a_byte_order_mark_is_no_part_of_an_entry(make_provider: MakeProvider, home: Path) -> None:
    write_entries(home, "\ufeffAtlas is blue", "Borealis is green", age_s=60)
    provider = make_provider()
    landed(provider)
    assert recalled(provider, "atlas", scope="default") == ["Atlas is blue"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_need_15_a_file_in_utf_16_is_left_alone_and_said(
    make_provider: MakeProvider, home: Path, dsn: str, cli: Run, caplog: pytest.LogCaptureFixture, encoding: str
) -> None:
    path = write_entries(home, "Atlas is blue", "Borealis is green", age_s=60)
    landed(make_provider())
    database, contents = Database(dsn), "SELECT content FROM memory_entries ORDER BY 1"
    text = "\ufeff" * (encoding == "utf-16-be") + "Atlas is blue\n§\nCord is red"
    path.write_bytes(text.encode(encoding))
    provider = make_provider()
    landed(provider)
    assert database.column(contents) == ["Atlas is blue", "Borealis is green"]
    assert database.column("SELECT count(*) FROM hermes_mirror WHERE held_at IS NOT NULL") == [0]
    assert f"{path} cannot be read and is not mirrored: it is not UTF-8 but UTF-16" in caplog.text
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    for verb in ("doctor", "relieve"):
        said = cli(verb)
        assert "save it again as UTF-8" in said.stdout + said.stderr, verb
    path.write_text("Atlas is blue\n§\nCord is red", encoding="utf-8")
    landed(make_provider())
    assert database.column(contents) == ["Atlas is blue", "Cord is red"]


def test_need_03_a_long_file_is_taken_in_by_several_transactions(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    # A busy server ends one that takes too long, and each attempt would begin anew while all other writes wait.
    database = Database(dsn)
    entries = [f"Berth {number} of the harbour is free" for number in range(LONG * 2 + 10)]
    write_entries(home, *entries, age_s=60)
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Said after the file was read")
    landed(provider)
    stored = "SELECT content FROM memory_entries WHERE agent_identity = 'default' ORDER BY id"
    assert database.column(stored) == entries, "each once, in the order of the file"
    assert database.column(
        "SELECT count(DISTINCT xmin::text) FROM memory_entries WHERE agent_identity = 'default'"
    ) == [3]
    assert recalled(provider, "said after the file") == ["Said after the file was read"]

    write_entries(home, *entries[1:], "Berth 5000 is new", age_s=30)
    landed(make_provider())
    assert database.column(stored) == [*entries[1:], "Berth 5000 is new"]


def test_need_15_the_import_can_be_switched_off(make_provider: MakeProvider, home: Path) -> None:
    write_entries(home, "Atlas is blue")
    provider = make_provider({"bulk_sync_on_init": False})
    landed(provider)
    assert recalled(provider, "atlas", scope="default") == []
