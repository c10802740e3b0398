"""Calls to an endpoint in the background of a recall, which uses the results that arrive in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from ..domain.errors import EmbedderError

_T = TypeVar("_T")
_MAX_AT_ONCE = 8  # more would only wait for a stuck endpoint
# How long a thread waits for the next call: waking one takes less time than starting one, and the caller waits for it.
_LINGER_S = 10.0

_Job = Callable[[Callable[[], None]], None]  # is given the function to call when its thread can take the next job


class Background:
    """Runs each call on a daemon thread, at most eight at once: a stuck call blocks neither the others nor an exit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._slots = threading.BoundedSemaphore(_MAX_AT_ONCE)
        self._idle = _Idle()

    def submit(self, call: Callable[[], _T]) -> Future[_T] | None:
        """Start `call`, which may raise EmbedderError. Return None if too many are running or no thread can start."""
        if not self._slots.acquire(blocking=False):
            return None
        future: Future[_T] = Future()

        def run(wait: Callable[[], None]) -> None:
            result: list[_T] = []
            failure: EmbedderError | None = None
            try:
                result.append(call())
            except EmbedderError as exc:
                failure = exc
            finally:
                # Before the outcome is known: whoever waits for it may submit the next call.
                if result or failure:
                    wait()
                self._slots.release()
                if result:
                    future.set_result(result[0])
                else:
                    future.set_exception(failure or EmbedderError("the call was cancelled"))

        waiting = self._idle.taken()
        if waiting is not None:
            waiting.put(run)
            return future
        try:
            threading.Thread(target=_work, args=(run, self._idle), name=self._name, daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._slots.release()
            return None
        return future


class _Idle:
    """The threads that wait for a call, each by its queue; the last to begin waiting is taken first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: list[SimpleQueue[_Job]] = []

    def taken(self) -> SimpleQueue[_Job] | None:
        """Remove and return the queue of a waiting thread, to give it a call; None if no thread waits."""
        with self._lock:
            return self._queues.pop() if self._queues else None

    def add(self, queue: SimpleQueue[_Job]) -> None:
        """Note that the thread of this queue waits for a call."""
        with self._lock:
            self._queues.append(queue)

    def left(self, queue: SimpleQueue[_Job]) -> bool:
        """Remove the queue of a thread that has waited long. Return False if it was just taken: a call is coming."""
        with self._lock:
            if queue not in self._queues:
                return False
            self._queues.remove(queue)
            return True


def _work(job: _Job | None, idle: _Idle) -> None:
    """Run `job`, and the jobs that arrive after it."""
    queue: SimpleQueue[_Job] = SimpleQueue()
    while job is not None:
        job(partial(idle.add, queue))
        job = None  # so that what it refers to can be freed
        try:
            job = queue.get(timeout=_LINGER_S)
        except Empty:
            if not idle.left(queue):
                job = queue.get()


def result_by(future: Future[_T], until: float) -> _T:
    """Return the result, waiting until the moment `until` (monotonic). Raises TimeoutError or EmbedderError.

    If that moment has passed, only check whether the result is there.
    """
    return future.result(timeout=max(0.0, until - time.monotonic()))
