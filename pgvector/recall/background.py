"""Calls to an endpoint in the background of a recall, which takes what comes in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from ..domain.errors import EmbedderError

_T = TypeVar("_T")
_MAX_AT_ONCE = 8  # more would only wait for a stuck endpoint


class Background:
    """Runs calls on daemon threads of their own, at most eight at once: a stuck one holds up no other and no exit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._slots = threading.BoundedSemaphore(_MAX_AT_ONCE)

    def submit(self, call: Callable[[], _T]) -> Future[_T] | None:
        """Begin `call`, which may raise EmbedderError; None when too many are under way."""
        if not self._slots.acquire(blocking=False):
            return None
        future: Future[_T] = Future()

        def run() -> None:
            result: list[_T] = []
            failure = EmbedderError("the call was cancelled")
            try:
                result.append(call())
            except EmbedderError as exc:
                failure = exc
            finally:
                self._slots.release()  # before anybody knows of the outcome, who may submit the next one
                future.set_result(result[0]) if result else future.set_exception(failure)

        threading.Thread(target=run, name=self._name, daemon=True).start()
        return future


def result_by(future: Future[_T], until: float) -> _T:
    """Return the result, waited for until the moment `until` (monotonic). Raises TimeoutError or EmbedderError.

    A moment that has passed only looks whether the result is there.
    """
    return future.result(timeout=max(0.0, until - time.monotonic()))
