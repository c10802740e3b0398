"""Replacement of files and folders in one step: a reader finds the old one or the new one, never a part."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...domain.errors import ConfigurationError
from ...domain.files import leave_to_owner, leave_tree_to_owner, make_folder, read_regular_file
from ...server.locks import open_lock, try_exclusive
from .repeat import held_back

_POLL_S = 0.05
_PATIENCE_S = 10.0


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write `data` to `path` in one step, keeping the owner and, unless `mode` is given, the mode.

    Raises OSError, also if a device or pipe is there: a link may lead to /dev/null.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    make_folder(path.parent, mode=0o700)
    with held_back():  # else a signal while the temporary file is made, or goes, would leave it
        _replace(path, data, mode)


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            leave_to_owner(handle, path.parent)
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


@contextmanager
def work_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """Yield a new folder that is gone after the block, also where a signal ends it. Raises OSError if none can be made.

    What cannot be deleted stays, and so does all of it where the process is killed.
    """
    made = None
    try:
        with held_back():
            made = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        yield made
    finally:
        with held_back():
            if made is not None:
                shutil.rmtree(made, ignore_errors=True)


def swap(fresh: Path, target: Path, old: Path) -> bool:
    """Rename the folder `fresh` to `target`, and what was there to `old`; return whether there was anything.

    Made by root, it belongs to the owner of the folder it is in. A symlink that was there is not kept. Raises OSError,
    with everything as before.
    """
    leave_tree_to_owner(fresh, target.parent)
    with held_back():  # between the two there is neither, and the caller deletes `old`
        return _swap(fresh, target, old)


def _swap(fresh: Path, target: Path, old: Path) -> bool:
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


def how_to_let_write(error: OSError, home: Path) -> str:
    """Return what lets this user write in a home, or remove something there."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free space on that disk"
    if error.errno == errno.EROFS:
        return f"mount the file system of {home} for writing"
    if error.errno not in (errno.EACCES, errno.EPERM):
        return f"check what is in {home}, and who owns it"
    return f'let this user own what is there, as after an earlier sudo: sudo chown -R "$USER" {shlex.quote(str(home))}'


def write_file(path: Path, data: bytes, otherwise: str, *, mode: int | None = None) -> None:
    """Do as `replace_file`. Raises ConfigurationError if that fails, with `otherwise`: what to do, or what it means."""
    try:
        replace_file(path, data, mode=mode)
    except OSError as exc:
        raise ConfigurationError(f"{path} cannot be written ({exc.strerror or exc}); {otherwise}") from exc


@contextmanager
def restored_on_failure(*paths: Path) -> Iterator[None]:
    """Restore files that the block has changed if it raises; of a link, the file that it leads to."""
    before = {real: _content(real) for real in (Path(os.path.realpath(path)) for path in paths)}
    try:
        yield
    except BaseException:
        for path, content in before.items():
            if content != _content(path):
                with suppress(OSError):
                    if content is None:
                        path.unlink()
                    else:
                        replace_file(path, content)
        raise


def _content(path: Path) -> bytes | None:
    """Return what a regular file holds; None if there is none that can be read."""
    with suppress(OSError):
        return read_regular_file(path)
    return None


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Keep other commands of ours from changing a file in the block, which reads it and then replaces it.

    It is the folder that is locked, so no lock file appears among other programs' files. Not to be nested. Raises
    OSError if others are still at it after ten seconds.
    """
    folder = _lockable(path.parent)
    try:
        until = time.monotonic() + _PATIENCE_S
        while folder is not None and not _taken(folder):
            if time.monotonic() >= until:
                raise OSError(errno.EBUSY, "another command is changing a file in that folder")
            time.sleep(_POLL_S)
        yield
    finally:
        if folder is not None:
            os.close(folder)


def _lockable(folder: Path) -> int | None:
    """Return a descriptor of a folder, made if missing; None if there can be none: whoever writes there says why."""
    if not hasattr(os, "O_DIRECTORY"):
        return None
    with suppress(OSError):
        make_folder(folder, mode=0o700)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return None


def _taken(folder: int) -> bool:
    """Return whether the folder is locked now, or in a file system without such locks."""
    try:
        return try_exclusive(folder)
    except OSError:
        return True


@contextmanager
def locked(lock: Path, busy: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock file in the block, creating it if missing. Raises ConfigurationError(`busy`) after `wait_s`."""
    try:
        make_folder(lock.parent, mode=0o700)
        descriptor = open_lock(lock)
        leave_to_owner(descriptor, lock.parent)
    except OSError as exc:
        raise ConfigurationError(f"{lock} cannot be opened: {exc.strerror or exc}; let this user write there") from exc
    try:
        until = time.monotonic() + wait_s
        while not try_exclusive(descriptor):
            if time.monotonic() >= until:
                raise ConfigurationError(busy)
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)
