"""What became of single writes, for those who wait for it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Literal

from ..domain.operations import Operation

Delivery = Literal["stored", "waiting", "refused"]


class Ends:
    """Tells waiting threads what the drain thread did."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._awaited: dict[uuid.UUID, Delivery] = {}

    def tell(self) -> None:
        """Have all who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def note(self, ops: Sequence[Operation], end: Delivery) -> None:
        """Note what became of writes, and have all who wait look again."""
        with self._changed:
            self._awaited.update((op.op_id, end) for op in ops if op.op_id in self._awaited)
            self._changed.notify_all()

    def wait_for(self, done: Callable[[], object], timeout_s: float) -> bool:
        """Wait until `done` gives something true; False when time runs out first."""
        with self._changed:
            return bool(self._changed.wait_for(done, timeout_s))

    def of(
        self, op: Operation, submit: Callable[[Operation], None], done: Callable[[], bool], wait_s: float
    ) -> Delivery:
        """Submit a write and return what became of it; "waiting" once `done` holds or time runs out."""
        self._awaited[op.op_id] = "waiting"
        try:
            submit(op)
            self.wait_for(lambda: self._awaited[op.op_id] != "waiting" or done(), wait_s)
        finally:
            with self._changed:
                end = self._awaited.pop(op.op_id)
        return end
