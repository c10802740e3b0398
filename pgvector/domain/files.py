"""Small files of a home: read without blocking, and replaced atomically."""

from __future__ import annotations

import codecs
import errno
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

from .types import MEMORY_FILES

# Of every folder that we make, whatever the umask: whoever can write there could replace the spool or a model.
_FOLDER_MODE = 0o755

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
# What a file system without hard links reports, depending on its kind.
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS)


def read_regular_file(path: Path) -> bytes:
    """Return the contents of a file. Raises OSError, also for a pipe or device, which could block its reader."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_WAIT)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return file.read()


def memory_file_paths(home: Path) -> dict[str, Path]:
    """Return the paths of the host's memory files, by target."""
    return {target: home / "memories" / name for target, name in MEMORY_FILES.items()}


def is_utf16(data: bytes) -> bool:
    """Return whether a file's contents begin as some editors and shells on Windows write them."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def read_memory_file(path: Path) -> bytes:
    """Return the contents of one of the host's memory files. Raises OSError as above, and for UTF-16.

    The host takes these files for UTF-8. UTF-16 read so is a single entry, which nobody wrote.
    """
    data = read_regular_file(path)
    if is_utf16(data):
        raise OSError(errno.EILSEQ, "it is not UTF-8 but UTF-16, as some editors and shells write on Windows")
    return data


def how_to_let_read(exc: OSError) -> str:
    """Return what to do about a memory file that cannot be read."""
    if exc.errno == errno.EILSEQ:
        return "save it again as UTF-8; until then nothing of it is taken or removed"
    return "let it be a file that this user can read"


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def leave_to_owner(made: int, folder: Path) -> None:
    """Give what root has just made to the owner of the folder it is in, whose processes could not open it otherwise.

    `made` is the open file or folder: a name may lead elsewhere by now.
    """
    if not _is_root():
        return
    with suppress(OSError):  # a file system or container that knows no owners
        owner = folder.stat()
        if owner.st_uid != 0:
            os.fchown(made, owner.st_uid, owner.st_gid)


def leave_tree_to_owner(made: Path, folder: Path) -> None:
    """Give a folder that root has just made, with all that is in it, to the owner of `folder`, where it will be."""
    if not _is_root():
        return
    with suppress(OSError):  # a file system or container that knows no owners
        owner = folder.stat()
        # From below: what is in a folder is not named any more once somebody else may exchange it.
        for _, _, files, held in os.fwalk(made, topdown=False) if owner.st_uid != 0 else ():
            for name in files:
                os.chown(name, owner.st_uid, owner.st_gid, dir_fd=held, follow_symlinks=False)
            os.fchown(held, owner.st_uid, owner.st_gid)


def make_folder(folder: Path, *, mode: int = _FOLDER_MODE) -> None:
    """Create a folder and what is missing above it; made by root, each belongs to the owner of the folder it is in.

    `mode` is that of the folder itself, less the umask. Raises OSError if something else is there, or nothing can be.
    """
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir(mode)
    except FileExistsError:  # another process was faster, unless it is no folder
        if not folder.is_dir():
            raise
        return
    if _is_root():
        made = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
        try:
            leave_to_owner(made, folder.parent)
        finally:
            os.close(made)


def make_marker(path: Path, *, anew: bool = False) -> None:
    """Create an empty file that only its owner can read, in a folder that is made if missing. Raises OSError.

    With `anew` there must be none yet.
    """
    make_folder(path.parent)
    made = os.open(path, os.O_WRONLY | os.O_CREAT | _NO_LINK | (os.O_EXCL if anew else 0), 0o600)
    try:
        leave_to_owner(made, path.parent)
    finally:
        os.close(made)


def name_new(made: Path, path: Path) -> None:
    """Give a finished file its name without replacing another. Raises OSError, FileExistsError if there is one."""
    try:
        os.link(made, path)
    except OSError as exc:
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from exc
        if exc.errno not in _NO_LINKS:
            raise
        os.rename(made, path)


def replace_text(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a text (UTF-8) to `path` atomically: a reader finds the old text or the new one, never a part.

    It is not synced to the disk, so it is for what can be recreated. A link that somebody else put in the place of the
    temporary file is not followed. Raises OSError and then leaves the old file unchanged.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    with suppress(FileNotFoundError):
        fresh.unlink()  # left by a thread of this number that was killed while writing
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            os.chmod(fresh, mode)  # whatever the umask
            leave_to_owner(file.fileno(), path.parent)
            file.write(text)
        os.replace(fresh, path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise


def note_text(path: Path, text: str) -> None:
    """Replace the text of a file that can be recreated, in a folder that is made if missing; failing is no harm."""
    with suppress(OSError):
        make_folder(path.parent)
        replace_text(path, text)
