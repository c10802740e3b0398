"""The spools of dead processes that this one empties."""

from __future__ import annotations

from collections.abc import Iterator

from ..domain.errors import SpoolError
from .memory_queue import Queue
from .own_queues import OwnQueues
from .resend import Kept
from .spool import Spool
from .spool_directory import ADOPTED_AT_ONCE, SpoolDirectory


class Adopted:
    """A few spools at a time, oldest first. Used by the drain thread; others only count."""

    def __init__(self, directory: SpoolDirectory) -> None:
        self._directory = directory
        self._spools: list[Spool] = []

    def __iter__(self) -> Iterator[Spool]:
        return iter(list(self._spools))

    def __contains__(self, queue: Queue) -> bool:
        return queue in self._spools

    def depth(self) -> int:
        """Return how many writes wait in them."""
        return sum(spool.depth() for spool in self)

    def take_more(self, kept: Kept) -> None:
        """Adopt what dead processes left, as far as there is room; what `kept` knows to be lacking is sent again."""
        for spool in self._directory.adopt(ADOPTED_AT_ONCE - len(self._spools)):
            self._spools.append(spool)
            kept.send_again(spool, self._directory.destination)

    def check_files(self, own: OwnQueues) -> None:
        """Let go of those whose files are gone; what they held is this process's own now."""
        self._spools = [spool for spool in self._spools if own.look_at(spool)]

    def let_go_of_empty(self) -> bool:
        """Let go of those in which nothing waits; True when there were some, and so room for more."""
        found = False
        for spool in self:
            try:
                spool.recount()
                if not spool.depth():
                    self._spools.remove(spool)
                    self._directory.rest(spool)
                    found = True
            except SpoolError as exc:
                self.give_up(spool, exc)
        return found

    def give_up(self, damaged: Queue, exc: SpoolError) -> None:
        """Leave a file that cannot be read where it is: it must not hold up the others."""
        for spool in self:
            if spool is damaged:
                self._spools.remove(spool)
                self._directory.give_up(spool, exc)

    def close(self) -> None:
        """Let go of all."""
        for spool in self:
            self._directory.discard(spool)
        self._spools.clear()
