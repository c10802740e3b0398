"""Changes of the page that can be undone: for ten minutes, in the memory of the process that serves it."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..admin.edit.putting_back import RowChange
from ..admin.edit.row_images import RowImages
from ..domain.errors import NothingToUndo

Where = tuple[Path, str]  # a home, and the database that its settings name
KEPT_S = 600.0
_MOST = 100  # changes
MOST_CHARS = 64_000_000  # kept by all of them together


@dataclass(frozen=True)
class UndoableChange:
    """A change of a home's database, its name in the history, and what undoing it is called on the page."""

    where: Where
    verb: str
    says: str
    rows: RowChange
    until: float = field(default_factory=lambda: time.monotonic() + KEPT_S)


class Journal:
    """The last changes by their tokens; a timer drops those that are too old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: OrderedDict[str, UndoableChange] = OrderedDict()
        self._timer: threading.Timer | None = None

    def __len__(self) -> int:
        return len(self._changes)

    def takes(self, images: RowImages) -> bool:
        """Return whether the rows from before a change are small enough to be kept."""
        return images.chars() <= MOST_CHARS

    def add(self, change: UndoableChange) -> dict[str, Any] | None:
        """Keep a change; return what the page needs to undo it, None if it is too large to be kept."""
        if not self.takes(change.rows.before):
            return None
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._changes[token] = change
            self._drop_surplus()
            self._watch()
        until = datetime.now(UTC) + timedelta(seconds=KEPT_S)
        return {"token": token, "until": until.isoformat(timespec="seconds"), "says": change.says}

    def look(self, token: str, where: Where) -> UndoableChange:
        """Return a change of this home's database. Raises NothingToUndo."""
        with self._lock:
            self._drop_old()
            change = self._changes.get(token)
        if change is None or change.where != where:
            raise NothingToUndo()
        return change

    def take(self, token: str, where: Where) -> UndoableChange:
        """Remove and return a change of this home's database. Raises NothingToUndo."""
        change = self.look(token, where)
        with self._lock:
            if self._changes.pop(token, None) is None:
                raise NothingToUndo()
        return change

    def give_back(self, token: str, change: UndoableChange) -> None:
        """Put back a change that could not be undone for now."""
        with self._lock:
            self._changes[token] = change
            self._drop_old()
            self._watch()

    def _drop_surplus(self) -> None:
        self._drop_old()
        while (
            len(self._changes) > _MOST or sum(each.rows.before.chars() for each in self._changes.values()) > MOST_CHARS
        ):
            self._changes.popitem(last=False)

    def _drop_old(self) -> None:
        now = time.monotonic()
        for token in [token for token, change in self._changes.items() if change.until <= now]:
            del self._changes[token]

    def _watch(self) -> None:
        if self._timer is None and self._changes:
            wait_s = min(change.until for change in self._changes.values()) - time.monotonic()
            self._timer = threading.Timer(max(0.0, wait_s), self._wake)
            self._timer.daemon = True
            self._timer.start()

    def _wake(self) -> None:
        with self._lock:
            self._timer = None
            self._drop_old()
            self._watch()


journal = Journal()
