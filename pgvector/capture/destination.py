"""Which database the writes of an agent are for, so that those that wait go to no other one without a word."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from ..config.settings import Settings
from ..store.connection import place_of

EMBEDDED_PLACE = "the embedded Postgres"
RECORD = Path("pgvector", "databases.json")  # in the home: which database was last found at each place


class Destination:
    """The database at `place`: what the settings name, without user and password; empty is anywhere.

    `database` is what tells it from all others, wherever it is reached; empty while it was never reached.
    """

    def __init__(self, place: str, home: Path | None = None) -> None:
        self.place = place
        self._record = None if home is None else home / RECORD
        self.database = self._known().get(place, "")

    def _known(self) -> dict[str, str]:
        with contextlib.suppress(OSError, ValueError):
            found = {} if self._record is None else json.loads(self._record.read_text(encoding="utf-8"))
            return {str(place): str(database) for place, database in dict(found).items()}
        return {}

    def saw(self, database: str) -> bool:
        """Note which database is there; True when that was not known."""
        if not database or database == self.database:
            return False
        self.database = database
        if self._record is not None:
            text = json.dumps(self._known() | {self.place: database}, indent=1)
            fresh = self._record.with_name(f".{os.getpid()}-{self._record.name}")
            with contextlib.suppress(OSError):
                self._record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                fresh.write_text(text, encoding="utf-8")
                os.replace(fresh, self._record)
        return True

    def takes(self, place: str, database: str) -> bool:
        """Return whether writes that were accepted for that other one may go here.

        Another database behind the same name is the operator's doing, and the same one behind another name is the same.
        One that this home never reached may have been a mistake in the settings, which has been put right since.
        """
        if not place or not self.place or place == self.place:
            return True
        database = database or self._known().get(place, "")
        return not database or database == self.database


def destination_of(settings: Settings, home: Path) -> Destination:
    """Return the database that the settings name."""
    return Destination(place_of(settings.dsn) if settings.dsn else EMBEDDED_PLACE, home)
