"""The spool files of a home: where they are, which process owns each, and which database their writes are for.

Each process of a home has its own file, locked for the life of the process. The file of a dead process is adopted by
the next one that looks. While the home's disk cannot be written, the files are in another folder of this user.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import os
import sqlite3
import time
import uuid
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from ..config.settings import Settings
from ..domain.errors import SpoolBusy, SpoolError
from ..domain.files import leave_to_owner, make_folder, make_marker, note_text, read_regular_file
from ..server.home_record import DATABASES, EMBEDDED_PLACE
from ..store.connection import place_of
from .damaged_log import mend
from .held_files import HeldFiles
from .private_folders import close_to_others, is_in_other_hands, is_private, make_private
from .spool import Spool
from .spool_format import as_spool_error, delete_files, holds, is_of_nobody, made_at_ns, maker_of, written_at

try:
    import fcntl
except ImportError:  # Windows: files of dead processes are adopted by hand there
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # a lock file is truncated when it is taken
_LOCK_LEFT_S = 60.0  # a lock without a spool file is abandoned after this time


class Destination:
    """The database at `place`, which is the address in the settings without user and password; empty means any.

    `database` identifies it, whatever the address; empty if it was never reached.
    """

    def __init__(self, place: str, home: Path | None = None) -> None:
        self.place = place
        self._record = None if home is None else home / DATABASES
        self.database = self._known().get(place, "")
        self._is_last = False  # at the end of the record, as far as this process has seen to that

    def _known(self) -> dict[str, str]:
        with contextlib.suppress(OSError, ValueError):
            found = {} if self._record is None else json.loads(read_regular_file(self._record))
            return {str(place): str(database) for place, database in dict(found).items()}
        return {}

    def saw(self, database: str) -> bool:
        """Record which database was found at `place`, which is in use; return True if that was not known."""
        if not database or (self._is_last and database == self.database):
            return False
        is_new, self.database, self._is_last = database != self.database, database, True
        if is_new or next(reversed(self._known()), "") != self.place:
            self._note()
        return is_new

    def begin(self) -> None:
        """Note the place in a home that nothing was stored in yet: one that says nothing may have used any database."""
        if self.place and not self._known():
            self._note()

    def _note(self) -> None:
        if self._record is not None:
            others = {place: database for place, database in self._known().items() if place != self.place}
            note_text(self._record, json.dumps(others | {self.place: self.database}, indent=1))

    def takes(self, place: str, database: str) -> bool:
        """Return whether writes that were accepted for `database` at `place` may be sent to this database.

        They may if the address is the same, as when an operator replaced the database, or if the database is the same
        at another address. One that this home never reached may have been a mistake in the settings, since corrected.
        """
        if not place or not self.place or place == self.place:
            return True
        database = database or self._known().get(place, "")
        return not database or database == self.database


def destination_of(settings: Settings, home: Path) -> Destination:
    """Return the database that the settings name."""
    return Destination(place_of(settings.dsn) if settings.dsn else EMBEDDED_PLACE, home)


def spool_folder(home: Path) -> Path:
    """Return the folder of the writes that Postgres does not have yet."""
    return home / "pgvector" / "spool"


def spool_folders(home: Path) -> tuple[Path, ...]:
    """Return all folders, the preferred one first: in the home, this user's state directory, the temporary one."""
    digest = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:16]
    chosen = os.environ.get("XDG_STATE_HOME", "")
    state = Path(chosen) if os.path.isabs(chosen) else Path(os.path.expanduser("~")) / ".local" / "state"
    user = os.getuid() if hasattr(os, "getuid") else 0
    # Not by `tempfile`, which fails if no disk can be written.
    scratch = next(filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))), "/tmp")
    temporary = Path(scratch) / f"hermes-pgvector-{user}-spool-{digest}"
    return spool_folder(home), state / "hermes-pgvector" / f"spool-{digest}", temporary


class SpoolDirectory:
    """The spool files of all processes of one HERMES_HOME: in `folder`, or in `spill` if that cannot be written."""

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        sync: str = "normal",
        spill: Sequence[Path] = (),
        destination: Destination | None = None,
    ) -> None:
        self.folder = folder
        self._spill = tuple(spill)
        self.destination = destination or Destination("")
        self._max_bytes = max_bytes
        self._sync = sync
        self._locks: dict[Path, int] = {}
        self._unreadable: set[Path] = set()
        self._waiting: set[Path] = set()  # files already reported as unusable for now
        self.some_wait = False  # the last search for files to adopt found some that could not be used
        self.held = HeldFiles()
        self._told_elsewhere = False
        self._told_held: set[str] = set()  # places already reported as having writes that wait for them
        # Files to leave alone until they change: when each was last written, and how many rejected operations it has.
        self._resting: dict[Path, tuple[float, int]] = {}

    def open_own(self, *, taken_bytes: int = 0, spare: Container[Path] = (), instead_of: Path | None = None) -> Spool:
        """Create and lock a file of this process in the first folder that can be written and is not in `spare`.

        Its size limit is reduced by `taken_bytes`. In the order in which files are read later, it takes the place of
        `instead_of`. Raises SpoolError, and then leaves no file behind.
        """
        problem: SpoolError | None = None
        for folder in (self.folder, *self._spill):
            if folder not in spare:
                try:
                    spool = self._open_in(folder, taken_bytes, instead_of)
                except SpoolError as exc:
                    problem = problem or exc
                    continue
                if problem is not None and not self._told_elsewhere:
                    logger.warning("hermes-pgvector: writes are kept in %s for now: %s", folder, problem)
                self._told_elsewhere = folder != self.folder
                return spool
        raise problem or SpoolError(f"{self.folder} cannot be written at the moment")

    def is_preferred(self, spool: Spool) -> bool:
        """Return whether the spool is in the preferred folder."""
        return spool.path.parent == self.folder

    def _open_in(self, folder: Path, taken_bytes: int, instead_of: Path | None) -> Spool:
        with as_spool_error(folder):
            if folder == self.folder:
                make_folder(folder.parent)
                if not folder.exists():
                    self.destination.begin()
                make_folder(folder, mode=0o700)
                close_to_others(folder)
            else:
                make_private(folder)
            # The name contains the creation time, because later processes have to read the older file first.
            # A clock that stepped back must not make the file older than existing ones, in whichever folder they are.
            number = (
                made_at_ns(instead_of)
                if instead_of is not None
                else max([time.time_ns(), *(1 + made_at_ns(path) for path in self._paths())])
            )
            path = folder / f"{os.getpid()}-{number:016x}-{uuid.uuid4().hex[:8]}.db"
            if not self._acquire(path):
                raise SpoolError(f"cannot lock {path}")
        try:
            with as_spool_error(path):  # SQLite would apply the umask; the files beside this one get its mode and owner
                make_marker(path, anew=True)
            spool = Spool(path, max_bytes=max(0, self._max_bytes - taken_bytes), sync=self._sync)
            spool.label(self.destination.place, self.destination.database)
            return spool
        except SpoolError:
            with contextlib.suppress(OSError):
                delete_files(path)
            self.release(path)
            self._tidy(folder)
            raise

    def adopt(self, at_most: int = 1 << 30) -> Iterator[Spool]:
        """Yield files of dead processes, oldest first, each locked by us; keep and report unreadable ones."""
        if at_most > 0:
            self.some_wait = False
            self.held.look_again()
            self._delete_left_locks()
            yield from itertools.islice(self._adopt_in_order(), at_most)

    def unowned(self) -> Iterator[Path]:
        """Yield the files of dead processes that are not adopted, oldest first, up to one that is held."""
        for path in self._paths():
            if not self._is_left_alone(path) and self._try_lock(path):
                self.release(path)
                yield path
            elif self.held.delays(path):
                return

    def _delete_left_locks(self) -> None:
        """Delete the locks of files that somebody deleted, where the process died before it could delete its lock."""
        with contextlib.suppress(OSError):
            for lock in self.folder.glob("*.db.lock"):
                path = lock.with_suffix("")
                # A process creates the lock before the file, so a fresh lock may have no file yet.
                left = not path.exists() and time.time() - lock.stat().st_mtime > _LOCK_LEFT_S
                if left and path not in self._locks and self._acquire(path):
                    lock.unlink(missing_ok=True)
                    self.release(path)

    def _adopt_in_order(self) -> Iterator[Spool]:
        """Yield the adoptable files; skip those newer than a held one, or than an unusable one of the same process."""
        unusable: set[str] = set()
        for path in self._paths():
            if maker_of(path) in unusable:
                continue
            if (spool := self._adopt(path)) is not None:
                yield spool
            elif path not in self._locks and path not in self._unreadable | self._resting.keys() and path.exists():
                unusable.add(maker_of(path))
            if self.held.delays(path):
                return

    def _adopt(self, path: Path) -> Spool | None:
        """Return the spool of a file without an owner; None for a file that is to be left alone."""
        if self._is_left_alone(path):
            return None
        spool: Spool | None = None
        try:
            spool = self._take_over(path)
            return None if spool is None or self._holds_back(spool) else spool
        except SpoolError as exc:
            if spool is not None:
                spool.close()
            self._leave_alone(path, exc)
            return None

    def _holds_back(self, spool: Spool) -> bool:
        """Release a file if its writes were accepted for another database, until it is changed; return True if so."""
        place, database = spool.accepted_for()
        if not spool.depth or self.destination.takes(place, database):
            return False
        waiting = spool.depth
        self.rest(spool)
        if place not in self._told_held:
            self._told_held.add(place)
            logger.warning(
                "hermes-pgvector: %d writes were accepted for another database (%s) and wait for it; to send all such "
                "writes to the database of this home instead: hermes-pgvector spool send --yes",
                waiting,
                place,
            )
        return True

    def _paths(self) -> list[Path]:
        # Files that another user put into a folder of their own would be stored as ours.
        folders = [folder for folder in (self.folder,) if not is_in_other_hands(folder)]
        folders += [folder for folder in self._spill if is_private(folder)]
        found = [path for folder in folders for path in self._listed(folder)]
        return sorted(found, key=lambda path: (made_at_ns(path), written_at(path)))

    def _listed(self, folder: Path) -> list[Path]:
        """Return the files of a folder; if it cannot be read now, log that and return none, so that others go on."""
        try:
            with as_spool_error(folder):
                return [*folder.glob("*.db")]
        except SpoolError as exc:
            self._tell_waiting(folder, exc)
            return []

    def rejected_count(self) -> int:
        """Return how many rejected operations are in the files that are left alone."""
        return sum(rejected for _, rejected in self._resting.values())

    def _is_left_alone(self, path: Path) -> bool:
        return path in self._locks or path in self._unreadable or self._rests(path)

    def _rests(self, path: Path) -> bool:
        if path in self._resting and self._resting[path][0] == written_at(path):
            return True
        self._resting.pop(path, None)
        return False

    def rest(self, spool: Spool) -> None:
        """Release an adopted file, or delete it if it is empty; it is adopted again once somebody changes it."""
        waiting, aside = spool.depth, spool.rejected_count
        self.discard(spool)
        if spool.path.exists():
            at = written_at(spool.path)
            # An operator may have put writes back just before `at` was read; later ones change it.
            with contextlib.suppress(SpoolError), as_spool_error(spool.path):
                if not holds(spool.path, waiting + 1, None):
                    self._resting[spool.path] = at, aside

    def _take_over(self, path: Path) -> Spool | None:
        """Lock and return the spool of a dead process; None if its owner lives, or if the file no longer exists."""
        with as_spool_error(path):
            if not self._try_lock(path):
                return None
            if not path.exists():  # its holder finished and deleted it while we looked
                Path(f"{path}.lock").unlink(missing_ok=True)
                self.release(path)
                return None
            mend(path)
        return Spool(path, max_bytes=self._max_bytes, sync=self._sync)

    def _try_lock(self, path: Path) -> bool:
        if not (taken := self._acquire(path)) and fcntl is not None and is_of_nobody(path):
            self.held.note(path)
        return taken

    def give_up(self, spool: Spool, exc: SpoolError) -> None:
        """Release a file that cannot be read any further, and leave it as it is."""
        spool.close()
        self._leave_alone(spool.path, exc)

    def _leave_alone(self, path: Path, exc: SpoolError) -> None:
        self.release(path)
        if not isinstance(exc, SpoolBusy) and not isinstance(exc.__cause__, (OSError, sqlite3.OperationalError)):
            self._unreadable.add(path)
            logger.error("hermes-pgvector: writes of an earlier process were kept but cannot be read: %s", exc)
        else:
            if isinstance(exc, SpoolBusy):
                self.held.note(path)
            self._tell_waiting(path, exc)

    def _tell_waiting(self, path: Path, exc: SpoolError) -> None:
        self.some_wait = True
        if path not in self._waiting:
            self._waiting.add(path)
            logger.warning("hermes-pgvector: writes of an earlier process wait, and are tried again: %s", exc)

    def discard(self, spool: Spool) -> None:
        """Close and release a spool; delete it if it is empty."""
        if spool.end():
            self.delete(spool)
        self.let_go(spool)

    def delete(self, spool: Spool) -> None:
        """Delete the files of a spool whose content has been moved, or the files that replaced them."""
        with contextlib.suppress(OSError):
            delete_files(spool.path)

    def let_go(self, spool: Spool) -> None:
        """Close a spool and release its lock, so that another process can adopt it."""
        spool.close()
        self.release(spool.path)
        self._tidy(spool.path.parent)

    def _tidy(self, folder: Path) -> None:
        if folder != self.folder:
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()

    def release(self, path: Path) -> None:
        """Release the lock of `path`, so that another process can take it."""
        if (handle := self._locks.pop(path, None)) is not None:
            os.close(handle)

    def forget_after_fork(self) -> None:
        """Close a forked child's copies of the lock descriptors: the locks belong to the parent and end with it."""
        for path in list(self._locks):
            self.release(path)

    def _acquire(self, path: Path) -> bool:
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | _NO_LINK, 0o600)
        if not os.fstat(handle).st_size:  # just created, or still empty
            leave_to_owner(handle, path.parent)
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                return False
            # A holder deletes the lock file when it ends, so the file we locked may no longer be the one at that path.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(f"{path}.lock")):
                    with contextlib.suppress(OSError):  # a full disk
                        os.ftruncate(handle, 0)
                        os.pwrite(handle, str(os.getpid()).encode(), 0)
                    self._locks[path] = handle
                    return True
        os.close(handle)
        return False
