"""The spool of a home, built from the settings; apart from the other parts, because most commands need none."""

from __future__ import annotations

from pathlib import Path

from ..capture.spool_directory import SpoolDirectory, destination_of, spool_folders
from ..config.settings import Settings


def spools_of(settings: Settings, home: Path) -> SpoolDirectory:
    """Return the spool of a home."""
    folder, *elsewhere = spool_folders(home)
    return SpoolDirectory(
        folder,
        max_bytes=settings.spool_max_mb * 1_000_000,
        sync=settings.spool_sync,
        spill=elsewhere,
        destination=destination_of(settings, home),
    )
