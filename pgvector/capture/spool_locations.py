"""Where spool files of a home may lie: in the home, and while no disk takes them there, elsewhere with this user."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ..domain.errors import SpoolError


def spool_folder(home: Path) -> Path:
    """Where the writes that Postgres does not have yet are kept."""
    return home / "pgvector" / "spool"


def spool_folders(home: Path, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """All places, the one to be preferred first: the home, this user's state directory, the temporary one."""
    digest = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:16]
    chosen = environ.get("XDG_STATE_HOME", "")
    state = Path(chosen) if os.path.isabs(chosen) else Path(os.path.expanduser("~")) / ".local" / "state"
    user = os.getuid() if hasattr(os, "getuid") else 0
    # Not by `tempfile`, which fails where no disk takes anything.
    scratch = next((environ[name] for name in ("TMPDIR", "TEMP", "TMP") if environ.get(name)), "/tmp")
    temporary = Path(scratch) / f"hermes-pgvector-{user}-spool-{digest}"
    return spool_folder(home), state / "hermes-pgvector" / f"spool-{digest}", temporary


def make_private(folder: Path) -> None:
    """Make a folder that nobody else may look into. Raises SpoolError where something else is in its place."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
    except OSError as exc:
        raise SpoolError(f"the folder {folder} cannot be made ({exc})") from exc
    if not is_private(folder):
        raise SpoolError(f"{folder} is not a folder of this user's alone")


def is_private(folder: Path) -> bool:
    """Whether it is a folder, no link to one, that is this user's and that nobody else may look into."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
    return stat.S_ISDIR(found.st_mode) and mine
