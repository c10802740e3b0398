"""Whose spool file is whose: each process of a home has its own, and takes over those of processes that are gone.

A file is held by a lock for the life of its process. What a dead process left is adopted by the next one that looks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
import uuid
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..domain.errors import SpoolBusy, SpoolError
from .destination import Destination
from .spool import Spool
from .spool_format import as_spool_error
from .spool_locations import is_private, make_private

try:
    import fcntl
except ImportError:  # Windows: files of dead processes are adopted by hand there
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)


def is_held(path: Path) -> bool:
    """Whether the living process that made the spool `path` holds it, not one that has adopted it."""
    if fcntl is None:
        return True
    try:
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(handle, 20, 0).decode(errors="replace") in ("", path.name.split("-")[0])
    finally:
        os.close(handle)
    return False


@dataclass(frozen=True)
class _Resting:
    """A file of which nothing waits: when it was last written, and how many operations were set aside in it."""

    written_at: float
    aside: int


ADOPTED_AT_ONCE = 8  # each takes some open files of the host's


class SpoolDirectory:
    """The spool files of all processes of one HERMES_HOME, in `folder`, and in `spill` what that could not take."""

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
        self._waiting: set[Path] = set()  # those of which it was told that they cannot be used now
        self._told_elsewhere = False
        self._told_held: set[str] = set()  # places for which it was told that writes wait
        self._resting: dict[Path, _Resting] = {}  # those that hold nothing but what was set aside

    def open_own(self, *, taken_bytes: int = 0, spare: Container[Path] = ()) -> Spool:
        """A file of this process's, created and locked, in the first place that takes one and is not to be spared.

        What it may hold is less by `taken_bytes`. Raises SpoolError, and then leaves none behind.
        """
        problem: SpoolError | None = None
        for folder in (self.folder, *self._spill):
            if folder not in spare:
                try:
                    spool = self._open_in(folder, taken_bytes)
                except SpoolError as exc:
                    problem = problem or exc
                    continue
                if problem is not None and not self._told_elsewhere:
                    logger.warning("hermes-pgvector: writes are kept in %s for now: %s", folder, problem)
                self._told_elsewhere = folder != self.folder
                return spool
        raise problem or SpoolError(f"{self.folder} takes no writes for now")

    def is_preferred(self, spool: Spool) -> bool:
        """Whether it lies where it should."""
        return spool.path.parent == self.folder

    def _open_in(self, folder: Path, taken_bytes: int) -> Spool:
        # The name says when it was made, for those who come after us have to read the older one first.
        # A clock that stepped back must not make it older than those that are there.
        number = max([time.time_ns(), *(1 + _made_at_ns(path) for path in folder.glob("*.db"))])
        path = folder / f"{os.getpid()}-{number:016x}-{uuid.uuid4().hex[:8]}.db"
        with as_spool_error(folder):
            if folder == self.folder:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            else:
                make_private(folder)
            if not self._acquire(path):
                raise SpoolError(f"cannot lock {path}")
        try:
            with as_spool_error(path):  # SQLite would let the umask decide; the files beside it have its mode
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            spool = Spool(path, max_bytes=max(0, self._max_bytes - taken_bytes), sync=self._sync)
            spool.label(self.destination.place, self.destination.database)
            return spool
        except SpoolError:
            with contextlib.suppress(OSError):
                _delete(path)
            self.release(path)
            self._tidy(folder)
            raise

    def adopt(self, at_most: int = 1 << 30) -> Iterator[Spool]:
        """The files of processes that are gone, oldest first, each locked to us now; what cannot be read is kept and
        reported."""
        if at_most <= 0:
            return
        for path in self._paths():
            if path in self._locks or path in self._unreadable or self._rests(path):
                continue
            spool: Spool | None = None
            try:
                spool = self._take_over(path)
                held = spool is None or self._holds_back(spool)
            except SpoolError as exc:
                if spool is not None:
                    spool.close()
                self._leave_alone(path, exc)
                continue
            if spool is not None and not held:
                yield spool
                at_most -= 1
                if not at_most:
                    return

    def _holds_back(self, spool: Spool) -> bool:
        """Let go of a file whose writes were accepted for another database, until somebody has changed it."""
        place, database = spool.accepted_for()
        if not spool.depth() or self.destination.takes(place, database):
            return False
        waiting = spool.depth()
        self.rest(spool, even_so=True)
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
        folders = [self.folder, *(folder for folder in self._spill if is_private(folder))]
        with as_spool_error(self.folder):
            found = [path for folder in folders for path in folder.glob("*.db")]
            return sorted(found, key=lambda path: (_made_at_ns(path), _written_at(path)))

    def aside_count(self) -> int:
        """How many operations were set aside in files that hold nothing else."""
        return sum(each.aside for each in self._resting.values())

    def _rests(self, path: Path) -> bool:
        if path in self._resting and self._resting[path].written_at == _written_at(path):
            return True
        self._resting.pop(path, None)
        return False

    def rest(self, spool: Spool, *, even_so: bool = False) -> None:
        """Let go of an adopted file of which nothing waits, or `even_so`; whoever changes it has it adopted anew."""
        aside = spool.aside_count()
        self.discard(spool)
        if (aside or even_so) and spool.path.exists():
            self._resting[spool.path] = _Resting(_written_at(spool.path), aside)

    def _take_over(self, path: Path) -> Spool | None:
        """The spool of a process that is gone; None while there is somebody, or when there is nothing any more."""
        with as_spool_error(path):
            if not self._acquire(path):
                return None
            if not path.exists():  # its holder finished and deleted it while we looked
                Path(f"{path}.lock").unlink(missing_ok=True)
                self.release(path)
                return None
        return Spool(path, max_bytes=self._max_bytes, sync=self._sync)

    def give_up(self, spool: Spool, exc: SpoolError) -> None:
        """Leave a file that cannot be read any further as it is."""
        spool.close()
        self._leave_alone(spool.path, exc)

    def _leave_alone(self, path: Path, exc: SpoolError) -> None:
        self.release(path)
        if not isinstance(exc, SpoolBusy) and not isinstance(exc.__cause__, (OSError, sqlite3.OperationalError)):
            self._unreadable.add(path)
            logger.error("hermes-pgvector: writes of an earlier process were kept but cannot be read: %s", exc)
        elif path not in self._waiting:
            self._waiting.add(path)
            logger.warning("hermes-pgvector: writes of an earlier process wait, and are tried again: %s", exc)

    def dispose(self, spool: Spool, *, delete: bool) -> None:
        """Close a file whose content is elsewhere by now."""
        spool.close()
        if delete:
            with contextlib.suppress(OSError):
                _delete(spool.path)
        self.release(spool.path)
        self._tidy(spool.path.parent)

    def _tidy(self, folder: Path) -> None:
        if folder != self.folder:
            with contextlib.suppress(OSError):  # something is left in it
                folder.rmdir()

    def discard(self, spool: Spool) -> None:
        """Close an empty spool and delete its files; one that is not empty is only closed and let go."""
        empty = False
        with contextlib.suppress(SpoolError):
            empty = spool.empty()
        spool.close()
        if empty:
            _delete(spool.path, lock=False)
        self.release(spool.path)
        if empty:
            Path(f"{spool.path}.lock").unlink(missing_ok=True)
            self._tidy(spool.path.parent)

    def release(self, path: Path) -> None:
        """Let another process have `path`."""
        handle = self._locks.pop(path, None)
        if handle is not None:
            os.close(handle)

    def forget_after_fork(self) -> None:
        """Close a child's copies of the locks: they stay the parent's, and end with it."""
        for path in list(self._locks):
            self.release(path)

    def _acquire(self, path: Path) -> bool:
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                return False
            # The holder deletes the lock file when it goes: what we locked may no longer be the file of that name.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(f"{path}.lock")):
                    with contextlib.suppress(OSError):  # a full disk
                        os.ftruncate(handle, 0)
                        os.pwrite(handle, str(os.getpid()).encode(), 0)
                    self._locks[path] = handle
                    return True
        os.close(handle)
        return False


def _delete(path: Path, *, lock: bool = True) -> None:
    for suffix in ("", "-wal", "-shm", *([".lock"] if lock else [])):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _made_at_ns(path: Path) -> int:
    """When the file was made, by its name; 0 where that does not say."""
    parts = path.name.split("-")
    try:
        return int(parts[1], 16) if len(parts) == 3 else 0
    except ValueError:
        return 0


def _written_at(path: Path) -> float:
    """When the file or its log was last written; 0 when it is gone."""
    times = [0.0]
    for each in (path, Path(f"{path}-wal")):
        with contextlib.suppress(FileNotFoundError):
            times.append(each.stat().st_mtime)
    return max(times)
