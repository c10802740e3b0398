"""The one thread of a process that writes to Postgres, after it has ended on an error."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conftest import MakeProvider
from tests.support.memory import landed, runtime_of
from tests.support.stored import Database
from tests.support.turns import ANSWER, turn, user_turns
from tests.support.waiting import until

HOOKS = 4
ENDS = 8


@contextmanager
def busy_interpreter() -> Iterator[None]:
    """Threads get in between each other everywhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def writers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hermes-pgvector-writer"]


class Bug:
    """An error that nobody expects, once, where the counters are collected."""

    def __init__(self, report: Callable[[], dict[str, Any]]) -> None:
        self._report = report
        self.due = False

    def __call__(self) -> dict[str, Any]:
        if self.due:
            self.due = False
            raise SystemExit
        return self._report()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_need_10_hooks_that_find_it_gone_start_one_again(
    make_provider: MakeProvider, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = make_provider()
    writer = runtime_of(provider).writer
    bug = Bug(writer._report)
    monkeypatch.setattr(writer, "_report", bug)
    provider.sync_turn(turn(0), ANSWER)
    landed(provider)
    for round_ in range(ENDS):
        bug.due, writer._due.report = True, 0.0
        writer._wake.set()
        until(lambda: not writers(), what="its end")
        together = threading.Barrier(HOOKS)

        def hook(number: int, together: threading.Barrier = together) -> None:
            together.wait()
            provider.sync_turn(turn(number), ANSWER)

        numbers = range(1 + round_ * HOOKS, 1 + (round_ + 1) * HOOKS)
        hooks = [threading.Thread(target=hook, args=(number,)) for number in numbers]
        with busy_interpreter():
            for each in hooks:
                each.start()
            for each in hooks:
                each.join()
        assert len(writers()) == 1
        landed(provider)
    assert sorted(user_turns(database)) == [turn(number) for number in range(1 + ENDS * HOOKS)]
