"""Spool folders that no other user can read, or put files into that would be taken for ours."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from ..domain.errors import SpoolError


def make_private(folder: Path) -> None:
    """Create a folder that no other user can access. Raises SpoolError if something else is in its place."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
    except OSError as exc:
        raise SpoolError(f"the folder {folder} cannot be created ({exc})") from exc
    if not is_private(folder):
        raise SpoolError(f"other users can access the folder {folder}, or it belongs to one of them")


def is_private(folder: Path) -> bool:
    """Return whether this is a folder, not a link to one, that belongs to this user and no other user can access."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
    return stat.S_ISDIR(found.st_mode) and mine


def close_to_others(folder: Path) -> None:
    """Remove other users' access to the spool folder in the home, and their right to put another in its place.

    Raises SpoolError if it belongs to one of them. It may be a link of this user or of the home's owner. On a file
    system without modes nothing changes.
    """
    if is_in_other_hands(folder):
        raise SpoolError(f"the folder {folder} belongs to another user; remove it")
    _take_from_others(folder, 0o077)
    _take_from_others(folder.parent, 0o022)


def _take_from_others(folder: Path, rights: int) -> None:
    """Take rights from a folder that is no link, where this user may."""
    if not hasattr(os, "getuid"):
        return
    with contextlib.suppress(OSError):
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_mode & rights:
            folder.chmod(stat.S_IMODE(found.st_mode) & ~rights)


def is_in_other_hands(folder: Path) -> bool:
    """Return whether the folder in a home, or a link there, belongs to neither this user nor the home's owner."""
    if not hasattr(os, "getuid"):
        return False
    try:
        owners = {folder.lstat().st_uid, folder.stat().st_uid}
        return not owners <= {os.getuid(), folder.parent.parent.stat().st_uid}
    except OSError:
        return False
