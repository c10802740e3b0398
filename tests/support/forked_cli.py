"""`hermes-pgvector` in processes of its own that come ready: forked from one that has imported what commands need.

Most of what a short command costs is to import psycopg and our own modules, and the tests run hundreds of them.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from select import select

# Has no thread, and no command has run in it: what it forks is as new as a process of the console script. Between it
# and a command stands a process that waits for the command and reports how it ended.
_PROGRAM = """
import json, os, signal, socket, sys
import psycopg, yaml
from hermes_memory_pgvector import cli

for verbs in cli.command_groups().values():
    for verb in verbs:
        verb.load()
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
orders = socket.socket(fileno=int(sys.argv[1]))
while True:
    line, fds, _, _ = socket.recv_fds(orders, 1 << 20, 3)
    if not line:
        os._exit(0)
    if not os.fork():
        break
    for fd in fds:
        os.close(fd)
orders.close()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
out, err, ended = fds
command = os.fork()
if command:
    os.close(out)
    os.close(err)
    os.write(ended, f"{command}\\n".encode())
    _, status = os.waitpid(command, 0)
    os.write(ended, f"{os.waitstatus_to_exitcode(status)}\\n".encode())
    os._exit(0)
order = json.loads(line)
os.close(ended)
for given, usual in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
    os.dup2(given, usual)
    os.close(given)
os.chdir(order["folder"])
os.environ.clear()
os.environ.update(order["environment"])
sys.argv = ["hermes-pgvector", *order["arguments"]]
sys.exit(cli.main())
"""


class ForkedCli:
    """Runs commands, several at once if asked."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders

    def run(
        self, *arguments: str, folder: Path, environment: Mapping[str, str], timeout_s: float = 150.0
    ) -> subprocess.CompletedProcess[str]:
        """Run `hermes-pgvector ARGUMENTS` to its end, with nothing on its standard input.

        Raises: subprocess.TimeoutExpired, when it was killed for taking too long.
        """
        order = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
        ours, theirs = zip(*(os.pipe() for _ in range(3)), strict=True)
        socket.send_fds(self._orders, [json.dumps(order).encode()], theirs)
        for fd in theirs:
            os.close(fd)
        with open(ours[0], encoding="utf-8") as out, open(ours[1], encoding="utf-8") as err, open(ours[2]) as ended:
            pid = int(ended.readline())
            with ThreadPoolExecutor(2) as readers:
                said, complained = readers.submit(out.read), readers.submit(err.read)
                in_time = bool(select([ended], [], [], timeout_s)[0])
                if not in_time:
                    os.kill(pid, signal.SIGKILL)
                code = int(ended.readline())
        done = subprocess.CompletedProcess(arguments, code, said.result(), complained.result())
        if not in_time:
            raise subprocess.TimeoutExpired(arguments, timeout_s, done.stdout, done.stderr)
        return done


@contextmanager
def forked_cli() -> Iterator[ForkedCli]:
    """Commands for as long as the block lasts."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PG"))}
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())],
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        theirs.close()
        yield ForkedCli(ours)
    process.wait(60)
