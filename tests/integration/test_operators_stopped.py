"""What operators are told when a command is stopped in the middle, or when nothing takes what it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import yaml
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from hermes_memory_pgvector.admin.common.spool_views import inspect_spools
from tests.conftest import DIMS
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.waiting import until

from .conftest import Run, command_environment
from .test_operators_beside_writers import column, ended, waits, written_first

Start = Callable[..., "subprocess.Popen[str]"]
OURS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'hermes-pgvector' AND wait_event_type = 'Lock'"
)


def fill(dsn: str, theme: str, turns: int) -> None:
    """Store turns of 2020 in a theme."""
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content, ts)"
            " SELECT %s, 's1', 'user', 'Crane ' || n, timestamptz '2020-01-01' + n * interval '1 minute'"
            "   FROM generate_series(1, %s) AS n",
            (theme, turns),
        )


@pytest.fixture
def configured(home: Path, dsn: str) -> Path:
    """The home's config.yaml, which names the test's database."""
    path = home / "config.yaml"
    path.write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    return path


@pytest.fixture
def lost(admin_dsn: str) -> Callable[[], None]:
    """Ends the connection of the command that waits for a lock."""

    def end() -> None:
        waits(admin_dsn)
        assert column(admin_dsn, OURS) == [True]

    return end


@pytest.fixture
def nobody_reads() -> Iterator[int]:
    """A descriptor of a pipe whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def part_of(dsn: str, turn: int) -> str:
    """The statement that gives a turn, counted from the oldest, a part: deleting the turn waits for who holds that."""
    return (
        "INSERT INTO conversation_chunks (row_id, part, agent_identity, first_char, embedding, sig)"
        " SELECT id, 1, agent_identity, 9, array_fill(0.1::real, ARRAY[384])::vector, (repeat('1', 384))::bit(384)"
        f"   FROM conversations ORDER BY ts, id OFFSET {turn} LIMIT 1"
    )


@pytest.mark.usefixtures("configured")
def test_need_40_a_command_on_a_read_only_database_says_what_to_do_and_promises_nothing(
    cli: Run, admin_dsn: str
) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        name = sql.Identifier(str(conninfo_to_dict(admin_dsn)["dbname"]))
        connection.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    for command, option in (
        (("add", "Crane a is red"), "`dsn`"),
        (("facts", "add", "Crane b is red", "--subject", "crane"), "`dsn`"),
        (("index", "drop", "--yes", "--admin-dsn", admin_dsn), "`--admin-dsn`"),
        (("migrate", "--admin-dsn", admin_dsn, "--runtime-role", "pg_monitor"), "the admin's DSN"),
        (("tenants", "enable", "--admin-dsn", admin_dsn), "the admin's DSN"),
    ):
        done = cli(*command)
        assert done.returncode == 1, done.stdout
        assert f"let {option} lead to the primary server, or reset" in done.stderr
        assert "follow" not in done.stderr


@pytest.mark.usefixtures("configured")
def test_need_02_who_loses_the_database_in_the_middle_is_told_what_is_done(
    start_cli: Start, dsn: str, lost: Callable[[], None]
) -> None:
    fill(dsn, "sre", 2500)
    with psycopg.connect(dsn) as holder:
        holder.execute(part_of(dsn, 1500))
        holder.commit()
        holder.execute("SELECT FROM conversation_chunks FOR UPDATE")
        pruning = start_cli("prune", "--theme", "sre", "--older-than", "2024", "--yes", "--json")
        lost()
        code, said = ended(pruning)
    assert code == 1 and "interrupted: 1,000 turns deleted; run it again to go on" in said, said
    assert column(dsn, "SELECT count(*) FROM conversations") == [1500]


@pytest.fixture
def commit_ends_late(admin_dsn: str) -> None:
    """The transaction that deletes the turn `Crane 1500` commits, whatever cancels it, as one that awaits a replica."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(
            "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            "  IF OLD.content = 'Crane 1500' THEN PERFORM pg_sleep(60); END IF; RETURN NULL;"
            " EXCEPTION WHEN query_canceled THEN RETURN NULL; END$$"
        )
        admin.execute(
            "CREATE CONSTRAINT TRIGGER late AFTER DELETE ON conversations DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION late()"
        )


@pytest.mark.usefixtures("configured", "commit_ends_late")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_need_16_what_was_committed_when_ctrl_c_came_is_counted(
    start_cli: Start, dsn: str, number: signal.Signals
) -> None:
    fill(dsn, "sre", 2500)
    pruning = start_cli("prune", "--theme", "sre", "--older-than", "2024", "--yes", "--json")
    committing = "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
    until(lambda: column(dsn, committing) == ["COMMIT"], 30, "the commit")
    pruning.send_signal(number)
    code, said = ended(pruning)
    assert code == 130 and "interrupted: 2,000 turns deleted; run it again to go on" in said, said
    assert column(dsn, "SELECT count(*) FROM conversations") == [500]
    log = "SELECT arguments ->> 'state' || ' ' || counts FROM hermes_maintenance ORDER BY id"
    assert column(dsn, log) == ['begun {"turns": 2500}', 'interrupted {"turns": 2000}']


@pytest.mark.usefixtures("configured")
def test_need_02_who_loses_the_database_while_a_theme_is_changed_is_told_that_it_is_whole(
    start_cli: Start, dsn: str, lost: Callable[[], None]
) -> None:
    fill(dsn, "sre", 3)
    with written_first(dsn):
        renaming = start_cli("themes", "rename", "sre", "ops", "--yes")
        lost()
        code, said = ended(renaming)
    assert code == 1 and "interrupted: a theme is changed as a whole or not at all" in said, said
    assert column(dsn, "SELECT DISTINCT agent_identity FROM conversations") == ["sre"]


@pytest.mark.parametrize("which", ["source", "target"])
def test_need_02_a_copy_that_loses_one_of_its_databases_says_which(
    configured: Path, start_cli: Start, dsn: str, second_dsn: str, which: str
) -> None:
    fill(dsn, "sre", 3)
    names = {"source": conninfo_to_dict(dsn)["dbname"], "target": conninfo_to_dict(second_dsn)["dbname"]}
    with psycopg.connect(second_dsn) as holder:
        holder.execute("LOCK TABLE conversations IN SHARE MODE")
        copying = start_cli("copy", "--to", second_dsn)
        waits(second_dsn)
        with psycopg.connect(second_dsn, autocommit=True) as killer:
            killer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND application_name = 'hermes-pgvector'",
                (names[which],),
            )
        holder.rollback()
    code, said = ended(copying)
    assert code == 1 and "interrupted: what arrived stays; run it again to go on" in said, said
    assert ("`--to` is right" in said) == (which == "target"), said
    assert ("`dsn` is right" in said) == (which == "source"), said


@pytest.mark.usefixtures("configured")
def test_need_16_who_ends_the_vacuum_is_told_what_was_compacted(start_cli: Start, dsn: str, admin_dsn: str) -> None:
    fill(dsn, "sre", 3)
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE conversations SET embedding = array_fill(0.1::real, ARRAY[384])::vector")
    with psycopg.connect(admin_dsn) as holder:
        holder.execute("LOCK TABLE conversations IN SHARE UPDATE EXCLUSIVE MODE")  # only a vacuum waits for it
        asked = ("--all-themes", "--sample", "0", "--vacuum", "full", "--admin-dsn", admin_dsn)
        compacting = start_cli("compact", *asked, "--yes")
        waits(admin_dsn)
        compacting.send_signal(signal.SIGINT)
        code, said = ended(compacting)
    assert code == 130 and "interrupted: 0 duplicate turns deleted, 3 vectors dropped; run it again" in said, said


@pytest.mark.usefixtures("configured")
def test_need_40_rows_that_somebody_else_took_while_they_were_pruned_are_told(start_cli: Start, dsn: str) -> None:
    fill(dsn, "sre", 3)
    with psycopg.connect(dsn) as another:
        another.execute("DELETE FROM conversations WHERE id = (SELECT min(id) FROM conversations)")
        pruning = start_cli("prune", "--theme", "sre", "--older-than", "2024", "--yes")
        until(lambda: column(dsn, "SELECT count(*) FROM conversations") == [1], 30, "the others")
        another.commit()
    code, said = ended(pruning)
    assert code == 0 and "deleted: 2 turns" in said and "1 planned row left out" in said, said


def test_need_40_building_indexes_prints_nothing_but_json(configured: Path, cli: Run, admin_dsn: str, dsn: str) -> None:
    fill(dsn, "sre", 2000)
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("ANALYZE conversations")
    assert cli("index", "drop", "--yes", "--admin-dsn", admin_dsn).returncode == 0
    small = f"{admin_dsn} options='-c maintenance_work_mem=1MB'"
    done = cli("index", "build", "--json", "--admin-dsn", small)
    assert len(json.loads(done.stdout)["built"]) == 2
    assert "maintenance_work_mem is 1 MB" in done.stderr


def test_need_16_a_full_disk_for_messages_stops_no_work(configured: Path, home: Path, dsn: str, tmp_path: Path) -> None:
    fill(dsn, "sre", 5001)  # so many that their progress is told
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "hermes_memory_pgvector.cli",
                "prune",
                "--theme",
                "sre",
                "--older-than",
                "2024",
                "--yes",
            ],
            cwd=tmp_path,
            env=command_environment(home),
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            timeout=150,
            check=False,
        )
    assert done.returncode == 0 and "deleted: 5,001 turns" in done.stdout
    assert column(dsn, "SELECT arguments ->> 'state' FROM hermes_maintenance ORDER BY id") == ["begun", "done"]


def run_unread(home: Path, folder: Path, stdout: int, *arguments: str) -> tuple[int, str]:
    """Run a command whose stdout takes nothing; return its exit code, and what it printed to stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "hermes_memory_pgvector.cli", *arguments],
        cwd=folder,
        env=command_environment(home, PYTHONUNBUFFERED="1"),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=150,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.usefixtures("configured")
def test_need_16_what_nobody_reads_is_mended_anyway(home: Path, tmp_path: Path, nobody_reads: int) -> None:
    run_unread(home, tmp_path, nobody_reads, "doctor", "--fix")
    config = yaml.safe_load((home / "config.yaml").read_text())
    assert (home / "plugins" / "pgvector" / "plugin.yaml").exists()
    assert (config["memory"]["provider"], config["plugins"]["enabled"]) == ("pgvector", ["pgvector"])


def test_need_16_what_nobody_reads_is_set_up_anyway(home: Path, tmp_path: Path, dsn: str, nobody_reads: int) -> None:
    run_unread(home, tmp_path, nobody_reads, "setup", "--dsn", dsn, "--no-model", "--yes")
    config = yaml.safe_load((home / "config.yaml").read_text())
    assert (config["plugins"]["pgvector"]["dsn"], config["memory"]["provider"]) == (dsn, "pgvector")


def assert_nothing_is_left(home: Path, dsn: str) -> None:
    assert column(dsn, "SELECT content FROM memory_entries UNION ALL SELECT content FROM conversations") == []
    assert not any(view.waiting for view in inspect_spools(home))


@pytest.mark.usefixtures("configured")
def test_need_16_a_proof_that_cannot_be_printed_leaves_nothing(home: Path, tmp_path: Path, dsn: str) -> None:
    with Path("/dev/full").open("w") as full:
        code, said = run_unread(home, tmp_path, full.fileno(), "prove")
    assert code == 1 and "finds no room" in said, said
    assert_nothing_is_left(home, dsn)


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets an editor that saves a text and then runs a line of shell; `$PPID` is the command that started it."""

    def make(line: str) -> None:
        script = tmp_path / "editor"
        script.write_text(f'#!/bin/sh\nprintf "Crane b is blue" > "$1"\n{line}\n')
        script.chmod(0o755)
        monkeypatch.setenv("EDITOR", str(script))
        monkeypatch.setenv("TMPDIR", str(tmp_path))

    return make


@pytest.mark.usefixtures("configured")
def test_need_02_ctrl_c_in_an_editor_is_the_editors(cli: Run, dsn: str, editor: Callable[[str], None]) -> None:
    assert cli("add", "Crane b is red", "--theme", "sre").returncode == 0
    editor("kill -INT $PPID")
    done = cli("edit", "m1", "--yes")
    assert done.returncode == 0, done.stderr
    assert column(dsn, "SELECT content FROM memory_entries") == ["Crane b is blue"]


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("line", ["kill -TERM $PPID; exec sleep 100", "kill -HUP $PPID; exec sleep 100", "kill $$"])
def test_need_02_what_was_written_when_the_editor_was_ended_is_kept(
    cli: Run, dsn: str, tmp_path: Path, editor: Callable[[str], None], line: str
) -> None:
    assert cli("add", "Crane b is red", "--theme", "sre").returncode == 0
    editor(line)
    done = cli("edit", "m1", "--yes")
    assert done.returncode == (1 if "$$" in line else 130), done.stderr
    (folder,) = tmp_path.glob("hermes-pgvector-*")
    assert f"what you wrote is in {folder}" in done.stderr and folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "memory.txt").read_text() == "Crane b is blue"
    assert column(dsn, "SELECT content FROM memory_entries") == ["Crane b is red"]


@pytest.mark.usefixtures("configured")
def test_need_02_what_an_editor_saved_in_another_encoding_is_kept(
    cli: Run, dsn: str, tmp_path: Path, editor: Callable[[str], None]
) -> None:
    assert cli("add", "Crane b is red", "--theme", "sre").returncode == 0
    editor("printf 'caf\\351' > \"$1\"")
    done = cli("edit", "m1", "--yes")
    assert done.returncode == 1 and "is not UTF-8" in done.stderr, done.stderr
    (folder,) = tmp_path.glob("hermes-pgvector-*")
    assert f"what you wrote is in {folder}" in done.stderr
    assert (folder / "memory.txt").read_bytes() == b"caf\xe9"
    assert column(dsn, "SELECT content FROM memory_entries") == ["Crane b is red"]


# Presses Ctrl-C when all is done and Python ends.
PRESSED_AT_THE_END = """
import atexit, os, signal, sys
from hermes_memory_pgvector.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.exit(main())
"""


def test_need_16_ctrl_c_after_the_last_line_prints_nothing(home: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", PRESSED_AT_THE_END, "--version"],
        cwd=tmp_path,
        env=command_environment(home),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "") and done.stdout.startswith("hermes-pgvector ")


@pytest.mark.usefixtures("configured")
def test_need_16_a_demonstration_that_nobody_reads_on_leaves_nothing(
    start_cli: Start, home: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    with start_cli("demo", fresh=True) as process:
        assert process.stdout is not None and "Three agents" in process.stdout.readline()
        process.stdout.close()
    assert_nothing_is_left(home, dsn)


def test_need_16_a_backfill_that_is_stopped_can_be_run_again_at_once(
    home: Path, start_cli: Start, cli: Run, dsn: str, embedder: ScriptedEmbedder
) -> None:
    settings = {"dsn": dsn, "dims": DIMS, "embed_url": embedder.url, "embed_model": "a model"}
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": settings}}))
    fill(dsn, "sre", 3)
    embedder.mode = "hanging"
    stopped = start_cli("backfill")
    until(lambda: any("Crane" in text for text in embedder.texts), 30, "the rows")
    stopped.send_signal(signal.SIGINT)
    code, said = ended(stopped)
    assert code == 130 and "run it again to go on" in said, said
    embedder.mode = "ok"
    assert "3 rows embedded, none waits" in cli("backfill").stdout
