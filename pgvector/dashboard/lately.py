"""Answers that may take longer than a page waits: made in the background, and kept until there are newer ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_THREADS = 3  # for as many kinds of answers


@dataclass(frozen=True)
class Told:
    """An answer and when it was made."""

    answer: Any
    at: datetime


@dataclass
class _Kept:
    told: Told | None = None
    made_s: float = 0.0  # monotonic, when the last one ended
    making: Future[None] | None = None


class Lately:
    """Keeps the last answer of each kind. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "hermes-pgvector-lately")

    def refresh(self, kind: str, make: Callable[[], Any], fresh_s: float) -> None:
        """Have an answer made in the background, unless that goes on or the last one is at most `fresh_s` old."""
        with self._lock:
            kept = self._kept.setdefault(kind, _Kept())
            stale = kept.told is None or time.monotonic() - kept.made_s > fresh_s
            if stale and (kept.making is None or kept.making.done()):
                kept.making = self._threads.submit(self._make, kept, make)

    def _make(self, kept: _Kept, make: Callable[[], Any]) -> None:
        answer = make()
        with self._lock:
            kept.told, kept.made_s = Told(answer, datetime.now(UTC)), time.monotonic()

    def told(self, *kinds: str, wait_s: float) -> list[Told | None]:
        """Return the last answer of each kind, None where there is none; those being made are waited for.

        Raises what making one raised where there is no older one.
        """
        with self._lock:
            kept = [self._kept[kind] for kind in kinds]
            making = [each.making for each in kept if each.making is not None]
        wait(making, wait_s)
        for each in kept:
            if each.told is None and each.making is not None and each.making.done():
                each.making.result()
        return [each.told for each in kept]

    def close(self) -> None:
        """Make nothing more; what is being made is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
