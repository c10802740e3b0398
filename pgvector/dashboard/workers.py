"""Daemon threads: work that hangs on one delays neither an answer nor the end of the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from ..domain.errors import StoreUnavailable

_T = TypeVar("_T")


def in_background(name: str, work: Callable[[], _T]) -> Future[_T]:
    """Return the future of `work`, which runs on a thread of its own; it cannot be cancelled."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            found = work()
        except BaseException as exc:
            future.set_exception(exc)
        else:
            future.set_result(found)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class Workers:
    """Does the work of requests, at most `most` of them at once: work that hangs must not pile up."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._free = threading.BoundedSemaphore(most)

    async def answer(self, work: Callable[[], _T], timeout_s: float) -> _T:
        """Return the result of `work`. Raises TimeoutError if it takes longer, and StoreUnavailable if all are busy.

        Work that takes longer goes on, and keeps its place until it ends.
        """
        if not self._free.acquire(blocking=False):
            raise StoreUnavailable("too many requests wait for the database; ask again in a moment")
        try:
            working = in_background(self._name, work)
        except RuntimeError as exc:  # no thread can be started
            self._free.release()
            raise StoreUnavailable(f"{exc}; ask again in a moment") from exc
        working.add_done_callback(lambda _: self._free.release())
        return await asyncio.wait_for(asyncio.wrap_future(working), timeout_s)
