"""Folders of the spool that nobody else may look into, or put files into that would be taken for ours."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from ..domain.errors import SpoolError


def make_private(folder: Path) -> None:
    """Make a folder that nobody else may look into. Raises SpoolError where something else is in its place."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
    except OSError as exc:
        raise SpoolError(f"the folder {folder} cannot be created ({exc})") from exc
    if not is_private(folder):
        raise SpoolError(f"other users can access the folder {folder}, or it belongs to one of them")


def is_private(folder: Path) -> bool:
    """Return whether it is a folder, no link to one, that is this user's and that nobody else may look into."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
    return stat.S_ISDIR(found.st_mode) and mine


def close_to_others(folder: Path) -> None:
    """Take from others the rights to the home's own folder. Raises SpoolError where it belongs to one of them.

    It may be a link of this user's, or of whom the home belongs to. A file system that knows no modes stays as it is.
    """
    if is_in_other_hands(folder):
        raise SpoolError(f"the folder {folder} belongs to another user; remove it")
    if hasattr(os, "getuid") and not folder.is_symlink() and not is_private(folder):
        with contextlib.suppress(OSError):
            folder.chmod(0o700)


def is_in_other_hands(folder: Path) -> bool:
    """Return whether the folder in a home, or a link there, is neither this user's nor of whom the home belongs to."""
    if not hasattr(os, "getuid"):
        return False
    try:
        owners = {folder.lstat().st_uid, folder.stat().st_uid}
        return not owners <= {os.getuid(), folder.parent.parent.stat().st_uid}
    except OSError:
        return False
