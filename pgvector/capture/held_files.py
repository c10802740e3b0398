"""Files that another program has for itself for the moment, as `status` has. What is newer waits for them."""

from __future__ import annotations

import time
from pathlib import Path

HOLD_S = 5.0  # how long newer writes wait for such a file
_LOOK_S = 1.0  # if looks are farther apart, as in an outage, the file may have been free in between


class HeldFiles:
    """The files that the last look at a folder found held, and for how long newer writes have waited for each."""

    def __init__(self) -> None:
        self._waited_s: dict[Path, float] = {}
        self._before_s: dict[Path, float] = {}
        self._looked_at = 0.0

    def look_again(self) -> None:
        """Begin another look: a file that is not noted in it is free."""
        now = time.monotonic()
        passed_s, self._looked_at = min(now - self._looked_at, _LOOK_S), now
        self._before_s = {path: waited_s + passed_s for path, waited_s in self._waited_s.items()}
        self._waited_s = {}

    def note(self, path: Path) -> None:
        """Note that a file is held."""
        self._waited_s.setdefault(path, self._before_s.get(path, 0.0))

    def delays(self, path: Path) -> bool:
        """Return whether what is newer than this file waits for it."""
        return self._waited_s.get(path, HOLD_S) < HOLD_S

    def delay_any(self) -> bool:
        """Return whether anything waits for one of the files."""
        return any(map(self.delays, self._waited_s))
