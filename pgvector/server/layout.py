"""Where the server's files are, and which OS account owns them: the user's own, or as root an unprivileged one."""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..domain.errors import EmbeddedServerError
from ..domain.patterns import late_pattern
from .home_record import copied_from, has_data, knows_only_servers, recorded

if sys.platform != "win32":
    import pwd

# Postgres refuses to run as root. These exist on nearly every machine; the first is made for the purpose.
USUAL_ACCOUNTS = ("postgres", "nobody")


def require_posix() -> None:
    """Raise EmbeddedServerError on Windows."""
    if sys.platform == "win32":
        raise EmbeddedServerError(
            "the embedded Postgres is not supported on Windows yet; set `dsn` to a Postgres server with pgvector"
        )


class Account(NamedTuple):
    """An OS account; `switched` when it is not the account of this process."""

    name: str
    uid: int
    gid: int
    switched: bool


def choose_account(run_as: str = "") -> Account:
    """Return the account to run Postgres as: our own, or as root `run_as`, else the first existing of USUAL_ACCOUNTS.

    Raises: EmbeddedServerError when there is no such account.
    """
    uid = os.geteuid()
    if uid != 0:
        try:
            own = pwd.getpwuid(uid)
        except KeyError:
            raise EmbeddedServerError(
                f"uid {uid} has no entry in the user database, which Postgres needs to know its owner by; "
                "give the container a user with a name, or set `dsn`"
            ) from None
        return Account(own.pw_name, uid, own.pw_gid, switched=False)
    for name in (run_as,) if run_as else USUAL_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid == 0:
            raise EmbeddedServerError(
                f"Postgres refuses to run as root, and {name!r} is root; name another account (`embedded_run_as`)"
            )
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switched=True)
    wanted = repr(run_as) if run_as else " or ".join(map(repr, USUAL_ACCOUNTS))
    raise EmbeddedServerError(
        f"Postgres refuses to run as root, and this machine has no account {wanted}; "
        "make one (useradd --system postgres), name an existing one (`embedded_run_as`), or set `dsn`"
    )


# Root's servers and root's copy of the binaries: outside of every home, so that an unprivileged account can reach it.
SYSTEM_DIR = Path("/var/lib/hermes-pgvector")

PORT = 5432
SOCKET_NAME = f".s.PGSQL.{PORT}"

# sockaddr_un holds 103 bytes and a zero on macOS, 107 on Linux.
SOCKET_PATH_MAX_BYTES = 103

# Both Postgres and libpq split lists of directories at commas, and have quoting rules of their own.
_PLAIN_PATH = late_pattern(r"[A-Za-z0-9_./+=:~@ -]+")


def root_of(hermes_home: Path) -> Path:
    """Return the directory of the server for a hermes home and its profiles.

    ~/.hermes uses the user's server. Any other home has a server of its own, so that the themes of two homes do not
    mix, unless it has already used the user's server, where its data is; a copy of a home has used none. While that
    directory has no data, the one that the home has recorded is used, if it was recorded at this path. Nothing is
    created.
    """
    where = whole_home(hermes_home)
    usual = _usual_root(where)
    known = None if has_data(usual) else recorded(where)
    return known.server if known is not None and known.home == where and has_data(known.server) else usual


def whole_home(hermes_home: Path) -> Path:
    """Return the home that shares a server with all its profiles, given that home or one of the profiles."""
    where = Path(os.path.realpath(hermes_home.expanduser()))
    return where.parent.parent if where.parent.name == "profiles" else where


def _usual_root(where: Path) -> Path:
    shared = default_root()
    if where == Path(os.path.realpath(Path.home() / ".hermes")):
        return shared
    digest = hashlib.sha256(os.fsencode(Path.home()) + b"\0" + os.fsencode(where)).hexdigest()[:12]
    # For root, the user's directory belongs to the account that runs its server, and may not exist yet.
    own = SYSTEM_DIR / digest if shared.parent == SYSTEM_DIR else shared / "homes" / digest
    has_used_it = (shared / "data").exists() and _has_stored(where) and copied_from(where) is None
    # With another HOME or XDG_DATA_HOME the user's server is another one, which this home has not used.
    known = recorded(where)
    has_used_it = has_used_it and (known is None or known.server == shared)
    return shared if not own.is_dir() and has_used_it else own


def reserve(root: Path) -> None:
    """Create the directory of a future server, so that `root_of` returns the same from now on.

    A failure is ignored: whoever starts the server will report it.
    """
    with suppress(OSError):
        if root.parent == SYSTEM_DIR:
            make_public_dir(SYSTEM_DIR)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)


def _has_stored(hermes_home: Path) -> bool:
    """Return True when an agent of the home, or of one of its profiles, has run, and not only with servers in `dsn`."""
    try:
        homes = [hermes_home, *(hermes_home / "profiles").glob("*")]
        # Since there are servers for each home, what it uses is noted before its spool is made.
        return not all(knows_only_servers(home) for home in homes if (home / "pgvector" / "spool").exists())
    except OSError:
        return False


def default_root(home: Path | None = None, uid: int | None = None) -> Path:
    """Return the directory of the user's server: one for each home directory; nothing is created.

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


class Layout(NamedTuple):
    """The paths of one server, and the name of the account that owns them."""

    root: Path
    sockets: Path
    owner: str

    @classmethod
    def of(cls, root: Path, account: Account) -> Layout:
        """Return the layout below `root`; its sockets are elsewhere if their path would be too long or need quoting."""
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
        """Return the Postgres data directory."""
        return self.root / "data"

    @property
    def log(self) -> Path:
        """Return the log file of the server."""
        return self.root / "server.log"

    @property
    def lock(self) -> Path:
        """Return the lock file that whoever starts or stops the server holds exclusively."""
        return self.root / "lock"

    @property
    def server_lock(self) -> Path:
        """Return the lock file that every process of the server itself holds."""
        return self.root / "server.lock"

    @property
    def kept(self) -> Path:
        """Return the file that names the running server to be kept up after its last user leaves."""
        return self.root / "kept"

    @property
    def presence_lock(self) -> Path:
        """Return the lock file that the users of the server hold, shared."""
        return self.root / "presence.lock"


def make_public_dir(path: Path) -> None:
    """Create a directory and its missing parents, readable by all whatever the umask. Raises: OSError."""
    if path.is_dir():
        return
    make_public_dir(path.parent)
    with suppress(FileExistsError):
        path.mkdir()
        path.chmod(0o755)
