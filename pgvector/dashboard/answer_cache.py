"""Answers that may take longer than a page waits: made in the background, and kept until there are newer ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from .workers import in_background

_AT_ONCE = 4  # answers being made
_KINDS_MOST = 100  # kept, the most recently requested ones
_PAUSES = 10  # as many times as an answer takes, between two of them: the database has other things to do


@dataclass(frozen=True)
class CachedAnswer:
    """An answer and when it was made."""

    answer: Any
    at: datetime


@dataclass
class _Kept:
    last: CachedAnswer | None = None
    made_at: float = 0.0  # monotonic
    took_s: float = 0.0
    making: Future[None] | None = None

    def is_made(self) -> bool:
        """Return whether an answer is being made."""
        return self.making is not None and not self.making.done()


class AnswerCache:
    """Keeps the last answer of each kind. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def refresh(self, kind: str, make: Callable[[], Any], fresh_s: float) -> None:
        """Make an answer in the background, unless one is being made or the last one is at most `fresh_s` old.

        Answers that take long are made less often.
        """
        with self._lock:
            kept = self._kept.pop(kind, _Kept())
            self._kept[kind] = kept
            if len(self._kept) > _KINDS_MOST:
                del self._kept[next(iter(self._kept))]
            stale = kept.last is None or time.monotonic() > kept.made_at + max(fresh_s, _PAUSES * kept.took_s)
            if stale and not kept.is_made() and sum(each.is_made() for each in self._kept.values()) < _AT_ONCE:
                kept.making = in_background("hermes-pgvector-answer", partial(self._make, kept, make))

    def _make(self, kept: _Kept, make: Callable[[], Any]) -> None:
        began = time.monotonic()
        answer = make()
        with self._lock:
            kept.last, kept.made_at = CachedAnswer(answer, datetime.now(UTC)), time.monotonic()
            kept.took_s = kept.made_at - began

    def get(self, kind: str, until: float) -> CachedAnswer | None:
        """Return the last answer of a kind, None if there is none; wait for one that is being made.

        `until` is monotonic. Raises what making the answer raised if there is no older one.
        """
        with self._lock:
            kept = self._kept.get(kind) or _Kept()
            making = kept.making
        if making is not None:
            wait([making], max(0.0, until - time.monotonic()))
            if kept.last is None and making.done():
                making.result()
        return kept.last
