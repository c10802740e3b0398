"""When a write may itself be the reason why Postgres refuses it, though the error names another one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

from ..domain.errors import StoreUnsettled
from ..domain.operations import Operation
from .apply import POISON

PATIENCE_S = 120.0  # tables that are made anew, or restored, are there again by then
TRIES = 6


class WriteAlone(Protocol):
    """Writes an operation in a transaction of its own, and sets it aside when that ends with one of `refusals`."""

    def __call__(self, op: Operation, *, refusals: tuple[type[Exception], ...] = POISON) -> None: ...


class Doubt:
    """Notes failed attempts at a batch.

    The server's state is suspected first: only after `TRIES` and `PATIENCE_S` of them each write is looked at alone.
    """

    def __init__(self) -> None:
        self._since = 0.0
        self._tries = 0

    def settle(self) -> None:
        """Note that a batch was written whole."""
        self._tries = 0

    def grows(self, trouble: Exception) -> bool:
        """Note a failed attempt; True when its writes are to be looked at one by one."""
        if not isinstance(trouble, StoreUnsettled):
            return False
        if not self._tries:
            self._since = time.monotonic()
        self._tries += 1
        return self._tries >= TRIES and time.monotonic() - self._since >= PATIENCE_S


def write_apart(ops: Iterable[Operation], kinds_passed: Iterable[str], write: WriteAlone) -> None:
    """Write what can be written; what then still fails is set aside.

    Raises StoreUnsettled when no write of a kind passes: then it is not what they hold.
    """
    passed = set(kinds_passed)
    failed: list[tuple[Operation, StoreUnsettled]] = []
    for op in ops:
        try:
            write(op)
            passed.add(op.kind)
        except StoreUnsettled as exc:
            failed.append((op, exc))
    for op, reason in failed:
        if op.kind not in passed:
            raise reason
        write(op, refusals=(*POISON, StoreUnsettled))
