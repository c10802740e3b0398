"""The server's processes: whether one is alive and which, the files it left behind, and the end of its log."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..domain.errors import EmbeddedServerError
from ..domain.patterns import late_pattern
from .layout import SOCKET_NAME, Account, Layout
from .locks import open_lock, process_exists, try_exclusive
from .run_as import must_run
from .waiting import ProgressTimeout

LOG_MAX_BYTES = 10_000_000
TAIL_CHARS = 1500
_RESTING_TICKS = 10  # of CPU time, a tenth of a second: an idle Postgres needs longer than we wait to use that

# Errors of single statements can quote what a user wrote; only messages about the server itself go into our errors.
_OF_STATEMENTS = late_pattern(r"^\t| (ERROR|STATEMENT|DETAIL|CONTEXT|QUERY): ")


@dataclass(frozen=True)
class _Process:
    """A live process; `directory` is its working directory (for Postgres, its data directory), empty if unknown."""

    command: str
    program: str
    directory: str

    @property
    def is_postgres(self) -> bool:
        return os.path.basename(self.program) in ("postgres", "postmaster")


def claim(layout: Layout) -> int | None:
    """Return a descriptor that holds the server's lock, or None while any process of a server lives.

    Every process of the server inherits it from the first, so no stale, reused or foreign process id can mislead.
    Only for the holder of `layout.lock`; the caller closes it.
    """
    fd = open_lock(layout.server_lock)
    if try_exclusive(fd):
        return fd
    os.close(fd)
    return None


def is_gone(layout: Layout) -> bool:
    """Return True when no process of a server lives. Only for the holder of `layout.lock`."""
    fd = claim(layout)
    if fd is None:
        return False
    os.close(fd)
    return postmaster(layout) is None


def postmaster(layout: Layout) -> int | None:
    """Return the process id of the live server on this data directory, or None.

    Also None when the recorded id is that of a zombie or of another program, or belongs to another container.
    """
    pid = _pid_in(layout.data / "postmaster.pid")
    process = _process(pid) if pid is not None else None
    if process is None or not process.is_postgres:
        return None
    return pid if process.directory == str(layout.data) or str(layout.data) in process.command else None


def instance(layout: Layout) -> str:
    """Return an identifier that tells the running server from those before and after it; empty if none runs."""
    return "\n".join(_read(layout.data / "postmaster.pid", from_end_bytes=4096).split("\n")[:3])


def kept_instance(layout: Layout) -> str:
    """Return the `instance` that is to be kept up after its last user leaves; empty if there is none."""
    return _read(layout.kept, from_end_bytes=4096)


def progress_timeout(layout: Layout, still_s: float) -> ProgressTimeout:
    """Return a timeout for a server's start or stop: over when it and its initdb did nothing for `still_s` seconds.

    Signs of progress are the log, the status in the pid file, the files of a cluster being created, and CPU time.
    """
    return ProgressTimeout(lambda: _signs(layout), still_s)


def _signs(layout: Layout) -> tuple[object, ...]:
    status = _read(layout.data / "postmaster.pid", from_end_bytes=4096)
    pid = _pid_in(layout.data / "postmaster.pid")
    made = [path.stat().st_size for path in _unfinished_files(layout)]
    return status, _size(layout.log), len(made), sum(made), 0 if pid is None else _cpu_time(pid)


def _unfinished_files(layout: Layout) -> Iterator[Path]:
    with suppress(OSError):  # they come and go meanwhile
        for folder in layout.root.glob("data.init-*"):
            yield from (path for path in folder.rglob("*") if path.is_file())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _cpu_time(pid: int) -> int:
    """Return the CPU time of a process and its children, in steps too large for an idle one; 0 if unknown."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    ticks = 0
    for each in (str(pid), *children):
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{each}/stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # its own and that of the children it has waited for
    return ticks // _RESTING_TICKS


def clear_pid_files(layout: Layout, account: Account) -> None:
    """Remove the pid files that would make a start fail, left by a server that did not end by itself.

    Postgres checks and replaces a file that names no process, so that case is left to it. It refuses when the file is
    empty (power cut) or the id is taken: by a zombie that nobody reaps, or by another program after a restart.
    Only for the holder of the `claim` that has found no `postmaster`. Raises: EmbeddedServerError when the process may
    be a server on this data that someone started by hand.
    """
    # With the first, Postgres keeps a second server away from the data; with the other, from the socket.
    for path in (layout.data / "postmaster.pid", layout.sockets / f"{SOCKET_NAME}.lock"):
        pid = _pid_in(path)
        process = _process(pid) if pid is not None else None
        if process is not None and process.is_postgres and not process.directory:
            raise EmbeddedServerError(f"process {pid} may be a Postgres server on {layout.data}; stop it")
        if path.exists() and (pid is None or process_exists(pid)):
            must_run(account, ["rm", "-f", path])


def rotate_log(layout: Layout, account: Account) -> None:
    """Rotate the log when it has grown past LOG_MAX_BYTES; one older log is kept."""
    if layout.log.exists() and layout.log.stat().st_size > LOG_MAX_BYTES:
        must_run(account, ["mv", "-f", layout.log, layout.log.with_name("server.log.1")])


def log_tail(layout: Layout) -> str:
    """Return the path of the log and its last whole lines, without those about statements; empty if there are none."""
    lines = _read(layout.log, from_end_bytes=4 * TAIL_CHARS).splitlines()
    tail = "\n".join(line for line in lines if not _OF_STATEMENTS.search(line))
    if len(tail) > TAIL_CHARS:
        tail = tail[-TAIL_CHARS:].partition("\n")[2]
    return f"\n--- {layout.log}\n{tail.strip()}" if tail.strip() else ""


def _read(path: Path, *, from_end_bytes: int) -> str:
    """Return the end of a file; empty if there is none. Follows no link and reads no pipe: its owner may not be us."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as stream:
            stream.seek(max(0, os.fstat(fd).st_size - from_end_bytes))
            return stream.read(from_end_bytes).decode(errors="replace")
    except OSError:
        return ""


def _pid_in(path: Path) -> int | None:
    first_line = _read(path, from_end_bytes=4096).partition("\n")[0].strip()
    # A single-user server records its id negated.
    return abs(int(first_line)) if re.fullmatch(r"-?[0-9]{1,9}", first_line) else None


def _process(pid: int) -> _Process | None:
    """Return a running process, zombies excepted; None if none can be seen."""
    if sys.platform == "linux":
        proc = Path("/proc", str(pid))
        try:
            state = (proc / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            command = os.fsdecode((proc / "cmdline").read_bytes()).split("\0")
        except OSError:
            return None
        directory = ""
        # In a container not even root may see this of another account's process.
        with suppress(OSError):
            directory = os.readlink(proc / "cwd")
        return None if state == "Z" else _Process(" ".join(command), command[0], directory)
    done = subprocess.run(["ps", "-o", "stat=,command=", "-p", str(pid)], capture_output=True, check=False)
    state, _, line = os.fsdecode(done.stdout).strip().partition(" ")
    return None if not state or state.startswith("Z") else _Process(line, line.strip().partition(" ")[0], "")
