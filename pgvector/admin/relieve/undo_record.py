"""What the last run took out of the memory files, so that it can be put back.

A text that the database keeps is not written down once more: what is forgotten there is not left behind here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...domain.errors import ConfigurationError
from ..common.file_replacing import replace_file

_NAME = "relieved.json"


@dataclass(frozen=True, slots=True)
class TakenEntry:
    """An entry: its place among those of its file, the digest in hex, and the themes that keep it.

    `text` is None where the database keeps it.
    """

    target: str
    place: int
    digest: str
    themes: tuple[str, ...]
    text: str | None = None

    @property
    def name(self) -> tuple[str, str]:
        """Return what it is known by: target and digest."""
        return self.target, self.digest


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """One run: when (seconds since the epoch), what it took out, and the characters that each file had before."""

    at: float
    entries: tuple[TakenEntry, ...]
    chars: Mapping[str, int]


def save_record(home: Path, entries: Sequence[TakenEntry], chars: Mapping[str, int]) -> None:
    """Write the record, in the place of that of the run before. Raises ConfigurationError."""
    record = UndoRecord(time.time(), tuple(entries), dict(chars))
    path = home / "pgvector" / _NAME
    try:
        replace_file(path, json.dumps(asdict(record)).encode(), mode=0o600)
    except OSError as exc:
        raise ConfigurationError(
            f"{path} cannot be written: {exc.strerror or exc}; nothing was taken out of the memory files"
        ) from exc


def read_record(home: Path) -> UndoRecord | None:
    """Return what the last run left; None where nothing is to be undone. Raises ConfigurationError."""
    path = home / "pgvector" / _NAME
    try:
        found = json.loads(path.read_bytes())
        entries = tuple(TakenEntry(**{**each, "themes": tuple(each["themes"])}) for each in found["entries"])
        return UndoRecord(float(found["at"]), entries, dict(found["chars"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as exc:
        raise ConfigurationError(
            f"{path} cannot be read ({exc}); the memories are stored: hermes-pgvector list"
        ) from exc


def drop_record(home: Path) -> None:
    """Delete the record."""
    (home / "pgvector" / _NAME).unlink(missing_ok=True)
