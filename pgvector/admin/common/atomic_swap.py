"""Puts a folder in the place of another one, so that there always is a whole one."""

from __future__ import annotations

import os
from pathlib import Path


def swap(fresh: Path, target: Path, old: Path) -> bool:
    """Rename `fresh` to `target`, and what stood there to `old`; returns whether anything did.

    Of a link that stood there nothing is kept. Raises OSError, with all as it was.
    """
    existed = os.path.lexists(target)
    if existed:
        os.rename(target, old)
    try:
        os.rename(fresh, target)
    except OSError:
        if existed:
            os.rename(old, target)
        raise
    if old.is_symlink():
        old.unlink()
    return existed
