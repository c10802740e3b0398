"""Reads the host's own memory files, MEMORY.md and USER.md, which change without the host telling us."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import time
import uuid
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..domain.files import (
    how_to_let_read,
    leave_to_owner,
    make_folder,
    make_marker,
    memory_file_paths,
    name_new,
    read_memory_file,
    read_regular_file,
    replace_text,
)
from ..domain.fork_safety import fork_lock
from ..domain.operations import FileOperation, Operation, ReconcileFile
from ..domain.text import entries_in
from ..server.home_record import ORIGIN
from .had_entries import HadEntries

logger = logging.getLogger(__name__)

_CLOCK_STEP_S = 60.0  # a clock that is behind by more than this was set back
_COARSE_S = 2.0  # some file systems keep the time of a file no finer
_LAST_ORIGIN = Path("pgvector", "last_origin")  # in the home: its last origin, and its marker's number on the disk
_Signature = tuple[int, ...] | None


class FileState(NamedTuple):
    """The entries of one file, and when it was written (seconds since the epoch, 0 if it is missing).

    `damaged`: it contains bytes that are not text, so an entry missing from it may still be wanted. `read_at`: the time
    by the home's own clock (`Mirror.now`) just before the file was read, where that matters. `former`: which other
    origin had the files before, and up to when; else "" and 0. `copied_from`: the origin of the home that this one is
    a copy of, until Postgres has stored a reading of it; else "".
    """

    target: str
    contents: tuple[str, ...]
    written_at: float
    damaged: bool = False
    read_at: float = 0.0
    former: tuple[str, float] = ("", 0.0)
    copied_from: str = ""


class Mirror:
    """The memory files of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.had = HadEntries(home)
        self._seen: dict[str, _Signature] = {}
        self._unreadable: dict[str, str] = {}
        self._there: set[str] = set()
        self._clock = 0
        self._wall = 0
        self._clock_lock = fork_lock()
        self._stored_up_to = 0.0  # the latest time by this home's clock of a write that Postgres has stored

    @cached_property
    def origin(self) -> str:
        """Return the identifier of this home on this host. A fresh home gets another one, so it removes nothing.

        It is noted at once, for a copy of the home that is made before Postgres has stored anything from it.
        """
        where = hashlib.sha256(f"{socket.gethostname()}\0{self._home.resolve()}".encode(errors="replace")).hexdigest()[
            :12
        ]
        marker = self._home / ORIGIN
        try:
            if not marker.exists():
                _make_whole(marker, uuid.uuid4().hex)
            origin = f"{read_regular_file(marker).decode(errors='replace')[:32]}:{where}"
        except OSError:
            return f":{where}"
        if not (self._home / _LAST_ORIGIN).exists():
            self._note_origin(origin)
        return origin

    def _former(self, origin: str) -> tuple[str, float]:
        """Return the origin that this home had last, as its host or path has another name now, and up to when.

        "" and 0 if `origin` is empty. A container gets another host name whenever it is made anew; two that share a
        home take turns. A copy of the home has a marker of its own on the disk, and shares nothing with the original.
        That of a whole disk cannot be told from it: what the original has noted since, it keeps.
        """
        with contextlib.suppress(OSError):
            if origin:
                return origin, (self._home / "pgvector" / "clock").stat().st_mtime + _COARSE_S
        return "", 0.0

    def _last_origin(self) -> tuple[str, bool]:
        """Return the origin under which these files were last read, if that is another one, and whether it was here.

        Else "" and False.
        """
        with contextlib.suppress(OSError, ValueError):
            origin, marker = read_regular_file(self._home / _LAST_ORIGIN).decode("ascii").split()
            if origin != self.origin and origin.isprintable():  # half a file after a crash may hold anything
                same = origin.partition(":")[0] == self.origin.partition(":")[0]  # a new marker may get an old number
                return origin, same and int(marker) == (self._home / ORIGIN).stat().st_ino
        return "", False

    def _note_origin(self, origin: str) -> None:
        with contextlib.suppress(OSError):
            text, path = f"{origin} {(self._home / ORIGIN).stat().st_ino}\n", self._home / _LAST_ORIGIN
            if not path.exists() or read_regular_file(path) != text.encode():
                replace_text(path, text)

    def now(self) -> float:
        """Return a time (seconds since the epoch) later than any that this home got before, even if the clock stepped.

        It orders the reads and writes of the files. It is stored as a file's modification time, and what the machine's
        clock was then as its access time: a step back is told once, however far ahead the clock had been.
        """
        with self._clock_lock:
            wall, before = time.time_ns(), self._wall
            marker = self._home / "pgvector" / "clock"
            with contextlib.suppress(OSError):
                kept = marker.stat()
                self._clock, before = max(self._clock, kept.st_mtime_ns), max(before, kept.st_atime_ns)
            _note_step((before - wall) / 1e9)
            self._wall, self._clock = wall, max(wall, self._clock + 1000)
            try:
                os.utime(marker, ns=(wall, self._clock))
            except OSError:
                with contextlib.suppress(OSError):
                    make_marker(marker)
                    os.utime(marker, ns=(wall, self._clock))
            return self._clock / 1e9

    def changed(self) -> list[FileState]:
        """Return the files that changed since the last call; on the first call, return all of them.

        A missing file is included if it existed before.
        """
        states: list[FileState] = []
        last, is_this_home = self._last_origin()
        former = self._former(last if is_this_home else "")  # by the clock as that one left it
        copied_from = "" if is_this_home else last
        for target, path in memory_file_paths(self._home).items():
            try:
                state = self._change_of(target, path)
            except OSError as exc:
                self._warn_unreadable(target, path, exc)
                continue
            self._unreadable.pop(target, None)
            if state is not None:
                states.append(state._replace(former=former, copied_from=copied_from))
        return states

    def _change_of(self, target: str, path: Path) -> FileState | None:
        """Return the state of a file, None if it is as it was at the last call. Raises OSError."""
        signature, state = _signature(path), None
        if target in self._seen and self._seen[target] == signature:
            return None
        if signature is not None:
            self._note_there(target)
        if signature is not None or self._was_there(target):
            # The time is taken before the file is read: later writes are not part of this reading.
            state = _read(target, path, signature, read_at=self.now())
        self._seen[target] = signature
        return state

    def _warn_unreadable(self, target: str, path: Path, exc: OSError) -> None:
        """Log why a file cannot be read, once for each reason."""
        why = exc.strerror or str(exc)
        if self._unreadable.get(target) != why:
            self._unreadable[target] = why
            logger.warning(
                "hermes-pgvector: %s cannot be read and is not mirrored: %s; %s", path, why, how_to_let_read(exc)
            )

    def read_again(self) -> None:
        """Make the next call of `changed` return all files: the server may lack what was stored from them."""
        self._seen = {}

    def note_stored(self, ops: Iterable[Operation]) -> None:
        """Note what Postgres has stored. After a write that a newer one of this home overtook, read all files again.

        It waited in another process's file, or was rejected and put back, and may have brought back what is gone.
        """
        for op in ops:
            if isinstance(op, FileOperation) and op.origin == self.origin:
                if op.noted_at < self._stored_up_to:
                    self.read_again()
                if isinstance(op, ReconcileFile):
                    self._note_origin(self.origin)
                self._stored_up_to = max(self._stored_up_to, op.noted_at)

    def note_written(self, target: str, texts: Iterable[str]) -> None:
        """Note what the host has added to a file, and that there is one, since it may be gone before it is read."""
        is_there = memory_file_paths(self._home)[target].exists()
        if is_there or self._was_there(target):
            self.had.note_written(target, texts)
        if is_there:
            self._note_there(target)

    def _note_there(self, target: str) -> None:
        if target not in self._there:
            self._there.add(target)
            with contextlib.suppress(OSError):
                self.had.begin(target)

    def _was_there(self, target: str) -> bool:
        return target in self._there or self.had.has_begun(target)

    def entries(self) -> set[tuple[str, str]]:
        """Return target and text of every entry in the files now; a file that cannot be read has none."""
        states, _ = read_in(self._home)
        return {(state.target, content) for state in states for content in state.contents}


def _note_step(behind_s: float) -> None:
    if behind_s > _CLOCK_STEP_S:
        logger.warning(
            "hermes-pgvector: this machine's clock was set back by %.0f s: it was wrong until then, or is now. Writes "
            "keep their order, but what is stored while it is wrong gets wrong dates: let NTP set it",
            behind_s,
        )


def read_in(home: Path) -> tuple[list[FileState], dict[Path, str]]:
    """Return the files of a home as they are, noting nothing there, and why those that cannot be read cannot."""
    states, unreadable = [], {}
    for target, path in memory_file_paths(home).items():
        try:
            if (signature := _signature(path)) is not None:
                states.append(_read(target, path, signature))
        except OSError as exc:
            unreadable[path] = f"{path} cannot be read: {exc.strerror or exc}; {how_to_let_read(exc)}"
    return states, unreadable


def _make_whole(path: Path, text: str) -> None:
    """Create a file with its content atomically, unless it exists by now: two processes may do so at once."""
    make_folder(path.parent)
    fresh = path.with_name(f".{uuid.uuid4().hex}-{path.name}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            leave_to_owner(file.fileno(), path.parent)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            name_new(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _signature(path: Path) -> _Signature:
    """Return attributes that change whenever a file does: time and size may be the same in a copy put in its place."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ctime_ns, found.st_ino


def _read(target: str, path: Path, signature: _Signature, *, read_at: float = 0.0) -> FileState:
    if signature is None:
        return FileState(target, (), 0.0, read_at=read_at)
    data = read_memory_file(path)
    damaged = b"\0" in data
    try:
        text = data.decode("utf-8-sig")  # some editors put a byte order mark first, and take it away again
    except UnicodeDecodeError:
        text, damaged = data.decode("utf-8-sig", errors="replace"), True
    return FileState(target, entries_in(text), signature[0] / 1e9, damaged, read_at)
