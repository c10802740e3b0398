"""Calls in the background of a recall."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hermes_memory_pgvector.recall.background import Background


@pytest.fixture
def no_threads() -> Iterator[None]:
    """The system refuses every thread: it has no stack for it."""
    before = threading.stack_size(2**46)
    yield
    threading.stack_size(before)


def test_calls_that_no_thread_could_be_started_for_take_no_place(no_threads: None) -> None:
    background = Background("test-background")
    assert [background.submit(lambda: 1) for _ in range(20)] == [None] * 20
    threading.stack_size(0)
    called = background.submit(lambda: 1)
    assert called is not None and called.result(60) == 1
