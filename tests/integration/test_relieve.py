"""`relieve` moves entries of the host's memory files into the database, loses none, and can be undone."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import MakeProvider
from tests.support.databases import Databases
from tests.support.memory import DELIMITER, called, landed, recalled, write_entries
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run

CRANES = (
    "Crane a is red",
    "Crane b is blue",
    "Crane c is grey",
    "Crane d is pink",
    "Crane e is tan",
    "Crane f is teal",
)
PATIENCE_S = 60.0
Ask = Callable[..., Any]


@pytest.fixture
def configured(home: Path, dsn: str) -> Path:
    """The home's config.yaml."""
    path = home / "config.yaml"
    path.write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn, "dims": 384}}}), encoding="utf-8")
    return path


@pytest.fixture
def ask(cli: Run, configured: Path) -> Ask:
    """Runs a verb with --json and returns what it printed; it must not fail."""

    def ask(*arguments: str) -> Any:
        done = cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def session(make_provider: MakeProvider, **whose: Any) -> PgvectorMemoryProvider:
    """A session of the profile, once it has read the memory files."""
    provider = make_provider(**({"gateway_session_key": "", "platform": "cli"} | whose))
    landed(provider)
    return provider


def entries_of(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return text.split(DELIMITER) if text else []


def reasons(told: dict[str, Any]) -> dict[str, list[str]]:
    """The kinds of reasons of each entry, by its text."""
    return {row["content"]: [each["kind"] for each in row["reasons"]] for row in told["rows"]}


@contextmanager
def locked_by_the_host(home: Path, name: str) -> Iterator[None]:
    """Holds the lock that hermes-agent takes while it writes a memory file."""
    from tools.memory_tool import MemoryStore

    with MemoryStore._file_lock(home / "memories" / name):
        yield


def test_shows_how_full_the_files_are_and_changes_nothing(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask, cli: Run
) -> None:
    path = write_entries(home, *CRANES)
    write_entries(home, "Likes tea", file="USER.md")
    session(make_provider).shutdown()
    before = Database(dsn).column("SELECT to_jsonb(m) FROM memory_entries AS m ORDER BY id")
    told = ask("relieve")
    files = {each["file"]: each for each in told["files"]}
    text = DELIMITER.join(CRANES)
    assert files["MEMORY.md"] == {
        "file": "MEMORY.md", "entries": 6, "chars": len(text), "limit": 2200, "share": round(len(text) / 2200, 3)
    }  # fmt: skip
    assert files["USER.md"]["limit"] == 1375 and files["USER.md"]["entries"] == 1
    assert [row["number"] for row in told["rows"]] == list(range(1, 8)) and not told["done"]
    assert ask("relieve", "--entry", "2")["rows"][0]["content"] == CRANES[1]
    assert "add --yes" in cli("relieve", "--entry", "2").stdout
    assert entries_of(path) == list(CRANES) and not (home / "pgvector" / "relieved.json").exists()
    assert Database(dsn).column("SELECT to_jsonb(m) FROM memory_entries AS m ORDER BY id") == before


def test_a_number_names_the_same_entry_with_a_target(home: Path, configured: Path, ask: Ask, cli: Run) -> None:
    write_entries(home, "The lift is broken", "The cellar is locked")
    write_entries(home, "Eats no nuts", "Lives in Nantes", "Speaks Breton", file="USER.md")
    shown = {row["number"]: row["content"] for row in ask("relieve")["rows"]}
    assert shown[3] == "Eats no nuts"
    assert {row["number"]: row["content"] for row in ask("relieve", "--target", "user")["rows"]} == {
        number: shown[number] for number in (3, 4, 5)
    }
    (row,) = ask("relieve", "--target", "user", "--entry", "3")["rows"]
    assert row["content"] == shown[3]
    assert "there is no entry 1" in cli("relieve", "--target", "user", "--entry", "1").stderr


def test_counts_as_the_host_does(home: Path, configured: Path, ask: Ask) -> None:
    from tools.memory_tool import load_on_disk_store

    section = yaml.safe_load(configured.read_text())
    configured.write_text(yaml.safe_dump(section | {"memory": {"memory_char_limit": 300, "user_char_limit": "50"}}))
    write_entries(home, *CRANES, "Kräne § sind groß")
    write_entries(home, "Likes tea", file="USER.md")
    store = load_on_disk_store()
    for each, target in zip(ask("relieve")["files"], ("memory", "user"), strict=True):
        assert each["chars"] == store._char_count(target) and each["limit"] == store._char_limit(target)


def test_doctor_and_status_name_the_command_where_a_file_is_nearly_full(
    home: Path, configured: Path, ask: Ask, cli: Run
) -> None:
    write_entries(home, "x" * 1700)
    write_entries(home, "y" * 1200, file="USER.md")
    for said in (cli("status").stdout, cli("doctor").stdout):
        assert "USER.md 1,200 of 1,375 characters" in said and "hermes-pgvector relieve" in said
        assert "MEMORY.md 1,700" not in said
    assert [each["nearly_full"] for each in ask("status")["memory_files"]] == [False, True]
    section = yaml.safe_load(configured.read_text())
    configured.write_text(yaml.safe_dump(section | {"memory": {"user_profile_enabled": False}}))
    assert "USER.md" not in cli("status").stdout, "it stands in no prompt"


@pytest.mark.parametrize("moved", [1, 5, 6], ids=["one", "most", "all"])
def test_moved_entries_stay_memories_and_nothing_waits_for_a_decision(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask, moved: int
) -> None:
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    ages = Database(dsn).column("SELECT updated_at FROM memory_entries ORDER BY id")
    done = ask("relieve", *(word for number in range(1, moved + 1) for word in ("--entry", str(number))), "--yes")
    assert done["done"] and done["counts"] == {"entries": moved}
    assert entries_of(path) == list(CRANES[moved:])
    assert done["files"][0]["chars"] == len(path.read_text(encoding="utf-8"))
    for _ in range(2):
        provider = session(make_provider)
        assert set(recalled(provider, "crane")) == set(CRANES)
        provider.shutdown()
    assert ask("removals", "list") == []
    assert Database(dsn).column("SELECT updated_at FROM memory_entries ORDER BY id") == ages, "moving is not saying"
    assert Database(dsn).column("SELECT count(*) FROM hermes_mirror WHERE kept_at IS NULL") == [6 - moved]


def test_the_host_goes_on_with_the_file(make_provider: MakeProvider, home: Path, ask: Ask) -> None:
    from tools.memory_tool import load_on_disk_store

    path = write_entries(home, *CRANES)
    path.chmod(0o640)
    real = path.rename(home / "elsewhere.md")
    path.symlink_to(real)
    session(make_provider).shutdown()
    ask("relieve", "--entry", "1", "--entry", "6", "--yes")
    assert path.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    store = load_on_disk_store()
    assert store.memory_entries == list(CRANES[1:5])
    assert store.apply_batch("memory", [{"action": "remove", "old_text": "Crane c"}])["success"]
    assert entries_of(path) == [CRANES[1], *CRANES[3:5]]
    assert path.is_symlink(), "the host keeps links, and so does this"


def test_what_no_session_has_read_yet_is_stored_for_the_profile(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask
) -> None:
    path = write_entries(home, *CRANES[:2])
    ask("relieve", "--entry", "1", "--yes")
    assert entries_of(path) == [CRANES[1]]
    assert Database(dsn).themes_of_memory(CRANES[0]) == ["default"]
    assert set(recalled(session(make_provider), "crane")) == set(CRANES[:2])


def test_an_entry_stays_in_the_theme_that_wrote_it(make_provider: MakeProvider, home: Path, dsn: str, ask: Ask) -> None:
    provider = make_provider(gateway_session_key="sales")
    write_entries(home, *CRANES[:2])
    provider.on_memory_write("add", "memory", CRANES[0])
    landed(provider)
    session(make_provider)
    ask("relieve", "--entry", "1", "--yes")
    session(make_provider)
    assert Database(dsn).themes_of_memory(CRANES[0]) == ["sales"]


def test_names_duplicates_by_words_and_by_what_is_remembered_besides(
    make_provider: MakeProvider, home: Path, ask: Ask
) -> None:
    texts = (
        "The staging gateway restarts every Sunday at night",
        "Ticket 12 of the billing team is open",
        "Ticket 13 of the billing team is open",
        "The staging gateway restarts every Sunday, at night",
        "Invoices go out on the first of the month",
    )
    path = write_entries(home, *texts)
    provider = session(make_provider, config={"tools": ["remember", "recall_memory"]})
    called(provider, "remember", {"content": texts[4]})
    landed(provider)
    told = ask("relieve")
    assert reasons(told) == {
        texts[0]: ["duplicate"], texts[1]: [], texts[2]: [], texts[3]: [], texts[4]: ["duplicate"]
    }  # fmt: skip
    assert "entry 4" in told["rows"][0]["reasons"][0]["said"]
    ask("relieve", "--duplicates", "--yes")
    assert entries_of(path) == list(texts[1:4])


def test_names_duplicates_by_their_vectors(
    make_provider: MakeProvider, home: Path, configured: Path, dsn: str, ask: Ask, embedder: ScriptedEmbedder
) -> None:
    section = yaml.safe_load(configured.read_text())
    section["plugins"]["pgvector"]["embed_url"] = embedder.url
    configured.write_text(yaml.safe_dump(section))
    texts = (
        "gateway gateway gateway gateway restarts sunday",
        "gateway gateway gateway gateway gateway restarts often",
    )
    write_entries(home, texts[0])
    provider = session(make_provider, config={"embed_url": embedder.url, "tools": ["remember", "recall_memory"]})
    called(provider, "remember", {"content": texts[1]})
    landed(provider)
    embedded = "SELECT count(embedding) FROM memory_entries"
    until(lambda: Database(dsn).column(embedded) == [2], PATIENCE_S, "both have vectors")
    near = "SELECT a.embedding <=> b.embedding < 0.05 FROM memory_entries AS a, memory_entries AS b WHERE a.id < b.id"
    assert Database(dsn).column(near) == [True]
    assert reasons(ask("relieve")) == {texts[0]: ["duplicate"]}


def test_what_was_edited_or_forgotten_is_taken_out_and_not_stored_again(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask
) -> None:
    path = write_entries(home, *CRANES[:3])
    session(make_provider).shutdown()
    ids = dict(zip(CRANES, Database(dsn).column("SELECT id FROM memory_entries ORDER BY content"), strict=False))
    ask("edit", f"m{ids[CRANES[0]]}", "Crane a is orange", "--yes")
    ask("forget", f"m{ids[CRANES[1]]}", "--yes")
    told = ask("relieve")
    assert reasons(told) == {CRANES[0]: ["superseded"], CRANES[1]: ["removed"], CRANES[2]: []}
    assert "Crane a is orange" in told["rows"][0]["reasons"][0]["said"]
    ask("relieve", "--superseded", "--entry", "2", "--yes")
    assert entries_of(path) == [CRANES[2]]
    session(make_provider).shutdown()
    ask("relieve", "--undo", "--yes")
    assert entries_of(path) == list(CRANES[:3])
    session(make_provider).shutdown()
    stored = Database(dsn).column("SELECT content FROM memory_entries ORDER BY content")
    assert stored == ["Crane a is orange", CRANES[2]]


def test_an_entry_whose_subject_was_decided_anew_is_superseded(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask
) -> None:
    texts = ("D[auth]: sessions", "V[srv.db]: port 5432", "?[colour]: red or blue", "Crane a is red")
    path = write_entries(home, *texts, age_s=3600)
    provider = session(make_provider, config={"tools": ["remember", "recall_memory"], "structure": True})
    for anew in ("D[auth]: tokens of 7 days", "✓[colour]"):
        called(provider, "remember", {"content": anew})
    called(provider, "remember", {"content": texts[3], "expires_at": "2026-01-01"})
    landed(provider)
    provider.shutdown()
    states = "SELECT content || ' is ' || coalesce(state, 'plain') FROM memory_entries ORDER BY id"
    before = Database(dsn).column(states)
    assert {f"{texts[0]} is superseded", f"{texts[2]} is closed"} < set(before)
    told = {row["content"]: row["reasons"] for row in ask("relieve", "--superseded")["rows"]}
    said = {text: [each["said"] for each in reasons if each["kind"] == "superseded"] for text, reasons in told.items()}
    (anew,) = said.pop(texts[0])
    assert "D[auth]: tokens of 7 days" in anew
    assert said == {texts[2]: ["closed"], texts[3]: ["expired"]}
    ask("relieve", "--superseded", "--yes")
    assert entries_of(path) == [texts[1]]
    session(make_provider).shutdown()
    ask("relieve", "--undo", "--yes")
    assert entries_of(path) == list(texts)
    session(make_provider).shutdown()
    assert Database(dsn).column(states) == before, "the file is no news"


def test_an_old_entry_that_no_session_has_read_replaces_nothing(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask
) -> None:
    ask("add", "D[auth]: tokens of 7 days")
    path = write_entries(home, "D[auth]: sessions", age_s=3600)
    ask("relieve", "--entry", "1", "--yes")
    assert entries_of(path) == []
    states = Database(dsn).column("SELECT state FROM memory_entries ORDER BY content")
    assert states == ["superseded", "active"]


def test_unused_is_what_was_neither_said_nor_spoken_of(
    make_provider: MakeProvider, home: Path, dsn: str, admin_dsn: str, ask: Ask
) -> None:
    oiled, unused = "The harbour crane needs oil in spring", "The espresso machine hates hard water"
    path = write_entries(home, oiled, unused, CRANES[5])
    provider = session(make_provider)
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE memory_entries SET updated_at = now() - interval '200 days' WHERE content <> %s", [CRANES[5]]
        )
    assert "nothing tells" in ask("relieve", "--unused-for", "90d")["notes"][0], "no turn is stored"
    provider.sync_turn(
        "Did anybody oil the harbour crane this spring?", "Yes, the harbour crane got its oil in spring."
    )
    landed(provider)
    told = ask("relieve", "--unused-for", "90d")
    assert [row["content"] for row in told["rows"]] == [unused]
    assert "1 entry was written, confirmed or first read since" in told["notes"][0]
    assert ask("relieve", "--unused-for", "300d")["rows"] == []
    ask("relieve", "--unused-for", "90d", "--yes")
    assert entries_of(path) == [oiled, CRANES[5]]


# -- undo


@pytest.mark.parametrize("moved", [2, 6])
def test_what_was_moved_stays_where_an_older_backup_is_restored(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask, admin_dsn: str, databases: Databases, moved: int
) -> None:
    """The backup says that the file held it, and the file holds it no more."""
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    close_all()  # a database is copied while nobody is connected
    with databases.copy_of(admin_dsn) as backup:
        ask("relieve", *(word for number in range(1, moved + 1) for word in ("--entry", str(number))), "--yes")
        session(make_provider).shutdown()
        restored = make_conninfo(backup, user="hermes")
        settings = {"plugins": {"pgvector": {"dsn": restored, "dims": 384}}}
        (home / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        for more in ("Crane g is gold", "Crane h is green"):
            write_entries(home, *entries_of(path), more)
            provider = session(make_provider, config={"dsn": restored})
            assert set(recalled(provider, "crane")) >= set(CRANES)
            provider.shutdown()
        assert ask("relieve", "--undo", "--yes")["counts"] == {"entries": moved}
        assert set(entries_of(path)) == {*CRANES, "Crane g is gold", "Crane h is green"}
        session(make_provider, config={"dsn": restored}).shutdown()
        assert len(Database(restored).column("SELECT id FROM memory_entries")) == 8
        close_all()


def test_what_was_moved_stays_so_although_the_second_file_was_never_free(
    make_provider: MakeProvider, home: Path, configured: Path, cli: Run, admin_dsn: str, databases: Databases
) -> None:
    path = write_entries(home, *CRANES)
    write_entries(home, "Likes tea", file="USER.md")
    session(make_provider).shutdown()
    close_all()
    with databases.copy_of(admin_dsn) as backup:
        with locked_by_the_host(home, "USER.md"):
            assert cli("relieve", "--entry", "1", "--entry", "7", "--yes").returncode == 1
        assert entries_of(path) == list(CRANES[1:])
        restored = make_conninfo(backup, user="hermes")
        settings = {"plugins": {"pgvector": {"dsn": restored, "dims": 384}}}
        configured.write_text(yaml.safe_dump(settings), encoding="utf-8")
        for _ in range(2):
            provider = session(make_provider, config={"dsn": restored})
            assert set(recalled(provider, "crane")) == set(CRANES)
            provider.shutdown()
        close_all()


def test_undo_puts_the_entries_back_where_they_stood(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask, cli: Run
) -> None:
    path = write_entries(home, *CRANES)
    user = write_entries(home, "Likes tea", "Likes rain", file="USER.md")
    session(make_provider).shutdown()
    before = path.read_bytes(), user.read_bytes()
    ask("relieve", "--entry", "1", "--entry", "4", "--entry", "6", "--entry", "7", "--yes")
    assert (home / "pgvector" / "relieved.json").stat().st_mode & 0o777 == 0o600
    assert not ask("relieve", "--undo")["done"] and entries_of(user) == ["Likes rain"]
    session(make_provider).shutdown()
    assert ask("relieve", "--undo", "--yes")["counts"] == {"entries": 4}
    assert (path.read_bytes(), user.read_bytes()) == before
    session(make_provider).shutdown()
    assert len(Database(dsn).column("SELECT id FROM memory_entries")) == 8
    again = cli("relieve", "--undo", "--yes")
    assert again.returncode == 1 and "is to be undone" in again.stderr


def told_by_sales(make_provider: MakeProvider, path: Path, text: str) -> PgvectorMemoryProvider:
    """A session of the theme `sales` that has written an entry to the file of the cranes."""
    told = make_provider({"tools": ["remember"]}, gateway_session_key="sales")
    path.write_text(DELIMITER.join([*CRANES, text]), encoding="utf-8")
    told.on_memory_write("add", "memory", text)
    landed(told)
    return told


@pytest.mark.parametrize("by", ["undo", "a copy of the file"])
def test_need_04_an_entry_that_is_back_in_the_file_stays_in_the_theme_that_wrote_it(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask, by: str
) -> None:
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    told_by_sales(make_provider, path, "Norwind pays net 60").shutdown()
    before = path.read_bytes()
    ask("relieve", "--entry", "7", "--yes")
    session(make_provider).shutdown()
    (row,) = ask("list", "--theme", "sales")
    assert ask("show", row["ref"])["in_files"] == 0
    if by == "undo":
        ask("relieve", "--undo", "--yes")
    else:
        path.write_bytes(before)
    session(make_provider).shutdown()
    stored = Database(dsn).column("SELECT agent_identity FROM memory_entries WHERE content ^@ 'Norwind'")
    assert stored == ["sales"], "nobody told the profile's own theme"
    assert ask("show", row["ref"])["in_files"] == 1


@pytest.mark.parametrize("by", ["hand", "tool"])
@pytest.mark.parametrize("remembered", [True, False])
def test_need_04_an_entry_that_was_taken_out_and_is_back_stays_in_the_theme_that_wrote_it(
    make_provider: MakeProvider, home: Path, dsn: str, by: str, remembered: bool
) -> None:
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    told = told_by_sales(make_provider, path, "Norwind pays net 60")
    if remembered:
        called(told, "remember", {"content": "Norwind pays net 60", "sync": True})
    before = path.read_bytes()
    path.write_text(DELIMITER.join(CRANES), encoding="utf-8")
    if by == "tool":
        told.on_memory_write("remove", "memory", "", {"old_text": "Norwind"})
        landed(told)
    told.shutdown()
    session(make_provider).shutdown()
    themes = "SELECT agent_identity FROM memory_entries WHERE content ^@ 'Norwind'"
    assert Database(dsn).column(themes) == (["sales"] if remembered else [])
    path.write_bytes(before)
    session(make_provider).shutdown()
    assert Database(dsn).column(themes) == ["sales"]


@pytest.mark.parametrize("written", ["anew", "by an old copy of the file"])
def test_what_was_moved_and_forgotten_is_stored_again_only_where_it_is_written_anew(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask, written: str
) -> None:
    path = write_entries(home, *CRANES, "Norwind pays net 60")
    session(make_provider).shutdown()
    before = path.stat()
    ask("relieve", "--entry", "7", "--yes")
    session(make_provider).shutdown()
    (ref,) = [row["ref"] for row in ask("list") if row["content"].startswith("Norwind")]
    ask("forget", ref, "--yes")
    session(make_provider).shutdown()
    write_entries(home, *CRANES, "Norwind pays net 60")
    if written != "anew":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    session(make_provider).shutdown()
    stored = Database(dsn).column("SELECT content FROM memory_entries WHERE content ^@ 'Norwind'")
    assert stored == (["Norwind pays net 60"] if written == "anew" else [])


def test_a_line_forgotten_in_the_theme_that_wrote_it_does_not_come_back_with_a_copy_of_the_file(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask
) -> None:
    session(make_provider).shutdown()
    path = write_entries(home, *CRANES, "Norwind pays net 60")
    sales = make_provider(gateway_session_key="sales")
    sales.on_memory_write("add", "memory", "Norwind pays net 60")
    landed(sales)
    session(make_provider).shutdown()
    before = path.stat()
    ask("relieve", "--entry", "7", "--yes")
    session(make_provider).shutdown()
    (row,) = ask("list", "--theme", "sales")
    ask("forget", row["ref"], "--yes")
    write_entries(home, *CRANES, "Norwind pays net 60")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    session(make_provider).shutdown()
    assert Database(dsn).themes_of_memory("Norwind pays net 60") == []


def test_a_line_that_is_written_again_after_it_was_moved_and_forgotten_can_be_moved_again(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask
) -> None:
    write_entries(home, *CRANES, "Norwind pays net 60")
    session(make_provider).shutdown()
    ask("relieve", "--entry", "7", "--yes")
    session(make_provider).shutdown()
    (ref,) = [row["ref"] for row in ask("list") if row["content"].startswith("Norwind")]
    ask("forget", ref, "--yes")
    write_entries(home, *CRANES, "Norwind pays net 60")
    assert reasons(ask("relieve"))["Norwind pays net 60"] == []
    ask("relieve", "--entry", "7", "--yes")
    assert Database(dsn).themes_of_memory("Norwind pays net 60") == ["default"]


def test_what_was_moved_is_not_meant_when_the_host_takes_out_an_entry_like_it(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Ask
) -> None:
    path = write_entries(home, *CRANES, "Crane a is red on Sundays only")
    session(make_provider).shutdown()
    ask("relieve", "--entry", "7", "--yes")
    provider = session(make_provider)
    write_entries(home, *CRANES[1:])
    provider.on_memory_write("remove", "memory", "", {"old_text": "Crane a is"})
    landed(provider)
    assert entries_of(path) == list(CRANES[1:])
    stored = Database(dsn).column("SELECT content FROM memory_entries WHERE content ^@ 'Crane a'")
    assert stored == ["Crane a is red on Sundays only"]


def test_undo_minds_what_was_changed_since(make_provider: MakeProvider, home: Path, dsn: str, ask: Ask) -> None:
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    ask("relieve", "--entry", "2", "--entry", "3", "--entry", "4", "--yes")
    session(make_provider).shutdown()
    write_entries(home, "New at the top", CRANES[0], CRANES[3], CRANES[4], "New at the end")
    (forgotten,) = Database(dsn).column("SELECT id FROM memory_entries WHERE content = %s", CRANES[1])
    ask("forget", f"m{forgotten}", "--yes")
    assert CRANES[1] not in (home / "pgvector" / "relieved.json").read_text(), "forgotten is forgotten"
    done = ask("relieve", "--undo", "--yes")
    assert "not put back" in done["notes"][0]
    assert set(entries_of(path)) == {"New at the top", "New at the end", CRANES[0], *CRANES[2:5]}
    assert len(entries_of(path)) == 6


def test_undo_finds_the_entries_under_the_new_name_of_their_theme(
    make_provider: MakeProvider, home: Path, ask: Ask
) -> None:
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    before = path.read_bytes()
    ask("relieve", "--entry", "2", "--entry", "5", "--yes")
    ask("themes", "rename", "default", "harbour", "--yes")
    assert ask("relieve", "--undo", "--yes")["notes"] == [] and path.read_bytes() == before


def test_undo_in_another_database_leaves_it_to_be_undone(
    make_provider: MakeProvider, home: Path, configured: Path, dsn: str, second_dsn: str, ask: Ask
) -> None:
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    before = path.read_bytes()
    ask("relieve", "--entry", "2", "--yes")
    told = []
    for place in (second_dsn, dsn):
        configured.write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": place, "dims": 384}}}), encoding="utf-8")
        told.append(ask("relieve", "--undo", "--yes")["counts"]["entries"])
    assert told == [0, 1] and path.read_bytes() == before


def test_undo_keeps_to_the_hosts_limit(make_provider: MakeProvider, home: Path, ask: Ask, cli: Run) -> None:
    path = write_entries(home, *("x" * 700 + f" {number}" for number in range(3)))
    session(make_provider).shutdown()
    ask("relieve", "--entry", "1", "--yes")
    write_entries(home, *entries_of(path), "y" * 700)
    before = path.read_bytes()
    refused = cli("relieve", "--undo", "--yes")
    assert refused.returncode == 1 and "more than the host takes" in refused.stderr
    assert path.read_bytes() == before


# -- what goes wrong


def test_without_a_database_nothing_is_touched(
    make_provider: MakeProvider, home: Path, configured: Path, cli: Run, ask: Ask
) -> None:
    path = write_entries(home, *CRANES)
    section = {"plugins": {"pgvector": {"dsn": "host=127.0.0.1 port=9 dbname=none", "dims": 384}}}
    configured.write_text(yaml.safe_dump(section))
    before = path.stat().st_mtime_ns
    for arguments in (["relieve"], ["relieve", "--entry", "1", "--yes"]):
        refused = cli(*arguments)
        assert refused.returncode == 1 and "error:" in refused.stderr and "unexpected" not in refused.stderr
    assert entries_of(path) == list(CRANES) and path.stat().st_mtime_ns == before
    assert not (home / "pgvector" / "relieved.json").exists()


@pytest.mark.parametrize("broken", [b"Crane a is red\n\xc2\xa7\nCrane b is \xc3", b"Crane a\n\xc2\xa7\n\0\0\0\0"])
def test_a_damaged_file_is_refused(home: Path, configured: Path, cli: Run, broken: bytes) -> None:
    path = write_entries(home, "Crane a")
    path.write_bytes(broken)
    for arguments in (["relieve"], ["relieve", "--entry", "1", "--yes"]):
        refused = cli(*arguments)
        assert refused.returncode == 1 and "damaged" in refused.stderr and "line 3" in refused.stderr
    assert path.read_bytes() == broken


def test_an_entry_whose_secret_the_database_masks_stays(
    make_provider: MakeProvider, home: Path, ask: Ask, cli: Run
) -> None:
    secret = "The deploy token is ghp_" + "a1B2" * 9
    path = write_entries(home, secret, CRANES[0])
    session(make_provider).shutdown()
    (told, _) = ask("relieve")["rows"]
    assert told["secret"] and told["memories"] and "a1B2a1B2" not in told["content"]
    refused = cli("relieve", "--entry", "1", "--yes")
    assert refused.returncode == 1 and "masks" in refused.stderr
    assert entries_of(path) == [secret, CRANES[0]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--yes"], "say which entries"),
        (["--undo", "--duplicates"], "takes no choice"),
        (["--unused-for", "soon"], "not a date"),
        (["--entry", "0"], "1 or more"),
    ],
)
def test_wrong_usage(home: Path, configured: Path, cli: Run, arguments: list[str], said: str) -> None:
    refused = cli("relieve", *arguments)
    assert refused.returncode == 2 and said in refused.stderr


def test_a_number_that_there_is_not(home: Path, cli: Run, configured: Path) -> None:
    write_entries(home, *CRANES)
    refused = cli("relieve", "--entry", "7")
    assert refused.returncode == 1 and "there is no entry 7" in refused.stderr


def test_an_entry_that_the_host_adds_meanwhile_stays(
    make_provider: MakeProvider,
    home: Path,
    dsn: str,
    configured: Path,
    start_cli: Callable[..., subprocess.Popen[str]],
) -> None:
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    with locked_by_the_host(home, "MEMORY.md"):
        command = start_cli("relieve", "--entry", "1", "--entry", "2", "--yes", "--json")
        until((home / "pgvector" / "relieved.json").exists, PATIENCE_S, "it has stored the entries")
        assert entries_of(path) == list(CRANES), "it waits for the host"
        write_entries(home, *CRANES[1:], "Crane g is new")
    out, err = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0, err
    assert entries_of(path) == [*CRANES[2:], "Crane g is new"]
    assert "meanwhile" in json.loads(out)["notes"][0]
    owned = "SELECT content FROM memory_entries WHERE 'relieve' = ANY(owners) ORDER BY id"
    assert sorted(Database(dsn).column(owned)) == list(CRANES[:2])


def kill_when(reached: Callable[[], object], command: subprocess.Popen[str]) -> None:
    until(reached, PATIENCE_S, "the command has come this far")
    os.kill(command.pid, signal.SIGKILL)
    command.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("waiting_for", ["MEMORY.md", "USER.md"])
def test_a_kill_between_the_steps_loses_nothing(
    make_provider: MakeProvider,
    home: Path,
    dsn: str,
    ask: Ask,
    start_cli: Callable[..., subprocess.Popen[str]],
    waiting_for: str,
) -> None:
    path, user = write_entries(home, *CRANES), write_entries(home, "Likes tea", "Likes rain", file="USER.md")
    session(make_provider).shutdown()
    everything = {*CRANES, "Likes tea", "Likes rain"}
    chosen = [word for number in (*range(1, 6), 7, 8) for word in ("--entry", str(number))]
    with locked_by_the_host(home, waiting_for):
        noted, let_go = (home / "pgvector" / "relieved.json").exists, lambda: len(entries_of(path)) == 1
        kill_when(let_go if waiting_for == "USER.md" else noted, start_cli("relieve", *chosen, "--yes"))
    for _ in range(2):
        provider = session(make_provider)
        assert set(recalled(provider, "crane")) | set(recalled(provider, "likes")) == everything
        provider.shutdown()
    assert ask("removals", "list") == []
    ask("relieve", "--undo", "--yes")
    assert entries_of(path) == list(CRANES) and entries_of(user) == ["Likes tea", "Likes rain"]
    ask("relieve", *chosen, "--yes")
    assert entries_of(path) == [CRANES[5]] and entries_of(user) == []
    session(make_provider).shutdown()
    assert set(Database(dsn).column("SELECT content FROM memory_entries")) == everything


def test_run_again_after_a_kill_takes_out_no_other_entry(
    make_provider: MakeProvider,
    home: Path,
    ask: Ask,
    cli: Run,
    start_cli: Callable[..., subprocess.Popen[str]],
) -> None:
    path, user = write_entries(home, *CRANES), write_entries(home, "Likes tea", file="USER.md")
    session(make_provider).shutdown()
    run = ("relieve", "--entry", "1", "--entry", "7", "--yes")
    with locked_by_the_host(home, "USER.md"):
        kill_when(lambda: entries_of(path) == list(CRANES[1:]), start_cli(*run))
    again = cli(*run)
    assert again.returncode == 1 and "look first: hermes-pgvector relieve" in again.stderr
    assert entries_of(path) == list(CRANES[1:]) and entries_of(user) == ["Likes tea"]
    for part in (("--undo",), ("--target", "user"), ("--entry", "1")):
        ask("relieve", *part)
        assert cli(*run).returncode == 1, "of all entries not one was shown"
    ask("relieve", "--undo", "--yes")
    assert entries_of(path) == list(CRANES)
    ask(*run)
    assert entries_of(path) == list(CRANES[1:]) and entries_of(user) == []
    ask("relieve", "--entry", "1", "--yes")
    assert entries_of(path) == list(CRANES[2:]), "a run that ended well stops none after it"


def test_run_after_an_undo_that_was_killed_takes_out_nothing(
    make_provider: MakeProvider,
    home: Path,
    ask: Ask,
    cli: Run,
    start_cli: Callable[..., subprocess.Popen[str]],
) -> None:
    path, user = write_entries(home, *CRANES), write_entries(home, "Likes tea", file="USER.md")
    session(make_provider).shutdown()
    ask("relieve", "--entry", "1", "--entry", "7", "--yes")
    with locked_by_the_host(home, "USER.md"):
        kill_when(lambda: entries_of(path) == list(CRANES), start_cli("relieve", "--undo", "--yes"))
    assert "look first" in cli("relieve", "--entry", "1", "--yes").stderr
    ask("relieve", "--undo", "--yes")
    assert (entries_of(path), entries_of(user)) == (list(CRANES), ["Likes tea"])


def test_who_looks_while_another_run_goes_on_does_not_end_its_care(
    make_provider: MakeProvider,
    home: Path,
    ask: Ask,
    cli: Run,
    start_cli: Callable[..., subprocess.Popen[str]],
) -> None:
    path = write_entries(home, *CRANES)
    write_entries(home, "Likes tea", file="USER.md")
    session(make_provider).shutdown()
    with locked_by_the_host(home, "USER.md"):
        command = start_cli("relieve", "--entry", "1", "--entry", "7", "--yes")
        until(lambda: entries_of(path) == list(CRANES[1:]), PATIENCE_S, "the first file has let go")
        assert not [note for note in ask("relieve")["notes"] if "the last run ended" in note]
        assert "another run of relieve is under way" in cli("relieve", "--entry", "1", "--yes").stderr
        os.kill(command.pid, signal.SIGKILL)
        command.communicate(timeout=PATIENCE_S)
    assert "look first" in cli("relieve", "--entry", "1", "--yes").stderr


def test_who_has_looked_after_a_kill_may_go_on(
    make_provider: MakeProvider, home: Path, ask: Ask, start_cli: Callable[..., subprocess.Popen[str]]
) -> None:
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    with locked_by_the_host(home, "MEMORY.md"):
        kill_when((home / "pgvector" / "relieved.json").exists, start_cli("relieve", "--entry", "1", "--yes"))
    assert "the last run ended before it could say what it took out" in ask("relieve")["notes"][-1]
    ask("relieve", "--entry", "1", "--yes")
    assert entries_of(path) == list(CRANES[1:])


def test_a_lock_that_is_never_given_back_ends_in_an_error(
    make_provider: MakeProvider, home: Path, cli: Run, configured: Path
) -> None:
    path = write_entries(home, *CRANES)
    session(make_provider).shutdown()
    lock = os.open(path.with_suffix(".md.lock"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    refused = cli("relieve", "--entry", "1", "--yes")
    os.close(lock)
    assert refused.returncode == 1 and "written by another program" in refused.stderr
    assert entries_of(path) == list(CRANES)
