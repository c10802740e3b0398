"""`hermes-pgvector prune`: old turns go, and nothing else does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.admin.prune import old_turns as store
from hermes_memory_pgvector.admin.prune import pruning
from hermes_memory_pgvector.admin.prune.pruning import walk_timeline
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.sql import query
from tests.conftest import DIMS, MakeProvider
from tests.support.aged import age
from tests.support.left_spool import leave_spool, operation
from tests.support.memory import called, landed, recalled, write_entries
from tests.support.row_security import tenant_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

Prune = Callable[..., Any]
DAYS = 400  # the oldest turn of a filled theme; one a day


@pytest.fixture
def prune(home: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> Prune:
    """Runs `hermes-pgvector prune ARGUMENTS --json` and returns what it printed."""
    configure(home, dsn)

    def run(*arguments: str) -> Any:
        code = main(["prune", *arguments, "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out)

    return run


def configure(home: Path, dsn: str, **settings: object) -> None:
    section = {"dsn": dsn, "dims": DIMS} | settings
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}))


def fill(dsn: str, theme: str, *, days: int = DAYS, per_day: int = 1) -> None:
    """Turns of each of the last days, by user and assistant in turn, a session a month."""
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content, ts)"
            " SELECT %(theme)s, %(theme)s || '-' || n / %(per_day)s / 30, (ARRAY['user', 'assistant'])[1 + n %% 2],"
            "        'On day ' || n / %(per_day)s || ' we spoke of the Atlas project',"
            "        now() - (n / %(per_day)s + 0.5) * interval '1 day'"
            "   FROM generate_series(0, %(days)s * %(per_day)s - 1) AS n",
            {"theme": theme, "days": days, "per_day": per_day},
        )


def turns(dsn: str, theme: str) -> int:
    (count,) = Database(dsn).column("SELECT count(*) FROM conversations WHERE agent_identity = %s", theme)
    return int(count)


def test_need_17_turns_go_by_their_age_and_memories_stay(make_provider: MakeProvider, prune: Prune, dsn: str) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.sync_turn("Which colour has the Atlas, once again please?", "It is blue, as it has been since the spring.")
    landed(provider)
    age(dsn, "Atlas is blue", days=1000)
    fill(dsn, "marketing")
    fill(dsn, "sales")

    meant = prune("--theme", "Marketing", "--older-than", "180d")

    assert meant["done"] is False and meant["turns"] == DAYS - 180
    assert [row["theme"] for row in meant["themes"]] == ["marketing"]
    assert meant["themes"][0]["oldest_at"] < meant["themes"][0]["newest_at"] < meant["before"]
    assert meant["bytes"] > 0 and "Atlas project" in meant["examples"][0]["content"]
    assert turns(dsn, "marketing") == DAYS + 2, "a dry run changes nothing"
    done = prune("--theme", "Marketing", "--older-than", "180d", "--yes")
    assert done["done"] is True and done["deleted"] == {"turns": meant["turns"]} and done["left"] == 0
    assert turns(dsn, "marketing") == 182 and turns(dsn, "sales") == DAYS
    assert recalled(provider, "which colour has the atlas") == ["Atlas is blue"]
    assert prune("--theme", "marketing", "--older-than", "180d", "--yes")["turns"] == 0, "again changes nothing"


def test_need_16_every_condition_narrows_what_goes(prune: Prune, dsn: str) -> None:
    fill(dsn, "marketing")
    fill(dsn, "sales", days=50)

    def meant(*arguments: str) -> dict[str, int]:
        found = prune(*arguments)
        return {row["theme"]: row["turns"] for row in found["themes"]}

    assert meant("--all-themes", "--older-than", "40d") == {"marketing": 360, "sales": 10}
    assert meant("--theme", "marketing", "--theme", "sales", "--keep-rows", "45") == {"marketing": 355, "sales": 5}
    assert meant("--all-themes", "--keep-rows", "45", "--older-than", "390d") == {"marketing": 10}
    assert meant("--all-themes", "--keep-rows", "399", "--older-than", "10d") == {"marketing": 1}
    assert meant("--theme", "marketing", "--role", "user") == {"marketing": 200}
    assert meant("--theme", "marketing", "--role", "user", "--keep-rows", "10") == {"marketing": 190}
    assert meant("--theme", "marketing", "--role", "tool", "--role", "system") == {}
    assert meant("--theme", "marketing", "--session", "marketing-1") == {"marketing": 30}
    assert meant("--theme", "sales", "--session", "marketing-1") == {}
    assert meant("--theme", "marketing", "--session", "marketing-1", "--older-than", "50d") == {"marketing": 10}
    assert meant("--theme", "marketing", "--max-mb", "1") == {}, "all of it fits"


def test_need_16_size_keeps_the_newest_that_fit(prune: Prune, dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content, ts)"
            " SELECT 'big', 's', 'user', string_agg(md5((n * 10000 + i)::text), ''), now() - n * interval '1 day'"
            "   FROM generate_series(1, 12) AS n, generate_series(1, 6000) AS i GROUP BY n"
        )
    done = prune("--theme", "big", "--max-mb", "1", "--yes")
    kept = Database(dsn).column("SELECT (now()::date - ts::date)::int FROM conversations ORDER BY ts DESC")
    assert 1 <= len(kept) <= 11 and kept == list(range(1, len(kept) + 1)), "the newest"
    assert done["deleted"]["turns"] == 12 - len(kept)
    assert prune("--theme", "big", "--max-mb", "1")["turns"] == 0


def test_need_16_durable_memories_go_only_where_they_are_named(
    make_provider: MakeProvider, prune: Prune, dsn: str, home: Path
) -> None:
    write_entries(home, "Atlas is blue", age_s=3600)
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Bolt is red")
    provider.on_memory_write("add", "memory", "Cargo is green")
    landed(provider)
    age(dsn, "Bolt is red", days=900)
    age(dsn, "Atlas is blue", days=900)
    fill(dsn, "marketing")

    assert "memories" not in prune("--all-themes", "--older-than", "180d")
    meant = prune("--theme", "marketing", "--older-than", "180d", "--memories")
    assert meant["memories"] == 1 and meant["turns"] == DAYS - 180
    done = prune("--all-themes", "--older-than", "180d", "--memories", "--yes")
    assert done["deleted"]["memories"] >= 1
    assert recalled(make_provider(), "bolt") == [], "gone for good"
    assert recalled(make_provider(), "cargo") == ["Cargo is green"]
    texts = Database(dsn).column("SELECT to_jsonb(h)::text FROM memory_history AS h")
    assert not any("Bolt is red" in text for text in texts)


def test_need_16_no_derived_copy_stays(
    make_provider: MakeProvider, prune: Prune, dsn: str, embedder: ScriptedEmbedder
) -> None:
    provider = make_provider({"embed_url": embedder.url, "chunk_tokens": 64})
    long = "The zanzibar report begins here. " + " ".join(f"Line {n} speaks of cloves and ships." for n in range(200))
    provider.sync_turn(long, "Thank you, I have read the zanzibar report from its first line to its last.")
    landed(provider)
    chunks = "SELECT count(*) FROM conversation_chunks"
    until(lambda: Database(dsn).column(chunks) != [0], 30, "the parts of the long turn")
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE conversations SET ts = now() - interval '300 days'")
    assert prune("--theme", "marketing", "--older-than", "200d", "--yes")["deleted"] == {"turns": 2}
    assert Database(dsn).column(chunks) == [0]
    assert recalled(provider, "zanzibar report cloves", tool="recall_conversation") == []
    assert "zanzibar" not in provider.prefetch("What does the zanzibar report say about cloves?")


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("--older-than", "180d"), ("--theme", "marketing"), ("--all-themes",), ("--all-themes", "--yes"),
        ("--theme", "marketing", "--all-themes", "--older-than", "1d"),
        ("--theme", "marketing", "--memories"), ("--all-themes", "--memories", "--keep-rows", "5"),
        ("--theme", "marketing", "--older-than", "9d", "--memories", "--role", "user"),
        ("--theme", "marketing", "--keep-rows", "0"), ("--theme", "marketing", "--max-mb", "-1"),
        ("--theme", "marketing", "--role", "nobody"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_need_16_what_is_not_said_is_not_guessed(
    home: Path, dsn: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(home, dsn)
    try:
        code: object = main(["prune", *arguments])
    except SystemExit as exc:
        code = exc.code
    assert code == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (("--theme", "nobody", "--older-than", "1d"), "no theme 'nobody'", 1),
        (("--theme", "marketing", "--older-than", "soon"), "not a date that can be read", 2),
        (("--theme", "marketing", "--older-than", "2999-01-01"), "lies in the future", 2),
    ],
)
def test_need_16_what_cannot_be_meant_is_refused(
    home: Path, dsn: str, arguments: tuple[str, ...], told: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(home, dsn)
    fill(dsn, "marketing", days=10)
    assert main(["prune", *arguments, "--yes"]) == code
    assert told in capsys.readouterr().err
    assert turns(dsn, "marketing") == 10


def test_need_16_a_person_reads_what_goes_and_what_was_done(
    home: Path, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(home, dsn)
    assert main(["prune", "--all-themes", "--older-than", "180d"]) == 0
    assert "there is nothing to delete" in capsys.readouterr().out
    fill(dsn, "marketing")
    assert main(["prune", "--all-themes", "--older-than", "180d"]) == 0
    shown = capsys.readouterr().out
    assert "marketing" in shown and "220" in shown and "nothing was changed: add --yes" in shown
    assert "On day 399 we spoke" in shown
    assert main(["prune", "--all-themes", "--older-than", "180d", "--yes"]) == 0
    assert "deleted: 220 turns" in capsys.readouterr().out
    log = Database(dsn).column("SELECT verb || arguments::text || counts::text FROM hermes_maintenance ORDER BY id")
    assert len(log) == 2 and all("prune" in line and '"turns": 220' in line for line in log)
    assert "begun" in log[0] and "done" in log[1] and not any("Atlas" in line for line in log)
    assert main(["themes", "log"]) == 0
    ended, begun = capsys.readouterr().out.splitlines()
    assert "prune" in ended and "(begun)" in begun and "(" not in ended.split("prune")[1]


def test_need_01_agents_go_on_while_it_deletes(
    make_provider: MakeProvider, prune: Prune, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that somebody holds is not waited for, and a writer does not wait for the rest."""
    monkeypatch.setattr(pruning, "_ROUNDS", 2)
    fill(dsn, "marketing")
    provider = make_provider()
    with psycopg.connect(dsn) as holder:
        holder.execute(
            "SELECT FROM conversations WHERE content = 'On day 399 we spoke of the Atlas project' FOR UPDATE"
        )
        done = prune("--theme", "marketing", "--older-than", "180d", "--yes")
        assert done["deleted"] == {"turns": DAYS - 181} and done["left"] == 1
        provider.on_memory_write("add", "memory", "Atlas is blue")
        landed(provider)
    assert prune("--theme", "marketing", "--older-than", "180d", "--yes")["deleted"] == {"turns": 1}


@pytest.fixture
def no_nohup() -> Iterator[None]:
    """Who is started by nohup ignores the end of its terminal, and so would all that it starts."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("no_nohup")
@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    ids=["SIGKILL", "Ctrl-C", "SIGTERM", "terminal closed"],
)
def test_trap_02_stopped_in_the_middle_it_leaves_whole_batches_and_goes_on_when_run_again(
    start_cli: Callable[..., subprocess.Popen[str]], home: Path, dsn: str, how: signal.Signals
) -> None:
    configure(home, dsn)
    fill(dsn, "marketing", per_day=15)
    whole = turns(dsn, "marketing")
    held = threading.Event()
    with psycopg.connect(dsn) as holder:  # a part of what the third batch would cascade to
        holder.execute(
            "INSERT INTO conversation_chunks (row_id, part, agent_identity, first_char, embedding, sig)"
            " SELECT id, 1, 'marketing', 9, array_fill(0.1::real, ARRAY[384])::vector, (repeat('1', 384))::bit(384)"
            "   FROM conversations ORDER BY ts, id OFFSET 2500 LIMIT 1"
        )
        holder.commit()
        holder.execute("SELECT FROM conversation_chunks FOR UPDATE")
        held.set()
        process = start_cli("prune", "--theme", "marketing", "--older-than", "100d", "--yes")
        # Only then has the command itself been told that two batches are deleted.
        waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        until(lambda: Database(dsn).column(waits) == [1], 30, "the third batch to wait for the holder")
        assert turns(dsn, "marketing") == whole - 2000
        os.kill(process.pid, how)
        _, err = process.communicate(timeout=150)
    assert process.returncode == (130 if how is not signal.SIGKILL else -signal.SIGKILL)
    assert turns(dsn, "marketing") == whole - 2000
    states = Database(dsn).column("SELECT arguments ->> 'state' FROM hermes_maintenance ORDER BY id")
    if how is not signal.SIGKILL:
        assert "2,000 turns deleted; run it again" in err and states == ["begun", "interrupted"]
    else:
        assert states == ["begun"]
    with start_cli("prune", "--theme", "marketing", "--older-than", "100d", "--yes") as again:
        out, _ = again.communicate(timeout=150)
    assert again.returncode == 0 and f"deleted: {whole - 3500:,} turns" in out
    assert turns(dsn, "marketing") == 1500
    assert Database(dsn).column("SELECT count(*) FROM conversation_chunks") == [0]


def test_need_16_what_an_interrupted_purge_has_deleted_is_told_and_logged(
    start_cli: Callable[..., subprocess.Popen[str]], home: Path, dsn: str
) -> None:
    configure(home, dsn)
    count = "SELECT count(*) FROM memory_entries"
    log = "SELECT arguments ->> 'state' || ' ' || counts FROM hermes_maintenance WHERE verb = 'purge' ORDER BY id"
    with psycopg.connect(dsn) as holder:
        holder.execute(
            "INSERT INTO memory_entries (agent_identity, target, content, state)"
            " SELECT 'marketing', 'memory', 'Note ' || n, 'archived' FROM generate_series(1, 450) AS n"
        )
        holder.commit()
        holder.execute("SELECT FROM memory_entries ORDER BY id DESC LIMIT 1 FOR UPDATE")
        process = start_cli("purge", "--theme", "marketing", "--yes", "--json")
        # Only then has the command itself been told that two slices are deleted.
        waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        until(lambda: Database(dsn).column(waits) == [1], 30, "the third slice to wait for the holder")
        assert Database(dsn).column(count) == [50]
        assert Database(dsn).column(log) == ['begun {"memories": 450}']  # all that a kill would leave
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=150)
    assert json.loads(out) == {"error": "interrupted before it was done", "type": "KeyboardInterrupt"}
    assert process.returncode == 130 and "400 memories deleted; run it again to go on" in err
    assert Database(dsn).column(log)[1:] == ['interrupted {"memories": 400}']
    with start_cli("purge", "--theme", "marketing", "--yes") as again:
        out, _ = again.communicate(timeout=150)
    assert "deleted: 50 memories" in out and Database(dsn).column(log)[3:] == ['done {"memories": 50}']


def test_need_16_what_nobody_reads_to_its_end_is_done_anyway(
    start_cli: Callable[..., subprocess.Popen[str]], home: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, dsn)
    fill(dsn, "marketing")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # what is shown first does not fit into a buffer
    with start_cli("prune", "--theme", "marketing", "--older-than", "100d", "--yes", fresh=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=150) == 0
    assert turns(dsn, "marketing") == 100


def test_need_04_a_role_of_one_theme_prunes_that_theme_only(
    postgres: EmbeddedServer, admin_dsn: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(admin_dsn, "marketing")
    fill(admin_dsn, "sales")
    configure(home, tenant_of(postgres, admin_dsn, "marketing"))
    assert main(["prune", "--all-themes", "--older-than", "180d", "--yes", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["deleted"] == {"turns": DAYS - 180} and "log" in done["notes"][0]
    assert turns(admin_dsn, "sales") == DAYS and turns(admin_dsn, "marketing") == 180
    assert main(["prune", "--theme", "sales", "--older-than", "180d", "--yes"]) == 1


def test_need_16_what_the_agent_wrote_meanwhile_stays(make_provider: MakeProvider, prune: Prune, dsn: str) -> None:
    fill(dsn, "marketing", days=10)
    provider = make_provider()
    provider.sync_turn("Please tell me again about the Bolt, will you?", "The Bolt is red, as you told me last week.")
    landed(provider)
    assert prune("--theme", "marketing", "--keep-rows", "2", "--yes")["deleted"] == {"turns": 10}
    assert len(called(provider, "recall_conversation", {"query": "what about the bolt"})["results"]) == 1, (
        "an exchange is one result"
    )


def test_need_16_turns_of_a_pruned_session_that_wait_in_the_spool_are_told(prune: Prune, dsn: str, home: Path) -> None:
    fill(dsn, "marketing", days=40)
    said = {"session_id": "marketing-1", "messages": [{"role": "user", "content": "Atlas costs 900"}], "metadata": {}}
    leave_spool(home, [operation("turn", theme, said, 1.0) for theme in ("marketing", "sales")])
    (note,) = prune("--theme", "Marketing", "--session", "marketing-1")["notes"]
    assert note == "1 write of this session waits in the spool and brings it back: prune it again then"
    assert prune("--theme", "marketing", "--session", "marketing-1", "--yes")["notes"] == [note]
    (both,) = prune("--all-themes", "--session", "marketing-1")["notes"]
    assert both.startswith("2 writes of this session wait in the spool")
    assert prune("--theme", "marketing", "--session", "marketing-0")["notes"] == []


@pytest.mark.parametrize(
    ("session", "index"), [(None, "conversations_theme_time_idx"), ("sales-1", "conversations_session_time_idx")]
)
def test_trap_09_a_slice_reads_no_more_than_itself(dsn: str, admin_dsn: str, session: str | None, index: str) -> None:
    fill(dsn, "marketing", per_day=20)
    fill(dsn, "sales", per_day=5)
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("VACUUM ANALYZE conversations")
    old = store.Old("sales", session_id=session).row()
    row = old | {"after_at": store.FIRST[0], "after_id": 0, "limit": 100}
    with psycopg.connect(dsn) as conn:
        walk_timeline(conn)
        explain = b"EXPLAIN (ANALYZE, FORMAT JSON) " + query("prune_turns", package=store.__package__)
        found = conn.execute(explain, row, prepare=False).fetchone()
        conn.rollback()
    assert found is not None
    nodes = list(every_node(found[0][0]["Plan"]))
    assert index in {node.get("Index Name") for node in nodes}
    assert "Seq Scan" not in {node["Node Type"] for node in nodes}
    most = 101 if session is None else 2000  # of this theme; the other one has four times as many
    assert max(node["Actual Rows"] * node["Actual Loops"] for node in nodes) <= most


def every_node(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from every_node(child)


BLANK = [
    ("prune", "--all-themes", "--role", "user", "--older-than", "", "--yes"),
    ("prune", "--theme", "sales", "--keep-rows", "1", "--older-than", " ", "--yes"),
    ("prune", "--theme", "sales", "--theme", "", "--older-than", "1d", "--yes"),
    ("purge", "--all-themes", "--older-than", "", "--yes"),
    ("restore", ""),
    ("restore", ","),
    ("restore", "--theme", "", "--since", "7d"),
    ("forget", "m1", "--theme", "", "--yes"),
]


@pytest.mark.parametrize("arguments", BLANK, ids=" ".join)
def test_need_16_a_blank_where_a_variable_was_not_set_bounds_nothing_and_is_refused(
    home: Path, dsn: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    configure(home, dsn)
    fill(dsn, "sales", days=20)
    try:
        code: object = main([*arguments])
    except SystemExit as ended:
        code = ended.code
    assert code == 2 and "empty" in capsys.readouterr().err
    assert Database(dsn).column("SELECT count(*) FROM conversations") == [20]
