"""Background work gives way to the agent."""

from __future__ import annotations

import threading
import time

from hermes_memory_pgvector.domain.gil import note_hook, yielding_gil


def _spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_a_thread_that_wants_the_interpreter_gets_it_between_two_items() -> None:
    turns: list[str] = []
    working, stop = threading.Event(), threading.Event()

    def hook() -> None:
        working.wait(30)
        turns.append("hook")
        stop.set()

    thread = threading.Thread(target=hook)
    thread.start()
    working.set()
    for number in yielding_gil(range(100_000)):
        turns.append(f"item {number}")
        if stop.is_set():
            break
        _spin(100e-6)
    assert stop.is_set(), "before the last of them"
    thread.join(30)
    assert "hook" in turns


def test_items_come_whole_and_in_order_beside_hooks_as_well() -> None:
    note_hook()
    assert list(yielding_gil(range(1000))) == list(range(1000))
