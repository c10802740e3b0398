"""A process of its own that writes turns as fast as it can, tells of each that was accepted, and dies as it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .turns import turn

# Prints "<who> <number>" when the hook has returned and nothing was refused. Where a signal is to end it, it waits for
# that after its last turn.
PROGRAM = """
import atexit, json, logging, os, resource, signal, sys, time
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider

# A shell that runs the tests in the background has told its children to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
config, home, plan = json.loads(sys.argv[1])
logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
if plan["clock_steps_back_s"]:
    now = [time.time()]
    def earlier():
        now[0] -= plan["clock_steps_back_s"]
        return now[0]
    time.time = earlier
if plan["file_limit_bytes"]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (plan["file_limit_bytes"], resource.RLIM_INFINITY))
provider = PgvectorMemoryProvider(config)
provider.initialize("session-1", hermes_home=home, platform="api_server", gateway_session_key=plan["theme"])

def write(numbers, who="parent"):
    for number in numbers:
        refused = provider.runtime.counts["refused"]
        provider.sync_turn(plan["text"].format(number), "")
        if provider.runtime.counts["refused"] == refused:
            os.write(1, f"{who} {number}\\n".encode())

def fail():
    raise RuntimeError("an exception at exit")

how = plan["death"]
if how == "exception at exit":
    atexit.register(fail)
if how == "fork":
    write(range(50))
    child = os.fork()
    write(range(50, 100)) if child else write(range(100, 150), "child")
else:
    write(range(plan["turns"]))
if how == "_exit":
    os._exit(3)
if how == "exception":
    raise RuntimeError("an exception in the program")
if how == "orders":
    for line in sys.stdin:
        order, *numbers = line.split()
        if order == "flush":
            os.write(1, f"flushed {provider.runtime.writer.flush(60)}\\n".encode())
        else:
            write(range(*map(int, numbers)))
            os.write(1, b"written\\n")
if how in ("fork", "SIGTERM", "SIGINT", "SIGKILL"):
    sys.stdin.read()
"""

PLANNED = ("death", "theme", "turns", "clock_steps_back_s", "file_limit_bytes")
END_TIMEOUT_S = 150.0


@dataclass
class WritingProcess:
    """One such process. `death` is a signal's name, `exit`, `_exit`, `exception`, `exception at exit`, `fork`
    (a child writes the second half as well), or `orders` (it does as `order` says, and exits at the end of them)."""

    config: Mapping[str, Any]
    home: Path
    log_path: Path
    death: str
    theme: str = "marketing"
    turns: int = 100
    clock_steps_back_s: float = 0.0
    file_limit_bytes: int = 0
    accepted: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = {name: getattr(self, name) for name in PLANNED} | {"text": turn(0).replace("0000", "{:04d}")}
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                # A fork beside other threads is what is tested; newer Pythons warn of it.
                [
                    sys.executable,
                    *("-P", "-W", "ignore:This process:DeprecationWarning", "-c", PROGRAM),
                    json.dumps([dict(self.config), str(self.home), plan]),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, "HERMES_HOME": str(self.home)},
            )

    @property
    def log(self) -> str:
        """What it wrote to standard error."""
        return self.log_path.read_text(errors="replace")

    def logged(self, level: str) -> list[str]:
        """Our log lines of a level."""
        return [line for line in self.log.splitlines() if line.startswith(f"{level} ")]

    def read(self, until: str = "") -> str:
        """Note accepted writes up to the line that begins with `until`, or to the end of its output; returns it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            who, _, number = line.strip().partition(" ")
            if until and line.startswith(until):
                return line.strip()
            self.accepted.setdefault(who, []).append(int(number))
        assert not until, self.log
        return ""

    def read_some(self) -> None:
        """Note accepted writes until it is in the middle of writing, after a fork both of it."""
        wanted = {"parent", "child"} if self.death == "fork" else {"parent"}
        assert self._process.stdout is not None
        for line in self._process.stdout:
            who, _, number = line.strip().partition(" ")
            self.accepted.setdefault(who, []).append(int(number))
            if len(self.accepted[who]) > 20 and self.accepted.keys() >= wanted:
                return
        raise AssertionError(self.log)

    def order(self, line: str, until: str) -> str:
        """Have it do something; returns the line of its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.read(until)

    def die(self) -> None:
        """See it to its end, by a signal where that is how it dies, and note everything it accepted until then."""
        assert self._process.stdin is not None
        number = signal.SIGKILL if self.death == "fork" else getattr(signal, self.death, None)
        if number is None:
            self._process.stdin.close()
        else:
            self.read_some()
            os.killpg(self._process.pid, number)
        self.read()
        self._process.wait(END_TIMEOUT_S)
        self.close()

    def close(self) -> None:
        """Kill what is left of it; twice is fine."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(END_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            if not stream.closed:
                stream.close()
