"""Files that another program has for itself for the moment, as `status` has. What is newer waits for them."""

from __future__ import annotations

import time
from pathlib import Path

HOLD_S = 5.0  # how long newer writes wait for such a file


class HeldFiles:
    """The files that the last look at a folder found held, and since when each is."""

    def __init__(self) -> None:
        self._since: dict[Path, float] = {}
        self._before: dict[Path, float] = {}

    def look_again(self) -> None:
        """Begin another look: a file that is not noted in it is free."""
        self._before, self._since = self._since, {}

    def note(self, path: Path) -> None:
        """Note that a file is held."""
        self._since.setdefault(path, self._before.get(path, time.monotonic()))

    def delays(self, path: Path) -> bool:
        """Return whether what is newer than this file waits for it."""
        return path in self._since and time.monotonic() - self._since[path] < HOLD_S

    def delay_any(self) -> bool:
        """Return whether anything waits for one of the files."""
        return any(map(self.delays, self._since))
