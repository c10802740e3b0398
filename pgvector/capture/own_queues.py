"""What this process has accepted: on disk, and while the disk takes nothing, in memory."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping
from typing import Any

from ..domain.errors import SpoolError, SpoolFull
from ..domain.models import Operation
from .memory_queue import MemoryQueue, Queue
from .spool import Spool
from .spool_files import SpoolDirectory

logger = logging.getLogger(__name__)

_MOVED_AT_ONCE = 64


class OwnQueues:
    """The spool of this process and its stand-in, which holds what came after everything in the spool."""

    def __init__(self, directory: SpoolDirectory, memory_max_items: int) -> None:
        self._directory = directory
        self._memory = MemoryQueue(memory_max_items)
        self._spool: Spool | None = None
        self._opening = threading.RLock()
        self._warned = False
        self.open()

    def open(self) -> bool:
        """Open the spool where that failed before; True once there is one."""
        with self._opening:
            if self._spool is None:
                try:
                    self._spool = self._directory.open_own()
                except SpoolError as exc:
                    self._warn(exc)
        return self._spool is not None

    def append(self, op: Operation) -> None:
        """Keep `op`: when this returns it is on disk, or in memory while the disk takes nothing. Raises SpoolFull."""
        # What went to memory goes to Postgres after the spool, so what follows it has to go there as well.
        if self._spool is None or self._memory.depth():
            self._memory.append(op)
            return
        try:
            self._spool.append(op)
        except SpoolFull:
            raise
        except SpoolError as exc:
            self._warn(exc)
            self._memory.append(op)

    def move_to_disk(self) -> None:
        """Put into the spool what is in memory only, as far as the disk takes it by now."""
        with self._opening:
            if not self._memory.depth() or not self.open():
                return
            assert self._spool is not None
            try:
                while ops := self._memory.take(_MOVED_AT_ONCE):
                    for op in ops:
                        # If the drain is writing it at this moment, the copy comes later, and is seen to be one.
                        self._spool.append(op)
                        self._memory.ack([op])
            except SpoolError:  # that was told when it began
                return
            self._warned = False
        logger.info("hermes-pgvector: the writes that were in memory only are on disk now")

    def queues(self) -> list[Queue]:
        """In the order in which they are to be emptied."""
        return [*self.spools(), self._memory]

    def spools(self) -> list[Spool]:
        """The file, where there is one."""
        return [] if self._spool is None else [self._spool]

    def depth(self) -> int:
        """How many operations wait."""
        return sum(queue.depth() for queue in self.queues())

    def is_durable(self) -> bool:
        """False while some are in memory only."""
        return self._spool is not None and not self._memory.depth()

    def checkpoint(self) -> None:
        """Have the log of the file written into it."""
        for spool in self.spools():
            spool.checkpoint()

    def publish(self, report: Mapping[str, Any]) -> None:
        """Leave the counters in the file, where other processes, the operator's among them, can read them."""
        for spool in self.spools():
            with contextlib.suppress(SpoolError):  # a full disk holds no write up
                spool.publish(report)

    def _warn(self, exc: SpoolError) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("hermes-pgvector: writes are kept in memory only and are lost with this process: %s", exc)
