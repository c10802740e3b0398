"""Bringing what can still be had of a spool file that is gone into another one, a piece at a time."""

from __future__ import annotations

import time

from ..domain.errors import SpoolGone
from ..domain.operations import Operation
from .spool import Spool

_AT_ONCE, _BYTES_AT_ONCE = 256, 1_000_000  # some milliseconds


class Move:
    """From the file `source`, of which `why` tells, into another one."""

    def __init__(self, source: Spool, into: Spool, why: SpoolGone) -> None:
        self.source = source
        self.why = why
        self.lost = 0  # operations that cannot be had any more
        self.saved = 0
        self._into = into
        self._left: list[tuple[Operation, str]] | None = None

    def go_on(self, for_s: float, *, may_read: bool) -> bool:
        """Move for about so long; True when nothing is left to be moved. Raises SpoolError.

        Without `may_read` only what is in memory: a large file takes long to be read.
        """
        deadline = time.monotonic() + for_s
        if self._left is None:
            if not may_read and not self.source.remembers_all():
                return False
            self._left, self.lost = self.source.salvage()
            self.saved = len(self._left)
        while self._left:
            if time.monotonic() >= deadline:
                return False
            del self._left[: self._into.take_in(self._left[:_AT_ONCE], _BYTES_AT_ONCE)]
        return True

    def left(self) -> int:
        """How much is left to be moved; -1 while that is not known."""
        return -1 if self._left is None else len(self._left)
