"""A process of its own with one provider, whose hooks a test calls, and which it may kill."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .forked import Forked, prepared

# A fork beside other threads is what is tested here; newer Pythons warn of it.
PREPARATION = """
import json, logging, os, resource, sys, warnings
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider

warnings.filterwarnings("ignore", "This process", DeprecationWarning)
"""
# What a provider imports when it is used.
MORE = """
import pgvector.psycopg, psycopg, psycopg_pool
from hermes_memory_pgvector.recall import prefetch
from hermes_memory_pgvector.runtime import parts, process
"""
# Reads [hook, arguments] a line and prints what the hook returned. At "fork", the rest of the line is what a child does
# ("must_recall" among it) and how it leaves: "exit" as the main program does, "_exit" as a worker of multiprocessing.
# At "orphan" the child stays until it is killed or its standard input is closed.
PROGRAM = """
logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
config, given = json.loads(arguments[0])
if arguments[1:]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
provider = PgvectorMemoryProvider(config)
provider.initialize(given.pop("session_id", "session-1"), **given)
print("ready", flush=True)

def in_child(calls, leave):
    for name, values in calls:
        if name == "must_recall":
            assert values[0] in provider.prefetch(*values)
        else:
            getattr(provider, name)(*values)
    if leave == "_exit":
        os._exit(0)
    raise SystemExit(0)

for line in sys.stdin:
    name, values = json.loads(line)
    if name == "orphan":
        pid = os.fork()
        if pid == 0:
            os.read(0, 1)
            os._exit(0)
        answer = pid
    elif name == "fork":
        pid = os.fork()
        if pid == 0:
            in_child(*values)
        answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    else:
        answer = getattr(provider, name)(*values)
    print(json.dumps(answer), flush=True)
"""

EXIT_TIMEOUT_S = 150.0


class AgentProcess:
    """Leaving the `with` block kills the process; `log` is what it wrote to standard error.

    With `full_disk` no file takes a byte of it from its beginning on. Unless it is `forked` from one that has imported
    what it needs, it starts and ends as a program of a user's.
    """

    def __init__(
        self, config: Mapping[str, Any], home: Path, *, full_disk: bool = False, forked: bool = True, **arguments: Any
    ) -> None:
        given = {"hermes_home": str(home), "platform": "api_server", "gateway_session_key": "marketing"} | arguments
        self._log_path = home.parent / f"agent-{len(list(home.parent.glob('agent-*.log')))}.log"
        words = [json.dumps([dict(config), given]), *(["full disk"] if full_disk else [])]
        environment = {**os.environ, "HERMES_HOME": str(home)}
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with self._log_path.open("wb") as log:
            # A log file would take nothing of it either.
            streams["stderr"] = subprocess.DEVNULL if full_disk else log
            if forked:
                place, more = prepared(PREPARATION + MORE, PROGRAM), {"folder": Path.cwd(), "leads_session": True}
                self._process = Forked(place, *words, environment=environment, **more, **streams)
            else:
                code = f"import sys\narguments = sys.argv[1:]\n{PREPARATION}{PROGRAM}"
                command = [sys.executable, "-P", "-c", code, *words]
                self._process = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
        assert self._answer() == "ready", self.log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.log)
        self.kill()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    def call(self, hook: str, *arguments: Any) -> Any:
        """What the hook returned there."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([hook, arguments]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._answer())

    def fill_disk(self, full: bool) -> None:
        """No file takes another byte of it, or all do again."""
        self.limit_files(0 if full else resource.RLIM_INFINITY)

    def limit_files(self, size_bytes: int) -> None:
        """No file of it grows beyond that."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

    def fork(self, *calls: tuple[str, list[Any]], leave: str) -> int:
        """Has a forked child call hooks; returns its exit code."""
        return int(self.call("fork", calls, leave))

    @contextmanager
    def surviving_child(self) -> Iterator[None]:
        """A forked child that does nothing, and from here on lives alone: its parent is killed."""
        self.call("orphan")
        self._process.kill()
        self._process.wait(EXIT_TIMEOUT_S)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGKILL)

    def exit(self) -> int:
        """Let the program end by itself; returns its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(EXIT_TIMEOUT_S)

    def kill(self) -> None:
        """SIGKILL; fine when it is gone already."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):  # has ended by itself since
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(EXIT_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()
