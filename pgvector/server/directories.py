"""Creates and removes the directories of the server, with the permissions they need."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from ..domain.errors import EmbeddedServerError
from .layout import SYSTEM_DIR, Account, Layout, make_public_dir
from .run_as import check_account, must_run, run

_MAKE_SOCKET_DIR = '[ -d "$1" ] || mkdir -m 0700 "$1" || [ -d "$1" ]'
_IS_WRITABLE = '[ -w "$1" ] && [ -x "$1" ]'
_CLOSE = 'chmod 0700 "$1"'
_MAKE_FOLDERS = 'umask 077; cd "$1" && shift && mkdir -p "$@"'

# Postgres refuses data that its group may write or anyone else may read.
_OPEN_DATA = stat.S_IWGRP | stat.S_IRWXO

# Folders that may be empty while the server is stopped, which many backup tools leave out.
_EMPTY_AT_REST = (
    "pg_commit_ts", "pg_dynshmem", "pg_logical/mappings", "pg_logical/snapshots", "pg_notify", "pg_replslot",
    "pg_serial", "pg_snapshots", "pg_stat", "pg_stat_tmp", "pg_tblspc", "pg_twophase", "pg_wal/archive_status",
)  # fmt: skip


def make_root(layout: Layout, account: Account) -> None:
    """Create the server's directory, closed to everyone but the account.

    Raises: EmbeddedServerError when it cannot be created, belongs to someone else, or is out of the account's reach.
    """
    check_account(account)
    try:
        _make_root(layout.root, account)
    except OSError as error:
        raise EmbeddedServerError(
            f"the embedded Postgres cannot use the directory {layout.root}: {error.strerror or error}; "
            "make it writable, choose another one (`embedded_dir`), or set `dsn`"
        ) from error
    # Not os.access: what counts is the account's view, through every directory above.
    if run(account, ["/bin/sh", "-c", _IS_WRITABLE, "sh", layout.root]).code:
        raise EmbeddedServerError(
            f"the account {account.name!r} cannot write to {layout.root}, the directory of the embedded Postgres"
            + (f" (a directory above may be closed to it; {SYSTEM_DIR} is not)" if account.switched else "")
            + "; choose another one (`embedded_dir`), or set `dsn`"
        )


def make_socket_dir(layout: Layout, account: Account) -> None:
    """Create the directory of the server's socket, closed to everyone but the account. Raises: EmbeddedServerError."""
    path = layout.sockets
    must_run(account, ["/bin/sh", "-c", _MAKE_SOCKET_DIR, "sh", path])
    found = path.lstat()
    if path.parent == layout.root and stat.S_ISDIR(found.st_mode) and found.st_mode & 0o077:
        must_run(account, ["/bin/sh", "-c", _CLOSE, "sh", path])
        found = path.lstat()
    # It can be in /tmp, where anyone could have been first.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid or found.st_mode & 0o077:
        raise EmbeddedServerError(
            f"{path}, where the embedded Postgres has its socket, is not a directory that only {account.name!r} can use"
            "; remove it"
        )


def put_right(layout: Layout, account: Account) -> None:
    """Restore the mode and the empty folders of the data directory, which a backup or a volume may not preserve.

    Postgres does not start if either is missing. Raises: EmbeddedServerError.
    """
    data = layout.data
    if data.stat().st_mode & _OPEN_DATA:
        run(account, ["/bin/sh", "-c", _CLOSE, "sh", data])
        if data.stat().st_mode & _OPEN_DATA:
            raise EmbeddedServerError(
                f"{data} is open to other accounts, which Postgres refuses, and its file system keeps no permissions; "
                "choose another directory (`embedded_dir`), or set `dsn`"
            )
    if missing := [name for name in _EMPTY_AT_REST if not (data / name).is_dir()]:
        must_run(account, ["/bin/sh", "-c", _MAKE_FOLDERS, "sh", data, *missing])


def remove_socket_dir(layout: Layout, account: Account) -> None:
    """Remove the socket's directory from /tmp when the server has stopped."""
    if layout.sockets.parent != layout.root:
        run(account, ["rmdir", layout.sockets])


def delete_files(layout: Layout) -> None:
    """Delete the files of a stopped server, and its directory unless other files are in it. Raises: OSError."""
    for path in _files_of(layout):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        layout.root.rmdir()


def others_files(layout: Layout) -> list[Path]:
    """Return the files in the server's directory that are not its own, such as a copy somebody made of its data."""
    own = {path.name for path in _files_of(layout)}
    return sorted(path for path in layout.root.iterdir() if path.name not in own)


def _files_of(layout: Layout) -> list[Path]:
    """Return the files and folders of a server, whether they exist or not; the lock last."""
    log = layout.root.glob(f"{layout.log.name}*")
    locks = (layout.kept, layout.server_lock, layout.presence_lock, layout.lock)
    return [layout.data, layout.root / "run", *log, *locks]


def _make_root(root: Path, account: Account) -> None:
    if account.switched:
        make_public_dir(root.parent)
    else:
        root.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid == account.uid:
            return
        # An empty directory of root (just created, or a fresh volume) is handed over. One with files in it is not ours,
        # unless another process was faster, which the second look shows.
        if account.switched and os.fstat(fd).st_uid == 0 and not os.listdir(fd):
            os.fchown(fd, account.uid, account.gid)
            os.fchmod(fd, 0o700)
        elif (owner := os.fstat(fd).st_uid) != account.uid:
            raise EmbeddedServerError(
                f"{root} belongs to uid {owner} and not to {account.name!r}, as whom the embedded Postgres would run; "
                "run this as that user (sudo -u), or choose another directory (`embedded_dir`) or account "
                "(`embedded_run_as`), or set `dsn`"
            )
    finally:
        os.close(fd)
