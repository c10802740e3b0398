"""Programs in processes of their own that come ready: forked from one that has imported what they need.

Most of what a short program costs is to import libraries, and the tests run many hundreds of them. What is forked has
its own environment, folder, streams and end, and is stopped or killed as any other; who tests how a process is started
starts it as a user does.
"""

from __future__ import annotations

import atexit
import marshal
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

# Has no thread, and no program has run in it. It is told over a socket what to fork and with which streams, and tells
# the program's number and how it ended. Ends with its standard input.
_SERVER = """
import atexit, gc, importlib, marshal, os, select, signal, socket, sys, time

code = None

@atexit.register  # first, and so called last, when threads have ended
def leave():
    if isinstance(code, int):  # else all that is imported would be freed, which takes longer than most programs
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

place, preparation, program, *modules = sys.argv[1:]
for module in modules:
    importlib.import_module(module)
exec(preparation)
gc.collect()
gc.freeze()  # else each program looked through all of this for garbage, and would have to copy it for that
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGCHLD, lambda *_: None)
ends, ended = os.pipe()
os.set_blocking(ended, False)
signal.set_wakeup_fd(ended, warn_on_full_buffer=False)
orders = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
orders.bind(place)
orders.listen(64)
os.write(1, b"ready")
waiting = {}  # who waits for which program

def tell(who, number):
    try:
        os.write(who, f"{number}\\n".encode())
    except BrokenPipeError:
        pass  # is gone

while True:
    ready = select.select([0, orders, ends], [], [])[0]
    if 0 in ready:
        os._exit(0)
    if ends in ready:
        os.read(ends, 4096)
        for forked in [*waiting]:
            number, status = os.waitpid(forked, os.WNOHANG)
            if number:
                tell(waiting[forked], status)
                os.close(waiting.pop(forked))
    if orders in ready:
        order, _ = orders.accept()
        line, fds, _, _ = socket.recv_fds(order, 1 << 20, 4)
        order.close()
        if not fds:
            continue  # who began to ask is gone
        forked = os.fork()
        if not forked:
            break
        tell(fds[3], forked)
        waiting[forked] = fds.pop()
        for fd in fds:
            os.close(fd)
signal.set_wakeup_fd(-1)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
orders.close()
for fd in (ends, ended, fds.pop(), *waiting.values()):
    os.close(fd)
for usual, given in enumerate(fds):
    os.dup2(given, usual)
    os.close(given)
told = marshal.loads(line)
os.chdir(told["folder"])
os.environ.clear()
os.environ.update(told["environment"])
time.tzset()
arguments = told["arguments"]
if told["leads_session"]:
    os.setsid()
exec(told["first"], {})
try:
    exec(program)
    code = 0
except SystemExit as end:
    code = 0 if end.code is None else end.code
sys.exit(code)
"""

# Stands for the program where it was started: has its streams, hands on signals to it, and ends as it does.
# Imports little, for a third of what a short program costs would be its start: `_socket` is what `socket` is made from.
_STAND_IN = """
import marshal, os, signal, sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

place, *arguments = sys.argv[1:]
told = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
told |= {"first": "", "leads_session": False}
reading, writing = os.pipe()
order = socket(AF_UNIX, SOCK_SEQPACKET)
order.connect(place)
fds = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2, writing))
order.sendmsg([marshal.dumps(told)], [(SOL_SOCKET, SCM_RIGHTS, fds)])
order.close()
os.close(writing)
nothing = os.open(os.devnull, os.O_RDWR)
for usual in range(3):
    os.dup2(nothing, usual)  # else nobody saw that the other end is closed
with open(reading) as ended:
    forked = int(ended.readline())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(forked, number))
    code = os.waitstatus_to_exitcode(int(ended.readline()))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


class Forked(subprocess.Popen[Any]):
    """A program of such a place (`prepared`): has its number, its streams and its end.

    `first` is what that process executes before; if `leads_session`, it leads a session of its own.
    """

    def __init__(
        self,
        place: str,
        *arguments: str,
        environment: Mapping[str, str],
        folder: Path,
        first: str = "",
        leads_session: bool = False,
        **streams: Any,
    ) -> None:
        self._place = place
        self._more = {"first": first, "leads_session": leads_session}
        super().__init__(arguments, cwd=folder, env=environment, **streams)

    def _execute_child(self, args: Sequence[str], *more: Any) -> None:
        folder, environment, pipes = more[4], more[5], more[9:15]
        told = {"arguments": list(args), "folder": str(folder), "environment": dict(environment), **self._more}
        streams = [given if given >= 0 else usual for usual, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        reading, writing = os.pipe()
        self._told = open(reading, "rb", buffering=0)  # noqa: SIM115
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as order:
            order.connect(self._place)
            socket.send_fds(order, [marshal.dumps(told)], [*streams, writing])
        os.close(writing)
        self._close_pipe_fds(*pipes)
        self.pid = self._number()
        self._child_created = True

    def _number(self) -> int:
        line = self._told.readline()
        assert line, "the process that forks programs has ended"
        return int(line)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._told], [], [], 0)[0]:
            return 0, 0
        with self._told:
            return self.pid, self._number()

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                number, status = self._try_wait(os.WNOHANG) if self.returncode is None else (0, 0)
                if number:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def run_to_its_end(
    place: str, *arguments: str, name: str, timeout_s: float, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program of this place to its end, and return what it said; `more` is as for `Forked`.

    `name` stands before the arguments where a failure is described. Raises subprocess.TimeoutExpired.
    """
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Forked(place, *arguments, **streams, **more, text=True) as program:
        try:
            out, err = program.communicate(timeout=timeout_s)
        except BaseException:
            program.kill()
            raise
    return subprocess.CompletedProcess([name, *arguments], program.returncode, out, err)


def standing_for(place: str, *arguments: str) -> list[str]:
    """Return the command line of a process that stands for a program of this place."""
    return [sys.executable, "-I", "-S", "-c", _STAND_IN, place, *arguments]


# As it is before a test changes it; the first two would be read once, by what forks.
_ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("TZ", "PYTHONUNBUFFERED") and not name.startswith(("HERMES_", "PG"))
}


@cache
def prepared(preparation: str, program: str, *modules: str) -> str:
    """Return where a process that lasts as long as this one is told what to fork.

    It has imported `modules` and run `preparation`; what it forks runs `program`, which finds its words in `arguments`.
    """
    place = Path(tempfile.mkdtemp(prefix="forked-", dir="/tmp")) / "orders"  # the address of a socket is short
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVER, str(place), preparation, program, *modules],
        env=_ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def end() -> None:
        process.communicate()
        place.unlink()
        place.parent.rmdir()

    atexit.register(end)
    assert process.stdout is not None and process.stdout.read(5) == b"ready"
    return str(place)
