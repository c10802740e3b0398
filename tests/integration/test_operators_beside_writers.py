"""What operators do while somebody else has just changed the same rows: nothing is lost, and nothing untrue told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.capture.mirror import Mirror
from tests.support.stored import Database
from tests.support.waiting import until

Start = Callable[..., "subprocess.Popen[str]"]
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@contextmanager
def written_first(dsn: str, theme: str = "sre") -> Iterator[psycopg.Connection[Any]]:
    """A transaction that has the turn of a theme's writers in the block, and is committed at its end."""
    with psycopg.connect(dsn) as writer:
        writer.execute("SELECT pg_advisory_xact_lock(731057946, hashtext(%s))", (theme,))
        yield writer


def waits(dsn: str, many: int = 1) -> None:
    until(lambda: Database(dsn).column(WAITING) == [many], what=f"{many} to wait")


def ended(process: subprocess.Popen[str]) -> tuple[int | None, str]:
    """The exit code of a command, and all that it printed."""
    out, err = process.communicate(timeout=150)
    return process.returncode, out + err


def said_once(dsn: str) -> Sequence[int]:
    """Store a turn in the theme `sre`; return its number."""
    return column(
        dsn,
        "INSERT INTO conversations (agent_identity, session_id, role, content)"
        " VALUES ('sre', 's1', 'user', 'The crane is blue.') RETURNING id",
    )


def removed_by_a_file(ask: Callable[..., Any], dsn: str) -> str:
    """Store a memory in the theme `sre` that a memory file lets go of; return what it was called."""
    (row,) = ask("add", "Crane a is red", "--theme", "sre")["rows"]
    with psycopg.connect(dsn) as conn:
        conn.execute("SELECT set_config('hermes_pgvector.keep_removed', 'on', true)")
        conn.execute("DELETE FROM memory_entries")
    return str(row["ref"])


def column(dsn: str, statement: str) -> Sequence[Any]:
    return Database(dsn).column(statement)


def test_need_03_what_was_closed_while_an_edit_waited_stays_closed(
    ask: Callable[..., Any], start_cli: Start, dsn: str
) -> None:
    asked = ("Which queue do we take?", "--theme", "sre", "--kind", "question", "--subject", "queue")
    (row,) = ask("facts", "add", *asked)["rows"]
    with written_first(dsn) as writer:
        editing = start_cli("edit", row["ref"], "--pin", "--yes")
        waits(dsn)
        writer.execute("UPDATE memory_entries SET state = 'closed', expires_at = '2040-01-01'")
    code, said = ended(editing)
    assert code == 0, said
    kept = "SELECT concat_ws(' ', state, expires_at::date, pinned) FROM memory_entries"
    assert column(dsn, kept) == ["closed 2040-01-01 t"]


def test_need_31_a_removal_that_is_withdrawn_while_it_is_confirmed_removes_nothing(
    ask: Callable[..., Any], start_cli: Start, home: Path, dsn: str
) -> None:
    ask("add", "Crane a is red", "--theme", "sre")
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE memory_entries SET owners = '{}'")
        conn.execute(
            "INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, held_at, held_why)"
            " SELECT agent_identity, %s, target, digest, true, now(), 'missing' FROM memory_entries",
            [Mirror(home).origin],
        )
    with written_first(dsn) as writer:
        confirming = start_cli("removals", "confirm", "--all", "--yes", "--json")
        waits(dsn)
        writer.execute("UPDATE hermes_mirror SET held_at = NULL, held_why = NULL")  # the file is back
    code, said = ended(confirming)
    assert code == 0 and '"memories": 0' in said, said
    assert column(dsn, "SELECT content FROM memory_entries") == ["Crane a is red"]
    assert column(dsn, "SELECT count(*) FROM hermes_mirror") == [1]


def test_need_16_a_turn_that_moved_while_it_was_forgotten_is_not_said_to_be_gone(
    ask: Callable[..., Any], start_cli: Start, dsn: str
) -> None:
    (turn,) = said_once(dsn)
    with written_first(dsn):
        merging = start_cli("themes", "rename", "sre", "ops", "--yes")
        waits(dsn)  # its turns are moved, and nobody sees it yet
        forgetting = start_cli("forget", f"t{turn}", "--yes")
        waits(dsn, 2)
    assert ended(merging)[0] == 0
    code, said = ended(forgetting)
    assert code == 1 and "nothing was removed" in said, said
    assert column(dsn, "SELECT agent_identity FROM conversations") == ["ops"]
    assert ask("forget", f"t{turn}", "--yes")["counts"]["turns"] == 1


def test_need_03_a_theme_that_is_renamed_while_an_import_runs_again_is_not_doubled(
    ask: Callable[..., Any], start_cli: Start, dsn: str, tmp_path: Path
) -> None:
    said_once(dsn)
    ask("add", "Crane a is red", "--theme", "sre")
    ask("export", str(tmp_path / "sre.jsonl"))
    with psycopg.connect(dsn) as another_import:
        another_import.execute("SELECT pg_advisory_xact_lock(731057950)")
        importing = start_cli("import", str(tmp_path / "sre.jsonl"), "--json")
        waits(dsn)
        renaming = start_cli("themes", "rename", "sre", "ops", "--yes")
        until(lambda: renaming.poll() is not None or column(dsn, WAITING) == [2], 60, "the other one")
    code, said = ended(importing)
    assert (code, ended(renaming)[0]) == (0, 0), said
    assert '"turns_added": 0' in said and '"memories_added": 0' in said, said
    assert column(dsn, "SELECT agent_identity FROM conversations") == ["ops"]
    assert column(dsn, "SELECT agent_identity FROM memory_entries") == ["ops"]


@pytest.mark.usefixtures("ask")
@pytest.mark.parametrize("change", [("rename", "sre", "ops"), ("delete", "sre")])
def test_need_16_turns_that_were_pruned_while_their_theme_was_changed_are_not_counted(
    start_cli: Start, dsn: str, change: tuple[str, ...]
) -> None:
    first, *_ = said_once(dsn) + said_once(dsn)
    with psycopg.connect(dsn) as pruning:
        pruning.execute("DELETE FROM conversations WHERE id = %s", [first])
        changing = start_cli("themes", *change, "--yes", "--json")
        waits(dsn)
        pruning.commit()
        code, said = ended(changing)
    assert code == 0, said
    assert json.loads(said)["counts"]["turns"] == 1
    assert column(dsn, "SELECT (counts ->> 'turns')::int FROM hermes_maintenance") == [1]


def test_need_16_earlier_texts_that_moved_while_they_were_forgotten_are_not_said_to_be_gone(
    ask: Callable[..., Any], start_cli: Start, dsn: str
) -> None:
    (row,) = ask("add", "Atlas costs 900", "--theme", "sre")["rows"]
    ask("edit", row["ref"], "Atlas costs 950", "--yes")
    with psycopg.connect(dsn) as holding:
        holding.execute("SELECT id FROM memory_entries FOR UPDATE")
        moving = start_cli("themes", "rename", "sre", "ops", "--yes")
        waits(dsn)  # the history is moved, and nobody sees it yet
        forgetting = start_cli("forget", "--versions", row["ref"], "--yes")
        waits(dsn, 2)
    assert ended(moving)[0] == 0
    code, said = ended(forgetting)
    assert code == 1 and "nothing was" in said, said
    assert ask("forget", "--versions", row["ref"], "--yes")["counts"] == {"texts": 1}
    assert column(dsn, "SELECT old_content FROM memory_history WHERE old_content IS NOT NULL") == []


def test_need_31_what_is_forgotten_while_restore_waits_is_not_said_to_be_restored(
    ask: Callable[..., Any], start_cli: Start, dsn: str
) -> None:
    removed_by_a_file(ask, dsn)
    with written_first(dsn) as writer:
        restoring = start_cli("restore", "--theme", "sre", "--json")
        waits(dsn)
        writer.execute("UPDATE memory_history SET old_content = NULL, old_row = NULL")
    code, said = ended(restoring)
    assert code == 0 and '"memories": 0' in said, said
    assert column(dsn, "SELECT content FROM memory_entries") == []


def test_need_16_what_was_restored_while_it_was_forgotten_is_not_said_to_be_gone(
    ask: Callable[..., Any], start_cli: Start, dsn: str
) -> None:
    ref = removed_by_a_file(ask, dsn)
    with written_first(dsn) as writer:
        writer.execute("SELECT id FROM memory_history FOR UPDATE")
        forgetting = start_cli("forget", ref, "--yes")
        waits(dsn)
        writer.execute(
            "INSERT INTO memory_entries (id, agent_identity, target, content, owners)"
            " SELECT memory_id, agent_identity, target, old_content, '{restored}' FROM memory_history"
            " WHERE old_row IS NOT NULL"
        )
    code, said = ended(forgetting)
    assert code == 1 and "nothing was removed" in said, said
    assert column(dsn, "SELECT content FROM memory_entries") == ["Crane a is red"]


def test_need_16_memories_that_are_in_use_are_said_to_be_left(
    ask: Callable[..., Any], start_cli: Start, dsn: str
) -> None:
    for text in ("Crane a is red", "Crane b is blue"):
        ask("add", text, "--theme", "sre")
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE memory_entries SET created_at = '2020-01-01', updated_at = '2020-01-01'")
    prune = ("prune", "--theme", "sre", "--older-than", "2024", "--memories", "--yes")
    with psycopg.connect(dsn) as holding:
        holding.execute("SELECT id FROM memory_entries WHERE content LIKE %s FOR UPDATE", ("Crane a%",))
        code, said = ended(start_cli(*prune))
        assert code == 0 and "1 memory in use not deleted" in said and "and 1 memory" in said, said
    assert ask(*prune)["deleted"] == {"turns": 0, "memories": 1}


def test_need_16_what_was_put_away_before_it_moved_here_is_not_old_to_purge(
    ask: Callable[..., Any], dsn: str, tmp_path: Path
) -> None:
    (row,) = ask("facts", "add", "The API listens on port 3005", "--theme", "sre", "--subject", "api.port")["rows"]
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE memory_entries SET created_at = '2020-01-01', updated_at = '2020-01-01'")
    ask("edit", row["ref"], "--state", "archived", "--yes")
    ask("export", str(tmp_path / "sre.jsonl"))
    ask("themes", "delete", "sre", "--yes")
    ask("import", str(tmp_path / "sre.jsonl"), "--restore")
    purge = ("purge", "--theme", "sre", "--yes")
    assert ask(*purge, "--older-than", "90d")["counts"] == {"memories": 0}, "it was put away just now"
    assert ask(*purge)["counts"] == {"memories": 1}


@pytest.mark.parametrize(
    "command",
    [
        ("list", "--theme", "sre"),
        ("export", "-"),
        ("history", "--json"),
        ("search", "crane", "--theme", "sre"),
        ("add", "Crane b is blue", "--theme", "sre"),
        ("forget", "m1", "--yes"),
    ],
)
def test_need_02_a_command_that_waits_for_a_lock_says_who_holds_it(
    ask: Callable[..., Any], start_cli: Start, admin_dsn: str, command: Sequence[str]
) -> None:
    ask("add", "Crane a is red", "--theme", "sre")
    with psycopg.connect(admin_dsn, application_name="somebody's report") as holder:
        holder.execute("LOCK TABLE memory_entries, memory_history IN ACCESS EXCLUSIVE MODE")
        process = start_cli(*command)
        assert process.stderr is not None
        said = process.stderr.readline()
        assert f"waiting for a lock that session {holder.info.backend_pid}" in said and "somebody's report" in said
        holder.rollback()
        code, rest = ended(process)
    assert code == 0 and "waiting for a lock" not in rest
