"""The queues of this process, which the drain thread empties."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ..domain.errors import SpoolBusy, SpoolError, SpoolFull, SpoolGone
from ..domain.gil import yield_gil
from ..domain.operations import Operation
from .memory_queue import MemoryQueue, StandIn
from .resend import AcknowledgedWrites
from .salvage import Salvage
from .spool import Spool
from .spool_directory import SpoolDirectory

logger = logging.getLogger(__name__)

Queue: TypeAlias = Spool | MemoryQueue  # what the drain thread empties
_MOVED_AT_ONCE = 64
_FILES_MOST = 16  # of one process: whoever locks more of them than that is not to be evaded
_ATTEMPTS = 5  # of one write to find a file that takes it
_SPARED_S = 30.0  # a place that took no more is left alone for so long
_HOOK_MOVES_S = 0.01  # a hook spends so long on what another file held, and leaves the rest to who comes next


class OwnQueues:
    """The spools of this process, the last of which takes what comes, and their stand-in in memory.

    Mostly there is one spool. Another one is begun beside it while it cannot be had: somebody else's lock is on it, its
    disk takes no more, or it was deleted or damaged. Whatever is in an older one goes to Postgres first.
    """

    def __init__(self, directory: SpoolDirectory, memory_max_bytes: int) -> None:
        self._directory = directory
        self._memory = StandIn(memory_max_bytes)
        self._older: list[Spool] = []
        self._moves: list[Salvage] = []
        self._moved: list[Spool] = []  # files of which all that waited is elsewhere
        self._spared: dict[Path, float] = {}  # places that took no more, and until when they are left alone
        self._spool: Spool | None = None
        self._pid = os.getpid()
        self._moving = threading.Lock()
        self._rescuing = threading.Lock()  # around what is moved from a file that is gone
        self._changing = threading.RLock()  # around which files there are
        self._warned = False
        self.lost = 0  # operations that were accepted, and are in no file and not in memory any more
        self.open()

    def open(self) -> Spool | None:
        """Return the spool, opened now where that failed before; None while it cannot be."""
        with self._changing:
            if self._spool is None:
                self._spool = self._begun()
            return self._spool

    def _begun(self, instead_of: Spool | None = None) -> Spool | None:
        """Return a new file; None, which is told, where no disk takes one."""
        try:
            return self._begin(instead_of)
        except SpoolError as exc:
            self._warn(exc)
            return None

    def _begin(self, instead_of: Spool | None = None) -> Spool:
        now = time.monotonic()
        self._spared = {folder: until for folder, until in self._spared.items() if until > now}
        return self._directory.open_own(
            taken_bytes=sum(spool.size_bytes for spool in (*self.spools(), *(move.source for move in self._moves))),
            spare=self._spared.keys(),
            instead_of=None if instead_of is None else instead_of.path,
        )

    def append(self, op: Operation) -> None:
        """Keep `op`: when this returns it is on disk, or in memory while no disk takes anything. Raises SpoolFull."""
        if self._moves:
            self._go_on_moving(_HOOK_MOVES_S, in_hook=True)
        # What went to memory goes to Postgres after the spool, so what follows it has to go there as well.
        for _ in range(_ATTEMPTS):
            if (spool := self._spool) is None or self._memory.depth:
                break
            try:
                spool.append(op)
                self._warned = False
                return
            except SpoolFull:
                raise
            except SpoolError as exc:
                if not self._leave_behind(spool, exc):
                    self._warn(exc)
                    break
        self._memory.append(op)

    def _leave_behind(self, spool: Spool, exc: SpoolError) -> bool:
        """Begin a file beside one that could not be had; False when there cannot be one."""
        with self._changing:
            if spool is not self._spool:  # another thread was first
                return self._spool is not None
            if isinstance(exc, SpoolGone):
                return self.rescue(spool, exc)
            if not isinstance(exc, SpoolBusy):
                self._spared[spool.path.parent] = time.monotonic() + _SPARED_S
            if len(self._older) >= _FILES_MOST:
                return False
            try:
                self._spool = self._begin()
            except SpoolError:
                return False
            self._older.append(spool)
        logger.warning("hermes-pgvector: writes go to another file of the spool, %s: %s", self._spool.path, exc)
        return True

    def rescue(self, gone: Spool, exc: SpoolGone) -> bool:
        """Begin to write anew what can still be had of a file of this process that was deleted, cut or overwritten.

        False where that cannot be done now.
        """
        with self._changing:
            if gone not in self.spools():  # another thread was first
                return True
            if (into := self.write_anew(gone, exc)) is None:
                return False
            if gone is self._spool:  # what comes now goes to a file of its own, after all that is moved to this one
                fresh = self._begun()
                self._older.append(into)
                self._spool = fresh
            else:
                self._older[self._older.index(gone)] = into
        self._go_on_moving(_HOOK_MOVES_S, in_hook=True)
        return True

    def write_anew(self, gone: Spool, exc: SpoolGone) -> Spool | None:
        """Return a new file, into which what `gone` held is to be moved; None where there cannot be one now."""
        with self._changing:
            if (into := self._begun(gone)) is None:
                return None
            if not self.moves_into(gone):
                self._moves.append(Salvage(gone, into, exc))
                return into
            with self._rescuing:  # what was still to be moved into `gone` follows what is there already
                unfinished = self.moves_into(gone)
                for move in unfinished:
                    move.into = into
                at = self._moves.index(unfinished[0]) if unfinished else len(self._moves)
                self._moves.insert(at, Salvage(gone, into, exc))
            return into

    def moves_into(self, spool: Spool) -> list[Salvage]:
        """Return what is still to be moved into a file."""
        return [move for move in list(self._moves) if move.into is spool]

    def _go_on_moving(self, for_s: float, *, in_hook: bool = False) -> None:
        """Write anew for about so long what files that are gone still held; the rest is for whoever comes next."""
        if not self._rescuing.acquire(blocking=not in_hook):  # somebody is at it
            return
        try:
            while self._moves and (move := self._moves[0]).go_on(for_s, may_read=not in_hook):
                self._note_moved(move)
                self._moves.remove(move)
        except SpoolError as exc:
            logger.debug("hermes-pgvector: %s", exc)
        finally:
            self._rescuing.release()

    def _note_moved(self, move: Salvage) -> None:
        if not move.lost:
            self._directory.delete(move.source)
        self._moved.append(move.source)  # open still: to read what it keeps takes long, and a hook may wait
        self.lost += move.lost
        logger.warning("hermes-pgvector: %s; the %d writes in it are in a new file now", move.why, move.saved)
        if move.lost:
            logger.error("hermes-pgvector: %d accepted writes cannot be recovered and are lost", move.lost)

    def finish_moves(self) -> None:
        """Write anew all that files which are gone still held, without holding a hook up."""
        before = None
        while self._moves and before != (before := (len(self._moves), self._moves[0].left())):
            self._go_on_moving(_HOOK_MOVES_S)
            yield_gil()

    def look_after(self, kept: AcknowledgedWrites) -> None:
        """See that the files are still there, and let go of those not needed any more; `kept` gets what they keep."""
        for spool in self.spools():
            if (gone := found_gone(spool)) is not None:
                self.rescue(spool, gone)
        self.finish_moves()
        self.let_go_of_moved(kept)
        with self._changing:
            older = list(self._older) if not self._moves else []
        for spool in older:  # without the lock: what a file keeps takes long to be taken over, and a hook may wait
            with contextlib.suppress(SpoolError):
                spool.recount()
                if not spool.depth and not spool.rejected_count and kept.take_over(spool):
                    with self._changing:
                        self._older.remove(spool)
                    self._directory.discard(spool)
        with self._changing:
            self._return_home()

    def let_go_of_moved(self, kept: AcknowledgedWrites) -> None:
        """Let go of files that are gone and whose writes are in new ones."""
        while self._moved:
            kept.take_over(self._moved[0], gone=True)
            self._directory.let_go(self._moved.pop(0))

    def _return_home(self) -> None:
        """Begin anew in the home, once all that went elsewhere has arrived."""
        spool = self._spool
        if spool is None or self._directory.is_preferred(spool) or spool.depth or self._older:
            return
        if self._spared.get(self._directory.folder, 0.0) > time.monotonic():
            return
        with contextlib.suppress(SpoolError):
            fresh = self._begin()
            if self._directory.is_preferred(fresh):
                self._older, self._spool = [spool], fresh
            else:
                self._spared[self._directory.folder] = time.monotonic() + _SPARED_S
                self._directory.discard(fresh)

    def move_to_disk(self) -> None:
        """Put into the spool what is in memory only, as far as the disk takes it by now.

        For the thread that empties the queues, or once that can be waited for no longer: what it writes at that moment
        is written once all the same. What Postgres has refused is rejected once more.
        """
        # A child's copy of the memory is the parent's to bring home.
        if self._pid != os.getpid():
            return
        self.finish_moves()
        if self._memory.empty():
            return
        with self._moving:
            if (spool := self.open()) is None:
                return
            try:
                moved = self._write_memory(spool)
            except SpoolError as exc:  # that was told when it began
                if not isinstance(exc, SpoolFull):
                    self._leave_behind(spool, exc)
                return
        if moved and self._memory.empty():
            self._warned = False
            logger.info("hermes-pgvector: the writes that were in memory only are on disk now")

    def _write_memory(self, into: Spool) -> int:
        """Move what is in memory to a file; return how many writes. Raises SpoolError."""
        moved = 0
        while ops := self._memory.take(_MOVED_AT_ONCE) or [item.operation for item in self._memory.rejected()]:
            for op in ops:
                into.append(op)
                self._memory.ack([op])
            moved += len(ops)
        return moved

    def label(self) -> None:
        """Note in the files for which database their writes are, now that it is known."""
        for spool in self.spools():
            with contextlib.suppress(SpoolError):
                spool.label(self._directory.destination.place, self._directory.destination.database)

    def queues(self) -> list[Queue]:
        """Return all queues, in the order in which they are to be emptied."""
        with self._changing:
            found: list[Queue] = []
            for spool in self.spools():
                found += [spool, *self.moves_into(spool)]
            return [*found, self._memory]

    def spools(self) -> list[Spool]:
        """Return the files, where there are some, in the order in which they are to be emptied."""
        with self._changing:
            return [*self._older, *([] if self._spool is None else [self._spool])]

    def keeping(self) -> list[Spool]:
        """Return the files that may keep what was acknowledged, also those that are gone and not let go of yet."""
        # In the order in which a hook takes one from here to there, so that none is missed between two of them.
        found = [*self.spools(), *(move.source for move in list(self._moves)), *self._moved]
        return list(dict.fromkeys(found))

    def in_memory(self) -> int:
        """Return how many operations wait in memory only."""
        return self._memory.depth

    def depth(self) -> int:
        """Return how many operations wait. What is being moved counts twice rather than not at all."""
        with self._changing:  # else a file may be found gone in between, and what it held be in neither sum
            moved = sum(move.depth for move in list(self._moves))  # first, for it is in a file afterwards
            return moved + self._memory.depth + sum(spool.depth for spool in self.spools())

    def checkpoint(self) -> None:
        """Have the log of the file written into it."""
        for spool in self.spools():
            spool.checkpoint()

    def publish(self, report: Callable[[], Mapping[str, Any]]) -> None:
        """Leave the counters in the file, where other processes, the operator's among them, can read them."""
        for spool in self.spools()[-1:]:
            with contextlib.suppress(SpoolError):  # neither a full disk nor a damaged file holds a write up
                spool.publish(report())

    def _warn(self, exc: SpoolError) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("hermes-pgvector: writes are kept in memory only and are lost with this process: %s", exc)


def found_gone(spool: Spool) -> SpoolGone | None:
    """Return how the files of a spool are no longer what they were; None while they are in order, or held."""
    try:
        spool.check()
    except SpoolGone as exc:
        return exc
    except SpoolError:  # held by another program
        pass
    return None
