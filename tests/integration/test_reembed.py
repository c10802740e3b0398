"""Changing the embedding model of a database while agents go on."""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed, recalled
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

NEW_DIMS = 96
Run = Callable[..., "subprocess.CompletedProcess[str]"]
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
    content = database.column("SELECT md5(string_agg(content, '|' ORDER BY id)) FROM conversations")

    said = cli(*arguments, "--yes")

    assert said.returncode == 0, said.stderr
    assert "newer" in said.stdout
    assert database.column(WITHOUT_VECTOR) == [0]
    assert set(database.column("SELECT vector_dims(embedding) FROM conversations")) == {NEW_DIMS}
    assert set(database.column("SELECT length(sig) FROM memory_entries")) == {NEW_DIMS}
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
    with start_cli(*arguments, "--yes") as process:
        until(
            lambda: (
                database.column("SELECT to_regclass('hermes_reembed') IS NOT NULL") == [True]
                and new_model.requests >= 6
            ),
            60,
            "half of the work",
        )
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
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


def test_need_18_several_workers_share_the_work(
    make_provider: MakeProvider,
    settings: dict[str, object],
    home: Path,
    dsn: str,
    start_cli: Start,
    arguments: list[str],
    new_model: ScriptedEmbedder,
) -> None:
    written(make_provider, settings, dsn, turns=900)
    configured(home, dsn, settings)
    new_model.latency_ms = 30
    workers = [start_cli(*arguments, "--yes", "--no-config") for _ in range(3)]
    for worker in workers:
        _, stderr = worker.communicate(timeout=120)
        assert worker.returncode == 0, stderr
    database = Database(dsn)
    assert database.column(WITHOUT_VECTOR) == [0]
    assert database.column("SELECT model FROM hermes_embedding") == ["newer"]
    stored = database.column("SELECT count(*) FROM conversations")[0]
    assert len([text for text in new_model.texts if "Container" in text or "container" in text]) < 1.3 * stored + 400


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
        until(lambda: new_model.requests >= 3, 60, "some work")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)

    dry = cli("reembed", "--abort", "--admin-dsn", admin_dsn)
    assert "nothing was changed: add --yes" in dry.stdout
    said = cli("reembed", "--abort", "--admin-dsn", admin_dsn, "--yes")

    assert said.returncode == 0, said.stderr
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
    assert said.returncode == 1
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


def test_backfill_without_a_model_says_what_to_do(home: Path, dsn: str, cli: Run) -> None:
    configured(home, dsn, {})
    said = cli("backfill")
    assert said.returncode == 1
    assert "embed_url" in said.stderr
