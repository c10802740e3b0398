"""Changing the embedding model of a database while agents go on."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from hermes_memory_pgvector.admin.common import new_vectors
from hermes_memory_pgvector.admin.common.admin_login import resize_empty
from hermes_memory_pgvector.admin.common.new_vectors import admin_connection
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import DIMS, MakeProvider
from tests.support.local_models import link_model
from tests.support.memory import called, landed, recalled
from tests.support.model_files import MODEL_NAME
from tests.support.scripted_embedder import Mode, ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run

NEW_DIMS = 96
Start = Callable[..., "subprocess.Popen[str]"]
WITHOUT_VECTOR = (
    "SELECT (SELECT count(*) FROM memory_entries WHERE embedding IS NULL)"
    " + (SELECT count(*) FROM conversations WHERE embedding IS NULL)"
)
LONG = "The crane was inspected on Monday. " * 60 + "Its counterweight holds nine tonnes. " + "It rained. " * 200


@pytest.fixture
def new_model() -> Iterator[ScriptedEmbedder]:
    """The endpoint of another model."""
    with ScriptedEmbedder(dims=NEW_DIMS) as server:
        yield server


@pytest.fixture
def arguments(admin_dsn: str, new_model: ScriptedEmbedder) -> list[str]:
    """The command that changes to that model."""
    return [
        "reembed", "--admin-dsn", admin_dsn, "--url", new_model.url, "--model", "newer", "--dims", str(NEW_DIMS)
    ]  # fmt: skip


@pytest.fixture
def settings(embedder: ScriptedEmbedder) -> dict[str, object]:
    """Of a provider with the first model."""
    return {"embed_url": embedder.url, "embed_model": "older"}


def written(make_provider: MakeProvider, settings: dict[str, object], dsn: str, turns: int = 20) -> None:
    """Turns and memories, one of them long, all with vectors of the first model."""
    provider = make_provider(settings)
    for number in range(turns):
        provider.sync_turn(
            f"Which berth has container {number}, and who signed for it last week?",
            f"Container {number} stands in berth {number + 100}; the harbour master signed for it.",
            session_id="session-0",
        )
    provider.on_memory_write("add", "memory", "The harbour master prefers mail over phone calls.")
    provider.on_memory_write("add", "memory", LONG)
    landed(provider)
    until(lambda: Database(dsn).column(WITHOUT_VECTOR) == [0], 30, "the vectors of all rows")


def killed_when(far_enough: Callable[[], bool], start_cli: Start, arguments: list[str]) -> None:
    """Run the command, and kill it in the middle of its work."""
    with start_cli(*arguments, "--yes") as process:
        until(far_enough, 60, "a part of the work")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=150)


def configured(home: Path, dsn: str, settings: dict[str, object]) -> None:
    section = {"dsn": dsn, "dims": DIMS} | settings
    text = "# mine\n" + yaml.safe_dump({"plugins": {"pgvector": section}})
    (home / "config.yaml").write_text(text, encoding="utf-8")


def test_need_18_a_dry_run_says_what_would_happen(
    make_provider: MakeProvider, settings: dict[str, object], home: Path, dsn: str, cli: Run, arguments: list[str]
) -> None:
    written(make_provider, settings, dsn, turns=3)
    configured(home, dsn, settings)

    said = cli(*arguments)

    assert said.returncode == 0, said.stderr
    assert "older, 384 dimensions" in said.stdout
    assert "newer, 96 dimensions" in said.stdout
    assert "nothing was changed: add --yes" in said.stdout
    told = json.loads(cli(*arguments, "--json").stdout)
    spaces = [(told[name]["model"], told[name]["dims"]) for name in ("current", "wanted")]
    assert spaces == [("older", DIMS), ("newer", NEW_DIMS)]
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["older"]
    assert Database(dsn).column("SELECT to_regclass('hermes_reembed')") == [None]


def test_need_18_reembed_changes_model_and_length(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    arguments: list[str],
    new_model: ScriptedEmbedder,
    records: Callable[[int], list[str]],
) -> None:
    written(make_provider, settings, dsn)
    configured(home, dsn, settings)
    database = Database(dsn)
    hidden = make_provider(settings | {"tools": ["remember"]})
    for said in ("D[berth]: seven", "D[berth]: eight", f"D[log]: {LONG}", "D[log]: none"):
        called(hidden, "remember", {"content": said, "sync": True})
    until(lambda: database.column(WITHOUT_VECTOR) == [0], 30, "the vectors of all rows")
    content = database.column("SELECT md5(string_agg(content, '|' ORDER BY id)) FROM conversations")

    said = cli(*arguments, "--yes")

    assert said.returncode == 0, said.stderr
    assert "newer" in said.stdout and "in every other profile and home with this database set embed_url" in said.stdout
    assert database.column(WITHOUT_VECTOR) == [0]
    assert set(database.column("SELECT vector_dims(embedding) FROM conversations")) == {NEW_DIMS}
    in_state = "SELECT length({}) FROM memory_entries WHERE state IS DISTINCT FROM 'superseded'"
    assert set(database.column(in_state.format("sig"))) == {NEW_DIMS}
    assert set(database.column(in_state.format("code"))) == {3 * NEW_DIMS}
    # What is not recalled takes no place in the new indexes either.
    assert (
        database.column("SELECT sig IS NULL AND code IS NULL FROM memory_entries WHERE state = 'superseded'")
        == [True] * 2
    )
    assert database.column(
        "SELECT count(*) FROM memory_chunks JOIN memory_entries AS m ON m.id = row_id WHERE state = 'superseded'"
    ) == [0]
    assert database.column("SELECT count(*) >= 3 FROM memory_chunks") == [True]
    assert database.column("SELECT md5(string_agg(content, '|' ORDER BY id)) FROM conversations") == content
    assert database.column("SELECT model FROM hermes_embedding") == ["newer"]
    kept = yaml.safe_load((home / "config.yaml").read_text())["plugins"]["pgvector"]
    assert (kept["embed_model"], kept["embed_url"], kept["dims"]) == ("newer", new_model.url, NEW_DIMS)
    assert (home / "config.yaml").read_text().startswith("# mine\n")

    # An agent of the old model goes on by words, told once, and its writes wait for a vector of the new model.
    old = make_provider(settings, session_id="session-2")
    old.sync_turn("The pilot boat moved to the northern pier yesterday.", "Noted: the northern pier.")
    landed(old)
    assert "berth" in recalled(old, "container 7 berth", tool="recall_conversation")[0]
    until(lambda: any("reembed" in line for line in records(logging.WARNING)), 20, "the warning")
    assert called(old, "recall_conversation", {"query": "container 7 berth"})["mode"] == "lexical"
    assert database.column(WITHOUT_VECTOR) == [2]

    new = make_provider({"embed_url": new_model.url, "embed_model": "newer", "dims": NEW_DIMS}, session_id="session-3")
    until(lambda: database.column(WITHOUT_VECTOR) == [0], 30, "vectors of the new model for what the old agent wrote")
    assert called(new, "recall_conversation", {"query": "container 7 berth"})["mode"] == "hybrid"


def test_need_40_an_agent_that_goes_on_with_the_old_model_is_named_until_it_is_restarted(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    arguments: list[str],
    records: Callable[[int], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermes_memory_pgvector.capture.writer._REPORT_S", 0.0)
    written(make_provider, settings, dsn, turns=1)
    configured(home, dsn, settings)
    assert "words only" not in cli("status").stdout + cli("doctor").stdout

    assert cli(*arguments, "--yes").returncode == 0

    until(lambda: any("restart it" in line for line in records(logging.WARNING)), 20, "the warning")
    until(lambda: "recalls by words only: older" in cli("status").stdout, 20, "the line of that process")
    doctor = cli("doctor").stdout
    assert f"agents: process {os.getpid()} recalls by words only: it still uses the model older" in doctor

    close_all()
    assert "words only" not in cli("doctor").stdout


@pytest.mark.parametrize("place", [".env", "pgvector/config.json"])
def test_need_18_a_home_recalls_by_the_new_model_wherever_it_named_the_old_one(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    arguments: list[str],
    place: str,
) -> None:
    written(make_provider, settings, dsn, turns=3)
    configured(home, dsn, {})
    lines = "".join(f"HERMES_PGVECTOR_{name.upper()}={value}\n" for name, value in settings.items())
    (home / place).parent.mkdir(exist_ok=True)
    (home / place).write_text(lines if place == ".env" else json.dumps(settings), encoding="utf-8")

    said = cli(*arguments, "--yes")

    assert said.returncode == 0, said.stderr
    found = cli("search", "Which berth has container 2?", "--json")
    assert json.loads(found.stdout)["mode"] == "hybrid", found.stderr


def test_need_18_reembed_goes_on_after_kill(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    start_cli: Start,
    arguments: list[str],
    new_model: ScriptedEmbedder,
) -> None:
    written(make_provider, settings, dsn, turns=400)
    configured(home, dsn, settings)
    database = Database(dsn)
    new_model.latency_ms = 100
    begun = "SELECT to_regclass('hermes_reembed') IS NOT NULL"
    killed_when(lambda: database.column(begun) == [True] and new_model.requests >= 6, start_cli, arguments)
    before = len(new_model.texts)
    # Meanwhile the old vectors serve, and what is written gets one.
    provider = make_provider(settings, session_id="session-2")
    assert called(provider, "recall_conversation", {"query": "container 7 berth"})["mode"] == "hybrid"
    provider.on_memory_write("replace", "memory", "The harbour master prefers a phone call now.", {
        "old_text": "prefers mail over phone calls",
    })  # fmt: skip
    landed(provider)

    new_model.latency_ms = 0
    said = cli(*arguments, "--yes")

    assert said.returncode == 0, said.stderr
    rows = database.column("SELECT count(*) FROM conversations")[0]
    assert before + len(new_model.texts[before:]) < 1.5 * rows + 200
    assert database.column(WITHOUT_VECTOR) == [0]
    assert database.column("SELECT model FROM hermes_embedding") == ["newer"]


def test_need_40_who_ends_the_command_after_the_switch_is_not_told_to_give_the_change_up(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written(make_provider, settings, dsn)
    configured(home, dsn, settings)

    def end(conn: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(new_vectors, "vacuum", end)
        assert main([*arguments, "--yes", "--hermes-home", str(home)]) == 130
    said = capsys.readouterr().err
    assert "interrupted: the database holds the new vectors already" in said and "--abort" not in said
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["newer"]
    assert main([*arguments, "--yes", "--hermes-home", str(home)]) == 0
    assert yaml.safe_load((home / "config.yaml").read_text())["plugins"]["pgvector"]["embed_model"] == "newer"


def test_need_40_who_ends_the_command_before_the_change_began_is_not_told_to_give_it_up(
    make_provider: MakeProvider, settings: dict[str, object], home: Path, dsn: str, start_cli: Start,
    arguments: list[str],
) -> None:  # fmt: skip
    written(make_provider, settings, dsn, turns=2)
    close_all()
    configured(home, dsn, settings)
    with psycopg.connect(dsn) as reader:
        reader.execute("SELECT FROM conversations")  # all the time, so that no room for vectors can be made
        command = start_cli(*arguments, "--yes")
        waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'conversations'::regclass AND NOT granted"
        until(lambda: Database(dsn).column(waiting) == [1], 60, "the command to want the table")
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=150)
    assert command.returncode == 130, out + err
    assert "interrupted: the change of the model was only about to begin" in err and "--abort" not in err
    assert Database(dsn).column("SELECT to_regclass('hermes_reembed')::text") == [None]


def test_need_40_a_change_that_the_settings_cannot_follow_is_said_to_be_made(
    make_provider: MakeProvider, settings: dict[str, object], home: Path, dsn: str, cli: Run, arguments: list[str]
) -> None:
    written(make_provider, settings, dsn, turns=2)
    section = {"dsn": dsn, "dims": DIMS} | settings
    shared = yaml.safe_dump({"shared": section, "plugins": {"pgvector": section}})  # as an anchor and its alias
    (home / "config.yaml").write_text(shared)

    said = cli(*arguments, "--yes", "--json")

    told = json.loads(said.stdout)["error"]
    assert said.returncode == 1
    assert told.startswith(f"the database holds vectors of newer now, {NEW_DIMS} dimensions, but ")
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["newer"]


def test_need_18_several_workers_share_the_work(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    start_cli: Start,
    arguments: list[str],
    new_model: ScriptedEmbedder,
) -> None:
    written(make_provider, settings, dsn, turns=400)
    configured(home, dsn, settings)
    new_model.latency_ms = 100
    workers = [start_cli(*arguments, "--yes", "--no-config") for _ in range(3)]
    for worker in workers:
        _, stderr = worker.communicate(timeout=200)
        assert worker.returncode == 0, stderr
    database = Database(dsn)
    assert database.column(WITHOUT_VECTOR) == [0]
    assert database.column("SELECT model FROM hermes_embedding") == ["newer"]
    stored = database.column("SELECT count(*) FROM conversations")[0]
    assert len([text for text in new_model.texts if "Container" in text or "container" in text]) < 1.3 * stored + 400


def test_need_40_who_waits_for_the_rows_of_a_worker_that_is_cut_off_is_told_how_to_end_that(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    admin_dsn: str,
    start_cli: Start,
    arguments: list[str],
    new_model: ScriptedEmbedder,
) -> None:
    written(make_provider, settings, dsn, turns=40)
    configured(home, dsn, settings)
    new_model.latency_ms = 200
    cut_off = start_cli(*arguments, "--yes")
    until(lambda: new_model.requests >= 4, 60, "a part of the work")
    cut_off.send_signal(signal.SIGSTOP)
    with start_cli(*arguments, "--yes") as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "waits" in line)
        statement = re.search(r"waits for rows of another worker \(role .* (SELECT pg_terminate_backend\(\d+\))", line)
        assert statement is not None, line
        with psycopg.connect(admin_dsn) as admin:
            admin.execute(statement[1].encode())
        _, stderr = process.communicate(timeout=150)
    cut_off.kill()
    cut_off.communicate(timeout=150)
    assert process.returncode == 0, stderr
    assert Database(dsn).column(WITHOUT_VECTOR) == [0]
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["newer"]


def test_need_18_a_change_can_be_given_up(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    start_cli: Start,
    arguments: list[str],
    admin_dsn: str,
    new_model: ScriptedEmbedder,
) -> None:
    written(make_provider, settings, dsn, turns=100)
    configured(home, dsn, settings)
    new_model.latency_ms = 200
    with start_cli(*arguments, "--yes") as process:
        until(lambda: new_model.requests >= 3, 60, "a part of the work")
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=150)[1]
    assert process.returncode == 130 and "the same command goes on with it" in said and "--abort --yes" in said

    other = cli("reembed", "--url", new_model.url, "--model", "third", "--admin-dsn", admin_dsn)
    assert other.returncode == 1 and "a change to newer (96 dimensions) is under way" in other.stderr
    assert "hermes-pgvector reembed --abort --yes" in other.stderr
    dry = cli("reembed", "--abort", "--admin-dsn", admin_dsn)
    assert "nothing was changed: add --yes" in dry.stdout
    done = cli("reembed", "--abort", "--admin-dsn", admin_dsn, "--yes")

    assert done.returncode == 0, done.stderr
    database = Database(dsn)
    assert database.column("SELECT model FROM hermes_embedding") == ["older"]
    assert database.column("SELECT to_regclass('hermes_reembed')") == [None]
    assert set(database.column("SELECT vector_dims(embedding) FROM conversations")) == {DIMS}
    with psycopg.connect(admin_dsn) as connection:
        indexes = connection.execute("SELECT indexname FROM pg_indexes WHERE indexname LIKE '%embedding_idx'")
        assert len(indexes.fetchall()) == 2


def test_reembed_needs_an_admin_and_says_so(home: Path, dsn: str, embedder: ScriptedEmbedder, cli: Run) -> None:
    configured(home, dsn, {"embed_url": embedder.url})
    said = cli("reembed", "--model", "newer")
    assert said.returncode == 2
    assert "--admin-dsn" in said.stderr


def test_backfill_embeds_what_waits(
    make_provider: MakeProvider, settings: dict[str, object], home: Path, dsn: str, cli: Run
) -> None:
    provider = make_provider(settings | {"embed_on_write": False})
    for number in range(70):
        provider.sync_turn(f"Question {number}: what does the tide do at the lock gates today?", "It rises until noon.")
    provider.on_memory_write("add", "memory", LONG)
    landed(provider)
    configured(home, dsn, settings)
    assert Database(dsn).column(WITHOUT_VECTOR)[0] > 70

    said = cli("backfill")

    assert said.returncode == 0, said.stderr
    assert "none waits" in said.stdout
    assert Database(dsn).column(WITHOUT_VECTOR) == [0]
    assert Database(dsn).column("SELECT count(*) >= 3 FROM memory_chunks") == [True]
    again = cli("backfill")
    assert again.stdout == "nothing to do: no row waits for a vector\n"
    assert "0 of 0" not in again.stderr


def test_backfill_says_why_rows_are_left(
    make_provider: MakeProvider, settings: dict[str, object], home: Path, dsn: str, cli: Run
) -> None:
    provider = make_provider(settings | {"embed_on_write": False})
    provider.on_memory_write("add", "memory", "The tide rises until noon at the lock gates.")
    landed(provider)
    provider.shutdown()
    configured(home, dsn, settings)
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE memory_entries SET embedding = NULL, embed_after = now() + interval '1 hour'")

    said = cli("backfill")

    assert said.stdout.startswith("0 rows embedded, 1 row still without a vector: an agent is embedding them")


def test_backfill_fails_where_the_endpoint_does(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    embedder: ScriptedEmbedder,
) -> None:
    provider = make_provider(settings | {"embed_on_write": False})
    provider.on_memory_write("add", "memory", "The tide rises until noon at the lock gates.")
    landed(provider)
    provider.shutdown()
    configured(home, dsn, settings)
    embedder.mode = "http_500"

    said = cli("backfill", "--json")

    told = json.loads(said.stdout)
    assert (said.returncode, told["embedded"], told["pending"]) == (1, 0, 1)
    assert "HTTP 500" in told["reason"]


def test_backfill_without_a_model_says_what_to_do(home: Path, dsn: str, cli: Run) -> None:
    configured(home, dsn, {})
    said = cli("backfill")
    assert said.returncode == 1
    assert "embed_url" in said.stderr


@pytest.mark.parametrize("wrong", [{"embed_model": "another"}, {"dims": 768}])
def test_need_18_backfill_does_not_say_that_no_model_is_set_where_a_wrong_one_is(
    make_provider: MakeProvider, settings: dict[str, object], home: Path, dsn: str, cli: Run, wrong: dict[str, object]
) -> None:
    written(make_provider, settings, dsn, turns=2)
    configured(home, dsn, settings | wrong)

    said = cli("backfill", "--json")

    assert said.returncode == 1
    error = json.loads(said.stdout)["error"]
    assert "another model or length" in error and "hermes-pgvector doctor" in error


def test_need_03_no_agent_ever_mixes_two_models_of_one_length(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    admin_dsn: str,
    embedder: ScriptedEmbedder,
) -> None:
    """Both models give vectors of one length, so that only the recorded name keeps them apart."""
    written(make_provider, settings, dsn, turns=60)
    configured(home, dsn, settings)
    old = make_provider(settings, session_id="session-2")
    stop = threading.Event()
    modes: list[tuple[str, str]] = []
    database = Database(dsn)

    def write() -> None:
        number = 0
        while not stop.wait(0.05):
            number += 1
            old.sync_turn(
                f"What came of shipment {number} in the end, do you know?", f"Shipment {number} went to Oslo."
            )

    def read() -> None:
        while not stop.is_set():
            before = database.column("SELECT model FROM hermes_embedding")[0]
            modes.append((before, called(old, "recall_conversation", {"query": "container 7 berth"})["mode"]))

    threads = [threading.Thread(target=write), threading.Thread(target=read)]
    with ScriptedEmbedder(dims=DIMS) as other:
        other.base64 = "ignores"
        for thread in threads:
            thread.start()
        try:
            said = cli("reembed", "--admin-dsn", admin_dsn, "--url", other.url, "--model", "newer", "--yes")
            assert said.returncode == 0, said.stderr
            until(lambda: modes[-1][0] == "newer", 20, "a search after the switch")
        finally:
            stop.set()
            for thread in threads:
                thread.join(150)
        landed(old)

        assert {mode for model, mode in modes if model == "newer"} == {"lexical"}
        assert "hybrid" in {mode for model, mode in modes if model == "older"}
        embedded_by_other = set(other.texts)
        rows = database.column("SELECT content FROM conversations WHERE embedding IS NOT NULL")
        assert all(any(text.endswith(row) for text in embedded_by_other) for row in rows), "a vector of the old model"
        # Nothing was lost or set aside meanwhile.
        assert called(old, "recall_conversation", {"query": "shipment 1 Oslo"})["results"]
        assert not list((home / "pgvector").rglob("*aside*"))


def test_need_18_the_endpoint_may_be_away_for_a_while(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    start_cli: Start,
    arguments: list[str],
    new_model: ScriptedEmbedder,
) -> None:
    written(make_provider, settings, dsn, turns=150)
    configured(home, dsn, settings)
    new_model.latency_ms = 100
    with start_cli(*arguments, "--yes") as process:
        until(lambda: Database(dsn).column("SELECT to_regclass('hermes_reembed')") != [None], 60, "the beginning")
        new_model.mode = "down"
        assert process.stderr is not None
        line = next(line for line in process.stderr if "away" in line)
        assert "trying again" in line
        new_model.mode = "ok"
        _, stderr = process.communicate(timeout=150)
    assert process.returncode == 0, stderr
    assert Database(dsn).column(WITHOUT_VECTOR) == [0]
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["newer"]


@pytest.mark.parametrize(
    ("mode", "away"), [("wrong_dims", False), ("unauthorized", False), ("unauthorized", True)], ids=str
)
def test_need_18_an_endpoint_that_gives_no_vectors_any_more_stops_the_change_and_loses_nothing(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    start_cli: Start,
    arguments: list[str],
    new_model: ScriptedEmbedder,
    mode: Mode,
    away: bool,
) -> None:
    """Fewer rows are left than may be refused one after the other; also after an outage that was waited for."""
    written(make_provider, settings, dsn, turns=12)
    configured(home, dsn, settings)
    new_model.latency_ms = 100
    with start_cli(*arguments, "--yes") as process:
        until(lambda: Database(dsn).column("SELECT to_regclass('hermes_reembed')") != [None], 60, "the beginning")
        if away:
            assert process.stderr is not None
            new_model.mode = "http_500"
            told = (line for line in process.stderr if "the endpoint is away, trying again" in line)
            assert [bool(next(told)) for _ in range(3)]  # a circuit breaker is open then
        new_model.mode = mode
        _, stderr = process.communicate(timeout=150)
    assert process.returncode == 1 and "the same command goes on with it" in stderr, stderr
    assert "stays without a vector" not in stderr and (away or "trying again" not in stderr)
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["older"]

    new_model.mode = "ok"
    assert cli(*arguments, "--yes").returncode == 0
    assert Database(dsn).column(WITHOUT_VECTOR) == [0]
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["newer"]


@pytest.mark.parametrize("by_limit", [False, True], ids=["failed", "rate limited"])
def test_need_18_a_refused_row_stays_by_itself(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    arguments: list[str],
    new_model: ScriptedEmbedder,
    by_limit: bool,
) -> None:
    """Also where the endpoint says of a text that is too much for it, whenever that comes, to wait a second."""
    provider = make_provider(settings)
    provider.on_memory_write("add", "memory", "The quixotic pilot refuses every tug.")
    landed(provider)
    written(make_provider, settings, dsn, turns=10)
    configured(home, dsn, settings)
    new_model.refused_word, new_model.refuses_by_limit, new_model.retry_after = "quixotic", by_limit, "1"

    said = cli(*arguments, "--yes", "--rate", "1000")

    assert said.returncode == 0, said.stderr
    assert "1 row was refused" in said.stdout and "stays without a vector" in said.stderr
    assert Database(dsn).column(WITHOUT_VECTOR) == [1]
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["newer"]


def test_need_18_a_rate_is_kept(
    make_provider: MakeProvider, settings: dict[str, object], home: Path, dsn: str, cli: Run, arguments: list[str]
) -> None:
    written(make_provider, settings, dsn, turns=40)
    configured(home, dsn, settings)
    began = time.monotonic()
    said = cli(*arguments, "--yes", "--rate", "40")
    assert said.returncode == 0, said.stderr
    assert time.monotonic() - began >= 2.0  # 82 rows


def test_need_18_an_endpoint_that_lets_nobody_in_changes_nothing(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    admin_dsn: str,
    arguments: list[str],
    new_model: ScriptedEmbedder,
) -> None:
    written(make_provider, settings, dsn, turns=5)
    configured(home, dsn, settings)
    new_model.mode = "unauthorized"
    before = (home / "config.yaml").read_bytes()
    for command in (arguments, arguments[:-2]):  # with --dims and without
        said = cli(*command, "--yes")
        assert said.returncode == 1
        assert "401" in said.stderr
    assert Database(dsn).column("SELECT to_regclass('hermes_reembed')") == [None]
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["older"]
    assert (home / "config.yaml").read_bytes() == before


def test_need_18_a_view_on_the_vectors_is_told_before_the_work(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    admin_dsn: str,
    arguments: list[str],
) -> None:
    written(make_provider, settings, dsn, turns=3)
    configured(home, dsn, settings)
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("CREATE VIEW mine AS SELECT id, embedding FROM conversations")
    said = cli(*arguments, "--yes")
    assert said.returncode == 1
    assert "used by mine; drop that" in said.stderr
    assert Database(dsn).column("SELECT to_regclass('hermes_reembed')") == [None]


def test_need_18_the_length_is_asked_of_the_model_and_rights_stay(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    admin_dsn: str,
    arguments: list[str],
) -> None:
    written(make_provider, settings, dsn, turns=3)
    configured(home, dsn, settings)
    shape = (
        "SELECT string_agg(concat_ws(' ', c.relname, c.relacl, c.relrowsecurity, c.relforcerowsecurity, c.reloptions,"
        " obj_description(c.oid, 'pg_class'), (SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes"
        " WHERE tablename = c.relname), (SELECT string_agg(concat_ws(' ', policyname, permissive, roles, cmd, qual,"
        " with_check), ' ' ORDER BY policyname) FROM pg_policies WHERE tablename = c.relname),"
        " (SELECT string_agg(concat_ws(' ', conname, pg_get_constraintdef(oid)), ' ' ORDER BY conname)"
        " FROM pg_constraint WHERE conrelid = c.oid),"
        " (SELECT string_agg(pg_get_triggerdef(oid), ' ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid"
        " AND NOT tgisinternal)), E'\\n' ORDER BY c.relname)"
        " FROM pg_class AS c WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("ALTER TABLE memory_chunks ENABLE ROW LEVEL SECURITY")
        admin.execute("CREATE POLICY mine ON memory_chunks TO hermes USING (part > 0) WITH CHECK (part > 0)")
        before = admin.execute(shape.encode()).fetchone()

        said = cli(*arguments[:-2], "--yes")

        assert said.returncode == 0, said.stderr
        assert admin.execute(shape.encode()).fetchone() == before
        left = admin.execute("SELECT proname FROM pg_proc WHERE proname = 'hermes_keep_next'").fetchall()
    assert left == []
    assert set(Database(dsn).column("SELECT vector_dims(embedding) FROM conversations")) == {NEW_DIMS}
    kept = yaml.safe_load((home / "config.yaml").read_text())["plugins"]["pgvector"]
    assert kept["dims"] == NEW_DIMS
    again = cli(*arguments, "--yes")
    assert again.returncode == 0
    assert "building" not in again.stderr, "what is done was done once more"
    assert cli(*arguments).stdout.startswith("nothing to do: the vectors are of ")
    assert "add --yes" in cli(*arguments, "--again").stdout
    assert cli(*arguments, "--model", "newer:latest").stdout.startswith("nothing to do: the vectors are of ")


def test_need_18_reembed_with_a_model_on_disk_and_what_doctor_says(
    make_provider: MakeProvider, settings: dict[str, object], home: Path, dsn: str, cli: Run, admin_dsn: str
) -> None:
    written(make_provider, settings, dsn, turns=3)
    close_all()  # an agent would embed what is made to wait below
    link_model(home)
    configured(home, dsn, {"embed_url": f"local:{MODEL_NAME}"})
    doctor = cli("doctor").stdout
    assert "vectors: of older, 384 dimensions; the settings name bge-small-en-v1.5, 384 dimensions" in doctor
    assert "-> set embed_url to an endpoint that has older, embed_model: older; or change the vectors, for" in doctor
    assert "hermes-pgvector reembed --yes --admin-dsn DSN" in doctor, "without it the command is refused"
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("UPDATE conversations SET embedding = NULL WHERE role = 'user'")
    assert "pending: without a vector: 3 rows" in cli("doctor").stdout

    wrong = cli("reembed", "--admin-dsn", admin_dsn, "--model", "x", "--url", f"local:{MODEL_NAME}")
    assert wrong.returncode != 0 and "local:NAME" in wrong.stderr
    said = cli("reembed", "--admin-dsn", admin_dsn, "--url", f"local:{MODEL_NAME}", "--yes")

    assert said.returncode == 0, said.stderr
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == [MODEL_NAME]
    assert Database(dsn).column(WITHOUT_VECTOR) == [0]
    kept = yaml.safe_load((home / "config.yaml").read_text())["plugins"]["pgvector"]
    assert kept == {"dsn": dsn, "dims": DIMS, "embed_url": f"local:{MODEL_NAME}"}
    doctor = cli("doctor").stdout
    assert f"ok    vectors: of {MODEL_NAME}, 384 dimensions" in doctor
    assert "pending" not in doctor


def test_doctor_tells_of_a_change_under_way(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    cli: Run,
    start_cli: Start,
    admin_dsn: str,
    arguments: list[str],
    new_model: ScriptedEmbedder,
) -> None:
    written(make_provider, settings, dsn, turns=40)
    configured(home, dsn, settings)
    new_model.latency_ms = 300
    killed_when(lambda: new_model.requests >= 3, start_cli, arguments)
    said = cli("doctor").stdout
    assert "a change to newer, 96 dimensions, is under way: about" in said
    assert "hermes-pgvector reembed --abort --yes" in said


def test_need_03_a_session_that_has_stored_rows_stores_vectors_of_another_length(
    new_model: ScriptedEmbedder, embedder: ScriptedEmbedder, home: Path, dsn: str, admin_dsn: str, cli: Run
) -> None:
    """An agent's that waited for its model, and a pooler's, which outlives the agents that are restarted."""
    stores = [
        "INSERT INTO conversations (session_id, agent_identity, role, content, embedding) "
        "VALUES ('s', 'default', 'user', %(said)s, array_fill(0.5, ARRAY[%(dims)s])::vector)",
        "INSERT INTO memory_entries (agent_identity, target, content, embedding) "
        "VALUES ('default', 'memory', %(said)s, array_fill(0.5, ARRAY[%(dims)s])::vector)",
    ]
    configured(home, dsn, {"embed_url": embedder.url, "embed_model": "first"})
    with psycopg.connect(dsn, autocommit=True) as session:
        for name, model in (("first", embedder), ("newer", new_model), ("back", embedder)):
            if name != "first":
                change = ("reembed", "--admin-dsn", admin_dsn, "--url", model.url, "--model", name, "--yes")
                assert cli(*change).returncode == 0
            for statement in stores:
                session.execute(statement, {"said": f"Said with the {name} model", "dims": model.dims})
    for table in ("conversations", "memory_entries"):
        kept = f"SELECT sig = binary_quantize(embedding) AND code = hermes_code(embedding) FROM {table}"
        assert Database(dsn).column(kept) == [True, True, True]


def test_a_database_without_vectors_takes_another_length_at_once(
    make_provider: MakeProvider, dsn: str, admin_dsn: str
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "The harbour master prefers mail over phone calls.")
    landed(provider)
    with admin_connection(admin_dsn) as admin:
        assert resize_empty(admin, NEW_DIMS)
    database = Database(dsn)
    assert database.column("SELECT model FROM hermes_embedding") == [None]
    with ScriptedEmbedder(dims=NEW_DIMS) as model:
        other = make_provider({"embed_url": model.url, "embed_model": "newer", "dims": NEW_DIMS}, session_id="s-2")
        until(lambda: database.column(WITHOUT_VECTOR) == [0], 30, "the vector of the memory")
        landed(other)
    with admin_connection(admin_dsn) as admin:
        assert not resize_empty(admin, DIMS), "there are vectors now"
