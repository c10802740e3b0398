"""Several hosts that share a theme, each with memory files of its own."""

from __future__ import annotations

import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import MakeProvider
from tests.support.embedded import ask
from tests.support.memory import called, landed, recalled, write_entries
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy


class Host:
    """One machine: a home, and the sessions that start there with the profile `team`."""

    def __init__(self, home: Path, make_provider: MakeProvider) -> None:
        self.home = home
        self._make = make_provider

    def session(self) -> PgvectorMemoryProvider:
        """A session of a new process, once its start has reached Postgres."""
        provider = self._make(hermes_home=str(self.home), gateway_session_key="", agent_identity="team")
        landed(provider)
        return provider

    def write(self, *entries: str, age_s: float) -> None:
        write_entries(self.home, *entries, age_s=age_s)


@pytest.fixture
def hosts(tmp_path: Path, make_provider: MakeProvider) -> tuple[Host, Host]:
    """Two machines that share the theme `team`."""
    return Host(tmp_path / "one", make_provider), Host(tmp_path / "two", make_provider)


def test_trap_05_a_memory_removed_on_one_host_does_not_come_back_from_another(hosts: tuple[Host, Host]) -> None:
    one, two = hosts
    for host in hosts:
        host.write("Atlas is blue", "Borealis is green", age_s=60)
        host.session().shutdown()
    session = one.session()
    session.on_memory_write("remove", "memory", "", {"old_text": "Atlas"})
    one.write("Borealis is green", age_s=0)
    landed(session)
    assert recalled(two.session(), "atlas borealis") == ["Borealis is green"]
    two.write("Atlas is blue", "Borealis is green", "Cygnus is red", age_s=-1)
    assert set(recalled(two.session(), "atlas borealis cygnus")) == {"Borealis is green", "Cygnus is red"}


def test_trap_05_nor_from_a_host_that_was_never_here_before(hosts: tuple[Host, Host]) -> None:
    one, two = hosts
    one.write("Atlas is blue", "Borealis is green", age_s=60)
    two.write("Atlas is blue", "Borealis is green", age_s=60)
    session = one.session()
    session.on_memory_write("remove", "memory", "", {"old_text": "Atlas"})
    landed(session)
    assert recalled(two.session(), "atlas borealis") == ["Borealis is green"]
    two.write("Atlas is blue", "Borealis is green", "Cygnus is red", age_s=-1)
    assert set(recalled(two.session(), "atlas borealis cygnus")) == {"Borealis is green", "Cygnus is red"}


def test_need_16_who_edits_or_forgets_what_another_homes_file_holds_is_told_so(
    hosts: tuple[Host, Host], make_provider: MakeProvider, ask: Callable[..., Any]
) -> None:
    hosts[0].write("Atlas is blue", "Bolt is red", "Cord is green", age_s=60)
    hosts[0].session()
    atlas, bolt, cord = (row["ref"] for row in ask("list", "--theme", "team")[::-1])
    notes = [
        *ask("edit", atlas, "Atlas is grey", "--yes")["notes"],
        *ask("forget", bolt)["notes"],
        *ask("forget", bolt, "--yes")["notes"],
    ]
    there = make_provider({"tools": ["forget"]}, gateway_session_key="team")
    notes += called(there, "forget", {"id": int(cord[1:])})["note"].split("; messages")[:1]
    assert len(notes) == 4 and all(each.startswith("it also stood in a MEMORY.md or USER.md of an") for each in notes)
    assert ask("forget", atlas, "--yes")["notes"] == ["what they said before (1 text in the history) went as well"]


def test_trap_05_a_hand_edited_line_leaves_no_old_version(hosts: tuple[Host, Host]) -> None:
    one, two = hosts
    for host in hosts:
        host.write("Atlas is blue", age_s=60)
        host.session().shutdown()
    one.write("Atlas is red", age_s=30)
    assert recalled(one.session(), "atlas") == ["Atlas is red"]
    assert recalled(two.session(), "atlas") == ["Atlas is red"]
    two.write("Atlas is blue", "Borealis is green", age_s=-1)
    assert set(recalled(two.session(), "atlas borealis")) == {"Atlas is red", "Borealis is green"}


def test_trap_05_what_somebody_adds_again_on_purpose_comes_back(hosts: tuple[Host, Host]) -> None:
    one, two = hosts
    for host in hosts:
        host.write("Atlas is blue", age_s=60)
        host.session().shutdown()
    session = one.session()
    session.on_memory_write("remove", "memory", "", {"old_text": "Atlas"})
    landed(session)
    other = two.session()
    other.on_memory_write("add", "memory", "Atlas is blue")
    landed(other)
    assert recalled(one.session(), "atlas") == ["Atlas is blue"]


def test_trap_05_many_replacements_on_two_hosts_leave_one_version_each(hosts: tuple[Host, Host]) -> None:
    for host in hosts:
        host.write(*(f"Setting {n:02d} is old" for n in range(30)), age_s=60)
        host.session().shutdown()
    sessions = [host.session() for host in hosts]
    for number in range(30):
        for session in sessions:
            session.on_memory_write(
                "replace", "memory", f"Setting {number:02d} is new", {"old_text": f"Setting {number:02d} is old"}
            )
    for session in sessions:
        landed(session)
    assert sorted(recalled(sessions[0], "setting")) == [f"Setting {n:02d} is new" for n in range(30)]


def test_trap_04_the_entry_of_this_hosts_own_file_is_meant_before_another_hosts(hosts: tuple[Host, Host]) -> None:
    one, two = hosts
    one.write("Atlas is on port 5432", age_s=60)
    two.write("Atlas of the second team is on port 5432, too", age_s=60)
    first, second = one.session(), two.session()
    second.on_memory_write("remove", "memory", "", {"old_text": "on port 5432"})
    landed(second)
    assert recalled(first, "atlas port") == ["Atlas is on port 5432"]


def test_trap_05_a_part_of_an_entry_that_another_host_has_replaced_means_what_it_says_now(
    hosts: tuple[Host, Host],
) -> None:
    one, two = hosts
    for host in hosts:
        host.write("Atlas deploys on Monday", age_s=60)
        host.session().shutdown()
    for host, day in ((one, "Tuesday"), (two, "Friday")):
        session = host.session()
        session.on_memory_write("replace", "memory", f"Atlas deploys on {day}", {"old_text": "Monday"})
        landed(session)
    assert recalled(two.session(), "atlas") == ["Atlas deploys on Friday"]


@pytest.mark.parametrize("said_again", [False, True])
def test_trap_05_a_memory_that_waited_on_a_host_that_was_away_is_not_back_where_it_was_removed_meanwhile(
    hosts: tuple[Host, Host],
    make_provider: MakeProvider,
    direct_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    said_again: bool,
) -> None:
    one, two = hosts
    session, text = one.session(), "Atlas is blue"
    session.on_memory_write("add", "memory", text)
    landed(session)
    with TcpProxy.before(direct_dsn) as proxy:
        proxy.stop()
        away = make_provider(
            {"dsn": proxy.conninfo(direct_dsn)},
            hermes_home=str(two.home), gateway_session_key="", agent_identity="team",
        )  # fmt: skip
        away.on_memory_write("add", "memory", text)
        session.on_memory_write("remove", "memory", "", {"old_text": text})
        landed(session)
        if said_again:
            away.on_memory_write("add", "memory", text)
        monkeypatch.setattr(time, "time", lambda real=time.time: real() + 3600)
        proxy.start()
        landed(away)
    assert recalled(session, "atlas") == ([text] if said_again else [])


def test_need_15_what_was_dropped_on_two_hosts_and_is_said_again_on_one_is_there_whatever_the_clock_of_the_other(
    hosts: tuple[Host, Host],
) -> None:
    ahead, here = hosts
    text, in_five_minutes = "Atlas is blue", time.time_ns() + 300 * 10**9
    for host in hosts:
        host.write(text, age_s=60)
        host.session().shutdown()
    os.utime(ahead.home / "pgvector" / "clock", ns=(time.time_ns(), in_five_minutes))  # it never goes back
    session = ahead.session()
    session.on_memory_write("remove", "memory", "", {"old_text": text})
    landed(session)
    session = here.session()
    session.on_memory_write("remove", "memory", "", {"old_text": text})
    landed(session)
    session.on_memory_write("add", "memory", text)
    landed(session)
    assert recalled(session, "atlas") == [text]


def test_need_03_what_an_agent_remembered_while_it_was_away_stays_though_a_file_dropped_the_text_meanwhile(
    hosts: tuple[Host, Host], make_provider: MakeProvider, direct_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever remembers a text keeps it, whichever of the two writes comes first."""
    one, two = hosts
    session, text = one.session(), "Atlas is blue"
    session.on_memory_write("add", "memory", text)
    landed(session)
    with TcpProxy.before(direct_dsn) as proxy:
        proxy.stop()
        away = make_provider(
            {"dsn": proxy.conninfo(direct_dsn), "tools": ["remember"]},
            hermes_home=str(two.home), gateway_session_key="", agent_identity="team",
        )  # fmt: skip
        called(away, "remember", {"content": text})
        session.on_memory_write("remove", "memory", "", {"old_text": text})
        landed(session)
        monkeypatch.setattr(time, "time", lambda real=time.time: real() + 3600)
        proxy.start()
        landed(away)
    assert recalled(session, "atlas") == [text]


def _in_a_new_container(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    close_all()
    monkeypatch.setattr(socket, "gethostname", lambda: name)


def test_need_15_what_is_edited_where_the_host_or_the_home_has_another_name_is_followed(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, direct_dsn: str
) -> None:
    """Each new container has a host name. As another host, it would leave the old text beside the new one."""
    one, _ = hosts
    one.write("Atlas is blue", "Borealis is green", "Cygnus is red", age_s=60)
    one.session().on_memory_write("add", "memory", "Draco is white")
    one.write("Atlas is blue", "Borealis is green", "Cygnus is red", "Draco is white", age_s=50)
    for container in ("c1", "c2"):
        _in_a_new_container(monkeypatch, container)
        one.session()
    one.write("Atlas is blue", "Borealis is grey", "Draco is white", age_s=40)
    _in_a_new_container(monkeypatch, "c3")
    assert set(recalled(one.session(), "atlas borealis cygnus draco")) == {
        "Atlas is blue", "Borealis is grey", "Draco is white",
    }  # fmt: skip
    close_all()
    one.home = one.home.rename(tmp_path / "moved")
    one.write("Borealis is black", "Draco is white", age_s=30)
    session = one.session()
    assert set(recalled(session, "atlas borealis cygnus draco")) == {"Borealis is black", "Draco is white"}
    assert ask(direct_dsn, "SELECT count(DISTINCT origin) FROM hermes_mirror") == 1
    session.on_memory_write("remove", "memory", "", {"old_text": "Borealis"})
    landed(session)
    assert recalled(session, "atlas borealis cygnus draco") == ["Draco is white"]


def test_need_15_what_a_homes_first_session_adds_is_followed_in_a_new_container(
    hosts: tuple[Host, Host], make_provider: MakeProvider, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was no file yet that it could read."""
    one, _ = hosts
    key = make_provider(hermes_home=str(one.home), gateway_session_key="sales", agent_identity="team")
    for text in ("Atlas is blue", "Borealis is green"):
        key.on_memory_write("add", "memory", text)
    one.write("Atlas is blue", "Borealis is green", age_s=60)
    landed(key)
    _in_a_new_container(monkeypatch, "second")
    one.session()
    assert Database(dsn).themes_of_memory("Atlas is blue") == ["sales"]
    one.write("Borealis is green", age_s=50)
    assert recalled(one.session(), "atlas borealis", scope="all") == ["Borealis is green"]


def test_need_15_what_is_edited_is_followed_by_each_of_two_containers_that_share_a_home(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a gateway, and a command that is run beside it in a container of its own, which begins later."""
    gateway, beside = hosts
    gateway.write("Atlas is blue", "Borealis is green", "Cygnus is red", age_s=60)
    gateway.session()
    beside.home.symlink_to(gateway.home)
    monkeypatch.setattr(socket, "gethostname", lambda: "beside")
    beside.session()
    query = "atlas borealis cygnus"
    for age_s, edited in enumerate((gateway, beside, gateway)):
        gateway.write("Atlas is blue", f"Borealis is {age_s}", "Cygnus is red", age_s=40 - age_s)
        assert set(recalled(edited.session(), query)) == {"Atlas is blue", f"Borealis is {age_s}", "Cygnus is red"}


@pytest.mark.parametrize(
    "instead",
    [
        os.mkfifo,
        Path.mkdir,
        lambda path: path.write_bytes(b"\xff\0 1 2 3"),
        lambda path: path.write_bytes(b"c0ffee\0 7\n"),  # Postgres takes no such text
    ],
)
def test_need_15_what_stands_in_place_of_the_last_origin_stops_no_session(
    hosts: tuple[Host, Host], instead: Callable[[Path], object]
) -> None:
    one, _ = hosts
    one.write("Atlas is blue", age_s=60)
    one.session()
    close_all()
    (one.home / "pgvector" / "last_origin").unlink()
    instead(one.home / "pgvector" / "last_origin")
    one.write("Atlas is red", age_s=50)
    assert recalled(one.session(), "atlas") == ["Atlas is red"]


def test_need_31_a_copy_of_a_home_takes_nothing_from_the_original(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = hosts
    one.write("Atlas is blue", "Borealis is green", "Cygnus is red", age_s=60)
    one.session()
    close_all()
    shutil.copytree(one.home, two.home)
    two.write("Atlas is blue", "Cygnus is red", age_s=50)
    _in_a_new_container(monkeypatch, "two")
    assert set(recalled(two.session(), "atlas borealis cygnus")) == {
        "Atlas is blue", "Borealis is green", "Cygnus is red",
    }  # fmt: skip


@pytest.mark.parametrize("read_before", [False, True])
def test_trap_05_a_copy_of_a_home_has_its_entries_in_the_themes_of_the_original(
    hosts: tuple[Host, Host],
    make_provider: MakeProvider,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    read_before: bool,
) -> None:
    one, two = hosts
    if read_before:
        one.write("Draco is white", age_s=90)
        one.session()
    sales = {"hermes_home": str(one.home), "gateway_session_key": "sales", "agent_identity": "team"}
    key = make_provider(**sales)
    for text in ("Atlas is blue", "Borealis is green"):
        key.on_memory_write("add", "memory", text)
    one.write("Atlas is blue", "Borealis is green", age_s=60)
    landed(key)
    if read_before:
        one.session()
    close_all()
    shutil.copytree(one.home, two.home)
    two.write("Atlas is blue", "Borealis is green", "Cygnus is red", age_s=50)
    with monkeypatch.context() as elsewhere:
        _in_a_new_container(elsewhere, "two")
        assert recalled(two.session(), "atlas borealis cygnus") == ["Cygnus is red"]
    assert Database(dsn).themes_of_memory("Atlas is blue") == ["sales"]
    close_all()
    key = make_provider(**sales)
    key.on_memory_write("remove", "memory", "", {"old_text": "Atlas"})
    one.write("Borealis is green", age_s=40)
    landed(key)
    _in_a_new_container(monkeypatch, "two")
    two.write("Atlas is blue", "Cygnus is red", age_s=-1)
    assert recalled(two.session(), "atlas borealis cygnus", scope="all") == ["Cygnus is red"]


def test_trap_05_so_has_a_copy_that_was_made_before_anything_was_stored(
    hosts: tuple[Host, Host], make_provider: MakeProvider, direct_dsn: str, dsn: str
) -> None:
    """What waits in the home was copied along, and is stored once."""
    one, two = hosts
    with TcpProxy.before(direct_dsn) as proxy:
        proxy.stop()
        away = make_provider(
            {"dsn": proxy.conninfo(direct_dsn)},
            hermes_home=str(one.home), gateway_session_key="sales", agent_identity="team",
        )  # fmt: skip
        away.on_memory_write("add", "memory", "Atlas is blue")
        one.write("Atlas is blue", age_s=60)
        close_all()
    shutil.copytree(one.home, two.home)
    for host in hosts:
        host.session()
        close_all()
    assert Database(dsn).themes_of_memory("Atlas is blue") == ["sales"]


@pytest.mark.parametrize(
    ("profile", "aliases", "told"),
    [
        ("other", (), "by a session"),
        ("other", (), "by the file"),
        ("team", ("team=other",), "by the file"),
    ],
)
def test_trap_05_a_copy_of_a_home_for_another_theme_has_its_entries_there_too(
    hosts: tuple[Host, Host], make_provider: MakeProvider, profile: str, aliases: tuple[str, ...], told: str
) -> None:
    """As of a profile that was cloned: it finds what stands in its own files, whatever the original does with it."""
    one, two = hosts
    if told == "by a session":
        session = one.session()
        session.on_memory_write("add", "memory", "Atlas is blue")
        landed(session)
    one.write("Atlas is blue", age_s=60)
    one.session()
    close_all()
    shutil.copytree(one.home, two.home)
    two.write("Atlas is blue", "Cygnus is red", age_s=50)
    copy = make_provider(
        {"theme_aliases": list(aliases)}, hermes_home=str(two.home), gateway_session_key="", agent_identity=profile
    )
    landed(copy)
    assert set(recalled(copy, "atlas cygnus")) == {"Atlas is blue", "Cygnus is red"}
    assert recalled(one.session(), "atlas cygnus") == ["Atlas is blue"]


def test_trap_05_what_was_forgotten_does_not_come_back_where_an_export_is_restored(
    hosts: tuple[Host, Host], ask: Callable[..., Any], tmp_path: Path, admin_dsn: str
) -> None:
    """Into an empty database. The line is still in the file, which was written since."""
    one, _ = hosts
    one.write("Atlas is blue", "Borealis is green", "Draco is white", age_s=60)
    one.session()
    refs = {row["content"]: row["ref"] for row in ask("list", "--theme", "team")}
    ask("forget", refs["Atlas is blue"], "--yes")
    ask("edit", refs["Draco is white"], "Draco is grey", "--yes")
    everything = ("Atlas is blue", "Borealis is green", "Draco is white", "Cygnus is red")
    one.write(*everything, age_s=-1)
    one.session()
    close_all()
    ask("export", str(tmp_path / "backup.jsonl"))
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("TRUNCATE memory_entries, hermes_mirror, hermes_tombstones, memory_history CASCADE")
    ask("import", str(tmp_path / "backup.jsonl"))
    query, left = "atlas borealis cygnus draco eridanus", {"Borealis is green", "Cygnus is red", "Draco is grey"}
    one.write(*everything, "Eridanus is long", age_s=-2)
    assert set(recalled(one.session(), query)) == left | {"Eridanus is long"}
    one.write("Borealis is green", "Cygnus is red", "Eridanus is long", age_s=-3)
    one.session()
    one.write("Borealis is green", "Cygnus is red", "Eridanus is long", "Atlas is blue", age_s=-4)
    assert set(recalled(one.session(), query)) == left | {"Eridanus is long", "Atlas is blue"}, (
        "somebody wrote it again"
    )


@pytest.mark.parametrize("made_anew", [False, True])
def test_trap_05_what_was_forgotten_does_not_come_back_with_a_copy_of_the_home(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, ask: Callable[..., Any], made_anew: bool
) -> None:
    """As on a new machine: the line is still in the file, which was written since."""
    one, two = hosts
    one.write("Atlas is blue", "Borealis is green", age_s=60)
    key = one.session()
    key.on_memory_write("add", "memory", "Draco is white")
    landed(key)
    refs = {row["content"]: row["ref"] for row in ask("list", "--theme", "team")}
    ask("forget", refs["Atlas is blue"], "--yes")
    ask("edit", refs["Draco is white"], "Draco is grey", "--yes")
    one.write("Atlas is blue", "Borealis is green", "Draco is white", "Cygnus is red", age_s=-1)
    one.session()
    close_all()
    shutil.copytree(one.home, two.home)
    if made_anew:
        (two.home / "pgvector" / "origin").unlink()
    two.write("Atlas is blue", "Borealis is green", "Draco is white", "Cygnus is red", "Eridanus is long", age_s=-2)
    _in_a_new_container(monkeypatch, "two")
    query, left = "atlas borealis cygnus draco eridanus", {"Borealis is green", "Cygnus is red", "Eridanus is long"}
    assert set(recalled(two.session(), query)) == left | {"Draco is grey"}
    two.write(*left, age_s=-3)
    two.session()
    two.write(*left, "Atlas is blue", age_s=-4)
    assert set(recalled(two.session(), query)) == left | {"Draco is grey", "Atlas is blue"}, "somebody wrote it again"


def test_need_31_a_backup_of_a_homes_first_session_takes_nothing_that_came_later(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    """It knows what its files held then, also if no session has started with them yet."""
    one, _ = hosts
    key = one.session()
    one.write("Atlas is blue", age_s=60)
    key.on_memory_write("add", "memory", "Atlas is blue")
    landed(key)
    shutil.copytree(one.home / "pgvector", tmp_path / "backup", ignore=shutil.ignore_patterns("*spool*"))
    close_all()
    one.write("Atlas is blue", "Borealis is green", age_s=50)
    one.session()
    close_all()
    shutil.rmtree(one.home / "pgvector")
    shutil.copytree(tmp_path / "backup", one.home / "pgvector")
    one.write("Atlas is blue", age_s=40)
    assert set(recalled(one.session(), "atlas borealis")) == {"Atlas is blue", "Borealis is green"}
    close_all()
    one.write("Borealis is green", age_s=30)
    assert recalled(one.session(), "atlas borealis") == ["Borealis is green"], "what was taken out since is removed"


def test_need_31_a_home_whose_marker_was_made_anew_takes_nothing(hosts: tuple[Host, Host]) -> None:
    """As at a copy, where it was deleted; file systems give its number to the next file."""
    one, _ = hosts
    one.write("Atlas is blue", "Borealis is green", "Cygnus is red", age_s=60)
    one.session()
    close_all()
    (one.home / "pgvector" / "origin").write_text(uuid.uuid4().hex)
    one.write("Atlas is blue", "Cygnus is red", age_s=50)
    assert "Borealis is green" in recalled(one.session(), "atlas borealis cygnus")


def test_need_31_copies_of_a_home_that_have_the_same_name_take_nothing_from_each_other(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    """As of a machine that was cloned, or a volume that was copied: host and path have the same name at both."""
    one, two = hosts

    def on_the_other_machine() -> PgvectorMemoryProvider:
        close_all()
        one.home.rename(tmp_path / "aside")
        two.home.rename(one.home)
        (tmp_path / "aside").rename(two.home)
        return one.session()

    one.write("Atlas is blue", "Borealis is green", age_s=60)
    one.session()
    close_all()
    shutil.copytree(one.home, two.home)
    session = one.session()
    session.on_memory_write("add", "memory", "Cygnus is red")
    one.write("Atlas is blue", "Borealis is green", "Cygnus is red", "Eridanus is long", age_s=50)
    landed(session)
    one.session()

    copy = on_the_other_machine()
    copy.on_memory_write("add", "memory", "Draco is white")
    one.write("Atlas is blue", "Borealis is green", "Draco is white", age_s=40)
    landed(copy)
    query = "atlas borealis cygnus draco eridanus"
    everything = {"Atlas is blue", "Borealis is green", "Cygnus is red", "Draco is white", "Eridanus is long"}
    assert set(recalled(copy, query)) == everything
    session = on_the_other_machine()
    assert set(recalled(session, query)) == everything
    one.write("Atlas is blue", "Borealis is green", "Eridanus is long", age_s=30)
    assert set(recalled(one.session(), query)) == everything - {"Cygnus is red"}, "it had that itself"


def test_need_31_a_copied_disk_takes_nothing_that_the_original_has_noted_since(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cloned machine, started later from what its disk was, finds the same files there as the original."""
    one, _ = hosts
    one.write("Atlas is blue", "Borealis is green", age_s=60)
    one.session()
    clock = one.home / "pgvector" / "clock"
    cloned = clock.stat()
    close_all()
    monkeypatch.setattr(time, "time", lambda real=time.time: real() + 3600)
    monkeypatch.setattr(time, "time_ns", lambda real=time.time_ns: real() + 3600 * 10**9)
    session = one.session()
    session.on_memory_write("add", "memory", "Cygnus is red")
    landed(session)
    _in_a_new_container(monkeypatch, "clone")
    os.utime(clock, ns=(cloned.st_atime_ns, cloned.st_mtime_ns))
    one.write("Atlas is blue", "Borealis is green", age_s=60)
    assert set(recalled(one.session(), "atlas borealis cygnus")) == {
        "Atlas is blue", "Borealis is green", "Cygnus is red",
    }  # fmt: skip
