"""Where the server's files are, and the making of their directories."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..domain.errors import EmbeddedServerError
from .account import Account
from .progress_wait import lasting

# Root's servers and root's copy of the binaries: outside of every home, so that an unprivileged account can reach it.
SYSTEM_DIR = Path("/var/lib/hermes-pgvector")

PORT = 5432
SOCKET_NAME = f".s.PGSQL.{PORT}"

# sockaddr_un holds 103 bytes and a zero on macOS, 107 on Linux.
SOCKET_PATH_MAX_BYTES = 103

# Both Postgres and libpq split lists of directories at commas, and have quoting rules of their own.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+=:~@ -]+")

_MAKE_SOCKET_DIR = '[ -d "$1" ] || mkdir -m 0700 "$1" || [ -d "$1" ]'
_IS_WRITABLE = '[ -w "$1" ] && [ -x "$1" ]'


def root_of(hermes_home: Path) -> Path:
    """Return the directory of the server for a hermes home and its profiles.

    That of ~/.hermes is the user's. Any other home has one of its own, lest the themes of two homes mix, unless it has
    used the user's before this was so: what it wrote is there. Nothing is created.
    """
    shared = default_root()
    where = Path(os.path.realpath(hermes_home.expanduser()))
    if where.parent.name == "profiles":
        where = where.parent.parent
    if where == Path(os.path.realpath(Path.home() / ".hermes")):
        return shared
    digest = hashlib.sha256(os.fsencode(Path.home()) + b"\0" + os.fsencode(where)).hexdigest()[:12]
    # In root's case the user's directory belongs to the account that runs its server, and may yet have to be made.
    own = SYSTEM_DIR / digest if shared.parent == SYSTEM_DIR else shared / "homes" / digest
    return shared if not own.is_dir() and (shared / "data").exists() and _has_run(where) else own


def reserve(root: Path) -> None:
    """Make the directory of a server that is still to come, so that `root_of` tells the same from now on.

    Where that fails nothing is said: whoever starts the server will say it.
    """
    with suppress(OSError):
        if root.parent == SYSTEM_DIR:
            make_public_dir(SYSTEM_DIR)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)


def _has_run(hermes_home: Path) -> bool:
    """Whether an agent of the home, or of one of its profiles, has stored anything."""
    try:
        homes = [hermes_home, *(hermes_home / "profiles").glob("*")]
        return any((home / "pgvector" / sign).exists() for home in homes for sign in ("spool", "origin"))
    except OSError:
        return False


def default_root(home: Path | None = None, uid: int | None = None) -> Path:
    """The directory of the user's server: one for each home directory; nothing is created.

    `home` stands in for the user's home directory and `uid` for the effective user id.
    """
    home = Path.home() if home is None else home
    if uid is None:
        uid = os.geteuid() if sys.platform != "win32" else -1
    if uid == 0:
        return SYSTEM_DIR / hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    data_home = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(data_home):
        return Path(data_home) / "hermes-pgvector"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "hermes-pgvector"
    return home / ".local" / "share" / "hermes-pgvector"


@dataclass(frozen=True)
class Layout:
    """The paths of one server, and the name of the account that owns them."""

    root: Path
    sockets: Path
    owner: str

    @classmethod
    def of(cls, root: Path, account: Account) -> Layout:
        """The layout below `root`; its sockets are elsewhere when their path would be too long or hard to quote."""
        root = Path(os.path.realpath(root))
        sockets = root / "run"
        length_bytes = len(os.fsencode(sockets / SOCKET_NAME))
        if length_bytes > SOCKET_PATH_MAX_BYTES or not _PLAIN_PATH.fullmatch(str(sockets)):
            digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
            # Not $TMPDIR, which may differ between two processes of one user.
            sockets = Path(f"/tmp/hermes-pgvector-{account.uid}-{digest}")
        return cls(root, sockets, account.name)

    @property
    def data(self) -> Path:
        """The Postgres data directory."""
        return self.root / "data"

    @property
    def log(self) -> Path:
        """What the server writes while it runs."""
        return self.root / "server.log"

    @property
    def lock(self) -> Path:
        """Held alone by who starts or stops the server."""
        return self.root / "lock"

    @property
    def server_lock(self) -> Path:
        """Held by every process of the server itself."""
        return self.root / "server.lock"

    @property
    def presence_lock(self) -> Path:
        """Held, shared, by who uses the server."""
        return self.root / "presence.lock"

    @property
    def pid_files(self) -> tuple[Path, Path]:
        """The two files by which Postgres keeps a second server away: from the data, and from the socket."""
        return self.data / "postmaster.pid", self.sockets / f"{SOCKET_NAME}.lock"


def make_root(layout: Layout, account: Account) -> None:
    """Makes the server's directory, closed to everyone but the account.

    Raises: EmbeddedServerError when they cannot be made, belong to someone else, or are out of the account's reach.
    """
    account.check()
    try:
        _make_root(layout.root, account)
    except OSError as error:
        raise EmbeddedServerError(
            f"the embedded Postgres cannot use the directory {layout.root}: {error.strerror or error}; "
            "make it writable, choose another one (`embedded_dir`), or set `dsn`"
        ) from error
    # Not os.access: what counts is the account's view, through every directory above.
    if account.run(["/bin/sh", "-c", _IS_WRITABLE, "sh", layout.root], patience=lasting(30)).code:
        raise EmbeddedServerError(
            f"the account {account.name!r} cannot write to {layout.root}, the directory of the embedded Postgres"
            + (f" (a directory above may be closed to it; {SYSTEM_DIR} is not)" if account.switched else "")
            + "; choose another one (`embedded_dir`), or set `dsn`"
        )


def make_socket_dir(layout: Layout, account: Account) -> None:
    """Makes the directory of the server's socket, closed to everyone but the account. Raises: EmbeddedServerError."""
    path = layout.sockets
    account.must_run(["/bin/sh", "-c", _MAKE_SOCKET_DIR, "sh", path])
    found = path.lstat()
    # It can be in /tmp, where anyone could have been first.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid or found.st_mode & 0o077:
        raise EmbeddedServerError(
            f"{path}, where the embedded Postgres has its socket, is not a directory that only {account.name!r} can use"
            "; remove it"
        )


def remove_socket_dir(layout: Layout, account: Account) -> None:
    """Leaves nothing in /tmp when the server has stopped."""
    if layout.sockets.parent != layout.root:
        account.run(["rmdir", layout.sockets], patience=lasting(30))


def delete_files(layout: Layout) -> None:
    """Deletes the files of a server that is stopped, and its directory unless others' are in it. Raises: OSError."""
    for folder in (layout.data, layout.root / "run"):
        if folder.is_dir():
            shutil.rmtree(folder)
    for file in (*layout.root.glob(f"{layout.log.name}*"), layout.server_lock, layout.presence_lock, layout.lock):
        file.unlink(missing_ok=True)
    with suppress(OSError):
        layout.root.rmdir()


def make_public_dir(path: Path) -> None:
    """Makes a directory and those above it that are missing, readable by all whatever the umask. Raises: OSError."""
    if path.is_dir():
        return
    make_public_dir(path.parent)
    with suppress(FileExistsError):
        path.mkdir()
        path.chmod(0o755)


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
        # An empty directory of root's (just made, or a fresh volume) is handed over. One with files in it is not ours;
        # unless another process was faster, which the second look tells.
        if account.switched and os.fstat(fd).st_uid == 0 and not os.listdir(fd):
            os.fchown(fd, account.uid, account.gid)
            os.fchmod(fd, 0o700)
        elif (owner := os.fstat(fd).st_uid) != account.uid:
            raise EmbeddedServerError(
                f"{root} belongs to uid {owner} and not to {account.name!r}, as whom the embedded Postgres would run; "
                "choose another directory (`embedded_dir`) or account (`embedded_run_as`), or set `dsn`"
            )
    finally:
        os.close(fd)
