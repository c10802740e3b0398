"""The spools that dead processes left, which the drain thread empties."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from ..domain.errors import HermesPgvectorError, SpoolError, SpoolGone
from .queues import OwnQueues, Queue, found_gone
from .resend import AcknowledgedWrites
from .spool import Spool
from .spool_directory import ADOPTED_AT_ONCE, SpoolDirectory
from .spool_format import maker_of

logger = logging.getLogger(__name__)

_SHARE = 10  # looking for files that could not be adopted takes at most this part of the time


class AdoptedSpools:
    """A few spools at a time, oldest first. Used by the drain thread; others only count."""

    def __init__(self, directory: SpoolDirectory) -> None:
        self._directory = directory
        self._spools: list[Spool] = []
        self._waiting = False  # there are files that could not be adopted
        self._lacks_own = False  # ... because no disk took a file of our own
        self._look_at = 0.0

    def __iter__(self) -> Iterator[Spool]:
        return iter(list(self._spools))

    def __contains__(self, queue: Queue) -> bool:
        return queue in self._spools

    def depth(self) -> int:
        """Return how many writes wait in them."""
        return sum(spool.depth for spool in self)

    def take_more(self, own: OwnQueues, kept: AcknowledgedWrites) -> None:
        """Adopt what dead processes left, have `kept` send again what the server lacks. Raises HermesPgvectorError.

        While no disk takes a file of our own all have to wait: what they keep would have no place.
        """
        began = time.monotonic()
        if own.open() is not None:
            self._adopt(kept)
        self._lacks_own = own.open() is None
        self._waiting = self._lacks_own or self._directory.some_wait
        self._look_at = time.monotonic() + _SHARE * (time.monotonic() - began)

    def _adopt(self, kept: AcknowledgedWrites) -> None:
        for spool in self._directory.adopt(ADOPTED_AT_ONCE - len(self._spools)):
            try:
                kept.inherit(spool)
            except SpoolError as exc:  # what can be read of it goes all the same
                logger.debug("hermes-pgvector: %s", exc)
            except HermesPgvectorError:  # what waits in it is newer than what may be lacking: neither goes now
                self._directory.let_go(spool)
                raise
            self._spools.append(spool)

    def look_again(self, own: OwnQueues, kept: AcknowledgedWrites) -> bool:
        """Return True where older files may be adopted now: before newer writes go, once these are empty."""
        if len(self._spools) == ADOPTED_AT_ONCE and self.let_go_of_empty(own, kept):
            return True
        return self._waiting and (time.monotonic() >= self._look_at or (self._lacks_own and own.open() is not None))

    def check_files(self, own: OwnQueues) -> None:
        """See that the files are still there; a new one takes the place of one that is gone."""
        for at, spool in enumerate(self._spools):
            if (gone := found_gone(spool)) is not None:
                self._spools[at] = own.write_anew(spool, gone) or spool

    def queues(self, own: OwnQueues) -> list[Queue]:
        """Return them, in the order in which they are to be emptied, with what `own` has still to move into them."""
        found: list[Queue] = []
        for spool in self:
            found += [spool, *own.moves_into(spool)]
        return found

    def let_go_of_empty(self, own: OwnQueues, kept: AcknowledgedWrites) -> bool:
        """Let go of those in which nothing waits; True when there were some, and so room for more."""
        found = False
        for spool in self:
            if own.moves_into(spool):
                continue
            try:
                spool.recount()
                # What it keeps may have failed to be taken over when it was adopted.
                if not spool.depth and kept.inherit(spool):
                    self._spools.remove(spool)
                    self._directory.rest(spool)
                    found = True
            except SpoolGone:  # `check_files` has it written anew
                pass
            except SpoolError as exc:
                self.give_up(spool, exc)
        return found

    def give_up(self, damaged: Queue, exc: SpoolError) -> None:
        """Leave a file that cannot be read where it is: it must not hold up those of other processes.

        The newer ones of its process are adopted anew once it can be read, or is known to be damaged.
        """
        for at, spool in enumerate(self):
            if spool is damaged:
                newer = [each for each in self._spools[at + 1 :] if maker_of(each.path) == maker_of(spool.path)]
                self._spools = [each for each in self._spools if each is not spool and each not in newer]
                self._directory.give_up(spool, exc)
                for each in newer:
                    self._directory.discard(each)

    def close(self) -> None:
        """Let go of all."""
        for spool in self:
            self._directory.discard(spool)
        self._spools.clear()
