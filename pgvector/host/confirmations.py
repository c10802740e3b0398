"""Tokens that a dangerous call is repeated with: good once, for a while, for exactly what was shown."""

from __future__ import annotations

import secrets
import time
from typing import Final, NamedTuple

from ..domain.fork_safety import fork_lock
from ..store.memory_edits import Entry

LASTS_S: Final = 600.0
_MOST: Final = 1000  # of a client that asks and never confirms


class _Pending(NamedTuple):
    realm: object
    entries: tuple[Entry, ...]
    ends: float


class Confirmations:
    """What may be forgotten by whom. A `realm` is whatever tells one theme of one database from every other."""

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._pending: dict[str, _Pending] = {}

    def issue(self, realm: object, entries: tuple[Entry, ...]) -> str:
        """Return a token for forgetting `entries` within LASTS_S seconds."""
        now = time.monotonic()
        token = secrets.token_hex(8)
        with self._lock:
            self._pending = {key: held for key, held in self._pending.items() if held.ends > now}
            if len(self._pending) >= _MOST:
                del self._pending[next(iter(self._pending))]
            self._pending[token] = _Pending(realm, entries, now + LASTS_S)
        return token

    def spend(self, realm: object, token: str) -> tuple[Entry, ...]:
        """Return what `token` was issued for, once; nothing for an unknown, used, old one or one of another realm."""
        with self._lock:
            held = self._pending.get(token)
            if held is None or held.realm != realm:
                return ()
            del self._pending[token]
        return held.entries if held.ends > time.monotonic() else ()
