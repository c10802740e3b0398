"""The spools that dead processes left, which the drain thread empties."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

from ..domain.errors import HermesPgvectorError, SpoolError, SpoolGone
from .borrowed_file import BorrowedFile
from .queues import OwnQueues, Queue, found_gone
from .resend import AcknowledgedWrites
from .spool import Spool
from .spool_directory import SpoolDirectory
from .spool_format import made_at_ns, maker_of

logger = logging.getLogger(__name__)

_SHARE = 10  # at most 1/_SHARE of the time goes into looking again for files that could not be adopted
_PAUSE_S = 0.02
_AT_ONCE = 8  # each takes some of the host's file descriptors


class AdoptedSpools:
    """The adopted spools, a few at a time, oldest first. Used by the drain thread; other threads only count them.

    `own` are the files of this process; `kept` takes over what others keep, and resends what the server lacks of it.
    """

    def __init__(self, directory: SpoolDirectory, own: OwnQueues, kept: AcknowledgedWrites) -> None:
        self._directory = directory
        self._own = own
        self._kept = kept
        self._spools: list[Spool] = []
        self._borrowed: list[BorrowedFile] = []
        self._waiting = False  # there are files that could not be adopted
        self._lacks_own = False  # ... because no disk could be written for a file of our own
        self._look_at = 0.0

    def __iter__(self) -> Iterator[Spool]:
        return iter(list(self._spools))

    def __contains__(self, queue: Queue) -> bool:
        return queue in self._spools or queue in self._borrowed

    def depth(self) -> int:
        """Return how many writes wait in the spools."""
        return sum(each.depth for each in (*self, *list(self._borrowed)))

    def take_more(self) -> None:
        """Adopt spools of dead processes. Raises HermesPgvectorError.

        While no file of our own can be created, none is adopted: there is no place for what they keep. What waits in
        them goes to Postgres in its turn all the same.
        """
        began = time.monotonic()
        if self._own.open() is not None:
            self._adopt()
        self._lacks_own = self._own.open() is None
        self._waiting = self._lacks_own or self._directory.some_wait
        self._borrow()
        self._look_at = time.monotonic() + _SHARE * (time.monotonic() - began)

    def _adopt(self) -> None:
        for spool in self._directory.adopt(_AT_ONCE - len(self._spools)):
            try:
                self._kept.inherit(spool)
            except SpoolError as exc:  # what can be read of it is sent all the same
                logger.debug("hermes-pgvector: %s", exc)
            except HermesPgvectorError:  # what waits is newer than what the server may lack: neither is sent now
                self._directory.let_go(spool)
                raise
            self._spools.append(spool)

    def _borrow(self) -> None:
        """Read the files that cannot be adopted, up to one that cannot even be read, or all that are newer wait for."""
        known = {each.path: each for each in self._borrowed}
        self._borrowed = []
        if self._waiting and not self._directory.held.delay_any():
            with contextlib.suppress(SpoolError, OSError):
                for path in self._directory.unowned():
                    file = known.get(path) or BorrowedFile(path)
                    if self._directory.destination.takes(*file.accepted_for):
                        self._borrowed.append(file)

    def look_again(self) -> bool:
        """Return True if files may be adopted now that go before others; asked once these are empty.

        Newer writes of this process wait for them, and so do the files of processes that died later.
        """
        held = self._directory.held.delay_any()
        if not self._own.depth() and not held:
            return False
        if len(self._spools) == _AT_ONCE and self.let_go_of_empty():
            return True
        if held:
            time.sleep(_PAUSE_S)
            return True
        if not self._waiting:
            return False
        return time.monotonic() >= self._look_at or (self._lacks_own and self._own.open() is not None)

    def check_files(self) -> None:
        """Check that the files are intact, and replace one that is gone by a new one."""
        for spool in self:
            if (gone := found_gone(spool)) is not None:
                self._write_anew(spool, gone)

    def _write_anew(self, gone: Spool, why: SpoolGone) -> bool:
        """Put a new file in the place of one that is gone; return False if none can be created now."""
        if (into := self._own.write_anew(gone, why)) is None:
            return False
        self._spools[self._spools.index(gone)] = into
        return True

    def rescue(self, failed: Queue, exc: SpoolError) -> None:
        """Replace a file that cannot be read because it is gone, as `check_files` does; give up one that is damaged.

        Raises `exc` while no new file can be created: what is newer may not be sent before what is to be rescued.
        """
        self._borrowed = [each for each in self._borrowed if each is not failed]
        if not isinstance(failed, Spool):
            return
        if (gone := found_gone(failed)) is None:
            self._give_up(failed, exc)
        elif not self._write_anew(failed, gone):
            raise exc

    def queues(self) -> list[Queue]:
        """Return the spools in the order in which they are to be emptied, each with the unfinished moves into it."""
        found: list[Queue] = []
        for each in sorted((*self, *self._borrowed), key=lambda each: made_at_ns(each.path)):
            found += [each, *self._own.moves_into(each)] if isinstance(each, Spool) else [each]
        return found

    def let_go_of_empty(self) -> bool:
        """Release the spools in which nothing waits; return True if there were any, so that there is room for more."""
        found = False
        for spool in self:
            if self._own.moves_into(spool):
                continue
            try:
                spool.recount()
                # Taking over what it keeps may have failed when it was adopted.
                if not spool.depth and self._kept.inherit(spool):
                    self._spools.remove(spool)
                    self._directory.rest(spool)
                    found = True
            except SpoolGone:  # `check_files` replaces it
                pass
            except SpoolError as exc:
                self._give_up(spool, exc)
        return found

    def _give_up(self, damaged: Spool, exc: SpoolError) -> None:
        """Release a file that cannot be read, and leave it: it must not hold up the files of other processes.

        Newer files of its process are released too, and adopted again once it can be read or is known to be damaged.
        """
        if damaged not in self._spools:  # released with an older one
            return
        after = self._spools[self._spools.index(damaged) + 1 :]
        newer = [each for each in after if maker_of(each.path) == maker_of(damaged.path)]
        self._spools = [each for each in self._spools if each not in (damaged, *newer)]
        self._directory.give_up(damaged, exc)
        for each in newer:
            self._directory.discard(each)

    def close(self) -> None:
        """Release all spools."""
        for spool in self:
            self._directory.discard(spool)
        self._spools.clear()
        self._borrowed.clear()
