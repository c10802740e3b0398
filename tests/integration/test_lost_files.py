"""A memory file that was lost, emptied, damaged or cut short deletes nothing; what was removed can be brought back."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.store.memory_files import LONG
from hermes_memory_pgvector.store.upkeep import delete_expired
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled, runtime_of, write_entries
from tests.support.stored import Database

from .conftest import Run

COLOURS = (
    "Crane a is red",
    "Crane b is blue",
    "Crane c is grey",
    "Crane d is pink",
    "Crane e is tan",
    "Crane f is teal",
)


@pytest.fixture
def ask(cli: Run, home: Path, dsn: str) -> Callable[..., Any]:
    """Runs a verb with --json and returns what it printed; it must not fail."""
    home.mkdir(exist_ok=True)
    section = {"plugins": {"pgvector": {"dsn": dsn, "dims": 384}}}
    (home / "config.yaml").write_text(yaml.safe_dump(section), encoding="utf-8")

    def ask(*arguments: str) -> Any:
        done = cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def session(make_provider: MakeProvider, **whose: object) -> PgvectorMemoryProvider:
    """A session of a new process, once its start has reached Postgres."""
    provider = make_provider(**whose)
    landed(provider)
    return provider


def stored(home: Path, make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A home whose MEMORY.md holds six entries: one of the theme sales, the others of the profile."""
    provider = make_provider(gateway_session_key="sales")
    provider.on_memory_write("add", "memory", COLOURS[0])
    landed(provider)
    write_entries(home, *COLOURS, age_s=60)
    return session(make_provider)


def _missing(path: Path) -> None:
    path.unlink()


def _folder_missing(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def _empty(path: Path) -> None:
    path.write_text("", encoding="utf-8")


def _blank(path: Path) -> None:
    path.write_text("\n\n§\n \n", encoding="utf-8")


def _half(path: Path) -> None:
    write_entries(path.parents[1], *COLOURS[3:])


def _cut_in_an_entry(path: Path) -> None:
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[: whole.index(COLOURS[4]) + len("Crane")], encoding="utf-8")


def _another_file(path: Path) -> None:
    write_entries(path.parents[1], *(f"Quite another note, number {number}" for number in range(6)))


def _another_long_file(path: Path) -> None:
    write_entries(path.parents[1], *(f"Quite another note, number {number}" for number in range(LONG + 100)))


def _zeros(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def _cut_in_a_letter(path: Path) -> None:
    path.write_bytes("\n§\n".join(COLOURS[:5]).encode() + b"\n\xc2\xa7\nCrane f is \xc3")


@pytest.mark.parametrize(
    "lose",
    [
        _missing,
        _folder_missing,
        _empty,
        _blank,
        _half,
        _cut_in_an_entry,
        _another_file,
        _another_long_file,
        _zeros,
        _cut_in_a_letter,
    ],
    ids=lambda lose: lose.__name__.strip("_"),
)
def test_need_31_a_lost_file_deletes_nothing(
    make_provider: MakeProvider,
    home: Path,
    dsn: str,
    records: Callable[[int], list[str]],
    lose: Callable[[Path], None],
) -> None:
    stored(home, make_provider).shutdown()
    lose(home / "memories" / "MEMORY.md")
    for _ in range(3):
        provider = session(make_provider)
        assert set(COLOURS) <= set(recalled(provider, "crane", scope="all"))
        provider.shutdown()
    assert Database(dsn).themes_of_memory(COLOURS[0]) == ["sales"]
    (said,) = [each for each in records(logging.WARNING) if "MEMORY.md" in each]
    assert "removals list" in said


def test_need_03_a_long_file_that_is_another_one_holds_no_write_up(
    make_provider: MakeProvider, home: Path, dsn: str, records: Callable[[int], list[str]]
) -> None:
    # Each of what is lost is compared with each of what is new, while a transaction waits that has a few seconds.
    chosen = random.Random(1)
    words = ["".join(chosen.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(3000)]
    before, after = ([" ".join(chosen.choices(words, k=20)) for _ in range(1500)] for _ in range(2))
    write_entries(home, *before, age_s=60)
    session(make_provider).shutdown()
    write_entries(home, *after)
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Said after the file was read")
    landed(provider)
    assert Database(dsn).column("SELECT count(*) FROM memory_entries") == [len(before) + len(after) + 1]
    (said,) = [each for each in records(logging.WARNING) if "MEMORY.md" in each]
    assert "1500 entries" in said


def test_need_31_doctor_and_status_name_what_is_held(
    make_provider: MakeProvider, home: Path, ask: Callable[..., Any], cli: Run
) -> None:
    stored(home, make_provider)
    (home / "memories" / "MEMORY.md").unlink()
    session(make_provider)
    doctor = cli("doctor")
    assert doctor.returncode == 1 and "MEMORY.md is missing: 6 memories" in doctor.stdout
    assert "removals confirm" in doctor.stdout
    assert "6 wait for a decision" in cli("status").stdout
    assert ask("status")["database"]["removals_held"] == 6
    assert {row["content"] for row in ask("removals", "list")} == set(COLOURS)
    write_entries(home, *COLOURS)
    session(make_provider)
    assert ask("removals", "list") == []
    assert "no removal waits" in cli("doctor").stdout


@pytest.mark.parametrize("keep_times", [True, False], ids=["with its old time", "with a new time"])
def test_need_31_a_restored_file_is_compared_by_what_it_holds(
    make_provider: MakeProvider, home: Path, tmp_path: Path, dsn: str, ask: Callable[..., Any], keep_times: bool
) -> None:
    database, path = Database(dsn), home / "memories" / "MEMORY.md"
    provider = stored(home, make_provider)
    before = database.column("SELECT to_jsonb(m) FROM memory_entries AS m ORDER BY id")
    copy = Path(shutil.copy2(path, tmp_path / "backup"))
    path.unlink()
    session(make_provider)
    shutil.copy2(copy, path) if keep_times else shutil.copy(copy, path)
    provider = session(make_provider)
    assert database.column("SELECT to_jsonb(m) FROM memory_entries AS m ORDER BY id") == before
    assert ask("removals", "list") == []
    write_entries(home, *COLOURS[1:])
    session(make_provider)
    assert set(recalled(provider, "crane", scope="all")) == set(COLOURS[1:]), "one line taken out by hand is followed"


def test_need_31_what_a_file_let_go_of_comes_back_with_it_as_it_was(
    make_provider: MakeProvider, home: Path, tmp_path: Path, dsn: str
) -> None:
    database, path = Database(dsn), home / "memories" / "MEMORY.md"
    stored(home, make_provider)
    before = database.column("SELECT to_jsonb(m) - '{sig,code,embedding}'::text[] FROM memory_entries AS m ORDER BY id")
    copy = Path(shutil.copy2(path, tmp_path / "backup"))
    write_entries(home, *COLOURS[1:], age_s=30)
    session(make_provider)
    assert database.themes_of_memory(COLOURS[0]) == []
    shutil.copy2(copy, path)
    session(make_provider)
    assert (
        database.column("SELECT to_jsonb(m) - '{sig,code,embedding}'::text[] FROM memory_entries AS m ORDER BY id")
        == before
    )


def test_need_31_a_copy_of_the_same_time_and_size_is_seen(make_provider: MakeProvider, home: Path) -> None:
    path = write_entries(home, "Atlas is blue", "Borealis is green", age_s=60)
    provider = session(make_provider)
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    write_entries(home, "Atlas is pink", "Borealis is green")
    os.utime(path, ns=times)
    landed(make_provider())
    assert set(recalled(provider, "atlas borealis", scope="default")) == {"Atlas is pink", "Borealis is green"}


def test_need_31_lines_edited_by_hand_are_followed_however_many(make_provider: MakeProvider, home: Path) -> None:
    write_entries(home, *COLOURS, age_s=60)
    session(make_provider)
    edited = [entry.replace("Crane", "The old crane") for entry in COLOURS]
    write_entries(home, *edited)
    assert sorted(recalled(session(make_provider), "crane", scope="default")) == sorted(edited)


def test_need_31_a_line_that_is_shortened_by_hand_is_followed(make_provider: MakeProvider, home: Path) -> None:
    write_entries(home, *COLOURS, age_s=60)
    session(make_provider)
    edited = [*COLOURS[:4], "The old crane e is tan", "Crane f is"]
    write_entries(home, *edited)
    assert sorted(recalled(session(make_provider), "crane", scope="default")) == sorted(edited)


def test_need_31_a_held_removal_is_confirmed_or_dismissed_and_can_be_undone(
    make_provider: MakeProvider, home: Path, ask: Callable[..., Any], cli: Run
) -> None:
    provider = stored(home, make_provider)
    (home / "memories" / "MEMORY.md").unlink()
    session(make_provider)
    by_text = {row["content"]: row["ref"] for row in ask("removals", "list")}
    assert not ask("removals", "confirm", by_text[COLOURS[0]])["done"], "without --yes nothing is changed"
    assert len(recalled(provider, "crane", scope="all")) == 6
    assert ask("removals", "dismiss", by_text[COLOURS[1]])["counts"] == {"memories": 1}
    assert ask("removals", "confirm", "--all", "--yes")["counts"] == {"memories": 5}
    assert recalled(provider, "crane", scope="all") == [COLOURS[1]]
    assert ask("removals", "list") == []
    session(make_provider)
    assert recalled(provider, "crane", scope="all") == [COLOURS[1]], "what was dismissed is not asked about again"
    assert cli("removals", "confirm", "m999999", "--yes").returncode == 1
    assert cli("removals", "confirm").returncode == 2
    nothing = cli("removals", "confirm", "--all", "--yes")
    assert nothing.returncode == 0 and nothing.stdout == "no removal waits for a decision\n", "and no hint to restore"
    restored = ask("restore", "--since", "1h")
    assert restored["counts"] == {"memories": 5} and {row["theme"] for row in restored["rows"]} == {"sales", "default"}
    assert set(recalled(provider, "crane", scope="all")) == set(COLOURS)


def test_need_15_what_was_dismissed_and_told_again_goes_when_it_is_taken_out(
    make_provider: MakeProvider, home: Path, ask: Callable[..., Any]
) -> None:
    stored(home, make_provider)
    (home / "memories" / "MEMORY.md").unlink()
    session(make_provider)
    ask("removals", "dismiss", "--all")
    provider = session(make_provider, gateway_session_key="", platform="cli")
    write_entries(home, COLOURS[1])
    provider.on_memory_write("add", "memory", COLOURS[1])
    landed(provider)
    write_entries(home, "The gate is open")
    provider.on_memory_write("remove", "memory", "", {"old_text": COLOURS[1]})
    landed(provider)
    assert COLOURS[1] not in recalled(provider, "crane", scope="all")


def test_need_31_all_that_is_removed_is_what_the_files_of_this_home_lack(
    make_provider: MakeProvider, home: Path, tmp_path: Path, dsn: str, ask: Callable[..., Any], cli: Run
) -> None:
    ships = [f"Ship {number} is white" for number in range(4)]
    other = tmp_path / "other"
    for whose, entries in ((home, COLOURS), (other, ships)):
        write_entries(whose, *entries, age_s=60)
        session(make_provider, hermes_home=str(whose))
        (whose / "memories" / "MEMORY.md").unlink()
        session(make_provider, hermes_home=str(whose))
    assert len(ask("removals", "list")) == 10
    shown = ask("removals", "confirm", "--all")
    assert shown["counts"] == {"memories": 6} and "4 memories that files of other homes lack" in shown["notes"][0]
    done = ask("removals", "confirm", "--all", "--yes")
    assert (done["counts"], done["notes"]) == (shown["counts"], shown["notes"])
    left = Database(dsn).column("SELECT content FROM memory_entries ORDER BY id")
    assert left == ships and len(ask("removals", "list")) == 4
    again = cli("removals", "confirm", "--all", "--yes")
    assert again.stdout.startswith("note: 4 memories that files of other homes lack"), "and not that nothing waits"
    assert ask("removals", "confirm", ask("removals", "list")[0]["ref"], "--yes")["counts"] == {"memories": 1}


def test_need_32_what_somebody_else_keeps_is_not_told_as_removed(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Callable[..., Any], cli: Run
) -> None:
    stored(home, make_provider)
    assert ask("add", COLOURS[1], "--theme", "default")["rows"][0]["state"] == "confirmed"
    (home / "memories" / "MEMORY.md").unlink()
    session(make_provider)
    kept = next(row["ref"] for row in ask("removals", "list") if row["content"] == COLOURS[1])
    shown, done = (ask("removals", "confirm", "--all", *yes) for yes in ([], ["--yes"]))
    for each in (shown, done):
        assert each["counts"] == {"memories": 5} and each["notes"] == [f"{kept} stays: it is remembered besides (add)"]
    assert Database(dsn).column("SELECT content FROM memory_entries") == [COLOURS[1]]


def test_need_32_what_was_edited_is_kept_by_the_edit_and_told_so(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Callable[..., Any]
) -> None:
    stored(home, make_provider)
    edited = next(row["ref"] for row in ask("list", "--theme", "default") if row["content"] == COLOURS[1])
    ask("edit", edited, "Bolt is grey", "--yes")
    assert ask("show", edited)["owners"] == ["edit"]
    write_entries(home, *COLOURS[:1], "Bolt is grey", *COLOURS[2:])
    session(make_provider)
    (home / "memories" / "MEMORY.md").unlink()
    session(make_provider)
    done = ask("removals", "confirm", "--all", "--yes")
    assert done["counts"] == {"memories": 5} and done["notes"] == [f"{edited} stays: it is remembered besides (edit)"]
    assert Database(dsn).column("SELECT content FROM memory_entries") == ["Bolt is grey"]


def test_need_31_undecided_they_stay(
    make_provider: MakeProvider, home: Path, dsn: str, admin_dsn: str, ask: Callable[..., Any]
) -> None:
    provider = stored(home, make_provider)
    (home / "memories" / "MEMORY.md").unlink()
    session(make_provider)
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("UPDATE hermes_mirror SET held_at = held_at - interval '8 days' WHERE held_at IS NOT NULL")
    with runtime_of(provider).backend.connection(30.0) as agents:
        delete_expired(agents, hold_days=7)
    assert ask("removals", "list") == []
    session(make_provider)
    assert set(recalled(provider, "crane", scope="all")) == set(COLOURS)
    write_entries(home, *COLOURS)
    session(make_provider)
    write_entries(home, *COLOURS[1:])
    session(make_provider)
    assert set(recalled(provider, "crane", scope="all")) == set(COLOURS[1:]), "the file that came back owns them again"


def test_need_31_what_went_to_the_theme_of_its_writer_is_not_among_what_a_file_removed(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Callable[..., Any]
) -> None:
    """Nor does its text come back in the theme for which it was read from the file, where it is forgotten since."""
    writer = make_provider()
    write_entries(home, "Atlas is blue")
    landed(make_provider())
    writer.on_memory_write("add", "memory", "Atlas is blue")
    landed(writer)
    assert ask("restore", "--dry-run")["rows"] == []
    (memory,) = ask("list", "--theme", "marketing")
    ask("forget", memory["ref"], "--yes")
    assert ask("restore", "--since", "1h")["counts"] == {"memories": 0}
    assert Database(dsn).column("SELECT old_content FROM memory_history WHERE old_content IS NOT NULL") == []


def test_need_31_restore_brings_a_memory_back_with_its_theme_times_and_origin(
    make_provider: MakeProvider, dsn: str, ask: Callable[..., Any], cli: Run
) -> None:
    database = Database(dsn)
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is blue", {"ticket": "OPS-12"})
    provider.on_memory_write("add", "memory", "Borealis is green")
    landed(provider)
    kept = "SELECT to_jsonb(m) - '{owners,sig,code,embedding}'::text[] FROM memory_entries AS m ORDER BY id"
    before = database.column(kept)
    for text in ("Atlas", "Borealis"):
        provider.on_memory_write("remove", "memory", "", {"old_text": text})
    landed(provider)
    assert recalled(provider, "atlas borealis") == []
    (borealis, atlas) = ask("restore", "--dry-run")["rows"]
    assert atlas["content"] == "Atlas is blue" and not database.column("SELECT id FROM memory_entries")
    assert ask("restore", atlas["ref"])["rows"][0]["ref"] == atlas["ref"], "under the number that it had"
    assert ask("restore", "--theme", "marketing")["counts"] == {"memories": 1}
    assert database.column(kept) == before
    assert ask("restore", "--since", "1h")["counts"] == {"memories": 0}
    assert "is kept that could be brought back" in cli("restore", borealis["ref"]).stderr
    assert cli("restore").returncode == 2
    session(make_provider)
    assert sorted(recalled(provider, "atlas borealis")) == ["Atlas is blue", "Borealis is green"]


def test_need_31_restore_brings_nothing_back_that_was_replaced_since(
    make_provider: MakeProvider, home: Path, dsn: str, ask: Callable[..., Any], cli: Run
) -> None:
    write_entries(home, "Atlas is blue", "Borealis is red", age_s=60)
    session(make_provider)
    write_entries(home, "Borealis is red")
    session(make_provider)
    (ref,) = (row["ref"] for row in ask("restore", "--since", "1h")["rows"])
    ask("edit", ref, "Atlas is green", "--yes")
    assert ask("restore", "--since", "1h")["counts"] == {"memories": 0}
    assert "it still exists" in cli("restore", ref).stderr
    assert "or never existed" in cli("restore", "m999").stderr
    left = "SELECT content FROM memory_entries ORDER BY content"
    assert Database(dsn).column(left) == ["Atlas is green", "Borealis is red"]


def test_need_43_what_is_restored_and_does_not_hold_any_more_is_told(
    make_provider: MakeProvider, home: Path, ask: Callable[..., Any], cli: Run
) -> None:
    for line, age_s in (("D[auth]: tokens", 60), ("D[auth]: sessions", 0)):
        write_entries(home, "Atlas is blue", line, age_s=age_s)
        provider = session(make_provider)
    restored = cli("restore", "--since", "1h").stdout
    assert "is superseded by m" in restored and "found by words" not in restored
    assert recalled(provider, "auth tokens", scope="default") == ["D[auth]: sessions"]
    (command,) = (line.rpartition(": hermes-pgvector ")[2] for line in restored.splitlines() if "hold again" in line)
    ask(*command.split())
    assert recalled(provider, "auth tokens", scope="default") == ["D[auth]: tokens"]


def test_need_31_what_was_forgotten_is_not_brought_back_by_a_restored_file(
    make_provider: MakeProvider, home: Path, tmp_path: Path, ask: Callable[..., Any]
) -> None:
    stored(home, make_provider)
    path = home / "memories" / "MEMORY.md"
    copy = shutil.copy2(path, tmp_path / "backup")
    (found,) = [row for row in ask("list", "--theme", "default", "--limit", "50") if row["content"] == COLOURS[5]]
    assert ask("forget", found["ref"], "--yes")["done"]
    path.unlink()
    session(make_provider)
    shutil.copy(copy, path)
    assert set(recalled(session(make_provider), "crane", scope="all")) == set(COLOURS[:5])


# -- who owns a memory


def test_need_32_what_was_remembered_outlives_its_line_in_the_file(make_provider: MakeProvider, home: Path) -> None:
    provider = make_provider({"tools": ["remember", "forget"]})
    for text in ("Atlas is blue", "Borealis is green"):
        provider.on_memory_write("add", "memory", text)
        assert called(provider, "remember", {"content": text, "sync": True})["state"] == "stored"
    write_entries(home, "Atlas is blue", "Borealis is green")
    landed(provider)
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas is blue"})
    provider.on_memory_write("replace", "memory", "Borealis is grey", {"old_text": "Borealis is green"})
    landed(provider)
    assert sorted(recalled(provider, "atlas borealis")) == ["Atlas is blue", "Borealis is green", "Borealis is grey"]
    write_entries(home, "Borealis is grey")
    session(make_provider)
    write_entries(home, "Cygnus is red")
    session(make_provider)
    assert sorted(recalled(provider, "atlas borealis")) == ["Atlas is blue", "Borealis is green"]
    found = called(provider, "recall_memory", {"query": "atlas"})["results"][0]
    assert called(provider, "forget", {"id": found["id"]})["count"] == 1, "who forgets it means it"
    assert recalled(provider, "atlas borealis") == ["Borealis is green"]


def test_need_32_what_was_added_or_imported_outlives_its_line_in_the_file(
    make_provider: MakeProvider, home: Path, tmp_path: Path, ask: Callable[..., Any], cli: Run
) -> None:
    write_entries(home, *COLOURS, age_s=60)
    session(make_provider)
    ask("add", COLOURS[0], "--theme", "default")
    exported = tmp_path / "export.jsonl"
    assert cli("export", str(exported), "--theme", "default").returncode == 0
    assert cli("import", str(exported)).returncode == 0, "what is there already is kept from now on"
    write_entries(home, *COLOURS[2:])
    provider = session(make_provider)
    assert set(recalled(provider, "crane", scope="default")) == set(COLOURS)
    shown = ask("show", ask("list", "--theme", "default", "--limit", "1")[0]["ref"])
    assert shown["owners"]


def test_need_32_a_remembered_text_is_not_what_a_part_of_a_line_means(make_provider: MakeProvider, home: Path) -> None:
    provider = make_provider({"tools": ["remember"]})
    called(provider, "remember", {"content": "Atlas listens on port 5432", "sync": True})
    landed(provider)
    provider.on_memory_write("remove", "memory", "", {"old_text": "5432"})
    landed(provider)
    assert recalled(provider, "atlas port") == ["Atlas listens on port 5432"]


def test_need_32_what_an_agent_of_the_first_version_remembers_is_kept_too(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    """It may go on beside newer ones, and knows the source of a memory but no owners."""
    provider = make_provider(gateway_session_key="default")
    landed(provider)
    with psycopg.connect(dsn, autocommit=True) as first:
        for text in ("Atlas listens on port 5432", "Borealis is green"):
            first.execute(
                "INSERT INTO memory_entries (agent_identity, target, content, metadata) "
                """VALUES ('default', 'memory', %s, '{"source": "remember"}')""",
                (text,),
            )
    write_entries(home, "Borealis is green", "Cygnus is red", age_s=0)
    session(make_provider)
    provider.on_memory_write("remove", "memory", "", {"old_text": "5432"})
    landed(provider)
    write_entries(home, "Cygnus is red", age_s=-1)
    session(make_provider)
    assert sorted(recalled(provider, "atlas borealis port")) == ["Atlas listens on port 5432", "Borealis is green"]


# -- replacements that meet


def test_trap_05_two_hosts_that_replace_one_entry_leave_one_version(
    make_provider: MakeProvider, tmp_path: Path, dsn: str
) -> None:
    homes = [tmp_path / name for name in ("one", "two")]
    old = [f"Setting {number:02d} is old" for number in range(20)]
    whose = {"gateway_session_key": "", "agent_identity": "team"}
    for home in homes:
        write_entries(home, *old, age_s=60)
        session(make_provider, hermes_home=str(home), **whose).shutdown()
    sessions = [session(make_provider, hermes_home=str(home), **whose) for home in homes]
    for number, text in enumerate(old):
        for host, provider in enumerate(sessions):
            provider.on_memory_write(
                "replace", "memory", f"Setting {number:02d} is new on host {host}", {"old_text": text}
            )
    for provider in sessions:
        landed(provider)
    current = recalled(sessions[0], "setting")
    assert len(current) == len({text[:10] for text in current}) == 20
    replaced = Database(dsn).column("SELECT count(*) FROM memory_history WHERE action = 'replaced'")
    assert replaced == [40], "the other version is in the history"


def test_need_15_a_clock_that_steps_back_leaves_no_stale_version(
    make_provider: MakeProvider, home: Path, monkeypatch: pytest.MonkeyPatch, records: Callable[[int], list[str]]
) -> None:
    import time

    ahead_s = 3600.0
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + ahead_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(ahead_s * 1e9))
    write_entries(home, *COLOURS, age_s=60)
    session(make_provider).shutdown()
    monkeypatch.undo()
    edited = [entry.replace("is", "is now") for entry in COLOURS]
    write_entries(home, *edited)
    provider = session(make_provider)
    assert sorted(recalled(provider, "crane", scope="default")) == sorted(edited)
    assert any("clock" in each for each in records(logging.WARNING))
