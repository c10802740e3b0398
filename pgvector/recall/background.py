"""Calls to an endpoint beside the work of a recall: what comes in time is taken, the rest is dropped."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from ..domain.errors import EmbedderError

_T = TypeVar("_T")
_MAX_AT_ONCE = 8  # more would only wait for a stuck endpoint


class Late(EmbedderError):
    """The endpoint did not answer in time; recall went on without it."""


class Pending(Generic[_T]):
    """The outcome of a call that may still be under way. To be asked by one thread."""

    def __init__(self) -> None:
        self._box: queue.SimpleQueue[_T | EmbedderError] = queue.SimpleQueue()

    def put(self, outcome: _T | EmbedderError) -> None:
        """Tell the outcome; called once, by the thread that works."""
        self._box.put(outcome)

    def take(self, until: float) -> _T:
        """The result, waited for until the moment `until` (monotonic). Raises EmbedderError, Late when there is none.

        A moment that has passed only looks whether the result is there. It is handed out once.
        """
        try:
            wait_s = until - time.monotonic()
            outcome = self._box.get(timeout=wait_s) if wait_s > 0 else self._box.get_nowait()
        except queue.Empty:
            raise Late() from None
        if isinstance(outcome, EmbedderError):
            raise outcome
        return outcome


class Aside:
    """Runs calls on threads of their own, at most eight at once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._slots = threading.BoundedSemaphore(_MAX_AT_ONCE)

    def start(self, call: Callable[[], _T]) -> Pending[_T] | None:
        """Begin `call`, which may raise EmbedderError; None when too many are under way."""
        if not self._slots.acquire(blocking=False):
            return None
        pending: Pending[_T] = Pending()

        def run() -> None:
            outcome: _T | EmbedderError = Late("the call was broken off")
            try:
                outcome = call()
            except EmbedderError as exc:
                outcome = exc
            finally:
                self._slots.release()
                pending.put(outcome)

        threading.Thread(target=run, name=self._name, daemon=True).start()
        return pending
