"""Turns of 50 MB: no hook and no recall waits for them, whether they come now or were stored long ago."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.domain.text import ENDS_CHARS
from tests.conftest import MakeProvider
from tests.support.limits import LATE_S
from tests.support.memory import called, landed, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.traffic import Log, report
from tests.support.turns import memories, seconds, turn, user_turns

CHARS = 50_000_000
LINE = "Crane 0815 at quay 7 was inspected, nothing of note; the next entry says the same. "
BEGIN, END = "The log of the harbour begins here. ", " The log of the harbour ends here."
HOOK_S = 0.5  # some .1 s where nothing else runs


def long_text(line: str = LINE, chars: int = CHARS) -> str:
    return BEGIN + line * (chars // len(line)) + END


def in_parts(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}, {"type": "text", "text": "And what is to do?"}]


def cpu_seconds(call: Callable[[], object]) -> float:
    """How long this thread works for the call, whatever else the machine does."""
    started = time.thread_time()
    call()
    return time.thread_time() - started


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


@pytest.mark.parametrize(("line", "given"), [(LINE, str), (LINE.replace("quay", "Pier für Öl"), in_parts)])
def test_need_01_a_turn_of_50_mb_is_kept_in_its_ends_and_holds_up_no_hook(
    line: str, given: Callable[[str], Any], make_provider: MakeProvider, direct_dsn: str, log: Log
) -> None:
    provider = make_provider({"dsn": direct_dsn})
    report(provider, 1)
    landed(provider)
    message = given(long_text(line))
    took = [cpu_seconds(lambda: provider.sync_turn(message, "Noted.", session_id=name)) for name in ("s0", "s1", "s2")]  # noqa: B023
    tracemalloc.start()
    provider.sync_turn(message, "Noted.", session_id="s3")
    provider.on_delegation("What does the log say?", message)
    provider.on_memory_write("add", "memory", message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    landed(provider)

    assert min(took) < HOOK_S
    assert peak < 3 * CHARS
    (*_, kept) = user_turns(Database(direct_dsn))
    assert kept.startswith(BEGIN) and "characters left out ...]" in kept
    assert kept.endswith("And what is to do?" if given is in_parts else END)
    assert len(kept) < 2 * ENDS_CHARS + 100
    assert all(len(entry) < 2 * ENDS_CHARS + 100 for entry in memories(Database(direct_dsn)))
    assert runtime_of(provider).counts["texts_cut"] == 6
    assert len(log.warnings()) == 1 and "turn_max_mb" in log.warnings()[0]


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        LINE.replace("quay", "Pier für Öl"),
        "2026-01-01 12:00:00 INFO http://host/a_b?token_count=7 key: value-7 pass=ok_7 A-Z ~/x.k/G_J\n",
    ],
)
def test_need_01_a_turn_just_below_the_bound_is_kept_whole_and_holds_up_no_hook(
    line: str, make_provider: MakeProvider, direct_dsn: str
) -> None:
    provider = make_provider({"dsn": direct_dsn, "embed_on_write": False})
    short = long_text(line, 4_000)
    provider.sync_turn(short, "Noted.", session_id="s0")  # what is done once is not counted
    message = long_text(line, 3_990_000)
    took = cpu_seconds(lambda: provider.sync_turn(message, "Noted.", session_id="s1"))
    landed(provider)
    assert took < 2 * HOOK_S
    assert user_turns(Database(direct_dsn)) == [short.strip(), message.strip()]


@pytest.mark.parametrize("with_vectors", [True, False])
def test_need_01_turns_of_50_mb_that_are_stored_already_hold_up_no_recall(
    with_vectors: bool,
    make_provider: MakeProvider,
    direct_dsn: str,
    admin_dsn: str,
    endpoint: ScriptedEmbedder,
    log: Log,
) -> None:
    config: dict[str, Any] = {"recall_deadline_s": 4.0, "prefetch_deadline_s": 4.0, "dsn": direct_dsn}
    provider = make_provider(config | ({"embed_url": endpoint.url} if with_vectors else {}))
    for number in range(1, 11):
        report(provider, number)
    landed(provider)
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        vector = connection.execute("SELECT embedding::text FROM conversations WHERE role = 'user' LIMIT 1").fetchone()
        for number in range(2):
            connection.execute(
                "INSERT INTO conversations (session_id, agent_identity, role, content, ts, embedding) "
                "VALUES ('session-1', 'marketing', 'user', %s, now(), %s)",
                (f"{BEGIN}{number}{LINE * (CHARS // len(LINE))}", vector[0] if vector else None),
            )
    for query in ("What was inspected at quay 7?", '"nothing of note" at quay 7', turn(3), "log of the harbour begins"):
        for tool in ("recall_conversation", "recall_memory"):
            answers: list[dict[str, Any]] = []
            args = {"query": query, "around": True} if tool == "recall_conversation" else {"query": query}
            took = seconds(lambda: answers.append(called(provider, tool, args)))  # noqa: B023
            assert took < 4.0 + LATE_S
            assert "error" not in answers[0], answers[0]
            assert len(json.dumps(answers[0])) < 500_000
        assert seconds(lambda: provider.prefetch(query)) < 4.0 + LATE_S  # noqa: B023
    assert runtime_of(provider).counts["prefetch_failures"] == 0
    (best, *_) = called(provider, "recall_conversation", {"query": "What was inspected at quay 7?"})["results"]
    assert "quay 7 was inspected" in best["content"] and best["excerpt_of_chars"] > CHARS * 0.99
    assert log.warnings() == []
