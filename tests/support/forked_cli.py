"""`hermes-pgvector` in processes of its own that come ready: forked from one that has imported what they need.

Most of what a short command costs is to import psycopg and our own modules, of an MCP server to import its SDK, and the
tests run hundreds of them. What is forked has its own environment, folder, streams and end; who tests how a process is
started, stopped or killed starts it as a user does.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

# Has no thread, and no command has run in it: what it forks is as new as a process of the console script. Between it
# and a command stands a process that waits for the command and reports how it ended. Ends with its standard input.
_PREPARED = """
import gc, importlib, marshal, os, select, signal, socket, sys
import psycopg, yaml
from hermes_memory_pgvector import cli

for verbs in cli.command_groups().values():
    for verb in verbs:
        verb.load()
place, *more = sys.argv[1:]
for module in more:
    importlib.import_module(module)
gc.collect()
gc.freeze()  # else each command looked through all of this for garbage, and would have to copy it for that
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
orders = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
orders.bind(place)
orders.listen(64)
os.write(1, b"ready")
while True:
    if 0 in select.select([0, orders], [], [])[0]:
        os._exit(0)
    order, _ = orders.accept()
    line, fds, _, _ = socket.recv_fds(order, 1 << 20, 4)
    if not os.fork():
        break
    order.close()
    for fd in fds:
        os.close(fd)
orders.close()
order.close()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
*streams, ended = fds
command = os.fork()
if command:
    for fd in (0, 1, 2, *streams):
        os.close(fd)
    os.write(ended, f"{command}\\n".encode())
    _, status = os.waitpid(command, 0)
    os.write(ended, f"{os.waitstatus_to_exitcode(status)}\\n".encode())
    os._exit(0)
os.close(ended)
for usual, given in enumerate(streams):
    os.dup2(given, usual)
    os.close(given)
told = marshal.loads(line)
os.chdir(told["folder"])
os.environ.clear()
os.environ.update(told["environment"])
sys.argv = ["hermes-pgvector", *told["arguments"]]
sys.exit(cli.main())
"""

# Stands for the command where it was started: has its streams, hands on signals to it, and ends as it does.
# Imports little, for a third of what a short command costs would be its start: `_socket` is what `socket` is made from.
_STAND_IN = """
import marshal, os, signal, sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

place, *arguments = sys.argv[1:]
told = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
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
    command = int(ended.readline())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(command, number))
    code = int(ended.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def forked(*arguments: str, prepared: Sequence[str] = ()) -> list[str]:
    """The command line for `hermes-pgvector ARGUMENTS`, in a process that has imported these modules as well."""
    return [sys.executable, "-I", "-S", "-c", _STAND_IN, _prepared(*prepared), *arguments]


@cache
def _prepared(*modules: str) -> str:
    """Where a process that lasts as long as this one is told what to fork."""
    place = Path(tempfile.mkdtemp(prefix="forked-", dir="/tmp")) / "orders"  # the address of a socket is short
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PREPARED, str(place), *modules],
        env={name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PG"))},
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
