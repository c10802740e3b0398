"""An agent that goes on talking while something fails, and what has to be in Postgres afterwards."""

from __future__ import annotations

import logging
import statistics
import threading
from types import TracebackType
from typing import Self

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider

from .limits import LANDED_TIMEOUT_S, MOSTLY_NOT_WAITED_S, NOT_WAITED_S
from .memory import runtime_of
from .stored import Database
from .turns import ANSWER, memories, seconds, turn, user_turns
from .waiting import until

# Fast enough to have many writes under way at any moment, slow enough not to fill a test's log.
_PACE_S = 0.01


class Traffic:
    """Turns and memories of one session, reported without pause on a thread of its own until the block ends.

    `numbers` are those whose hooks have returned, in order. Every fifth turn also writes a memory.
    """

    def __init__(self, provider: PgvectorMemoryProvider, first: int = 1) -> None:
        self._provider = provider
        self._next = first
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self.numbers: list[int] = []
        self.took_s: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._enough.set()
        self._thread.join()

    def wait_for(self, count: int) -> None:
        """Returns when that many more turns were reported."""
        goal = len(self.numbers) + count
        until(lambda: len(self.numbers) >= goal, LANDED_TIMEOUT_S, f"{count} turns")

    def go_on_for(self, duration_s: float) -> None:
        """Returns when as many more turns were reported as an undisturbed agent reports in that time."""
        self.wait_for(round(duration_s / _PACE_S))

    def _run(self) -> None:
        while not self._enough.wait(_PACE_S):
            number = self._next
            self.took_s.append(seconds(lambda number=number: report(self._provider, number)))  # type: ignore[misc]
            self.numbers.append(number)
            self._next += 1

    def assert_never_waited(self) -> None:
        """Every hook returned at once."""
        assert statistics.median(self.took_s) < MOSTLY_NOT_WAITED_S
        assert max(self.took_s) < NOT_WAITED_S


def report(provider: PgvectorMemoryProvider, number: int) -> None:
    """One turn, as the host reports it."""
    provider.sync_turn(turn(number), ANSWER)
    if number % 5 == 0:
        provider.on_memory_write("add", "memory", fact(number))


def fact(number: int) -> str:
    return f"Fact {number}: {turn(number)}"


def assert_all_landed(provider: PgvectorMemoryProvider, database: Database, numbers: list[int]) -> None:
    """Everything reported is in Postgres: each once, in order, with its vector; nothing was set aside or waits."""
    writer = runtime_of(provider).writer
    until(lambda: not writer.depth(), LANDED_TIMEOUT_S, "the spool to be empty")
    assert writer.rejected_count() == 0
    assert user_turns(database) == [turn(number) for number in numbers]
    answers = database.column("SELECT content FROM conversations WHERE role = 'assistant'")
    assert answers == [ANSWER] * len(numbers)
    assert memories(database) == [fact(number) for number in numbers if number % 5 == 0]
    assert_all_embedded(database)


def assert_all_embedded(database: Database) -> None:
    for table in ("conversations", "memory_entries"):
        pending = f"SELECT id FROM {table} WHERE embedding IS NULL"
        until(lambda pending=pending: not database.column(pending), LANDED_TIMEOUT_S, f"vectors in {table}")  # type: ignore[misc]


class Log:
    """What all of this process logged in a test: our own lines, and what libraries had to say."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self._caplog = caplog

    def warnings(self) -> list[str]:
        """Everything of level WARNING and above, whoever said it."""
        return [f"{r.name}: {r.getMessage()}" for r in self._caplog.records if r.levelno >= logging.WARNING]

    def ours(self) -> list[str]:
        """Our own lines of level INFO and above, in order."""
        return [
            r.getMessage()
            for r in self._caplog.records
            if r.levelno >= logging.INFO and r.name.startswith("hermes_memory_pgvector")
        ]

    def assert_outages(self, count: int) -> None:
        """Each outage was told once when it began and once when it was over, and nothing else was.

        But for the writer's own line: it may learn of an end that a recall has told, and seen pass, already.
        """
        told = [line for line in self.ours() if DOWN in line or BACK in line]
        assert [BACK in line for line in told] == [False, True] * count, told
        assert len([line for line in self.warnings() if RETRIED not in line]) == count, self.warnings()

    def assert_some_outages(self, most: int) -> None:
        """Told in turn, down and back, between one and `most` times; nothing else was."""
        told = [line for line in self.ours() if DOWN in line or BACK in line]
        count = len(told) // 2
        assert 1 <= count <= most, told
        self.assert_outages(count)


DOWN, BACK = "memory is out of reach", "Postgres is back"
RETRIED = "writes wait in the spool and are tried again"
