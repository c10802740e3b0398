"""Files that are replaced in one step: whoever reads one finds the former or the new, never a part."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` at `path` in one step, keeping owner and, unless another `mode` is given, mode. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            found = path.stat()
            with suppress(PermissionError):
                os.chown(temporary, found.st_uid, found.st_gid)
            os.chmod(temporary, found.st_mode & 0o7777 if mode is None else mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
