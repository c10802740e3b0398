"""Where the servers of tests have their files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 8_000_000_000


@contextmanager
def server_place() -> Iterator[Path]:
    """A new directory that other accounts can reach, unlike pytest's own; it is gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="hermes-test-", dir=_folder()))
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def _folder() -> Path:
    # A database is hundreds of files, and most tests have one of their own: where files that were deleted lately slow
    # down the making of new ones, as on ext4 without a journal, that takes longer than the tests.
    if not os.access(_MEMORY, os.W_OK):
        return Path("/tmp")
    room = min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available)
    return _MEMORY if room > _ROOM_BYTES else Path("/tmp")
