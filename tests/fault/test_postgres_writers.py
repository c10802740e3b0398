"""Many processes write one theme, and two contradict each other; a single write does not wait for company."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.capture import writer
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.limits import NOT_WAITED_S
from tests.support.memory import landed
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.traffic import LANDED_TIMEOUT_S, Log, assert_all_embedded, report
from tests.support.turns import ANSWER, memories, turn, user_turns
from tests.support.waiting import until

PROCESSES, TURNS = 8, 100
ENTRIES = 20


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


@pytest.fixture
def config(dsn: str, endpoint: ScriptedEmbedder) -> dict[str, Any]:
    return {"dsn": dsn, "dims": DIMS, "embed_url": endpoint.url}


@contextlib.contextmanager
def agents(count: int, config: dict[str, Any], home: Path) -> Iterator[list[AgentProcess]]:
    """That many agents of one home, started one after the other."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(AgentProcess(config, home)) for _ in range(count)]


def warnings_in(log_text: str) -> list[str]:
    return [line for line in log_text.splitlines() if line.startswith(("WARNING", "ERROR", "CRITICAL", "Traceback"))]


def test_need_03_eight_processes_write_one_theme(config: dict[str, Any], database: Database, home: Path) -> None:
    def talk(number: int, agent: AgentProcess) -> None:
        for index in range(TURNS):
            agent.call("sync_turn", turn(number * TURNS + index), ANSWER)

    with agents(PROCESSES, config, home) as processes, ThreadPoolExecutor(PROCESSES) as threads:
        for talking in [threads.submit(talk, number, agent) for number, agent in enumerate(processes)]:
            talking.result()
        wanted = 2 * PROCESSES * TURNS
        rows = "SELECT count(*) FROM conversations"
        until(lambda: database.column(rows) >= [wanted], LANDED_TIMEOUT_S, "all rows")
        assert_all_embedded(database)
        logs = [agent.log for agent in processes]

    stored = user_turns(database)
    for number in range(PROCESSES):
        own = [turn(number * TURNS + index) for index in range(TURNS)]
        assert [text for text in stored if text in set(own)] == own
    assert database.column(rows) == [wanted]
    assert [warnings_in(text) for text in logs] == [[]] * PROCESSES


@pytest.mark.parametrize("kind", ["other", "longer"])
def test_need_15_a_race_of_replace_and_remove_ends_in_a_state_that_some_order_explains(
    kind: str, config: dict[str, Any], database: Database, home: Path
) -> None:
    """After the new text, if that no longer holds the old one, nothing is left to remove; before it, nothing to
    replace, and what the host has now is stored all the same. A longer text still holds the old one and is removed."""
    old = [f"The crane {number:02d} of the old harbour is painted blue." for number in range(ENTRIES)]
    new = [
        f"Crane {number:02d} was scrapped last year." if kind == "other" else f"{text} It was green before."
        for number, text in enumerate(old)
    ]
    with contextlib.ExitStack() as stack:
        # Two machines, each with files of its own.
        homes = [home, home.parent / "home-of-the-other"]
        homes[1].mkdir()
        first, second = (stack.enter_context(AgentProcess(config, each)) for each in homes)
        for text in old:
            first.call("on_memory_write", "add", "memory", text)
        until(lambda: memories(database) == old, LANDED_TIMEOUT_S, "the entries")

        # Both have everything in hand before either can write, so that they meet.
        with database.writes_blocked():
            for before, after in zip(old, new, strict=True):
                first.call("on_memory_write", "replace", "memory", after, {"old_text": before})
                second.call("on_memory_write", "remove", "memory", "", {"old_text": before})
        # One more each, which tells that all before it are through.
        for number, agent in enumerate((first, second)):
            agent.call("on_memory_write", "add", "user", f"The end of process {number}.")
        ends = "SELECT content FROM memory_entries WHERE target = 'user'"
        until(lambda: len(database.column(ends)) == 2, LANDED_TIMEOUT_S, "the ends")
        logs = [first.log, second.log]

    left = set(database.column("SELECT content FROM memory_entries WHERE target = 'memory'"))
    assert left.isdisjoint(old)
    assert left == set(new) if kind == "other" else left <= set(new)
    assert_all_embedded(database)
    assert [warnings_in(text) for text in logs] == [[], []]


def test_need_03_a_single_write_does_not_wait_for_company(
    make_provider: MakeProvider, config: dict[str, Any], database: Database, log: Log
) -> None:
    assert writer.LINGER_S <= 0.05
    provider = make_provider(config)
    report(provider, 1)
    landed(provider)
    took_s = []
    for number in range(2, 12):
        # Memories are written by the same batches; every fifth turn would bring one.
        provider.sync_turn(turn(number), ANSWER)
        started = time.monotonic()
        until(lambda number=number: database.themes_of_turn(turn(number)), 30, "the turn")  # type: ignore[misc]
        took_s.append(time.monotonic() - started)

    # The least of ten: what else this machine does lengthens some of them.
    assert min(took_s) < NOT_WAITED_S / 3
    assert log.warnings() == []
